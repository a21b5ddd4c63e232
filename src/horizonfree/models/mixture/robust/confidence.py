"""The confidence set of a misspecified mixture: every law of the system is within a declared radius of one parameter.

Everything is as in a plain confidence, for every system that the assumption allows: the estimate, an ellipsoid around
theta_star, one gap for every reward, and bounds for single rewards. docs/robust.md has the proofs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from jaxtyping import Bool, Float

from horizonfree.errors import OptionError, RewardError, RunError
from horizonfree.guarantees.certificate import delta_text, round_down, round_up
from horizonfree.guarantees.divergence import Divergence, RowDivergence
from horizonfree.mdp.events import Lift
from horizonfree.mdp.space import TOLERANCE, Kernel, Space
from horizonfree.models.base import Bounds, Confidence, Policy
from horizonfree.models.misspecification import Misspecification
from horizonfree.models.mixture.confidence import largest_loss_of
from horizonfree.models.mixture.ellipsoid import Ellipsoid, compare, tilts
from horizonfree.models.mixture.evidence import MixtureEvidence, Record
from horizonfree.models.mixture.robust.bounds import compare_within, robust_bounds, successors
from horizonfree.models.mixture.robust.sets import SharedData, confidence_sets, shared_data
from horizonfree.models.mixture.valid import ValidSet


@dataclass(frozen=True, eq=False)
class RobustConfidence(Confidence):
    """The confidence set for radii zeta [S, A].

    `valid` is the set of parameters that all of it is about. Where laws may lead anywhere, rows of unreachable states
    belong to it, and it may be smaller than the model's own.
    """

    space: Space
    kernel: Kernel
    eps: float
    delta: float
    is_refuted: bool
    valid: ValidSet
    theta: Float[np.ndarray, " d"]
    ball: Ellipsoid
    step: RowDivergence
    divergence: Divergence
    tilts: Float[np.ndarray, "S A n q"]
    is_slot: Bool[np.ndarray, "S A n"]
    zeta: Float[np.ndarray, "S A"]
    zeta_low: float
    floor: float
    slack: float
    start: int
    episodes: int
    impossible: int
    anywhere: bool
    num_free: int
    way: str  # how radii are measured, where that is no total variation
    known: str = ""  # why laws are within the radii, where that is proved

    @property
    def largest(self) -> float:
        """The largest radius."""
        return float(np.asarray(self.zeta).max())

    def parts(self) -> dict[str, float]:
        """The numbers behind the bound, of the chosen e-process and the radii."""
        return {
            "zeta": self.largest,
            "zeta_low": float(self.zeta_low),
            "floor": float(self.floor),
            "slack": float(self.slack),
            "slack_robust": float(self.ball.slack),
            "start": float(self.start),
            "episodes": float(self.episodes),
            "free": float(self.num_free),
            "kappa": float(self.divergence.kappa),
            "hit": float(self.divergence.hit),
        }

    def condition(self) -> str:
        """What the certificate assumes, and what the data say of it; or why it holds."""
        if self.known:
            return self.known
        within = f"{round_up(self.largest):.3g}"
        if self.way:  # by divergence
            within = f"a divergence of {round_up(2 * self.largest**2):.3g} ({self.way})"
        elif np.ptp(np.asarray(self.zeta)) > 0:
            within = f"its radius, {within} at most,"
        where = ", and may lead anywhere" if self.anywhere else ""
        return (
            f", if every transition law is within {within} of one and the same parameter{where}; the data show that no "
            f"parameter is closer than {lower_bound_text(float(self.zeta_low))}"
        )

    @property
    def leads_anywhere(self) -> bool:
        """Whether laws may lead to any state: as declared, or as samples leave it open."""
        return self.anywhere

    def check_reward(self, reward: Float[np.ndarray, "H S A"]) -> None:
        """Where laws may lead anywhere, every sequence of states is possible, and its total must lie in [0, 1]."""
        most = float(np.asarray(reward).max(axis=(1, 2)).sum())
        if self.anywhere and (np.asarray(reward).min() < 0 or most > 1 + TOLERANCE):
            raise RewardError(
                f"where laws may lead anywhere an episode can collect {most:.6g}, but totals must lie in [0, 1] on "
                "every sequence of states; rescale the reward, or declare support='successors'"
            )

    def refutation(self) -> str:
        """No parameter is within the radii of all laws."""
        if self.impossible > 0 and not self.anywhere:
            return (
                f"{int(self.impossible)} transitions lead where no parameter allows; "
                "hf.Misspecification(tv=..., support='anywhere') allows them"
            )
        low = float(self.zeta_low)
        least = (
            lower_bound_text(max(low, self.largest)) if math.isfinite(low) else "any multiple of these radii"
        )
        return (
            f"no single parameter is within {least} of all laws (wrong with probability "
            f"{delta_text(float(self.delta))} at most); declare a larger misspecification"
        )

    def missing(self) -> str:
        """What keeps a vacuous certificate from saying something."""
        floor = float(self.floor)
        if floor >= 1:
            return (
                f"with laws within {round_up(self.largest):.3g} of a parameter no number of episodes gives a gap "
                "for every reward; plan for one reward, or declare a smaller misspecification"
            )
        return f"more episodes help, down to a gap of about {round_up(floor):.3g}"

    def more_episodes(self, target: float) -> float:
        """Unknown: what is lost by the radii does not fall with the episodes."""
        return math.inf

    def after(self, times: float) -> tuple["RobustConfidence", float]:
        """Unknown."""
        return self, math.inf

    def bounds(self, reward: Float[np.ndarray, "H S A"], policy: Policy) -> Bounds:
        """By Theorem R6."""
        return robust_bounds(self, reward, policy)

    def lifted(self, lift: Lift) -> "RobustConfidence":
        """Laws that depend on the whole past may lead from one state to others with any payment."""
        raise OptionError(
            "events, the distribution of a total, and transition= that is not of the form g(s, a) + f(s') need states "
            "that remember, and this mixture is a little wrong, by samples or by misspecification=; pay what is "
            "expected, or for states and actions, or take problem.as_tabular()"
        )


def lower_bound_text(zeta: float) -> str:
    """A lower bound on a radius, rounded down."""
    return f"{round_down(zeta):.3g}" if zeta > 0 else "0"


def robust_confidence(
    space: Space,
    valid: ValidSet,
    phi: Float[np.ndarray, "S A n d"],
    evidence: MixtureEvidence,
    delta: float,
    rebuilt: Callable[[Space], ValidSet],
) -> Callable[[Misspecification], RobustConfidence]:
    """The confidence of the evidence for any radii; on the host. rebuilt: makes the valid set of another space."""

    @cache
    def space_and_data(anywhere: bool) -> tuple[Space, SharedData]:
        """What does not depend on the radii."""
        among, rows, record = space, valid, _record(evidence)
        if anywhere and not np.asarray(space.reachable).all():
            among = everywhere(space)
            rows = rebuilt(among)
            record = _resize_record(record, len(rows.rows))
        return among, shared_data(rows, evidence, record, delta)

    @np.errstate(all="ignore")  # infinite divergences and slacks
    def within(declared: Misspecification) -> RobustConfidence:
        check_support(space, declared)
        among, shared = space_and_data(declared.support == "anywhere")
        result = _confidence(among, shared, phi, evidence, delta, declared)
        return replace(result, space=space)  # bounds are about episodes of the class's own space

    return within


def check_support(space: Space, declared: Misspecification) -> None:
    """Refuse laws that may lead anywhere in a part of a problem: they may lead to the states that it leaves out."""
    if space.state_ids is not None and declared.support == "anywhere":
        raise OptionError(
            "with support='anywhere' transitions may lead to states that this part of a problem leaves out; ask the "
            "whole problem, or declare support='successors'"
        )


def _confidence(
    space: Space,
    shared: SharedData,
    phi: Float[np.ndarray, "S A n d"],
    evidence: MixtureEvidence,
    delta: float,
    declared: Misspecification,
) -> RobustConfidence:
    """The confidence set for these radii."""
    anywhere = declared.support == "anywhere"
    zeta = declared.radii(*space.sizes[1:])
    result = confidence_sets(shared, zeta, anywhere=anywhere, by_kl=declared.sampled is not None)
    theta = np.asarray(result.ball.theta)
    valid = shared.valid
    lost = _loss_by_theta(space, valid, result.ball)
    step, divergence = compare_within(space, valid, result.ball, zeta)
    floor = asymptotic_gap(space, valid, zeta, theta, anywhere=anywhere)
    steered = by_pinsker(space, declared)
    floor, eps = min(floor, steered), lost + min(_coupling_bound(space, zeta), steered)
    if not anywhere:
        eps = float(np.fmin(eps, divergence.eps))
    is_impossible = bool(evidence.impossible > 0) and not anywhere
    return RobustConfidence(
        space=space,
        kernel=space.kernel(phi @ theta),
        eps=eps,
        delta=delta,
        is_refuted=result.is_empty or is_impossible,
        valid=valid,
        theta=theta,
        ball=result.ball,
        step=step,
        divergence=divergence,
        tilts=tilts(space, valid, result.ball),
        is_slot=successors(valid),
        zeta=zeta,
        zeta_low=result.zeta_low,
        floor=floor,
        slack=result.bet.slack,
        start=result.bet.start,
        episodes=int(evidence.episodes),
        impossible=int(evidence.impossible),
        anywhere=anywhere,
        num_free=valid.num_free,
        way=declared.way(),
    )


def _loss_by_theta(space: Space, valid: ValidSet, ball: Ellipsoid) -> float:
    """What plans can lose for every theta of the ellipsoid."""
    inside = replace(ball, p=np.where(valid.positive, ball.p, 0.0))
    return float(np.fmin(largest_loss_of(space, valid, inside, compare(space, valid, inside)), 1.0))


def everywhere(space: Space) -> Space:
    """The space with every state reachable."""
    return replace(space, reachable=np.ones(space.num_states, bool))


@np.errstate(all="ignore")
def asymptotic_gap(
    space: Space,
    valid: ValidSet,
    zeta: Float[np.ndarray, "S A"],
    theta: Float[np.ndarray, " d"],
    *,
    anywhere: bool,
) -> float:
    """The gap for every reward if theta were known: no number of episodes gives a smaller one."""
    coupled = _coupling_bound(space, zeta)
    if anywhere:
        return coupled
    o = np.zeros(len(valid.rows))
    p = np.where(valid.positive, np.asarray(valid.rows) @ theta, 1.0)
    z = np.zeros((len(o), valid.num_free))
    result = compare_within(space, valid, Ellipsoid(theta, p, z, o, o, 0.0), zeta)[1]
    return float(np.fmin(coupled, result.eps))


def by_pinsker(space: Space, declared: Misspecification) -> float:
    """What two policies can lose by laws of a declared divergence, if theta were known; infinite without one."""
    return math.sqrt(2 * (space.horizon - 1) * declared.divergence()) if space.horizon > 1 else 0.0


def _coupling_bound(space: Space, zeta: Float[np.ndarray, "S A"]) -> float:
    """`asymptotic_gap` where laws may lead anywhere: two maximally coupled episodes."""
    return 2.0 if zeta.max() >= 1 else -2 * math.expm1((space.horizon - 1) * math.log1p(-zeta.max()))


def _record(evidence: MixtureEvidence) -> Record:
    """The counts by block, which must be those of all episodes."""
    record = evidence.record
    if record is None:
        raise RunError(
            "this run has no counts by blocks, which certificates with misspecification= need: members of batches and "
            "runs stored by older versions have none; explore again with hf.explore, or use from_episodes"
        )
    return record


def _resize_record(record: Record, R: int) -> Record:
    """The record for a valid set with other virtual rows, which nobody sees."""
    rows = np.asarray(record.rows)
    wider = np.pad(rows, ((0, 0), (0, max(0, R - rows.shape[1]))))[:, :R]
    return Record(wider, record.visits)
