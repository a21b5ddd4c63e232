"""How far estimates from samples may be: roots, worst cases, coverage, and what is said of it."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import gammaln

import horizonfree as hf
from horizonfree.problems.sampling import Sampling, agrawal, worst_case


def test_the_radius_of_a_fixed_number_of_samples_is_the_larger_root() -> None:
    m = np.array([[2, 3, 16, 385]])
    for level in (0.5, 5.0, 40.0):
        exact = [
            brentq(lambda t, k=k, y=level: t - k * math.log(math.e * t / k) - y, k * (1 + 1e-12), 1e5)
            for k in m[0] - 1
        ]
        np.testing.assert_allclose(agrawal(level, m)[0], exact, rtol=1e-9)
        assert (agrawal(level, m)[0] >= np.array(exact) * (1 - 1e-12)).all()


@pytest.mark.parametrize(("N", "m"), [(1, 2), (7, 2), (6, 3), (4, 4)])
def test_no_samples_are_explained_better_than_the_worst_case_says(N: int, m: int) -> None:
    """Over all counts of N samples of m successors; the largest is attained by N of one kind."""
    largest = -math.inf
    for counts in itertools.product(range(N + 1), repeat=m):
        if sum(counts) == N:
            best = sum(x * math.log(x / N) for x in counts if x)
            bet = gammaln(m / 2) - gammaln(m / 2 + N) + sum(gammaln(0.5 + x) - gammaln(0.5) for x in counts)
            largest = max(largest, best - bet)
    assert worst_case(np.array([[N]]), np.array([[m]]))[0, 0] == pytest.approx(largest, abs=1e-9)


def sampling(N: int, *, m: int = 4, is_fixed: bool = True, horizon: int = 5) -> Sampling:
    """Two simulators of six pairs."""
    shape = (3, 2)
    return Sampling(np.full(shape, N), np.full(shape, m), np.zeros(shape), 12, is_fixed, False, 1.0, horizon)


@pytest.mark.parametrize("is_fixed", [True, False])
def test_some_row_is_outside_its_radius_in_at_most_a_share_delta_of_draws(is_fixed: bool) -> None:
    """Of 400 draws of all rows at delta = 0.5, more than 249 have probability 1e-6 if each has 0.5."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(4), (2, 3, 2))
    outside, N = 0, 50
    eps = sampling(N, is_fixed=is_fixed).divergence(0.5)
    assert (eps < 0.5).all()
    for _ in range(400):
        P_hat = rng.multinomial(N, P) / N
        kl = (P_hat * np.log(np.where(P_hat > 0, P_hat / P, 1.0))).sum(-1)
        outside += bool((kl > eps).any())
        if (kl <= eps).all():  # a mixture of the estimates is then within the radii of the mixture
            w = rng.dirichlet(np.ones(2))
            distances = np.abs(np.tensordot(w, P_hat - P, 1)).sum(-1) / 2
            assert (
                distances <= sampling(N, is_fixed=is_fixed).misspecification(0.5).radii(3, 2) + 1e-12
            ).all()
    assert outside <= 249


def test_more_samples_allow_more_and_words_say_how_many_are_needed() -> None:
    floors = [sampling(N).floor() for N in (10, 10**3, 10**5, 10**7)]
    assert floors == sorted(floors, reverse=True)
    assert floors[0] == 1
    num_needed = sampling(1).needed(0.1)
    assert sampling(int(num_needed)).floor() <= 0.1 < sampling(int(num_needed) - 1).floor()
    eps = sampling(10**5).divergence(0.01).max()
    assert sampling(10**5).floor() == pytest.approx(math.sqrt(2 * 4 * eps), abs=1e-12)
    text = sampling(10**5).summary()
    assert text.startswith("100,000 samples of each row and simulator: every row is known to within 0.00")
    assert "no suboptimality bound for every reward below 0.0" in text
    assert "no suboptimality bound for every reward can be certified" in sampling(10).summary()
    assert sampling(10, m=1).summary() == "every row is known: nothing was estimated"
    assert sampling(10, horizon=1).floor() == 0


def test_what_is_declared_beside_the_samples_widens_the_radii() -> None:
    declared = hf.Misspecification(tv=0.01, support="anywhere")
    of_samples, total = sampling(10**5).misspecification(0.1), sampling(10**5).misspecification(0.1, declared)
    np.testing.assert_allclose(total.radii(3, 2), of_samples.radii(3, 2) + 0.01, atol=1e-15)
    assert (of_samples.support, total.support) == ("successors", "anywhere")
