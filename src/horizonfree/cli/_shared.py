"""Shared parts of the commands: options, and output as text or JSON."""

import json
import math
import shlex
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from horizonfree.errors import OptionError

if TYPE_CHECKING:
    from horizonfree import Certificate, Problem, Run

MAX_INT = 2**63 - 1  # as in _validation.py, which imports NumPy
MAX_WEIGHTS = 12  # in a table
LOSS_TOLERANCE = 1e-12  # true suboptimality below this is rounding error


def int_option(help: str, *names: str) -> Any:
    """An option with an integer value."""

    def parse(text: Any) -> int:
        try:
            value = int(text)
        except ValueError:
            raise typer.BadParameter(
                f"{text!r} is not a whole number; write it in digits only, such as 1000"
            ) from None
        if abs(value) > MAX_INT:
            raise typer.BadParameter(f"{text!r} is out of range; the largest whole number is {MAX_INT}")
        return value

    return typer.Option(*names, help=help, parser=parse, metavar="INTEGER")


def float_option(help: str, *names: str) -> Any:
    """An option with a real value."""

    def parse(text: Any) -> float:
        try:
            return float(text)
        except ValueError:
            raise typer.BadParameter(f"{text!r} is not a number; write it in digits, such as 0.05") from None

    return typer.Option(*names, help=help, parser=parse, metavar="NUMBER")


def state_option(help: str, *names: str) -> Any:
    """An option with a state as its value, by number, name or cell."""
    return typer.Option(*names, help=help, metavar="STATE")


