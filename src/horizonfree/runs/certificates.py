"""Confidence sets of a run, cached; certificates for families of rewards, and the explorer's own guarantee.

`Run.robustness` computes suboptimality bounds as a function of the misspecification zeta, and the largest zeta that a
target allows. With probability 1 - delta the bounds for all zeta hold together (docs/robust.md), so zeta need not be
declared before the data are seen. Radii that differ between state-action pairs are zeta times a declared shape with
maximum 1. A bound for a larger radius holds for a smaller one and the same plan, so the curve never falls.

At 0 the curve and `run.certificate()` bound the same suboptimality by different methods, each with probability 1 -
delta: the curve by the three sets of docs/robust.md, which share delta, the certificate by e-processes alone, with
all of delta. Either may be smaller; texts say which method they refer to.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from horizonfree._deprecated import renamed_words
from horizonfree._validation import check_choice, check_probability, require
from horizonfree.errors import OptionError
from horizonfree.guarantees.certificate import Certificate, bound_statement, round_down
from horizonfree.mdp import rewards
from horizonfree.mdp.policies import named_allowed
from horizonfree.mdp.rewards import Reward, family
from horizonfree.models import certify
from horizonfree.models.base import Confidence, Evidence, Model
from horizonfree.models.misspecification import Misspecification, declared
from horizonfree.planning.induction import best_plan
from horizonfree.problems.problem import Problem
from horizonfree.problems.sampling import DELTA_SHARE
from horizonfree.runs import certificate_files
from horizonfree.runs.check import apply_check
from horizonfree.runs.meter import counter

MIN_DELTA = 1e-300  # of misspecified models: the shares of a smaller delta underflow


class ConfidenceCache:
    """The confidence sets of one state of the evidence, by delta and misspecification."""

    def __init__(self) -> None:
        self._sets: dict[Any, Confidence] = {}
        self._robust_sets: dict[Any, Confidence] = {}
        self._robust_functions: dict[float, Callable[[Misspecification], Confidence]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Without the functions, which cannot be pickled."""
        return self.__dict__ | {"_robust_functions": {}}

    def get(self, problem: Problem, evidence: Evidence, delta: Any, misspecification: Any) -> Confidence:
        """At confidence 1 - delta, for the declared misspecification and the errors of estimated kernels."""
        delta, model = check_probability(delta, "delta"), problem.model
        about = all_radii(problem, misspecification)
        sampling, delta_episodes = problem.sampling, delta
        if sampling is not None:  # a share of delta for the samples of the kernels, the rest for the episodes
            about = sampling.misspecification(DELTA_SHARE * delta, about)
            delta_episodes = (1 - DELTA_SHARE) * delta
        key = (delta, *_key(model, about)) if about is not None else delta
        if key not in self._sets:
            if about is None:
                confidence = certify.confidence(model, evidence, delta=delta)
            else:
                confidence = self.robust(model, evidence, delta_episodes, about)
            if sampling is not None:
                why = {} if declared(misspecification) is not None else {"known": sampling.clause(delta)}
                mixture: Any = confidence  # kernels from samples are mixtures
                confidence = dataclasses.replace(mixture, delta=delta, **why)
            self._sets[key] = dataclasses.replace(confidence, layout=problem.layout)
        return self._sets[key]

    def robust(self, model: Model, evidence: Evidence, delta: float, about: Misspecification) -> Confidence:
        """At confidence 1 - delta for these radii, which may all be 0; delta is split in the same way for all."""
        meaning = f"at least {MIN_DELTA:g}, since it is split with a misspecification"
        require(delta >= MIN_DELTA, "delta", delta, meaning)
        key = delta, *_key(model, about)
        if key not in self._robust_sets:
            if delta not in self._robust_functions:  # only the last one is kept: it is large
                self._robust_functions = {delta: model.robust_confidence(evidence, delta)}
            self._robust_sets[key] = self._robust_functions[delta](about)
        return self._robust_sets[key]


def all_radii(problem: Problem, misspecification: Any) -> Misspecification | None:
    """What a caller declares, and the errors of cells; None without both."""
    about, cells = declared(misspecification), problem.radii
    if cells is None:
        return about
    if about is None:
        return Misspecification(tv=cells)
    return Misspecification(tv=np.minimum(1.0, cells + about.radii(*cells.shape)), support=about.support)


