"""The predictors of the next episode: regularised estimates of theta, a few Newton steps per episode; traced.

    theta = center + Z y,   p_r(y) = <x_r, theta>,   f(y) = - sum_r c_r log p_r(y),   c = N + a pseudo-count a row

Only rows that are free (ValidSet.free) matter: any other reachable row has a known probability. f is strictly convex
and infinite on the boundary, so every iterate is a valid parameter with positive probabilities, however few steps are
taken. There are two pseudo-counts: a half per free row, which is best where rows are few, and q/2 for all rows
together, which is best where there are many more rows than unknowns. likelihood.py has the same in NumPy.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree.models.mixture.likelihood import HALF, STEPS
from horizonfree.models.mixture.rows import MANY, Coordinates, coordinates, gram, solve
from horizonfree.models.mixture.valid import ValidSet

QUARTER = 0.25  # of a probability: a Newton step that takes less is the best of its line


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
