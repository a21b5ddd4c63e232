"""Answers of a run: a plan for one reward, and the comparison of two policies."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from horizonfree._deprecated import warn_renamed
from horizonfree._repr import ReprMixin, ReprTable, data_frame
from horizonfree._validation import check_int
from horizonfree.errors import OptionError, ShapeError
from horizonfree.guarantees.certificate import Certificate, confidence_of, interval, round_down, round_up
from horizonfree.mdp.events import Event, EventLift, Lift
from horizonfree.mdp.names import StateLike, name_of, number_of
from horizonfree.mdp.rewards import Reward
from horizonfree.mdp.space import Kernel, Space
from horizonfree.models import certify
from horizonfree.models.base import Bounds, Confidence
from horizonfree.models.posterior import Posterior
from horizonfree.planning.induction import policy_values, state_occupancy
from horizonfree.runs.certificate_files import Claim, of_policy
from horizonfree.runs.credible import LEVEL, Credible, probability_better

if TYPE_CHECKING:
    import pandas

    from horizonfree.problems.gymnasium.live import Rollout

EXACT_CLASS = (
    "a posterior assumes that the model class is correct; leave misspecification= out for likely values"
)
MAX_WEIGHTS = 8  # shown in a repr
UNDECIDED = "undecided"  # status of a plan within constraints


@dataclass(frozen=True, eq=False, repr=False)
class Plan(ReprMixin):
    """A policy for one reward, with its value and a suboptimality bound, in the units of the reward.

    `value` is the policy's value in `kernel`, the maximum-likelihood estimate, or in the explorer's own model for plans
    with model="explorer". With probability 1 - certificate.delta the true value is in the confidence interval
    [`value_low`, `value_high`], and the suboptimality is at most `gap`. `start`: the distribution of the first state,
    for which all this holds. `layout`: names of states and actions.

    >>> import horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> run = hf.explore(problem, episodes=50, progress=False)
    >>> plan = run.plan(hf.goal(problem, 3))
    >>> plan.policy.shape, plan.value_low <= plan.value <= plan.value_high
    ((8, 4), True)
    """

    policy: Int[np.ndarray, "H S"] | Float[np.ndarray, "H S A"]
    value: float
    value_low: float
    value_high: float
    gap: float
    certificate: Certificate
    kernel: Kernel
    start: Float[np.ndarray, " S"] | None = None
    layout: Mapping[str, Any] = field(default_factory=dict)
    _credible: Credible | None = field(default=None, repr=False)
    _space: Space | None = field(default=None, repr=False)

    def credible_interval(
        self, level: float = LEVEL, *, posterior: Posterior | None = None
    ) -> tuple[float, float]:
        """The interval that contains the value with posterior probability `level`: likely, not proved.

        posterior: `run.posterior(...)` with another prior, number of draws or seed; by default `run.posterior()`, which
        is computed at the first call.
        """
        return self.credible.under(posterior).interval(level)

    def credible_gap(self, level: float = LEVEL, *, posterior: Posterior | None = None) -> float:
        """The suboptimality is at most this with posterior probability `level`: likely, not proved."""
        return self.credible.under(posterior).gap(level)

    @property
    def credible(self) -> Credible:
        """Value and suboptimality under every draw of the posterior."""
        if self._credible is None:
            raise OptionError(
                "this plan belongs to no run, so it has no posterior; make it with run.plan(reward)"
            )
        return self._credible

    @cached_property
    def occupancy(self) -> Float[np.ndarray, "H S"]:
        """The occupancy measure: the probability of each state at each step, in the estimate."""
        if self.start is None:
            raise ShapeError("this plan has no start; make it with run.plan(reward)")
        return state_occupancy(self.kernel, self.policy, self.start)

    def _repr_table(self) -> ReprTable:
        level = confidence_of(self.certificate.delta)
        proved = f"{level} interval {interval(self.value_low, self.value_high)}"
        lines = [
            ("value", f"{self.value:.4g}, {'nothing proved' if self.certificate.is_rejected else proved}"),
            ("gap", f"{round_up(self.gap):.4g}: {self.certificate}"),
        ]
        if self.start is None:
            return ReprTable(f"Plan for {len(self.policy)} steps", lines)
        starts = np.flatnonzero(self.start)
        first = "where episodes start"
        if len(starts) == 1:
            first = name_of(self.layout, "states", int(starts[0]))
            lines.append(("first", name_of(self.layout, "actions", self.act(0, int(starts[0])))))
        share = self.occupancy.mean(axis=0)
        top = [int(s) for s in np.argsort(-share, kind="stable")[:3] if share[s] > 0]
        times = [f"{name_of(self.layout, 'states', s)} ({share[s]:.0%})" for s in top]
        lines.append(("time in", ", ".join(times)))
        return ReprTable(f"Plan for {len(self.policy)} steps from {first}", lines)

    def to_pandas(self) -> "pandas.DataFrame":
        """One row for each step (from 0) and state: the action, and the probability to be there."""
        step, state = (x.ravel() for x in np.indices(self.policy.shape[:2]))
        actions = self.policy if self.policy.ndim == 2 else self.policy.argmax(axis=-1)
        columns = {
            "step": step,
            "state": [name_of(self.layout, "states", int(s)) for s in state],
            "action": [name_of(self.layout, "actions", int(a)) for a in actions.ravel()],
            "probability": self.occupancy.ravel(),
        }
        return data_frame(columns)

    def plot(self, ax: Any = None) -> Any:
        """Where the plan is, on Matplotlib axes: on a grid the share of time in each cell, else states by step."""
        from horizonfree.runs.plots import plot_plan

        return plot_plan(self, ax)

    def act(self, h: int, state: StateLike) -> int:
        """The action at step h (from 0) in a state, by number, name or cell; the likeliest of a stochastic policy."""
        H, S = self.policy.shape[:2]
        h = check_int(h, "h", 0, H - 1, f"a step, 0 to {H - 1}", ShapeError)
        choice = self.policy[h, number_of(self.layout, "states", state, S)]
        return int(choice if choice.ndim == 0 else choice.argmax())

    def rollout(self, env: Any, *, seed: int = 0, encode: Callable[[Any], int] | None = None) -> "Rollout":
        """One episode of a Gymnasium environment under this policy, from wherever it starts.

        encode: observation -> state, as for `explore`. The rewards are those of the environment.

        >>> import horizonfree as hf
        >>> run = hf.explore(hf.make("river-swim", states=4, horizon=8), episodes=20, progress=False)
        >>> run.plan(hf.goal(run.problem, 3)).rollout(run.problem.to_gymnasium()).states.shape
        (9,)
        """
        from horizonfree.problems.gymnasium.live import rollout

        if self._space is None:
            raise OptionError("this plan belongs to no run; make it with run.plan(reward)")
        return rollout(env, self._space, self.layout, self.policy, seed, encode, self._row)

    def _row(self, visited: Sequence[Any]) -> int:
        """The row of `policy` for an episode that visited these states, the present one last."""
        return int(visited[-1])


def bound_text(is_upper: bool, bound: float) -> str:
    """The bound of a constraint in words."""
    return f"at {'most' if is_upper else 'least'} {bound:.12g}"


@dataclass(frozen=True)
class ConstraintResult:
    """The expected total of one constraint under a plan, in the constraint's units, with its confidence interval."""

    bound: float
    is_upper: bool
    value: float
    low: float
    high: float
    name: str = ""

    @property
    def side(self) -> str:
        """The bound in words."""
        return bound_text(self.is_upper, self.bound)

    @property
    def status(self) -> str:
        """Whether this plan certainly satisfies the constraint, certainly violates it, or neither is certain."""
        low, high, bound = self.low, self.high, self.bound
        if not self.is_upper:
            low, high, bound = -high, -low, -bound
        return "satisfied" if high <= bound else "violated" if low > bound else "uncertain"

    def summary(self) -> str:
        """The total, its interval, and the status of the constraint, in a line."""
        ends = interval(self.low, self.high, self.bound)
        return f"{self.value:.4g}, {ends}; {self.side} is {self.status}"

    def to_dict(self) -> dict[str, Any]:
        """All fields and the status, as plain data."""
        return {**asdict(self), "status": self.status}


