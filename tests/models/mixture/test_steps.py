"""One transition: how far that of any parameter of U can be from the estimate's."""

import numpy as np
import pytest

from horizonfree.guarantees.divergence import divergence
from horizonfree.models.mixture.ellipsoid import THRESHOLDS, compare, hellinger, left_out, steps
from tests.reference import cases, small
from tests.reference import certificates as ref

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # infinite divergences


@pytest.fixture(scope="module", params=list(cases.PROBLEMS))
def case(request):
    return cases.make_case(request.param)


def test_the_divergence_of_one_step_is_at_most_its_cost(case):
    """After leaving out the rows that theta_hat all but excludes and theta may exclude; their mass is the leak."""
    reachable = case.space.reachable
    for i in range(cases.SEEDS):
        step, ball = case.confidences[i].step, case.confidences[i].ball
        is_out = case.confidences[i].is_out
        kept = case.slots(np.where(is_out, 0.0, ball.p))
        np.testing.assert_allclose(1 - kept.sum(-1)[reachable], step.leak[reachable], atol=1e-9)
        for theta in case.points_of_U(i, np.random.default_rng(i), 10):
            P = np.maximum(case.kernel(theta), 0)
            for s, a in np.argwhere(reachable[:, None] & np.isfinite(step.cost)):
                assert ref.kl(kept[s, a] / kept[s, a].sum(), P[s, a]) <= step.cost[s, a] + 1e-9


def test_the_cost_of_one_step_is_nearly_attained():
    """With enough data the bound is close to the largest divergence in U, so that a smaller one would be caught."""
    case, ratios = cases.Case(small.dense(), episodes=1000, seeds=2), []
    for i in range(2):
        step = case.confidences[i].step
        P_hat = step.kernel.dense()
        for theta in case.points_of_U(i, np.random.default_rng(i), 100):
            P = case.kernel(theta)
            ratios += [ref.kl(P_hat[s, a], P[s, a]) / step.cost[s, a] for s, a in np.ndindex(4, 2)]
    assert 0.8 <= max(ratios) <= 1 + 1e-9


def test_the_affinity_of_one_step_is_within_its_bound_also_where_a_probability_may_vanish(case):
    """1 - sum sqrt(p p_theta) <= h2, which is finite and at most 1."""
    open_rows = 0
    for i in range(cases.SEEDS):
        ball = case.confidences[i].ball
        h2 = hellinger(case.space, case.valid, ball)
        open_rows += (case.valid.free & (ball.below >= 1)).sum()
        assert (h2 <= 1).all()
        P_hat = case.slots(ball.p)
        for theta in case.points_of_U(i, np.random.default_rng(i), 10):
            P = np.maximum(case.kernel(theta), 0)
            affinity = np.sqrt(np.maximum(P_hat, 0) * P).sum(-1)
            assert (1 - affinity <= h2 + 1e-9)[case.space.reachable].all()
    assert open_rows or case.problem.name != "corner"


def test_affinities_of_whole_trajectories_multiply():
    """A literal product over all trajectories of two kernels: sum sqrt(P Q), step by step."""
    P = small.dense(S=3, horizon=3).kernel().dense()
    Q = small.dense(S=3, horizon=3, weights=(0.1, 0.2, 0.7)).kernel().dense()
    policy = np.random.default_rng(0).integers(2, size=(3, 3))
    p, q = ref.trajectories(P, policy, 0), ref.trajectories(Q, policy, 0)
    A = np.ones(3)
    for rule in policy[::-1]:
        A = np.array([np.sqrt(P[s, rule[s]] * Q[s, rule[s]]) @ A for s in range(3)])
    assert sum(np.sqrt(p[t] * q[t]) for t in p) == pytest.approx(A[0])


@pytest.mark.parametrize("below", THRESHOLDS)
def test_every_threshold_gives_a_valid_comparison(below):
    """Rows left out, one by one and together: what theta may put there is within the bound."""
    case = cases.Case(small.dense(S=8, weights=(0.9, 0.1, 0.0, 0.0)), episodes=150, seeds=3)
    left = 0
    for i in range(3):
        ball = case.confidences[i].ball
        is_out = left_out(case.valid, ball, below)
        step = steps(case.space, case.valid, ball, is_out)
        kept = case.slots(np.where(is_out, 0.0, ball.p))
        left += int(np.asarray(is_out).sum())
        for theta in case.points_of_U(i, np.random.default_rng(i), 10):
            P = np.maximum(case.kernel(theta), 0)
            for s, a in np.argwhere(np.isfinite(step.cost)):
                assert ref.kl(kept[s, a] / kept[s, a].sum(), P[s, a]) <= step.cost[s, a] + 1e-9
    assert left or below < 0.1


def test_the_best_threshold_is_kept():
    case = cases.Case(small.dense(S=8, weights=(0.9, 0.1, 0.0, 0.0)), episodes=150, seeds=3)
    for i in range(3):
        space, valid, ball = case.space, case.valid, case.confidences[i].ball
        each = [
            float(divergence(space, steps(space, valid, ball, left_out(valid, ball, x))).eps)
            for x in THRESHOLDS
        ]
        assert float(compare(space, valid, ball).divergence.eps) == pytest.approx(min(each), rel=1e-12)


def test_a_pair_of_which_everything_is_left_out_stops_the_comparison():
    case = cases.Case(small.dense(), seeds=1)
    space, valid, ball = case.space, case.valid, case.confidences[0].ball
    step = steps(space, valid, ball, valid.free)
    assert np.isinf(step.cost).all()
    assert (step.leak == 1).all()
    found = divergence(space, step)
    assert found.stop.all()
    assert found.hit == 1
