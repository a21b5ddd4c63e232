"""Certificates of the members of a batch: the same numbers in worker processes."""

import numpy as np
import pytest

from horizonfree.batch.evaluate import MEMBERS_PER_TASK, CertifiedCurves, worker_pool
from horizonfree.mdp import rewards
from horizonfree.models import certify
from horizonfree.planning import optimal
from tests.reference import small


@pytest.fixture(scope="module")
def batch():
    problems = small.dense(), small.dense(seed=1)
    N = 2 * MEMBERS_PER_TASK + 1
    evidences = [small.gather(problem, 20, range(3)) for problem in problems]
    members = [(i % 2, small.pick(evidences[i % 2], i % 3)) for i in range(N)]
    table = rewards.suite(problems[0])
    best = tuple(problem.space.at_start(optimal(problem.kernel(), table).V[:, 0]) for problem in problems)
    certified = CertifiedCurves(("excess", "gap", "eps"), 0.1, problems, table, best)
    return certified, *zip(*members)


def test_worker_processes_compute_the_same_curves(batch):
    certified, indices, evidence = batch
    sequential = certified.of_members(indices, evidence)
    with worker_pool(2) as pool:
        parallel = certified.of_members(indices, evidence, pool)
    assert list(sequential) == ["excess", "gap", "eps"]
    for name, x in sequential.items():
        assert x.shape == (len(indices),)
        np.testing.assert_array_equal(parallel[name], x)


def test_the_curves_are_those_of_each_member(batch):
    certified, indices, evidence = batch
    excess, gap, eps = certified.of_member(indices[1], evidence[1])
    problem = certified.problems[1]
    assert excess == float(problem.model.violation(evidence[1], problem.truth, np.asarray(0.1)))
    confidence = certify.confidence(problem.model, evidence[1], delta=0.1)
    assert eps == certify.uniform_eps(confidence)
    assert 0 <= gap <= 1
