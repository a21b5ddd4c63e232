"""Plans within constraints hold for every member of the confidence set: one violation fails.

Members are the truth, boundary points in many directions and mixtures of them (sets.py), so the statements are
deterministic: no test has a false alarm.
"""

import numpy as np
import pytest

import horizonfree as hf
from tests.adversary import sets
from tests.adversary.systems import CLASSES, A, H, S
from tests.reference import mixtures_of_policies as mixtures

CASES = [(name, seed, episodes) for name in CLASSES for seed, episodes in ((0, 4), (1, 400))]


def make_run(name, seed, episodes):
    rng = np.random.default_rng([seed, 5])
    start = [0.5, 0.25, 0.25] if seed == 1 else 0
    settings = {"horizon": H, "start": start}
    if seed == 0:
        settings["actions_allowed"] = np.array([[True, True], [True, False], [True, True]])
    problem = CLASSES[name](rng, settings)
    return problem, hf.explore(problem, "uniform", episodes=episodes, seed=seed, progress=False)


def value(P, start, table, policy):
    """The total of a randomised policy under P [S, A, S]."""
    V = np.zeros(S)
    for h in reversed(range(len(table))):
        V = (policy[h] * (table[h] + P @ V)).sum(-1)
    return V @ start


def questions(rng):
    """A reward, and constraints [(cost, bound, is_upper), ...] that are easy, hard or impossible."""
    reward, cost, other = (rng.random((H, S, A)) / H for _ in range(3))
    for share in (-0.05, 0.05, 0.6):
        yield reward, [(cost, share)], (True,)
        yield reward, [(-5 * other, share)], (True,)
        yield reward, [(other, 1 - share)], (False,)
        yield reward, [(cost, share), (other, 1 - share)], (True, False)


@pytest.mark.parametrize(("name", "seed", "episodes"), CASES)
def test_no_member_contradicts_a_plan_within_constraints(name, seed, episodes):
    delta = 0.5
    problem, run = make_run(name, seed, episodes)
    if run.confidence(delta).is_refuted:
        return
    rng = np.random.default_rng([seed, 6])
    kinds = {} if seed == 1 else {"horizon": H, "start": 0}  # the second is answered by another run
    start = np.eye(S)[0] if seed == 0 else np.asarray(problem.start)
    allowed = np.asarray(problem.actions_allowed)
    confidence_set = sets.confidence_set(run, delta)
    P = confidence_set.kernels(confidence_set.members(rng, 16))[-6:]  # the truth is the last one
    estimate = run.confidence(delta).kernel.dense()
    for reward, costs, is_upper in questions(rng):
        tables = np.stack([reward, *(cost for cost, _ in costs)])
        tables = tables[:, :, np.arange(S)[:, None], np.where(allowed, np.arange(A), 0)]
        estimated_totals = mixtures.totals(estimate, start, tables, allowed)
        bounds = [
            float(x.min() + share * max(np.ptp(x), 0.05))
            for x, (_, share) in zip(estimated_totals[1:], costs, strict=True)
        ]
        make = [hf.at_most if upper else hf.at_least for upper in is_upper]
        constraints = [f(c, b) for f, c, b in zip(make, tables[1:], bounds, strict=True)]
        plan = run.plan(tables[0], constraints=constraints, delta=delta, **kinds)
        sign = np.where(is_upper, 1.0, -1.0)
        limits = sign * bounds
        assert not plan.policy[:, ~allowed].any()
        for p in P:
            plan_value = value(p, start, tables[0], plan.policy)
            plan_costs = np.array([value(p, start, c, plan.policy) for c in tables[1:]])
            assert plan.value_low - 1e-9 <= plan_value <= plan.value_high + 1e-9
            for x, result in zip(plan_costs, plan.constraints, strict=True):
                assert result.low - 1e-9 <= x <= result.high + 1e-9
            if plan.status == "feasible":
                assert (sign * plan_costs <= limits + 1e-12).all()
            member_totals = mixtures.totals(p, start, tables, allowed)
            signed = sign[:, None] * member_totals[1:]
            if plan.status == "infeasible":
                assert mixtures.least_excess(signed, limits) > -1e-9
                continue
            best = mixtures.best(member_totals[0], signed, limits)
            if best is not None:
                assert best - plan_value <= plan.gap + 1e-7


