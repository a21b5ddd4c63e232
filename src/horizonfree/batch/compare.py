"""Several explorers on one problem: true and certified suboptimality against episodes.

Each explorer sees the problem as the model class that it learns: as it is, as a tabular MDP, or as a linear MDP.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from queue import Empty
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from horizonfree._plots import CURVE_TITLES, LOSS_TOLERANCE, draw_bands, legend, new_axes, save_figure
from horizonfree._repr import data_frame, picture_html
from horizonfree._validation import check_bool, check_choice, check_count, check_instance, require, short_repr
from horizonfree._x64 import x64
from horizonfree.batch.explore import prepare, run_job
from horizonfree.batch.job import Job
from horizonfree.errors import OptionError
from horizonfree.explorers.base import Explorer
from horizonfree.explorers.registry import describe, display_marks, find_entry, resolve_typed_name
from horizonfree.mdp.rewards import occupancy
from horizonfree.models.linear.model import LinearModel
from horizonfree.models.tabular.model import TabularModel
from horizonfree.problems.problem import Problem
from horizonfree.problems.registry import refuse_text
from horizonfree.runs import until as stopping
from horizonfree.runs.meter import comparison_meter

if TYPE_CHECKING:
    import pandas

CURVES = ("gap", "own_gap", "eps")
PLOTTED = ("gap", "eps")
BASELINES = ("uniform", "goal-cycling")
VIEWS = ("table", "linear")
MAX_PRINTED = 20  # explorers
POLL_SECONDS = 0.25
Row = dict[str, Any]  # of one explorer, seed and checkpoint
Entries = Sequence[Any] | Mapping[str, Any]  # names or explorers, or labels with options


class Entry(NamedTuple):
    """An explorer of a comparison: a name with options, or an object; `seen_as` as in `compare`."""

    algorithm: str
    options: dict[str, Any]
    explorer: Explorer | None = None
    seen_as: Any = None

    @property
    def uses_reward(self) -> bool:
        """Whether it explores for one reward."""
        return self.explorer is None and "reward" in find_entry(self.algorithm).options


@dataclass(frozen=True, eq=False)
class ExplorerComparison(Sequence[Row]):
    """The rows of a comparison: one for each explorer, seed and checkpoint. `failed`: errors of explorers by label."""

    problem: str
    rows: tuple[Row, ...]
    failed: Mapping[str, str]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: Any) -> Any:
        return self.rows[i]

    def medians(self, curve: str) -> dict[str, dict[int, float]]:
        """The median over seeds of one curve: label of the explorer -> episodes -> value."""
        return medians(self.rows, curve)

    def to_pandas(self) -> "pandas.DataFrame":
        """The rows as a data frame."""
        names = self.rows[0] if self.rows else ()
        return data_frame({name: [row[name] for row in self.rows] for name in names})

    def plot(self, axes: Any = None) -> Any:
        """True and certified suboptimality against episodes: medians and quartiles over the seeds; two axes."""
        return plot_comparison(self.rows, axes)

    def save_figure(self, path: Any) -> None:
        """Write the figure as SVG, PDF or PNG, by the suffix of the file."""
        save_figure(plot_comparison(self.rows), path)

    def __repr__(self) -> str:
        if not self.rows:
            return f"Comparison on {self.problem}: no explorer finished"
        last, seeds = max(row["episodes"] for row in self.rows), {row["seed"] for row in self.rows}
        eps, gap = self.medians("eps"), self.medians("gap")
        order = sorted(eps, key=lambda name: eps[name][last])
        width = max(map(len, order))
        lines = [f"Comparison on {self.problem}, {last:,} episodes, medians of {len(seeds)} seeds"]
        lines.append(f"  {'':<{width}}  certified  true, worst goal")
        for name in order[:MAX_PRINTED]:
            lines.append(
                f"  {name:<{width}}  {eps[name][last]:9.4g}  {without_rounding(gap[name][last]):.4g}"
            )
        if len(order) > MAX_PRINTED:
            lines.append(f"  and {len(order) - MAX_PRINTED} more")
        if self.failed:
            lines.append(f"  failed: {', '.join(self.failed)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return picture_html(f"Comparison on {self.problem}", repr(self), self.plot if self.rows else None)


@x64
def compare(
    problem: Problem,
    explorers: Entries,
    *,
    episodes: int,
    seeds: int | Sequence[int] = 10,
    checkpoints: Sequence[int] | None = None,
    delta: float = 0.05,
    reward: Any = None,
    progress: bool | None = None,
) -> ExplorerComparison:
    """Several explorers on one problem: one row per explorer, seed and checkpoint.

    "gap" is the largest suboptimality of plans in the maximum-likelihood model, over the rewards "be in g at the end"
    and "stay in g" of every state g; "own_gap" that of plans in the explorer's own estimate; "eps" the uniform
    certificate at confidence 1 - delta, nan for kernels from samples; "seconds" the time of the whole batch of seeds,
    with compilation.

    explorers: names or Explorer objects, or a mapping from labels to objects or options. A label is the name of an
        explorer, or the options have a "name": {"optimal-design": {}, "quick": {"name": "hf-ucrl-rfe++", "sweeps": 8}}.
        An explorer that learns another model class sees the problem as a table (`as_tabular`) or as a linear MDP with
        one feature per state-action pair (`as_linear`); its label says so. The option "seen_as" chooses: "table",
        "linear", or features [S, A, d] for `as_linear`.
    checkpoints: by default eight, evenly spaced. reward: for the explorers that need one.
    progress: show it on standard error; by default on a terminal and in notebooks.

    Everything is checked before the first episode. If an explorer fails all the same, the others continue, and `failed`
    has its error.

    >>> import horizonfree as hf
    >>> river = hf.make("river-swim", states=3, horizon=4)
    >>> result = hf.compare(river, ["optimal-design", "rf-ucrl"], episodes=8, seeds=2, checkpoints=[8])
    >>> list(result.medians("eps"))
    ['optimal-design', 'rf-ucrl (as a table)']
    """
    check_bool(progress, "progress")
    if isinstance(problem, str):
        refuse_text(problem, "compare")
    check_instance(problem, Problem, "the problem")
    settings = {"episodes": episodes, "seeds": seeds, "checkpoints": checkpoints, "delta": delta}
    tasks = {
        label: _prepare(problem, entry, settings, reward) for label, entry in parse_entries(explorers).items()
    }
    rows: list[Row] = []
    failed: dict[str, str] = {}
    errors: list[Exception] = []
    totals = {label: task.total for label, task in tasks.items()}
    with comparison_meter(totals, _seeds_text(seeds), progress) as show:
        for label, task in tasks.items():
            try:
                rows += task.rows(label, partial(show, label))
            except Exception as error:  # of any type: the others continue
                failed[label] = f"{type(error).__name__}: {error}"
                errors.append(error)
            show(label, task.total)
    if errors and not rows:
        raise errors[0]
    return ExplorerComparison(problem.name, tuple(rows), failed)


@dataclass(frozen=True, eq=False)
class _Prepared:
    """An explorer of a comparison after all checks."""

    entry: Entry
    job: Job
    view: str

    @property
    def total(self) -> int:
        """Episodes of all seeds."""
        return len(self.job.members) * self.job.episodes

    def rows(self, label: str, show: Callable[[int], None]) -> list[Row]:
        """Explore, and make a row for each seed and checkpoint."""
        start = time.perf_counter()
        batch = run_job(self.job, show)
        seconds = time.perf_counter() - start
        marks = display_marks(self.entry.algorithm, self.entry.options, self.view)
        labels = {"explorer": label, "algorithm": self.entry.algorithm, "marks": marks}
        return [
            {**labels, "seed": seed, "episodes": int(k)}
            | {curve: float(batch.curves[curve][i, c]) for curve in CURVES}
            | {"seconds": seconds}
            for i, seed in enumerate(batch.members.seeds)
            for c, k in enumerate(batch.checkpoints)
        ]


def _prepare(problem: Problem, entry: Entry, settings: Mapping[str, Any], reward: Any) -> _Prepared:
    learns = (
        type(entry.explorer) if entry.explorer is not None else find_entry(entry.algorithm).explorer_type
    ).learns
    view_problem, view = view_of(problem, learns, entry.seen_as)
    job = prepare(
        view_problem,
        entry.algorithm if entry.explorer is None else entry.explorer,
        curves=CURVES,
        reward=reward if entry.uses_reward else None,
        **settings,
        **entry.options,
    )
    return _Prepared(entry, job, view)


def view_of(problem: Problem, learns: Any, seen_as: Any = None) -> tuple[Problem, str]:
    """The problem as an explorer that learns these models sees it, and a text for its label.

    seen_as: None chooses the first that fits of: as it is, as a table, as a linear MDP.
    """
    if seen_as is not None and not isinstance(seen_as, str):
        features = np.shape(seen_as)[-1] if np.ndim(seen_as) else 0
        return problem.as_linear(seen_as), f"as a linear MDP, {features} features"
    if seen_as is not None:
        check_choice(seen_as, "seen_as", VIEWS)
    if seen_as is None and isinstance(problem.model, learns):
        return problem, ""
    if seen_as == "table" or (seen_as is None and issubclass(TabularModel, learns)):
        return problem.as_tabular(), "as a table"
    if seen_as == "linear" or (seen_as is None and issubclass(LinearModel, learns)):
        return problem.as_linear(), "as a linear MDP, one-hot"
    return problem, ""  # `prepare` raises an explanatory error


def compare_in_processes(
    problem: Problem,
    explorers: Entries,
    *,
    episodes: int,
    seeds: int | Sequence[int] = 10,
    delta: float = 0.05,
    workers: int = 2,
    checkpoints: Sequence[int] | None = None,
    progress: bool | None = False,
) -> Iterator[tuple[str, list[Row] | str]]:
    """`compare` in several processes: label and rows, or an error, of each explorer as it ends.

    Explorers that need a reward get "stay in the last state". Wrong arguments raise before anything is explored.
    """
    check_count(workers, "workers")
    stopping.check_stop_request(episodes, None, delta)
    if isinstance(seeds, int):
        check_count(seeds, "seeds")
    settings = {"episodes": episodes, "seeds": seeds, "delta": delta, "checkpoints": checkpoints}
    entries = parse_entries(explorers)
    totals = {label: _check(problem, entry, settings) for label, entry in entries.items()}
    tasks = {label: (problem, label, entry, settings) for label, entry in entries.items()}
    return _in_processes(tasks, totals, _seeds_text(seeds), workers, progress)


@x64
def _check(problem: Problem, entry: Entry, settings: Mapping[str, Any]) -> int:
    return _prepare(problem, entry, settings, _last_state(problem)).total


def _in_processes(
    tasks: Mapping[str, Any], totals: Mapping[str, int], seeds: str, workers: int, progress: bool | None
) -> Iterator[tuple[str, list[Row] | str]]:
    context = get_context("spawn")
    queue = context.Queue()
    number = min(workers, len(tasks))
    with (
        ProcessPoolExecutor(number, mp_context=context, initializer=_set_queue, initargs=(queue,)) as pool,
        comparison_meter(totals, seeds, progress, number) as show,
    ):
        futures: dict[Future[list[Row]], str] = {pool.submit(_run_task, task): x for x, task in tasks.items()}
        try:
            while futures:
                done, _ = wait(futures, POLL_SECONDS, "FIRST_COMPLETED")
                for label, episodes in _drain(queue):
                    show(label, episodes)
                for future in done:
                    label = futures.pop(future)
                    show(label, totals[label])
                    error = future.exception()
                    yield label, future.result() if error is None else f"{type(error).__name__}: {error}"
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _drain(queue: Any) -> Iterator[tuple[str, int]]:
    while True:
        try:
            yield queue.get_nowait()
        except Empty:
            return


_queue: Any = None  # of a worker process: (label, episodes done)


def _set_queue(queue: Any) -> None:
    global _queue
    _queue = queue


@x64
def _run_task(task: tuple[Problem, str, Entry, dict[str, Any]]) -> list[Row]:
    problem, label, entry, settings = task
    prepared = _prepare(problem, entry, settings, _last_state(problem))
    return prepared.rows(label, lambda done: None if _queue is None else _queue.put((label, done)))


def _last_state(problem: Problem) -> Any:
    return occupancy(problem, problem.num_states - 1)


def _seeds_text(seeds: Any) -> str:
    """Which seeds, for progress; they are checked."""
    seed_list = list(seeds) if np.iterable(seeds) else list(range(int(seeds)))
    if len(seed_list) == 1:
        return f"seed {seed_list[0]}"
    return f"seeds {seed_list[0]} to {seed_list[-1]}" if seed_list else "no seeds"


def parse_entries(explorers: Any) -> dict[str, Entry]:
    """The explorers of a comparison by their labels."""
    is_list = isinstance(explorers, (Mapping, Sequence)) and not isinstance(explorers, str)
    require(is_list, "explorers", explorers, "a list of names, or names with options")
    if isinstance(explorers, Mapping):
        tables = dict(explorers)
    else:
        for x in explorers:
            require(isinstance(x, (str, Explorer)), "an entry of explorers", x, "a name or an explorer")
        tables = {}
        for x in explorers:
            tables[_unused_name(x if isinstance(x, str) else describe(x)[0], tables)] = (
                {} if isinstance(x, str) else x
            )
    require(tables, "explorers", explorers, "a list of at least one; there is nothing to compare")
    return {str(name): _entry(name, table) for name, table in tables.items()}


def _unused_name(name: str, tables: Mapping[str, Any]) -> str:
    """The name, or with the first number that makes it another label."""
    i, label = 1, name
    while label in tables:
        i += 1
        label = f"{name} {i}"
    return label


def _entry(name: Any, table: Any) -> Entry:
    require(isinstance(name, str), "an entry of explorers", name, "a name")
    if isinstance(table, Explorer):
        return Entry(describe(table)[0], {}, table)
    require(isinstance(table, Mapping), f"what explorer {short_repr(name)} has", table, "options by name")
    options = {str(key): x for key, x in table.items()}
    algorithm, seen_as = options.pop("name", name), options.pop("seen_as", None)
    if isinstance(algorithm, Explorer):
        return Entry(describe(algorithm)[0], options, algorithm, seen_as)
    algorithm = resolve_typed_name(algorithm)
    find_entry(algorithm)
    return Entry(algorithm, options, None, seen_as)


def explorer_label(row: Row) -> str:
    """The label of a row's explorer in tables, with its marks (registry.marks)."""
    return str(row["explorer"]) + str(row.get("marks", display_marks(algorithm_name(row))))


