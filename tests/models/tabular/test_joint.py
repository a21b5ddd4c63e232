"""The joint e-process: it is fair, its consequences hold for every table of its set, and they are nearly attained."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from horizonfree.mdp.space import Kernel
from horizonfree.models import certify
from horizonfree.models.tabular import joint as module
from horizonfree.models.tabular.joint import JOINT, OMEGA, joint, log_e, most_visits
from horizonfree.planning.induction import best_plan
from horizonfree.problems.classes import Tabular
from tests.models.tabular.cases import gather, loss, random_policy, random_reward
from tests.reference import tabular as ref


def test_the_constants_are_those_of_the_reference():
    assert (OMEGA, JOINT) == (ref.OMEGA, ref.JOINT)


def test_the_e_process_of_a_pair_is_fair():
    """Its mean over the next successor is its value before, for every past of up to five; at first it is 1."""
    p = np.array([0.1, 0.3, 0.6])
    e = lambda N: float(np.exp(log_e(N[None], p[None]))[0])  # noqa: E731
    assert e(np.zeros(3)) == pytest.approx(1, abs=1e-15)
    for counts in itertools.product(range(6), repeat=3):
        N = np.array(counts, float)
        expected = sum(p[i] * e(N + np.eye(3)[i]) for i in range(3))
        assert expected == pytest.approx(e(N), rel=1e-12)


def test_the_e_process_of_all_pairs_is_fair_and_every_pair_is_part_of_it():
    """The pair that is visited next depends on the past: whichever it is, the mean of the product is its value."""
    p = np.array([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
    e = lambda N: math.exp(module.violation(N, p, 1.0) + module.level(1.0))  # noqa: E731
    N = np.array([[0.0, 4], [3, 1], [7, 0]])
    for x in range(3):
        step = np.zeros((2, 3, 2))
        step[:, x] = np.eye(2)
        assert sum(p[x, i] * e(N + step[i]) for i in range(2)) == pytest.approx(e(N), rel=1e-12)
        larger = N + 2 * step[int(N[x].argmax())]
        assert (
            e(larger) != pytest.approx(e(N)) or x == 1
        )  # the second pair has shown two successors: it is constant


def test_the_truth_leaves_the_joint_set_at_some_time_in_at_most_its_share_of_runs():
    """4,000 runs of 600 visits at delta = 0.5, to the pair with the longest run without another successor.

    At most JOINT delta = 0.1 of them may leave it; a correct set fails with probability 1e-6 at most (binomial).
    """
    rng, runs, delta = np.random.default_rng(0), 4000, 0.5
    stay = np.array([0.5, 0.8, 0.95, 0.99, 0.999, 1.0])
    n, first, num_several = np.zeros((3, runs, len(stay)), int)
    has_left, all_of_them = np.zeros(runs, bool), np.arange(runs)
    for _ in range(600):
        x = np.where(num_several == 1, -1, n + rng.random(n.shape)).argmax(1)
        x = np.where(rng.random(runs) < 0.3, rng.integers(len(stay), size=runs), x)
        successor = (rng.random(runs) > stay[x]).astype(int)
        is_new = n[all_of_them, x] == 0
        first[all_of_them[is_new], x[is_new]] = successor[is_new]
        num_several[all_of_them, x] |= first[all_of_them, x] != successor
        n[all_of_them, x] += 1
        p = np.where(first == 0, stay, 1 - stay)
        bet = np.log(1 - OMEGA) - np.maximum(n - 1, 0) * np.log(np.maximum(p, 1e-300))
        log_product = np.where(num_several == 1, math.log(OMEGA), np.logaddexp(math.log(OMEGA), bet)).sum(1)
        has_left |= log_product >= module.level(delta)
    assert 0 < has_left.sum() <= binom.isf(1e-6, runs, JOINT * delta)


def test_it_agrees_with_its_definition():
    rng = np.random.default_rng(0)
    N = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 40, 0], [3, 0, 1], [0, 0, 1000]], float)
    p = rng.dirichlet(np.ones(3), len(N))
    p[-1] = 1e-3, 1e-3, 0.998
    np.testing.assert_allclose(
        log_e(N, p), [ref.log_e_alone(x, y) for x, y in zip(N, p)], rtol=1e-9, atol=1e-15
    )


@pytest.mark.parametrize("H", [1, 2, 3, 9, 40])
@pytest.mark.parametrize("start", [0, [0.1, 0.4, 0.0, 0.5, 0.0]])
def test_the_most_visits_agree_with_one_programme_per_pair(H, start):
    rng = np.random.default_rng(H)
    for successors in (1, 1, 2):
        P = np.zeros((5, 2, 5))
        for s, a in np.ndindex(5, 2):
            P[s, a, rng.choice(5, rng.integers(1, successors + 1), replace=False)] = 1.0
        P /= P.sum(-1, keepdims=True)
        weight, eps = (
            rng.integers(0, 9, (5, 2)).astype(float),
            np.where(rng.random((5, 2)) < 0.2, np.inf, 0.1),
        )
        weight[np.isinf(eps)] = 0.0
        space = Tabular(5, 2, H, start=start).space
        mu = np.eye(5)[0] if start == 0 else np.array(start)
        visits = most_visits(space, space.kernel(P), np.isinf(eps), weight)
        assert visits == pytest.approx(ref.most_visits(P, eps, weight, H, mu), rel=1e-12)


def test_the_most_visits_are_found_in_parts_too(monkeypatch):
    """Target by target, and without those whose weights are too large to matter."""
    rng = np.random.default_rng(1)
    P, weight = np.eye(12)[rng.integers(12, size=(12, 3))], rng.integers(2, 50, (12, 3)).astype(float)
    space = Tabular(12, 3, 15).space
    expected = most_visits(space, space.kernel(P), np.zeros((12, 3), bool), weight)
    monkeypatch.setattr(module, "BLOCK_SIZE", 1)
    assert most_visits(space, space.kernel(P), np.zeros((12, 3), bool), weight) == expected


def test_one_state_and_one_action():
    space = Tabular(1, 1, 500).space
    kernel = Kernel(np.zeros((1, 1, 1), int), np.ones((1, 1, 1)), False)
    assert most_visits(space, kernel, np.zeros((1, 1), bool), np.array([[7.0]])) == pytest.approx(499 / 7)


def rows_on_the_boundary(rng, N, delta):
    """Laws of all pairs at the boundary of the joint set, in random directions from the frequencies."""
    X, n = N.shape
    centre = N / N.sum(-1, keepdims=True)
    directions = rng.dirichlet(np.full(n, 0.3), X)
    share = rng.random(X) * (rng.random(X) < rng.choice([0.2, 1.0]))
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        p = centre + middle * share[:, None] * (directions - centre)
        is_in = module.violation(N, p, delta) <= 0
        low, high = (middle, high) if is_in else (low, middle)
    return centre + low * share[:, None] * (directions - centre)


def test_what_follows_from_the_joint_set_holds_on_it_and_is_nearly_attained():
    """sum (n - 1) l <= budget at 200 points of the boundary; three quarters of it are attained."""
    rng, delta, largest = np.random.default_rng(0), 0.05, 0.0
    for num_several in (0, 2):
        N = np.zeros((6, 3))
        N[np.arange(6), rng.integers(3, size=6)] = [2, 5, 40, 300, 9, 9]
        N[:num_several] += 1
        space = Tabular(6, 1, 3).space
        weight = np.where((N > 0).sum(1) == 1, N.sum(1) - 1, 0.0)[:, None]
        lists = np.broadcast_to(np.arange(3), (6, 1, 3))
        kernel = Kernel(lists, (N / N.sum(1, keepdims=True))[:, None], False)
        bound = joint(space, kernel, np.zeros((6, 1), bool), weight, num_several, delta)
        for _ in range(100):
            p = rows_on_the_boundary(rng, N, delta)
            cost = float((weight[:, 0] * -np.log(p[np.arange(6), N.argmax(1)]))[num_several:].sum())
            assert cost <= bound.budget * (1 + 1e-9)
            largest = max(largest, cost / bound.budget)
    assert largest > 0.75


def maze(seed, episodes, S=6, A=2, H=6, noisy=0, start=0):
    """A deterministic table of which nothing is known; `noisy` pairs are random."""
    rng = np.random.default_rng(seed)
    P = np.eye(S)[rng.integers(S, size=(S, A))]
    for _ in range(noisy):
        P[rng.integers(S), rng.integers(A)] = rng.dirichlet(np.ones(S))
    problem = Tabular.from_table(P, horizon=H, start=start)
    evidence = gather(problem, episodes, seed)
    return problem, evidence, certify.confidence(problem.model, evidence, delta=0.05)


@pytest.mark.parametrize("start", [0, [0.5, 0.0, 0.5, 0.0, 0.0, 0.0]])
@pytest.mark.parametrize("noisy", [0, 1])
def test_the_bounds_of_one_reward_agree_with_the_literal_ones(start, noisy):
    rng = np.random.default_rng(3)
    for seed in range(4):
        problem, _, confidence = maze(seed, 400, noisy=noisy, start=start)
        H, S, A = problem.space.sizes
        mu = np.eye(S)[0] if start == 0 else np.array(start)
        for i in range(4):
            reward = random_reward(rng, H, S, A) * (0.5 if i == 1 else 1.0)
            policy = random_policy(rng, H, S, A) if i < 2 else best_plan(confidence.centre, reward).policy
            low, high, gap = ref.paths(confidence, reward, policy, mu)
            bounds = confidence.bounds(reward, policy)
            assert bounds.gaps["paths"] == pytest.approx(gap, rel=1e-9, abs=1e-12)
            assert bounds.low >= low - 1e-12
            assert bounds.high <= high + 1e-12


@pytest.mark.parametrize("noisy", [0, 1])
def test_no_table_of_the_set_loses_more(noisy):
    """All that the joint set allows at one pair, to any state: losses and values for goals and other rewards."""
    rng, largest = np.random.default_rng(0), 0.0
    for seed in range(4):
        problem, evidence, confidence = maze(seed, 300, S=5, noisy=noisy)
        H, S, A = problem.space.sizes
        table, weight = confidence.centre.dense(), confidence.joint.weight
        num_several = int(((evidence.counts > 0).sum(-1) > 1).sum())
        height = math.exp(module.level(0.05) + num_several * math.log(1 / OMEGA) - 1e-9)
        table[evidence.visits == 0] = 1 / S
        rewards = np.zeros((S + 1, H, S, A))
        rewards[np.arange(S), -1, np.arange(S)], rewards[S] = 1.0, random_reward(rng, H, S, A)
        plans = [best_plan(confidence.centre, reward).policy for reward in rewards]
        bounds = [confidence.bounds(*x) for x in zip(rewards, plans)]
        for s, a in np.argwhere(weight > 0):
            missed = 1 - ((height - OMEGA) / (1 - OMEGA)) ** (-1 / weight[s, a])
            for t in range(S):
                P = table.copy()
                P[s, a] = (1 - missed) * table[s, a] + missed * np.eye(S)[t]
                if problem.model.violation(evidence, P, 0.05) > 0:
                    continue  # the ball of the pair is smaller
                for reward, plan, bound in zip(rewards, plans, bounds):
                    losses, value = loss(P, reward, plan)
                    assert losses <= min(*bound.gaps.values(), confidence.eps) + 1e-9
                    assert bound.low - 1e-9 <= value <= bound.high + 1e-9
                    largest = max(largest, losses / confidence.eps)
    assert largest > 0.5


def test_for_a_maze_the_bound_for_every_reward_falls_like_one_over_the_number_of_episodes():
    """Ten times the data: a tenth of the bound, and not a third."""
    short_confidence, long_confidence = (maze(0, episodes)[2] for episodes in (400, 4_000))
    assert long_confidence.eps < 0.15 * short_confidence.eps
    forecast, _ = short_confidence.after(10.0)
    assert forecast.eps == pytest.approx(long_confidence.eps, rel=0.5)
    assert 400 + short_confidence.more_episodes(long_confidence.eps) == pytest.approx(4_000, rel=0.3)
