"""Certificates: every inequality of the proof on sampled parameters, then the whole against adversaries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horizonfree._x64 import to_device, to_numpy, x64
from horizonfree.errors import OptionError
from horizonfree.guarantees.trajectories import TINY, divergence, gap
from horizonfree.mdp.rollout import Trajectory
from horizonfree.models.mixture import confidence as ct
from horizonfree.models.mixture import evidence as ev
from horizonfree.models.mixture.ellipsoid import curvature, opnorm, psi, psi_inverse, psi_inverse_below
from horizonfree.models.mixture.model import Mixture
from horizonfree.models.mixture.tangent import SECOND_ORDER
from horizonfree.models.mixture.valid import valid_set
from tests.reference import certificates as ref
from tests.reference import small

DELTA, EPISODES, SEEDS = 0.1, 60, 12


class Case:
    """A problem with evidence of some seeds; U is sampled from its definition, not from the library's ball."""

    def __init__(self, problem, episodes=EPISODES, seeds=SEEDS, delta=DELTA):
        self.problem, self.known, self.valid = problem, problem.known, valid_set(problem.known)
        self.evidence = small.gather(problem, episodes, range(seeds))
        self.confidences = [
            ct.confidence(self.known, self.valid, small.pick(self.evidence, i), delta=delta)
            for i in range(seeds)
        ]
        self.P_star = problem.kernel().dense()

    def counts(self, i):
        return self.evidence.since[i][self.confidences[i].bet]

    def level(self, i):
        """Lq + log(1/(delta w)) of the bet that was chosen."""
        evidence, bet = small.pick(self.evidence, i), int(self.confidences[i].bet)
        return evidence.loss[bet] - np.log(float(self.confidences[i].delta) * evidence.weights[bet])

    def excess(self, i, theta):
        """L(theta) - Lq - log(1/(delta w)) on the free rows; the others cancel."""
        free = self.valid.free & (self.counts(i) > 0)
        p = self.valid.rows[free] @ theta
        if (p <= 0).any():
            return np.inf
        fixed = ~self.valid.free & (self.counts(i) > 0)
        known = self.counts(i)[fixed] @ np.log(self.valid.rows[fixed] @ self.valid.center)
        return -self.counts(i)[free] @ np.log(p) - known - self.level(i)

    def points_of_U(self, i, rng, count):
        """Parameters of U: on the way from theta_hat to random points of Theta, half of them on the boundary of U."""
        theta_hat, points = self.confidences[i].theta, []
        for k, other in enumerate(small.inside(self.valid, rng, count)):
            inside, outside = 0.0, 1.0
            if self.excess(i, other) <= 0:
                inside = 1.0
            else:
                for _ in range(50):
                    middle = (inside + outside) / 2
                    is_in = self.excess(i, theta_hat + middle * (other - theta_hat)) <= 0
                    inside, outside = (middle, outside) if is_in else (inside, middle)
            points.append(theta_hat + inside * (1.0 if k % 2 else rng.uniform()) * (other - theta_hat))
        return points

    def kernel(self, theta):
        return self.known.kernel(theta).dense()

    def slots(self, x):
        """An array over rows as a table over [S, A, S]."""
        S, A, n = self.known.succ.shape
        table = np.zeros((S, A, S, *x.shape[1:]))
        values = np.concatenate([x, np.zeros_like(x[:1])])[self.valid.row_of]
        for s, a, j in np.ndindex(S, A, n):
            table[s, a, self.known.succ[s, a, j]] += values[s, a, j]
        return table


@pytest.fixture(scope="module", params=list(small.PROBLEMS))
def case(request):
    return Case(small.PROBLEMS[request.param]())


def random_reward(rng, H, S, A):
    """A reward whose total is at most one on every trajectory; often sparse."""
    kind = rng.integers(3)
    if kind == 0:
        return rng.uniform(size=(H, S, A)) / H
    if kind == 1:
        reward = np.zeros((H, S, A))
        reward[rng.integers(H), rng.integers(S)] = 1.0
        return reward
    return np.where(rng.uniform(size=(H, S, A)) < 0.2, 1.0 / H, 0.0)


@settings(deadline=None)
@given(st.floats(-0.999999, 1e6))
def test_psi_and_its_curvature(x):
    with jax.enable_x64(True):
        assert float(psi(jnp.array(x))) == pytest.approx(x - np.log1p(x), rel=1e-9, abs=1e-15)
        higher = float(curvature(jnp.array(x + 0.01 * (1 + x))))
        assert 0 < higher <= float(curvature(jnp.array(x)))


