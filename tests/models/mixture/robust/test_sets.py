"""Where theta_star lies, for laws within their radii: each theorem by itself; all together in test_adversaries."""

import dataclasses
import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

import horizonfree as hf
from horizonfree._x64 import scope
from horizonfree.models.mixture.evidence import STARTS
from horizonfree.models.mixture.robust import frequencies, half_spaces, penalty, sets
from tests.reference import robust as ref
from tests.reference import small

DELTA = 0.5


def sets_of(problem, evidence, zeta, delta=DELTA, **given):
    radii = np.full((problem.num_states, problem.num_actions), zeta)
    with scope():
        shared = sets.shared_data(problem.model.valid, evidence, evidence.record, delta)
        return sets.confidence_sets(shared, radii, **{"anywhere": False} | given)


def test_a_record_counts_every_transition_in_its_block(problem, evidence):
    """Blocks begin after 0, 1, 2, 3, 4, 5, 6, 7, 8, 10, ... episodes; their counts add up to those of all episodes."""
    record = evidence.record
    assert STARTS[:12].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15]
    length = np.diff(np.append(STARTS[STARTS < 200], 200)) * problem.horizon
    assert (record.visits.sum((1, 2))[: len(length)] == length).all()
    assert (record.rows.sum(1)[: len(length)] == length).all()
    assert (record.visits.sum(0) == evidence.visits).all()
    assert (record.rows.sum(0) == evidence.row_counts).all()


def test_an_evidence_has_the_same_bits_with_and_without_a_record(problem, evidence):
    P = problem.kernel().dense()
    bare = small.pick(small.gather_outside(problem, [P], 200, [0], is_recorded=False), 0)
    assert bare.record is None
    for name, x in vars(bare).items():
        assert name == "record" or np.array_equal(x, getattr(evidence, name)), name


def test_the_factors_of_both_bets_have_mean_one_at_most_and_the_first_attains_it():
    """At the law that moves zeta from the smallest to the largest value, for random coins, bets and radii."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        p, q = rng.dirichlet(np.ones(4), size=2)
        zeta = rng.uniform(0, 0.2)
        rho = q / p
        mean, _ = ref.worst_mean(p, rho, zeta)
        normaliser = 1 + zeta * np.ptp(rho)
        assert mean / normaliser <= 1 + 1e-12
        if p[rho.argmin()] >= zeta:
            assert mean / normaliser == pytest.approx(1, abs=1e-12)


def test_no_law_within_its_radius_beats_the_normaliser_of_a_half_space(problem, evidence):
    """E_Q e^g <= u(y_star), for the worst law of every kind of pair, by total variation and by divergence.

    The first is linear in y, the second concave and within a tenth of the largest mean.
    """
    valid = problem.model.valid
    rng = np.random.default_rng(1)
    radii = np.full((problem.num_states, problem.num_actions), 0.05)
    alike = frequencies.kinds_of(valid, radii)
    z, center = valid.rows @ valid.basis * valid.free[:, None], valid.rows @ valid.center
    v, step = rng.normal(size=(3, valid.num_free)), 1e-2 * rng.normal(size=valid.num_free)
    theta = small.inside(valid, rng, 2)
    y, y_star = (theta - valid.center) @ valid.basis
    p, p_star = center + z @ y, center + z @ y_star
    g = np.clip(v @ z.T / np.where(p > 0, p, 1), -1, 1)
    part, how = np.arange(len(alike.zeta)), {"anywhere": False}
    found = half_spaces.normaliser(alike, part, g, z, p_star, by_kl=False, **how)
    sharp = half_spaces.normaliser(alike, part, g, z, p_star, by_kl=True, **how)
    moved = half_spaces.normaliser(alike, part, g, z, p_star + z @ step, by_kl=True, **how)
    for k, x in np.ndindex(found.log.shape):
        at = alike.rows[x][alike.is_slot[x]]
        f = np.exp(g[k, at])
        mean, _ = ref.worst_mean(p_star[at], f, 0.05)
        assert mean <= np.exp(found.log[k, x]) + 1e-12
        B = (z[at] * f[:, None]).sum(0)
        assert np.allclose(found.slope[k, x], B / np.exp(found.log[k, x]), rtol=1e-9)
        mean, _ = ref.worst_mean_by_divergence(p_star[at], f, 2 * 0.05**2)
        above = np.exp(sharp.log[k, x]) - p_star[at] @ f
        assert mean - p_star[at] @ f <= above + 1e-12 <= 1.1 * (mean - p_star[at] @ f) + 1e-9
        assert sharp.log[k, x] <= found.log[k, x] + 1e-12
        tangent = sharp.log[k, x] + sharp.slope[k, x] @ step
        mean, _ = ref.worst_mean_by_divergence(p_star[at] + z[at] @ step, f, 2 * 0.05**2)
        assert np.log(mean) <= tangent + 1e-12
        assert moved.log[k, x] == pytest.approx(tangent, abs=1e-4)


def test_the_penalty_covers_every_parameter_within_its_bounds_of_rows(problem, evidence):
    """With W the least that keeps theta in its set, W' must be at least its sum N psi: both forms of Lemma R4."""
    valid = problem.model.valid
    found = sets_of(problem, evidence, 0.02)
    bet, alike = found.bet, frequencies.kinds_of(valid, np.full((4, 2), 0.02))
    z = valid.rows @ valid.basis * valid.free[:, None]
    p = np.asarray(found.ball.p)
    rng, near = np.random.default_rng(2), 0
    for theta in small.inside(valid, rng, 60, spread=0.5):
        p_theta = valid.rows @ theta
        x = np.where(valid.free, p_theta / p - 1, 0.0)
        below, above = np.maximum(-x, 0) + 0.01, np.maximum(x, 0) + 0.01
        T = (bet.counts * ref.psi(x)).sum()
        paid = sum(
            n * np.log1p(0.02 * np.ptp(bet.blocks.p[t][rows] / p_theta[rows]))
            for t in range(len(bet.blocks.p))
            for n, rows in zip(bet.blocks.visits[t], alike.rows)
        )
        k = ref.psi(above) / above**2
        F = (z * (bet.counts * k / p**2)[:, None]).T @ z + 1e-6 * np.eye(z.shape[1])
        slack = penalty.penalised(alike, bet.blocks, z, p, below, above, F, T - paid)
        assert slack >= T - 1e-6
        near += slack < 3 * T
    assert near > 5  # and not by being huge


