"""Everything that a report says of a run, as numbers: the page and the figures only lay it out."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from horizonfree.explorers.registry import label
from horizonfree.guarantees.alternatives import Check
from horizonfree.guarantees.certificate import Certificate
from horizonfree.mdp import rewards
from horizonfree.mdp.space import occupied_states
from horizonfree.models.interface import Description, Intervals
from horizonfree.planning import evaluate, optimal
from horizonfree.problems.problem import Problem
from horizonfree.problems.truth import true_gap
from horizonfree.report.headline import certified, name_of, of_goals
from horizonfree.report.history import GoalStates, Moment, ahead, goal_states, moments
from horizonfree.runs.credible import Likely, likely
from horizonfree.runs.engines import ENDED_IN
from horizonfree.runs.recipes import versions
from horizonfree.runs.robustness import Robustness
from horizonfree.runs.run import Run

DRAWS = 1000  # of the posterior
MOST_COLUMNS = 12  # of a map on a third of the page
MOST_RINGS = 24  # starts that are marked one by one
TARGET = 0.5  # a gap for which the report says how wrong the class may be
LOGGED = "logged episodes"  # instead of an explorer


class Example(NamedTuple):
    """A plan for one reward: its true value is between `value_low` and `value_high`.

    `likely` is what its posterior says, not proved. `best` and `loss` are the truth, where it is known.
    """

    title: str
    states: list[int]
    value: float
    value_low: float
    value_high: float
    gap: float
    words: str
    policy: Int[np.ndarray, " S"]
    V: Float[np.ndarray, " S"]
    best: float | None
    loss: float | None
    likely: Likely


@dataclass(frozen=True)
class Facts:
    """One run at one confidence. `certificate` is for every reward, `family` for the goals together.

    `check` is what richer classes say of this one.
    `ahead` is a forecast, made where the evidence tells of no earlier moment. `robustness` says how wrong the class may
    be, of the plans of every reward and of the first example; None where it is not told or was not asked.
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
    ahead: list[tuple[float, float]]
    goals: GoalStates
    records: Mapping[str, np.ndarray]
    visits: Int[np.ndarray, " S"]
    doubt: Float[np.ndarray, " S"]
    intervals: Intervals | None
    truth: Float[np.ndarray, " d"] | None
    examples: list[Example]
    robustness: tuple[Robustness, Robustness] | None
    versions: Mapping[str, str]

    @property
    def now(self) -> Moment:
        """The last moment."""
        return self.history[-1]

    @property
    def has_cells(self) -> bool:
        """Whether the states have places to be drawn at."""
        return self.problem.layout.get("cells") is not None

    @property
    def is_wide(self) -> bool:
        """Whether a map of the states needs the width of the page."""
        return self.has_cells and is_wide(self.problem)

    @property
    def saw_reward(self) -> bool:
        """Whether the explorer was guided by a reward."""
        return saw_reward(self.options)

    @property
    def is_logged(self) -> bool:
        """Whether somebody else gathered the episodes."""
        return self.explorer == LOGGED

    @property
    def worst_goal(self) -> str:
        """What the true gap of a moment is the loss at."""
        every, scored = map(len, self.goals)
        return "worst goal" if scored == every else f"worst of {scored} goals"

    @property
    def family_name(self) -> str:
        """The goals that `family` is about."""
        return name_of(self.goals)

    @property
    def hardest_goal(self) -> str:
        """Where the largest gap of the goals is."""
        return place(self.problem, int(certified(self.goals)[int(self.family.parts["worst"])]))

    @property
    def first_state(self) -> str:
        """Where an episode starts, in words."""
        return self.problem.first_state()

    @property
    def has_truth(self) -> bool:
        """Whether the hidden truth is known, as in a simulation."""
        return self.problem.truth is not None


def facts(run: Run, delta: float = 0.05, *, has_robustness: bool = True) -> Facts:
    """All of it, computed once; has_robustness: or all but that, which takes longest."""
    run = as_known(run)
    name, options = explorer_of(run)
    confidence, model = run.confidence(delta), run.problem.model
    history = moments(run, delta)
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
        family=of_goals(run, delta),
        check=run.check(delta=delta),
        history=history,
        ahead=ahead(run, delta) if len(history) == 1 else [],
        goals=goal_states(run),
        records={name: x for name, x in run.records.items() if name != ENDED_IN},
        visits=run.visits.sum(axis=1),
        doubt=model.row_uncertainty(confidence),
        intervals=model.intervals(confidence),
        truth=None if run.problem.truth is None else model.in_units(run.problem.truth),
        examples=[example(run, title, states, table, delta) for title, states, table in samples(run.problem)],
        robustness=_robustness(run, delta) if has_robustness else None,
        versions=versions(),
    )


