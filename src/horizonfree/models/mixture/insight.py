"""What a report asks of the evidence of a mixture: earlier moments, doubts, and the parameter with its intervals."""

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float

from horizonfree._x64 import leaf, to_device, to_numpy, x64
from horizonfree.mdp.space import Space
from horizonfree.models.interface import Intervals
from horizonfree.models.mixture.confidence import MixtureConfidence
from horizonfree.models.mixture.evidence import Evidence
from horizonfree.models.mixture.likelihood import predict
from horizonfree.models.mixture.robust.confidence import RobustConfidence
from horizonfree.models.mixture.valid import ValidSet, extent

CUT = 100_000  # entries of the distinct features up to which intervals are cut by linear programmes


_predict = eqx.filter_jit(predict)


@x64
def earlier(valid: ValidSet, evidence: Evidence) -> list[Evidence]:
    """The evidence at the starts of the bets that lie in the past.

    Counts and losses of the bets only grow. Bet j counts from its start m_j on, so what bet i had gathered at episode
    m_j is the difference of the two:

        N_i(m_j) = N_i - N_j,      Lq_i(m_j) = Lq_i - Lq_j          for m_i < m_j

    and the certificate of episode m_j is the one that would have been given then.
    """
    starts = np.asarray(evidence.starts)
    valid = to_device(valid)
    return [
        _at(valid, evidence, int(j)) for j in np.flatnonzero((starts > 0) & (starts < int(evidence.episodes)))
    ]


def _at(valid: ValidSet, evidence: Evidence, j: int) -> Evidence:
    """The evidence at the start of bet j. Counts per (s, a) of that moment are not kept: they are left at zero."""
    starts = np.asarray(evidence.starts)
    is_on = starts < starts[j]
    since, losses = np.asarray(evidence.since), np.asarray(evidence.losses)
    row_counts = np.asarray(evidence.row_counts) - since[j]
    then = Evidence(
        counts=leaf(np.zeros(evidence.counts.shape, np.int32)),
        row_counts=leaf(row_counts),
        since=leaf(np.where(is_on[:, None], since - since[j], 0)),
        losses=leaf(np.where(is_on[:, None], losses - losses[j], 0.0)),
        starts=evidence.starts,
        weights=evidence.weights,
        thetas=_predict(valid, *to_device((row_counts, np.asarray(evidence.thetas)))),
        episodes=leaf(np.asarray(starts[j])),
        impossible=evidence.impossible,
    )
    return to_numpy(then)


def doubts(
    space: Space, valid: ValidSet, confidence: MixtureConfidence | RobustConfidence
) -> Float[np.ndarray, " S"]:
    """How far a transition probability out of each state may be from its estimate; nan for unreachable states."""
    width = np.append(np.asarray(confidence.ball.width) * np.asarray(valid.free), 0.0)
    most = width[np.asarray(valid.row_of)].max(axis=(1, 2))
    return np.where(space.reachable, most, np.nan)


def mean_doubt(valid: ValidSet, confidence: MixtureConfidence | RobustConfidence) -> float:
    """How far an unknown transition probability may be from its estimate, on average over the distinct ones."""
    unknown = np.asarray(valid.free) & ~np.asarray(valid.virtual)
    return float(np.asarray(confidence.ball.width)[unknown].mean()) if unknown.any() else 0.0


def intervals(
    valid: ValidSet,
    confidence: MixtureConfidence | RobustConfidence,
    unit: float,
    weights: tuple[float, float],
) -> Intervals:
    """Theta with the shadow of the confidence ellipsoid on each axis, as far as some kernel has such an entry.

    The ellipsoid is p = p_hat + z u, ||u|| <= 1, over the rows. With the rows' own coordinates x Z = z_rows there is a
    map L with z = z_rows L, so theta = theta_hat + Z L u and entry i moves by at most ||(Z L)_i||. Of an entry that
    cannot be learnt, and of every entry where the data refute the class, nothing is known but what Theta and the
    `weights` (their ends, in the units of the features as given) leave.
    """
    Z = np.asarray(valid.basis)
    z_rows = np.where(np.asarray(valid.free)[:, None], np.asarray(valid.rows) @ Z, 0.0)
    L = np.linalg.lstsq(z_rows, np.asarray(confidence.ball.z), rcond=None)[0]
    theta, radius = np.asarray(confidence.theta), np.linalg.norm(Z @ L, axis=1)
    is_learnable = _is_learnable(valid)
    radius = np.where(is_learnable & ~np.asarray(confidence.is_refuted), radius, np.inf)
    low, high = theta - radius, theta + radius
    if valid.rows.size <= CUT:
        for i in np.flatnonzero(~_is_inside(valid, theta, Z @ L) | np.isinf(radius)):
            least, most = extent(valid, int(i))
            low[i], high[i] = max(low[i], least), min(high[i], most)
    low, high = (np.clip(x / unit, *weights) for x in (low, high))
    return Intervals(theta / unit, low, high, is_learnable)


def _is_inside(
    valid: ValidSet, theta: Float[np.ndarray, " d"], axes: Float[np.ndarray, "d q"]
) -> Bool[np.ndarray, " d"]:
    """Whether the two points of the ellipsoid theta + axes u that go farthest along each entry are valid parameters."""
    long = np.linalg.norm(axes, axis=1, keepdims=True)
    change = np.asarray(valid.rows) @ axes @ (axes / np.where(long > 0, long, 1.0)).T
    found: np.ndarray = (np.asarray(valid.rows) @ theta >= np.abs(change).T).all(axis=1)
    return found


def _is_learnable(valid: ValidSet) -> Bool[np.ndarray, " d"]:
    """False where nothing that can happen in an episode depends on the entry alone."""
    affine, Z = np.asarray(valid.affine), np.asarray(valid.basis)
    hidden = affine @ affine.T - Z @ Z.T
    return np.diagonal(hidden) < 1e-9
