"""An upper bound of the oracle's value by the law of total variance, rigorous.

Paper: the horizon-free rate of arXiv 2303.10165 rests on the same law; here it bounds one oracle call.
In the model P_theta the return of (pi, r) has variance <= 1/4, which is sum_h E Var_{p(s_h,a_h)}(V_{h+1}); and with
x = Vhat_1(s_1), sum_h E Var_{p(s_h,a_h)}(Vhat_{h+1}) <= 2x - x^2. For every mu, nu >= 0 therefore

    x <= mu/4 + nu (2x - x^2) + D_1(s_1),
    D_h(s) = max_a g_mu(s,a) + g_nu(s,a) + sum_s' P_theta(s'|s,a) D_{h+1}(s'),
    g_mu(s,a) = max_{f in [0,1]^n} beta ||phi_f||_tilde - mu Var_p(f),   g_nu = the same with 2 beta ||.||_hat and nu.

The inner maxima are bounded from above by branch and bound. Proof in docs/oracle.md.
"""

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from horizonfree._x64 import x64
from horizonfree.mixture import AnyArray
from horizonfree.oracle.box import ENUMERATE
from horizonfree.oracle.objective import Prepared

RATIOS = 2.0 ** np.arange(-4, 5.5, 0.5)  # mu / beta and nu / beta that are tried
SLACK = 1e-3  # the inner maxima are bounded to this share of themselves
MAX_CELLS = 1 << 16  # open cells of the branch and bound; beyond it what is left open keeps its bound


class TotalVariance(eqx.Module):
    """The bound and the multipliers that attain it."""

    value: float
    mu: float
    nu: float


@x64
def total_variance_bound(prepared: Prepared, beta: float) -> TotalVariance:
    """min over (mu, nu) of the bound on max over (pi, r) of Vhat_1(s_1); with F_hat = 0 the hat-free value.

    Needs P_theta to be a kernel. Runs on the host: seconds, for reports, not inside an explorer.
    """
    succ, p = np.asarray(prepared.succ), np.asarray(prepared.p)
    tilde = [beta * penalised_max(prepared.F_tilde, p, k, prepared.box_tilde) for k in RATIOS]
    hat = [2 * beta * penalised_max(prepared.F_hat, p, k / 2, prepared.box_hat) for k in RATIOS]
    best = TotalVariance(1.0, 0.0, 0.0)
    for mu, g_mu in zip(beta * RATIOS, tilde):
        for nu, g_nu in zip(beta * RATIOS, hat):
            D = _induct(succ, p, np.minimum(g_mu, 1), g_nu, prepared.horizon)[prepared.start]
            c = mu / 4 + D
            b = 2 * nu - 1  # x <= c + nu (2x - x^2) holds for x up to the larger root
            x = (b + np.sqrt(b * b + 4 * nu * c)) / (2 * nu)
            if x < best.value:
                best = TotalVariance(float(x), float(mu), float(nu))
    return best


def _induct(
    succ: Int[np.ndarray, "n A S"],
    p: Float[np.ndarray, "n A S"],
    g_mu: Float[np.ndarray, "A S"],
    g_nu: Float[np.ndarray, "A S"],
    H: int,
) -> Float[np.ndarray, " S"]:
    """D_1. At step H both terms vanish (V_{H+1} = 0), at H-1 the hat term does (Vhat_H = 0)."""
    D = np.zeros(p.shape[2])
    for h in range(H - 1, 0, -1):
        g = g_mu if h == H - 1 else g_mu + g_nu
        D = (g + (p * D[succ]).sum(0)).max(0)
    return D


def penalised_max(
    F: Float[AnyArray, "m n A S"],
    p: Float[np.ndarray, "n A S"],
    kappa: float,
    box: Float[AnyArray, "A S"],
) -> Float[np.ndarray, "A S"]:
    """Upper bounds of max over f in [0,1]^n of ||F f|| - kappa Var_p(f), to SLACK; above ENUMERATE successors `box`.

    On a cell with centre c, -Var_p is below its tangent at c (it is concave), so the objective is below a convex
    function, whose maximum over the cell is at a vertex. A cell that cannot beat the best point found by more than
    SLACK is closed; the others are halved where p_i width_i^2, the error of the tangent, is largest.
    """
    m, n, A, S = F.shape
    if n > ENUMERATE:
        return np.asarray(box)
    F = np.moveaxis(np.asarray(F).reshape(m, n, A * S), -1, 0)
    p = np.moveaxis(p.reshape(n, A * S), -1, 0)
    vertices = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    owner, low, width = np.arange(A * S), np.zeros((A * S, n)), np.ones((A * S, n))
    found, bound = np.zeros(A * S), np.zeros(A * S)  # f = 0 gives 0
    while owner.size:
        value, above, split = _cells(F[owner], p[owner], low, width, vertices, kappa)
        np.maximum.at(found, owner, value)
        is_open = above > (1 + SLACK) * found[owner] + 1e-15
        if 2 * is_open.sum() > MAX_CELLS:
            np.maximum.at(bound, owner, above)
            break
        owner, low, width, split = owner[is_open], low[is_open], width[is_open], split[is_open]
        width[np.arange(owner.size), split] /= 2
        upper_half = low.copy()
        upper_half[np.arange(owner.size), split] += width[np.arange(owner.size), split]
        owner, low, width = np.tile(owner, 2), np.r_[low, upper_half], np.tile(width, (2, 1))
    return np.maximum(bound, (1 + SLACK) * found + 1e-15).reshape(A, S)


def _cells(
    F: Float[np.ndarray, "C m n"],
    p: Float[np.ndarray, "C n"],
    low: Float[np.ndarray, "C n"],
    width: Float[np.ndarray, "C n"],
    vertices: Int[np.ndarray, "N n"],
    kappa: float,
) -> tuple[Float[np.ndarray, " C"], Float[np.ndarray, " C"], Int[np.ndarray, " C"]]:
    """Per cell: the best value at a vertex, an upper bound over the cell, and where to split it."""
    f = low[:, None] + width[:, None] * vertices
    size = np.sqrt((np.einsum("cmn,cvn->cvm", F, f) ** 2).sum(-1))
    mean = (p[:, None] * f).sum(-1)
    variance = (p[:, None] * f * f).sum(-1) - mean**2
    c = low + width / 2
    c_mean = (p * c).sum(-1, keepdims=True)
    # Var(f) >= Var(c) + 2 <p (c - c_mean), f - c>
    tangent = (p * c * c).sum(-1, keepdims=True) - c_mean**2
    tangent = tangent + 2 * ((p * (c - c_mean))[:, None] * (f - c[:, None])).sum(-1)
    value = (size - kappa * variance).max(-1)
    above = (size - kappa * tangent).max(-1)
    return value, above, (p * width**2).argmax(-1)