def _robustness(run: Run, delta: float) -> tuple[Robustness, Robustness] | None:
    """How wrong the class may be, for every reward and for the first example; for mixtures with a record."""
    if (
        getattr(run.evidence, "record", None) is None
        or run.problem.model.num_unknown == 0
        or run.episodes == 0
        or run.problem.sampling is not None
    ):
        return None
    _, _, table = samples(run.problem)[0]
    return run.robustness(TARGET, delta=delta), run.robustness(TARGET, reward=table, delta=delta)


def explorer_of(run: Run) -> tuple[str, dict[str, Any]]:
    """The explorer of a run as pages call it, and its options."""
    if run.explorer_spec is None:
        return LOGGED, {}
    name, options = run.explorer_spec.name, dict(run.explorer_spec.options)
    return label(name, options), options


def saw_reward(options: Mapping[str, Any]) -> bool:
    """Whether an explorer with these options is guided by a reward."""
    return "reward" in options


def as_known(run: Run) -> Run:
    """The run, without a truth that is only supposed: a real environment need not have the one of its class."""
    if run.is_simulated or run.problem.truth is None:
        return run
    return replace(run, problem=replace(run.problem, truth=None))


def example_states(problem: Problem) -> tuple[int, int]:
    """A state nearby and one half way out: goals with something to gain and something to lose."""
    occupied = occupied_states(problem.space)
    # The step at which a state can be reached.
    first = np.where(occupied.any(axis=0), occupied.argmax(axis=0), -1)
    near, far = (np.flatnonzero(first == math.ceil(share * first.max())) for share in (0.25, 0.5))
    a = int(near[len(near) // 2])
    others = far[far != a] if len(far) > 1 else far
    return a, int(others[len(others) // 2])


def samples(problem: Problem) -> list[tuple[str, list[int], Float[np.ndarray, "H S A"]]]:
    """Three rewards of any problem: to end at a state nearby, to end at one half way out, to stay at the first."""
    a, b = example_states(problem)
    return [
        (f"End in {place(problem, a)}", [a], rewards.goal(problem, a)),
        (f"End in {place(problem, b)}", [b], rewards.goal(problem, b)),
        (f"Stay in {place(problem, a)}", [a], rewards.occupancy(problem, a)),
    ]


def example(
    run: Run, title: str, states: list[int], table: Float[np.ndarray, "H S A"], delta: float
) -> Example:
    """Plan for a reward; what the plan really loses beside it, where the truth is known."""
    plan, problem = run.plan(table, delta=delta), run.problem
    V = evaluate(plan.kernel, table, plan.policy)[0]
    best = loss = None
    if problem.truth is not None:
        best = float(problem.space.at_start(optimal(problem.kernel(), table).V[0]))
        loss = max(0.0, true_gap(problem, table, plan.policy))
    words, policy = plan.certificate.words, plan.policy[0]
    interval = plan.value_low, plan.value_high
    guess = likely(plan.credible, DRAWS)
    return Example(title, states, plan.value, *interval, plan.gap, words, policy, V, best, loss, guess)


def num_starts(problem: Problem) -> int:
    """In how many states an episode can start."""
    return int(problem.space.starts().sum())


def ringed(problem: Problem) -> list[int]:
    """The states to mark as starts: none where that would be a great many, or every state there is."""
    states = np.flatnonzero(problem.space.starts())
    is_telling = len(states) == 1 or len(states) <= min(MOST_RINGS, problem.num_states - 1)
    return states.tolist() if is_telling else []


def is_wide(problem: Problem) -> bool:
    """Whether the cells are a single row, or more columns than fit beside each other three times."""
    cells = np.asarray(problem.layout["cells"])
    return bool(cells[:, 0].max() >= MOST_COLUMNS or not cells[:, 1].any())


def place(problem: Problem, state: int) -> str:
    """A state in words: its name, or else its cell where states are drawn in a plane."""
    cells, is_named = problem.layout.get("cells"), problem.layout.get("states") is not None
    if is_named or cells is None or not np.asarray(cells)[:, 1].any():
        return problem.state_name(state)
    column, row = cells[state]
    return f"column {column + 1}, row {row + 1}"
