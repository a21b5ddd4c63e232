"""The oracle against its definition, its derivatives, enumeration, and the inequalities it is used with."""

from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from horizonfree import Mixture, Problem
from horizonfree._x64 import to_device
from horizonfree.errors import OptionError
from horizonfree.problems.named.lower_bounds import hard_instance
from horizonfree.regression import oracle
from horizonfree.regression.oracle import variance
from horizonfree.regression.oracle.box import ONE_BY_ONE
from horizonfree.regression.oracle.objective import adjoint, backup
from horizonfree.regression.oracle.variance import SLACK, penalised_max
from horizonfree.regression.pseudo import cap
from tests.reference.episodes import full_features
from tests.reference.oracle import policy_value, pseudo_values, true_pseudo_values

pytestmark = pytest.mark.usefixtures("x64")
HARD = "hard"


class Draw(eqx.Module):
    """A random oracle problem: a mixture with its truth as the model, two covariances, a radius."""

    problem: Problem
    Sigma_tilde: np.ndarray
    Sigma_hat: np.ndarray
    beta: float

    @property
    def inputs(self):
        return (
            self.problem.model,
            self.problem.truth,
            np.linalg.inv(self.Sigma_tilde),
            np.linalg.inv(self.Sigma_hat),
        )

    @property
    def prepared(self):
        return oracle.prepare(*to_device(self.inputs))

    @property
    def phi(self):
        """Features [S, A, S, d], unpacked."""
        return full_features(self.problem.model)


def sparse_mixture(rng, S, A, H, d, n):
    """Base kernels on n random successors of each (s, a)."""
    kernels = np.zeros((d, S, A, S))
    for s, a in np.ndindex(S, A):
        to = rng.choice(S, n, replace=False)
        kernels[:, s, a, to] = rng.dirichlet(np.full(n, 0.7), d)
    return Mixture.from_kernels(kernels, horizon=H, weights=rng.dirichlet(np.ones(d)))


def covariance(rng, model):
    """I plus 1 to 1000 random regression vectors phi_V(s, a), weighted."""
    N, (_, S, A) = int(10 ** rng.uniform(0, 3)), model.space.sizes
    s, a = rng.integers(S, size=N), rng.integers(A, size=N)
    V = rng.uniform(size=(N, S)) * (rng.uniform(size=(N, S)) < 0.5)
    x = np.einsum("kn,knd->kd", np.take_along_axis(V, model.space.succ[s, a], 1), model.phi[s, a])
    return np.eye(model.dim) + (x.T * rng.uniform(0.5, 5, N)) @ x


def draw(rng, sizes, beta=None):
    if sizes[0] == HARD:
        problem = hard_instance(dim=sizes[1], episodes=3 * sizes[1] ** 2, horizon=5, seed=rng.integers(99))
    else:
        problem = sparse_mixture(rng, *sizes)
    Sigmas = covariance(rng, problem.model), covariance(rng, problem.model)
    return Draw(problem, *Sigmas, 10 ** rng.uniform(-1.3, 0.3) if beta is None else beta)


def random_pair(rng, problem):
    """A random policy and a random reward [H, S] of total <= 1."""
    H, S = problem.horizon, problem.num_states
    reward = rng.uniform(size=(H, S)) * rng.dirichlet(np.ones(H))[:, None]
    return rng.integers(problem.num_actions, size=(H, S)).astype(np.int32), reward


def warm_start(problem):
    H, S = problem.horizon, problem.num_states
    return oracle.Point(jnp.zeros((H, S), jnp.int32), jnp.int32(H - 1), jnp.ones(S, bool))


@jax.jit
def ascend(key, prepared, beta, beta_search, warm):
    return oracle.ascent(key, prepared, beta, beta_search, warm, chains=3, sweeps=60)


evaluate = jax.jit(oracle.evaluate)
upper_bound = jax.jit(oracle.upper_bound)
relaxed = jax.jit(oracle.relaxed)

# (S, A, H, d, n): successor lists shorter and longer than d, and dense ones
SIZES = [(7, 2, 4, 5, 3), (7, 3, 4, 2, 3), (4, 2, 4, 3, 4)]


