"""Reports and comparisons as self-contained HTML pages."""

import errno
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from horizonfree._extras import check_extra, needs_extra
from horizonfree.errors import OptionError
from horizonfree.guarantees.certificate import MEANINGS, confidence_of, interval, round_up, round_up_text
from horizonfree.mdp.names import name_of
from horizonfree.models.base import probabilities
from horizonfree.report import draw, theme
from horizonfree.report.draw import Picture, pictures
from horizonfree.report.facts import Example, Facts, Moment, compute_facts, marked_starts, state_text
from horizonfree.report.within import Limits, with_names
from horizonfree.runs.audit import audit
from horizonfree.runs.constrained import Constraint
from horizonfree.runs.credible import Likely
from horizonfree.runs.plan import ConstrainedPlan
from horizonfree.runs.recipes import versions
from horizonfree.runs.run import Run

if TYPE_CHECKING:
    from jinja2 import Environment

# Alternative texts of the figures of a report.


def alt_texts(facts: Facts) -> dict[str, str]:
    """An alternative text for every figure of the report by its name."""
    texts = {
        "gap": gaps_text(
            {facts.explorer: facts.history}, facts.has_truth and not facts.forecast, facts.worst_goal
        ),
        "states": _states(facts),
        "weights": _weights(facts),
        "records": _records(facts),
        "robustness": _robustness(facts),
    }
    if facts.limits is not None and facts.limits.trade_off is not None:
        texts["trade-off"] = _trade_off(facts.limits)
    return texts | {f"plan-{i + 1}": _plan(facts, x) for i, x in enumerate(facts.examples)}


def gaps_text(histories: Mapping[str, Sequence[Moment]], has_truth: bool, worst_goal: str) -> str:
    """The first and the last certified bound of each run."""
    parts = []
    for name, history in histories.items():
        first, last = history[0], history[-1]
        change_text = "" if len(history) == 1 else f", from {first.eps:.3g} after {first.episodes:,}"
        true = f"; true suboptimality at the {worst_goal}: {max(last.true_gap, 0):.2g}" if has_truth else ""
        parts.append(
            f"{name}: certified for every reward {last.eps:.3g} after {last.episodes:,} episodes{change_text}{true}"
        )
    return "Suboptimality against episodes, logarithmic. " + ". ".join(parts) + "."


def _states(facts: Facts) -> str:
    visited, largest_visits = int((facts.visits > 0).sum()), int(facts.visits.argmax())
    text = (
        f"Visits of the states: {visited} of {facts.problem.num_states} were visited, "
        f"{state_text(facts.problem, largest_visits)} most often ({facts.visits[largest_visits]:,} steps)."
    )
    if not np.isfinite(facts.uncertainty).any():
        return text
    largest = int(np.nanargmax(facts.uncertainty))
    where = f"most, {facts.uncertainty[largest]:.3g}, in {state_text(facts.problem, largest)}"
    return f"{text} Uncertainty of transition probabilities: {where}."


def _weights(facts: Facts) -> str:
    x = facts.intervals
    if x is None:
        return ""
    indices = np.flatnonzero(x.is_learnable)[:12]
    sentences = [f"weight {i} {x.estimate[i]:.3g}, from {x.low[i]:.3g} to {x.high[i]:.3g}" for i in indices]
    return "Estimated weights with their intervals: " + "; ".join(sentences) + "."


def _records(facts: Facts) -> str:
    sentences = [
        f"{name.replace('_', ' ')} from {x[0]:.3g} to {x[-1]:.3g}"
        for name, x in facts.records.items()
        if len(x)
    ]
    return "Records of the explorer, first and last episode: " + "; ".join(sentences) + "."


def _robustness(facts: Facts) -> str:
    """The ends of the robustness curves."""
    if facts.robustness is None:
        return ""
    sentences = []
    for name, x in zip(("every reward", "one reward"), facts.robustness):
        finite = np.flatnonzero(np.isfinite(x.gaps))
        if len(finite):
            first, last = finite[0], finite[-1]
            sentences.append(
                f"{name}: {x.gaps[first]:.3g} at {x.zetas[first]:.3g}, {x.gaps[last]:.3g} at {x.zetas[last]:.3g}"
            )
    return "Certified suboptimality against misspecification. " + "; ".join(sentences) + "."


