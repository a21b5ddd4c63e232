"""Payments for transitions, against sums over all policies and all trajectories."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError
from horizonfree.mdp.lift import expected, lifted, separated

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
    found = {"mixture": mixture, "tabular": table}
    return {
        name: hf.explore(problem, "uniform", episodes=800, progress=False) for name, problem in found.items()
    }


def worth(P: np.ndarray, t: np.ndarray, policy: np.ndarray, gamma: float = 0.7, final: Any = FINAL) -> float:
    """sum_h gamma^(h-1) (r + t) + gamma^H f, averaged over trajectories, letter by letter."""
    total = 0.0
    for way in product(range(S), repeat=H):
        s, chance, paid = 0, 1.0, 0.0
        for h, to in enumerate(way):
            a = policy[h, s]
            paid += gamma**h * (REWARD[s, a] + t[s, a, to])
            chance *= P[s, a, to]
            s = to
        total += chance * (paid + gamma**H * final[s])
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
    assert plan.value == pytest.approx(max(worth(P, t, x) for x in POLICIES), abs=1e-9)
    assert plan.value == pytest.approx(worth(P, t, plan.policy), abs=1e-9)
    true, best = worth(truth, t, plan.policy), max(worth(truth, t, x) for x in POLICIES)
    assert plan.value_low - 1e-9 <= true <= plan.value_high + 1e-9
    assert best - true <= plan.gap + 1e-9
    assert plan.certificate.eps < 0.9  # it says something
    own = run.evaluate(REWARD, POLICIES[37], transition=t, scale="rescale", **HOW)
    assert own.value == pytest.approx(worth(P, t, POLICIES[37]), abs=1e-9)
    there = run.plan(
        REWARD, transition=lambda s, a, to: t[s, a, to], scale="rescale", start=0, horizon=H, **HOW
    )
    assert there.value == pytest.approx(plan.value, abs=1e-9)
    assert there.certificate.words.endswith(", from state 0, in 2 steps")


def test_what_has_a_simple_form_needs_no_lift(runs: dict[str, hf.Run]) -> None:
    space = runs["mixture"].problem.space
    parts = separated(space, SALES)
    assert parts is not None
    support = np.asarray(space.support)
    np.testing.assert_allclose((parts[0][..., None] + parts[1])[support], SALES[support], atol=1e-12)
    assert separated(space, STAYS) is None
    lift = lifted(space, STAYS)
    entered = {(to, STAYS[s, a, to]) for s, a, to in zip(*np.nonzero(support))}
    assert len(lift.origin) == len(entered)
    kernel = runs["mixture"].problem.kernel()
    again = lift.kernel(kernel).dense()
    np.testing.assert_allclose(again.sum(-1), 1.0, atol=1e-12)
    for x, a in np.ndindex(len(lift.origin), A):  # by where it leads, and by what is paid for it
        s = lift.origin[x]
        np.testing.assert_allclose(np.bincount(lift.origin, again[x, a], S), kernel.dense()[s, a], atol=1e-12)
        assert again[x, a] @ lift.paid == pytest.approx(expected(kernel, STAYS)[s, a], abs=1e-12)


@pytest.mark.parametrize(
    ("t", "words"),
    [
        (np.zeros((S, A)), r"transition has shape \(3, 2\); it must be \[S, A, S\] = \(3, 2, 3\)"),
        (np.full((S, A, S), np.nan), "rewards must be finite"),
        (lambda s, a: 1.0, r"transition gives no number at \(s, a, s'\) = \(0, 0, 0\): TypeError"),
        (9 * STAYS, "the total reaches"),
    ],
)
def test_what_pays_for_no_transition_is_refused(t: Any, words: str, runs: dict[str, hf.Run]) -> None:
    with pytest.raises(HorizonfreeError, match=words):
        runs["mixture"].plan(REWARD, transition=t)


def test_other_classes_and_models_are_refused_with_words(runs: dict[str, hf.Run]) -> None:
    with pytest.raises(HorizonfreeError, match="leave model= out"):
        runs["mixture"].plan(REWARD, transition=STAYS, model="explorer")
    phi = np.concatenate([np.ones((S, A, 1)), RNG.uniform(size=(S, A, 1))], axis=2)
    line = hf.LinearMDP.from_features(phi, mu=np.array([[0.2, 0.3, 0.5], [0.3, 0.0, -0.3]]), horizon=H)
    run = hf.explore(line, "uniform", episodes=5, progress=False)
    with pytest.raises(HorizonfreeError, match="linear MDPs are about values of states"):
        run.plan(REWARD, transition=STAYS)