RunArgument = Annotated[
    Path, typer.Argument(help="Folder of a run, as written by `explore --out`.", metavar="RUN")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
DeltaOption = Annotated[float, float_option("Failure probability of the certificate.")]
MisspecificationOption = Annotated[
    float,
    float_option("Total-variation distance of the transition probabilities from the model class."),
]
UnknownOption = Annotated[
    list[str] | None,
    typer.Option("--unknown", help="An unknown constant of a PRISM or JANI model; repeat for several."),
]
GoalOption = Annotated[
    list[str] | None,
    state_option("Reward 1 for ending in this state at the last step; repeat for several.", "--goal"),
]
RewardOption = Annotated[
    Path | None,
    typer.Option(
        "--reward", help="Reward from a file, .csv or .npy: [S], [S, A] or [H, S, A].", metavar="FILE"
    ),
]
AtMostOption = Annotated[
    list[str] | None,
    typer.Option(
        "--at-most",
        help="A cost and its bound, as cost.csv=0.01 or reach:STATE=0.01; repeat.",
        metavar="FILE=NUMBER",
    ),
]
AtLeastOption = Annotated[
    list[str] | None,
    typer.Option(
        "--at-least", help="A reward and its bound, as other.csv=0.3; repeat.", metavar="FILE=NUMBER"
    ),
]

console = Console(highlight=False, emoji=False)


@contextmanager
def spinner(text: str) -> Iterator[None]:
    """A spinner with a text, on a terminal."""
    errors = Console(stderr=True, emoji=False)
    with errors.status(escape(text), spinner="dots") if errors.is_terminal else nullcontext():
        yield


def open_run(folder: Path) -> "Run":
    """The run in a folder."""
    with spinner(f"reading {folder}"):
        from horizonfree import load

        return load(folder)


def output(value: Any, as_json: bool, show: Callable[[], None]) -> None:
    """Print a value as JSON, or call `show`."""
    if as_json:
        print(json.dumps(to_json(value), allow_nan=False), flush=True)
    else:
        show()


def print_line(form: str, **parts: Any) -> None:
    """Print a line. Markup is only read in the form, not in the parts."""
    texts = {name: x if isinstance(x, (int, float)) else escape(str(x)) for name, x in parts.items()}
    console.print(form.format(**texts), soft_wrap=True)


def shell_path(path: Path) -> str:
    """A path relative to the working directory, quoted for a shell."""
    try:
        folder = Path.cwd()
    except FileNotFoundError:  # the working directory was removed
        return shlex.quote(str(path))
    return shlex.quote(str(path.relative_to(folder) if path.is_relative_to(folder) else path))


def expand_user(path: str | Path) -> Path:
    """A path with `~` expanded; an error for an invalid path."""
    from horizonfree.runs.files import resolve_path  # imports NumPy

    resolve_path(path)
    return Path(path).expanduser()


def to_json(value: Any) -> Any:
    """A value for JSON; infinite numbers and nan become text."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): to_json(x) for key, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(x) for x in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def table(*columns: str, rows: Iterable[Iterable[Any]] = (), title: str | None = None) -> Table:
    """A table without lines; columns of numbers are aligned to the right."""
    lines = [list(row) for row in rows]
    result = Table(
        title=title, title_justify="left", box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0)
    )
    for i, column in enumerate(columns):
        is_number = bool(lines) and all(
            isinstance(line[i], (int, float)) or line[i] is None for line in lines
        )
        result.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for line in lines:
        result.add_row(*(escape(format_number(x)) for x in line))
    return result


def format_number(x: Any) -> str:
    """A number with a few digits; other values as text."""
    if x is None:
        return "-"
    if isinstance(x, bool) or not isinstance(x, (int, float)):
        return str(x)
    if isinstance(x, int) or x == int(x) if math.isfinite(x) else False:
        return f"{x:,.0f}" if abs(x) < 1e15 else f"{x:.3g}"
    return f"{x:.4g}"


def round_bound(x: float) -> float:
    """A bound for display, rounded up."""
    from horizonfree.guarantees.certificate import round_up

    return round_up(x)


def round_loss(x: float) -> float:
    """The true suboptimality without rounding errors, which may be negative."""
    return x if x >= LOSS_TOLERANCE else 0.0


def certificate_json(certificate: "Certificate") -> dict[str, Any]:
    """A certificate as plain data."""
    fields = ("eps", "delta", "method", "holds_for", "assumes", "forecast", "is_rejected", "is_vacuous")
    values = {name: getattr(certificate, name) for name in fields}
    return values | {"summary": certificate.summary(), "parts": dict(certificate.parts)}


def print_forecast(certificate: "Certificate") -> None:
    """The number of episodes for a smaller bound, if there is a forecast."""
    if certificate.forecast:
        print_line("[dim]{forecast}[/]", forecast=certificate.forecast)


def weights_json(run: "Run", delta: float) -> list[dict[str, Any]]:
    """The weights of a mixture with simultaneous confidence intervals; empty for other classes."""
    from horizonfree.models.registry import diagnostics_of

    intervals = diagnostics_of(run.problem.model).intervals(run.confidence(delta))
    if intervals is None:
        return []
    numbers = zip(intervals.estimate.tolist(), intervals.low.tolist(), intervals.high.tolist(), strict=True)
    return [
        {"name": run.problem.weight_name(i), "estimate": estimate, "low": low, "high": high}
        for i, (estimate, low, high) in enumerate(numbers)
    ]


def print_weights(weights: list[dict[str, Any]], delta: float) -> None:
    """A table of the weights, unless there are many."""
    if not 0 < len(weights) <= MAX_WEIGHTS:
        return
    from horizonfree.guarantees.certificate import confidence_of

    rows = [(x["name"], f"{x['estimate']:.3f}", f"{x['low']:.3f} to {x['high']:.3f}") for x in weights]
    print_line("")
    console.print(table("weight", "estimate", f"{confidence_of(delta)} interval", rows=rows))


def make_problem(
    name: str | None, kernels: str | Path | None, param: dict[str, Any], unknown: Sequence[str] = ()
) -> "Problem":
    """A named problem, one from an .npz file of kernels, from a model's file, or from a user's function."""
    from horizonfree import make
    from horizonfree.cli import own_problems

    if unknown and not own_problems.is_model_file(name):
        raise OptionError("--unknown names constants of a PRISM or JANI model; give its file as the problem")

    if kernels is not None:
        if name is not None:
            raise OptionError(f"{name} and --kernels each name a problem; give one of them")
        return own_problems.problem_from_file(Path(kernels), param)
    assert name is not None  # the commands ask for one or the other
    if own_problems.is_model_file(name):
        return own_problems.problem_from_model(name, param, unknown)
    return (
        own_problems.problem_from_function(name, param)
        if own_problems.is_function(name)
        else make(name, **param)
    )


def make_reward(
    problem: "Problem",
    goal: Sequence[int | str] | None,
    reward: str | Path | None,
    cost: Path | None = None,
) -> Any:
    """The reward of --goal, --reward or --cost; None without any."""
    only_one("a reward", goal=goal, reward=reward)
    if goal:
        from horizonfree import goal as goal_reward

        is_part = "state_ids" in problem.layout  # texts are numbers in the whole problem
        return goal_reward(problem, [str(state) if is_part else state for state in goal])
    if reward is None and cost is None:
        return None
    from horizonfree.cli.array_files import read_reward  # imports NumPy

    return (
        read_reward(Path(reward), problem)
        if reward is not None
        else -read_reward(Path(str(cost)), problem, "cost")
    )


def make_event(problem: "Problem", reach: Sequence[str] | None, text: str | None) -> Any:
    """The event of --reach or --property."""
    import horizonfree as hf

    return hf.reach(problem, list(reach)) if reach else hf.property(text)


def make_output_folder(path: Path) -> None:
    """Create a folder and check that it is writable, before long work."""
    from tempfile import TemporaryFile

    path.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=path):
        pass


def unused_path(path: Path) -> Path:
    """The path itself, or with the first number that makes it unused."""
    i = 1
    while (name := path if i == 1 else Path(f"{path}-{i}")).exists():
        i += 1
    return name


def problem_summary(problem: "Problem") -> str:
    """Name and sizes of a problem."""
    return (
        f"{problem.name}: {problem.num_states:,} states, {problem.num_actions} actions, {problem.horizon} steps, "
        f"{problem.model.num_unknown} unknown numbers"
    )


def worst_state(run: "Run", rewards: str, index: int) -> int:
    """The state of the reward with the largest bound, among those that can be occupied."""
    import numpy as np

    from horizonfree.mdp.space import occupied_states

    is_occupied = occupied_states(run.problem.space)
    return int(np.flatnonzero(is_occupied[-1] if rewards == "goals" else is_occupied.any(axis=0))[index])


@dataclass(frozen=True)
class Settings:
    """All settings of `horizonfree explore`. `param` belongs to the problem, `opt` to the explorer."""

    problem: str | None = None
    kernels: str | None = None
    unknown: list[str] = field(default_factory=list)
    explorer: str | None = None
    known_rules: bool = False
    reachable: bool = False
    episodes: int | None = None
    until_eps: float | None = None
    delta: float = 0.05
    misspecification: float = 0.0
    budget: int | None = None
    seed: int = 0
    out: str | None = None
    goal: list[int | str] = field(default_factory=list)
    reward: str | None = None
    rewards: str | None = None
    param: dict[str, Any] = field(default_factory=dict)
    opt: dict[str, Any] = field(default_factory=dict)
    save_episodes: int | None = None
    save_seconds: float | None = None

    @property
    def saving(self) -> dict[str, Any]:
        """The options of checkpoints that were given."""
        options = {"save_episodes": self.save_episodes, "save_seconds": self.save_seconds}
        return {name: value for name, value in options.items() if value is not None}


def leave_out(why: str, **options: Any) -> None:
    """Raise "--NAME WHY" for the first of these options that is given."""
    for name, value in options.items():
        if value is not None and value is not False and value != []:
            raise OptionError(f"--{name.replace('_', '-')} {why}")


def only_one(what: str, **options: Any) -> None:
    """Raise an error where several of these options, which each name WHAT, are given."""
    names = [f"--{name}" for name, value in options.items() if value]
    if len(names) > 1:
        raise OptionError(f"{', '.join(names[:-1])} and {names[-1]} each name {what}; give one of them")


def check_form(is_right: Any, option: str, form: str) -> None:
    """Raise "OPTION: write it as FORM" unless the text of an option has its form."""
    if not is_right:
        raise OptionError(f"{option}: write it as {form}")


def read_settings(path: Path) -> dict[str, Any]:
    """The settings in a TOML file; errors for unknown names and values of the wrong type."""
    from horizonfree._validation import reading  # imports NumPy

    with reading(f"settings {path}", "TOML", ValueError, RecursionError):
        settings = tomllib.loads(path.read_text())
    hints = get_type_hints(Settings)
    for name, value in settings.items():
        if name not in hints:
            suggestions = get_close_matches(name, hints, n=1)
            advice = f"did you mean {suggestions[0]!r}?" if suggestions else f"choose from {', '.join(hints)}"
            raise OptionError(f"settings {path}: there is no setting {name!r}; {advice}")
        hint = hints[name]
        kinds = (get_origin(hint),) if get_origin(hint) in (dict, list) else get_args(hint) or (hint,)
        if type(value) not in kinds and not (type(value) is int and float in kinds):
            expected = " or ".join(kind.__name__ for kind in kinds if kind is not type(None))
            raise OptionError(f"settings {path}: {name} is {value!r}; it must be of type {expected}")
        if isinstance(value, str) and "\0" in value:
            raise OptionError(
                f"settings {path}: {name} is {value!r}; names must not contain a null character"
            )
    return settings


def merge_settings(from_file: Mapping[str, Any], flags: Mapping[str, Any]) -> Settings:
    """Settings from a file; flags take precedence, and tables are merged."""
    from_flags = {name: value for name, value in flags.items() if value not in (None, [], {})}
    tables: dict[str, Any] = {x: {**from_file.get(x, {}), **from_flags.get(x, {})} for x in ("param", "opt")}
    return Settings(**{**from_file, **from_flags, **tables})


def parse_values(texts: Sequence[str], flag: str) -> dict[str, Any]:
    """`name=value` as a dictionary; values are numbers, booleans, none or text."""
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        check_form(name and equals, f"{flag} {text}", f"{flag} name=value")
        values[name] = _parse_value(value)
    return values


def parse_explorers(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """`NAME=ALGORITHM option=value ...` as names with options; the name may be omitted."""
    entries: dict[str, dict[str, Any]] = {}
    for text in texts:
        first, *options = text.split() or [""]
        name, equals, algorithm = first.rpartition("=")
        form = "optimal-design, or 'mine=ucrl-rfe scale=0.5'"
        check_form(algorithm and (name or not equals), f"--explorer {text!r}", form)
        label = name or text
        if label in entries:
            raise OptionError(
                f"--explorer {text!r}: {label!r} occurs twice; give one another name, as in b={text}"
            )
        entries[label] = {"name": algorithm, **parse_values(options, "--explorer ... option")}
    return entries


def _parse_value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False, "none": None}.get(text.lower(), text)
