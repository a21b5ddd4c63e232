"""Posteriors: draws against closed forms, values against literal sums, and what is refused.

False alarms: every Kolmogorov-Smirnov test here has independent points and rejects below 1e-8; there are fewer than 60.
"""

import dataclasses

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import cumulative_simpson

import horizonfree as hf
from horizonfree.errors import ModelError, OptionError, ShapeError
from horizonfree.mdp.events import lift_payments, payments
from horizonfree.models.draws import converged, diagnostics
from horizonfree.models.mixture import posterior as by_hit_and_run
from horizonfree.models.posterior import posterior
from tests.models.tabular.cases import random_policy, random_reward, random_table

ALARM = 1e-8  # of one test


def agrees(x, law):
    """Whether independent points may be of a law, by Kolmogorov and Smirnov."""
    return stats.kstest(x, law.cdf if hasattr(law, "cdf") else law).pvalue > ALARM


def logged(problem, episodes=30, seed=0, policy=None):
    """A run made of episodes of random actions."""
    policy = np.full(problem.space.sizes, 1 / problem.num_actions) if policy is None else policy
    return hf.from_episodes(problem, hf.simulate(problem, policy, episodes=episodes, seed=seed))


def choosing(weights, horizon=6):
    """Kernel i always leads to state i: the posterior of the weights is Dirichlet's, in closed form."""
    d = len(weights)
    kernels = np.zeros((d, d, 1, d))
    for i in range(d):
        kernels[i, :, :, i] = 1.0
    return hf.Mixture.from_kernels(kernels, horizon=horizon, weights=weights)


@pytest.mark.parametrize(("prior", "alpha"), [("uniform", 1.0), ("jeffreys", 0.5), (None, 1 / 3), (0.1, 0.1)])
@pytest.mark.parametrize("S", [4, 7])
def test_rows_of_a_table_have_dirichlet_laws(S, prior, alpha):
    table = random_table(np.random.default_rng(0), S, 2, 3)
    problem = hf.Tabular.from_table(table, horizon=3, support="given")
    assert problem.space.is_dense == (S == 4)
    run = logged(problem, episodes=2)
    draws = posterior(problem.model, run.evidence, draws=4000, prior=prior, seed=1)
    a = alpha + np.asarray(run.evidence.counts)
    for s, action in ((0, 0), (1, 1), (3, 0)):
        slots = np.flatnonzero(problem.space.support[s, action])  # of padded or of dense lists
        assert draws.parameters[:, s, action].sum(-1) == pytest.approx(1)
        p, concentrations = draws.parameters[:, s, action, slots], a[s, action, slots]
        for j in range(3):
            assert agrees(p[:, j], stats.beta(concentrations[j], concentrations.sum() - concentrations[j]))
        if alpha > 0.3:  # two successors together, which tests their correlation
            assert agrees(
                p[:, 0] + p[:, 1], stats.beta(concentrations[0] + concentrations[1], concentrations[2])
            )
    assert draws.convergence is None


def test_the_default_of_any_successor_is_one_pseudo_count_for_the_pair():
    problem = hf.Tabular(5, 1, 3)
    draws = hf.from_episodes(hf.Tabular(5, 1, 3), (np.zeros((1, 4), int), np.zeros((1, 3), int))).posterior(
        3000
    )
    assert "1/m" in draws.label
    assert agrees(draws.parameters[:, 1, 0, 2], stats.beta(1 / 5, 4 / 5))
    assert agrees(draws.parameters[:, 0, 0, 2], stats.beta(1 / 5, 3 + 4 / 5))
    assert problem.num_states == 5


def test_tiny_concentrations_are_laws_still():
    draws = logged(hf.Tabular.from_table(np.full((3, 1, 3), 1 / 3), horizon=1)).posterior(prior=1e-4)
    assert draws.parameters.sum(-1) == pytest.approx(1)
    assert (draws.parameters[:, 1:].max(-1) > 0.99).mean() > 0.99


