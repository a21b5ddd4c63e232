"""The divergence of trajectories, over all policies and starts, and what a plan can lose by it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horizonfree.guarantees.divergence import (
    RowDivergence,
    bad_sets,
    divergence,
    gap,
    largest_hit,
    largest_sum,
)
from tests.reference import cases, small
from tests.reference import certificates as ref

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # infinite divergences


def bounds(space, step, stops):
    """Of each bad set: the largest hit, and the largest sum with and without the costs of bad pairs."""
    return tuple(
        np.array(x)
        for x in zip(
            *(
                (
                    largest_hit(space, step, stop),
                    largest_sum(space, step, step.cost, stop),
                    largest_sum(space, step, np.where(stop, 0.0, step.cost), stop),
                )
                for stop in stops
            ),
            strict=True,
        )
    )


def test_the_divergence_of_trajectories_is_the_expected_sum_over_steps():
    problem = small.dense(S=3, horizon=3)
    P, Q = problem.kernel().dense(), small.dense(S=3, horizon=3, weights=(0.2, 0.5, 0.3)).kernel().dense()
    per_state = np.array([[ref.kl(P[s, a], Q[s, a]) for a in range(2)] for s in range(3)])
    policy = np.random.default_rng(0).integers(2, size=(3, 3))
    for start in (0, np.array([0.2, 0.3, 0.5])):
        p, q = (ref.trajectories(kernel, policy, start) for kernel in (P, Q))
        assert sum(p.values()) == pytest.approx(1)
        expected = sum(p[t] * np.log(p[t] / q[t]) for t in p)
        assert ref.expected_sum(P, per_state, policy, start) == pytest.approx(expected)


@pytest.mark.parametrize("start", [0, (0.3, 0.7)])
def test_kappa_is_the_largest_expected_cost_over_all_policies(start):
    case, num_compared = cases.Case(small.dense(S=2, horizon=4, start=start), seeds=2), 0
    for confidence in case.confidences:
        step = confidence.step
        bound = divergence(case.space, step)
        if bound.stop.any():
            continue
        num_compared += 1
        assert not step.leak.any()
        costs = [
            ref.expected_sum(step.kernel.dense(), step.cost, policy, start)
            for policy in ref.policies(case.space.horizon - 1, 2, 2)  # the last transition touches no reward
        ]
        assert bound.kappa == pytest.approx(max(costs))
        assert bound.eps == pytest.approx(np.sqrt(1 - np.exp(-2 * bound.kappa)))
    assert num_compared


def random_steps(problem, rng):
    """Costs of all sizes, and some mass left out."""
    shape = problem.num_states, problem.num_actions
    return RowDivergence(problem.kernel(), 10 ** rng.uniform(-2, 1, shape), rng.choice([0, 1e-3, 0.1], shape))


@pytest.mark.parametrize("seed", range(3))
def test_from_a_drawn_start_both_bounds_are_the_mean_over_the_states(seed):
    """For every bad set: the best policy from one state is part of the best policy from all."""
    rng = np.random.default_rng(seed)
    initial = rng.dirichlet(np.ones(4)) * [1, 0, 1, 1]
    initial /= initial.sum()
    step = random_steps(small.dense(), rng)
    drawn_space = small.dense(start=initial).space
    fixed = [small.dense(start=s).space for s in range(4)]
    stops = bad_sets(step)
    per_state = np.array([bounds(space, step, stops)[:2] for space in fixed])  # start, bound, bad set
    for bound, expected in zip(
        bounds(drawn_space, step, stops)[:2], np.moveaxis(per_state, 0, -1) @ initial, strict=True
    ):
        assert bound.shape == (4,)
        np.testing.assert_allclose(bound, expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_least_gap_of_the_bad_sets_is_kept(seed):
    step = random_steps(small.dense(), np.random.default_rng(seed))
    space = small.dense(start=[0.1, 0.2, 0.3, 0.4]).space
    bound = divergence(space, step)
    hits, _, kappas = bounds(space, step, bad_sets(step))
    gaps = gap(2 * hits, kappas, kappas)
    all_gaps = gap(*(np.asarray(x) for x in (2 * bound.hit, bound.kappa, bound.kappa)))
    assert bound.eps == pytest.approx(float(all_gaps), rel=1e-12)
    assert bound.eps == pytest.approx(min(gaps), rel=1e-12)


@settings(max_examples=300, deadline=None)
@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_the_gap_lemma(v_plan, v_best, w_plan, w_best):
    regret = max(0.0, v_best - v_plan)
    kappa, kappa_plan = ref.binary_kl(v_best, w_best), ref.binary_kl(v_plan, w_plan)
    if np.isfinite(kappa + kappa_plan):
        bound = float(gap(np.array(regret), np.array(kappa), np.array(kappa_plan)))
        assert w_best - w_plan <= bound + 1e-7


def test_the_gap_lemma_is_tight_for_two_symmetric_coins():
    """kl(1/2, (1 +- t)/2) = - log(1 - t^2) / 2, so kappa gives back t exactly."""
    for t in (0.01, 0.5, 0.9):
        kappa = np.array(ref.binary_kl(0.5, (1 + t) / 2))
        assert float(gap(np.array(0.0), kappa, kappa)) == pytest.approx(t)
