"""Payments for transitions, against sums over all policies and all trajectories."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError
from horizonfree.mdp.events import expected_payment, lift_payments, split_payments

H, S, A = 2, 3, 2
RNG = np.random.default_rng(5)
KERNELS = RNG.dirichlet(np.ones(S), (2, S, A))
KERNELS[:, 0, 0] = [[0.5, 0.5, 0], [0.2, 0.8, 0]]
REWARD, FINAL = RNG.uniform(0, 0.1, (S, A)), np.array([0.0, 0.1, 0.2])
STAYS = (
    0.2 * np.broadcast_to(np.eye(S)[:, None], (S, A, S)) + 0.05 * np.arange(A)[:, None]
)  # of no simple form
SALES = 0.1 * (np.arange(S)[:, None, None] + np.arange(A)[:, None] + 2 - np.arange(S))  # s + a + 2 - s'
POLICIES = [np.array(x).reshape(H, S) for x in product(range(A), repeat=H * S)]
HOW: dict[str, Any] = {"discount": 0.7, "final": FINAL}


@pytest.fixture(scope="module")
def runs() -> dict[str, hf.Run]:
    """A mixture and a table."""
    mixture = hf.Mixture.from_kernels(KERNELS, horizon=H, weights=[0.7, 0.3])
    table = hf.Tabular.from_table(mixture.kernel().dense(), horizon=H, support="given")
    runs_by_class = {"mixture": mixture, "tabular": table}
    return {
        name: hf.explore(problem, "uniform", episodes=800, progress=False)
        for name, problem in runs_by_class.items()
    }


def enumerated_value(
    P: np.ndarray, t: np.ndarray, policy: np.ndarray, gamma: float = 0.7, final: Any = FINAL
) -> float:
    """sum_h gamma^(h-1) (r + t) + gamma^H f, averaged over trajectories, letter by letter."""
    total = 0.0
    for path in product(range(S), repeat=H):
        s, chance, reward_sum = 0, 1.0, 0.0
        for h, successor in enumerate(path):
            a = policy[h, s]
            reward_sum += gamma**h * (REWARD[s, a] + t[s, a, successor])
            chance *= P[s, a, successor]
            s = successor
        total += chance * (reward_sum + gamma**H * final[s])
    return total


@pytest.mark.parametrize(("kind", "t"), [("mixture", STAYS), ("tabular", STAYS), ("mixture", SALES)])
def test_a_plan_is_the_best_of_all_policies_and_its_bounds_hold(
    kind: str, t: np.ndarray, runs: dict[str, hf.Run]
) -> None:
    """The truth lies outside the interval or beyond the gap with probability at most 1e-6, for any seed of the run."""
    run = runs[kind]
    plan = run.plan(REWARD, transition=t, scale="rescale", delta=1e-6, **HOW)
    P, truth = run.confidence(1e-6).kernel.dense(), run.problem.kernel().dense()
    assert plan.policy.shape == (H, S)
    assert plan.value == pytest.approx(max(enumerated_value(P, t, x) for x in POLICIES), abs=1e-9)
    assert plan.value == pytest.approx(enumerated_value(P, t, plan.policy), abs=1e-9)
    true, best = enumerated_value(truth, t, plan.policy), max(enumerated_value(truth, t, x) for x in POLICIES)
    assert plan.value_low - 1e-9 <= true <= plan.value_high + 1e-9
    assert best - true <= plan.gap + 1e-9
    assert plan.certificate.eps < 0.9  # it says something
    evaluation = run.evaluate(REWARD, POLICIES[37], transition=t, scale="rescale", **HOW)
    assert evaluation.value == pytest.approx(enumerated_value(P, t, POLICIES[37]), abs=1e-9)
    restarted = run.plan(
        REWARD,
        transition=lambda s, a, successor: t[s, a, successor],
        scale="rescale",
        start=0,
        horizon=H,
        **HOW,
    )
    assert restarted.value == pytest.approx(plan.value, abs=1e-9)
    assert restarted.certificate.summary().endswith(", from state 0, in 2 steps")


def test_what_has_a_simple_form_needs_no_lift(runs: dict[str, hf.Run]) -> None:
    space = runs["mixture"].problem.space
    parts = split_payments(space, SALES)
    assert parts is not None
    support = np.asarray(space.support)
    np.testing.assert_allclose((parts[0][..., None] + parts[1])[support], SALES[support], atol=1e-12)
    assert split_payments(space, STAYS) is None
    lift = lift_payments(space, STAYS)
    entered_pairs = {(successor, STAYS[s, a, successor]) for s, a, successor in zip(*np.nonzero(support))}
    assert len(lift.origin) == len(entered_pairs)
    kernel = runs["mixture"].problem.kernel()
    lifted_P = lift.kernel(kernel).dense()
    np.testing.assert_allclose(lifted_P.sum(-1), 1.0, atol=1e-12)
    for x, a in np.ndindex(len(lift.origin), A):  # by where it leads, and by what is paid for it
        s = lift.origin[x]
        np.testing.assert_allclose(
            np.bincount(lift.origin, lifted_P[x, a], S), kernel.dense()[s, a], atol=1e-12
        )
        assert lifted_P[x, a] @ lift.paid == pytest.approx(expected_payment(kernel, STAYS)[s, a], abs=1e-12)


BAD_TRANSITIONS = [
    (np.zeros((S, A)), r"transition has shape \(3, 2\); it must be \[S, A, S\] = \(3, 2, 3\)"),
    (np.full((S, A, S), np.nan), "rewards must be finite"),
    (lambda s, a: 1.0, r"transition gives no number at \(s, a, s'\) = \(0, 0, 0\): TypeError"),
    (9 * STAYS, "the total reaches"),
]


def test_what_pays_for_no_transition_is_refused(runs: dict[str, hf.Run], subtests: pytest.Subtests) -> None:
    for t, message in BAD_TRANSITIONS:
        with subtests.test(message), pytest.raises(HorizonfreeError, match=message):
            runs["mixture"].plan(REWARD, transition=t)


def test_other_classes_and_models_are_refused_with_words(runs: dict[str, hf.Run]) -> None:
    with pytest.raises(HorizonfreeError, match="leave model= out"):
        runs["mixture"].plan(REWARD, transition=STAYS, model="explorer")
    phi = np.concatenate([np.ones((S, A, 1)), RNG.uniform(size=(S, A, 1))], axis=2)
    line = hf.LinearMDP.from_features(phi, mu=np.array([[0.2, 0.3, 0.5], [0.3, 0.0, -0.3]]), horizon=H)
    run = hf.explore(line, "uniform", episodes=5, progress=False)
    with pytest.raises(HorizonfreeError, match="linear MDPs are about values of states"):
        run.plan(REWARD, transition=STAYS)


def true_loss(problem: hf.Problem, t: np.ndarray, policy: np.ndarray) -> float:
    """V* - V^policy in the truth, of a reward that pays for transitions alone."""
    P, start = problem.kernel().dense(), int(problem.start)
    best = values = np.zeros(len(P))
    for pi in policy[::-1]:
        Q_best, Q = ((P * (t + V)).sum(-1) for V in (best, values))
        best, values = Q_best.max(-1), Q[np.arange(len(P)), pi]
    return float(best[start] - values[start])


def coin() -> tuple[hf.Problem, np.ndarray]:
    """A coin of unknown bias. Both actions have the same law; one is a bet on heads, the other on tails."""
    kernels = np.zeros((2, 3, 2, 3))
    kernels[0, :, :, 1] = kernels[1, :, :, 2] = 1
    t = np.zeros((3, 2, 3))
    t[0, 0, 1] = t[0, 1, 2] = 1
    return hf.Mixture.from_kernels(kernels, horizon=2, weights=[0.4, 0.6]), t


def newsvendor() -> tuple[hf.Problem, np.ndarray]:
    """Demand does not depend on the order, and what is left over is thrown away."""
    law = np.array([0.1, 0.15, 0.2, 0.25, 0.3])
    order, demand = np.indices((5, 5))
    t = np.broadcast_to(np.minimum(order, demand) - 0.5 * order, (5, 5, 5))
    problem = hf.Mixture.from_noise(
        lambda s, order, demand: demand, range(5), num_states=5, num_actions=5, horizon=7, weights=law
    )
    return problem, t


def trader() -> tuple[hf.Problem, np.ndarray]:
    """A price goes up with unknown probability; short, flat or long; paid position times change."""
    s = np.arange(7)
    kernels = np.zeros((2, 7, 3, 7))
    kernels[0, s, :, np.minimum(s + 1, 6)] = kernels[1, s, :, np.maximum(s - 1, 0)] = 1
    t = (np.arange(3) - 1)[None, :, None] * (s[None, None] - s[:, None, None]).astype(float)
    return hf.Mixture.from_kernels(kernels, horizon=20, start=3, weights=[0.55, 0.45]), t


@pytest.mark.parametrize("make", [coin, newsvendor, trader])
def test_actions_of_one_law_that_are_paid_differently_are_a_choice(make: Any) -> None:
    """Two actions of one law are no choice for rewards r(s, a); for payments t(s, a, s') they are.

    Each certificate is false with probability at most 5e-8, so the test fails with probability at most 1e-6.
    """
    problem, t = make()
    losses = []
    for seed in range(20):
        run = hf.explore(problem, episodes=2, seed=seed, progress=False)
        plan = run.plan(np.zeros(problem.num_states), transition=t, scale="rescale", delta=5e-8)
        losses.append(true_loss(problem, t, plan.policy))
        assert losses[-1] <= plan.gap + 1e-9
        assert run.certificate().eps < 1e-9  # of rewards r(s, a): no action influences what happens
    assert max(losses) > 0.1  # some of these plans are bad


def test_a_small_part_of_large_payments_is_not_dropped() -> None:
    """Everything that can be gained is 1e-4 of payments of 1e9; each run fails with probability at most 1e-6."""
    rng, H, S, A = np.random.default_rng(0), 3, 3, 2
    problem = hf.Mixture.from_kernels(rng.dirichlet(np.ones(S), (2, S, A)), horizon=H, weights=[0.5, 0.5])
    t = 1e9 + 1e-4 * rng.normal(size=(S, A, S))
    assert split_payments(problem.space, t) is None
    run = hf.from_episodes(problem, hf.simulate(problem, np.full((H, S, A), 0.5), episodes=50, seed=0))
    plan = run.plan(np.zeros(S), transition=t, scale="rescale", delta=1e-6)
    assert true_loss(problem, t - 1e9, plan.policy) <= plan.gap + 1e-7
