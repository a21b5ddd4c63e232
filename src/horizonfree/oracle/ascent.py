"""The oracle by ascent: coupled sweeps over policy and reward, accepted only if the value rises.

While no cap binds and the backup is monotone, the value is convex in r and in (V_h, Vhat_h), so the tangent at
the current point is a minorant; one sweep maximises it over single-step indicators and over actions. Caps break
this, hence each move is accepted or rejected:

    move 0: reward and policy;   on failure move 1: policy only;   then move 2: reward only;
    three failures in a row: a local maximum, so the best point is changed at random and the search continues.

The search uses leaky caps (objective.cap) and a radius beta_search <= beta: while every value is capped at 1 all
policies tie, and a smaller radius tells them apart. A point whose capped value at beta is 1 is an exact maximiser;
if the best point is below 1 at beta although beta_search < beta, the search is repeated at beta.
"""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array
from horizonfree._x64 import Number
from horizonfree.oracle.objective import Prepared, Weights, adjoint, evaluate, sweep_back
from horizonfree.oracle.result import OracleResult, Point, conclude, relaxed
from horizonfree.planning.traced import TIE, nearly_best

LEAK = 0.01  # slope of the caps above 1, in the search only
MIN_RELATIVE_RISE = 1e-9  # of the value, for a move to be accepted
NUM_MOVES = 3

_T = TypeVar("_T")
_State = tuple[Array, Array, Array, Point, Array]


def ascent(
    key: Array,
    prepared: Prepared,
    beta: Number,
    beta_search: Number,
    warm: Point,
    *,
    chains: int = 3,
    sweeps: int = 20,
) -> OracleResult:
    """Maximise Vhat_1(s_1) over policies and single-step indicator rewards; traceable, one compiled call.

    Chains start at `warm` (the last answer), at the policy of the relaxed bound with r = 0, and at random policies
    with random sets at the last step. A second search, when it is needed, starts from the answer of the first.
    """
    beta, beta_search = jnp.asarray(beta, jnp.float64), jnp.asarray(beta_search, jnp.float64)

    def search(state: _State) -> _State:
        key, radius, num_used, warm, _ = state
        key, key_start, key_climb = jax.random.split(key, 3)
        points = _starts(key_start, prepared, radius, warm, chains)
        keys = jax.random.split(key_climb, chains)
        searches = jax.vmap(lambda k, x: _climb(k, prepared, radius, x, sweeps))(keys, points)
        winner = nearly_best(searches.best_value, 0).argmax()
        point = jax.tree.map(lambda x: x[winner], searches.best)
        path = evaluate(prepared, point.policy, point.reward, beta)
        is_capped = (
            prepared.space.at_start(jnp.minimum(path.raw[0], 1)) >= 1 - TIE
        )  # a mean over drawn starts is rounded
        is_exact = is_capped | (radius >= beta)
        return key, jnp.where(is_exact, radius, beta), num_used + chains * sweeps, point, is_exact

    state = (key, jnp.minimum(beta_search, beta), jnp.int32(0), warm, jnp.asarray(False))
    # A while loop, not a branch: the second search costs nothing unless it is needed, under vmap too.
    _, radius, num_used, point, _ = jax.lax.while_loop(lambda state: ~state[-1], search, state)
    return conclude(prepared, point, beta, radius, num_used, "ascent")


def next_search_radius(value: Number, beta_search: Number, beta: Number) -> Float[Array, ""]:
    """The radius for the next call: smaller while the search value is above 1, larger again below 0.7."""
    factor = jnp.where(value > 1, 0.8, jnp.where(value < 0.7, 1.15, 1.0))
    return jnp.minimum(beta, factor * beta_search)


class _Search(eqx.Module):
    """One chain: the current point with its derivatives, the best so far, and how many moves failed in a row."""

    point: Point
    value: Float[Array, ""]
    weights: Weights
    best: Point
    best_value: Float[Array, ""]
    failures: Int[Array, ""]


