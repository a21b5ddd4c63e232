"""Visits: where a policy goes, from a state or from a distribution over states."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horizonfree import planning
from horizonfree.errors import KernelError, ShapeError
from tests.reference.kernels import SIZES, both_forms, random_case

TIGHT = {"rtol": 0, "atol": 1e-10}
cases = st.tuples(st.sampled_from(SIZES), st.integers(0, 2**32 - 1))


@given(cases)
@settings(max_examples=25, deadline=None)
def test_visits_sum_to_one_per_step_and_price_every_reward(case):
    kernel, reward, pi = random_case(case)
    start = case[1] % kernel.num_states
    for form in both_forms(kernel):
        for policy in (pi, pi.argmax(-1)):
            d = planning.visits(form, policy, start)
            np.testing.assert_allclose(d.sum(axis=(1, 2)), 1.0, **TIGHT)
            assert (d >= 0).all()
            value = planning.evaluate(form, reward, policy)[0, start]
            np.testing.assert_allclose((d * reward).sum(), value, **TIGHT)


@given(cases)
@settings(max_examples=25, deadline=None)
def test_visits_from_a_distribution_are_the_mean_over_its_states(case):
    kernel, reward, pi = random_case(case)
    S = kernel.num_states
    initial = np.random.default_rng(case[1]).dirichlet(np.full(S, 0.5))
    for form in both_forms(kernel):
        for policy in (pi, pi.argmax(-1)):
            d = planning.visits(form, policy, initial)
            each = np.stack([planning.visits(form, policy, s) for s in range(S)])
            np.testing.assert_allclose(d, np.tensordot(initial, each, 1), **TIGHT)
            np.testing.assert_array_equal(planning.visits(form, policy, np.eye(S)[S - 1]), each[-1])
            value = planning.evaluate(form, reward, policy)[0] @ initial
            np.testing.assert_allclose((d * reward).sum(), value, **TIGHT)
    both = planning.visits(kernel, np.stack([pi, pi[:, ::-1]]), initial)
    np.testing.assert_allclose(both[0], planning.visits(kernel, pi, initial), **TIGHT)


def test_what_is_no_start_is_refused():
    kernel, _, pi = random_case(((5, 3, 2, 4), 0))
    for start in (1.5, "x", None, -1, 5):
        with pytest.raises(ShapeError, match="it must be a state, 0 to 4, or a distribution over them"):
            planning.visits(kernel, pi, start)
    with pytest.raises(ShapeError, match="start is 5"):
        planning.visits(kernel, pi, 5)
    with pytest.raises(ShapeError, match=r"start has shape \(1,\); it must be \(5,\), a distribution over"):
        planning.visits(kernel, pi, [0])
    with pytest.raises(KernelError, match=r"start sums to 0\.5; it must sum to 1"):
        planning.visits(kernel, pi, np.full(5, 0.1))
