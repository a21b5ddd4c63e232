"""Runs whose first state is drawn: planned, certified, and many at once; test_conformance has everyone explore so."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import ShapeError
from horizonfree.explorers.registry import EXPLORERS
from horizonfree.planning import evaluate, optimal
from tests.runs.test_store import assert_same

START = np.array([0.5, 0.0, 0.3, 0.2])
H, S, A, K = 3, 4, 2, 6
SMALL = {"chains": 1, "sweeps": 2, "moment_orders": 2, "budget": 20, "scale": 0.2, "per_goal": 1}


def kernels(d: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(S), size=(d, S, A))


WEIGHTS = np.array([0.5, 0.3, 0.2])


def problem_with_random_start(start: Any = START) -> hf.Problem:
    return hf.Mixture.from_kernels(kernels(), horizon=H, start=start, weights=WEIGHTS)


def with_a_state_that_draws() -> hf.Problem:
    """The same with a fixed start: one more state, in which every action leads to the draw."""
    longer_kernels = np.zeros((3, S + 1, A, S + 1))
    longer_kernels[:, :S, :, :S] = kernels()
    longer_kernels[:, S, :, :S] = START
    return hf.Mixture.from_kernels(longer_kernels, horizon=H + 1, start=S, weights=WEIGHTS)


def reward(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).uniform(size=(H, S, A)) / H


def options(name: str) -> dict[str, Any]:
    settings = SMALL | {"reward": reward()}
    return {key: x for key, x in settings.items() if key in EXPLORERS[name].options}


def test_a_value_is_the_mean_over_the_start_and_so_is_what_is_lost() -> None:
    problem, table = problem_with_random_start(), reward()
    run = hf.explore(problem, "optimal-design", episodes=40)
    plan = run.plan(table)
    assert plan.value == pytest.approx(START @ evaluate(plan.kernel, table, plan.policy)[0], abs=1e-12)
    assert plan.value == pytest.approx(START @ optimal(plan.kernel, table).V[0], abs=1e-12)
    losses = optimal(problem.kernel(), table).V[0] - evaluate(problem.kernel(), table, plan.policy)[0]
    assert hf.true_gap(problem, table, plan.policy) == pytest.approx(START @ losses, abs=1e-12)


def test_certificates_are_those_of_a_state_that_draws_the_start() -> None:
    """Logged episodes of both problems, one step longer in the second: the draw is known and costs nothing.

    The predictors of both agree to the digits of their solver, and so do the numbers.
    """
    problem, extended = problem_with_random_start(), with_a_state_that_draws()
    episodes = hf.simulate(problem, np.full((H, S, A), 1 / A), episodes=400, seed=5)
    column = np.full((400, 1), S)
    run = hf.from_episodes(problem, episodes)
    other = hf.from_episodes(extended, (np.hstack([column, episodes.s]), np.hstack([0 * column, episodes.a])))
    for method in ("uniform", "direct"):
        certificate, expected = run.certificate(method=method), other.certificate(method=method)
        assert certificate.method == expected.method
        assert certificate.eps == pytest.approx(expected.eps, rel=1e-5)
        assert not certificate.is_vacuous
    for seed in range(3):
        table = np.zeros((H + 1, S + 1, A))
        table[1:, :S] = reward(seed)
        certificate, expected = run.plan(reward(seed)), other.plan(table)
        assert certificate.value == pytest.approx(expected.value, rel=1e-6)
        assert certificate.gap == pytest.approx(expected.gap, rel=1e-5, abs=1e-9)
        for proof in ("interval", "uniform", "tangent"):
            bounds = [plan.certificate.parts[proof] for plan in (certificate, expected)]
            assert bounds[0] == pytest.approx(bounds[1], rel=1e-5, abs=1e-9)
        assert certificate.certificate.parts["interval"] > 0.01
        np.testing.assert_array_equal(certificate.policy, expected.policy[1:, :S])


def test_no_plan_loses_more_than_was_certified() -> None:
    """Three runs at delta = 1e-8, eight rewards each, and each run's own claim: false alarm 3e-8."""
    problem = problem_with_random_start()
    for seed in range(3):
        run = hf.explore(problem, "optimal-design", episodes=150, seed=seed)
        eps = run.certificate(1e-8, method="direct").eps
        assert eps < 1
        for state in range(S):
            for table in (hf.goal(problem, state), hf.occupancy(problem, state)):
                plan = run.plan(table, delta=1e-8)
                loss = hf.true_gap(problem, table, plan.policy)
                assert -1e-12 <= loss <= min(plan.gap, eps) + 1e-9


