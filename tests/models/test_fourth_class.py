"""A model class is one folder (tests/reference/known_kernel) and one line in the registry; everything else follows."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import OptionError
from horizonfree.models.registry import CLASSES, ModelClass
from horizonfree.planning import optimal
from horizonfree.problems.problem import Problem
from horizonfree.report.facts import compute_facts
from tests.reference.known_kernel.model import KnownDiagnostics, KnownModel


@pytest.fixture
def problem(monkeypatch):
    monkeypatch.setitem(CLASSES, "known", ModelClass(KnownModel, KnownDiagnostics))
    river = hf.make("river-swim")
    return Problem(KnownModel(river.space, river.kernel().prob), np.asarray(1.0), "a known river")


def test_a_fourth_class_explores_certifies_plans_saves_and_loads(problem, tmp_path):
    run = hf.explore(problem, episodes=30, seed=1, progress=False)
    assert run.explorer_spec.name == "uniform"
    assert run.visits.sum() == 30 * problem.horizon
    certificate = run.certificate()
    assert certificate.eps < 1e-11
    assert certificate.assumes == "the transition probabilities are known"

    reward = hf.goal(problem, problem.num_states - 1)
    plan = run.plan(reward)
    best = problem.space.at_start(optimal(problem.kernel(), reward).V[0])
    assert plan.value == pytest.approx(best)
    assert plan.value_low <= best <= plan.value_high
    assert plan.gap < 1e-11
    stay = np.zeros_like(plan.policy)
    assert run.evaluate(reward, stay).gap == pytest.approx(best - run.evaluate(reward, stay).value)
    difference = run.compare(reward, plan.policy, stay)
    assert difference.low <= difference.difference <= difference.high
    assert run.certificate(rewards="goals", progress=False).eps < 1e-11
    # a payment for transitions, which lifts the states
    costs = np.fromfunction(
        lambda s, a, t: (s % 2) * (t % 3) / 100, (*problem.actions_allowed.shape, problem.num_states)
    )
    assert run.plan(reward / 4, transition=costs).gap < 1e-10

    run.save(tmp_path / "run")
    loaded = hf.load(tmp_path / "run")
    assert isinstance(loaded.problem.model, KnownModel)
    assert loaded.certificate() == certificate
    assert loaded.plan(reward).gap == plan.gap
    assert loaded.resume(episodes=10).episodes == 40


def test_reports_and_batches_take_a_fourth_class(problem):
    run = hf.explore(problem, episodes=5, progress=False)
    facts = compute_facts(run)
    assert (facts.uncertainty[problem.space.reachable] == 0).all()
    assert facts.intervals is None
    batch = hf.explore_many(
        problem, episodes=5, seeds=2, checkpoints=[5], curves=["eps", "excess", "gap"], progress=False
    )
    assert (batch.curves["eps"] < 1e-11).all()
    assert (batch.curves["excess"] == 0).all()


def test_what_needs_more_is_an_explanatory_error(problem):
    run = hf.explore(problem, episodes=5, progress=False)
    with pytest.raises(OptionError, match="proved for mixtures and tables"):
        run.certificate(misspecification=0.1)
    with pytest.raises(OptionError, match="no weights"):
        _ = run.weights
    with pytest.raises(OptionError, match="no theta"):
        _ = run.theta_hat
