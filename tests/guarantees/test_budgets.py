"""Every share of delta, exactly: the shares sum to at most delta, and each is used where its bound is computed.

Halving a share raises a log-threshold by exactly log 2. Coverage tests cannot see a lost log term: the bounds are far
from tight for a single system. Shares within a misspecification: tests/models/mixture/robust/test_budgets.py.
"""

import dataclasses
import itertools
import math

import equinox as eqx
import jax
import numpy as np
import pytest
from scipy.special import gammaln

import horizonfree as hf
from horizonfree._x64 import scope, to_device, to_numpy
from horizonfree.guarantees.e_processes import LADDER, Alternative, Check, ladder
from horizonfree.mdp.space import UNSEEN, Trajectory
from horizonfree.models import certify
from horizonfree.models.linear import bounds
from horizonfree.models.linear import confidence as linear_confidence
from horizonfree.models.mixture import direct
from horizonfree.models.mixture.ellipsoid import ellipsoid
from horizonfree.models.mixture.evidence import violation
from horizonfree.models.mixture.likelihood import maximum_likelihood
from horizonfree.models.tabular import joint, radius
from horizonfree.problems import any_law
from horizonfree.problems.classes import Tabular
from horizonfree.problems.sampling import DELTA_SHARE, Sampling
from horizonfree.runs import certificates, check
from tests.reference import small

DELTA = 0.05
LOG_2 = math.log(2)


# Starts of e-processes


def test_the_weights_of_the_ladder_use_all_of_delta_and_no_more():
    assert sum(LADDER.values()) == pytest.approx(1, abs=1e-15)
    for budget, burn_in in itertools.product((1, 4, 5, 10, 999, 10**6), (5, 10)):
        assert ladder(budget, burn_in).weights.sum() == pytest.approx(1, abs=1e-15)


# Mixtures


@pytest.fixture(scope="module")
def mixture():
    problem = small.dense()
    return problem.model, small.pick(small.gather(problem, 60, [0]), 0)


def slacks(model, evidence, delta=DELTA):
    return certify.confidence(model, evidence, delta=delta).slacks


def weighted(evidence, weights):
    return eqx.tree_at(lambda x: x.weights, evidence, np.asarray(weights))


def test_every_e_process_of_a_mixture_pays_for_its_weight_and_delta(mixture):
    """W_j = Lq_j + log(1/(delta w_j)) - L_j(theta_hat) + gap, the last of the table, whose weight is 1."""
    model, evidence = mixture
    evidence = weighted(evidence, [0.25, 0.5])
    fits = [
        maximum_likelihood(model.valid, N, evidence.theta) for N in (*evidence.since, evidence.row_counts)
    ]
    logs = [np.log(1 / (DELTA * w)) for w in (0.25, 0.5, 1.0)]
    loss = [*predicted_losses(evidence), evidence.table_loss]
    expected = [
        Lq + log - (float(fit.loss) - float(fit.gap)) for Lq, log, fit in zip(loss, logs, fits, strict=True)
    ]
    confidence = certify.confidence(model, evidence, delta=DELTA)
    np.testing.assert_allclose(confidence.slacks, expected, atol=1e-7)
    for N, x in zip((*evidence.since, evidence.row_counts), fits, strict=True):
        p = model.valid.rows @ np.asarray(x.theta)
        assert float(x.loss) == pytest.approx(-(N[N > 0] * np.log(p[N > 0])).sum(), abs=1e-9)


def predicted_losses(evidence):
    """Lq_j, by its definition: weights of the two predictors fixed at the start of each e-process."""
    first = evidence.losses[evidence.starts == 0][0]
    losses_by_start = []
    for losses in evidence.losses:
        prior = np.exp(-(first - losses))
        a = 1 / 4 + prior / prior.sum() / 2
        assert a.sum() == pytest.approx(1, abs=1e-12)
        losses_by_start.append(-np.log((a * np.exp(-losses)).sum()))
    return losses_by_start


def test_half_a_weight_or_half_of_delta_costs_a_mixture_log_2(mixture):
    model, evidence = mixture
    full = slacks(model, weighted(evidence, [0.5, 0.5]))
    np.testing.assert_allclose(
        slacks(model, weighted(evidence, [0.25, 0.5])) - full, [LOG_2, 0, 0], atol=1e-12
    )
    np.testing.assert_allclose(
        slacks(model, weighted(evidence, [0.5, 0.25])) - full, [0, LOG_2, 0], atol=1e-12
    )
    half_delta = slacks(model, weighted(evidence, [0.5, 0.5]), DELTA / 2)
    np.testing.assert_allclose(half_delta - full, [LOG_2] * 3, atol=1e-12)


