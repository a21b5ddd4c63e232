"""HF-UCRL-RFE++ with the choices of Algorithm 1 as printed: exact maxima, the nested sets, alpha and gamma."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import horizonfree as hf
from horizonfree._x64 import to_device, to_numpy
from horizonfree.errors import OptionError
from horizonfree.estimators import nested, radius
from horizonfree.explorers.hf_ucrl_rfe import HAT, HFUCRLRFE, TILDE
from horizonfree.mdp.space import Trajectory
from horizonfree.oracle import exhaustive, prepare
from horizonfree.oracle.exhaustive import enumerated
from tests.explorers.test_hf_ucrl_rfe import PROBLEMS, setting
from tests.reference.episodes import full_features, make_sampler, play
from tests.reference.jitted import jitted
from tests.reference.oracle import pseudo_values

SMALL = {"states": 4, "actions": 2, "dim": 3, "horizon": 3}


def _steps(problem, explorer, episodes):
    """States after `choose` and after `update`, episode by episode."""
    device, key, progress = setting(problem, explorer)
    sampler = make_sampler(to_device(problem.kernel()))
    choose, update = eqx.filter_jit(explorer.choose), eqx.filter_jit(explorer.update)
    state, evidence = progress.state, progress.evidence
    for k in range(episodes):
        key_choose, key_episode = jax.random.split(jax.random.fold_in(key, k))
        state = choose(key_choose, device, state, evidence)
        yield state
        trajectory = play(sampler, key_episode, state.policy, device.space)
        state, _ = update(device, state, evidence, trajectory)


@pytest.fixture(scope="module")
def hard():
    """One unknown direction; what follows the first step is known."""
    return hf.make("hard-instance", dim=2, horizon=3)


def test_algorithm_1_as_printed_where_it_is_exact(hard, x64):
    """theta_k in the nested U_k, pi_k, r_k: no point of a fine grid of U_k, and no pair, has a larger value."""
    model, K, M = hard.model, 150, 2
    explorer = HFUCRLRFE(
        oracle="exhaustive",
        theta="optimistic",
        plan_with="last",
        lazy=0.0,
        moment_orders=M,
        budget=K,
        scale=1.5,
    )
    phi, e = full_features(model), np.asarray(model.valid.affine)[:, 0]
    grid = np.asarray(model.valid.center) + np.linspace(-3, 3, 401)[:, None] * e
    grid = np.array([theta for theta in grid if model.valid.contains(theta, 1e-12)])
    policies = np.array([[np.full((3, 3), a)] for a in range(2)])  # only the first action of x_1 matters
    sets = [(np.arange(8)[:, None] >> np.arange(3) & 1)[i] for i in range(1, 8)]
    rewards = np.array([(np.arange(3)[:, None] == h) * target for h in (1, 2) for target in sets])
    allowed = np.ones(len(grid), bool)
    values = []
    for k, state in enumerate(_steps(hard, explorer, K), 1):
        Sigmas, bs = np.asarray(state.ridge.Sigma), np.asarray(state.ridge.b)
        beta, beta_k = float(explorer.beta(model, K)), float(explorer.beta(model, k))
        for family in (TILDE, HAT):
            for Sigma, b in zip(Sigmas[family], bs[family], strict=True):
                offset = grid - np.linalg.solve(Sigma, b)
                allowed &= np.einsum("xi,ij,xj->x", offset, Sigma, offset) <= beta_k**2
        if k not in (1, 4, K):
            continue
        theta, Sigmas = np.asarray(state.last.theta), np.linalg.inv(np.asarray(state.last.inv))
        assert model.valid.contains(theta, 1e-9)
        assert float(state.last.ball_ratio) <= 1
        inside = grid[allowed][::20]
        assert len(inside) > 1
        largest = max(
            pseudo_values(phi, x, *Sigmas, beta, policies, rewards)[1][..., 0, model.space.start].max()
            for x in [*inside, theta]
        )
        assert float(state.last.found.value) == pytest.approx(largest, abs=1e-9)
        values.append(largest)
    assert min(values) < 1  # caps do not hide everything
    np.testing.assert_array_equal(explorer.planning_answer(state).theta, state.last.theta)
    assert explorer.claim(model, to_numpy(state)).parts["episode"] == K - 1


def test_enumeration_inside_compiled_code_finds_what_enumeration_finds(x64):
    rng = np.random.default_rng(3)
    for name, sizes in {"river-swim": {"states": 3, "horizon": 4}, "random-mixture": SMALL}.items():
        problem = hf.make(name, **sizes)
        model = problem.model
        search = eqx.filter_jit(lambda m, beta, *x: enumerated(m, prepare(m, *x), beta))
        for beta in (0.05, 0.4):
            roots = rng.normal(size=(2, model.dim, model.dim))
            inv = np.array([root @ root.T + 0.1 * np.eye(model.dim) for root in roots])
            point, best = search(*to_device((model, np.array(beta), problem.truth, *inv)))
            expected = exhaustive(model, problem.truth, *inv, beta=beta)
            assert float(best.value) == pytest.approx(float(expected.value), rel=1e-9)
            _, V_hat, _ = pseudo_values(
                full_features(model),
                problem.truth,
                *np.linalg.inv(inv),
                beta,
                np.asarray(point.policy),
                np.asarray(point.reward),
            )
            assert float(best.value) == pytest.approx(V_hat[0, problem.start], rel=1e-9)


def test_an_end_of_the_interval_is_best_where_the_class_promises_it(x64):
    """Against a grid: three steps are few enough, four are not, and a known kernel from step 2 on always is."""
    short, long = (
        to_device(hf.make("random-mixture", states=4, actions=2, dim=2, horizon=H).model) for H in (3, 4)
    )
    assert jitted(nested.is_convex, short)
    assert not jitted(nested.is_convex, long)
    assert jitted(nested.is_convex, to_device(hf.make("hard-instance", dim=2, horizon=7).model))
    low, high = jitted(nested.initial_interval, short)
    e, centre = short.valid.affine[:, 0], short.valid.center
    inv = jnp.stack([2.0 * jnp.eye(2), jnp.eye(2)])

    @jax.jit
    def largest(t):
        return enumerated(short, prepare(short, centre + t * e, *inv), 0.2)[1].raw

    values = np.array([largest(t) for t in np.linspace(low, high, 9)])
    assert values.max() <= max(values[0], values[-1]) * (1 + 1e-12)
    best = jitted(nested.best_end, short, jnp.stack([low, high]), inv, jnp.asarray(0.2))
    np.testing.assert_allclose(best, centre + (high if values[-1] > values[0] else low) * e, atol=1e-14)


NOT_EXACT = [
    ("river", {"theta": "optimistic"}, "add oracle='exhaustive'"),
    ("river", {"theta": "optimistic", "oracle": "exhaustive"}, "here 2 directions are unknown"),
    ("river", {"theta": "mean"}, "theta is 'mean'"),
    ("river", {"plan_with": "first"}, "plan_with is 'first'"),
    ("river", {"alpha": 0.0}, "alpha is 0.0"),
    ("river", {"gamma": -1.0}, "gamma is -1.0"),
    ("river", {"gamma": 0.0, "constants": "paper"}, "contains 1/gamma"),
]


def test_what_is_not_exact_is_refused(subtests):
    for problem, options, message in NOT_EXACT:
        with subtests.test(message), pytest.raises(OptionError, match=message):
            hf.explore(PROBLEMS[problem](), "hf-ucrl-rfe++", episodes=1, **options)


def test_too_many_pairs_are_refused_in_words():
    with pytest.raises(Exception, match="would try more than 2,000,000 pairs"):
        hf.explore(PROBLEMS["grid"](), "hf-ucrl-rfe++", episodes=1, oracle="exhaustive", moment_orders=2)


def test_alpha_and_gamma_replace_the_theorems(x64):
    """They weigh the rows, and they enter the radius as the exact form of the theorem has them."""
    model = PROBLEMS["river"]().model
    default, custom = (
        HFUCRLRFE(constants="paper", budget=9),
        HFUCRLRFE(constants="paper", budget=9, alpha=0.5, gamma=0.7),
    )
    sizes = radius.model_sizes(model)
    assert default.parameters(model) == radius.parameters(sizes)
    d, H, B = sizes
    eta, M = np.log(1 + 4 * H / (0.25 * d * d / B**2)), default.orders(model)
    tau = np.log(32 * (max(0, np.log(0.49 / 0.5)) + 1) * 16 * H**2 * 4 * M / 0.05)
    expected = 12 * np.sqrt(d * eta * tau) + 30 * tau / 0.49 + np.sqrt(d)
    assert float(custom.beta(model, 4)) == pytest.approx(expected)
    assert float(default.beta(model, 4)) != pytest.approx(expected)
    sized = HFUCRLRFE(budget=2, moment_orders=2, chains=1, sweeps=2)
    device, key, progress = setting(PROBLEMS["river"](), sized)
    state = jitted(sized.choose, key, device, progress.state, progress.evidence)
    s = np.zeros(7, np.int32)
    trajectory = Trajectory(*to_device((s, s[:-1], s[:-1])))
    weights = []
    for gamma in (0.0, 50.0):
        explorer = HFUCRLRFE(budget=2, moment_orders=2, chains=1, sweeps=2, gamma=gamma)
        updated, _ = jitted(explorer.update, device, state, progress.evidence, trajectory)
        weights.append(float(updated.ridge.log_det.sum()))
    assert weights[0] > weights[1]  # a larger sigma_bar, less information
