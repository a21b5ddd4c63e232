"""Systems whose laws are within zeta of a member of the class: which members the data allow, and the worst systems.

The three sets of docs/robust.md are those of tests/reference/adversaries.py, written from their definitions. The worst
systems are exact: dynamic programmes over laws with memory.
"""

import numpy as np

from horizonfree import testing
from horizonfree.models.mixture.evidence import STARTS, predictors
from tests.adversary.sets import LinearlyParametrised
from tests.reference import adversaries


class RobustSet(LinearlyParametrised):
    """Parameters in the sets of R1, R2 and R3 for one radius, support "successors"."""

    def __init__(self, run, delta, zeta):
        super().__init__(run, delta)
        self.zeta, self.truth = zeta, adversaries.truth(run.problem)
        blocks = int((run.episodes > STARTS).sum())
        valid, rows = run.problem.model.valid, np.asarray(run.evidence.record.rows)[:blocks]
        self.predicted = adversaries.predictions(valid, predictors(valid, rows))
        self.intervals = adversaries.intervals_of_rows(self.truth, [run.evidence], zeta, delta)

    def inside(self, x):
        good = self.is_valid(self.kernels(x))
        if self.model.is_hull:
            good &= (x >= -1e-13).all(-1)
        for i in np.flatnonzero(good):
            good[i] = self.is_member(x[i])
        return good

    def is_member(self, theta):
        valid, evidence = self.truth.valid, self.run.evidence
        p = np.maximum(np.asarray(valid.rows) @ theta, 0.0)
        prob = np.where(self.truth.is_slot, np.append(p, 0.0)[np.asarray(valid.row_of)], 0.0)
        known = self.truth._replace(p=p, prob=prob)
        return not (
            adversaries.leaves_bets(known, evidence, self.predicted, self.zeta, self.delta)
            or adversaries.leaves_rows(known, self.intervals, self.zeta)
            or adversaries.leaves_spaces(known, evidence, self.predicted, self.zeta, self.delta)
        )

    def estimates(self):
        return [np.asarray(self.run.evidence.theta)]


def largest_means(P, f, zeta, allowed):
    """max of Q f over laws Q [S, A, S] within zeta of P in total variation that live where allowed: [S, A]."""
    best = np.where(allowed, f, -np.inf).max(-1)
    order = np.argsort(f)
    mass = P[..., order]
    moved = np.clip(zeta - (np.cumsum(mass, -1) - mass), 0.0, mass)
    return ((mass - moved) * f[order]).sum(-1) + moved.sum(-1) * best


def worst_loss(P, task, policy, zeta, allowed):
    """Over all systems with memory within zeta of P: the largest loss of a plan, its smallest and largest value.

    Where the best policy takes the plan's action both meet the same law; after another action their laws are unrelated.
    """
    S, every = P.shape[0], np.arange(P.shape[0])
    up, low, high, gap = np.zeros((4, S))
    for h in range(len(task.reward) - 1, -1, -1):
        own, r = policy[h], task.reward[h]
        best = r + largest_means(P, up, zeta, allowed)
        least = (r - largest_means(P, -low, zeta, allowed))[every, own]
        most = (r + largest_means(P, high, zeta, allowed))[every, own]
        agree = largest_means(P, gap, zeta, allowed)[every, own]
        others = np.where(np.arange(P.shape[1]) == own[:, None], -np.inf, best).max(-1)
        up, low, high, gap = best.max(-1), least, most, np.maximum(agree, others - least)
    return tuple(float(x @ task.start) for x in (gap, low, high))


def check(audit, name, run, delta, zeta, declared, rewards, members, allowed):
    """Certificates, families, plans and the robustness curve, in the worst system around each member."""
    certificate = run.certificate(delta, misspecification=declared)
    family = run.certificate(delta, rewards=rewards, misspecification=declared)
    curve = run.robustness(0.3, delta=delta)
    wider, bound = min(
        ((z, gap) for z, gap in zip(curve.zetas, curve.gaps) if z >= zeta and not np.isnan(gap)),
        key=lambda pair: pair[1],
        default=(zeta, 1.0),
    )
    if not certificate.is_rejected:
        audit.at_most(f"{name}: smallest misspecification", curve.zeta_low, zeta)
    for reward in rewards:
        task = testing.task_of(run.problem, reward)
        plan = run.plan(reward, delta=delta, misspecification=declared)
        if plan.certificate.is_rejected:
            continue
        found = np.array([worst_loss(P, task, plan.policy, zeta, allowed) for P in members])
        audit.at_most(f"{name}: gap", found[:, 0], plan.gap)
        audit.at_most(f"{name}: value_low", plan.value_low - found[:, 1], 0.0)
        audit.at_most(f"{name}: value_high", found[:, 2] - plan.value_high, 0.0)
        if not certificate.is_rejected:
            audit.at_most(f"{name}: eps", found[:, 0], certificate.eps)
            audit.at_most(f"{name}: family", found[:, 0], family.eps)
        robust = run.plan(reward, delta=delta, misspecification=wider)
        found = np.array([worst_loss(P, task, robust.policy, zeta, allowed) for P in members])
        audit.at_most(f"{name}: robustness", found[:, 0], bound)
