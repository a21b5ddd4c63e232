"""The episode loop: the requested episodes are run, whatever the sizes of blocks."""

import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import horizonfree as hf
from horizonfree._x64 import to_device
from horizonfree.errors import OptionError
from horizonfree.explorers.uniform import Uniform
from horizonfree.models.base import Model
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.runs import loop
from horizonfree.runs.until import StopRule
from tests.runs.test_store import assert_same


@pytest.fixture(scope="module")
def problem() -> hf.Problem:
    return hf.make("zoned-grid", size=3, zones=1, horizon=4)


@pytest.mark.parametrize(("seconds", "block"), [(1e-9, 256), (1e9, 256), (0.25, 5)])
def test_a_run_does_not_depend_on_how_the_clock_cuts_it_into_blocks(
    seconds: float, block: int, problem: hf.Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    single_block = hf.explore(problem, "optimal-design", episodes=17, seed=8)
    monkeypatch.setattr(loop, "BLOCK_SECONDS", seconds)
    monkeypatch.setattr(loop, "MAX_BLOCK", block)
    assert_same(single_block, hf.explore(problem, "optimal-design", episodes=17, seed=8))


def test_going_on_equals_going_through_and_leaves_the_run_as_it_was(problem: hf.Problem) -> None:
    first = hf.explore(problem, "optimal-design", episodes=7, seed=8)
    resumed = first.resume(episodes=10)
    assert_same(resumed, hf.explore(problem, "optimal-design", episodes=17, seed=8))
    assert (first.episodes, resumed.episodes, len(resumed.records["information"])) == (7, 17, 17)


def test_blocks_write_over_no_evidence_but_their_own(problem: hf.Problem, x64: None) -> None:
    run = hf.explore(problem, "optimal-design", episodes=17, seed=8)
    engine, progress = loop.simulation_engine(run, run.explorer), to_device(run.progress)
    first, second = (engine(progress, 3)[0] for _ in range(2))
    np.testing.assert_array_equal(first.evidence.counts, second.evidence.counts)
    np.testing.assert_array_equal(progress.evidence.counts, run.evidence.counts)
    assert first.evidence.counts.sum() == run.evidence.counts.sum() + 3 * problem.horizon


def test_seeds_differ_and_repeat(problem: hf.Problem) -> None:
    runs = [hf.explore(problem, "uniform", episodes=5, seed=seed) for seed in (0, 0, 1)]
    assert_same(runs[0], runs[1])
    assert (runs[0].evidence.counts != runs[2].evidence.counts).any()


def test_every_step_is_counted_once(problem: hf.Problem) -> None:
    run = hf.explore(problem, "uniform", episodes=23)
    assert run.evidence.counts.sum() == 23 * problem.horizon
    assert run.evidence.episodes == run.episodes == 23


@given(first=st.integers(0, 10**6), k=st.integers(0, 10**6), extra=st.integers(1, 10**6))
def test_looks_come_soon_enough_and_depend_on_the_episode_alone(first: int, k: int, extra: int) -> None:
    stop_rule = StopRule(first, first + extra, until_eps=0.1)
    k = min(first + k, stop_rule.last)
    look = stop_rule.next_look(k)
    assert max(k, 1) <= look <= stop_rule.last
    assert stop_rule.next_look(look) == look  # arriving there, one looks
    if k > first:
        assert look - k <= k / 10 + 1
        assert all(stop_rule.next_look(j) == look for j in {k, (k + look) // 2, look})
    assert StopRule(first, stop_rule.last).next_look(k) == stop_rule.last


def test_a_certified_goal_is_met_and_not_met_a_look_earlier(problem: hf.Problem) -> None:
    run = hf.explore(problem, "optimal-design", until_eps=0.4, seed=3, delta=0.1)
    assert run.certificate(0.1, method="direct").eps <= 0.4
    stop_rule = run.until
    assert stop_rule is not None
    previous_look = max(k for k in range(1, run.episodes) if stop_rule.next_look(k) == k)
    assert (
        loop._certified(hf.explore(problem, "optimal-design", episodes=previous_look, seed=3), stop_rule)
        > 0.4
    )
    assert run.resume(until_eps=0.4, delta=0.1).episodes == run.episodes  # it is there already


def test_a_certified_goal_gives_up_at_the_episodes_allowed(problem: hf.Problem) -> None:
    run = hf.explore(problem, "uniform", until_eps=0.001, episodes=12)
    assert run.episodes == 12


@pytest.fixture
def unexplored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs before their first episode: no compiled episodes are needed to check an explorer's options."""
    monkeypatch.setattr("horizonfree.runs.explore.run_loop", lambda run, *_: run)


def test_the_explorer_is_told_delta_budget_and_reward(problem: hf.Problem, unexplored: None) -> None:
    reward = hf.goal(problem, 8)
    run = hf.explore(problem, "ucrl-vtr", episodes=2, delta=0.2, reward=reward)
    assert (run.explorer.delta, run.explorer.budget) == (0.2, 2)
    np.testing.assert_array_equal(run.explorer.reward, reward)
    assert hf.explore(problem, "ucrl-vtr", episodes=2, budget=9, reward=reward).explorer.budget == 9


def test_a_real_environment_is_only_stepped(problem: hf.Problem) -> None:
    without_truth = hf.Problem(problem.model)
    run = hf.explore(problem.to_gymnasium(), "optimal-design", known=without_truth, episodes=6, seed=1)
    assert run.evidence.counts.sum() == 6 * problem.horizon
    assert not run.is_simulated
    with pytest.raises(OptionError, match="pass it again: env="):
        run.resume(episodes=1)


@pytest.mark.parametrize("name", ["ucrl-vtr", "hf-ucrl-vtr+", "ucrl-vtr+"])
def test_a_run_keeps_the_reward_it_was_given(problem: hf.Problem, name: str) -> None:
    """Whatever becomes of the caller's array: a resumed run has the bits of one that was never interrupted."""
    reward = hf.occupancy(problem, 8)
    uninterrupted = hf.explore(problem, name, episodes=12, budget=12, reward=reward)
    half = hf.explore(problem, name, episodes=6, budget=12, reward=reward)
    reward[:] = 0
    resumed = half.resume(episodes=6)
    assert np.asarray(half.explorer.reward).sum() > 0  # type: ignore[union-attr]
    np.testing.assert_array_equal(resumed.evidence.counts, uninterrupted.evidence.counts)


def test_numbers_of_any_kind_are_understood(problem: hf.Problem, tmp_path: Path) -> None:
    """Whole numbers written as 5.0, NumPy's own, and arrays of one number give the run that plain ones give."""
    expected = hf.explore(problem, "uniform", episodes=6, save_episodes=2, delta=0.05, out=tmp_path / "a")
    other = hf.explore(
        problem, "uniform", episodes=6.0, save_episodes=2.0, delta=np.float64(0.05), out=tmp_path / "b"
    )
    np.testing.assert_array_equal(expected.evidence.counts, other.evidence.counts)
    assert expected.certificate(np.array(0.05)) == other.certificate(np.float64(0.05))
    assert (
        expected.plan(hf.goal(problem, 8), delta=np.array(0.05)).gap == expected.plan(hf.goal(problem, 8)).gap
    )
    hf.load(tmp_path / "b").resume(until_eps=np.float32(0.9), episodes=np.int64(2))
    assert hf.load(tmp_path / "b").until.until_eps == pytest.approx(0.9)  # type: ignore[union-attr]
    policy = np.zeros((problem.horizon, problem.num_states), int)
    assert hf.simulate(problem, policy, episodes=5.0).s.shape[0] == 5


def test_a_budget_is_a_whole_number_however_it_is_written(problem: hf.Problem, unexplored: None) -> None:
    budget = hf.explore(problem, "hf-ucrl-rfe++", episodes=2.0).explorer.budget  # type: ignore[union-attr]
    assert (budget, type(budget)) == (2, int)


def test_more_steps_than_can_be_counted_are_refused() -> None:
    problem = hf.make("river-swim", states=3, horizon=1000)
    with pytest.raises(
        OptionError, match="3,000,000 episodes of 1,000 steps cannot be counted; at most 2,147,483 are"
    ):
        hf.explore(problem, "uniform", episodes=3_000_000)
    with pytest.raises(OptionError, match="cannot be counted"):
        hf.explore_many(problem, "uniform", episodes=3_000_000, seeds=1)


def test_a_reward_that_would_change_nothing_is_refused(problem: hf.Problem) -> None:
    run = hf.explore(problem, "uniform", episodes=1)
    for options in ({}, {"episodes": 1}):
        with pytest.raises(OptionError, match="reward= is the reward of until_eps="):
            run.resume(reward=hf.goal(problem, 3), **options)


class Table(MixtureModel):
    """Another class of models."""


class OfTables(Uniform):
    """An explorer for that class alone."""

    learns: ClassVar[type[Model]] = Table


def test_an_explorer_of_another_class_of_models_is_refused(problem: hf.Problem) -> None:
    message = (
        r"explorer .*OfTables.* learns a Table, but this problem has a MixtureModel; choose another explorer"
    )
    with pytest.raises(OptionError, match=message):
        hf.explore(problem, OfTables(), episodes=1)
    with pytest.raises(OptionError, match=message):
        hf.explore_many(problem, OfTables(), episodes=1, seeds=1)
    with pytest.raises(OptionError, match=message):
        hf.explore(problem.to_gymnasium(), OfTables(), known=problem.model, episodes=1)


def test_known_belongs_to_an_environment(problem: hf.Problem) -> None:
    with pytest.raises(OptionError, match="has its own model class"):
        hf.explore(problem, known=problem, episodes=1)
    with pytest.raises(OptionError, match=r"no time limit.*horizon=100"):
        hf.explore(problem.to_gymnasium(), episodes=1)


def test_exploring_changes_no_global_setting(problem: hf.Problem) -> None:
    x64_before = jax.config.jax_enable_x64
    run = hf.explore(problem, "uniform", episodes=1)
    assert jax.config.jax_enable_x64 == x64_before
    assert all(isinstance(x, (np.ndarray, np.generic)) for x in jax.tree.leaves(run.progress))


# Public names


def test_every_public_name_is_there_and_nothing_is_loaded_before_it_is_used() -> None:
    code = (
        "import sys, horizonfree as hf\n"
        "assert 'jax' not in sys.modules\n"
        "import horizonfree.explorers, horizonfree.problems\n"
        "assert set(hf._MODULE_OF) | {'theory'} == set(hf.__all__)\n"
        "for name in hf.__all__: getattr(hf, name)\n"
        "assert all(callable(f) for f in (hf.simulate, hf.explorers, hf.problems, hf.load))\n"
        "assert not hasattr(hf, 'nothing')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
