"""Counts: what was seen, what cannot be, and what was not seen."""

import numpy as np
import pytest

from horizonfree.guarantees.e_processes import ladder
from horizonfree.mdp.space import IMPOSSIBLE, UNSEEN, Trajectory
from horizonfree.problems.classes import Tabular
from tests.models.tabular.cases import gather, random_case
from tests.reference.jitted import jitted

pytestmark = pytest.mark.usefixtures("x64")


def episode(s, a, j):
    return Trajectory(*(np.asarray(x, np.int32) for x in (s, a, j)))


def learnt(model, trajectory):
    """After one episode."""
    return jitted(lambda model, x: model.update(model.init_evidence(ladder(None)), x), model, trajectory)


def test_transitions_are_counted_where_they_happened():
    model = Tabular(3, 2, 3).model
    evidence = learnt(model, episode([0, 2, 2, 1], [1, 0, 0], [2, 2, 1]))
    expected = np.zeros((3, 2, 3), int)
    expected[0, 1, 2] = expected[2, 0, 2] = expected[2, 0, 1] = 1
    np.testing.assert_array_equal(evidence.counts, expected)
    np.testing.assert_array_equal(evidence.visits, expected.sum(-1))
    assert (int(evidence.episodes), int(evidence.impossible)) == (1, 0)


def test_impossible_transitions_are_told_and_unseen_steps_count_for_nothing():
    support = np.ones((3, 2, 3), bool)
    support[0, 1, 2] = False
    model = Tabular(3, 2, 4, support=support, terminal=[1]).model
    slots = [2, 0, IMPOSSIBLE, UNSEEN]  # 0 -> 2 is outside the support, 1 -> 0 leaves a terminal state
    evidence = learnt(model, episode([0, 1, 0, 0, 0], [1, 0, 0, 0], slots))
    assert int(evidence.impossible) == 3
    assert int(evidence.counts.sum()) == 0


def test_the_frequencies_approach_the_truth():
    """A frequency is off by 0.02 after n > 27,000 visits with probability below 2 exp(-2 n 0.02^2) < 1e-9."""
    case = random_case(1, S=3, A=1, m=3, H=4, episodes=50_000)
    estimate = case.problem.model.estimate(case.evidence).dense()
    assert np.asarray(case.evidence.visits).min() > 27_000
    np.testing.assert_allclose(estimate, case.problem.kernel().dense(), atol=0.02)
    untouched = gather(case.problem, 1)
    empty = case.problem.model.estimate(untouched).dense()
    np.testing.assert_allclose(empty.sum(-1), 1.0)
