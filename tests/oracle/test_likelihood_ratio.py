"""What a plan loses by the likelihood ratio of trajectories: against its definition, its recursion and adversaries."""

from itertools import product

import equinox as eqx
import numpy as np
import pytest

import horizonfree as hf
from horizonfree import oracle
from horizonfree._x64 import to_device
from horizonfree.oracle import likelihood_ratio
from horizonfree.oracle.likelihood_ratio import (
    ball_vertices,
    extremes,
    grid,
    likelihood_ratio_bound,
    programme,
)
from tests.reference import claim_adversary, claims
from tests.reference import likelihood_ratio as twin

prepare = eqx.filter_jit(oracle.prepare)


def drawn(rng, S=3, A=2, n=2, rank=1, size=0.3):
    """Successor lists, probabilities, and what one unit of each unknown direction adds to them."""
    succ = np.array([[np.sort(rng.choice(S, n, replace=False)) for _ in range(A)] for _ in range(S)])
    p = rng.dirichlet(np.ones(n), (S, A))
    tilts = size * 10 ** rng.uniform(-1, 0, (S, A, 1, 1)) * rng.normal(size=(S, A, n, rank))
    tilts -= tilts.mean(2, keepdims=True)
    return p, tilts, succ


def curve(p, tilts, succ, H):
    """log lam and j [S, L]."""
    log_lam = grid(p, tilts, 1.0, succ, H - 1)
    return log_lam, programme(p, extremes(p, tilts), succ, log_lam, H - 1)


def rows_of(stars):
    """[s][a]: the rows of every vertex."""
    V, S, A, _ = stars.shape
    return [[[stars[v, s, a] for v in range(V)] for a in range(A)] for s in range(S)]


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_the_polytope_is_around_the_ball_and_near_it(rank):
    vertices, rng = ball_vertices(rank), np.random.default_rng(0)
    assert vertices.shape[1] == rank
    directions = rng.normal(size=(2000, rank))
    directions /= np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-300)
    reach = (directions @ vertices.T).max(1)
    if rank:
        assert reach.min() >= 1 - 1e-12
        assert np.linalg.norm(vertices, axis=1).max() <= 1.08


@pytest.mark.parametrize("zero", [0.0, 1e-18])
@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_one_direction_keeps_the_whole_segment_beside_slots_of_probability_zero(columns, zero):
    """Rounding of a singular vector must not shorten the segment where p is zero or tiny."""
    rng = np.random.default_rng(columns)
    for _ in range(100):
        n = int(rng.integers(4, 12))
        is_open = np.arange(n) >= rng.integers(1, 3)
        rng.shuffle(is_open)
        p = is_open / is_open.sum() + zero * ~is_open
        along = np.where(is_open, rng.normal(size=n), 0.0)
        along[is_open] -= along[is_open].mean()
        along *= 0.9 / is_open.sum() / np.abs(along).max()
        along[~is_open] = -zero / 2
        weights = rng.normal(size=columns)
        tilts = np.outer(along, weights / np.linalg.norm(weights))
        stars = extremes(p[None, None], tilts[None, None])[:, 0, 0]
        for end in (p + along, p - along):
            assert np.abs(stars - end).max(1).min() <= 1e-8


def test_two_actions_that_move_apart_lose_no_more_than_the_bound():
    """Two slots of probability zero, one direction in three columns: N was 0 where 2 sum c^+ is lost."""
    n, direction = 7, np.array([0.6, -0.48, 0.64])
    p = np.array([0, 0, 0, 1, 1, 1, 1]) / 4
    c = np.array([0, 0, 0, 0.225, 0.0604, -0.0987, -0.1867])
    P, tilts = np.zeros((n, 2, n)), np.zeros((n, 2, n, 3))
    P[:] = np.eye(n)[0]
    P[0], tilts[0] = p, np.outer(c, direction)
    succ = np.broadcast_to(np.arange(n), P.shape)
    log_lam = grid(P, tilts, 1.0, succ, 1)
    j = programme(P, extremes(P, tilts), succ, log_lam, 1)
    assert (np.expm1(log_lam) + 2 * j[0]).min() >= 2 * c[c > 0].sum()


def test_without_an_ellipsoid_nothing_is_claimed_and_negative_rounding_is_zero():
    problem = hf.make("river-swim", states=4, horizon=6)
    d = problem.truth.shape[0]
    for inv, expected in [(np.full((d, d), np.nan), 1.0), (1e-6 * np.eye(d), None)]:
        prepared = prepare(*to_device((problem.model, problem.truth, inv, inv)))
        if expected is None:
            p = np.asarray(prepared.p)
            rounded = to_device(np.where(p == 0, -1e-17, p))
            changed = eqx.tree_at(lambda x: x.p, prepared, rounded)
            assert likelihood_ratio_bound(changed, 0.5) == likelihood_ratio_bound(prepared, 0.5) < 1
        else:
            assert likelihood_ratio_bound(prepared, 0.5) == expected


