"""Least-squares value iteration on features phi(s,a), shared by the explorers of linear MDPs.

P(s'|s,a) = <phi(s,a), mu(s')>, so that [P V](s,a) = <phi(s,a), w> with w = sum_s' mu(s') V(s'). The regressions use
transitions with weights g (1 unless an algorithm sets them). There is one for each step (T = H, steps="own", as in the
papers) or one for all steps together (T = 1, steps="pooled", as mu is the same at every step):

    gram = sum g phi phi',   cross = sum g phi e_{s'}',   Lam = gram + lam I,   w = Lam^-1 (cross V)

cross V comes first: Lam^-1 cross would cost d^2 S. The inverse is kept as a root, W'W = Lam^-1. Backwards from
V_{H+1} = 0, with the gain of each algorithm at a pair (its own reward plus bonus),

    Q_h = clip( phi w_h + gain_h, low, cap ),   V_h = max_a Q_h.

Tables of pairs have actions before states, so that maxima over actions are taken over contiguous rows. Ties are broken
at random: where the cap binds all actions tie, and the action of lowest index would be the only one ever tried.
"""

from typing import Annotated, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array
from horizonfree._x64 import Leaf, Number
from horizonfree.estimators.ridge import inverse_root
from horizonfree.explorers.base import ExplorerPlan
from horizonfree.mdp.space import Trajectory
from horizonfree.models.linear.bounds import LinearEvidence
from horizonfree.models.linear.model import LinearModel
from horizonfree.planning.traced import greedy, nearly_best

Steps = Annotated[str, "'pooled': one regression for all steps; 'own': one for each, as in the papers"]
STEPS = ("pooled", "own")
MAX_FEATURES_FOR_PRODUCTS = 32  # largest d for which norms_sq uses products of features


class Sums(eqx.Module):
    """gram and cross, for each step (T = H) or for all steps together (T = 1)."""

    gram: Float[Leaf, "*batch T d d"]
    cross: Float[Leaf, "*batch T d S"]

    @classmethod
    def empty(cls, model: LinearModel, tables: int) -> "Sums":
        """The sums of no transitions; `tables` is T, H or 1."""
        S, _, d = model.phi.shape
        return cls(jnp.zeros((tables, d, d)), jnp.zeros((tables, d, S)))

    def learn(
        self, model: LinearModel, trajectory: Trajectory, weight: Float[Array, " H"] | float = 1.0
    ) -> "Sums":
        """The sums plus the weighted transitions of an episode; unobserved steps add nothing; traced."""
        x, s_next = rows(model, trajectory), trajectory.s[1:]
        wx = jnp.broadcast_to(jnp.asarray(weight, float), s_next.shape)[:, None] * x
        if len(self.gram) == 1:
            cross = self.cross.at[0, :, s_next].add(wx)
            return Sums(self.gram + (wx.T @ x)[None], cross)
        h = jnp.arange(len(s_next))
        return Sums(self.gram + wx[:, :, None] * x[:, None, :], self.cross.at[h, :, s_next].add(wx))


def init_own_sums(model: LinearModel, steps: str) -> Sums | None:
    """The explorer's own sums before the first episode; None if those of the evidence serve."""
    return Sums.empty(model, model.space.horizon) if steps == "own" else None


def current_sums(own: Sums | None, evidence: LinearEvidence) -> Sums:
    """The explorer's own sums, or those of the evidence, of all steps together."""
    return Sums(evidence.gram[None], evidence.cross[None]) if own is None else own


def update_own_sums(own: Sums | None, model: LinearModel, trajectory: Trajectory) -> Sums | None:
    """The explorer's own sums after an episode; traced."""
    return None if own is None else own.learn(model, trajectory)


def observed_steps(model: LinearModel, trajectory: Trajectory) -> Bool[Array, " H"]:
    """The steps of an episode that were observed; traced."""
    return (trajectory.j >= 0) & (trajectory.j < model.space.num_states)


def rows(model: LinearModel, trajectory: Trajectory) -> Float[Array, "H d"]:
    """phi of the pairs of an episode, zero where a step was not observed; traced."""
    x = model.phi[trajectory.s[:-1], trajectory.a]
    return jnp.where(observed_steps(model, trajectory)[:, None], x, 0.0)


class Fit(NamedTuple):
    """The regressions: W with W'W = Lam^-1, and cross."""

    W: Float[Array, "T d d"]
    cross: Float[Array, "T d S"]

    @classmethod
    def of(cls, sums: Sums, lam: Number) -> "Fit":
        """The regressions of the sums, with ridge lam; traced."""
        gram = jnp.asarray(sums.gram)
        W, _ = inverse_root(gram + lam * jnp.eye(gram.shape[-1]))
        return cls(W, jnp.asarray(sums.cross))

    def w(self, V: Float[Array, "H S"]) -> Float[Array, "H d"]:
        """Lam^-1 (cross V) of every step, for values of each; traced."""
        return (jnp.swapaxes(self.W, 1, 2) @ (self.W @ (self.cross @ V[..., None])))[..., 0]

    def predict(self, model: LinearModel, V: Float[Array, "H S"]) -> Float[Array, "H A S"]:
        """phi w: the estimate of the next value after every pair, for values of each step; traced."""
        H, S = V.shape
        return (self.w(V) @ pairs(model).T).reshape(H, -1, S)

    def missing(self, model: LinearModel) -> Float[Array, "T A S"]:
        """max{0, 1 - phi'Lam^-1 (cross 1)}: the mass that the ridge takes from every row of the estimate; traced."""
        return jnp.maximum(0.0, 1 - self.predict(model, jnp.ones(self.cross.shape[::2])))


