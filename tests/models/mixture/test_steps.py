"""One transition: how far that of any parameter of U can be from the estimate's."""

import numpy as np
import pytest

from horizonfree.models.mixture.steps import ALL_BUT_EXCLUDED
from tests.reference import cases, small
from tests.reference import certificates as ref


@pytest.fixture(scope="module", params=list(cases.PROBLEMS))
def case(request):
    return cases.case_of(request.param)


def test_the_divergence_of_one_step_is_at_most_its_cost(case):
    """After leaving out the rows that theta_hat all but excludes and theta may exclude; their mass is the leak."""
    reachable = case.space.reachable
    for i in range(cases.SEEDS):
        step, ball = case.confidences[i].step, case.confidences[i].ball
        is_out = case.valid.free & (ball.below >= 1) & (ball.p < ALL_BUT_EXCLUDED)
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
