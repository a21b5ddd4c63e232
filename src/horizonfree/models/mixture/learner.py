"""The traced part of the class: evidence after each episode, the predictors of the next one, and optimal design.

Evidence: evidence.py has the mathematics. The loss of an episode is that of predictors fixed before it.

Predictors: regularised estimates of theta, a few Newton steps per episode (likelihood.py has the same in NumPy).

    theta = center + Z y,   p_r(y) = <x_r, theta>,   f(y) = - sum_r c_r log p_r(y),   c = N + a pseudo-count a row

Only rows that are free (ValidSet.free) matter: any other reachable row has a known probability. f is strictly convex
and infinite on the boundary, so every iterate is a valid parameter with positive probabilities, however few steps are
taken. There are two pseudo-counts: a half per free row, which is best where rows are few, and q/2 for all rows
together, which is best where there are many more rows than unknowns.

Optimal design: how much one more episode can teach at most, one dynamic programme. F is the information of the data,
G(s,a) = sum_s' z z'/P_theta(s') that of one transition, z the features along the q directions that can be learnt.
E tr(F^-1 G) <= T for every policy, and no design of K episodes has T < q/K (Kiefer and Wolfowitz 1960, "The
equivalence of two extremum problems").
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array
from horizonfree.guarantees.e_processes import EProcesses, check_e_processes
from horizonfree.mdp.space import UNSEEN, Space, Trajectory
from horizonfree.models.mixture.evidence import BLOCKS, STARTS, MixtureEvidence, Record
from horizonfree.models.mixture.likelihood import KT_PSEUDO_COUNT, MAX_BOUNDARY_SHARE, PREDICTOR_STEPS
from horizonfree.models.mixture.valid import ValidSet
from horizonfree.native import ffi
from horizonfree.planning.traced import TIE, stationary_jax, take
from horizonfree.planning.traced import allowed_actions as allowed_actions

MAX_UNROLLED_TERMS = 16  # up to which XLA is faster with a sum written out
MAX_WORK_PER_EPISODE = (
    10**5
)  # R q^2, what a Newton step costs, above which predictors are trained on a schedule
SCHEDULE_GROWTH = 1.02  # of the episodes, between two fits of it
MAX_DENSE_ROWS = 10_000  # rows: with more, an episode updates only the rows that it showed
# Products of probabilities and values in a backward pass, from which on C is faster than XLA.
MIN_NATIVE_WORK = 2**21
SAFE_DECREASE = 0.25  # of a probability: a Newton step that takes less is the best of its line

Best = tuple[Int[Array, "H S"], Float[Array, " S"]]  # a policy and V_1


class Coordinates(NamedTuple):
    """Theta seen from y: z_r = Z'x_r, and p_r at the centre; rows that are not free have z = 0."""

    z: Float[Array, "q R"]
    p_center: Float[Array, " R"]
    basis: Float[Array, "d q"]
    center: Float[Array, " d"]

    def p(self, y: Float[Array, " q"]) -> Float[Array, " R"]:
        """p_r(y)."""
        return self.p_center + y @ self.z

    def theta(self, y: Float[Array, " q"]) -> Float[Array, " d"]:
        """The parameter with coordinates y."""
        return self.center + self.basis @ y

    def y(self, theta: Float[Array, " d"]) -> Float[Array, " q"]:
        """The coordinates of a parameter."""
        return self.basis.T @ (theta - self.center)


def coordinates(valid: ValidSet) -> Coordinates:
    """Theta in the coordinates y; traceable."""
    rows, basis, center = valid.rows, valid.basis, valid.center
    return Coordinates(jnp.where(valid.free, basis.T @ rows.T, 0.0), rows @ center, basis, center)


def at_slots(x: Float[Array, " R"], row_of: Int[Array, "S A n"]) -> Float[Array, "S A n"]:
    """Each slot's entry of an array over rows; zero for padding."""
    return take(jnp.append(x, 0.0), row_of)


def gram(z: Float[Array, "q R"], weight: Float[Array, " R"]) -> Float[Array, "q q"]:
    """sum_r weight_r z_r z_r'. Of many rows one direction at a time: so no product of all is kept."""
    if z.shape[1] > MAX_DENSE_ROWS and z.shape[0] <= MAX_UNROLLED_TERMS:
        return jnp.stack([z @ (weight * direction) for direction in z])
    return (z * weight) @ z.T


def whiten(F: Float[Array, "q q"], z: Float[Array, "q R"]) -> Float[Array, "q R"]:
    """F^(-1/2) z_r up to a rotation: their norms are ||z_r|| in F^-1. Scaled to a unit diagonal first."""
    scale = jnp.sqrt(jnp.diagonal(F))
    factor = jnp.linalg.cholesky(F / (scale[:, None] * scale[None, :]))
    half = jax.scipy.linalg.solve_triangular(factor, jnp.diag(1 / scale), lower=True)
    return half @ z


