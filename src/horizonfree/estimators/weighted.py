"""Value-targeted regression with variance weights of order two, for values in [0, H].

Papers: Zhou, Gu, Szepesvari 2021 (UCRL-VTR+, the weights); Zhang, Zhou, Gu 2021 (UCRL-RFE+, the same for one model of
all steps). Two regressions: hat, of V(s') on phi_V with weight 1/sigma^2; tilde, of V^2(s') on phi_{V^2} with weight 1.
With the matrices of the start of the episode,

    Var     = [<phi_{V^2}, theta_tilde>]_{[0,H^2]} - [<phi_V, theta_hat>]_{[0,H]}^2
    E       = min{H^2, 2 H beta_check ||phi_V||_hat} + min{H^2, beta_tilde ||phi_{V^2}||_tilde}
    sigma^2 = max{H^2/d, Var + E},   so that H^2/d <= sigma^2 <= 3 H^2.

Divided by H^2 this is the variance bound of HOME with two orders (moments.py), taken at V/H in [0, 1].
"""

import jax
import jax.numpy as jnp
from jaxtyping import Float

from horizonfree._arrays import Array
from horizonfree.estimators import moments
from horizonfree.estimators.radius import Radii
from horizonfree.estimators.ridge import Ridge
from horizonfree.mdp.space import Trajectory
from horizonfree.models.mixture.model import MixtureModel

HAT, TILDE = 0, 1  # places on the last axis of a batch of ridges
NUM_MOMENTS = 2


def regress(
    model: MixtureModel,
    ridge: Ridge,
    V: Float[Array, "H1 *families S"],
    trajectory: Trajectory,
    radii: Radii,
) -> tuple[Ridge, Float[Array, "H *families"]]:
    """The regressions after one more episode, and sigma^2 of its steps; traceable.

    The batch of `ridge` is (*families, 2), one model for all steps, or (H, *families, 2).
    """
    H, d = model.space.horizon, model.dim
    phi, y = moments.episode_rows(model, V / H, trajectory, NUM_MOMENTS)
    mean = (phi * ridge.theta).sum(-1)
    error = ridge.norm_inv(phi) * jnp.stack([radii.check, radii.tilde])
    bound = moments.variance_bound(mean, error, 1.0)[..., HAT]
    sigma_sq = H**2 * jnp.maximum(1 / d, bound)
    weight = jnp.stack([1 / sigma_sq, jnp.ones_like(sigma_sq)], axis=-1)
    size = jnp.array([H, H**2], float)  # back from V/H to V
    rows = (phi * size[:, None], y * size, weight)
    is_per_step = ridge.log_det.ndim == y.ndim
    return ridge.extend(*(x[None] if is_per_step else x for x in rows)), sigma_sq


def first_moments(ridge: Ridge) -> Ridge:
    """The regressions of first moments out of a batch of pairs."""
    axis = ridge.log_det.ndim - 1
    firsts: Ridge = jax.tree.map(lambda x: jax.lax.index_in_dim(x, HAT, axis, keepdims=False), ridge)
    return firsts


def pair_radii(radii: Radii) -> Float[Array, " 2"]:
    """The radius of each regression of a pair."""
    return jnp.stack([radii.hat, radii.tilde])
