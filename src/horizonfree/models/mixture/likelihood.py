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

KT_PSEUDO_COUNT = 0.5  # pseudo-count per free row: strictly inside Theta (Krichevsky and Trofimov's half)
PREDICTOR_STEPS = 3  # Newton steps of the predictor per episode, from the predictor of the episode before
BARRIER_NATS = 1e-4  # nats by which the last barrier may keep the maximum likelihood from its maximum
# Geometric steps from the second predictor's pseudo-count per row to the last barrier, GAP / R per row.
BARRIERS = 4
MAX_STEPS = 40  # Newton steps per barrier; two to four are needed
SOLUTION_TOLERANCE = 1e-6  # a share by which a solution of a linear system may miss
CONVERGED_DECREMENT = 1e-10  # a squared Newton decrement below this (in nats) counts as converged


class Fit(NamedTuple):
    """The maximum of the likelihood, and how far from it we may be.

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
    """Theta seen from y: theta = center + basis y and p = p_center + y z; z_r = 0 for rows that are not free."""

    z: Float[np.ndarray, "q R"]
    p_center: Float[np.ndarray, " R"]
    basis: Float[np.ndarray, "d q"]
    center: Float[np.ndarray, " d"]

    def p(self, y: Float[np.ndarray, " q"]) -> Float[np.ndarray, " R"]:
        """p_r(y)."""
        p: np.ndarray = self.p_center + y @ self.z
        return p


def coordinates(valid: ValidSet) -> Coordinates:
    """Theta in the coordinates y."""
    rows, basis, center, free = (np.asarray(x) for x in (valid.rows, valid.basis, valid.center, valid.free))
    return Coordinates(np.where(free, basis.T @ rows.T, 0.0), rows @ center, basis, center)


def log_loss(counts: Int[np.ndarray, " R"], p: Float[np.ndarray, " R"]) -> float:
    """- sum_r N_r log p_r; rows that were never seen do not count, whatever their probability."""
    with np.errstate(divide="ignore"):
        return -float((counts * np.log(np.where(counts > 0, np.maximum(p, 0.0), 1.0))).sum())


def pseudo_counts(valid: ValidSet) -> tuple[float, float]:
    """Per free row, of the two predictors: 1/2, and q/(2 R) of R free rows where that is less."""
    free = int(np.asarray(valid.free).sum())
    return KT_PSEUDO_COUNT, min(
        KT_PSEUDO_COUNT, KT_PSEUDO_COUNT * valid.num_free / free
    ) if free else KT_PSEUDO_COUNT


def predict(
    valid: ValidSet, counts: Int[np.ndarray, " R"], thetas: Float[np.ndarray, "2 d"]
) -> Float[np.ndarray, "2 d"]:
    """The regularised estimates for the next episode, a few Newton steps from the last ones.

    learner.py has the traced version.
    """
    if valid.num_free == 0:
        return thetas
    at, free, result = coordinates(valid), np.asarray(valid.free), []
    for pseudo, theta in zip(pseudo_counts(valid), thetas, strict=True):
        c, y = np.where(free, counts + pseudo, 0.0), at.basis.T @ (theta - at.center)
        for _ in range(PREDICTOR_STEPS):
            y, _ = _newton(at, c, y)
        result.append(at.center + at.basis @ y)
    return np.stack(result)


def maximum_likelihood(valid: ValidSet, counts: Int[np.ndarray, " R"], start: Float[np.ndarray, " d"]) -> Fit:
    """theta_hat = argmin over Theta of L, along a decreasing barrier.

    Newton's method stays inside Theta only if it starts there: a `start` at which some free row has no probability is
    replaced by the centre.
    """
    at, free, counts = coordinates(valid), np.asarray(valid.free), np.asarray(counts)
    if valid.num_free == 0:
        return Fit(start, at.p_center, np.zeros_like(at.p_center), log_loss(counts, at.p_center), 0.0)
    last = BARRIER_NATS / len(counts)
    y = at.basis.T @ (np.asarray(start) - at.center)
    if not ((at.p(y) > 0) | ~free).all():
        y = np.zeros_like(y)
    for barrier in np.geomspace(pseudo_counts(valid)[1], last, BARRIERS):
        y = minimised(at, np.where(free, counts + barrier, 0.0), y)
    p = at.p(y)
    lam, gap = _multipliers(at, free, counts, p, last)
    return Fit(at.center + at.basis @ y, p, lam, log_loss(counts, p), gap)


def minimised(
    at: Coordinates, c: Float[np.ndarray, " R"], y: Float[np.ndarray, " q"]
) -> Float[np.ndarray, " q"]:
    """The minimum of f by Newton's method, from a point with p > 0 where c > 0."""
    for _ in range(MAX_STEPS):
        y, decrement = _newton(at, c, y)
        if not decrement > CONVERGED_DECREMENT:
            break
    return y


