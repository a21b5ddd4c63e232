"""The explorer `optimal-design`: its policy is the best design, and nearly the best in hindsight."""

import jax
import numpy as np
import pytest

import horizonfree as hf
from horizonfree._x64 import to_device
from horizonfree.models.mixture.learner import design
from tests.reference import certificates as ref
from tests.reference import small
from tests.reference.jitted import jitted


def test_the_design_promises_as_much_as_the_best_of_all_policies():
    problem = small.dense(S=2, horizon=3)
    model, valid = problem.model, problem.model.valid
    rng = np.random.default_rng(0)
    counts, theta = rng.integers(0, 20, len(valid.rows)), valid.center
    with jax.enable_x64(True):
        policy, predicted = jitted(design, *to_device((model.space, valid, counts, theta)))
    P, z, p = model.kernel(theta).dense(), valid.rows @ valid.basis, valid.rows @ theta
    real = ~valid.virtual
    pseudo = valid.num_free / (2 * valid.free.sum())
    F = sum((n + pseudo) * np.outer(x, x) / prob**2 for n, x, prob in zip(counts[real], z[real], p[real]))
    gain = np.zeros((2, 2))
    for s, a, j in np.ndindex(valid.row_of.shape):
        r = valid.row_of[s, a, j]
        gain[s, a] += z[r] @ np.linalg.solve(F, z[r]) / p[r]
    sums = [ref.expected_sum(P, gain, candidate, model.space.start) for candidate in ref.policies(3, 2, 2)]
    assert predicted == pytest.approx(max(sums))
    assert ref.expected_sum(P, gain, np.asarray(policy), model.space.start) == pytest.approx(max(sums))


@pytest.fixture(scope="module")
def runs():
    """300 episodes of a grid, chosen by optimal design and at random."""
    problem = hf.make("zoned-grid", size=5, zones=4, horizon=12)
    return {
        name: hf.explore(problem, explorer=name, episodes=300, seed=0, budget=300)
        for name in ("optimal-design", "uniform")
    }


def test_exploration_is_near_the_best_design_in_hindsight_and_far_better_than_random(runs):
    """K T / q is at least 1 for the best design; here about 1.0 against 3 and more: no seed comes near the limits."""
    eps = {}
    for name, run in runs.items():
        space, valid = run.problem.space, run.problem.model.valid
        with jax.enable_x64(True):
            parts = to_device(
                (space, valid, np.asarray(run.evidence.row_counts), np.asarray(run.evidence.theta))
            )
            eps[name] = 300 * float(jitted(design, *parts)[1]) / valid.num_free
    assert 0.8 < eps["optimal-design"] < 1.3
    assert eps["uniform"] > 1.5 * eps["optimal-design"]


def test_better_designs_give_smaller_certificates(runs):
    eps = {name: run.certificate().eps for name, run in runs.items()}
    assert eps["optimal-design"] < eps["uniform"]
