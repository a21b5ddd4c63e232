"""Maximum likelihood over the valid parameters Theta, from the counts of each distinct feature row.

    theta = center + Z y,   p_r(y) = <x_r, theta>,   L(theta) = - sum_r N_r log p_r

Only rows that are free (ValidSet.free) matter: any other reachable row has a known probability. The estimates below
minimise f(y) = - sum_r c_r log p_r(y), c = N + a pseudo-count per free row, by Newton's method with a line search. f is
strictly convex and infinite on the boundary, so every iterate is a valid parameter with positive probabilities,
however few steps are taken.

Theta is taken as the parameters that are valid on reachable rows; on rows of unreachable states, which no episode can
show, theta may be anything.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree.models.mixture.valid import ValidSet

KT_PSEUDO_COUNT = 0.5  # per free row, as in the Krichevsky-Trofimov predictor; keeps it inside Theta
PREDICTOR_STEPS = 3  # Newton steps per episode, from the predictor of the previous episode
BARRIER_NATS = 1e-4  # the last barrier costs at most this much log-likelihood, in nats
NUM_BARRIERS = 4  # a geometric sequence, from the second predictor's pseudo-count to BARRIER_NATS / R per row
MAX_NEWTON_STEPS = 40  # per barrier; two to four are usual
SOLUTION_TOLERANCE = 1e-6  # relative residual above which a linear system counts as unsolved
CONVERGED_DECREMENT = 1e-10  # squared Newton decrement, in nats
MAX_BOUNDARY_SHARE = 0.95  # of the way to the boundary, in one Newton step


class Fit(NamedTuple):
    """The maximum-likelihood estimate and its optimality gap.

    `lam` >= 0 are the multipliers of p >= 0. For every theta in Theta, with probabilities p_theta,
        - grad L(theta_hat)'(theta - theta_hat) <= gap - sum_r lam_r p_theta,r,
    so L(theta_hat) is at most `gap` above the minimum.
    """

    theta: Float[np.ndarray, " d"]
    p: Float[np.ndarray, " R"]
    lam: Float[np.ndarray, " R"]
    loss: float
    gap: float


class Coordinates(NamedTuple):
    """The map from y: theta = center + basis y and p = p_center + y z; z_r = 0 for rows that are not free."""

    z: Float[np.ndarray, "q R"]
    p_center: Float[np.ndarray, " R"]
    basis: Float[np.ndarray, "d q"]
    center: Float[np.ndarray, " d"]

    def p(self, y: Float[np.ndarray, " q"]) -> Float[np.ndarray, " R"]:
        """The probabilities of all rows."""
        p: np.ndarray = self.p_center + y @ self.z
        return p


def coordinates(valid: ValidSet) -> Coordinates:
    """The coordinates of a valid set."""
    rows, basis, center, free = (np.asarray(x) for x in (valid.rows, valid.basis, valid.center, valid.free))
    return Coordinates(np.where(free, basis.T @ rows.T, 0.0), rows @ center, basis, center)


def log_loss(counts: Int[np.ndarray, " R"], p: Float[np.ndarray, " R"]) -> float:
    """- sum_r N_r log p_r; rows that were never seen do not count, whatever their probability."""
    with np.errstate(divide="ignore"):
        return -float((counts * np.log(np.where(counts > 0, np.maximum(p, 0.0), 1.0))).sum())


def pseudo_counts(valid: ValidSet) -> tuple[float, float]:
    """Pseudo-counts per free row of the two predictors: 1/2, and min(1/2, q/(2 R)) for R free rows."""
    num_rows = int(np.asarray(valid.free).sum())
    share = min(1.0, valid.num_free / num_rows) if num_rows else 1.0
    return KT_PSEUDO_COUNT, KT_PSEUDO_COUNT * share


def predict(
    valid: ValidSet, counts: Int[np.ndarray, " R"], thetas: Float[np.ndarray, "2 d"]
) -> Float[np.ndarray, "2 d"]:
    """The two predictors for the next episode, a few Newton steps from the previous ones.

    `learner.predict` is the traced version.
    """
    if valid.num_free == 0:
        return thetas
    coords, free, result = coordinates(valid), np.asarray(valid.free), []
    for pseudo, theta in zip(pseudo_counts(valid), thetas, strict=True):
        c = np.where(free, counts + pseudo, 0.0)
        y = coords.basis.T @ (theta - coords.center)
        for _ in range(PREDICTOR_STEPS):
            y, _ = _newton(coords, c, y)
        result.append(coords.center + coords.basis @ y)
    return np.stack(result)


def maximum_likelihood(valid: ValidSet, counts: Int[np.ndarray, " R"], start: Float[np.ndarray, " d"]) -> Fit:
    """theta_hat = argmin over Theta of L, by Newton's method along a decreasing barrier.

    A `start` at which some free row has probability 0 is replaced by the centre: the method must start inside Theta.
    """
    coords, free, counts = coordinates(valid), np.asarray(valid.free), np.asarray(counts)
    if valid.num_free == 0:
        return Fit(
            start, coords.p_center, np.zeros_like(coords.p_center), log_loss(counts, coords.p_center), 0.0
        )
    last_barrier = BARRIER_NATS / len(counts)
    y = coords.basis.T @ (np.asarray(start) - coords.center)
    if not ((coords.p(y) > 0) | ~free).all():
        y = np.zeros_like(y)
    for barrier in np.geomspace(pseudo_counts(valid)[1], last_barrier, NUM_BARRIERS):
        y = minimize(coords, np.where(free, counts + barrier, 0.0), y)
    p = coords.p(y)
    lam, gap = _multipliers(coords, free, counts, p, last_barrier)
    return Fit(coords.center + coords.basis @ y, p, lam, log_loss(counts, p), gap)


def minimize(
    coords: Coordinates, c: Float[np.ndarray, " R"], y: Float[np.ndarray, " q"]
) -> Float[np.ndarray, " q"]:
    """The minimiser of f by Newton's method, from a point with p > 0 where c > 0."""
    for _ in range(MAX_NEWTON_STEPS):
        y, decrement = _newton(coords, c, y)
        if not decrement > CONVERGED_DECREMENT:
            break
    return y


