"""Coverage of the balls and of the gaps over a thousand tables; words; shorter lists."""

from dataclasses import fields, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from horizonfree._x64 import scope as x64_scope
from horizonfree._x64 import to_device, to_numpy, x64
from horizonfree.guarantees.e_processes import ladder
from horizonfree.models import certify
from horizonfree.models.tabular import joint, radius
from horizonfree.models.tabular.evidence import TabularEvidence
from horizonfree.planning.induction import best_plan, policy_values
from horizonfree.planning.traced import Sampler
from horizonfree.problems.classes import Tabular
from tests.models.tabular.cases import policy_bounds, random_case, random_reward, random_table

S, A, M, H, DELTA, SEEDS, FEW = 4, 2, 3, 6, 0.5, 1000, 100
TIMES = (4, 15, 60, 300)  # episodes


@x64
def simulate(model, tables, policy):
    """The evidence of every table at every time, [SEEDS, TIMES]."""
    model, times = to_device(model), jnp.asarray((0, *TIMES))

    def simulate_table(table, key):
        sampler = Sampler.of(model.kernel(table))

        def learn(k, evidence):
            return model.update(evidence, sampler.episode(jax.random.fold_in(key, k), policy, model.space))

        def run_until(evidence, num_episodes):
            evidence = jax.lax.fori_loop(*num_episodes, learn, evidence)
            return evidence, evidence

        return jax.lax.scan(run_until, model.init_evidence(ladder(None)), (times[:-1], times[1:]))[1]

    simulate_all = jax.jit(jax.vmap(simulate_table))
    return to_numpy(simulate_all(tables, jax.random.split(jax.random.key(0), len(tables))))


def member(evidence, i, t):
    """The evidence of one table at one time."""
    return TabularEvidence(*(getattr(evidence, x.name)[i, t] for x in fields(evidence)))


def judge_rows(model, evidence, tables):
    """Per table and time: excess of the truth, and the largest KL less eps; the rows of all of them at once."""
    s, a = model.pairs.T
    counts = evidence.counts[:, :, s, a].astype(float)
    shape, n = counts.shape[:-1], counts.shape[-1]
    N, p = counts.reshape(-1, n), np.broadcast_to(tables[:, None, s, a], counts.shape).reshape(-1, n)
    possible = np.broadcast_to(model.space.support[s, a].sum(-1), shape).reshape(-1)
    level = radius.level(len(s), DELTA)
    excess = radius.violation(N, p, possible.astype(float), level).reshape(shape).max(-1)
    joint_log_e = joint.log_e(N, p).reshape(shape).sum(-1) - joint.level(DELTA)
    balls = radius.balls(N, possible, level)
    is_used = balls.centre > 0
    ratio = np.where(is_used, balls.centre, 1.0) / np.where(is_used, p, 1.0)
    kl = (balls.centre * np.log(ratio)).sum(-1)
    return np.maximum(excess, joint_log_e), (kl - balls.eps).reshape(shape).max(-1)


def check_guarantees(model, evidence, table, reward):
    """KL less eps, loss less each gap, how far its value is outside, and the tangent gap."""
    confidence, truth = certify.confidence(model, evidence, delta=DELTA), model.kernel(table)
    balls, at = confidence.balls, model.space.at_start
    P = truth.dense()[np.arange(S)[:, None, None], np.arange(A)[:, None], balls.succ]
    is_used = balls.prob > 0
    kl = (balls.prob * np.log(np.where(is_used, balls.prob / np.where(is_used, P, 1.0), 1.0))).sum(-1)
    policy = best_plan(confidence.centre, reward).policy
    bounds = confidence.bounds(reward, policy)
    value = at(policy_values(truth, reward, policy)[0])
    loss = at(best_plan(truth, reward).V[0]) - value
    gaps = max(loss - gap for gap in bounds.gaps.values())
    excess = max(bounds.low - value, value - bounds.high)
    return (kl - balls.eps).max(), gaps, excess, bounds.gaps["tangent"]


@pytest.mark.parametrize("support", ["any", "given"])
def test_a_thousand_tables_at_four_times(support):
    """Truth outside at some time: at most a share delta; inside, no KL above eps, no loss above a gap, no value beyond.

    1000 tables at delta = 0.5: more than 577 have the truth outside with probability below 1e-6 (binomial). The rest is
    deterministic: of FEW tables also the bounds.
    """
    rng = np.random.default_rng(0)
    mask = random_table(rng, S, A, M) > 0
    model = Tabular(S, A, H, support=mask if support == "given" else None).model
    tables = []
    for _ in range(SEEDS):
        P = np.where(mask, rng.gamma(rng.choice([0.3, 1.0, 5.0]), size=mask.shape) + 1e-9, 0.0)
        tables.append(model.parameter(P / P.sum(-1, keepdims=True), "P"))
    tables = np.stack(tables)
    rewards = np.stack([random_reward(rng, H, S, A) for _ in range(FEW)])
    evidence = simulate(model, tables, np.full((H, S, A), 1 / A))
    excess, outside = judge_rows(model, evidence, tables)
    assert (excess > 0).any(axis=1).sum() <= 577
    assert outside[excess <= 0].max() <= 1e-9
    evidences = [[member(evidence, i, t) for t in range(len(TIMES))] for i in range(FEW)]
    violations = [[model.violation(x, table, DELTA) for x in row] for row, table in zip(evidences, tables)]
    np.testing.assert_allclose(violations, excess[:FEW], rtol=1e-12, atol=1e-12)
    results = [
        [check_guarantees(model, x, *args) for x in row] for row, *args in zip(evidences, tables, rewards)
    ]
    outside, gaps, excesses, tangent = np.moveaxis(np.array(results), -1, 0)
    assert outside[excess[:FEW] <= 0].max() <= 1e-9
    is_inside = excess[:FEW] <= 0
    assert gaps[is_inside].max() <= 1e-9
    assert excesses[is_inside].max() <= 1e-9
    assert (tangent[:, -1] < 0.9).mean() > 0.9  # and they say something


