"""The search in C against its definition in JAX, and where it is called from."""

import ctypes
from functools import partial

import jax
import numpy as np
import pytest

import horizonfree as hf
from horizonfree import Mixture, oracle
from horizonfree._jit import jit
from horizonfree._x64 import to_device, to_numpy
from horizonfree.mdp.space import occupied_states
from horizonfree.native import ffi, library
from horizonfree.oracle.box import MAX_VECTORIZED_SUCCESSORS
from horizonfree.oracle.search import search, search_in_c, search_in_jax
from tests.reference.oracle_draws import HARD, draw, random_pair

pytestmark = pytest.mark.usefixtures("x64")

NUMBERS = ("value", "raw", "upper", "radius", "search_value", "sweeps")


def random_arguments(x, rng, i):
    """The arguments of a search: a random policy and set to start from; with and without a second search."""
    (policy, _), target = random_pair(rng, x.problem), rng.uniform(size=x.problem.num_states) < 0.5
    warm = oracle.Point(policy.astype(np.int32), np.array(x.problem.horizon - 1, np.int32), target)
    model, theta, *inverses = x.inputs
    radii = np.array(x.beta), np.array(x.beta * (0.5 if i % 2 else 1.0))
    return jax.random.key(i), to_device(model), *map(np.asarray, (theta,)), tuple(inverses), *radii, warm


def assert_alike(problem, warm, result, expected):
    """The same point wherever an episode can be, and the same values; elsewhere the start, and zero."""
    (x, U), (y, bound) = to_numpy((result, expected))
    is_occupied = occupied_states(problem.space)
    assert x.point.step == y.point.step
    target = is_occupied[x.point.step]
    np.testing.assert_array_equal(x.point.target[target], y.point.target[target])
    np.testing.assert_array_equal(x.point.policy[is_occupied], y.point.policy[is_occupied])
    is_never = ~np.logical_or.accumulate(is_occupied)
    np.testing.assert_array_equal(x.point.policy[is_never], warm.policy[is_never])
    np.testing.assert_allclose(x.V[:-1][is_occupied], y.V[:-1][is_occupied], atol=1e-12)
    np.testing.assert_allclose(x.V_hat[:-1][is_occupied], y.V_hat[:-1][is_occupied], atol=1e-12)
    for name in NUMBERS:
        assert getattr(x, name) == pytest.approx(getattr(y, name), rel=1e-10), name
    assert U == pytest.approx(bound, rel=1e-10)


def compare(sizes, seed, draws, sweeps=20):
    """Both searches of some draws of one shape."""
    rng = np.random.default_rng(seed)
    settings = {"chains": 3, "sweeps": sweeps}
    in_c = jit(
        partial(search, **settings), seldom_called=True
    )  # lists that are too long for C are searched in JAX
    in_jax = jit(partial(search_in_jax, **settings), seldom_called=True)
    for i in range(draws):
        x = draw(rng, sizes)
        arguments = random_arguments(x, rng, i)
        assert_alike(x.problem, arguments[-1], in_c(*arguments), in_jax(*arguments))


# (S, A, H, d, n): full factors; triangles of one block and of two; states never reached; one of everything; a drawn
# start; one step, one successor, one kernel; eight successors and twenty kernels.
SHAPES = [
    (4, 2, 4, 3, 4),
    (20, 5, 4, 7, 6),
    (12, 2, 3, 2, 2),
    (1, 1, 1, 1, 1),
    (9, 1, 12, 1, 3),
    (3, 2, 3, 2, 3, (0.5, 0.0, 0.5)),
    (17, 3, 2, 20, 8),
    (HARD, 4),
    (34, 4, 7, 2, 8, (0.2, 0.1) + (0.7 / 32,) * 32),  # a value of 1 is a mean over starts, and rounded
]


@pytest.mark.parametrize("sizes", SHAPES)
def test_the_search_in_c_finds_what_the_definition_finds(sizes):
    compare(sizes, 21, 6)


