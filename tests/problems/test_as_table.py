"""Environments of which nothing is known: one line for each, certificates that hold, and refusals that help."""

import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete

import horizonfree as hf
from horizonfree.errors import ModelError, OptionError, ShapeError, UnknownNameError
from horizonfree.problems.gymnasium.as_table import unknown_table
from tests.reference.gymnasium_tables import hoeffding, transition_table


class Walk(gymnasium.Env):
    """A user's environment: five places in a row, action 1 goes right or slips, the last place ends the episode."""

    observation_space, action_space = Discrete(5), Discrete(2)

    def __init__(self, starts=(0,), broken_at=None):
        self.starts, self.broken, self.steps = starts, broken_at, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.s = int(self.np_random.choice(self.starts))
        return self.s, {}

    def step(self, action):
        self.steps += 1
        if self.broken is not None and self.steps > 40:
            return self.broken()
        step = 1 if action == 1 and self.np_random.random() < 0.8 else -1
        self.s = int(np.clip(self.s + step, 0, 4))
        return self.s, 0.0, self.s == 4, False, {}


def explore(env, episodes=3, **options):
    return hf.explore(env, episodes=episodes, progress=False, **options)


SIZES = {
    "FrozenLake-v1": ((100, 16, 4), 11 * 4, 0),
    "FrozenLake8x8-v1": ((200, 64, 4), 53 * 4, 0),
    "Taxi-v4": ((200, 500, 6), 496 * 6, None),  # a random start; four states end it
}


@pytest.mark.parametrize("name", SIZES)
def test_gymnasiums_toys_in_one_line(name):
    """Sizes, the time limit, the states that end an episode and where it starts are the environment's."""
    run = explore(gymnasium.make(name))
    sizes, unknown, start = SIZES[name]
    assert run.problem.space.sizes == sizes
    assert run.problem.model.num_unknown == unknown
    assert run.problem.space.start == start
    assert run.evidence.counts.sum() == 3 * sizes[0]
    assert run.evidence.impossible == 0
    assert not run.problem.model.is_support_known
    assert "vacuous" in run.certificate().summary()
    if name != "FrozenLake8x8-v1":  # nothing that the others do not have
        plan = run.plan(hf.goal(run.problem, 3))
        assert 0.99 < plan.gap <= 1


def test_a_random_start_that_the_environment_tells_is_known():
    env = gymnasium.make("Taxi-v4")
    space = unknown_table(env).space
    np.testing.assert_allclose(space.initial, env.unwrapped.initial_state_distrib)


def test_an_environment_without_a_time_limit_is_given_one():
    with pytest.raises(OptionError, match=r"no time limit, so that an episode may never end; .* horizon=100"):
        explore(gymnasium.make("CliffWalking-v1"))
    run = explore(gymnasium.make("CliffWalking-v1"), horizon=30)
    assert run.problem.space.sizes == (30, 48, 4)
    assert run.problem.start == 36
    assert run.problem.model.num_unknown == 47 * 4  # its goal ends the episode


def test_a_horizon_may_be_given_but_not_beyond_the_time_limit():
    assert unknown_table(gymnasium.make("FrozenLake-v1"), horizon=20).horizon == 20
    with pytest.raises(OptionError, match=r"truncated after step 100 .* max_episode_steps=900 or more"):
        explore(gymnasium.make("FrozenLake-v1", desc=["SFFFFFFFG"]), 50, horizon=900)


def test_somebodys_own_environment_is_learnt():
    """Frequencies agree with the law of the environment; the end is learnt as a state that leads to itself."""
    run = explore(Walk(), 300, horizon=6)
    assert run.problem.name == "Walk"
    N = np.asarray(run.evidence.counts)
    n = N.sum(-1)
    assert (n.min(-1) > 30).all()
    np.testing.assert_array_equal(N[4], n[4][:, None] * np.eye(5)[4])
    error = np.abs(N[np.arange(1, 4), 1, np.arange(2, 5)] / n[1:4, 1] - 0.8)
    assert (error <= [hoeffding(int(x), 3) for x in n[1:4, 1]]).all()
    assert run.certificate().eps < 1


