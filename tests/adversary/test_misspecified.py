"""Laws within a radius of a member of the class: exact worst systems against what is certified within the radius."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree import testing
from tests.adversary import cases, misspecified, rewards
from tests.adversary.systems import CLASSES, A, H, S


def successors(problem):
    space, found = problem.space, np.zeros((S, A, S), bool)
    for s, a, j in np.argwhere(np.asarray(space.support)):
        found[s, a, space.succ[s, a, j]] = True
    return found


def attack(audit, system, seed, episodes, delta, zeta):
    rng = np.random.default_rng([seed, 5])
    problem = CLASSES[system](rng, {"horizon": H, "start": 0})
    for data in ("full", "extreme"):
        run = hf.from_episodes(problem, cases.log_of(data, episodes, problem, rng))
        found = misspecified.RobustSet(run, delta, zeta)
        members = found.members(rng, 6)
        audit.runs, audit.parameters = audit.runs + 1, audit.parameters + len(members)
        if not len(members):
            continue
        P, estimate = found.kernels(members), np.asarray(run.confidence(delta, zeta).kernel.dense())
        tried = rewards.search(problem, P, estimate, rng, tries=3)
        tried += [hf.goal(problem, s) for s in range(S)] + [testing.random_reward(problem, rng)]
        name = f"{system} {seed}, {episodes} episodes, {data}, delta {delta}, zeta {zeta}"
        ratio = hf.Misspecification(ratio=2 * zeta / (1 - zeta))  # within zeta in total variation
        for declared in (zeta, ratio):
            misspecified.check(audit, name, run, delta, zeta, declared, tried, P, successors(problem))


def test_no_system_within_its_radius_violates_a_certificate():
    audit = testing.Audit()
    for seed, episodes, delta, zeta in ((0, 50, 0.5, 0.003), (1, 50, 0.05, 0.05), (2, 5, 0.5, 0.02)):
        attack(audit, "kernels", seed, episodes, delta, zeta)
    report = audit.report()
    report.raise_for_violations()
    assert report.statements > 100
    assert report.worst_ratio > 0.2


@pytest.mark.slow
@pytest.mark.parametrize("system", ["kernels", "sharp_kernels", "duplicates", "noise"])
def test_many_systems(system):
    audit = testing.Audit()
    for seed in range(4):
        for episodes in (5, 50, 400):
            for delta, zeta in ((0.5, 0.003), (0.5, 0.05), (0.05, 0.02)):
                attack(audit, system, seed, episodes, delta, zeta)
    print(audit.report())
    audit.report().raise_for_violations()
