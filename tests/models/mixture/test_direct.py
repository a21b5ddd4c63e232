"""The direct certificate: the polytope contains U, its vertices bound the divergence, and both are tight."""

from functools import cache, cached_property
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.spatial import ConvexHull

import horizonfree as hf
from horizonfree.errors import ModelError, OptionError
from horizonfree.mdp.space import Kernel
from horizonfree.models import certify
from horizonfree.models.mixture import evidence as ev
from horizonfree.models.mixture.direct import (
    MAX_HINGES,
    MAX_PROGRAMMES,
    RELATIVE_TOLERANCE,
    Likelihood,
    cube,
    cut,
)
from tests.reference import certificates as ref
from tests.reference import small
from tests.reference.backward_induction import optimal
from tests.reference.likelihood_set import likelihood_set

DELTA = 0.1
PROBLEMS = {
    "line": lambda: small.dense(weights=(0.4, 0.6)),
    "dense": small.dense,
    "corner": small.corner,
    "slips": small.slips,
    "three": lambda: small.slips(rates=(0.2, 0.35, 0.3)),
    "drawn start": lambda: small.slips(start=[0.5, 0, 0, 0.2, 0, 0.3]),
}


class Case:
    """One problem with evidence of one seed, its confidence, and the set of the bet that was chosen."""

    def __init__(self, problem, episodes, seed=0):
        self.problem, self.model, self.space = problem, problem.model, problem.space
        self.valid = self.model.valid
        self.evidence = small.pick(small.gather(problem, episodes, [seed]), 0)
        self.confidence = certify.confidence(self.model, self.evidence, delta=DELTA)
        self.U = likelihood_set(self.valid, self.evidence, int(self.confidence.bet), delta=DELTA)

    def direct(self, programmes=MAX_PROGRAMMES, hinges=MAX_HINGES):
        counts = self.evidence.since[self.confidence.bet]
        found = self.confidence
        U = Likelihood(self.space, self.valid, counts, found.ball, found.step, found.is_out)
        return U.by_hinge(U.by_kappa(programmes), hinges)

    def certificate(self, method="direct"):
        return certify.uniform(self.model, self.evidence, self.confidence, method)

    def edges(self, ways):
        """The last parameters of U from theta_hat in directions [n, d] of Z, by bisection."""

        def is_in(far):
            return self.U.excess(self.U.theta + far * ways)[:, None] <= 0

        inside, outside = np.zeros((len(ways), 1)), np.ones((len(ways), 1))
        while is_in(outside).any():
            outside = np.where(is_in(outside), 2 * outside, outside)
        for _ in range(60):
            middle = (inside + outside) / 2
            inside, outside = np.where(is_in(middle), [middle, outside], [inside, middle])
        return self.U.theta + inside * ways

    @cached_property
    def kept(self):
        """P~: P_theta_hat without the rows that it all but excludes and theta may exclude."""
        is_out = np.append(self.confidence.is_out, False)[self.valid.row_of]
        kernel = self.model.kernel(self.confidence.theta)
        prob = np.where(is_out, 0.0, kernel.prob)
        return Kernel(kernel.succ, prob / prob.sum(-1, keepdims=True), kernel.is_dense).dense()

    def divergence(self, theta):
        """max over pi of E sum_{h<H} KL(P~ || P_theta) under P~, by backward induction with KL as the reward."""
        P = self.kept
        Q, H, (S, A) = self.model.kernel(theta).dense(), self.space.horizon, P.shape[:2]
        reward = np.zeros((H, S, A))
        reward[:-1] = [
            [ref.kl(P[s, a], Q[s, a]) if self.space.reachable[s] else 0.0 for a in range(A)] for s in range(S)
        ]
        return self.space.at_start(optimal(P, reward)[1][0])

    def ways(self, count, seed=0):
        return np.random.default_rng(seed).normal(size=(count, self.valid.num_free)) @ self.valid.basis.T


