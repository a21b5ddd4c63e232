"""The known class of linear mixture MDPs, and nothing else touches phi.

    P_theta(s'|s,a) = <phi(s'|s,a), theta>,      phi_V(s,a) = sum_s' phi(s'|s,a) V(s')        (paper, section 3)

phi is kept as padded successor lists: `succ [S, A, n]` names the possible next states of (s, a) in ascending
order, `phi [S, A, n, d]` their features. A padded slot repeats the last successor with phi = 0, so it never
counts (features.py builds them). A kernel that reaches most states is stored densely: n = S and succ[s, a] = 0..S-1.

Norms. The paper asks for ||phi_V(s,a)||_2 <= 1 for every V in [0,1]^S and ||theta_star||_2 <= B. `features.norm_bound`
gives an upper bound b on the left side; when b > 1, phi is divided by b and theta and B are multiplied by it; so it is
for small b, since judgements of rank are made on the scale of 1.
`Known.unit` remembers b: features as given = unit * phi, parameters as given = theta / unit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree import features, row_sums
from horizonfree.checks import whole
from horizonfree.errors import FeatureError, KernelError, ShapeError, SimulationError
from horizonfree.row_sums import TOLERANCE

AnyArray = jax.Array | np.ndarray[Any, Any]
LONGEST = 10**6  # steps of an episode
SMALL = 0.01  # features whose norms stay below this are scaled up


class Kernel(eqx.Module):
    """Transition probabilities P(s'|s,a) of one parameter, on successor lists."""

    succ: Int[AnyArray, "S A n"]
    prob: Float[AnyArray, "S A n"]
    is_dense: bool = eqx.field(static=True)

    @property
    def num_states(self) -> int:
        """S."""
        return self.succ.shape[0]

    @property
    def num_actions(self) -> int:
        """A."""
        return self.succ.shape[1]

    def expect(self, V: Float[AnyArray, " S"]) -> Float[AnyArray, "S A"]:
        """[P V](s,a) = sum_s' P(s'|s,a) V(s'); NumPy in, NumPy out, or traced."""
        xp = _library(self.prob, V)
        V = _values(V, self.num_states, xp)
        expected: AnyArray
        expected = xp.asarray(self.prob) @ V if self.is_dense else (self.prob * V[self.succ]).sum(-1)
        return expected

    def dense(self) -> Float[np.ndarray, "S A S"]:
        """The full table, for small problems and for tests."""
        S, A, _ = self.succ.shape
        table = np.zeros((S, A, S))
        s, a = np.arange(S)[:, None, None], np.arange(A)[None, :, None]
        np.add.at(table, (s, a, np.asarray(self.succ)), np.asarray(self.prob))
        return table


class Known(eqx.Module):
    """What an explorer may know: features, horizon, start, bound. Never the truth, never a reward."""

    succ: Int[AnyArray, "S A n"]
    phi: Float[AnyArray, "S A n d"]
    horizon: int = eqx.field(static=True)
    start: int = eqx.field(static=True)
    bound: float = eqx.field(static=True)
    unit: float = eqx.field(static=True)
    is_dense: bool = eqx.field(static=True)

    @property
    def num_states(self) -> int:
        """S."""
        return self.succ.shape[0]

    @property
    def num_actions(self) -> int:
        """A."""
        return self.succ.shape[1]

    @property
    def dim(self) -> int:
        """d."""
        return self.phi.shape[3]

    @property
    def support(self) -> Bool[np.ndarray, "S A n"]:
        """Which slots some parameter can reach (padding excluded)."""
        is_reachable: Bool[np.ndarray, "S A n"] = (np.asarray(self.phi) != 0).any(axis=-1)
        return is_reachable

    def phi_V(self, V: Float[AnyArray, "*batch S"]) -> Float[AnyArray, "*batch S A d"]:
        """phi_V(s,a) = sum_s' phi(s'|s,a) V(s') for one value function or a batch; NumPy in, NumPy out, or traced."""
        S, A, _, d = self.phi.shape
        xp = _library(self.phi, V)
        V = _values(V, S, xp)
        if self.is_dense:
            table = xp.asarray(self.phi).transpose(2, 0, 1, 3).reshape(S, S * A * d)
            mixed: AnyArray = (V @ table).reshape(*V.shape[:-1], S, A, d)
        else:
            mixed = xp.einsum("...san,sand->...sad", V[..., self.succ], self.phi)
        return mixed

    def kernel(self, theta: Float[AnyArray, " d"]) -> Kernel:
        """P_theta, mixed once; NumPy in, NumPy out, or traced."""
        if np.shape(theta) != (self.dim,):
            raise ShapeError(
                f"theta has shape {np.shape(theta)}; it must be ({self.dim},), one entry per feature"
            )
        return Kernel(self.succ, self.phi @ theta, self.is_dense)


def _library(*arrays: Any) -> Any:
    """JAX as soon as one of the arrays is JAX's, traced or not; else NumPy."""
    return jnp if any(isinstance(x, jax.Array) for x in arrays) else np


def _values(V: Any, S: int, xp: Any) -> Any:
    """Value functions as an array; refuses a number of states that is not S."""
    V = xp.asarray(V)
    if V.ndim == 0 or V.shape[-1] != S:
        raise ShapeError(f"V has shape {V.shape}; its last axis must be the {S} states")
    return V


def check_kernel(kernel: Kernel, what: str = "kernel") -> None:
    """Refuse probabilities that are negative or do not sum to one, naming the first bad entry."""
    prob = np.asarray(kernel.prob)
    bad = np.argwhere(~(prob >= -TOLERANCE))
    if bad.size:
        s, a, j = bad[0]
        raise KernelError(
            f"{what}: probability of (s={s}, a={a}) -> {kernel.succ[s, a, j]} is {prob[s, a, j]:.6g}; "
            "every transition probability must be a number >= 0"
        )
    total = prob.sum(axis=-1)
    bad = np.argwhere(~(np.abs(total - 1) <= TOLERANCE))
    if bad.size:
        s, a = bad[0]
        raise KernelError(
            f"{what}: row (s={s}, a={a}) sums to {total[s, a]:.10g}; it must sum to 1 (tolerance {TOLERANCE:g})"
        )


def known_class(
    succ: Int[np.ndarray, "S A n"],
    phi: Float[np.ndarray, "S A n d"],
    is_dense: bool,
    *,
    horizon: int,
    start: int,
    bound: float,
) -> Known:
    """The known part, normalised, after the checks that need no truth."""
    S = succ.shape[0]
    horizon = whole(horizon, "horizon", 1, LONGEST, f"a number of steps, 1 to {LONGEST:,}", ShapeError)
    start = whole(start, "start", 0, S - 1, f"a state, 0 to {S - 1}", ShapeError)
    is_number = isinstance(bound, (int, float, np.integer, np.floating)) and not isinstance(bound, bool)
    if not (is_number and 0 < bound < 1e300):
        raise FeatureError(f"bound is {bound!r}; B must be a positive number with ||theta_star||_2 <= B")
    b = features.norm_bound(phi)
    unit = b if b > 1 + 1e-12 or b < SMALL else 1.0
    features.check_columns(phi)
    row_sums.check(phi, float(bound))
    return Known(succ.astype(np.int32), phi / unit, horizon, start, float(bound * unit), unit, is_dense)


def true_parameter(known: Known, theta: Float[np.ndarray, " d"], name: str) -> Float[np.ndarray, " d"]:
    """A truth in the units it was given in, as a parameter of the normalised features whose rows sum to one."""
    truth = theta * known.unit
    check_kernel(known.kernel(truth), f"P_theta of {name}")
    return row_sums.mended(np.asarray(known.phi), truth)


@dataclass(frozen=True, eq=False)
class Mixture:
    """A problem: the known class and, for simulation only, the hidden truth.

    `recipe` says how to build it again (a name and its parameters) where it has one; `layout` helps to draw it:
    "cells" [S, 2] column and row of each state on a grid, "actions" the names of the actions.
    """

    known: Known
    truth: Float[np.ndarray, " d"] | None = None
    name: str = "mixture"
    recipe: Mapping[str, Any] | None = None
    layout: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_kernels(
        cls,
        kernels: Any,
        *,
        horizon: int,
        start: int = 0,
        weights: Any = None,
        name: str = "mixture",
        layout: Mapping[str, Any] | None = None,
    ) -> "Mixture":
        """A convex mixture of d known kernels: P = sum_i w_i P_i, w in the simplex.

        kernels: array [d, S, A, S], or a sequence of d tables, each [S, A, S] or a SciPy sparse matrix [S*A, S]
        with row s*A + a. weights: the truth w, optional. phi_i = P_i / sqrt(d) and B = sqrt(d).
        """
        succ, phi, is_dense = features.from_kernels(kernels)
        d = phi.shape[-1]
        for i in range(d):
            check_kernel(Kernel(succ, phi[..., i], is_dense), f"base kernel {i}")
        phi = row_sums.divided(phi)
        known = known_class(succ, phi, is_dense, horizon=horizon, start=start, bound=1.0)
        if weights is not None:
            weights = features.vector(weights, d, "weights")
            if (weights < -TOLERANCE).any() or abs(weights.sum() - 1) > TOLERANCE:
                i = int(weights.argmin())
                raise KernelError(
                    f"weights sum to {weights.sum():.10g} and the smallest, weights[{i}], is {weights[i]:.6g}; "
                    "they must be >= 0 and sum to 1"
                )
        return cls._with_truth(known, weights, name, layout)

    @classmethod
    def from_features(
        cls,
        phi: Any,
        *,
        horizon: int,
        start: int = 0,
        bound: float,
        theta: Any = None,
        shape: tuple[int, int, int] | None = None,
        name: str = "mixture",
        layout: Mapping[str, Any] | None = None,
    ) -> "Mixture":
        """Any features phi with a bound B on the norm of the parameter; theta: the truth, optional.

        phi: array [S, A, S, d], a SciPy sparse array of that shape, or coordinates (s, a, s', i, value) as five
        arrays of one length. Sparse input never becomes a dense tensor. shape: (S, A, d) of coordinates, where their
        largest entries do not tell.
        """
        succ, packed, is_dense = features.from_features(phi, shape)
        known = known_class(succ, packed, is_dense, horizon=horizon, start=start, bound=bound)
        if theta is not None:
            theta = features.vector(theta, known.dim, "theta")
            norm = float(np.linalg.norm(theta))
            if norm > bound * (1 + TOLERANCE):
                raise FeatureError(
                    f"||theta||_2 is {norm:.6g}, above bound={bound:.6g}; raise the bound, or check theta"
                )
        return cls._with_truth(known, theta, name, layout)

    @classmethod
    def from_tabular(
        cls,
        P: Any,
        *,
        horizon: int,
        start: int = 0,
        support: Any = None,
        name: str = "tabular",
        layout: Mapping[str, Any] | None = None,
    ) -> "Mixture":
        """A tabular MDP as a mixture: one coordinate per possible transition, theta = sqrt(n) P.

        P: the true table [S, A, S], or None with support given when only the support is known. support
        [S, A, S] says which transitions are possible at all; the default is every one of them (d = S*A*S), so
        give it when you know it. B = sqrt(n * S * A), from ||P||_F <= sqrt(S * A).
        """
        succ, phi, is_dense, theta = features.from_tabular(P, support)
        S, A, _ = succ.shape
        known = known_class(succ, phi, is_dense, horizon=horizon, start=start, bound=float(np.sqrt(S * A)))
        return cls._with_truth(known, theta, name, layout)

    @classmethod
    def _with_truth(cls, known: Known, theta: Any, name: str, layout: Mapping[str, Any] | None) -> "Mixture":
        """Theta in the units it was given in; stored in the units of the normalised features."""
        truth = None if theta is None else true_parameter(known, theta, "the given truth")
        return cls(known, truth, name, None, layout or {})

    @property
    def horizon(self) -> int:
        """H, the number of steps in an episode."""
        return self.known.horizon

    @property
    def start(self) -> int:
        """s_1, the state in which every episode starts."""
        return self.known.start

    @property
    def num_states(self) -> int:
        """S."""
        return self.known.num_states

    @property
    def num_actions(self) -> int:
        """A."""
        return self.known.num_actions

    def kernel(self) -> Kernel:
        """The true transition probabilities, for simulation and scoring."""
        if self.truth is None:
            raise SimulationError(
                f"problem {self.name!r} has no truth, so it cannot simulate itself; pass weights= or theta= when "
                "you build it, or explore a real environment with known=problem"
            )
        return self.known.kernel(self.truth)

    def to_gymnasium(self, reward: Any = None) -> Any:
        """The problem as a gymnasium.Env of episodes of H steps; a reward of any form, zero without one."""
        from horizonfree.problems.to_gym import MixtureEnv

        return MixtureEnv(self, reward)