def solve(matrix: Float[Array, "q q"], b: Float[Array, " q"]) -> Float[Array, " q"]:
    """The solution of a positive definite system, scaled to a unit diagonal first; zero where it fails."""
    scale = jnp.sqrt(jnp.diagonal(matrix))
    factor = jax.scipy.linalg.cho_factor(matrix / (scale[:, None] * scale[None, :]))
    x = jax.scipy.linalg.cho_solve(factor, b / scale) / scale
    return jnp.where(jnp.isfinite(x).all(), x, 0.0)


class _Transitions(NamedTuple):
    """The transitions of an episode: pair, slot, feature row (R where there is none).

    `is_slot`: the state that came is in the list of successors; `is_possible`: some parameter explains it.
    """

    s: Int[Array, " H"]
    a: Int[Array, " H"]
    j: Int[Array, " H"]
    row: Int[Array, " H"]
    p: Float[Array, "H 2"]  # under the predictors
    is_slot: Bool[Array, " H"]
    is_possible: Bool[Array, " H"]


def init_evidence(valid: ValidSet, bets: EProcesses, *, has_history: bool = False) -> MixtureEvidence:
    """No episodes yet; the first prediction is the centre of Theta."""
    check_e_processes(bets)
    R, J = valid.rows.shape[0], len(bets.starts)
    return MixtureEvidence(
        counts=jnp.zeros(valid.row_of.shape, jnp.int32),
        row_counts=jnp.zeros(R, jnp.int32),
        since=jnp.zeros((J, R), jnp.int32),
        losses=jnp.zeros((J, 2), jnp.float64),
        starts=jnp.asarray(bets.starts, jnp.int32),
        weights=jnp.asarray(bets.weights, jnp.float64),
        thetas=jnp.tile(jnp.asarray(valid.center, jnp.float64), (2, 1)),
        episodes=jnp.int32(0),
        impossible=jnp.int32(0),
        table_loss=jnp.zeros((), jnp.float64),
        record=init_record(valid) if has_history else None,
    )


def update(valid: ValidSet, evidence: MixtureEvidence, trajectory: Trajectory) -> MixtureEvidence:
    """Evidence after one more episode; traceable.

    The loss of the episode is that of the predictors fixed before it; only then are they trained on it.
    A slot j outside 0..n-1, or of padding, stands for a transition that the class calls impossible; steps that were not
    seen count for nothing, since what is e-process on is decided step by step.
    """
    R, n = valid.rows.shape[0], valid.row_of.shape[2]
    seen = _read_transitions(valid, evidence, trajectory)
    is_on = evidence.episodes >= evidence.starts
    row_counts, since = _count_rows(evidence, is_on, jnp.where(seen.is_possible, seen.row, R))
    is_seen = seen.j != UNSEEN
    record = evidence.record
    if record is not None:
        record = update_record(record, evidence.episodes, seen.s, seen.a, seen.row, is_seen)
    return MixtureEvidence(
        counts=evidence.counts.at[seen.s, seen.a, jnp.where(seen.is_slot, seen.j, n)].add(1, mode="drop"),
        row_counts=row_counts,
        since=since,
        losses=evidence.losses - is_on[:, None] * _log_of(seen.p, seen.is_possible[:, None]),
        starts=evidence.starts,
        weights=evidence.weights,
        thetas=_train_predictors(valid, row_counts, evidence),
        episodes=evidence.episodes + 1,
        impossible=evidence.impossible + (~seen.is_possible & is_seen).sum(dtype=jnp.int32),
        table_loss=evidence.table_loss - _log_of(_by_table(valid, evidence, seen), seen.is_possible),
        record=record,
    )


def _count_rows(
    evidence: MixtureEvidence, is_on: Bool[Array, " J"], row: Int[Array, " H"]
) -> tuple[Int[Array, " R"], Int[Array, "J R"]]:
    """`row_counts` and `since` after an episode; R counts for nothing. Many rows are not gone through for its sake."""
    R = evidence.row_counts.shape[0]
    if R > MAX_DENSE_ROWS:
        on = is_on[:, None].astype(jnp.int32)
        return evidence.row_counts.at[row].add(1, mode="drop"), evidence.since.at[:, row].add(on, mode="drop")
    counted = jnp.zeros(R, jnp.int32).at[row].add(1, mode="drop")
    return evidence.row_counts + counted, evidence.since + is_on[:, None] * counted