def test_known_and_forbidden_pairs():
    table = random_table(np.random.default_rng(1), 4, 2, 2)
    table[2] = np.eye(4)[2]
    allowed = np.ones((4, 2), bool)
    allowed[1, 0] = False
    problem = hf.Tabular.from_table(table, horizon=3, support="given", actions_allowed=allowed)
    acts = np.where(allowed, np.arange(2), 1)
    policy = np.broadcast_to(acts[:, 0], (3, 4)).astype(np.int32)
    draws = logged(problem, policy=policy).posterior(draws=20)
    P = np.stack([draws.kernel(i).dense() for i in range(20)])
    np.testing.assert_array_equal(P[:, 1, 0], P[:, 1, 1])
    assert (P[:, 2, :, 2] == 1).all()


def test_an_array_of_concentrations_is_the_prior_of_each_successor():
    problem = hf.Tabular(3, 1, 2)
    run = hf.from_episodes(problem, (np.zeros((1, 3), int), np.zeros((1, 2), int)))
    alpha = np.arange(1.0, 10.0).reshape(3, 1, 3)
    draws = run.posterior(draws=3000, prior=alpha)
    assert agrees(draws.parameters[:, 2, 0, 0], stats.beta(7, 17))


@pytest.mark.parametrize("alpha", [None, 2.0])
def test_weights_of_kernels_that_tell_themselves_apart_have_a_dirichlet_law(alpha):
    """d = 12, in closed form."""
    weights = np.random.default_rng(0).dirichlet(np.ones(12))
    run = logged(choosing(weights), episodes=10)
    draws = run.posterior(draws=1000, prior=alpha, seed=2)
    N = np.bincount(np.asarray(run.log.s[:, 1:]).ravel(), minlength=12)
    a = (1.0 if alpha is None else alpha) + N
    w = draws.parameters / run.problem.model.unit
    law = stats.dirichlet(a)
    # a mean of ESS effective draws is off by 10 standard errors with probability below 1e-20; 10 allow for
    # an effective size that was overestimated twice
    error = np.sqrt(law.var() / draws.convergence.effective)
    assert (np.abs(w.mean(0) - law.mean()) < 10 * error).all()
    assert np.abs(w.var(0) / law.var() - 1).max() < 0.35
    assert w.sum(1) == pytest.approx(1)
    assert w.min() >= 0


def exact(log_density, n=20_001):
    """The distribution function on [0, 1] of a density, by numerical integration."""
    x = np.linspace(0, 1, n)[1:-1]
    f = np.exp(log_density(x) - log_density(x).max())
    F = np.r_[0, cumulative_simpson(f, x=x)]
    return lambda y: np.interp(y, x, F / F[-1])


