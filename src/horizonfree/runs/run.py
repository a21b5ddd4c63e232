"""A run: what exploration left behind, ready to plan for any reward and to certify the plans."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from horizonfree._validation import did_you_mean, short_repr
from horizonfree.errors import OptionError
from horizonfree.explorers.registry import ExplorerSpec
from horizonfree.guarantees.alternatives import Check
from horizonfree.guarantees.certificate import Certificate
from horizonfree.mdp.allowed import check_allowed, is_allowed, named_allowed
from horizonfree.mdp.policies import policy_table
from horizonfree.mdp.rewards import Reward, resolve
from horizonfree.mdp.trajectory import Trajectory
from horizonfree.models import certify
from horizonfree.models.interface import Confidence, Evidence, Intervals
from horizonfree.models.misspecification import declared
from horizonfree.planning.induction import policy_values
from horizonfree.problems.problem import Problem
from horizonfree.runs import certificate_files, extended, properties
from horizonfree.runs.card import Printed
from horizonfree.runs.certificates import of_family, own_claim
from horizonfree.runs.check import check, judged
from horizonfree.runs.confidences import Confidences
from horizonfree.runs.plan import Comparison, Plan, plan_of, start_of
from horizonfree.runs.robustness import Robustness, robustness
from horizonfree.runs.state import progress_of
from horizonfree.runs.until import Until

if TYPE_CHECKING:
    from horizonfree.explorers.interface import Explorer
    from horizonfree.explorers.loop import Progress
    from horizonfree.problems.verification.explicit import ExplicitModel

MODELS = ("likelihood", "explorer")  # that a plan can be made in


@dataclass(frozen=True, eq=False, repr=False)
class Run(Printed):
    """A problem explored so far. `records` holds one number per episode for everything the explorer reports.

    `until` is what was asked for last; `folder` is where the run lives, if it was stored. `is_simulated` is False
    when a real environment was stepped. `state` is that of the explorer, a pytree of NumPy arrays, or as it is stored
    (runs/state.py). `log` holds the episodes of a run made of logged ones; it is not stored.
    """

    problem: Problem
    explorer_spec: ExplorerSpec | None
    seed: int
    evidence: Evidence
    state: Any
    records: Mapping[str, np.ndarray]
    is_simulated: bool = True
    until: Until | None = None
    folder: Path | None = None
    log: Trajectory | None = field(default=None, repr=False)
    _view: tuple[np.ndarray, int, bool] | None = None  # start and horizon that are not those of the episodes
    _where: str = ""  # where episodes start, for the words of certificates, where that is not as explored
    # init=False: dataclasses.replace never copies it on to a run with other evidence
    _confidences: Confidences = field(default_factory=Confidences, init=False, repr=False)
    _views: dict[Any, "Run"] = field(default_factory=dict, init=False, repr=False)

    @property
    def episodes(self) -> int:
        """How many episodes were gathered."""
        return int(self.evidence.episodes)

    @cached_property
    def explorer(self) -> "Explorer | None":
        """The algorithm that explored, None for logged episodes; imports JAX."""
        return None if self.explorer_spec is None else self.explorer_spec.build()

    @cached_property
    def progress(self) -> "Progress":
        """What further episodes start from: their number, the explorer's state, the evidence; imports JAX."""
        return progress_of(self)

    @property
    def visits(self) -> Int[np.ndarray, "S A"]:
        """How often each action was taken in each state."""
        # tables count other names, too
        return np.asarray(self.evidence.visits) * is_allowed(self.problem.space)

    @property
    def has_parameter(self) -> bool:
        """Whether the class has a parameter theta; a table has none but itself."""
        return hasattr(self.evidence, "theta")

    @property
    def theta_hat(self) -> Float[np.ndarray, " d"]:
        """The explorer's own estimate; certified plans are made in the maximum-likelihood one."""
        if not self.has_parameter:
            raise OptionError("this class of models has no theta: its kernel is `run.confidence().kernel`")
        if self.explorer_spec is None:
            return np.asarray(self.evidence.theta)
        from horizonfree.runs.own_plan import own_estimate

        return own_estimate(self)

    def confidence(self, delta: float = 0.05, misspecification: Any = 0.0) -> Confidence:
        """What the evidence says at confidence 1 - delta; computed once."""
        return self._confidences.of(self.problem, self.evidence, delta, misspecification)

    @property
    def weights(self) -> Float[np.ndarray, " d"]:
        """The parameter that plans are made with, as it would be given: of a mixture of kernels, their weights."""
        return self._intervals().estimate

    @property
    def weight_intervals(self) -> Float[np.ndarray, "d 2"]:
        """Where each entry of the parameter lies: all of them together, with probability 0.95."""
        found = self._intervals()
        return np.stack([found.low, found.high], axis=1)

    def _intervals(self) -> Intervals:
        found = self.problem.model.intervals(self.confidence())
        if found is None:
            raise OptionError("this class of models has no weights: its kernel is `run.confidence().kernel`")
        return found

    def check(self, by: Any = None, *, alternatives: Any = "auto", delta: float = 0.05) -> Check:
        """Whether richer classes refute this one: their e-values, wrong with probability delta at most, and words.

        alternatives: "auto", or a list of names and of problems on the same states and actions. "noise": any law of the
        noise, of `from_noise` with models; "table": any law for every pair (s,a); "change": another parameter after
        some episode; "memory": another one after some transitions; "age": another one from some step of an episode on.
        The last two need the episodes, of a run made of logged ones. by: a label for each logged episode, known before
        it began; then groups with parameters of their own bet.
        """
        return check(self.problem, (self.evidence, self.confidence(delta)), self.log, by, alternatives)

    def certificate(
        self,
        delta: float = 0.05,
        *,
        method: str = "uniform",
        rewards: Any = None,
        misspecification: Any = 0.0,
        alternatives: Any = None,
        progress: bool | None = None,
    ) -> Certificate:
        """One gap for the plans of every reward of total at most 1, or of the `rewards`.

        method: "uniform" (any run), "direct" (sharper and slower, for up to 5 unknown directions), or "paper" for the
        algorithm's own guarantee, at the delta it explored with, which holds for plan(..., model="explorer").
        rewards: a list of rewards, "goals" (to end in a state, for each) or "occupancies" (to stay in it): the largest
        gap of their plans. All hold together: that costs nothing.
        misspecification: how far the transition laws may be from those of one parameter of the class, in total
        variation: a number, one per pair [S, A], or a Misspecification. For mixtures, by the method "uniform".
        alternatives: richer classes that may refute this one, as for `check`, with a delta of their own, as large.
        progress: whether to say how many of the rewards are done; None: on a terminal.
        """
        if alternatives is not None:
            if declared(misspecification) is not None:
                raise OptionError(
                    "alternatives= refute a class that is taken to be right; give that or misspecification="
                )
            found = self.certificate(delta, method=method, rewards=rewards, progress=progress)
            return judged(found, self.check(alternatives=alternatives, delta=delta))
        model = self.problem.model
        if rewards is not None:
            found = of_family(self, rewards, self.confidence(delta, misspecification), progress)
            return found if declared(misspecification) else certificate_files.family(self, found, rewards)
        if declared(misspecification) is not None or self.problem.sampling is not None:
            if not isinstance(method, str) or method != "uniform":
                raise OptionError(
                    f"method is {short_repr(method)}; with misspecification=, or kernels from samples, "
                    "it must be 'uniform'"
                )
            return certify.uniform(model, self.evidence, self.confidence(delta, misspecification))
        if isinstance(method, str) and method == "paper":
            return own_claim(self, delta)
        if not isinstance(method, str) or method not in model.methods:
            methods = [*model.methods, "paper"]
            choice = ", ".join(map(repr, methods))
            raise OptionError(
                f"method is {short_repr(method)}; it must be one of {choice}{did_you_mean(method, methods)}"
            )
        found = certify.uniform(model, self.evidence, self.confidence(delta), method)
        return certificate_files.every_reward(self, found, method)

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
    ) -> Plan:
        """The best policy for a reward, with a certified gap.

        reward: [H, S, A], [S, A], [S], a function (h, s, a) -> number, or what `goal`, `occupancy`, `rescale` return;
        or an event, as `reach` returns it, or a property (`hf.property`), with a plan for its number of steps.
        scale: "total" (at most 1 along every trajectory), "per-step" (entries in [0, 1]; gaps grow with H), "rescale"
        (any numbers, costs as negative ones; values and gaps are in their units).
        model: "likelihood" plans in the maximum-likelihood model, "explorer" as the explorer itself would.
        start, horizon: where the system is (a state or a distribution) and how many steps are left; it is for these.
        misspecification: as for `certificate`; the gap then holds in every system whose laws are so close.
        discount: step h counts discount^(h-1) times. final: [S], paid for the state after the last step. transition:
        paid for a step from s by a to s' as well, [S, A, S] or a function (s, a, s') -> number.
        """
        how: dict[str, Any] = {"scale": scale, "delta": delta, "model": model}
        if not isinstance(model, str) or model not in MODELS:
            raise OptionError(
                f"model is {short_repr(model)}; it must be 'likelihood' or 'explorer'{did_you_mean(model, MODELS)}"
            )
        is_extended = not (discount is None and final is None and transition is None)
        if properties.is_property(reward):
            properties.check_plain(scale, horizon, misspecification, is_extended)
            return properties.answer(self, reward, delta=delta, model=model, start=start)
        if is_extended:
            more, at = extended.RewardSpec(discount, final, transition), {"start": start, "horizon": horizon}
            return extended.answer(self, reward, None, more, within=misspecification, **how, **at)
        if start is not None or horizon is not None:
            return self.seen_from(start, horizon).plan(reward, misspecification=misspecification, **how)
        checked = self.resolved(reward, scale)
        confidence = self.confidence(delta, misspecification)
        if model == "explorer":
            space = self.problem.space
            from horizonfree.runs.own_plan import own_plan

            own = own_plan(self, checked.table)
            policy = named_allowed(space, np.array(own.policy, np.int32))
            bounds = certify.bounds(confidence, checked.table, policy)
            return plan_of(self, checked, confidence, policy, bounds, value=float(space.at_start(own.V[0])))
        policy, bounds = certify.planned(self.problem.model, confidence, checked.table)
        return plan_of(
            self, checked, confidence, policy, bounds, is_claimed=declared(misspecification) is None
        )

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
        """A policy of yours as a plan: its value with an interval, and what it loses at most against the best.

        policy: actions [H, S] or probabilities [H, S, A]; or [S], [S, A] for every step. The rest is as for `plan`.
        """
        is_extended = not (discount is None and final is None and transition is None)
        if properties.is_property(reward):
            properties.check_plain(scale, horizon, 0.0, is_extended)
            return properties.answer(self, reward, policy, delta=delta, start=start)
        if is_extended:
            more = extended.RewardSpec(discount, final, transition)
            how = {"scale": scale, "delta": delta, "start": start, "horizon": horizon}
            return extended.answer(self, reward, policy, more, **how)
        if start is not None or horizon is not None:
            return self.seen_from(start, horizon).evaluate(reward, policy, scale=scale, delta=delta)
        checked, confidence = self.resolved(reward, scale), self.confidence(delta)
        table = self._policy(policy)
        return plan_of(self, checked, confidence, table, certify.bounds(confidence, checked.table, table))

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
        """By how much policy a is better than policy b, with an interval: what they have in common cancels in it."""
        if start is not None or horizon is not None:
            there = self.seen_from(start, horizon)
            return there.compare(reward, policy_a, policy_b, scale=scale, delta=delta)
        checked, confidence = self.resolved(reward, scale), self.confidence(delta)
        policies = self._policy(policy_a), self._policy(policy_b)
        ends = certify.difference(self.problem.model, confidence, checked.table, policies)
        space, kernel, factor = self.problem.space, confidence.kernel, checked.factor
        a, b = (float(space.at_start(policy_values(kernel, checked.table, x)[0])) for x in policies)
        return Comparison(factor * (a - b), factor * ends[0], factor * ends[1], float(confidence.delta))

    def _policy(self, policy: Any) -> np.ndarray:
        """A policy, checked."""
        table = policy_table(policy, *self.problem.space.sizes)
        check_allowed(self.problem.space, table)
        return table

    def resolved(self, reward: Any, scale: str = "total") -> Reward:
        """A reward of any form, checked."""
        return resolve(self.problem.space, reward, scale=scale)

    def seen_from(self, start: Any = None, horizon: Any = None, *, is_paid_after: bool = False) -> "Run":
        """The same evidence for episodes from elsewhere, or of other length; kept, as its confidence takes time."""
        problem = self.problem.moved(start, horizon, is_paid_after=is_paid_after)
        key = np.asarray(problem.space.initial).tobytes(), problem.horizon, is_paid_after
        if key not in self._views:
            words = "" if is_paid_after else f"from {problem.first_state()}, in {problem.horizon} steps"
            view = start_of(problem.space), problem.horizon, is_paid_after
            self._views[key] = replace(self, problem=problem, _where=words, _view=view)
        return self._views[key]

    def robustness(
        self, target: float = 0.1, *, reward: Any = None, delta: float = 0.05, shape: Any = 1.0
    ) -> Robustness:
        """How wrong the class may be: the largest misspecification with which the gap is at most the target.

        For the plans of every reward, or with reward= for the plan of one (of total at most 1). With it the smallest
        misspecification that the data do not refute, and the gap as a function of it, which hold for all at once.
        shape: where radii differ from pair to pair, in which proportion: [S, A], or a Misspecification.
        """
        how: dict[str, Any] = {"target": target, "reward": reward, "delta": delta, "shape": shape}
        within = partial(self._confidences.within, self.problem.model, self.evidence)
        return robustness(self.problem, self.evidence, within, **how)

    def resume(self, **until: Any) -> "Run":
        """Go on exploring: resume(episodes=500), resume(until_eps=0.1), ...; resume() finishes what was interrupted.

        The run itself is left as it is. One that lives in a folder goes on in its folder.
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

    def to_drn(self, path: str | PathLike[str], what: str = "interval", **how: Any) -> None:
        """Write `explicit_model` as Storm's explicit text format."""
        self.explicit_model(what, **how).to_drn(path)

    def to_umb(self, path: str | PathLike[str], what: str = "interval", **how: Any) -> None:
        """Write `explicit_model` as a unified Markov binary."""
        self.explicit_model(what, **how).to_umb(path)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the run into a new folder, from which `load` reads it back."""
        from horizonfree.runs.storage import create

        create(self, path)