def test_little_data_say_what_is_missing_and_how_much_would_help():
    case = random_case(0, episodes=1)
    confidence = case.confidence
    text = confidence.missing()
    assert "of 6 unknown pairs (s,a)" in text
    assert "episodes in all" in text
    assert confidence.parts()["pairs"] == 6
    assert 0 < confidence.more_episodes(0.1) < np.inf
    certificate = certify.uniform(case.problem.model, case.evidence, confidence)
    assert certificate.eps == 1
    assert certificate.summary().startswith("vacuous: nothing is known of")


def test_forecasts_are_about_right():
    """Four times the data halve the gap: what is foreseen from a tenth of the data is right within a factor of 1.5."""
    short_case, long_case = (random_case(0, episodes=episodes) for episodes in (2_000, 20_000))
    target = float(long_case.confidence.eps)
    assert 2_000 + short_case.confidence.more_episodes(target) == pytest.approx(20_000, rel=0.5)
    assert short_case.confidence.more_episodes(0.99) == 0.0
    forecast, episodes = short_case.confidence.after(10.0)
    assert episodes == 18_000
    assert float(forecast.eps) == pytest.approx(target, rel=0.3)


def test_forecasts_of_bounds_are_those_of_smaller_balls():
    """Balls of which nothing is known stay as they are, and so do all bounds."""
    reward = random_reward(np.random.default_rng(0), 4, 3, 2)
    policy = np.zeros((4, 3), np.int32)
    none, short_case = (random_case(0, episodes=episodes) for episodes in (0, 200))
    assert policy_bounds(none, reward, policy, none.confidence.after(1e4)[0]) == policy_bounds(
        none, reward, policy
    )
    bounds, forecast = (
        policy_bounds(short_case, reward, policy),
        policy_bounds(short_case, reward, policy, short_case.confidence.after(10.0)[0]),
    )
    for name in ("uniform", "interval", "tangent"):
        assert forecast[name] < bounds[name]


def test_the_class_is_refuted_by_what_it_calls_impossible():
    mask = np.ones((3, 2, 3), bool)
    mask[:, :, 0] = False
    model = Tabular(3, 2, 4, support=mask).model
    evidence = random_case(0, episodes=50, support="any").evidence
    wrong = replace(evidence, impossible=np.asarray(3, np.int32))
    confidence = certify.confidence(model, wrong)
    assert bool(confidence.is_refuted)
    assert "3 transitions are impossible" in certify.uniform(model, wrong, confidence).summary()


@pytest.mark.parametrize("episodes", [0, 20, 200])
@pytest.mark.parametrize("support", ["any", "given"])
def test_lists_of_what_was_seen_say_the_same_as_those_of_all_that_is_possible(support, episodes):
    """Every number of the balls, of the gaps for every reward and of the bounds of one, to rounding."""
    case = random_case(5, S=9, m=2, episodes=episodes, support=support, terminal=(3,))
    full, short = case.in_full(), case.confidence
    assert short.balls.succ.shape[2] == (2 if episodes else 1)
    assert full.balls.succ.shape[2] == (9 if support == "any" else 2)
    np.testing.assert_allclose(short.kernel.dense()[case.pairs], full.kernel.dense()[case.pairs], rtol=1e-14)
    np.testing.assert_allclose(short.balls.eps, full.balls.eps, rtol=1e-12)
    np.testing.assert_array_equal(short.balls.is_open, full.balls.is_open)
    assert float(short.eps) == pytest.approx(float(full.eps), rel=1e-12)
    reward = random_reward(np.random.default_rng(0), *case.problem.space.sizes)
    policy = best_plan(short.centre, reward).policy
    bounds = [policy_bounds(case, reward, policy, confidence) for confidence in (short, full)]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-10, abs=1e-12)


def test_rows_that_lead_to_one_state_or_are_out_of_reach_are_listed():
    """The lists of a model without data: known rows are right, rows out of reach are distributions."""
    possible = np.zeros((8, 1, 8), bool)
    possible[np.arange(8), 0, [1, 2, 3, 3, 3, 3, 3, 3]] = True
    possible[1, 0, [4, 5]] = True
    possible[7, 0, [0, 5]] = True
    model = Tabular(8, 1, 4, support=possible).model
    with x64_scope():
        empty = model.init_evidence(ladder(None))
    kernel = certify.confidence(model, to_numpy(empty)).kernel.dense()
    for s in (0, 2, 3, 4, 5, 6):
        np.testing.assert_array_equal(kernel[s, 0], possible[s, 0])
    assert kernel[1].sum() == 0  # unknown: it leads nowhere
    assert kernel[7].sum() == 1


def test_without_a_divergence_the_episodes_seen_count_towards_those_of_the_best_design():
    """2 (n eps) X / target^2 episodes in all, 14 for n eps where nothing is known."""
    confidence = random_case(0, episodes=3).confidence
    unknown = replace(
        confidence,
        balls=replace(confidence.balls, eps=np.full_like(confidence.balls.eps, np.inf)),
        uniform=replace(confidence.uniform, kappa=np.inf),
        eps=1.0,
    )
    in_all = 2 * 14.0 * len(confidence.pairs) / 0.5**2
    assert unknown.needed(0.5) == pytest.approx(in_all)
    assert unknown.more_episodes(0.5) == np.ceil(in_all - 3)
    more_data = replace(unknown, episodes=10**6)
    assert more_data.more_episodes(0.5) == 0
