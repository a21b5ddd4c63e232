"""Maximum likelihood over the valid parameters Theta, from the counts of each distinct feature row.

    theta = center + Z y,   p_r(y) = <x_r, theta>,   L(theta) = - sum_r N_r log p_r

Only rows that are free (ValidSet.free) matter: any other reachable row has a known probability. The estimates below
minimise f(y) = - sum_r c_r log p_r(y), c = N + a pseudo-count per free row, by Newton's method with a line search. f is
strictly convex and infinite on the boundary, so every iterate is a valid parameter with positive probabilities,
however few steps are taken.

Predictions are made with two pseudo-counts: a half per free row, which is best where rows are few, and q/2 for all
rows together, which is best where there are many more rows than unknowns.

Theta is taken as the parameters that are valid on reachable rows; on rows of unreachable states, which no episode can
show, theta may be anything.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree.models.mixture.rows import MANY, Coordinates, coordinates, gram, solve
from horizonfree.models.mixture.valid import ValidSet

HALF = 0.5  # pseudo-count per free row: strictly inside Theta (Krichevsky and Trofimov's half)
STEPS = 3  # Newton steps of the predictor per episode, from the predictor of the episode before
GAP = 1e-4  # nats by which the last barrier may keep the maximum likelihood from its maximum
BARRIERS = (
    4  # geometric steps from the second predictor's pseudo-count per row to the last barrier, GAP / R per row
)
MAX_STEPS = 40  # Newton steps per barrier; two to four are needed
SOLVED = 1e-6  # a share by which a solution of a linear system may miss
QUARTER = 0.25  # of a probability: a Newton step that takes less is the best of its line
DECREMENT = 1e-10  # a squared Newton decrement below this (in nats) counts as converged


class Fit(eqx.Module):
    """The maximum of the likelihood, and how far from it we may be.

    `lam` >= 0 are the multipliers of p >= 0. For every theta in Theta, with probabilities p_theta,
        - grad L(theta_hat)'(theta - theta_hat) <= gap - sum_r lam_r p_theta,r,
    so L(theta_hat) is at most `gap` above the minimum.
    """

    theta: Float[Array, " d"]
    p: Float[Array, " R"]
    lam: Float[Array, " R"]
    loss: Float[Array, ""]
    gap: Float[Array, ""]


def log_loss(counts: Int[Array, " R"], p: Float[Array, " R"]) -> Float[Array, ""]:
    """- sum_r N_r log p_r; rows that were never seen do not count, whatever their probability."""
    return -(counts * jnp.log(jnp.where(counts > 0, jnp.maximum(p, 0.0), 1.0))).sum()


def pseudo_counts(valid: ValidSet) -> Float[Array, " 2"]:
    """Per free row, of the two predictors: 1/2, and q/(2 R) of R free rows where that is less; traceable."""
    return jnp.stack([jnp.asarray(HALF), jnp.minimum(HALF, HALF * valid.num_free / valid.free.sum())])


def predict(valid: ValidSet, counts: Int[Array, " R"], thetas: Float[Array, "2 d"]) -> Float[Array, "2 d"]:
    """The regularised estimates for the next episode, a few Newton steps from the last ones; traceable.

    They are inside Theta after any number of steps, which is all that a bet needs.
    """
    if valid.num_free == 0:
        return thetas
    at = coordinates(valid)

    def one(pseudo: Array, theta: Array) -> Array:
        c = jnp.where(valid.free, counts + pseudo, 0.0)
        return at.theta(jax.lax.fori_loop(0, STEPS, lambda _, y: _newton(at, c, y)[0], at.y(theta)))

    if counts.shape[0] > MANY:  # side by side both would search for their steps as long as one must
        found: Array = jax.lax.map(lambda x: one(*x), (pseudo_counts(valid), thetas))
        return found
    return jax.vmap(one)(pseudo_counts(valid), thetas)


def maximum_likelihood(valid: ValidSet, counts: Int[Array, " R"], start: Float[Array, " d"]) -> Fit:
    """theta_hat = argmin over Theta of L, along a decreasing barrier; traceable.

    Newton's method stays inside Theta only if it starts there: a `start` at which some free row has no probability is
    replaced by the centre.
    """
    at = coordinates(valid)
    if valid.num_free == 0:
        zero = jnp.zeros(())
        return Fit(start, at.p_center, jnp.zeros_like(at.p_center), log_loss(counts, at.p_center), zero)

    def at_barrier(y: Array, barrier: Array) -> tuple[Array, None]:
        c = jnp.where(valid.free, counts + barrier, 0.0)

        def more(carry: tuple[Array, Array, Array]) -> Array:
            _, decrement, steps = carry
            return (decrement > DECREMENT) & (steps < MAX_STEPS)

        def step(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            y, decrement = _newton(at, c, carry[0])
            return y, decrement, carry[2] + 1

        y, _, _ = jax.lax.while_loop(more, step, (y, jnp.array(jnp.inf), jnp.array(0)))
        return y, None

    last = GAP / counts.shape[0]
    first = at.y(start)
    first = jnp.where(((at.p(first) > 0) | ~valid.free).all(), first, 0.0)
    y, _ = jax.lax.scan(at_barrier, first, jnp.geomspace(pseudo_counts(valid)[1], last, BARRIERS))
    p = at.p(y)
    lam, gap = _multipliers(at, valid.free, counts, p, last)
    return Fit(at.theta(y), p, lam, log_loss(counts, p), gap)


def _newton(
    at: Coordinates, c: Float[Array, " R"], y: Float[Array, " q"]
) -> tuple[Float[Array, " q"], Float[Array, ""]]:
    """One Newton step on f with a line search, and the decrement before it. Never leaves p > 0.

    With many rows a whole step that takes from no row more than a share m = QUARTER of its p is not compared with half
    of it: along the step f' <= D (-1 + t / (1 - m t)), D = dy'Hessian dy, and from t = 1/2 to 1 that is -0.03 D in all.
    """
    p = jnp.where(c > 0, at.p(y), 1.0)
    w = c / p
    grad = -(at.z @ w)
    Hessian = gram(at.z, w / p)
    dy = solve(Hessian, -grad)
    x = dy @ at.z / p  # relative change of each probability
    longest = 0.95 / jnp.maximum(-x.min(), 0.95)  # min(1, 95 % of the way to the boundary)

    def searched() -> tuple[Array, Array]:
        return _best_step(c, x, longest * 0.5 ** jnp.arange(8.0))

    if x.shape[0] <= MANY:
        t, change = searched()
    else:
        whole = jnp.array(1.0), jnp.array(-1.0)
        t, change = jax.lax.cond(x.min() >= -QUARTER, lambda: whole, searched)
    y_next = y + t * dy
    is_better = (change < 0) & (jnp.where(c > 0, at.p(y_next), 1.0) > 0).all()
    return jnp.where(is_better, y_next, y), jnp.where(is_better, jnp.maximum(-grad @ dy, 0.0), 0.0)


def _best_step(
    c: Float[Array, " R"], x: Float[Array, " R"], t: Float[Array, " T"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Of the lengths t, each half of the one before, the one at which f is least, and by how much it changes there.

    f is convex: where the first is no worse than the second, it is the best of all. With many rows that is asked first.
    """

    def tried(t: Array) -> tuple[Array, Array]:
        change = -(c * jnp.log1p(t[:, None] * x)).sum(-1)
        best = jnp.argmin(change)
        return t[best], change[best]

    if x.shape[0] <= MANY:
        return tried(t)
    first = tried(t[:2])
    best: tuple[Array, Array] = jax.lax.cond(first[0] == t[0], lambda: first, lambda: tried(t))
    return best


