"""Episodes in environments that can only be stepped."""

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import horizonfree as hf
from horizonfree._x64 import to_device
from horizonfree.errors import ModelError, OptionError, ShapeError
from horizonfree.explorers.chen2022 import Chen2022
from horizonfree.explorers.hf_ucrl_rfe import HFUCRLRFE
from horizonfree.explorers.loop import choose_policy, init_progress, update_progress
from horizonfree.explorers.ucrl_rfe import UCRLRFE
from horizonfree.explorers.ucrl_rfe_plus import UCRLRFEPlus
from horizonfree.mdp.space import IMPOSSIBLE, UNSEEN, Trajectory
from horizonfree.problems import Mixture, from_gymnasium, make
from horizonfree.problems.gymnasium.live import attempt, check_env_matches, run_episode
from tests.reference.episodes import empty_evidence
from tests.reference.gymnasium_tables import hoeffding, transition_table
from tests.reference.jitted import jitted


def test_live_episodes_follow_the_law_of_the_policy():
    """Occupancy of every (h, s), for probabilities and for integers, against forward induction; false alarm 1e-6."""
    problem = make("random-mixture", states=4, actions=3, successors=2, horizon=5)
    env, P, N = problem.to_gymnasium(), problem.kernel().dense(), 1500
    rng = np.random.default_rng(7)
    for policy in (rng.dirichlet(np.ones(3), size=(5, 4)), rng.integers(3, size=(5, 4))):
        probability = policy if policy.ndim == 3 else np.eye(3)[policy]
        law = np.eye(4)[[problem.start]]
        for h in range(5):
            law = np.vstack([law, np.einsum("s,sa,sat->t", law[-1], probability[h], P)])
        episodes = [run_episode(env, problem.space, policy, rng) for _ in range(N)]
        s = np.array([episode.s for episode in episodes])
        frequency = (s[..., None] == np.arange(4)).mean(axis=0)
        assert np.abs(frequency - law).max() <= hoeffding(N, 2 * 6 * 4)
        succ = problem.space.succ
        for episode in episodes[:50]:
            np.testing.assert_array_equal(succ[episode.s[:-1], episode.a, episode.j], episode.s[1:])


def test_a_live_episode_stays_where_it_ended():
    env = gymnasium.make("FrozenLake-v1", desc=["SFG"], is_slippery=False)
    problem = from_gymnasium(env, horizon=6)
    right = np.full((6, 3), 2)
    trajectory = run_episode(env, problem.space, right, np.random.default_rng(0))
    assert trajectory.s.tolist() == [0, 1, 2, 2, 2, 2, 2]
    assert trajectory.a.tolist() == [2] * 6


def test_a_live_episode_is_a_function_of_the_generator():
    env = gymnasium.make("FrozenLake-v1")
    problem = from_gymnasium(env, horizon=20)
    policy = np.full((20, 16, 4), 0.25)
    first, repeated, other = (
        run_episode(env, problem.space, policy, np.random.default_rng(seed)).s.tolist() for seed in (3, 3, 4)
    )
    assert first == repeated
    assert first != other