@pytest.mark.parametrize(("n", "rank"), [(2, 1), (3, 2), (4, 3)])
def test_it_is_the_programme_written_out(n, rank):
    p, tilts, succ = drawn(np.random.default_rng(rank), S=4, n=n, rank=rank)
    p[0, 0], p[1, 1] = np.eye(n)[0], np.full(n, 1 / n)
    tilts[2, 1] = 0.0
    log_lam, j = curve(p, tilts, succ, 4)
    stars = extremes(p, tilts)
    np.testing.assert_allclose(
        j, twin.by_interpolation(p, rows_of(stars), succ, np.exp(log_lam), 4), rtol=1e-9
    )


def test_it_is_just_above_its_recursion_without_a_grid():
    rng = np.random.default_rng(0)
    for _ in range(6):
        p, tilts, succ = drawn(rng)
        log_lam, j = curve(p, tilts, succ, 5)
        rows = rows_of(extremes(p, tilts))
        for i in (100, 180, 200, 220, 300):
            exact = twin.exactly(p, rows, succ, 0, float(np.exp(log_lam[i])), 4)
            assert exact * (1 - 1e-9) <= j[0, i] <= exact + 0.003


def with_memory(rng, p, tilts, succ):
    """An action, P and P_star on its successors for every history, drawn when it is first met."""
    met = {}

    def row(history):
        if history not in met:
            s, a, v = history[-1], rng.integers(p.shape[1]), rng.normal(size=tilts.shape[-1])
            step = tilts[s, a] @ (v / np.linalg.norm(v))
            room = min([1.0, *(-x / y for x, y in zip(p[s, a], step) if y < 0)])
            met[history] = p[s, a], p[s, a] + room * step, succ[s, a]
        return met[history]

    return row


def test_no_policy_no_kernel_and_no_function_of_the_trajectory_has_more():
    """Policies and kernels that depend on the history; the best function of the trajectory by Neyman and Pearson."""
    rng, H, best = np.random.default_rng(1), 4, 0.0
    for case in range(40):
        n, rank = [(2, 1), (3, 2)][case % 2]
        p, tilts, succ = drawn(rng, n=n, rank=rank, size=0.1)
        log_lam, j = curve(p, tilts, succ, H)
        for _ in range(10):
            P, P_star = twin.trajectories(with_memory(rng, p, tilts, succ), H)
            assert P_star.sum() == pytest.approx(1)
            attained = np.maximum(P_star - np.exp(log_lam)[:, None] * P, 0).sum(1)
            assert (attained <= j[0] + 1e-12).all()
            best = max(best, attained[200] / j[0, 200])
    assert best > 0.7


def test_an_adversary_with_memory_attains_it():
    rng = np.random.default_rng(2)
    for _ in range(30):
        H, size = int(rng.integers(2, 5)), 10 ** rng.uniform(-2, 0)
        p, tilts, succ = drawn(rng, size=size)
        log_lam, j = curve(p, tilts, succ, H)
        i = int(rng.choice([150, 200, 250]))
        lam = float(np.exp(log_lam[i]))
        P, P_star = np.array(twin.adversary(p, rows_of(extremes(p, tilts)), succ, 0, lam, H - 1)).T
        assert P.sum() == pytest.approx(1)
        assert P_star.sum() == pytest.approx(1)
        attained = np.maximum(P_star - lam * P, 0).sum()
        assert attained <= j[0, i] * (1 + 1e-9)
        assert i != 200 or attained >= 0.97 * j[0, i]


def test_transitions_that_the_estimate_excludes_are_allowed():
    """P never goes to state 1, P_star does with probability 0.2 in each of two steps: the ratio is infinite there."""
    p, succ = np.array([[[1.0, 0.0]], [[0.0, 1.0]]]), np.array([[[0, 1]], [[0, 1]]])
    tilts = np.zeros((2, 1, 2, 1))
    tilts[0, 0, :, 0] = -0.2, 0.2
    _, j = curve(p, tilts, succ, 3)
    assert j[0, 200] == pytest.approx(1 - 0.8**2, abs=1e-6)
    assert j[1, 200] == 0


def claimed(prepared):
    return likelihood_ratio_bound(prepared, 1.0)


def test_no_plan_loses_more_than_is_claimed(x64):
    """At the fork two actions are misjudged in opposite directions: there the claim is nearly attained."""
    to = np.eye(3)
    kernels = np.stack(
        [[[to[1], to[2]], [to[1]] * 2, [to[2]] * 2], [[to[2], to[1]], [to[1]] * 2, [to[2]] * 2]]
    )
    root = np.array([[20.0, -20.0], [1e4, 1e4]]).T
    fork = claims.Attack(kernels, 0.5, root, root)
    assert 0.98 < claims.ratio(fork, 2, claimed) <= 1 + 1e-9
    assert 0.98 < claims.ratio(fork, 3, claimed) <= 1 + 1e-9
    rng, ratios = np.random.default_rng(0), []
    while len(ratios) < 4:
        found = claims.ratio(claims.random_attack(rng), 3, claimed)
        ratios += [found] if found > 0 else []
    assert max(ratios) <= 1 + 1e-9