def by_kappa(found):
    """The gap of a direct certificate without the hinge."""
    kappa, hit = found.kappa, found.hit
    return min(2 * hit + np.sqrt(2 * kappa), 4 * hit + np.sqrt(1 - np.exp(-2 * kappa)))


@cache
def make(name, episodes):
    return Case(PROBLEMS[name](), episodes)


@pytest.fixture(scope="module", params=list(PROBLEMS))
def case(request):
    return make(request.param, 400)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 4), st.integers(0, 10**6))
def test_cuts_leave_exactly_the_part_below_the_planes(q, seed):
    """Every vertex satisfies every plane and lies on q of them; and every point below all planes is in the hull."""
    rng = np.random.default_rng(seed)
    polytope = cube(q)
    planes = [(s * row, 1.0) for row in np.eye(q) for s in (-1, 1)]
    for _ in range(12):
        a, b = rng.normal(size=q), rng.uniform(0.1, 1.5)
        before = polytope.num_faces
        polytope = cut(polytope, a, b)
        planes += [(a, b)] * (polytope.num_faces - before)
    A, b = np.array([a for a, _ in planes]), np.array([b for _, b in planes])
    heights = polytope.vertices @ A.T - b
    assert heights.max() <= 1e-9
    assert np.abs(np.take_along_axis(heights, polytope.faces, 1)).max() <= 1e-9
    assert (np.diff(np.sort(polytope.faces, 1), axis=1) > 0).all()
    points = rng.uniform(-1, 1, size=(200, q))
    points = points[(points @ A.T <= b).all(1)]
    if q == 1:
        assert (points >= polytope.vertices.min()).all()
        assert (points <= polytope.vertices.max()).all()
    else:
        hull = ConvexHull(polytope.vertices)
        assert (points @ hull.equations[:, :-1].T + hull.equations[:, -1] <= 1e-9).all()


def test_no_parameter_of_U_diverges_more_than_kappa_and_one_nearly_does(case):
    found = case.direct()
    assert found.hit <= 1e-3
    assert found.attained <= found.kappa <= found.attained * (1 + RELATIVE_TOLERANCE)
    edges = case.edges(case.ways(200 if case.valid.num_free > 1 else 2))
    sampled = max(case.divergence(theta) for theta in edges)
    assert 0.8 * found.attained <= sampled <= found.kappa + 1e-9
    for theta, other in pairwise(edges[:20]):  # the reason: convex along every segment
        middle = case.divergence((theta + other) / 2)
        assert middle <= (case.divergence(theta) + case.divergence(other)) / 2 + 1e-12


@pytest.mark.parametrize("episodes", [60, 400])
def test_one_unknown_is_solved_exactly(episodes):
    """q = 1: U is a segment, and the larger divergence of its two ends is kappa."""
    case = make("line", episodes)
    way = case.valid.basis[:, 0]
    ends = case.edges(np.stack([way, -way]))
    grid = [case.divergence(ends[0] + t * (ends[1] - ends[0])) for t in np.linspace(0, 1, 101)]
    assert case.direct().kappa == pytest.approx(max(grid), rel=1e-6)
    assert case.direct().programmes <= 10


def test_every_polytope_on_the_way_is_a_bound(case):
    final = case.direct()
    for n in (1, 20, 60, 200):
        found = case.direct(programmes=n)
        assert found.kappa >= final.attained or found.hit != final.hit  # another bad set


@pytest.mark.parametrize("episodes", [60, 400])
@pytest.mark.parametrize("name", list(PROBLEMS))
def test_the_direct_certificate_is_never_above_the_uniform_one(name, episodes):
    case = make(name, episodes)
    first = case.certificate("uniform")
    found = case.certificate()
    assert found.eps <= first.eps
    if found.method == "direct":
        parts = case.direct()
        assert found.eps == pytest.approx(min(by_kappa(parts), parts.hinge))
        assert (found.parts["kappa"], found.parts["hit"]) == (parts.kappa, parts.hit)
    else:
        assert found == first