def test_observations_and_actions_may_start_elsewhere():
    class Shifted(Walk):
        observation_space, action_space = Discrete(5, start=7), Discrete(2, start=-1)

        def reset(self, *, seed=None, options=None):
            return super().reset(seed=seed)[0] + 7, {}

        def step(self, action):
            s, *others = super().step(action + 1)
            return np.int64(s + 7), *others

    run, unshifted = explore(Shifted(), 40, horizon=6), explore(Walk(), 40, horizon=6)
    np.testing.assert_array_equal(run.evidence.counts, unshifted.evidence.counts)


def with_spaces(observation_space, action_space):
    env = Walk()
    env.observation_space, env.action_space = observation_space, action_space
    return env


BAD_SPACES = [
    (
        with_spaces(Box(0, 1, (2,)), Discrete(2)),
        r"the observation space .* is Box.*needs finite spaces: cut it into cells",
    ),
    (
        with_spaces(Box(np.float32([0, -np.inf]), np.float32([1, np.inf])), Discrete(2)),
        r"hf.discretize\(env, \[10, \[-1, 0, 1\]\]\), ...\); at the shell --param 'bins=\[10, \[-1, 0, 1\]\]'",
    ),
    (with_spaces(MultiDiscrete([3, 2]), Discrete(2)), r"observation 0 is not in MultiDiscrete"),
    (with_spaces(Discrete(5), Box(-1, 1, (1,))), r"the action space .* is Box"),
    (
        object(),
        "without action_space and observation_space and reset and step; it must be a gymnasium.Env",
    ),
]


def test_spaces_that_are_no_table_are_refused(subtests):
    for env, message in BAD_SPACES:
        with subtests.test(message), pytest.raises(ShapeError, match=message):
            explore(env, horizon=5)


def test_an_observation_that_is_none_of_the_space_is_kept_and_refused(tmp_path):
    for observation in (5, -1, 2.5, "door", None, np.zeros(2)):
        env = Walk(broken_at=lambda observation=observation: (observation, 0.0, False, False, {}))
        with pytest.raises(ShapeError, match=r"an observation is .*; it must be a whole number from 0 to 4"):
            explore(env, 20, horizon=6, out=tmp_path / str(observation))
        run = hf.load(tmp_path / str(observation))
        assert run.evidence.counts.sum() == 40  # every step before it
        assert run.certificate().is_rejected


def test_an_environment_that_starts_here_and_there_is_told_what_to_say_before_the_first_episode(tmp_path):
    env = Walk(starts=(0, 2))
    message = (
        r"20 resets led to 2 states, 0 and 2 among them; pass start='unknown' .* numbered 5.* start=\[...\]"
    )
    with pytest.raises(OptionError, match=message):
        explore(env, 60, horizon=6, out=tmp_path / "run")
    assert env.steps == 0
    assert not (tmp_path / "run").exists()
    run = explore(env, 60, horizon=6, start=[0.5, 0, 0.5, 0, 0])
    assert run.evidence.impossible == 0
    assert run.episodes == 60


def test_a_start_that_no_look_showed_ends_the_run_and_what_was_seen_is_kept(tmp_path):
    class Late(Walk):
        resets = 0

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.resets += 1
            self.s = 2 if self.resets > 50 else 0
            return self.s, {}

    with pytest.raises(ModelError, match=r"started in state 2; .* starts in 0; .* start='unknown'"):
        explore(Late(), 60, horizon=6, out=tmp_path / "run")
    loaded = hf.load(tmp_path / "run")
    assert loaded.episodes == 31
    assert loaded.evidence.counts.sum() == 6 * 30
    assert loaded.certificate().is_rejected


def test_a_start_may_be_unknown(tmp_path):
    """One state more, from which every action leads to the first; one step more; the draws are counted."""
    env = Walk(starts=(0, 2, 2))
    run = explore(env, 400, horizon=6, start="unknown", out=tmp_path / "run")
    assert run.problem.space.sizes == (7, 6, 2)
    assert run.problem.start == 5
    N = np.asarray(run.evidence.counts)
    assert N[5].sum() == 400
    assert N[:, :, 5].sum() == 0
    assert np.abs(N[5].sum(0) / 400 - [1 / 3, 0, 2 / 3, 0, 0, 0]).max() <= hoeffding(400, 6)
    resumed = hf.load(tmp_path / "run").resume(env=env, episodes=5, progress=False)
    assert resumed.episodes == 405
    with pytest.raises(
        UnknownNameError,
        match=r"start is 'anywhere'; it must be a state, .*or a distribution over states, or 'unknown",
    ):
        explore(env, horizon=6, start="anywhere")