def _train_predictors(
    valid: ValidSet, row_counts: Int[Array, " R"], evidence: MixtureEvidence
) -> Float[Array, "2 d"]:
    """The predictors for the next episode. Where a fit costs much it is made on a schedule; any schedule is fair."""
    if valid.rows.shape[0] * valid.num_free**2 <= MAX_WORK_PER_EPISODE:
        return predict(valid, row_counts, evidence.thetas)
    stage = jnp.floor(jnp.log(evidence.episodes + jnp.arange(1.0, 3.0)) / jnp.log(SCHEDULE_GROWTH))
    is_due = stage[1] > stage[0]
    trained: Array = jax.lax.cond(
        is_due, lambda: predict(valid, row_counts, evidence.thetas), lambda: evidence.thetas
    )
    return trained


def _read_transitions(valid: ValidSet, evidence: MixtureEvidence, trajectory: Trajectory) -> _Transitions:
    """The transitions of an episode, as the class and its predictors see them.

    A row is possible if some parameter gives it more than nothing, however little.
    """
    R, n = valid.rows.shape[0], valid.row_of.shape[2]
    s, a, j = trajectory.s[:-1], trajectory.a, trajectory.j
    is_slot = (j >= 0) & (j < n)
    row = jnp.where(is_slot, take(valid.row_of, (s, a, jnp.where(is_slot, j, 0))), R)
    if R > MAX_DENSE_ROWS:
        p = jnp.where(row[:, None] < R, take(valid.rows, jnp.minimum(row, R - 1)) @ evidence.thetas.T, 0.0)
    else:
        p = take(jnp.concatenate([valid.rows @ evidence.thetas.T, jnp.zeros((1, 2))]), row)
    is_possible = (p > 0).all(-1) & take(jnp.append(valid.positive, False), row)
    return _Transitions(s, a, j, row, p, is_slot, is_possible)


def _by_table(valid: ValidSet, evidence: MixtureEvidence, seen: _Transitions) -> Float[Array, " H"]:
    """What the table of frequencies of the episodes before gave each transition."""
    before = take(evidence.counts, (seen.s, seen.a))
    slots = (take(valid.row_of, (seen.s, seen.a)) < valid.rows.shape[0]).sum(-1)
    at_slot = jnp.take_along_axis(before, jnp.where(seen.is_slot, seen.j, 0)[:, None], axis=1)[:, 0]
    return (at_slot + KT_PSEUDO_COUNT) / (before.sum(-1) + KT_PSEUDO_COUNT * slots)


def _log_of(p: Float[Array, "H *i"], is_possible: Bool[Array, "H *one"]) -> Float[Array, "*i"]:
    """The logarithm of the likelihood of what was possible."""
    return jnp.log(jnp.where(is_possible, p, 1.0)).sum(0)


def init_record(valid: ValidSet) -> Record:
    """Before the first episode."""
    S, A, _ = valid.row_of.shape
    return Record(jnp.zeros((BLOCKS, valid.rows.shape[0]), jnp.int32), jnp.zeros((BLOCKS, S, A), jnp.int32))


def update_record(
    record: Record,
    episode: Int[Array, ""],
    s: Int[Array, " H"],
    a: Int[Array, " H"],
    row: Int[Array, " H"],
    is_seen: Bool[Array, " H"],
) -> Record:
    """The record after one more episode, the one after so many; traceable. row: R where the class lists none."""
    block = (jnp.asarray(STARTS) <= episode).sum(dtype=jnp.int32) - 1
    rows = record.rows.at[block, row].add(1, mode="drop")
    visits = record.visits.at[block, jnp.where(is_seen, s, record.visits.shape[1]), a].add(1, mode="drop")
    return Record(rows, visits)


def pseudo_counts(valid: ValidSet) -> Float[Array, " 2"]:
    """Pseudo-counts per free row of the two predictors: 1/2, and min(1/2, q/(2 R)) for R free rows; traceable."""
    return jnp.stack(
        [
            jnp.asarray(KT_PSEUDO_COUNT),
            jnp.minimum(KT_PSEUDO_COUNT, KT_PSEUDO_COUNT * valid.num_free / valid.free.sum()),
        ]
    )


def predict(valid: ValidSet, counts: Int[Array, " R"], thetas: Float[Array, "2 d"]) -> Float[Array, "2 d"]:
    """The two predictors for the next episode, a few Newton steps from the previous ones; traceable.

    They are inside Theta after any number of steps, which is all that an e-process needs. `likelihood.predict` is the
    same in NumPy.
    """
    if valid.num_free == 0:
        return thetas
    coords = coordinates(valid)

    def one(pseudo: Array, theta: Array) -> Array:
        c = jnp.where(valid.free, counts + pseudo, 0.0)
        return coords.theta(
            jax.lax.fori_loop(0, PREDICTOR_STEPS, lambda _, y: _newton(coords, c, y)[0], coords.y(theta))
        )

    if counts.shape[0] > MAX_DENSE_ROWS:  # side by side both would search for their steps as long as one must
        result: Array = jax.lax.map(lambda x: one(*x), (pseudo_counts(valid), thetas))
        return result
    return jax.vmap(one)(pseudo_counts(valid), thetas)


