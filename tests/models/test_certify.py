"""Forecasts of certificates for one reward: the smallest multiple of the data that is enough, of those looked at."""

import math
from unittest.mock import Mock

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.guarantees.certificate import forecast, target_below
from horizonfree.models import base, certify
from horizonfree.models.base import Confidence, Model


@pytest.mark.parametrize(
    "enough", [base.FORECAST_TIMES[0], base.FORECAST_TIMES[7], base.FORECAST_TIMES[-1], math.inf]
)
def test_a_forecast_names_the_first_multiple_that_is_enough_up_to_the_last_one(enough, monkeypatch):
    eps, confidence = 0.5, Mock(spec=Confidence)
    confidence.parts.return_value = {}
    confidence.episodes_until = lambda is_enough: Confidence.episodes_until(confidence, is_enough)
    confidence.after.side_effect = lambda times: (Mock(spec=Confidence, times=times), 100 * times)
    target = target_below(eps)
    assert target

    monkeypatch.setattr(certify, "bounds", lambda forecast, *_: forecast.times)
    monkeypatch.setattr(
        certify, "smallest_gap", lambda times, _: (None, None, target if times >= enough else 1.0)
    )
    o = np.zeros((1, 1, 1))
    assert certify._forecast(Mock(spec=Model), confidence, o, o, eps) == forecast(target, 100 * enough)
    assert confidence.episodes_until(lambda forecast: forecast.times >= enough) == 100 * enough


@pytest.mark.parametrize("name", ["river-swim", "zoned-grid", "tabular"])
def test_the_forecast_for_every_reward_and_that_of_the_data_many_times_over_are_one(name):
    """`more_episodes` is the inverse of `after`, which forecasts for single rewards and constraints look at."""
    problem = hf.make("river-swim" if name == "tabular" else name)
    view = problem.as_tabular() if name == "tabular" else problem
    confidence = hf.explore(view, episodes=3000, progress=False).confidence()
    assert 0 < confidence.eps < 1
    for share in (0.9, 0.5, 0.1):
        target = share * float(confidence.eps)
        num_more = confidence.more_episodes(target)
        low, high = (1.25**k for k in (-1, 1))
        assert (
            low * num_more
            <= confidence.episodes_until(lambda x, t=target: x.eps <= t)
            <= high * num_more + 1000
        )
        num_episodes = confidence.after(2.0)[1]  # episodes that one more time are
        assert confidence.after(1 + num_more / num_episodes)[0].eps == pytest.approx(target, rel=0.1)