@pytest.mark.parametrize("sizes", SIZES)
def test_the_objective_is_the_papers_recursion(sizes):
    rng = np.random.default_rng(0)
    for _ in range(10):
        x = draw(rng, sizes)
        policy, reward = random_pair(rng, x.problem)
        path = evaluate(x.prepared, policy, reward, x.beta)
        V, V_hat, raw = pseudo_values(
            x.phi, x.problem.truth, x.Sigma_tilde, x.Sigma_hat, x.beta, policy, reward
        )
        np.testing.assert_allclose(path.V, V, atol=1e-12)
        np.testing.assert_allclose(path.V_hat, V_hat, atol=1e-12)
        np.testing.assert_allclose(path.raw, raw, atol=1e-12)


def fork(diagonal):
    """x_1 goes to x_2 or x_3, both absorb; only the sum of the two chances is well known in the hat norm."""
    phi = np.zeros((3, 1, 3, 4))
    phi[0, 0, 1, 0] = phi[0, 0, 2, 1] = phi[1, 0, 1, 2] = phi[2, 0, 2, 3] = 1
    problem = Mixture.from_features(phi, horizon=3, bound=2.0, theta=[0.5, 0.5, 1, 1])
    unit = problem.model.unit  # phi was divided by it; so are the covariances, by its square
    both = np.array([1.0, 1, 0, 0])
    Sigma_hat = np.eye(4) + 1e8 * np.outer(both, both)
    return Draw(problem, np.diag(diagonal) / unit**2, Sigma_hat / unit**2, 10.0)


def fork_value(x, *targets):
    reward = np.zeros((3, 3))
    reward[2, targets] = 1
    return evaluate(x.prepared, np.zeros((3, 3), np.int32), reward, x.beta).V_hat[0, 0]


def test_more_data_can_raise_the_value():
    """Not monotone in the covariance: a smaller norm at x_2 makes Vhat_2 uneven, and uneven is what is unknown."""
    assert fork_value(fork([1e8, 1e8, 1e4, 1e4]), 1, 2) == pytest.approx(0.101614, abs=5e-7)
    assert fork_value(fork([1e8, 1e8, 1e12, 1e4]), 1, 2) == 1


@pytest.mark.parametrize("sizes", SIZES)
def test_adjoint_weights_are_the_derivatives(sizes):
    rng = np.random.default_rng(1)
    x = draw(rng, sizes, beta=0.03)  # no cap binds
    policy, reward = random_pair(rng, x.problem)
    prepared, leak = x.prepared, 0.01
    H, S = reward.shape

    def value(reward, nudge):
        V, V_hat = jnp.zeros(S), jnp.zeros(S)
        for h in reversed(range(H)):
            Q, raw = backup(prepared, V, V_hat, reward[h], x.beta, leak)
            V, raw = Q[policy[h], jnp.arange(S)], raw[policy[h], jnp.arange(S)]
            V_hat = cap(raw, 1.0, leak) + nudge[h]
        return V_hat[x.problem.start]

    nudge = 1e-3 * rng.uniform(size=(H, S))  # away from Vhat = 0, where the norm has no derivative
    by_reward, by_nudge = jax.jit(jax.grad(value, argnums=(0, 1)))(reward, nudge)

    path = evaluate(prepared, policy, reward, x.beta)
    V_hat = jnp.zeros((H + 1, S))
    raw = jnp.zeros((H, S))
    for h in reversed(range(H)):
        _, r = backup(prepared, path.V[h + 1], V_hat[h + 1], jnp.asarray(reward[h]), x.beta, leak)
        raw = raw.at[h].set(r[policy[h], jnp.arange(S)])
        V_hat = V_hat.at[h].set(raw[h] + nudge[h])
    path = eqx.tree_at(lambda p: (p.V_hat, p.raw), path, (V_hat, raw))
    weights = adjoint(prepared, path, x.beta, leak)
    assert float(path.raw.max()) < 1
    np.testing.assert_allclose(weights.V_hat, by_nudge, atol=1e-12)
    # The last V enters no bonus but through V_{H+1} = 0, where the box slope stands in.
    np.testing.assert_allclose(weights.V, by_reward, atol=1e-12)


