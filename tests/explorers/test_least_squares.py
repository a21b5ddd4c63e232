"""Least squares backwards over the steps: sums, norms, invariances, ties."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import horizonfree as hf
from horizonfree.explorers.least_squares import (
    Fit,
    Sums,
    current_sums,
    greedy_random_ties,
    norms_sq,
    uniform_after,
    value_iteration,
)
from horizonfree.mdp.space import UNSEEN, Trajectory
from tests.reference import linear_explorers as literal
from tests.reference.linear_models import T_data, T_literal, T_model, random_linear


@eqx.filter_jit
def backup(model, sums, lam):
    """Q and V of an uncertainty below its cap."""
    fit = Fit.of(sums, lam)
    return value_iteration(model, fit, jnp.sqrt(norms_sq(model, fit.W)), low=0.0)


def test_the_sums_of_instance_T_are_those_of_the_evidence_step_by_step(x64):
    model = T_model()
    literal_sums, evidence = T_data(model)
    Lam = np.asarray(literal_sums.gram) + np.eye(2)
    np.testing.assert_allclose(Lam[0], [[3.703125, 0.921875], [0.921875, 1.453125]], atol=1e-12)
    pooled = current_sums(None, evidence)
    np.testing.assert_allclose(pooled.gram[0] + np.eye(2), [[5.9375, 3.0625], [3.0625, 4.9375]], atol=1e-12)
    np.testing.assert_allclose(pooled.cross[0], literal_sums.cross.sum(0), atol=1e-12)
    assert current_sums(literal_sums, evidence) is literal_sums
    for is_pooled, sums in ((False, literal_sums), (True, pooled)):
        phi, Lam, C = T_literal(1.0, is_pooled)
        Q, V = literal.backup(phi, Lam, C, literal.norms(phi, Lam), 0.0, np.inf)
        result = backup(model, sums, 1.0)
        np.testing.assert_allclose(np.swapaxes(result.Q, 1, 2), Q, rtol=0, atol=1e-12)
        np.testing.assert_allclose(result.V, V, rtol=0, atol=1e-12)


def test_a_weight_is_as_many_transitions_and_what_was_not_seen_adds_nothing(x64):
    model = T_model()
    empty = Sums.empty(model, 3)
    trajectory = Trajectory(np.int32([0, 1, 3, 3]), np.int32([0, 1, 0]), np.int32([1, UNSEEN, -1]))
    learn = eqx.filter_jit(Sums.learn)
    single = learn(empty, model, trajectory)
    assert not np.asarray(single.gram)[1:].any()
    assert not np.asarray(single.cross)[1:].any()
    np.testing.assert_allclose(single.cross[0, :, 1], model.phi[0, 0])
    repeated, weighted = learn(single, model, trajectory), learn(empty, model, trajectory, np.full(3, 2.0))
    for x, y in zip(jax.tree.leaves(repeated), jax.tree.leaves(weighted)):
        np.testing.assert_allclose(x, y, rtol=1e-15)
    pooled = learn(Sums.empty(model, 1), model, trajectory)
    np.testing.assert_allclose(pooled.gram[0], single.gram[0])


def test_norms_by_products_of_features_and_by_the_root_are_the_same(x64, monkeypatch):
    model = T_model()
    W = Fit.of(T_data(model)[0], 1.0).W
    expected = literal.norms(*T_literal(1.0, False)[:2]) ** 2
    for limit in (32, 0):
        monkeypatch.setattr(sys.modules[norms_sq.__module__], "MAX_FEATURES_FOR_PRODUCTS", limit)
        np.testing.assert_allclose(np.swapaxes(norms_sq(model, W), 1, 2), expected, rtol=1e-12)


def test_larger_features_with_a_larger_ridge_change_nothing(x64):
    """phi -> c phi, lam -> c^2 lam."""
    model = T_model()
    Q = backup(model, T_data(model)[0], 0.3).Q
    for c in (0.01, 50.0):
        scaled = eqx.tree_at(lambda x: x.phi, model, c * model.phi)
        rescaled = backup(scaled, T_data(scaled)[0], 0.3 * c**2)
        np.testing.assert_allclose(rescaled.Q, Q, rtol=1e-11)


def test_other_names_of_states_are_other_names_of_values(x64):
    model, names = T_model(), np.array([2, 0, 3, 1])
    permuted = eqx.tree_at(lambda x: x.phi, model, jnp.zeros_like(model.phi).at[names].set(model.phi))
    _, _, s, a = literal.instance()
    sums = Sums.empty(model, 3)
    for x, y in zip(names[s].astype(np.int32), a.astype(np.int32)):
        sums = sums.learn(permuted, Trajectory(x, y, x[1:]))
    V, permuted_V = backup(model, T_data(model)[0], 1.0).V, backup(permuted, sums, 1.0).V
    np.testing.assert_allclose(np.asarray(permuted_V)[:, names], V, rtol=0, atol=1e-13)


def test_mass_that_the_ridge_takes_is_one_where_nothing_was_seen_and_vanishes_with_data(x64):
    model = T_model()
    empty, sums = Sums.empty(model, 1), T_data(model)[0]
    np.testing.assert_array_equal(Fit.of(empty, 0.1).missing(model), 1.0)
    large_sums = jax.tree.map(lambda x: 1e9 * x, sums)
    np.testing.assert_allclose(Fit.of(large_sums, 0.1).missing(model), 0.0, atol=1e-8)


def test_ties_are_settled_by_lot_and_nothing_else_is(x64):
    Q = jnp.asarray(np.tile([[1.0], [2.0], [2.0], [0.0]], (50, 1, 40)))
    keys = jax.random.split(jax.random.key(0), 2)
    first, repeated, other = (np.asarray(greedy_random_ties(key, Q)) for key in (keys[0], keys[0], keys[1]))
    np.testing.assert_array_equal(first, repeated)
    assert (first != other).any()
    assert set(first.ravel()) == {1, 2}
    assert abs((first == 1).sum() - 1000) < 5 * np.sqrt(500)  # five standard deviations: below 1e-6
    np.testing.assert_array_equal(greedy_random_ties(keys[0], Q.at[:, 2].add(1e-6)), 2)


def test_a_policy_up_to_a_step_is_even_after_it(x64):
    pi = np.asarray(uniform_after(jnp.asarray([[0, 1], [1, 1], [0, 0]], jnp.int32), jnp.int32(1), 2))
    np.testing.assert_array_equal(pi, [[[1, 0], [0, 1]], [[0, 1], [0, 1]], [[0.5, 0.5], [0.5, 0.5]]])


def test_own_steps_and_pooled_ones_agree_where_there_is_one_step():
    """H = 1: the two ways to keep sums are the same regression, so the same run."""
    runs = [
        hf.explore(random_linear(H=1), "lsvi-rfe", episodes=15, steps=steps, progress=False)
        for steps in ("own", "pooled")
    ]
    for number, x in runs[0].records.items():
        np.testing.assert_allclose(x, runs[1].records[number], rtol=1e-12)
