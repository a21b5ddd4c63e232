"""Shares of delta within a misspecification, and the number of steps that its bounds count, exactly."""

import math

import equinox as eqx
import numpy as np
import pytest

import horizonfree as hf
from horizonfree._x64 import scope
from horizonfree.models.mixture.evidence import STARTS
from horizonfree.models.mixture.robust import frequencies, half_spaces, penalty, sets
from tests.reference import small

DELTA = 0.05
LOG_2 = math.log(2)


def shared_of(problem, evidence, delta=DELTA, weights=(0.5, 0.5)):
    evidence = eqx.tree_at(lambda x: x.weights, evidence, np.asarray(weights))
    with scope():
        return sets.shared_data(problem.model.valid, evidence, evidence.record, delta)


def test_three_sets_share_delta():
    assert (sets.BETS, sets.ROWS, sets.SPACES) == (0.8, 0.1, 0.1)
    assert sets.BETS + sets.ROWS + sets.SPACES <= 1 + 1e-15


def test_the_log_threshold_pays_for_the_share_of_e_processes_and_for_the_weight(problem, evidence):
    """W = Lq + log(1 / (0.8 delta w)) - L(theta_hat) + gap, over the blocks from the declared start on."""
    shared = shared_of(problem, evidence, weights=(0.25, 0.5))
    bet, record = shared.bet, evidence.record
    first = int(np.flatnonzero(STARTS == bet.start)[0])
    j = int(np.argmin(np.abs(evidence.starts - bet.start)))
    w = (0.25, 0.5)[j]
    rows = np.asarray(record.rows)[first:]
    Lq = -(rows * np.log(np.where(rows > 0, bet.p, 1.0))).sum()
    N = rows.sum(0)
    p = problem.model.valid.rows @ np.asarray(bet.fit.theta)
    L = -(N * np.log(np.where(N > 0, p, 1.0))).sum()
    wanted = Lq + math.log(1 / (0.8 * DELTA * w)) - L + float(bet.fit.gap)
    assert bet.slack == pytest.approx(wanted, abs=1e-9)
    assert bet.share == pytest.approx(0.1 * DELTA * w, abs=1e-15)


def test_half_a_weight_or_half_of_delta_costs_log_2(problem, evidence):
    before = shared_of(problem, evidence)
    for change in ({"weights": (0.25, 0.25)}, {"delta": DELTA / 2}):
        after = shared_of(problem, evidence, **change)
        assert after.bet.start == before.bet.start
        assert after.bet.slack - before.bet.slack == pytest.approx(LOG_2, abs=1e-9)
        assert after.bet.share == pytest.approx(before.bet.share / 2, abs=1e-15)


def test_row_frequencies_share_a_tenth_of_delta_among_classes_and_sides(problem, evidence):
    """At both ends of an interval n kl(N/n, end) = log(2 C / (0.1 delta)) + log(n)/2 + log 2."""
    valid = problem.model.valid
    classes = shared_of(problem, evidence).classes
    row_of = np.asarray(valid.row_of)
    pairs = [np.unique(row_of[s, a], return_counts=True) for s, a in np.ndindex(row_of.shape[:2])]
    listed = {(int(r), int(m)) for rows, times in pairs for r, m in zip(rows, times) if r < len(valid.rows)}
    assert set(zip(classes.row.tolist(), classes.times.tolist())) == listed
    visits, C = evidence.visits, len(listed)
    for c in range(C):
        at = [(row_of[s, a] == classes.row[c]).sum() == classes.times[c] for s, a in np.ndindex(visits.shape)]
        n = visits.ravel()[at].sum()
        N = (evidence.counts * (row_of == classes.row[c])).reshape(visits.size, -1).sum(-1)[at].sum()
        share, level = N / n, math.log(2 * C / (0.1 * DELTA)) + math.log(n) / 2 + LOG_2
        for end in (classes.low[c], classes.high[c]):
            if 0 < end < 1:
                kl = share * math.log(share / end) if share else 0.0
                kl += (1 - share) * math.log((1 - share) / (1 - end)) if share < 1 else 0.0
                assert n * kl == pytest.approx(level, rel=1e-6)
    with scope():
        low = sets.zeta_low(valid, evidence, DELTA)
        wanted = frequencies.least_multiple(classes, *(shared_of(problem, evidence).rows[i] for i in (1, 0)))
    assert low == wanted


