"""Runs compute with the part of a problem that episodes come to, and answer in the caller's numbers."""

from dataclasses import replace

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.cli._shared import weights_of
from horizonfree.errors import OptionError, RewardError, ShapeError
from horizonfree.explorers.registry import make_explorer
from horizonfree.mdp.part import inside, outside, visited_states
from horizonfree.report.facts import facts, samples
from horizonfree.report.history import moments
from horizonfree.runs import part

EPISODES = 12


@pytest.fixture(scope="module")
def problem():
    """A grid of 64 cells, of which six steps from the corner come to 28, and act in 21."""
    return hf.make("zoned-grid", size=8, zones=2, horizon=6, seed=1)


@pytest.fixture(scope="module")
def spared():
    """Parts of small problems."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(part, "SPARED", 1)
        yield


@pytest.fixture(scope="module")
def whole(problem):
    return hf.explore(problem, "information", episodes=EPISODES, seed=3, progress=False)


@pytest.fixture(scope="module")
def run(problem, whole, spared):
    return hf.explore(problem, "information", episodes=EPISODES, seed=3, progress=False)


def test_a_part_has_the_visited_states_and_their_rows(problem, run):
    cells = np.asarray(problem.layout["cells"]).sum(axis=1)
    states = np.flatnonzero(cells <= 6)
    assert (visited_states(problem.space) == states).all()
    assert (np.asarray(run.part.space.numbers) == states).all()
    assert (states[np.asarray(run.part.space.reachable)] == np.flatnonzero(cells <= 5)).all()
    table, small = problem.kernel().dense(), run.part.kernel().dense()
    for i, s in enumerate(states):
        if cells[s] <= 5:  # an action can be taken
            assert (small[i] == table[s][:, states]).all()
            assert table[s][:, states].sum(-1) == pytest.approx(1)
    assert run.part.space.start == 0
    assert run.part.model.valid.num_free == problem.model.valid.num_free


def test_arrays_go_in_and_out(run):
    space, x = run.part.space, np.arange(2 * 64.0).reshape(2, 64)
    there = inside(space, x, axis=1)
    assert there.shape == (2, 28)
    assert (there[0] == np.asarray(space.numbers)).all()
    back = outside(space, there, 64, axis=1, fill=np.nan)
    acts = np.asarray(space.numbers)[np.asarray(space.reachable)]
    assert (back[:, acts] == x[:, acts]).all()
    assert np.isnan(np.delete(back, acts, axis=1)).all()


def test_episodes_and_answers_are_those_of_the_whole(problem, run, whole):
    """But for rounding, and for the number of rows by which a barrier of the likelihood is divided."""
    assert run.part is not None
    assert whole.part is None
    assert (run.visits == whole.visits).all()
    assert run.visits.sum() == EPISODES * 6
    for name, x in whole.records.items():
        assert run.records[name] == pytest.approx(x, rel=1e-9)
    assert run.theta_hat == pytest.approx(whole.theta_hat, abs=1e-9)
    assert run.certificate().eps == pytest.approx(whole.certificate().eps, abs=1e-5)
    assert run.weight_intervals == pytest.approx(whole.weight_intervals, abs=1e-5)
    for reward in (hf.goal(problem, 18), hf.occupancy(problem, 9)):
        a, b = run.plan(reward), whole.plan(reward)
        assert a.policy.shape == b.policy.shape == (6, 64)
        assert (a.policy[:, ~np.asarray(problem.space.reachable)] == 0).all()
        for name in ("value", "value_low", "value_high", "gap"):
            assert getattr(a, name) == pytest.approx(getattr(b, name), abs=1e-5)
        assert a.kernel.prob == pytest.approx(b.kernel.prob, abs=1e-5)
        assert whole.evaluate(reward, a.policy).value == pytest.approx(b.value, abs=1e-5)
        assert run.evaluate(reward, b.policy).value == pytest.approx(a.value, abs=1e-5)
        assert run.compare(reward, a.policy, np.zeros((6, 64), int)).difference == pytest.approx(
            whole.compare(reward, b.policy, np.zeros((6, 64), int)).difference, abs=1e-5
        )
    told, same = (weights_of(x, 0.05) for x in (run, whole))
    assert [x["name"] for x in told] == [x["name"] for x in same]
    for name in ("estimate", "low", "high"):
        assert [x[name] for x in told] == pytest.approx([x[name] for x in same], abs=1e-5)
    family = run.certificate(rewards="goals"), whole.certificate(rewards="goals")
    assert family[0].eps == pytest.approx(family[1].eps, abs=1e-5)
    assert family[0].parts["rewards"] == family[1].parts["rewards"]
    assert run.certificate(rewards=[hf.goal(problem, 18)]).eps == pytest.approx(
        run.plan(hf.goal(problem, 18)).gap
    )


def test_rewards_of_every_form_are_in_the_callers_numbers(problem, run):
    states = np.zeros(64)
    states[[9, 63]] = 1 / 6
    forms = [
        states,
        np.repeat(states[:, None], 4, axis=1),
        np.broadcast_to(states[:, None], problem.space.sizes),
        lambda h, s, a: states[s],
        hf.rescale(problem, -6 * states),
    ]
    values = [run.plan(form).value for form in forms]
    assert values[:4] == pytest.approx([values[0]] * 4)
    assert values[0] > 0
    assert values[4] < 0  # a cost, in its own units
    assert run.plan(np.where(np.arange(64) == 9, 1, 0), scale="per-step").value > 0


def test_what_is_refused_is_refused_in_the_callers_numbers(problem, run):
    bad = np.zeros(64)
    bad[18] = -1.0
    with pytest.raises(RewardError, match=r"reward\[h=0, s=18, a=0\] is -1"):
        run.plan(bad)
    with pytest.raises(RewardError, match=r"total reaches 2 on the trajectory .*\(s=9, a=\d, r=1\)"):
        run.plan(np.where(np.arange(64) == 9, 1.0, 0.0))
    with pytest.raises(ShapeError, match=r"\[S\]=\(64,\)"):
        run.plan(np.zeros(28))
    with pytest.raises(ShapeError, match="shape"):
        run.plan(hf.rescale(hf.make("zoned-grid", size=4, zones=2, horizon=6), np.zeros(16)))
    with pytest.raises(ShapeError, match=r"policy\[h=0, s=63\]"):
        run.evaluate(np.zeros(64), np.where(np.arange(64) == 63, 9, 0))


def test_plans_from_elsewhere(problem, run, whole):
    reward = np.where(np.arange(64) == 18, 1 / 3, 0.0)
    a, b = (x.plan(reward, start=9, horizon=3) for x in (run, whole))
    assert a.value == pytest.approx(b.value, abs=1e-5)
    assert a.gap == pytest.approx(b.gap, abs=1e-5)
    assert a.certificate.words.endswith("from state 9, in 3 steps")
    drawn = np.where(np.isin(np.arange(64), [1, 8]), 0.5, 0.0)
    a, b = (x.plan(reward, start=drawn, horizon=3) for x in (run, whole))
    assert a.value == pytest.approx(b.value, abs=1e-5)
    for start in (63, 27):  # out of reach; in reach, but not with six steps to go
        with pytest.raises(ShapeError, match="no episode of 6 steps"):
            run.plan(reward, start=start, horizon=None if start == 27 else 1)


def test_a_stored_run_goes_on_with_its_part(problem, run, whole, tmp_path):
    on = hf.explore(problem, "information", episodes=EPISODES // 2, seed=3, progress=False)
    on.save(tmp_path / "run")
    again = hf.load(tmp_path / "run").resume(episodes=EPISODES // 2, progress=False)
    assert again.part.num_states == 28
    for name, x in run.records.items():
        assert (again.records[name] == x).all()
    whole.save(tmp_path / "whole")
    assert hf.load(tmp_path / "whole").part is None


def test_a_real_environment_is_stepped_in_its_own_numbers(problem, run):
    pytest.importorskip("gymnasium")
    env = problem.to_gymnasium()
    seen = hf.explore(env, "information", known=problem, episodes=4, progress=False)
    assert seen.part.num_states == 28
    assert seen.visits.sum() == 24
    assert seen.visits[~np.asarray(problem.space.reachable)].sum() == 0
    assert not seen.certificate().is_rejected


def test_logs_are_cut_unless_they_leave_the_part(problem, spared):
    episodes = hf.simulate(problem, np.ones((6, 64), int), episodes=5)
    logged = hf.from_episodes(problem, episodes)
    assert logged.part.num_states == 28
    assert logged.visits.sum() == 30
    s, a = np.array(episodes.s), np.array(episodes.a)
    s[0, 3:] = 63
    jumped = hf.from_episodes(problem, (s, a))
    assert jumped.part is None
    assert jumped.certificate().is_rejected


def test_reports_show_the_whole(run, whole):
    a, confidence = facts(run), whole.confidence()
    assert (a.visits == whole.visits.sum(axis=1)).all()
    assert a.doubt == pytest.approx(whole.problem.model.doubts(confidence), abs=1e-5, nan_ok=True)
    assert a.history[-1].true_gap == pytest.approx(moments(whole, 0.05)[-1].true_gap, abs=1e-9)
    table = samples(run.problem)[0][2]
    assert a.examples[0].value == pytest.approx(whole.plan(table).value, abs=1e-5)
    assert a.robustness is None


def test_a_class_that_may_be_wrong_needs_all_states(problem, run):
    for ask in (
        lambda: run.certificate(misspecification=0.01),
        lambda: run.plan(hf.goal(problem, 18), misspecification=0.01),
        lambda: run.robustness(),
    ):
        with pytest.raises(OptionError, match="misspecification= transitions may lead to states"):
            ask()


def test_words_name_pairs_in_the_callers_numbers(run):
    confidence = run.confidence()
    stop = np.zeros((28, 4), bool)
    stop[-1, 2] = True
    compared = confidence.compared
    compared = compared._replace(divergence=replace(compared.divergence, stop=stop))
    unsure = replace(confidence, compared=compared)
    assert unsure.unsure_pairs().tolist() == [[48, 2]]


def test_small_problems_and_explorers_for_one_reward_keep_all_states(problem, spared, monkeypatch):
    for_one = make_explorer("hf-ucrl-vtr+", reward=hf.goal(problem, 18), budget=1)
    assert part.part_of_problem(problem, for_one) is None
    monkeypatch.setattr(part, "SPARED", 37)
    assert part.part_of_problem(problem) is None  # 36 are spared
    monkeypatch.setattr(part, "SPARED", 36)
    assert part.part_of_problem(problem) is not None
