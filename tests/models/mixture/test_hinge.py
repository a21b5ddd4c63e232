"""The hinge: its lemma, its dynamic programme against all histories, and what the certificate makes of it."""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horizonfree.models.mixture.direct import RELATIVE_TOLERANCE, _matters
from horizonfree.models.mixture.hinge import Hinge, by_divergence, gaps, hinge
from horizonfree.models.mixture.hinge import _compiled as compiled_programme
from horizonfree.native import library
from tests.models.mixture.test_direct import PROBLEMS, Case, by_kappa, make
from tests.reference import certificates as ref
from tests.reference import hinge as literal
from tests.reference import small

SEEDS = st.integers(0, 10**6)


def laws(rng, count, n):
    """Of n outcomes each: P~, which leaves some out, P_theta, and t = log(P_theta / P~), 0 where P~ is."""
    P, Q = (rng.dirichlet(np.full(n, rng.choice([0.5, 1.0, 5.0])), size=count) for _ in range(2))
    share = rng.uniform(size=(count, 1)) ** 3
    Q = (1 - share) * P + share * Q
    P = np.where(rng.uniform(size=P.shape) < 0.2, 0.0, P)
    P[:, 0] += 1 - P.sum(1)
    return P, Q, np.where(P > 0, np.log(Q / np.where(P > 0, P, Q)), 0.0)


@settings(deadline=None, max_examples=50)
@given(SEEDS, st.integers(2, 5))
def test_the_hinge_lemma(seed, n):
    """No two laws, rewards and b: the gain of the best on the plan is at most the bound, for the smallest rho."""
    rng, count = np.random.default_rng(seed), 200
    y, J, V, w = np.linspace(-1.5, 1.0, 26), 0.0, [], []
    for sign in (1, -1):  # the best policy and the plan
        P, Q, t = laws(rng, count, n)
        J = J + (P[..., None] * np.maximum(y - t[..., None], 0.0)).sum(1) / 2
        worst = np.where(P > 0, sign * (t - rng.normal(size=(count, 1)) / 10) > 0, sign > 0)
        total = np.where(rng.uniform(size=(count, 1)) < 0.7, worst, rng.uniform(size=P.shape))
        V.append((P * total).sum(1))
        w.append((Q * total).sum(1))
    rho = np.maximum(V[0] - V[1], 0.0)
    for i in np.flatnonzero(rho < 1 - 1e-9):
        assert (gaps(y, J[i], rho[i] / 2) - (w[0] - w[1])[i]).min() >= -1e-12


@pytest.mark.parametrize("a", [-0.01, -0.1, -1.0])
def test_the_hinge_lemma_is_tight_for_two_symmetric_coins(a):
    """Half of the mass becomes e^a times as likely. The best policy bets on the rest, the plan on that half."""
    y = np.linspace(a, 0.0, 5)
    J = 0.5 * np.maximum(y - a, 0.0)
    gain = (1 - np.exp(a) / 2) - np.exp(a) / 2
    np.testing.assert_allclose(gaps(y, J, 0.0), gain, rtol=0, atol=1e-15)


@pytest.mark.parametrize("kappa", [1e-4, 0.01, 0.3, 2.0])
def test_the_divergence_bounds_the_hinge_and_two_points_nearly_attain_it(kappa):
    y = np.array([-1.5, -0.5, 0.0, 0.5]) * np.sqrt(2 * kappa) - kappa
    for b, bound in zip(y, by_divergence(y, kappa)):
        found = literal.largest_by_two_points(b, kappa, np.random.default_rng(0))
        assert 0.97 * bound <= found <= bound


@settings(deadline=None, max_examples=50)
@given(SEEDS)
def test_the_divergence_bounds_the_hinge_of_every_law(seed):
    P, _, t = laws(np.random.default_rng(seed), 200, 4)
    y = np.linspace(-2.0, 2.0, 41)
    J = (P[..., None] * np.maximum(y - t[..., None], 0.0)).sum(1)
    for i, kappa in enumerate(-(P * t).sum(1)):
        assert (by_divergence(y, max(kappa, 0.0)) - J[i]).min() >= -1e-12


