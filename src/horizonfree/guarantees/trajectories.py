"""How far apart the trajectories of two kernels can be, whatever the policy, and what a plan can lose by that.

    KL(trajectories) = E_{P_hat, pi} sum_{h<H} KL(P_hat || P)(s_h, a_h)

(the last transition touches no reward), so a bound c(s,a) on each KL and one dynamic programme bound it for all
policies at once. A class of models supplies `Steps`: its estimate P_hat, the bound c, and the mass that was left out
of P_hat to keep c small (`leak`), which costs as much in the value of a policy. Pairs (s,a) whose c is too large are a
bad set at which the comparison stops: that costs the probability of getting there (`hit`).
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array, taken
from horizonfree._x64 import Leaf
from horizonfree.guarantees.gap import gap as gap
from horizonfree.mdp.space import Kernel, Space
from horizonfree.planning.backward import totals_jax

LARGE = 2**14  # successors of all pairs: with more, what need not be computed is left out
STOPS = (math.inf, 3.0, 0.3, 0.03)  # pairs with a larger c are stopped at; the best of these is kept


class Steps(eqx.Module):
    """One transition: the kernel of the estimate, the KL it can cost at most, the mass left out.

    Without the outcomes left out, the estimate's transitions are at most kernel / (1 - leak).
    """

    kernel: Kernel
    cost: Float[Leaf, "S A"]
    leak: Float[Leaf, "S A"]


class Divergence(eqx.Module):
    """The largest KL over all policies and the largest probability of leaving the comparison; eps follows from both."""

    kappa: Float[Leaf, ""]
    hit: Float[Leaf, ""]
    stop: Bool[Leaf, "S A"]
    eps: Float[Leaf, ""]


def no_divergence(space: Space) -> Divergence:
    """That of nothing known: the comparison stops everywhere; traceable."""
    infinite = jnp.asarray(jnp.inf)
    return Divergence(infinite, jnp.asarray(1.0), jnp.ones(space.sizes[1:], bool), infinite)


def largest_sum(
    space: Space, step: Steps, cost: Float[Array, "S A"], stop: Bool[Array, "S A"]
) -> Float[Array, ""]:
    """max over pi of E sum_{h<H} cost before the bad set, without what was left out, from above; traceable."""
    return space.at_start(largest_sums(space, step, cost, stop).max(-1))


def largest_sums(
    space: Space, step: Steps, cost: Float[Array, "S A"], stop: Bool[Array, "S A"]
) -> Float[Array, "S A"]:
    """The same from each (s,a) on; traceable."""
    on = jnp.where(stop, 0.0, 1 / (1 - step.leak))
    return _most(space, step.kernel, on, jnp.where(stop, 0.0, cost))


def largest_hit(space: Space, step: Steps, stop: Bool[Array, "S A"]) -> Float[Array, ""]:
    """max over pi of the estimate's probability of the bad set or of what was left out, from above; traceable."""
    hit = _most(space, step.kernel, jnp.where(stop, 0.0, 1.0), jnp.where(stop, 1.0, step.leak))
    return space.at_start(jnp.minimum(hit.max(-1), 1.0))


def _most(
    space: Space, kernel: Kernel, on: Float[Array, "S A"], paid: Float[Array, "S A"]
) -> Float[Array, "S A"]:
    """The most that is paid in H - 1 steps from (s,a) on, by policies that go on with weight `on`."""
    if space.horizon < 2:
        return jnp.zeros_like(paid)
    return totals_jax(
        Kernel(kernel.succ, kernel.prob * on[..., None], kernel.is_dense), paid, space.horizon - 1
    )


def further_sum(
    step: Steps, cost: Float[Array, "S A"], stop: Bool[Array, "S A"], mean: Float[Array, "S A"]
) -> Float[Array, "S A"]:
    """The sum of costs from (s,a) on, from the mean of what comes after; traceable."""
    return jnp.where(stop, 0.0, cost + mean / (1 - step.leak))


def further_hit(step: Steps, stop: Bool[Array, "S A"], mean: Float[Array, "S A"]) -> Float[Array, "S A"]:
    """The probability to leave the comparison from (s,a) on, from the mean of what comes after; traceable."""
    return jnp.where(stop, 1.0, step.leak + mean)


def bad_sets(step: Steps) -> Bool[Array, "4 S A"]:
    """Nested sets of pairs of which too little is known; traceable."""
    return (step.cost > jnp.asarray(STOPS)[:, None, None]) | ~jnp.isfinite(step.cost)


def divergence(space: Space, step: Steps) -> Divergence:
    """The uniform gap: kappa and hit over all policies, for the best of a few bad sets; traceable.

    With many successors the same set is not tried twice, and where nothing can be hit nothing is computed of it.
    """
    is_large = space.succ.size > LARGE

    def stopped(stop: Array) -> Divergence:
        kappa = largest_sum(space, step, jnp.where(stop, 0.0, step.cost), stop)
        if is_large:
            can_hit = (stop | (step.leak > 0)).any()
            hit = jax.lax.cond(can_hit, lambda: largest_hit(space, step, stop), lambda: jnp.zeros(()))
        else:
            hit = largest_hit(space, step, stop)
        eps = gap(2 * hit, kappa, kappa)
        return Divergence(kappa, hit, stop, jnp.where(jnp.isnan(eps), jnp.inf, eps))

    def better(best: Divergence, i: Array) -> tuple[Divergence, None]:
        stop, is_first = sets[i], i == 0
        is_known = ~is_first & (stop == sets[i - 1]).all()
        new = jax.lax.cond(is_known, lambda: best, lambda: stopped(stop))
        return _where(is_first | (new.eps < best.eps), new, best), None

    sets = bad_sets(step)
    if is_large:
        return jax.lax.scan(better, no_divergence(space), jnp.arange(len(sets)))[0]
    found = jax.vmap(stopped)(sets)
    best = smallest(found.eps)
    least: Divergence = jax.tree.map(lambda x: taken(x, best), found)
    return least


def _where(condition: Bool[Array, ""], x: Divergence, y: Divergence) -> Divergence:
    chosen: Divergence = jax.tree.map(lambda x, y: jnp.where(condition, x, y), x, y)
    return chosen


def smallest(x: Float[Array, " n"]) -> Int[Array, ""]:
    """Where the smallest number is; what could not be computed never is it; traceable."""
    return jnp.argmin(jnp.where(jnp.isnan(x), jnp.inf, x))
