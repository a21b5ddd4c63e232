"""What a plan can lose for any reward, also one that is chosen after the data.

    U_H = 0,      U_h(s) = max_a min(1, b(s,a) + [P~ U_{h+1}](s,a)),      b = min(1, beta n + e), of all V at once

bounds |V^pi - V~^pi| for every policy and reward, V~ the values in the estimate: their difference is a sum over steps
of E_{P~} (P - P~) V^pi. So the best plan in the estimate loses at most 2 U_1, any policy 2 U_1 more than it does there.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Float

from horizonfree._arrays import Array
from horizonfree.mdp.space import Kernel, Space


def misjudged(space: Space, kernel: Kernel, b: Float[Array, "S A"]) -> Float[Array, ""]:
    """U_1 at the start; traceable. The last transition touches no reward."""

    def back(U: Array, _: None) -> tuple[Array, None]:
        return jnp.minimum(1.0, b + kernel.expect(U)).max(-1), None

    U = jax.lax.scan(back, jnp.zeros(space.num_states), length=space.horizon - 1)[0]
    return space.at_start(U)
