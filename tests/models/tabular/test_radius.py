"""Balls: bets are likelihood ratios, their sets are convex, and no distribution in them is outside the ball."""

import itertools
import math

import numpy as np
import pytest

from horizonfree.models.tabular import radius
from horizonfree.models.tabular.radius import at_frequencies, balls, log_bet, log_kt, violation
from tests.reference import tabular as ref


def rows(rng, number, n=6, largest=4.5):
    """Counts of all sizes, singletons and zeros among them."""
    rows_list = []
    for _ in range(number):
        m = rng.integers(1, n)
        p = rng.dirichlet(np.full(m, rng.choice([0.2, 1.0, 5.0])))
        rows_list.append(np.append(rng.multinomial(int(10 ** rng.uniform(0.3, largest)), p), np.zeros(n - m)))
    special = [[0] * 6, [1], [2], [1, 1], [3, 1], [100_000, 1], [5000, 3000, 1990, 9, 1], [1, 1, 1, 1, 1, 1]]
    return np.array(rows_list + [np.append(x, np.zeros(n - len(x))) for x in special], float)


@pytest.mark.parametrize("kappa", [0.3, *radius.KAPPAS])
def test_a_bet_is_a_likelihood_ratio(kappa):
    """Over all 729 sequences of 6 on 3 symbols the bet times the likelihood sums to 1."""
    p = np.array([0.2, 0.5, 0.3])
    counts = np.array([np.bincount(x, minlength=3) for x in itertools.product(range(3), repeat=6)], float)
    bets = log_bet(kappa, counts, np.broadcast_to(p, counts.shape))
    assert float(np.exp(bets + counts @ np.log(p)).sum()) == pytest.approx(1, abs=1e-12)
    kt = log_kt(counts, np.full(len(counts), 3.0))
    best = np.array([sum(x * math.log(x / 6) for x in row if x) for row in counts])
    assert float(np.exp(kt + best).sum()) == pytest.approx(1, abs=1e-12)


def test_bets_agree_with_their_definition():
    rng = np.random.default_rng(0)
    N = rows(rng, 20, largest=3)
    p = rng.dirichlet(np.ones(6), len(N))
    m = np.full(len(N), 6)
    slow = [ref.log_e(x, y, 6) - 2.0 for x, y in zip(N, p)]
    np.testing.assert_allclose(violation(N, p, m.astype(float), 2.0), slow, rtol=1e-9, atol=1e-9)
    for kappa in radius.KAPPAS:
        p_hat = N / np.maximum(N.sum(1, keepdims=True), 1)
        safe = np.where(N > 0, p_hat, 1.0)
        log_e = at_frequencies(kappa, N, safe)
        slow = [ref.log_bet(kappa, x, np.where(x > 0, y, 1.0)) for x, y in zip(N, p_hat)]
        has_data = N.any(1)
        np.testing.assert_allclose(log_e[has_data], np.array(slow)[has_data], rtol=1e-9, atol=1e-9)
        assert log_e[has_data].max() <= 1e-12


def test_a_distribution_that_excludes_what_was_seen_is_outside():
    N, p = np.array([[3.0, 1.0]]), np.array([[1.0, 0.0]])
    assert np.isposinf(violation(N, p, np.array([2.0]), 9.0))


def test_the_sets_are_convex_and_unseen_successors_cost_nothing():
    """Second differences of the logarithm of the bets along 6,000 segments; zeros beside the counts change nothing."""
    rng = np.random.default_rng(1)
    N = np.repeat(rows(rng, 92, largest=3), 60, axis=0)
    ends = rng.dirichlet(np.ones(6), (2, len(N)))
    points = [t * ends[0] + (1 - t) * ends[1] for t in (0.0, 0.5, 1.0)]
    m = np.full(len(N), 6.0)
    low, middle, high = (violation(N, p, m, 0.0) for p in points)
    assert float((low + high - 2 * middle).min()) >= -1e-9
    wide, p = (np.pad(x, ((0, 0), (0, 3))) for x in (N, points[1]))
    np.testing.assert_allclose(violation(wide, p, m, 0.0), middle)