@pytest.mark.parametrize("name", ["dense", "slips", "drawn start"])
def test_the_strongest_adversary_stays_below_the_direct_certificate(name):
    """Linear programmes find the rewards that fool the plan most for some theta of U; none beats the certificate."""
    case = make(name, 400)
    H, S, A = case.space.sizes
    eps = case.certificate().eps
    P_hat, support = case.confidence.step.kernel.dense(), np.zeros((S, A, S), bool)
    for s, a, j in np.argwhere(case.space.support):
        support[s, a, case.space.succ[s, a, j]] = True
    rng, losses = np.random.default_rng(0), []
    for theta in case.edges(case.ways(6)):
        first = rng.uniform(size=(H, S, A)) / H
        P = case.model.kernel(theta).dense()
        losses.append(ref.worst_reward(P_hat, P, support, first, case.problem.start)[2])
    assert 0.01 < max(losses) <= eps + 1e-7


def test_the_zoned_grid_gains():
    """Four unknowns: kappa falls by more than a tenth, and a parameter of U attains the rest."""
    problem = hf.make("zoned-grid", size=8, zones=4, horizon=20)
    run = hf.explore(problem, explorer="optimal-design", episodes=300, seed=0, budget=300)
    first, found = run.certificate(method="uniform"), run.certificate(method="direct")
    assert found.method == "direct"
    assert found.parts["kappa"] < 0.9 * first.parts["kappa"]
    assert found.parts["attained"] >= found.parts["kappa"] / (1 + RELATIVE_TOLERANCE)
    assert found.eps < first.eps
    assert found.eps < 0.9 * np.sqrt(1 - np.exp(-2 * found.parts["kappa"]))  # by the hinge


def test_many_unknowns_are_refused_in_words_and_none_need_nothing():
    case = Case(small.tabular(), 20)
    with pytest.raises(OptionError, match="here are 12; at most 5 are possible"):
        case.certificate()
    with pytest.raises(OptionError, match="method is 'best'; it must be 'uniform' or 'direct'"):
        case.certificate("best")
    P = np.random.default_rng(0).dirichlet(np.ones(3), size=(3, 2))
    case = Case(hf.Mixture.from_kernels([P], horizon=4, weights=[1.0]), 2)
    assert case.certificate().eps == 0


def test_the_support_function_bounds_every_parameter_of_U_and_is_attained(case):
    edges = case.edges(case.ways(50))
    for direction in np.random.default_rng(1).normal(size=(4, case.model.dim)):
        value, theta = case.U.support(direction)
        assert case.U.excess(theta) <= 0
        assert value >= (edges @ direction).max()
        assert value - direction @ theta <= 1e-5


def test_the_support_function_agrees_with_a_general_solver():
    case = make("dense", 400)
    Z, theta_hat = case.valid.basis, case.U.theta
    for direction in np.random.default_rng(2).normal(size=(4, case.model.dim)):
        result = minimize(
            lambda y, c=direction: -c @ (theta_hat + Z @ y),
            np.zeros(2),
            constraints={"type": "ineq", "fun": lambda y: -case.U.excess(theta_hat + Z @ y)},
            method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 200},
        )
        assert case.U.support(direction)[0] == pytest.approx(-result.fun, abs=1e-5)


def excess(case, theta):
    return ev.violation(case.valid, case.evidence, theta, DELTA)


def test_the_set_agrees_with_the_evidence_and_refuses_to_be_empty(case):
    bet = int(case.confidence.bet)
    for theta in small.inside(case.valid, np.random.default_rng(0), 5):
        wanted = float(excess(case, theta)[bet])
        assert case.U.excess(theta) == pytest.approx(wanted, abs=2e-4)  # the gap of the fit
    poor = ev.MixtureEvidence(**{**vars(case.evidence), "losses": case.evidence.losses - 1e4})
    with pytest.raises(ModelError, match="empty"):
        likelihood_set(case.valid, poor, bet, delta=DELTA)
