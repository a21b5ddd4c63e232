"""What the commands share: options, output for people and for machines."""

import json
import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from horizonfree.errors import OptionError

if TYPE_CHECKING:
    from horizonfree import Certificate, Problem, Run

LARGEST = 2**63 - 1  # as in _validation.py, which loads NumPy
MOST_WEIGHTS = 12  # that are shown
NO_LOSS = 1e-12  # a loss below this is one of the arithmetic, not of the plan


def whole(help: str, *names: str) -> Any:
    """An option that takes a whole number."""

    def parse(text: Any) -> int:
        try:
            value = int(text)
        except ValueError:
            words = f"{text!r} is not a whole number; write it in digits only, such as 1000"
            raise typer.BadParameter(words) from None
        if abs(value) > LARGEST:
            raise typer.BadParameter(f"{text!r} is out of range; the largest whole number is {LARGEST}")
        return value

    return typer.Option(*names, help=help, parser=parse, metavar="INTEGER")


def real(help: str, *names: str) -> Any:
    """An option that takes a number."""

    def parse(text: Any) -> float:
        try:
            return float(text)
        except ValueError:
            words = f"{text!r} is not a number; write it in digits, such as 0.05"
            raise typer.BadParameter(words) from None

    return typer.Option(*names, help=help, parser=parse, metavar="NUMBER")


def state(help: str, *names: str) -> Any:
    """An option that takes a state, by its number or its name; the problem knows which it is."""
    return typer.Option(*names, help=help, metavar="STATE")


Folder = Annotated[Path, typer.Argument(help="Folder of a run, as `explore --out` wrote it.", metavar="RUN")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Delta = Annotated[float, real("Failure probability of the certificate.")]
Misspecified = Annotated[
    float,
    real("How far, in total variation, transition laws may be from those of one parameter of the class."),
]
Unknown = Annotated[
    list[str] | None,
    typer.Option("--unknown", help="A constant of a PRISM or JANI model that is not known; repeat for more."),
]
GoalStates = Annotated[
    list[str] | None, state("Reward 1 for ending in this state; repeat for several.", "--goal")
]
RewardFile = Annotated[
    Path | None,
    typer.Option(
        "--reward", help="Reward from a file, .csv or .npy: [S], [S, A] or [H, S, A].", metavar="FILE"
    ),
]

console = Console(highlight=False, emoji=False)


@contextmanager
def working(text: str) -> Iterator[None]:
    """Say on a terminal what takes a moment."""
    errors = Console(stderr=True, emoji=False)
    with errors.status(escape(text), spinner="dots") if errors.is_terminal else nullcontext():
        yield


def open_run(folder: Path) -> "Run":
    """The run in a folder."""
    with working(f"reading {folder}"):
        from horizonfree import load

        return load(folder)


def answer(value: Any, as_json: bool, show: Callable[[], None]) -> None:
    """Print a value for machines, or let it be shown to people."""
    if as_json:
        print(json.dumps(plain(value), allow_nan=False), flush=True)
    else:
        show()


def tell(form: str, **parts: Any) -> None:
    """Print a line. Markup is read in the form only: the parts are names and numbers of others, shown as they are."""
    shown = {name: escape(str(x)) if isinstance(x, (str, Path)) else x for name, x in parts.items()}
    console.print(form.format(**shown), soft_wrap=True)


def typed(path: Path) -> str:
    """A path as one would type it from here, to be pasted into a shell."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # someone has removed the folder that we stand in
        return shlex.quote(str(path))
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def expanded(path: str | Path) -> Path:
    """A folder with its `~` spelled out, as the library does it; what no folder can be called is refused."""
    from horizonfree.runs.files import resolve_path  # it loads NumPy

    resolve_path(path)
    return Path(path).expanduser()


def plain(value: Any) -> Any:
    """What JSON can hold; numbers that are not finite become words."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(x) for key, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(x) for x in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def table(*columns: str, rows: Iterable[Iterable[Any]] = (), title: str | None = None) -> Table:
    """A quiet table; numbers stand to the right."""
    lines = [list(row) for row in rows]
    made = Table(
        title=title, title_justify="left", box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0)
    )
    for i, column in enumerate(columns):
        is_number = bool(lines) and all(
            isinstance(line[i], (int, float)) or line[i] is None for line in lines
        )
        made.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for line in lines:
        made.add_row(*(escape(number(x)) for x in line))
    return made


def number(x: Any) -> str:
    """A number in a few digits; anything else as it is."""
    if x is None:
        return "-"
    if isinstance(x, bool) or not isinstance(x, (int, float)):
        return str(x)
    if isinstance(x, int) or x == int(x) if math.isfinite(x) else False:
        return f"{x:,.0f}" if abs(x) < 1e15 else f"{x:.3g}"
    return f"{x:.4g}"


