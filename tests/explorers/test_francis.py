"""The reconstruction of FRANCIS: numbers by hand, plain loops, phases, and directions that cannot be reached."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import OptionError
from horizonfree.explorers.francis import Francis, plan_at_step
from horizonfree.explorers.least_squares import Fit
from horizonfree.explorers.registry import EXPLORERS, label
from horizonfree.problems.classes import LinearMDP
from tests.reference import linear_explorers as literal
from tests.reference.episodes import follow
from tests.reference.linear_models import T_data, T_model, attains, episode_key, random_linear

V = [
    [0.241847826087, 0.220885093168, 0.199922360248, 0.178959627329],
    [0.332298136646, 0.307841614907, 0.283385093168, 0.258928571429],
    [0.8125, 0.625, 0.4375, 0.25],
]


def test_it_says_that_it_is_a_reconstruction():
    assert EXPLORERS["francis"].is_reconstruction
    assert label("francis") == "francis (reconstruction)"
    assert "reconstruction" in EXPLORERS["francis"].about


def test_the_numbers_of_instance_T(x64):
    model = T_model()
    Q, plan = plan_at_step(model, Fit.of(T_data(model)[0], 1.0), jnp.asarray([1.0, -0.5]), jnp.int32(2))
    np.testing.assert_allclose(plan[:3], V, rtol=0, atol=1e-9)
    assert not np.asarray(Q).argmax(1).any()


@pytest.mark.parametrize(("steps", "strict"), [("own", False), ("own", True), ("pooled", True)])
def test_twenty_episodes_agree_with_plain_loops(steps, strict):
    """The random reward of each episode is drawn again from its key."""
    problem, explorer = random_linear(), Francis(budget=20, steps=steps, strict=strict)
    phi, H = np.asarray(problem.model.phi), problem.horizon
    data = literal.Data(phi, H)
    for k, (state, trajectory, updated) in enumerate(follow(problem, explorer, 20, gathers=True)):
        p = min(k // 6, 2)
        Lam, C = data.tables(1.0, steps == "pooled")
        with jax.enable_x64(True):
            z = np.asarray(jax.random.normal(jax.random.split(episode_key(0, k))[0], (3,), np.float64))
        xi = np.linalg.solve(np.linalg.cholesky(Lam[p]).T, z)
        Q, _ = literal.policy_gradient_value(phi, Lam, C, xi, p)
        attains(state.policy[: p + 1], Q[: p + 1])
        np.testing.assert_array_equal(state.policy[p + 1 :], 0.5)
        data.add(trajectory.s, trajectory.a, steps=[p] if strict else None)
        gram = data.gram if steps == "own" else data.gram.sum(0)[None]
        np.testing.assert_allclose(updated.sums.gram, gram, rtol=0, atol=1e-12)


def test_phases_are_equally_long_and_the_last_one_stays(x64):
    space = random_linear().space

    def phases(budget, episodes):
        return [int(Francis(budget=budget).phase(space, jnp.int32(k))) for k in range(episodes)]

    assert phases(10, 12) == [0] * 3 + [1] * 3 + [2] * 6
    assert phases(2, 4) == [0, 1, 2, 2]


@pytest.mark.parametrize("is_reachable", [True, False])
def test_a_direction_grows_with_the_episodes_of_its_phase_if_it_can_be_reached(is_reachable):
    """One-hot features: the least of the reachable counts grows like the episodes; one that is out of reach stalls."""
    S, A = 3, 2
    P = np.full((S, A, S), 1 / 3) if is_reachable else np.tile([0.5, 0.5, 0.0], (S, A, 1))
    problem = LinearMDP.from_features(np.eye(S * A).reshape(S, A, -1), horizon=2, mu=P.reshape(-1, S))
    run = hf.explore(problem, "francis", episodes=600, steps="own", progress=False)
    at_second = np.diag(np.asarray(run.progress.state.sums.gram)[1]).reshape(S, A)
    if is_reachable:
        assert (
            at_second.min() > 300 / 6 / 2
        )  # 300 episodes of phase 2 over 6 pairs, and half of phase 1 besides
    else:
        assert (at_second[2] == 0).all()
        assert at_second[:2].min() > 300 / 4 / 2


def test_it_claims_nothing_and_needs_a_budget():
    run = hf.explore(random_linear(), "francis", episodes=3, progress=False)
    assert run.explorer.budget == 3
    assert run.explorer.claim(run.problem.model, run.progress.state) is None
    with pytest.raises(OptionError, match="budget is missing"):
        Francis().phase(run.problem.space, np.asarray(0))
    with pytest.raises(OptionError, match="steps is 'all'"):
        Francis(steps="all")