def _newton(
    coords: Coordinates, c: Float[np.ndarray, " R"], y: Float[np.ndarray, " q"]
) -> tuple[Float[np.ndarray, " q"], float]:
    """One Newton step on f with a line search, and the decrement before it. Never leaves p > 0.

    `learner._newton` is the traced version.
    """
    p = np.where(c > 0, coords.p(y), 1.0)
    w = c / p
    grad = -(coords.z @ w)
    dy = solve((coords.z * (w / p)) @ coords.z.T, -grad)
    x = dy @ coords.z / p  # relative change of each probability
    max_step = MAX_BOUNDARY_SHARE / max(-x.min(), MAX_BOUNDARY_SHARE)  # at most 1
    t, change = _best_step(c, x, max_step * 0.5 ** np.arange(8.0))
    y_next = y + t * dy
    if change < 0 and (np.where(c > 0, coords.p(y_next), 1.0) > 0).all():
        return y_next, max(-float(grad @ dy), 0.0)
    return y, 0.0


def _best_step(
    c: Float[np.ndarray, " R"], x: Float[np.ndarray, " R"], lengths: Float[np.ndarray, " T"]
) -> tuple[float, float]:
    """The step length at which f is smallest, and the change of f there; `lengths` decrease.

    f is convex: once a length is no better than the previous one, no shorter one is.
    """
    best, best_change = 0.0, np.inf
    for t in lengths.tolist():
        change = -float(c @ np.log1p(t * x))
        if not change < best_change:
            break
        best, best_change = t, change
    return best, best_change


def _multipliers(
    coords: Coordinates,
    free: Bool[np.ndarray, " R"],
    counts: Int[np.ndarray, " R"],
    p: Float[np.ndarray, " R"],
    barrier: float,
) -> tuple[Float[np.ndarray, " R"], float]:
    """Multipliers lam >= 0 of the constraints p >= 0, and the optimality gap that they prove.

    Write g = Z'grad L = - sum_r N_r z_r / p_r. For any lam >= 0 and any theta in Theta,
        - g'Delta = - sum lam_r z_r'Delta - (g - sum lam_r z_r)'Delta <= sum lam_r p_r - sum lam_r p_theta,r + residual,
    where the residual is small: |z_r'Delta| <= 1 gives |e'Delta| = |e'(z'z)^-1 z'(z Delta)| <= ||z (z'z)^-1 e||_1
    with e = g - sum lam_r z_r, the bracket. lam starts at barrier/p. Weighted least squares, with the largest weights
    on rows with p = 0, then reduce e.
    """
    p_free = np.where(free, p, 1.0)
    g = -(coords.z @ (counts / p_free))
    lam = np.where(free, barrier / p_free, 0.0)
    weight = np.where(free, 1 / (p_free + barrier), 0.0)
    weighted_gram = (coords.z * weight) @ coords.z.T
    for _ in range(3):
        lam = np.maximum(lam + weight * (solve(weighted_gram, g - coords.z @ lam) @ coords.z), 0.0)
    e = g - coords.z @ lam
    gram = coords.z @ coords.z.T
    x = solve(gram, e)
    residual = float(np.abs(x @ coords.z).sum())
    is_solved = np.abs(gram @ x - e).max() <= SOLUTION_TOLERANCE * (np.abs(gram) @ np.abs(x)).max()
    return lam, float(lam @ p_free) + (residual if is_solved else np.inf)


def whiten(F: Float[np.ndarray, "q q"], z: Float[np.ndarray, "q R"]) -> Float[np.ndarray, "q R"]:
    """F^(-1/2) z_r up to a rotation: column r has the norm of z_r in F^-1. F is scaled to a unit diagonal first.

    NaN where F is not positive definite.
    """
    scale = np.sqrt(np.diagonal(F))
    try:
        factor = np.linalg.cholesky(F / (scale[:, None] * scale[None, :]))
        half = np.linalg.solve(factor, np.diag(1 / scale))
    except np.linalg.LinAlgError:
        return np.full(z.shape, np.nan)
    result: np.ndarray = half @ z
    return result


def solve(matrix: Float[np.ndarray, "q q"], b: Float[np.ndarray, " q"]) -> Float[np.ndarray, " q"]:
    """The solution of a positive definite system, scaled to a unit diagonal first; zeros if it fails."""
    scale = np.sqrt(np.diagonal(matrix))
    try:
        scaled = matrix / (scale[:, None] * scale[None, :])
        np.linalg.cholesky(scaled)  # raises unless positive definite
        x: np.ndarray = np.linalg.solve(scaled, b / scale) / scale
    except np.linalg.LinAlgError:
        return np.zeros_like(b)
    return x if np.isfinite(x).all() else np.zeros_like(b)
