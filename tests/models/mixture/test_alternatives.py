"""What bets against a mixture: bounds below the exact averages, and laws that sum to one over all that can happen."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betaln

import horizonfree as hf
from horizonfree.models.mixture import alternatives
from horizonfree.models.registry import alternatives_of


@pytest.fixture(scope="module")
def blurred() -> hf.Problem:
    """Two kernels that rows do not tell apart."""
    kernels = np.random.default_rng(1).dirichlet(np.ones(3), (2, 3, 1))
    return hf.Mixture.from_kernels(kernels, horizon=2)


def test_the_bound_over_weights_is_below_the_exact_average_and_near_it(blurred: hf.Problem) -> None:
    """The average over Beta(1/2, 1/2) by quadrature, w = sin^2 of an angle."""
    valid = blurred.model.valid
    c = alternatives.by_kernel(valid)
    rng = np.random.default_rng(0)
    for n in (0, 3, 40, 400):
        counts = np.zeros((1, len(valid.rows)), int)
        counts[0, : len(c)] = rng.multinomial(n, np.full(len(c), 1 / len(c)))

        def log_p(w: float, counts=counts) -> float:
            return float(counts[0, : len(c)] @ np.log(c @ [w, 1 - w]))

        top = max(log_p(w) for w in np.linspace(0.001, 0.999, 999))

        def shape(x: float, log_p=log_p, top=top) -> float:
            return math.exp(log_p(math.sin(x) ** 2) - top) * 2 / math.pi

        exact = top + math.log(quad(shape, 0, math.pi / 2, limit=200)[0])
        found = alternatives.over_weights(valid, counts)
        assert exact - 3 <= found <= exact + 1e-8


def test_the_bound_is_exact_where_rows_tell_kernels_apart_whatever_the_prior() -> None:
    coin = hf.Mixture.from_kernels(np.eye(2)[:, None, None, :].repeat(2, 1), horizon=2)
    valid, counts = coin.model.valid, np.zeros((2, 4), int)
    counts[:, :2] = [[7, 2], [0, 5]]
    for prior in (np.array([0.5, 0.5]), np.array([3.0, 0.2])):
        tell = alternatives.by_kernel(valid).argmax(1)
        a = counts[:, :2][:, np.argsort(tell)]
        exact = sum(betaln(*(row + prior)) - betaln(*prior) for row in a)
        assert alternatives.over_weights(valid, counts, prior) == pytest.approx(exact, abs=1e-9)


def features() -> hf.Problem:
    """Weights of any sign; (0, 0) leads to two states alike, (1, 0) and (2, 0) are of one kind."""
    share = np.array([[0.6, 0.2], [0.2, 0.4], [0.2, 0.4]])
    phi = np.zeros((3, 1, 3, 2))
    phi[0, 0] = share
    phi[1, 0, :2] = phi[2, 0, 1:] = [[0.5, 1.0], [0.5, 0.0]]
    return hf.Mixture.from_features(phi, horizon=2, bound=2.0)


def test_laws_on_the_rows_of_each_kind_are_those_of_a_literal_loop() -> None:
    """The kinds are {0} and {1, 2}; slots 1 and 2 of the first share a row."""
    problem = features()
    valid, rng = problem.model.valid, np.random.default_rng(0)
    counts = rng.integers(5, size=(2, 3, 1, problem.space.succ.shape[2])) * np.asarray(problem.space.support)
    row_of = np.asarray(valid.row_of)[:, 0]
    expected = 0.0
    for part in counts[:, :, 0]:
        for pairs in ([0], [1, 2]):
            rows = sorted({int(r) for r in row_of[pairs[0]] if r < len(valid.rows)})
            N = [sum(int(part[s][row_of[s] == r].sum()) for s in pairs) for r in rows]
            alike = [int((row_of[pairs[0]] == r).sum()) for r in rows]
            m, n = len(rows), sum(N)
            expected += math.lgamma(m / 2) - math.lgamma(m / 2 + n)
            for own, k in zip(N, alike):
                expected += math.lgamma(0.5 + own) - math.lgamma(0.5) - own * math.log(k)
    assert alternatives_of(problem.model).marginal_log_likelihood(counts) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("kind", ["features", "weights", "table"])
def test_what_an_alternative_gives_to_all_that_can_happen_sums_to_one_at_most(
    kind: str, blurred: hf.Problem
) -> None:
    """Four transitions from given pairs in two parts: a sum over everything that can follow them."""
    problem = {"features": features(), "weights": blurred, "table": hf.Tabular(3, 1, 2, 0)}[kind]
    support = np.asarray(problem.space.support)[:, 0]
    visits = [(0, 0), (1, 0), (0, 1), (2, 1)]  # state, part
    total = 0.0
    for slots in itertools.product(*(np.flatnonzero(support[s]) for s, _ in visits)):
        counts = np.zeros((2, *problem.space.succ.shape), int)
        for (s, part), j in zip(visits, slots):
            counts[part, s, 0, j] += 1
        total += math.exp(alternatives_of(problem.model).marginal_log_likelihood(counts))
    assert total <= 1 + 1e-9
    assert total >= (0.5 if kind == "weights" else 1 - 1e-9)
