"""Suboptimality bounds as a function of the misspecification, and the largest one that a target allows.

With probability 1 - delta the bounds for all zeta hold together (docs/robust.md), so zeta need not be declared before
the data are seen. Radii that differ between state-action pairs are zeta times a declared shape with maximum 1. A bound
that holds within a larger radius holds within a smaller one for the same plan, so the curve never falls.

At 0 the curve and `run.certificate()` bound the same suboptimality by different methods, each with probability
1 - delta: the curve by the three sets of docs/robust.md, which share delta, the certificate by e-processes alone, with
all of delta. Either may be smaller; texts say which method they refer to.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from horizonfree._deprecated import renamed_words
from horizonfree._validation import check_probability
from horizonfree.errors import OptionError
from horizonfree.guarantees.certificate import proved, round_down
from horizonfree.mdp import rewards
from horizonfree.mdp.policies import named_allowed
from horizonfree.mdp.rewards import Reward
from horizonfree.models import certify
from horizonfree.models.base import Confidence, Evidence
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
)  # radii of the curve
NUM_BISECTIONS = 7  # for the largest radius, between two of the grid
METHOD_NOTE = " (by the bounds for misspecified models; certificate() has another bound for a correct one)"


@dataclass(frozen=True, eq=False)
class Robustness:
    """Suboptimality bounds for different misspecifications, which hold together with probability 1 - delta.

    `zeta`: the largest with which the bound is at most `target`, or None. `zeta_low`: every parameter is at least this
    far from some row of the true kernel. `gaps` [m]: the bounds for `zetas` [m], nan where the data refute them.
    """

    target: float
    delta: float
    zeta: float | None
    zeta_low: float
    zetas: Float[np.ndarray, " m"]
    gaps: Float[np.ndarray, " m"]

    def summary(self) -> str:
        """The result in a sentence."""
        refuted = ""
        if self.zeta_low > 0:
            refuted = f"; the data refute misspecifications below {round_down(self.zeta_low):.3g}"
        if self.zeta is None:
            return f"even with a correct model, {self.target:g} is not certified yet{refuted}{METHOD_NOTE}"
        largest = f"{round_down(self.zeta):.3g}" if self.zeta > 0 else "0"
        return (
            f"{proved(self.target, self.delta)} if every row of the kernel is within {largest} (total variation) of "
            f"one parameter{refuted}{'' if self.zeta > 0 else METHOD_NOTE}"
        )

    def __str__(self) -> str:
        return self.summary()

    words = renamed_words("Robustness", summary)


def compute_robustness(
    problem: Problem,
    evidence: Evidence,
    confidence_for: Callable[[float, Misspecification], Confidence],
    *,
    target: Any,
    reward: Any,
    delta: Any,
    shape: Any,
) -> Robustness:
    """The curve of a run, for the plans of every reward or for the plan of one.

    confidence_for: the confidence set at 1 - delta for given radii, which may all be 0.
    """
    target = check_probability(target, "target", "a bound to be certified")
    delta = check_probability(delta, "delta")
    about = declared(shape)
    if problem.sampling is not None:
        raise OptionError(
            "robustness is for kernels that are given; these are estimates from samples, and their error is part of "
            "every certificate: use certificate(misspecification=...), which adds to it"
        )
    if about is None:
        raise OptionError("shape has no entry above 0; it is the ratio of the radii")
    radii = about.radii(*problem.space.sizes[1:])
    resolved = None if reward is None else rewards.resolve(problem, reward)
    results: dict[float, tuple[float, float]] = {}

    def gap(zeta: float) -> float:
        if zeta not in results:
            within = Misspecification(tv=zeta * radii / radii.max(), support=about.support)
            confidence = confidence_for(delta, within)
            results[zeta] = _gap(problem, evidence, confidence, resolved), confidence.parts()["zeta_low"]
        return results[zeta][0]

    for zeta in GRID:
        gap(zeta)
    good = [zeta for zeta in GRID if gap(zeta) <= target]
    if good and good[-1] < GRID[-1]:
        inside, outside = good[-1], GRID[GRID.index(good[-1]) + 1]
        for _ in range(NUM_BISECTIONS):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if gap(middle) <= target else (inside, middle)
        good.append(inside)
    zetas = np.array(sorted(results))
    gaps = np.array([gap(zeta) for zeta in zetas])
    monotone = np.fmin.accumulate(gaps[::-1])[::-1]  # bounds within a larger radius hold within a smaller one
    zeta_low = max(low for _, low in results.values())
    curve = np.where(np.isnan(gaps) | (zetas < zeta_low), np.nan, np.fmin(monotone, 1.0))
    return Robustness(target, delta, good[-1] if good else None, zeta_low, zetas, curve)


def _gap(problem: Problem, evidence: Evidence, confidence: Confidence, reward: Reward | None) -> float:
    """The bound for every reward, or for the one; nan where the data refute the radii."""
    model = problem.model
    if confidence.is_refuted:
        return float("nan")
    if reward is None:
        return certify.uniform(model, evidence, confidence).eps
    policy = named_allowed(model.space, np.array(best_plan(confidence.kernel, reward.table).policy, np.int32))
    return certify.for_reward(model, confidence, reward.table, policy)[1].eps
