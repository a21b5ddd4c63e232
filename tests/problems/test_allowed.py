"""Actions that exist in some states only, against the enumeration of all allowed policies."""

from itertools import product
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError
from horizonfree.mdp.rewards import as_table

H, S, A = 3, 3, 3
ALLOWED = np.array([[False, True, True], [True, True, False], [False, False, True]])
RNG = np.random.default_rng(3)
KERNELS = RNG.dirichlet(np.ones(S), (2, S, A))
KERNELS[:, ~ALLOWED] = np.nan  # its successors are unknown
WEIGHTS = np.array([0.6, 0.4])
REWARD = RNG.uniform(0, 1 / H, (H, S, A))
REWARD[:, ~ALLOWED] = np.inf  # and its reward is not used
TRUTH = np.where(ALLOWED[..., None], np.einsum("i,isat->sat", WEIGHTS, KERNELS), 0.0)
POLICIES = [
    np.array(x).reshape(H, S)
    for x in product(*[np.flatnonzero(ALLOWED[s]) for _ in range(H) for s in range(S)])
]


def make_problem(kind: str) -> hf.Problem:
    """The same system in three classes of models."""
    settings: dict[str, Any] = {"horizon": H, "actions_allowed": ALLOWED}
    if kind == "mixture":
        return hf.Mixture.from_kernels(KERNELS, weights=WEIGHTS, **settings)
    if kind == "tabular":
        return hf.Tabular.from_table(TRUTH, **settings)
    phi = np.concatenate([np.ones((S, A, 1)), RNG.uniform(size=(S, A, 1))], axis=2)
    mu = np.array([[0.2, 0.3, 0.5], [0.3, 0.0, -0.3]])
    return hf.LinearMDP.from_features(phi, mu=mu, **settings)


@pytest.fixture(scope="module")
def runs() -> dict[str, hf.Run]:
    """Explored by policies that know nothing of the rule."""
    return {
        kind: hf.explore(make_problem(kind), "uniform", episodes=400, progress=False)
        for kind in ("mixture", "tabular", "linear")
    }


def policy_value(P: np.ndarray, policy: np.ndarray) -> float:
    """V_1 of a policy that is allowed, step by step."""
    V = np.zeros(S)
    for h in reversed(range(H)):
        V = np.array([REWARD[h, s, policy[h, s]] + P[s, policy[h, s]] @ V for s in range(S)])
    return float(V[0])


@pytest.mark.parametrize("kind", ["mixture", "tabular", "linear"])
def test_a_plan_is_the_best_of_the_allowed_and_its_bounds_hold(kind: str, runs: dict[str, hf.Run]) -> None:
    """The truth lies outside the interval or beyond the gap with probability at most 1e-6, for any seed of the run."""
    run = runs[kind]
    plan = run.plan(REWARD, delta=1e-6)
    P, truth = run.confidence(1e-6).kernel.dense(), run.problem.kernel().dense()
    assert ALLOWED[np.arange(S), plan.policy].all()
    assert plan.value == pytest.approx(max(policy_value(P, x) for x in POLICIES), abs=1e-9)
    assert plan.value == pytest.approx(policy_value(P, plan.policy), abs=1e-9)
    true, best = policy_value(truth, plan.policy), max(policy_value(truth, x) for x in POLICIES)
    assert plan.value_low - 1e-9 <= true <= plan.value_high + 1e-9
    assert best - true <= plan.gap + 1e-9
    assert run.certificate(1e-6, rewards=[REWARD]).eps >= best - true
    assert hf.true_gap(run.problem, REWARD, plan.policy) == pytest.approx(best - true, abs=1e-9)
    evaluation = run.evaluate(REWARD, POLICIES[5])
    assert evaluation.value == pytest.approx(policy_value(P, POLICIES[5]), abs=1e-9)
    assert run.visits[~ALLOWED].sum() == 0
    assert run.visits.sum() == 400 * H


