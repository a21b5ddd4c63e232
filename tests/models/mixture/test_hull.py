"""Mixtures of kernels have weights: they stay in the simplex, and the truth is never cut off."""

import dataclasses

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import KernelError, OptionError
from horizonfree.models.mixture import diagnostics
from horizonfree.models.registry import diagnostics_of
from tests.reference import cases, small


def kernels(d=3, S=4, A=2, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(S), size=(d, S, A))


def mixture(weights, hull=True, S=6):
    return hf.Mixture.from_kernels(kernels(len(weights), S), horizon=4, weights=weights, hull=hull)


@pytest.mark.parametrize("weights", [(1.0, 0.0, 0.0, 0.0), (0.5, 0.5, 0.0, 0.0), (0.2, 0.3, 0.4, 0.1)])
def test_estimates_of_a_mixture_of_kernels_stay_in_the_simplex(weights):
    free_somewhere = False
    for seed in range(4):
        data = hf.simulate(mixture(weights), np.full((4, 6, 2), 0.5), episodes=40, seed=seed)
        inside, outside = (
            hf.from_episodes(mixture(weights, hull), data, budget=500) for hull in (True, False)
        )
        assert inside.weights.sum() == pytest.approx(1)
        assert (inside.weights >= -1e-6).all()
        low, high = inside.weight_intervals.T
        assert (low >= -1e-9).all()
        assert (high <= 1 + 1e-9).all()
        assert (low <= inside.weights + 1e-9).all()
        assert (inside.weights <= high + 1e-9).all()
        free_somewhere |= bool((outside.weights < -1e-3).any())
    assert free_somewhere or min(weights) > 0  # without the hull estimates do leave it


def test_virtual_rows_read_off_the_weights_and_stand_in_no_slot():
    model = mixture((0.2, 0.3, 0.5), S=4).model
    valid = model.valid
    theta = model.parameter(np.array([0.2, 0.3, 0.5]), "weights")
    np.testing.assert_allclose(valid.rows[valid.virtual] @ theta, [0.2, 0.3, 0.5], atol=1e-12)
    assert (
        not valid.virtual[np.unique(valid.row_of)[:-1]].any()
        if valid.row_of.max() == len(valid.rows)
        else True
    )
    assert not np.isin(np.flatnonzero(valid.virtual), valid.row_of).any()
    assert valid.contains(theta)
    outside = model.parameter(np.array([0.6, 0.5, -0.1]), "weights")
    assert not valid.contains(outside)
    assert mixture((0.2, 0.3, 0.5), hull=False, S=4).model.valid.contains(outside)


def test_redundant_kernels_have_no_virtual_rows():
    """The third kernel is a mixture of the others: its weight cannot be told, and nothing may be cut off."""
    P = kernels(2)
    both = np.stack([*P, P.mean(0)])
    problem = hf.Mixture.from_kernels(both, horizon=4, weights=[0.0, 0.0, 1.0])
    assert problem.model.num_unknown == 1
    assert not problem.model.valid.virtual.any()


def test_of_weights_that_cannot_be_told_apart_nothing_is_claimed():
    """Twice the same kernel, the truth is the second: between 0 and 1 is all that can be said."""
    P = kernels(1)
    problem = hf.Mixture.from_kernels(np.concatenate([P, P]), horizon=4, weights=[0.0, 1.0])
    run = hf.explore(problem, episodes=5, seed=0)
    np.testing.assert_allclose(run.weight_intervals, [[0, 1], [0, 1]])
    three = np.stack([*kernels(2), kernels(2).mean(0)])
    run = hf.explore(hf.Mixture.from_kernels(three, horizon=4, weights=[0, 0, 1.0]), episodes=200, seed=0)
    low, high = run.weight_intervals.T
    assert (low <= [0, 0, 1]).all()
    assert ([0, 0, 1] <= high).all()


