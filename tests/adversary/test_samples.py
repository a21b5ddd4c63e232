"""Kernels from samples where transitions may lead anywhere: what no sample showed must not be left out."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree import testing
from horizonfree.errors import HorizonfreeError

S, A, H = 3, 2, 6


@pytest.fixture(scope="module")
def run():
    """Ten samples of each pair that never show state 2, which follows with probability 0.02."""
    counts = np.zeros((2, S, A, S), int)
    counts[:, :2, :, :2] = 5
    counts[:, 2, :, 2] = 10
    problem = hf.from_simulators(list(counts), horizon=H, start=0)
    return hf.from_episodes(problem, (np.zeros((1, H + 1), int), np.zeros((1, H), int)))


@pytest.fixture(scope="module")
def truth():
    P = np.zeros((1, S, A, S))
    P[0, :2], P[0, 2, :, 2] = [0.49, 0.49, 0.02], 1.0
    return P


# Violated at first: policies that agree on the states of the class counted as the same (models/certify.py, `_is_same`).
def test_policies_that_differ_in_states_that_no_sample_showed_are_not_the_same(run, truth):
    a, b, reward = np.zeros((H, S), int), np.zeros((H, S), int), np.zeros((H, S, A))
    b[:, 2], reward[:, 2, 0] = 1, 1 / H
    audit = testing.Audit()
    task = testing.task_of(run.problem, reward)
    audit.comparison("compare", run.compare(reward, a, b), truth, task, a, b)
    audit.report().raise_for_violations()


# Accepted at first: only plans checked the reward (models/certify.py, `difference`).
def test_compare_refuses_rewards_that_are_large_in_states_that_no_sample_showed(run):
    reward = np.zeros((H, S, A))
    reward[:, 2, 0], reward[:, :, 1] = 50.0, 1 / H
    with pytest.raises(HorizonfreeError):
        run.compare(reward, np.zeros((H, S), int), np.ones((H, S), int))


# Violated at first: payments were looked at on the transitions of the class alone (runs/reward_spec.py, mdp/events.py).
def test_payments_for_transitions_that_no_sample_showed_are_refused_or_counted(run, truth):
    transition = np.zeros((S, A, S))
    transition[:2, 1, 2] = 1.0
    audit = testing.Audit()
    task = testing.task_of(run.problem, np.zeros(S), transition=transition)
    with audit.refusals():
        audit.plan("plan", run.plan(np.zeros(S), transition=transition), truth, task)
    audit.report().raise_for_violations()


# Violated at first: a pair without samples led to its own state, and counted as known (problems/simulators.py).
def test_a_single_declared_successor_follows_a_pair_that_was_not_sampled():
    counts, successors = np.zeros((2, S, A, S), int), np.zeros((S, A, S), bool)
    counts[:, 0, :, :2], counts[:, 1, 1, 0], counts[:, 2, :, 2] = 50, 100, 100
    successors[0, :, :2], successors[1, 1, 0], successors[2, :, 2] = True, True, True
    successors[1, 0, 2] = True  # never sampled
    problem = hf.from_simulators(list(counts), horizon=H, start=0, successors=successors)
    P = successors / successors.sum(-1, keepdims=True)
    log = hf.simulate(hf.Tabular.from_table(P, horizon=H), np.ones((H, S), int), episodes=200)
    run = hf.from_episodes(problem, log)
    policy, reward, audit = np.zeros((H, S), int), hf.goal(problem, 2), testing.Audit()
    audit.plan("evaluate", run.evaluate(reward, policy), P[None], testing.task_of(problem, reward))
    audit.report().raise_for_violations()
    assert audit.report().statements > 2


# Refuted at first, although the kernels allow transitions that no sample showed (runs/check.py).
def test_a_transition_that_no_sample_showed_does_not_refute_the_class(run):
    states = np.zeros((3, H + 1), int)
    states[1, 3:] = 2
    seen = hf.from_episodes(run.problem, (states, np.zeros((3, H), int)))
    assert not seen.certificate().is_rejected
    assert not seen.check().is_refuted
    assert not seen.certificate(alternatives="auto").is_rejected