def test_the_parameter_set_of_a_mixture_pays_for_weights_and_delta(mixture):
    """`violation`, which tests of coverage read, pays for weights and delta too."""
    model, evidence = mixture

    def set_level(weights, delta):
        return violation(model.valid, weighted(evidence, weights), model.valid.center, delta)

    full = set_level([0.5, 0.5], DELTA)
    np.testing.assert_allclose(full - set_level([0.25, 0.5], DELTA), [LOG_2, 0], atol=1e-12)
    np.testing.assert_allclose(full - set_level([0.5, 0.5], DELTA / 2), [LOG_2] * 2, atol=1e-12)
    p = model.valid.rows @ model.valid.center
    loss = np.array([-(N[N > 0] * np.log(p[N > 0])).sum() for N in evidence.since])
    expected = loss - predicted_losses(evidence) - np.log(1 / (DELTA * 0.5))
    np.testing.assert_allclose(full, expected, atol=1e-9)


def test_ellipsoid_and_direct_method_use_the_log_threshold_of_their_e_process(mixture, monkeypatch):
    model, evidence = mixture
    confidence = certify.confidence(model, evidence, delta=DELTA)
    assert float(confidence.ball.slack) == float(confidence.slacks[confidence.bet])
    N = evidence.since[int(confidence.bet)]
    fit = maximum_likelihood(model.valid, N, evidence.theta)
    ball = ellipsoid(model.valid, N, fit, float(confidence.slacks[confidence.bet]))
    np.testing.assert_allclose(
        np.linalg.norm(confidence.ball.z, axis=1), np.linalg.norm(ball.z, axis=1), rtol=1e-6
    )

    class Asked(Exception):
        pass

    def separation(Z, N, below, above, W):
        raise Asked(W)

    monkeypatch.setattr(direct, "Separation", separation)
    with pytest.raises(Asked) as error:
        confidence.sharper("direct")
    assert error.value.args[0] == float(confidence.ball.slack)


def test_predictions_of_a_mixture_are_probabilities_fixed_before_the_episode(mixture):
    """Over the successors of a pair they sum to 1, and what came earlier in the episode does not change them."""
    model, evidence = mixture
    _, _, n = model.space.succ.shape
    H = model.space.horizon

    def prediction(s, a, *slots):
        j = np.full(H, UNSEEN, np.int32)
        j[: len(slots)] = slots
        states, actions = np.full(H + 1, s, np.int32), np.full(H, a, np.int32)
        with scope():
            updated = to_numpy(update(model, evidence, Trajectory(states, actions, j)))
        return np.append(updated.losses - evidence.losses, updated.table_loss - evidence.table_loss)

    single = np.array([prediction(1, 0, j) for j in range(n)])
    np.testing.assert_allclose(np.exp(-single).sum(0), 1.0, atol=1e-9)
    np.testing.assert_allclose(prediction(1, 0, 2, 2), 2 * single[2], atol=1e-9)


update = jax.jit(lambda model, evidence, trajectory: model.update(evidence, trajectory))


# Tables


@pytest.fixture(scope="module")
def table():
    P = np.random.default_rng(0).dirichlet(np.ones(4), size=(4, 2))
    P[3] = 0.0, 0.0, 0.0, 1.0
    problem = Tabular.from_table(P, horizon=4, support="given")
    return problem, small.pick(small.gather(problem, 100, [0]), 0)


def test_the_level_of_a_table_is_shared_by_all_unknown_pairs():
    share = 1 - radius.JOINT
    assert radius.level(7, DELTA) == pytest.approx(math.log(7 / (share * DELTA)), abs=1e-12)
    assert radius.level(14, DELTA) == pytest.approx(math.log(14 / (share * DELTA)), abs=1e-12)
    assert radius.level(0, DELTA) == pytest.approx(math.log(1 / (share * DELTA)), abs=1e-12)


@pytest.mark.parametrize("pairs", [1, 7, 212])
def test_the_shares_of_the_pairs_and_of_all_of_them_together_sum_to_delta(pairs):
    """Ville's inequality: an e-process exceeds exp(level) with probability exp(-level) at most."""
    assert 0 < radius.JOINT < 1
    shares = [math.exp(-radius.level(pairs, DELTA))] * pairs + [math.exp(-joint.level(DELTA))]
    assert sum(shares) == pytest.approx(DELTA, rel=1e-12)


