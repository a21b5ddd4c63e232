"""Lists of problems and explorers, and the numbers of the theorems."""

from dataclasses import MISSING
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horizonfree.cli._shared import (
    MAX_INT,
    JsonOption,
    console,
    float_option,
    format_number,
    int_option,
    leave_out,
    output,
    print_line,
    table,
)

if TYPE_CHECKING:
    from horizonfree.problems import ProblemSpec


def problems(
    name: Annotated[str | None, typer.Argument(help="Show the parameters of this problem.")] = None,
    json: JsonOption = False,
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
            console.print(table("problem", "description", rows=[(x, value[x]["description"]) for x in value]))
            print_line("\n[dim]Parameters:[/] horizonfree problems NAME")
            print_line("[dim]Any toy-text environment:[/] gymnasium:FrozenLake-v1 --param horizon=60")
            return
        spec = value[name]
        print_line("[bold]{name}[/]: {about}", name=name, about=spec["description"])
        print_line("[dim]Source: {source}[/]\n", source=spec["source"])
        rows = [(x, p["default"], _range_text(p), p["meaning"]) for x, p in spec["parameters"].items()]
        console.print(table("parameter", "default", "range", "meaning", rows=rows))
        first = next(iter(spec["parameters"].items()), None)
        param = f" --param {first[0]}={first[1]['default']}" if first else ""
        print_line("\nhorizonfree explore {name}{param} --episodes 300", name=name, param=param)

    output(value if name is None else value[name], json, show)


def explorers(
    name: Annotated[str | None, typer.Argument(help="Show the options of this explorer.")] = None,
    all: Annotated[bool, typer.Option("--all", help="Also list reconstructions of papers.")] = False,
    json: JsonOption = False,
) -> None:
    """List the exploration algorithms, or the options of one.

    Reconstructions were not written from the printed algorithm of a paper; nothing is proved of them.

    Examples:

        horizonfree explorers

        horizonfree explorers --all

        horizonfree explorers hf-ucrl-rfe++
    """
    from horizonfree.explorers.registry import about, label, resolve_typed_name
    from horizonfree.explorers.registry import explorers as registered

    if name is not None:
        name = resolve_typed_name(name)
        check_exists("explorers", name)
    entries = (
        registered(all=all or name is not None) if name is None or ":" not in name else {name: about(name)}
    )
    value = {x: spec | {"options": _options(spec)} for x, spec in entries.items() if name in (None, x)}

    def show() -> None:
        if name is None:
            for is_reconstruction in (False, True) if all else (False,):
                names = [x for x in value if value[x]["is_reconstruction"] == is_reconstruction]
                title = "reconstruction" if is_reconstruction else "explorer"
                console.print(table(title, "description", rows=[(x, value[x]["about"]) for x in names]))
                console.print()
            print_line("[dim]Options:[/] horizonfree explorers NAME")
            if not all:
                print_line("[dim]Reconstructions of papers:[/] horizonfree explorers --all")
            return
        spec = value[name]
        print_line("[bold]{name}[/]: {about}\n", name=label(name), about=spec["about"])
        rows = [(x, str(y), spec["meanings"][x]) for x, y in spec["options"].items()]
        console.print(table("option", "default", "meaning", rows=rows) if rows else "It has no options.")

    output(value if name is None else value[name], json, show)


def theory(
    d: Annotated[int, int_option("Dimension of the features.", "--d")] = 4,
    H: Annotated[int, int_option("Steps in an episode.", "--H")] = 10,
    B: Annotated[float, float_option("Bound on the norm of the parameter.", "--B")] = 2.0,
    eps: Annotated[float, float_option("Target accuracy.", "--eps")] = 0.1,
    delta: Annotated[float, float_option("Failure probability.", "--delta")] = 0.1,
    K: Annotated[
        float | None, float_option("Episodes.  [default: as many as the theorem needs]", "--K")
    ] = None,
    scale: Annotated[
        str, typer.Option(help="Rewards sum to at most 1 (total), or are in [0, 1] at each step (per-step).")
    ] = "total",
    linear: Annotated[
        bool, typer.Option("--linear", help="The theorems of papers on linear MDPs instead, per-step.")
    ] = False,
    as_printed: Annotated[
        bool, typer.Option("--as-printed", help="Also the main theorem as published, with its typos.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Numbers of the theorems on HF-UCRL-RFE++, or on linear MDPs.

    Examples:

        horizonfree theory --d 4 --H 10 --B 2 --delta 0.1 --K 1000 --eps 0.1

        horizonfree theory --d 2 --B 1.5 --eps 1 --as-printed

        horizonfree theory --linear --d 8 --H 10 --delta 0.05 --eps 0.1
    """
    from horizonfree.theory import as_printed as printed
    from horizonfree.theory import bounds
    from horizonfree.theory import linear as theory_linear

    if linear:
        leave_out("is about HF-UCRL-RFE++; leave out --linear", as_printed=as_printed)
    if linear:
        rows = theory_linear.table(eps, delta, d, H, K=K)
    else:
        rows = bounds.table(eps, delta, d, H, B, K=K, scale=scale)  # type: ignore[arg-type]  # checked there
        if as_printed:
            rows += printed.table(eps, delta, d, H, B, K=K, scale=scale)  # type: ignore[arg-type]  # checked there

    def show() -> None:
        console.print(
            table(
                "symbol", "value", "meaning", rows=[(x.name, format_number(x.value), x.meaning) for x in rows]
            )
        )

    output({x.name: {"value": x.value, "meaning": x.meaning} for x in rows}, json, show)


def check_exists(kind: str, name: str) -> None:
    """Raise for an unknown name of "problems" or "explorers"; an explorer "module:Class" is imported."""
    import horizonfree as hf
    from horizonfree._validation import check_known

    if kind == "explorers" and ":" in name:
        from horizonfree.explorers.registry import find_entry

        _ = find_entry(name).explorer_type  # imports the module
        return
    check_known(name, hf.problems() if kind == "problems" else hf.explorers(all=True), kind[:-1])


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


def _range_text(parameter: dict[str, Any]) -> str:
    low, high = parameter["low"], parameter["high"]
    return f"{low:,} and up" if high >= MAX_INT else f"{low:,} to {high:,}"
