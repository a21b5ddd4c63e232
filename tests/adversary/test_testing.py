"""The public function: it accepts what is right, and finds bugs that are planted."""

from dataclasses import replace

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.models import certify
from tests.adversary import sets
from tests.adversary.systems import CLASSES, H

FEW = {"episodes": (5, 50), "seeds": (0, 1), "delta": (0.5,)}


@pytest.fixture(scope="module")
def mixture():
    return CLASSES["kernels"](np.random.default_rng(0), {"horizon": H, "start": 0})


def test_a_mixture_and_a_table_pass(mixture):
    table = CLASSES["table_given"](np.random.default_rng(0), {"horizon": H, "start": 0})
    for problem in (mixture, table):
        report = hf.testing.check_certificates(problem, **FEW)
        assert report.runs == 4
        assert report.statements > 1000
        assert report.worst_ratio <= 1 + 1e-6


def test_linear_mdps_have_another_test_of_membership():
    problem = CLASSES["linear"](np.random.default_rng(0), {"horizon": H, "start": 0})
    report = hf.testing.check_certificates(
        problem, **FEW, inside=lambda run, x, delta: sets.LinearSet(run, delta).inside(x)
    )
    assert not report.violations


def test_a_planted_bug_in_intervals_is_found(mixture, monkeypatch):
    def certified(*args):
        bounds, certificate = _certified(*args)
        return replace(bounds, low=bounds.low + 0.05), certificate

    _certified = certify.certified
    monkeypatch.setattr(certify, "certified", certified)
    with pytest.raises(AssertionError, match="value_low"):
        hf.testing.check_certificates(mixture, **FEW)


def test_a_planted_bug_in_gaps_is_found(mixture, monkeypatch):
    def smallest_gap(*args):
        gaps, method, eps = _smallest_gap(*args)
        return gaps, method, eps / 3

    _smallest_gap = certify.smallest_gap
    monkeypatch.setattr(certify, "smallest_gap", smallest_gap)
    report = hf.testing.check_certificates(mixture, **FEW, raise_error=False)
    assert any("gap" in sentence for sentence in report.violations)


def test_a_planted_bug_in_confidence_is_found(mixture, monkeypatch):
    """Certificates at delta = 0.99 that are sold as certificates at delta = 0.05."""

    def confidence(model, evidence, *, delta):
        return _confidence(model, evidence, delta=0.99)

    _confidence = certify.confidence
    monkeypatch.setattr(certify, "confidence", confidence)
    settings = FEW | {"episodes": (50,), "delta": (0.01,)}
    report = hf.testing.check_certificates(mixture, **settings, raise_error=False)
    assert report.violations
