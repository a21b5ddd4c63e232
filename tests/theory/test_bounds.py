"""The theorems in numbers: printed values, fixed points, scalings, and the lower bound against exact probabilities."""

import itertools
import json
import math

import numpy as np
import pytest
from scipy.stats import binom

from horizonfree.theory import bounds as theory
from horizonfree.theory.ranges import LIMITS

SIZES = {"d": 2, "H": 10, "B": 1.5}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((1, 1, 1, 1.0, 0.1), 198.0445),
        ((1, 4, 10, 2.0, 0.1), 789.0794),
        ((1000, 4, 10, 2.0, 0.1), 1854.5113),
        ((10_000, 2, 100, 1.5, 0.05), 1919.0101),
    ],
)
def test_beta(arguments, expected):
    assert theory.beta(*arguments) == pytest.approx(expected, abs=5e-5)


def test_beta_is_finite_where_the_print_is_not():
    assert math.isfinite(theory.beta(1, 8, 1, 2.0, 0.1))


@pytest.mark.parametrize(("K", "H", "M"), [(1, 1, 3), (100, 10, 13), (1000, 20, 18)])
def test_moment_orders(K, H, M):
    assert theory.moment_orders(K, H) == M


def test_sample_complexity_as_printed():
    assert theory.sample_complexity(1.0, 0.1, **SIZES, split=False) == pytest.approx(1.4e16, rel=0.02)


def test_dividing_delta_among_all_events_costs_little_more():
    split = theory.sample_complexity(1.0, 0.1, **SIZES)
    as_printed = theory.sample_complexity(1.0, 0.1, **SIZES, split=False)
    assert as_printed < split < 1.2 * as_printed


@pytest.mark.parametrize("eps", [1.0, 0.1, 0.001])
@pytest.mark.parametrize("scale", ["total", "per-step"])
def test_sample_complexity_is_enough_and_a_fixed_point(eps, scale):
    d, H, B, delta = 3, 7, 2.0, 0.05
    m = theory.sample_complexity(eps, delta, d, H, B, scale=scale)
    assert theory.suboptimality(m, delta, d, H, B, scale=scale) <= eps
    A1, A2 = theory.coefficients(m, delta, d, H, B)
    unit = H if scale == "per-step" else 1
    assert m == pytest.approx(16 * A2**2 * unit**2 / eps**2 + 8 * A1 * unit / eps, rel=1e-9)


def test_the_closed_form_solves_the_inequality_for_any_coefficients():
    rng = np.random.default_rng(0)
    A1, A2, eps = 10 ** rng.uniform(-3, 9, (3, 1000))
    K = 16 * A2**2 / eps**2 + 8 * A1 / eps
    assert (4 * A1 / K + 4 * A2 / np.sqrt(K) <= eps * (1 + 1e-12)).all()


def test_rewards_in_unit_interval_are_totals_divided_by_the_horizon():
    per_step = theory.sample_complexity(0.5, 0.1, **SIZES, scale="per-step")
    assert per_step == theory.sample_complexity(0.5 / 10, 0.1, **SIZES)
    assert theory.suboptimality(1e6, 0.1, **SIZES, scale="per-step") == pytest.approx(
        10 * theory.suboptimality(1e6, 0.1, **SIZES)
    )


def test_the_bound_is_horizon_free():
    """A thousand times the horizon: the count grows by the logarithms alone."""
    short = theory.sample_complexity(0.1, 0.1, 4, 10, 2.0)
    long = theory.sample_complexity(0.1, 0.1, 4, 10_000, 2.0)
    assert short < long < 4 * short


def test_coefficients_as_printed():
    """A1 and A2 written out once more, at KH = e^3 so that log(KH) = 3."""
    d, H, B, delta = 2, 10, 1.5, 0.1
    K = math.exp(3) / H
    beta = theory.beta(K, d, H, B, delta)
    di = d * math.log(1 + K * H * H * B**2 / d**2)
    zeta = 4 * math.log(4 * 3 / delta)
    M = math.ceil(math.log2(7 * math.ceil(K) * H))
    A1, A2 = theory.coefficients(K, delta, d, H, B, split=False)
    assert theory.zeta(K, H, delta) == pytest.approx(zeta, rel=1e-12)
    expected = (
        2752 * 64 * beta**2 * di
        + 24 * zeta
        + 240 * di
        + 240 * beta * di / math.sqrt(d)
        + 120 * beta * di * math.sqrt(M)
        + 24 * math.sqrt(zeta * M * di)
        + M * di
    )
    assert pytest.approx(expected, rel=1e-12) == A1
    assert pytest.approx((64 * 8 + 120) * beta * math.sqrt(di), rel=1e-12) == A2


