"""Plans for the rewards of all states together have the bounds that each of them has alone."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.mdp.policies import named_allowed
from horizonfree.mdp.rewards import StateRewards, family
from horizonfree.models import certify
from horizonfree.models.mixture import tangent
from horizonfree.models.mixture.tangent import MAX_SECOND_ORDER
from horizonfree.planning.induction import best_plan
from tests.reference import cases, small

NUMBERS = ("value", "low", "high")


def check(model, confidence, kind):
    """Each of the family, one by one and together; the plan alone is for all states and steps."""
    _, rewards = family(model, kind)
    assert isinstance(rewards, StateRewards)
    together = [confidence._with_direct(x) for x in tangent.bounds_of_states(confidence, rewards)]
    assert len(together) == len(rewards)
    for reward, found in zip(rewards, together):
        plan = named_allowed(model.space, best_plan(confidence.kernel, reward.table).policy)
        alone = certify.bounds(confidence, reward.table, plan)
        assert found.gaps.keys() == alone.gaps.keys()
        for name, x in alone.gaps.items():
            assert float(found.gaps[name]) == pytest.approx(float(x), abs=1e-9, nan_ok=True)
        for name in NUMBERS:
            assert float(getattr(found, name)) == pytest.approx(float(getattr(alone, name)), abs=1e-9)


@pytest.mark.parametrize("kind", ["goals", "occupancies"])
@pytest.mark.parametrize("name", list(cases.PROBLEMS))
def test_small_problems(name, kind, monkeypatch):
    """Three at a time, so that there are several passes."""
    monkeypatch.setattr(tangent, "REWARDS_PER_BLOCK", 3)
    case = cases.make_case(name)
    for i in range(2):
        check(case.model, case.confidences[i], kind)


def test_many_directions_have_no_second_order():
    case = cases.Case(small.tabular(A=3), episodes=2000, seeds=1)
    assert case.valid.num_free > MAX_SECOND_ORDER
    check(case.model, case.confidences[0], "occupancies")


@pytest.fixture(scope="module")
def run():
    """Most cells of this grid are out of reach most of the time."""
    return hf.explore(hf.make("zoned-grid", size=4, zones=2, horizon=8), episodes=200, seed=0, budget=200)


def test_a_grid_where_most_is_out_of_reach(run):
    for episodes in (run, hf.explore(run.problem, "uniform", episodes=1)):
        check(run.problem.model, episodes.confidence(), "goals")


def test_a_block_of_rewards_may_have_no_state_at_a_step():
    """On a line every state is occupied at one step, so the last step has none of the first block's states."""
    S, horizon = tangent.REWARDS_PER_BLOCK + 20, tangent.REWARDS_PER_BLOCK + 10
    kernels = np.zeros((2, S, 1, S))
    kernels[:, np.arange(S), 0, np.minimum(np.arange(S) + 1, S - 1)] = 1
    kernels[1, -1, 0] = np.eye(S)[0]
    problem = hf.Mixture.from_kernels(kernels, horizon=horizon, weights=[0.5, 0.5])
    run = hf.explore(problem, episodes=2, progress=False)
    certificate = run.certificate(rewards="occupancies")
    assert certificate.eps == pytest.approx(run.plan(hf.occupancy(problem, 0)).gap, abs=1e-9)


def test_forbidden_actions_are_not_taken():
    rng = np.random.default_rng(0)
    kernels = rng.dirichlet(np.ones(5), size=(2, 5, 3)) * (rng.uniform(size=(5, 3, 5)) < 0.6)
    kernels[..., 0] += 1e-3
    kernels /= kernels.sum(-1, keepdims=True)
    allowed = np.ones((5, 3), bool)
    allowed[2, 0] = allowed[4, 1:] = False
    problem = hf.Mixture.from_kernels(
        list(kernels), horizon=4, start=0, actions_allowed=allowed, weights=[0.4, 0.6]
    )
    check(problem.model, hf.explore(problem, "uniform", episodes=20).confidence(), "goals")


def test_who_has_had_enough_is_not_kept(run, monkeypatch):
    """Passes that were not begun are not made."""
    monkeypatch.setattr(tangent, "REWARDS_PER_BLOCK", 1)
    made = []
    together = tangent._bounds_of_block
    monkeypatch.setattr(tangent, "_bounds_of_block", lambda *args: made.append(1) or together(*args))
    monkeypatch.setattr(tangent, "threads", lambda: 1)
    _, rewards = family(run.problem, "goals")
    found = tangent.bounds_of_states(run.confidence(), rewards)
    next(found)
    found.close()
    assert len(made) < len(rewards)