def test_the_box_maximiser_is_exact_when_it_enumerates():
    F = np.random.default_rng(2).normal(size=(20, 3, 5))
    box = oracle.box_max(jnp.asarray(F))
    vertices = np.array(list(product([0, 1], repeat=5)))
    brute = np.linalg.norm(F @ vertices.T, axis=1).max(axis=1)
    np.testing.assert_allclose(box.lower, brute, rtol=1e-14)
    np.testing.assert_array_equal(box.lower, box.upper)
    attained = np.linalg.norm(np.einsum("bmn,bn->bm", F, np.asarray(box.f, float)), axis=1)
    np.testing.assert_allclose(attained, brute, rtol=1e-14)


def test_the_box_maximiser_brackets_the_optimum_beyond():
    rng = np.random.default_rng(3)
    n, m = ONE_BY_ONE + 1, 4
    F = rng.normal(size=(40, m, n)) + rng.normal(size=(40, 1, 1))
    box = jax.jit(oracle.box_max)(jnp.asarray(F))
    vertices = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    brute = np.linalg.norm(F @ vertices.T, axis=1).max(axis=1)
    assert (np.asarray(box.lower) <= brute * (1 + 1e-12)).all()
    assert (brute <= np.asarray(box.upper) * (1 + 1e-12)).all()
    assert (np.asarray(box.lower) >= brute / np.sqrt(m)).all()
    positive = jax.jit(oracle.box_max)(jnp.abs(F))
    np.testing.assert_allclose(positive.lower, positive.upper, rtol=1e-12)


def test_exhaustive_is_the_best_of_everything():
    """Against the literal recursion over all 64 policies and all 12 single-step indicators."""
    rng = np.random.default_rng(4)
    for _ in range(3):
        x = draw(rng, (2, 2, 3, 2, 2))
        best = 0.0
        for actions in product(range(2), repeat=6):
            policy = np.reshape(actions, (3, 2))
            for h, target in product(range(3), product([0, 1], repeat=2)):
                reward = np.zeros((3, 2))
                reward[h] = target
                raw = pseudo_values(
                    x.phi, x.problem.truth, x.Sigma_tilde, x.Sigma_hat, x.beta, policy, reward
                )[2]
                best = max(best, raw[0, 0])
        assert oracle.exhaustive(*x.inputs, beta=x.beta).raw == pytest.approx(best, rel=1e-12)


def test_exhaustive_refuses_what_it_cannot_finish():
    x = draw(np.random.default_rng(5), (7, 3, 4, 2, 3))
    with pytest.raises(OptionError, match="use ascent"):
        oracle.exhaustive(*x.inputs, beta=1.0)


@pytest.mark.parametrize("sizes", [(3, 3, 3, 2, 3), (4, 2, 4, 3, 4), (HARD, 4)])
def test_ascent_is_near_exhaustive_and_both_below_the_bound(sizes):
    """At least 99 % of the maximum in at least 95 % of the draws.

    Problems and keys are fixed, so the outcome is: 98, 99 and 100 of 100. With other keys, and a true share of 0.99,
    fewer than 95 would have probability 5e-4; at a share of 0.9, 95 or more have probability 0.06.
    """
    rng = np.random.default_rng(6)
    ratios = []
    for i in range(100):
        x = draw(rng, sizes)
        best = oracle.exhaustive(*x.inputs, beta=x.beta)
        found = ascend(jax.random.key(i), x.prepared, x.beta, x.beta, warm_start(x.problem))
        assert found.raw <= best.raw * (1 + 1e-12)
        assert best.value <= best.upper * (1 + 1e-12)
        assert found.upper == pytest.approx(best.upper, rel=1e-12)
        ratios.append(found.raw / best.raw)
    assert np.mean(np.array(ratios) >= 0.99) >= 0.95


def test_the_answer_is_evaluated_at_the_true_radius():
    rng = np.random.default_rng(7)
    x = draw(rng, (4, 2, 4, 3, 4), beta=0.3)
    found = ascend(jax.random.key(0), x.prepared, x.beta, 0.1, warm_start(x.problem))
    V, V_hat, raw = pseudo_values(
        x.phi,
        x.problem.truth,
        x.Sigma_tilde,
        x.Sigma_hat,
        x.beta,
        np.asarray(found.point.policy),
        np.asarray(found.point.reward),
    )
    np.testing.assert_allclose(found.V, V, atol=1e-12)
    np.testing.assert_allclose(found.V_hat, V_hat, atol=1e-12)
    assert found.raw == pytest.approx(raw[0, 0], rel=1e-12)
    assert found.value == min(found.raw, 1)