@pytest.mark.parametrize(("d", "H", "K", "delta"), [(2, 10, 1000, 0.1), (5, 3, 1e12, 0.01), (1, 1, 1, 0.5)])
def test_coefficients_with_the_slips_of_the_proof_mended(d, H, K, delta):
    """R_m <= 2 d iota + 8 beta gamma^2 d iota + 8 beta sqrt(d iota) sqrt(...), carried through line by line."""
    B = 1.5
    M = max(2, math.ceil(math.log2(7 * K * H)))
    beta = theory.beta(K, d, H, B, delta / (4 * M))
    di = d * math.log(1 + K * H * H * B**2 / d**2)
    zeta = 4 * math.log(4 * max(1, math.log(K * H)) / (delta / (4 * M)))
    largest = max(
        4 * 8 * beta * math.sqrt(di), math.sqrt(2 * zeta)
    )  # 4 R_hat has the largest factor of a root
    a, b = (
        4 * 4 * largest * math.sqrt(4),
        22 * (4 * largest) ** 2,
    )  # the lemma on sequences: x <= a sqrt(K + x) + b + ...
    I_c = 2 * di + 8 * beta * di / math.sqrt(d)  # and 8 beta sqrt(d iota) sqrt(G + K), G = M d iota
    A1 = 2 * a**2 + 2 * b + 2 * 6 * (5 * I_c + 2 * math.sqrt(2 * zeta * M * di) + 2 * zeta)
    A1 += 2 * 30 * 8 * beta * di * math.sqrt(M) + M * di
    A2 = 2 * a + 2 * 30 * 8 * beta * math.sqrt(di)
    corrected = theory.coefficients(K, delta, d, H, B, mended=True)
    assert corrected == pytest.approx((A1, A2), rel=1e-12)
    as_printed = theory.coefficients(K, delta, d, H, B)
    assert as_printed.A1 < corrected.A1
    assert as_printed.A2 < corrected.A2


def test_the_mended_bound_needs_about_sixteen_times_the_episodes():
    for eps in (1.0, 0.01):
        as_printed, corrected = (theory.sample_complexity(eps, 0.1, **SIZES, mended=x) for x in (False, True))
        assert 16 * as_printed < corrected < 20 * as_printed
        assert theory.suboptimality(corrected, 0.1, **SIZES, mended=True) <= eps
        assert theory.suboptimality(as_printed, 0.1, **SIZES, mended=True) > eps


def test_zeta_is_finite_for_a_single_step():
    assert theory.zeta(1, 1, 0.1) == pytest.approx(4 * math.log(40))


def test_the_bound_falls_with_episodes():
    gaps = [theory.suboptimality(10.0**e, 0.1, **SIZES) for e in range(1, 30, 4)]
    assert (np.diff(gaps) < 0).all()


def test_lower_bound_is_below_the_upper_bound_and_scales_as_d_squared_over_eps_squared():
    for eps in (1e-2, 1e-3, 1e-4):
        lower = theory.lower_bound(eps, 0.05, 5, 10, 2.0)
        assert lower <= theory.sample_complexity(eps, 0.05, 5, 10, 2.0)
    small = theory.lower_bound(1e-4, 0.05, 5, 10, 2.0)
    assert small > 0
    assert theory.lower_bound(1e-5, 0.05, 5, 10, 2.0) == pytest.approx(100 * small, rel=1e-5)
    assert theory.lower_bound(1e-4, 0.05, 9, 10, 2.0) == pytest.approx(4 * small, rel=1e-5)
    per_step = theory.lower_bound(1e-3, 0.05, 5, 10, 2.0, scale="per-step")
    assert per_step == pytest.approx(small, rel=1e-5)


