"""The likelihood-ratio set of one e-process: membership, and its support function.

U = {theta in Theta : L(theta) <= Lq + log(1 / (delta w))},      L(theta) = - sum_r N_r log p_r(theta)
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from horizonfree.errors import ModelError
from horizonfree.models.mixture.likelihood import maximum_likelihood
from horizonfree.models.mixture.valid import ValidSet


@dataclass
class LikelihoodSet:
    """U around theta_hat: L(theta) <= L(theta_hat) + slack, valid on reachable rows.

    The slack includes the gap of the fit, so that theta_hat is in it whenever U is not empty (1e-4 nats wider than U).
    Directions that change no reachable row cannot be learnt; theta keeps theta_hat's value in them.
    """

    valid: ValidSet
    counts: np.ndarray  # [R]
    theta: np.ndarray  # [d]
    slack: float

    def excess(self, theta):
        """L(theta) - L(theta_hat) - slack of parameters [..., d]: at most 0 in U, infinite outside Theta."""
        p, p_hat = (x @ self.valid.rows[self.valid.free].T for x in (theta, self.theta))
        N = self.counts[self.valid.free]
        is_outside = (p < 0).any(-1) | (p[..., N > 0] == 0).any(-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            loss = -np.log(p[..., N > 0] / p_hat[N > 0]) @ N[N > 0]
        return np.where(is_outside, np.inf, loss - self.slack)

    def support(self, direction, gap=1e-6):
        """max of <direction, theta> over U, from above, and a theta of U that is about `gap` below it.

        A barrier method in y, theta = theta_hat + Z y, z_r = Z'x_r, c = Z'direction. Its point y_b gives multipliers mu
        of L <= level and lam_r of p_r >= 0, and these a bound: with g = grad L(y_b), e = c - mu g + sum_r lam_r z_r,
        every y of U has
            c'(y - y_b) = mu g'(y - y_b) - sum_r lam_r z_r'(y - y_b) + e'(y - y_b)
                       <= mu (level - L(y_b)) + sum_r lam_r p_r(y_b) + ||z (z'z)^-1 e||_1,
        as L is convex, p_r(y) >= 0, and |z_r'(y - y_b)| <= 1.
        """
        free, Z = self.valid.free, self.valid.basis
        rows, N = self.valid.rows[free], self.counts[free]
        z, p_hat, c = rows @ Z, rows @ self.theta, Z.T @ direction
        if not c.any():
            return float(direction @ self.theta), self.theta

        def probabilities(y):
            """p_r, and what is left of the slack; nothing outside Theta."""
            p = p_hat + z @ y
            return p, self.slack + float(N @ np.log(p / p_hat)) if (p > 0).all() else 0.0

        def barrier(y, weight):
            p, remainder = probabilities(y)
            if not remainder > 0:
                return np.inf, y, np.empty((0, 0))
            g = -(N / p) @ z
            value = -weight * float(c @ y) - float(np.log(remainder)) - float(np.log(p).sum())
            grad = -weight * c + g / remainder - (1 / p) @ z
            hess = (z.T * ((N / remainder + 1) / p**2)) @ z + np.outer(g, g) / remainder**2
            return value, grad, hess

        y, weight = np.zeros(len(c)), 1 / float(np.abs(c).max())
        while True:
            y = newton(partial(barrier, weight=weight), y)
            if (1 + len(N)) / weight <= gap:
                break
            weight = min(8 * weight, (1 + len(N)) / gap)
        p, remainder = probabilities(y)
        slacks, A = np.r_[remainder, p], np.c_[(N / p) @ z, z.T]  # e = c + A m, m = (mu, lam)
        m = 1 / (weight * slacks)
        # e = 0 with the least relative change
        m = m - m**2 * (A.T @ np.linalg.solve((A * m**2) @ A.T, c + A @ m))
        m = np.maximum(m, 0.0)
        bound = m @ slacks + np.abs(z @ np.linalg.solve(z.T @ z, c + A @ m)).sum()
        theta = self.theta + Z @ y
        return float(direction @ theta + bound), theta


def likelihood_set(valid, evidence, bet, *, delta=0.05):
    """U of one bet; refuses an empty one."""
    counts = evidence.since[bet]
    fit = maximum_likelihood(valid, counts, evidence.theta)
    slack = float(evidence.loss[bet] - np.log(delta * evidence.weights[bet]) - fit.loss)
    if evidence.impossible > 0 or slack + fit.gap <= 0:
        raise ModelError(
            f"the set of bet {bet} is empty (slack {slack:.3g}, {int(evidence.impossible)} impossible transitions): "
            "no parameter of the class explains the data"
        )
    return LikelihoodSet(valid, counts, fit.theta, slack + float(fit.gap))


def newton(function, v):
    """Damped Newton for a self-concordant function that gives value, gradient, Hessian; until rounding."""
    for _ in range(100):
        value, grad, hess = function(v)
        step = -np.linalg.lstsq(hess, grad, rcond=None)[0]
        decrement = -float(grad @ step)
        if decrement <= 1e-13:
            break
        t = 1.0
        while t > 1e-12 and not function(v + t * step)[0] <= value - 0.1 * t * decrement:
            t /= 2
        if t <= 1e-12:
            break
        v = v + t * step
    return v
