"""A run: what exploration left behind, ready to plan for any reward and to certify the plans."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int

from horizonfree._inputs import share, shown, whole
from horizonfree._x64 import to_device, x64
from horizonfree.errors import OptionError, ShapeError
from horizonfree.explorers.interface import Explorer, Planned
from horizonfree.explorers.loop import Progress
from horizonfree.explorers.plug_in import PlugIn
from horizonfree.guarantees.certificate import Certificate, in_units
from horizonfree.mdp import rewards
from horizonfree.mdp.space import Kernel
from horizonfree.models import certify
from horizonfree.models.interface import Confidence, Evidence, Model
from horizonfree.models.plain import arrays_of
from horizonfree.planning.backward import Solution, best_plan, optimal_jax
from horizonfree.problems.problem import Problem
from horizonfree.runs.until import Until


@dataclass(frozen=True, eq=False)
class Plan:
    """The answer to one reward. Value and gap are in the units of the reward as it was given.

    `value` is the policy's value in the model it was planned in; `gap` is what it loses at most against the best
    policy, with probability 1 - certificate.delta. `kernel` is the maximum-likelihood estimate that the certificate
    speaks of.
    """

    policy: Int[np.ndarray, "H S"]
    value: float
    gap: float
    certificate: Certificate
    kernel: Kernel

    def act(self, h: int, state: int) -> int:
        """The action at step h (from 0) in a state."""
        H, S = self.policy.shape
        h = whole(h, "h", 0, H - 1, f"a step, 0 to {H - 1}", ShapeError)
        state = whole(state, "state", 0, S - 1, f"a state, 0 to {S - 1}", ShapeError)
        return int(self.policy[h, state])


@dataclass(frozen=True, eq=False)
class Run:
    """A problem explored so far. `records` holds one number per episode for everything the explorer reports.

    `until` is what was asked for last; `folder` is where the run lives, if it was stored. `is_simulated` is False
    when a real environment was stepped.
    """

    problem: Problem
    explorer: Explorer | None
    seed: int
    progress: Progress
    records: Mapping[str, np.ndarray]
    is_simulated: bool = True
    until: Until | None = None
    folder: Path | None = None
    # init=False: dataclasses.replace never copies it on to a run with other evidence
    _confidences: dict[float, Confidence] = field(default_factory=dict, init=False, repr=False)

    @property
    def episodes(self) -> int:
        """How many episodes were gathered."""
        return int(self.progress.episode)

    @property
    def evidence(self) -> Evidence:
        """Counts and bets."""
        return self.progress.evidence

    @property
    @x64
    def theta_hat(self) -> Float[np.ndarray, " d"]:
        """The explorer's own estimate; certified plans are made in the maximum-likelihood one."""
        if not isinstance(self.explorer, PlugIn):
            return np.asarray(self.evidence.theta)
        model, progress = to_device((self.problem.model, self.progress))
        return np.asarray(self.explorer.theta_hat(model, progress.state, progress.evidence))

    def confidence(self, delta: float = 0.05) -> Confidence:
        """What the evidence says at confidence 1 - delta; computed once."""
        delta = share(delta, "delta")
        if delta not in self._confidences:
            self._confidences[delta] = certify.confidence(self.problem.model, self.evidence, delta=delta)
        return self._confidences[delta]

    def certificate(self, delta: float = 0.05, *, method: str = "uniform") -> Certificate:
        """One gap for the plans of every reward of total at most 1.

        method: "uniform" (any run), "direct" (sharper and slower, for up to 5 unknown directions), or "paper" for the
        algorithm's own guarantee, at the delta it explored with, which holds for plan(..., model="explorer").
        """
        model = self.problem.model
        if isinstance(method, str) and method == "paper":
            return self._claim(delta)
        if not isinstance(method, str) or method not in model.methods:
            choice = ", ".join(map(repr, [*model.methods, "paper"]))
            raise OptionError(f"method is {shown(method)}; it must be one of {choice}")
        return certify.uniform(model, self.evidence, self.confidence(delta), method)

    def _claim(self, delta: float) -> Certificate:
        """The explorer's own guarantee, unless it has none, another delta, or the data refute the class."""
        claim = (
            None if self.explorer is None else self.explorer.claim(self.problem.model, self.progress.state)
        )
        if claim is None:
            raise OptionError("this explorer has no certificate of its own; the method 'uniform' is for all")
        if claim.delta > delta:
            raise OptionError(
                f"delta is {delta:g}, but this run explored with {claim.delta:g}, so its own guarantee may fail "
                "more often; ask for that, or use the method 'uniform'"
            )
        found = self.certificate(delta)
        return found if found.is_rejected else claim

    def plan(
        self, reward: Any, *, scale: str = "total", delta: float = 0.05, model: str = "likelihood"
    ) -> Plan:
        """The best policy for a reward, with a certified gap.

        reward: [H, S, A], [S, A], [S], a function (h, s, a) -> number, or what `goal`, `occupancy`, `rescale` return.
        scale: "total" (at most 1 along every trajectory) or "per-step" (entries in [0, 1]; gaps grow with H).
        model: "likelihood" plans in the maximum-likelihood model, "explorer" as the explorer itself would.
        """
        checked = rewards.resolve(self.problem, reward, scale=scale)
        confidence = self.confidence(delta)
        if not isinstance(model, str) or model not in ("likelihood", "explorer"):
            raise OptionError(f"model is {shown(model)}; it must be 'likelihood' or 'explorer'")
        if model == "likelihood":
            planned = best_plan(confidence.kernel, checked.table)
        else:
            planned = self._own_plan(checked.table)
        _, certificate = certify.for_reward(self.problem.model, confidence, checked.table, planned.policy)
        return Plan(
            np.array(planned.policy, np.int32),
            checked.factor * float(self.problem.space.at_start(planned.V[0])) + checked.offset,
            checked.factor * certificate.eps,
            in_units(certificate, checked.factor),
            confidence.kernel,
        )

    @x64
    def _own_plan(self, table: Float[np.ndarray, "H S A"]) -> Solution:
        """As the explorer would plan; logged episodes have the estimate of the evidence."""
        world = to_device((self.problem.model, self.progress, np.asarray(table)))
        return Solution(*(np.asarray(x) for x in _explorer_plan(self.explorer, *world)))

    def resume(self, **until: Any) -> "Run":
        """Go on exploring: resume(episodes=500), resume(until_eps=0.1), ...; resume() finishes what was interrupted.

        The run itself is left as it is. One that lives in a folder goes on in its folder.
        """
        from horizonfree.runs.explore import advance

        return advance(self, **until)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the run into a new folder, from which `load` reads it back."""
        from horizonfree.runs.store import create

        create(self, path)


@eqx.filter_jit
def _explorer_plan(
    explorer: Explorer | None, model: Model, progress: Progress, reward: Float[Array, "H S A"]
) -> Planned:
    if explorer is None:
        return Planned(*optimal_jax(model.estimate(progress.evidence), reward))
    return explorer.plan(model, progress.state, progress.evidence, reward)


def check_progress(progress: Progress, episodes: int) -> None:
    """Refuse evidence of another number of episodes, or that no episodes give."""
    for name, x in {"episode": progress.episode, "evidence.episodes": progress.evidence.episodes}.items():
        if x != episodes:
            raise ValueError(f"{name} is {x} after {episodes} episodes")
    for name, x in arrays_of(progress.evidence, "evidence.").items():
        is_kept = x.ndim > 0 or x != np.inf  # a loss that was not kept is infinite
        if (x < 0).any() if x.dtype.kind in "iu" else is_kept and not np.isfinite(x).all():
            raise ValueError(f"{name} holds a negative count, or a number that is not finite")