def test_before_the_first_episode_a_table_is_log_of_pairs_over_delta_inside_its_set(table):
    """Every e-process starts at 1; that of all pairs has the lower level: -log(1 / (JOINT delta))."""
    problem, _ = table
    with scope():
        evidence = problem.model.init_evidence(ladder(100))
    assert float(problem.model.violation(evidence, problem.truth, DELTA)) == pytest.approx(
        -math.log(1 / (radius.JOINT * DELTA)), abs=1e-12
    )


def test_the_balls_of_a_table_are_those_of_the_level_of_all_pairs(table):
    problem, evidence = table
    s, a = np.asarray(problem.model.pairs).T
    possible = problem.space.support[s, a].sum(-1)
    expected = radius.balls(evidence.counts[s, a].astype(float), possible, radius.level(6, DELTA)).eps
    assert np.isfinite(expected).all()
    eps = certify.confidence(problem.model, evidence, delta=DELTA).balls.eps[s, a]
    np.testing.assert_allclose(eps, expected, rtol=1e-9)


def test_the_e_processes_of_a_pair_are_fair_and_their_weights_sum_to_one():
    """The mean over the next successor is the value before it: sum_i p_i E(N + e_i) = E(N), and E(0) = 1."""
    p, counts = np.array([0.1, 0.3, 0.6]), np.array([[0.0, 0, 0], [1, 0, 4], [30, 90, 200]])

    def e_value(N):
        return np.exp(radius.violation(N, np.broadcast_to(p, N.shape), np.full(len(N), 3.0), 0.0))

    current = e_value(counts)
    assert current[0] == pytest.approx(1, abs=1e-12)
    expected = sum(p[i] * e_value(counts + np.eye(3)[i]) for i in range(3))
    np.testing.assert_allclose(expected, current, rtol=1e-9)


@pytest.mark.parametrize("window", radius.WINDOWS)
def test_a_window_pays_for_the_e_processes_outside_of_it(window, monkeypatch):
    """Of m equal weights 1/m, log m for one of them and log(m/2) for the mean of two."""

    def expand(N, possible, start, need, enough):
        is_it = [start == window and r0 == 1 for r0, _ in radius.RARE]
        return np.broadcast_to(np.where(is_it, need, np.inf), (len(N), len(is_it)))

    monkeypatch.setattr(radius, "expand", expand)
    balls = radius.balls(np.zeros((1, 3)), np.array([3]), 2.0)
    expected = 2.0 + math.log(5 / len(window))
    assert float(balls.eps[0]) / radius.ROUNDING_FACTOR == pytest.approx(expected, abs=1e-12)


def test_the_kt_ball_pays_for_all_five_e_processes(monkeypatch):
    monkeypatch.setattr(radius, "expand", lambda N, *_: np.full((len(N), len(radius.RARE)), np.inf))
    N = np.array([[3.0, 5.0, 2.0]])
    balls = radius.balls(N, np.array([3]), 2.0)
    bet = gammaln(1.5) - gammaln(1.5 + 10) + (gammaln(N + 0.5) - gammaln(0.5)).sum()
    log_e = bet - (N * np.log(N / 10)).sum()
    expected = (2.0 + math.log(5) - log_e) / 10
    assert float(balls.eps[0]) / radius.ROUNDING_FACTOR == pytest.approx(expected, abs=1e-12)


# Linear MDPs


@pytest.fixture(scope="module")
def linear():
    problem = hf.make("linear-lock", blocks=2, per_block=2, actions=2, horizon=4)
    evidence = small.pick(small.gather(problem, 50, [0]), 0)
    return problem.model, evidence


def levels(model, evidence, delta=DELTA):
    """L of all functions and of declared ones, from the radii: beta = sqrt((logdet / 2 + L) / 2)."""
    confidence = certify.confidence(model, evidence, delta=delta)
    betas = np.array([confidence.beta_all, confidence.beta_declared])
    return 2 * betas**2 - confidence.fit.logdet / 2, confidence.bet


