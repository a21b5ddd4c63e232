"""FORCE: optimism by robust means, a regret minimiser for linear MDPs and one known reward; inside RFLIN.

Paper: A. Wagenmaker, Y. Chen, M. Simchowitz, S. S. Du, K. Jamieson 2022 (ICML), "First-order regret in reinforcement
learning with linear function approximation: a robust estimation approach"; its efficient version. Before episode k of
K, with n = k - 1 transitions x_tau -> s'_tau of each step, weights 1/vbar^2, lam = 1/H^2, v_min = 1/K:

    beta = 6 sqrt(L), L = d^2 log max{d, H, K} + log(2HK/delta),   Sig = sum x x'/vbar^2,   Lam = Sig + lam I
    E[V](u) = cat( v'x_tau V(s'_tau)/vbar_tau^2 over tau; a ),  v = n Lam^-1 u,  a = min{ beta/||v||_Sig, K/v_min }
    w = sum_i E[V](u_i) u_i over the eigenvectors u_i of Lam
    Q = min{ r + phi'w + 3(sqrt(d)+2) beta ||phi||_{Lam^-1} + 3(sqrt(d)+2)^2 v_min beta^2/k^2, H }
    vbar^2 = 2H^2 while k <= L, else max{ 20H E[V](x) + 20H beta (||x||_{Lam^-1} + v_min beta/k^2), v_min^2 }

cat(X; a) is Catoni's mean, the root z of sum_tau psi(a(X_tau - z)), psi(y) = sign(y) log(1 + |y| + y^2), found by
halving [min X, max X]. It needs every transition: H d roots over n numbers per episode, so that K episodes cost K^2.
Constants that the paper leaves open are 1. Here the reward is at one step alone, after which nothing counts: there
Q = r.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array
from horizonfree._x64 import Leaf, Number
from horizonfree.explorers.least_squares import observed_steps, pairs, rows
from horizonfree.mdp.space import Trajectory
from horizonfree.models.linear.model import LinearModel

HALVINGS = 60


class Memory(eqx.Module):
    """State-action pairs and successors of each episode, 1/vbar^2 (0: no transition), and V of the policy."""

    s: Int[Leaf, "*batch N H"]
    a: Int[Leaf, "*batch N H"]
    s_next: Int[Leaf, "*batch N H"]
    precision: Float[Leaf, "*batch N H"]
    V: Float[Leaf, "*batch H1 S"]

    @classmethod
    def empty(cls, model: LinearModel, episodes: int) -> "Memory":
        """Memory for this number of episodes."""
        H, S, _ = model.space.sizes
        none = jnp.zeros((episodes, H), jnp.int32)
        return cls(none, none, none, jnp.zeros((episodes, H)), jnp.zeros((H + 1, S)))

    def append(
        self, model: LinearModel, trajectory: Trajectory, index: Int[Array, ""], precision: Float[Array, " H"]
    ) -> "Memory":
        """With one more episode; if the memory is full, unchanged; traced."""
        weights = jnp.where(observed_steps(model, trajectory), precision, 0.0)
        new = trajectory.s[:-1], trajectory.a, trajectory.s[1:], weights
        memory: Memory = eqx.tree_at(
            lambda x: (x.s, x.a, x.s_next, x.precision),
            self,
            tuple(
                x.at[index].set(y, mode="drop")
                for x, y in zip((self.s, self.a, self.s_next, self.precision), new)
            ),
        )
        return memory


class Terms(NamedTuple):
    """beta, v_min and L of one run of K episodes."""

    K: Float[Array, ""]
    beta: Float[Array, ""]
    v_min: Float[Array, ""]
    L: Float[Array, ""]

    @classmethod
    def of(cls, model: LinearModel, K: Float[Array, ""], delta: Number) -> "Terms":
        """The terms with all unknown constants equal to 1; traced."""
        H, d = model.space.horizon, model.dim
        L = d**2 * jnp.log(jnp.maximum(max(d, H), K)) + jnp.log(2 * H * K / delta)
        return cls(K, 6 * jnp.sqrt(L), 1 / K, L)


class Past(NamedTuple):
    """The transitions of every step: features, 1/vbar^2 and successors; eigenvalues and eigenvectors of Lam."""

    x: Float[Array, "H N d"]
    precision: Float[Array, "H N"]
    s_next: Int[Array, "H N"]
    values: Float[Array, "H d"]
    vectors: Float[Array, "H d d"]

    @classmethod
    def of(cls, model: LinearModel, memory: Memory) -> "Past":
        """The transitions in memory; traced."""
        x = jnp.swapaxes(jnp.asarray(model.phi)[memory.s, memory.a], 0, 1)
        precision = jnp.asarray(memory.precision).T
        Lam = jnp.einsum("hn,hni,hnj->hij", precision, x, x) + jnp.eye(model.dim) / model.space.horizon**2
        return cls(x, precision, jnp.asarray(memory.s_next).T, *jnp.linalg.eigh(Lam))

    def estimate(
        self, model: LinearModel, terms: Terms, V: Float[Array, "*H S"], u: Float[Array, "*H k d"]
    ) -> Float[Array, "*H k"]:
        """E[V](u) for k directions; of one step, or of all with a leading axis; traced."""
        lam = 1 / model.space.horizon**2
        n = (self.precision > 0).sum(-1).astype(jnp.float64)
        scaled = u @ self.vectors
        v_sig = jnp.sqrt(
            ((scaled / self.values[..., None, :]) ** 2 * (self.values - lam)[..., None, :]).sum(-1)
        )
        v = (scaled / self.values[..., None, :]) @ jnp.swapaxes(self.vectors, -1, -2)
        target = jnp.take_along_axis(V, self.s_next, axis=-1) * self.precision
        X = n[..., None, None] * (v @ jnp.swapaxes(self.x, -1, -2)) * target[..., None, :]
        a = terms.beta / jnp.maximum(n[..., None] * v_sig, terms.beta * terms.v_min / terms.K)
        return catoni(X, jnp.broadcast_to((self.precision > 0)[..., None, :], X.shape), a)

    def norms(self, x: Float[Array, "*H k d"]) -> Float[Array, "*H k"]:
        """||x||_{Lam^-1} of one step, or of all; traced."""
        return jnp.sqrt(((x @ self.vectors) ** 2 / self.values[..., None, :]).sum(-1))


def catoni(
    X: Float[Array, "*k n"], is_counted: Bool[Array, "*k n"], a: Float[Array, "*k"]
) -> Float[Array, "*k"]:
    """Catoni's mean of the counted entries, 0 if there are none; traced."""

    def halve(_: Array, interval: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = interval
        z = (low + high) / 2
        y = jnp.where(is_counted, a[..., None] * (X - z[..., None]), 0.0)
        is_below = (jnp.sign(y) * jnp.log1p(jnp.abs(y) + y**2)).sum(-1) > 0
        return jnp.where(is_below, z, low), jnp.where(is_below, high, z)

    is_any = is_counted.any(-1)
    low, high = jnp.where(is_counted, X, jnp.inf).min(-1), jnp.where(is_counted, X, -jnp.inf).max(-1)
    first = jnp.where(is_any, low, 0.0), jnp.where(is_any, high, 0.0)
    z: Array = sum(jax.lax.fori_loop(0, HALVINGS, halve, first)) / 2
    return z


def optimism(
    model: LinearModel,
    memory: Memory,
    terms: Terms,
    reward: Float[Array, "A S"],
    h: Int[Array, ""],
    bonus_scale: Number,
) -> tuple[Float[Array, "H A S"], Float[Array, "H1 S"]]:
    """Q and V for a reward at step h (from 0) alone; traced."""
    H, S, A = model.space.sizes
    phi, wide = pairs(model), jnp.sqrt(model.dim) + 2

    def backup(V: Array, inputs: tuple[Array, Past]) -> tuple[Array, tuple[Array, Array]]:
        t, past = inputs
        w = past.vectors @ past.estimate(model, terms, V, past.vectors.T)
        k = (past.precision > 0).sum() + 1.0
        bonus = 3 * wide * terms.beta * past.norms(phi) + 3 * wide**2 * terms.v_min * terms.beta**2 / k**2
        optimistic = jnp.clip(phi @ w + bonus_scale * bonus, 0.0, float(H)).reshape(A, S)
        Q = jnp.where(t < h, optimistic, jnp.where(t == h, reward, 0.0))
        return Q.max(0), (Q, Q.max(0))

    end = jnp.zeros(S)
    _, (Q, V) = jax.lax.scan(backup, end, (jnp.arange(H), Past.of(model, memory)), reverse=True)
    return Q, jnp.concatenate([V, end[None]])


def precisions(
    model: LinearModel, memory: Memory, terms: Terms, trajectory: Trajectory
) -> Float[Array, " H"]:
    """1/vbar^2 of the transitions of one more episode, from the memory before it; traced."""
    H, past = model.space.horizon, Past.of(model, memory)
    x = rows(model, trajectory)[:, None]
    k = (past.precision > 0).sum(-1) + 1.0
    doubt = past.norms(x)[:, 0] + terms.v_min * terms.beta / k**2
    mean = past.estimate(model, terms, jnp.asarray(memory.V)[1:], x)[:, 0]
    variance = jnp.maximum(20 * H * (mean + terms.beta * doubt), terms.v_min**2)
    return 1 / jnp.where(k <= terms.L, 2.0 * H**2, variance)
