"""Bounds by the law of total variance: of the oracle's value, and of the error of values in P_theta.

The value of the oracle (`total_variance_bound`). The horizon-free rate of HF-UCRL-RFE++ (arXiv 2303.10165) rests on
this law; here it bounds one oracle call. In the model P_theta the return of (pi, r) has variance <= 1/4, which is
sum_h E Var_{p(s_h,a_h)}(V_{h+1}). With x = Vhat_1(s) and w >= Vhat everywhere, sum_h E Var_{p(s_h,a_h)}(Vhat_{h+1}) <=
2 w x - x^2. For every mu, nu >= 0

    x <= mu/4 + nu (2 w x - x^2) + D_1(s),
    D_h(s) = max_a g_mu(s,a) + g_nu(s,a) + sum_s' P_theta(s'|s,a) D_{h+1}(s'),
    g_mu(s,a) = max_{f in [0,1]^n} beta ||phi_f||_tilde - mu Var_p(f),
    g_nu(s,a) = max_{f in [0,w]^n} 2 beta ||phi_f||_hat - nu Var_p(f).

The inner maxima are bounded from above by branch and bound (box.py). Proofs in docs/oracle.md.

The error of values (`variance_bound`): a bound T that does not grow with H. Let P = P_theta and P_star be kernels with
||theta - theta_star||_tilde <= 2 beta. Fix a policy and a reward of total at most 1; V and V_star are its values,
expectations are under P. Put e_h = (P_star - P) V_star_{h+1} at (s_h, a_h), so |e_h| <= 2 b_h with b_h = min{1/2, beta
||phi_{V_star_{h+1}}||_tilde}, y = sum_h E b_h, and let |V_star - V| <= q at every state and step that can be occupied.
Then for every mu >= 0

    |V_star_1 - V_1| <= 2 y,   y <= D_1 + mu sum_h E Var_p(V_star_{h+1}) <= D_1 + mu (1/2 + 2 sqrt(q y))^2,          (1)
    D_h(s) = max_a g_mu(s,a) + sum_s' P(s'|s,a) D_{h+1}(s'),
    g_mu(s,a) = max_{f in [0,1]^n} beta ||phi_f|| - mu Var_p(f).

(1) holds from every state that can be occupied, which bounds q by twice the largest y; q = 1 holds to begin with. A
plan that is optimal in P loses at most 4 y. No hat norm occurs, since the expectation is under P itself. Proof in
docs/further-proofs.md.
"""

import jax
import numpy as np
from jaxtyping import Float

from horizonfree._x64 import x64
from horizonfree.mdp.space import Kernel
from horizonfree.oracle.box import MAX_VECTORIZED_SUCCESSORS, branch_and_bound
from horizonfree.oracle.objective import Prepared
from horizonfree.oracle.result import upper_bound
from horizonfree.planning import optimal

RATIOS = 2.0 ** np.arange(-4, 4.5, 0.5)  # mu / beta and nu w / beta that are tried
ROUNDS = 3  # each uses the bound of the last as w
RELATIVE_SLACK = 1e-2  # the inner maxima are bounded to this share of themselves
MAX_VERTICES = (
    1 << 20
)  # of the cells of a branch and bound that are open at a time; what is beyond keeps its bound
DUPLICATE_DIGITS = 12  # pairs (s,a) that agree to this many digits are bounded once

_upper_bound = jax.jit(upper_bound)


@x64
def total_variance_bound(prepared: Prepared, beta: float) -> float:
    """The least bound over (mu, nu), and never above `upper_bound`, of max over (pi, r) of Vhat_1(s_1).

    Needs P_theta to be a kernel. Runs on the host: seconds, for reports, not inside an explorer.
    """
    tables = prepared.p, prepared.F_tilde, prepared.F_hat, prepared.box_tilde, prepared.box_hat
    p, F_tilde, F_hat, box_tilde, box_hat = map(np.asarray, tables)
    tilde = [beta * penalised_max(F_tilde, p, k, box_tilde) for k in RATIOS]
    hat = [2 * beta * penalised_max(F_hat, p, k / 2, box_hat) for k in RATIOS]
    # Bounds Vhat_1, hence Vhat_h, in every state that can be occupied.
    x = np.where(prepared.space.reachable, np.asarray(_upper_bound(prepared, beta)[0]), 0.0)
    for _ in range(ROUNDS):
        w = float(x.max())
        if w == 0:  # one or no step: nothing to bound
            break
        for mu, g_mu in zip(beta * RATIOS, tilde):
            for nu, g_nu in zip(beta * RATIOS / w, hat):
                tilde_1 = np.minimum(g_mu, 1)  # of step H-1, where the hat term vanishes: Vhat_H = 0
                c = mu / 4 + gather(prepared, tilde_1, tilde_1 + w * g_nu)
                x = np.minimum(x, _largest(c, nu, w))
    return float(prepared.space.at_start(x))


