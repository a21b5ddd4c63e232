"""From divergence to value by a hinge: how much less likely than the estimate a parameter can make trajectories.

With t = log(dP_theta / dP~) on the trajectories of a policy, P~ the estimate's without what was left out,

    J(b; u) = max over pi of E_{P~} (b - t)^+,      eps = min over b of 1 - (1 - rho) exp(b - 2 J(b) / (1 - rho)),

rho = 2 hit. J is convex in u, so over a polytope it is largest at a vertex. As policies may remember what they saw, y,
what is left of b, is part of the state: with l = - log(1 + x) - log(1 - m), x the relative change of the row, m the
mass left out,

    J_h(s, y) = max_a sum_s' p/(1 - m) J_{h+1}(s', y + l),      J_H(s, y) = y^+,      y^+ at the bad set.

J is convex in y with slopes in [0, 1]: on a grid, chords between the points, J(-Y) before the first and J(Y) + y - Y
after the last are bounds from above. docs/certificates.md has the proofs.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree.guarantees.divergence import RowDivergence
from horizonfree.mdp.space import Space, occupied_states
from horizonfree.models.mixture.ellipsoid import Ellipsoid
from horizonfree.models.mixture.valid import ValidSet
from horizonfree.native import library

GRID_POINTS = 161  # of the grid of y; odd, so that 0 is one of them
GRID_DEVIATIONS = 4.0  # of t that the grid reaches to, about: sqrt(2 kappa) each
TANGENT_SLOPES = np.geomspace(1.001, 1e5, 200)  # slopes tried in `by_divergence`


@dataclass(frozen=True)
class Hinge:
    """P~ until the bad set, with Z u the relative changes of its rows; `charge` is - log(1 - m)."""

    succ: Int[np.ndarray, "S A n"]
    prob: Float[np.ndarray, "S A n"]
    row_of: Int[np.ndarray, "S A n"]
    charge: Float[np.ndarray, "S A"]
    stop: Bool[np.ndarray, "S A"]
    occupied: Bool[np.ndarray, "H S"]
    initial: Float[np.ndarray, " S"]
    Z: Float[np.ndarray, "R q"]
    y: Float[np.ndarray, " N"]

    def curves(self, u: Float[np.ndarray, "m q"]) -> Float[np.ndarray, "m N"]:
        """J(y; u) at every point, from above; infinite where p_theta is not positive on a row that matters."""
        x = u @ self.Z.T
        is_finite = (x > -1).all(1)
        logs = np.zeros((is_finite.sum(), len(self.Z) + 1))  # the last is that of padding
        logs[:, :-1] = np.log1p(x[is_finite])
        J = np.full((len(u), len(self.y)), np.inf)
        compiled = _compiled()
        J[is_finite] = [self.programme(x) if compiled is None else compiled(self, x) for x in logs]
        return J

    def programme(self, logs: Float[np.ndarray, " R1"]) -> Float[np.ndarray, " N"]:
        """J(y) for the point whose rows have log(1 + x) = logs, 0 for padding; native/hinge.c is a faster twin."""
        y, prob = self.y, self.prob[..., None]
        end = np.maximum(y, 0.0)
        gap, last = y[1] - y[0], len(y) - 1
        at = np.arange(len(y)) + ((self.charge[..., None] - logs[self.row_of]) / gap)[..., None]
        near = np.clip(np.floor(at), 0, last - 1).astype(int)
        part = np.clip(at, 0, last) - near
        left, right = prob * (1 - part), prob * part
        beyond = (prob * gap * np.maximum(at - last, 0.0)).sum(2)  # slope 1 after the last point
        after, succ = np.tile(end, (len(self.succ), 1)), self.succ[..., None]
        for _ in range(len(self.occupied) - 1):
            Q = (left * after[succ, near] + right * after[succ, near + 1]).sum(2) + beyond
            after = np.where(self.stop[..., None], end, Q).max(1)
        return np.asarray(self.initial @ after)

    def at_most(self, kappa: float) -> Float[np.ndarray, " N"]:
        """J(y; u) where only kappa(u) is known; infinite where something was left out.

        Then p_u may have more than 1 in all on the rows kept, for u outside Theta.
        """
        return np.full(len(self.y), np.inf) if self.charge.any() else by_divergence(self.y, kappa)


_ARRAYS = "succ row_of prob charge stop occupied initial y".split()


class _Lists(ctypes.Structure):
    """`Hinge` of native/hinge.c."""

    _fields_ = [
        *[(name, ctypes.c_int64) for name in "S A n H N".split()],
        *[(name, ctypes.c_void_p) for name in _ARRAYS],
    ]


@cache
def _compiled() -> Callable[[Hinge, Float[np.ndarray, " R1"]], Float[np.ndarray, " N"]] | None:
    """`Hinge.programme` in C; None without a compiler."""
    loaded = library.load()
    if loaded is None:
        return None
    function, pointer = loaded[0].horizonfree_hinge, ctypes.c_void_p
    function.argtypes, function.restype = [ctypes.POINTER(_Lists), pointer, pointer, pointer], None

    def programme(x: Hinge, logs: np.ndarray) -> np.ndarray:
        (S, A, n), N = x.succ.shape, len(x.y)
        arrays = [np.ascontiguousarray(getattr(x, name)) for name in _ARRAYS]
        lists = _Lists(S, A, n, len(x.occupied), N, *(array.ctypes.data for array in arrays))
        logs, J, scratch = np.ascontiguousarray(logs), np.empty(N), np.empty(S * A * n + (2 * S + 2) * N)
        function(lists, logs.ctypes.data, J.ctypes.data, scratch.ctypes.data)
        return J

    return programme


def hinge(
    space: Space,
    valid: ValidSet,
    ball: Ellipsoid,
    step: RowDivergence,
    stop: Bool[np.ndarray, "S A"],
    matters: Bool[np.ndarray, " R"],
    kappa: float,
) -> Hinge:
    """The programme of a bad set; `matters`: the free rows that are kept outside it. kappa > 0 sets the grid."""
    free, row_of, p = np.asarray(valid.free), np.asarray(valid.row_of), np.asarray(ball.p)
    kept = np.append(matters | ~free, False)[row_of] & ~stop[..., None]
    leak = np.where(stop, 0.0, np.asarray(step.leak))
    reach = GRID_DEVIATIONS * np.sqrt(2 * kappa) + 2 * kappa
    is_start = np.arange(space.num_states) == space.start
    start = is_start.astype(np.float64) if space.initial is None else np.asarray(space.initial)
    return Hinge(
        succ=np.asarray(space.succ).astype(np.int32),
        prob=np.where(kept, np.asarray(step.kernel.prob) / (1 - leak[..., None]), 0.0),
        row_of=row_of.astype(np.int32),
        charge=-np.log1p(-leak),
        stop=stop,
        occupied=occupied_states(space),
        initial=start,
        Z=np.where(matters[:, None], np.asarray(ball.z) / np.where(matters, p, 1.0)[:, None], 0.0),
        y=reach * np.linspace(-1.0, 1.0, GRID_POINTS),
    )


def gaps(y: Float[np.ndarray, " N"], J: Float[np.ndarray, " N"], hit: float) -> Float[np.ndarray, " N"]:
    """1 - (1 - rho) exp(b - 2 J(b) / (1 - rho)) for every b of y: each bounds what a plan loses. Needs rho < 1."""
    rho = 2 * hit
    return rho - (1 - rho) * np.expm1(y - 2 * J / (1 - rho))


def by_divergence(y: Float[np.ndarray, " N"], kappa: float) -> Float[np.ndarray, " N"]:
    """J where only kappa is known, from above: E (b - t)^+ for any t with E e^t <= 1 and E (-t) <= kappa.

    For beta > 1 and c = b + 1 + (beta - 1) log(1 - 1/beta) the convex function beta (c - 1 - t + e^(t - c)) has the
    tangents 0 at c and b - t at c + log(1 - 1/beta): it is at least (b - t)^+. Its mean is beta (c - 1 + kappa +
    e^-c) at most. Where c < 0 a larger b, with c = 0, gives less.
    """
    c = np.maximum(y[:, None] + (1 + (TANGENT_SLOPES - 1) * np.log1p(-1 / TANGENT_SLOPES)), 0.0)
    return np.asarray((TANGENT_SLOPES * (c + np.expm1(-c) + kappa)).min(1))
