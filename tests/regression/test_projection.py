"""Confidence sets against an independent conic solver."""

import clarabel
import jax
import numpy as np
import pytest
import scipy.sparse as sp

from horizonfree import Mixture
from horizonfree.models.mixture.valid import valid_set
from horizonfree.regression.projection import ConfidenceSet, least_squares


def random_set(seed, d=4, balls=3, radius=1.0):
    rng = np.random.default_rng(seed)
    kernels = rng.dirichlet(np.ones(4), size=(d, 4, 2))
    problem = Mixture.from_kernels(kernels, horizon=4, weights=rng.dirichlet(np.ones(d)))
    G = rng.normal(size=(balls, d, 2 * d))
    S = G @ G.transpose(0, 2, 1)
    L = np.linalg.cholesky(S)
    u = rng.normal(size=(balls, d))
    u *= 0.9 * radius / np.linalg.norm(u, axis=1, keepdims=True)
    centers = problem.truth + np.linalg.solve(L.transpose(0, 2, 1), u[..., None])[..., 0]
    return problem, ConfidenceSet(valid_set(problem.known), centers, S, np.full(balls, radius))


def solve_cone(U: ConfidenceSet, A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """argmin of theta' A theta / 2 - b' theta over U with Clarabel."""
    rows, sums = U.valid.rows, U.valid.sums
    blocks, right, cones = [sums, -rows], [np.ones(len(sums)), np.zeros(len(rows))], []
    cones += [clarabel.ZeroConeT(len(sums)), clarabel.NonnegativeConeT(len(rows))]
    d = rows.shape[1]
    for c, S, r in zip(U.centers, U.matrices, U.radii):  # ||L'(theta - c)|| <= r
        L = np.linalg.cholesky(S)
        blocks.append(np.vstack([np.zeros(d), -L.T]))
        right.append(np.r_[r, -L.T @ c])
        cones.append(clarabel.SecondOrderConeT(d + 1))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    solver = clarabel.DefaultSolver(
        sp.csc_matrix(np.triu(A)),
        -b,
        sp.csc_matrix(np.vstack(blocks)),
        np.concatenate(right),
        cones,
        settings,
    )
    return np.array(solver.solve().x)


@pytest.mark.parametrize("seed", range(8))
def test_the_support_function_bounds_and_nearly_attains_the_maximum(seed):
    _, U = random_set(seed, radius=[0.3, 3.0][seed % 2])
    c = np.random.default_rng(seed).normal(size=4)
    value, theta = U.support(c)
    best = c @ solve_cone(U, np.zeros((4, 4)), c)
    assert best - 1e-8 <= value <= best + 2e-8
    assert U.contains(theta)


@pytest.mark.parametrize("seed", range(8))
def test_the_projection_is_the_nearest_member(seed):
    _, U = random_set(seed)
    point = np.random.default_rng(seed).normal(size=4) * 2
    nearest = U.project(point)
    assert U.contains(nearest)
    np.testing.assert_allclose(nearest, solve_cone(U, np.eye(4), point), atol=1e-5)
    assert np.linalg.norm(nearest - point) <= np.linalg.norm(solve_cone(U, np.eye(4), point) - point) + 1e-9


def test_membership_is_the_definition():
    problem, U = random_set(0)
    assert U.contains(problem.truth)
    assert U.ratios(problem.truth) == pytest.approx(0.9)
    assert not U.contains(problem.truth * 1.01)
    far = ConfidenceSet(U.valid, U.centers, U.matrices, 0.8 * np.asarray(U.radii))
    assert not far.contains(problem.truth)


def test_balls_that_do_not_meet_are_an_empty_set():
    _, U = random_set(1)
    apart = ConfidenceSet(U.valid, U.centers + 5.0 * np.arange(3)[:, None], U.matrices, U.radii)
    assert apart.interior() is None
    with pytest.raises(ValueError, match="empty"):
        apart.project(np.zeros(4))


@pytest.mark.parametrize("seed", range(10))
def test_least_squares_is_the_constrained_optimum_and_a_strict_kernel(seed):
    """Targets inside Theta and far outside it, so that the optimum lies inside and on faces."""
    rng = np.random.default_rng(seed)
    problem, U = random_set(seed)
    A = U.matrices[0] * 10.0 ** rng.uniform(-2, 6)
    target = problem.truth + rng.normal(size=4) * [0.0, 0.3, 3.0][seed % 3]
    with jax.enable_x64(True):
        theta = np.asarray(jax.jit(least_squares)(U.valid, A, A @ target))
    free = ConfidenceSet(U.valid, U.centers, U.matrices, np.full(3, 1e6))
    best = solve_cone(free, A / np.trace(A), A @ target / np.trace(A))

    def distance(x):
        return (x - target) @ A @ (x - target) / np.trace(A)

    assert U.valid.contains(theta)
    assert (U.valid.rows @ theta > 0).all()
    assert distance(theta) <= distance(best) + 1e-9


def test_least_squares_returns_an_interior_target_itself():
    problem, U = random_set(3)
    target = 0.5 * (problem.truth + U.valid.center)
    with jax.enable_x64(True):
        theta = least_squares(U.valid, U.matrices[0], U.matrices[0] @ target)
    np.testing.assert_allclose(theta, target, atol=1e-9)


@pytest.mark.parametrize("seed", [9, 42, 51])
def test_least_squares_stands_kernels_that_are_nearly_alike(seed, x64):
    """Two that differ by a share of some 1e-7: the last steps meet matrices that are singular to rounding."""
    rng = np.random.default_rng(seed)
    kernels, share = rng.dirichlet(np.ones(4), size=(4, 4, 2)), 10 ** rng.uniform(-7, 0)
    kernels[1] = (1 - share) * kernels[0] + share * kernels[1]
    problem = Mixture.from_kernels(kernels, horizon=3)
    G = rng.normal(size=(4, 12)) * 10 ** rng.uniform(-2, 3, size=(4, 1))
    A = np.eye(4) + G @ G.T
    target = rng.dirichlet(np.ones(4)) * problem.known.unit + rng.normal(size=4) * 10 ** rng.uniform(-3, 1)
    valid = valid_set(problem.known)
    ours = np.asarray(jax.jit(least_squares)(valid, A, A @ target))
    empty = ConfidenceSet(valid, np.zeros((0, 4)), np.zeros((0, 4, 4)), np.zeros(0))
    best = solve_cone(empty, A / np.trace(A), A @ target / np.trace(A))
    size = [(x - target) @ A @ (x - target) for x in (ours, best)]
    assert size[0] == pytest.approx(size[1], rel=1e-6)