@settings(deadline=None)
@given(st.floats(1e-12, 1e4))
def test_inverses_of_psi_are_upper_bounds_and_tight(c):
    with jax.enable_x64(True):
        above, below = (float(jax.jit(inverse)(jnp.array(c))) for inverse in (psi_inverse, psi_inverse_below))
        assert float(psi(jnp.array(above))) == pytest.approx(c, rel=1e-9)
        assert float(psi(jnp.array(above))) >= c * (1 - 1e-9)
        assert 0 < below <= 1
        if below < 1 - 1e-9:
            assert float(psi(jnp.array(-below))) == pytest.approx(c, rel=1e-6)


@settings(deadline=None, max_examples=30)
@given(st.sampled_from([1, 2, 5]), st.integers(0, 10**6))
def test_opnorm_is_an_upper_bound_within_its_factor(q, seed):
    M = np.random.default_rng(seed).normal(size=(3, q, q))
    M = M + M.swapaxes(1, 2)
    exact = np.abs(np.linalg.eigvalsh(M)).max(-1)
    with jax.enable_x64(True):
        found = np.asarray(opnorm(jnp.asarray(M)))
    assert (found >= exact * (1 - 1e-12)).all()
    assert (found <= exact * q ** (1 / 16) * (1 + 1e-12)).all()


def test_every_parameter_of_U_is_in_the_ellipsoid_and_in_the_row_bounds(case):
    for i in range(SEEDS):
        ball, N = case.confidences[i].ball, case.counts(i)
        free = case.valid.free
        for theta in case.points_of_U(i, np.random.default_rng(i), 20):
            change = (case.valid.rows @ theta - ball.p)[free]
            x = change / ball.p[free]
            u = np.linalg.lstsq(ball.z[free], change, rcond=None)[0]
            np.testing.assert_allclose(ball.z[free] @ u, change, atol=1e-7)
            assert np.linalg.norm(u) <= 1 + 1e-6
            assert (x <= ball.above[free] + 1e-6 / ball.p[free]).all()
            assert (x >= -ball.below[free] - 1e-6 / ball.p[free]).all()
            seen = N[free] > 0
            assert (N[free] * (x - np.log1p(np.maximum(x, -1 + 1e-15))))[seen].sum() <= ball.slack + 1e-6


def test_the_divergence_of_one_step_is_at_most_its_cost(case):
    """After leaving out the rows that theta_hat all but excludes and theta may exclude; their mass is the leak."""
    reachable = case.valid.reachable
    for i in range(SEEDS):
        step, ball = case.confidences[i].step, case.confidences[i].ball
        is_out = case.valid.free & (ball.below >= 1) & (ball.p < TINY)
        kept = case.slots(np.where(is_out, 0.0, ball.p))
        np.testing.assert_allclose(1 - kept.sum(-1)[reachable], step.leak[reachable], atol=1e-9)
        for theta in case.points_of_U(i, np.random.default_rng(i), 10):
            P = np.maximum(case.kernel(theta), 0)
            for s, a in np.argwhere(reachable[:, None] & np.isfinite(step.cost)):
                assert ref.kl(kept[s, a] / kept[s, a].sum(), P[s, a]) <= step.cost[s, a] + 1e-9


def test_the_cost_of_one_step_is_nearly_attained():
    """With enough data the bound is close to the largest divergence in U, so that a smaller one would be caught."""
    case, ratios = Case(small.dense(), episodes=1000, seeds=2), []
    for i in range(2):
        step = case.confidences[i].step
        P_hat = step.kernel.dense()
        for theta in case.points_of_U(i, np.random.default_rng(i), 100):
            P = case.kernel(theta)
            ratios += [ref.kl(P_hat[s, a], P[s, a]) / step.cost[s, a] for s, a in np.ndindex(4, 2)]
    assert 0.8 <= max(ratios) <= 1 + 1e-9


def test_the_divergence_of_trajectories_is_the_expected_sum_over_steps():
    problem = small.dense(S=3, horizon=3)
    P, Q = problem.kernel().dense(), small.dense(S=3, horizon=3, weights=(0.2, 0.5, 0.3)).kernel().dense()
    each = np.array([[ref.kl(P[s, a], Q[s, a]) for a in range(2)] for s in range(3)])
    policy = np.random.default_rng(0).integers(2, size=(3, 3))
    p, q = (ref.trajectories(kernel, policy, 0) for kernel in (P, Q))
    assert ref.expected_sum(P, each, policy, 0) == pytest.approx(sum(p[t] * np.log(p[t] / q[t]) for t in p))


