"""By how much values can be misjudged: the bound against true differences, and its steps one by one."""

import equinox as eqx
import numpy as np
import pytest

import horizonfree as hf
from horizonfree import oracle
from horizonfree._x64 import to_device
from horizonfree.oracle.variance import MUS, largest_root, variance_bound
from tests.reference import claim_adversary, claims
from tests.reference import variance_bound as twin
from tests.reference.episodes import full_features

SIZES = {"states": 4, "actions": 2, "dim": 3, "horizon": 6}
HORIZON = 6
prepare = eqx.filter_jit(oracle.prepare)


def values(P, policy, reward):
    """V [H+1, S] of a policy."""
    V = np.zeros((HORIZON + 1, len(P)))
    for h in reversed(range(HORIZON)):
        V[h] = reward[h] + P[np.arange(len(P)), policy[h]] @ V[h + 1]
    return V


@pytest.fixture(scope="module")
def pairs():
    """A model, and pairs of kernels in it with the distance of their parameters in some covariance."""
    problem = hf.make("random-mixture", **SIZES)
    model, rng = problem.model, np.random.default_rng(5)
    E, offsets = np.asarray(model.valid.affine), []
    while len(offsets) < 12:
        theta, star = (problem.truth + E @ rng.normal(scale=0.01, size=E.shape[1]) for _ in range(2))
        if model.valid.contains(theta, 0) and model.valid.contains(star, 0):
            root = rng.normal(size=(3, 3))
            Sigma = 10 ** rng.uniform(0, 5) * (root @ root.T + np.eye(3))
            offsets.append((theta, star, Sigma, np.sqrt((theta - star) @ Sigma @ (theta - star))))
    return problem, offsets


def random_pair(rng, S):
    policy, step = rng.integers(0, 2, (HORIZON, S)), rng.integers(1, HORIZON)
    reward = np.zeros((HORIZON, S))
    reward[step] = rng.random(S) < 0.5
    if rng.random() < 0.5:
        reward = rng.random((HORIZON, S)) / HORIZON
    return policy, reward


def test_no_value_is_misjudged_by_more(pairs, x64):
    """theta at distance 2 beta from theta_star: every policy and reward tried, and the steps of the proof."""
    problem, offsets = pairs
    phi, s1, rng = full_features(problem.model), problem.start, np.random.default_rng(6)
    says_something = 0
    for theta, star, Sigma, distance in offsets:
        beta = distance / 2
        inv = np.linalg.inv(Sigma)
        y = variance_bound(prepare(*to_device((problem.model, theta, inv, inv))), beta)
        says_something += y < 0.25
        P, P_star = phi @ theta, phi @ star
        for _ in range(30):
            policy, reward = random_pair(rng, 4)
            V, V_star = values(P, policy, reward), values(P_star, policy, reward)
            if y < 0.25:
                assert abs(V[0, s1] - V_star[0, s1]) <= 2 * y + 1e-12
            state, widths, variance = np.eye(4)[s1], 0.0, 0.0
            for h in range(HORIZON):
                rows = P[np.arange(4), policy[h]]
                x = np.einsum("snd,n->sd", phi[np.arange(4), policy[h]], V_star[h + 1])
                widths += state @ np.minimum(0.5, beta * np.sqrt(np.einsum("si,ij,sj->s", x, inv, x)))
                variance += state @ (rows @ V_star[h + 1] ** 2 - (rows @ V_star[h + 1]) ** 2)
                state = state @ rows
            assert abs(V[0, s1] - V_star[0, s1]) <= 2 * widths + 1e-12
            furthest = np.abs(V - V_star).max()
            assert variance <= (0.5 + 2 * np.sqrt(furthest * widths)) ** 2 + 1e-12
            if y < 0.25:
                assert widths <= y * (1 + 1e-9)
    assert says_something >= 3


