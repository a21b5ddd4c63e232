"""The exploration reward of UCRL-RFE: the largest prediction error over value functions at a pair (s,a).

Paper: W. Zhang, D. Zhou, Q. Gu 2021 (NeurIPS), arXiv 2110.06394, eq. (4.2). Steps count from 1 there.
"""

import jax.numpy as jnp
from jaxtyping import Float

from horizonfree._arrays import Array
from horizonfree.estimators.ridge import Ridge
from horizonfree.mdp.space import Trajectory
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.oracle import BoxMax, box_max


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
