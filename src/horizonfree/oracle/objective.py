"""The objective of the oracle of HF-UCRL-RFE++: its value and its derivatives.

Paper: J. Zhang, W. Zhang, Q. Gu 2023 (arXiv 2303.10165), section 4. For a model theta, a policy pi, a reward r and
V_{H+1} = Vhat_{H+1} = 0:

    V_h(s)    = r_h(s) + <phi_{V_{h+1}}(s,a), theta>,                                   a = pi_h(s)
    u_h(s,a)  = min{1, beta ||phi_{V_{h+1}}(s,a)||_tilde}
    Vhat_h(s) = [u_h(s,a) + 2 beta ||phi_{Vhat_{h+1}}(s,a)||_hat + <phi_{Vhat_{h+1}}(s,a), theta>]_{[0,1]}

with the norms of the inverse covariances of order 0 at the start of the episode. The oracle's value is Vhat_1(s_1).

Departures. (1) u is built from V_{h+1}, as the proofs need (the paper prints V_h). (2) V is clipped to [0,1], Vhat from
below at 0. (3) Rewards depend on the state only: an indicator of a set at one step is the extreme point searched.

Layout: states last, so that the innermost loops run over them. `F` with ||phi_v||_{Sigma^{-1}} = ||F v||_2 has
m = min(n, d) rows. `leak` replaces min(x, 1) by min(x, 1) + leak * max(x - 1, 0): the search uses a small one,
values use 0.

One backward step of the pseudo value that reward-free algorithms maximise (`pseudo_step`):

    V_h    = r_h + <phi_{V_{h+1}}, theta>
    u_h    = min{c, beta ||phi_{V_{h+1}}||}
    Vhat_h = u_h + 2 beta ||phi_{Vhat_{h+1}}||_hat + <phi_{Vhat_{h+1}}, theta>,   then capped at c

(HF-UCRL-RFE++, arXiv 2303.10165, section 4, with c = 1; Chen et al. 2022 with c = H.) A norm of phi_v is ||F v||_2.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int, Shaped

from horizonfree._arrays import Array
from horizonfree._x64 import Number
from horizonfree.mdp.space import Space
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.oracle.box import box_max, norm
from horizonfree.planning.traced import nearly_best, significant


class Tables(NamedTuple):
    """P_theta on successors, and F, F_hat of the two norms, of some pairs (s,a), in one of the layouts below."""

    p: Float[Array, "..."]
    F: Float[Array, "..."]
    F_hat: Float[Array, "..."]


class Layout(NamedTuple):
    """Axes: `row` of F, over which the norm is taken, and `next`, the successors, in F and in p."""

    row: int
    next_in_F: int
    next_in_p: int


STATES_LAST = Layout(0, 1, 0)  # F [m, n, A, S], p [n, A, S]: the innermost loops run over states
PAIRS_FIRST = Layout(-2, -1, -1)  # F [..., d, n], p [..., n]


def cap(x: Float[Array, "..."], limit: float, leak: float) -> Float[Array, "..."]:
    """min(x, most), or with a small slope above it: `leak`, for searches only."""
    return jnp.minimum(x, limit) + leak * jnp.maximum(x - limit, 0) if leak else jnp.minimum(x, limit)


def width(F: Float[Array, "..."], v: Float[Array, "..."], layout: Layout) -> Float[Array, "..."]:
    """The norm ||F v||_2."""
    Fv = (F * jnp.expand_dims(v, layout.row)).sum(layout.next_in_F)
    return norm(Fv, 0 if layout.row == 0 else -1)


class Pieces(NamedTuple):
    """The terms of one step back, before they are added and capped."""

    V: Float[Array, "..."]  # <phi_V, theta>
    u: Float[Array, "..."]
    bonus: Float[Array, "..."]  # 2 beta ||phi_Vhat||_hat
    V_hat: Float[Array, "..."]  # <phi_Vhat, theta>


def optimism(
    tables: Tables, z: Float[Array, "..."], beta: Number, layout: Layout
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """2 beta ||phi_z||_hat and <phi_z, theta>; their sum is convex in z, not monotone."""
    return 2 * beta * width(tables.F_hat, z, layout), (tables.p * z).sum(layout.next_in_p)


def pseudo_step(
    tables: Tables,
    v: Float[Array, "..."],
    z: Float[Array, "..."],
    beta: Number,
    limit: float,
    leak: float,
    layout: Layout,
) -> Pieces:
    """The terms of a step, from V and Vhat at the successors of some pairs; most: the cap c."""
    u = cap(beta * width(tables.F, v, layout), limit, leak)
    return Pieces((tables.p * v).sum(layout.next_in_p), u, *optimism(tables, z, beta, layout))


class Prepared(eqx.Module):
    """One oracle problem: the model P_theta and both norms on successor lists, computed once per call."""

    succ: Int[Array, "n A S"]
    p: Float[Array, "n A S"]
    F_tilde: Float[Array, "m n A S"]
    F_hat: Float[Array, "m n A S"]
    box_tilde: Float[Array, "A S"]
    box_hat: Float[Array, "A S"]
    box_slope: Float[Array, "n A S"]
    box_f: Float[Array, "n A S"]
    space: Space

    @property
    def tables(self) -> Tables:
        """The tables of a backward step."""
        return Tables(self.p, self.F_tilde, self.F_hat)

    def at_successors(self, V: Float[Array, " S"]) -> Float[Array, "n #A #S"]:
        """v with v_j = V(j-th successor of (s,a)); on dense lists a view, not a gather."""
        return V[:, None, None] if self.space.is_dense else V[self.succ]


class Factors(NamedTuple):
    """P_theta and both norms of some pairs (s,a); the names are those of `Prepared`, pairs first."""

    p: Float[Array, "*pairs n"]
    F_tilde: Float[Array, "*pairs m n"]
    F_hat: Float[Array, "*pairs m n"]
    box_tilde: Float[Array, "*pairs"]
    box_hat: Float[Array, "*pairs"]
    box_slope: Float[Array, "*pairs n"]
    box_f: Float[Array, "*pairs n"]


def factors(
    phi: Float[Array, "*pairs n d"],
    theta: Float[Array, " d"],
    inv_tilde: Float[Array, "d d"],
    inv_hat: Float[Array, "d d"],
) -> Factors:
    """The factors of these feature matrices; traceable.

    `box_tilde`, `box_hat` bound the norms over V in [0,1]^S; `box_slope` is the gradient of the tilde norm at
    its maximiser `box_f`, the subgradient used at V = 0 where the norm has none.
    """
    tilde, hat = _factor(phi, inv_tilde), _factor(phi, inv_hat)
    box, box_hat = box_max(tilde), box_max(hat)
    y = (tilde * box.f[..., None, :]).sum(-1)
    slope = (tilde * y[..., None]).sum(-2) / jnp.where(box.lower > 0, box.lower, 1.0)[..., None]
    return Factors(phi @ theta, tilde, hat, box.upper, box_hat.upper, slope, box.f.astype(float))


def prepare(
    model: MixtureModel,
    theta: Float[Array, " d"],
    inv_tilde: Float[Array, "d d"],
    inv_hat: Float[Array, "d d"],
) -> Prepared:
    """The problem for one model and the inverses of SigmaDot_tilde, SigmaDot_hat (order 0); traceable."""
    pairs = factors(model.phi, theta, inv_tilde, inv_hat)
    tables = Factors(*map(_states_last, pairs))
    return Prepared(_states_last(model.space.succ), *tables, model.space)


def _factor(phi: Float[Array, "*pairs n d"], inv: Float[Array, "d d"]) -> Float[Array, "*pairs m n"]:
    """F with F'F = phi Sigma^{-1} phi' and min(n, d) rows: no squares are formed, so small norms stay accurate."""
    X = jnp.swapaxes(phi @ jnp.linalg.cholesky(inv), -1, -2)
    return jnp.linalg.qr(X, mode="r") if X.shape[-1] < X.shape[-2] else X


def _states_last(x: Shaped[Array, "S A *rest"]) -> Shaped[Array, "*rest A S"]:
    return jnp.moveaxis(x, (0, 1), (-1, -2))


def backup(
    prepared: Prepared,
    V: Float[Array, " S"],
    V_hat: Float[Array, " S"],
    r: Float[Array, " S"],
    beta: Number,
    leak: float = 0.0,
) -> tuple[Float[Array, "A S"], Float[Array, "A S"]]:
    """One step back, for every action: V_h(s), and Vhat_h(s) before its outer cap."""
    v, z = prepared.at_successors(V), prepared.at_successors(V_hat)
    x = pseudo_step(prepared.tables, v, z, beta, 1.0, leak, STATES_LAST)
    return jnp.clip(r + x.V, 0, 1), jnp.maximum(x.u + (x.bonus + x.V_hat), 0)


class Weights(eqx.Module):
    """Derivatives of the oracle's value: V[h] by V_h, V_hat[h] by Vhat_h."""

    V: Float[Array, "H S"]
    V_hat: Float[Array, "H S"]


