"""Summaries of a sweep: medians over seeds with their intervals, and slopes.

Intervals are 95 % bootstrap intervals over seeds: the percentiles of the medians of RESAMPLES draws with replacement.
The slope is that of log(median) against log(episodes), by least squares, and its interval comes from the same draws:
a curve that falls as K^-1/2 has slope -0.5.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Real

from horizonfree.sweeps.results import Sweep

RESAMPLES = 1000
TAIL_PERCENT = 2.5  # on either side of an interval
MAX_DRAWS = 2**22  # numbers that are drawn in one array


class Interval(NamedTuple):
    """A value and its 95 % interval; nan if there is none."""

    value: float
    low: float
    high: float


class Curve(NamedTuple):
    """The medians of a measure over the seeds of one setting at every checkpoint, with their intervals."""

    episodes: Int[np.ndarray, " C"]
    median: Float[np.ndarray, " C"]
    low: Float[np.ndarray, " C"]
    high: Float[np.ndarray, " C"]
    seeds: int
    slope: Interval

    def indices(self) -> dict[int, int]:
        """The index of each number of episodes."""
        return {int(k): i for i, k in enumerate(self.episodes)}


def curves(sweep: Sweep, measure: str, problem: str) -> dict[str, Curve]:
    """The curve of every explorer on a problem, without those that have no numbers."""
    rows = sweep.where(problem=problem)
    result = {name: median_curve(rows.where(explorer=name), measure) for name in sweep.spec.explorers}
    return {name: curve for name, curve in result.items() if curve is not None}


def median_curve(setting: Sweep, measure: str) -> Curve | None:
    """The curve of the rows of one setting, from the seeds that have a number at every checkpoint."""
    episodes, column = np.unique(setting["episodes"], return_inverse=True)
    seeds, row = np.unique(setting["seed"], return_inverse=True)
    values = np.full((len(seeds), len(episodes)), np.nan)
    values[row, column] = setting[measure]
    values = values[~np.isnan(values).any(axis=1)]
    if not len(values):
        return None
    drawn = bootstrap_medians(values)
    low, high = np.percentile(drawn, [TAIL_PERCENT, 100 - TAIL_PERCENT], axis=0)
    median = np.median(values, axis=0)
    return Curve(episodes, median, low, high, len(values), log_log_slope(episodes, median, drawn))


def bootstrap_medians(values: Float[np.ndarray, "S C"]) -> Float[np.ndarray, "R C"]:
    """Medians of seeds drawn with replacement, with a fixed random seed."""
    S, C = values.shape
    rng, parts, left = np.random.default_rng(0), [], RESAMPLES
    while left:
        count = max(1, min(left, MAX_DRAWS // (S * C)))
        parts.append(np.median(values[rng.integers(S, size=(count, S))], axis=1))
        left -= count
    return np.concatenate(parts)


def log_log_slope(
    sizes: Real[np.ndarray, " C"], median: Float[np.ndarray, " C"], drawn: Float[np.ndarray, "R C"]
) -> Interval:
    """The slope of log(median) against log(sizes)."""
    if len(sizes) < 2 or not (median > 0).all():
        return Interval(np.nan, np.nan, np.nan)
    x = np.log(sizes) - np.log(sizes).mean()
    with np.errstate(divide="ignore"):
        slopes = np.log(np.vstack([median, drawn])) @ x / (x @ x)
    usable = slopes[1:][np.isfinite(slopes[1:])]
    low, high = np.percentile(usable, [TAIL_PERCENT, 100 - TAIL_PERCENT]) if len(usable) else (np.nan, np.nan)
    return Interval(float(slopes[0]), float(low), float(high))
