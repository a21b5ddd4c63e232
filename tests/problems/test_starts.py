"""Problems whose first state is drawn: how they are built, what they refuse, and how their episodes begin."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import horizonfree as hf
from horizonfree.errors import ModelError, RewardError
from horizonfree.problems.gymnasium.live import run_episode
from tests.reference.gymnasium_tables import hoeffding

START = np.array([0.5, 0.0, 0.3, 0.2])
S, A, H = 4, 2, 3
P = np.random.default_rng(0).dirichlet(np.ones(S), size=(S, A))


def from_kernels(start):
    return hf.Mixture.from_kernels([P, np.roll(P, 1, axis=0)], horizon=H, start=start, weights=[0.5, 0.5])


def from_features(start):
    phi = np.stack([P, np.roll(P, 1, axis=0)], axis=-1)
    return hf.Mixture.from_features(phi, horizon=H, start=start, bound=1.0, theta=[0.5, 0.5])


def from_tabular(start):
    return hf.Mixture.from_tabular(P, horizon=H, start=start)


every_way = pytest.mark.parametrize("build", [from_kernels, from_features, from_tabular])


@every_way
def test_a_distribution_is_kept_and_its_states_are_where_episodes_start(build):
    problem = build(START)
    assert problem.space.start is None
    np.testing.assert_array_equal(problem.start, START)
    np.testing.assert_array_equal(problem.space.initial, START)
    np.testing.assert_array_equal(problem.space.starts(), START > 0)
    V = np.arange(2.0 * S).reshape(2, S)
    np.testing.assert_allclose(problem.space.at_start(V), V @ START, rtol=1e-15)
    assert problem.num_states == S  # none is added


@every_way
def test_a_distribution_that_is_sure_of_a_state_is_that_state(build):
    problem, fixed = build(np.eye(S)[2]), build(2)
    assert (problem.start, problem.space.initial) == (2, None)
    np.testing.assert_array_equal(problem.model.phi, fixed.model.phi)
    policy = np.zeros((H, S), int)
    from_distribution, from_state = (hf.simulate(x, policy, episodes=50, seed=4) for x in (problem, fixed))
    np.testing.assert_array_equal(from_distribution.s, from_state.s)


def test_only_what_can_be_reached_from_some_start_is_reachable():
    chain = np.zeros((6, 1, 6))
    chain[np.arange(6), 0, np.minimum(np.arange(6) + 1, 5)] = 1
    problem = hf.Mixture.from_kernels([chain], horizon=2, start=[0.5, 0, 0, 0.5, 0, 0])
    np.testing.assert_array_equal(problem.space.reachable, [1, 1, 0, 1, 1, 0])


def test_a_reward_is_checked_from_the_start_where_it_is_largest():
    """From state 3 nothing is left, from state 0 there are two steps."""
    chain = np.zeros((4, 1, 4))
    chain[np.arange(4), 0, np.minimum(np.arange(4) + 1, 3)] = 1
    problem = hf.Mixture.from_kernels([chain], horizon=2, start=[0.5, 0, 0, 0.5], weights=[1.0])
    table = np.zeros((2, 4, 1))
    table[0, 0] = table[1, 1] = 0.6
    with pytest.raises(RewardError, match=r"the total reaches 1\.2 on the trajectory \(s=0, a=0"):
        hf.explore(problem, "uniform", episodes=1).plan(table)
    assert hf.rescale(problem, table).factor == pytest.approx(1.2)


def test_our_environment_starts_as_often_as_it_should():
    """Every frequency against Hoeffding's bound; false alarm 1e-6."""
    env, N = from_kernels(START).to_gymnasium(), 4000
    env.reset(seed=0)
    starts = np.array([env.reset()[0] for _ in range(N)])
    frequency = np.bincount(starts, minlength=S) / N
    assert np.abs(frequency - START).max() <= hoeffding(N, S)
    assert frequency[1] == 0
    check_env(env, skip_render_check=True)


def test_live_episodes_start_as_often_as_they_should_and_nowhere_else():
    """The environment's seed comes from the generator of each episode; false alarm 1e-6."""
    problem, N, rng = from_kernels(START), 2000, np.random.default_rng(0)
    env, policy = problem.to_gymnasium(), np.zeros((H, S), int)
    starts = [run_episode(env, problem.space, policy, rng).s[0] for _ in range(N)]
    assert np.abs(np.bincount(starts, minlength=S) / N - START).max() <= hoeffding(N, S)
    env, other = from_kernels(3).to_gymnasium(), from_kernels([0.5, 0, 0.5, 0])
    with pytest.raises(ModelError, match="started in state 3; the model class starts in 0 or 2"):
        run_episode(env, other.space, policy, rng)


def test_a_start_that_was_chosen_is_in_the_recipe_of_an_environment(tmp_path):
    rho = np.zeros(16)
    rho[[0, 4]] = 0.25, 0.75
    problem = hf.from_gymnasium("FrozenLake-v1", horizon=4, start=rho)
    np.testing.assert_array_equal(problem.start, rho)
    assert problem.recipe["parameters"]["start"] == rho.tolist()
    run = hf.explore(problem, "uniform", episodes=3, out=tmp_path / "a")
    loaded = hf.load(tmp_path / "a").problem
    assert loaded.recipe == problem.recipe
    np.testing.assert_array_equal(loaded.start, rho)
    assert run.evidence.visits[[0, 4]].sum() >= 3


def test_environments_that_start_alike_at_random_need_no_state_more():
    descs = [["SFSG"], ["SFSG"]]
    envs = [gymnasium.make("FrozenLake-v1", desc=desc, success_rate=p) for desc, p in zip(descs, (0.4, 0.9))]
    problem = hf.from_gymnasium(envs, horizon=4, weights=[0.5, 0.5])
    assert problem.num_states == 4
    np.testing.assert_allclose(problem.start, [0.5, 0, 0.5, 0])