def test_levels_of_a_linear_mdp_pay_for_functions_weights_and_delta(linear):
    """(S-1) log 2 + log(1/(delta' w_j)) of all functions; log(4 (H-1) F / (delta w_j)) of F declared rewards.

    The last quarter of delta: second moments of declared rewards, one e-process for each of their (H-1) F values.
    """
    model, evidence = linear
    H, S, A = model.space.sizes
    evidence = weighted(evidence, [0.25, 0.5])
    (L_all, _), j = levels(model, evidence)
    w = [0.25, 0.5][j]
    assert L_all == pytest.approx(math.log(2 ** (S - 1) / (DELTA * w)), abs=1e-9)

    with_rewards = model.with_rewards(np.full((3, H, S, A), 0.1))
    (L_all, L_some), j = levels(with_rewards, evidence)
    w = [0.25, 0.5][j]
    assert L_all == pytest.approx(math.log(2 ** (S - 1) / (DELTA / 2 * w)), abs=1e-9)
    assert L_some == pytest.approx(math.log((H - 1) * 3 / (DELTA / 4 * w)), abs=1e-9)
    half_weights = levels(with_rewards, weighted(evidence, [0.125, 0.25]))[0]
    np.testing.assert_allclose(half_weights - [L_all, L_some], LOG_2, atol=1e-9)
    moments = certify.confidence(with_rewards, evidence, delta=DELTA).whole.moments
    assert moments.level == pytest.approx(math.log((H - 1) * 3 / (DELTA / 4)), abs=1e-12)
    failure_probabilities = [2 ** (S - 1) * math.exp(-L_all) / w, 3 * (H - 1) * math.exp(-L_some) / w]
    assert sum(failure_probabilities) + 3 * (H - 1) * math.exp(-moments.level) == pytest.approx(
        DELTA, rel=1e-9
    )


def test_the_parameter_set_of_a_linear_mdp_pays_for_functions_weights_and_delta(linear):
    """Before the first episode its excess is -sqrt(L / 2), of the e-process with the smallest L."""
    model, _ = linear
    H, S, A = model.space.sizes
    for variant, part in ((model, DELTA), (model.with_rewards(np.full((1, H, S, A), 0.1)), DELTA / 2)):
        with scope():
            empty = weighted(variant.init_evidence(ladder(50, 10)), [0.25, 0.5])
            args = to_device((variant, empty, np.zeros((variant.dim, S)), np.array(DELTA)))
            violation = float(args[0].violation(*args[1:]))
        assert 2 * violation**2 == pytest.approx(math.log(2 ** (S - 1) / (part * 0.5)), abs=1e-9)


def test_frequencies_that_refute_features_get_half_of_delta_for_all_pairs(monkeypatch, linear):
    """Frequencies: log(2^(S-1) S A / (delta/2)); the estimate: delta/2 times the weight of its e-process."""
    model, evidence = linear
    _, S, A = model.space.sizes
    N = np.zeros((S, A, S), np.int32)
    N[0, 0, 1] = 12
    L = math.log(2 ** (S - 1) * S * A / (DELTA / 2))
    allowed = math.sqrt(13) / 12 * math.sqrt((math.log(13) / 2 + L) / 2)
    prob = np.zeros((S, A, S))
    prob[..., 0] = 1.0  # total variation 1 from what was seen

    def is_refuted(e):
        o = np.zeros((S, A))
        fit = bounds.Fit(prob, np.zeros((S, A, 2)), np.full((S, A), e), o > 0, np.zeros(()))
        return bool(linear_confidence.contradictions(fit, 0.0, N, DELTA)[0, 0])

    assert allowed < 1
    assert is_refuted(1 - allowed - 1e-9)
    assert not is_refuted(1 - allowed + 1e-9)

    calls = []

    def contradictions(fit, beta, counts, delta):
        calls.append((2 * beta**2 - fit.logdet / 2, delta))
        return np.zeros((S, A), bool)

    monkeypatch.setattr(linear_confidence, "contradictions", contradictions)
    confidence = model.confidence(weighted(evidence, [0.25, 0.5]), DELTA)
    w = [0.25, 0.5][confidence.bet]
    assert calls == [
        (pytest.approx(math.log(2 ** (S - 1) / (DELTA / 2 * w)), abs=1e-9), pytest.approx(DELTA))
    ]


def test_levels_of_functions_that_span_a_cube_and_of_a_number_of_functions():
    assert bounds.level_of_all(5, DELTA) == pytest.approx(math.log(16 / DELTA), abs=1e-12)
    assert bounds.level_of_some(6, DELTA) == pytest.approx(math.log(6 / DELTA), abs=1e-12)
    assert bounds.level_of_some(0, DELTA) == pytest.approx(math.log(1 / DELTA), abs=1e-12)


# Kernels estimated from samples


def sampling(rows, is_fixed):
    N, m = np.array([[50, 0], [80, 7]]), np.array([[3, 3], [2, 1]])
    return Sampling(N, m, np.zeros((2, 2)), rows, is_fixed, False, 1.0, 4)


