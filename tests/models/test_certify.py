"""Forecasts of certificates for one reward: the smallest multiple of the data that is enough, of those looked at."""

import math
from unittest.mock import Mock

import numpy as np
import pytest

from horizonfree.guarantees.certificate import forecast, target_below
from horizonfree.models import certify
from horizonfree.models.base import Confidence, Model


@pytest.mark.parametrize(
    "enough", [certify.FORECAST_TIMES[0], certify.FORECAST_TIMES[7], certify.FORECAST_TIMES[-1], math.inf]
)
def test_a_forecast_names_the_first_multiple_that_is_enough_up_to_the_last_one(enough, monkeypatch):
    eps, confidence = 0.5, Mock(spec=Confidence)
    confidence.parts.return_value = {}
    confidence.after.side_effect = lambda times: (times, 100 * times)
    target = target_below(eps)
    assert target

    monkeypatch.setattr(certify, "bounds", lambda times, *_: times)
    monkeypatch.setattr(
        certify, "smallest_gap", lambda times, _: (None, None, target if times >= enough else 1.0)
    )
    o = np.zeros((1, 1, 1))
    assert certify._forecast(Mock(spec=Model), confidence, o, o, eps) == forecast(target, 100 * enough)
