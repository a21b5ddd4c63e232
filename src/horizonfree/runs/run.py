"""A run: the result of an exploration, from which plans and certificates are computed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from horizonfree._deprecated import renamed
from horizonfree._repr import ReprMixin, ReprTable, data_frame
from horizonfree._validation import check_choice
from horizonfree.errors import OptionError
from horizonfree.explorers.registry import ExplorerSpec
from horizonfree.guarantees.certificate import Certificate
from horizonfree.guarantees.e_processes import Check
from horizonfree.mdp.policies import check_allowed, is_allowed, named_allowed, policy_table
from horizonfree.mdp.rewards import Reward, resolve
from horizonfree.mdp.space import Trajectory
from horizonfree.models import certify
from horizonfree.models.base import Confidence, Evidence, Intervals
from horizonfree.models.misspecification import declared
from horizonfree.models.posterior import Posterior
from horizonfree.models.registry import diagnostics_of
from horizonfree.problems.problem import Problem
from horizonfree.runs import observed, reward_spec
from horizonfree.runs.certificates import ConfidenceCache, Robustness, certificate_of, compute_robustness
from horizonfree.runs.check import check_model_class
from horizonfree.runs.constrained import plan_within
from horizonfree.runs.credible import posterior_of
from horizonfree.runs.observed import ObservedReward
from horizonfree.runs.pareto import TradeOff, trade_off
from horizonfree.runs.plan import (
    EXACT_CLASS,
    Comparison,
    Plan,
    compare_policies,
    make_plan,
    run_table,
    start_distribution_of,
)
from horizonfree.runs.plots import plot_run
from horizonfree.runs.reward_spec import RewardSpec, plan_or_evaluate
from horizonfree.runs.risk import Risk, risk_of
from horizonfree.runs.state import progress_of
from horizonfree.runs.until import StopRule

if TYPE_CHECKING:
    import pandas

    from horizonfree.explorers.base import Explorer
    from horizonfree.explorers.loop import Progress
    from horizonfree.problems.verification.explicit import ExplicitModel
    from horizonfree.runs.power import Power

PLAN_MODELS = ("likelihood", "explorer")  # estimates in which plans are made


@dataclass(frozen=True, eq=False, repr=False)
class Run(ReprMixin):
    """A problem and the evidence of its episodes. `records` has one number per episode for each quantity reported.

    `until`: the last stop rule. `folder`: where the run is stored, if it is. `is_simulated`: False for a real
    environment. `state`: that of the explorer, a pytree of NumPy arrays, or as stored (state.py). `log`: the episodes
    of a run made from logged ones; it is not stored.
    """

    problem: Problem
    explorer_spec: ExplorerSpec | None
    seed: int
    evidence: Evidence
    state: Any
    records: Mapping[str, np.ndarray]
    is_simulated: bool = True
    until: StopRule | None = None
    folder: Path | None = None
    log: Trajectory | None = field(default=None, repr=False)
    rewards: ObservedReward | None = field(default=None, repr=False)
    _view: tuple[np.ndarray, int, bool] | None = None  # start and horizon that are not those of the episodes
    _where: str = ""  # another start or horizon than the explored one, as text for certificates
    # init=False: dataclasses.replace does not copy it to a run with other evidence
    _confidences: ConfidenceCache = field(default_factory=ConfidenceCache, init=False, repr=False)
    _restarts: dict[Any, "Run"] = field(default_factory=dict, init=False, repr=False)
    _posterior: dict[Any, Posterior] = field(default_factory=dict, init=False, repr=False)

    @property
    def episodes(self) -> int:
        """The number of episodes."""
        return int(self.evidence.episodes)

    @cached_property
    def explorer(self) -> "Explorer | None":
        """The exploration algorithm, None for logged episodes; imports JAX."""
        return None if self.explorer_spec is None else self.explorer_spec.build()

    @cached_property
    def progress(self) -> "Progress":
        """The number of episodes, the explorer's state and the evidence, to go on from; imports JAX."""
        return progress_of(self)

    @property
    def visits(self) -> Int[np.ndarray, "S A"]:
        """How often each action was taken in each state."""
        # tabular evidence also counts forbidden actions, as other names of allowed ones
        return np.asarray(np.asarray(self.evidence.visits) * is_allowed(self.problem.space))

    @property
    def has_parameter(self) -> bool:
        """Whether the model class has a parameter theta."""
        return self.evidence.theta is not None

    @property
    def theta_hat(self) -> Float[np.ndarray, " d"]:
        """The explorer's own estimate; certified plans are made in the maximum-likelihood one."""
        if not self.has_parameter:
            raise OptionError("this model class has no theta: its kernel is `run.confidence().kernel`")
        if self.explorer_spec is None:
            return np.asarray(self.evidence.theta)
        from horizonfree.runs.explore import explorer_estimate

        return explorer_estimate(self)

    @property
    def observed_reward(self) -> ObservedReward:
        """The rewards that were recorded while an environment was stepped, or in a log: an estimate, to plan with."""
        if self.rewards is None:
            raise OptionError(
                "no rewards were recorded: simulated problems have none; explore an environment, or give a log with a "
                "column reward or cost"
            )
        return self.rewards

    def confidence(self, delta: float = 0.05, misspecification: Any = 0.0) -> Confidence:
        """The confidence set at 1 - delta; cached."""
        return self._confidences.get(self.problem, self.evidence, delta, misspecification)

    @property
    def weights(self) -> Float[np.ndarray, " d"]:
        """The estimated parameter of plans, in the user's units: for a mixture of kernels, their weights.

        >>> import horizonfree as hf
        >>> run = hf.explore(hf.make("river-swim", states=4, horizon=8), episodes=20, progress=False)
        >>> run.weights.shape, run.weight_intervals.shape
        ((3,), (3, 2))
        """
        return self._intervals().estimate

    @property
    def weight_intervals(self) -> Float[np.ndarray, "d 2"]:
        """95% confidence intervals of all entries of the parameter, which hold together."""
        intervals = self._intervals()
        return np.stack([intervals.low, intervals.high], axis=1)

    def _intervals(self) -> Intervals:
        intervals = diagnostics_of(self.problem.model).intervals(self.confidence())
        if intervals is None:
            raise OptionError("this model class has no weights: its kernel is `run.confidence().kernel`")
        return intervals

    def posterior(self, draws: int = 1000, prior: Any = None, seed: int = 0) -> Posterior:
        """A Bayesian posterior: kernels drawn given the data. What is likely, not proved. The last one is cached.

        draws: how many. Markov chains of a mixture run until they are worth as many independent draws.
        prior: for a tabular MDP, a Dirichlet distribution for each state-action pair: a concentration per successor, an
        array [S, A, S] of them, "uniform" (1), "jeffreys" (1/2) or "perks" (1/m of m successors, the default). For the
        weights of a mixture: uniform by default, or Dirichlet concentrations, a number or one per kernel. Parameters of
        other features: uniform on the valid ones. Linear MDPs have no posterior.

        >>> import horizonfree as hf
        >>> run = hf.explore(hf.make("river-swim", states=4, horizon=8), episodes=300, progress=False)
        >>> posterior = run.posterior(draws=200)
        >>> posterior.values(hf.goal(run.problem, 3), [1] * 4).shape
        (200,)
        """
        return posterior_of(self, draws, prior, seed)

    def check(self, by: Any = None, *, alternatives: Any = "auto", delta: float = 0.05) -> Check:
        """Test the model class against richer ones by e-values; a refutation is wrong with probability at most delta.

        alternatives: "auto", or a list of names and of problems on the same states and actions. "noise": any
        distribution of the noise, for `from_noise` with models; "table": any distribution for every state-action pair;
        "change": another parameter after some episode; "memory": another one after some transitions; "age": another one
        from some step of an episode on. The last two need the episodes of a run made from logged ones.
        by: a label for each logged episode, known before it began; the alternative has a parameter for each label.

        >>> import horizonfree as hf
        >>> run = hf.explore(hf.make("river-swim", states=4, horizon=8), episodes=20, progress=False)
        >>> run.check().is_refuted
        False
        """
        return check_model_class(
            self.problem, (self.evidence, self.confidence(delta)), self.log, by, alternatives
        )

    def certificate(
        self,
        delta: float = 0.05,
        *,
        method: str | None = None,
        rewards: Any = None,
        misspecification: Any = 0.0,
        alternatives: Any = None,
        progress: bool | None = None,
    ) -> Certificate:
        """A suboptimality bound for the plans of every reward of total at most 1, or of the `rewards`.

        method: by default the smallest bound that takes about a second at most; `Certificate.method` names it. Or
        "uniform" (any run), "direct" (sharper and slower, for up to 5 unknown directions), or "paper" for the
        algorithm's own guarantee, at the delta it explored with, which holds for plan(..., model="explorer"); with
        sets="likelihood" at any delta fixed beforehand, for plan(reward, delta=delta).
        "uniform" and "direct" are proved on the same event, so the smaller of them costs no delta.
        rewards: a list of rewards, "goals" (to end in a state, for each) or "occupancies" (to stay in it). The bound is
        the largest over their plans; the bounds of all of them hold together.
        misspecification: how far the transition probabilities may be from the model class, in total variation: a
        number, one per state-action pair [S, A], or a Misspecification. For mixtures, with the method "uniform".
        alternatives: richer classes that may refute this one, as for `check`, with another delta of the same size.
        progress: show how many of the rewards are done; None: on a terminal.

        >>> import horizonfree as hf
        >>> run = hf.explore(hf.make("river-swim", states=4, horizon=8), episodes=300, progress=False)
        >>> run.certificate(rewards="goals").eps < run.certificate().eps < 1
        True
        """
        options = {"method": method, "rewards": rewards, "alternatives": alternatives, "progress": progress}
        return certificate_of(self, delta, misspecification=misspecification, **options)

    def plan(
        self,
        reward: Any,
        *,
        scale: str = "total",
        delta: float = 0.05,
        model: str = "likelihood",
        start: Any = None,
        horizon: int | None = None,
        misspecification: Any = 0.0,
        discount: float | None = None,
        final: Any = None,
        transition: Any = None,
        constraints: Any = None,
    ) -> Plan:
        """The best policy for a reward in the estimate, with a confidence interval and a suboptimality bound.

        reward: [H, S, A], [S, A], [S], a function (h, s, a) -> number, or what `goal`, `occupancy`, `rescale` return;
        or an event (`hf.reach`) or a property (`hf.property`), with a plan for its number of steps.
        scale: "total" (at most 1 along every trajectory), "per-step" (entries in [0, 1]; bounds grow with H), "rescale"
        (any numbers, costs as negative ones; values and bounds are in their units).
        model: "likelihood" plans in the maximum-likelihood estimate, "explorer" in the explorer's own.
        start, horizon: the start (a state or a distribution) and the number of steps to plan for, by default as
        explored.
        misspecification: as for `certificate`.
        discount: step h counts discount^(h-1) times. final: [S], paid for the state after the last step. transition:
        also paid for a step from s by a to s', [S, A, S] or a function (s, a, s') -> number.
        constraints: a list of `hf.at_most(cost, bound)` and `hf.at_least(reward, bound)`; the answer is a
        `ConstrainedPlan`, a randomised policy with `status` and the interval of every constraint.

        >>> import horizonfree as hf
        >>> run = hf.explore(hf.make("river-swim", states=4, horizon=8), episodes=300, progress=False)
        >>> plan = run.plan(hf.goal(run.problem, 3))
        >>> plan.value_low <= plan.value <= plan.value_high
        True
        """
        options: dict[str, Any] = {"scale": scale, "delta": delta, "model": model}
        check_choice(model, "model", PLAN_MODELS)
        is_extended = not (discount is None and final is None and transition is None)
        where = {"start": start, "horizon": horizon, "misspecification": misspecification}
        if constraints is not None:
            spec = RewardSpec(discount, final, transition)
            return plan_within(self, reward, constraints, spec=spec, **options, **where)
        if isinstance(reward, ObservedReward):
            observed.check_plain(discount, final, transition, misspecification, model)
            return observed.answer(self, reward, None, delta=delta, start=start, horizon=horizon)
        if reward_spec.is_property(reward):
            reward_spec.check_event_options(scale, horizon, misspecification, is_extended)
            return reward_spec.plan_or_evaluate_event(self, reward, delta=delta, model=model, start=start)
        if is_extended:
            spec = RewardSpec(discount, final, transition)
            return plan_or_evaluate(self, reward, None, spec, **options, **where)
        if start is not None or horizon is not None:
            there = self.restart_from(start, horizon)
            return there.plan(reward, misspecification=misspecification, **options)
        resolved = self.resolved(reward, scale)
        confidence = self.confidence(delta, misspecification)
        is_exact = declared(misspecification) is None and self.problem.radii is None
        refusal = "" if is_exact else EXACT_CLASS
        if model == "explorer":
            from horizonfree.runs.explore import explorer_plan

            own = explorer_plan(self, resolved.table)
            policy = named_allowed(self.problem.space, np.array(own.policy, np.int32))
            bounds, value = (
                certify.bounds(confidence, resolved.table, policy),
                self.problem.space.at_start(own.V[0]),
            )
            return make_plan(self, resolved, confidence, policy, bounds, value=float(value), refusal=refusal)
        policy, bounds = certify.planned(self.problem.model, confidence, resolved.table)
        return make_plan(self, resolved, confidence, policy, bounds, refusal=refusal, is_claimed=is_exact)

    def evaluate(
        self,
        reward: Any,
        policy: Any,
        *,
        scale: str = "total",
        delta: float = 0.05,
        start: Any = None,
        horizon: int | None = None,
        discount: float | None = None,
        final: Any = None,
        transition: Any = None,
    ) -> Plan:
        """Off-policy evaluation of a policy: its value with a confidence interval, and its suboptimality bound.

        policy: actions [H, S] or probabilities [H, S, A]; or [S], [S, A] for every step. The rest is as for `plan`.

        >>> import numpy as np, horizonfree as hf
        >>> run = hf.explore(hf.make("river-swim", states=4, horizon=8), episodes=300, progress=False)
        >>> swim = run.evaluate(hf.goal(run.problem, 3), np.ones(4, int))
        >>> swim.value_low <= swim.value <= swim.value_high
        True
        """
        is_extended = not (discount is None and final is None and transition is None)
        if isinstance(reward, ObservedReward):
            observed.check_plain(discount, final, transition)
            return observed.answer(self, reward, policy, delta=delta, start=start, horizon=horizon)
        if reward_spec.is_property(reward):
            reward_spec.check_event_options(scale, horizon, 0.0, is_extended)
            return reward_spec.plan_or_evaluate_event(self, reward, policy, delta=delta, start=start)
        if is_extended:
            spec = RewardSpec(discount, final, transition)
            options = {"scale": scale, "delta": delta, "start": start, "horizon": horizon}
            return plan_or_evaluate(self, reward, policy, spec, **options)
        if start is not None or horizon is not None:
            return self.restart_from(start, horizon).evaluate(reward, policy, scale=scale, delta=delta)
        resolved, confidence = self.resolved(reward, scale), self.confidence(delta)
        table = self._policy(policy)
        bounds = certify.bounds(confidence, resolved.table, table)
        return make_plan(self, resolved, confidence, table, bounds)

    def risk(self, reward: Any, policy: Any, **options: Any) -> Risk:
        """The distribution of the total of an episode under a policy, with bounds: `probability`, `quantile`, `cvar`.

        States remember what was paid, so there must be few different sums. options: delta, start, horizon and
        misspecification (of tables), as for `plan`.

        >>> import horizonfree as hf
        >>> run = hf.explore(hf.make("river-swim", states=4, horizon=8), episodes=300, progress=False)
        >>> run.risk([0, 0, 0, 1], [1, 1, 1, 1]).quantile(0.2)  # steps in state 3
        Estimate(value=0.0, low=0.0, high=0.0)
        """
        return risk_of(self, reward, policy, **options)

    def pareto(self, reward: Any, cost: Any, points: int = 20, **options: Any) -> TradeOff:
        """The trade-off between a reward and a cost: policies from the cheapest to the best, and a certified band.

        The band holds at every bound of the cost at once: `result.at(bound)`, `result.plot()`. points: how many
        policies. options: scale, delta, start, horizon and misspecification (of tables), as for `plan`.

        >>> import horizonfree as hf
        >>> run = hf.explore(hf.make("river-swim", states=4, horizon=8), episodes=300, progress=False)
        >>> at = run.pareto(hf.goal(run.problem, 3), hf.reach(run.problem, 2), points=5).at(0.2)
        >>> at.low <= at.value <= at.high
        True
        """
        return trade_off(self, reward, cost, points=points, **options)

    def compare(
        self,
        reward: Any,
        policy_a: Any,
        policy_b: Any,
        *,
        scale: str = "total",
        delta: float = 0.05,
        start: Any = None,
        horizon: int | None = None,
    ) -> Comparison:
        """By how much policy a is better than policy b, with a confidence interval.

        The interval is shorter than the difference of two intervals, because common parts of the policies cancel.

        >>> import numpy as np, horizonfree as hf
        >>> run = hf.explore(hf.make("river-swim", states=4, horizon=8), episodes=300, progress=False)
        >>> result = run.compare(hf.goal(run.problem, 3), np.ones(4, int), np.zeros(4, int))
        >>> result.low > 0
        True
        """
        if start is not None or horizon is not None:
            there = self.restart_from(start, horizon)
            return there.compare(reward, policy_a, policy_b, scale=scale, delta=delta)
        if isinstance(reward, ObservedReward):
            return observed.compare(self, reward, (policy_a, policy_b), delta=delta)
        policies = self._policy(policy_a), self._policy(policy_b)
        return compare_policies(self, self.resolved(reward, scale), policies, self.confidence(delta))

    def _policy(self, policy: Any) -> np.ndarray:
        table = policy_table(policy, *self.problem.space.sizes)
        check_allowed(self.problem.space, table)
        return table

    def resolved(self, reward: Any, scale: str = "total") -> Reward:
        """A checked reward, as a table with its scale."""
        return resolve(self.problem.space, reward, scale=scale)

    def restart_from(self, start: Any = None, horizon: Any = None, *, is_paid_after: bool = False) -> "Run":
        """This run with another start or horizon; cached, since confidence sets take time.

        >>> import horizonfree as hf
        >>> problem = hf.make("river-swim", states=4, horizon=8)
        >>> run = hf.explore(problem, episodes=20, progress=False)
        >>> run.restart_from(2, horizon=3).problem.horizon
        3
        """
        problem = self.problem.with_start(start, horizon, is_paid_after=is_paid_after)
        key = np.asarray(problem.space.initial).tobytes(), problem.horizon, is_paid_after
        if key not in self._restarts:
            where = "" if is_paid_after else f"from {problem.start_name()}, in {problem.horizon} steps"
            view = start_distribution_of(problem.space), problem.horizon, is_paid_after
            self._restarts[key] = replace(self, problem=problem, _where=where, _view=view)
        return self._restarts[key]

    seen_from = renamed("Run.seen_from", restart_from)
    plot = plot_run

    def robustness(
        self, target: float = 0.1, *, reward: Any = None, delta: float = 0.05, shape: Any = 1.0
    ) -> Robustness:
        """The largest misspecification with which the suboptimality bound is at most the target.

        For the plans of every reward, or with reward= for the plan of one (of total at most 1). Also the smallest
        misspecification that the data do not refute, and the bound as a function of it; all hold together.
        shape: the ratio of the radii of state-action pairs, [S, A] or a Misspecification.
        """
        confidence = partial(self._confidences.robust, self.problem.model, self.evidence)
        options: dict[str, Any] = {"target": target, "reward": reward, "delta": delta, "shape": shape}
        return compute_robustness(self.problem, self.evidence, confidence, **options)

    def power(self, reward: Any, *, episodes: Any, **decision: Any) -> "Power":
        """How probably a decision is certified after so many more episodes: `horizonfree.runs.power.power`.

        The decision: target= (a suboptimality), or policy= with incumbent= or at_least=. gather: how the episodes are
        recorded; costs: of an episode.
        """
        from horizonfree.runs.power import power

        return power(self, reward, episodes=episodes, **decision)

    def resume(self, **until: Any) -> "Run":
        """Go on exploring: resume(episodes=500), resume(until_eps=0.1), ...; resume() finishes an interrupted run.

        This run does not change. A stored run goes on in its folder.

        >>> import horizonfree as hf
        >>> run = hf.explore(hf.make("river-swim", states=4, horizon=8), episodes=20, progress=False)
        >>> run.resume(episodes=30, progress=False).episodes
        50
        """
        from horizonfree.runs.explore import advance

        return advance(self, **until)

    def explicit_model(
        self, what: str = "interval", *, delta: float = 0.05, floor: float = 0.0
    ) -> "ExplicitModel":
        """What model checkers read: the confidence set as an "interval" MDP, or the "estimate" as an MDP.

        Every kernel of the confidence set is a member of the interval MDP, which has more and wider values; its
        description says by how much. floor: raise lower ends of 0 to this, such as 1e-12, for checkers that refuse 0;
        the model then takes for granted that these transitions are possible.
        """
        from horizonfree.runs.exported import explicit_model

        return explicit_model(self, what, delta=delta, floor=floor)

    def to_drn(self, path: str | PathLike[str], what: str = "interval", **options: Any) -> None:
        """Write `explicit_model` as Storm's explicit text format."""
        self.explicit_model(what, **options).to_drn(path)

    def to_umb(self, path: str | PathLike[str], what: str = "interval", **options: Any) -> None:
        """Write `explicit_model` as a unified Markov binary."""
        self.explicit_model(what, **options).to_umb(path)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the run into a new folder, from which `load` reads it back."""
        from horizonfree.runs.storage import create

        create(self, path)

    def to_pandas(self) -> "pandas.DataFrame":
        """The records, one row for each episode, counted from 1."""
        return data_frame(
            {"episode": np.arange(len(next(iter(self.records.values()), ()))) + 1, **self.records}
        )

    def _repr_table(self) -> ReprTable:
        return run_table(self)
