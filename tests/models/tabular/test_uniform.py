"""The gap for every reward: the literal programmes, and the worst rewards that linear programming finds."""

from dataclasses import asdict

import numpy as np
import pytest
from scipy.optimize import linprog

from horizonfree.models.tabular.confidence import uniform
from horizonfree.models.tabular.joint import Joint, no_joint
from horizonfree.problems.classes import Tabular
from tests.models.tabular.cases import boundary, loss, random_case, random_table
from tests.reference import tabular as ref


def make_space(H, S=4, A=2):
    return Tabular(S, A, H).space


@pytest.mark.parametrize("H", [1, 2, 6])
def test_it_agrees_with_one_programme_per_eta(H):
    rng = np.random.default_rng(H)
    space = make_space(H)
    for size in (1e-6, 1e-3, 0.02, 0.3):
        P, eps = random_table(rng, 4, 2, 3), size * rng.random((4, 2))
        eps[1, 0] = 0.0
        bounds = ref.uniform(P, eps, H, np.eye(4)[0])
        bound = uniform(space, space.kernel(P), eps, no_joint(eps.shape))
        assert bound.gap() == pytest.approx(min(bounds["pinsker"], bounds["hellinger"]), rel=1e-9, abs=1e-12)
        assert bound.kappa == pytest.approx(bounds["kappa"], rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("start", [0, [0.5, 0.3, 0.2, 0.0]])
@pytest.mark.parametrize("is_mixed", [False, True])
def test_with_point_masses_it_agrees_with_one_programme_per_eta(start, is_mixed):
    """Each of the three bounds, for rows of which most, or all, have one successor; one is unknown, one is known."""
    rng = np.random.default_rng(int(is_mixed))
    for H, size in ((1, 0.01), (2, 0.3), (7, 0.01), (7, 1e-4), (7, 2.0)):
        P = np.eye(4)[rng.integers(4, size=(4, 2))]
        if is_mixed:
            P[1, 1], P[2, 0] = rng.dirichlet(np.ones(4), 2)
        eps = size * rng.random((4, 2))
        eps[3, 1], eps[3, 0] = np.inf, 0.0
        is_covered = ((P > 0).sum(-1) == 1) & (rng.random((4, 2)) < 0.7) & np.isfinite(eps) & (eps > 0)
        space = Tabular(4, 2, H, start=start).space
        mu = np.eye(4)[0] if start == 0 else np.array(start)
        for exponent in (np.inf, size):
            bounds = ref.uniform(P, eps, H, mu, is_covered, exponent)
            bound = uniform(space, space.kernel(P), eps, Joint(is_covered * 5.0, 1.0, exponent))
            assert asdict(bound) == pytest.approx(bounds, rel=1e-9, abs=1e-12)
            assert bound.gap() == min(bound.pinsker, bound.hellinger, bound.leak + bound.rest)


def test_nothing_is_lost_in_one_step_nor_where_all_is_known():
    P = random_table(np.random.default_rng(0), 4, 2, 3)
    for H, eps in ((1, np.full((4, 2), np.inf)), (5, np.zeros((4, 2)))):
        space = make_space(H)
        assert float(uniform(space, space.kernel(P), eps, no_joint(eps.shape)).gap()) == 0.0


def test_an_unknown_pair_costs_what_it_takes_to_get_there():
    """It can be reached with probability 0.01 in the first of two transitions only: a gap of about 2 * 0.01."""
    P = np.zeros((3, 1, 3))
    P[0, 0], P[1, 0, 1] = [0.0, 0.99, 0.01], 1.0
    space, eps = make_space(3, 3, 1), np.asarray([[1e-9], [1e-9], [np.inf]])
    bound = uniform(space, space.kernel(P), eps, no_joint(eps.shape))
    assert 0.02 < float(bound.gap()) < 0.025
    assert float(bound.kappa) > 1e100


def test_no_reward_makes_a_plan_lose_more():
    """For kernels on the boundary of the balls: the worst reward for which a policy is a plan, by linear programmes."""
    case = random_case(3, S=3, A=2, m=2, H=3, episodes=150, support="given")
    rng = np.random.default_rng(0)
    eps, centre, possible = np.asarray(case.confidence.balls.eps), case.table, case.possible
    H, S, A = case.problem.space.sizes
    worst = 0.0
    for _ in range(12):
        P = boundary(centre, eps, possible, rng.normal(size=(S, A, S)))
        plan, best = rng.integers(A, size=(2, H, S))
        for _ in range(3):  # the best policy for the reward, the worst reward for the policy, and so on
            reward = worst_reward(centre, P, possible, plan, best)
            values = np.zeros(S)
            for h in reversed(range(H)):
                Q = reward[h] + P @ values
                best[h], values = Q.argmax(1), Q.max(1)
        losses, _ = loss(P, reward, plan)
        assert reward.max() > 0
        assert losses <= float(case.confidence.eps) + 1e-9
        worst = max(worst, losses / float(case.confidence.eps))
    assert worst > 0.1


def worst_reward(centre, P, possible, plan, best, start=0):
    """What `plan` loses most to `best` under P, over rewards of total <= 1 for which it is optimal in the centre.

    Unknowns: r, the values V of the plan in the centre and the largest totals T, [H, S, A], [H + 1, S], [H + 1, S].
    """
    H, S = plan.shape
    A = centre.shape[1]
    sizes = H * S * A, (H + 1) * S, (H + 1) * S
    zero = np.zeros(sum(sizes))

    def column(kind, *index):
        shape = (H, S, A) if kind == 0 else (H + 1, S)
        return sum(sizes[:kind]) + int(np.ravel_multi_index(index, shape))

    equal, at_most = [], []
    for h, s, a in np.ndindex(H, S, A):
        row = zero.copy()  # r + P V' - V <= 0, with equality for the plan
        row[column(0, h, s, a)], row[column(1, h, s)] = 1, -1
        row[[column(1, h + 1, t) for t in range(S)]] += centre[s, a]
        (equal if a == plan[h, s] else at_most).append(row)
        for t in np.flatnonzero(possible[s, a]):
            row = zero.copy()
            row[column(0, h, s, a)], row[column(2, h + 1, t)], row[column(2, h, s)] = 1, 1, -1
            at_most.append(row)
    gain = np.zeros((H, S, A))
    for policy, sign in ((best, 1.0), (plan, -1.0)):
        mass = np.eye(S)[start]
        for h in range(H):
            gain[h, np.arange(S), policy[h]] += sign * mass
            mass = mass @ P[np.arange(S), policy[h]]
    ends = [(0, 0)] * S
    bounds = [(0, None)] * sizes[0] + [(None, None)] * (H * S) + ends
    bounds += (
        [(None, 1.0) if i == start else (None, None) for i in range(S)]
        + [(None, None)] * ((H - 1) * S)
        + ends
    )
    cost = np.concatenate([-gain.ravel(), np.zeros(sizes[1] + sizes[2])])
    solution = linprog(cost, at_most, np.zeros(len(at_most)), equal, np.zeros(len(equal)), bounds)
    assert solution.success
    return solution.x[: sizes[0]].reshape(H, S, A)