def test_a_smaller_search_radius_stands_only_while_the_value_is_capped():
    x = draw(np.random.default_rng(8), (4, 2, 4, 3, 4))
    prepared, warm = x.prepared, warm_start(x.problem)

    def search(beta):
        return ascend(jax.random.key(0), prepared, beta, beta / 2, warm)

    capped = search(50.0)
    assert capped.value == 1
    assert capped.radius == 25
    assert capped.sweeps == 180
    open_ = search(0.01)
    assert open_.value < 1
    assert open_.radius == 0.01
    assert open_.sweeps == 360


def test_the_search_radius_follows_the_value():
    assert oracle.next_search_radius(1.2, 0.5, 1.0) == pytest.approx(0.4)
    assert oracle.next_search_radius(0.9, 0.5, 1.0) == 0.5
    assert oracle.next_search_radius(0.5, 0.5, 1.0) == pytest.approx(0.575)
    assert oracle.next_search_radius(0.5, 0.95, 1.0) == 1.0


def test_a_batch_of_searches_is_a_loop_of_searches():
    rng = np.random.default_rng(9)
    x = draw(rng, (4, 2, 4, 3, 4), beta=1.0)
    prepared, warm = x.prepared, warm_start(x.problem)
    keys, betas = jax.random.split(jax.random.key(3), 3), jnp.array([0.05, 0.3, 50.0])

    def one(key, beta):
        return ascend(key, prepared, beta, 0.5 * beta, warm)

    batch = jax.vmap(one)(keys, betas)
    for i in range(3):
        alone = one(keys[i], betas[i])
        np.testing.assert_allclose(batch.raw[i], alone.raw, rtol=1e-12)
        np.testing.assert_array_equal(batch.point.policy[i], alone.point.policy)
        assert batch.radius[i] == alone.radius


def test_one_step_leaves_nothing_to_explore():
    x = draw(np.random.default_rng(10), (3, 2, 1, 2, 3))
    found = ascend(jax.random.key(0), x.prepared, 1.0, 1.0, warm_start(x.problem))
    assert found.value == found.upper == 0
    assert oracle.exhaustive(*x.inputs, beta=1.0).value == 0
    assert oracle.total_variance_bound(x.prepared, 1.0) == 0


# The inequalities.


def good_event(rng, sizes):
    """A draw whose theta_star differs from theta, with beta just large enough for ||theta - theta_star|| <= 2 beta."""
    x = draw(rng, sizes)
    model = x.problem.model
    theta_star = model.bound * rng.dirichlet(np.ones(model.dim))  # kernels are mixed with unit * weights
    theta_star = theta_star / model.bound * model.unit
    gap = theta_star - x.problem.truth
    beta = max(np.sqrt(gap @ Sigma @ gap) for Sigma in (x.Sigma_tilde, x.Sigma_hat)) / 2
    return eqx.tree_at(lambda x: x.beta, x, beta), theta_star


@pytest.mark.parametrize("sizes", [(4, 2, 4, 3, 4), (6, 2, 5, 4, 3), (12, 2, 4, 3, 12)])
def test_values_differ_by_at_most_twice_the_pseudo_value(sizes):
    """|V_1(theta) - V_1(theta_star)| <= 2 Vbar_1 <= 2 Vhat_1 on the good event, and Vbar_1 <= U_1 <= W_1."""
    rng = np.random.default_rng(11)
    for _ in range(20):
        x, theta_star = good_event(rng, sizes)
        U, W = relaxed(x.prepared, x.beta)[1], upper_bound(x.prepared, x.beta)
        assert (np.asarray(U) <= np.asarray(W) + 1e-12).all()
        for _ in range(5):
            policy, reward = random_pair(rng, x.problem)
            theta = x.problem.truth
            values = [policy_value(x.phi @ t, policy, reward)[0, 0] for t in (theta, theta_star)]
            V_bar = true_pseudo_values(x.phi, theta, theta_star, x.Sigma_tilde, x.beta, policy, reward)
            V_hat = evaluate(x.prepared, policy, reward, x.beta).V_hat
            assert abs(values[0] - values[1]) <= 2 * V_bar[0, 0] + 1e-12
            assert (V_bar <= np.asarray(V_hat) + 1e-12).all()
            assert (V_bar <= np.asarray(U) + 1e-12).all()
            assert (np.asarray(V_hat) <= np.asarray(W) + 1e-12).all()


