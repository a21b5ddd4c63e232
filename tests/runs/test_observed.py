"""Recorded rewards: sums by hand, intervals that hold at all times, values and gaps of the true rewards."""

import gymnasium
import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import OptionError
from horizonfree.planning import evaluate, optimal
from horizonfree.runs.observed import RHO, ObservedReward
from tests.runs.test_log_rows import COLUMNS, STATES, P, machines

MEAN = np.array([[0.2, 0.4], [0.5, 0.7], [0.6, 0.9]])  # of states bad, fair, good and actions mend, run


def with_rewards(rows: dict[str, list], seed: int = 0) -> dict[str, list]:
    """The log with rewards 0 or 1 of these means; the last row of each machine leads nowhere, and is not counted."""
    rng = np.random.default_rng(seed)
    means = [MEAN[STATES.index(s), int(a == "run")] for s, a in zip(rows["status"], rows["order"])]
    return rows | {"reward": (rng.random(len(means)) < means).astype(float).tolist()}


def test_rewards_of_a_log_are_added_up_by_pair() -> None:
    rows = with_rewards(machines(20, 5))
    run = hf.from_log(rows, columns=COLUMNS)
    total, count = np.zeros((3, 2)), np.zeros((3, 2), int)
    for i, (s, a, r) in enumerate(zip(rows["status"], rows["order"], rows["reward"])):
        if i % 6 < 5:
            total[STATES.index(s), int(a == "run")] += r
            count[STATES.index(s), int(a == "run")] += 1
    observed = run.observed_reward
    np.testing.assert_array_equal(observed.count, count)
    np.testing.assert_allclose(observed.total, total)
    np.testing.assert_allclose(observed.mean, total / count)
    assert observed.range == (0.0, 1.0)
    costs = {"cost": [-x for x in rows["reward"]]} | {k: x for k, x in rows.items() if k != "reward"}
    np.testing.assert_allclose(hf.from_log(costs, columns=COLUMNS).observed_reward.total, total)
    with pytest.raises(OptionError, match="no rewards were recorded"):
        _ = hf.from_log(machines(2, 2), columns=COLUMNS).observed_reward


def test_nothing_is_paid_before_an_unknown_start_and_where_an_episode_is_over() -> None:
    rows = with_rewards(machines(20, 5))
    observed = hf.from_log(rows, columns=COLUMNS, start="unknown").observed_reward
    np.testing.assert_array_equal(
        observed.count[:3], hf.from_log(rows, columns=COLUMNS).observed_reward.count
    )
    assert observed.is_over.tolist() == [False, False, False, True]
    low, high = observed.between(-1, 2).interval(0.1)
    assert (low[3], high[3]) == (pytest.approx(0), pytest.approx(0))
    assert (high[:3] > low[:3]).all()


def test_the_interval_is_that_of_the_formula_and_shares_delta_by_pair() -> None:
    run = hf.from_log(with_rewards(machines(20, 5)), columns=COLUMNS)
    observed = run.observed_reward.between(0, 2)
    low, high = observed.interval(0.1)
    for s, a in np.ndindex(3, 2):
        n = observed.count[s, a]
        width = 2 / (2 * n) * np.sqrt((n + RHO) * (2 * np.log(6 / 0.1) + np.log((n + RHO) / RHO)))
        assert high[s, a] == pytest.approx(min(2.0, observed.mean[s, a] + width), abs=1e-12)
        assert low[s, a] == pytest.approx(max(0.0, observed.mean[s, a] - width), abs=1e-12)


def test_the_interval_of_a_mean_holds_at_all_times() -> None:
    """Coins at the end of every visit, 2,000 paths of 300: a mean outside at any time has probability 1e-3 at most.

    More than 15 of 2,000 then have probability below 1e-9.
    """
    rng = np.random.default_rng(0)
    tosses = rng.random((2000, 300)) < 0.3
    n = np.arange(1, 301)
    width = 1 / (2 * n) * np.sqrt((n + RHO) * (2 * np.log(1 / 1e-3) + np.log((n + RHO) / RHO)))
    outside = (np.abs(tosses.cumsum(1) / n - 0.3) > width).any(1)
    assert outside.sum() <= 15
    # the class has the same width
    observed = ObservedReward(
        np.array([[90.0]]), np.array([[300]]), np.array(0.0), np.array(1.0), np.array([False])
    )
    assert observed.between(0, 1).interval(1e-3)[1][0, 0] == pytest.approx(0.3 + width[-1], abs=1e-12)


