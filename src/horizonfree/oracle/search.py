"""The oracle of an episode: `ascent`, and U; on CPUs in C (native/oracle.c), called by the compiled program.

The C search is `ascent` with less work: in a step it looks only at states that can be reached by then, it factors equal
feature matrices once, and it draws random numbers only when they are used. Its answers are those of `ascent` up to
rounding, wherever an episode can be; elsewhere the policy stays what it was, and V and Vhat are 0.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from horizonfree._arrays import Array
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.native import ffi
from horizonfree.oracle.ascent import ascent
from horizonfree.oracle.box import MAX_VECTORIZED_SUCCESSORS
from horizonfree.oracle.objective import initial_distribution, prepare
from horizonfree.oracle.result import OracleResult, Point, relaxed

SearchOutput = tuple[OracleResult, Float[Array, ""]]


def search(
    key: Array,
    model: MixtureModel,
    theta: Float[Array, " d"],
    inverses: tuple[Float[Array, "d d"], Float[Array, "d d"]],
    beta: Float[Array, ""],
    beta_search: Float[Array, ""],
    warm: Point,
    *,
    chains: int = 3,
    sweeps: int = 20,
) -> SearchOutput:
    """The result of `ascent` in theta, and U at the start; traced. inverses: of both covariances, tilde and hat."""

    arguments = key, model, theta, inverses, beta, beta_search, warm
    in_jax = partial(search_in_jax, chains=chains, sweeps=sweeps)
    if model.phi.shape[2] > MAX_VECTORIZED_SUCCESSORS or not ffi.is_available():
        return in_jax(*arguments)
    in_c = partial(search_in_c, chains=chains, sweeps=sweeps)
    result: SearchOutput = jax.lax.platform_dependent(*arguments, cpu=in_c, default=in_jax)
    return result


def search_in_jax(
    key: Array,
    model: MixtureModel,
    theta: Float[Array, " d"],
    inverses: tuple[Float[Array, "d d"], Float[Array, "d d"]],
    beta: Float[Array, ""],
    beta_search: Float[Array, ""],
    warm: Point,
    *,
    chains: int,
    sweeps: int,
) -> SearchOutput:
    """The definition, in JAX."""
    prepared = prepare(model, theta, *inverses)
    U = relaxed(prepared, beta)[1]
    result = ascent(key, prepared, beta, beta_search, warm, chains=chains, sweeps=sweeps)
    return result, model.space.at_start(U[0])


def search_in_c(
    key: Array,
    model: MixtureModel,
    theta: Float[Array, " d"],
    inverses: tuple[Float[Array, "d d"], Float[Array, "d d"]],
    beta: Float[Array, ""],
    beta_search: Float[Array, ""],
    warm: Point,
    *,
    chains: int,
    sweeps: int,
) -> SearchOutput:
    """The search in C, for lists of at most MAX_VECTORIZED_SUCCESSORS successors."""
    space, values = model.space, (model.space.horizon + 1, model.space.num_states)
    struct: Any = jax.ShapeDtypeStruct  # untyped
    results = [
        struct(shape, kind)
        for shape, kind in [
            (warm.policy.shape, np.int32),
            ((), np.int32),
            (warm.target.shape, np.bool_),
            (values, np.float64),
            (values, np.float64),
            ((6,), np.float64),
            ((), np.int32),
        ]
    ]
    policy, step, target, V, V_hat, numbers, num_used = ffi.call(
        "horizonfree_oracle",
        results,
        space.succ,
        space.support,
        initial_distribution(space),
        model.phi,
        theta,
        *(jnp.linalg.cholesky(inverse) for inverse in inverses),
        jax.random.key_data(key),
        jnp.stack([beta, beta_search]).astype(float),
        warm.policy,
        warm.step,
        warm.target,
        chains=chains,
        sweeps=sweeps,
    )
    value, raw, upper, radius, search_value, U = numbers
    point = Point(policy, step, target)
    result = OracleResult(point, V, V_hat, value, raw, upper, radius, search_value, num_used, "ascent")
    return result, U