def _trade_off(limits: Limits) -> str:
    """The ends of the trade-off, and the bound."""
    assert limits.cost is not None
    return (
        f"Best value against the bound of {limits.cost.name}, with a certified band: {limits.trade_off}. "
        f"A line marks the bound asked for, {limits.cost.bound:.12g}."
    )


def _plan(facts: Facts, x: Example) -> str:
    """The states with the largest and smallest value, and the first action."""
    best, worst = int(x.V.argmax()), int(x.V.argmin())
    text = (
        f"Map of the plan for: {x.title}. Values from {x.V[worst]:.3g} in {state_text(facts.problem, worst)} "
        f"to {x.V[best]:.3g} in {state_text(facts.problem, best)}."
    )
    start = facts.problem.space.start
    if start is None:
        return text
    names = facts.problem.layout.get("actions") or [f"action {a}" for a in range(facts.problem.num_actions)]
    actions = np.flatnonzero(x.policy[start] >= draw.MIN_PROBABILITY)
    shares = [names[a] if len(actions) == 1 else f"{names[a]} {x.policy[start, a]:.0%}" for a in actions]
    return f"{text} First action at the start: {', '.join(shares)}."


MAX_LIST = 12  # entries of a list
SEED_SPREAD = (
    0.2  # seeds of one explorer differ by so much (a deviation of 4 to 8 % each, experiments/certificates)
)


def write_report(
    run: Run, path: str | Path, *, delta: float = 0.05, constraints: Sequence[Constraint] = ()
) -> Path:
    """Write the report of a run at confidence 1 - delta; returns its path.

    constraints: as for `Run.plan`; the plans of the report are then within them.

    >>> import tempfile, horizonfree as hf
    >>> run = hf.explore(hf.make("river-swim", states=4, horizon=8), episodes=20, progress=False)
    >>> hf.report.write_report(run, tempfile.mkdtemp() + "/report.html").name
    'report.html'
    """
    check_target(path)
    return write_page(compute_facts(run, delta, constraints=constraints), path)


def write_page(
    facts: Facts,
    path: str | Path,
    drawn: Mapping[str, Picture] | None = None,
    decision: Mapping[str, Any] | None = None,
) -> Path:
    """Write the report of facts, with pictures if they are already drawn; decision: that of `decide`, shown first."""
    texts = alt_texts(facts)
    drawn = pictures(facts) if drawn is None else drawn
    images = {name: theme.inline_svg(picture.svg, texts[name]) for name, picture in drawn.items()}
    values = {
        "decision": decision,
        "facts": facts,
        "rings": marked_starts(facts.problem),
        "meanings": MEANINGS,
    }
    text = environment().get_template("report.html").render(figures=images, **values)
    return write_text(path, text)


def write_comparison(runs: Mapping[str, Run], path: str | Path, *, delta: float = 0.05) -> Path:
    """Write a comparison of several runs, named by the keys."""
    check_target(path)
    return write_comparison_page(facts_of_runs(runs, delta), path)


def write_comparison_page(runs: Mapping[str, Facts], path: str | Path) -> Path:
    """Write a comparison of facts."""
    has_truth = all(x.has_truth for x in runs.values())
    goal_counts = {x.worst_goal for x in runs.values()}
    worst_goal = goal_counts.pop() if len(goal_counts) == 1 else "worst goal evaluated"
    with theme.style():
        histories = {name: x.history for name, x in runs.items()}
        figure = draw.gaps(histories, has_truth, worst_goal)
    problems = sorted({_problem_line(x) for x in runs.values()})
    text = (
        environment()
        .get_template("compare.html")
        .render(
            runs=runs,
            table={name: summary_row(x) for name, x in runs.items()},
            best=_best_runs(runs),
            figure=theme.inline_svg(
                theme.to_svg(figure, "gaps"), gaps_text(histories, has_truth, worst_goal)
            ),
            problems=problems,
            delta=next(iter(runs.values())).delta,
            has_truth=has_truth,
            worst_goal=worst_goal,
            versions=versions(),
        )
    )
    return write_text(path, text)


