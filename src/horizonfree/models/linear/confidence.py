"""The confidence set of a linear MDP: the best of its e-processes.

On one event of probability 1 - delta, for every e-process j with weight w_j and at all times, the lemma of bounds.py
holds

    for all V at once, at L = (S-1) log 2 + log(1 / (delta' w_j)),
    and for V*_2..V*_H of each of F declared rewards, at L = log(4 (H-1) F / (delta w_j)),

delta' = delta, or delta/2 where rewards were declared. The e-process with the smallest uniform gap is used. The last
quarter of delta belongs to the second moments of declared rewards (variance.py), for all data since the start.

The class is refuted where frequencies of a pair contradict its row of the estimate. After N visits of a pair its
frequencies f obey, for all pairs and at all times, with probability 1 - delta/2,

    TV(f, P) <= sqrt(N + 1) / N * sqrt((log(1 + N) / 2 + (S-1) log 2 + log(2 S A / delta)) / 2),

the lemma with one feature that is 1, R = 1, for every V at once. The estimate is within its own width of P, with
probability 1 - delta/2. Where the two contradict each other, the class is wrong, but with probability delta.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree.errors import OptionError
from horizonfree.guarantees.certificate import delta_text
from horizonfree.mdp.events import Lift
from horizonfree.mdp.space import Kernel, Space
from horizonfree.models.base import Bounds, Confidence, Policy
from horizonfree.models.linear.bounds import (
    CONTRADICTION_TOLERANCE,
    Fit,
    LinearEvidence,
    fit,
    level_of_all,
    level_of_some,
    prior,
    regress,
    reward_bounds,
    uniform_loss,
)
from horizonfree.models.linear.variance import SecondMoments, metric

NEEDED_CONSTANTS = 0.69, 0.8  # a rule of thumb for the uniform gap of well-chosen episodes (`needed`)


@dataclass(frozen=True, eq=False)
class Whole:
    """The estimate from all data, its radii for declared rewards and for all V, and second moments."""

    fit: Fit
    beta: float
    beta_all: float
    moments: SecondMoments


@dataclass(frozen=True, eq=False)
class LinearConfidence(Confidence):
    """The estimate of one e-process, its widths, and its radii.

    `beta_all` is that of all V, `beta_declared` that of declared rewards, which have a second bound from the `whole`;
    `misfits`: pairs that contradict the class.
    """

    space: Space
    kernel: Kernel
    eps: float
    delta: float
    is_refuted: bool
    fit: Fit
    beta_all: float
    beta_declared: float
    declared: Float[np.ndarray, "F H S A"]
    whole: Whole | None
    bet: int
    starts: Int[np.ndarray, " J"]
    misfits: int
    episodes: int
    impossible: int

    def bounds(self, reward: Float[np.ndarray, "H S A"], policy: Policy) -> Bounds:
        """By tangents and bands, by intervals, by the gap for every reward, and for declared ones by second moments."""
        is_declared = self.is_declared(reward)
        beta = self.beta_declared if is_declared else self.beta_all
        result = reward_bounds(self.space, self.fit, reward, policy, beta, self.beta_all, self.eps)
        if self.whole is None or not is_declared:
            return result
        whole = self.whole
        radii = whole.beta, whole.beta_all, math.inf
        other = reward_bounds(self.space, whole.fit, reward, policy, *radii, whole.moments)
        low, high = np.fmax(result.low, other.low), np.fmin(result.high, other.high)
        gaps = result.gaps | {"variance": min(other.gaps["interval"], other.gaps["tangent"])}
        is_contradicted = result.is_refuted | other.is_refuted | (low > high + CONTRADICTION_TOLERANCE)
        return Bounds(result.value, low, high, gaps, is_contradicted)

    def lifted(self, lift: Lift) -> "LinearConfidence":
        """Radii are for values of states alone."""
        raise OptionError(
            "events, the distribution of a total, and transition= that is not of the form g(s, a) + f(s') need states "
            "that remember, and certificates of linear MDPs are about values of states alone; pay what is expected, or "
            "for states and actions, or take problem.as_tabular()"
        )

    def is_declared(self, reward: Float[np.ndarray, "H S A"]) -> bool:
        """Whether the reward is one of those, bit by bit, after the first step: the first value meets no transition."""
        if self.declared.shape[1:] != reward.shape:
            return False
        return bool((self.declared[:, 1:] == reward[1:]).all((1, 2, 3)).any())

    @property
    def width(self) -> Float[np.ndarray, "S A"]:
        """How far a row of the kernel may be from the truth, in total variation."""
        return self.fit.width(self.beta_all)

    def parts(self) -> dict[str, float]:
        """The numbers behind the bound, of the chosen e-process."""
        S, A, d = self.fit.X.shape
        return {
            "start": float(self.starts[self.bet]),
            "episodes": float(self.episodes),
            "features": float(d),
            "pairs": float(S * A),
            "known": float(S * A - self.fit.is_bad.sum()),
            "width": float(self.width.max()),
            "beta": float(self.beta_all),
        }

    def refutation(self) -> str:
        """Pairs that do not go as their features say."""
        if self.impossible > 0:
            return f"{self.impossible} transitions are impossible for every parameter"
        surely = f"(wrong with probability {delta_text(self.delta)} at most)"
        if self.misfits > 0:
            return f"{self.misfits} pairs (s,a) do not go as these features allow {surely}"
        return f"no linear MDP with these features explains the data {surely}"

    def missing(self) -> str:
        """Pairs outside of what the e-process has seen, or just more episodes."""
        bad, pairs = np.argwhere(self.fit.is_bad), self.fit.is_bad.size
        enough = float(f"{self.needed(0.5):.2g}")
        wanted = f"a gap of 0.5 for every reward needs about {enough:,.0f} well-chosen episodes in all"
        if len(bad):
            s, a = bad[0]
            return (
                f"nothing is known of {len(bad)} of {pairs} pairs (s,a), as nothing like them was seen; the first is "
                f"({s}, {a}); {wanted}"
            )
        s, a = np.unravel_index(int(self.width.argmax()), self.width.shape)
        return f"the least known of {pairs} pairs (s,a) is ({s}, {a}), up to {self.width.max():.2g}; {wanted}"

    def needed(self, target: float) -> float:
        """4 (.69) (S log 2 + .8 d + log(1/delta)) (H-1) d / target^2: what the best design takes, roughly."""
        S, _, d = self.fit.X.shape
        share, per_feature = NEEDED_CONSTANTS
        level = S * math.log(2) + per_feature * d - math.log(self.delta)
        return float(4 * share * level * max(self.space.horizon - 1, 1) * d / target**2)

    def more_episodes(self, target: float) -> float:
        """The gap falls like 1/sqrt(episodes); where it is vacuous, what the best design needs, less those so far."""
        eps, seen = self.eps, self.episodes
        if eps <= target:
            return 0.0
        if eps < 1:
            used = seen - int(self.starts[self.bet])
            return float(math.ceil(used * ((eps / target) ** 2 - 1)))
        return max(0.0, math.ceil(self.needed(target) - seen))

    def after(self, times: float) -> tuple["LinearConfidence", float]:
        """Widths shrink like 1/sqrt(times); pairs of which nothing is known, and vacuous gaps, do not change."""
        root = math.sqrt(times)

        def narrower(fit: Fit) -> Fit:
            return replace(fit, X=fit.X / root, e=fit.e / root)

        whole = self.whole
        if whole is not None:
            whole = replace(whole, fit=narrower(whole.fit), moments=whole.moments.after(times))
        eps = self.eps / root if self.eps < 1 else self.eps
        later = replace(self, fit=narrower(self.fit), whole=whole, eps=eps)
        used = self.episodes - int(self.starts[self.bet])
        return later, used * (times - 1)


@np.errstate(all="ignore")  # nan where a radius could not be computed
def confidence(
    space: Space,
    phi: Float[np.ndarray, "S A d"],
    white: Float[np.ndarray, "d d"],
    declared: Float[np.ndarray, "F H S A"],
    evidence: LinearEvidence,
    delta: float,
) -> LinearConfidence:
    """The confidence of the evidence, with the e-process that gives the smallest uniform gap."""
    S, num_declared = len(phi), len(declared)
    delta_all = delta / 2 if num_declared else delta
    L_all = level_of_all(S, delta_all * evidence.weights)
    number = (space.horizon - 1) * num_declared
    L_some = level_of_some(number, delta / 4 * evidence.weights)
    terms = int(evidence.episodes) + space.horizon
    # E-processes that have not started carry no data; if none has started, the earliest stands in.
    is_started = evidence.starts < evidence.episodes
    is_started[np.argmin(evidence.starts)] = True
    fits: dict[int, Fit] = {}  # the best so far, by its place
    least = eps = math.inf
    for j in map(int, np.flatnonzero(is_started)):
        V0 = evidence.gram_at[j]
        V1, C1 = evidence.gram - V0, evidence.cross - evidence.cross_at[j]
        result = fit(regress(phi, white, V1, C1), phi, white, V0, V1, terms)
        gap = rank = uniform_loss(space, result, result.beta(L_all[j]))
        if not gap < 1:
            # vacuous: prefer the narrowest rows, for the declared rewards if there are any
            wide = result.beta(L_some[j] if num_declared else L_all[j]) * result.n + result.e
            rank = 1 + float(np.where(result.is_bad, 1.0, wide / (1 + wide)).mean())
        if not fits or rank < least:
            fits, eps = {j: result}, gap
            least = math.inf if math.isnan(rank) else rank
    ((best, estimate),) = fits.items()
    beta = estimate.beta(level_of_all(S, delta / 2 * evidence.weights[best]))
    misfits = int(contradictions(estimate, beta, evidence.counts, delta).sum())
    return LinearConfidence(
        space=space,
        kernel=space.kernel(estimate.prob),
        eps=eps,
        delta=delta,
        is_refuted=bool(evidence.impossible > 0) or misfits > 0,
        fit=estimate,
        beta_all=float(estimate.beta(L_all[best])),
        beta_declared=float(estimate.beta(L_some[best])),
        declared=declared,
        whole=second_moments(phi, white, evidence, terms, L_all, L_some, level_of_some(number, delta / 4))
        if num_declared
        else None,
        bet=best,
        starts=evidence.starts,
        misfits=misfits,
        episodes=int(evidence.episodes),
        impossible=int(evidence.impossible),
    )


def second_moments(
    phi: Float[np.ndarray, "S A d"],
    white: Float[np.ndarray, "d d"],
    evidence: LinearEvidence,
    terms: int,
    L_all: Float[np.ndarray, " J"],
    L_some: Float[np.ndarray, " J"],
    level: float,
) -> Whole | None:
    """What docs/linear.md, section 5, needs; None without an e-process from the first episode, or its counts."""
    first = np.flatnonzero(evidence.starts == 0)
    x = phi @ white
    rows, visits = x.reshape(-1, x.shape[-1]), evidence.counts.sum(-1).reshape(-1, 1)
    gram = white.T @ evidence.gram @ white
    # Evidence of earlier moments has no counts.
    if not len(first) or not np.allclose(rows.T @ (visits * rows), gram, rtol=1e-6, atol=1e-9):
        return None
    V0, V1 = np.zeros_like(evidence.gram), evidence.gram
    result = fit(regress(phi, white, V1, evidence.cross), phi, white, V0, V1, terms)
    _, root = prior(phi, white, V0, V1)
    moments = SecondMoments(
        X=result.X[~result.is_bad],
        inverse=np.linalg.inv(root),
        counts=evidence.counts.astype(np.float64),
        x=x,
        metric=metric(rows),
        level=float(level),
    )
    return Whole(result, float(result.beta(L_some[first[0]])), float(result.beta(L_all[first[0]])), moments)


def contradictions(
    estimate: Fit, beta: float, counts: Int[np.ndarray, "S A S"], delta: float
) -> Bool[np.ndarray, "S A"]:
    """Pairs whose frequencies the estimate cannot explain; beta: of all V at delta/2, for its e-process."""
    S, A, _ = counts.shape
    visits = counts.sum(-1)
    is_seen = visits > 0
    N = visits[is_seen].astype(np.float64)
    apart = np.abs(counts[is_seen] / N[:, None] - estimate.prob[is_seen]).sum(-1) / 2
    L = level_of_all(S, delta / 2) + math.log(S * A)
    radius = np.sqrt(N + 1) / N * np.sqrt((np.log1p(N) / 2 + L) / 2)
    result = np.zeros((S, A), bool)
    result[is_seen] = apart > estimate.width(beta)[is_seen] + radius
    return result
