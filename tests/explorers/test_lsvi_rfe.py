"""The reconstruction of LSVI-RFE: numbers by hand, plain loops, and weights between 1 and H."""

import equinox as eqx
import jax
import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import OptionError
from horizonfree.explorers.lsvi_rfe import LSVIRFE
from horizonfree.explorers.registry import EXPLORERS, label
from tests.reference import linear_explorers as literal
from tests.reference.episodes import follow
from tests.reference.linear_models import T_data, T_literal, T_model, attains, random_linear

V_2 = [0.947053496669, 0.834819946340, 0.751328903896, 0.795592505508]


def test_it_says_that_it_is_a_reconstruction():
    assert EXPLORERS["lsvi-rfe"].is_reconstruction
    assert label("lsvi-rfe") == "lsvi-rfe (reconstruction)"
    assert "reconstruction" in EXPLORERS["lsvi-rfe"].about


def test_the_numbers_of_instance_T(x64):
    """Data without weights as both statistics: sigma^2 = variance + doubt of step 1 at (0, 1)."""
    model, explorer = T_model(), LSVIRFE(steps="own")
    sums, evidence = T_data(model)
    state = eqx.tree_at(lambda x: (x.weighted, x.sums), explorer.init(model), (sums, sums))
    choice = explorer.choose(jax.random.key(0), model, state, evidence)
    assert float(choice.sigma_sq[0, 1, 0]) == pytest.approx(0.716747655302, abs=1e-9)
    assert 0.145904358971 + 0.570843296331 == pytest.approx(0.716747655302, abs=1e-11)
    phi, Lam, C = T_literal(1.0, False)
    Q, V, sigma_sq = literal.lsvi_rfe(phi, Lam, C, Lam, C)
    np.testing.assert_allclose(V[1], V_2, rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.swapaxes(choice.sigma_sq, 1, 2), sigma_sq, rtol=0, atol=1e-9)
    attains(choice.policy, Q)


@pytest.mark.parametrize("steps", ["own", "pooled"])
def test_twenty_episodes_agree_with_plain_loops(steps):
    problem, explorer, is_pooled = random_linear(), LSVIRFE(steps=steps), steps == "pooled"
    phi, H = np.asarray(problem.model.phi), problem.horizon
    weighted, unweighted = literal.Data(phi, H), literal.Data(phi, H)
    heaviest = 1.0
    for state, trajectory, updated in follow(problem, explorer, 20, gathers=True):
        Q, V, sigma_sq = literal.lsvi_rfe(
            phi, *weighted.tables(1.0, is_pooled), *unweighted.tables(1.0, is_pooled)
        )
        assert float(state.value) == pytest.approx(V[0, 1], abs=1e-9)
        attains(state.policy, Q)
        np.testing.assert_allclose(np.swapaxes(state.sigma_sq, 1, 2), sigma_sq, rtol=0, atol=1e-9)
        weight = 1 / sigma_sq[range(H), trajectory.s[:-1], trajectory.a]
        heaviest = max(heaviest, weight.max())
        weighted.add(trajectory.s, trajectory.a, weight)
        unweighted.add(trajectory.s, trajectory.a)
        np.testing.assert_allclose(updated.weighted.gram.sum(0), weighted.gram.sum(0), rtol=0, atol=1e-9)
    assert 1 < heaviest <= H


def test_weights_lie_between_one_and_the_horizon_and_nothing_is_claimed():
    run = hf.explore(random_linear(H=4), "lsvi-rfe", episodes=100, progress=False)
    weight = run.records["weight"]
    assert weight[0] == 1.0  # nothing is known: sigma^2 is at its largest
    assert 1 < weight[-1] <= 4 + 1e-12
    assert run.explorer.claim(run.problem.model, run.progress.state) is None
    with pytest.raises(OptionError, match="steps is 'all'"):
        LSVIRFE(steps="all")