def test_half_spaces_share_their_delta_among_all_directions(problem, evidence):
    """Before the first block every level is log(K / delta), K counting both signs."""
    valid = problem.model.valid
    shared = shared_of(problem, evidence, weights=(1e-30, 0.5))  # so that the later e-process is used
    assert shared.bet.start > 0
    zeta = np.full((problem.num_states, problem.num_actions), 0.02)
    alike = frequencies.kinds_of(valid, zeta)
    bet, z = shared.bet, shared.rows.z
    share = 0.1 * DELTA * 0.5
    v = half_spaces.directions(z, bet.p[0], bet.before, alike.rows.size, share)
    np.testing.assert_array_equal(v, np.concatenate([v[: len(v) // 2], -v[: len(v) // 2]]))
    none = half_spaces.Blocks(bet.y, bet.p, bet.rows * 0, alike.total(bet.visits) * 0)
    empty = half_spaces.half_spaces(alike, none, z, v, np.zeros(z.shape[1]), share, anywhere=False)
    np.testing.assert_allclose(empty.level, math.log(len(v) / share), atol=1e-12)

    blocks = none._replace(rows=bet.rows, visits=alike.total(bet.visits))
    y0 = np.asarray(valid.basis).T @ (np.asarray(bet.fit.theta) - np.asarray(valid.center))
    wanted = half_spaces.half_spaces(alike, blocks, z, v, y0, share, anywhere=False)
    with scope():
        found = sets.confidence_sets(shared, zeta, anywhere=False).bet.spaces
    np.testing.assert_allclose(found.normal, wanted.normal, atol=1e-9)
    np.testing.assert_allclose(found.level, wanted.level, atol=1e-9)
    halved = half_spaces.half_spaces(alike, blocks, z, v, y0, share / 2, anywhere=False)
    np.testing.assert_allclose(halved.level - wanted.level, LOG_2, atol=1e-9)


def test_what_a_misspecification_costs_is_added_to_the_log_threshold(problem, evidence):
    """Without radii W' = W. With them W' is the smaller of W + sum log(1 + zeta span) and the roots, as written."""
    shared = shared_of(problem, evidence)
    bet, z = shared.bet, shared.rows.z
    p = np.asarray(bet.fit.p)
    a, b, F = np.full(len(p), 0.2), np.full(len(p), 0.3), np.eye(z.shape[1]) * 50
    for zeta in (0.0, 0.01):
        alike = frequencies.kinds_of(problem.model.valid, np.full(evidence.visits.shape, zeta))
        blocks = half_spaces.Blocks(bet.y, bet.p, bet.rows, alike.total(bet.visits))
        by_logs, E = 0.0, 0.0
        for q, visits in zip(blocks.p, blocks.visits, strict=True):
            for rows, n in zip(alike.rows, visits, strict=True):
                r = rows[rows < alike.num_rows]
                least, most, off = p[r] * 0.8, p[r] * 1.3, q[r] - p[r]
                by_logs += n * math.log1p(zeta * ((q[r] / least).max() - (q[r] / most).min()))
                high, low = np.maximum(off / least, off / most), np.minimum(off / least, off / most)
                E += n * zeta * (high.max() - low.min())
        for W in (1.0, 1.0 + LOG_2, 1000.0):
            found = penalty.penalised(alike, blocks, z, p, a, b, F, W)
            if zeta == 0:
                assert found == W
                continue
            is_slot = alike.is_slot
            weight = zeta * blocks.visits.sum(0)
            shrunk = np.append(a, 0.0)[alike.rows]
            G2 = penalty._first_order(alike.rows, is_slot, weight, z, p, shrunk, F)
            by_roots = (math.sqrt(G2) / 2 + math.sqrt(G2 / 4 + W + E + penalty.BOX_SHARE)) ** 2
            assert found == pytest.approx(min(W + by_logs, by_roots), rel=1e-9)


def test_weights_of_the_smallest_ellipsoid_sum_to_one():
    """Where every bound is attained at once, and the ball too, the quadratic form is exactly 1."""
    rng = np.random.default_rng(0)
    white = rng.normal(size=(6, 3))
    u = rng.normal(size=3)
    M = sets.smallest_ellipsoid(white, np.abs(white @ u), has_ball=False)
    assert u @ M @ u == pytest.approx(1, abs=1e-9)
    u /= np.linalg.norm(u)
    M = sets.smallest_ellipsoid(white, np.abs(white @ u), has_ball=True)
    assert u @ M @ u == pytest.approx(1, abs=1e-9)


def known_problem(horizon):
    """One kernel, so theta is known: from state 0 to the absorbing state 1 with probability 0.3."""
    return hf.Mixture.from_kernels([[[[0.7, 0.3]], [[0.0, 1.0]]]], horizon=horizon, weights=[1.0])


def within(problem, declared):
    evidence = small.pick(small.gather_outside(problem, [problem.kernel().dense()], 3, [0]), 0)
    return problem.model.robust_confidence(evidence, DELTA)(declared)


@pytest.mark.parametrize("horizon", [1, 2, 5])
def test_a_misspecified_certificate_counts_the_h_minus_1_transitions_that_touch_rewards(horizon):
    """Laws that lead anywhere: two coupled episodes, 2 (1 - (1 - zeta)^(H-1)). Divergence z: sqrt(2 (H-1) z)."""
    problem = known_problem(horizon)
    coupled = 2 * (1 - 0.98 ** (horizon - 1))
    found = within(problem, hf.Misspecification(tv=0.02, support="anywhere"))
    assert float(found.floor) == pytest.approx(coupled, abs=1e-12)
    assert float(found.eps) == pytest.approx(coupled, abs=1e-12)

    by_pinsker = math.sqrt(2 * (horizon - 1) * 1e-6)
    found = within(problem, hf.Misspecification(kl=1e-6, support="anywhere"))
    radius = math.sqrt(1e-6 / 2)
    wanted = min(by_pinsker, 2 * (1 - (1 - radius) ** (horizon - 1)))
    assert float(found.floor) == pytest.approx(wanted, abs=1e-9)
    assert float(found.eps) == pytest.approx(wanted, abs=1e-9)


def test_many_steps_within_a_divergence_cost_the_root_of_their_number():
    found = within(known_problem(50), hf.Misspecification(kl=1e-6, support="anywhere"))
    assert float(found.floor) == pytest.approx(math.sqrt(2 * 49 * 1e-6), abs=1e-9)


@pytest.mark.parametrize("horizon", [2, 5])
def test_values_of_one_policy_are_off_by_h_minus_1_worst_laws(horizon):
    """The probability of state 1 at the last step, with 0.3 - 0.02 or 0.3 + 0.02 in place of 0.3 at every step."""
    problem = known_problem(horizon)
    evidence = small.pick(small.gather_outside(problem, [problem.kernel().dense()], 3, [0]), 0)
    found = problem.model.robust_confidence(evidence, DELTA)(hf.Misspecification(tv=0.02))
    reward = np.zeros((horizon, 2, 1))
    reward[-1, 1] = 1.0
    bounds = found.bounds(reward, np.zeros((horizon, 2), np.int32))
    low, high = (1 - (0.7 - x) ** (horizon - 1) for x in (-0.02, 0.02))
    assert float(bounds.low) == pytest.approx(low, abs=1e-9)
    assert float(bounds.high) == pytest.approx(high, abs=1e-9)