def test_balls_agree_with_the_literal_lemmas():
    rng = np.random.default_rng(2)
    N = rows(rng, 24)
    support = np.ones(N.shape, bool)
    support[::2] = N[::2] > 0
    support[:, 0] = True
    result = balls(N, support.sum(1), 8.3)
    for i, x in enumerate(N):
        centre, eps, is_complete = ref.ball(x, int(support[i].sum()), 8.3)
        assert float(result.eps[i]) == pytest.approx(eps * radius.ROUNDING_FACTOR, rel=1e-9)
        np.testing.assert_allclose(result.centre[i], centre, rtol=1e-12)
        assert bool(result.is_complete[i]) == is_complete


# n eps at L = log(64/.05), all m successors equally frequent, for n = 100, 1e3, 1e4, 1e5.
TABLE = {
    (3, True): (13.4, 12.8, 12.4, 12.7),
    (3, False): (14.9, 13.8, 14.0, 14.0),
    (1, True): (8.8, 8.2, 8.1, 8.1),
    (1, False): (9.2, 8.6, 8.2, 8.1),
}


@pytest.mark.parametrize(("m", "is_complete"), TABLE)
def test_the_radii_of_the_table(m, is_complete):
    n = np.array([1e2, 1e3, 1e4, 1e5])
    N = np.pad(np.repeat(n[:, None] / m, m, axis=1), ((0, 0), (0, 1)))
    support = np.ones(N.shape, bool)
    support[:, -1] = not is_complete
    result = balls(N, support.sum(1), math.log(64 / 0.05))
    np.testing.assert_allclose(n * result.eps, TABLE[m, is_complete], rtol=0.01)
    assert result.is_complete.tolist() == [is_complete] * 4


def kl(centre, p):
    """KL(centre || p), row by row."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(centre > 0, centre * np.log(centre / p), 0.0).sum(-1)


@pytest.mark.parametrize("is_complete", [True, False])
def test_no_distribution_that_the_bets_allow_is_outside_the_ball(is_complete):
    """From the frequencies along 60 directions each to the boundary of the set of the bets: the largest KL is there."""
    rng = np.random.default_rng(3)
    counts = rows(rng, 92, largest=5)
    support = counts > 0 if is_complete else np.ones(counts.shape, bool)
    support[:, 0] = True
    L = float(rng.choice([1.0, 4.0, 8.3]))
    ball = balls(counts, support.sum(1), L)
    N, support, centre, eps = (np.repeat(x, 60, axis=0) for x in (counts, support, ball.centre, ball.eps))
    m = support.sum(1).astype(float)
    n = N.sum(1, keepdims=True)
    p_hat = np.where(n > 0, N / np.maximum(n, 1), support / support.sum(1, keepdims=True))
    direction = directions(rng, p_hat, support)

    def point(t):
        return p_hat + t[:, None] * (direction - p_hat)

    low, high = np.zeros(len(N)), np.full(len(N), 1 - 1e-12)
    for _ in range(50):
        middle = (low + high) / 2
        is_inside = violation(N, point(middle), m, L) <= 0
        low, high = np.where(is_inside, middle, low), np.where(is_inside, high, middle)
    ratio = kl(centre, point(low)) / eps
    assert np.nanmax(ratio) <= 1 + 1e-7
    assert np.nanmax(ratio) > 0.8  # the bound is nearly attained: the adversary is a strong one


def directions(rng, p_hat, support):
    """Corners, random points near corners, tilts, and mass on what was never seen."""
    n = p_hat.shape[1]
    kind = rng.integers(4, size=len(p_hat))[:, None]
    sparse = rng.dirichlet(np.full(n, 0.1), len(p_hat))
    tilt = p_hat * np.exp(rng.normal(size=p_hat.shape) * 10 ** rng.uniform(-2, 1, (len(p_hat), 1)))
    corner = np.eye(n)[rng.integers(n, size=len(p_hat))]
    to_unseen = np.where(support & (p_hat == 0), rng.random(p_hat.shape), 0.0) + 1e-12 * p_hat
    raw = np.select([kind == 0, kind == 1, kind == 2], [sparse, tilt, corner], to_unseen)
    raw = np.where(support, raw, 0.0) + 1e-300
    raw = np.where(support, raw, 0.0)
    return raw / raw.sum(1, keepdims=True)
