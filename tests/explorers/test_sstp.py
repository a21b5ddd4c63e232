"""The reconstruction of SSTP: its recursion against plain loops, its stages, and what it does on chains."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import OptionError
from horizonfree.explorers.registry import EXPLORERS, label
from horizonfree.explorers.sstp import SSTP
from horizonfree.problems.classes import Tabular
from tests.reference import sstp as literal
from tests.reference.episodes import follow
from tests.reference.tables import random_problem


def test_it_says_that_it_is_a_reconstruction():
    assert EXPLORERS["sstp"].is_reconstruction
    assert label("sstp") == "sstp (reconstruction)"
    assert "reconstruction" in EXPLORERS["sstp"].about


def test_thirty_episodes_agree_with_plain_loops():
    """Policies attain the maxima, and are made anew exactly when a count has doubled or the goals have changed."""
    problem, delta, scale, base = random_problem(S=3, A=2, H=4), 0.1, 0.002, 24
    explorer = SSTP(budget=30, base=base, eps=0.3, bonus_scale=scale, delta=delta)
    H, N, stage, num_steps = problem.horizon, np.zeros((3, 2, 3)), 1, 0
    plan_N, made_at, Q, below, num_kept = None, None, None, 0, 0
    assert explorer.stages == 3
    for state, trajectory, updated in follow(problem, explorer, 30, gathers=True):
        Y = literal.goals(N, base, stage)
        if (
            plan_N is None
            or (N.sum(-1) >= 2 * np.maximum(plan_N, 1)).any()
            or made_at != (stage, Y.tobytes())
        ):
            Q = literal.reach(N, Y, H, delta, scale)
            plan_N, made_at = N.sum(-1), (stage, Y.tobytes())
        else:
            num_kept += 1
        assert ((Q >= 0) & (Q <= 1)).all()
        chosen_Q = np.take_along_axis(Q, state.policy[..., None], axis=2)[..., 0]
        np.testing.assert_allclose(chosen_Q, Q.max(-1), rtol=0, atol=1e-9)
        assert float(state.reach) == pytest.approx(Q[0, 0].max(), abs=1e-9)
        below += 0 < float(state.reach) < 1
        for h in range(H):
            N[trajectory.s[h], trajectory.a[h], trajectory.s[h + 1]] += 1
        num_steps += 1
        if (num_steps >= 10 or not literal.goals(N, base, stage).any()) and stage < 3:
            stage, num_steps = stage + 1, 0
        assert (int(updated.stage), int(updated.spent)) == (stage, num_steps)
    assert below > 0
    assert num_kept > 0
    assert stage == 3


@pytest.fixture(scope="module")
def ladder_run():
    """State j is reached with probability 2^-j: from the start, each step goes on with probability 1/2."""
    J = 5
    P = np.zeros((J + 2, 2, J + 2))
    for j in range(J + 1):
        P[j, 0, J + 1] = 1.0  # away
        P[j, 1, min(j + 1, J)] += 0.5
        P[j, 1, J + 1] += 0.5
    P[J + 1, :, J + 1] = 1.0
    problem = Tabular.from_table(P, horizon=J + 1, terminal=[J + 1])
    options = {"eps": 1 / 32, "base": 256, "bonus_scale": 0.01}
    return J, hf.explore(problem, "sstp", episodes=6 * 400, progress=False, **options)


def test_finished_pairs_have_the_visits_that_their_stage_wanted(ladder_run):
    _, run = ladder_run
    finished, visits = run.progress.state.finished, np.asarray(run.evidence.visits)
    for s, a in np.argwhere(finished > 0):
        assert visits[s, a] >= 256 * 2.0 ** -finished[s, a]
    assert (finished[np.asarray(run.problem.model.pairs).T[0]] > 0).any()
    assert (finished <= run.explorer.stages).all()


def test_a_pair_that_is_reached_with_probability_2_to_the_minus_j_is_finished_near_stage_j(ladder_run):
    """Each stage has 400 episodes: 400 2^-j visits at most, and stage k wants 256 2^-k of them, from two actions."""
    J, run = ladder_run
    for j in range(1, J):
        for a in range(2):
            assert abs(int(run.progress.state.finished[j, a]) - j) <= 1, (j, a)


def test_its_values_are_probabilities_and_its_goals_become_fewer_within_a_stage(ladder_run):
    _, run = ladder_run
    assert (run.records["reach"] >= 0).all()
    assert (run.records["reach"] <= 1).all()
    assert run.records["goals"][0] == len(run.problem.model.pairs)
    assert run.explorer.claim(run.problem.model, run.progress.state) is None


def test_the_episodes_it_needs_hardly_grow_with_the_horizon():
    """An episode of a table that ends soon is the same for every H: so are the episodes until all goals are reached."""
    needs = []
    for H in (4, 16, 64):
        P = np.zeros((3, 2, 3))
        P[0, 0], P[0, 1], P[1, 0], P[1, 1] = [0, 0.5, 0.5], [0, 0.9, 0.1], [0, 0, 1], [0.3, 0, 0.7]
        P[2, :, 2] = 1
        problem = Tabular.from_table(P, horizon=H, terminal=[2])
        run = hf.explore(problem, "sstp", episodes=2000, base=200, eps=0.5, bonus_scale=0.01, progress=False)
        needs.append(int(np.argmax(run.records["goals"] == 0)))
    assert 0 < max(needs) <= 2 * min(needs)


def test_nothing_is_counted_after_a_pair_that_was_hardly_seen():
    problem = random_problem(S=3, A=2, H=3)
    run = hf.explore(problem, "sstp", episodes=5, base=10**6, progress=False)
    plan = run.plan(hf.goal(problem, 2), model="explorer")
    assert plan.value == 0.0  # to end in a state takes two transitions, and none is covered


@pytest.mark.parametrize(
    ("options", "message"),
    [({"eps": 0.0}, r"eps is 0\.0"), ({"base": 0}, "base is 0"), ({"delta": 2.0}, r"delta is 2\.0")],
)
def test_options_outside_their_range_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        SSTP(**options)


def test_the_budget_is_asked_for():
    with pytest.raises(OptionError, match="budget is missing"):
        SSTP().episodes  # noqa: B018  # raises
