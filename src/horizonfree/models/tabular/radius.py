"""How far the row of a pair can be from what was seen of it: counts to a ball KL(centre || p) <= eps.

With counts N_i, n of them in all, and a bet centred at p itself (kappa > 0 says how sharply),

    f_kappa(p) = log Gamma(kappa)/Gamma(kappa + n) + sum_{N_i>0} phi_i(p_i),    phi_i(p) = sum_{j<N_i} log(kappa + j/p),

sum_j w_j exp f_{kappa_j}(p_x) stays below X/delta for all X unknown pairs and at all times with probability 1 - delta.
`expand` turns that into a ball around the frequencies p_hat of the successors that were seen often enough ("kept"),
for one window of kappas and one way to set rare successors aside; `balls` keeps the smallest. docs/tabular.md has the
proofs.

In their names: A_i = -p phi_i'(p) and M_i <= p^2 phi_i''(p), nu the mean of a_i = A_i/p_hat_i, e_i = a_i - nu,
x_i = p_i/p_hat_i - 1 <= b_i, W the slack at p_hat, T the bound on  theta nu (mass elsewhere) + sum M_i psi(x_i).
"""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array
from horizonfree._x64 import Number
from horizonfree.guarantees.psi import curvature, psi, psi_inverse
from horizonfree.models.tabular.gamma import bend, slope, stirling

KAPPAS = (1.0, 32.0, 1024.0, 32768.0)
# Kappas over which a bound is averaged, two halves: each alone, and neighbours.
WINDOWS = (*((x, x) for x in KAPPAS), *itertools.pairwise(KAPPAS))
# Successors seen less often are rare, and theta: the share of nu that is charged for their mass.
RARE = ((1, 1.0), (2, 1.0), (4, 0.7), (8, 0.7), (16, 0.6))
ROUNDS = 4  # more change eps by less than 1e-7 of it
SURE = 1 + 1e-9  # rounding


class Ball(eqx.Module):
    """KL(centre || p) <= eps, infinite where nothing is known; `is_complete`: p has no mass outside the centre."""

    centre: Float[Array, "X n"]
    eps: Float[Array, " X"]
    is_complete: Bool[Array, " X"]


def level(num_pairs: int, delta: Float[Array, ""]) -> Float[Array, ""]:
    """L = log(X/delta), the height that no bet reaches."""
    return jnp.log(max(num_pairs, 1) / delta)


def log_bet(kappa: Number, N: Float[Array, "X n"], p: Float[Array, "X n"]) -> Float[Array, " X"]:
    """f_kappa(p) of any p; infinite where p excludes what was seen; traceable.

    log Gamma(y + N)/Gamma(y) = N log(y + N) - y psi(N/y) - log1p(N/y)/2 + stirling(y + N) - stirling(y), y = kappa p.
    """
    n, is_seen = N.sum(-1, keepdims=True), N > 0
    is_used = is_seen & (p > 0)
    q = jnp.where(is_used, p, 1.0)

    def ratio(y: Array, N: Array) -> Array:
        return stirling(y + N) - stirling(y) - y * psi(N / y) - jnp.log1p(N / y) / 2

    each = ratio(kappa * q, N) + N * jnp.log1p((N / q - n) / (kappa + n))
    each = jnp.where(is_used, each, jnp.where(is_seen, jnp.inf, 0.0))
    return each.sum(-1) - ratio(jnp.asarray(kappa), n)[:, 0]


def log_kt(N: Float[Array, "X n"], m: Float[Array, " X"]) -> Float[Array, " X"]:
    """log of the Krichevsky-Trofimov probability of the data over that of the frequencies, m successors; traceable.

    Gamma(m/2)/Gamma(n + m/2) prod_i Gamma(N_i + 1/2)/Gamma(1/2) / p_hat_i^N_i, with Stirling's formula cancelled.
    """
    n, seen = N.sum(-1), jnp.where(N > 0, N, 1.0)
    each = N * jnp.log1p(0.5 / seen) - 0.5 + stirling(seen + 0.5) + 0.5 * math.log(2)  # Gamma(1/2) = sqrt(pi)
    top, some = n + m / 2, jnp.maximum(n, 1.0)
    all_of_it = n * jnp.log1p(m / (2 * some)) + ((m - 1) / 2) * jnp.log(top) - m / 2 + stirling(top)
    start = jax.lax.lgamma(m / 2) - 0.5 * math.log(2 * math.pi)
    return jnp.where(N > 0, each, 0.0).sum(-1) - all_of_it + start


def excess(
    N: Float[Array, "X n"], p: Float[Array, "X n"], m: Float[Array, " X"], L: Float[Array, ""], has_kt: bool
) -> Float[Array, " X"]:
    """log sum_j w_j exp f_j(p) - L: above 0, p is outside the confidence set of its pair; traceable."""
    bets = [log_bet(kappa, N, p) for kappa in KAPPAS]
    if has_kt:
        safe = jnp.where(N > 0, p, 1.0)
        p_hat = jnp.where(N > 0, N / jnp.maximum(N.sum(-1, keepdims=True), 1.0), 1.0)
        bets.append(log_kt(N, m) + (N * jnp.log(p_hat / safe)).sum(-1))
    return jax.scipy.special.logsumexp(jnp.stack(bets), axis=0) - math.log(len(bets)) - L


def at_frequencies(
    kappa: Float[Array, ""], N: Float[Array, "X n"], p: Float[Array, "X n"]
) -> Float[Array, " X"]:
    """f_kappa at p = N/n, where all that is large in Stirling's formula cancels; never above 0; traceable.

    -(seen - 1)/2 log((kappa + n)/kappa) + sum_i [stirling((kappa + n) p_i) - stirling(kappa p_i)] - the same of p = 1.
    """
    total, is_seen = kappa + N.sum(-1), N > 0
    each = stirling(total[:, None] * p) - stirling(kappa * p)
    whole = stirling(total) - stirling(kappa)
    unknowns = is_seen.sum(-1) - 1
    return jnp.where(is_seen, each, 0.0).sum(-1) - whole - unknowns / 2 * jnp.log(total / kappa)