def test_cuts_and_ellipsoids_hold_what_they_should():
    rng = np.random.default_rng(3)
    white, normal = rng.normal(size=(7, 3)), rng.normal(size=(5, 3))
    level = rng.uniform(-0.2, 1.0, size=5)
    most = sets.reach(white, normal, level)
    u = rng.normal(size=(200_000, 3))
    u /= np.linalg.norm(u, axis=1, keepdims=True) / rng.uniform(size=(len(u), 1)) ** (1 / 3)
    u = u[(u @ normal.T <= level).all(1)]
    assert len(u) > 100
    assert (u @ white.T <= most + 1e-12).all()
    width = rng.uniform(0.2, 1.0, size=7)
    M = sets.smallest_ellipsoid(white, width, has_ball=True)
    u = u[(np.abs(u @ white.T) <= width).all(1)]
    assert len(u) > 100
    assert (np.einsum("ki,ij,kj->k", u, M, u) <= 1 + 1e-12).all()
    assert np.isnan(sets.reach(white, np.eye(3), np.full(3, -1.5))).all()  # nothing is left


def test_one_half_space_and_a_ball_have_the_exact_reach():
    """Against a fine grid of the unit circle."""
    angle = np.linspace(0, 2 * np.pi, 200_001)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    for c in (-0.5, 0.0, 0.7):
        normal = np.array([[0.6, 0.8]])
        allowed = circle[circle @ normal[0] <= c]
        for w in (np.array([1.0, 0.3]), np.array([-0.2, 0.9])):
            exact = sets.reach(w[None], normal, np.array([c]))[0]
            assert exact == pytest.approx((allowed @ w).max(), abs=1e-4)


def test_frequencies_are_intervals_of_the_divergence_of_coins(problem, evidence):
    valid = problem.model.valid
    alike = frequencies.kinds_of(valid, np.full((4, 2), 0.03))
    found = frequencies.frequencies(alike, valid.row_of, evidence.counts, evidence.visits, 0.1)
    C = len(found.row)
    for c in range(0, C, 5):
        of = [
            (s, a)
            for s in range(4)
            for a in range(2)
            if (valid.row_of[s, a] == found.row[c]).sum() == found.times[c]
        ]
        n = sum(evidence.visits[s, a] for s, a in of)
        N = sum(evidence.counts[s, a][valid.row_of[s, a] == found.row[c]].sum() for s, a in of)
        for pi in (found.low[c], found.high[c]):
            kl = N / n * np.log(N / n / pi) + (1 - N / n) * np.log((1 - N / n) / (1 - pi))
            assert n * kl == pytest.approx(np.log(2 * C / 0.1) + np.log(n) / 2 + np.log(2), rel=1e-6)
    low, high = found.row_bounds(len(valid.rows))
    assert (low[found.row] <= (found.low - 0.03) / found.times + 1e-12).any()
    assert (high <= 1).all()


