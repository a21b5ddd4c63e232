"""What plans lose in the worst system within the radii: every reward, one reward, exact adversaries, words."""

from itertools import pairwise

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import OptionError, RewardError, RunError, ShapeError
from horizonfree.models import certify
from horizonfree.models.mixture import tangent
from horizonfree.models.mixture.ellipsoid import Ellipsoid
from horizonfree.models.mixture.robust.bounds import _error, steps_within
from horizonfree.models.mixture.robust.confidence import _loss_by_theta, asymptotic_gap
from horizonfree.models.registry import diagnostics_of
from horizonfree.planning.induction import best_plan
from tests.reference import cases, small
from tests.reference import robust as ref

ZETA = 0.02


@pytest.fixture(scope="module")
def run(problem):
    """Explored in a system that is within ZETA of the truth, and not in the class."""
    Q = ref.tilt(problem.kernel().dense(), ZETA)
    evidence = small.pick(small.gather_outside(problem, [Q], 1000, [3]), 0)
    return hf.Run(problem, None, 0, evidence, None, {}, is_simulated=False)


@pytest.fixture(scope="module")
def confidence(run):
    return run.confidence(0.05, ZETA)


def thetas(problem, confidence, rng, count):
    """Parameters of the ellipsoid that are within the bounds of rows."""
    ball, valid = confidence.ball, problem.model.valid
    L = np.linalg.lstsq(valid.rows @ valid.basis * valid.free[:, None], ball.z, rcond=None)[0]
    found = []
    while len(found) < count:
        u = rng.normal(size=ball.z.shape[1])
        theta = ball.theta + valid.basis @ L @ (u / np.linalg.norm(u) * rng.uniform() ** 0.3)
        p = valid.rows @ theta
        if (p >= 0).all() and (
            np.abs(p - ball.p) <= ball.p * np.where(p < ball.p, ball.below, ball.above) + 1e-12
        ).all():
            found.append(theta)
    return found


def test_no_law_near_a_parameter_of_the_set_is_further_than_the_cost_of_its_step(problem, confidence):
    """KL(P_hat || Q) of the worst moves of mass, against Theorem R5; and the plain cost would be too small."""
    rng, near = np.random.default_rng(0), 0.0
    hat, cost = confidence.kernel.dense(), confidence.step.cost
    for theta in thetas(problem, confidence, rng, 30):
        P = problem.model.kernel(theta).dense()
        for s, a in np.ndindex(cost.shape):
            for i, j in rng.integers(4, size=(6, 2)):
                Q = P[s, a].copy()
                moved = min(ZETA, Q[i])
                Q[i] -= moved
                Q[j] += moved
                kl = np.inf if (Q[hat[s, a] > 0] <= 0).any() else float(hat[s, a] @ np.log(hat[s, a] / Q))
                if not confidence.divergence.stop[s, a] and confidence.step.leak[s, a] == 0:
                    assert kl <= cost[s, a] + 1e-9
                    near = max(near, kl / cost[s, a])
    assert near > 0.3


def test_a_step_agrees_with_its_literal_sum_where_theta_is_known(problem, confidence):
    """With z = 0 the cost is zeta^2 times the two largest k(-zeta/p)/p."""
    ball = confidence.ball
    o = np.zeros(len(ball.p))
    known = Ellipsoid(ball.theta, ball.p, np.zeros(ball.z.shape), o, o, ball.slack)
    zeta = np.full((4, 2), 0.01)
    step = steps_within(problem.space, problem.model.valid, known, zeta, 0.0)
    hat = confidence.kernel.dense()
    for s, a in np.ndindex(4, 2):
        x = 0.01 / hat[s, a]
        k = ref.psi(-x) / x**2
        literal = 1e-4 * np.sort(k / hat[s, a])[-2:].sum() if (x < 1).all() else np.inf
        assert step.cost[s, a] == pytest.approx(literal, rel=1e-9)


def tangents(confidence, values, is_last, reward, policy):
    """Advantages at one step, and values one step earlier."""
    sums = tangent.sums(confidence, values)
    advantages = tangent.advantages(confidence, values, sums, reward, policy)[1]
    return advantages, tangent.back(confidence, values, reward, policy, is_last=is_last)[0]


