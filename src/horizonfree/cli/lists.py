"""What there is: problems, explorers, and what the theorems promise."""

from dataclasses import MISSING
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizonfree.cli._shared import LARGEST, Json, answer, console, number, real, table, tell, whole
from horizonfree.errors import OptionError, UnknownNameError

if TYPE_CHECKING:
    from horizonfree.problems import ProblemSpec


def problems(
    name: Annotated[str | None, typer.Argument(help="Show the parameters of this one.")] = None,
    json: Json = False,
) -> None:
    """List the named problems, or the parameters of one.

    Examples:

        horizonfree problems

        horizonfree problems zoned-grid
    """
    from horizonfree.problems import problems as registered

    if name is not None:
        check_exists("problems", name)
    value = {x: _problem(spec) for x, spec in registered().items() if name in (None, x)}

    def show() -> None:
        if name is None:
            console.print(table("problem", "what it is", rows=[(x, value[x]["description"]) for x in value]))
            tell("\n[dim]Parameters of one:[/] horizonfree problems NAME")
            tell("[dim]Any toy-text environment:[/] gymnasium:FrozenLake-v1 --param horizon=60")
            return
        spec = value[name]
        tell("[bold]{name}[/]: {about}", name=name, about=spec["description"])
        tell("[dim]Source: {source}[/]\n", source=spec["source"])
        rows = [(x, p["default"], _reach(p), p["meaning"]) for x, p in spec["parameters"].items()]
        console.print(table("parameter", "default", "range", "meaning", rows=rows))
        first = next(iter(spec["parameters"].items()), None)
        param = f" --param {first[0]}={first[1]['default']}" if first else ""
        tell("\nhorizonfree explore {name}{param} --episodes 300", name=name, param=param)

    answer(value if name is None else value[name], json, show)


def explorers(
    name: Annotated[str | None, typer.Argument(help="Show the options of this one.")] = None,
    json: Json = False,
) -> None:
    """List the explorers, or the options of one.

    Examples:

        horizonfree explorers

        horizonfree explorers hf-ucrl-rfe++
    """
    from horizonfree.explorers.registry import explorers as registered
    from horizonfree.explorers.registry import typed_name

    if name is not None:
        name = typed_name(name)
        check_exists("explorers", name)
    value = {x: spec | {"options": _options(spec)} for x, spec in registered().items() if name in (None, x)}

    def show() -> None:
        if name is None:
            console.print(table("explorer", "what it is", rows=[(x, value[x]["about"]) for x in value]))
            tell("\n[dim]Options of one:[/] horizonfree explorers NAME")
            return
        spec = value[name]
        tell("[bold]{name}[/]: {about}\n", name=name, about=spec["about"])
        rows = [(x, str(y), spec["meanings"][x]) for x, y in spec["options"].items()]
        console.print(table("option", "default", "meaning", rows=rows) if rows else "It has no options.")

    answer(value if name is None else value[name], json, show)


def theory(
    d: Annotated[int, whole("Dimension of the features.", "--d")] = 4,
    H: Annotated[int, whole("Steps in an episode.", "--H")] = 10,
    B: Annotated[float, real("Bound on the norm of the parameter.", "--B")] = 2.0,
    eps: Annotated[float, real("Accuracy wanted.", "--eps")] = 0.1,
    delta: Annotated[float, real("Failure probability.", "--delta")] = 0.1,
    K: Annotated[float | None, real("Episodes; without it, as many as are enough.", "--K")] = None,
    scale: Annotated[
        str, typer.Option(help="Rewards add up to at most 1 (total), or to H (per-step).")
    ] = "total",
    linear: Annotated[
        bool, typer.Option("--linear", help="Instead, what papers on linear MDPs promise, per-step.")
    ] = False,
    as_printed: Annotated[
        bool, typer.Option("--as-printed", help="Beside them, the main theorem letter by letter.")
    ] = False,
    json: Json = False,
) -> None:
    """What the theorems of HF-UCRL-RFE++ promise, in numbers; or those on linear MDPs.

    Examples:

        horizonfree theory --d 4 --H 10 --B 2 --delta 0.1 --K 1000 --eps 0.1

        horizonfree theory --d 2 --B 1.5 --eps 1 --as-printed

        horizonfree theory --linear --d 8 --H 10 --delta 0.05 --eps 0.1
    """
    from horizonfree.theory import as_printed as printed
    from horizonfree.theory import bounds as promises
    from horizonfree.theory import linear as theory_linear

    if linear and as_printed:
        raise OptionError("--as-printed is about HF-UCRL-RFE++; leave out --linear")
    if linear:
        rows = theory_linear.table(eps, delta, d, H, K=K)
    else:
        rows = promises.table(eps, delta, d, H, B, K=K, scale=scale)  # type: ignore[arg-type]  # it checks scale itself
        if as_printed:
            rows += printed.table(eps, delta, d, H, B, K=K, scale=scale)  # type: ignore[arg-type]  # so does it

    def show() -> None:
        console.print(
            table("symbol", "value", "meaning", rows=[(x.name, number(x.value), x.meaning) for x in rows])
        )

    answer({x.name: {"value": x.value, "meaning": x.meaning} for x in rows}, json, show)


def check_exists(kind: str, name: str) -> None:
    """Raise an error for a name that is not one of the "problems" or "explorers"."""
    import horizonfree as hf
    from horizonfree._validation import short_repr, suggestion

    names = hf.problems() if kind == "problems" else hf.explorers()
    if name not in names:
        raise UnknownNameError(f"there is no {kind[:-1]} {short_repr(name)}; {suggestion(name, names)}")


def _problem(spec: "ProblemSpec") -> dict[str, Any]:
    parameters = {
        x.name: {
            "type": x.type.__name__,
            "default": x.default,
            "low": x.low,
            "high": x.high,
            "meaning": x.meaning,
        }
        for x in spec.parameters
    }
    return {"description": spec.description, "source": spec.source, "parameters": parameters}


def _options(spec: dict[str, Any]) -> dict[str, Any]:
    return {name: "required" if default is MISSING else default for name, default in spec["options"].items()}


def _reach(parameter: dict[str, Any]) -> str:
    low, high = parameter["low"], parameter["high"]
    return f"{low:,} and up" if high >= LARGEST else f"{low:,} to {high:,}"