@pytest.mark.parametrize("size", [(2, 3, 2), (3, 4, 5), (4, 6, 8)])
def test_no_plan_of_a_larger_system_loses_more_than_is_claimed(size, x64):
    """Rewards by linear programmes, theta_star along the derivative of the loss; a few climbing moves."""
    d, S, H = size
    rng, ratios = np.random.default_rng(3), []
    for make in (claim_adversary.fork_system, claim_adversary.random_system):
        system = make(rng, d, S, 2, 3)
        for _ in range(8):
            ratios.append(claim_adversary.ratio(rng, system, H, claimed))
            system = claim_adversary.perturb(rng, system, 0.5)
    assert 0 < max(ratios) <= 1 + 1e-9


@pytest.mark.slow
def test_no_violation_in_three_hundred_systems(x64):
    """Hill-climbing over systems: of each move the one that loses more is kept."""
    rng, worst, ratios = np.random.default_rng(0), 0.0, 0
    while ratios < 300:
        d, S, H = [(2, 3, 2), (3, 4, 5), (4, 6, 8), (3, 5, 12)][rng.integers(4)]
        make = (claim_adversary.fork_system, claim_adversary.random_system)[rng.integers(2)]
        system, most = make(rng, d, S, 2, 3), 0.0
        for _ in range(12):
            other = claim_adversary.perturb(rng, system, rng.choice([0.1, 0.3, 1.0]))
            share = claim_adversary.ratio(rng, other, H, claimed)
            if share >= most:
                system, most = other, share
            ratios += 1
        worst = max(worst, most)
    assert 0 < worst <= 1 + 1e-9


@pytest.fixture(scope="module")
def known_sums():
    """A small mixture and an inverse covariance in which the sums of rows are known."""
    model = hf.make("random-mixture", states=4, actions=2, dim=3, horizon=6).model
    E = np.asarray(model.valid.affine)
    return model, E @ E.T + 1e-14 * np.eye(3)


def test_it_is_below_the_bound_by_total_variance(known_sums, x64):
    model, inv = known_sums
    for beta in (1e-3, 1e-2, 3e-2):
        prepared = prepare(*to_device((model, np.asarray(model.valid.center), inv, inv)))
        N, T = likelihood_ratio_bound(prepared, beta), oracle.variance.variance_bound(prepared, beta)
        assert 0 < N < 0.95 * 4 * T


def test_it_grows_with_the_radius_and_the_horizon(known_sums, x64):
    model, inv = known_sums
    found = []
    for beta, horizon in product((0.0, 1e-3, 1e-2), (1, 2, 6)):
        problem = hf.make("random-mixture", states=4, actions=2, dim=3, horizon=horizon)
        prepared = prepare(*to_device((problem.model, np.asarray(model.valid.center), inv, inv)))
        found.append(likelihood_ratio_bound(prepared, beta))
    found = np.reshape(found, (3, 3))
    assert (found[0] < 1e-12).all()
    assert (found[:, 0] < 1e-12).all()
    assert (np.diff(found[1:], axis=1) > 0).all()
    assert (np.diff(found[:, 1:], axis=0) > 0).all()


def test_a_drawn_start_is_a_mean(x64):
    """The mean of j over the starts, in the programme written out."""
    kernels, start = np.random.default_rng(0).dirichlet(np.ones(4), (2, 4, 2)), np.array([0.5, 0.3, 0.2, 0.0])
    problem = hf.Mixture.from_kernels(kernels, horizon=3, weights=[0.5, 0.5], start=start)
    root = np.array([[20.0, -20.0], [1e4, 1e4]]).T
    inv = np.linalg.inv(root @ root.T)
    prepared = prepare(*to_device((problem.model, problem.truth, inv, inv)))
    p, succ = (np.asarray(x).transpose(2, 1, 0) for x in (prepared.p, prepared.succ))
    tilts = 2 * np.asarray(prepared.F_tilde).transpose(3, 2, 1, 0)
    log_lam = grid(p, tilts, 1.0, succ, 2)
    j = twin.by_interpolation(p, rows_of(extremes(p, tilts)), succ, np.exp(log_lam), 3)
    assert likelihood_ratio_bound(prepared, 1.0) == pytest.approx((np.expm1(log_lam) + 2 * start @ j).min())


def test_what_is_too_large_is_not_bounded(known_sums, monkeypatch, x64):
    problem = hf.make("random-mixture", states=8, actions=2, dim=6, successors=8, horizon=6)
    E = np.asarray(problem.model.valid.affine)
    inv = 1e-6 * E @ E.T + 1e-14 * np.eye(6)
    prepared = prepare(*to_device((problem.model, np.asarray(problem.model.valid.center), inv, inv)))
    assert likelihood_ratio_bound(prepared, 1.0) == 1  # five unknown directions
    model, inv = known_sums
    prepared = prepare(*to_device((model, np.asarray(model.valid.center), inv, inv)))
    assert likelihood_ratio_bound(prepared, 1e-2) < 1
    monkeypatch.setattr(likelihood_ratio, "MAX_WORK", 1.0)
    assert likelihood_ratio_bound(prepared, 1e-2) == 1