def _largest(c: Float[np.ndarray, " S"], nu: float, w: float) -> Float[np.ndarray, " S"]:
    """The largest x with x <= c + nu (2 w x - x^2): a root, in the form that does not cancel."""
    b = 2 * nu * w - 1
    root = np.sqrt(b * b + 4 * nu * c)
    return (root + b) / (2 * nu) if b > 0 else 2 * c / (root - b)


def gather(
    prepared: Prepared, last: Float[np.ndarray, "A S"], g: Float[np.ndarray, "A S"]
) -> Float[np.ndarray, " S"]:
    """D_1 = max over policies of sum_h E g_h in P_theta, where g_H = 0, g_{H-1} is `last` and g_h is `g` before."""
    space = prepared.space
    table = np.zeros(space.sizes)
    table[:-1], table[-2:-1] = g.T, last.T
    # Rows of unreachable states need not be probabilities (likelihood.py).
    prob = np.asarray(prepared.p).transpose(2, 1, 0) * np.asarray(space.reachable)[:, None, None]
    kernel = Kernel(space.succ, prob, space.is_dense)
    D: np.ndarray = optimal(kernel, table).V[0]
    return D


def penalised_max(
    F: Float[np.ndarray, "m n A S"],
    p: Float[np.ndarray, "n A S"],
    kappa: float,
    box: Float[np.ndarray, "A S"],
) -> Float[np.ndarray, "A S"]:
    """Upper bounds of max over f in [0,1]^n of ||F f|| - kappa Var_p(f), to SLACK; above ENUMERATE successors `box`."""
    m, n, A, S = F.shape
    if n > MAX_VECTORIZED_SUCCESSORS:
        return np.asarray(box)
    F = np.moveaxis(np.asarray(F).reshape(m, n, A * S), -1, 0)
    p = np.moveaxis(p.reshape(n, A * S), -1, 0)
    G = np.einsum("xmi,xmj->xij", F, F).reshape(A * S, -1)
    largest = G.max(1, keepdims=True)
    largest = np.where(largest > 0, largest, 1.0)
    exponent = np.floor(np.log10(largest))
    key = np.c_[
        G / largest, largest / 10.0**exponent, exponent, p
    ]  # relative to each pair, not to all of them
    _, first, inverse = np.unique(
        np.round(key, DUPLICATE_DIGITS), axis=0, return_index=True, return_inverse=True
    )
    rows = np.ascontiguousarray(F[first]), np.ascontiguousarray(p[first])
    bound: np.ndarray = branch_and_bound(*rows, kappa, RELATIVE_SLACK, MAX_VERTICES >> n)
    return (1 + 1e-9) * bound[inverse.reshape(A, S)]  # the margin covers the digits beyond DIGITS


MUS = np.append(2.0 ** np.arange(-1, -14.5, -0.5), 0.0)  # largest first
VACUOUS_BOUND = 0.25  # 4 y >= 1 is vacuous
IMPROVEMENT_ROUNDS = 50  # of improving q; every one is valid


@x64
def variance_bound(prepared: Prepared, beta: float) -> float:
    """The least bound of y over a grid of mu, for every policy and reward; at most 1/4, which is vacuous.

    Needs P_theta to be a kernel. Runs on the host: seconds, for reports.
    """
    p, F, box = (np.asarray(x) for x in (prepared.p, prepared.F_tilde, prepared.box_tilde))
    reachable = np.asarray(prepared.space.reachable)
    points: list[tuple[float, float, float]] = []
    least = VACUOUS_BOUND
    for mu in MUS:
        kappa = mu / beta if beta > 0 else 0.0
        g = np.minimum(beta * penalised_max(F, p, kappa, box), 0.5)
        # V_star_{H+1} = 0: the last step adds nothing. D_1 >= D_h, as g >= 0.
        D = gather(prepared, g, g)
        points.append((mu, float(prepared.space.at_start(D)), float(D[reachable].max())))
        least = min(least, _least(np.array(points)))
        if points[-1][1] >= least:  # smaller mu have larger D
            break
    return least


def _least(points: Float[np.ndarray, "N 3"]) -> float:
    """The least y at the start, given mu, D at the start and the largest D of any state."""
    mu, start, largest = points.T
    q = 1.0
    for _ in range(IMPROVEMENT_ROUNDS):
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
