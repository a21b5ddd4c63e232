"""The confidence sets themselves: how often the truth is outside, at delta = 0.5.

With R runs the truth may be outside in at most a share delta of them. The limit is the smallest number of runs that a
binomial variable exceeds with probability 1e-6 at most, so a correct set fails here with that probability.
"""

import numpy as np
import pytest
from scipy.stats import binom

import horizonfree as hf
from tests.adversary import cases, sets
from tests.adversary.systems import CLASSES, H

RUNS, DELTA, FALSE_ALARM = 150, 0.5, 1e-6


def is_covered(run):
    confidence_set = sets.confidence_set(run, DELTA)
    if isinstance(confidence_set, sets.TableSet):
        return bool(confidence_set.inside(np.asarray(run.problem.kernel().dense())[None])[0])
    return bool(confidence_set.inside(np.asarray(run.problem.truth)[None])[0])


@pytest.mark.parametrize("system", ["kernels", "table_any", "table_certain", "linear"])
def test_the_truth_is_outside_in_at_most_a_share_delta_of_runs(system):
    problem = CLASSES[system](np.random.default_rng(1), {"horizon": H, "start": 0})
    outside = 0
    for seed in range(RUNS):
        log = cases.make_log("full", 50, problem, np.random.default_rng([seed, 2]))
        outside += not is_covered(hf.from_episodes(problem, log))
    assert outside <= binom.isf(FALSE_ALARM, RUNS, DELTA)
    assert outside < RUNS  # and the test looks at something