@pytest.mark.parametrize("K", [12, 100, 10_000])
def test_the_hard_instance_cannot_be_told_from_its_mirror_image(K):
    """The step of the proof that counts: at d = 2, K episodes leave both signs of mu within sqrt(2/21) = 0.3086.

    The learner sees K draws of Bernoulli(delta + mu a); the exact distance for a = 1 throughout, and the bound by
    relative entropy that covers every adaptive choice of a.
    """
    delta, Delta = 1 / 6, 1 / math.sqrt(192 * K)
    high, low = delta + Delta, delta - Delta
    n = np.arange(K + 1)
    distance = 0.5 * np.abs(binom.pmf(n, K, high) - binom.pmf(n, K, low)).sum()
    entropy = max(_kl(high, low), _kl(low, high))
    assert distance <= math.sqrt(K * entropy / 2) <= math.sqrt(2 / 21)


@pytest.mark.parametrize("d", [2, 3, 10, 1000])
def test_one_sign_of_mu_changes_the_entropy_by_no_more_than_the_proof_says(d):
    """At K = 3 d^2, the fewest: every p the actions can make lies in (1/8, 5/24), where KL <= (256/7) Delta^2."""
    Delta = 1 / math.sqrt(192 * 3 * d**2)
    mean = 1 / 6 + Delta * np.linspace(-(d - 1), d - 1, 201)
    p, q = mean, np.clip(mean + 2 * Delta, None, 1 / 6 + Delta * (d - 1))  # one coordinate turned over
    assert p.min() > 1 / 8
    assert p.max() < 5 / 24
    for x, y in ((p, q), (q, p)):
        entropy = x * np.log(x / y) + (1 - x) * np.log((1 - x) / (1 - y))
        assert entropy.max() <= 256 / 7 * Delta**2


def test_lower_bound_is_the_number_of_its_proof():
    """(1-delta) eps + delta 2 Delta D >= (1 - t) Delta D at K = lower bound, with equality before rounding up."""
    eps, delta, d, H, B = 1e-4, 0.05, 5, 10, 2.0
    K = theory.lower_bound(eps, delta, d, H, B)
    D = (d - 1) * (H - 1) / H
    Delta = 1 / math.sqrt(192 * K)
    assert (1 - delta) * eps + 2 * delta * Delta * D == pytest.approx(
        (1 - math.sqrt(2 / 21)) * Delta * D, rel=1e-5
    )
    old = (D / eps * (0.5 - 2 * delta) / (1 - delta)) ** 2 / 192  # with a total variation of 1/2
    assert K / old == pytest.approx(2.186, abs=1e-3)


def _kl(p, q):
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


def test_table_has_every_quantity_and_survives_json():
    lines = theory.table(0.1, 0.1, **SIZES)
    values = json.loads(json.dumps({line.name: line.value for line in lines}))
    assert values["sample_complexity"] == values["K"] == theory.sample_complexity(0.1, 0.1, **SIZES)
    assert values["suboptimality"] <= 0.1
    assert values["beta"] == theory.beta(values["K"], 2, 10, 1.5, 0.1, values["M"])
    assert len(values) == len(lines)
    at_1000 = {line.name: line.value for line in theory.table(0.1, 0.1, **SIZES, K=1000)}
    assert at_1000["suboptimality"] == theory.suboptimality(1000, 0.1, **SIZES)
    assert at_1000["suboptimality_mended"] == theory.suboptimality(1000, 0.1, **SIZES, mended=True)
    assert values["sample_complexity_mended"] == theory.sample_complexity(0.1, 0.1, **SIZES, mended=True)


@pytest.mark.parametrize("scale", ["total", "per-step"])
def test_every_number_is_finite_at_the_ends_of_every_range(scale):
    limits = LIMITS
    ends = [limits["eps"], (limits["delta"][0], 0.999), (1, 10**15), (1, 10**15), limits["B"]]
    for corner in itertools.product(*ends):
        for K in (None, *limits["K"]):
            values = [line.value for line in theory.table(*corner, K=K, scale=scale)]
            assert all(math.isfinite(x) for x in values if x != scale), (corner, K)