def _starts(key: Array, prepared: Prepared, radius: Number, warm: Point, chains: int) -> Point:
    """Starting points, stacked over chains."""
    H, S, A = prepared.space.sizes
    points = [warm, Point(relaxed(prepared, radius)[0], jnp.int32(H - 1), jnp.zeros(S, bool))]
    for key_chain in jax.random.split(key, max(chains - 2, 1)):
        key_policy, key_set = jax.random.split(key_chain)
        policy = jax.random.randint(key_policy, (H, S), 0, A, jnp.int32)
        points.append(Point(policy, jnp.int32(H - 1), jax.random.bernoulli(key_set, 0.5, (S,))))
    stacked: Point = jax.tree.map(lambda *x: jnp.stack(x), *points[:chains])
    return stacked


def _climb(key: Array, prepared: Prepared, radius: Number, start: Point, sweeps: int) -> _Search:
    """A fixed number of sweeps from one start; the first evaluates it."""
    none = jnp.zeros(start.policy.shape)
    lowest = jnp.asarray(-jnp.inf)
    search = _Search(start, lowest, Weights(none, none), start, lowest, jnp.int32(NUM_MOVES))
    keys = jax.random.split(key, sweeps)
    result: _Search = jax.lax.fori_loop(0, sweeps, lambda i, x: _move(keys[i], prepared, radius, x), search)
    return result


def _move(key: Array, prepared: Prepared, radius: Number, current: _Search) -> _Search:
    """Try the next move, or a random change of the best point after three failures; the first call evaluates the
    start."""
    is_start, is_kick = current.best_value == -jnp.inf, current.failures == NUM_MOVES
    kicked = _select(is_start, current.best, _kick(key, current.best, prepared.p.shape[1]))
    point = _select(is_kick, kicked, current.point)
    step, target = _best_reward(current.weights)
    moves_reward = (current.failures == 0) | (current.failures == 2)
    moves_policy = current.failures <= 1
    point = _select(moves_reward, Point(point.policy, step, target), point)

    # One backward pass, which moves the policy and evaluates it, and one adjoint pass.
    path = sweep_back(prepared, point.policy, point.reward, current.weights, moves_policy, radius, LEAK)
    weights = adjoint(prepared, path, radius, LEAK)
    value = prepared.space.at_start(path.raw[0])
    candidate = Point(path.policy, point.step, point.target)
    is_kept = is_kick | (value > current.value + MIN_RELATIVE_RISE * jnp.abs(current.value))
    is_best = is_start | (value > current.best_value + MIN_RELATIVE_RISE * jnp.abs(current.best_value))
    return _Search(
        _select(is_kept, candidate, current.point),
        jnp.where(is_kept, value, current.value),
        _select(is_kept, weights, current.weights),
        _select(is_best, candidate, current.best),
        jnp.where(is_best, value, current.best_value),
        jnp.where(is_kept, 0, current.failures + 1),
    )


def _best_reward(weights: Weights) -> tuple[Int[Array, ""], Bool[Array, " S"]]:
    """The single-step indicator that maximises the tangent: the positive weights of the step that has most."""
    step = nearly_best(jnp.maximum(weights.V, 0).sum(axis=1), 0).argmax().astype(jnp.int32)
    return step, weights.V[step] > 0


def _kick(key: Array, point: Point, A: int) -> Point:
    """A random change: of the set in four of five cases, of the step in two of five, of the policy in one of two."""
    H, S = point.policy.shape
    key_kind, key_state, key_entry = jax.random.split(key, 3)
    of_set, of_step, which_step, of_policy = jax.random.uniform(key_kind, (4,), jnp.float64)
    u = jax.random.uniform(key_state, (S,), jnp.float64)
    flipped = point.target ^ (u < jnp.maximum(1.5 / S, 0.1))
    kinds = [of_set < 0.5, of_set < 0.65, of_set < 0.8]
    target = jnp.select(kinds, [flipped, ~point.target, u < 0.5], point.target)

    uniform = (which_step * H).astype(jnp.int32)
    step = jnp.select([of_step < 0.6, of_step < 0.8], [point.step, jnp.int32(H - 1)], uniform)

    redrawn = 0.15  # share of the entries; a uniform number below it also picks the new action
    u = jax.random.uniform(key_entry, (H, S), jnp.float64)
    is_new = (u < redrawn) & (of_policy < 0.5)
    policy = jnp.where(is_new, (u / redrawn * A).astype(jnp.int32), point.policy)
    return Point(policy, step, target)


def _select(condition: Array, x: _T, y: _T) -> _T:
    """x or y, leaf by leaf."""
    result: _T = jax.tree.map(lambda a, b: jnp.where(condition, a, b), x, y)
    return result