def bound(x: float) -> float:
    """A bound as it is shown: rounded up, so that it stays true."""
    from horizonfree.guarantees.certificate import round_up

    return round_up(x)


def loss(x: float) -> float:
    """What a plan really loses, as it is shown: rounding, of either sign, is 0."""
    return x if x >= NO_LOSS else 0.0


def certificate(found: "Certificate") -> dict[str, Any]:
    """A certificate as plain data."""
    fields = (
        "eps",
        "delta",
        "method",
        "words",
        "holds_for",
        "assumes",
        "forecast",
        "is_rejected",
        "is_vacuous",
    )
    return {name: getattr(found, name) for name in fields} | {"parts": dict(found.parts)}


def say_forecast(found: "Certificate") -> None:
    """What a smaller gap would need, where that can be said."""
    if found.forecast:
        tell("[dim]{forecast}[/]", forecast=found.forecast)


def weights_of(run: "Run", delta: float) -> list[dict[str, Any]]:
    """What was learnt of a mixture, weight by weight, with intervals that hold together; empty for other classes."""
    found = run.problem.model.intervals(run.confidence(delta))
    if found is None:
        return []
    numbers = zip(found.estimate.tolist(), found.low.tolist(), found.high.tolist(), strict=True)
    return [
        {"name": run.problem.weight_name(i), "estimate": estimate, "low": low, "high": high}
        for i, (estimate, low, high) in enumerate(numbers)
    ]


def show_weights(weights: list[dict[str, Any]], delta: float) -> None:
    """The weights, where there are few."""
    if not 0 < len(weights) <= MOST_WEIGHTS:
        return
    from horizonfree.guarantees.certificate import confidence_of

    rows = [(x["name"], f"{x['estimate']:.3f}", f"{x['low']:.3f} to {x['high']:.3f}") for x in weights]
    tell("")
    console.print(table("weight", "estimate", f"{confidence_of(delta)} interval", rows=rows))


def problem_of(
    name: str | None, kernels: str | Path | None, param: dict[str, Any], unknown: Sequence[str] = ()
) -> "Problem":
    """A named problem, or one of an .npz file of kernels, of a model's file or of a function of somebody's."""
    from horizonfree import make
    from horizonfree.cli import model_files, own_problems

    if unknown and not model_files.is_model(name):
        raise OptionError("--unknown names constants of a PRISM or JANI model; give its file as the problem")

    if kernels is not None:
        if name is not None:
            raise OptionError(f"{name} and --kernels are two problems; give one of them")
        return own_problems.from_file(Path(kernels), param)
    assert name is not None  # the commands ask for one or the other
    if model_files.is_model(name):
        return model_files.from_model(name, param, unknown)
    return own_problems.from_function(name, param) if own_problems.is_function(name) else make(name, **param)


def reward_of(
    problem: "Problem",
    goal: Sequence[int | str] | None,
    reward: str | Path | None,
    cost: Path | None = None,
) -> Any:
    """The reward that --goal, --reward or --cost asks for; None without any."""
    if goal and reward:
        raise OptionError("--goal and --reward are two ways to say the same; give one of them")
    if goal:
        from horizonfree import goal as ending_in

        is_part = "state_ids" in problem.layout  # whose states have other numbers in texts than in arrays
        return ending_in(problem, [str(state) if is_part else state for state in goal])
    if reward is None and cost is None:
        return None
    from horizonfree.cli.reward_files import read_reward  # it loads NumPy

    return (
        read_reward(Path(reward), problem)
        if reward is not None
        else -read_reward(Path(str(cost)), problem, "cost")
    )


def event_of(problem: "Problem", reach: Sequence[str] | None, text: str | None) -> Any:
    """The event that --reach or --property asks for."""
    import horizonfree as hf

    return hf.reach(problem, list(reach)) if reach else hf.property(text)


def folder_for_output(path: Path) -> None:
    """Make sure of a folder that can be written; to be called before long work, so that none is lost."""
    from tempfile import TemporaryFile

    path.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=path):
        pass


def free_name(path: Path) -> Path:
    """The path itself, or with the first number that makes it new."""
    i = 1
    while (name := path if i == 1 else Path(f"{path}-{i}")).exists():
        i += 1
    return name


def problem_line(problem: "Problem") -> str:
    """A problem in a few words."""
    return (
        f"{problem.name}: {problem.num_states:,} states, {problem.num_actions} actions, {problem.horizon} steps, "
        f"{problem.model.num_unknown} unknown numbers"
    )


def worst_state(run: "Run", rewards: str, index: int) -> int:
    """The state of the reward with the largest gap, among those that can be occupied."""
    import numpy as np

    from horizonfree.mdp.space import occupied_states

    occupied = occupied_states(run.problem.space)
    return int(np.flatnonzero(occupied[-1] if rewards == "goals" else occupied.any(axis=0))[index])
