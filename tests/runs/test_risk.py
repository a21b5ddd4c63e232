"""The distribution of totals: the estimate by enumeration, consistency, forms of rewards, and what is refused."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import OptionError

PROBLEM = hf.make("river-swim", states=4, horizon=6)


@pytest.fixture(scope="module")
def run():
    return hf.explore(PROBLEM, episodes=300, seed=0, progress=False)


def enumerated(P, start, table, policy):
    """Totals and their probabilities, by all paths."""
    distribution = {}

    def follow(h, s, total, p):
        if h == len(table):
            distribution[round(total, 9)] = distribution.get(round(total, 9), 0.0) + p
            return
        for a in np.flatnonzero(policy[h, s]):
            for successor in np.flatnonzero(P[s, a]):
                share = (
                    p * policy[h, s, a] * P[s, a, successor] if h + 1 < len(table) else p * policy[h, s, a]
                )
                follow(h + 1, successor, total + table[h, s, a], share)
                if h + 1 == len(table):
                    break

    follow(0, start, 0.0, 1.0)
    return distribution


@pytest.mark.parametrize("form", ["states", "actions", "steps", "signs"])
def test_the_estimate_agrees_with_all_paths(run, form):
    rng = np.random.default_rng(0)
    H, S, A = PROBLEM.space.sizes
    reward = {
        "states": np.array([0.0, 0, 0, 1]),
        "actions": rng.integers(3, size=(S, A)) / 10,
        "steps": rng.integers(3, size=(H, S, A)) / 4,
        "signs": -0.3 * rng.integers(-2, 3, size=(S, A)),
    }[form]
    table = reward if reward.ndim == 3 else np.broadcast_to(reward.T.reshape(-1, S).T, (H, S, A))
    policy = rng.dirichlet(np.ones(A), (H, S))
    risk = run.risk(reward, policy)
    distribution = enumerated(run.confidence().kernel.dense(), 0, table, policy)
    totals = np.array(sorted(distribution))
    mass = np.array([distribution[t] for t in totals])
    for t, above, short in zip(risk.totals, risk.at_least, risk.shortfall, strict=True):
        assert above == pytest.approx(mass[totals >= t - 1e-9].sum(), abs=1e-9)
        assert short == pytest.approx(mass @ np.maximum(t - totals, 0), abs=1e-9)
    assert set(totals) <= set(np.round(risk.totals, 9))
    for share in (0.1, 0.5, 0.95):
        below = np.cumsum(mass)
        tail = np.minimum(mass, np.maximum(share - (below - mass), 0))
        assert risk.quantile(share).value == pytest.approx(totals[(below >= share - 1e-12).argmax()])
        assert risk.cvar(share).value == pytest.approx(tail @ totals / share, abs=1e-9)


def test_bounds_are_consistent(run):
    policy = run.plan(hf.goal(PROBLEM, 3)).policy
    risk = run.risk([0.0, 0, 0, 1], policy)
    assert (np.diff(risk.at_least_low) <= 0).all()
    assert (np.diff(risk.at_least_high) <= 0).all()
    assert (risk.at_least_low <= risk.at_least + 1e-12).all()
    assert (risk.at_least <= risk.at_least_high + 1e-12).all()
    shares = np.linspace(0.05, 0.95, 19)
    cvars = np.array([risk.cvar(float(x)) for x in shares])
    assert (np.diff(cvars, axis=0) >= -1e-9).all()  # worse episodes are worse
    assert all(risk.cvar(float(x)).value <= risk.quantile(float(x)).value + 1e-9 for x in shares)
    mean = run.evaluate([0.0, 0, 0, 1], policy, scale="rescale")
    assert cvars[-1, 0] <= mean.value
    assert risk.probability(0).low == 1.0
    assert risk.probability(99) == (0.0, 0.0, 0.0)
    assert risk.probability(0.5) == risk.probability(1)


def test_a_constant_total_is_certain_and_actions_that_are_not_taken_do_not_matter(run):
    risk = run.risk([1.0, 1, 1, 1], np.zeros((6, 4), int))
    np.testing.assert_allclose(risk.totals, [6.0])
    assert risk.quantile(0.3) == (6.0, 6.0, 6.0)
    assert risk.cvar(0.3) == (6.0, 6.0, 6.0)
    table = np.zeros((4, 2))
    table[:, 1] = np.pi
    assert len(run.risk(table, np.zeros((6, 4), int)).totals) == 1


def test_another_start_and_horizon(run):
    policy = np.ones((3, 4), int)
    restarted = run.risk([0.0, 0, 0, 1], policy, start=2, horizon=3)
    assert restarted.totals.tolist() == [0.0, 1.0, 2.0]


def test_too_many_sums_are_refused_with_advice(run):
    reward = np.random.default_rng(0).random((6, 4, 2))
    with pytest.raises(OptionError, match="round the reward"):
        hf.explore(hf.make("river-swim", states=12, horizon=30), episodes=3, progress=False).risk(
            np.random.default_rng(0).random((12, 2)), np.full((30, 12, 2), 0.5)
        )
    assert len(run.risk(np.round(reward, 1), np.zeros((6, 4), int)).totals) < 40


def test_figures_and_words(run):
    risk = run.risk([0.0, 0, 0, 1], np.ones((6, 4), int))
    assert len(risk.plot().axes) == 1
    assert "any stopping time" in str(risk)
    curve = run.pareto(hf.goal(PROBLEM, 3), hf.occupancy(PROBLEM, 1), points=4)
    assert len(curve.plot().axes) == 1
    assert len(curve.to_pandas()) == 4
    assert curve.at(curve.cheapest - 0.1)[1:] != curve.at(1.0)[1:]
