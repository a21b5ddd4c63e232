"""Planning against an independent loop, exact textbook answers, two public solvers, and its own identities."""

import os
import subprocess
import sys
import warnings
from fractions import Fraction

import equinox as eqx
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horizonfree import planning
from horizonfree.errors import RewardError, ShapeError
from horizonfree.mdp.space import Kernel
from horizonfree.planning import native, traced
from horizonfree.planning.induction import best_policy
from horizonfree.planning.traced import evaluate_jax, optimal_jax
from tests.reference import backward_induction as reference
from tests.reference.kernels import SIZES, both_forms, from_table, random_case

optimal_jax, evaluate_jax = eqx.filter_jit(optimal_jax), eqx.filter_jit(evaluate_jax)
TIGHT = {"rtol": 0, "atol": 1e-10}
cases = st.tuples(st.sampled_from(SIZES), st.integers(0, 2**32 - 1))


@given(cases)
@settings(max_examples=40, deadline=None)
def test_values_and_policies_equal_the_reference_for_padded_and_dense_kernels(case):
    kernel, reward, _ = random_case(case)
    policy, V = reference.optimal(kernel.dense(), reward)
    for form in both_forms(kernel):
        solution = planning.optimal(form, reward)
        np.testing.assert_allclose(solution.V, V, **TIGHT)
        # continuous random rewards: two actions within rounding of each other have probability < 1e-10
        np.testing.assert_array_equal(solution.policy, policy)
        assert solution.V.dtype == np.float64
        assert solution.policy.dtype == np.int32


@given(cases)
@settings(max_examples=30, deadline=None)
def test_the_definition_and_the_traced_form_are_the_same(case):
    kernel, reward, pi = random_case(case)
    for form in both_forms(kernel):
        policy, V = best_policy(form, reward)
        with jax.enable_x64(True):
            traced_policy, traced_V = optimal_jax(form, reward)
            values = [evaluate_jax(form, reward, x) for x in (pi, pi.argmax(-1))]
        np.testing.assert_allclose(traced_V, V, **TIGHT)
        np.testing.assert_array_equal(traced_policy, policy)
        np.testing.assert_allclose(values[0], planning.evaluate(form, reward, pi), **TIGHT)
        np.testing.assert_allclose(values[1], planning.evaluate(form, reward, pi.argmax(-1)), **TIGHT)


@given(cases)
@settings(max_examples=25, deadline=None)
def test_evaluation_and_visits_equal_the_reference(case):
    kernel, reward, pi = random_case(case)
    P, start = kernel.dense(), case[1] % kernel.num_states
    V, d = reference.evaluate(P, reward, pi), reference.visits(P, pi, start)
    for form in both_forms(kernel):
        np.testing.assert_allclose(planning.evaluate(form, reward, pi), V, **TIGHT)
        np.testing.assert_allclose(planning.visits(form, pi, start), d, **TIGHT)


@given(cases)
@settings(max_examples=25, deadline=None)
def test_the_plan_attains_its_value_and_no_policy_does_better(case):
    kernel, reward, pi = random_case(case)
    solution = planning.optimal(kernel, reward)
    attained = planning.evaluate(kernel, reward, solution.policy)
    np.testing.assert_allclose(attained, solution.V, **TIGHT)
    for policy in (pi, pi.argmin(-1)):
        assert (planning.evaluate(kernel, reward, policy) <= solution.V + 1e-10).all()


@given(cases)
@settings(max_examples=25, deadline=None)
def test_an_integer_policy_is_its_one_hot_table(case):
    kernel, reward, pi = random_case(case)
    table = pi.argmax(-1)
    one_hot = np.eye(kernel.num_actions)[table]
    for form in both_forms(kernel):
        np.testing.assert_allclose(
            planning.evaluate(form, reward, table), planning.evaluate(form, reward, one_hot), **TIGHT
        )
        np.testing.assert_allclose(
            planning.visits(form, table, 0), planning.visits(form, one_hot, 0), **TIGHT
        )