@pytest.mark.parametrize("alpha", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("truth", [0.4, 1.0])
def test_two_weights_have_the_law_of_numerical_integration(truth, alpha):
    """In one dimension steps of slice sampling are nearly independent: every tenth counts as such."""
    P = np.random.default_rng(3).dirichlet(np.ones(4), size=(2, 4, 2))
    problem = hf.Mixture.from_kernels(P, horizon=5, weights=[truth, 1 - truth])
    run = logged(problem, episodes=20)
    data = run.log
    s, a, t = (np.asarray(x).ravel() for x in (data.s[:, :-1], data.a, data.s[:, 1:]))
    c = P[:, s, a, t]

    def log_density(w):
        prior = (alpha - 1) * (np.log(w) + np.log(1 - w))
        return np.log(np.outer(w, c[0]) + np.outer(1 - w, c[1])).sum(1) + prior

    target, _ = by_hit_and_run._of_weights(problem.model.valid, np.asarray(run.evidence.row_counts), alpha)
    path, _ = by_hit_and_run.chains(target, np.eye(1), np.zeros((16, 1)), 3000, np.random.default_rng(0))
    w = target.coords.center[0] + path[100::10].ravel() * target.coords.basis[0, 0]
    assert agrees(w, exact(log_density))
    draws = run.posterior(draws=1000, prior=alpha)
    assert draws.convergence.r_hat < 1.01
    assert draws.convergence.effective >= 1000
    quantiles = exact(log_density)(draws.parameters[:, 0] / problem.model.unit)
    assert abs(quantiles.mean() - 0.5) < 10 * np.sqrt(1 / 12 / 1000)


def test_what_no_data_can_tell_keeps_its_prior():
    """Twice the same kernel: the sum of their weights is learnt, their ratio stays uniform."""
    P = np.random.default_rng(4).dirichlet(np.ones(3), size=(2, 3, 1))
    problem = hf.Mixture.from_kernels(P[[0, 0, 1]], horizon=4, weights=[0.2, 0.3, 0.5])
    assert problem.model.num_unknown == 1
    run = logged(problem, episodes=40)
    s, a, t = (np.asarray(x).ravel() for x in (run.log.s[:, :-1], run.log.a, run.log.s[:, 1:]))
    c = P[:, s, a, t]
    target, _ = by_hit_and_run._of_weights(problem.model.valid, np.asarray(run.evidence.row_counts), None)
    path, _ = by_hit_and_run.chains(target, np.eye(2), np.zeros((16, 2)), 9000, np.random.default_rng(1))
    w = target.coords.center + path[100::40].reshape(-1, 2) @ target.coords.basis.T
    total = w[:, 0] + w[:, 1]
    assert agrees(
        total, exact(lambda x: np.log(x) + np.log(np.outer(x, c[0]) + np.outer(1 - x, c[1])).sum(1))
    )
    assert agrees(w[:, 0] / total, stats.uniform())


def test_parameters_of_features_are_uniform_on_the_valid_ones_before_any_data():
    """theta = (1, slip rates): each rate is uniform on [0, 1]."""
    from tests.reference import small

    model = small.slips().model
    target = by_hit_and_run._of_parameters(model.valid, np.zeros(len(model.valid.rows), int), None)
    q = len(target.coords.z)
    path, _ = by_hit_and_run.chains(target, np.eye(q), np.zeros((16, q)), 9000, np.random.default_rng(2))
    theta = target.coords.center + path[100::40].reshape(-1, q) @ target.coords.basis.T
    for rate in theta[:, 1:].T / model.unit:
        assert agrees(rate, stats.uniform())


def test_one_kernel_is_a_point():
    P = np.random.default_rng(5).dirichlet(np.ones(3), size=(1, 3, 2))
    run = logged(hf.Mixture.from_kernels(P, horizon=3, weights=[1.0]))
    draws = run.posterior(draws=7)
    assert draws.convergence is None
    np.testing.assert_allclose(draws.kernel(6).dense(), P[0])
    plan = run.plan(hf.goal(run.problem, 1))
    low, high = plan.credible_interval()
    assert low == pytest.approx(plan.value)
    assert high == pytest.approx(plan.value)
    assert plan.credible_gap() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("horizon", [1, 40])
def test_one_state_and_one_action(horizon):
    run = logged(hf.Tabular.from_table(np.ones((1, 1, 1)), horizon=horizon))
    plan = run.plan(np.full((horizon, 1, 1), 1 / horizon))
    assert plan.credible_interval() == pytest.approx((1, 1))
    assert plan.credible_gap() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("start", [0, (0.2, 0.0, 0.5, 0.3, 0.0)])
@pytest.mark.parametrize("support", ["given", "any"])
def test_values_are_those_of_literal_sums_over_every_draw(start, support):
    rng = np.random.default_rng(6)
    problem = hf.Tabular.from_table(random_table(rng, 5, 3, 2), horizon=4, start=start, support=support)
    run, reward = logged(problem), random_reward(rng, 4, 5, 3)
    draws, initial = run.posterior(draws=30), np.eye(5)[0] if start == 0 else np.array(start)
    for policy in (random_policy(rng, 4, 5, 3) for _ in range(3)):
        weights = np.eye(3)[policy] if policy.ndim == 2 else policy
        values, best = [], []
        for i in range(30):
            P, V, W = draws.kernel(i).dense(), np.zeros(5), np.zeros(5)
            for h in reversed(range(4)):
                V = (weights[h] * (reward[h] + P @ V)).sum(-1)
                W = (reward[h] + P @ W).max(-1)
            values.append(initial @ V)
            best.append(initial @ W)
        np.testing.assert_allclose(draws.values(reward, policy), values, atol=1e-9)
        np.testing.assert_allclose(draws.best_values(reward), best, atol=1e-9)
        np.testing.assert_allclose(draws.gaps(reward, policy), np.subtract(best, values), atol=1e-9)
    lift = lift_payments(problem.space, payments(problem.space, rng.random((5, 3, 5))))
    table = random_reward(rng, 4, len(lift.origin), 3)
    acting = policy[:, lift.origin]
    literal_values = [hf.planning.evaluate(lift.kernel(draws.kernel(i)), table, acting)[0] for i in range(30)]
    draw_values = draws.table_values(table, acting, lift)
    np.testing.assert_allclose(draw_values, [lift.space.at_start(V) for V in literal_values], atol=1e-9)


def test_blocks_of_draws_decide_nothing(monkeypatch):
    run = logged(hf.make("river-swim"), episodes=10)
    reward, draws = hf.goal(run.problem, 3), run.posterior(draws=50)
    policy = run.plan(reward).policy
    gaps = draws.gaps(reward, policy)
    monkeypatch.setattr("horizonfree.models.posterior.BLOCK", 1)
    np.testing.assert_allclose(draws.gaps(reward, policy), gaps, atol=1e-12)


def test_names_decide_nothing_in_tables():
    """The same log with states and actions renamed: the laws of value and gap are the same."""
    rng = np.random.default_rng(7)
    P = random_table(rng, 5, 2, 3)
    states, actions = rng.permutation(5), rng.permutation(2)
    permuted_P = np.empty_like(P)
    permuted_P[np.ix_(states, actions, states)] = P
    start = int(states[0])
    a = hf.Tabular.from_table(P, horizon=4)
    b = hf.Tabular.from_table(permuted_P, horizon=4, start=start)
    run = logged(a)
    s, act = np.asarray(run.log.s), np.asarray(run.log.a)
    other = hf.from_episodes(b, (states[s], actions[act]))
    reward, permuted_reward = random_reward(rng, 4, 5, 2), np.empty((4, 5, 2))
    permuted_reward[np.ix_(range(4), states, actions)] = reward
    policy = rng.integers(2, size=(4, 5))
    permuted_policy = np.empty((4, 5), int)
    permuted_policy[:, states] = actions[policy]
    first, second = run.posterior(draws=2000), other.posterior(draws=2000, seed=1)
    for x, y in (
        (first.values(reward, policy), second.values(permuted_reward, permuted_policy)),
        (first.gaps(reward, policy), second.gaps(permuted_reward, permuted_policy)),
    ):
        assert stats.ks_2samp(x, y).pvalue > ALARM


def test_names_of_kernels_and_states_decide_nothing_in_the_density():
    rng = np.random.default_rng(8)
    P, order, states = rng.dirichlet(np.ones(4), size=(3, 4, 2)), rng.permutation(3), rng.permutation(4)
    permuted = np.empty_like(P)
    permuted[np.ix_(range(3), states, range(2), states)] = P[order]
    a = hf.Mixture.from_kernels(P, horizon=4, weights=[0.2, 0.3, 0.5])
    run = logged(a)
    b = hf.Mixture.from_kernels(permuted, horizon=4, start=int(states[0]))
    other = hf.from_episodes(b, (states[np.asarray(run.log.s)], np.asarray(run.log.a)))
    alpha = np.array([1.0, 2.0, 4.0])
    logs = []
    for variant, prior, w in ((run, alpha, lambda w: w), (other, alpha[order], lambda w: w[:, order])):
        counts = np.asarray(variant.evidence.row_counts)
        target, _ = by_hit_and_run._of_weights(variant.problem.model.valid, counts, prior)
        y = (
            w(rng_points := np.random.default_rng(9).dirichlet(np.ones(3), 20)) - 1 / 3
        ) @ target.coords.basis
        logs.append(np.log(np.stack([target.coords.p(x) for x in y])) @ target.exponents)
        assert rng_points.shape == (20, 3)
    np.testing.assert_allclose(logs[0] - logs[0][0], logs[1] - logs[1][0], atol=1e-9)


def test_plans_and_comparisons_ask_the_posterior_of_their_run():
    run = logged(hf.make("river-swim"), episodes=20)
    reward = hf.goal(run.problem, 5)
    plan, draws = run.plan(reward), run.posterior()
    values, gaps = draws.values(reward, plan.policy), draws.gaps(reward, plan.policy)
    assert plan.credible_interval(0.9) == pytest.approx(tuple(np.quantile(values, [0.05, 0.95])))
    assert plan.credible_gap(0.9) == pytest.approx(np.quantile(gaps, 0.9))
    idle_policy = np.zeros((run.problem.horizon, run.problem.num_states), int)
    comparison = run.compare(reward, plan.policy, idle_policy)
    assert comparison.probability == (values > draws.values(reward, idle_policy) + 1e-12).mean()
    assert run.compare(reward, idle_policy, idle_policy).probability == 0
    assert comparison.label.startswith("not proved: Bayesian, prior")
    strong = run.posterior(prior=50.0)
    assert plan.credible_interval(posterior=strong) != plan.credible_interval(posterior=draws)
    assert run.posterior(draws=10).parameters.tolist() == run.posterior(draws=10).parameters.tolist()


def test_units_starts_horizons_and_longer_rewards():
    run = logged(hf.make("river-swim"), episodes=20)
    S, A, H = run.problem.num_states, run.problem.num_actions, run.problem.horizon
    cost = -np.random.default_rng(0).random((S, A)) * 100
    plan = run.plan(cost, scale="rescale")
    draws = run.posterior()
    values = draws.values(cost, plan.policy, scale="rescale")
    assert plan.credible_interval() == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])))
    literal = [
        hf.planning.evaluate(draws.kernel(i), np.tile(cost, (H, 1, 1)), plan.policy)[0] for i in range(9)
    ]
    np.testing.assert_allclose(values[:9], [run.problem.space.at_start(V) for V in literal], atol=1e-7)
    assert plan.credible_gap() <= 100 * H
    restarted = run.plan(hf.occupancy(run.problem.with_start(2, 3), 4), start=2, horizon=3)
    low, high = restarted.credible_interval()
    assert 0 <= low <= high <= 1
    t = np.random.default_rng(1).random((S, A, S))
    discounted = run.plan(np.zeros(S), scale="rescale", transition=t, final=np.arange(S), discount=0.9)
    values = []
    for i in range(20):
        P, V = draws.kernel(i).dense(), np.arange(S, dtype=float)
        for h in reversed(range(H)):
            Q = (P * (t + 0.9 * V)).sum(-1)
            V = Q[np.arange(S), discounted.policy[h]]
        values.append(run.problem.space.at_start(V))
    np.testing.assert_allclose(discounted.credible.values[:20], values, atol=1e-8)


