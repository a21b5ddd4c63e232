"""What a plan can lose, charged only from the first state in which it makes a choice.

The plan of backward induction is optimal under the estimate from every state and step. Where it differs from the best
policy in an action that does the same as the best one, it loses nothing there; where the actions differ, Lemma 5 is
applied from there on. For h = H-1..1, with G_H = 0,

    G_h(s) = min( eps(all policies from (h,s) on),  max( pair_h(s), agree_h(s) ) )
    pair_h(s)  = the largest eps over two actions that do not do the same, each followed by any policy
    agree_h(s) = max_a of an upper bound on [P_theta G_{h+1}](s,a)

and the plan loses at most G_1(s_1), for every reward (docs/certificates.md, Theorem 8). eps is Lemma 5 by KL, or the
angle of Theorem 6H by Hellinger's affinity, whichever is smaller: with D = 1 - affinity and alpha = arccos(1 - D),

    D_h(s,a) = h2(s,a) + bound on sum_s' sqrt(p p_theta) D_{h+1},      eps = sin(alpha + alpha').

Two actions do the same if they have the same probabilities whatever the parameter; `choices` marks one of each kind.

G_1(s_1) >= min(eps, pair_1(s_1)), which grows with D and needs no G: a pass that leaves out what D has for the bound,
and all else that is wanted of the states in between, is a bound from below (`least_loss`). Of several ellipsoids the
one with the least loss is found without computing those that cannot be it.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float

from horizonfree._arrays import Array
from horizonfree.guarantees.trajectories import Divergence, Steps, further_hit, further_sum, gap, largest_sums
from horizonfree.mdp.space import Space
from horizonfree.planning.backward import FEW, expect_jax, largest_jax, settled, totals_jax

Spread = Callable[[Float[Array, " S"]], Float[Array, "S A"]]


class Doubt(eqx.Module):
    """From a state or (s,a) on: the divergence, the probability to leave the comparison, D, and the loss G."""

    kappa: Float[Array, "S *A"]
    hit: Float[Array, "S *A"]
    D: Float[Array, "S *A"]
    G: Float[Array, "S *A"]


def largest_loss(
    space: Space,
    step: Steps,
    worst: Divergence,
    h2: Float[Array, "S A"],
    spread: Spread,
    choices: Bool[Array, "S A"],
) -> Float[Array, ""]:
    """G_1 at the start; traceable. `spread(V)` bounds |P_theta V - P_hat V| for every parameter that the data allow."""

    def back(after: Doubt, _: None) -> tuple[Doubt, None]:
        mean = Doubt(*(expect_jax(step.kernel, x) for x in (after.kappa, after.hit, after.D, after.G)))
        kappa = further_sum(step, step.cost, worst.stop, mean.kappa)
        hit = jnp.minimum(further_hit(step, worst.stop, mean.hit), 1.0)
        D = jnp.minimum(h2 + mean.D + spread(after.D) / 2, 1.0)
        agree = jnp.minimum(mean.G + spread(after.G), 1.0)
        now = settled(Doubt(kappa, hit, D, agree))
        most = Doubt(*(largest_jax(x) for x in (now.kappa, now.hit, now.D, now.G)))
        G = jnp.minimum(_anyway(most), jnp.maximum(_apart(now, choices), most.G))
        return Doubt(most.kappa, most.hit, most.D, G), None

    o = jnp.zeros(space.num_states)
    first = jax.lax.scan(back, Doubt(o, o, o, o), length=space.horizon - 1)[0]
    return space.at_start(first.G)


def least_loss(
    space: Space, step: Steps, worst: Divergence, h2: Float[Array, "S A"], choices: Bool[Array, "S A"]
) -> Float[Array, ""]:
    """At most `largest_loss`, at a small part of its cost: no hit, and D without the bound; traceable."""
    if space.horizon < 2:
        return jnp.zeros(())
    kappa = largest_sums(space, step, step.cost, worst.stop)
    D, o = totals_jax(step.kernel, h2, space.horizon - 1, cap=1.0), jnp.zeros_like(kappa)
    most = Doubt(*(largest_jax(x) for x in (kappa, o, D, o)))
    return space.at_start(jnp.minimum(_anyway(most), _apart(Doubt(kappa, o, D, o), choices)))


def _anyway(most: Doubt) -> Float[Array, " S"]:
    """eps of all policies, from the largest distances of any."""
    return _eps(*((x, x) for x in (most.kappa, most.hit, most.D)))


def _apart(now: Doubt, choices: Bool[Array, "S A"]) -> Float[Array, " S"]:
    """The largest eps over two actions that do not do the same; 0 where all do."""
    two = (_two_largest(x, choices) for x in (now.kappa, now.hit, now.D))
    return jnp.where(choices.sum(-1) > 1, _eps(*two), 0.0)


def _eps(kappa: tuple[Array, Array], hit: tuple[Array, Array], D: tuple[Array, Array]) -> Float[Array, " S"]:
    """The smaller of the two bounds for two policies, at most 1; what could not be computed bounds nothing.

    sin(alpha + alpha') by the cosines 1 - D and the sines (D (2 - D))^(1/2); 1 where the sum is pi/2 or more.
    """
    by_kl = gap(hit[0] + hit[1], *kappa)
    cos, sin = [1 - x for x in D], [jnp.sqrt(x * (2 - x)) for x in D]
    is_acute = cos[0] * cos[1] > sin[0] * sin[1]
    by_angle = jnp.where(is_acute, sin[0] * cos[1] + cos[0] * sin[1], 1.0)
    return jnp.fmin(jnp.fmin(by_kl, by_angle), 1.0)


def _two_largest(x: Float[Array, "S A"], choices: Bool[Array, "S A"]) -> tuple[Array, Array]:
    """The two largest over actions that do not do the same; 0 where there is no second one."""
    among = jnp.where(choices, x, 0.0)
    if x.shape[1] > FEW:
        return among.max(-1), jnp.sort(among)[:, -2]
    first = second = jnp.zeros(len(x))
    for a in range(x.shape[1]):
        y = among[:, a]
        first, second = jnp.maximum(first, y), jnp.maximum(second, jnp.minimum(first, y))
    return first, second
