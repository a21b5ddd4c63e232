"""The nested sets U_k of HF-UCRL-RFE++ where one direction is unknown: intervals; and when their ends are enough.

Paper: J. Zhang, W. Zhang, Gu 2023 (arXiv 2303.10165), Algorithm 1: U_k holds the theta within beta_j of the centres of
all 2M regressions of every episode j <= k. With one unknown direction e the valid parameters are theta_0 + t e, and

    ||theta_0 + t e - theta_i||_Sigma <= beta   <=>   |t - m| <= sqrt(m^2 - c/a),
    a = e' Sigma e,   m = e' Sigma (theta_i - theta_0)/a,   c = ||theta_0 - theta_i||^2_Sigma - beta^2,

so U_k is an interval, two numbers. The argmax over theta is exact where Vhat_1(s_1) is a
convex function of t, capped at 1: then an end is best. That is so if, from step 2 on, Vhat does not depend on theta and
V is linear in it. `is_convex` follows this through the steps: V_h(s) gains a degree at a pair whose row depends on
theta; Vhat_h(s) is constant where V_{h+1} and Vhat_{h+1} are, and the row is known or Vhat_{h+1} = 0. It holds for
every class with H <= 3, and for the hard instances of the lower bound with any H.

Departures: the print adds the balls of episode k after it; its proof needs them before, as here. Balls that would leave
nothing (radii of no theorem) are left out, and `ball_ratio` of the explorer then exceeds 1.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float

from horizonfree._arrays import Array
from horizonfree.errors import OptionError
from horizonfree.estimators.ridge import Ridge
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.models.mixture.valid import ValidSet
from horizonfree.oracle import prepare
from horizonfree.oracle.exhaustive import enumerated
from horizonfree.planning.traced import nearly_best

INTERIOR_SHARE = (
    1 - 1e-9
)  # share of a radius that is used: what lies on a ball's edge to rounding lies inside it
# Change of a probability per unit of t, as a share of the largest, that counts as none.
RELATIVE_TOLERANCE = 1e-9
NOT_EXACT = (
    "theta='optimistic' is exact only with one unknown direction, a fixed start, and at most 3 steps or a kernel that "
    "is known from the second step on; use theta='center'"
)


def initial_interval(model: MixtureModel) -> Float[Array, " 2"]:
    """U_1: all t with X (theta_0 + t e) >= 0. Refuses a class in which an end of the interval need not be best.

    What depends on numbers is refused when it runs: compiled code does not know them beforehand.
    """
    valid, unknown = model.valid, model.valid.affine.shape[1]
    if unknown != 1:
        raise OptionError(f"{NOT_EXACT} (here {unknown} directions are unknown)")
    slope = jnp.where(valid.positive, valid.rows @ valid.affine[:, 0], 0.0)
    reach = -(valid.rows @ valid.center) / jnp.where(slope == 0, 1.0, slope)
    low = jnp.where(slope > 0, reach, -jnp.inf).max()
    interval = jnp.stack([low, jnp.where(slope < 0, reach, jnp.inf).min()])
    interval_checked: Array = eqx.error_if(interval, ~is_convex(model), NOT_EXACT)
    return interval_checked


def intersect(
    valid: ValidSet, interval: Float[Array, " 2"], ridge: Ridge, beta: Float[Array, ""]
) -> Float[Array, " 2"]:
    """The interval within all balls of these regressions, or as it was where nothing would be left."""
    e, offset = valid.affine[:, 0], valid.center - ridge.theta
    a = jnp.einsum("i,...ij,j->...", e, ridge.Sigma, e)
    m = -jnp.einsum("i,...ij,...j->...", e, ridge.Sigma, offset) / a
    c = jnp.einsum("...i,...ij,...j->...", offset, ridge.Sigma, offset) - (INTERIOR_SHARE * beta) ** 2
    half = jnp.sqrt(m**2 - c / a)  # NaN where the line misses the ball
    low, high = jnp.maximum(interval[0], (m - half).max()), jnp.minimum(interval[1], (m + half).min())
    return jnp.where(low <= high, jnp.stack([low, high]), interval)


def best_end(
    model: MixtureModel, interval: Float[Array, " 2"], inv: Float[Array, "2 d d"], beta: Float[Array, ""]
) -> Float[Array, " d"]:
    """The end with the larger maximum over policies and rewards; inv: the inverse covariances, tilde and hat."""
    ends = model.valid.center + interval[:, None] * model.valid.affine[:, 0]

    def largest(theta: Array) -> Array:
        return enumerated(model, prepare(model, theta, *inv), beta)[1].raw

    best: Array = ends[nearly_best(jax.lax.map(largest, ends), 0).argmax()]
    return best


def is_convex(model: MixtureModel) -> Bool[Array, ""]:
    """Whether Vhat_1(s_1) is a convex function of t, capped at 1, for every policy and reward; traced."""
    space = model.space
    if space.start is None:
        return jnp.asarray(False)  # a mean of capped functions
    slope = jnp.abs(model.phi @ model.valid.affine[:, 0])
    is_unknown = (slope > RELATIVE_TOLERANCE * slope.max()).any(-1)
    S = space.num_states

    def follow(degree: Array, constant: Array) -> tuple[Array, Array]:
        """Over the successors of each pair: the degree of V, and whether Vhat is constant."""
        largest_degree = jnp.where(space.support, degree[space.succ], 0).max(-1)
        return largest_degree, (constant[space.succ] | ~space.support).all(-1)

    def step(carry: tuple[Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array], None]:
        degree, constant, is_zero = carry
        largest_degree, all_constant = follow(degree, constant)
        is_linear_now = (largest_degree == 0) & all_constant & (~is_unknown | is_zero)
        return (
            jnp.minimum(largest_degree + is_unknown, 2).max(-1),
            is_linear_now.all(-1),
            jnp.asarray(False),
        ), None

    last = jnp.zeros(S, int), jnp.ones(S, bool), jnp.asarray(True)  # step H: V_H = r_H, Vhat_H = 0
    (degree, constant, _), _ = jax.lax.scan(step, last, None, length=max(0, space.horizon - 2))
    largest_degree, all_constant = follow(degree, constant)  # of step 2, as step 1 sees it
    return ((largest_degree <= 1) & all_constant)[space.start].all()