def pairs(model: LinearModel) -> Float[Array, "AS d"]:
    """phi of all state-action pairs, actions before states."""
    return jnp.swapaxes(jnp.asarray(model.phi), 0, 1).reshape(-1, model.phi.shape[-1])


def norms_sq(model: LinearModel, W: Float[Array, "T d d"]) -> Float[Array, "T A S"]:
    """||phi(s,a)||^2 in W'W; traced. Products of features are constants: for small d this is faster than W phi."""
    T, d, _ = W.shape
    x = pairs(model).T
    if d <= MAX_FEATURES_FOR_PRODUCTS:
        i, j = np.triu_indices(d)
        products = np.where(i == j, 1.0, 2.0)[:, None] * x[i] * x[j]
        squares = (jnp.swapaxes(W, 1, 2) @ W)[:, i, j] @ products
    else:
        squares = ((W.reshape(T * d, d) @ x) ** 2).reshape(T, d, -1).sum(1)
    return squares.reshape(T, *model.phi.shape[1::-1])


class ValueIteration(NamedTuple):
    """Q of every step, and V_1..V_{H+1}."""

    Q: Float[Array, "H A S"]
    V: Float[Array, "H1 S"]


def value_iteration(
    model: LinearModel,
    fit: Fit,
    gain: Float[Array, "_ A S"],
    *,
    low: Number = -jnp.inf,
    cap: Number = jnp.inf,
    missing: Float[Array, "_ A S"] | None = None,
) -> ValueIteration:
    """Q_h and V_h of the module docstring, backwards over the steps; traced.

    The leading axis of fit, gain and missing is H or 1. missing: mass that goes to the state of largest value.
    """
    H, S, A = model.space.sizes
    phi = pairs(model)
    tables = {"W": fit.W, "cross": fit.cross, "gain": gain} | (
        {} if missing is None else {"missing": missing}
    )
    shared = {name: x[0] for name, x in tables.items() if len(x) == 1}
    per_step = {name: x for name, x in tables.items() if len(x) > 1}

    def step(V: Array, per_step: dict[str, Array]) -> tuple[Array, tuple[Array, Array]]:
        step_tables = shared | per_step
        Q = (phi @ ((step_tables["W"] @ (step_tables["cross"] @ V)) @ step_tables["W"])).reshape(
            A, S
        ) + step_tables["gain"]
        if missing is not None:
            Q = Q + step_tables["missing"] * V.max()
        Q = jnp.clip(Q, low, cap)
        V = Q.max(0)
        return V, (Q, V)

    end = jnp.zeros(S)
    _, (Q, V) = jax.lax.scan(step, end, per_step, length=H, reverse=True)
    return ValueIteration(Q, jnp.concatenate([V, end[None]]))


def greedy_random_ties(key: Array, Q: Float[Array, "H A S"]) -> Int[Array, "H S"]:
    """The greedy actions; 16 random bits choose among those that are best up to rounding; traced."""
    H, A, S = Q.shape
    # Four 16-bit lots from each 64-bit draw: the draws dominate the cost.
    bits = jax.random.bits(key, (-(-H * S // 4),), jnp.uint64)
    lots = jax.lax.bitcast_convert_type(bits, jnp.uint16).reshape(-1)[: H * S].reshape(H, S)
    is_best = nearly_best(Q, 1)
    rank = jnp.cumsum(is_best, axis=1, dtype=jnp.uint32)
    choice = ((lots.astype(jnp.uint32) * rank[:, -1]) >> 16) + 1
    actions = jnp.arange(A, dtype=jnp.int32)[:, None]
    return jnp.where(is_best & (rank == choice[:, None]), actions, 0).sum(1, dtype=jnp.int32)


def uniform_after(policy: Int[Array, "H S"], last: Int[Array, ""], num_actions: int) -> Float[Array, "H S A"]:
    """The policy up to a step, uniform actions after it; traced."""
    is_after = (jnp.arange(len(policy)) > last)[:, None, None]
    return jnp.where(is_after, 1 / num_actions, jax.nn.one_hot(policy, num_actions, dtype=jnp.float64))


def plan(
    model: LinearModel, sums: Sums, lam: Number, reward: Float[Array, "H S A"], bonus: Number = 0.0
) -> ExplorerPlan:
    """Least-squares value iteration for a reward of total at most 1: values in [0, 1], bonus ||phi||; traced."""
    fit = Fit.of(sums, lam)
    gain = jnp.swapaxes(reward, 1, 2) + bonus * jnp.sqrt(norms_sq(model, fit.W))
    Q, V = value_iteration(model, fit, gain, low=0.0, cap=1.0)
    policy = jax.vmap(greedy)(jnp.swapaxes(Q, 1, 2))[1]
    return ExplorerPlan(policy, V)