def literal_losses(problem, confidence, reward, policy):
    """Theorem R6 step by step, with the tangent pass of the library."""
    H, S, A = reward.shape
    adv, V, err = np.zeros((H, S, A)), np.zeros((H, S)), np.zeros((H, S))
    values = tangent.at_end(confidence)
    for h in reversed(range(H)):
        adv[h], values = tangents(confidence, values, h == H - 1, reward[h], policy[h])
        V[h], err[h] = values.V, _error(values)
    z = confidence.tilts  # dense: slots are states
    return ref.losses(confidence.step.kernel.dense(), z, reward, policy, confidence.zeta, adv, V, err), V, err


def test_the_bounds_of_one_reward_agree_with_their_literal_recursion(problem, confidence):
    rng = np.random.default_rng(1)
    for _ in range(3):
        reward = cases.random_reward(rng, *problem.space.sizes)
        policy = np.array(best_plan(confidence.kernel, reward).policy, np.int32)
        bounds, certificate = certify.for_reward(problem.model, confidence, reward, policy)
        (E, _, G, up, lo), V, err = literal_losses(problem, confidence, reward, policy)
        assert bounds.gaps["tangent"] == pytest.approx(G[0], abs=1e-9)
        low = max(lo[0], V[0, 0] - err[0, 0] - E[0])
        assert bounds.gaps["interval"] == pytest.approx(up[0] - low, abs=1e-9)
        assert bounds.gaps["uniform"] == pytest.approx(float(confidence.eps), abs=1e-12)
        assert certificate.eps <= min(bounds.gaps.values()) + 1e-9


@pytest.mark.parametrize("anywhere", [False, True])
def test_no_system_with_memory_makes_a_plan_lose_more(problem, run, confidence, anywhere):
    """The exact worst gap over history-dependent laws, for parameters of the set; attained to a good part."""
    support = "anywhere" if anywhere else "successors"
    confidence = run.confidence(0.05, hf.Misspecification(tv=ZETA, support=support))
    rng, ratios = np.random.default_rng(2), []
    start = np.eye(problem.num_states)[problem.start]
    for kind in range(4):
        H, S, A = problem.space.sizes
        reward = np.zeros((H, S, A))
        reward[-1, kind % S] = 1.0
        if kind == 3:
            reward = cases.random_reward(rng, H, S, A) / H
        policy = np.array(best_plan(confidence.kernel, reward).policy, np.int32)
        _, certificate = certify.for_reward(problem.model, confidence, reward, policy)
        for theta in [problem.truth, *thetas(problem, confidence, rng, 5)]:
            P = problem.model.kernel(theta).dense()
            worst = ref.history_gap(P, reward, policy, confidence.zeta, start, is_anywhere=anywhere)
            assert worst <= certificate.eps + 1e-9
            assert worst <= float(confidence.eps) + 1e-9
            ratios.append(worst / certificate.eps)
    assert max(ratios) > 0.3


def test_a_misspecification_of_nothing_gives_the_plain_numbers_to_the_bit(run):
    assert run.certificate(misspecification=0).eps == run.certificate().eps
    nothing = np.zeros((4, 2))
    assert (
        run.plan(hf.goal(run.problem, 1), misspecification=nothing).gap
        == run.plan(hf.goal(run.problem, 1)).gap
    )
    assert run.confidence(0.05, hf.Misspecification(kl=0.0)) is run.confidence(0.05)


def test_rows_that_are_zero_for_every_parameter_cost_nothing():
    """theta = (1, t, u) where u and -u are probabilities: sets call such rows 1, which must not become mass."""
    S, A, H = 3, 2, 4
    phi = np.zeros((S, A, S, 3))
    phi[:, 0, :2], phi[:, 1, :2] = [[0.5, 0.25, 0], [0.5, -0.25, 0]], [[0.3, -0.2, 0], [0.7, 0.2, 0]]
    phi[0, 0, [0, 2], 2], phi[1, 0, [0, 2], 2] = [-1, 1], [1, -1]
    problem = hf.Mixture.from_features(phi, horizon=H, bound=3.0, theta=[1, 0.3, 0])
    valid = problem.model.valid
    z, p = 0.05 * valid.rows @ valid.basis * valid.free[:, None], valid.rows @ problem.truth
    share = np.where(valid.free, np.linalg.norm(z, axis=1) / np.where(valid.free, p, 1), 0.0)

    def lost(called):
        ball = Ellipsoid(problem.truth, np.where(valid.positive, p, called), z, share, share, 0.0)
        return _loss_by_theta(problem.space, valid, ball)

    assert not valid.positive.all()
    with np.errstate(all="ignore"):
        assert 0 < lost(1.0) == lost(0.0)


