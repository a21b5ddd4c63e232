"""Cells with a Lipschitz constant: radii, what certificates say, and systems of real numbers inside what is proved."""

import itertools

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

import horizonfree as hf
from horizonfree.errors import HorizonfreeError, OptionError

SIGMA, H = 3.0, 4
L = 0.8 / (SIGMA * np.sqrt(2 * np.pi))  # the drift below has slope 0.8


class Thermostat(gymnasium.Env):
    observation_space = Box(10.0, 30.0, (1,), np.float64)
    action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 15.0
        return np.array([self.t]), {}

    def step(self, action):
        self.t = drift(self.t, action) + SIGMA * self.np_random.standard_normal()
        self.t = float(np.clip(self.t, 10.0, 30.0))
        return np.array([self.t]), 0.0, False, False, {}


class Two(Thermostat):
    observation_space = Dict(
        mode=Discrete(3), x=Box(np.array([0.0, -np.inf]), np.array([2.0, np.inf]), dtype=np.float64)
    )

    def reset(self, *, seed=None, options=None):
        return {"mode": 0, "x": np.zeros(2)}, {}

    def step(self, action):
        return {"mode": 1, "x": np.ones(2)}, 0.0, False, False, {}


def drift(t, action):
    return t + 0.2 * (12 - t) + 3.0 * action


def explore(bins, lipschitz, episodes=300):
    return hf.explore(
        hf.discretize(Thermostat(), bins, lipschitz=lipschitz), horizon=H, episodes=episodes, progress=False
    )


def test_the_radius_of_a_cell_is_the_constant_times_half_its_width():
    env = hf.discretize(Thermostat(), [[12.0, 20.0]], lipschitz=0.05)
    np.testing.assert_allclose(env.radii, [0.05, 0.2, 0.25, 0.0])  # widths 2, 8, 10; the end of episodes
    two_dimensional = hf.discretize(Two(), [2, [0.0]], lipschitz=[0.1, 0.2])
    np.testing.assert_allclose(two_dimensional.radii, [*[1.0] * 12, 0.0])  # outer cells have one end
    flat = hf.discretize(Two(), [2, [0.0]], lipschitz=[0.1, 0.0])
    np.testing.assert_allclose(flat.radii, [*[0.05] * 12, 0.0])
    assert hf.discretize(Thermostat(), 5).radii is None


def test_certificates_say_what_is_assumed_of_cells(tmp_path):
    exact = explore(5, None)
    for certificate in (exact.certificate(), exact.plan(hf.goal(exact.problem, 2)).certificate):
        assert "assuming that cells are exact" in certificate.assumes
    run = explore(5, 0.01)
    for certificate in (run.certificate(), run.plan(hf.goal(run.problem, 2)).certificate):
        assert "assuming that cells are exact" not in certificate.assumes
        assert "at most 0.01 for each unit" in certificate.assumes
        assert certificate.parts["zeta"] == pytest.approx(0.02)
    run.save(tmp_path / "run")
    loaded = hf.load(tmp_path / "run")
    assert loaded.plan(hf.goal(loaded.problem, 2)).gap == pytest.approx(run.plan(hf.goal(run.problem, 2)).gap)
    assert loaded.certificate().assumes == run.certificate().assumes


def test_the_radii_of_cells_are_those_of_a_declared_misspecification_and_add_to_it():
    exact, run = explore(5, None), explore(5, 0.01)
    goal = hf.goal(exact.problem, 2)
    radii = run.problem.radii
    assert radii.shape == (6, 2)
    by_hand = exact.plan(goal, misspecification=radii)
    assert run.plan(goal).gap == pytest.approx(by_hand.gap)
    robust_plan = run.plan(goal, misspecification=0.03)
    assert robust_plan.gap == pytest.approx(exact.plan(goal, misspecification=radii + 0.03).gap)
    assert robust_plan.gap >= by_hand.gap
    event = hf.reach(run.problem, 4)
    assert run.plan(event).value_high >= exact.plan(event).value_high
    assert (
        run.risk([0.0, 0, 1, 0, 0, 0], run.plan(goal).policy).at_least_high[1]
        >= (exact.risk([0.0, 0, 1, 0, 0, 0], run.plan(goal).policy).at_least_high[1])
    )


def test_what_is_not_proved_of_cells_is_refused():
    run = explore(5, 0.01)
    with pytest.raises(OptionError, match="cells have errors"):
        run.posterior()
    with pytest.raises(OptionError, match="errors of cells are part of every certificate"):
        run.robustness()
    for wrong in (-1.0, np.inf, [0.1, 0.2]):
        with pytest.raises(HorizonfreeError, match="lipschitz"):
            hf.discretize(Thermostat(), 5, lipschitz=wrong)


def test_an_unknown_start_and_copies_of_ended_states_have_no_error():
    env = hf.discretize(Thermostat(), 5, lipschitz=0.01)
    run = hf.explore(env, horizon=H, episodes=3, start="unknown", terminal="unknown", progress=False)
    radii = run.problem.radii
    assert len(radii) == run.problem.num_states
    np.testing.assert_allclose(radii[:5], 0.02)
    assert not radii[5:].any()


def test_the_law_of_the_next_cell_moves_by_no_more_than_the_radius():
    """Theorem T4 for this system: exact laws of cells at many points of each cell, against that at its middle."""
    from scipy.stats import norm

    edges = np.linspace(10, 30, 9)
    ends = np.concatenate([[-np.inf], edges[1:-1], [np.inf]])

    def law(t, a):
        return np.diff(norm.cdf(ends, drift(t, a), SIGMA))

    radii = hf.discretize(Thermostat(), 8, lipschitz=L).radii
    largest = 0.0
    for i, (low, high) in enumerate(itertools.pairwise(edges)):
        for t in np.linspace(low, high, 41):
            for a in range(2):
                distance = np.abs(law(t, a) - law((low + high) / 2, a)).sum() / 2
                assert distance <= radii[i] + 1e-12
                largest = max(largest, distance / radii[i])
    assert largest > 0.8


def test_the_value_of_a_plan_in_the_real_system_is_inside_its_interval():
    """2,000 episodes of data, 20,000 under the plan: the share differs by 0.02 with probability below 1e-6 (Hoeffding,
    5.5 standard deviations), and the interval fails with probability 1e-6.
    """
    from tests.reference.gymnasium_cells import simulated_return

    env = hf.discretize(Thermostat(), 16, lipschitz=L)
    run = hf.explore(env, horizon=2, episodes=2000, progress=False)
    goal = list(range(5, 12))
    plan = run.plan(hf.goal(run.problem, goal), delta=1e-6)
    share = simulated_return(plan.policy, 16, goal, drift, SIGMA)
    assert plan.value_low - 0.02 <= share <= plan.value_high + 0.02
    assert plan.value_high - plan.value_low < 0.8
