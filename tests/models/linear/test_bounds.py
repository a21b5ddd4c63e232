"""What a policy can lose for one reward: numbers, the text line by line, and attacks at the limit of the event."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.models.linear import bounds, model
from horizonfree.planning.induction import best_policy, policy_values
from tests.models.linear.systems import MU, PHI, draw_system, fitted, policy_bounds, tiny
from tests.reference import linear as reference

L, L_ALL = np.log(80), reference.level_of_all(4, 0.025)  # one declared reward of three steps, delta = 0.05


def instance():
    return hf.LinearMDP.from_features(PHI, horizon=3, mu=MU)


def goal():
    reward = np.zeros((3, 4, 2))
    reward[2, 3] = 1
    return reward


LINEAR = np.stack([PHI[..., 1] / 6, PHI[..., 0] / 3, PHI[..., 1] / 3])


def test_the_uniform_gap_of_a_small_instance_has_a_known_number():
    fit = fitted()
    beta = fit.beta(reference.level_of_all(4, 0.05))
    assert bounds.uniform_loss(instance().space, fit, beta) == pytest.approx(0.144569723696, abs=1e-9)


def test_a_single_step_loses_nothing_for_any_reward():
    """Its transition touches no reward."""
    space = hf.LinearMDP.from_features(PHI, horizon=1, mu=MU).space
    assert bounds.uniform_loss(space, fitted(), 5.0) == 0


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
    fit = fitted()
    first = policy_bounds(fit, reward, np.reshape(policy, (3, 4)), L, L_ALL)
    if numbers[-1] is not None:
        plan, _ = reference.plan(np.asarray(fit.prob), reward)
        assert plan.ravel().tolist() == policy
    for x, expected in zip((first.at.D, first.at.up, first.at.lo, first.at.V), numbers):
        assert expected is None or float(x[0]) == pytest.approx(expected, abs=1e-9)


@pytest.fixture(scope="module")
def estimates():
    """linear-lock, tiny: few data, with pairs of which nothing is known, and more of them."""
    problem, rng = tiny(), np.random.default_rng(0)
    phi, P = np.asarray(problem.model.phi), np.asarray(problem.kernel().prob)
    fits = []
    for episodes, pairs in ((30, slice(0, 2)), (60, slice(None)), (3000, slice(None))):
        known_pairs = np.arange(36)[pairs] if episodes == 30 else np.arange(36)
        visited = rng.choice(known_pairs, 5 * episodes)
        successors = np.array(
            [rng.choice(18, p=P.reshape(36, 18)[i] / P.reshape(36, 18)[i].sum()) for i in visited]
        )
        x = phi.reshape(36, 3)[visited]
        first = len(x) // 10
        V0, V1, C1 = (
            x[:first].T @ x[:first],
            x[first:].T @ x[first:],
            x[first:].T @ np.eye(18)[successors[first:]],
        )
        fits.append((fitted(phi, V0, V1, C1, 9.0), reference.Fit(phi, V0, V1, C1)))
    assert 0 < int(fits[0][0].is_bad.sum()) < 36
    return problem, fits


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
    problem, fits = estimates
    for i, (fit, text) in enumerate(fits):
        for reward, policy in rewards_and_policies(problem, text, i):
            first = policy_bounds(fit, reward, policy, 5.0, 16.0)
            expected = reference.bounds(text, reward, policy, problem.start, 5.0, 16.0)
            actual = [float(x[problem.start]) for x in (first.at.D, first.at.up, first.at.lo)]
            np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-9)
        expected = reference.uniform(text, problem.horizon, problem.start, 16.0)
        assert bounds.uniform_loss(problem.space, fit, text.beta(16.0)) == pytest.approx(expected, abs=1e-9)


def test_a_policy_of_sure_actions_is_that_policy(estimates):
    problem, fits = estimates
    for fit, text in fits:
        reward, policy = next(rewards_and_policies(problem, text, 5))
        deterministic, one_hot = (
            policy_bounds(fit, reward, x, 5.0, 16.0) for x in (policy, np.eye(2)[policy])
        )
        for x, y in zip((*deterministic.at, *deterministic[1:]), (*one_hot.at, *one_hot[1:])):
            np.testing.assert_allclose(x, y, rtol=0, atol=1e-14)


def test_without_gradients_bounds_are_wider_and_hold(estimates, monkeypatch):
    problem, fits = estimates
    fit, text = fits[-1]
    reward, policy = next(rewards_and_policies(problem, text, 1))
    full = policy_bounds(fit, reward, policy, 5.0, 16.0)
    monkeypatch.setattr(bounds, "MAX_GRADIENT_WORK", 0)
    short = policy_bounds(fit, reward, policy, 5.0, 16.0)
    assert (short.J.size, full.J.size) == (0, 18 * 5 * 3)
    assert (short.at.up >= full.at.up - 1e-12).all()
    assert (short.at.D >= full.at.D - 1e-12).all()
    assert float(short.at.D[problem.start]) < 1


RADIUS, RADIUS_ALL, NUM_SYSTEMS = 0.8, 1.5, 250


def attack_many(S, A, d, H):
    """What is bounded, and by what, for many systems in which the event holds and no more."""
    rng = np.random.default_rng([S, A, d, H])
    systems = [draw_system(rng, S, A, d, H, RADIUS, RADIUS_ALL) for _ in range(NUM_SYSTEMS)]
    policies = np.where(rng.random((NUM_SYSTEMS, 1, 1, 1)) < 0.5, np.eye(A)[rng.integers(A, size=(NUM_SYSTEMS, H, S))],
                     rng.dirichlet(np.ones(A), (NUM_SYSTEMS, H, S)))  # fmt: skip
    space = hf.LinearMDP.from_features(systems[0][0], horizon=H).space

    def margins_and_gap(fit, true, reward, policy, eps):
        first = bounds.values(fit, reward, policy, RADIUS, RADIUS_ALL)
        bounded = bounds.bounds_at_start(space, first, eps)
        best, value = best_policy(true, reward)[1][0], policy_values(true, reward, policy)[0]
        return {
            **{name: gap - (best - value)[0] for name, gap in bounded.gaps.items()},
            "low": value[0] - bounded.low,
            "high": bounded.high - value[0],
            "up": (first.at.up - best).min(),
            "lo": (best - first.at.lo).min(),
            "regret": (first.at.D - (best - value)).min(),
            "refuted": -float(bounded.is_refuted),
        }, min(bounded.gaps.values())

    results, is_bad = [], []
    for (phi, mu, reward, V0, V1, C1), policy in zip(systems, policies):
        white = model.whitening(phi)
        fit = bounds.fit(bounds.regress(phi, white, V1, C1), phi, white, V0, V1, 0.0)
        kernels = space.kernel(fit.prob), space.kernel(phi @ mu)
        eps = bounds.uniform_loss(space, fit, RADIUS_ALL)
        plans = [np.eye(A)[best_policy(kernel, reward)[0]] for kernel in kernels]
        for candidate in (*plans, policy, np.full((H, S, A), 1 / A)):
            results.append(margins_and_gap(fit, kernels[1], reward, candidate, eps))
        is_bad.append(fit.is_bad.any())
    margins, gaps = zip(*results)
    return {name: np.array([x[name] for x in margins]) for name in margins[0]}, np.array(gaps), is_bad


def test_at_the_limit_of_the_event_no_bound_is_violated():
    """250 systems, four policies each; the best values use up their radius, or some function of all does."""
    margins, gaps, is_bad = attack_many(S=5, A=2, d=3, H=5)
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
        phi, mu, reward, V0, V1, C1 = draw_system(rng, 3, 2, 2, 3, RADIUS, RADIUS_ALL)
        text = reference.Fit(phi, V0, V1, V1 @ mu + 5 * (C1 - V1 @ mu))
        text.beta = lambda L: L  # radii as they are
        policy, _ = reference.plan(text.P, reward)
        _, upper, lo = reference.bounds(text, reward, policy, 0, RADIUS, RADIUS_ALL)
        _, V = reference.plan(phi @ mu, reward)
        worst = min(worst, upper - V[0, 0], V[0, 0] - lo)
    assert worst < -1e-3
