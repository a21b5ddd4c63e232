"""Optimistic value iteration on a regression: the planner of UCRL-VTR and its successors.

    Q_h(s,a) = [r_h(s,a) + <phi_{V_{h+1}}(s,a), theta> + beta ||phi_{V_{h+1}}(s,a)||_{Sigma^{-1}}]_{[0,cap]},
    V_h(s) = max_a Q_h(s,a),  V_{H+1} = 0                (Ayoub et al. 2020; PLAN in Zhang, Zhou, Gu 2021)

While ||theta - theta_star||_Sigma <= beta, and no total of r exceeds cap, V_h is at least the optimal value under
theta_star, in every state: phi_V' theta + beta ||phi_V|| >= P_star V, and P_star is monotone.

`exploration_reward` is that of UCRL-RFE: the largest prediction error over value functions at a pair (s,a) (W. Zhang,
D. Zhou, Q. Gu 2021, NeurIPS, arXiv 2110.06394, eq. 4.2; steps count from 1 there).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree._x64 import Number
from horizonfree.estimators.ridge import Ridge, times
from horizonfree.mdp.space import Trajectory
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.oracle import BoxMax, box_max
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


def max_box_norm(model: MixtureModel, ridge: Ridge) -> BoxMax:
    """max over f in [0,1]^S of ||phi_f(s,a)||_{Sigma^{-1}} of every pair, on its successors."""
    X = jnp.swapaxes(model.phi @ ridge.W.T, -1, -2)
    return box_max(jnp.linalg.qr(X, mode="r") if X.shape[-1] < X.shape[-2] else X)


def exploration_reward(model: MixtureModel, box: BoxMax, beta: Float[Array, ""]) -> Float[Array, "H S A"]:
    """r_h^k = min{1, (2 beta / H) max over f in [0, H-h]^S of ||phi_f||}.   (eq. 4.2)"""
    return jnp.minimum(1.0, 2 * beta / model.space.horizon * steps_left(model)[:, None, None] * box.upper)


def step_error(model: MixtureModel, box: BoxMax, beta: Float[Array, ""]) -> Float[Array, "H S A"]:
    """min{1, beta max over f in [0,1]^S of ||phi_f||}, zero at the last step: a bound on the error of one step for V
    <= 1."""
    return jnp.minimum(1.0, beta * box.upper) * (steps_left(model) > 0)[:, None, None]


def steps_left(model: MixtureModel) -> Float[Array, " H"]:
    """H - h for h = 1..H: the most that V_{h+1} can be."""
    return jnp.arange(model.space.horizon - 1, -1, -1, dtype=float)


def box_rows(
    model: MixtureModel, f: Float[Array, "S A n"], trajectory: Trajectory
) -> tuple[Float[Array, "H d"], Float[Array, " H"]]:
    """phi_u(s_h, a_h) and u(s_{h+1}), u = (H - h) f; both 0 where no slot was taken."""
    s, a, j = trajectory.s[:-1], trajectory.a, trajectory.j
    u = (steps_left(model) * (j >= 0))[:, None] * f[s, a]
    y = jnp.take_along_axis(u, jnp.maximum(j, 0)[:, None], axis=1)[:, 0]
    return jnp.einsum("hn,hnd->hd", u, model.phi[s, a]), y
