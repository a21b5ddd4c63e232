"""The bounds on the sums of the proof, the lower bounds, and the count of operations: formulas written out again."""

import math

import numpy as np
import pytest

import horizonfree as hf


@pytest.fixture(scope="module")
def X():
    return hf.theory.symbols(1000, 0.1, 3, 10, 2.0)


def test_symbols_are_those_of_the_theorem(X):
    M = math.ceil(math.log2(7 * 1000 * 10))
    assert (X.M, X.alpha, X.gamma) == (M, 10**-0.5, 3**-0.25)
    assert X.iota == pytest.approx(math.log(1 + 1000 * 10 * 10 * 4 / 9))
    assert X.zeta == pytest.approx(4 * math.log(4 * math.log(10_000) * 4 * M / 0.1))
    assert X.beta == hf.theory.beta(1000, 3, 10, 2.0, 0.1, M)


def test_bounds_on_the_sums(X):
    di, small = 3 * X.iota, X._replace(beta=0.05)
    root = math.sqrt(7.0 + 4 * 2.0 + 2 * 3.0 + 1000)
    gamma_sq = 3**-0.5
    as_printed = 4 * di + 4 * 0.05 * gamma_sq * di + 2 * 0.05 * math.sqrt(di) * root
    corrected = 2 * di + 8 * 0.05 * gamma_sq * di + 8 * 0.05 * math.sqrt(di) * root
    assert hf.theory.bound_R(7.0, 2.0, 3.0, small) == pytest.approx(as_printed)
    assert hf.theory.bound_R(7.0, 2.0, 3.0, small, mended=True) == pytest.approx(corrected)
    assert hf.theory.bound_R(7.0, 2.0, 3.0, X) == 10_000  # KH
    assert hf.theory.bound_A(8.0, X) == pytest.approx(4 * math.sqrt(X.zeta) + X.zeta)
    assert hf.theory.bound_A(1e12, X) == 10_000
    assert hf.theory.bound_S_hat(-5.0, 2.0, 3.0, 7.0, m=2) == 5 + 2 + 8 * (7 + 12)
    assert hf.theory.bound_S_tilde(-5.0, 2.0, 7.0, m=1, K=100) == 5 + 2 + 4 * (100 + 14)
    assert hf.theory.bound_G(X) == pytest.approx(X.M * 3 * X.iota)
    assert hf.theory.bound_sum(1.0, 2.0, -3.0, 4.0) == 1 + 8 + 3 + 4


def test_norms_under_the_indicator_differ_by_up_to_four_as_the_mended_bound_says():
    """||x|| in Sigma_dot^{-1} over ||x|| in Sigma^{-1} is at most sqrt(det ratio), and one row of d = 1 attains it."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        A = rng.normal(size=(3, 3))
        frozen = A @ A.T + 0.1 * np.eye(3)
        updated = frozen + 3 * np.outer(*[rng.normal(size=3)] * 2)
        x = rng.normal(size=3)
        ratio = math.sqrt((x @ np.linalg.solve(frozen, x)) / (x @ np.linalg.solve(updated, x)))
        assert ratio <= math.sqrt(np.linalg.det(updated) / np.linalg.det(frozen)) * (1 + 1e-9)
    assert math.sqrt(1 / (1 / 16)) == 4  # d = 1: Sigma_dot = 1, Sigma = 16


def test_the_regret_that_nobody_escapes():
    d, H, K = 5, 10, 10_000
    D, Delta = 4 * 9 / 10, 1 / math.sqrt(192 * K)
    expected = K * Delta * D * (1 - math.sqrt(256 / (7 * 192) / 2))  # K times (d-1) 2 Delta (H-1)/H (1-t)/2
    assert hf.theory.regret_lower_bound(K, d, H, 2.0) == pytest.approx(expected)
    assert expected == pytest.approx(D * math.sqrt(K) / 20.04, rel=1e-3)
    assert K * Delta * D / 2 == pytest.approx(D * math.sqrt(K) / (16 * math.sqrt(3)))  # the print's, t = 1/2
    assert hf.theory.regret_lower_bound(74, d, H, 2.0) == 0  # below 3 d^2
    assert hf.theory.regret_lower_bound(K, d, H, 1.0) == 0


def test_a_lower_bound_of_zero_says_why():
    messages = {
        (0.5, 0.05, 5, 10, 2.0): "begins at 75 episodes: eps is too large",
        (1e-4, 0.35, 5, 10, 2.0): "delta is not below 0.346",
        (1e-4, 0.05, 1, 10, 2.0): "d is 1",
        (1e-4, 0.05, 5, 1, 2.0): "H is 1",
        (1e-4, 0.05, 5, 10, 1.0): "B is not above 1",
        (1e-4, 0.05, 5, 10, 1 + 1e-6): "B too near 1",
    }
    for arguments, message in messages.items():
        assert hf.theory.lower_bound(*arguments) == 0
        assert message in hf.theory.why_no_lower_bound(*arguments)
    assert hf.theory.why_no_lower_bound(1e-4, 0.05, 5, 10, 2.0) is None
    lines = {x.name: x for x in hf.theory.table(0.5, 0.05, 5, 10, 2.0)}
    assert lines["lower_bound"].meaning.startswith("says nothing: it begins at 75")
    assert "ours" in {x.name: x for x in hf.theory.table(1e-4, 0.05, 5, 10, 2.0)}["lower_bound"].meaning


def test_operations():
    M = math.ceil(math.log2(7 * 100 * 10))
    assert hf.theory.operations(100, 4, 10, 6, 3) == 100 * 10 * (24 * M + M * 16) + 10 * 6 * 3 * 4
    assert hf.theory.operations(100, 4, 10, 6, 3, expectation=2) == 1000 * (2 * M + M * 16) + 720


def test_the_lemma_on_sequences_holds_with_one_recursion_fewer():
    """M - 1 recursions are what the lemmas on R and S give, M = ceil(log2(7KH)); the largest sequence there is."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        top, second, fourth = 10 ** rng.uniform([0.5, -2, -2], [12, 3, 5])
        third = 10 ** rng.uniform(0, 6)
        M = max(2, math.ceil(math.log2(top)))
        a = top
        for i in range(M - 1, 0, -1):
            inside = a + 2.0 ** (i + 1) * third
            x = top
            for _ in range(200):  # from above to the largest solution of x = second sqrt(x + inside) + fourth
                x = min(x, second * math.sqrt(x + inside) + fourth)
            a = x
        assert a <= 22 * second**2 + 6 * fourth + 4 * second * math.sqrt(2 * third) * (1 + 1e-9)
