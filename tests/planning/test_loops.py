"""The compiled loops, bit by bit: rewards side by side against one alone, actions left out against all of them."""

import itertools

import numpy as np
import pytest
from numba import njit

from horizonfree.errors import RewardError
from horizonfree.mdp.space import Kernel
from horizonfree.planning import backward as planning
from horizonfree.planning import loops
from horizonfree.planning.lanes import product
from tests.reference.kernels import from_table, random_case

TIGHT = {"rtol": 0, "atol": 1e-10}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("num_rewards", [loops.LANES, 3 * loops.LANES + 5])
@pytest.mark.parametrize("size", [(8, 1, 1, 3), (9, 3, 2, 4), (23, 5, 7, 2)])
def test_rewards_side_by_side_have_the_bits_of_one_alone(monkeypatch, size, num_rewards, threads):
    """Whatever the last tile of states and the last block of rewards repeat; ties go to the lowest action."""
    monkeypatch.setattr(loops, "THREADS", threads)
    (S, A, _, H), (kernel, _, _) = size, random_case((size, 0))
    rng = np.random.default_rng(2)
    rewards = rng.standard_normal((num_rewards, H, S, A))
    rewards[::2] = rewards[::2].round()
    policy, V = loops.optimal(kernel, rewards, H)
    for i in range(num_rewards):
        alone_policy, alone_V = loops.optimal(kernel, rewards[i], H)
        np.testing.assert_array_equal(policy[i], alone_policy)
        np.testing.assert_array_equal(V[i], alone_V)
    dense_policy, dense_V = loops.optimal(from_table(kernel.dense()), rewards, H)
    np.testing.assert_allclose(dense_V, V, **TIGHT)
    np.testing.assert_array_equal(dense_policy[1::2], policy[1::2])  # rounding may settle ties


def test_values_that_do_not_fit_a_cache_are_the_same():
    """They are asked for some rows ahead, up to the last row."""
    S, H = loops.FAR // loops.LANES + 3, 2
    rng = np.random.default_rng(5)
    succ, prob = rng.integers(S, size=(S, 2, 3)).astype(np.int32), rng.dirichlet(np.ones(3), size=(S, 2))
    kernel, rewards = Kernel(succ, prob, False), rng.random((loops.LANES, H, S, 2))
    solution = planning.optimal(kernel, rewards)
    for i in (0, loops.LANES - 1):
        alone = planning.optimal(kernel, rewards[i])
        np.testing.assert_array_equal(solution.policy[i], alone.policy)
        np.testing.assert_array_equal(solution.V[i], alone.V)


@njit
def products(prob, v):
    """P v, with the bits of the compiled loops."""
    S, A, _ = prob.shape
    x = np.empty(S * A)
    for i in range(S * A):
        x[i] = product(prob.reshape(-1), i * S, v, S)
    return x.reshape(S, A)