@pytest.mark.parametrize("name", ["ucrl-rfe", "ucrl-rfe+", "hf-ucrl-rfe++"])
def test_an_algorithms_own_claim_is_about_the_mean_over_the_start(name: str) -> None:
    """At its first episode nothing is known: U is 1 in all states. Later it is a mean of values in [0, 1]."""
    problem = problem_with_random_start()
    settings = {key: x for key, x in options(name).items() if key not in ("scale", "budget")}
    run = hf.explore(problem, name, episodes=3, constants="paper", **settings)
    assert run.explorer.budget == 3  # type: ignore[union-attr]
    claim = run.certificate(method="paper")
    assert claim.method.startswith("paper constants")
    assert claim.eps == 1.0
    assert "vacuous" in claim.summary()
    if name == "ucrl-rfe+":
        assert claim.parts["V"] == pytest.approx(START @ run.progress.state.V[0], abs=1e-12)
    small = hf.explore(problem, name, episodes=3, scale=1e-3, **settings)
    relaxed_bound = small.certificate(method="paper").parts["relaxed"]
    assert 0 <= relaxed_bound < 1


def without_record(run: hf.Run) -> hf.Run:
    """As batches keep it: without what only misspecification asks for."""
    if getattr(run.evidence, "record", None) is None:
        return run
    return dataclasses.replace(run, evidence=dataclasses.replace(run.evidence, record=None))


# the bits of two programs, or their numbers
@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize("name", ["optimal-design", "uniform", "hf-ucrl-rfe++"])
def test_many_at_once_have_the_numbers_that_each_has_alone(
    name: str, is_wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other to the bit, side by side, as on a GPU, to rounding."""
    from horizonfree.batch import explore as batch_explore

    monkeypatch.setattr(batch_explore, "is_wide", lambda _: is_wide)
    batch = hf.explore_many(problem_with_random_start(), name, episodes=K, seeds=3, **options(name))
    for run in batch:
        single = hf.explore(problem_with_random_start(), name, episodes=K, seed=run.seed, **options(name))
        if not is_wide:
            assert_same(run, without_record(single))
        np.testing.assert_array_equal(run.evidence.counts, single.evidence.counts)
        for column in single.records:
            np.testing.assert_allclose(run.records[column], single.records[column], rtol=1e-9, atol=1e-9)


def test_the_problems_of_a_batch_may_start_differently_and_each_is_judged_by_its_own() -> None:
    problems = [problem_with_random_start(), problem_with_random_start([0.1, 0.9, 0.0, 0.0])]
    tables = [reward(0), reward(1)]
    settings = {"checkpoints": [K], "curves": ["gap", "own_gap", "eps"], "rewards": tables}
    batch = hf.explore_many(problems, "uniform", episodes=K, seeds=1, **settings)
    for i, run in enumerate(batch):
        for name, model in {"gap": "likelihood", "own_gap": "explorer"}.items():
            losses = [hf.true_gap(run.problem, r, run.plan(r, model=model).policy) for r in tables]
            assert batch.curves[name][i, 0] == pytest.approx(max(losses), abs=1e-9)
        assert batch.curves["eps"][i, 0] == pytest.approx(run.certificate(method="uniform").eps, abs=1e-9)
    with pytest.raises(ShapeError, match="problem 1 has start 0, problem 0 has None"):
        hf.explore_many(
            [problem_with_random_start(), problem_with_random_start(0)], "uniform", episodes=1, seeds=1
        )
