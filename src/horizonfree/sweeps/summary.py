"""What the rows of a sweep say: medians over seeds with their intervals, and slopes.

Intervals are bootstrap intervals over seeds: seeds are drawn with replacement, RESAMPLES times, and the middle 95 % of
the medians so found are kept. The slope is that of log(median) against log(episodes), by least squares, and its
interval comes from the same draws: a curve that falls as K^-1/2 has slope -0.5.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Real

from horizonfree.sweeps.table import Sweep

RESAMPLES = 1000
TAIL = 2.5  # per cent on either side of an interval
BLOCK = 2**22  # numbers that are drawn at once


class Middle(NamedTuple):
    """A number and its interval; nan where there is none."""

    value: float
    low: float
    high: float


class Curve(NamedTuple):
    """Of one measure and one setting: the median of the seeds at every checkpoint, with its interval."""

    episodes: Int[np.ndarray, " C"]
    median: Float[np.ndarray, " C"]
    low: Float[np.ndarray, " C"]
    high: Float[np.ndarray, " C"]
    seeds: int
    slope: Middle

    def places(self) -> dict[int, int]:
        """Where each number of episodes stands."""
        return {int(k): i for i, k in enumerate(self.episodes)}


def curves(found: Sweep, measure: str, problem: str) -> dict[str, Curve]:
    """The curve of every explorer on a problem; left out are those without numbers."""
    there = found.where(problem=problem)
    made = {name: curve_of(there.where(explorer=name), measure) for name in found.spec.explorers}
    return {name: curve for name, curve in made.items() if curve is not None}


def curve_of(found: Sweep, measure: str) -> Curve | None:
    """The curve of the rows of one setting; seeds that have not a number at every checkpoint do not count."""
    looks, column = np.unique(found["episodes"], return_inverse=True)
    seeds, row = np.unique(found["seed"], return_inverse=True)
    values = np.full((len(seeds), len(looks)), np.nan)
    values[row, column] = found[measure]
    values = values[~np.isnan(values).any(axis=1)]
    if not len(values):
        return None
    drawn = resampled(values)
    low, high = np.percentile(drawn, [TAIL, 100 - TAIL], axis=0)
    median = np.median(values, axis=0)
    return Curve(looks, median, low, high, len(values), slope(looks, median, drawn))


def resampled(values: Float[np.ndarray, "S C"]) -> Float[np.ndarray, "R C"]:
    """Medians of seeds drawn with replacement; the same draws every time."""
    S, C = values.shape
    rng, parts, left = np.random.default_rng(0), [], RESAMPLES
    while left:
        count = max(1, min(left, BLOCK // (S * C)))
        parts.append(np.median(values[rng.integers(S, size=(count, S))], axis=1))
        left -= count
    return np.concatenate(parts)


def slope(
    looks: Real[np.ndarray, " C"], median: Float[np.ndarray, " C"], drawn: Float[np.ndarray, "R C"]
) -> Middle:
    """Of log(median) against log(episodes), or against that of any other size."""
    if len(looks) < 2 or not (median > 0).all():
        return Middle(np.nan, np.nan, np.nan)
    x = np.log(looks) - np.log(looks).mean()
    with np.errstate(divide="ignore"):
        found = np.log(np.vstack([median, drawn])) @ x / (x @ x)
    usable = found[1:][np.isfinite(found[1:])]
    low, high = np.percentile(usable, [TAIL, 100 - TAIL]) if len(usable) else (np.nan, np.nan)
    return Middle(float(found[0]), float(low), float(high))
