"""Goal cycling: it aims at the least visited pair, reaches all it can reach, and gives up on what it cannot."""

import numpy as np

import horizonfree as hf
from horizonfree import planning
from horizonfree.explorers.goal_cycling import GoalCycling
from tests.reference.episodes import follow
from tests.reference.small import slips


def test_each_aim_has_the_fewest_visits_and_aims_so_far():
    problem, explorer = slips(), GoalCycling()
    visits = np.zeros((problem.num_states, 2), int)
    aims = np.zeros_like(visits)
    for state, trajectory, _ in follow(problem, explorer, 30, gathers=True):
        (aim,) = np.argwhere(state.aims != aims)
        totals = visits + aims
        assert totals[tuple(aim)] == totals.min()
        aims = state.aims
        np.add.at(visits, (trajectory.s[:-1], trajectory.a), 1)
    assert (visits > 0).all()


def test_the_chance_it_reports_is_that_of_its_policy_in_its_model():
    """The probability that the aim is met: an occupancy in the model where meeting it ends the episode."""
    problem = slips()
    run = hf.explore(problem, "goal-cycling", episodes=12, seed=3, progress=False)
    theta = np.asarray(run.evidence.theta)
    resumed = run.resume(episodes=1, progress=False)
    state, aims = resumed.progress.state, run.progress.state.aims
    (aim,) = np.argwhere(state.aims != aims)
    P = problem.model.kernel(theta).dense()
    S, A = problem.num_states, problem.num_actions
    ending_P = np.zeros((S + 1, A, S + 1))
    ending_P[:S, :, :S], ending_P[S, :, S] = P, 1.0
    ending_P[aim[0], aim[1]] = np.eye(S + 1)[S]
    kernel = hf.Mixture.from_tabular(ending_P, horizon=problem.horizon).kernel()
    policy = np.concatenate([state.policy, np.zeros((problem.horizon, 1), int)], axis=1)
    d = planning.visits(kernel, policy, problem.start)
    assert np.isclose(d[:, aim[0], aim[1]].sum(), resumed.records["chance"][-1], atol=1e-9)
    best = planning.optimal(kernel, np.broadcast_to(one_hot(S + 1, A, aim), (problem.horizon, S + 1, A)))
    assert np.isclose(best.V[0, problem.start], resumed.records["chance"][-1], atol=1e-9)


def one_hot(S, A, aim):
    table = np.zeros((S, A))
    table[tuple(aim)] = 1.0
    return table


def test_a_pair_that_cannot_be_met_does_not_hold_the_attention():
    """In river-swim the far end is hard to reach; no pair is aimed at twice before all were."""
    problem = hf.make(
        "river-swim", states=5, horizon=4
    )  # the last state needs a random success at every step
    run = hf.explore(problem, "goal-cycling", episodes=40, progress=False)
    aims = run.progress.state.aims
    assert aims.max() <= 40 / 2
    assert (aims[problem.space.reachable] > 0).mean() > 0.5
