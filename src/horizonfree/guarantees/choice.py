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
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from horizonfree.guarantees.trajectories import Divergence, Steps, further_hit, further_sum, gap
from horizonfree.mdp.space import Space

Spread = Callable[[Float[Array, " S"]], Float[Array, "S A"]]


class Doubt(eqx.Module):
    """Of what follows each (s,a): the divergence, the probability to leave the comparison, D, and the loss G."""

    kappa: Float[Array, " S"]
    hit: Float[Array, " S"]
    D: Float[Array, " S"]
    G: Float[Array, " S"]


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
        kappa = further_sum(step, step.cost, worst.stop, after.kappa)
        hit = jnp.minimum(further_hit(step, worst.stop, after.hit), 1.0)
        D = jnp.minimum(h2 + step.kernel.expect(after.D) + spread(after.D) / 2, 1.0)
        agree = jnp.minimum(step.kernel.expect(after.G) + spread(after.G), 1.0).max(-1)

        most = kappa.max(-1), hit.max(-1), D.max(-1)
        anyway = _eps(*((x, x) for x in most))
        has_choice = choices.sum(-1) > 1
        apart = jnp.where(has_choice, _eps(*(_two_largest(x, choices) for x in (kappa, hit, D))), 0.0)
        G = jnp.minimum(anyway, jnp.maximum(apart, agree))
        return Doubt(kappa=most[0], hit=most[1], D=most[2], G=G), None

    o = jnp.zeros(space.num_states)
    first = jax.lax.scan(back, Doubt(o, o, o, o), length=space.horizon - 1)[0]
    return space.at_start(first.G)


def _eps(kappa: tuple[Array, Array], hit: tuple[Array, Array], D: tuple[Array, Array]) -> Float[Array, " S"]:
    """The smaller of the two bounds for two policies, at most 1; what could not be computed bounds nothing."""
    by_kl = gap(hit[0] + hit[1], *kappa)
    alpha = sum(2 * jnp.arcsin(jnp.sqrt(x / 2)) for x in D)  # 1 - cos(alpha) = D
    by_angle = jnp.where(alpha < jnp.pi / 2, jnp.sin(alpha), 1.0)
    return jnp.fmin(jnp.fmin(by_kl, by_angle), 1.0)


def _two_largest(x: Float[Array, "S A"], choices: Bool[Array, "S A"]) -> tuple[Array, Array]:
    """The two largest over actions that do not do the same; 0 where there is no second one."""
    among = jnp.where(choices, x, 0.0)
    first = among.max(-1)
    is_first = among == first[:, None]
    second = jnp.where(is_first, 0.0, among).max(-1)
    return first, jnp.where(is_first.sum(-1) > 1, first, second)