class Memory(NamedTuple):
    """The events that a plan remembers, with their lifted states; `layout`: names of the original states."""

    lift: EventLift
    events: tuple[Event, ...]
    layout: Any

    def state(self, visited: Sequence[int]) -> int:
        """The lifted state after these states were visited, the present one last."""
        return self.lift.state(visited, self.events)


@dataclass(frozen=True, eq=False, repr=False)
class ConstrainedPlan(Plan):
    """A plan within constraints. `gap` is against the best policy that satisfies all constraints in the true system.

    `status`: "feasible" where this plan certainly satisfies all constraints, "infeasible" where certainly no policy
    does, "undecided" where neither is proved, each with probability 1 - delta together with all other bounds. Where the
    status is "infeasible" the policy is one with the smallest excess in the estimate, and `gap` says nothing.
    `multipliers`: the prices of the constraints, in units of the reward, with which `gap` was proved.

    Where a reward or a cost is an event, the plan remembers which events were decided: row m S + s of `policy` is for
    state s, m the sum of 2^i over the events i (that of the reward first) that were decided at an earlier step.
    """

    constraints: tuple[ConstraintResult, ...] = ()
    status: str = UNDECIDED
    multipliers: Float[np.ndarray, " m"] | None = None
    memory: Memory | None = None

    def act(self, h: int, state: StateLike, before: Sequence[StateLike] = ()) -> int:
        """The most probable action at step h (from 0) in a state; before: the states of the steps before, for events.

        Actions are to be drawn with the probabilities in `policy`: constraints may not hold otherwise.
        """
        return super().act(h, self._row([*before, state]))

    def _row(self, visited: Sequence[Any]) -> int:
        if self.memory is None:
            return number_of(self.layout, "states", visited[-1], self.policy.shape[1])
        S = len(self.memory.lift.first)
        return self.memory.state([number_of(self.memory.layout, "states", x, S) for x in visited])

    def _repr_table(self) -> ReprTable:
        table = super()._repr_table()
        rows = [("status", self.status)]
        rows += [(x.name, x.summary()) for x in self.constraints]
        return ReprTable(table.title, [*rows, *table.lines])