def test_a_rejected_class_says_nothing_of_its_weights():
    problem = mixture((0.2, 0.3, 0.4, 0.1))
    states, actions = np.zeros((1, 5), int), np.zeros((1, 4), int)
    run = hf.from_episodes(problem, (states, actions), budget=500)
    evidence = dataclasses.replace(run.evidence, impossible=np.asarray(1, np.int32))
    run = dataclasses.replace(run, evidence=evidence)
    assert run.certificate().is_rejected
    np.testing.assert_allclose(run.weight_intervals, [[0, 1]] * 4, atol=1e-9)


def test_weights_of_any_sign_need_hull_false():
    P = np.zeros((2, 2, 1, 2))
    P[0, :, 0], P[1, :, 0] = [0.6, 0.4], [0.4, 0.6]
    with pytest.raises(KernelError, match=r"weights\[1\], is -0.5; they must be >= 0"):
        hf.Mixture.from_kernels(P, horizon=3, weights=[1.5, -0.5])
    problem = hf.Mixture.from_kernels(P, horizon=3, weights=[1.5, -0.5], hull=False)
    np.testing.assert_allclose(problem.kernel().dense()[0, 0], [0.7, 0.3])
    run = hf.explore(problem, episodes=400, seed=0, budget=400)
    assert run.weights == pytest.approx([1.5, -0.5], abs=0.7)
    low, high = run.weight_intervals.T
    assert (low <= [1.5, -0.5]).all()
    assert ([1.5, -0.5] <= high).all()
    with pytest.raises(OptionError, match="hull is 1; it must be True or False"):
        hf.Mixture.from_kernels(P, horizon=3, hull=1)
    with pytest.raises(KernelError, match="some kernel is a combination of the others"):
        hf.Mixture.from_kernels(np.stack([*P, P.mean(0)]), horizon=3, hull=False)


def test_the_hull_makes_certificates_smaller_at_a_vertex_and_never_wrong():
    """Six states, truth one of the kernels: medians over seeds, with and without."""
    eps = {True: [], False: []}
    for seed in range(5):
        data = hf.simulate(mixture((1.0, 0.0, 0.0, 0.0)), np.full((4, 6, 2), 0.5), episodes=500, seed=seed)
        for hull in eps:
            problem = mixture((1.0, 0.0, 0.0, 0.0), hull)
            run = hf.from_episodes(problem, data, budget=500)
            eps[hull].append(run.certificate().eps)
            reward = hf.goal(problem, 2)
            assert hf.true_gap(problem, reward, run.plan(reward).policy) <= run.plan(reward).gap
    assert np.median(eps[True]) < 0.9 * np.median(eps[False])


@pytest.mark.parametrize("name", ["dense", "corner"])
def test_the_truth_is_inside_the_valid_parameters(name):
    problem = small.PROBLEMS[name]()
    assert problem.model.valid.virtual.any()
    assert problem.model.valid.contains(problem.truth, 1e-12)
    case = cases.make_case(name)
    for i in range(cases.SEEDS):
        weights = case.valid.rows[case.valid.virtual] @ case.confidences[i].theta
        assert (weights >= 0).all()


@pytest.mark.parametrize("name", ["slips", "dense"])
def test_intervals_are_cut_where_programmes_would_cut_them(name, monkeypatch):
    """Where the ellipsoid ends among valid parameters, none is asked for."""
    case = cases.make_case(name)
    found = [diagnostics_of(case.model).intervals(x) for x in case.confidences]
    spared = [
        diagnostics._is_inside(case.valid, np.asarray(x.theta), np.zeros((len(x.theta), 1)))
        for x in case.confidences
    ]
    assert np.all(spared)  # the estimate itself is valid
    monkeypatch.setattr(diagnostics, "_is_inside", lambda valid, theta, axes: np.zeros(len(theta), bool))
    for x, confidence in zip(found, case.confidences):
        cut = diagnostics_of(case.model).intervals(confidence)
        np.testing.assert_allclose(x.low, cut.low, atol=1e-7)
        np.testing.assert_allclose(x.high, cut.high, atol=1e-7)
