"""HOME, the high-order moment estimator, and one episode of the regressions that it weighs.

Paper: J. Zhang, W. Zhang, Gu 2023 (arXiv 2303.10165), Algorithm 2 and lines 9-15 and 17-19 of Algorithm 1; HOME is of
Zhou and Gu 2022. Order m regresses V^{2^m}(s') on phi_m = phi_{V^{2^m}}(s, a), m = 0..M-1, with weight
1/sigma_bar_m^2. The variance of V^{2^m} is estimated from orders m and m+1, so order m is weighed by order m+1, and
the last order by the trivial bound 1.

    Var_m = [phi_{m+1}' theta_{m+1}]_{[0,1]} - [phi_m' theta_m]_{[0,1]}^2                                  (line 2)
    E_m   = [2 beta ||phi_m||]_{[0,1]} + [beta ||phi_{m+1}||]_{[0,1]}, norms in the frozen Sigma_dot^{-1}  (line 3)
    sigma_bar_m^2     = max{gamma^2 ||phi_m||, Var_m + E_m, alpha^2}, norm in the running Sigma^{-1}       (line 4)
    sigma_bar_{M-1}^2 = max{gamma^2 ||phi_{M-1}||, 1, alpha^2}                                             (line 6)

The norm after gamma^2 stands to the first power: then |eta| ||x|| <= 1/gamma^2, which is what the radius uses.

Lines 2 and 3 need only what is frozen during an episode, so they are computed for all its steps at once before the
scan; inside it, a step computes one norm, one maximum and one rank-one update of the root. Sigma and b are
needed at the end only, so they grow by all rows at once.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree._validation import check_array, check_floats, require, require_shape
from horizonfree._x64 import Number, to_numpy, x64
from horizonfree.errors import OptionError
from horizonfree.estimators.ridge import Ridge, in_blocks, inverse_root, times, update_root
from horizonfree.mdp.space import Trajectory
from horizonfree.models.mixture.model import MixtureModel


def powers(V: Float[Array, "*batch S"], M: int) -> Float[Array, "*batch M S"]:
    """V^{2^m} for m = 0..M-1, by squaring; V is clipped to [0, 1] first. Traceable."""
    values = [jnp.clip(V, 0.0, 1.0)]
    for _ in range(M - 1):
        values.append(values[-1] ** 2)
    return jnp.stack(values, axis=-2)


def variance_bound(
    mean: Float[Array, "*batch M"], norm_dot: Float[Array, "*batch M"], beta: Number
) -> Float[Array, "*batch M"]:
    """Var_m + E_m (lines 2, 3), and 1 for the last order, from mean = phi' theta and the frozen norms. Traceable."""
    mean = jnp.clip(mean, 0.0, 1.0)
    error = beta * norm_dot
    Var = mean[..., 1:] - mean[..., :-1] ** 2
    E = jnp.minimum(2 * error[..., :-1], 1.0) + jnp.minimum(error[..., 1:], 1.0)
    return jnp.concatenate([Var + E, jnp.ones_like(mean[..., :1])], axis=-1)


def home_jax(
    bound: Float[Array, "*batch M"], norm: Float[Array, "*batch M"], alpha: Number, gamma: Number
) -> Float[Array, "*batch M"]:
    """sigma_bar^2 (lines 4, 6) from `variance_bound` and the running norms. Traceable."""
    return jnp.maximum(jnp.maximum(gamma**2 * norm, bound), alpha**2)


def episode_rows(
    model: MixtureModel, V: Float[Array, "H1 *families S"], trajectory: Trajectory, M: int
) -> tuple[Float[Array, "H *families M d"], Float[Array, "H *families M"]]:
    """phi_m = phi_{V_{h+1}^{2^m}}(s_h, a_h) and y_m = V_{h+1}^{2^m}(s_{h+1}) along an episode (line 9). Traceable."""
    succ = model.space.succ[trajectory.s[:-1], trajectory.a]
    return slot_rows(model, jax.vmap(_values_at_successors)(V[1:], succ), trajectory, M)


def slot_rows(
    model: MixtureModel, v: Float[Array, "H *families n"], trajectory: Trajectory, M: int
) -> tuple[Float[Array, "H *families M d"], Float[Array, "H *families M"]]:
    """`episode_rows` for targets at the successors of each (s_h, a_h); both 0 where no slot was observed. Traceable."""
    phi = model.phi[trajectory.s[:-1], trajectory.a]

    def step(v: Array, phi: Array, j: Array) -> tuple[Array, Array]:
        v = v * (j >= 0)
        return powers(v, M) @ phi, powers(v[..., jnp.maximum(j, 0), None], M)[..., 0]

    return jax.vmap(step)(v, phi, trajectory.j)


