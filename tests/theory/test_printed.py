"""The main theorem letter by letter, beside what we make of it."""

import json
import math

import pytest

from horizonfree.theory import as_printed
from horizonfree.theory import bounds as theory


def test_the_print_written_out_once_more():
    d, H, B, delta, K = 2, 10, 1.5, 0.1, 1000
    alpha, gamma, lam = H**-0.5, d**-0.25, d / B**2
    M = math.log(7 * K * H) / math.log(2)
    tau = math.log(32 * (math.log(gamma**2 / alpha) + 1) * K**2 * H**2 / delta)
    eta = math.log(1 + K * H / (alpha**2 * d * lam))
    beta = 12 * math.sqrt(d * eta * tau) + 30 * tau / gamma**2 + math.sqrt(lam) * B
    iota, zeta = math.log(1 + K * H / (d * lam * alpha**2)), 4 * math.log(4 * math.log(K * H) / delta)
    A1 = (
        2752 * max(64 * beta**2 * d * iota, 2 * zeta)
        + 24 * zeta
        + 240 * d * iota
        + 240 * beta * gamma**2 * d * iota
        + 120 * beta * d * iota * math.sqrt(M)
    )
    A2 = 64 * max(8 * beta * math.sqrt(d * iota), math.sqrt(2 * zeta)) + 120 * beta * math.sqrt(
        d * iota * H * alpha**2
    )
    gap = 4 * A1 / K + 4 * A2 / math.sqrt(K)
    values = {x.name: x.value for x in as_printed.table(1.0, delta, d, H, B, K=K)}
    expected = {"M": M, "beta": beta, "zeta": zeta, "A1": A1, "A2": A2, "suboptimality": gap}
    for name, value in expected.items():
        assert values[f"{name}_as_printed"] == pytest.approx(value, rel=1e-12), name


def test_its_sample_size_is_a_fixed_point_and_the_published_order_of_magnitude():
    values = {x.name: x.value for x in as_printed.table(1.0, 0.1, 2, 10, 1.5)}
    m = values["sample_complexity_as_printed"]
    assert m == pytest.approx(1.4e16, rel=0.03)
    assert values["suboptimality_as_printed"] <= 1
    A1, A2 = as_printed.coefficients(m, 0.1, 2, 10, 1.5)
    assert m == pytest.approx(16 * A2**2 + 8 * A1, rel=1e-9)
    assert m < theory.sample_complexity(1.0, 0.1, 2, 10, 1.5)  # delta is not divided
    per_step = {x.name: x.value for x in as_printed.table(10.0, 0.1, 2, 10, 1.5, scale="per-step")}
    assert per_step["sample_complexity_as_printed"] == m


def test_where_the_print_has_no_number_it_says_so():
    values = {x.name: x.value for x in as_printed.table(0.1, 0.1, 8, 1, 1.5, K=5)}  # d > e^2 H
    assert values["beta_as_printed"] == as_printed.UNDEFINED == values["sample_complexity_as_printed"]
    assert math.isfinite(values["M_as_printed"])
    first = {x.name: x.value for x in as_printed.table(0.1, 0.1, 1, 1, 1.5, K=1)}  # log(KH) = 0
    assert first["zeta_as_printed"] == as_printed.UNDEFINED
    json.dumps(values | first, allow_nan=False)
