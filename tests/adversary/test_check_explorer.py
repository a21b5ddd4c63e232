"""`check_explorer` passes what is right and finds every planted fault; `check_model` likewise."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.explorers.registry import make_explorer
from horizonfree.models.registry import CLASSES, ModelClass
from horizonfree.models.tabular.model import TabularModel
from tests.adversary import planted
from tests.reference.known_kernel.model import KnownConfidence, KnownDiagnostics, KnownModel

FAULTS = {
    "no peeking at the truth": [planted.FrameReader, planted.TracingReader],
    "same seed, same bits": [planted.Counter, planted.GlobalRandom, planted.TraceTimeRandom],
    "resume to the bit": [planted.Counter],
    "runs": [planted.BadPolicy, planted.Changer, planted.Grower, planted.NotANumber, planted.TwoNames],
    "options": [planted.Unstorable],
    "own claim": [planted.Boaster],
    "plans": [planted.Dreamer],
    "interface": [planted.Extra],
}


@pytest.mark.parametrize("kind", [planted.LeastTaken, planted.RandomGoals])
def test_a_right_explorer_passes_every_check(kind):
    report = hf.testing.check_explorer(kind)
    assert len(report.passed) == 10
    assert not report.failed


@pytest.mark.parametrize("name", ["optimal-design", "rf-ucrl"])
def test_explorers_of_the_library_pass(name):
    hf.testing.check_explorer(make_explorer(name))


@pytest.mark.parametrize(("check", "kind"), [(check, kind) for check in FAULTS for kind in FAULTS[check]])
def test_a_planted_fault_is_found(check, kind):
    report = hf.testing.check_explorer(kind, only=[check], raise_error=False)
    assert list(report.failed) == [check]
    with pytest.raises(AssertionError, match=kind.__name__):
        report.raise_for_failures()


def test_an_option_that_is_the_truth_is_found():
    problem = hf.make("river-swim", states=3, horizon=4)
    oracle = planted.Oracle(np.asarray(problem.kernel().dense()))
    check = "no peeking at the truth"
    report = hf.testing.check_explorer(oracle, problem, only=[check], raise_error=False)
    assert "option kernel holds the true transition probabilities" in report.failed[check]


def test_a_class_of_models_passes_where_its_sets_are_right_and_fails_where_they_are_too_small(monkeypatch):
    river = hf.make("river-swim", states=3, horizon=4)
    hf.testing.check_model(river)

    class Narrow(TabularModel):  # a set that excludes the truth most of the time
        def violation(self, evidence, parameter, delta):
            return super().violation(evidence, parameter, delta) + 20.0

    table = river.as_tabular()
    fields = {x.name: getattr(table.model, x.name) for x in dataclasses.fields(table.model)}
    narrow = table._replace(model=Narrow(**fields))
    report = hf.testing.check_model(narrow, only=["coverage"], raise_error=False)
    assert "outside the confidence set in" in report.failed["coverage"]


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setitem(CLASSES, "known", ModelClass(KnownModel, KnownDiagnostics))
    river = hf.make("river-swim", states=3, horizon=4)
    return hf.Problem(KnownModel(river.space, river.kernel().prob), np.asarray(1.0), "a known river")


def test_a_fourth_class_passes(known):
    assert not hf.testing.check_model(known, raise_error=False).failed


def test_bounds_that_are_too_small_and_counts_that_are_wrong_are_found(known, monkeypatch):
    def bounds(self, reward, policy):
        right = _bounds(self, reward, policy)
        return replace(right, high=right.high - 0.1)

    _bounds = KnownConfidence.bounds
    with monkeypatch.context() as patch:
        patch.setattr(KnownConfidence, "bounds", bounds)
        report = hf.testing.check_model(known, only=["bounds"], raise_error=False)
    assert "below the value" in report.failed["bounds"]

    class Forgetful(TabularModel):
        def update(self, evidence, trajectory):
            return replace(super().update(evidence, trajectory), counts=evidence.counts)

    table = hf.make("river-swim", states=3, horizon=4).as_tabular()
    fields = {x.name: getattr(table.model, x.name) for x in dataclasses.fields(table.model)}
    report = hf.testing.check_model(
        table._replace(model=Forgetful(**fields)), only=["evidence"], raise_error=False
    )
    assert "visits" in report.failed["evidence"]