def algorithm_name(row: Row) -> str:
    """The name of a row's explorer in the registry."""
    return str(row["algorithm"] if "algorithm" in row else row["explorer"])


def medians(rows: Sequence[Row], curve: str) -> dict[str, dict[int, float]]:
    """The median over seeds of one curve: label of the explorer -> episodes -> value."""
    return {
        name: {k: float(np.median(x)) for k, x in by_k.items()}
        for name, by_k in by_label(rows, curve).items()
    }


def by_label(rows: Sequence[Row], curve: str) -> dict[str, dict[int, list[float]]]:
    """The values of one curve over the seeds: label of the explorer -> episodes -> values."""
    values: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        values.setdefault(explorer_label(row), {}).setdefault(row["episodes"], []).append(row[curve])
    return values


def without_rounding(x: float) -> float:
    """A true suboptimality without rounding errors, which may be negative."""
    return x if x >= LOSS_TOLERANCE else 0.0


def plot_comparison(rows: Sequence[Row], axes: Any = None) -> Any:
    """True and certified suboptimality against episodes, two axes. Dashed: one reward; dotted: baselines."""
    if not rows:
        raise OptionError("there are no rows to plot; no explorer finished")
    axes = new_axes(len(PLOTTED)) if axes is None else np.atleast_1d(axes)
    styles = {explorer_label(row): _style(algorithm_name(row)) for row in rows}
    for ax, curve in zip(axes, PLOTTED, strict=True):
        draw_bands(ax, by_label(rows, curve), styles)
        ax.set(title=CURVE_TITLES[curve], xlabel="episodes")
    axes[0].set_ylabel("suboptimality, of a total of 1")
    legend(axes[0].get_figure(), axes[0])
    return axes


def _style(algorithm: str) -> str:
    if algorithm in BASELINES:
        return ":"
    return "--" if ":" not in algorithm and "reward" in find_entry(algorithm).options else "-"
