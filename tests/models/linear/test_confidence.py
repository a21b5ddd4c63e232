"""What the evidence of a linear MDP says: declared rewards, refutation, forecasts, evidence of the past."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import horizonfree as hf
from horizonfree._x64 import to_device, x64
from horizonfree.errors import OptionError
from horizonfree.guarantees.e_processes import ladder
from horizonfree.mdp.rewards import resolve
from horizonfree.mdp.space import UNSEEN, Trajectory
from horizonfree.models import certify
from horizonfree.models.linear.model import whitening
from horizonfree.models.registry import diagnostics_of
from tests.models.linear.systems import tiny
from tests.reference import linear as reference


@pytest.fixture(scope="module")
def problem():
    return tiny()


@pytest.fixture(scope="module")
def run(problem):
    return hf.explore(problem, "uniform", episodes=3000, budget=3000, seed=1)


@pytest.fixture(scope="module")
def declared_confidence(problem):
    rewards = [hf.goal(problem, s) for s in (2, 5)]
    return hf.explore(problem, "uniform", episodes=3000, budget=3000, seed=1, rewards=rewards)


def fit_of_e_process(run, j):
    """The text's estimate of a bet."""
    x = run.evidence
    sums_since = x.gram - x.gram_at[j], x.cross - x.cross_at[j]
    return reference.Fit(np.asarray(run.problem.model.phi), x.gram_at[j], *sums_since)


def test_the_certificate_is_that_of_the_text(problem, run):
    """The bet after a tenth of the budget, of weight 0.9."""
    assert run.evidence.starts.tolist() == [0, 300]
    fit = fit_of_e_process(run, 1)
    L = reference.level_of_all(18, 0.05 * 0.9)
    expected = reference.uniform(fit, 5, problem.start, L)
    assert run.certificate().eps == pytest.approx(expected, abs=1e-9)
    assert run.certificate().parts["start"] == 300
    reward = hf.goal(problem, 5)
    plan = run.plan(reward)
    D, upper, _ = reference.bounds(fit, reward, plan.policy, problem.start, L, L)
    assert plan.certificate.parts["tangent"] == pytest.approx(D, abs=1e-9)
    assert plan.value_high <= upper + 1e-9


def test_declared_rewards_have_smaller_gaps_and_the_others_larger_ones(problem, run, declared_confidence):
    """All V at delta/2, the declared ones at log(4 (H-1) F / delta) twice."""
    fit, reward = fit_of_e_process(declared_confidence, 1), hf.goal(problem, 5)
    L_all, L = reference.level_of_all(18, 0.025 * 0.9), np.log(4 * 4 * 2 / (0.05 * 0.9))
    plan = declared_confidence.plan(reward)
    D, _, _ = reference.bounds(fit, reward, plan.policy, problem.start, L, L_all)
    assert plan.certificate.parts["tangent"] == pytest.approx(D, abs=1e-9)
    assert plan.gap < run.plan(reward).gap
    text_fit = fit_of_e_process(declared_confidence, 0)
    levels = np.log(4 * 4 * 2 / (0.05 * 0.1)), reference.level_of_all(18, 0.025 * 0.1)
    M, counts = reference.design(text_fit.phi), np.asarray(declared_confidence.evidence.counts)
    choose = reference.by_moments(text_fit, counts, M, np.log(4 * 2 * 4 / 0.05))
    D, upper, _ = reference.bounds(text_fit, reward, plan.policy, problem.start, *levels, choose)
    assert plan.certificate.parts["variance"] <= min(D, upper) + 1e-9
    assert declared_confidence.confidence().bounds(reward, plan.policy).high <= upper + 1e-9
    assert declared_confidence.certificate().eps == pytest.approx(
        reference.uniform(fit, 5, problem.start, L_all), abs=1e-9
    )
    other = hf.goal(problem, 5) * (1 - 1e-9)
    assert declared_confidence.plan(other).gap > run.plan(other).gap


def test_what_no_episode_comes_to_is_no_part_of_a_declared_reward(problem, run):
    """`rescale` leaves odd numbers there: in the first step, states that are not the start."""
    reward = np.random.default_rng(0).standard_normal((5, 18, 2))
    rescaled = hf.rescale(problem, reward)
    model = problem.with_rewards([rescaled]).model
    confidence = model.confidence(run.evidence, 0.05)
    assert confidence.is_declared(rescaled.table)
    table = rescaled.table.copy()
    table[4, 3, 0] += 1e-12
    assert not confidence.is_declared(table)


def test_other_classes_refuse_declared_rewards():
    lake = hf.make("river-swim", states=3, horizon=3)
    with pytest.raises(OptionError, match="hold for every reward alike"):
        hf.explore(lake, "uniform", episodes=1, rewards="goals")