def test_forbidden_names_are_nothing_to_learn(runs: dict[str, hf.Run]) -> None:
    """As good as the same table in which the forbidden are known, of as many pairs."""
    table = runs["tabular"].problem
    assert table.model.num_unknown == ALLOWED.sum()
    counts = np.asarray(runs["tabular"].evidence.counts)
    acts = np.where(ALLOWED, np.arange(A), ALLOWED.argmax(1)[:, None])
    np.testing.assert_array_equal(counts, counts[np.arange(S)[:, None], acts])
    eps = np.asarray(runs["tabular"].confidence().balls.eps)
    assert np.isfinite(eps).all()
    np.testing.assert_array_equal(eps, eps[np.arange(S)[:, None], acts])
    assert make_problem("mixture").as_tabular().model.num_unknown == ALLOWED.sum()
    as_mixture = hf.Mixture.from_tabular(TRUTH, horizon=H, actions_allowed=ALLOWED)
    assert as_mixture.model.dim == ALLOWED.sum() * S
    np.testing.assert_allclose(as_mixture.kernel().dense(), table.kernel().dense(), atol=1e-12)


def test_it_is_stored_and_shown(runs: dict[str, hf.Run], tmp_path: Path) -> None:
    run = runs["mixture"]
    run.save(tmp_path / "run")
    loaded = hf.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.problem.actions_allowed, ALLOWED)
    np.testing.assert_array_equal(loaded.plan(REWARD).policy, run.plan(REWARD).policy)
    assert "allowed  1 to 2 actions, by state" in repr(run.problem)
    assert hf.make("river-swim").actions_allowed.all()


def test_an_environment_is_never_asked_for_a_forbidden_action() -> None:
    problem = make_problem("mixture")
    env = problem.to_gymnasium()
    env.reset(seed=0)
    with pytest.raises(gymnasium.error.InvalidAction, match="state 0 does not allow action 0"):
        env.step(0)
    run = hf.explore(env, known=problem, explorer="uniform", episodes=20, progress=False)
    assert run.episodes == 20
    assert env.reset()[1]["action_mask"].tolist() == [0, 1, 1]


def test_noise_is_asked_for_allowed_actions_alone() -> None:
    def sell(stock: int, order: int, demand: int) -> int:
        assert stock + order <= 2
        return max(0, stock + order - demand)

    sizes = {"num_states": 3, "num_actions": 3, "horizon": 4}
    shop = hf.Mixture.from_noise(
        sell, [0, 1], actions_allowed=lambda s, a: s + a <= 2, weights=[0.5, 0.5], **sizes
    )
    assert shop.actions_allowed.sum() == 6
    P = shop.kernel().dense()
    np.testing.assert_array_equal(P[2, 1:], P[2, [0, 0]])

    def price(h: int, stock: int, order: int) -> float:
        assert stock + order <= 2
        return -1.0 * (stock == 0) - 0.1 * order

    table = as_table(shop, price)
    np.testing.assert_array_equal(table[:, 2, 1:], table[:, 2, [0, 0]])


BAD_RULES = [
    (np.ones((2, 2)), r"actions_allowed has shape \(2, 2\).*must be \[S, A\] = \(3, 3\)"),
    (np.full((S, A), 0.5), "True where an action is allowed"),
    (ALLOWED & (np.arange(S) != 2)[:, None], "forbids every action of state 2"),
    (lambda s: True, r"actions_allowed\(s=0, a=0\) fails: TypeError"),
    (lambda s, a: 7, r"actions_allowed\(s=0, a=0\) is 7; it must be True or False"),
]


def test_what_is_no_rule_is_refused(subtests: pytest.Subtests) -> None:
    for allowed, message in BAD_RULES:
        with subtests.test(message), pytest.raises(HorizonfreeError, match=message):
            hf.Mixture.from_kernels(np.nan_to_num(KERNELS), horizon=H, actions_allowed=allowed)


def test_policies_and_logs_that_break_the_rule_are_refused(runs: dict[str, hf.Run]) -> None:
    run = runs["mixture"]
    for policy in (np.zeros(S, int), np.full((S, A), 1 / A)):
        with pytest.raises(
            HorizonfreeError, match="takes action 0, which state 0 does not allow; it allows 1, 2"
        ):
            run.evaluate(REWARD, policy)
    with pytest.raises(HorizonfreeError, match=r"actions\[0, 0\] is 0, which state 0 does not allow"):
        hf.from_episodes(run.problem, (np.zeros((1, H + 1), int), np.zeros((1, H), int)))
