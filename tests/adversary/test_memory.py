"""Constraints on events, trade-off curves and distributions of totals hold for every member of the confidence set.

Members are the truth, boundary points in many directions and mixtures of them (sets.py); lifted systems, best policies
and distributions are written here from their definitions. Nothing is random but the members: no test has a false alarm.
"""

from collections import defaultdict

import numpy as np
import pytest
from scipy.optimize import linprog

import horizonfree as hf
from horizonfree.errors import HorizonfreeError
from tests.adversary import sets
from tests.adversary.systems import CLASSES, A, H, S
from tests.adversary.test_constrained import make_run

NAMES = [name for name in CLASSES if not name.startswith("linear")]
CASES = [(name, seed, episodes) for name in NAMES for seed, episodes in ((0, 6), (1, 300))]
DELTA = 0.5


def start_distribution(problem, seed):
    return np.eye(S)[0] if seed == 0 else np.asarray(problem.start)


def members(run, rng, count=4):
    confidence_set = sets.confidence_set(run, DELTA)
    return confidence_set.kernels(confidence_set.members(rng, 16))[-count:]


def product_kernel(P, events):
    """The kernel of (set of decided events, state), as [X, A, X]."""
    copies = 2 ** len(events)
    Q = np.zeros((copies * S, A, copies * S))
    for m in range(copies):
        for s in range(S):
            next_memory = m
            for i, states in enumerate(events):
                next_memory |= (s in states) << i
            Q[m * S + s, :, next_memory * S : next_memory * S + S] = P[s]
    return Q


def event_reward(T, events, i, deadline):
    """1 at the first visit of event i, at most `within` transitions after the start."""
    table = np.zeros((T, 2 ** len(events) * S, A))
    for m in range(2 ** len(events)):
        for s in events[i]:
            if not m >> i & 1:
                table[: deadline + 1, m * S + s] = 1.0
    return table


def best_value_within(Q, start, reward, cost, bound, allowed):
    """The best total among all policies with a bounded cost, by a linear programme over occupancies; None if empty."""
    T, X, _ = reward.shape
    n = T * X * A
    index = np.arange(n).reshape(T, X, A)
    flow, supply = np.zeros((T * X, n)), np.zeros(T * X)
    for h in range(T):
        for x in range(X):
            flow[h * X + x, index[h, x]] = 1.0
            if h:
                flow[h * X + x, index[h - 1].ravel()] -= Q[:, :, x].ravel()
    supply[: len(start)] = start
    high = np.where(np.broadcast_to(allowed, (T, X, A)).ravel(), 1.0, 0.0)
    solution = linprog(
        -reward.ravel(), cost.reshape(1, -1), [bound], flow, supply, np.stack([np.zeros(n), high], axis=1)
    )
    return None if solution.status == 2 else -solution.fun


def total(Q, start, table, policy):
    V = np.zeros(Q.shape[0])
    for h in reversed(range(len(policy))):
        V = (policy[h] * (table[h] + Q @ V)).sum(-1)
    return V[: len(start)] @ start


@pytest.mark.parametrize(("name", "seed", "episodes"), CASES)
def test_no_member_contradicts_a_plan_with_events_or_the_trade_off(name, seed, episodes):
    problem, run = make_run(name, seed, episodes)
    if run.confidence(DELTA).is_refuted:
        return
    rng, start = np.random.default_rng([seed, 8]), start_distribution(problem, seed)
    allowed = np.asarray(problem.actions_allowed)
    acts = np.where(allowed, np.arange(A), 0)
    goal = (rng.random((H, S, A)) / H)[:, np.arange(S)[:, None], acts]
    deadline = int(rng.integers(1, H))
    kernels = members(run, rng)
    for events, reward in (([(2,)], goal), ([(2,), (1, 2)], hf.reach(problem, 2))):
        cost = hf.reach(problem, list(events[-1]), within=deadline)
        T, copies = H, 2 ** len(events)
        plan_reward = event_reward(T, events, 0, H - 1) if len(events) == 2 else np.tile(goal, (1, copies, 1))
        event_cost = event_reward(T, events, len(events) - 1, deadline)
        curve = run.pareto(reward, cost, points=4, delta=DELTA)
        for share in (0.02, 0.4):
            bound = float(curve.costs.min() + share * np.ptp(curve.costs) + 0.01)
            plan = run.plan(reward, constraints=[hf.at_most(cost, bound)], delta=DELTA)
            for P in kernels:
                Q = product_kernel(P, events)
                plan_total, plan_cost = (total(Q, start, x, plan.policy) for x in (plan_reward, event_cost))
                assert plan.value_low - 1e-9 <= plan_total <= plan.value_high + 1e-9
                assert plan.constraints[0].low - 1e-9 <= plan_cost <= plan.constraints[0].high + 1e-9
                best = best_value_within(
                    Q, start, plan_reward, event_cost, bound, np.tile(allowed, (copies, 1))
                )
                if plan.status == "feasible":
                    assert plan_cost <= bound + 1e-12
                assert not (plan.status == "infeasible" and best is not None)
                if best is not None and plan.status != "infeasible":
                    assert best - plan_total <= plan.gap + 1e-7
                point = curve.at(bound)
                if np.isnan(point.high):
                    assert best is None
                elif best is not None:
                    assert point.low - 1e-7 <= best <= point.high + 1e-7
                else:
                    assert point.low == -np.inf


