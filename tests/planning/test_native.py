"""The compiled loops against their definition, one reward and many, and what they must not overlook."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

from horizonfree.errors import RewardError
from horizonfree.mdp.space import Kernel
from horizonfree.planning import induction, native, optimal
from tests.reference.kernels import from_table, random_case

SIZES = [(1, 1, 1, 2), (8, 1, 1, 3), (9, 3, 2, 4), (23, 5, 7, 2), (40, 4, 4, 3), (21, 2, 3, 6)]
TIGHT = {"rtol": 0, "atol": 1e-12}


@pytest.fixture(params=["compiled", "definition"])
def without_compiler(request, monkeypatch):
    """Everything that is public works without a compiler as well."""
    if request.param == "definition":
        monkeypatch.setattr(native, "_functions", lambda: None)
    elif native._functions() is None:
        pytest.skip("there was no compiler")


def rewards_of(size, num_rewards):
    """Half of them full of ties, none of which is at zero: slack is a share of the best."""
    S, A, _, H = size
    rewards = np.random.default_rng(2).standard_normal((num_rewards, H, S, A))
    rewards[::2] = np.abs(rewards[::2]).round()
    return rewards


@pytest.mark.skipif(native._functions() is None, reason="there was no compiler")
@pytest.mark.parametrize("processors", [1, 3])
@pytest.mark.parametrize("num_rewards", [1, native.LANES, 3 * native.LANES + 5])
@pytest.mark.parametrize("size", SIZES)
def test_plans_are_those_of_the_definition(monkeypatch, size, num_rewards, processors):
    """Whatever the last tile of states and the last block of rewards repeat, and however states are split."""
    monkeypatch.setattr(native, "threads", lambda: processors)
    monkeypatch.setattr(native, "TRANSITIONS_PER_THREAD", 10)
    kernel, rewards = random_case((size, 0))[0], rewards_of(size, num_rewards)
    for form in (kernel, from_table(kernel.dense())):
        together = optimal(form, rewards)
        for i, reward in enumerate(rewards):
            policy, V = induction.best_policy(form, reward)
            for found in (optimal(form, reward), induction.Solution(together.policy[i], together.V[i])):
                np.testing.assert_array_equal(found.policy, policy)
                np.testing.assert_allclose(found.V, V, **TIGHT)


@pytest.mark.skipif(native._functions() is None, reason="there was no compiler")
@pytest.mark.parametrize("S", [1, 2, 16, 37])
def test_every_length_of_rows_and_number_of_actions(S):
    """Loops are unrolled for two to four actions and for up to four successors, and end in remainders."""
    rng = np.random.default_rng(S)
    for A, n, H in itertools.product(range(1, 7), range(1, 10), [1, 3]):
        kernel = Kernel(
            rng.integers(S, size=(S, A, n), dtype=np.int32), rng.dirichlet(np.ones(n), size=(S, A)), False
        )
        rewards = rng.integers(3, size=(native.LANES + 1, H, S, A)) / 2
        for form in (kernel, from_table(kernel.dense())):
            policies, V = zip(*(induction.best_policy(form, reward) for reward in rewards))
            for i, solution in [(slice(None), optimal(form, rewards)), (0, optimal(form, rewards[0]))]:
                np.testing.assert_allclose(solution.V, np.stack(V)[i], **TIGHT)
                np.testing.assert_array_equal(solution.policy, np.stack(policies)[i])


@pytest.mark.parametrize("is_dense", [True, False])
@pytest.mark.parametrize("num_rewards", [None, 3, native.LANES + 3])
@pytest.mark.usefixtures("without_compiler")
def test_the_first_step_alone_is_that_of_the_whole_plan(num_rewards, is_dense):
    size = (23, 5, 7, 4)
    kernel = random_case((size, 0))[0]
    kernel = from_table(kernel.dense()) if is_dense else kernel
    rewards = rewards_of(size, 1)[0] if num_rewards is None else rewards_of(size, num_rewards)
    for reward in (rewards, np.broadcast_to(rewards[..., :1, :, :], rewards.shape)):
        whole, first = optimal(kernel, reward), optimal(kernel, reward, only_first=True)
        assert first.V.shape == first.policy.shape == (*rewards.shape[:-3], 1, 23)
        np.testing.assert_array_equal(first.V[..., 0, :], whole.V[..., 0, :])
        np.testing.assert_array_equal(first.policy[..., 0, :], whole.policy[..., 0, :])


@pytest.mark.usefixtures("without_compiler")
def test_rounding_does_not_settle_ties_of_plans():
    """Rows that are summed in another order differ in their last bits, and are tied all the same."""
    rng = np.random.default_rng(0)
    S, A, n = 30, 6, 8
    succ = np.repeat(rng.integers(S, size=(S, 1, n)), A, axis=1).astype(np.int32)
    prob = np.repeat(rng.dirichlet(np.ones(n), size=(S, 1)), A, axis=1)
    for a in range(A):
        order = rng.permutation(n)
        succ[:, a], prob[:, a] = succ[:, a, order], prob[:, a, order]
    reward = np.repeat(rng.random((7, S, 1)), A, axis=2)
    for x in (reward, np.stack([reward] * native.LANES)):
        assert (optimal(Kernel(succ, prob, False), x).policy == 0).all()


@pytest.mark.usefixtures("without_compiler")
def test_no_reward_that_is_not_finite_is_overlooked(subtests):
    """Wherever it stands, in the first action or the last, at the first step or the last."""
    for value, is_dense, num_rewards, only_first in itertools.product(
        [np.nan, np.inf, -np.inf], [True, False], [1, native.LANES + 1], [True, False]
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
                    optimal(form, bad, only_first=only_first)


@pytest.mark.usefixtures("without_compiler")
@pytest.mark.parametrize("is_dense", [True, False])
@pytest.mark.parametrize("num_rewards", [1, native.LANES + 1])
def test_totals_that_overflow_are_refused_and_others_are_not(num_rewards, is_dense):
    """Up or down; and the rewards of different actions are not a total."""
    kernel, _, _ = random_case(((20, 3, 4, 5), 1))
    form = from_table(kernel.dense()) if is_dense else kernel
    for sign in (1, -1):
        rewards = np.zeros((num_rewards, 5, 20, 3))
        rewards[:, 4] = sign * 1.7e308
        assert np.abs(optimal(form, rewards).V[:, 4]).max() == 1.7e308
        rewards[-1, 3] = sign * 1.7e308
        with pytest.raises(RewardError, match=r"rewards reach 1.7e\+308; their totals overflow"):
            optimal(form, rewards)


def dense_rows(S, seed):
    """Rows of many kinds, in four actions: spread out, nearly uniform, certain, and of any sign and sum."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(S), size=(S, 4))
    rows[:, 1] = 1 / S + 1e-9 * (rows[:, 1] - 1 / S)
    rows[:, 2] = np.eye(S)[rng.integers(S, size=S)]
    return rows, np.where(np.arange(4)[:, None] == 3, rng.standard_normal((S, 4, S)), rows)