@pytest.fixture(scope="module")
def misfit(problem):
    """Evidence of a system that is not in the class."""
    Q = ref.tilt(problem.kernel().dense(), 0.2)
    return small.pick(small.gather_outside(problem, [Q], 1000, [1]), 0)


def test_the_least_multiple_is_where_a_programme_of_its_own_becomes_feasible(problem, misfit):
    """Against feasibility of R2's polytope at fixed radii, just below and just above."""
    valid, evidence = problem.model.valid, misfit
    alike = frequencies.kinds_of(valid, np.ones((4, 2)))
    found = frequencies.frequencies(alike, valid.row_of, evidence.counts, evidence.visits, 0.05)
    z, p = valid.rows @ valid.basis * valid.free[:, None], valid.rows @ valid.center
    least = frequencies.least_multiple(found, p, z)
    assert 0 < least <= 0.2

    def is_feasible(zeta):
        low, high = found._replace(zeta=np.full(len(found.row), zeta)).row_bounds(len(p))
        A = np.concatenate([z, -z])
        b = np.concatenate([np.where(valid.free, high - p, 1), np.where(valid.free, p - low, 1)])
        return linprog(np.zeros(z.shape[1]), A_ub=A, b_ub=b, bounds=(None, None)).status == 0

    assert is_feasible(least + 1e-5)
    assert not is_feasible(least - 1e-4)


def arrays(x):
    """The numbers of nested dataclasses."""
    if not dataclasses.is_dataclass(x):
        return [x]
    return [y for field in dataclasses.fields(x) for y in arrays(getattr(x, field.name))]


def test_jumps_count_as_visits_where_laws_may_lead_anywhere(problem, evidence):
    """A transition that the class does not list is seen by the record, and by no row."""
    record = evidence.record
    jumped = replace(record, visits=record.visits + 1)
    with_jumps = replace(evidence, record=jumped)
    found = sets_of(problem, with_jumps, 0.02, anywhere=True)
    assert not found.is_empty
    assert found.slack > sets_of(problem, evidence, 0.02, anywhere=True).slack


def test_what_radii_share_is_what_each_would_find_alone(problem, evidence):
    """Asked for one after another, of one shape and of others, they get the same bits."""
    shape = np.linspace(0.2, 1, 8).reshape(4, 2)
    asked = [
        hf.Misspecification(**given)
        for given in (
            {"tv": 0.02},
            {"tv": 0.02 * shape},
            {"tv": 0.0},
            {"tv": 0.05 * shape},
            {"sampled": 1e-3},
        )
    ]
    asked.append(hf.Misspecification(tv=0.02, support="anywhere"))
    shared = problem.model.robust_confidence(evidence, DELTA)
    for declared in asked:
        alone = problem.model.robust_confidence(evidence, DELTA)(declared)
        for mine, other in zip(arrays(shared(declared)), arrays(alone), strict=True):
            np.testing.assert_array_equal(mine, other)


def test_row_frequencies_do_not_depend_on_the_radii_but_for_the_radii(problem, misfit):
    """Those that radii share are what each would count, and so is the multiple that the data do not refute."""
    valid, evidence, visits = problem.model.valid, misfit, misfit.record.visits.sum(0)
    with scope():
        shared = sets.shared_data(valid, evidence, evidence.record, DELTA)
    for zeta in (np.full((4, 2), 0.03), np.linspace(0.01, 0.05, 8).reshape(4, 2), np.zeros((4, 2))):
        alike = frequencies.kinds_of(valid, zeta)
        own = frequencies.frequencies(alike, valid.row_of, evidence.counts, visits, sets.ROWS * DELTA)
        found = shared.classes.within(alike)
        for mine, other in zip(found, own, strict=True):
            np.testing.assert_array_equal(mine, other)
        least = frequencies.least_multiple(own, shared.rows.p_center, shared.rows.z)
        assert 0 < least == pytest.approx(shared.least(found.shape.tobytes()), rel=1e-9)


def test_a_run_that_was_asked_can_be_sent_elsewhere(problem, evidence):
    run = hf.Run(problem, None, 0, evidence, None, {}, is_simulated=False)
    found = run.robustness(0.4)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(run)).robustness(0.4).gaps, found.gaps)
