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
        is_good = self.is_valid(self.kernels(x))
        if self.model.is_hull:
            is_good &= (x >= -1e-13).all(-1)
        for i in np.flatnonzero(is_good):
            is_good[i] = self.is_member(x[i])
        return is_good

    def is_member(self, theta):
        valid, evidence = self.truth.valid, self.run.evidence
        p = np.maximum(np.asarray(valid.rows) @ theta, 0.0)
        prob = np.where(self.truth.is_slot, np.append(p, 0.0)[np.asarray(valid.row_of)], 0.0)
        model = self.truth._replace(p=p, prob=prob)
        return not (
            adversaries.leaves_bets(model, evidence, self.predicted, self.zeta, self.delta)
            or adversaries.leaves_rows(model, self.intervals, self.zeta)
            or adversaries.leaves_spaces(model, evidence, self.predicted, self.zeta, self.delta)
        )

    def estimates(self):
        return [np.asarray(self.run.evidence.theta)]


def largest_means(P, f, zeta, allowed):
    """max of Q f over laws Q [S, A, S] within zeta of P in total variation that live where allowed: [S, A]."""
    best = np.where(allowed, f, -np.inf).max(-1)
    order = np.argsort(f)
    mass = P[..., order]
    shift = np.clip(zeta - (np.cumsum(mass, -1) - mass), 0.0, mass)
    return ((mass - shift) * f[order]).sum(-1) + shift.sum(-1) * best


def worst_loss(P, task, policy, zeta, allowed):
    """Over all systems with memory within zeta of P: the largest loss of a plan, its smallest and largest value.

    Where the best policy takes the plan's action both meet the same law; after another action their laws are unrelated.
    """
    S, states = P.shape[0], np.arange(P.shape[0])
    upper, low, high, gap = np.zeros((4, S))
    for h in range(len(task.reward) - 1, -1, -1):
        actions, r = policy[h], task.reward[h]
        best = r + largest_means(P, upper, zeta, allowed)
        least = (r - largest_means(P, -low, zeta, allowed))[states, actions]
        largest = (r + largest_means(P, high, zeta, allowed))[states, actions]
        agree = largest_means(P, gap, zeta, allowed)[states, actions]
        other_values = np.where(np.arange(P.shape[1]) == actions[:, None], -np.inf, best).max(-1)
        upper, low, high, gap = best.max(-1), least, largest, np.maximum(agree, other_values - least)
    return tuple(float(x @ task.start) for x in (gap, low, high))


def check(audit, name, run, delta, zeta, misspecification, rewards, members, allowed):
    """Certificates, families, plans and the robustness curve, in the worst system around each member."""
    certificate = run.certificate(delta, misspecification=misspecification)
    family = run.certificate(delta, rewards=rewards, misspecification=misspecification)
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
        plan = run.plan(reward, delta=delta, misspecification=misspecification)
        if plan.certificate.is_rejected:
            continue
        worst_losses = np.array([worst_loss(P, task, plan.policy, zeta, allowed) for P in members])
        audit.at_most(f"{name}: gap", worst_losses[:, 0], plan.gap)
        audit.at_most(f"{name}: value_low", plan.value_low - worst_losses[:, 1], 0.0)
        audit.at_most(f"{name}: value_high", worst_losses[:, 2] - plan.value_high, 0.0)
        if not certificate.is_rejected:
            audit.at_most(f"{name}: eps", worst_losses[:, 0], certificate.eps)
            audit.at_most(f"{name}: family", worst_losses[:, 0], family.eps)
        robust = run.plan(reward, delta=delta, misspecification=wider)
        worst_losses = np.array([worst_loss(P, task, robust.policy, zeta, allowed) for P in members])
        audit.at_most(f"{name}: robustness", worst_losses[:, 0], bound)
