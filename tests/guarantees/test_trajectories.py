"""The divergence of trajectories, over all policies and starts, and what a plan can lose by it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horizonfree._x64 import to_device, to_numpy
from horizonfree.guarantees import trajectories
from horizonfree.guarantees.trajectories import Steps, bad_sets, largest_hit, largest_sum
from tests.reference import cases, small
from tests.reference import certificates as ref

# As one program each: outside of one, every call of a loop is traced anew.
divergence, gap = eqx.filter_jit(trajectories.divergence), jax.jit(trajectories.gap)


@eqx.filter_jit
def bounds(space, step, stops):
    """Of each bad set: the largest hit, and the largest sum with and without the costs of bad pairs."""
    kept = (jnp.where(stops, 0.0, step.cost), stops)
    return (
        jax.vmap(lambda stop: largest_hit(space, step, stop))(stops),
        jax.vmap(lambda stop: largest_sum(space, step, step.cost, stop))(stops),
        jax.vmap(lambda cost, stop: largest_sum(space, step, cost, stop))(*kept),
    )


def test_the_divergence_of_trajectories_is_the_expected_sum_over_steps():
    problem = small.dense(S=3, horizon=3)
    P, Q = problem.kernel().dense(), small.dense(S=3, horizon=3, weights=(0.2, 0.5, 0.3)).kernel().dense()
    each = np.array([[ref.kl(P[s, a], Q[s, a]) for a in range(2)] for s in range(3)])
    policy = np.random.default_rng(0).integers(2, size=(3, 3))
    for start in (0, np.array([0.2, 0.3, 0.5])):
        p, q = (ref.trajectories(kernel, policy, start) for kernel in (P, Q))
        assert sum(p.values()) == pytest.approx(1)
        wanted = sum(p[t] * np.log(p[t] / q[t]) for t in p)
        assert ref.expected_sum(P, each, policy, start) == pytest.approx(wanted)


@pytest.mark.parametrize("start", [0, (0.3, 0.7)])
def test_kappa_is_the_largest_expected_cost_over_all_policies(start, x64):
    case, compared = cases.Case(small.dense(S=2, horizon=4, start=start), seeds=2), 0
    for confidence in case.confidences:
        step = confidence.step
        found = to_numpy(divergence(*to_device((case.space, step))))
        if found.stop.any():
            continue
        compared += 1
        assert not step.leak.any()
        every = [
            ref.expected_sum(step.kernel.dense(), step.cost, policy, start)
            for policy in ref.policies(case.space.horizon - 1, 2, 2)  # the last transition touches no reward
        ]
        assert found.kappa == pytest.approx(max(every))
        assert found.eps == pytest.approx(np.sqrt(1 - np.exp(-2 * found.kappa)))
    assert compared


def random_steps(problem, rng):
    """Costs of all sizes, and some mass left out."""
    shape = problem.num_states, problem.num_actions
    return Steps(problem.kernel(), 10 ** rng.uniform(-2, 1, shape), rng.choice([0, 1e-3, 0.1], shape))


@pytest.mark.parametrize("seed", range(3))
def test_from_a_drawn_start_both_bounds_are_the_mean_over_the_states(seed, x64):
    """For every bad set: the best policy from one state is part of the best policy from all."""
    rng = np.random.default_rng(seed)
    initial = rng.dirichlet(np.ones(4)) * [1, 0, 1, 1]
    initial /= initial.sum()
    step = to_device(random_steps(small.dense(), rng))
    drawn = to_device(small.dense(start=initial).space)
    fixed = [to_device(small.dense(start=s).space) for s in range(4)]
    stops = bad_sets(step)
    each = np.array([bounds(space, step, stops)[:2] for space in fixed])  # start, bound, bad set
    for found, wanted in zip(bounds(drawn, step, stops)[:2], np.moveaxis(each, 0, -1) @ initial, strict=True):
        assert found.shape == (4,)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_least_gap_of_the_bad_sets_is_kept(seed, x64):
    step = to_device(random_steps(small.dense(), np.random.default_rng(seed)))
    space = to_device(small.dense(start=[0.1, 0.2, 0.3, 0.4]).space)
    found = divergence(space, step)
    hits, _, kappas = bounds(space, step, bad_sets(step))
    gaps = [float(gap(2 * hit, kappa, kappa)) for hit, kappa in zip(hits, kappas, strict=True)]
    assert float(found.eps) == pytest.approx(min(gaps), rel=1e-12)
    assert float(found.eps) == pytest.approx(float(gap(2 * found.hit, found.kappa, found.kappa)), rel=1e-12)


@settings(max_examples=300, deadline=None)
@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_the_gap_lemma(v_plan, v_best, w_plan, w_best):
    with jax.enable_x64(True):
        regret = max(0.0, v_best - v_plan)
        kappa, kappa_plan = ref.binary_kl(v_best, w_best), ref.binary_kl(v_plan, w_plan)
        if np.isfinite(kappa + kappa_plan):
            bound = float(gap(jnp.array(regret), jnp.array(kappa), jnp.array(kappa_plan)))
            assert w_best - w_plan <= bound + 1e-7


def test_the_gap_lemma_is_tight_for_two_symmetric_coins(x64):
    """kl(1/2, (1 +- t)/2) = - log(1 - t^2) / 2, so kappa gives back t exactly."""
    for t in (0.01, 0.5, 0.9):
        kappa = jnp.array(ref.binary_kl(0.5, (1 + t) / 2))
        assert float(gap(jnp.array(0.0), kappa, kappa)) == pytest.approx(t)