def test_no_action_that_counts_is_left_out(subtests):
    """For rewards under which few, many or all actions of a dense kernel can be left out."""
    for kind, S in itertools.product(
        ["fresh", "same", "goal", "last step", "ties", "costs", "huge", "tiny", "fading"], [3, 16, 23, 50]
    ):
        with subtests.test(kind, S=S):
            H, rng = 30, np.random.default_rng(S)
            rewards = {
                "fresh": rng.random((H, S, 4)),
                "same": np.broadcast_to(rng.random((S, 4)), (H, S, 4)),
                "goal": np.broadcast_to((np.arange(S) == 2)[:, None] / H, (H, S, 4)),
                "last step": (np.arange(H) == H - 1)[:, None, None] * rng.random((S, 4)),
                "ties": np.broadcast_to(rng.integers(2, size=(S, 1)) / H, (H, S, 4)),
                "costs": -rng.exponential(size=(H, S, 4)) * 1e-3,
                "huge": 1e200 * rng.standard_normal((H, S, 4)),
                "tiny": 1e-170 * rng.standard_normal((H, S, 4)),
                "fading": 10.0 ** -(11 * np.arange(H)[:, None, None]) * rng.random((H, S, 4)),
            }
            for prob in dense_rows(S, 2):
                kernel = from_table(prob)
                solution, (_, V) = (
                    optimal(kernel, rewards[kind]),
                    induction.best_policy(kernel, rewards[kind]),
                )
                scale = np.abs(V).max(-1, keepdims=True) + 1e-300
                np.testing.assert_allclose(solution.V / scale, V / scale, **TIGHT)
                for h in range(H):
                    Q = (rewards[kind][h] + kernel.expect(V[h + 1])) / scale[h]
                    own = np.take_along_axis(Q, solution.policy[h][:, None], -1)[:, 0]
                    np.testing.assert_allclose(own, Q.max(-1), **TIGHT)


def test_ties_of_dense_kernels_go_to_the_lowest_action():
    """Dyadic numbers are summed without rounding; rewards differ by step, so that actions can be left out."""
    S, H, rng = 32, 12, np.random.default_rng(3)
    rows = np.eye(S)[rng.integers(S, size=(S, 2, 4))].mean(-2)
    kernel = from_table(np.repeat(rows, 2, axis=1))  # actions 0 and 1 are twins, and so are 2 and 3
    reward = np.repeat(rng.integers(1, 5, size=(H, S, 2)), 2, axis=2).astype(float)
    policy, V = induction.best_policy(kernel, reward)
    solution = optimal(kernel, reward)
    assert set(np.unique(policy)) == {0, 2}
    np.testing.assert_array_equal(solution.policy, policy)
    np.testing.assert_array_equal(solution.V, V)


IMPORTS = """
import sys
import numpy as np
from horizonfree import planning
from horizonfree.mdp.space import Kernel
kernel = Kernel(np.zeros((1, 2, 1), np.int32), np.ones((1, 2, 1)), False)
policy = planning.optimal(kernel, np.ones((3, 1, 2))).policy
assert planning.evaluate(kernel, np.ones((3, 1, 2)), policy)[0, 0] == 3
assert planning.visits(kernel, policy, 0).sum() == 3
print({"jax", "numba"} & set(sys.modules))
"""


def test_plans_need_neither_jax_nor_numba():
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "set()", done.stderr
