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

from .worlds import grid, known_world, river


@pytest.mark.parametrize("seed", [0, 1])
def test_an_earlier_certificate_is_the_one_that_the_run_would_have_given_then(seed: int) -> None:
    found = {m.episodes: m for m in facts.history_of(grid(70, seed), 0.05)}
    assert sorted(found) == [20, 60, 70]
    for k in (20, 60):
        then = grid(k, seed)
        model = then.problem.model
        assert found[k].eps == pytest.approx(then.certificate().eps, rel=1e-6)
        assert found[k].uncertainty == pytest.approx(
            diagnostics_of(model).mean_uncertainty(then.confidence(0.05)), rel=1e-6
        )
        assert found[k].inefficiency == pytest.approx(facts.inefficiency(model, then.evidence), rel=1e-6)
    assert found[70].eps == grid(70, seed).certificate().eps


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
    every = facts.goals(run)
    monkeypatch.setattr(facts, "MAX_SCORED_GOALS", 5)
    few = facts.goals(run)
    assert len(few) == 5
    assert len(every) == 16
    np.testing.assert_array_equal(few[[0, -1]], every[[0, -1]])


def test_intervals_are_the_shadow_of_the_ellipsoid(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every parameter on the ellipsoid stays within the intervals, and each end is attained."""
    monkeypatch.setattr(diagnostics, "MAX_ENTRIES_OF_PROGRAMMES", 0)
    confidence, model = run.confidence(0.05), run.problem.model
    found = diagnostics_of(model).intervals(confidence)
    Z, rows = np.asarray(model.valid.basis), np.asarray(model.valid.rows)
    z_rows, z = rows @ Z, np.asarray(confidence.ball.z)
    q = Z.shape[1]

    def moved(u: np.ndarray) -> np.ndarray:
        return Z @ np.linalg.lstsq(z_rows, z @ u, rcond=None)[0] / model.unit

    radius = found.high - found.estimate
    np.testing.assert_allclose(found.estimate - found.low, radius)
    rng = np.random.default_rng(0)
    for u in rng.normal(size=(200, q)):
        assert (np.abs(moved(u / np.linalg.norm(u))) <= radius + 1e-12).all()
    for i in range(len(radius)):
        toward = np.array([moved(e)[i] for e in np.eye(q)])
        assert moved(toward / np.linalg.norm(toward))[i] == pytest.approx(radius[i])


def test_intervals_hold_the_truth(run: Run) -> None:
    """False alarm: 1e-6, the delta of the confidence."""
    found = ft.compute_facts(run, 1e-6)
    assert found.intervals is not None
    assert found.truth is not None
    assert (found.intervals.low - 1e-9 <= found.truth).all()
    assert (found.truth <= found.intervals.high + 1e-9).all()


def test_intervals_are_cut_where_no_kernel_has_such_a_weight() -> None:
    """Weights of a grid are probabilities, of staying on course and of slipping; one episode says little of them."""
    run = grid(1)
    found = diagnostics_of(run.problem.model).intervals(run.confidence(0.05))
    np.testing.assert_allclose(found.low, 0.0, atol=1e-9)
    np.testing.assert_allclose(found.high, 1.0, atol=1e-9)


def test_doubt_is_zero_where_everything_is_known_and_nan_where_nobody_gets() -> None:
    run = known_world()
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
        found = ft.example(run, title, states, table, 0.05)
        plan = run.plan(table)
        assert found.V[run.problem.start] == pytest.approx(plan.value, abs=1e-12)
        assert (found.gap, found.value) == (plan.gap, plan.value)
        best = optimal(run.problem.kernel(), table).V[0, run.problem.start]
        assert found.best == pytest.approx(best)
        assert found.loss == pytest.approx(max(0.0, hf.true_gap(run.problem, table, plan.policy)))