def test_gaps_do_not_fall_as_the_misspecification_grows(run):
    """The numbers themselves, before the curve is made of them; and the curve, and what it says of a target."""
    gaps = [float(run.confidence(0.05, zeta).eps) for zeta in np.geomspace(1e-4, 0.05, 20)]
    assert all(x <= y * (1 + 1e-9) for x, y in pairwise(gaps))
    found = run.robustness(0.4)
    shown = found.gaps[~np.isnan(found.gaps)]
    assert (np.diff(shown) >= 0).all()
    assert found.zeta is not None
    assert run.certificate(misspecification=found.zeta).eps <= 0.4
    assert run.certificate(misspecification=found.zeta * 1.05).eps > 0.4
    assert found.summary().startswith(
        "suboptimality at most 0.4 (95% confidence, any stopping time) if every row of the kernel is within"
    )
    one = run.robustness(0.05, reward=hf.goal(run.problem, 2))
    assert one.zeta > found.zeta / 10
    assert one.zeta_low == found.zeta_low
    assert run.robustness(1e-6).zeta is None
    assert "even with a correct model, 1e-06 is not certified yet" in run.robustness(1e-6).summary()


def test_a_curve_says_at_zero_that_it_is_proved_in_another_way(run):
    """The curve and the plain certificate bound the same loss at zero; words that speak of zero say which it is."""
    at_zero = run.robustness(0.4).gaps[0]
    assert at_zero != pytest.approx(run.certificate().eps, rel=1e-3)
    method = "certificate() has another bound"
    assert method in run.robustness(at_zero / 2).summary()
    assert method in run.robustness(at_zero * (1 + 1e-9)).summary()
    assert method not in run.robustness(0.4).summary()


def test_words_say_what_is_assumed_and_what_the_data_show(run):
    certificate = run.certificate(misspecification=ZETA)
    low = certificate.parts["zeta_low"]
    assert low <= ZETA
    assert certificate.parts["zeta"] == ZETA
    assert certificate.parts["floor"] < certificate.eps < 1
    assert (
        "95% confidence, any stopping time), if every transition law is within 0.02 of one and the same parameter; "
        in (certificate.summary())
    )
    assert "the data show that no parameter is closer than" in certificate.summary()


def test_a_class_that_is_far_off_is_not_within_a_small_radius(problem):
    """Rejected below zeta_low, in words that say how far; allowed above it."""
    Q = ref.tilt(problem.kernel().dense(), 0.2)
    states, actions = [], []
    rng = np.random.default_rng(0)
    for _ in range(1500):
        s, row, taken = problem.start, [problem.start], []
        for _ in range(problem.horizon):
            a = int(rng.integers(2))
            s = int(rng.choice(4, p=Q[s, a]))
            row.append(s)
            taken.append(a)
        states.append(row)
        actions.append(taken)
    run = hf.from_episodes(problem, (states, actions))
    refused = run.certificate(misspecification=0.01)
    low = refused.parts["zeta_low"]
    assert 0.01 < low <= 0.2
    assert refused.is_rejected
    assert refused.eps == 1
    assert "no single parameter is within" in refused.summary()
    assert "no single parameter is within" in run.certificate().summary()  # and so does the plain one
    assert not hf.certify(problem, (states, actions), misspecification=0.2).is_rejected