def test_what_has_no_posterior_says_so():
    linear = hf.make("linear-lock")
    with pytest.raises(OptionError, match="mixtures and tabular MDPs only"):
        logged(linear, episodes=3).posterior()
    run = logged(hf.make("river-swim"), episodes=5)
    for prior, message in (("jeffreys", "prior is"), (0.0, "above 0"), (np.ones(99), "shape")):
        with pytest.raises(OptionError, match=message):
            run.posterior(prior=prior)
    table = logged(hf.Tabular.from_table(np.full((3, 2, 3), 1 / 3), horizon=2), episodes=2)
    for prior, message in (("jeffries", "jeffreys"), (-1, "above 0"), (np.ones((3, 2)), "shape")):
        with pytest.raises(OptionError, match=message):
            table.posterior(prior=prior)
    with pytest.raises(OptionError, match="draws"):
        run.posterior(draws=0)
    with pytest.raises(OptionError, match=r"at most .* are possible: give draws="):
        table.posterior(draws=2**30)
    with pytest.raises(OptionError, match="for weights of kernels"):
        logged(hf.make("zoned-grid"), episodes=3).posterior(prior=1.0)
    plan = hf.explore(hf.make("river-swim"), episodes=5, progress=False).plan(
        hf.goal(run.problem, 1), misspecification=0.01
    )
    with pytest.raises(OptionError, match="leave misspecification= out"):
        plan.credible_gap()
    with pytest.raises(OptionError, match="same run, start and horizon"):
        run.plan(hf.goal(run.problem, 1)).credible_gap(posterior=table.posterior())
    with pytest.raises((OptionError, ShapeError)):
        run.posterior().values(np.ones(99), np.zeros((2, 2), int))
    known_table = hf.Tabular.from_table(np.eye(3)[:, None], horizon=2, support="given")
    model, evidence = known_table.model, logged(known_table, episodes=1).evidence
    with pytest.raises(ModelError, match="no parameter of the class explains"):
        posterior(model, dataclasses.replace(evidence, impossible=np.int32(2)))