def random_hinge(rng, points=161, S=3, A=2, n=2, R=5, q=2):
    """A tiny comparison of 4 steps with everything that can occur: padding, bad pairs, mass left out, drawn starts."""
    succ = np.stack([rng.choice(S, n, replace=False) for _ in range(S * A)]).reshape(S, A, n)
    prob = rng.dirichlet(np.ones(n), size=(S, A))
    row_of = rng.integers(0, R + 1, size=(S, A, n))
    prob[row_of == R] *= rng.integers(0, 2)
    prob /= np.maximum(prob.sum(-1, keepdims=True), 1e-300)
    return Hinge(
        succ=succ.astype(np.int32),
        prob=prob,
        row_of=row_of.astype(np.int32),
        charge=rng.choice([0.0, 0.02], size=(S, A)),
        stop=rng.uniform(size=(S, A)) < 0.15,
        occupied=np.ones((4, S), bool),
        initial=rng.dirichlet(np.ones(S)),
        Z=rng.normal(size=(R, q)) * rng.choice([0.02, 0.3]),
        y=np.linspace(-1.0, 1.0, points) * rng.choice([0.5, 3.0]),
    )


def exact(made, u, b):
    """J(b; u) over all histories."""
    S, A, _ = made.succ.shape
    P, log_ratio = np.zeros((S, A, S)), np.zeros((S, A, S))
    logs = np.append(np.log1p(made.Z @ u), 0.0)
    for s, a in product(range(S), range(A)):
        P[s, a, made.succ[s, a]] = made.prob[s, a]
        log_ratio[s, a, made.succ[s, a]] = logs[made.row_of[s, a]] - made.charge[s, a]
    return literal.largest_hinge(P, log_ratio, made.stop, len(made.occupied), made.initial, b)


@settings(deadline=None, max_examples=60)
@given(SEEDS)
def test_the_programme_is_just_above_the_largest_mean_over_all_histories(seed):
    rng = np.random.default_rng(seed)
    made = random_hinge(rng)
    u = rng.uniform(-0.6, 0.6, size=2)
    curve, g = made.curves(u[None])[0], made.y[1] - made.y[0]
    middle = np.arange(40, 121, 16)  # beyond, the ends of the grid matter
    error = np.array([curve[i] - exact(made, u, made.y[i]) for i in middle])
    is_inside = np.abs(np.log1p(made.Z @ u)).max() * 3 + 0.06 < made.y[-1] / 2
    assert error.min() >= -1e-12
    if is_inside:
        assert error.max() <= 3 * g / 4  # a chord of slopes 0 to 1 is at most g/4 too high, three times


def test_the_programme_is_exact_to_a_thousandth_on_a_fine_grid():
    rng = np.random.default_rng(0)
    for _ in range(10):
        made = random_hinge(rng, points=2001)
        u = rng.uniform(-0.4, 0.4, size=2)
        curve = made.curves(u[None])[0]
        for i in (900, 1000, 1200):
            assert -1e-12 <= curve[i] - exact(made, u, made.y[i]) <= 1e-3


@settings(deadline=None, max_examples=40)
@given(SEEDS)
def test_the_hinge_is_convex_in_the_parameter(seed):
    """The reason why vertices suffice. Of J itself: chords on a grid bend it by as much as they add."""
    rng = np.random.default_rng(seed)
    made = random_hinge(rng)
    u, v = rng.uniform(-0.6, 0.6, size=(2, 2))
    for b in rng.uniform(-0.5, 0.5, size=2):
        J = np.array([exact(made, u + share * (v - u), b) for share in np.linspace(0, 1, 7)])
        assert (J[1:-1] <= (J[2:] + J[:-2]) / 2 + 1e-12).all()


@settings(deadline=None, max_examples=60)
@given(SEEDS)
def test_the_programme_is_convex_in_b_with_slopes_from_0_to_1(seed):
    """The reason why chords and the two ends of the grid are bounds."""
    rng = np.random.default_rng(seed)
    made = random_hinge(rng)
    slopes = np.diff(made.curves(rng.uniform(-0.6, 0.6, size=(3, 2))), axis=1) / np.diff(made.y)
    assert slopes.min() >= -1e-9
    assert slopes.max() <= 1 + 1e-9
    assert np.diff(slopes, axis=1).min() >= -1e-9


def test_the_hinge_is_infinite_where_a_row_has_no_probability():
    made = random_hinge(np.random.default_rng(3))
    r = int(np.abs(made.Z).sum(1).argmax())
    v = -made.Z[r] / (made.Z[r] @ made.Z[r])  # x_r = -1
    J = made.curves(np.stack([0 * v, v, 1.5 * v]))
    assert np.isfinite(J[0]).all()
    assert np.isinf(J[1:]).all()


