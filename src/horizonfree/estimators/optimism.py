"""Optimistic value iteration on a regression: the planner of UCRL-VTR and its successors.

    Q_h(s,a) = [r_h(s,a) + <phi_{V_{h+1}}(s,a), theta> + beta ||phi_{V_{h+1}}(s,a)||_{Sigma^{-1}}]_{[0,cap]},
    V_h(s) = max_a Q_h(s,a),  V_{H+1} = 0                (Ayoub et al. 2020; PLAN in Zhang, Zhou, Gu 2021)

While ||theta - theta_star||_Sigma <= beta, and no total of r exceeds cap, V_h is at least the optimal value under
theta_star, in every state: phi_V' theta + beta ||phi_V|| >= P_star V, and P_star is monotone.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree._x64 import Number
from horizonfree.estimators.ridge import Ridge, times
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.planning.traced import TIE, greedy


def optimistic(
    model: MixtureModel, ridge: Ridge, beta: Number, reward: Float[Array, "H S A"], cap: float
) -> tuple[Int[Array, "H S"], Float[Array, "H1 S"]]:
    """The greedy policy (lowest action of equals) and V; traceable.

    `ridge` is one regression for all steps, or has a leading axis H.
    """
    H, d = model.space.horizon, model.dim
    theta, W = jnp.broadcast_to(ridge.theta, (H, d)), jnp.broadcast_to(ridge.W, (H, d, d))

    def step(V: Array, inputs: tuple[Array, Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        r, theta, W = inputs
        phi_V = model.phi_V(V)
        bonus = jnp.sqrt((times(W, phi_V) ** 2).sum(-1))
        Q = jnp.clip(r + phi_V @ theta + beta * bonus, 0.0, cap)
        V, action = greedy(Q, TIE)
        return V, (action, V)

    end = jnp.zeros(model.space.num_states)
    _, (policy, V) = jax.lax.scan(step, end, (reward, theta, W), reverse=True)
    return policy, jnp.concatenate([V, end[None]])