def make_plan(
    run: Any,
    reward: Reward,
    confidence: Confidence,
    policy: np.ndarray,
    bounds: Bounds,
    *,
    value: float | None = None,
    missing: str | None = None,
    lift: Lift | None = None,
    refusal: str = "",
    question: Callable[[], dict[str, Any]] | None = None,
    is_claimed: bool = True,
) -> Plan:
    """A policy of a `Run` with its certificate, in the units of the reward.

    value: by default that in the estimate. missing: as for `certify.certified`. lift, refusal: as for `Credible`.
    question: what the certificate answers (certificate_files.py), by default this policy for this reward; is_claimed:
    whether a file can hold it.
    """
    space, kernel = run.problem.space, confidence.kernel
    bounds, certificate = certify.certified(run.problem.model, confidence, bounds, reward.factor, missing)
    if run._where:
        certificate = replace(certificate, statement=f"{certificate}, {run._where}")
    if is_claimed:
        content = partial(of_policy, run, reward, policy) if question is None else question
        certificate = replace(certificate, claim=Claim(run, content))
    if value is None:
        value = float(space.at_start(policy_values(kernel, reward.table, policy)[0]))
    value, low, high = (reward.factor * float(x) + reward.offset for x in (value, bounds.low, bounds.high))
    gap = reward.factor * certificate.eps
    start, credible = start_distribution_of(space), Credible(run, reward, policy, lift, refusal)
    return Plan(
        policy, value, low, high, gap, certificate, kernel, start, run.problem.layout, credible, space
    )


def start_distribution_of(space: Space) -> Float[np.ndarray, " S"]:
    """The distribution of the first state; if it is unknown, 1 for each possible first state."""
    return space.starts().astype(np.float64) if space.initial is None else np.asarray(space.initial)


@dataclass(frozen=True, eq=False)
class Comparison:
    """The difference of the values of two policies, a minus b, for a reward, in its units.

    `difference` is that in the estimate. [`low`, `high`] is a confidence interval for the true one, at 1 - delta.
    """

    difference: float
    low: float
    high: float
    delta: float
    _credible: tuple[Credible, Credible] | None = field(default=None, repr=False)

    @cached_property
    def probability(self) -> float:
        """The posterior probability that a is better than b: likely, not proved. Computed at first use."""
        return probability_better(*self._policies())

    @property
    def label(self) -> str:
        """What `probability` is: not proved, with its prior."""
        return self._policies()[0].posterior.label

    def _policies(self) -> tuple[Credible, Credible]:
        if self._credible is None:
            raise OptionError(
                "this comparison belongs to no run, so it has no posterior; make it with run.compare"
            )
        return self._credible

    def summary(self) -> str:
        """The result in a sentence."""
        level = f"({confidence_of(self.delta)}, any stopping time)"
        if self.low > 0:
            return f"a is better by at least {round_down(self.low):.3g} {level}"
        if self.high < 0:
            return f"b is better by at least {round_down(-self.high):.3g} {level}"
        low, high = -round_up(-self.low), round_up(self.high)
        return f"either may be better: a minus b is in [{low:.3g}, {high:.3g}] {level}"

    def __str__(self) -> str:
        return self.summary()

    @property
    def words(self) -> str:
        """Deprecated: use `summary()`."""
        warn_renamed("Comparison.words", "Comparison.summary()")
        return self.summary()


def compare_policies(
    run: Any, reward: Reward, policies: tuple[np.ndarray, np.ndarray], confidence: Confidence
) -> Comparison:
    """`Run.compare` of two policies for a checked reward."""
    space, factor = run.problem.space, reward.factor
    low, high = certify.difference(run.problem.model, confidence, reward.table, policies)
    a, b = (float(space.at_start(policy_values(confidence.kernel, reward.table, x)[0])) for x in policies)
    credible = Credible(run, reward, policies[0]), Credible(run, reward, policies[1])
    return Comparison(factor * (a - b), factor * low, factor * high, float(confidence.delta), credible)


def run_table(run: Any) -> ReprTable:
    """The lines of `repr(run)`."""
    problem, spec = run.problem, run.explorer_spec
    source = "logged" if spec is None else f"explored by {spec.name}, seed {run.seed}"
    sizes = f"{problem.num_states:,} states, {problem.num_actions} actions, {problem.horizon} steps"
    lines = [("problem", sizes), ("episodes", f"{run.episodes:,}, {source}")]
    if run.has_parameter and problem.layout.get("weights"):
        weights = enumerate(run.weights[:MAX_WEIGHTS])
        lines.append(("weights", ", ".join(f"{problem.weight_name(i)}: {x:.3f}" for i, x in weights)))
    lines += [("log", note) for note in problem.layout.get("log", {}).get("notes", ())]
    if run.folder is not None:
        lines.append(("folder", str(run.folder)))
    lines.append(("next", "run.plan(reward), run.certificate(), run.resume(episodes=100)"))
    return ReprTable(f"Run of {problem.name}", lines)
