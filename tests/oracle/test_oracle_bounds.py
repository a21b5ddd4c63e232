"""What bounds the oracle's value, and what it bounds: norms over boxes, relaxations, the law of total variance."""

from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from horizonfree import oracle
from horizonfree.native import library
from horizonfree.oracle import variance
from horizonfree.oracle.box import MAX_ENUMERATED_SUCCESSORS, branch_and_bound
from horizonfree.oracle.variance import RELATIVE_SLACK, penalised_max
from tests.reference.oracle import policy_value, true_pseudo_values
from tests.reference.oracle_draws import draw, evaluate, fork_draw, fork_value, random_pair

pytestmark = pytest.mark.usefixtures("x64")

upper_bound = jax.jit(oracle.upper_bound)
relaxed_bound = jax.jit(oracle.relaxed)


def test_the_box_maximiser_is_exact_when_it_enumerates():
    F = np.random.default_rng(2).normal(size=(20, 3, 5))
    box = oracle.box_max(jnp.asarray(F))
    vertices = np.array(list(product([0, 1], repeat=5)))
    brute = np.linalg.norm(F @ vertices.T, axis=1).max(axis=1)
    np.testing.assert_allclose(box.lower, brute, rtol=1e-14)
    np.testing.assert_array_equal(box.lower, box.upper)
    norms = np.linalg.norm(np.einsum("bmn,bn->bm", F, np.asarray(box.f, float)), axis=1)
    np.testing.assert_allclose(norms, brute, rtol=1e-14)


def test_the_box_maximiser_brackets_the_optimum_beyond():
    rng = np.random.default_rng(3)
    n, m = MAX_ENUMERATED_SUCCESSORS + 1, 4
    F = rng.normal(size=(40, m, n)) + rng.normal(size=(40, 1, 1))
    box_max = jax.jit(oracle.box_max)
    box = box_max(jnp.asarray(F))
    vertices = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    brute = np.linalg.norm(F @ vertices.T, axis=1).max(axis=1)
    assert (np.asarray(box.lower) <= brute * (1 + 1e-12)).all()
    assert (brute <= np.asarray(box.upper) * (1 + 1e-12)).all()
    assert (np.asarray(box.lower) >= brute / np.sqrt(m)).all()
    positive = box_max(jnp.abs(F))
    np.testing.assert_allclose(positive.lower, positive.upper, rtol=1e-12)


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
        prepared_model = x.prepared
        U, W = relaxed_bound(prepared_model, x.beta)[1], upper_bound(prepared_model, x.beta)
        assert (np.asarray(U) <= np.asarray(W) + 1e-12).all()
        for _ in range(5):
            policy, reward = random_pair(rng, x.problem)
            theta = x.problem.truth
            values = [policy_value(x.phi @ t, policy, reward)[0, 0] for t in (theta, theta_star)]
            V_bar = true_pseudo_values(x.phi, theta, theta_star, x.Sigma_tilde, x.beta, policy, reward)
            V_hat = evaluate(prepared_model, policy, reward, x.beta).V_hat
            assert abs(values[0] - values[1]) <= 2 * V_bar[0, 0] + 1e-12
            assert (V_bar <= np.asarray(V_hat) + 1e-12).all()
            assert (V_bar <= np.asarray(U) + 1e-12).all()
            assert (np.asarray(V_hat) <= np.asarray(W) + 1e-12).all()


def test_lemma_ucb():
    """P_star Vhat <= <phi_Vhat, theta> + 2 beta ||phi_Vhat||_hat on the good event, hence Vbar <= Vhat.

    At a twentieth of the radius the first is false somewhere, so the radius is needed.
    """
    rng, margins = np.random.default_rng(13), []
    for _ in range(20):
        x, theta_star = good_event(rng, (4, 2, 4, 3, 4))
        theta, inv = x.problem.truth, np.linalg.inv(x.Sigma_hat)
        policy, reward = random_pair(rng, x.problem)
        for share in (1.0, 0.05):
            V_hat = np.asarray(evaluate(x.prepared, policy, reward, share * x.beta).V_hat)
            phi = np.einsum("sand,hn->hsad", x.phi, V_hat)
            width = 2 * share * x.beta * np.sqrt(np.einsum("hsai,ij,hsaj->hsa", phi, inv, phi))
            margins.append((phi @ theta + width - phi @ theta_star).min())
        V_bar = true_pseudo_values(x.phi, theta, theta_star, x.Sigma_tilde, x.beta, policy, reward)
        assert (V_bar <= np.asarray(evaluate(x.prepared, policy, reward, x.beta).V_hat) + 1e-12).all()
    assert min(margins[::2]) >= -1e-12
    assert min(margins[1::2]) < -1e-9


def test_the_relaxed_bound_is_no_bound_of_the_value():
    """U is even where a reward in x_2 alone makes Vhat uneven; W covers both."""
    x = fork_draw([1e8, 1e8, 1e4, 1e4])
    assert relaxed_bound(x.prepared, x.beta)[1][0, 0] < 0.11
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


@pytest.mark.skipif(not library.is_built(), reason="there was no compiler")
def test_the_compiled_branch_and_bound_is_its_definition(monkeypatch):
    """n = 1 to 5, m = 1 to 6, sparse and dense probabilities, with many cells allowed and with few."""
    rng = np.random.default_rng(3)
    for n in range(1, 6):
        F, p = rng.normal(size=(6, rng.integers(1, 7), n)), rng.dirichlet(np.full(n, 0.5), 6)
        for kappa, max_nodes in ((0.0, 64), (0.7, 64), (3.0, 4)):
            compiled = branch_and_bound(F, p, kappa, RELATIVE_SLACK, max_nodes)
            with monkeypatch.context() as patch:
                patch.setattr(library, "load", lambda: None)
                defined = branch_and_bound(F, p, kappa, RELATIVE_SLACK, max_nodes)
            np.testing.assert_allclose(compiled, defined, rtol=1e-9)


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
    assert (bound <= (1 + RELATIVE_SLACK) * (best + lipschitz) + 1e-12).all()
