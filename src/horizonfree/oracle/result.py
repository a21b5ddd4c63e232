"""The result of the oracle: a point, its values at the true radius, and an upper bound of the maximum."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array
from horizonfree._x64 import Number
from horizonfree.oracle.bounds import upper_bound
from horizonfree.oracle.objective import Prepared, evaluate


class Point(eqx.Module):
    """A policy and a reward: the indicator of a set of states (`target`) at one step."""

    policy: Int[Array, "H S"]
    step: Int[Array, ""]
    target: Bool[Array, " S"]

    @property
    def reward(self) -> Float[Array, "H S"]:
        """r_h(s) = 1[h = step and s in target]."""
        is_step = jnp.arange(self.policy.shape[0]) == self.step
        return (is_step[:, None] & self.target).astype(jnp.float64)


class AntichainPoint(eqx.Module):
    """A policy and a reward: the indicator of nodes (step, state) of which no trajectory visits two."""

    policy: Int[Array, "H S"]
    target: Bool[Array, "H S"]

    @property
    def reward(self) -> Float[Array, "H S"]:
        """r_h(s) = 1[(h, s) in target]."""
        return self.target.astype(jnp.float64)


class OracleResult(eqx.Module):
    """A policy and reward, their values at the radius beta, and how far they can be from the maximum.

    `value` <= max over (pi, r) of Vhat_1(s_1) <= `upper`. `raw` is the value before the cap at 1, `radius` the one
    searched with and `search_value` the raw value at it. `mode` "exhaustive" means the exact maximum over
    deterministic policies and the indicators of `rewards`, "ascent" a lower bound of it.
    """

    point: Point | AntichainPoint
    V: Float[Array, "H1 S"]
    V_hat: Float[Array, "H1 S"]
    value: Float[Array, ""]
    raw: Float[Array, ""]
    upper: Float[Array, ""]
    radius: Float[Array, ""]
    search_value: Float[Array, ""]
    sweeps: Int[Array, ""]
    mode: str = eqx.field(static=True)

    @property
    def rewards(self) -> str:
        """Of which rewards the indicators were searched."""
        return "antichains of states and steps" if self.mode == "exhaustive" else "sets of states at one step"


def conclude(
    prepared: Prepared,
    point: Point | AntichainPoint,
    beta: Number,
    radius: Number,
    sweeps: Number,
    mode: str,
) -> OracleResult:
    """The result for a point, evaluated at beta with plain caps."""
    path = evaluate(prepared, point.policy, point.reward, beta)
    searched = evaluate(prepared, point.policy, point.reward, radius)
    at_start = prepared.space.at_start
    value, raw, search_value = (at_start(x[0]) for x in (jnp.minimum(path.raw, 1), path.raw, searched.raw))
    upper = at_start(upper_bound(prepared, beta)[0])
    used = jnp.asarray(radius, float), search_value, jnp.asarray(sweeps)
    return OracleResult(point, path.V, path.V_hat, value, raw, upper, *used, mode)
