"""Certificates as a whole, against sampled parameters and adversaries; for every reward at once, and for one."""

import numpy as np
import pytest

from horizonfree.guarantees.certificate import at_most_one
from tests.reference import cases, small
from tests.reference import certificates as ref

PARTS = ("uniform", "interval", "tangent")


@pytest.fixture(scope="module", params=list(cases.PROBLEMS))
def case(request):
    return cases.make_case(request.param)


def test_no_parameter_of_U_makes_a_policy_lose_more_than_its_certificate(case):
    """Plans and arbitrary policies, random rewards, sampled parameters: each bound by itself, and the smallest."""
    H, S, A = case.space.sizes
    for i in range(cases.SEEDS):
        rng = np.random.default_rng(100 + i)
        uniform = case.uniform(i)
        points = case.points_of_U(i, rng, 10)
        for k in range(4):
            reward = cases.random_reward(rng, H, S, A)
            policy = case.plan(i, reward) if k % 2 else rng.integers(A, size=(H, S))
            bounds, certificate = case.for_reward(i, reward, policy)
            if k % 2:
                assert certificate.eps <= uniform.eps + case.model.rounding()
                P_hat = case.confidences[i].step.kernel.dense()
                assert ref.regret(P_hat, reward, policy, case.start) <= 1e-12
            worst = max(ref.regret(case.kernel(theta), reward, policy, case.start) for theta in points)
            least = min(certificate.parts[name] for name in PARTS)
            assert least == min(bounds.gaps.values())
            assert worst <= min(1.0, least) + 1e-9
            assert certificate.eps == pytest.approx(at_most_one(least + case.model.rounding()))
            assert certificate.method in [name for name in PARTS if certificate.parts[name] == least]


@pytest.mark.parametrize("name", ["dense", "slips", "drawn start"])
def test_the_strongest_adversary_stays_below_the_certificates(name):
    """Linear programmes find rewards that fool the plan as much as possible for someone who knows the truth."""
    case = cases.Case(cases.PROBLEMS[name](), episodes=150, seeds=12)
    H, S, A = case.space.sizes
    support = case.slots(np.ones(len(case.valid.rows))) > 0
    found = []
    for i in range(12):
        if case.excess(i)(case.problem.truth) > 0:
            continue  # the truth left the set: nothing is claimed
        rng, eps = np.random.default_rng(i), case.uniform(i).eps
        P_hat = case.confidences[i].step.kernel.dense()
        for _ in range(2):
            first = cases.random_reward(rng, H, S, A)
            reward, policy, loss = ref.worst_reward(P_hat, case.P_star, support, first, case.start)
            _, certificate = case.for_reward(i, reward, policy)
            assert loss <= eps + 1e-7
            assert loss <= certificate.eps + 1e-7
            found.append(loss)
    assert max(found) > 0.01  # the adversary does find something


@pytest.mark.parametrize("start", [0, cases.START])
def test_the_true_gap_is_below_the_certificate_in_many_runs(start):
    """Goal rewards: while the truth is in U, no violation, ever."""
    problem = small.slips(start=start)
    case = cases.Case(problem, episodes=40, seeds=60)
    H, S, A = case.space.sizes
    checked = 0
    for i in range(60):
        if case.excess(i)(problem.truth) > 0:
            continue
        for goal in (2, S - 1):
            reward = np.zeros((H, S, A))
            reward[-1, goal] = 1.0
            policy = case.plan(i, reward)
            loss = ref.regret(case.P_star, reward, policy, case.start)
            assert loss <= case.for_reward(i, reward, policy)[1].eps + 1e-9
            checked += 1
    assert checked >= 60
