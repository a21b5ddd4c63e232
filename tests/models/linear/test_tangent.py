"""What a policy can lose for one reward: numbers, the text line by line, and attacks at the limit of the event."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import horizonfree as hf
from horizonfree._x64 import to_numpy, x64
from horizonfree.models.linear import features, tangent, widths
from horizonfree.models.linear.uniform import misjudged
from horizonfree.planning.backward import evaluate_jax, optimal_jax
from tests.models.linear.worlds import MU, PHI, attack, fitted, passed, tiny
from tests.reference import linear as reference

L, L_ALL = np.log(80), reference.level_of_all(4, 0.025)  # one declared reward of three steps, delta = 0.05


@x64
def uniform(problem, found, beta):
    """2 U, at most 1."""
    space = problem.space
    return float(
        jnp.minimum(1.0, 2 * misjudged(space, space.kernel(found.prob), found.width(jnp.asarray(beta))))
    )


def instance():
    return hf.LinearMDP.from_features(PHI, horizon=3, mu=MU)


def goal():
    reward = np.zeros((3, 4, 2))
    reward[2, 3] = 1
    return reward


LINEAR = np.stack([PHI[..., 1] / 6, PHI[..., 0] / 3, PHI[..., 1] / 3])


def test_the_uniform_gap_of_a_small_instance_has_a_known_number():
    found = fitted()
    with jax.enable_x64(True):
        beta = float(found.beta(jnp.asarray(reference.level_of_all(4, 0.05))))
    assert uniform(instance(), found, beta) == pytest.approx(0.144569723696, abs=1e-9)


@pytest.mark.parametrize(
    ("reward", "policy", "numbers"),
    [
        (goal(), [1] * 4 + [1] * 4 + [0] * 4, (0.0, 0.585322644347, 0.520875390423, 0.553099017385)),
        (LINEAR, [1] * 4 + [0] * 4 + [1] * 4, (0.0, 0.478995920630, 0.468904998997, 0.473950459814)),
        (LINEAR, [0] * 12, (0.111345886961, None, None, None)),
    ],
    ids=["goal", "linear", "linear, another policy"],
)
def test_bounds_of_a_small_instance_have_known_numbers(reward, policy, numbers):
    found = fitted()
    first = passed(found, reward, np.reshape(policy, (3, 4)), L, L_ALL)
    if numbers[-1] is not None:
        plan, _ = reference.plan(np.asarray(found.prob), reward)
        assert plan.ravel().tolist() == policy
    for x, wanted in zip((first.D, first.up, first.lo, first.V), numbers):
        assert wanted is None or float(x[0]) == pytest.approx(wanted, abs=1e-9)


@pytest.fixture(scope="module")
def estimates():
    """linear-lock, tiny: few data, with pairs of which nothing is known, and more of them."""
    problem, rng = tiny(), np.random.default_rng(0)
    phi, P = np.asarray(problem.model.phi), np.asarray(problem.kernel().prob)
    found = []
    for episodes, pairs in ((30, slice(0, 2)), (60, slice(None)), (3000, slice(None))):
        known = np.arange(36)[pairs] if episodes == 30 else np.arange(36)
        seen = rng.choice(known, 5 * episodes)
        after = np.array([rng.choice(18, p=P.reshape(36, 18)[i] / P.reshape(36, 18)[i].sum()) for i in seen])
        x = phi.reshape(36, 3)[seen]
        first = len(x) // 10
        V0, V1, C1 = x[:first].T @ x[:first], x[first:].T @ x[first:], x[first:].T @ np.eye(18)[after[first:]]
        found.append((fitted(phi, V0, V1, C1, 9.0), reference.Fit(phi, V0, V1, C1)))
    assert 0 < int(found[0][0].is_bad.sum()) < 36
    return problem, found


def rewards_and_policies(problem, text, seed):
    rng = np.random.default_rng(seed)
    H, S, A = problem.space.sizes
    goal = np.zeros((H, S, A))
    goal[-1, 3] = 1
    dense = rng.random((H, S, A)) / H
    for reward in (goal, dense):
        yield reward, reference.plan(text.P, reward)[0]
        yield reward, rng.integers(A, size=(H, S))


def test_bounds_agree_with_the_text_line_by_line(estimates):
    problem, found = estimates
    for i, (fit, text) in enumerate(found):
        for reward, policy in rewards_and_policies(problem, text, i):
            first = passed(fit, reward, policy, 5.0, 16.0)
            wanted = reference.bounds(text, reward, policy, problem.start, 5.0, 16.0)
            got = [float(x[problem.start]) for x in (first.D, first.up, first.lo)]
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-9)
        wanted = reference.uniform(text, problem.horizon, problem.start, 16.0)
        assert uniform(problem, fit, text.beta(16.0)) == pytest.approx(wanted, abs=1e-9)


def test_a_policy_of_sure_actions_is_that_policy(estimates):
    problem, found = estimates
    for fit, text in found:
        reward, policy = next(rewards_and_policies(problem, text, 5))
        one, two = (passed(fit, reward, x, 5.0, 16.0) for x in (policy, np.eye(2)[policy]))
        for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(two)):
            np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=0, atol=1e-14)


def test_without_gradients_bounds_are_wider_and_hold(estimates, monkeypatch, anew):
    problem, found = estimates
    fit, text = found[-1]
    reward, policy = next(rewards_and_policies(problem, text, 1))
    full = passed(fit, reward, policy, 5.0, 16.0)
    monkeypatch.setattr(tangent, "MOST_WORK", 0)
    jax.clear_caches()
    short = passed(fit, reward, policy, 5.0, 16.0)
    assert (short.J.size, full.J.size) == (0, 18 * 5 * 3)
    assert (np.asarray(short.up) >= np.asarray(full.up) - 1e-12).all()
    assert (np.asarray(short.D) >= np.asarray(full.D) - 1e-12).all()
    assert float(short.D[problem.start]) < 1


RADIUS, RADIUS_ALL, WORLDS = 0.8, 1.5, 1000


@x64
def attacked(S, A, d, H):
    """What is bounded, and by what, for many worlds in which the event holds and no more."""
    rng = np.random.default_rng([S, A, d, H])
    worlds = [attack(rng, S, A, d, H, RADIUS, RADIUS_ALL) for _ in range(WORLDS)]
    phi, mu, reward, V0, V1, C1 = (np.stack(x) for x in zip(*worlds))
    white = np.stack([features.whitening(x) for x in phi])
    drawn = np.where(rng.random((WORLDS, 1, 1, 1)) < 0.5, np.eye(A)[rng.integers(A, size=(WORLDS, H, S))],
                     rng.dirichlet(np.ones(A), (WORLDS, H, S)))  # fmt: skip
    space = hf.LinearMDP.from_features(phi[0], horizon=H).space

    def one(phi, mu, reward, V0, V1, C1, white, drawn):
        found = widths.fit(phi, white, V0, V1, C1, 0.0)
        kernel, true = space.kernel(found.prob), space.kernel(phi @ mu)
        eps = 2 * misjudged(space, kernel, found.width(jnp.asarray(RADIUS_ALL)))
        best = optimal_jax(true, reward)[1][0]

        def of(policy):
            radii = jnp.asarray(RADIUS), jnp.asarray(RADIUS_ALL)
            bounds = tangent.reward_bounds(space, found, reward, policy, *radii, eps)
            first = tangent.values(found, reward, policy, *radii)
            value = evaluate_jax(true, reward, policy)[0]
            return {
                **{name: gap - (best - value)[0] for name, gap in bounds.gaps.items()},
                "low": (value[0] - bounds.low),
                "high": bounds.high - value[0],
                "up": (first.up - best).min(),
                "lo": (best - first.lo).min(),
                "regret": (first.D - (best - value)).min(),
                "refuted": -bounds.is_refuted.astype(float),
            }, jnp.stack(list(bounds.gaps.values())).min()

        policies = [jax.nn.one_hot(optimal_jax(k, reward)[0], A, dtype=jnp.float64) for k in (kernel, true)]
        margins, gaps = jax.vmap(of)(jnp.stack([*policies, drawn, jnp.ones_like(drawn) / A]))
        return margins, gaps, found.is_bad.any()

    return to_numpy(jax.jit(jax.vmap(one))(*map(jnp.asarray, (phi, mu, reward, V0, V1, C1, white, drawn))))


def test_at_the_limit_of_the_event_no_bound_is_violated():
    """1,000 worlds, four policies each; the best values use up their radius, or some function of all does."""
    margins, gaps, is_bad = attacked(S=5, A=2, d=3, H=5)
    for name, margin in margins.items():
        assert float(np.min(margin)) > -1e-9, name
    assert (np.asarray(gaps) < 0.5).mean() > 0.1  # bounds that say something
    assert min(float(np.median(margins["tangent"])), float(np.median(margins["up"]))) < 0.05  # and are near
    assert 0 < np.asarray(is_bad).mean() < 1


def test_noise_beyond_the_event_is_noticed():
    """A bound that no noise violates would be worth nothing: five times the limit violates some of them."""
    rng = np.random.default_rng(1)
    worst = np.inf
    for _ in range(30):
        phi, mu, reward, V0, V1, C1 = attack(rng, 3, 2, 2, 3, RADIUS, RADIUS_ALL)
        text = reference.Fit(phi, V0, V1, V1 @ mu + 5 * (C1 - V1 @ mu))
        text.beta = lambda L: L  # radii as they are
        policy, _ = reference.plan(text.P, reward)
        _, up, lo = reference.bounds(text, reward, policy, 0, RADIUS, RADIUS_ALL)
        _, V = reference.plan(phi @ mu, reward)
        worst = min(worst, up - V[0, 0], V[0, 0] - lo)
    assert worst < -1e-3
