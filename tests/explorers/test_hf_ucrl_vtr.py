"""The reward-aware ancestors: against the printed algorithms, optimism, and the reduction to plain ridge regression."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import horizonfree as hf
from horizonfree import planning
from horizonfree._x64 import to_device, to_numpy
from horizonfree.errors import OptionError
from horizonfree.explorers.loop import simulate_block
from horizonfree.explorers.registry import make_explorer
from horizonfree.guarantees.e_processes import ladder
from tests.reference import home as literal
from tests.reference.episodes import first_progress, full_features, make_sampler, play
from tests.reference.hf_ucrl_vtr import optimistic


@pytest.mark.parametrize("constants", ["paper", "scaled"])
@pytest.mark.parametrize("name", ["hf-ucrl-vtr+", "ucrl-vtr"])
def test_twenty_episodes_agree_with_the_printed_algorithm(name, constants, x64):
    problem, K = hf.make("river-swim", states=4, horizon=5), 20
    model, H = problem.model, problem.horizon
    reward = hf.goal(problem, 3)
    explorer = make_explorer(name, reward=reward, constants=constants, scale=0.5, budget=K)
    M, is_weighted = explorer.orders(model), name == "hf-ucrl-vtr+"
    assert explorer.orders(model) == (10 if is_weighted else 1)
    alpha, gamma = H**-0.5, model.dim**-0.25 if is_weighted else 0.0
    family = literal.Family.init(M, model.dim, model.dim / model.bound**2)
    phi, device = full_features(model), to_device(model)
    sampler = make_sampler(to_device(problem.kernel()))
    choose, update = eqx.filter_jit(explorer.choose), eqx.filter_jit(explorer.update)
    state, evidence = explorer.init(device), device.init_evidence(ladder())
    for k in range(1, K + 1):
        beta = float(explorer.beta(model, k))
        state = choose(jax.random.key(0), device, state, evidence)
        V, _ = optimistic(phi, family.theta()[0], family.Sigma[0], beta, reward)
        np.testing.assert_allclose(state.V, V, atol=1e-9)
        trajectory = play(sampler, jax.random.key(k), state.policy, device.space)
        s, a = np.asarray(trajectory.s), np.asarray(trajectory.a)
        family, _ = literal.regress(family, phi, V, s, a, beta, alpha, gamma)
        state, _ = update(device, state, evidence, trajectory)
        np.testing.assert_allclose(state.ridge.Sigma, family.Sigma, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(state.ridge.b, family.b, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(state.ridge.theta, family.theta(), rtol=1e-9, atol=1e-9)


def test_one_order_and_gamma_zero_is_plain_ridge_regression(x64):
    """The weights are all 1: Sigma = lam I + sum phi phi'."""
    problem = hf.make("river-swim", states=4, horizon=5)
    run = hf.explore(problem, "ucrl-vtr", episodes=6, reward=hf.goal(problem, 3), scale=0.3)
    state, model = run.progress.state, problem.model
    rows = np.trace(state.ridge.Sigma[0]) - model.dim * model.dim / model.bound**2
    assert 0 < rows <= 6 * problem.horizon  # each row adds ||phi_V||^2 <= 1


@pytest.mark.parametrize("name", ["hf-ucrl-vtr+", "ucrl-vtr"])
def test_with_the_papers_constants_values_are_optimistic(name):
    """200 seeds: V_k >= V_star in every episode; the theorem allows delta = 0.05 of the seeds to fail."""
    problem, K = hf.make("random-mixture", states=4, actions=2, dim=3, horizon=4), 15
    reward = hf.goal(problem, 2)
    explorer = make_explorer(name, reward=reward, constants="paper", budget=K, delta=0.05)
    best = planning.optimal(problem.kernel(), reward).V[0, problem.start]
    with jax.enable_x64(True):
        model, truth = to_device((problem.model, problem.truth))
        sampler = make_sampler(to_device(problem.kernel()))
        first = first_progress(explorer, model, model.init_evidence(ladder()))

        @eqx.filter_jit
        @eqx.filter_vmap
        def run_seed(seed):
            key = jax.random.key(seed)
            return simulate_block(explorer, model, sampler, truth, key, first, jnp.int32(K), K)[1]

        rows = to_numpy(run_seed(jnp.arange(200)))
    assert (rows["V"] >= best - 1e-12).all()
    assert (rows["truth_ratio"] <= 1).all()


def test_a_radius_of_zero_is_not_optimistic():
    problem = hf.make("river-swim", states=4, horizon=6)
    reward = hf.goal(problem, 3)
    run = hf.explore(problem, "ucrl-vtr", episodes=5, reward=reward, scale=0.0)
    assert run.records["V"][0] == 0 < planning.optimal(problem.kernel(), reward).V[0, 0]


def test_learning_for_one_reward_finds_its_plan():
    """With a modest radius the regret falls: later policies earn most of the optimum."""
    problem = hf.make("river-swim", states=4, horizon=8)
    reward = hf.goal(problem, 3)
    run = hf.explore(problem, "hf-ucrl-vtr+", episodes=300, reward=reward, scale=0.3)
    policy = np.asarray(run.progress.state.policy)
    best = planning.optimal(problem.kernel(), reward).V[0, 0]
    assert planning.evaluate(problem.kernel(), reward, policy)[0, 0] >= 0.9 * best


def test_they_want_a_reward():
    with pytest.raises(OptionError, match="needs a reward"):
        hf.explore(hf.make("river-swim"), "hf-ucrl-vtr+", episodes=1)