def compare(runs: Mapping[str, Run], *, delta: float = 0.05) -> list[dict[str, Any]]:
    """The table of a comparison, one row per run, in plain numbers; None where a number does not exist."""
    return rows_of(facts_of_runs(runs, delta))


def rows_of(runs: Mapping[str, Facts]) -> list[dict[str, Any]]:
    """The table of a comparison of facts."""
    return [{"run": name} | summary_row(x) for name, x in runs.items()]


def summary_row(facts: Facts) -> dict[str, Any]:
    """One row of a comparison."""
    moment = facts.now
    return {
        "problem": facts.problem.name,
        "explorer": facts.explorer,
        "episodes": facts.episodes,
        "certified_gap": facts.certificate.eps,
        "summary": facts.certificate.summary(),
        "forecast": facts.certificate.forecast,
        "goals_gap": facts.family.eps,
        "goals_summary": facts.family.summary(),
        "worst_true_gap": None if np.isnan(moment.true_gap) else max(0.0, moment.true_gap),
        "goals": len(facts.goals.every),
        "goals_scored": len(facts.goals.scored) if facts.has_truth else None,
        "doubt": moment.uncertainty,
        "inefficiency": None if np.isnan(moment.inefficiency) else moment.inefficiency,
        "seed": facts.seed,
    }


def facts_of_runs(runs: Mapping[str, Run], delta: float) -> dict[str, Facts]:
    """The facts of several runs, without robustness."""
    if not runs:
        raise OptionError("there is nothing to compare; give at least one run")
    return {name: compute_facts(run, delta, has_robustness=False) for name, run in runs.items()}


def _best_runs(runs: Mapping[str, Facts]) -> list[str]:
    """The runs with the smallest bound for every reward, up to differences between seeds."""
    bounds = {name: x.certificate.eps for name, x in runs.items() if not x.certificate.is_vacuous}
    return [name for name, eps in bounds.items() if eps <= (1 + SEED_SPREAD) * min(bounds.values())]


def _problem_line(facts: Facts) -> str:
    p = facts.problem
    return f"{p.name}: {p.num_states} states, {p.num_actions} actions, {p.horizon} steps an episode"


@cache
def environment() -> "Environment":
    """The templates with their filters."""
    with needs_extra("report", "reports and figures"):
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("horizonfree.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "svg": Markup,
        "number": number,
        "bound": bound,
        "between": value_interval,
        "likely_between": likely_interval,
        "interval": _interval,
        "confidence": confidence_of,
        "sentence": sentence,
        "lower_first": lower_first,
        "setting": setting,
    }
    return environment


def number(x: float | None) -> str:
    """A number with about three digits and without an exponent."""
    if x is None or np.isnan(x):
        return "–"
    if 0 < abs(x) < 1e-6:
        return "under 0.000001"
    if abs(x) >= 100 or x == int(x):
        return f"{x:,.0f}"
    return f"{x:.{max(0, 2 - math.floor(math.log10(abs(x))))}f}" if abs(x) >= 1e-3 else f"{x:.6f}".rstrip("0")


def bound(x: float) -> str:
    """A bound, rounded up; tiny ones with an exponent."""
    return round_up_text(x) if x < 1e-6 else number(round_up(x, finest=1e-6))


def value_interval(example: Example) -> str:
    """The confidence interval of a plan's value."""
    return interval(example.value_low, example.value_high)


def likely_interval(guess: Likely) -> str:
    """The credible interval of a plan's value."""
    return interval(guess.low, guess.high)


def _interval(ends: list[float] | None, center: float | None = None) -> str:
    """The ends of an interval, rounded outwards; `beside`: a bound that stands with it."""
    return "–" if ends is None else interval(ends[0], ends[1], center)


def sentence(statement: object) -> str:
    """The statement of a certificate with a capital letter."""
    text = str(statement).removeprefix("vacuous: ")
    return text[:1].upper() + text[1:]


def lower_first(text: str) -> str:
    """A title within a sentence."""
    return text[:1].lower() + text[1:]


def setting(x: Any) -> str:
    """The value of an option; arrays by their shape, long lists by their length."""
    if isinstance(x, (list, tuple)) and len(x) > MAX_LIST:
        return f"list of {len(x)}"
    return f"array {list(x.shape)}" if isinstance(x, np.ndarray) else str(x)