def test_data_that_do_not_go_as_the_features_say_refute_the_class(problem):
    """Two pairs with the same features that lead to different states."""
    phi, s = np.asarray(problem.model.phi).copy(), problem.start
    phi[s, 1] = phi[s, 0]
    model = eqx.tree_at(lambda x: (x.phi, x.white), problem.model, (phi, whitening(phi)))
    actions = np.random.default_rng(0).integers(2, size=(400, 1))
    states = np.concatenate([np.full((400, 1), s), np.where(actions == 0, s, 7)], axis=1)
    certificate = hf.certify(dataclasses.replace(problem, model=model), (states, actions), budget=3000)
    assert certificate.is_rejected
    assert "do not go as these features allow" in certificate.summary()


def test_bounds_that_contradict_each_other_refute_the_class(problem, run):
    """lo > up: widths a thousand times too small beside an estimate that is off."""
    confidence = run.confidence()
    prob = np.roll(confidence.kernel.prob, 1, axis=1)
    inconsistent = dataclasses.replace(
        confidence,
        kernel=problem.space.kernel(prob),
        fit=dataclasses.replace(confidence.fit, prob=prob, X=confidence.fit.X * 1e-3, e=np.zeros((18, 2))),
        beta_all=-1e4,
    )
    _, certificate = certify.for_reward(
        problem.model, inconsistent, hf.goal(problem, 5), np.zeros((5, 18), np.int32)
    )
    assert certificate.is_rejected
    assert "explains the data" in certificate.summary()
    family = [resolve(problem, hf.goal(problem, 5))]
    assert certify.for_family(problem.model, inconsistent, family, "one").is_rejected


def test_forecasts_come_true_roughly(problem, run):
    """Nothing is proved of them; half or twice the episodes is near enough."""
    confidence = run.confidence()
    forecast, episodes = confidence.after(4.0)
    assert episodes == 2700 * 3
    assert float(forecast.eps) == pytest.approx(float(confidence.eps) / 2)
    num_more = confidence.more_episodes(float(confidence.eps) / 2)
    long_run = hf.explore(
        problem, "uniform", episodes=3000 + int(num_more), budget=3000 + int(num_more), seed=1
    )
    assert long_run.certificate().eps == pytest.approx(float(confidence.eps) / 2, rel=0.3)
    assert confidence.more_episodes(0.9) == 0


def test_what_is_missing_is_said(problem):
    short_run = hf.from_episodes(problem, ([[problem.start, 1]], [[0]]), budget=3000)
    text = short_run.certificate().summary()
    assert "nothing is known of" in text
    assert "well-chosen episodes" in text
    assert short_run.confidence().more_episodes(0.5) > 100


@x64
def test_steps_that_were_not_seen_add_nothing(problem):
    model = to_device(problem.model)
    first = model.init_evidence(ladder(None))
    s, a = np.array([4, 1, 2, 0, 0, 0], np.int32), np.array([0, 1, 0, 0, 0], np.int32)
    j = np.array([1, 2, UNSEEN, UNSEEN, UNSEEN], np.int32)
    updated = model.update(first, Trajectory(*map(jnp.asarray, (s, a, j))))
    x = np.asarray(problem.model.phi)[[4, 1], [0, 1]]
    np.testing.assert_allclose(np.asarray(updated.gram), x.T @ x, atol=1e-15)
    assert np.asarray(updated.cross).sum() == pytest.approx(x.sum())
    assert np.asarray(updated.counts).sum() == 2
    assert int(updated.impossible) == 0
    # the bet from the start counts it, the later ones track it
    assert not np.asarray(updated.gram_at[0]).any()
    np.testing.assert_array_equal(
        np.asarray(updated.gram_at[1:]), np.asarray(updated.gram)[None].repeat(7, 0)
    )


def test_the_evidence_remembers_what_it_was_when_bets_started(problem):
    run = hf.explore(problem, "uniform", episodes=100, budget=600, seed=2)
    short_run = hf.explore(problem, "uniform", episodes=60, budget=600, seed=2)
    (past,) = diagnostics_of(problem.model).evidence_history(run.evidence)
    for field in dataclasses.fields(short_run.evidence):
        if field.name != "counts":
            np.testing.assert_array_equal(getattr(past, field.name), getattr(short_run.evidence, field.name))


def test_inefficiency_is_what_the_best_further_episode_would_add(problem, run):
    """K T / d, T the largest expected sum of ||x||^2 in the inverse of the Gram matrix."""
    phi, gram = np.asarray(problem.model.phi), np.asarray(run.evidence.gram) + 0.1 * np.eye(3)
    bonus = np.einsum("sad,de,sae->sa", phi, np.linalg.inv(gram), phi)
    inefficiency = diagnostics_of(problem.model).inefficiency(run.evidence)
    with jax.enable_x64(True):
        model, evidence = to_device((problem.model, run.evidence))
        estimate = np.asarray(model.estimate(evidence).prob)
    np.testing.assert_allclose(estimate, np.asarray(problem.kernel().prob), atol=0.05)
    _, V = reference.plan(estimate, np.broadcast_to(bonus, (5, 18, 2)))
    assert inefficiency == pytest.approx(3000 * V[0, problem.start] / 3, abs=1e-9)
    assert inefficiency > 1.1  # random actions waste