@pytest.mark.skipif(by_hit_and_run._compiled() is None, reason="no compiler")
@pytest.mark.parametrize("C", [1, 16])
@pytest.mark.parametrize("m", [0, 1, 12])
def test_the_compiled_step_of_slice_sampling_agrees_with_its_definition(C, m):
    """The same random numbers, points and levels; with narrow slices, so that there are many proposals."""
    moves = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p, e = rng.random((C, m)) + 1e-3, 10.0 ** rng.uniform(0, 6, m)
        dp = (rng.random((C, m)) - 0.5) * p  # p + t dp >= 0 for t in [-2, 2]
        now = np.log(p) @ e
        results = []
        for function in (by_hit_and_run._compiled(), by_hit_and_run.shrink):
            generator, fields = np.random.default_rng(seed), [now - 1, np.full(C, -2.0), np.full(C, 2.0)]
            x = by_hit_and_run._Chords(p, dp, e, *fields, np.zeros(C), now.copy())
            function(x, generator)
            results.append((*x, [generator.random()]))
        for compiled, literal in zip(*results):
            np.testing.assert_allclose(compiled, literal, rtol=1e-9, atol=1e-12)
        moves += np.count_nonzero(results[0][6])
    assert moves > 10 * C


def test_chains_that_have_not_converged_are_refused():
    run = logged(choosing(np.full(12, 1 / 12)), episodes=3)
    target, _ = by_hit_and_run._of_weights(run.problem.model.valid, np.asarray(run.evidence.row_counts), None)
    with pytest.raises(ModelError, match="not converged"):
        by_hit_and_run.sampled(target, 10**6, np.random.default_rng(0), max_steps=1)


def test_the_check_of_convergence():
    """AR(1) chains of correlation c have ESS = N (1 - c)/(1 + c); chains around two means have not converged."""
    rng = np.random.default_rng(0)
    c, T, C = 0.8, 20_000, 8
    x = np.zeros((T, C, 1))
    x[0] = rng.standard_normal((C, 1)) / np.sqrt(1 - c**2)
    for t in range(1, T):
        x[t] = c * x[t - 1] + rng.standard_normal((C, 1))
    r_hat, effective = diagnostics(x)
    assert effective[0] == pytest.approx(T * C * (1 - c) / (1 + c), rel=0.15)
    assert 0.99 < r_hat[0] < 1.01
    x[:, 0] += 3
    assert converged(x).r_hat > 1.05
    drift = rng.standard_normal((1000, 4, 1)) + np.linspace(0, 2, 1000)[:, None, None]
    assert converged(drift).r_hat > 1.05  # halves of a chain differ
    assert converged(np.zeros((100, 4, 2))).r_hat == np.inf
