"""FORCE: Catoni's mean, and its optimism and weights against plain loops."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import horizonfree as hf
from horizonfree.explorers import force
from horizonfree.explorers.force import Memory, Terms
from tests.reference import linear_explorers as literal
from tests.reference.linear_models import T_model, episode, random_linear

# As one program each: outside of one, every call of a loop is traced anew.
catoni, optimism, precisions = map(eqx.filter_jit, (force.catoni, force.optimism, force.precisions))


def mean(X, a, weights=None):
    X = jnp.asarray(X, float)
    return float(
        catoni(X, jnp.ones(X.shape, bool) if weights is None else jnp.asarray(weights), jnp.asarray(a))
    )


@pytest.mark.parametrize(
    ("a", "expected"), [(0.01, 3.364337655292), (1.0, 2.247355164338), (10.0, 0.902517328512)]
)
def test_catoni_s_mean_as_printed(a, expected, x64):
    assert mean([0.0, 0.0, 10.0], a) == pytest.approx(expected, abs=1e-11)
    assert literal.catoni([0.0, 0.0, 10.0], a) == pytest.approx(expected, abs=1e-11)


def test_catoni_s_mean_of_two_is_their_middle_and_for_small_a_the_mean(x64):
    for a in (1e-3, 1.0, 1e3):
        assert mean([0.0, 1.0], a) == pytest.approx(0.5, abs=1e-12)
    assert mean([0.0, 0.0, 10.0], 1e-7) == pytest.approx(10 / 3, abs=1e-5)
    assert mean([4.0, 99.0, 4.0], 1.0, [True, False, True]) == 4.0
    assert mean([1.0, 2.0], 1.0, [False, False]) == 0.0
    assert mean([-1.0, -2.0, -9.0], 0.3) == pytest.approx(-mean([1.0, 2.0, 9.0], 0.3), abs=1e-12)


def test_its_values_and_weights_agree_with_plain_loops(x64):
    """Twelve episodes: L = 6.9, so that weights are 2H^2 in the first six and by Catoni's means after."""
    K = 1.0
    model, (phi, _, _, _) = T_model(), literal.instance()
    terms = Terms.of(model, jnp.asarray(K), 0.5)
    literal_force = literal.Force(phi, 3, K, 0.5)
    assert float(terms.beta) == pytest.approx(literal_force.beta, rel=1e-14)
    memory, rng, num_changes = Memory.empty(model, 12), np.random.default_rng(0), 0
    reward = rng.random((4, 2))
    for k in range(12):
        Q, V = optimism(model, memory, terms, jnp.asarray(reward.T), jnp.int32(2), 1e-3)
        expected, printed_V = literal_force.optimism(reward, 2, 1e-3)
        np.testing.assert_allclose(np.swapaxes(Q, 1, 2), expected, rtol=0, atol=1e-9)
        memory = Memory(memory.s, memory.a, memory.s_next, memory.precision, V)
        s, a = rng.integers(0, 4, 4), rng.integers(0, 2, 3)
        precision = precisions(model, memory, terms, episode(s, a))
        memory = memory.append(model, episode(s, a), jnp.int32(k), precision)
        literal_force.learn(s, a, printed_V)
        np.testing.assert_allclose(precision, [1 / x[-1][2] for x in literal_force.past], rtol=1e-9)
        num_changes += not np.allclose(precision, 1 / 18)
    assert num_changes == 6
    full = memory.append(model, episode(s, a), jnp.int32(12), precision)
    np.testing.assert_array_equal(full.precision, memory.precision)  # no room: nothing is overwritten


def test_a_run_with_force_is_stored_and_goes_on_to_the_same_bits(tmp_path):
    options = {"regmin": "force", "budget": 12, "bonus_scale": 1e-3}
    uninterrupted = hf.explore(random_linear(), "rflin", episodes=12, progress=False, **options)
    half = hf.explore(random_linear(), "rflin", episodes=5, progress=False, **options)
    half.save(tmp_path / "a")
    resumed = hf.load(tmp_path / "a").resume(episodes=7, progress=False)
    for resumed_leaf, leaf in zip(
        jax.tree.leaves(resumed.progress), jax.tree.leaves(uninterrupted.progress), strict=True
    ):
        np.testing.assert_array_equal(resumed_leaf, leaf)
    batch = hf.explore_many(random_linear(), "rflin", episodes=12, seeds=[0], progress=False, **options)
    np.testing.assert_array_equal(batch.progress.evidence.counts[0], uninterrupted.evidence.counts)
