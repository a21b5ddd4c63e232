"""The design of linear MDPs: numbers by hand, plain loops, and the limit of Kiefer and Wolfowitz."""

import equinox as eqx
import jax
import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import OptionError
from horizonfree.explorers.linear_design import LinearDesign
from tests.reference import linear_explorers as literal
from tests.reference.episodes import follow
from tests.reference.linear_models import T_data, T_literal, T_model, attains, random_linear

V_1 = [0.554520193488, 0.450833368036, 0.399809388029, 0.469480226810]


def test_the_numbers_of_instance_T(x64):
    model, explorer = T_model(), LinearDesign()
    evidence = T_data(model)[1]
    state = explorer.choose(jax.random.key(0), model, explorer.init(model), evidence)
    assert float(state.promise) == pytest.approx(V_1[0], abs=1e-9)
    np.testing.assert_array_equal(state.policy, [[0, 0, 1, 1]] * 3)
    np.testing.assert_allclose(literal.design(*T_literal(0.1, True))[1][0], V_1, rtol=0, atol=1e-9)
    start = eqx.tree_at(lambda x: x.space.initial, model, np.eye(4)[3], is_leaf=lambda x: x is None)
    state = explorer.choose(jax.random.key(0), start, explorer.init(model), evidence)
    assert float(state.promise) == pytest.approx(V_1[3], abs=1e-9)


@pytest.mark.parametrize("steps", ["own", "pooled"])
def test_twenty_episodes_agree_with_plain_loops(steps):
    problem, explorer = random_linear(), LinearDesign(steps=steps)
    phi = np.asarray(problem.model.phi)
    data = literal.Data(phi, problem.horizon)
    for state, trajectory, updated in follow(problem, explorer, 20, gathers=True):
        Q, V = literal.design(phi, *data.tables(0.1, steps == "pooled"))
        assert float(state.promise) == pytest.approx(V[0, 1], abs=1e-9)
        attains(state.policy, Q)
        data.add(trajectory.s, trajectory.a)
        if steps == "own":
            np.testing.assert_allclose(updated.sums.cross, data.cross, atol=1e-12)


def test_pooled_K_T_over_d_tends_to_one_and_beats_random_actions():
    """Measured for seeds 0..9: 0.9999 to 1.0051 after 1,000 episodes; a bound of 1.05 is for all seeds."""
    problem = random_linear(S=8, A=3, d=3, H=4)
    run = hf.explore(problem, "linear-design", episodes=1000, progress=False)
    K, d = run.episodes, problem.model.dim
    T = hf.explore(problem, "uniform", episodes=1000, progress=False)
    assert 0.99 <= K * run.records["information"][-1] / d <= 1.05
    gram, random = np.asarray(run.evidence.gram), np.asarray(T.evidence.gram)
    assert np.linalg.slogdet(gram)[1] > np.linalg.slogdet(random)[1]


def test_it_is_the_default_of_its_class_and_claims_nothing():
    run = hf.explore(random_linear(), episodes=2, progress=False)
    assert isinstance(run.explorer, LinearDesign)
    assert run.explorer.claim(run.problem.model, run.progress.state) is None
    with pytest.raises(OptionError, match="steps is 'all'"):
        LinearDesign(steps="all")
