"""HF-UCRL-RFE++ against the algorithm as printed, its theorem, and its bookkeeping."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import horizonfree as hf
from horizonfree import planning
from horizonfree._x64 import to_device, to_numpy
from horizonfree.errors import OptionError
from horizonfree.estimators import moments, radius
from horizonfree.explorers.hf_ucrl_rfe import HAT, HFUCRLRFE, TILDE
from horizonfree.explorers.loop import simulate_block
from horizonfree.guarantees.e_processes import ladder
from horizonfree.mdp.space import occupied_states
from horizonfree.planning.traced import Sampler
from tests.reference import home as literal
from tests.reference.episodes import first_progress, full_features, make_sampler, play
from tests.reference.jitted import jitted
from tests.reference.oracle import pseudo_values

episode_rows, regress = jax.jit(moments.episode_rows, static_argnums=3), jax.jit(moments.regress)
PROBLEMS = {
    "grid": lambda: hf.make("zoned-grid", size=3, zones=3, horizon=5),
    "river": lambda: hf.make("river-swim", states=4, horizon=6),
    "mixture": lambda: hf.make("random-mixture", states=4, actions=2, dim=3, horizon=4),
}


def setting(problem, explorer, seed=0):
    """Everything a loop needs, on the device; call inside the 64-bit scope."""
    model = to_device(problem.model)
    return model, jax.random.key(seed), first_progress(explorer, model, model.init_evidence(ladder()))


@pytest.mark.parametrize(
    ("name", "constants"), [("grid", "paper"), ("grid", "scaled"), ("river", "scaled"), ("mixture", "paper")]
)
def test_twenty_episodes_agree_with_the_printed_algorithm(name, constants, x64):
    """The oracle's answer (pi_k, theta_k, r_k) is taken as given, as the paper does; all else is recomputed."""
    problem, K, M = PROBLEMS[name](), 20, 4
    model = problem.model
    d, H, B = model.dim, model.space.horizon, model.bound
    explorer = HFUCRLRFE(constants=constants, moment_orders=M, lazy=0.0, budget=K, chains=2, sweeps=4)
    device, key, progress = setting(problem, explorer)
    sampler = make_sampler(to_device(problem.kernel()))
    choose, update = eqx.filter_jit(explorer.choose), eqx.filter_jit(explorer.update)
    alpha, gamma, lam = H**-0.5, d**-0.25, d / B**2
    phi, is_occupied = full_features(model), occupied_states(model.space)  # elsewhere values play no part
    hat, tilde = literal.Family.init(M, d, lam), literal.Family.init(M, d, lam)
    state, evidence = progress.state, progress.evidence

    for k in range(1, K + 1):
        beta, beta_k = float(explorer.beta(model, K)), float(explorer.beta(model, k))
        key_choose, key_episode = jax.random.split(jax.random.fold_in(key, k))
        state = choose(key_choose, device, state, evidence)
        answer, solution = state.last, state.last.found
        V, V_hat, _ = pseudo_values(
            phi,
            np.asarray(answer.theta),
            tilde.Sigma[0],
            hat.Sigma[0],
            beta,
            np.asarray(solution.point.policy),
            np.asarray(solution.point.reward),
        )
        np.testing.assert_allclose(solution.V[:-1][is_occupied], V[:-1][is_occupied], atol=1e-9)
        np.testing.assert_allclose(solution.V_hat[:-1][is_occupied], V_hat[:-1][is_occupied], atol=1e-9)
        assert float(solution.value) == pytest.approx(V_hat[0, model.space.start], abs=1e-9)

        trajectory = play(sampler, key_episode, state.policy, device.space)
        rows, y = episode_rows(device, jnp.stack([solution.V, solution.V_hat], 1), trajectory, M)
        _, sigma_bar_sq = regress(state.ridge, rows, y, beta=beta_k, alpha=alpha, gamma=gamma)
        s, a = np.asarray(trajectory.s), np.asarray(trajectory.a)
        (hat, tilde), (weights_hat, weights_tilde) = literal.episode(
            hat, tilde, phi, V_hat, V, s, a, beta_k, alpha, gamma
        )
        np.testing.assert_allclose(sigma_bar_sq[:, HAT], weights_hat, rtol=1e-9)
        np.testing.assert_allclose(sigma_bar_sq[:, TILDE], weights_tilde, rtol=1e-9)

        state, _ = update(device, state, evidence, trajectory)
        for family, reference in ((HAT, hat), (TILDE, tilde)):
            np.testing.assert_allclose(state.ridge.Sigma[family], reference.Sigma, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(state.ridge.b[family], reference.b, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(state.ridge.theta[family], reference.theta(), rtol=1e-9, atol=1e-9)


def seeds(problem, explorer, episodes, count):
    """Rows [seeds, episodes] and last states, one compiled call for all seeds.

    Each has a first state of its own: JAX would go through the loops again to see that they do not stay the same.
    """
    with jax.enable_x64(True):
        model, truth = to_device((problem.model, problem.truth))
        first, sampler = model.init_evidence(ladder()), Sampler.of(to_device(problem.kernel()))
        firsts = jax.tree.map(lambda x: jnp.stack([x] * count), first_progress(explorer, model, first))

        @eqx.filter_jit
        @eqx.filter_vmap
        def run_seed(seed, progress):
            key, n = jax.random.key(seed), jnp.int32(episodes)
            return simulate_block(explorer, model, sampler, truth, key, progress, n, episodes)

        return to_numpy(run_seed(jnp.arange(count), firsts))


@pytest.mark.parametrize("name", ["river", "mixture"])
def test_with_the_papers_constants_the_truth_stays_in_every_ball(name):
    """200 seeds, all k and m. The theorem allows delta = 0.05 of them to fail; its constants are far larger."""
    problem = PROBLEMS[name]()
    explorer = HFUCRLRFE(constants="paper", budget=12, chains=1, sweeps=3, delta=0.05)
    _, rows = seeds(problem, explorer, 12, 200)
    assert rows["balls_violated"].shape == (200, 12)
    assert int(rows["balls_violated"].sum()) == 0
    assert float(rows["truth_ratio"].max()) < 0.2  # how conservative they are


def test_a_radius_that_is_too_small_is_seen_to_fail():
    explorer = HFUCRLRFE(scale=0.02, moment_orders=3, budget=12, chains=1, sweeps=3)
    _, rows = seeds(PROBLEMS["mixture"](), explorer, 12, 50)
    assert int((rows["balls_violated"] > 0).any(axis=1).sum()) == 50


@pytest.fixture(scope="module")
def grid_run():
    return hf.explore(
        PROBLEMS["grid"](), "hf-ucrl-rfe++", episodes=60, seed=1, chains=2, sweeps=6, moment_orders=5
    )


def test_theta_k_is_always_a_valid_kernel_inside_its_balls(grid_run):
    for answer in (grid_run.progress.state.last, grid_run.progress.state.best):
        assert grid_run.problem.model.valid.contains(np.asarray(answer.theta))


@pytest.fixture(scope="module")
def eager_run():
    return hf.explore(
        PROBLEMS["grid"](),
        "hf-ucrl-rfe++",
        episodes=8,
        lazy=0.0,
        chains=1,
        sweeps=3,
        moment_orders=3,
        scale=50.0,
    )


def test_theta_k_is_at_most_sqrt_two_times_as_far_from_both_centres_as_the_truth(eager_run):
    """The least-squares point: the sum of both squares is no larger than at theta_star, which is feasible."""
    rows = eager_run.records
    assert (rows["ball_ratio"][1:] <= np.sqrt(2) * rows["truth_ratio"][:-1] + 1e-9).all()


def test_the_smallest_value_so_far_is_kept_and_ties_go_to_the_latest(grid_run, eager_run):
    state, value = grid_run.progress.state, grid_run.records["V_hat"]
    assert float(state.best.found.value) <= value.min() + 1e-12
    early = hf.explore(
        PROBLEMS["grid"](), "hf-ucrl-rfe++", episodes=3, chains=1, sweeps=3, moment_orders=3, scale=50.0
    )
    assert float(early.progress.state.best.found.value) == 1.0
    assert int(early.progress.state.best.episode) == int(early.progress.state.last.episode) > 0


def test_bounds_stand_above_the_value_and_the_value_in_the_unit_interval(grid_run):
    rows = grid_run.records
    assert (rows["V_hat"] <= rows["upper"] + 1e-12).all()
    assert (rows["relaxed"] <= rows["upper"] + 1e-12).all()
    assert (rows["V_hat"] >= 0).all()
    assert (rows["upper"] <= 1).all()


def test_log_dets_never_fall_and_lazy_calls_follow_them(grid_run, eager_run):
    rows = grid_run.records
    assert (np.diff(rows["log_det_tilde"]) >= -1e-9).all()
    assert (np.diff(rows["log_det_hat"]) >= -1e-9).all()
    assert 1 < rows["oracle_calls"][-1] < 61
    np.testing.assert_array_equal(eager_run.records["oracle_calls"], np.arange(1, 9))


def test_the_papers_certificate_says_which_constants_stand_behind_it(grid_run):
    claim = grid_run.certificate(method="paper")
    assert "no guarantee" in claim.summary()
    assert claim.parts["four_V_hat"] == pytest.approx(4 * claim.parts["V_hat"])
    paper = hf.explore(
        PROBLEMS["mixture"](),
        "hf-ucrl-rfe++",
        episodes=3,
        constants="paper",
        chains=1,
        sweeps=3,
        moment_orders=3,
    )
    assert "budget" in paper.resume(episodes=1).certificate(method="paper").summary()
    vacuous = paper.certificate(method="paper")
    assert vacuous.eps == 1.0
    assert "vacuous" in vacuous.summary()


def test_planning_in_theta_k_star_solves_the_model_it_names(grid_run):
    reward = hf.goal(grid_run.problem, 8)
    plan = grid_run.plan(reward, model="explorer")
    np.testing.assert_array_equal(grid_run.theta_hat, np.asarray(grid_run.progress.state.best.theta))
    kernel = grid_run.problem.model.kernel(grid_run.theta_hat)
    best = planning.optimal(kernel, reward).V[0, grid_run.problem.start]
    assert plan.value == pytest.approx(best, abs=1e-12)
    value = planning.evaluate(kernel, reward, plan.policy)[0, grid_run.problem.start]
    assert value == pytest.approx(best, abs=1e-12)
    per_step = grid_run.plan(np.ones(9) * 0.5, scale="per-step", model="explorer")
    assert per_step.value == pytest.approx(0.5 * grid_run.problem.horizon)
    assert per_step.gap == pytest.approx(0.0, abs=1e-6)  # every policy earns the same


def test_memory_does_not_grow_with_the_episodes(grid_run):
    longer_run = grid_run.resume(episodes=30)
    first_leaves, longer_leaves = (jax.tree.leaves(run.progress) for run in (grid_run, longer_run))
    assert [np.shape(x) for x in first_leaves] == [np.shape(x) for x in longer_leaves]


BAD_OPTIONS = [
    ({"constants": "mine"}, "constants is 'mine'"),
    ({"scale": -1.0}, "scale is -1.0"),
    ({"delta": 1.5}, "delta is 1.5"),
    ({"moment_orders": 0}, "moment_orders is 0"),
    ({"sweeps": 0}, "sweeps is 0"),
    ({"oracle": "exact"}, "oracle is 'exact'"),
]


def test_options_outside_their_range_are_refused(subtests):
    for options, message in BAD_OPTIONS:
        with subtests.test(message), pytest.raises(OptionError, match=message):
            hf.explore(PROBLEMS["mixture"](), "hf-ucrl-rfe++", episodes=1, **options)


def test_the_budget_sets_the_moment_orders_and_the_radius():
    explorer = HFUCRLRFE(constants="paper", budget=100)
    model = hf.make("river-swim", states=4, horizon=10).model
    assert explorer.orders(model) == radius.moment_orders(100, 10) == 13
    expected = radius.beta_hf(7, radius.Sizes(model.dim, 10, model.bound), 0.05, M=13)
    assert float(explorer.beta(model, 7)) == pytest.approx(float(expected))


def test_the_relaxed_oracle_regresses_on_the_worst_predicted_function_of_each_pair(x64):
    """One episode, literally: tilde rows are phi_f, f the vertex of [0,1]^n with the largest norm; none at step H."""
    problem, M = PROBLEMS["mixture"](), 2
    model = problem.model
    explorer = HFUCRLRFE(oracle="relaxed", moment_orders=M, lazy=0.0, budget=5, scale=0.3)
    device, key, progress = setting(problem, explorer)
    state = jitted(explorer.choose, key, device, progress.state, progress.evidence)
    assert float(state.last.found.value) == float(state.last.relaxed) <= float(state.last.found.upper) + 1e-12
    trajectory = play(make_sampler(to_device(problem.kernel())), key, state.policy, device.space)
    updated, _ = jitted(explorer.update, device, state, progress.evidence, trajectory)
    phi, lam = full_features(model), model.dim / model.bound**2
    vertices = np.array(np.meshgrid(*[[0.0, 1.0]] * 4)).reshape(4, -1).T
    Sigma = lam * np.eye(model.dim)
    alpha, gamma, s, a = (
        model.space.horizon**-0.5,
        model.dim**-0.25,
        np.asarray(trajectory.s),
        np.asarray(trajectory.a),
    )
    for h in range(model.space.horizon):
        rows = vertices @ phi[s[h], a[h]] * (h < model.space.horizon - 1)
        x = rows[(rows**2).sum(1).argmax()]  # norms of lam I, the frozen matrix
        error = 0.3 * np.linalg.norm(x) / np.sqrt(lam)
        bound = min(2 * error, 1) + min(error, 1)  # theta = 0 before the first episode
        norm = np.sqrt(x @ np.linalg.solve(Sigma, x))
        Sigma = Sigma + np.outer(x, x) / max(gamma**2 * norm, bound, alpha**2)
    np.testing.assert_allclose(updated.ridge.Sigma[TILDE, 0], Sigma, rtol=1e-9)


def test_the_relaxed_oracle_learns_too():
    run = hf.explore(
        PROBLEMS["grid"](), "hf-ucrl-rfe++", episodes=60, seed=1, oracle="relaxed", moment_orders=3, scale=0.3
    )
    worst = max(
        hf.true_gap(
            run.problem, hf.goal(run.problem, g), run.plan(hf.goal(run.problem, g), model="explorer").policy
        )
        for g in range(9)
    )
    assert worst < 0.1


def test_the_claim_is_the_smaller_of_both_bounds():
    """The total variance is computed where it can help, and it is a bound of what the oracle found."""
    run = hf.explore(
        PROBLEMS["mixture"](),
        "hf-ucrl-rfe++",
        episodes=40,
        seed=2,
        scale=0.05,
        moment_orders=3,
        chains=1,
        sweeps=3,
    )
    claim = run.certificate(method="paper")
    parts = claim.parts
    assert 0 < parts["total_variance"] <= 0.25
    assert claim.eps == pytest.approx(4 * min(parts["relaxed"], parts["total_variance"]))
    assert claim.method.endswith("4T" if parts["total_variance"] < parts["relaxed"] else "4U")
    answer = run.progress.state.best
    larger = eqx.tree_at(lambda x: x.relaxed, answer, np.asarray(2 * parts["total_variance"]))
    state = eqx.tree_at(lambda x: x.best, run.progress.state, larger)
    other = run.explorer.claim(run.problem.model, state)
    assert other.method.endswith("4T")
    assert other.eps == pytest.approx(4 * parts["total_variance"])


@pytest.mark.parametrize(("oracle", "expected"), [("relaxed", 0.125), ("ascent", 0.25)])
def test_the_second_bound_of_the_total_variance_is_left_out_only_below_what_was_attained(
    oracle, expected, monkeypatch
):
    """The value of the relaxed oracle is a bound and not attained, so it does not make the second bound useless."""
    run = hf.explore(
        PROBLEMS["mixture"](), "hf-ucrl-rfe++", episodes=3, oracle=oracle, moment_orders=2, chains=1
    )
    answer = eqx.tree_at(lambda x: x.found.value, run.progress.state.best, np.asarray(0.5))
    module = sys.modules[type(run.explorer).__module__]
    monkeypatch.setattr(module, "variance_bound", lambda *_: 0.25)
    monkeypatch.setattr(module, "total_variance_bound", lambda *_: 0.125)
    assert run.explorer.total_variance(run.problem.model, answer) == expected