def totals(P, start, table, policy=None):
    """Of kernels [N, S, A, S] the total of a policy, or the smallest of all."""
    V = np.zeros((len(P), S))
    for h in reversed(range(len(table))):
        Q = table[h] + np.einsum("nsat,nt->nsa", P, V)
        V = Q.min(-1) if policy is None else (policy[h] * Q).sum(-1)
    return V @ start


@pytest.mark.parametrize(("name", "seed", "episodes"), CASES)
def test_members_that_are_moved_against_a_constraint_do_not_contradict_it(name, seed, episodes):
    """Bounds next to where the answer changes, and the members with the largest and the smallest cost."""
    problem, run = make_run(name, seed, episodes)
    delta, rng = 0.5, np.random.default_rng([seed, 7])
    if run.confidence(delta).is_refuted:
        return
    confidence_set = sets.confidence_set(run, delta)
    members = confidence_set.members(rng, 16)
    start = np.eye(S)[0] if seed == 0 else np.asarray(problem.start)
    acts = np.where(np.asarray(problem.actions_allowed), np.arange(A), 0)
    reward, cost = (rng.random((2, H, S, A)) / H)[:, :, np.arange(S)[:, None], acts]
    cost_plan = run.plan(-cost, scale="rescale", delta=delta)
    lowest, high = (
        -cost_plan.value_high - cost_plan.gap,
        -cost_plan.value_low,
    )  # where infeasible begins, and feasible
    for bound in (lowest - 1e-6, lowest + 1e-6, high + 1e-6, (3 * high + 1) / 4):
        plan = run.plan(reward, constraints=[hf.at_most(cost, bound)], delta=delta)
        if plan.status == "infeasible":
            score = lambda P: -totals(P, start, cost)  # noqa: E731
            P = confidence_set.kernels(confidence_set.improve(members, score, rng, rounds=1))
            assert (totals(P, start, cost) > bound).all()
        score = lambda P: totals(P, start, cost, plan.policy)  # noqa: B023, E731
        P = confidence_set.kernels(confidence_set.improve(members, score, rng, rounds=1))
        costs = totals(P, start, cost, plan.policy)
        assert (costs <= plan.constraints[0].high + 1e-9).all()
        if plan.status == "feasible":
            assert (costs <= bound + 1e-12).all()
    assert plan.status == "feasible" or episodes < 10


@pytest.mark.parametrize("name", ["kernels", "table_any", "table_given", "features"])
def test_the_three_answers_occur_and_gaps_are_not_trivial(name):
    """Bounds that were always undecided, or always 1, would pass the test above."""
    _, run = make_run(name, 1, 3000)
    rng = np.random.default_rng(0)
    reward, cost = rng.random((2, H, S, A)) / H
    costs = {}
    for sign in (1, -1):
        costs[sign] = sign * run.plan(sign * cost, scale="rescale").value
    lowest, highest = costs[-1], costs[1]
    size = max(highest - lowest, 0.01)
    counts = {}
    for share in (-20.0, -0.01, 0.5, 20.0):
        plan = run.plan(reward, constraints=[hf.at_most(cost, lowest + share * size)])
        counts[share] = plan
    assert counts[-20.0].status == "infeasible"
    assert counts[-0.01].status == "undecided"
    assert counts[20.0].status == "feasible"
    assert counts[20.0].gap == pytest.approx(run.plan(reward).gap, abs=0.02)
    if counts[0.5].status == "feasible":
        assert counts[0.5].gap < 0.5
