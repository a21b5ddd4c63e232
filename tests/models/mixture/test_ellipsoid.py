"""The ellipsoid: its functions, and that it contains every parameter that the evidence leaves possible."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horizonfree.guarantees.divergence import curvature, psi, psi_inverse
from horizonfree.models.base import opnorm
from horizonfree.models.mixture.ellipsoid import psi_inverse_below
from tests.reference import cases


@pytest.fixture(scope="module", params=list(cases.PROBLEMS))
def case(request):
    return cases.make_case(request.param)


@settings(deadline=None)
@given(st.floats(-0.999999, 1e6))
def test_psi_and_its_curvature(x):
    assert float(psi(np.array(x))) == pytest.approx(x - np.log1p(x), rel=1e-9, abs=1e-15)
    higher = float(curvature(np.array(x + 0.01 * (1 + x))))
    assert 0 < higher <= float(curvature(np.array(x)))


@settings(deadline=None)
@given(st.floats(1e-12, 1e4))
def test_inverses_of_psi_are_upper_bounds_and_tight(c):
    above, below = (float(inverse(np.array(c))) for inverse in (psi_inverse, psi_inverse_below))
    assert float(psi(np.array(above))) == pytest.approx(c, rel=1e-9)
    assert float(psi(np.array(above))) >= c * (1 - 1e-9)
    assert 0 < below <= 1
    if below < 1 - 1e-9:
        assert float(psi(np.array(-below))) == pytest.approx(c, rel=1e-6)


@settings(deadline=None, max_examples=30)
@given(st.sampled_from([1, 2, 5]), st.integers(0, 10**6))
def test_opnorm_is_an_upper_bound_within_its_factor(q, seed):
    M = np.random.default_rng(seed).normal(size=(3, q, q))
    M = M + M.swapaxes(1, 2)
    exact = np.abs(np.linalg.eigvalsh(M)).max(-1)
    found = np.asarray(opnorm(M))
    assert (found >= exact * (1 - 1e-12)).all()
    assert (found <= exact * q ** (1 / 16) * (1 + 1e-12)).all()


def test_every_parameter_of_U_is_in_the_ellipsoid_and_in_the_row_bounds(case):
    for i in range(cases.SEEDS):
        ball, N = case.confidences[i].ball, case.counts(i)
        free = case.valid.free
        for theta in case.points_of_U(i, np.random.default_rng(i), 20):
            change = (case.valid.rows @ theta - ball.p)[free]
            x = change / ball.p[free]
            u = np.linalg.lstsq(ball.z[free], change, rcond=None)[0]
            np.testing.assert_allclose(ball.z[free] @ u, change, atol=1e-7)
            assert np.linalg.norm(u) <= 1 + 1e-6
            assert (x <= ball.above[free] + 1e-6 / ball.p[free]).all()
            assert (x >= -ball.below[free] - 1e-6 / ball.p[free]).all()
            seen = N[free] > 0
            assert (N[free] * (x - np.log1p(np.maximum(x, -1 + 1e-15))))[seen].sum() <= ball.slack + 1e-6