def test_values_and_gaps_are_those_of_the_true_rewards_and_delta_is_halved() -> None:
    """At delta = 1e-6 for each of ten logs."""
    table = hf.Tabular.from_table(P, horizon=5, start=2)
    true = np.tile(MEAN, (5, 1, 1))
    best = optimal(table.kernel(), true).V[0, 2]
    for seed in range(10):
        run = hf.from_log(with_rewards(machines(100, 20, seed), seed), columns=COLUMNS, horizon=5)
        observed = run.observed_reward.between(0, 1)
        plan = run.plan(observed, delta=1e-6)
        value = evaluate(table.kernel(), true, plan.policy)[0, 2]
        assert plan.value_low <= value <= plan.value_high
        assert best - value <= plan.gap
        worse = run.plan(run.observed_reward.mean, scale="rescale", delta=5e-7)
        np.testing.assert_array_equal(worse.policy, plan.policy)
        assert plan.value_low < worse.value_low <= worse.value_high < plan.value_high
        low, _ = observed.interval(5e-7)
        assert plan.value_low == run.evaluate(low, plan.policy, scale="rescale", delta=5e-7).value_low
        other = np.zeros(3, int)
        difference = run.compare(observed, plan.policy, other, delta=1e-6)
        assert difference.delta == 1e-6
        loss = value - evaluate(table.kernel(), true, np.zeros((5, 3), np.int32))[0, 2]
        assert difference.low <= loss <= difference.high
        evaluation = run.evaluate(observed, other, delta=1e-6)
        assert evaluation.value_low <= value - loss <= evaluation.value_high


def test_without_a_range_the_error_of_the_means_is_left_out_and_said_to_be() -> None:
    run = hf.from_log(with_rewards(machines(100, 20)), columns=COLUMNS, horizon=5)
    plan = run.plan(run.observed_reward)
    assert "whose own error is not part of it" in plan.certificate.statement
    assert "no range was declared" in plan.certificate.assumes
    assert plan.gap == run.plan(run.observed_reward.mean, scale="rescale").gap
    plan_with_range = run.plan(run.observed_reward.between(0, 1))
    assert "the reward is an estimate" in plan_with_range.certificate.assumes
    assert "in the range [0, 1]" in plan_with_range.certificate.assumes
    with pytest.raises(OptionError, match="needs the range that rewards can have"):
        run.observed_reward.interval(0.1)
    with pytest.raises(
        OptionError, match=r"from 0 to 1 were recorded; the range \[0, 0.5\] must contain them"
    ):
        run.observed_reward.between(0, 0.5)
    with pytest.raises(OptionError, match="an observed reward is planned for as it is"):
        run.plan(run.observed_reward, discount=0.9)


class Corridor(gymnasium.Env):
    """Three places; an episode ends in the last, which pays 2. A step elsewhere pays minus its number."""

    observation_space, action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return 0, {}

    def step(self, action):
        position = self.at
        self.at = min(2, self.at + action)
        return self.at, 2.0 if self.at == 2 else -float(position), self.at == 2, False, {}


def test_rewards_of_an_environment_are_recorded_kept_and_go_on(tmp_path) -> None:
    problem = hf.Tabular(3, 2, 6, terminal=[2])
    run = hf.explore(
        Corridor(), "uniform", known=problem, episodes=30, seed=1, progress=False, out=tmp_path / "run"
    )
    observed = run.observed_reward
    np.testing.assert_array_equal(observed.count[:2], run.visits[:2])
    np.testing.assert_allclose(observed.mean, [[0, 0], [-1, 2], [0, 0]])
    assert observed.range == (-1.0, 2.0)
    assert observed.is_over.tolist() == [False, False, True]
    loaded = hf.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.observed_reward.total, observed.total)
    resumed = loaded.resume(env=Corridor(), episodes=20, progress=False)
    np.testing.assert_array_equal(resumed.observed_reward.count[:2], resumed.visits[:2])
    np.testing.assert_array_equal(observed.count[:2], run.visits[:2])  # the run itself is left as it is
    assert run.plan(observed).value == pytest.approx(2.0)
    assert hf.explore(hf.make("river-swim"), "uniform", episodes=2, progress=False).rewards is None
