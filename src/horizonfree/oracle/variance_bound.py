"""A bound T on the error of values in P_theta by the law of total variance; it does not grow with H.

Let P = P_theta and P_star be kernels with ||theta - theta_star||_tilde <= 2 beta. Fix a policy and a reward of total at
most 1; V and V_star are its values, expectations are under P. Put e_h = (P_star - P) V_star_{h+1} at (s_h, a_h), so
|e_h| <= 2 b_h with b_h = min{1/2, beta ||phi_{V_star_{h+1}}||_tilde}, y = sum_h E b_h, and let |V_star - V| <= q at
every state and step that can be occupied. Then for every mu >= 0

    |V_star_1 - V_1| <= 2 y,   y <= D_1 + mu sum_h E Var_p(V_star_{h+1}) <= D_1 + mu (1/2 + 2 sqrt(q y))^2,          (1)
    D_h(s) = max_a g_mu(s,a) + sum_s' P(s'|s,a) D_{h+1}(s'),
    g_mu(s,a) = max_{f in [0,1]^n} beta ||phi_f|| - mu Var_p(f).

(1) holds from every state that can be occupied, which bounds q by twice the largest y; q = 1 holds to begin with. A
plan that is optimal in P loses at most 4 y. No hat norm occurs, since the expectation is under P itself. Proof in
docs/further-proofs.md.
"""

import numpy as np
from jaxtyping import Float

from horizonfree._x64 import x64
from horizonfree.oracle.objective import Prepared
from horizonfree.oracle.variance import gather, penalised_max

MUS = np.append(2.0 ** np.arange(-1, -14.5, -0.5), 0.0)  # largest first
VACUOUS_BOUND = 0.25  # 4 y >= 1 is vacuous
ROUNDS = 50  # of improving q; every one is valid


@x64
def variance_bound(prepared: Prepared, beta: float) -> float:
    """The least bound of y over a grid of mu, for every policy and reward; at most 1/4, which is vacuous.

    Needs P_theta to be a kernel. Runs on the host: seconds, for reports.
    """
    p, F, box = (np.asarray(x) for x in (prepared.p, prepared.F_tilde, prepared.box_tilde))
    reachable = np.asarray(prepared.space.reachable)
    tried: list[tuple[float, float, float]] = []
    least = VACUOUS_BOUND
    for mu in MUS:
        kappa = mu / beta if beta > 0 else 0.0
        g = np.minimum(beta * penalised_max(F, p, kappa, box), 0.5)
        # V_star_{H+1} = 0: the last step adds nothing. D_1 >= D_h, as g >= 0.
        D = gather(prepared, g, g)
        tried.append((mu, float(prepared.space.at_start(D)), float(D[reachable].max())))
        least = min(least, _least(np.array(tried)))
        if tried[-1][1] >= least:  # smaller mu have larger D
            break
    return least


def _least(tried: Float[np.ndarray, "N 3"]) -> float:
    """The least y at the start, given mu, D at the start and the largest D of any state."""
    mu, start, largest = tried.T
    q = 1.0
    for _ in range(ROUNDS):
        q = min(q, 2 * largest_root(largest, mu, q).min())
    return float(largest_root(start, mu, q).min())


def largest_root(
    D: Float[np.ndarray, " N"], mu: Float[np.ndarray, " N"], q: float
) -> Float[np.ndarray, " N"]:
    """The largest y with y <= D + mu (1/2 + 2 sqrt(q y))^2, a quadratic in sqrt(y); infinite from mu = 1/(4q) on."""
    a = 1 - 4 * mu * q
    b = mu * np.sqrt(q)
    is_bounded = a > 0
    root = (b + np.sqrt(b**2 + np.maximum(a, 0) * (D + mu / 4))) / np.where(is_bounded, a, 1.0)
    y: np.ndarray = np.where(is_bounded, root**2, np.inf)
    return y
