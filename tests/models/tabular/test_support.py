"""The largest mean over a ball: a search of the same bound, every distribution in the ball, and one that attains it."""

import numpy as np
import pytest

from horizonfree.models.tabular.balls import highest_mean
from tests.models.tabular.cases import boundary
from tests.reference import tabular as ref


def cases(rng, number, C=4):
    """Centres with zeros, functions of many sizes, radii from 1e-9 to 30; tops at and above the largest value."""
    P = rng.dirichlet(np.full(C, 0.5), number)
    P[rng.random((number, C)) < 0.3] = 0
    P[:, 0] += P.sum(1) == 0
    P /= P.sum(1, keepdims=True)
    v = rng.random((number, C)) * 10 ** rng.uniform(-3, 0, (number, 1))
    v[rng.random(number) < 0.1] = 0.3
    v[rng.random((number, C)) < 0.1] = 0
    eps = 10 ** rng.uniform(-9, 1.5, number)
    top = v.max(1) + np.where(rng.random(number) < 0.5, 0.0, rng.random(number))
    return P, eps, v, top


def test_it_is_the_smallest_of_the_bounds():
    args = cases(np.random.default_rng(0), 600)
    means = highest_mean(*args)
    slow = [ref.highest_mean(*x) for x in zip(*args)]
    np.testing.assert_allclose(means, slow, rtol=0, atol=1e-9)


def test_no_distribution_in_the_ball_has_a_larger_mean_and_one_attains_it():
    """Every distribution on a grid of the simplex of three, with values 0, v and 1."""
    steps = 400
    i, j = np.divmod(np.arange((steps + 1) ** 2), steps + 1)
    grid = np.stack([i, j, steps - i - j], 1)[i + j <= steps] / steps
    rng = np.random.default_rng(1)
    for case in range(60):
        centre = rng.dirichlet(np.ones(3)) if case % 3 else np.array([0.6, 0.4, 0.0])
        v, eps = np.array([0.0, rng.random(), 1.0]), 10 ** rng.uniform(-3, 0.5)
        with np.errstate(divide="ignore", invalid="ignore"):
            kl = np.where(centre > 0, centre * np.log(centre / grid), 0.0).sum(1)
        bound = float(highest_mean(*map(np.asarray, (centre, eps, v, 1.0))))
        assert (grid[kl <= eps] @ v).max(initial=centre @ v) <= bound + 1e-12
        worst = boundary(centre, eps, np.ones(3, bool), v)
        assert worst @ v == pytest.approx(bound, abs=1e-6)
        is_used = centre > 0
        assert centre[is_used] @ np.log(centre[is_used] / worst[is_used]) <= eps * (1 + 1e-9)


def test_known_and_unknown_rows():
    centre, v = np.asarray([0.25, 0.75]), np.asarray([1.0, 0.5])
    assert float(highest_mean(centre, np.asarray(0.0), v, np.asarray(2.0))) == 0.625
    assert float(highest_mean(centre, np.asarray(np.inf), v, np.asarray(2.0))) == 2.0
    # All that is left of a sure successor: 1 - exp(-eps) may go to the top.
    known_mean = highest_mean(np.asarray([1.0, 0.0]), np.asarray(0.1), v, np.asarray(2.0))
    assert float(known_mean) == pytest.approx(1.0 + (1 - np.exp(-0.1)), rel=1e-12)


def test_tiny_radii_do_not_lose_their_sign():
    centre, v = np.asarray([0.5, 0.5]), np.asarray([0.0, 1.0])
    for eps in (1e-16, 1e-12, 1e-8):
        excess = float(highest_mean(centre, np.asarray(eps), v, np.asarray(1.0))) - 0.5
        assert excess == pytest.approx(np.sqrt(eps / 2), rel=1e-3)
