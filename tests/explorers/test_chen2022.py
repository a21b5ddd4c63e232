"""The reconstruction of Chen et al. 2022: its recursions, its search and its regressions, against plain loops."""

import equinox as eqx
import jax
import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import OptionError
from horizonfree.estimators import projection
from horizonfree.estimators.weighted import HAT, TILDE
from horizonfree.explorers import chen2022
from horizonfree.explorers.chen2022 import PLAIN, PSEUDO, Chen2022
from tests.reference import ucrl_rfe as literal
from tests.reference import ucrl_vtr_plus as weights
from tests.reference.episodes import follow, full_features, seeds

least_squares = eqx.filter_jit(projection.least_squares)  # as one program: else each call is traced anew


def mixture():
    return hf.make("random-mixture", states=4, actions=2, dim=3, horizon=4)


def pseudo_values(phi, theta, Sigma, Sigma_hat, beta, policy, reward):
    """V and Vhat as the header of the file defines them; all tables per step."""
    H, S = reward.shape
    V, V_hat = np.zeros((H + 1, S)), np.zeros((H + 1, S))
    for h in reversed(range(H)):
        for s in range(S):
            x, x_hat = (literal.phi_of_pair(phi, s, policy[h, s], v[h + 1]) for v in (V, V_hat))
            V[h, s] = reward[h, s] + x @ theta[h]
            u = min(H, beta * literal.norm_inv(x, Sigma[h]))
            raw = u + 2 * beta * literal.norm_inv(x_hat, Sigma_hat[h]) + x_hat @ theta[h]
            V_hat[h, s] = max(0.0, min(H, raw))
    return V, V_hat


@pytest.mark.parametrize(("constants", "pool_steps"), [("paper", False), ("scaled", False), ("scaled", True)])
def test_twenty_episodes_agree_with_plain_loops(constants, pool_steps, x64):
    """The search's answer (pi_k, r_k) is taken as given; everything computed from it is checked."""
    problem, K = mixture(), 20
    model, phi = problem.model, full_features(problem.model)
    H, d, lam = model.space.horizon, model.dim, model.bound**-2
    explorer = Chen2022(constants=constants, scale=0.3, bias_scale=0.1, pool_steps=pool_steps, sweeps=2)

    def regressions():
        if pool_steps:
            return [literal.Regression.init(lam, d)] * H
        return [literal.Regression.init(lam, d) for _ in range(H)]

    series = {PLAIN: (regressions(), regressions()), PSEUDO: (regressions(), regressions())}
    below_cap = 0
    for state, trajectory, updated in follow(problem, explorer, K):
        answer, radii = state.answer, jax.tree.map(float, explorer.radii(model, state.episode + 1))
        Sigmas = [[x.Sigma for x in series[i][0]] for i in (PLAIN, PSEUDO)]
        theta = [constrained(problem, [series[i][0][h] for i in (PLAIN, PSEUDO)]) for h in range(H)]
        V, V_hat = pseudo_values(phi, theta, *Sigmas, radii.hat, answer.policy, answer.reward)
        np.testing.assert_allclose(answer.V, V, atol=1e-9)
        np.testing.assert_allclose(answer.V_hat, V_hat, atol=1e-9)
        below_cap += V_hat[0, 0] < H
        for i, values in ((PLAIN, V), (PSEUDO, V_hat)):
            first, second = series[i]
            weights.regress(first, second, phi, values, trajectory.s, trajectory.a, radii.check, radii.tilde)
            for regression, family in ((first, HAT), (second, TILDE)):
                Sigma = regression[0].Sigma if pool_steps else [x.Sigma for x in regression]
                b = regression[0].b if pool_steps else [x.b for x in regression]
                np.testing.assert_allclose(
                    updated.ridge.Sigma[..., i, family, :, :], Sigma, rtol=1e-9, atol=1e-9
                )
                np.testing.assert_allclose(updated.ridge.b[..., i, family, :], b, rtol=1e-9, atol=1e-9)
    assert constants == "paper" or below_cap > 0


def constrained(problem, regressions):
    """The least-squares point of both series among the valid kernels, by the library's own solver."""
    return np.asarray(
        least_squares(problem.model.valid, sum(x.Sigma for x in regressions), sum(x.b for x in regressions))
    )


@pytest.fixture(scope="module")
def run():
    return hf.explore(mixture(), "chen2022", episodes=60, scale=0.3, progress=False)


def test_the_search_is_near_the_best_of_all_policies_and_rewards(x64):
    """Enumerated on a problem of two steps: the ascent may stop at a local maximum, but not at a poor one."""
    problem, explorer = hf.make("random-mixture", states=4, actions=2, dim=2, horizon=2), Chen2022(scale=0.2)
    model, phi = problem.model, full_features(problem.model)
    *_, (state, _, _) = follow(problem, explorer, 12)
    value = float(state.answer.V_hat[0, problem.start])
    first = [[state.ridge.Sigma[h, i, HAT] for h in range(2)] for i in (PLAIN, PSEUDO)]
    b = [[state.ridge.b[h, i, HAT] for h in range(2)] for i in (PLAIN, PSEUDO)]
    theta = [
        constrained(problem, [literal.Regression(first[i][h], b[i][h]) for i in (PLAIN, PSEUDO)])
        for h in range(2)
    ]
    beta = float(explorer.radii(model, state.episode + 1).hat)
    best = 0.0
    # u_1 depends on the reward of the last step and the action at the start; u_2 = 0
    for bits in range(2**4):
        for a in range(2):
            reward = np.zeros((2, 4))
            reward[1] = (bits >> np.arange(4)) & 1
            policy = np.full((2, 4), a)
            best = max(best, pseudo_values(phi, theta, *first, beta, policy, reward)[1][0, problem.start])
    assert value <= best + 1e-9
    assert value >= 0.75 * best


def test_rows_weights_and_estimate_are_in_their_ranges(run):
    H, d = run.problem.horizon, run.problem.model.dim
    rows = run.records
    assert ((rows["V_hat"] >= 0) & (rows["V_hat"] <= 1)).all()
    assert rows["V_hat"][-1] < 1
    assert (rows["smallest_sigma_sq"] >= H**2 / d - 1e-12).all()
    assert (rows["largest_sigma_sq"] <= 3 * H**2 + 1e-9).all()
    assert run.problem.model.valid.contains(run.theta_hat)
    assert set(np.unique(run.progress.state.answer.reward)) <= {0.0, 1.0}


def test_with_the_papers_radii_the_truth_stays_in_every_ball():
    """200 seeds; the radii, those of UCRL-VTR+ with delta/4, are far larger than needed."""
    rows = seeds(mixture(), Chen2022(constants="paper", sweeps=1), 10, 200)
    assert float(rows["truth_ratio"].max()) < 1


def test_it_says_that_it_is_a_reconstruction_and_claims_nothing(run):
    description = hf.explorers(all=True)["chen2022"]
    assert "econstruction" in description["about"]
    assert "not verified against the paper" in description["meanings"]["constants"]
    assert "not verified" in chen2022.__doc__.lower()
    with pytest.raises(OptionError, match="no certificate of its own"):
        run.certificate(method="paper")
    with pytest.raises(OptionError, match="sweeps is 0"):
        Chen2022(sweeps=0)