def _key(model: Model, about: Misspecification) -> tuple[Any, ...]:
    radii = about.radii(*model.space.sizes[1:])
    return radii.tobytes(), about.kl is None, about.sampled is None, about.support


def certificate_of(
    run: Any,
    delta: float,
    *,
    method: str | None,
    rewards: Any,
    misspecification: Any,
    alternatives: Any,
    progress: bool | None,
) -> Certificate:
    """`Run.certificate`."""
    model, evidence = run.problem.model, run.evidence
    about = all_radii(run.problem, misspecification)
    if alternatives is not None:
        if about is not None:
            raise OptionError(
                "alternatives= tests a model class that is assumed to be correct; give that or misspecification="
            )
        certificate = run.certificate(delta, method=method, rewards=rewards, progress=progress)
        check = run.check(alternatives=alternatives, delta=delta)
        return dataclasses.replace(apply_check(certificate, check), claim=None)
    if rewards is not None:
        certificate = family_certificate(run, rewards, run.confidence(delta, misspecification), progress)
        return certificate if about is not None else certificate_files.family(run, certificate, rewards)
    if about is not None or run.problem.sampling is not None:
        is_uniform = method is None or (isinstance(method, str) and method == "uniform")
        require(is_uniform, "method", method, "'uniform', with misspecification= or kernels from samples")
        return certify.uniform(model, evidence, run.confidence(delta, misspecification))
    if method is None:
        certificate = certify.smallest(model, evidence, run.confidence(delta))
    elif check_choice(method, "method", [*model.methods, "paper"]) == "paper":
        return paper_certificate(run, delta)
    else:
        certificate = certify.uniform(model, evidence, run.confidence(delta), method)
    proved_by = "uniform" if certificate.is_rejected else certificate.method
    return certificate_files.every_reward(run, certificate, proved_by)


def family_certificate(run: Any, rewards: Any, confidence: Confidence, progress: bool | None) -> Certificate:
    """For a `Run`, the largest bound of the plans of several rewards; progress: as for `explore`."""
    name, resolved = family(run.problem, rewards)
    with counter(len(resolved), "reward", progress) as show:
        return certify.for_family(run.problem.model, confidence, resolved, name, show)


def paper_certificate(run: Any, delta: float) -> Certificate:
    """The guarantee of a run's explorer; an error if it has none or another delta."""
    claim = explorer_claim(run, delta)
    if claim is None:
        raise OptionError("this explorer has no certificate of its own; the method 'uniform' is for all")
    if claim.delta > delta:
        raise OptionError(
            f"delta is {delta:g}, but this run explored with {claim.delta:g}, so its own guarantee may fail "
            "more often; ask for that, or use the method 'uniform'"
        )
    uniform: Certificate = run.certificate(delta, method="uniform")
    return uniform if uniform.is_rejected else claim


def explorer_claim(run: Any, delta: float) -> Certificate | None:
    """The guarantee of a run's explorer, None if it has none; delta matters where it rests on the evidence."""
    explorer, model = run.explorer, run.problem.model
    if (
        explorer is None or run.problem.sampling is not None or run.problem.radii is not None
    ):  # nothing is proved for kernels that are estimates
        return None
    from horizonfree.explorers.python import own_state  # imports JAX, as every explorer does

    claim: Certificate | None = explorer.claim(model, own_state(run.progress.state))
    return claim or explorer.claim_in(model, run.confidence(delta), run.certificate(delta))


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
            f"{bound_statement(self.target, self.delta)} if every row of the kernel is within {largest} "
            f"(total variation) of one parameter{refuted}{'' if self.zeta > 0 else METHOD_NOTE}"
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
    if problem.radii is not None:
        raise OptionError(
            "robustness is for states that are given; here the errors of cells are part of every certificate: use "
            "certificate(misspecification=...), which adds to them"
        )
    problem.check_exact_kernels(
        "robustness is for kernels that are given; with samples their error is part of every certificate: use "
        "certificate(misspecification=...), which adds to it"
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