@x64
def test_kappa_is_the_largest_expected_cost_over_all_policies():
    case = Case(small.dense(S=2, horizon=4), seeds=2)
    for confidence in case.confidences:
        step = confidence.step
        found = to_numpy(divergence(to_device(case.known), to_device(step)))
        if found.stop.any():
            continue
        assert not step.leak.any()
        every = [
            ref.expected_sum(step.kernel.dense(), step.cost, policy, case.known.start)
            for policy in ref.policies(case.known.horizon - 1, 2, 2)  # the last transition touches no reward
        ]
        assert found.kappa == pytest.approx(max(every))
        assert found.eps == pytest.approx(np.sqrt(1 - np.exp(-2 * found.kappa)))


@settings(max_examples=300, deadline=None)
@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_the_gap_lemma(v_plan, v_best, w_plan, w_best):
    with jax.enable_x64(True):
        regret = max(0.0, v_best - v_plan)
        kappa, kappa_plan = ref.binary_kl(v_best, w_best), ref.binary_kl(v_plan, w_plan)
        if np.isfinite(kappa + kappa_plan):
            bound = float(gap(jnp.array(regret), jnp.array(kappa), jnp.array(kappa_plan)))
            assert w_best - w_plan <= bound + 1e-7


def test_the_gap_lemma_is_tight_for_two_symmetric_coins():
    """kl(1/2, (1 +- t)/2) = - log(1 - t^2) / 2, so kappa gives back t exactly."""
    with jax.enable_x64(True):
        for t in (0.01, 0.5, 0.9):
            kappa = jnp.array(ref.binary_kl(0.5, (1 + t) / 2))
            assert float(gap(jnp.array(0.0), kappa, kappa)) == pytest.approx(t)


def test_the_tangent_bound_agrees_with_its_literal_recursion(case):
    rng = np.random.default_rng(1)
    H, S, A = case.known.horizon, case.known.num_states, case.known.num_actions
    q = case.valid.num_free
    for i in range(4):
        confidence = case.confidences[i]
        reward = random_reward(rng, H, S, A)
        policy = None if i % 2 else rng.integers(A, size=(H, S))
        bounds, _ = ct.for_reward(case.known, case.valid, confidence, reward, policy)
        z = case.slots(confidence.ball.z)
        literal = ref.tangent(confidence.step.kernel.dense(), z, reward, bounds.policy, case.known.start)
        assert bounds.tangent >= literal - 1e-9  # operator norms are bounded from above
        if q <= 3:
            assert bounds.tangent <= literal * q ** (1 / 16) + 1e-9


def test_no_parameter_of_U_makes_a_policy_lose_more_than_its_certificate(case):
    """Plans and arbitrary policies, random rewards, sampled parameters: each bound by itself, and the smallest."""
    H, S, A = case.known.horizon, case.known.num_states, case.known.num_actions
    for i in range(SEEDS):
        rng = np.random.default_rng(100 + i)
        confidence = case.confidences[i]
        uniform = ct.uniform(confidence)
        points = case.points_of_U(i, rng, 10)
        for k in range(4):
            reward = random_reward(rng, H, S, A)
            policy = None if k % 2 else rng.integers(A, size=(H, S))
            bounds, certificate = ct.for_reward(case.known, case.valid, confidence, reward, policy)
            if policy is None:
                assert certificate.eps <= uniform.eps + ct.rounding(case.known)
                P_hat = confidence.step.kernel.dense()
                assert ref.regret(P_hat, reward, bounds.policy, case.known.start) <= 1e-12
            worst = max(
                ref.regret(case.kernel(theta), reward, bounds.policy, case.known.start) for theta in points
            )
            parts = {"uniform", "interval", "tangent"}
            assert worst <= min(1.0, min(certificate.parts[name] for name in parts)) + 1e-9
            least = min(certificate.parts[name] for name in parts) + ct.rounding(case.known)
            assert certificate.eps == pytest.approx(min(1.0, least))


def test_many_directions_are_bounded_without_the_second_order():
    """q = 18: the expansion stops at the first order, whose remainder is bounded without any q x q matrix."""
    case = Case(small.tabular(A=3), episodes=2000, seeds=2)
    assert case.valid.num_free > SECOND_ORDER
    for i in range(2):
        rng = np.random.default_rng(i)
        reward = random_reward(rng, 3, 3, 3)
        for policy in (None, rng.integers(3, size=(3, 3))):
            bounds, _ = ct.for_reward(case.known, case.valid, case.confidences[i], reward, policy)
            points = case.points_of_U(i, rng, 30)
            worst = max(
                ref.regret(case.kernel(theta), reward, bounds.policy, case.known.start) for theta in points
            )
            assert worst <= bounds.tangent + 1e-9
        assert bounds.tangent < 1