def test_what_cannot_be_answered_is_refused_in_words(problem, run):
    with pytest.raises(
        OptionError, match=r"method is .direct.; it must be .uniform., with misspecification="
    ):
        run.certificate(method="direct", misspecification=0.01)
    bare = hf.explore_many(problem, "uniform", episodes=5, seeds=1)[0]
    with pytest.raises(RunError, match="no counts by blocks"):
        bare.certificate(misspecification=0.01)
    table = hf.explore(problem.as_tabular(), episodes=2)
    with pytest.raises(OptionError, match="a table says itself which states may follow"):
        table.certificate(misspecification=hf.Misspecification(tv=0.01, support="anywhere"))
    with pytest.raises(OptionError, match="misspecification= belongs to until_eps="):
        hf.explore(problem, episodes=5, misspecification=0.01)
    with pytest.raises(OptionError, match="the bound for every reward stays at about"):
        hf.explore(problem, until_eps=0.1, misspecification=0.1)
    high = np.zeros(problem.space.sizes)
    high[0, problem.start] = (
        1.0  # no episode of the class that begins elsewhere collects it, and a jump could
    )
    high[1, 3] = 0.5
    jumps = run.confidence(0.05, hf.Misspecification(tv=0.01, support="anywhere"))
    with pytest.raises(RewardError, match="where laws may lead anywhere"):
        certify.for_reward(problem.model, jumps, high, np.zeros((4, 4), np.int32))


def test_a_run_until_a_gap_within_a_misspecification_stops_there_and_is_stored(problem, tmp_path):
    run = hf.explore(
        problem, "uniform", until_eps=0.6, misspecification=0.005, out=tmp_path / "run", episodes=5000
    )
    assert run.certificate(misspecification=0.005).eps <= 0.6
    assert run.episodes < 5000
    again = hf.load(tmp_path / "run")
    assert (again.until.zeta == 0.005).all()
    assert again.certificate(misspecification=0.005).eps == run.certificate(misspecification=0.005).eps


@pytest.mark.parametrize(("given", "zeta"), [({"tv": 0.1}, 0.1), ({"kl": 0.02}, 0.1), ({"ratio": 0.5}, 0.2)])
def test_other_balls_are_inside_one_of_total_variation(given, zeta):
    assert hf.Misspecification(**given).radii(2, 2) == pytest.approx(np.full((2, 2), zeta))


@pytest.mark.parametrize("support", ["successors", "anywhere"])
def test_no_target_is_refused_that_a_certificate_reaches(support):
    """The floor that `until_eps` is compared with is the floor of certificates, also for divergences."""
    problem = small.dense(weights=(0.5, 0.5), horizon=20)
    about = hf.Misspecification(kl=1e-4, support=support)
    run = hf.explore(problem, episodes=20, progress=False)
    floor = diagnostics_of(problem.model).asymptotic_gap(about)
    assert floor == pytest.approx(np.sqrt(2 * 19 * 1e-4))
    assert run.certificate(misspecification=about).parts["floor"] <= floor * (1 + 1e-9)
    found = hf.explore(problem, until_eps=0.2, episodes=1, misspecification=about, progress=False)
    assert found.episodes == 1


def test_a_misspecification_that_is_none_is_refused():
    for given in ({}, {"tv": 0.1, "kl": 0.1}, {"tv": -0.1}, {"tv": 0.1, "support": "here"}, {"tv": np.nan}):
        with pytest.raises(OptionError):
            hf.Misspecification(**given)
    with pytest.raises(ShapeError):
        hf.Misspecification(tv=np.zeros((3, 3))).radii(2, 2)


def test_no_reward_that_is_searched_for_makes_plans_lose_more_than_is_certified(problem, run):
    """Climbing over rewards [H, S, A] of total 1 against the exact worst system: with theta known, and estimated.

    A gap is wrong with probability 1e-6 at most; with theta known nothing is left to chance.
    """
    H, S, A = problem.space.sizes
    P, rng = problem.kernel().dense(), np.random.default_rng(0)
    zeta, start = np.full((S, A), ZETA), np.eye(S)[problem.start]
    known = asymptotic_gap(problem.space, problem.model.valid, zeta, problem.truth, anywhere=False)
    worst = max(ref.worst_reward(P, P, zeta, start, rng, (60, H)) for _ in range(3))
    assert 0.25 * known < worst <= known
    found = run.confidence(1e-6, ZETA)
    assert ref.worst_reward(P, found.kernel.dense(), zeta, start, rng, (60, H)) <= float(found.eps)
