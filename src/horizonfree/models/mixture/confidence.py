"""The confidence set of a mixture: the best of its e-processes.

Each e-process has a maximum likelihood, a slack, an ellipsoid, a largest divergence of trajectories, and the
suboptimality bound that follows. The e-process with the smallest uniform gap is used: its theta_hat is the estimate to
plan with, and its eps bounds the gap of such a plan for every reward at once. docs/certificates.md has the proofs.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._validation import check_size
from horizonfree.guarantees.certificate import delta_text
from horizonfree.guarantees.divergence import Divergence, RowDivergence, largest_loss, least_loss
from horizonfree.mdp.events import Lift
from horizonfree.mdp.rewards import StateRewards
from horizonfree.mdp.space import Kernel, Space
from horizonfree.models.base import Bounds, Confidence, Policy
from horizonfree.models.mixture import tangent
from horizonfree.models.mixture.direct import MAX_UNKNOWNS, ByKappa, Direct, Likelihood
from horizonfree.models.mixture.ellipsoid import (
    DivergenceBound,
    Ellipsoid,
    compare,
    ellipsoid,
    entry_intervals,
    hellinger,
    tilts,
)
from horizonfree.models.mixture.evidence import MixtureEvidence
from horizonfree.models.mixture.likelihood import maximum_likelihood
from horizonfree.models.mixture.tangent import bounds_of_states
from horizonfree.models.mixture.valid import ValidSet

MIN_SLOTS_TO_PRUNE = (
    2**14
)  # successors of all pairs: with more, e-processes that cannot be the best are skipped
EPS_BELOW_ONE = 1e-12  # caps gaps below 1, whose divergence is infinite
PROGRAMMES_PER_DIRECTION = 6  # dynamic programmes of the method "direct", about
MAX_WORK = 5e7  # transitions that dynamic programmes pass in about a second


@dataclass(frozen=True, eq=False)
class MixtureConfidence(Confidence):
    """The ellipsoid of one e-process, the divergence of trajectories, and what follows from them."""

    space: Space
    kernel: Kernel
    eps: float
    delta: float
    is_refuted: bool
    valid: ValidSet
    theta: Float[np.ndarray, " d"]
    ball: Ellipsoid
    step: RowDivergence  # divergence of single transitions of the estimate from the true ones
    divergence: Divergence  # largest divergence of trajectories, over all policies
    is_out: Bool[np.ndarray, " R"]  # rows that `step` leaves out
    bet: int
    counts: Int[np.ndarray, " R"]  # of rows, since the start of that e-process
    slacks: Float[np.ndarray, " J1"]  # of each e-process; last, of the table against the class
    starts: Int[np.ndarray, " J"]
    num_seen: int
    episodes: int
    impossible: int
    allows_direct: bool = True  # method "direct"; not proved for lifted states, not used in forecasts

    @cached_property
    def tilts(self) -> Float[np.ndarray, "S A n q"]:
        """z on the successor lists."""
        return tilts(self.space, self.valid, self.ball)

    def parts(self) -> dict[str, float]:
        """The numbers behind the bound, of the chosen e-process."""
        return {
            "slack": float(self.slacks[self.bet]),
            "start": float(self.starts[self.bet]),
            "episodes": float(self.episodes),
            "free": float(self.valid.num_free),
            "seen": float(self.num_seen),
            "kappa": float(self.divergence.kappa),
            "hit": float(self.divergence.hit),
        }

    def refutation(self) -> str:
        """Why the model class is refuted: impossible transitions, or data that no parameter explains.

        Two tests, each wrong with probability delta at most: the e-processes of the confidence set, and the table.
        """
        if self.impossible > 0:
            return f"{int(self.impossible)} transitions are impossible for every parameter"
        wrong = delta_text(min(1.0, 2 * float(self.delta)))
        return f"no parameter explains the data (wrong with probability {wrong} at most)"

    def missing(self) -> str:
        """What a certificate needs: unseen directions, pairs with too few data, or more episodes."""
        q = self.valid.num_free
        if not q:
            return "nothing is unknown, and more episodes do not help"
        missing = q - int(self.num_seen)
        if missing:
            return f"{missing} of {q} unknown directions have no data in the e-process"
        pairs = self.unsure_pairs()
        if len(pairs):
            s, a = pairs[0]
            return f"too little is known of {len(pairs)} pairs (s,a), the first is ({s}, {a})"
        return f"a gap of 0.5 needs about {self.more_episodes(0.5):.0f} more episodes like these"

    def unsure_pairs(self) -> Int[np.ndarray, "m 2"]:
        """Pairs (s, a) with too few data, at which the comparison with theta_hat stops."""
        pairs = np.argwhere(np.asarray(self.divergence.stop))
        if self.space.state_ids is not None:
            pairs[:, 0] = np.asarray(self.space.state_ids)[pairs[:, 0]]
        return pairs

    def more_episodes(self, target: float) -> float:
        """The divergence behind eps falls like 1/episodes; infinite while some direction has not been seen at all."""
        result = self.divergence
        eps = float(self.eps)
        if self.num_seen < self.valid.num_free or (eps >= 1 and result.hit > target / 4):
            return math.inf
        behind = float(result.kappa) if eps >= 1 else -math.log1p(-(eps**2)) / 2
        used = int(self.episodes) - int(self.starts[self.bet])
        return max(0.0, math.ceil(used * (behind / (-math.log1p(-(target**2)) / 2) - 1)))

    def after(self, times: float) -> tuple["MixtureConfidence", float]:
        """The ellipsoid shrinks like 1/sqrt(times), divergences like 1/times, with the data of the e-process."""
        used = int(self.episodes) - int(self.starts[self.bet])
        root = math.sqrt(times)
        ball, result, step = self.ball, self.divergence, self.step
        behind = -math.log1p(-(min(float(self.eps), 1 - EPS_BELOW_ONE) ** 2)) / times
        shrunk = replace(
            self,
            ball=replace(ball, z=ball.z / root),
            step=replace(step, cost=step.cost / times),
            divergence=replace(result, kappa=result.kappa / times),
            eps=math.sqrt(-math.expm1(-behind)),
            allows_direct=False,
        )
        return shrunk, used * (times - 1)

    def bounds(self, reward: Float[np.ndarray, "H S A"], policy: Policy) -> Bounds:
        """By tangents, by optimism and pessimism, and by the divergence of the policy's own trajectories.

        A policy that is optimal in the estimate has the bounds for every reward, too.
        """
        values, shortfall = tangent.at_start(self, reward, policy)
        result = tangent.bounds_at(self, values, shortfall)
        return self._with_direct(result) if shortfall <= tangent.OPTIMALITY_TOLERANCE else result

    def _with_direct(self, bounds: Bounds) -> Bounds:
        """The bounds of an optimal policy, with the gap of the method "direct" where that may be the smallest."""
        if not self.allows_direct or self.is_refuted or self.sharpest != "direct":
            return bounds
        if any(gap <= self._by_kappa.least for gap in bounds.gaps.values()):
            return bounds
        return replace(bounds, gaps=bounds.gaps | {"direct": self._direct.eps})

    def difference(
        self, reward: Float[np.ndarray, "H S A"], policies: tuple[Policy, Policy]
    ) -> tuple[float, float]:
        """By the difference of their expansions."""
        return tangent.difference(self, reward, policies)

    def bounds_of_states(self, rewards: StateRewards) -> Iterator[Bounds] | None:
        """By passes over the states that can still earn a reward; for successor lists only."""
        if self.space.is_dense:
            return None
        return (self._with_direct(bounds) for bounds in bounds_of_states(self, rewards))

    def sharper(self, method: str) -> tuple[float, dict[str, float]]:
        """Method "direct": the divergence over the likelihood set itself, for few unknown directions."""
        q = self.valid.num_free
        check_size(
            q, MAX_UNKNOWNS, f"method 'direct' is for few unknown directions, here are {q}", "use 'uniform'"
        )
        if q == 0:
            return float(self.eps), {}
        result = self._direct
        return result.eps, {name: getattr(result, name) for name in ("kappa", "hit", "attained", "hinge")}

    @cached_property
    def _likelihood(self) -> Likelihood:
        return Likelihood(self.space, self.valid, self.counts, self.ball, self.step, self.is_out)

    @cached_property
    def _by_kappa(self) -> ByKappa:
        """The first stage of the method "direct"."""
        return self._likelihood.by_kappa()

    @cached_property
    def _direct(self) -> Direct:
        return self._likelihood.by_hinge(self._by_kappa)

    @property
    def sharpest(self) -> str:
        """Method "direct" where it takes about a second at most.

        A polytope in q directions takes about 6^q dynamic programmes over S A n H transitions.
        """
        q, work = self.valid.num_free, self.space.succ.size * self.space.horizon
        is_affordable = 0 < q <= MAX_UNKNOWNS and work * PROGRAMMES_PER_DIRECTION**q <= MAX_WORK
        return "direct" if is_affordable else "uniform"

    def entry_intervals(self) -> tuple[Float[np.ndarray, "S A n"], Float[np.ndarray, "S A n"]]:
        """The confidence set projected on every entry."""
        return entry_intervals(self.space, self.valid, self.ball)

    def lifted(self, lift: Lift) -> "MixtureConfidence":
        """kappa and hit, maxima over all policies, depend on the rows alone and stay valid.

        `eps` does not: the choice theorem charges nothing where two actions have the same law, and a lifted state
        remembers which of them was paid. Without it `bounds` uses Lemma 5 with kappa and hit.
        """
        step, stop = self.step, lift.of(self.divergence.stop)
        steps = replace(
            step, kernel=lift.kernel(step.kernel), cost=lift.of(step.cost), leak=lift.of(step.leak)
        )
        divergence = replace(self.divergence, stop=stop)
        return replace(
            self,
            space=lift.space,
            kernel=lift.kernel(self.kernel),
            eps=math.inf,
            valid=replace(self.valid, row_of=lift.of(self.valid.row_of), choices=np.ones(stop.shape, bool)),
            step=steps,
            divergence=divergence,
            allows_direct=False,
        )


@np.errstate(all="ignore")  # infinite divergences
def confidence(
    space: Space,
    valid: ValidSet,
    phi: Float[np.ndarray, "S A n d"],
    evidence: MixtureEvidence,
    delta: float,
) -> MixtureConfidence:
    """The confidence of the evidence, with the e-process that gives the smallest uniform gap."""
    starts, episodes = np.asarray(evidence.starts), int(evidence.episodes)
    counts = np.concatenate([evidence.since, np.asarray(evidence.row_counts)[None]])
    J = len(starts)
    # E-processes that have not started carry no data; if none has started, the earliest stands in.
    is_begun = (starts < episodes) | (np.arange(J) == np.argmin(starts))
    losses, weights = np.append(evidence.loss, evidence.table_loss), np.append(evidence.weights, 1.0)
    fits = {
        int(j): maximum_likelihood(valid, counts[j], evidence.theta) for j in [*np.flatnonzero(is_begun), J]
    }
    # L(theta_hat) exceeds the minimum by at most `gap`
    fit_loss = np.array([fits[j].loss - fits[j].gap if j in fits else 0.0 for j in range(J + 1)])
    slacks = losses - np.log(delta * weights) - fit_loss
    balls = {j: ellipsoid(valid, counts[j], fits[j], float(slacks[j])) for j in fits if j < J}
    comparisons = {j: compare(space, valid, ball) for j, ball in balls.items()}
    gaps = largest_losses(space, valid, balls, comparisons)
    # vacuous gaps: prefer the e-process with the narrowest rows
    rank = {j: x if x < 1 else 1 + float((balls[j].width * valid.free).mean()) for j, x in gaps.items()}
    best = min(sorted(rank), key=lambda j: math.inf if math.isnan(rank[j]) else rank[j])
    ball = balls[best]
    return MixtureConfidence(
        space=space,
        valid=valid,
        kernel=space.kernel(phi @ ball.theta),
        eps=gaps[best],
        delta=delta,
        is_refuted=bool(evidence.impossible > 0) or bool((slacks < 0).any()),
        theta=ball.theta,
        ball=ball,
        step=comparisons[best].step,
        divergence=comparisons[best].divergence,
        is_out=comparisons[best].is_out,
        bet=best,
        counts=counts[best],
        slacks=slacks,
        starts=starts,
        num_seen=_rank(ball.z[counts[best] > 0]),
        episodes=episodes,
        impossible=int(evidence.impossible),
    )


def largest_losses(
    space: Space, valid: ValidSet, balls: dict[int, Ellipsoid], comparisons: dict[int, DivergenceBound]
) -> dict[int, float]:
    """`largest_loss_of` each e-process; with many successors infinite where another is certainly smaller."""
    least, losses = math.inf, {}
    for j in sorted(balls, key=lambda j: comparisons[j].divergence.eps):  # most promising first
        ball, compared = balls[j], comparisons[j]
        if space.succ.size > MIN_SLOTS_TO_PRUNE and least < math.inf:
            h2 = hellinger(space, valid, ball)
            if least_loss(space, compared.step, compared.divergence, h2, np.asarray(valid.choices)) > least:
                losses[j] = math.inf
                continue
        losses[j] = largest_loss_of(space, valid, ball, compared)
        least = min(least, losses[j])
    return losses


def largest_loss_of(space: Space, valid: ValidSet, ball: Ellipsoid, compared: DivergenceBound) -> float:
    """The largest loss of an optimal plan of the estimate, over every theta of the ellipsoid."""
    h2, z = hellinger(space, valid, ball), tilts(space, valid, ball)
    return largest_loss(space, compared.step, compared.divergence, h2, z, np.asarray(valid.choices))


def _rank(z: Float[np.ndarray, "r q"]) -> int:
    """The number of directions about which the observed rows have data."""
    unit = z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-300)
    return int((np.linalg.eigvalsh(unit.T @ unit) > 1e-9).sum()) if z.shape[1] else 0