@pytest.mark.parametrize("num_rewards", [1, 3, 2 * native.LANES + 3])
@pytest.mark.parametrize("size", SIZES[1:3])
def test_a_batch_is_a_loop(size, num_rewards):
    kernel, _, _ = random_case((size, 0))
    S, A, _, H = size
    rng = np.random.default_rng(1)
    rewards, pi = rng.random((num_rewards, H, S, A)), rng.dirichlet(np.ones(A), (num_rewards, H, S))
    for form in both_forms(kernel):
        solution = planning.optimal(form, rewards)
        V = planning.evaluate(form, rewards, pi)
        V_shared = planning.evaluate(form, rewards, pi[0])
        V_policies = planning.evaluate(form, rewards[0], solution.policy)
        d = planning.visits(form, solution.policy, S - 1)
        for i in {0, num_rewards - 1}:
            one = planning.optimal(form, rewards[i])
            np.testing.assert_array_equal(solution.policy[i], one.policy)
            np.testing.assert_allclose(solution.V[i], one.V, **TIGHT)
            np.testing.assert_allclose(V[i], planning.evaluate(form, rewards[i], pi[i]), **TIGHT)
            np.testing.assert_allclose(V_shared[i], planning.evaluate(form, rewards[i], pi[0]), **TIGHT)
            np.testing.assert_allclose(
                V_policies[i], planning.evaluate(form, rewards[0], one.policy), **TIGHT
            )
            np.testing.assert_allclose(d[i], planning.visits(form, one.policy, S - 1), **TIGHT)


def test_rounding_does_not_settle_ties_of_explorers(x64):
    """The first of what is nearly best is taken, whatever the last bits are; without slack they decide."""
    rng = np.random.default_rng(4)
    Q = rng.integers(1, 4, size=(200, 5)) * 0.1  # full of ties
    noisy = [Q * (1 + 1e-14 * rng.standard_normal(Q.shape)) for _ in range(5)]
    chosen = [np.asarray(traced.greedy(x, traced.TIE)[1]) for x in noisy]
    np.testing.assert_array_equal(chosen, [Q.argmax(-1)] * 5)
    assert any((np.asarray(traced.greedy(x)[1]) != Q.argmax(-1)).any() for x in noisy)
    V, action = traced.greedy(np.array([[1.0, 1.0 + 1e-9], [-1.0, -1.0 + 1e-11]]), traced.TIE)
    np.testing.assert_array_equal(action, [1, 0])  # a share of 1e-9 is a difference, one of 1e-11 is not
    np.testing.assert_array_equal(V, [1.0 + 1e-9, -1.0 + 1e-11])  # values are maxima all the same
    np.testing.assert_array_equal(traced.significant(np.array([3.0, -1e-12, 1e-3])), [3.0, 0.0, 1e-3])


def test_what_cannot_be_planned_is_refused():
    kernel, reward, _ = random_case(((5, 2, 3, 4), 0))
    policy = np.zeros((4, 5), int)
    bad = reward.copy()
    bad[2, 1, 0] = np.nan
    for call in (lambda r: planning.optimal(kernel, r), lambda r: planning.evaluate(kernel, r, policy)):
        with pytest.raises(RewardError, match=r"reward\[2, 1, 0\] is nan; rewards must be finite"):
            call(bad)
        with pytest.raises(ShapeError, match="reward has type complex128"):
            call(reward.astype(complex))
        with pytest.raises(ShapeError, match="reward is not an array"):
            call([[1], [1, 2]])
    for value in (np.inf, -np.inf):
        with pytest.raises(RewardError, match=r"reward\[3, 4, 1\] is -?inf"):
            planning.optimal(kernel, np.where(np.indices(reward.shape).sum(0) == 8, value, reward))
    assert np.isfinite(planning.optimal(kernel, np.full(reward.shape, 1e200)).V).all()
    with pytest.raises(RewardError, match="their totals overflow"):
        planning.optimal(kernel, np.full(reward.shape, 1e308))
    for wrong in (np.full((4, 5, 2), "x"), np.zeros((4, 5, 2), complex)):
        with pytest.raises(ShapeError, match="policy has type"):
            planning.evaluate(kernel, reward, wrong)
    for other in (kernel.dense(), None):
        with pytest.raises(ShapeError, match="it must be a Kernel, such as"):
            planning.optimal(other, reward)
        with pytest.raises(ShapeError, match="it must be a Kernel, such as"):
            planning.visits(other, policy, 0)


@pytest.mark.parametrize("num_rewards", [None, native.LANES + 1])
def test_a_view_that_repeats_one_step_is_the_full_array(num_rewards):
    kernel, _, _ = random_case(((5, 3, 2, 4), 0))
    batch = () if num_rewards is None else (num_rewards,)
    step = np.random.default_rng(2).random((*batch, 1, 5, 3))
    view = np.broadcast_to(step, (*batch, 6, 5, 3))
    for form in both_forms(kernel):
        short, full = planning.optimal(form, view), planning.optimal(form, view.copy())
        np.testing.assert_array_equal(short.policy, full.policy)
        np.testing.assert_array_equal(short.V, full.V)


