"""Events, bounded properties and exported intervals hold for every member of the confidence set: one violation fails.

Members are the estimates, boundary points in many directions and mixtures of them (sets.py), so the statements are
deterministic: no test has a false alarm.
"""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.mdp.events import Event, Worth
from tests.adversary import sets
from tests.adversary.systems import CLASSES, A, H, S

CASES = [
    (name, seed, episodes)
    for name in CLASSES
    if not name.startswith("linear")
    for seed, episodes in ((0, 3), (1, 60))
]
EVENTS = [  # (decided, steps, pays, is_max)
    ([0, 0, 1], H, Worth(1.0, 0.0, 0.0), True),
    ([0, 2, 1], H - 1, Worth(1.0, 0.0, 0.0), False),
    ([0, 2, 0], H, Worth(0.0, 0.0, 1.0), True),
    ([0, 0, 2], 1, Worth(0.0, 0.0, 1.0), False),
]


def make_run(name, seed, episodes):
    rng = np.random.default_rng([seed, 3])
    problem = CLASSES[name](rng, {"horizon": H, "start": 0})
    policy = rng.random((H, S, A))
    log = hf.simulate(problem, policy / policy.sum(-1, keepdims=True), episodes=episodes, seed=seed)
    return problem, hf.from_episodes(problem, log)


def values(P, event, policy=None):
    """Of kernels [N, S, A, S] the probability of an event under a policy, or that of the best one."""
    final_values = np.array([event.pays.open, event.pays.won, event.pays.lost])[event.decided]
    V = np.tile(final_values, (len(P), 1))
    for h in range(event.steps - 1, -1, -1):
        Q = np.einsum("nsat,nt->nsa", P, V)
        best = Q.max(-1) if event.is_max else Q.min(-1)
        V = np.where(
            event.decided == 0, best if policy is None else Q[:, np.arange(S), policy[h]], final_values
        )
    return V[:, 0]


@pytest.mark.parametrize(("name", "seed", "episodes"), CASES)
def test_no_member_of_the_confidence_set_contradicts_an_event_or_an_interval(name, seed, episodes):
    problem, run = make_run(name, seed, episodes)
    rng = np.random.default_rng([seed, 4])
    for delta in (0.5, 0.05):
        if run.confidence(delta).is_refuted:
            continue
        members = sets.confidence_set(run, delta)
        kernels = members.members(rng, 24)
        P = members.kernels(kernels)
        low, high = run.confidence(delta).entry_intervals()
        succ, support = np.asarray(problem.space.succ), np.asarray(problem.space.support)
        s, a, j = np.nonzero(support)
        entries = P[:, s, a, succ[s, a, j]]
        assert (low[s, a, j] <= entries + 1e-9).all()
        assert (entries <= high[s, a, j] + 1e-9).all()
        for decisions, steps, pays, is_max in EVENTS:
            event = Event(np.array(decisions), steps, pays, is_max)
            plan = run.plan(event, delta=delta)
            plan_values, best = values(P, event, plan.policy), values(P, event)
            sign = 1 if is_max else -1
            assert (plan.value_low - 1e-9 <= plan_values).all()
            assert (plan_values <= plan.value_high + 1e-9).all()
            assert (sign * (best - plan_values) <= plan.gap + 1e-9).all()
            other = rng.integers(A, size=(steps, S))
            other = np.where(problem.actions_allowed[np.arange(S), other], other, plan.policy)
            evaluation = run.evaluate(event, other, delta=delta)
            plan_values = values(P, event, other)
            assert (
                (evaluation.value_low - 1e-9 <= plan_values) & (plan_values <= evaluation.value_high + 1e-9)
            ).all()
            assert (sign * (best - plan_values) <= evaluation.gap + 1e-9).all()


@pytest.mark.parametrize("name", ["kernels", "table_any", "table_given", "features"])
def test_the_intervals_are_attained_or_nearly_so(name):
    """An interval that were [0, 1] everywhere would pass the test above."""
    _, run = make_run(name, 1, 2000)
    low, high = run.confidence(0.05).entry_intervals()
    support = np.asarray(run.problem.space.support) & np.asarray(run.problem.space.reachable)[:, None, None]
    visits = run.visits[..., None] > 100
    width = (high - low)[support & visits]
    assert width.size
    assert np.median(width) < 0.35
    members = sets.confidence_set(run, 0.05)
    P = members.kernels(members.members(np.random.default_rng(0), 60))
    s, a, j = np.nonzero(support & visits & (high - low > 1e-6))
    entries = P[:, s, a, np.asarray(run.problem.space.succ)[s, a, j]]
    # Intervals are those of the balls; the members of a table are in the joint set, too, which is smaller.
    share = 0.1 if name.startswith("table") else 0.2
    assert np.median(np.ptp(entries, axis=0) / (high - low)[s, a, j]) > share


def test_linear_mdps_have_no_intervals_of_entries():
    _, run = make_run("linear", 0, 5)
    with pytest.raises(hf.errors.OptionError, match="mixtures and tables only"):
        run.explicit_model()