def test_no_plan_loses_more_than_is_claimed(x64):
    """4 min(U, T) against the worst reward, plan and theta_star, on a fork and on random systems.

    At the fork two actions are misjudged in opposite directions: there the claim is nearly attained.
    """
    successors = np.eye(3)
    kernels = np.stack(
        [
            [[successors[1], successors[2]], [successors[1]] * 2, [successors[2]] * 2],
            [[successors[2], successors[1]], [successors[1]] * 2, [successors[2]] * 2],
        ]
    )
    root = np.array([[20.0, -20.0], [1e4, 1e4]]).T
    worst_attack = claims.Attack(kernels, 0.5, root, root)
    assert 0.9 < claims.ratio(worst_attack, 2) <= 1 + 1e-9
    assert 0.9 < claims.ratio(worst_attack, 3) <= 1 + 1e-9
    rng, ratios = np.random.default_rng(0), []
    while len(ratios) < 4:
        ratio = claims.ratio(claims.random_attack(rng), 3)
        ratios += [ratio] if ratio > 0 else []
    assert max(ratios) <= 1 + 1e-9


@pytest.mark.parametrize("size", [(2, 3, 2), (3, 4, 5), (4, 6, 8)])
def test_no_plan_of_a_larger_system_loses_more_than_is_claimed(size, x64):
    """Rewards by linear programmes, theta_star along the derivative of the loss; 4 T' alone, a few climbing moves."""
    d, S, H = size
    rng, ratios, says_something = np.random.default_rng(3), [], 0
    for make in (claim_adversary.fork_system, claim_adversary.random_system):
        system = make(rng, d, S, 2, 3)
        for _ in range(8):
            ratios.append(claim_adversary.ratio(rng, system, H))
            says_something += ratios[-1] > 0
            system = claim_adversary.perturb(rng, system, 0.5)
    assert says_something
    assert max(ratios) <= 1 + 1e-9


@pytest.mark.parametrize(("beta", "horizon"), [(1e-3, 2), (0.03, 6), (0.3, 40), (3.0, 6)])
def test_it_is_the_bound_written_out(beta, horizon, x64):
    """Roots by bisection, the dynamic programme by loops, every mu."""
    problem = hf.make("random-mixture", **SIZES | {"horizon": horizon, "successors": 4})
    model, rng = problem.model, np.random.default_rng(1)
    E = np.asarray(model.valid.affine)
    inv = E @ np.diag(rng.uniform(0.05, 1.0, E.shape[1])) @ E.T + 1e-14 * np.eye(3)
    y = variance_bound(prepare(*to_device((model, problem.truth, inv, inv))), beta)
    settings = {"H": horizon, "start": problem.start, "mus": MUS}
    assert y == pytest.approx(
        twin.of_features(full_features(model), problem.truth, inv, beta, **settings), rel=1e-9
    )


def test_it_is_below_the_bound_by_the_variance_of_the_return_alone(x64):
    """y <= (D_1 + mu)/(1 - 8 mu), which needs no other state than the start, is never smaller at any mu."""
    D, mu = (x.ravel() for x in np.meshgrid(np.geomspace(1e-6, 0.2, 30), np.geomspace(1e-5, 0.12, 30)))
    assert (largest_root(D, mu, 1.0) <= (D + mu) / (1 - 8 * mu)).all()


def test_it_grows_far_less_than_the_sum_of_widths(x64):
    """All that is unknown has a variance here: sixteen times the steps, sixteen times the widths."""
    bounds, sums = [], []
    for H in (4, 64):
        model = hf.make("random-mixture", **SIZES | {"horizon": H}).model
        E = np.asarray(model.valid.affine)
        inv = 1e-3 * E @ E.T + 1e-14 * np.eye(3)  # the sums of rows are known
        prepared_model = prepare(*to_device((model, np.asarray(model.valid.center), inv, inv)))
        bounds.append(variance_bound(prepared_model, 0.1))
        sums.append((H - 1) * 0.1 * float(prepared_model.box_tilde.max()))
    assert 0 < bounds[0] < bounds[1] < 0.25
    assert bounds[1] / bounds[0] < 0.5 * sums[1] / sums[0]


def test_it_says_nothing_where_the_radius_is_large(x64):
    problem = hf.make("random-mixture", **SIZES)
    prepared_model = prepare(*to_device((problem.model, problem.truth, np.eye(3), np.eye(3))))
    assert variance_bound(prepared_model, 1000.0) == 0.25
