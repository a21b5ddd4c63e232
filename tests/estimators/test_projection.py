"""Least squares over the valid parameters, against an independent conic solver."""

import clarabel
import jax
import numpy as np
import pytest
import scipy.sparse as sp

from horizonfree import Mixture
from horizonfree._x64 import to_device, to_numpy
from horizonfree.estimators.projection import least_squares, pooled_least_squares
from horizonfree.estimators.ridge import Ridge
from tests.reference.jitted import jitted

pytestmark = pytest.mark.usefixtures("x64")


def random_problem(rng, d=4):
    kernels = rng.dirichlet(np.ones(4), size=(d, 4, 2))
    return Mixture.from_kernels(kernels, horizon=4, weights=rng.dirichlet(np.ones(d)))


def random_matrix(rng, d=4):
    G = rng.normal(size=(d, 2 * d))
    return G @ G.T


def nearest(valid, A, b):
    """`least_squares`, compiled."""
    return np.asarray(jax.jit(least_squares)(*to_device((valid, A, b))))


def solve_cone(valid, A, b):
    """argmin of theta' A theta / 2 - b' theta over Theta with Clarabel, scaled to a trace of one."""
    rows, sums, scale = valid.rows, valid.sums, np.trace(A)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    solver = clarabel.DefaultSolver(
        sp.csc_matrix(np.triu(A / scale)),
        -b / scale,
        sp.csc_matrix(np.vstack([sums, -rows])),
        np.r_[np.ones(len(sums)), np.zeros(len(rows))],
        [clarabel.ZeroConeT(len(sums)), clarabel.NonnegativeConeT(len(rows))],
        settings,
    )
    return np.array(solver.solve().x)


@pytest.mark.parametrize("seed", range(10))
def test_least_squares_is_the_constrained_optimum_and_a_strict_kernel(seed):
    """Targets inside Theta and far outside it, so that the optimum lies inside and on faces."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    valid, A = problem.model.valid, random_matrix(rng) * 10.0 ** rng.uniform(-2, 6)
    target = problem.truth + rng.normal(size=4) * [0.0, 0.3, 3.0][seed % 3]
    theta, best = nearest(valid, A, A @ target), solve_cone(valid, A, A @ target)

    def distance(x):
        return (x - target) @ A @ (x - target) / np.trace(A)

    assert valid.contains(np.asarray(theta))
    assert (valid.rows @ theta > 0).all()
    assert distance(theta) <= distance(best) + 1e-9


def test_least_squares_returns_an_interior_target_itself():
    rng = np.random.default_rng(3)
    problem = random_problem(rng)
    A, target = random_matrix(rng), 0.5 * (problem.truth + problem.model.valid.center)
    np.testing.assert_allclose(nearest(problem.model.valid, A, A @ target), target, atol=1e-9)


def test_where_only_one_parameter_is_valid_it_is_the_answer():
    P = np.random.default_rng(0).dirichlet(np.ones(3), size=(1, 3, 2))
    valid = Mixture.from_kernels(P, horizon=3).model.valid
    np.testing.assert_allclose(nearest(valid, np.eye(1), np.array([7.0])), valid.center)


@pytest.mark.parametrize("seed", [9, 42, 51])
def test_least_squares_stands_kernels_that_are_nearly_alike(seed):
    """Two that differ by a share of some 1e-7: the last steps meet matrices that are singular to rounding."""
    rng = np.random.default_rng(seed)
    kernels, share = rng.dirichlet(np.ones(4), size=(4, 4, 2)), 10 ** rng.uniform(-7, 0)
    kernels[1] = (1 - share) * kernels[0] + share * kernels[1]
    model = Mixture.from_kernels(kernels, horizon=3).model
    G = rng.normal(size=(4, 12)) * 10 ** rng.uniform(-2, 3, size=(4, 1))
    A = np.eye(4) + G @ G.T
    target = rng.dirichlet(np.ones(4)) * model.unit + rng.normal(size=4) * 10 ** rng.uniform(-3, 1)
    result, best = nearest(model.valid, A, A @ target), solve_cone(model.valid, A, A @ target)
    size = [(x - target) @ A @ (x - target) for x in (result, best)]
    assert size[0] == pytest.approx(size[1], rel=1e-6)


@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
def test_pooled_regressions_agree_on_the_parameter_that_is_nearest_to_all(batch):
    """argmin over Theta of the sum of ||theta - theta_i||^2_{Sigma_i}, from the regressions' own centres."""
    rng = np.random.default_rng(len(batch))
    valid = random_problem(rng).model.valid
    x, y, w = rng.normal(size=(9, *batch, 4)), rng.normal(size=(9, *batch)), rng.uniform(1, 5, (9, *batch))
    ridge = jitted(lambda *rows: Ridge.init(0.5, 4, batch).extend(*rows), x, y, w)
    solve = jitted(lambda *args: (pooled_least_squares(*args), args[1].theta), to_device(valid), ridge)
    (theta, centers), ridge = to_numpy((solve, ridge))
    centers, Sigmas = centers.reshape(-1, 4), ridge.Sigma.reshape(-1, 4, 4)

    def distance(theta):
        return sum((theta - c) @ Sigma @ (theta - c) for c, Sigma in zip(centers, Sigmas))

    best = solve_cone(valid, Sigmas.sum(0), sum(Sigma @ c for c, Sigma in zip(centers, Sigmas)))
    assert valid.contains(theta)
    assert distance(theta) == pytest.approx(distance(best), rel=1e-9)
    for weights in rng.dirichlet(np.ones(4), size=50):
        other = (1 - 1e-3) * theta + 1e-3 * 2 * weights  # 2 = sqrt(d): the unit of mixtures of four kernels
        assert not valid.contains(other) or distance(other) >= distance(theta) - 1e-9