def random_shape(rng):
    """Any sizes that are built for: also one state, one action, one step, one kernel, and starts that are drawn."""
    n = int(rng.integers(1, MAX_VECTORIZED_SUCCESSORS + 1))
    S = int(rng.integers(n, 40))
    A, H, d = int(rng.integers(1, 6)), int(rng.integers(1, 9)), int(rng.choice([1, 2, 3, 5, 8, 20]))
    start = rng.dirichlet(np.full(S, 0.5)) if rng.uniform() < 0.3 else int(rng.integers(S))
    return (S, A, H, d, n, start)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_the_search_in_c_finds_what_the_definition_finds_in_any_shape(seed):
    rng = np.random.default_rng(seed)
    sizes = random_shape(rng)
    while draw(np.random.default_rng(seed), sizes).inputs[0].phi.shape[2] > MAX_VECTORIZED_SUCCESSORS:
        sizes = random_shape(rng)  # the lists of all kernels together are too long for C
    compare(sizes, seed, 3)


def test_longer_lists_are_searched_in_jax(monkeypatch):
    """ENUMERATE bounds what is built for: beyond it, the handler is not called, and would refuse."""
    rng = np.random.default_rng(3)
    x = draw(rng, (9, 2, 3, 2, MAX_VECTORIZED_SUCCESSORS + 1))
    arguments = random_arguments(x, rng, 0)
    with pytest.raises(jax.errors.JaxRuntimeError, match="other arguments expected"):
        jit(partial(search_in_c, chains=2, sweeps=3))(*arguments)
    monkeypatch.setattr(ffi, "call", None)
    result, U = jax.eval_shape(partial(search, chains=2, sweeps=3), *arguments)
    assert result.V.shape == (4, 9)
    assert U.shape == ()


def test_every_build_finds_the_same(monkeypatch):
    """The build for any processor, and the one for this."""
    loops = ctypes.CDLL(str(library.path_of("baseline")))
    jax.ffi.register_ffi_target("baseline", jax.ffi.pycapsule(loops.horizonfree_oracle), platform="cpu")
    rng, call = np.random.default_rng(5), ffi.call
    for i, sizes in enumerate([(20, 2, 6, 6, 4), (40, 9, 5, 12, 8), (30, 4, 9, 4, 7)]):
        x = draw(rng, sizes)
        arguments = random_arguments(x, rng, i)
        result = jit(partial(search_in_c, chains=3, sweeps=20))(*arguments)
        with monkeypatch.context() as patch:
            patch.setattr(ffi, "call", lambda _, *args, **sizes: call("baseline", *args, **sizes))
            other = jit(partial(search_in_c, chains=3, sweeps=20))(*arguments)
        assert_alike(x.problem, arguments[-1], other, result)


def test_it_is_called_inside_branches_loops_and_maps():
    """One search per member and turn, in a branch of a loop of a map; each as if alone."""
    rng = np.random.default_rng(7)
    x = draw(rng, (12, 2, 4, 3, 3))
    _, model, theta, inverses, beta, radius, warm = random_arguments(x, rng, 1)
    search_one = partial(search, chains=3, sweeps=8)

    @jax.jit
    def search_alone(key, warm):
        return search_one(key, model, theta, inverses, beta, radius, warm)[0].point

    @partial(jax.jit, donate_argnums=1)
    def looped(keys, warms):
        def turn(i, pair):
            key, point = pair
            return key, jax.lax.cond(i % 2 == 1, lambda: search_alone(key, point), lambda: point)

        return jax.vmap(lambda *pair: jax.lax.fori_loop(0, 4, turn, pair)[1])(keys, warms)

    keys = jax.random.split(jax.random.key(3), 3)
    warms = to_device(jax.tree.map(lambda x: np.stack([x] * 3), warm))
    results = to_numpy(looped(keys, warms))
    for i in range(3):
        expected = to_numpy(search_alone(keys[i], search_alone(keys[i], warm)))
        np.testing.assert_array_equal(results.policy[i], expected.policy)
        np.testing.assert_array_equal(results.target[i], expected.target)
        assert results.step[i] == expected.step


def test_a_state_that_no_reward_can_reach_is_left_alone():
    """One state that leads to itself, and one that nothing leads to."""
    kernels = np.zeros((1, 2, 1, 2))
    kernels[:, [0, 1], 0, [0, 1]] = 1
    problem = Mixture.from_kernels(kernels, horizon=3, weights=[1.0])
    assert hf.explore(problem, "hf-ucrl-rfe++", episodes=3, progress=False).episodes == 3