def _newton(
    coords: Coordinates, c: Float[Array, " R"], y: Float[Array, " q"]
) -> tuple[Float[Array, " q"], Float[Array, ""]]:
    """One Newton step on f with a line search, and the decrement before it. Never leaves p > 0.

    `likelihood._newton` is the same in NumPy. With many rows a whole step that takes from no row more than a share
    m = SAFE_DECREASE of its p is not compared with half of it: along the step f' <= D (-1 + t / (1 - m t)), D =
    dy'Hessian dy, and from t = 1/2 to 1 that is -0.03 D in all.
    """
    p = jnp.where(c > 0, coords.p(y), 1.0)
    w = c / p
    grad = -(coords.z @ w)
    Hessian = gram(coords.z, w / p)
    dy = solve(Hessian, -grad)
    x = dy @ coords.z / p  # relative change of each probability
    max_step = MAX_BOUNDARY_SHARE / jnp.maximum(-x.min(), MAX_BOUNDARY_SHARE)  # at most 1

    def search() -> tuple[Array, Array]:
        return _best_step(c, x, max_step * 0.5 ** jnp.arange(8.0))

    if x.shape[0] <= MAX_DENSE_ROWS:
        t, change = search()
    else:
        whole = jnp.array(1.0), jnp.array(-1.0)
        t, change = jax.lax.cond(x.min() >= -SAFE_DECREASE, lambda: whole, search)
    y_next = y + t * dy
    is_better = (change < 0) & (jnp.where(c > 0, coords.p(y_next), 1.0) > 0).all()
    return jnp.where(is_better, y_next, y), jnp.where(is_better, jnp.maximum(-grad @ dy, 0.0), 0.0)


def _best_step(
    c: Float[Array, " R"], x: Float[Array, " R"], t: Float[Array, " T"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The step length, among successive halves, at which f is smallest, and the change of f there.

    f is convex: where the first is no worse than the second, it is the best of all. With many rows that is tested
    first.
    """

    def best_of(t: Array) -> tuple[Array, Array]:
        change = -(c * jnp.log1p(t[:, None] * x)).sum(-1)
        best = jnp.argmin(change)
        return t[best], change[best]

    if x.shape[0] <= MAX_DENSE_ROWS:
        return best_of(t)
    first = best_of(t[:2])
    best: tuple[Array, Array] = jax.lax.cond(first[0] == t[0], lambda: first, lambda: best_of(t))
    return best


def design(
    space: Space, valid: ValidSet, counts: Int[Array, " R"], theta: Float[Array, " d"]
) -> tuple[Int[Array, "H S"], Float[Array, ""]]:
    """argmax and max over policies of T = E sum_h tr(F^-1 G(s_h, a_h)); traceable.

    F holds pseudo-counts beside the data, those of the second predictor: as many as half of the unknowns.
    """
    coords = coordinates(valid)
    p = coords.p(coords.y(theta))
    p_free = jnp.where(valid.free, p, 1.0)
    F = gram(coords.z, known_of(valid, counts) / p_free**2)
    promise = (whiten(F, coords.z) ** 2).sum(0) / p_free  # tr(F^-1 z z') / p of one slot
    rows = space, valid.row_of, p, promise
    if space.is_dense or space.horizon * space.succ.size <= MIN_NATIVE_WORK or not ffi.is_available():
        policy, V = best_in_jax(*rows)
    else:
        policy, V = jax.lax.platform_dependent(*rows, cpu=best_in_c, default=best_in_jax)
    return policy, space.at_start(V)


def best_in_jax(
    space: Space, row_of: Int[Array, "S A n"], p: Float[Array, " R"], promise: Float[Array, " R"]
) -> Best:
    """The policy of the largest sum of promises, in the kernel of the probabilities p of rows."""
    kernel = space.kernel(at_slots(p, row_of))
    gain = at_slots(promise, row_of).sum(-1) * space.reachable[:, None]
    return stationary_jax(kernel, gain, space.horizon, TIE)


def best_in_c(
    space: Space, row_of: Int[Array, "S A n"], p: Float[Array, " R"], promise: Float[Array, " R"]
) -> Best:
    """`best_in_jax` on CPUs, with V_1 up to rounding (native/design.c)."""
    S = space.num_states
    struct: Any = jax.ShapeDtypeStruct  # untyped
    results = struct((space.horizon, S), np.int32), struct((S,), np.float64)
    result: Best = ffi.call("horizonfree_design", results, space.succ, row_of, space.reachable, p, promise)
    return result


def known_of(valid: ValidSet, counts: Int[Array, " R"]) -> Float[Array, " R"]:
    """How often each row counts as seen: pseudo-counts beside the data, but none for virtual rows; traceable."""
    return jnp.where(valid.virtual, 0.0, counts + pseudo_counts(valid)[1])