class Shifted(gymnasium.Env):
    """A cycle of three states numbered from 10, actions from 5; action 6 moves on."""

    observation_space, action_space = Discrete(3, start=10), Discrete(2, start=5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.s = 0
        return 10, {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.s = (self.s + action - 5) % 3
        return 10 + self.s, 0.0, False, False, {}


def cycle(horizon=4, start=0):
    kernel = np.zeros((3, 2, 3))
    for s in range(3):
        kernel[s, [0, 1], [s, (s + 1) % 3]] = 1
    return Mixture.from_kernels([kernel], horizon=horizon, start=start)


def test_live_spaces_may_start_anywhere_and_observations_may_be_encoded():
    space, policy = cycle().space, np.ones((4, 3), int)
    rng = np.random.default_rng(0)
    assert run_episode(Shifted(), space, policy, rng).s.tolist() == [0, 1, 2, 0, 1]
    encoded = run_episode(Shifted(), space, policy, rng, encode=lambda observation: observation - 10)
    assert encoded.s.tolist() == [0, 1, 2, 0, 1]
    with pytest.raises(ShapeError, match=r"encode\(10\) is 10; it must be a state, 0 to 2"):
        run_episode(Shifted(), space, policy, rng, encode=int)
    with pytest.raises(ShapeError, match=r"encode\(10\) is 'ten'; it must be a state, 0 to 2"):
        run_episode(Shifted(), space, policy, rng, encode=lambda _: "ten")


def test_an_environment_that_does_not_fit_is_refused():
    rng = np.random.default_rng(0)
    lake = gymnasium.make("FrozenLake-v1")
    with pytest.raises(ShapeError, match=r"action space .* Discrete\(4\), but .* Discrete\(2\)"):
        check_env_matches(lake, cycle().space)
    problem = from_gymnasium("FrozenLake8x8-v1", horizon=150)
    with pytest.raises(
        ShapeError, match=r"observation space .* Discrete\(16\), but .* Discrete\(64\); pass encode="
    ):
        check_env_matches(lake, problem.space)
    boxed = Shifted()
    boxed.observation_space = Box(0, 1, (2,))
    with pytest.raises(ShapeError, match="pass encode="):
        check_env_matches(boxed, cycle().space)
    with pytest.raises(ModelError, match="started in state 0; the model class starts in 2"):
        run_episode(Shifted(), cycle(start=2).space, np.ones((4, 3), int), rng)
    desc = ["S" + 30 * "F" + "G"]  # stays put with probability 2/3 at each step
    deterministic = transition_table(gymnasium.make("FrozenLake-v1", desc=desc, is_slippery=False))
    space, slippery = (
        Mixture.from_kernels([deterministic], horizon=40).space,
        gymnasium.make("FrozenLake-v1", desc=desc),
    )
    with pytest.raises(ModelError, match=r"\(s=\d+, a=2\) -> s'=\d+ was observed .* impossible under every"):
        run_episode(slippery, space, np.full((40, 32), 2), rng)
    stays_or_back = np.array([[[0.5, 0, 0.5]] * 2, [[0.5, 0.5, 0]] * 2, [[0, 0.5, 0.5]] * 2])
    space = Mixture.from_kernels([stays_or_back], horizon=4).space
    assert space.is_dense
    with pytest.raises(ModelError, match=r"\(s=0, a=1\) -> s'=1 was observed"):
        run_episode(Shifted(), space, np.ones((4, 3), int), rng)
    short = gymnasium.make("FrozenLake-v1", max_episode_steps=10)
    with pytest.raises(OptionError, match="truncated after step 10 but the horizon is 30; make it with"):
        run_episode(short, from_gymnasium(short, horizon=30).space, np.full((30, 16), 3), rng)
    with pytest.raises(ShapeError, match="policy has shape"):
        run_episode(Shifted(), cycle().space, np.ones((3, 3), int), rng)


class Leaky(gymnasium.Env):
    """Two states that the class knows; now and then action 1 enters a third, or there is an error; no seeds."""

    observation_space, action_space = Discrete(3), Discrete(2)

    def __init__(self, leak, error=None):
        self.rng, self.leak, self.error = np.random.default_rng(0), leak, error

    def reset(self, *, seed=None, options=None):
        self.s = 0
        return 0, {}

    def step(self, action):
        if self.rng.random() < self.leak and (action == 1 or self.error is not None):
            if self.error is not None:
                raise self.error
            self.s = 2
        elif self.s < 2:
            self.s = int(self.rng.random() < 0.5)
        return self.s, 0.0, False, False, {}


def two_states():
    even_P, odd_P = np.zeros((2, 3, 2, 3))
    even_P[:2, :, :2] = [0.5, 0.5]
    odd_P[:2, :, :2] = [0.9, 0.1]
    even_P[2, :, 2] = odd_P[2, :, 2] = 1
    return Mixture.from_kernels([even_P, odd_P], horizon=3)


def test_what_contradicts_the_class_is_never_forgotten(tmp_path):
    """The episode counts, the folder says so, and nothing is certified from then on."""
    problem, env = two_states(), Leaky(0.05)
    with pytest.raises(ModelError, match=r"\(s=[01], a=1\) -> s'=2 was observed"):
        hf.explore(env, "uniform", known=problem, episodes=400, budget=400, out=tmp_path / "a")
    run = hf.load(tmp_path / "a")
    assert run.evidence.impossible == 1
    assert run.episodes == run.evidence.episodes
    assert run.certificate().is_rejected
    assert run.plan(hf.goal(problem, 1)).certificate.is_rejected
    with pytest.raises(ModelError, match="1 observations of this run are impossible under every parameter"):
        run.resume(env=env, episodes=1)


@pytest.mark.parametrize("encode", [None, {0: 0, 1: 1}.__getitem__, {0: 0, 1: 1, 2: 7}.__getitem__])
def test_what_is_no_state_of_the_class_contradicts_it(encode):
    """Whether an observation cannot be encoded, or is encoded as what is no state, or lies beyond the states."""
    kernel = np.full((2, 2, 2), 0.5)
    env = Leaky(0.5)
    if encode is None:
        env.observation_space = Discrete(2)
    trajectory, error, _, _ = attempt(
        env,
        Mixture.from_kernels([kernel], horizon=9).space,
        np.ones((9, 2), int),
        np.random.default_rng(0),
        encode,
    )
    assert isinstance(error, (OptionError, ShapeError))
    h = int(np.flatnonzero(trajectory.j == IMPOSSIBLE)[0])
    assert (trajectory.j[:h] >= 0).all()
    assert (trajectory.j[h + 1 :] == UNSEEN).all()


@pytest.mark.parametrize("explorer", ["uniform", "optimal-design", "ucrl-rfe", "hf-ucrl-rfe++", "chen2022"])
def test_an_episode_that_breaks_off_counts_as_far_as_it_was_seen(explorer, tmp_path):
    """Whatever gathers the data, they are not chosen by what they say."""
    problem, env = two_states(), Leaky(0.1, OSError("the arm is stuck"))
    with pytest.raises(OSError, match="stuck"):
        hf.explore(env, explorer, known=problem, episodes=400, budget=400, out=tmp_path / "a")
    run = hf.load(tmp_path / "a")
    for _ in range(5):
        with pytest.raises(OSError, match="stuck"):
            run.resume(env=env, episodes=400)
        run = hf.load(tmp_path / "a")
    num_steps = int(run.evidence.counts.sum())
    assert run.evidence.episodes == run.episodes
    assert run.evidence.impossible == 0
    assert 3 * (run.episodes - 6) <= num_steps < 3 * run.episodes
    assert np.isfinite(run.certificate().eps)
    assert np.isfinite(run.theta_hat).all()


@pytest.mark.parametrize(
    "rule",
    [UCRLRFE(), UCRLRFEPlus(), HFUCRLRFE(budget=10, chains=1, sweeps=2), Chen2022()],
    ids=lambda x: type(x).__name__,
)
def test_steps_that_were_not_seen_change_nothing(rule, x64):
    """The state after one step is the same, whatever stands in the places of the others."""
    problem = make("random-mixture", states=5, successors=3, horizon=4)
    model, space = to_device(problem.model), problem.space
    first = jitted(init_progress, rule, model, empty_evidence(model, None))
    choice = jitted(choose_policy, rule, model, jax.random.key(0), first)
    j, results = np.array([0, UNSEEN, UNSEEN, UNSEEN]), []
    for ending in ([3, 1, 2], [0, 0, 0]):
        s = np.array([space.start, space.succ[space.start, 0, 0], *ending])
        trajectory = Trajectory(s, np.array([0, *ending]), j)
        results.append(jitted(update_progress, rule, model, None, choice, trajectory)[0])
    for x, y in zip(*map(jax.tree.leaves, results)):
        np.testing.assert_array_equal(x, y)
    assert results[0].evidence.counts.sum() == 1
    pairs = zip(jax.tree.leaves(results[0].state), jax.tree.leaves(choice.state))
    assert any((np.asarray(x) != y).any() for x, y in pairs)