def dense_rows(S, seed):
    """Rows of many kinds, in four actions: spread out, nearly uniform, certain, and of any sign and sum."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(S), size=(S, 4))
    rows[:, 1] = 1 / S + 1e-9 * (rows[:, 1] - 1 / S)
    rows[:, 2] = np.eye(S)[rng.integers(S, size=S)]
    return rows, np.where(np.arange(4)[:, None] == 3, rng.standard_normal((S, 4, S)), rows)


def test_no_action_is_worth_more_than_it_promises(subtests):
    """To the last bit; after one step or many, and for values that make the inequality an equality."""
    for scale, S, is_stochastic in itertools.product(
        [1e-170, 1e-155, 1e-12, 1.0, 1e12], [16, 23, 50], [True, False]
    ):
        with subtests.test(is_stochastic=is_stochastic, S=S, scale=scale):
            prob = dense_rows(S, 0)[0 if is_stochastic else 1]
            spread, slack = loops._spreads(prob)
            rng = np.random.default_rng(1)
            promise, exact, V, room = np.zeros(4 * S), np.zeros((S, 4)), np.zeros(S), np.empty(S)
            for step in range(200):
                row = prob[rng.integers(S), rng.integers(4)]
                kinds = [
                    rng.random(S),
                    rng.standard_normal(S),
                    row - row.mean(),
                    np.ones(S),
                    1e6 + rng.random(S),
                ]
                new = scale * kinds[step % 5] if step % 2 else V + scale * kinds[step % 5]
                loops._promise(promise, spread, slack, new, new - V, room)
                V, exact = new, products(prob, new)
                assert (promise.reshape(S, 4) >= exact).all()
                known = rng.random(4 * S) < 0.3
                promise[known] = exact.ravel()[known]
            if (
                is_stochastic and scale > loops.NO_SQUARE
            ):  # nothing known but the inequality, which is an equality for these values
                promise[:] = np.inf
                V = scale * (prob[0, 0] - 1 / S)
                loops._promise(promise, spread, slack, V, V, room)
                assert promise[0] == pytest.approx(prob[0, 0] @ V, rel=1e-9)


def test_leaving_out_actions_changes_no_bit_of_a_plan(subtests):
    for kind, S in itertools.product(
        ["fresh", "same", "goal", "last step", "ties", "costs", "huge", "tiny", "fading"], [16, 23, 50]
    ):
        with subtests.test(kind, S=S):
            H, rng = 30, np.random.default_rng(S)
            rewards = {
                "fresh": rng.random((H, S, 4)),
                "same": np.broadcast_to(rng.random((S, 4)), (H, S, 4)),
                "goal": np.broadcast_to((np.arange(S) == 3)[:, None] / H, (H, S, 4)),
                "last step": (np.arange(H) == H - 1)[:, None, None] * rng.random((S, 4)),
                "ties": np.broadcast_to(rng.integers(2, size=(S, 1)) / H, (H, S, 4)),
                "costs": -rng.exponential(size=(H, S, 4)) * 1e-3,
                "huge": 1e200 * rng.standard_normal((H, S, 4)),
                "tiny": 1e-170 * rng.standard_normal((H, S, 4)),
                "fading": 10.0 ** -(11 * np.arange(H)[:, None, None]) * rng.random((H, S, 4)),
            }
            for prob in dense_rows(S, 2):
                V, policy = np.zeros((H + 1, S)), np.empty((H, S), int)
                for h in reversed(range(H)):
                    Q = rewards[kind][h] + products(prob, V[h + 1])
                    V[h], policy[h] = Q.max(-1), Q.argmax(-1)
                solution = planning.optimal(from_table(prob), rewards[kind])
                np.testing.assert_array_equal(solution.V, V)
                np.testing.assert_array_equal(solution.policy, policy)


def test_no_reward_that_is_not_finite_is_overlooked(subtests):
    """Wherever it stands, in the first action or the last, at the first step or the last."""
    for value, is_dense, num_rewards in itertools.product(
        [np.nan, np.inf, -np.inf], [True, False], [1, loops.LANES + 1]
    ):
        with subtests.test(num_rewards=num_rewards, is_dense=is_dense, value=value):
            kernel, _, _ = random_case(((20, 3, 4, 5), 1))
            form = from_table(kernel.dense()) if is_dense else kernel
            rewards = np.random.default_rng(0).random((num_rewards, 5, 20, 3))
            for place in [
                (0, 0, 0, 0),
                (0, 4, 19, 2),
                (num_rewards - 1, 2, 7, 1),
                (num_rewards - 1, 0, 19, 2),
            ]:
                bad = rewards.copy()
                bad[place] = value
                at = ", ".join(map(str, place))
                with pytest.raises(
                    RewardError, match=rf"reward\[{at}\] is -?(nan|inf); rewards must be finite"
                ):
                    planning.optimal(form, bad)


@pytest.mark.parametrize("is_dense", [True, False])
@pytest.mark.parametrize("num_rewards", [1, loops.LANES + 1])
def test_totals_that_overflow_are_refused_and_others_are_not(num_rewards, is_dense):
    """Up or down; and the rewards of different actions are not a total."""
    kernel, _, _ = random_case(((20, 3, 4, 5), 1))
    form = from_table(kernel.dense()) if is_dense else kernel
    for sign in (1, -1):
        rewards = np.zeros((num_rewards, 5, 20, 3))
        rewards[:, 4] = sign * 1.7e308
        assert np.abs(planning.optimal(form, rewards).V[:, 4]).max() == 1.7e308
        rewards[-1, 3] = sign * 1.7e308
        with pytest.raises(RewardError, match=r"rewards reach 1.7e\+308; their totals overflow"):
            planning.optimal(form, rewards)
