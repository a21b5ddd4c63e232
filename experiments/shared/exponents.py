"""Exponents: the slope of log(median) against log(size), from runs on several instances, with censored values.

Values are an array [sizes, instances, seeds]. 0 stands for a value that is smaller than could be measured (a target
that is met at the first checkpoint), infinity for a larger one (a target that is never met, a bound at its cap).

**Censoring.** Of a size only the median over all runs is used, a rank: which values the censored ones have beyond
the limit does not change it. A size with more than a tenth of its values censored, or with a missing value, is dropped,
and an exponent needs three sizes that are left.

**Intervals** are 95 % and describe new instances of the same kind: instances are drawn with replacement, all sizes of
one together, then the seeds of each. The percentiles are wider than 2.5 and 97.5, as a t-interval of so few instances
is (Hesterberg 2015, "What teachers should know about the bootstrap": expanded percentiles). With one instance seeds
alone are drawn, and the interval describes that instance.

**Curvature.** `bend` is the coefficient of the square of the centred log(size). Where its interval leaves out 0, the
curve is no power law, and `last`, the slope between the two largest sizes, stands beside the exponent. Of straight
curves about one in twenty is called bent.
"""

from typing import NamedTuple

import numpy as np
import scipy.stats

CENSORED_SHARE = 0.1  # of the values of a size: with more it is dropped
FEWEST_SIZES = 3
DRAWS = 1000
TAIL = 0.025  # on either side of an interval
ROUNDING = 1e-9


class Exponent(NamedTuple):
    """A slope with its interval, the curvature with its interval, and what they rest on; nan: too few sizes.

    least, largest: of the slopes of single instances, where none of their values is censored.
    """

    value: float
    low: float
    high: float
    bend: float
    bend_low: float
    bend_high: float
    last: float
    sizes: tuple[float, ...]
    dropped: tuple[float, ...]
    instances: int
    least: float
    largest: float

    @property
    def is_bent(self) -> bool:
        """Whether the curve is no power law."""
        return self.bend_low > ROUNDING or self.bend_high < -ROUNDING

    @property
    def spread(self) -> str:
        """The slopes of single instances, as text."""
        return "" if np.isnan(self.least) else f"{self.least:+.2f} to {self.largest:+.2f}"

    def __str__(self) -> str:
        if np.isnan(self.value):
            return f"? ({len(self.sizes)} of {len(self.sizes) + len(self.dropped)} sizes)"
        text = f"{self.value:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"
        text += f", bent, last {self.last:+.2f}" if self.is_bent else ""
        return text + (f", {self.sizes[0]:g} to {self.sizes[-1]:g} only" if self.dropped else "")


def censored(values: np.ndarray, cap: float = np.inf, floor: float = 0.0) -> np.ndarray:
    """Values with those at the cap replaced by infinity and those at the floor by 0."""
    values = np.asarray(values, float)
    return np.where(values >= cap, np.inf, np.where(values <= floor, 0.0, values))


def crossing(episodes: np.ndarray, values: np.ndarray, target: float) -> float:
    """After how many episodes a number is at most the target, and stays so until the last checkpoint.

    0: at the first checkpoint already. Infinity: not at the last one. Between two checkpoints the logarithms are
    joined by a line.
    """
    above = np.flatnonzero(np.asarray(values) > target)
    first = 0 if not len(above) else above[-1] + 1
    if first == len(values):
        return np.inf
    if first == 0:
        return 0.0
    y, K = np.log(np.maximum(values[first - 1 : first + 1], 1e-12)), np.log(episodes[first - 1 : first + 1])
    return float(np.exp(K[0] + (y[0] - np.log(target)) / (y[0] - y[1]) * (K[1] - K[0])))


def exponent(sizes: list[float], values: np.ndarray) -> Exponent:
    """The exponent of values [sizes, instances, seeds]."""
    sizes, values = np.asarray(sizes, float), np.asarray(values, float)
    I, S = values.shape[1:]
    is_out = (values == 0) | np.isinf(values)
    kept = (is_out.mean((1, 2)) <= CENSORED_SHARE) & ~np.isnan(values).any((1, 2))
    used, dropped = tuple(sizes[kept].tolist()), tuple(sizes[~kept].tolist())
    if len(used) < FEWEST_SIZES:
        return Exponent(*[np.nan] * 7, used, dropped, I, np.nan, np.nan)
    x, y = np.log(sizes[kept]), values[kept]
    table = np.concatenate([np.median(y.reshape(len(x), -1), 1)[None], _drawn_medians(y)])
    with np.errstate(divide="ignore", invalid="ignore"):  # draws with a censored median are left out
        slope, bend = fits(x, np.log(table))
        last = float(np.diff(np.log(table[0]))[-1] / np.diff(x)[-1])
    (low, high), (bend_low, bend_high) = (interval(z[1:], I if I > 1 else S) for z in (slope, bend))
    found = float(slope[0]), low, high, float(bend[0]), bend_low, bend_high, last
    return Exponent(*found, used, dropped, I, *_spread(x, y, ~is_out[kept].any((0, 2))))


def draws(instances: int, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices [draws, instances, seeds]: instances drawn with replacement, and seeds drawn within each."""
    rng = np.random.default_rng(0)
    chosen = rng.integers(instances, size=(DRAWS, instances, 1))
    return chosen, rng.integers(seeds, size=(DRAWS, instances, seeds))


def fits(x: np.ndarray, logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slopes of lines, and the coefficients of the squares of parabolas, by least squares, for each row of logs."""
    x = x - x.mean()
    slope = logs @ x / (x @ x)
    square = x**2 - (x**2).mean() - x * (x**3).sum() / (x @ x)  # orthogonal to lines
    return slope, logs @ square / (square @ square)


def interval(drawn: np.ndarray, n: int) -> tuple[float, float]:
    """The 95 % interval of draws that come from n instances; draws that are no number are left out."""
    usable = drawn[np.isfinite(drawn)]
    if not len(usable) or n < 2:
        return np.nan, np.nan
    tail = scipy.stats.norm.cdf(np.sqrt(n / (n - 1)) * scipy.stats.t.ppf(TAIL, n - 1))
    low, high = np.quantile(usable, [tail, 1 - tail])
    return float(low), float(high)


def _spread(x: np.ndarray, y: np.ndarray, usable: np.ndarray) -> tuple[float, float]:
    """The least and the largest slope of the usable instances; nan where there are fewer than two."""
    if usable.sum() < 2:
        return np.nan, np.nan
    slopes = fits(x, np.log(np.median(y[:, usable], 2)).T)[0]
    return float(slopes.min()), float(slopes.max())


def _drawn_medians(y: np.ndarray) -> np.ndarray:
    """[draws, sizes]: the median over all runs of each draw."""
    instances, seeds = draws(*y.shape[1:])
    return np.stack([np.median(z[instances, seeds].reshape(DRAWS, -1), 1) for z in y], axis=1)