def _values_at_successors(
    V: Float[Array, "*families S"], succ: Int[Array, " n"]
) -> Float[Array, "*families n"]:
    return V[..., succ]


def regress(
    ridge: Ridge,
    phi: Float[Array, "H *batch d"],
    y: Float[Array, "H *batch"],
    *,
    beta: Number,
    alpha: Number,
    gamma: Number,
) -> tuple[Ridge, Float[Array, "H *batch"]]:
    """One episode of Algorithm 1 for all orders: the ridge after it, and sigma_bar^2 of every step. Traceable.

    The last axis of the batch is m; put the families hat and tilde on an axis before it. phi[h] is phi_{V_{h+1}^{2^m}}
    at (s_h, a_h), and y[h] = V_{h+1}^{2^m}(s_{h+1}). The ridge that comes in is frozen as Sigma_dot.
    """
    mean = (phi * ridge.theta).sum(-1)
    bound = variance_bound(mean, ridge.norm_inv(phi), beta)

    def step(W: Array, row: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        x, bound = row
        v = times(W, x)
        sigma_bar_sq = home_jax(bound, jnp.sqrt((v**2).sum(-1)), alpha, gamma)
        W, growth = update_root(W, v, 1 / sigma_bar_sq)
        return W, (sigma_bar_sq, growth)

    def block(ridge: Ridge, rows: tuple[Array, Array, Array]) -> tuple[Ridge, Array]:
        phi, y, bound = rows
        W, (sigma_bar_sq, growth) = jax.lax.scan(step, ridge.W, (phi, bound))
        last = Ridge(ridge.Sigma, W, ridge.b, ridge.log_det + jnp.log(growth).sum(0))
        return last.extend(phi, y, 1 / sigma_bar_sq), sigma_bar_sq  # lines 12-15

    return in_blocks(block, ridge, (phi, y, bound))


@x64
def home(
    phi: Float[np.ndarray, "M d"],
    theta: Float[np.ndarray, "M d"],
    Sigma: Float[np.ndarray, "M d d"],
    Sigma_dot: Float[np.ndarray, "M d d"],
    beta: float,
    alpha: float,
    gamma: float,
) -> Float[np.ndarray, " M"]:
    """Algorithm 2 for one step: sigma_bar_m^2 for m = 0..M-1, from running Sigma and frozen Sigma_dot."""
    arguments = {"phi": phi, "theta": theta, "Sigma": Sigma, "Sigma_dot": Sigma_dot}
    arrays = {name: check_floats(x, name) for name, x in arguments.items()}
    shape = arrays["phi"].shape
    require_shape(
        len(shape) == 2 and 0 not in shape,
        "phi",
        np.shape(phi),
        "[M, d], one row of features per moment order",
    )
    for name, x in arrays.items():
        expected, axes = ((*shape, shape[1]), "[M, d, d]") if name.startswith("Sigma") else (shape, "[M, d]")
        check_array(x, name, expected, axes)
    for name in ("Sigma", "Sigma_dot"):
        least = np.linalg.eigvalsh(arrays[name]).min(-1)
        m = int(least.argmin())
        if least[m] <= 0:
            raise OptionError(
                f"{name}[m={m}] has smallest eigenvalue {least[m]:.6g}; it must be positive definite"
            )
    scalars = {"beta": beta, "alpha": alpha, "gamma": gamma}
    for name, value in scalars.items():
        require(not np.ndim(check_floats(value, name)) and np.isfinite(value), name, value, "a finite number")
    return to_numpy(_home(*arrays.values(), *(np.float64(x) for x in scalars.values())))


@jax.jit
def _home(
    phi: Array, theta: Array, Sigma: Array, Sigma_dot: Array, beta: Array, alpha: Array, gamma: Array
) -> Array:
    norm, norm_dot = (
        jnp.linalg.norm(times(inverse_root(matrix)[0], phi), axis=-1) for matrix in (Sigma, Sigma_dot)
    )
    return home_jax(variance_bound((phi * theta).sum(-1), norm_dot, beta), norm, alpha, gamma)
