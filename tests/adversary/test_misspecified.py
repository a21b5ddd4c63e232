"""Laws within a radius of a member of the class: exact worst systems against what is certified within the radius."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree import testing
from tests.adversary import cases, misspecified, rewards
from tests.adversary.systems import CLASSES, A, H, S


def successors(problem):
    space, possible = problem.space, np.zeros((S, A, S), bool)
    for s, a, j in np.argwhere(np.asarray(space.support)):
        possible[s, a, space.succ[s, a, j]] = True
    return possible


def check_robust(audit, system, seed, episodes, delta, zeta):
    rng = np.random.default_rng([seed, 5])
    problem = CLASSES[system](rng, {"horizon": H, "start": 0})
    for data in ("full", "extreme"):
        run = hf.from_episodes(problem, cases.make_log(data, episodes, problem, rng))
        robust_set = misspecified.RobustSet(run, delta, zeta)
        members = robust_set.members(rng, 6)
        audit.runs, audit.parameters = audit.runs + 1, audit.parameters + len(members)
        if not len(members):
            continue
        P, estimate = robust_set.kernels(members), np.asarray(run.confidence(delta, zeta).kernel.dense())
        candidates = rewards.search(problem, P, estimate, rng, tries=3)
        candidates += [hf.goal(problem, s) for s in range(S)] + [testing.random_reward(problem, rng)]
        name = f"{system} {seed}, {episodes} episodes, {data}, delta {delta}, zeta {zeta}"
        ratio = hf.Misspecification(ratio=2 * zeta / (1 - zeta))  # within zeta in total variation
        for misspecification in (zeta, ratio):
            misspecified.check(
                audit, name, run, delta, zeta, misspecification, candidates, P, successors(problem)
            )


def test_no_system_within_its_radius_violates_a_certificate():
    audit = testing.Audit()
    for seed, episodes, delta, zeta in ((0, 50, 0.5, 0.003), (1, 50, 0.05, 0.05), (2, 5, 0.5, 0.02)):
        check_robust(audit, "kernels", seed, episodes, delta, zeta)
    report = audit.report()
    report.raise_for_violations()
    assert report.statements > 100
    assert report.worst_ratio > 0.2


def tilted_kernel(P, divergence, rng, *, is_reversed=False):
    """A kernel Q ~ P exp(t ways) with KL(Q || P), or KL(P || Q), nearly as large as the divergence in every row."""
    low, high, ways = np.zeros(P.shape[:2]), np.full(P.shape[:2], 50.0), rng.normal(size=P.shape)

    def kernel(t):
        Q = P * np.exp(t[..., None] * ways)
        return Q / Q.sum(-1, keepdims=True)

    for _ in range(60):
        middle = (low + high) / 2
        Q = kernel(middle)
        inner, other = (P, Q) if is_reversed else (Q, P)
        is_near = (inner * np.log(inner / other)).sum(-1) < divergence
        low, high = np.where(is_near, middle, low), np.where(is_near, high, middle)
    return kernel(low)


@pytest.mark.parametrize("kind", ["kl", "sampled", "ratio", "anywhere"])
def test_the_true_system_within_its_ball_violates_nothing(kind):
    """Systems outside the class that obey what is declared, with data of their own.

    Each certificate is false with probability at most 1e-8, so the test fails with probability at most 1e-6.
    """
    size, delta, audit = 0.003, 1e-8, testing.Audit()
    for seed in range(8):
        rng = np.random.default_rng(seed)
        kernels = rng.dirichlet(np.ones(S), (2, S, A)) * 0.9 + 0.1 / S
        problem = hf.Mixture.from_kernels(kernels, horizon=H, start=0, weights=[0.6, 0.4])
        P = problem.kernel().dense()
        if kind == "ratio":
            Q = P * rng.choice([1 - size / 3, 1 + size / 3], P.shape)
            Q /= Q.sum(-1, keepdims=True)
            misspecification = hf.Misspecification(ratio=size)
        elif kind == "anywhere":
            Q = (1 - size) * P + size * rng.dirichlet(np.ones(S), (S, A))
            misspecification = hf.Misspecification(tv=size, support="anywhere")
        else:
            Q = tilted_kernel(P, size, rng, is_reversed=kind == "sampled")
            misspecification = hf.Misspecification(**{kind: size})
        truth = hf.Tabular.from_table(Q, horizon=H)
        log = hf.simulate(truth, np.full((H, S, A), 1 / A), episodes=300, seed=seed)
        run = hf.from_episodes(problem, (log.s, log.a))
        certificate = run.certificate(delta, misspecification=misspecification)
        assert not certificate.is_rejected
        for reward in [hf.goal(problem, s) for s in range(S)] + [testing.random_reward(problem, rng)]:
            task = testing.task_of(problem, reward)
            plan = run.plan(reward, delta=delta, misspecification=misspecification)
            audit.plan(f"{kind} {seed}", plan, Q[None], task)
            loss = testing.optimal_values(Q[None], task) - testing.policy_values(Q[None], task, plan.policy)
            audit.at_most(f"{kind} {seed}: eps", loss, certificate.eps)
    audit.report().raise_for_violations()
    assert audit.report().statements > 100


@pytest.mark.slow
@pytest.mark.parametrize("system", ["kernels", "sharp_kernels", "duplicates", "noise"])
def test_many_systems(system):
    audit = testing.Audit()
    for seed in range(4):
        for episodes in (5, 50, 400):
            for delta, zeta in ((0.5, 0.003), (0.5, 0.05), (0.05, 0.02)):
                check_robust(audit, system, seed, episodes, delta, zeta)
    print(audit.report())
    audit.report().raise_for_violations()
