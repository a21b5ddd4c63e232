"""What a report says of a run: its numbers are identities of the run."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.mdp.space import occupied_states
from horizonfree.models.mixture import diagnostics
from horizonfree.models.registry import diagnostics_of
from horizonfree.planning import optimal
from horizonfree.report import facts
from horizonfree.report import facts as ft
from horizonfree.runs.run import Run

from .example_runs import grid, river, run_of_known_kernel


@pytest.mark.parametrize("seed", [0, 1])
def test_an_earlier_certificate_is_the_one_that_the_run_would_have_given_then(seed: int) -> None:
    history = {m.episodes: m for m in facts.history_of(grid(70, seed), 0.05)}
    assert sorted(history) == [20, 60, 70]
    for k in (20, 60):
        shorter_run = grid(k, seed)
        model = shorter_run.problem.model
        assert history[k].eps == pytest.approx(shorter_run.certificate().eps, rel=1e-6)
        assert history[k].uncertainty == pytest.approx(
            diagnostics_of(model).mean_uncertainty(shorter_run.confidence(0.05)), rel=1e-6
        )
        assert history[k].inefficiency == pytest.approx(
            facts.inefficiency(model, shorter_run.evidence), rel=1e-6
        )
    assert history[70].eps == grid(70, seed).certificate().eps


def test_the_worst_true_gap_is_the_worst_over_the_goals(run: Run) -> None:
    gaps = []
    for s in np.flatnonzero(occupied_states(run.problem.space)[-1]):
        goal = hf.goal(run.problem, int(s))
        gaps.append(hf.true_gap(run.problem, goal, run.plan(goal).policy))
    assert facts.history_of(run, 0.05)[-1].true_gap == pytest.approx(max(gaps), abs=1e-9)


def test_no_goal_loses_more_than_the_certificate(run: Run) -> None:
    """False alarm: 1e-6, the delta of the certificate."""
    assert facts.history_of(run, 1e-6)[-1].true_gap <= run.certificate(1e-6).eps


def test_many_goals_are_thinned_evenly_and_end_at_both_ends(
    monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    all_goals = facts.goals(run)
    monkeypatch.setattr(facts, "MAX_SCORED_GOALS", 5)
    thinned = facts.goals(run)
    assert len(thinned) == 5
    assert len(all_goals) == 16
    np.testing.assert_array_equal(thinned[[0, -1]], all_goals[[0, -1]])


def test_intervals_are_the_shadow_of_the_ellipsoid(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every parameter on the ellipsoid stays within the intervals, and each end is attained."""
    monkeypatch.setattr(diagnostics, "MAX_ENTRIES_OF_PROGRAMMES", 0)
    confidence, model = run.confidence(0.05), run.problem.model
    intervals = diagnostics_of(model).intervals(confidence)
    Z, rows = np.asarray(model.valid.basis), np.asarray(model.valid.rows)
    z_rows, z = rows @ Z, np.asarray(confidence.ball.z)
    q = Z.shape[1]

    def boundary(u: np.ndarray) -> np.ndarray:
        return Z @ np.linalg.lstsq(z_rows, z @ u, rcond=None)[0] / model.unit

    radius = intervals.high - intervals.estimate
    np.testing.assert_allclose(intervals.estimate - intervals.low, radius)
    rng = np.random.default_rng(0)
    for u in rng.normal(size=(200, q)):
        assert (np.abs(boundary(u / np.linalg.norm(u))) <= radius + 1e-12).all()
    for i in range(len(radius)):
        toward = np.array([boundary(e)[i] for e in np.eye(q)])
        assert boundary(toward / np.linalg.norm(toward))[i] == pytest.approx(radius[i])


def test_intervals_hold_the_truth(run: Run) -> None:
    """False alarm: 1e-6, the delta of the confidence."""
    run_facts = ft.compute_facts(run, 1e-6)
    assert run_facts.intervals is not None
    assert run_facts.truth is not None
    assert (run_facts.intervals.low - 1e-9 <= run_facts.truth).all()
    assert (run_facts.truth <= run_facts.intervals.high + 1e-9).all()


def test_intervals_are_cut_where_no_kernel_has_such_a_weight() -> None:
    """Weights of a grid are probabilities, of staying on course and of slipping; one episode says little of them."""
    run = grid(1)
    intervals = diagnostics_of(run.problem.model).intervals(run.confidence(0.05))
    np.testing.assert_allclose(intervals.low, 0.0, atol=1e-9)
    np.testing.assert_allclose(intervals.high, 1.0, atol=1e-9)


def test_doubt_is_zero_where_everything_is_known_and_nan_where_nobody_gets() -> None:
    run = run_of_known_kernel()
    np.testing.assert_array_equal(
        diagnostics_of(run.problem.model).row_uncertainty(run.confidence(0.05)), 0.0
    )
    far = river()
    doubts = diagnostics_of(far.problem.model).row_uncertainty(far.confidence(0.05))
    np.testing.assert_array_equal(np.isnan(doubts), np.arange(8) > 3)


def test_visits_count_every_step(run: Run) -> None:
    assert ft.compute_facts(run).visits.sum() == run.episodes * run.problem.horizon


def test_an_example_is_the_plan_of_its_reward_and_its_truth(run: Run) -> None:
    for title, states, table in ft.example_rewards(run.problem):
        example = ft.example(run, title, states, table, 0.05)
        plan = run.plan(table)
        assert example.V[run.problem.start] == pytest.approx(plan.value, abs=1e-12)
        assert (example.gap, example.value) == (plan.gap, plan.value)
        best = optimal(run.problem.kernel(), table).V[0, run.problem.start]
        assert example.best == pytest.approx(best)
        assert example.loss == pytest.approx(max(0.0, hf.true_gap(run.problem, table, plan.policy)))