def write_text(path: str | Path, text: str) -> Path:
    """Write a file atomically; errors name the file."""
    path = Path(path)
    with _temporary_file(path) as partial:
        partial.write_text(text, encoding="utf-8", errors="replace")  # lone surrogates cannot be encoded
        partial.replace(path)
    return path


def check_target(path: str | Path) -> None:
    """An error if the page cannot be drawn or written, before long work; its folder is created."""
    check_extra("report", "reports and figures")
    with _temporary_file(Path(path)) as partial:
        partial.touch()


@contextmanager
def _temporary_file(path: Path) -> Iterator[Path]:
    """A temporary file next to another, removed at the end; errors name the other."""
    partial = path.parent / f".{path.name}.{os.getpid()}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        try:
            yield partial
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


# The first screen of an analyst's report: the plan for a cost beside today's policy, with names.


MAX_ROWS = 24  # states of the table
MIN_TIME = 5e-4  # share of the steps from which on a state is listed


def decide(
    run: Run,
    reward: Any,
    today: Any = None,
    *,
    is_cost: bool = False,
    delta: float = 0.05,
    constraints: Sequence[Constraint] = (),
) -> dict[str, Any]:
    """The audit of the best plan against today's policy as plain data, with a row for each state.

    today: as for `Run.evaluate`; None: the policy of the data. constraints: as for `Run.plan`.
    """
    plan = run.plan(reward, scale="rescale", delta=delta, constraints=with_names(run, constraints) or None)
    if isinstance(plan, ConstrainedPlan) and plan.memory is not None:
        raise OptionError(
            "a decision compares policies of states and steps, and a plan within constraints on events remembers what "
            "happened; leave --cost and --reward out, or give the constraints as costs of states and actions"
        )
    result = audit(run, reward, plan.policy, today, delta=delta)
    share = plan.occupancy.mean(axis=0)
    states = np.flatnonzero(share >= MIN_TIME)
    order = np.sort(states[np.argsort(-share[states], kind="stable")[:MAX_ROWS]])
    new, old = (probabilities(x.policy, run.problem.num_actions) for x in (result.new, result.incumbent))
    layout = run.problem.layout
    rows = [
        {
            "state": name_of(layout, "states", int(s)),
            "time": f"{share[s]:.1%}",
            "plan": _actions(new[:, s], plan.occupancy[:, s], layout),
            "today": _actions(old[:, s], plan.occupancy[:, s], layout),
        }
        for s in order
    ]
    decision = {
        **result.to_dict(is_cost=is_cost),
        "today": "the policy of the data" if today is None else "today's policy",
        "rows": rows,
        "more_states": int((share > 0).sum()) - len(order),
    }
    if isinstance(plan, ConstrainedPlan):
        decision["within"] = _constraint_data(run, plan, constraints, result.incumbent.policy, delta)
    return decision


def _constraint_data(
    run: Run, plan: ConstrainedPlan, constraints: Sequence[Constraint], today: np.ndarray, delta: float
) -> dict[str, Any]:
    """What is proved of the constraints under the plan and under today's policy."""
    evaluated = [run.evaluate(x.reward, today, scale="rescale", delta=delta) for x in constraints]
    old = [
        replace(x, value=y.value, low=y.value_low, high=y.value_high)
        for x, y in zip(plan.constraints, evaluated)
    ]
    return {
        "status": plan.status,
        "summary": plan.certificate.summary(),
        "forecast": plan.certificate.forecast,
        "gap": plan.gap,
        "constraints": [x.to_dict() for x in plan.constraints],
        "today": [x.to_dict() for x in old],
    }


def _actions(table: np.ndarray, mu: np.ndarray, layout: Any) -> str:
    """What a policy [H, A] does in a state, on average over the steps at which the plan is there."""
    share = mu @ table / mu.sum()
    main = [a for a in np.argsort(-share, kind="stable") if share[a] >= 0.005]
    if len(main) == 1:
        return name_of(layout, "actions", int(main[0]))
    return ", ".join(f"{name_of(layout, 'actions', int(a))} {share[a]:.0%}" for a in main)