def built(case):
    """The programme of a case without bad pairs, and these."""
    stop = np.zeros(case.confidence.step.cost.shape, bool)
    matters = np.asarray(_matters(case.space, case.valid, case.confidence.is_out, stop))
    ball, step = case.confidence.ball, case.confidence.step
    return hinge(case.space, case.valid, ball, step, stop, matters, case.direct().kappa), stop


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_the_programme_of_a_problem_agrees_with_all_its_histories(name):
    case = make(name, 400)
    made, stop = built(case)
    made = replace(made, y=made.y[-1] * np.linspace(-1, 1, 1281))
    ball, free = case.confidence.ball, case.valid.free
    P, start = case.kept, case.problem.start if case.space.initial is None else case.space.initial
    for theta in case.edges(0.9 * case.ways(3, seed=1)):
        change = case.valid.rows[free] @ theta - ball.p[free]
        u = np.linalg.lstsq(np.asarray(ball.z)[free], change, rcond=None)[0]
        Q = case.model.kernel(theta).dense()
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ratio = np.where(P > 0, np.log(Q / P), 0.0)
        curve = made.curves(u[None])[0]
        for i in (560, 624, 720):
            wanted = literal.largest_hinge(P, log_ratio, stop, case.space.horizon, start, made.y[i])
            assert -1e-9 <= curve[i] - wanted <= 1e-3


def test_kappa_bounds_the_hinge_only_where_nothing_was_left_out():
    """Outside Theta a row left out may be negative: then those kept have more than 1 in all."""
    whole, part = (built(make(name, 400))[0] for name in ("dense", "corner"))
    assert part.charge.max() > 0
    assert np.isinf(part.at_most(0.1)).all()
    np.testing.assert_array_equal(whole.at_most(0.1), by_divergence(whole.y, 0.1))


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_the_hinge_gains_on_the_divergence_and_parameters_of_U_attain_it(name):
    case = make(name, 400)
    found = case.direct()
    assert found.eps == min(found.hinge, by_kappa(found))
    assert found.hinge < 0.95 * by_kappa(found)
    assert found.hinge_attained <= found.hinge <= found.hinge_attained * (1 + RELATIVE_TOLERANCE)
    made, _ = built(case)
    made = replace(made, y=made.y[-1] * np.linspace(-1, 1, 1281))  # nearly J itself: only J is convex in u
    sampled = []
    for theta in case.edges(case.ways(100 if case.valid.num_free > 1 else 2)):
        change = (case.valid.rows @ theta - case.confidence.ball.p)[case.valid.free]
        u = np.linalg.lstsq(np.asarray(case.confidence.ball.z)[case.valid.free], change, rcond=None)[0]
        sampled.append(gaps(made.y, made.curves(u[None])[0], found.hit).min())
    assert 0.7 * found.hinge <= max(sampled) <= found.hinge + 1e-9


@pytest.mark.parametrize("name", ["dense", "three"])
def test_the_hinge_is_a_bound_however_few_programmes_there_are(name):
    case = make(name, 400)
    found = [case.direct(hinges=n) for n in (0, 16, 48, 1000)]
    final = found[-1]
    assert all(x.hinge >= final.hinge_attained for x in found)
    assert found[0].hinges == 0
    assert found[0].hinge <= 1.02 * by_kappa(found[0])  # of kappa alone: about the gap lemma
    assert all(x.hinge >= y.hinge - 1e-12 for x, y in pairwise(found))


def test_no_plan_and_no_rival_beat_the_hinge_for_any_end_of_U():
    """q = 1: all pairs of policies, and the reward for which the one is planned and the other is better by most."""
    worst = 0.0
    for seed in range(3):
        case = Case(small.dense(seed=seed, weights=(0.4, 0.6), S=2, horizon=2), 40)
        eps = case.direct().eps
        P_hat, support = case.confidence.step.kernel.dense(), np.ones((2, 2, 2), bool)
        plans = [x for x in ref.policies(2, 2, 2) if x[0, 1] == 0]  # no episode begins in state 1
        for theta in case.edges(np.stack([-case.valid.basis[:, 0], case.valid.basis[:, 0]])):
            P = case.model.kernel(theta).dense()
            for plan, rival in product(plans, plans):
                reward = ref.adversary(P_hat, P, support, plan, rival, 0)
                loss = ref.regret(P, reward, plan, 0)
                worst = max(worst, loss / eps)
                assert loss <= eps + 1e-7
    assert worst > 0.4


@pytest.mark.skipif(not library.is_built(), reason="there was no compiler")
@settings(deadline=None, max_examples=40)
@given(SEEDS, st.sampled_from([0.1, 1.0, 30.0]))
def test_the_compiled_programme_is_the_definition(seed, scale):
    """Also where a transition shifts values by less than a point, or by more than the whole grid."""
    rng = np.random.default_rng(seed)
    made = random_hinge(rng)
    logs = np.append(rng.normal(size=len(made.Z)) * scale * rng.choice([1e-3, 0.1, 1.0]), 0.0)
    compiled = compiled_programme()
    np.testing.assert_allclose(compiled(made, logs), made.programme(logs), rtol=1e-12, atol=1e-12)