class Path(eqx.Module):
    """The result of a backward pass: the policy and its values; raw is Vhat before the outer cap."""

    policy: Int[Array, "H S"]
    V: Float[Array, "H1 S"]
    V_hat: Float[Array, "H1 S"]
    raw: Float[Array, "H S"]


def evaluate(
    prepared: Prepared, policy: Int[Array, "H S"], reward: Float[Array, "H S"], beta: Number
) -> Path:
    """V and Vhat of one policy and reward, as the paper defines them."""
    none = jnp.zeros_like(reward)
    return sweep_back(prepared, policy, reward, Weights(none, none), jnp.asarray(False), beta, 0.0)


def sweep_back(
    prepared: Prepared,
    policy: Int[Array, "H S"],
    reward: Float[Array, "H S"],
    weights: Weights,
    improve: Bool[Array, ""],
    beta: Number,
    leak: float,
) -> Path:
    """Evaluate backwards and, if asked, replace each action by the best for the weighted values on the way.

    The score is w_Vhat Vhat_h + w_V V_h under the new values of step h+1; where both weights vanish, Vhat_h. The
    old action is kept on ties, else the lowest wins.
    """
    A, S = prepared.succ.shape[1:]
    actions = jnp.arange(A, dtype=policy.dtype)[:, None]

    def step(
        carry: tuple[Array, Array], x: tuple[Array, ...]
    ) -> tuple[tuple[Array, Array], tuple[Array, ...]]:
        r, old, w_V, w_V_hat = x
        Q, raw = backup(prepared, *carry, r, beta, leak)
        Q_hat = cap(raw, 1.0, leak)
        score = jnp.where((w_V == 0) & (w_V_hat == 0), Q_hat, w_V_hat * Q_hat + w_V * Q)
        is_best = nearly_best(score, 0)
        is_kept = (is_best & (actions == old)).any(axis=0) | ~improve
        a = jnp.where(is_kept, old, jnp.where(is_best, actions, A).min(axis=0))
        is_chosen = actions == a
        V, raw = (jnp.where(is_chosen, q, 0).sum(axis=0) for q in (Q, raw))
        return (V, cap(raw, 1.0, leak)), (a, V, raw)

    zero = jnp.zeros(S)
    inputs = (reward, policy, weights.V, weights.V_hat)
    _, (a, V, raw) = jax.lax.scan(step, (zero, zero), inputs, reverse=True)
    last = zero[None]
    return Path(a, jnp.concatenate([V, last]), jnp.concatenate([cap(raw, 1.0, leak), last]), raw)


