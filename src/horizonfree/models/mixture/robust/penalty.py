"""What the e-processes must pay for laws that are not those of the class: Theorem R1 and Lemma R4.

rho_t(s') = P_{theta_t}(s')/P_theta(s') has mean at most 1 + zeta span rho_t under every law within zeta of P_theta, so

    L(theta_star) <= Lq + log(1/(delta w)) + sum_t log(1 + zeta span rho_t)         with probability 1 - delta.

Where -a <= x <= b bounds the relative change of every row from theta_hat, sum N psi(x) + sum lam p_theta <= each of

    (i)   W + sum_t log(1 + zeta [max q_t/(p (1-a)) - min q_t/(p (1+b))])
    (ii)  (G/2 + sqrt(G^2/4 + W + E + s))^2,      E = sum_t zeta (a bound on span (q_t - p)/p_theta),
          G^2 = nu lambda_max(F^-1/2 [sum_x n_x zeta_x M_x] F^-1/2),     nu = sum_x n_x zeta_x,

with W the slack without misspecification, F = sum N k(b) zz'/p^2 + s box (Delta'box Delta <= 1), and M_x >= d_ij d_ij'
for all d_ij = (z_i/p_i - z_j/p_j)/((1-a_i)(1-a_j)): by Cauchy and Schwarz sum_t zeta span(p/p_theta) <= G sqrt(Delta'F
Delta). It grows with zeta times a quantity of first order, so theta is known to O(zeta) and not to sqrt(zeta).
"""

import math

import numpy as np
import scipy  # its submodules load slowly, at first use
from jaxtyping import Float, Int

from horizonfree.models.mixture.robust.frequencies import PairKinds
from horizonfree.models.mixture.robust.half_spaces import Blocks

BOX_SHARE = 1e-6  # s, of the ellipsoid that is spent on "probabilities lie in [0,1]"
MAX_PAIRED_SUCCESSORS = 24  # successors up to which all pairs are compared; beyond, each is compared with 1
RELATIVE_RIDGE = 1e-9  # of a sum of dd', so that it can be inverted
EIGENVALUE_FACTOR = 1 + 1e-9  # what an eigenvalue may miss
BLOCK_SIZE = 10**6  # numbers at a time


def penalised(
    kinds: PairKinds,
    blocks: Blocks,
    z: Float[np.ndarray, "R q"],
    p: Float[np.ndarray, " R"],
    below: Float[np.ndarray, " R"],
    above: Float[np.ndarray, " R"],
    F: Float[np.ndarray, "q q"],
    W: float,
) -> float:
    """W', the smaller of (i) and (ii); infinite where a row that counts may be 0, negative where U is empty."""
    n = blocks.visits.sum(0)
    counted = np.flatnonzero((n > 0) & (kinds.zeta > 0))
    if not len(counted):
        return W
    rows, is_slot, zeta = kinds.rows[counted], kinds.is_slot[counted], kinds.zeta[counted]
    a, b = (np.append(x, 0.0)[rows] for x in (below, above))
    if (is_slot & (a >= 1)).any():
        return math.inf
    least, most = (np.append(p, 1.0)[rows] * x for x in (1 - a, 1 + b))
    by_logs, E = W, 0.0
    for t in range(len(blocks.p)):
        q = np.append(blocks.p[t], 1.0)[rows]
        off = q - np.append(p, 1.0)[rows]
        visits = blocks.visits[t][counted]
        high = np.where(is_slot, q / least, -np.inf).max(-1)
        low = np.where(is_slot, q / most, np.inf).min(-1)
        by_logs += visits @ np.log1p(zeta * (high - low))
        high = np.where(is_slot, off / np.where(off > 0, least, most), -np.inf).max(-1)
        low = np.where(is_slot, off / np.where(off > 0, most, least), np.inf).min(-1)
        E += visits @ (zeta * (high - low))
    G2 = _first_order(rows, is_slot, zeta * n[counted], z, p, a, F)
    inside = G2 / 4 + W + E + BOX_SHARE
    by_roots = (math.sqrt(G2) / 2 + math.sqrt(inside)) ** 2 if inside >= 0 else -1.0
    return min(by_logs, by_roots)


def _first_order(
    rows: Int[np.ndarray, "x n"],
    is_slot: np.ndarray,
    weight: Float[np.ndarray, " x"],
    z: Float[np.ndarray, "R q"],
    p: Float[np.ndarray, " R"],
    a: Float[np.ndarray, "x n"],
    F: Float[np.ndarray, "q q"],
) -> float:
    """G^2."""
    q = z.shape[1]
    n = rows.shape[1]
    relative = np.concatenate([z / p[:, None], np.zeros((1, q))])
    total = np.zeros((q, q))
    size = q * (n * n if n <= MAX_PAIRED_SUCCESSORS else n)
    for part in np.array_split(np.arange(len(rows)), max(1, len(rows) * size // BLOCK_SIZE)):
        w = relative[rows[part]]
        if n <= MAX_PAIRED_SUCCESSORS:
            shrink = (1 - a[part])[:, :, None] * (1 - a[part])[:, None, :]
            is_pair = is_slot[part][:, :, None] & is_slot[part][:, None, :]
            d = np.where(is_pair[..., None], (w[:, :, None] - w[:, None]) / shrink[..., None], 0.0)
            d = d.reshape(len(part), n * n, q)
        else:
            d = 2 * np.where(is_slot[part][..., None], w / (1 - a[part])[..., None], 0.0)
        total += np.einsum("x,xij->ij", weight[part], _above_all(d))
    largest = scipy.linalg.eigvalsh(total, F)[-1]
    return float(weight.sum() * max(largest, 0.0) * EIGENVALUE_FACTOR)


def _above_all(d: Float[np.ndarray, "x m q"]) -> Float[np.ndarray, "x q q"]:
    """M with M >= dd' for every d: tau S, S = sum dd' + a ridge, tau = max d'S^-1 d."""
    S = np.einsum("xmi,xmj->xij", d, d)
    q = d.shape[-1]
    S += (RELATIVE_RIDGE * np.trace(S, axis1=1, axis2=2) + 1e-300)[:, None, None] * np.eye(q)
    tau = np.einsum("xmi,xim->xm", d, np.linalg.solve(S, d.transpose(0, 2, 1))).max(-1)
    above: np.ndarray = tau[:, None, None] * S
    return above
