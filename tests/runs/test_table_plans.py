"""Plans of tables: in the observed frequencies, with bounds from balls that leave rare successors out."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.mdp.rewards import resolve
from horizonfree.models import certify

WAIT, REPAIR = 0, 1
STATES = 30  # two would make it so cheap to learn the law of a pair that no successor is left out
COST = np.array([[0.0, 1.0], *[[50.0, 50.0]] * (STATES - 1)])


def log_with_breakdowns(waits: int, breakdowns: int) -> tuple[hf.Problem, hf.Run]:
    """One machine, one step per episode: waits, some of which end in a breakdown, and as many repairs."""
    problem = hf.Tabular(STATES, 2, horizon=10, start=0)
    ends = np.r_[np.ones(breakdowns, int), np.zeros(2 * waits - breakdowns, int)]
    states = [[0, int(end)] for end in ends]
    actions = [[WAIT]] * waits + [[REPAIR]] * waits
    return problem, hf.from_episodes(problem, (states, actions))


def test_a_plan_heeds_what_was_seen_once_or_twice() -> None:
    """Two breakdowns in 69 waits cost 50 a step from then on; a repair costs 1."""
    _, run = log_with_breakdowns(69, 2)
    plan = run.plan(-COST, scale="rescale")
    confidence = run.confidence()
    assert confidence.kernel.dense()[0, WAIT, 1] == pytest.approx(2 / 69)
    assert (
        confidence.centre.dense()[0, WAIT, 1] == 0
    )  # the ball's centre leaves them out: the case in question
    assert plan.act(0, 0) == REPAIR
    np.testing.assert_array_equal(plan.kernel.dense(), confidence.kernel.dense())
    waiting = run.evaluate(-COST, np.zeros(STATES, int), scale="rescale")
    assert plan.gap < waiting.gap
    assert waiting.value < plan.value
    assert waiting.value_low <= waiting.value <= waiting.value_high


@pytest.fixture(scope="module")
def lake() -> hf.Run:
    problem = hf.from_gymnasium("FrozenLake-v1", horizon=100).as_tabular()
    return hf.explore(problem, episodes=50, seed=0, progress=False)


def test_a_plan_is_no_worse_than_that_of_the_frequencies(lake: hf.Run) -> None:
    """Of FrozenLake after 50 episodes, where the plan of the centre loses 0.45 on average."""
    reward = hf.goal(lake.problem, 15)
    plan = lake.plan(reward)
    kernel = lake.confidence().kernel.dense()
    counts = np.asarray(lake.evidence.counts)
    n = counts.sum(-1, keepdims=True)
    visited = (n[..., 0] > 0) & np.asarray(lake.problem.space.reachable)[:, None]
    np.testing.assert_allclose(kernel[visited], (counts / np.maximum(n, 1))[visited])
    V, policy = np.zeros(16), np.zeros((100, 16), int)
    for h in range(99, -1, -1):
        Q = reward[h] + kernel @ V
        V, policy[h] = Q.max(-1), Q.argmax(-1)
    assert plan.value == pytest.approx(V[0], abs=1e-9)
    assert hf.true_gap(lake.problem, reward, plan.policy) <= hf.true_gap(lake.problem, reward, policy) + 1e-9


def test_the_returned_plan_has_the_smaller_bound_and_the_uniform_one() -> None:
    """For goals and random rewards, of runs long enough for a uniform certificate."""
    problem = hf.from_gymnasium("FrozenLake-v1", horizon=20).as_tabular()
    run = hf.explore(problem, episodes=4000, seed=1, progress=False)
    confidence, uniform = run.confidence(), run.certificate()
    assert not uniform.is_vacuous
    differ = ~np.isclose(confidence.kernel.dense(), confidence.centre.dense()).all(-1)
    rng = np.random.default_rng(0)
    tables = [hf.goal(problem, int(s)) for s in range(16)]
    tables += [rng.random((20, 16, 4)) * rng.binomial(1, 0.1, (20, 16, 4)) / 20 for _ in range(8)]
    for table in tables:
        plan = run.plan(table)
        plans = []
        for kernel in (confidence.kernel, confidence.centre):
            policy = np.asarray(certify.best_plan(kernel, table).policy)
            plans.append(run.evaluate(table, policy))
        assert plan.gap == min(x.gap for x in plans)
        assert plan.gap <= uniform.eps + 1e-12
        if plans[0].gap == plans[1].gap:
            np.testing.assert_array_equal(plan.policy, plans[0].policy)
        assert plan.value_low - 1e-9 <= plan.value <= plan.value_high + 1e-9
    family = run.certificate(rewards=[*tables])
    assert family.eps == max(run.plan(table).gap for table in tables)
    assert differ.any() or uniform.eps < 1  # the two estimates may agree once everything was seen often


def test_bounds_of_nothing_are_exactly_one() -> None:
    """A plan of the estimate and one of the centre then tie where neither is certified."""
    problem = hf.from_gymnasium("FrozenLake-v1", horizon=20).as_tabular()
    run = hf.explore(problem, episodes=5, seed=1, progress=False)
    assert run.certificate().eps == 1.0
    assert run.plan(hf.goal(problem, 15)).certificate.eps == 1.0
    reward = resolve(problem, hf.goal(problem, 15))
    policy, _ = certify.planned(problem.model, run.confidence(), reward.table)
    np.testing.assert_array_equal(run.plan(hf.goal(problem, 15)).policy, policy)