@pytest.mark.parametrize("name", ["dense", "slips"])
def test_the_strongest_adversary_stays_below_the_certificates(name):
    """Linear programmes find rewards that fool the plan as much as possible for someone who knows the truth."""
    case = Case(small.PROBLEMS[name](), episodes=150, seeds=12)
    H, S, A = case.known.horizon, case.known.num_states, case.known.num_actions
    support = case.slots(np.ones(len(case.valid.rows))) > 0
    found = []
    for i in range(12):
        if case.excess(i, case.problem.truth) > 0:
            continue  # the truth left the set: nothing is claimed
        confidence, rng = case.confidences[i], np.random.default_rng(i)
        eps = ct.uniform(confidence).eps
        P_hat = confidence.step.kernel.dense()
        for _ in range(2):
            first = random_reward(rng, H, S, A)
            reward, policy, loss = ref.worst_reward(P_hat, case.P_star, support, first, case.known.start)
            _, certificate = ct.for_reward(case.known, case.valid, confidence, reward, policy)
            assert loss <= eps + 1e-7
            assert loss <= certificate.eps + 1e-7
            found.append(loss)
    assert max(found) > 0.01  # the adversary does find something


def test_the_true_gap_is_below_the_certificate_in_many_runs():
    """Goal rewards: while the truth is in U, no violation, ever."""
    problem = small.slips()
    case = Case(problem, episodes=40, seeds=60)
    H, S, A = case.known.horizon, case.known.num_states, case.known.num_actions
    checked = 0
    for i, confidence in enumerate(case.confidences):
        if case.excess(i, problem.truth) > 0:
            continue
        for goal in (2, S - 1):
            reward = np.zeros((H, S, A))
            reward[-1, goal] = 1.0
            bounds, certificate = ct.for_reward(case.known, case.valid, confidence, reward)
            loss = ref.regret(case.P_star, reward, bounds.policy, case.known.start)
            assert loss <= certificate.eps + 1e-9
            checked += 1
    assert checked >= 60


def test_more_data_and_less_confidence_give_smaller_gaps():
    problem = small.slips()
    known, valid = problem.known, valid_set(problem.known)
    few, many = (small.pick(small.gather(problem, K, [0]), 0) for K in (50, 800))
    eps = [ct.uniform(ct.confidence(known, valid, many, delta=delta)).eps for delta in (0.001, 0.05, 0.5)]
    assert eps[0] > eps[1] > eps[2]
    assert ct.uniform(ct.confidence(known, valid, few)).eps > 1.5 * eps[1]


def test_the_certificate_does_not_depend_on_the_units_of_the_features():
    """Scaling and rotating phi changes nothing; a ridge would."""
    problem = small.slips()
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0] * 0.01
    S, A, n, d = problem.known.phi.shape
    phi = np.zeros((S, A, S, d))
    for s, a, j in np.ndindex(S, A, n):
        phi[s, a, problem.known.succ[s, a, j]] += problem.known.phi[s, a, j] * problem.known.unit
    other = Mixture.from_features(
        phi @ turn,
        horizon=problem.horizon,
        bound=1e3,
        theta=np.linalg.solve(turn, problem.truth / problem.known.unit),
    )
    found = []
    for each in (problem, other):
        evidence = small.pick(small.gather(each, 60, [3]), 0)
        found.append(ct.uniform(ct.confidence(each.known, valid_set(each.known), evidence)).eps)
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_one_step_needs_no_data():
    problem = small.dense(horizon=1)
    evidence = small.pick(small.gather(problem, 1, [0]), 0)
    valid = valid_set(problem.known)
    confidence = ct.confidence(problem.known, valid, evidence)
    assert ct.uniform(confidence).eps == 0
    _, certificate = ct.for_reward(
        problem.known, valid, confidence, np.random.default_rng(0).uniform(size=(1, 4, 2))
    )
    assert certificate.eps == ct.rounding(problem.known) < 6e-12
    assert certificate.words == "at most 5.01e-12 is lost, with probability 0.95"


def test_nothing_to_learn_is_certified_at_once():
    P = np.random.default_rng(0).dirichlet(np.ones(3), size=(3, 2))
    for kernels in ([P], [P, P]):
        problem = Mixture.from_kernels(kernels, horizon=4, weights=np.ones(len(kernels)) / len(kernels))
        valid = valid_set(problem.known)
        confidence = ct.confidence(problem.known, valid, small.pick(small.gather(problem, 2, [0]), 0))
        assert ct.uniform(confidence).eps == 0
        _, certificate = ct.for_reward(problem.known, valid, confidence, np.full((4, 3, 2), 0.25))
        assert certificate.eps == ct.rounding(problem.known)


