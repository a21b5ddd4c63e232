"""The contents of a report, as numbers and texts.

The history has certificates after earlier numbers of episodes, computed from the evidence alone. Tabular evidence has
no history: the present is the only moment, and a forecast is computed instead.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from horizonfree.errors import HorizonfreeError
from horizonfree.explorers.registry import label
from horizonfree.guarantees.certificate import Certificate
from horizonfree.guarantees.e_processes import Check
from horizonfree.mdp import names, rewards
from horizonfree.mdp.events import Event, reach
from horizonfree.mdp.rewards import goal
from horizonfree.mdp.space import occupied_states
from horizonfree.models import certify
from horizonfree.models.base import Confidence, Description, Evidence, Intervals, Model, probabilities
from horizonfree.models.registry import diagnostics_of
from horizonfree.planning import evaluate, optimal
from horizonfree.problems.problem import Problem, true_gap
from horizonfree.report.within import ConstraintStatus, Limits, answer, limits_of, with_names
from horizonfree.runs.certificates import Robustness
from horizonfree.runs.constrained import Constraint
from horizonfree.runs.credible import Likely, likely
from horizonfree.runs.plan import Plan
from horizonfree.runs.recipes import versions
from horizonfree.runs.reward_spec import event_values
from horizonfree.runs.run import Run
from horizonfree.runs.state import ENDED_IN

MAX_SCORED_GOALS = 64  # goals whose true suboptimality is computed
MAX_GOAL_BYTES = 2**27  # of their tables
MAX_GOALS = 200  # goals that are certified; of more, those that are scored, evenly spaced
FORECAST_FACTORS = np.geomspace(1, 100, 21)  # of the amount of data
ROBUSTNESS_TARGET = 0.5  # suboptimality bound of the robustness section
MAX_COLUMNS = 12  # of a map on a third of the page
MAX_MARKED_STARTS = 24  # in a map
LOGGED_LABEL = "logged episodes"  # in place of an explorer


class Moment(NamedTuple):
    """After some episodes: certified bound, mean uncertainty, inefficiency, true suboptimality (nan if unknown)."""

    episodes: int
    eps: float
    uncertainty: float
    inefficiency: float
    true_gap: float


class GoalStates(NamedTuple):
    """All states that can be a goal, and those for which the true suboptimality is computed."""

    every: Int[np.ndarray, " G"]
    scored: Int[np.ndarray, " R"]


def history_of(run: Run, delta: float) -> list[Moment]:
    """The earlier moments in the evidence, and the present.

    Only the present for kernels estimated from samples, whose certificates need counts by blocks.
    """
    model, result = run.problem.model, []
    past = [] if run.problem.sampling is not None else diagnostics_of(model).evidence_history(run.evidence)
    rewards = None if run.problem.truth is None else goals(run)
    for evidence in [*past, run.evidence]:
        is_now = evidence is run.evidence
        confidence = run.confidence(delta) if is_now else certify.confidence(model, evidence, delta=delta)
        moment = Moment(
            int(evidence.episodes),
            certify.smallest(model, evidence, confidence).eps,
            diagnostics_of(model).mean_uncertainty(confidence),
            inefficiency(model, evidence),
            float("nan") if rewards is None else _true_gap(run, confidence, rewards),
        )
        result.append(moment)
    return result


def forecast_curve(run: Run, delta: float) -> list[tuple[float, float]]:
    """(episodes, certified bound) for an unchanged estimate and more data; empty if nothing is certified yet."""
    confidence = run.confidence(delta)
    if confidence.is_refuted or run.problem.model.num_unknown == 0 or not confidence.eps < 1:
        return []
    forecasts = [confidence.after(float(times)) for times in FORECAST_FACTORS]
    return [(run.episodes + num_more, float(forecast.eps)) for forecast, num_more in forecasts]


def _true_gap(run: Run, confidence: Confidence, rewards: Float[np.ndarray, "R H S A"]) -> float:
    """The true suboptimality of plans in the estimate of this confidence, the largest over the rewards."""
    kernel, at_start = run.problem.kernel(), run.problem.space.at_start
    policy = optimal(confidence.kernel, rewards).policy
    gaps = at_start(optimal(kernel, rewards).V[:, 0] - evaluate(kernel, rewards, policy)[:, 0])
    return max(float(gaps.max()), 0.0)


def goals(run: Run) -> Float[np.ndarray, "R H S A"]:
    """The goal rewards for the true suboptimality."""
    return np.stack([goal(run.problem, int(s)) for s in goal_states(run).scored])


def goal_states(run: Run) -> GoalStates:
    """States that can be occupied at the last step; of many, evenly spaced ones are scored."""
    space = run.problem.space
    states = np.flatnonzero(occupied_states(space)[-1])
    size = 8 * int(np.prod(space.sizes))
    count = max(1, min(MAX_SCORED_GOALS, MAX_GOAL_BYTES // size, len(states)))
    return GoalStates(states, states[np.linspace(0, len(states) - 1, count).round().astype(int)])


def inefficiency(model: Model, evidence: Evidence) -> float:
    """1 / G-efficiency: 1 for the G-optimal design, 2 if twice the episodes are needed; nan if nothing is unknown."""
    if model.num_unknown == 0:
        return float("nan")
    return diagnostics_of(model).inefficiency(evidence)


class Example(NamedTuple):
    """A plan for one reward, with a confidence interval.

    `policy`: probabilities of actions at the first step. `best`: the true optimal value, `loss`: the true
    suboptimality, or None. `likely`: from the posterior, not proved. `within`: results for the constraints, if
    any; gap, best and loss are then against policies that satisfy them.
    """

    title: str
    states: list[int]
    value: float
    value_low: float
    value_high: float
    gap: float
    statement: str
    policy: Float[np.ndarray, "S A"]
    V: Float[np.ndarray, " S"]
    best: float | None
    loss: float | None
    likely: Likely
    within: ConstraintStatus | None = None


@dataclass(frozen=True)
class Facts:
    """One run at one confidence. `certificate` is for every reward, `family` for all goals.

    `check`: the test against richer classes. `forecast`: a curve, where the evidence has no history. `robustness`: for
    every reward and for the first example, or None. `limits`: the constraints, which apply to the examples only.
    """

    problem: Problem
    explorer: str
    options: Mapping[str, Any]
    seed: int
    episodes: int
    delta: float
    num_unknown: int
    description: Description
    certificate: Certificate
    family: Certificate
    check: Check
    history: list[Moment]
    forecast: list[tuple[float, float]]
    goals: GoalStates
    records: Mapping[str, np.ndarray]
    visits: Int[np.ndarray, " S"]
    uncertainty: Float[np.ndarray, " S"]
    intervals: Intervals | None
    truth: Float[np.ndarray, " d"] | None
    examples: list[Example]
    robustness: tuple[Robustness, Robustness] | None
    versions: Mapping[str, str]
    limits: Limits | None = None

    @property
    def now(self) -> Moment:
        """The last entry of the history."""
        return self.history[-1]

    @property
    def has_cells(self) -> bool:
        """Whether the states are cells of a grid."""
        return self.problem.layout.get("cells") is not None

    @property
    def is_wide(self) -> bool:
        """Whether a map needs the full width of the page."""
        return self.has_cells and is_wide(self.problem)

    @property
    def uses_reward(self) -> bool:
        """Whether the explorer used a reward."""
        return uses_reward(self.options)

    @property
    def is_logged(self) -> bool:
        """Whether the episodes were logged."""
        return self.explorer == LOGGED_LABEL

    @property
    def worst_goal(self) -> str:
        """The goals of which the true suboptimality is the largest."""
        num_goals, num_scored = map(len, self.goals)
        return "worst goal" if num_scored == num_goals else f"worst of {num_scored} goals"

    @property
    def family_name(self) -> str:
        """The goals of `family`."""
        return goals_name(self.goals)

    @property
    def hardest_goal(self) -> str:
        """The goal with the largest bound."""
        return state_text(self.problem, int(certified_goals(self.goals)[int(self.family.parts["worst"])]))

    @property
    def start_name(self) -> str:
        """Where episodes start, as text."""
        start = self.problem.space.start
        return self.problem.start_name() if start is None else state_text(self.problem, start)

    @property
    def has_truth(self) -> bool:
        """Whether the truth is known, as in a simulation."""
        return self.problem.truth is not None


def compute_facts(
    run: Run, delta: float = 0.05, *, has_robustness: bool = True, constraints: Sequence[Constraint] = ()
) -> Facts:
    """The facts of a run, with plans within constraints; has_robustness=False leaves out the slowest part."""
    run = without_assumed_truth(run)
    checked = with_names(run, constraints)
    examples, refused = examples_of(run, delta, checked)
    name, options = explorer_label_of(run)
    confidence, model = run.confidence(delta), run.problem.model
    history = history_of(run, delta)
    return Facts(
        problem=run.problem,
        explorer=name,
        options=options,
        seed=run.seed,
        episodes=run.episodes,
        delta=delta,
        num_unknown=model.num_unknown,
        description=model.describe(),
        certificate=run.certificate(delta),
        family=goals_certificate(run, delta),
        check=run.check(delta=delta),
        history=history,
        forecast=forecast_curve(run, delta) if len(history) == 1 else [],
        goals=goal_states(run),
        records={name: x for name, x in run.records.items() if name != ENDED_IN},
        visits=run.visits.sum(axis=1),
        uncertainty=diagnostics_of(model).row_uncertainty(confidence),
        intervals=diagnostics_of(model).intervals(confidence),
        truth=None if run.problem.truth is None else diagnostics_of(model).in_units(run.problem.truth),
        examples=examples,
        robustness=_robustness(run, delta) if has_robustness else None,
        versions=versions(),
        limits=limits_of(run, example_rewards(run.problem)[0][2], checked, refused, delta)
        if checked
        else None,
    )


def _robustness(run: Run, delta: float) -> tuple[Robustness, Robustness] | None:
    """Robustness for every reward and for the first example; for mixtures with a history."""
    if (
        not run.evidence.has_history
        or run.problem.model.num_unknown == 0
        or run.episodes == 0
        or run.problem.sampling is not None
    ):
        return None
    _, _, table = example_rewards(run.problem)[0]
    return run.robustness(ROBUSTNESS_TARGET, delta=delta), run.robustness(
        ROBUSTNESS_TARGET, reward=table, delta=delta
    )


def explorer_label_of(run: Run) -> tuple[str, dict[str, Any]]:
    """The label of the explorer of a run, and its options."""
    if run.explorer_spec is None:
        return LOGGED_LABEL, {}
    name, options = run.explorer_spec.name, dict(run.explorer_spec.options)
    return label(name, options), options


def uses_reward(options: Mapping[str, Any]) -> bool:
    """Whether an explorer with these options uses a reward."""
    return "reward" in options


def without_assumed_truth(run: Run) -> Run:
    """The run without the truth of its problem if a real environment was explored, which may differ from it."""
    if run.is_simulated or run.problem.truth is None:
        return run
    return replace(run, problem=run.problem._replace(truth=None))


def example_states(problem: Problem) -> tuple[int, int]:
    """A state near the start, and one halfway to the farthest."""
    is_occupied = occupied_states(problem.space)
    first_step = np.where(is_occupied.any(axis=0), is_occupied.argmax(axis=0), -1)
    quarter, half = (
        np.flatnonzero(first_step == math.ceil(share * first_step.max())) for share in (0.25, 0.5)
    )
    quarter_state = int(quarter[len(quarter) // 2])
    rest_states = half[half != quarter_state] if len(half) > 1 else half
    return quarter_state, int(rest_states[len(rest_states) // 2])


def example_rewards(problem: Problem) -> list[tuple[str, list[int], Float[np.ndarray, "H S A"]]]:
    """Three rewards of any problem: to end in a near state, to end halfway, to stay in the near state."""
    quarter_state, halfway = example_states(problem)
    return [
        (
            f"End in {state_text(problem, quarter_state)}",
            [quarter_state],
            rewards.goal(problem, quarter_state),
        ),
        (f"End in {state_text(problem, halfway)}", [halfway], rewards.goal(problem, halfway)),
        (
            f"Stay in {state_text(problem, quarter_state)}",
            [quarter_state],
            rewards.occupancy(problem, quarter_state),
        ),
    ]


def examples_of(
    run: Run, delta: float, constraints: Sequence[Constraint] = ()
) -> tuple[list[Example], list[tuple[str, str]]]:
    """The plans for three rewards, and the one for reaching a state, where that can be certified.

    Within constraints also the titles of those that cannot be planned, with the error.
    """
    titled_rewards = example_rewards(run.problem)
    if constraints:
        return examples_within(run, delta, titled_rewards, constraints)
    examples = [example(run, title, states, table, delta) for title, states, table in titled_rewards]
    with suppress(HorizonfreeError):  # too large, or kernels from samples
        examples.append(reach_example(run, delta))
    return examples, []


def examples_within(
    run: Run,
    delta: float,
    titled_rewards: list[tuple[str, list[int], Any]],
    constraints: Sequence[Constraint],
) -> tuple[list[Example], list[tuple[str, str]]]:
    """The plans for the same rewards within constraints, and which of them cannot be planned."""
    examples, refused = [], []
    for title, states, reward in [*titled_rewards, reach_event(run.problem)]:
        try:
            plan, V, best, loss, within = answer(run, reward, constraints, delta)
        except HorizonfreeError as error:
            if not isinstance(reward, Event):  # the plan for reaching a state may always be left out
                refused.append((title, str(error)))
            continue
        policy = plan.policy[0, : run.problem.num_states]  # where no event is decided yet
        examples.append(make_example(title, states, plan, policy, V, best, loss, within))
    return examples, refused


def reach_event(problem: Problem) -> tuple[str, list[int], Event]:
    """To be at least once in the state halfway to the farthest."""
    state = example_states(problem)[1]
    return f"Reach {state_text(problem, state)} at least once", [state], reach(problem, state)


def reach_example(run: Run, delta: float) -> Example:
    """The plan for `reach_event`."""
    problem, (title, states, event) = run.problem, reach_event(run.problem)
    plan = run.plan(event, delta=delta)
    policy = np.concatenate([plan.policy, np.zeros_like(plan.policy, shape=(1, problem.num_states))])
    V = event_values(problem, event, policy, plan.kernel).V[0]
    best = loss = None
    if problem.truth is not None:
        true = event_values(problem, event, policy, problem.kernel())
        best, loss = true.best, max(0.0, true.best - true.value)
    first_actions = probabilities(policy[:1], problem.num_actions)[0]
    return make_example(title, states, plan, first_actions, V, best, loss)


def example(
    run: Run, title: str, states: list[int], table: Float[np.ndarray, "H S A"], delta: float
) -> Example:
    """The plan for a reward, with its true suboptimality where the truth is known."""
    plan, problem = run.plan(table, delta=delta), run.problem
    V = evaluate(plan.kernel, table, plan.policy)[0]
    best = loss = None
    if problem.truth is not None:
        best = float(problem.space.at_start(optimal(problem.kernel(), table).V[0]))
        loss = max(0.0, true_gap(problem, table, plan.policy))
    first_actions = probabilities(plan.policy[:1], problem.num_actions)[0]
    return make_example(title, states, plan, first_actions, V, best, loss)


def make_example(
    title: str,
    states: list[int],
    plan: Plan,
    policy: Float[np.ndarray, "S A"],
    V: Float[np.ndarray, " S"],
    best: float | None,
    loss: float | None,
    within: ConstraintStatus | None = None,
) -> Example:
    """An `Example` from its plan."""
    return Example(
        title,
        states,
        value=plan.value,
        value_low=plan.value_low,
        value_high=plan.value_high,
        gap=plan.gap,
        statement=plan.certificate.summary(),
        policy=policy,
        V=V,
        best=best,
        loss=loss,
        likely=likely(plan.credible),
        within=within,
    )


def num_starts(problem: Problem) -> int:
    """The number of possible first states."""
    return int(problem.space.starts().sum())


def marked_starts(problem: Problem) -> list[int]:
    """The states to mark as starts in a map: none if they are many, or all states."""
    states = np.flatnonzero(problem.space.starts())
    is_useful = len(states) == 1 or len(states) <= min(MAX_MARKED_STARTS, problem.num_states - 1)
    return states.tolist() if is_useful else []


def is_wide(problem: Problem) -> bool:
    """Whether the cells are a single row, or have too many columns for a third of the page."""
    cells = np.asarray(problem.layout["cells"])
    return bool(cells[:, 0].max() >= MAX_COLUMNS or not cells[:, 1].any())


def state_text(problem: Problem, state: int) -> str:
    """A state as text: its name, or its cell on a grid."""
    text = names.state_text(problem.layout, state)
    return f"cell {text}" if text.startswith("(") and "states" not in problem.layout else text


def goals_certificate(run: Run, delta: float = 0.05) -> Certificate:
    """The certificate of all goals, or of evenly spaced ones."""
    goals = goal_states(run)
    if len(goals.every) <= MAX_GOALS:
        return run.certificate(delta, rewards="goals")
    certificate = run.certificate(delta, rewards=[rewards.goal(run.problem, int(s)) for s in goals.scored])
    name = f"{goals_name(goals)}, evenly spaced among {len(goals.every):,}"
    statement = certificate.statement.replace(f"all {len(goals.scored)} rewards", name, 1)
    return replace(certificate, statement=statement)


def certified_goals(goals: GoalStates) -> Int[np.ndarray, " G"]:
    """The goals of `goals_certificate`."""
    return goals.every if len(goals.every) <= MAX_GOALS else goals.scored


def goals_name(goals: GoalStates) -> str:
    """The goals of `goals_certificate`, as text."""
    count = len(certified_goals(goals))
    return f"all {count} goals" if count == len(goals.every) else f"worst of {count} goals"
