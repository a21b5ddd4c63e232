"""Distinct rows, and programmes that are given few of many rows."""

import numpy as np
import pytest

from horizonfree.models.mixture import features, valid


def literal(x):
    """Row against row, as NumPy compares them."""
    size = np.abs(x).max(axis=1, keepdims=True)
    size = np.where(size > 0, size, 1.0)
    digits = np.round(np.concatenate([x / size, np.log(size)], axis=1), 12) + 0.0
    _, first, inverse = np.unique(digits, axis=0, return_index=True, return_inverse=True)
    return x[first], inverse.reshape(-1)


def rows(seed):
    """Some rows many times, with signs of zero and rounding that make no difference, and rows of their own."""
    rng = np.random.default_rng(seed)
    few = np.concatenate([rng.choice([-1.0, -0.0, 0.0, 0.25], (30, 3)), 1e-9 * rng.random((10, 3))])
    many = few[rng.integers(0, len(few), 400)] * (1 + 1e-15 * rng.standard_normal((400, 1)))
    return np.concatenate([many, rng.dirichlet(np.ones(3), 100)])[rng.permutation(500)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("has_marks", [True, False])
def test_distinct_rows_are_those_of_a_comparison_row_by_row(seed, has_marks, monkeypatch):
    """Without marks every row has the same, and the slow way is gone."""
    if not has_marks:
        monkeypatch.setattr(features, "_hashes", lambda digits: np.zeros(len(digits), np.uint64))
    x = rows(seed)
    found, wanted = features.unique_rows(x), literal(x)
    assert all((a == b).all() for a, b in zip(found, wanted))
    assert 100 <= len(found[0]) < 160


def test_few_of_many_rows_give_the_same_point(monkeypatch):
    """The largest least probability, which one parameter has."""
    x = np.random.default_rng(0).dirichlet(np.ones(4), 3_000)
    x /= x.max(axis=1, keepdims=True)
    sums = np.ones((1, 4))
    at_once, _ = valid.relative_interior_point(x, sums)
    given = []
    solve = valid.scipy.optimize.linprog
    monkeypatch.setattr(valid, "MAX_ROWS_AT_ONCE", 100)
    monkeypatch.setattr(valid, "ROWS_PER_ROUND", 5)
    monkeypatch.setattr(
        valid.scipy.optimize, "linprog", lambda c, **x: given.append(len(x["A_ub"])) or solve(c, **x)
    )
    in_rounds, positive = valid.relative_interior_point(x, sums)
    assert len(given) > 1
    assert given[-1] < 300
    assert (x @ in_rounds).min() == pytest.approx((x @ at_once).min(), abs=1e-9)
    assert positive.all()
