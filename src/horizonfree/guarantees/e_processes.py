"""E-processes of a model class (their starts and weights, declared before the first episode) and of alternatives to it.

An alternative predicts every transition before it is seen; Q_n is the probability that it gave to the observations.
Against the best parameter of the class in hindsight,

    E_n = Q_n / sup_theta prod_t P_theta(s'_t|s_t,a_t),      P(E_n >= 1/delta at some n) <= delta inside the class,

whatever gathered the data. The mean of several e-values is an e-value, so together they refute the class when

    (1/m) sum_i E_i >= 1/delta.

Proofs in docs/further-proofs.md.

A table of frequencies averaged over Dirichlet's law with a half per outcome (Krichevsky and Trofimov) is an alternative
in closed form: with counts N of m outcomes,

    log Q = log G(m/2) - log G(m/2 + sum N) + sum_j [log G(1/2 + N_j) - log G(1/2)].
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy  # its submodules load slowly, at first use
from jaxtyping import Bool, Float, Int

from horizonfree._deprecated import renamed_words
from horizonfree._validation import check_floats, check_integers
from horizonfree.errors import OptionError
from horizonfree.guarantees.certificate import delta_text

# Start and weight of each e-process without a budget: most weight where most runs end.
LADDER = {0: 0.05, 20: 0.15, 60: 0.2, 200: 0.2, 600: 0.2, 2_000: 0.1, 6_000: 0.06, 20_000: 0.04}
MAX_START = 2**31 - 1  # no run has more episodes
LATE_WEIGHT = 0.9  # weight of the late e-process of a budget; the rest belongs to the one from the start
KT_PRIOR = 0.5


class EProcesses(NamedTuple):
    """J e-processes: the episodes before each starts, and weights that sum to at most 1."""

    starts: Int[np.ndarray, " J"]
    weights: Float[np.ndarray, " J"]


def ladder(budget: int | None = None, burn_in: int = 5) -> EProcesses:
    """The default e-processes, good at any time; or those for a budget of K episodes.

    Then they start at K/burn_in and at 0. K/5 is the best start of mixtures (it minimises slack / (K - start) for few
    unknowns); `Model.burn_in` is the best choice of each class.
    """
    if budget is None:
        bets = LADDER
    elif budget < burn_in:
        bets = {0: 1.0}
    else:
        bets = {0: 1 - LATE_WEIGHT, min(budget // burn_in, MAX_START): LATE_WEIGHT}
    return EProcesses(np.array(list(bets), np.int32), np.array(list(bets.values())))


def check_e_processes(bets: EProcesses) -> None:
    """Refuse weights that are not positive or exceed 1 in total."""
    starts, weights = (
        check_integers(bets.starts, "starts of the e-processes"),
        check_floats(bets.weights, "weights of the e-processes"),
    )
    if starts.ndim != 1 or starts.shape != weights.shape or starts.size == 0 or (starts < 0).any():
        raise OptionError(
            f"starts of the e-processes are {starts}, weights {weights}; give as many of one as of the other, >= 0"
        )
    if not ((weights > 0).all() and weights.sum() <= 1 + 1e-12):
        raise OptionError(
            f"weights of the e-processes are {weights}; they must be positive and sum to at most 1"
        )


class Alternative(NamedTuple):
    """A richer class by its name, and the logarithm of its e-value: a lower bound of it where that is easier."""

    name: str
    log_e: float


@dataclass(frozen=True)
class Check:
    """The test of a class by alternatives; a refutation is wrong with probability delta at most."""

    alternatives: tuple[Alternative, ...]
    delta: float
    episodes: int

    @property
    def log_e(self) -> float:
        """The logarithm of the mean e-value; minus infinity without alternatives."""
        if not self.alternatives:
            return -math.inf
        return float(
            np.logaddexp.reduce([x.log_e for x in self.alternatives]) - math.log(len(self.alternatives))
        )

    @property
    def is_refuted(self) -> bool:
        """Whether the class is wrong, up to delta."""
        return self.log_e >= -math.log(self.delta)

    @property
    def strongest(self) -> Alternative:
        """The alternative with the largest e-value."""
        return max(self.alternatives, key=lambda x: x.log_e)

    def summary(self) -> str:
        """The result in a sentence."""
        if not self.alternatives:
            return "no alternative was tested"
        if self.is_refuted:
            return (
                f"the class is refuted by {self.strongest.name!r}: e-value {power(self.strongest.log_e)} after "
                f"{self.episodes:,} episodes (wrong with probability {delta_text(self.delta)} at most)"
            )
        result = ", ".join(f"{x.name} {power(x.log_e)}" for x in self.alternatives)
        return f"not refuted: e-values after {self.episodes:,} episodes are {result}"

    def __str__(self) -> str:
        return self.summary()

    words = renamed_words("Check", summary)


def power(log_e: float) -> str:
    """An e-value as a power of ten, rounded down."""
    if math.isinf(log_e):
        return "infinity" if log_e > 0 else "0"
    return f"10^{math.floor(log_e / math.log(10) * 10) / 10:.1f}"


def dirichlet(
    counts: Int[np.ndarray, "*n m"], is_outcome: Bool[np.ndarray, "*n m"]
) -> Float[np.ndarray, "*n"]:
    """The logarithm of the probability of these counts in one order, averaged over all laws on the outcomes."""
    m = is_outcome.sum(-1)
    seen = np.where(is_outcome, counts, 0)
    gammaln = scipy.special.gammaln
    each: np.ndarray = np.where(is_outcome, gammaln(KT_PRIOR + seen) - gammaln(KT_PRIOR), 0.0).sum(-1)
    return np.asarray(gammaln(KT_PRIOR * m) - gammaln(KT_PRIOR * m + seen.sum(-1)) + each)


def mean_of(log_e: list[float], weights: Float[np.ndarray, " k"]) -> float:
    """The logarithm of sum_i w_i E_i, for weights that sum to at most 1."""
    return float(np.logaddexp.reduce(np.asarray(log_e) + np.log(weights)))
