"""The result of the oracle: a point, its values at the true radius, and an upper bound of the maximum.

Three upper bounds, of the oracle's value or of what that value bounds (docs/oracle.md has the proofs):

- `upper_bound` W: W_1(s_1) >= max over (pi, r) of Vhat_1(s_1). Always; the backup of Vhat is not monotone, that of
  W is, and majorises it.
- `relaxed` U <= W: U_1(s_1) >= max over (pi, r) of Vbar_1(s_1), the recursion with the true kernel in place of the
  hat term, whenever ||theta - theta_star|| <= 2 beta in the hat norm. It need not bound Vhat.
- `variance.total_variance_bound`: as W, usually much closer once no cap binds; needs P_theta to be a kernel.

All use that V_{H+1} = 0, hence u_H = 0, Vhat_H = 0.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array
from horizonfree._x64 import Number
from horizonfree.oracle.box import MAX_VECTORIZED_SUCCESSORS, coordinate_bound, norm, subset_sums
from horizonfree.oracle.objective import STATES_LAST, Prepared, evaluate, optimism
from horizonfree.planning.traced import nearly_best


def relaxed(prepared: Prepared, beta: Number) -> tuple[Int[Array, "H S"], Float[Array, "H1 S"]]:
    """U_h(s) = max_a [ubar(s,a) + 2 beta ||phi_{U_{h+1}}||_hat + <phi_{U_{h+1}}, theta>]_{[0,1]}, and its policy.

    ubar(s,a) = min{1, beta max_{f in [0,1]^S} ||phi_f(s,a)||_tilde}.
    """

    def later_values(z: Array) -> Array:
        bonus, expected = optimism(prepared.tables, z, beta, STATES_LAST)
        return bonus + expected

    return _induct(prepared, beta, later_values)


def upper_bound(prepared: Prepared, beta: Number) -> Float[Array, "H1 S"]:
    """W_h(s) = max_a min{1, ubar(s,a) + max over z in [0, W_{h+1}] of 2 beta ||phi_z||_hat + <phi_z, theta>}."""
    return _induct(prepared, beta, lambda w: _box_optimism(prepared, w, beta))[1]


def _induct(
    prepared: Prepared, beta: Number, later: Callable[[Array], Array]
) -> tuple[Int[Array, "H S"], Float[Array, "H1 S"]]:
    """Backward induction with stage term ubar and a continuation; zero at the last step and after it."""
    S = prepared.succ.shape[2]
    ubar = jnp.minimum(1, beta * prepared.box_tilde)

    def step(U: Array, _: None) -> tuple[Array, tuple[Array, Array]]:
        Q = jnp.clip(ubar + later(prepared.at_successors(U)), 0, 1)
        return Q.max(axis=0), (nearly_best(Q, 0).argmax(axis=0).astype(jnp.int32), Q.max(axis=0))

    zero = jnp.zeros(S)
    _, (policy, U) = jax.lax.scan(step, zero, None, length=prepared.space.horizon - 1, reverse=True)
    last = jnp.zeros((1, S))
    return jnp.concatenate([policy, last.astype(jnp.int32)]), jnp.concatenate([U, last, last])


def _box_optimism(prepared: Prepared, w: Float[Array, "..."], beta: Number) -> Float[Array, "A S"]:
    """max over z in [0, w] of `optimism`: convex, so a vertex is best; all of them, or a bound when n is large."""
    p, F = jnp.maximum(prepared.p, 0), prepared.F_hat
    w = jnp.broadcast_to(w, p.shape)
    if p.shape[0] <= MAX_VECTORIZED_SUCCESSORS:
        sums = subset_sums(jnp.moveaxis(F * w, 1, 0))
        return (2 * beta * norm(sums, axis=1) + subset_sums(p * w)).max(axis=0)
    by_scale = w.max(axis=0) * prepared.box_hat
    by_coordinate = coordinate_bound(jnp.moveaxis(F * w, (0, 1), (-2, -1)))
    return 2 * beta * jnp.minimum(by_scale, by_coordinate) + (p * w).sum(axis=0)


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
    search_numbers = jnp.asarray(radius, float), search_value, jnp.asarray(sweeps)
    return OracleResult(point, path.V, path.V_hat, value, raw, upper, *search_numbers, mode)