def test_the_relaxed_bound_is_no_bound_of_the_value():
    """U is even where a reward in x_2 alone makes Vhat uneven; W covers both."""
    x = fork([1e8, 1e8, 1e4, 1e4])
    assert relaxed(x.prepared, x.beta)[1][0, 0] < 0.11
    assert fork_value(x, 1) == 1
    assert upper_bound(x.prepared, x.beta)[0, 0] == 1


@pytest.mark.parametrize("sizes", [(3, 2, 3, 3, 3), (4, 2, 4, 3, 4)])
def test_the_total_variance_bound_holds_with_and_without_the_hat_term(sizes, monkeypatch):
    monkeypatch.setattr(variance, "RATIOS", 2.0 ** np.arange(-3, 4, 2))  # every multiplier gives a bound
    rng = np.random.default_rng(12)
    for _ in range(2):
        x = draw(rng, sizes)
        best = oracle.exhaustive(*x.inputs, beta=x.beta)
        bound = oracle.total_variance_bound(x.prepared, x.beta)
        assert best.value * (1 - 1e-12) <= bound <= best.upper * (1 + 1e-12)
        huge = eqx.tree_at(lambda x: x.Sigma_hat, x, 1e20 * x.Sigma_hat)  # a vanishing hat norm
        best = oracle.exhaustive(*huge.inputs, beta=x.beta)
        bound = oracle.total_variance_bound(huge.prepared, x.beta)
        assert best.value * (1 - 1e-12) <= bound <= best.upper * (1 + 1e-12)


def test_conditional_variances_sum_to_what_the_bound_uses():
    """sum_h E Var(V_{h+1}) <= 1/4 and sum_h E Var(Vhat_{h+1}) <= 2 w x - x^2, x = Vhat_1(s_1), w = max Vhat."""
    rng = np.random.default_rng(13)
    for _ in range(30):
        x = draw(rng, (6, 2, 5, 4, 3))
        policy, reward = random_pair(rng, x.problem)
        path = evaluate(x.prepared, policy, reward, x.beta)
        P = x.phi @ x.problem.truth
        H, S = reward.shape
        sums, state = np.zeros(2), np.eye(S)[x.problem.start]
        for h in range(H):
            step = P[np.arange(S), policy[h]]
            for i, value in enumerate((np.asarray(path.V), np.asarray(path.V_hat))):
                sums[i] += state @ (step @ value[h + 1] ** 2 - (step @ value[h + 1]) ** 2)
            state = state @ step
        top = float(path.V_hat[0, x.problem.start])
        assert sums[0] <= 1 / 4 + 1e-12
        assert sums[1] <= 2 * float(path.V_hat.max()) * top - top**2 + 1e-12


@pytest.mark.parametrize("kappa", [0.1, 1.0, 5.0])
def test_the_penalised_maximum_is_bounded_closely(kappa):
    """Above every point of a grid, and within the slack and the grid's own error of the best of them."""
    rng = np.random.default_rng(14)
    m, n, A, S = 3, 3, 2, 4
    F = rng.normal(size=(m, n, A, S)) * 0.5
    p = np.moveaxis(rng.dirichlet(np.full(n, 0.5), (A, S)), -1, 0)
    bound = penalised_max(F, p, kappa, np.full((A, S), np.inf))
    points = 21
    f = np.array(list(product(np.linspace(0, 1, points), repeat=n)))
    size = np.linalg.norm(np.einsum("mnas,fn->fmas", F, f), axis=1)
    mean = np.einsum("nas,fn->fas", p, f)
    best = (size - kappa * (np.einsum("nas,fn->fas", p, f**2) - mean**2)).max(axis=0)
    assert (best <= bound).all()
    # Half a cell away from the grid the norm moves by its Lipschitz constant, the variance by at most 2 per unit.
    half = 0.5 / (points - 1)
    lipschitz = half * (np.linalg.norm(F, axis=0).sum(axis=0) + 2 * kappa)
    assert (bound <= (1 + SLACK) * (best + lipschitz) + 1e-12).all()
