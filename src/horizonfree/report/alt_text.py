"""Alternative texts of the figures of a report."""

from collections.abc import Mapping, Sequence

import numpy as np

from horizonfree.report.facts import Example, Facts, state_text
from horizonfree.report.history import Moment


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
    return texts | {f"plan-{i + 1}": _plan(facts, x) for i, x in enumerate(facts.examples)}


def gaps_text(histories: Mapping[str, Sequence[Moment]], has_truth: bool, worst_goal: str) -> str:
    """The first and the last certified bound of each run."""
    parts = []
    for name, history in histories.items():
        first, last = history[0], history[-1]
        since = "" if len(history) == 1 else f", from {first.eps:.3g} after {first.episodes:,}"
        true = f"; true suboptimality at the {worst_goal}: {max(last.true_gap, 0):.2g}" if has_truth else ""
        parts.append(
            f"{name}: certified for every reward {last.eps:.3g} after {last.episodes:,} episodes{since}{true}"
        )
    return "Suboptimality against episodes, logarithmic. " + ". ".join(parts) + "."


def _states(facts: Facts) -> str:
    visited, most = int((facts.visits > 0).sum()), int(facts.visits.argmax())
    text = (
        f"Visits of the states: {visited} of {facts.problem.num_states} were visited, "
        f"{state_text(facts.problem, most)} most often ({facts.visits[most]:,} steps)."
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
    shown = np.flatnonzero(x.is_learnable)[:12]
    each = [f"weight {i} {x.estimate[i]:.3g}, from {x.low[i]:.3g} to {x.high[i]:.3g}" for i in shown]
    return "Estimated weights with their intervals: " + "; ".join(each) + "."


def _records(facts: Facts) -> str:
    each = [
        f"{name.replace('_', ' ')} from {x[0]:.3g} to {x[-1]:.3g}"
        for name, x in facts.records.items()
        if len(x)
    ]
    return "Records of the explorer, first and last episode: " + "; ".join(each) + "."


def _robustness(facts: Facts) -> str:
    """The ends of the robustness curves."""
    if facts.robustness is None:
        return ""
    each = []
    for name, x in zip(("every reward", "one reward"), facts.robustness):
        there = np.flatnonzero(np.isfinite(x.gaps))
        if len(there):
            first, last = there[0], there[-1]
            each.append(
                f"{name}: {x.gaps[first]:.3g} at {x.zetas[first]:.3g}, {x.gaps[last]:.3g} at {x.zetas[last]:.3g}"
            )
    return "Certified suboptimality against misspecification. " + "; ".join(each) + "."


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
    return f"{text} First action at the start: {names[int(x.policy[start])]}."