def expand(
    N: Float[Array, "X n"],
    possible: Int[Array, " X"],
    window: Float[Array, " 2"],
    need: Float[Array, ""],
    rare: Float[Array, " 2"],
) -> Float[Array, " X"]:
    """eps of Lemmas 2 and 3 for one window of kappas (need = L + KL(window || weights)) and one (r0, theta).

    possible: how many successors each pair can have; whether all of them are listed does not matter.
    """
    r0, theta = rare
    n, is_seen = N.sum(-1), N > 0
    p = jnp.where(is_seen, N / jnp.maximum(n, 1.0)[:, None], 1.0)
    is_kept, is_rare = N >= r0, is_seen & (N < r0)

    kappa, both = window[:, None, None], jnp.broadcast_to(N, (2, *N.shape))

    def bent(p: Array) -> Array:
        return bend(kappa * p, both).mean(0)

    A = slope(kappa * p, both).mean(0)
    mass = jnp.where(is_kept, p, 0.0).sum(-1)
    share = jnp.where(mass > 0, mass, 1.0)
    nu = jnp.where(is_kept, A, 0.0).sum(-1) / share
    most = bent(jnp.ones_like(p))
    aside, is_void = _set_aside(is_rare, p, A, most, nu, theta)
    W = need - jax.vmap(at_frequencies, (0, None, None))(window, N, p).mean(0) + aside
    e = jnp.where(is_kept, A / p - nu[:, None], 0.0)

    def tighten(_: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        T, p_high, M = carry
        # A successor seen once has M = 0; if it is kept, the option is void below.
        is_bent = is_kept & (M > 0)
        b = psi_inverse(jnp.where(is_bent, T[:, None] / jnp.where(is_bent, M, 1.0), 0.0))
        b = jnp.minimum(b, 1 / p - 1)
        p_high = jnp.where(is_bent, jnp.minimum(p_high, p * (1 + b)), p_high)
        G_sq = jnp.where(is_bent, (p * e) ** 2 / jnp.where(is_bent, M * curvature(b), 1.0), 0.0).sum(-1)
        return jnp.minimum(T, (jnp.sqrt(G_sq) / 2 + jnp.sqrt(G_sq / 4 + W)) ** 2), p_high, bent(p_high)

    T, _, M = jax.lax.fori_loop(0, ROUNDS, tighten, (W + e.max(-1), jnp.ones_like(p), most))
    least = jnp.where(is_kept, M / p, jnp.inf).min(-1)
    is_complete = is_kept.sum(-1) == possible
    least = jnp.where(is_complete, least, jnp.minimum(least, theta * nu))
    is_good = (n >= 2) & (mass > 0) & (least > 0) & ~is_void
    return jnp.where(is_good, T / jnp.where(is_good, share * least, 1.0), jnp.inf)


def _set_aside(
    is_rare: Bool[Array, "X n"],
    p: Float[Array, "X n"],
    A: Float[Array, "X n"],
    M: Float[Array, "X n"],
    nu: Float[Array, " X"],
    theta: Float[Array, ""],
) -> tuple[Float[Array, " X"], Bool[Array, " X"]]:
    """What W grows by for the rare, and where they void the option; M at p = 1."""
    c = A - (1 - theta) * nu[:, None] * p
    is_bent = is_rare & (M > 0)
    is_void = (is_rare & (A > nu[:, None] * p)) | (is_bent & (c >= M))
    ratio = jnp.where(is_bent & ~is_void, c / jnp.where(is_bent, M, 1.0), 0.0)
    s = jnp.maximum(-M * jnp.log1p(-ratio), 0.0)
    return jnp.where(is_rare, nu[:, None] * p - A + s, 0.0).sum(-1), is_void.any(-1)


def balls(counts: Float[Array, "X n"], possible: Int[Array, " X"], L: Float[Array, ""], has_kt: bool) -> Ball:
    """The smallest ball of every pair; has_kt: a Krichevsky-Trofimov bet on the support was declared; traceable.

    possible: how many successors each pair can have; those that were seen must be listed.
    """
    num_bets = len(KAPPAS) + has_kt
    windows = jnp.asarray([(*x, math.log(num_bets / (1 + (x[0] != x[1])))) for x in WINDOWS])
    rares = jnp.asarray(RARE)

    def better(best: tuple[Array, Array], window: Array) -> tuple[tuple[Array, Array], None]:
        """Of every way to set aside, side by side: what does not depend on it is computed once."""
        found = jax.vmap(lambda rare: expand(counts, possible, window[:2], L + window[2], rare))(rares)
        eps, r0 = found.min(0), rares[found.argmin(0), 0]
        is_better = eps < best[0]
        return (jnp.where(is_better, eps, best[0]), jnp.where(is_better, r0, best[1])), None

    n = counts.sum(-1)
    first = jnp.full_like(n, jnp.inf)
    if has_kt:
        log_bet = log_kt(counts, possible.astype(counts.dtype))
        first = jnp.where(n > 0, (L + math.log(num_bets) - log_bet) / jnp.maximum(n, 1.0), jnp.inf)
    (eps, r0), _ = jax.lax.scan(better, (first, jnp.ones_like(n)), windows)
    kept = jnp.where(counts >= r0[:, None], counts, 0.0)
    centre = kept / jnp.maximum(kept.sum(-1, keepdims=True), 1.0)
    return Ball(centre, eps * SURE, (kept > 0).sum(-1) == possible)
