"""What the evidence says: what makes it say more, what it has not seen, and when the class is wrong."""

import jax
import numpy as np
import pytest

from horizonfree import Mixture
from horizonfree._x64 import to_device, to_numpy
from horizonfree.errors import OptionError
from horizonfree.guarantees.e_processes import ladder
from horizonfree.mdp.space import Trajectory
from horizonfree.models import certify
from horizonfree.models.mixture import evidence as ev
from horizonfree.models.registry import diagnostics_of
from horizonfree.planning.induction import best_plan
from tests.reference import small
from tests.reference.episodes import full_features


def gathered(problem, episodes, seed=0):
    return small.pick(small.gather(problem, episodes, [seed]), 0)


def eps_of(model, evidence, **options):
    return certify.uniform(model, evidence, certify.confidence(model, evidence, **options)).eps


def for_plan(model, confidence, reward):
    """The certificate of the best plan under the estimate."""
    return certify.for_reward(model, confidence, reward, best_plan(confidence.kernel, reward).policy)


def test_more_data_and_less_confidence_give_smaller_gaps():
    problem = small.slips()
    few, many = (gathered(problem, K) for K in (50, 800))
    eps = [eps_of(problem.model, many, delta=delta) for delta in (0.001, 0.05, 0.5)]
    assert eps[0] > eps[1] > eps[2]
    assert eps_of(problem.model, few) > 1.5 * eps[1]


def test_the_certificate_does_not_depend_on_the_units_of_the_features():
    """Scaling and rotating phi changes nothing but the point where the first prediction starts; a ridge would."""
    problem = small.slips()
    model, rng = problem.model, np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0] * 0.01
    other = Mixture.from_features(
        full_features(model) * model.unit @ turn,
        horizon=problem.horizon,
        bound=1e3,
        theta=np.linalg.solve(turn, diagnostics_of(model).in_units(problem.truth)),
    )
    found = [eps_of(each.model, gathered(each, 60, seed=3)) for each in (problem, other)]
    assert found[0] == pytest.approx(found[1], rel=1e-3)


def test_one_step_needs_no_data():
    problem = small.dense(horizon=1)
    model, evidence = problem.model, gathered(problem, 1)
    confidence = certify.confidence(model, evidence)
    assert certify.uniform(model, evidence, confidence).eps == 0
    _, certificate = for_plan(model, confidence, np.random.default_rng(0).uniform(size=(1, 4, 2)))
    assert certificate.eps == model.rounding() < 6e-12
    assert certificate.summary() == "suboptimality at most 5.01e-12 (95% confidence, any stopping time)"


def test_nothing_to_learn_is_certified_at_once():
    P = np.random.default_rng(0).dirichlet(np.ones(3), size=(3, 2))
    for kernels in ([P], [P, P]):
        problem = Mixture.from_kernels(kernels, horizon=4, weights=np.ones(len(kernels)) / len(kernels))
        model, evidence = problem.model, gathered(problem, 2)
        confidence = certify.confidence(model, evidence)
        assert certify.uniform(model, evidence, confidence).eps == 0
        _, certificate = for_plan(model, confidence, np.full((4, 3, 2), 0.25))
        assert certificate.eps == model.rounding()


def test_no_data_certify_nothing_and_say_what_is_missing():
    model = small.slips().model
    with jax.enable_x64(True):
        evidence = to_numpy(to_device(model).init_evidence(ladder()))
    confidence = certify.confidence(model, evidence)
    certificate = certify.uniform(model, evidence, confidence)
    assert certificate.is_vacuous
    assert not certificate.is_rejected
    assert "2 of 2 unknown directions" in certificate.summary()
    assert confidence.more_episodes(0.1) == np.inf
    assert len(confidence.unsure_pairs()) > 0
    bounds, each = for_plan(model, confidence, np.full((6, 6, 2), 1 / 6))
    assert 0 <= each.eps <= 1
    assert np.isfinite(bounds.value)


def test_the_forecast_of_episodes_is_of_the_right_order():
    problem = small.slips()
    model = problem.model
    evidence = gathered(problem, 200, seed=1)
    now = certify.confidence(model, evidence)
    target = certify.uniform(model, evidence, now).eps / 2
    more = now.more_episodes(target)
    assert 200 < more < 200 * 10
    assert eps_of(model, gathered(problem, 200 + int(more), seed=1)) < 1.5 * target
    assert now.more_episodes(0.999999) == 0


def corridor(rates, delta=5e-7):
    """What 400 episodes of a corridor say when state s slips with rate rates[s]; the class knows one rate per half."""
    problem = small.slips()
    (H, S, _), space, model = problem.space.sizes, problem.space, problem.model
    rng = np.random.default_rng(0)
    s, a, j = np.zeros((400, H + 1), np.int32), np.ones((400, H), np.int32), np.zeros((400, H), np.int32)
    for k, h in np.ndindex(400, H):
        here = s[k, h]
        to = max(here - 1, 0) if rng.uniform() < rates[here] else min(here + 1, S - 1)
        j[k, h] = np.flatnonzero((space.succ[here, 1] == to) & space.support[here, 1])[0]
        s[k, h + 1] = to
    with jax.enable_x64(True):
        first = to_device(model).init_evidence(ladder(400))
        replay = jax.jit(lambda m, x: jax.lax.scan(lambda e, t: (m.update(e, t), None), first, x)[0])
        evidence = to_numpy(replay(*to_device((model, Trajectory(s, a, j)))))
    return model, evidence, certify.confidence(model, evidence, delta=delta)


def test_a_system_outside_the_class_is_rejected_and_one_inside_is_not():
    """Rejected wrongly with probability <= 2 delta = 1e-6. The table finds slip rates that differ within one half."""
    assert not corridor([0.2, 0.2, 0.2, 0.4, 0.4, 0.4])[2].is_refuted
    model, evidence, confidence = corridor([0.1, 0.7, 0.1, 0.6, 0.2, 0.6])
    for certificate in (
        certify.uniform(model, evidence, confidence),
        for_plan(model, confidence, np.zeros((6, 6, 2)))[1],
    ):
        assert certificate.is_rejected
        assert certificate.eps == 1
        assert (
            "no parameter explains the data (wrong with probability 1e-06 at most)" in certificate.summary()
        )


def test_an_impossible_transition_rejects_the_model():
    problem = small.slips()
    evidence = ev.MixtureEvidence(**{**vars(gathered(problem, 20)), "impossible": np.array(3, np.int32)})
    confidence = certify.confidence(problem.model, evidence)
    certificate = certify.uniform(problem.model, evidence, confidence)
    assert certificate.is_rejected
    assert "3 transitions are impossible" in certificate.summary()
    with jax.enable_x64(True):
        assert certify.uniform_eps(confidence) == 1


def test_the_traced_gap_is_that_of_the_certificate(x64):
    problem = small.slips(start=[0.5, 0, 0, 0.2, 0, 0.3])
    for episodes in (2, 400):
        evidence = gathered(problem, episodes)
        confidence = certify.confidence(problem.model, evidence)
        eps = certify.uniform(problem.model, evidence, confidence).eps
        assert certify.uniform_eps(confidence) == eps


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, 2.0])
def test_delta_must_be_a_probability_between_zero_and_one(delta):
    problem = small.slips()
    with pytest.raises(OptionError, match="delta"):
        certify.confidence(problem.model, gathered(problem, 2), delta=delta)