@pytest.mark.parametrize("is_fixed", [False, True])
def test_every_row_and_simulator_has_its_share_of_the_delta_of_samples(is_fixed):
    """rows / delta is all that matters, and t obeys its equation at log(rows / delta)."""
    divergence = sampling(6, is_fixed).divergence(DELTA)
    np.testing.assert_allclose(sampling(12, is_fixed).divergence(2 * DELTA), divergence, rtol=1e-12)
    assert divergence[0, 1] == math.inf
    assert divergence[1, 1] == 0
    for (N, m), kl in zip(((50, 3), (80, 2)), (divergence[0, 0], divergence[1, 0]), strict=True):
        t, k = N * kl, m - 1
        if is_fixed:
            level = t - k * math.log(math.e * t / k)
        else:
            level = t - (gammaln(0.5) + gammaln(N + m / 2) - gammaln(N + 0.5) - gammaln(m / 2))
        assert level == pytest.approx(math.log(6 / DELTA), abs=1e-9)


def test_from_simulators_counts_every_pair_of_every_simulator():
    counts = np.random.default_rng(0).integers(1, 9, size=(3, 4, 2, 4))
    problem = hf.from_simulators(list(counts), horizon=3)
    assert problem.sampling.rows == 3 * 4 * 2


def test_samples_and_episodes_share_delta(monkeypatch):
    """A fifth for the samples, the rest for the episodes; the certificate states the sum."""
    counts = np.random.default_rng(0).integers(1, 9, size=(2, 3, 2, 3)) * 1000
    problem = hf.from_simulators(list(counts), horizon=3)
    calls = []

    def robust_confidence(self, model, evidence, delta, misspecification):
        calls.append((delta, misspecification))
        return Stub(np.asarray(delta))

    monkeypatch.setattr(certificates.ConfidenceCache, "robust", robust_confidence)
    confidence = certificates.ConfidenceCache().get(problem, None, DELTA, 0.0)
    assert DELTA_SHARE == 0.2
    ((delta_left, misspecification),) = calls
    assert delta_left == pytest.approx(0.8 * DELTA, abs=1e-15)
    expected = problem.sampling.divergence(0.2 * DELTA)
    np.testing.assert_allclose(misspecification.sampled, expected, rtol=1e-12)
    assert delta_left + DELTA_SHARE * DELTA <= DELTA * (1 + 1e-15)
    assert float(confidence.delta) == DELTA


@dataclasses.dataclass(frozen=True)
class Stub:
    delta: np.ndarray
    known: str = ""
    layout: dict = dataclasses.field(default_factory=dict)


# Alternatives


def test_alternatives_together_have_one_delta():
    """m equal e-values have that value as their mean; one of m pays log m; the threshold is 1/delta."""
    for m in (1, 2, 5):
        equal = Check(tuple(Alternative("x", 3.0) for _ in range(m)), DELTA, 1)
        assert equal.log_e == pytest.approx(3.0, abs=1e-12)
        uninformative = [Alternative("x", -math.inf)] * (m - 1)
        for change, is_refuted in ((1e-9, True), (-1e-9, False)):
            borderline = Alternative("y", math.log(m / DELTA) + change)
            assert Check((*uninformative, borderline), DELTA, 1).is_refuted is is_refuted


def test_weights_inside_every_alternative_sum_to_at_most_one(monkeypatch, mixture):
    """Changes at one of several episodes 1/(k(k+1)), cuts of memory and age, starts, and priors of a noise."""
    model, evidence = mixture
    calls = []

    def record_mean(parts, weights):
        calls.append(np.asarray(weights))
        assert len(parts) == len(weights)
        assert (np.asarray(weights) > 0).all()
        assert np.sum(weights) <= 1 + 1e-12
        return 0.0

    for module in (check, any_law):
        monkeypatch.setattr(module, "mean_of", record_mean)
    monkeypatch.setattr(check, "_log_q_of_parts", lambda *_: 0.0)
    K, H = 40, 4
    log = Trajectory(np.zeros((K, H + 1), int), np.zeros((K, H), int), np.zeros((K, H), int))
    assert check._change(model, evidence, log) == 0.0
    k = np.arange(1, len(calls[0]) + 1)
    np.testing.assert_allclose(calls[0], 1 / (k * (k + 1)))
    assert check._change(model, evidence, None) == 0.0
    np.testing.assert_array_equal(calls[1], evidence.weights)
    assert check._age(model, log) == 0.0
    assert check._memory(model, log) == 0.0
    assert calls[2].sum() == pytest.approx(1)
    assert calls[3].sum() == pytest.approx(1)
    noise = hf.Mixture.from_noise(
        lambda s, a, w: (s + a + w) % 3,
        [0, 1],
        num_states=3,
        num_actions=2,
        horizon=3,
        models=[[0.9, 0.1], [0.2, 0.8]],
    )
    assert any_law.log_any_law(noise, np.zeros(noise.space.succ.shape, int)) == 0.0
    assert calls[4].sum() == pytest.approx(1)
