"""How much one more episode can teach at most: optimal design of experiments, one dynamic programme.

F is the information of the data, G(s,a) = sum_s' z z'/P_theta(s') that of one transition, z the features along the q
directions that can be learnt. E tr(F^-1 G) <= T for every policy, and no design of K episodes has T < q/K (Kiefer and
Wolfowitz 1960, "The equivalence of two extremum problems").
"""

import jax.numpy as jnp
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree.mdp.space import Space
from horizonfree.models.mixture.evidence import Evidence
from horizonfree.models.mixture.predictor import pseudo_counts
from horizonfree.models.mixture.rows import at_slots, coordinates, gram, whiten
from horizonfree.models.mixture.valid import ValidSet
from horizonfree.planning.backward import TIE, stationary_jax


def design(
    space: Space, valid: ValidSet, counts: Int[Array, " R"], theta: Float[Array, " d"]
) -> tuple[Int[Array, "H S"], Float[Array, ""]]:
    """argmax and max over policies of T = E sum_h tr(F^-1 G(s_h, a_h)); traceable.

    F holds pseudo-counts beside the data, those of the second predictor: as many as half of the unknowns.
    """
    at = coordinates(valid)
    p = at.p(at.y(theta))
    p_free = jnp.where(valid.free, p, 1.0)
    F = gram(at.z, known_of(valid, counts) / p_free**2)
    promise = (whiten(F, at.z) ** 2).sum(0) / p_free  # tr(F^-1 z z') / p of one slot
    kernel = space.kernel(at_slots(p, valid.row_of))
    gain = at_slots(promise, valid.row_of).sum(-1) * space.reachable[:, None]
    policy, V = stationary_jax(kernel, gain, space.horizon, TIE)
    return policy, space.at_start(V)


def known_of(valid: ValidSet, counts: Int[Array, " R"]) -> Float[Array, " R"]:
    """How often each row counts as seen: pseudo-counts beside the data, but none for virtual rows; traceable."""
    return jnp.where(valid.virtual, 0.0, counts + pseudo_counts(valid)[1])


def inefficiency(space: Space, valid: ValidSet, evidence: Evidence) -> Float[Array, ""]:
    """K T / q: 1 for the best design in hindsight, 2 for one that needs twice the episodes; traceable.

    The pseudo-counts are part of what is known, so that values slightly below 1 occur early. 0 where q = 0.
    """
    if valid.num_free == 0:
        return jnp.zeros(())
    _, T = design(space, valid, evidence.row_counts, evidence.theta)
    return evidence.episodes * T / valid.num_free