def adjoint(prepared: Prepared, path: Path, beta: Number, leak: float) -> Weights:
    """Derivatives of raw_1(s_1) by V_h and Vhat_h along a path: one pass forward.

    V is taken as linear (its clip never binds for rewards of total <= 1), so the weights by V_h are also those by
    r_h. At V_{h+1} = 0 on all successors the slope of the box maximiser stands in, so that later reward steps are
    visible.
    """
    S = path.policy.shape[1]
    states = jnp.arange(S)
    by_action = (prepared.succ, prepared.p, prepared.F_tilde, prepared.F_hat, prepared.box_slope)

    def step(
        carry: tuple[Array, Array], x: tuple[Array, ...]
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        w_V, w_V_hat = carry
        a, V, V_hat, k_raw = x
        succ, p, F_tilde, F_hat, slope = (table[..., a, states] for table in by_action)
        bonus, d_bonus = _norm_and_slope(F_tilde, V[succ])
        _, d_hat = _norm_and_slope(F_hat, V_hat[succ])
        k_u = jnp.where(beta * bonus < 1, 1.0, leak)
        by_V = k_raw * k_u * beta * jnp.where(bonus > 0, d_bonus, slope)
        by_V_hat = k_raw * (2 * beta * d_hat + p)
        weights = jnp.stack([w_V_hat * by_V + w_V * p, w_V_hat * by_V_hat], axis=-1)
        total = significant(jnp.zeros((S, 2)).at[succ].add(weights), 0)
        return (total[:, 0], total[:, 1]), carry

    k_raw = jnp.where(path.raw < 1, 1.0, leak).at[0].set(1.0)  # the value itself is not capped
    first = (jnp.zeros(S), initial_distribution(prepared.space))
    return Weights(*jax.lax.scan(step, first, (path.policy, path.V[1:], path.V_hat[1:], k_raw))[1])


def initial_distribution(space: Space) -> Float[Array, " S"]:
    """The distribution of the start; traceable."""
    return jnp.zeros(space.num_states).at[space.start].set(1.0) if space.initial is None else space.initial


def _norm_and_slope(
    F: Float[Array, "m n S"], v: Float[Array, "n S"]
) -> tuple[Float[Array, " S"], Float[Array, "n S"]]:
    """||F v|| and its gradient by v, zero where the norm is zero."""
    y = (F * v).sum(1)
    size = norm(y, axis=0)
    return size, (F * y[:, None]).sum(0) / jnp.where(size > 0, size, 1.0)