def test_a_certificate_for_an_unknown_start_holds():
    """Three draws of a table whose start is drawn: no plan loses more than it says, deterministic given the seeds."""
    P = np.zeros((6, 2, 6))
    for s in range(5):
        P[s, 0, max(s - 1, 0)] += 1.0
        P[s, 1, min(s + 1, 4)] += 0.8
        P[s, 1, max(s - 1, 0)] += 0.2
    P[5, :, [0, 3]] = 0.5
    problem = hf.Tabular.from_table(P, horizon=7, start=5)
    for seed in range(3):
        run = hf.explore(problem, episodes=2000, seed=seed, progress=False)
        for s in range(5):
            reward = hf.goal(problem, s)
            plan = run.plan(reward)
            assert hf.true_gap(problem, reward, plan.policy) <= plan.gap < 0.6


def test_a_state_that_ends_some_episodes_and_not_others_is_refused(tmp_path):
    """Its observation is two states: the episode counts, and nothing is certified from then on."""

    class Flaky(Walk):
        def step(self, action):
            s, r, is_over, *others = super().step(action)
            return s, r, is_over or (s == 2 and self.np_random.random() < 0.1), *others

    with pytest.raises(
        ModelError, match=r"ended in state 2 after .* \d+ times earlier it went on from there: .* wrap"
    ):
        explore(Flaky(), 400, horizon=6, out=tmp_path / "run")
    assert hf.load(tmp_path / "run").certificate().is_rejected


def test_an_environment_that_breaks_keeps_what_was_seen_and_may_go_on(tmp_path):
    def breaks():
        raise OSError("the arm is stuck")

    env = Walk(broken_at=breaks)
    with pytest.raises(OSError, match="stuck"):
        explore(env, 100, horizon=6, out=tmp_path / "run")
    run = hf.load(tmp_path / "run")
    assert run.evidence.counts.sum() >= 40
    assert run.evidence.impossible == 0
    env.broken = None
    resumed = run.resume(env=env, progress=False)
    assert resumed.episodes == 100
    assert resumed.evidence.episodes == 100


def test_a_run_goes_on_as_if_it_had_not_been_cut(tmp_path):
    """In a folder or not, by the same seed: policies and draws of an episode depend on its number alone."""
    uninterrupted = explore(Walk(), 30, horizon=6, seed=4)
    explore(Walk(), 12, horizon=6, seed=4, out=tmp_path / "run")
    part = hf.load(tmp_path / "run")
    with pytest.raises(OptionError, match="pass it again: env="):
        part.resume(episodes=18)
    resumed = part.resume(env=Walk(), episodes=18, progress=False)
    np.testing.assert_array_equal(resumed.evidence.counts, uninterrupted.evidence.counts)
    loaded = hf.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.evidence.counts, uninterrupted.evidence.counts)
    assert loaded.certificate() == uninterrupted.certificate()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_certificates_of_a_frozen_lake_hold(seed):
    """The table of the environment is the truth: no plan loses more than it says, and they say something."""
    table = transition_table(gymnasium.make("FrozenLake-v1"))
    terminal = [5, 7, 11, 12, 15]
    problem = hf.Tabular.from_table(table, horizon=30, terminal=terminal)
    assert unknown_table(gymnasium.make("FrozenLake-v1"), 30).model.num_unknown == problem.model.num_unknown
    run = hf.explore(problem, episodes=2000, seed=seed, progress=False)
    gaps = []
    for s in range(16):
        reward = hf.goal(problem, s)
        plan = run.plan(reward)
        assert hf.true_gap(problem, reward, plan.policy) <= plan.gap
        gaps.append(plan.gap)
    assert np.median(gaps) < 0.5


def test_the_page_on_environments_runs(capsys):
    """In it, a run whose start is unknown acts one step later than its environment."""
    text = (Path(__file__).parents[2] / "docs" / "environment.md").read_text()
    scope: dict = {}
    for example in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(example, scope)
    assert "vacuous" in capsys.readouterr().out
    assert scope["run"].problem.space.sizes == (101, 17, 4)
    assert scope["plan"].act(1, scope["observation"]) in range(4)