def distribution(P, start, table, policy):
    """The law of the total, as a dictionary."""
    current = {(s, 0): start[s] for s in range(S) if start[s] > 0}
    for h in range(H):
        following = defaultdict(float)
        for (s, v), p in current.items():
            for a in range(A):
                w = v + int(table[h, s, a])
                if policy[h, s, a] > 0:
                    for successor in range(S):
                        following[successor, w] += p * policy[h, s, a] * P[s, a, successor]
        current = following
    law = defaultdict(float)
    for (_, v), p in current.items():
        law[v] += p
    return law


@pytest.mark.parametrize(("name", "seed", "episodes"), CASES)
def test_no_member_has_another_distribution_of_totals(name, seed, episodes):
    problem, run = make_run(name, seed, episodes)
    if run.confidence(DELTA).is_refuted:
        return
    rng, start = np.random.default_rng([seed, 9]), start_distribution(problem, seed)
    allowed = np.asarray(problem.actions_allowed)
    acts = np.where(allowed, np.arange(A), 0)
    for is_same in (True, False):
        table = rng.integers(-1, 3, (1 if is_same else H, S, A))
        table = np.broadcast_to(table, (H, S, A))[:, np.arange(S)[:, None], acts]
        policy = rng.dirichlet(np.ones(A), (H, S)) * allowed
        policy = policy / policy.sum(-1, keepdims=True)
        unit = 0.25  # of the reward
        risk = run.risk(unit * table, policy, delta=DELTA)
        for P in members(run, rng, 3):
            law = distribution(P, start, table, policy)
            values = np.array(sorted(law)) * unit
            mass = np.array([law[v] for v in sorted(law)])
            has_mass = mass > 0
            assert set(np.round(values[has_mass], 9)) <= set(np.round(risk.totals, 9))
            for i, t in enumerate(risk.totals):
                above = mass[values >= t - 1e-9].sum()
                assert risk.at_least_low[i] - 1e-9 <= above <= risk.at_least_high[i] + 1e-9
                short = mass @ np.maximum(t - values, 0)
                assert risk.shortfall_low[i] - 1e-9 <= short <= risk.shortfall_high[i] + 1e-9
            for share in (0.05, 0.3, 0.9):
                below = np.cumsum(mass)
                quantile = values[(below >= share - 1e-12).argmax()]
                tail = np.minimum(mass, np.maximum(share - (below - mass), 0))
                bounds = risk.quantile(share), risk.cvar(share)
                assert bounds[0].low - 1e-9 <= quantile <= bounds[0].high + 1e-9
                assert bounds[1].low - 1e-9 <= tail @ values / share <= bounds[1].high + 1e-9


@pytest.mark.parametrize("name", ["kernels", "table_given"])
def test_intervals_are_not_trivial(name):
    """Intervals that were always everything would pass the tests above."""
    problem, run = make_run(name, 1, 20_000)
    risk = run.risk([0.0, 1.0, 1.0], np.zeros((H, S), int))
    assert (risk.at_least_high - risk.at_least_low).max() < 0.25
    cvar = risk.cvar(0.5)
    assert cvar.high - cvar.low < 0.5
    curve = run.pareto(hf.goal(problem, 1), hf.reach(problem, 2), points=6)
    middle = curve.at(float(np.median(curve.costs)))
    assert middle.high - middle.low < 0.4


def test_linear_mdps_are_refused_in_words():
    problem, run = make_run("linear", 1, 300)
    with pytest.raises(HorizonfreeError, match="need states that remember"):
        run.risk([0.0, 1.0, 1.0], np.zeros((H, S), int))
    with pytest.raises(HorizonfreeError, match="need states that remember"):
        run.plan(hf.goal(problem, 1), constraints=[hf.at_most(hf.reach(problem, 2), 0.5)])