def test_ties_go_to_the_lowest_action():
    """Dyadic numbers, so that sums are exact in every order and equal actions are exactly equal."""
    rng = np.random.default_rng(0)
    succ = rng.integers(16, size=(16, 1, 4)).astype(np.int32)
    prob = np.array([0.5, 0.25, 0.125, 0.125])
    twins = Kernel(np.repeat(np.sort(succ), 6, axis=1), np.broadcast_to(prob, (16, 6, 4)), False)
    reward = np.repeat(rng.integers(4, size=(5, 16, 1)), 6, axis=2).astype(float)
    for form in both_forms(twins):
        assert (planning.optimal(form, reward).policy == 0).all()
        later = reward.copy()
        later[:, :, [2, 4]] += 1  # actions 2 and 4 are now equal and best
        assert (planning.optimal(form, later).policy == 2).all()
        assert (planning.optimal(form, np.stack([later] * native.LANES)).policy == 2).all()


def inventory():
    """Stock 0..3, order cost 4 + 2a, holding cost 1 a unit, price 8, demand 0, 1, 2 with 1/4, 1/2, 1/4.

    Puterman, Markov Decision Processes (1994), section 3.2; ordering beyond the capacity acts as ordering nothing.
    """
    demand = {0: Fraction(1, 4), 1: Fraction(1, 2), 2: Fraction(1, 4)}
    P, r = np.zeros((4, 4, 4)), np.zeros((4, 4))
    for s in range(4):
        for a in range(4):
            order = a if s + a <= 3 else 0
            stock = s + order
            r[s, a] = -(4 + 2 * order if order else 0) - stock
            for x, p in demand.items():
                P[s, a, max(stock - x, 0)] += p
                r[s, a] += float(p * 8 * min(x, stock))
    return P, r


def test_inventory_has_the_values_printed_in_the_textbook():
    """Puterman (1994), section 4.6.1: every number is a multiple of 1/16, so equality is exact."""
    P, r = inventory()
    kernel = from_table(P)
    lists = Kernel(kernel.succ, kernel.prob, False)
    for form in (kernel, lists):
        solution = planning.optimal(form, np.broadcast_to(r, (3, 4, 4)))
        sixteenths = [[67, 129, 194, 227], [32, 100, 160, 168], [0, 80, 96, 80], [0, 0, 0, 0]]
        np.testing.assert_array_equal(solution.V * 16, sixteenths)
        np.testing.assert_array_equal(solution.policy, [[3, 0, 0, 0], [2, 0, 0, 0], [0, 0, 0, 0]])


def test_a_chain_is_worth_its_last_state_if_there_is_time_to_walk():
    S, H = 6, 8
    succ = np.stack([np.maximum(np.arange(S) - 1, 0), np.minimum(np.arange(S) + 1, S - 1)], axis=1)
    kernel = Kernel(succ[..., None].astype(np.int32), np.ones((S, 2, 1)), False)
    reward = np.zeros((H, S, 2))
    reward[H - 1, S - 1] = 1.0
    steps_left = H - 1 - np.arange(H)
    possible = np.arange(S)[None] + steps_left[:, None] >= S - 1
    for form in both_forms(kernel):
        solution = planning.optimal(form, reward)
        np.testing.assert_array_equal(solution.V[:H], possible)
        walk = planning.visits(form, solution.policy, 0).sum(axis=-1).argmax(axis=-1)
        assert walk[-1] == S - 1


@pytest.mark.parametrize("n", [3, 10, 25])
def test_the_secretary_problem_has_its_classical_value(n):
    """max over r of r/n sum_{k=r}^{n-1} 1/k, with 1/n for r = 0; state 2(t-1) + [candidate t is best so far]."""
    S, done = 2 * n + 1, 2 * n
    P, reward = np.zeros((S, 2, S)), np.zeros((n, S, 2))
    P[:, 1, done] = P[done, 0, done] = 1.0  # action 1 hires, action 0 waits
    for t in range(1, n + 1):
        for is_record in (0, 1):
            s = 2 * (t - 1) + is_record
            reward[:, s, 1] = is_record * t / n  # a record at t is the best of all with probability t/n
            if t < n:
                P[s, 0, 2 * t + 1], P[s, 0, 2 * t] = 1 / (t + 1), t / (t + 1)
            else:
                P[s, 0, done] = 1.0
    value = max(
        Fraction(r, n) * sum(Fraction(1, k) for k in range(r, n)) if r else Fraction(1, n) for r in range(n)
    )
    kernel = from_table(P)
    assert planning.optimal(kernel, reward).V[0, 1] == pytest.approx(float(value), abs=1e-12)