def _multipliers(
    at: Coordinates, free: Array, counts: Int[Array, " R"], p: Float[Array, " R"], barrier: float
) -> tuple[Float[Array, " R"], Float[Array, ""]]:
    """Multipliers lam >= 0 of the constraints p >= 0, and the optimality gap that they prove.

    Write g = Z'grad L = - sum_r N_r z_r / p_r. For any lam >= 0 and any theta in Theta,
        - g'Delta = - sum lam_r z_r'Delta - (g - sum lam_r z_r)'Delta <= sum lam_r p_r - sum lam_r p_theta,r + residual,
    where the residual is small: |z_r'Delta| <= 1 gives |e'Delta| = |e'(z'z)^-1 z'(z Delta)| <= ||z (z'z)^-1 e||_1.
    lam starts at barrier/p and is moved by weighted least squares, rows with p = 0 the most, to make e vanish.
    """
    p_free = jnp.where(free, p, 1.0)
    g = -(at.z @ (counts / p_free))
    lam = jnp.where(free, barrier / p_free, 0.0)
    weight = jnp.where(free, 1 / (p_free + barrier), 0.0)
    Gram = gram(at.z, weight)

    def closer(_: Array, lam: Array) -> Array:
        return jnp.maximum(lam + weight * (solve(Gram, g - at.z @ lam) @ at.z), 0.0)

    lam = jax.lax.fori_loop(0, 3, closer, lam)
    e, Gram = g - at.z @ lam, at.z @ at.z.T
    x = solve(Gram, e)
    residual = jnp.abs(x @ at.z).sum()
    is_solved = jnp.abs(Gram @ x - e).max() <= SOLVED * (jnp.abs(Gram) @ jnp.abs(x)).max()
    return lam, lam @ p_free + jnp.where(is_solved, residual, jnp.inf)