def _newton(
    at: Coordinates, c: Float[np.ndarray, " R"], y: Float[np.ndarray, " q"]
) -> tuple[Float[np.ndarray, " q"], float]:
    """One Newton step on f with a line search, and the decrement before it. Never leaves p > 0."""
    p = np.where(c > 0, at.p(y), 1.0)
    w = c / p
    grad = -(at.z @ w)
    dy = solve((at.z * (w / p)) @ at.z.T, -grad)
    x = dy @ at.z / p  # relative change of each probability
    longest = 0.95 / max(-x.min(), 0.95)  # min(1, 95 % of the way to the boundary)
    t, change = _best_step(c, x, longest * 0.5 ** np.arange(8.0))
    y_next = y + t * dy
    if change < 0 and (np.where(c > 0, at.p(y_next), 1.0) > 0).all():
        return y_next, max(-float(grad @ dy), 0.0)
    return y, 0.0


def _best_step(
    c: Float[np.ndarray, " R"], x: Float[np.ndarray, " R"], lengths: Float[np.ndarray, " T"]
) -> tuple[float, float]:
    """The step length, among successive halves, at which f is smallest, and the change of f there.

    f is convex: as soon as the next length is no better, none of the rest is.
    """
    best, least = 0.0, np.inf
    for t in lengths.tolist():
        change = -float(c @ np.log1p(t * x))
        if not change < least:
            break
        best, least = t, change
    return best, least


def _multipliers(
    at: Coordinates,
    free: Bool[np.ndarray, " R"],
    counts: Int[np.ndarray, " R"],
    p: Float[np.ndarray, " R"],
    barrier: float,
) -> tuple[Float[np.ndarray, " R"], float]:
    """Multipliers lam >= 0 of the constraints p >= 0, and the optimality gap that they prove.

    Write g = Z'grad L = - sum_r N_r z_r / p_r. For any lam >= 0 and any theta in Theta,
        - g'Delta = - sum lam_r z_r'Delta - (g - sum lam_r z_r)'Delta <= sum lam_r p_r - sum lam_r p_theta,r + residual,
    where the residual is small: |z_r'Delta| <= 1 gives |e'Delta| = |e'(z'z)^-1 z'(z Delta)| <= ||z (z'z)^-1 e||_1.
    lam starts at barrier/p and is moved by weighted least squares, rows with p = 0 the most, to make e vanish.
    """
    p_free = np.where(free, p, 1.0)
    g = -(at.z @ (counts / p_free))
    lam = np.where(free, barrier / p_free, 0.0)
    weight = np.where(free, 1 / (p_free + barrier), 0.0)
    Gram = (at.z * weight) @ at.z.T
    for _ in range(3):
        lam = np.maximum(lam + weight * (solve(Gram, g - at.z @ lam) @ at.z), 0.0)
    e, Gram = g - at.z @ lam, at.z @ at.z.T
    x = solve(Gram, e)
    residual = float(np.abs(x @ at.z).sum())
    is_solved = np.abs(Gram @ x - e).max() <= SOLUTION_TOLERANCE * (np.abs(Gram) @ np.abs(x)).max()
    return lam, float(lam @ p_free) + (residual if is_solved else np.inf)


def whiten(F: Float[np.ndarray, "q q"], z: Float[np.ndarray, "q R"]) -> Float[np.ndarray, "q R"]:
    """F^(-1/2) z_r up to a rotation: their norms are ||z_r|| in F^-1. Scaled to a unit diagonal first.

    Not a number where F is not positive definite.
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
    """The solution of a positive definite system, scaled to a unit diagonal first; zero where it fails."""
    scale = np.sqrt(np.diagonal(matrix))
    try:
        scaled = matrix / (scale[:, None] * scale[None, :])
        np.linalg.cholesky(scaled)  # an error where it is not positive definite
        x: np.ndarray = np.linalg.solve(scaled, b / scale) / scale
    except np.linalg.LinAlgError:
        return np.zeros_like(b)
    return x if np.isfinite(x).all() else np.zeros_like(b)
