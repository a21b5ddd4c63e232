"""Discounted rewards and a payment for the last state, against sums over all policies and all trajectories."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError
from horizonfree.runs.reward_spec import extend_reward

H, S, A = 2, 4, 2
FINAL, GAMMA = np.array([0.0, 0.1, 0.2, 0.5]), 0.7
REWARD = np.random.default_rng(1).uniform(0, 0.25, (S, A))


@pytest.fixture(scope="module")
def run() -> hf.Run:
    """A line in which the last state can only be reached by the last step, so that nothing is known of it."""
    s = np.arange(S)
    successors = np.stack([np.minimum(s + 1, S - 1), np.minimum(s + 2, S - 1)], axis=1)
    kernels = np.eye(S)[np.stack([successors, np.stack([s, s], axis=1)])]
    kernels = {"goes": 0.5 * kernels[0] + 0.5 * kernels[1], "stays": kernels[1]}
    problem = hf.Mixture.from_kernels(kernels, horizon=H, weights=[0.7, 0.3])
    return hf.explore(problem, "uniform", episodes=40, progress=False)


def enumerated_value(
    P: np.ndarray, reward: np.ndarray, policy: np.ndarray, gamma: float, final: np.ndarray | None
) -> float:
    """sum_h gamma^(h-1) r + gamma^H f, averaged over trajectories, letter by letter."""
    total = 0.0
    for path in product(range(S), repeat=H):
        s, chance, reward_sum = 0, 1.0, 0.0
        for h, successor in enumerate(path):
            a = policy[h, s]
            reward_sum += gamma**h * reward[s, a]
            chance *= P[s, a, successor]
            s = successor
        total += chance * (reward_sum + (0.0 if final is None else gamma**H * final[s]))
    return total


@pytest.mark.parametrize(("gamma", "final"), [(GAMMA, None), (GAMMA, FINAL)])
def test_a_plan_is_the_best_of_all_policies_and_its_bounds_hold(run: hf.Run, gamma: Any, final: Any) -> None:
    """The truth lies outside the interval or beyond the gap with probability at most 1e-6, for any seed of the run."""
    plan = run.plan(REWARD, discount=gamma, final=final, delta=1e-6)
    P, truth = run.confidence(1e-6).kernel.dense(), run.problem.kernel().dense()
    policies = [np.array(x).reshape(H, S) for x in product(range(A), repeat=H * S)]
    assert plan.policy.shape == (H, S)
    settings = (gamma, final)
    assert plan.value == pytest.approx(
        max(enumerated_value(P, REWARD, x, *settings) for x in policies), abs=1e-9
    )
    assert plan.value == pytest.approx(enumerated_value(P, REWARD, plan.policy, *settings), abs=1e-9)
    true = enumerated_value(truth, REWARD, plan.policy, *settings)
    best = max(enumerated_value(truth, REWARD, x, *settings) for x in policies)
    assert plan.value_low - 1e-9 <= true <= plan.value_high + 1e-9
    assert best - true <= plan.gap + 1e-9
    assert plan.gap < best
    evaluation = run.evaluate(REWARD, policies[37], discount=gamma, final=final)
    assert evaluation.value == pytest.approx(enumerated_value(P, REWARD, policies[37], *settings), abs=1e-9)
    view, table, _ = extend_reward(run.problem, REWARD, gamma, final)
    padded_policy = np.concatenate([plan.policy, plan.policy])[: len(table)]
    assert hf.true_gap(view, table, padded_policy) == pytest.approx(best - true, abs=1e-9)


def test_costs_can_be_discounted_and_the_end_can_cost(run: hf.Run) -> None:
    cost_plan = run.plan(-100 * REWARD, scale="rescale", discount=GAMMA, final=-100 * FINAL)
    P = run.confidence().kernel.dense()
    assert cost_plan.value == pytest.approx(
        enumerated_value(P, -100 * REWARD, cost_plan.policy, GAMMA, -100 * FINAL), abs=1e-7
    )
    assert cost_plan.value_low <= cost_plan.value <= cost_plan.value_high


def test_a_discount_says_what_an_end_that_never_comes_may_cost(run: hf.Run) -> None:
    text = run.plan(REWARD, discount=GAMMA).certificate.summary()
    tail = GAMMA**H / (1 - GAMMA) * np.ptp(REWARD)
    number = float(text.split("with an infinite horizon, at most ")[1].split()[0])
    assert tail <= number <= 1.02 * tail
    for reward, options in ((np.broadcast_to(REWARD, (H, S, A)), {}), (REWARD, {"final": FINAL})):
        assert "infinite horizon" not in run.plan(reward, discount=GAMMA, **options).certificate.summary()
    assert "infinite horizon" not in run.plan(REWARD, discount=1.0).certificate.summary()
    assert run.plan(REWARD, discount=1.0).value == pytest.approx(run.plan(REWARD).value)
    restarted = run.plan(REWARD, final=FINAL, start=0, horizon=H)  # the view of the tests before
    assert restarted.certificate.summary().endswith(", from state 0, in 2 steps")


BAD_ENDS = [
    ({"discount": 0}, "discount is 0; it must be a number above 0 and at most 1"),
    ({"discount": 1.5}, "discount is 1.5; it must be"),
    ({"discount": "x"}, "discount is 'x'; it must be"),
    ({"discount": True}, "discount is True; it must be"),
    ({"final": np.zeros(3)}, r"final has shape \(3,\); it must be \[S\] = \(4,\)"),
    ({"final": np.full(4, np.nan)}, "rewards must be finite"),
    ({"final": 5 * np.ones(4)}, "the total reaches"),
]


def test_what_is_no_discount_and_no_end_is_refused(run: hf.Run, subtests: pytest.Subtests) -> None:
    for options, message in BAD_ENDS:
        with subtests.test(message):
            with pytest.raises(HorizonfreeError, match=message):
                run.plan(REWARD, **options)
            with pytest.raises(HorizonfreeError, match="give the original reward, with scale='rescale'"):
                run.plan(hf.rescale(run.problem, -REWARD), discount=0.5)