def test_no_data_certify_nothing_and_say_what_is_missing():
    problem = small.slips()
    valid = valid_set(problem.known)
    with jax.enable_x64(True):
        evidence = to_numpy(ev.init(to_device(valid), *ev.ladder()))
    confidence = ct.confidence(problem.known, valid, evidence)
    certificate = ct.uniform(confidence)
    assert certificate.is_vacuous
    assert not certificate.is_rejected
    assert "2 of 2 unknown directions" in certificate.words
    assert ct.more_episodes(confidence, 0.1) == np.inf
    assert len(ct.unseen(confidence)) > 0
    bounds, each = ct.for_reward(problem.known, valid, confidence, np.full((6, 6, 2), 1 / 6))
    assert 0 <= each.eps <= 1
    assert np.isfinite(bounds.value)


def test_the_forecast_of_episodes_is_of_the_right_order():
    problem = small.slips()
    valid = valid_set(problem.known)
    now = ct.confidence(problem.known, valid, small.pick(small.gather(problem, 200, [1]), 0))
    target = ct.uniform(now).eps / 2
    more = ct.more_episodes(now, target)
    assert 200 < more < 200 * 10
    later = ct.confidence(problem.known, valid, small.pick(small.gather(problem, 200 + int(more), [1]), 0))
    assert ct.uniform(later).eps < 1.5 * target
    assert ct.more_episodes(now, 0.999999) == 0


def corridor_confidence(rates, delta=1e-6):
    """What 400 episodes of a corridor say when state s slips with rate rates[s]; the class knows one rate per half."""
    problem = small.slips()
    H, S = problem.horizon, problem.num_states
    known, valid = problem.known, valid_set(problem.known)
    rng, slots = np.random.default_rng(0), known.succ
    s, a, j = np.zeros((400, H + 1), np.int32), np.ones((400, H), np.int32), np.zeros((400, H), np.int32)
    for k, h in np.ndindex(400, H):
        here = s[k, h]
        to = max(here - 1, 0) if rng.uniform() < rates[here] else min(here + 1, S - 1)
        j[k, h] = np.flatnonzero((slots[here, 1] == to) & known.support[here, 1])[0]
        s[k, h + 1] = to
    with jax.enable_x64(True):
        first = ev.init(to_device(valid), *ev.ladder(400))
        replay = jax.jit(lambda v, x: jax.lax.scan(lambda e, t: (ev.update(v, e, t), None), first, x)[0])
        evidence = to_numpy(replay(*to_device((valid, Trajectory(s, a, j)))))
    return known, valid, ct.confidence(known, valid, evidence, delta=delta)


def test_a_system_outside_the_class_is_rejected_and_one_inside_is_not():
    """Rejected wrongly with probability <= delta = 1e-6. The table finds slip rates that differ within one half."""
    assert not corridor_confidence([0.2, 0.2, 0.2, 0.4, 0.4, 0.4])[2].is_rejected
    known, valid, confidence = corridor_confidence([0.1, 0.7, 0.1, 0.6, 0.2, 0.6])
    for certificate in (
        ct.uniform(confidence),
        ct.for_reward(known, valid, confidence, np.zeros((6, 6, 2)))[1],
    ):
        assert certificate.is_rejected
        assert certificate.eps == 1
        assert "model rejected: no parameter explains the data" in certificate.words


def test_an_impossible_transition_rejects_the_model():
    problem = small.slips()
    valid = valid_set(problem.known)
    evidence = small.pick(small.gather(problem, 20, [0]), 0)
    evidence = ev.Evidence(**{**vars(evidence), "impossible": np.int32(3)})
    certificate = ct.uniform(ct.confidence(problem.known, valid, evidence))
    assert certificate.is_rejected
    assert "3 transitions are impossible" in certificate.words


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, 2.0])
def test_delta_must_be_a_probability_between_zero_and_one(delta):
    problem = small.slips()
    with pytest.raises(OptionError, match="delta"):
        ct.confidence(
            problem.known, valid_set(problem.known), small.pick(small.gather(problem, 2, [0]), 0), delta=delta
        )


@pytest.mark.parametrize(
    "eps", [0.0, 1e-7, 0.0123456, 0.3010894, 0.9999, 1.0, *np.random.default_rng(0).random(20)]
)
def test_what_is_said_is_never_less_than_what_is_proved(eps):
    said = float(ct.rounded_up(eps))
    assert said >= eps * (1 - 1e-9)
    assert said <= eps * 1.01 + 1e-300
    assert ct.Certificate(eps, 0.05, "uniform", "", {}).is_vacuous == (said >= 1)
