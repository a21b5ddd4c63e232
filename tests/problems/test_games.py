"""Gymnasium's Taxi and Blackjack, which start at random: explored live, simulated, planned and certified."""

import gymnasium
import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import ShapeError
from horizonfree.models.registry import diagnostics_of
from horizonfree.planning import evaluate, optimal
from horizonfree.problems.gymnasium.live import run_episode
from tests.reference import blackjack
from tests.reference.gymnasium_tables import hoeffding, transition_table

TAXI = "Taxi-v4"


@pytest.fixture(scope="module")
def taxi():
    return hf.from_gymnasium(TAXI, horizon=8)


def test_taxi_keeps_its_states_and_its_three_hundred_starts(taxi):
    env = gymnasium.make(TAXI)
    assert (taxi.num_states, taxi.num_actions, taxi.space.start) == (500, 6, None)
    np.testing.assert_allclose(taxi.start, env.unwrapped.initial_state_distrib, atol=1e-15)
    assert np.count_nonzero(taxi.start) == taxi.space.starts().sum() == 300
    np.testing.assert_allclose(taxi.kernel().dense(), transition_table(env), atol=1e-12)
    assert taxi.model.num_unknown == 2
    rebuilt = hf.make(taxi.recipe["name"], **taxi.recipe["parameters"])
    np.testing.assert_array_equal(rebuilt.start, taxi.start)


def test_a_live_taxi_starts_where_it_may(taxi):
    env, rng = gymnasium.make(TAXI), np.random.default_rng(0)
    starts = [run_episode(env, taxi.space, np.zeros((8, 500), int), rng).s[0] for _ in range(50)]
    assert taxi.space.starts()[starts].all()
    assert len(set(starts)) > 30  # 20 or more repetitions in 50 draws of 300: far below 1e-6


@pytest.mark.parametrize("is_live", [False, True])
def test_taxi_is_explored_planned_and_certified(taxi, is_live, tmp_path):
    """At delta = 1e-6 the plan loses no more than was certified, but for a false alarm of that probability."""
    if is_live:
        env = gymnasium.make(TAXI)
        run = hf.explore(env, "optimal-design", known=hf.Problem(taxi.model), episodes=40, seed=1)
    else:
        run = hf.explore(taxi, "optimal-design", episodes=40, seed=1, out=tmp_path / "a")
        loaded = hf.load(tmp_path / "a")
        np.testing.assert_array_equal(loaded.evidence.counts, run.evidence.counts)
        np.testing.assert_array_equal(loaded.problem.start, taxi.start)
    assert run.evidence.impossible == 0
    assert run.evidence.counts.sum() == 40 * 8
    reward = hf.goal(taxi, [s for s in range(500) if s // 4 % 5 == 4])  # the passenger rides
    plan = run.plan(reward, delta=1e-6)
    assert not plan.certificate.is_rejected
    assert plan.value == pytest.approx(taxi.start @ evaluate(plan.kernel, reward, plan.policy)[0], abs=1e-12)
    assert plan.value == pytest.approx(taxi.start @ optimal(plan.kernel, reward).V[0], abs=1e-12)
    certificate = run.certificate(1e-6)
    loss = hf.true_gap(taxi, reward, plan.policy)
    assert loss <= min(plan.gap, certificate.eps) + 1e-9
    assert not certificate.is_rejected


# Blackjack


@pytest.fixture(scope="module")
def cards():
    """The class, and the same with the deck that Gymnasium plays with."""
    return blackjack.blackjack(), blackjack.blackjack(blackjack.CARDS)


def test_the_class_of_blackjack_has_ten_cards_of_which_nine_are_free(cards):
    problem, true = cards
    assert (problem.num_states, problem.num_actions, problem.model.dim) == (361, 2, 10)
    assert problem.model.num_unknown == 9
    assert problem.start.sum() == pytest.approx(1)
    assert problem.start[blackjack.END] == 0
    P = true.kernel().dense()
    ten, soft = blackjack.number(10, 5, 0), blackjack.number(21, 5, 1)
    assert P[ten, blackjack.HIT, soft] == pytest.approx(1 / 13)
    assert P[soft, blackjack.HIT, blackjack.number(21, 5, 0)] == pytest.approx(4 / 13)
    hard = blackjack.number(21, 5, 0)
    np.testing.assert_allclose(P[hard], np.eye(361)[[blackjack.END] * 2])


def test_games_of_gymnasium_follow_the_class_with_its_deck(cards):
    """Where 2,000 games stand after the start and after each of two hits; false alarm 1e-6."""
    _, true = cards
    env, rng, N = blackjack.Ended(gymnasium.make("Blackjack-v1")), np.random.default_rng(0), 2000
    hit = np.full((blackjack.HORIZON, 361), blackjack.HIT)
    games = [run_episode(env, true.space, hit, rng, encode=blackjack.encode).s for _ in range(N)]
    law, P = true.start, true.kernel().dense()[:, blackjack.HIT]
    for h in range(3):
        frequency = np.bincount([game[h] for game in games], minlength=361) / N
        assert np.abs(frequency - law).max() <= hoeffding(N, 3 * 361)
        assert not frequency[law == 0].any()
        law = law @ P


def test_blackjack_is_explored_live_and_planned(cards):
    """Nothing is rejected in 300 games, and the deck is in the confidence set: false alarms of 1e-6 each."""
    problem, true = cards
    env = blackjack.Ended(gymnasium.make("Blackjack-v1"))
    run = hf.explore(env, "optimal-design", known=problem, encode=blackjack.encode, episodes=300, seed=3)
    assert run.evidence.impossible == 0
    assert run.evidence.counts.sum() == 300 * blackjack.HORIZON
    assert not run.certificate(1e-6).is_rejected
    intervals = diagnostics_of(problem.model).intervals(run.confidence(1e-6))
    assert (intervals.low <= blackjack.CARDS + 1e-9).all()
    assert (intervals.high >= blackjack.CARDS - 1e-9).all()

    reward = np.zeros((blackjack.HORIZON, 361, 2))  # to stick with 19 or more
    for hand in blackjack.hands():
        reward[:, blackjack.number(*hand), blackjack.STICK] = hand[0] >= 19
    plan = run.plan(reward, delta=1e-6)
    assert plan.policy.shape == (blackjack.HORIZON, 361)
    assert hf.true_gap(true, reward, plan.policy) <= plan.gap + 1e-9
    best = optimal(true.kernel(), reward).V[0]
    values = evaluate(true.kernel(), reward, plan.policy)[0]
    assert true.start @ values > 0.8 * (true.start @ best)
    assert plan.act(0, blackjack.number(11, 6, 0)) == blackjack.HIT
    assert plan.act(0, blackjack.number(20, 6, 0)) == blackjack.STICK


def test_blackjack_as_gymnasium_shows_it_needs_an_encoding(cards):
    problem, _ = cards
    with pytest.raises(ShapeError, match="pass encode= to turn observations into states"):
        hf.explore(gymnasium.make("Blackjack-v1"), known=problem, episodes=1)
