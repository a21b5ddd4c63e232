"""How wrong the class may be: gaps as a function of the misspecification, and the largest that a target allows.

With probability 1 - delta the gap of every zeta holds, for all of them at once (docs/robust.md): zeta need not be
declared before the data are seen. Where radii differ from pair to pair they grow together, zeta times a declared shape
whose largest entry is 1. A gap that holds within a larger radius holds within a smaller one, for the same plan, so the
curve never falls.

At 0 the curve and `run.certificate()` bound the same loss by different methods, each with probability 1 - delta: the
curve by the three sets of docs/robust.md, which share delta, the certificate by e-processes alone, with all of delta.
Either number may be the smaller one. Words of the curve say which method they are about.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from horizonfree._validation import check_probability
from horizonfree.errors import OptionError
from horizonfree.guarantees.certificate import proved, round_down
from horizonfree.mdp import rewards
from horizonfree.mdp.allowed import named_allowed
from horizonfree.mdp.rewards import Reward
from horizonfree.models import certify
from horizonfree.models.interface import Confidence, Evidence
from horizonfree.models.misspecification import Misspecification, declared
from horizonfree.planning.induction import best_plan
from horizonfree.problems.problem import Problem

GRID = (
    0.0,
    1e-4,
    3e-4,
    1e-3,
    2e-3,
    3e-3,
    5e-3,
    1e-2,
    2e-2,
    3e-2,
    5e-2,
    1e-1,
)  # radii that are always looked at
HALVINGS = 7  # of the interval between two of them, for the largest
METHOD = "; by the bounds for misspecified models: for an exact model certificate() has its own bound"


@dataclass(frozen=True, eq=False)
class Robustness:
    """What a declared misspecification costs, with probability 1 - delta for all of it at once.

    `zeta` is the largest with which the gap is at most `target`, None where there is none; no single parameter is
    within less than `zeta_low` of all laws. `gaps` [m] are those of `zetas` [m]; nan where the data refute them.
    """

    target: float
    delta: float
    zeta: float | None
    zeta_low: float
    zetas: Float[np.ndarray, " m"]
    gaps: Float[np.ndarray, " m"]

    @property
    def words(self) -> str:
        """What is proved."""
        low = f"{round_down(self.zeta_low):.3g}" if self.zeta_low > 0 else "0"
        end = f"the data show that no parameter is closer than {low}"
        if self.zeta is None:
            return f"even with a correct model, {self.target:g} is not certified yet; {end}{METHOD}"
        most = f"{round_down(self.zeta):.3g}" if self.zeta > 0 else "0"
        return (
            f"{proved(self.target, self.delta)}, as long as every transition law is within {most} of one and the same "
            f"parameter; {end}{'' if self.zeta > 0 else METHOD}"
        )


def robustness(
    problem: Problem,
    evidence: Evidence,
    confident: Callable[[float, Misspecification], Confidence],
    *,
    target: Any,
    reward: Any,
    delta: Any,
    shape: Any,
) -> Robustness:
    """The curve of a run, for the plans of every reward or for the plan of one.

    confident: what its evidence says at confidence 1 - delta within radii, which may all be 0.
    """
    target, delta = (
        check_probability(target, "target", "a gap to be certified"),
        check_probability(delta, "delta"),
    )
    about = declared(shape)
    if problem.sampling is not None:
        raise OptionError(
            "robustness is of kernels that are given; these are estimates from samples, and their error is in every "
            "certificate: ask for certificate(misspecification=...), which adds to it"
        )
    if about is None:
        raise OptionError("shape has no entry above 0; it says in which proportion radii grow")
    radii = about.radii(*problem.space.sizes[1:])
    checked = None if reward is None else rewards.resolve(problem, reward)
    found: dict[float, tuple[float, float]] = {}

    def gap(zeta: float) -> float:
        if zeta not in found:
            within = Misspecification(tv=zeta * radii / radii.max(), support=about.support)
            confidence = confident(delta, within)
            found[zeta] = _gap(problem, evidence, confidence, checked), confidence.parts()["zeta_low"]
        return found[zeta][0]

    for zeta in GRID:
        gap(zeta)
    good = [zeta for zeta in GRID if gap(zeta) <= target]
    if good and good[-1] < GRID[-1]:
        inside, outside = good[-1], GRID[GRID.index(good[-1]) + 1]
        for _ in range(HALVINGS):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if gap(middle) <= target else (inside, middle)
        good.append(inside)
    zetas = np.array(sorted(found))
    gaps = np.array([gap(zeta) for zeta in zetas])
    least = np.fmin.accumulate(gaps[::-1])[::-1]  # what holds within a larger radius
    zeta_low = max(low for _, low in found.values())
    shown = np.where(np.isnan(gaps) | (zetas < zeta_low), np.nan, np.fmin(least, 1.0))
    return Robustness(target, delta, good[-1] if good else None, zeta_low, zetas, shown)


def _gap(problem: Problem, evidence: Evidence, confidence: Confidence, reward: Reward | None) -> float:
    """Of the plans of every reward, or of the one; nan where the data refute the radii."""
    model = problem.model
    if confidence.is_refuted:
        return float("nan")
    if reward is None:
        return certify.uniform(model, evidence, confidence).eps
    policy = named_allowed(model.space, np.array(best_plan(confidence.kernel, reward.table).policy, np.int32))
    return certify.for_reward(model, confidence, reward.table, policy)[1].eps