def test_quantecon_and_pymdptoolbox_agree():
    """Both take a reward that is the same at every step."""
    backward_induction = pytest.importorskip("quantecon.markov").backward_induction
    DiscreteDP = pytest.importorskip("quantecon.markov").DiscreteDP
    FiniteHorizon = pytest.importorskip("mdptoolbox.mdp").FiniteHorizon
    S, A, n, H = 30, 3, 6, 20
    kernel, reward, _ = random_case(((S, A, n, H), 3))
    P, r = kernel.dense(), np.abs(reward[0])
    solution = planning.optimal(kernel, np.broadcast_to(r, (H, S, A)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # both warn that a discount of 1 is fine for finite horizons only
        V, policy = backward_induction(DiscreteDP(r, P, 1.0), H)
        finite = FiniteHorizon(P.transpose(1, 0, 2), r, 1.0, H)
        finite.run()
    np.testing.assert_allclose(solution.V, V, **TIGHT)
    np.testing.assert_array_equal(solution.policy, policy)
    np.testing.assert_allclose(solution.V, finite.V.T, **TIGHT)
    np.testing.assert_array_equal(solution.policy, finite.policy.T)


def test_inputs_may_be_read_only_strided_or_of_another_number_type():
    kernel, reward, _ = random_case(((5, 3, 2, 4), 0))
    expected = planning.optimal(kernel, reward).V
    with jax.enable_x64(True):
        on_device = Kernel(*map(jax.numpy.asarray, (kernel.succ, kernel.prob)), is_dense=False)
        np.testing.assert_array_equal(planning.optimal(on_device, jax.numpy.asarray(reward)).V, expected)
    strided = np.asfortranarray(reward)
    np.testing.assert_array_equal(planning.optimal(kernel, strided).V, expected)
    whole = np.round(reward * 8).astype(int)
    np.testing.assert_array_equal(
        planning.optimal(kernel, whole).V, planning.optimal(kernel, whole.astype(float)).V
    )


BAD_REWARDS = [
    (np.zeros((5, 3)), r"shape \(5, 3\)"),
    (np.zeros((4, 3, 5)), r"S, A = \(5, 3\)"),
    (np.zeros((0, 5, 3)), "shape"),
    (np.zeros((0, 4, 5, 3)), "shape"),
    (np.full((4, 5, 3), "x"), "real numbers"),
    (np.zeros((4, 5, 3), complex), "complex128"),
]


def test_a_bad_reward_is_refused_with_its_shape_or_type(subtests):
    for reward, says in BAD_REWARDS:
        with subtests.test(says):
            kernel, _, pi = random_case(((5, 3, 2, 4), 0))
            with pytest.raises(ShapeError, match=says):
                planning.optimal(kernel, reward)
            with pytest.raises(ShapeError, match=says):
                planning.evaluate(kernel, reward, pi)


BAD_POLICIES = [
    (np.zeros((4, 6), int), r"shape \(4, 6\)"),
    (np.zeros(4, int), "shape"),
    (np.zeros((0, 4, 5), int), "empty"),
    (np.full((4, 5), 3), "an action is 0 to 2"),
    (np.full((4, 5, 3), 0.5), "sum to 1"),
    (np.full((2, 4, 5, 3), 0.5), "sum to 1"),
    (np.zeros((3, 4, 5), int), "2 rewards but 3 policies"),
]


def test_a_bad_policy_is_refused_with_its_place(subtests):
    for policy, says in BAD_POLICIES:
        with subtests.test(says):
            kernel, _, _ = random_case(((5, 3, 2, 4), 0))
            with pytest.raises(ShapeError, match=says):
                planning.evaluate(kernel, np.zeros((2, 4, 5, 3)), policy)


LARGE = """
import numpy as np, horizonfree.planning as planning
from horizonfree import Mixture
S, A, n, d, H = 20_000, 4, 4, 16, 100
rng = np.random.default_rng(0)
s, a, j, i = (x.ravel() for x in np.indices((S, A, n, d)))
offset = np.array([-150, -1, 1, 150])
p = rng.dirichlet(np.ones(n), size=(S, A, d)).swapaxes(2, 3)
phi = s, a, (s + offset[j]) % S, i, p.ravel()
problem = Mixture.from_features(phi, horizon=H, bound=1.0, theta=np.full(d, 1 / d))
kernel = problem.kernel()
reward = rng.random((H, S, A)) / H
solution = planning.optimal(kernel, reward)
assert 0 < solution.V[0].min() and solution.V[0].max() < 1
peak = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]  # not ru_maxrss: a child inherits it
print(peak[0].split()[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
def test_twenty_thousand_states_fit_in_two_gigabytes():
    """A mixture of 16 kernels with 4 successors each, H = 100: build, mix, plan; peak memory of the whole process."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}  # drivers of a GPU take gigabytes for themselves
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 2 * 2**20  # kB
