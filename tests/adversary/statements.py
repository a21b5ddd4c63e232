"""Everything that a run states, compared with the exact values of the system that its data came from."""

import itertools
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from scipy.optimize import linprog

import horizonfree as hf
from horizonfree.errors import HorizonfreeError
from tests.adversary import hidden
from tests.adversary.hidden import Hidden, Pay


class Checks:
    """Counts of statements and refusals, and a sentence for each false statement."""

    def __init__(self):
        self.statements, self.false, self.refused, self.sharpest = 0, [], {}, 0.0

    def at_most(self, what, true, bound, size=1.0):
        self.statements += 1
        if 1e-6 * size < bound < 0.999 * size:
            self.sharpest = max(self.sharpest, true / bound)
        if not true <= bound + 1e-8 * size:
            self.false.append(f"{what}: {true:.9g} is above {bound:.9g}")

    def within(self, what, low, true, high, size=1.0):
        self.at_most(f"{what}, low", low - true, 0.0, size)
        self.at_most(f"{what}, high", true - high, 0.0, size)

    def is_true(self, what, holds):
        self.statements += 1
        if not holds:
            self.false.append(what)

    def ask(self, what, question):
        """Refusals in words are counted; any other error fails the test."""
        try:
            question()
        except HorizonfreeError as error:
            self.refuse(what, error)

    def refuse(self, what, error):
        key = f"{what}: {error}"[:160]
        self.refused[key] = self.refused.get(key, 0) + 1


def check_run(checks, name, run, system, rng, delta, mean=None, number=99):
    """So many of the questions, each with random arguments."""
    problem = run.problem
    H, S, A = problem.space.sizes
    allowed = system.allowed

    def policy(steps, is_stochastic):
        rule = np.where(allowed, rng.random((steps, S, A)), 0.0)
        return rule / rule.sum(-1, keepdims=True) if is_stochastic else rule.argmax(-1)

    def plan_is_true(what, plan, pay, size):
        best, own = hidden.best(system, pay), hidden.value(system, pay, plan.policy)
        checks.is_true(f"{what}: rejected: {plan.certificate}", not plan.certificate.is_rejected)
        checks.at_most(f"{what}: gap", best - own, plan.gap, size)
        checks.within(f"{what}: value", plan.value_low, own, plan.value_high, size)

    scale = float(rng.choice([1.0, 1e4, 1e-3]))
    table = scale * rng.normal(size=(H, S, A)) * (rng.random((H, S, A)) < rng.choice([0.3, 1.0]))
    about = {} if rng.random() < 0.7 else {"misspecification": float(rng.choice([1e-6, 0.02, 0.3]))}
    size = 2 * H * max(np.abs(table).max(), scale)
    rescaled = {"scale": "rescale", "delta": delta}
    if rng.random() < 0.3:
        table, scale, size = rng.random((H, S, A)) / H, 1.0 / H, 1.0
        rescaled["scale"] = "total"

    def plans():
        plan_is_true(f"{name}: plan {about}", run.plan(table, **rescaled, **about), Pay(table), size)

    def evaluations(is_stochastic):
        plan = run.evaluate(table, policy(H, is_stochastic), **rescaled)
        plan_is_true(f"{name}: evaluate", plan, Pay(table), size)

    def comparisons(is_stochastic):
        a, b = policy(H, False), policy(H, is_stochastic)
        result = run.compare(table, a, b, **rescaled)
        true = hidden.value(system, Pay(table), a) - hidden.value(system, Pay(table), b)
        checks.within(f"{name}: compare", result.low, true, result.high, size)

    def extended():
        gamma = float(rng.choice([1.0, 0.7]))
        final = scale * rng.normal(size=S) if rng.random() < 0.5 else None
        t = None
        if rng.random() < 0.6:
            t = scale * (
                rng.normal(size=(S, A, S))
                if rng.random() < 0.5
                else rng.normal(size=(S, A, 1)) + rng.normal(size=S)
            )
        t = None if t is None else t[np.arange(S)[:, None], _aliases(allowed)]
        pay, options = Pay(table, t, final, gamma), {"final": final, "transition": t, "discount": gamma}
        options["scale"] = "rescale"
        plan_is_true(f"{name}: extended", run.plan(table, **rescaled | options), pay, 3 * size + 9 * scale)
        rule = policy(H, True)
        plan = run.evaluate(table, rule, **rescaled | options)
        plan_is_true(f"{name}: extended evaluation", plan, pay, 3 * size + 9 * scale)

    def families():
        family = str(rng.choice(["goals", "occupancies"]))
        certificate = run.certificate(delta, rewards=family, progress=False, **about)
        uniform = run.certificate(delta, **about)
        checks.is_true(f"{name}: {certificate}", not certificate.is_rejected and not uniform.is_rejected)
        for s in range(S):
            reward = (hf.goal if family == "goals" else hf.occupancy)(problem, s)
            plan = run.plan(reward, delta=delta, **about)
            loss = hidden.best(system, Pay(reward)) - hidden.value(system, Pay(reward), plan.policy)
            plan_is_true(f"{name}: {family}", plan, Pay(reward), 1.0)
            checks.at_most(f"{name}: all {family}", loss, certificate.eps)
            checks.at_most(f"{name}: every reward", loss, uniform.eps)
        reward = rng.random((H, S, A)) / H
        plan = run.plan(reward, delta=delta, **about)
        loss = hidden.best(system, Pay(reward)) - hidden.value(system, Pay(reward), plan.policy)
        checks.at_most(f"{name}: every reward, for a random one", loss, uniform.eps)

    def elsewhere():
        if len(system.shown) != S:
            return
        start = int(rng.integers(S)) if rng.random() < 0.5 else rng.dirichlet(np.ones(S))
        steps = int(rng.integers(1, H + 2))
        reward = scale * rng.normal(size=(steps, S, A))
        there = Hidden.of(system.P, start, allowed)
        plan = run.plan(reward, start=start, horizon=steps, scale="rescale", delta=delta)
        best, own = hidden.best(there, Pay(reward)), hidden.value(there, Pay(reward), plan.policy)
        span = steps * np.ptp(reward) + 1e-300
        checks.at_most(f"{name}: gap elsewhere", best - own, plan.gap, span)
        checks.within(f"{name}: value elsewhere", plan.value_low, own, plan.value_high, span)
        other = run.restart_from(start, steps)
        checks.at_most(f"{name}: every reward elsewhere", (best - own) / span, other.certificate(delta).eps)

    states = [int(x) for x in rng.choice(S, int(rng.integers(1, S + 1)), replace=False)]
    within = int(rng.integers(1, H + 2))
    remembered = hidden.remembering(system, states)

    def events():
        steps = min(within, H)
        plan = run.plan(hf.reach(problem, states, within=steps), delta=delta)
        pay = Pay(hidden.first_visit(S, A, states, steps))
        rule = np.concatenate([plan.policy, plan.policy[-1:]])
        own = hidden.value(remembered, pay, np.concatenate([rule, rule], axis=1))
        checks.at_most(f"{name}: reach", hidden.best(remembered, pay) - own, plan.gap)
        checks.within(f"{name}: reach, value", plan.value_low, own, plan.value_high)

    def properties():
        names = {"states": [f"s{s}" for s in range(S)]}
        named = replace(run, problem=problem._replace(layout={**problem.layout, **names}))
        left, right = ([s for s in range(S) if rng.random() < 0.6] for _ in range(2))
        sets = [" | ".join(f'"s{s}"' for s in states) or "false" for states in (left, right)]
        is_max, kind = bool(rng.random() < 0.5), str(rng.choice(["F", "G", "U"]))
        path = {"F": f"F<={within} ({sets[1]})", "G": f"G<={within} ({sets[1]})"}
        path["U"] = f"({sets[0]}) U<={within} ({sets[1]})"
        plan = named.plan(hf.property(f"P{'max' if is_max else 'min'}=? [{path[kind]}]"), delta=delta)
        every = list(range(S))
        if kind == "G":  # the complement of a visit of another state
            asked = every, [s for s in every if s not in right]
            best = 1 - hidden.until(system, *asked, steps=within, is_max=not is_max)
            own = 1 - hidden.until(system, *asked, plan.policy, steps=within)
        else:
            asked = every if kind == "F" else left, right
            best = hidden.until(system, *asked, steps=within, is_max=is_max)
            own = hidden.until(system, *asked, plan.policy, steps=within)
        checks.at_most(f"{name}: {path[kind]}", best - own if is_max else own - best, plan.gap)
        checks.within(f"{name}: {path[kind]}, value", plan.value_low, own, plan.value_high)

    def constraints():
        steps, cost = min(within, H), rng.normal(size=(H, S, A))
        bound, at_most = float(rng.normal()), float(rng.random())
        event = hf.reach(problem, states, within=steps)
        plan = run.plan(
            table, constraints=[hf.at_least(cost, bound), hf.at_most(event, at_most)], **rescaled, **about
        )
        T = max(H, steps + 1)
        rule = np.concatenate([plan.policy, np.repeat(plan.policy[-1:], T - len(plan.policy), 0)])
        tables = [_tiled(x, T) for x in (table, cost)]
        tables.append(_padded(hidden.first_visit(S, A, states, steps), T))
        own, *totals = (hidden.value(remembered, Pay(x), rule) for x in tables)
        checks.within(f"{name}: constrained value", plan.value_low, own, plan.value_high, size)
        for total, result in zip(totals, plan.constraints):
            checks.within(f"{name}: constraint", result.low, total, result.high, H)
        best = _best_within(remembered, tables, [(-1.0, -bound), (1.0, at_most)])
        if plan.status == "feasible":
            is_met = totals[0] >= bound - 1e-9 and totals[1] <= at_most + 1e-9
            checks.is_true(f"{name}: constraints hold", is_met)
        checks.is_true(f"{name}: not {plan.status}", not (plan.status == "infeasible" and best is not None))
        if best is not None and plan.status != "infeasible":
            checks.at_most(f"{name}: constrained gap", best - own, plan.gap, 10 * size)

    def risk():
        r, rule = np.tile(rng.integers(-1, 3, (1, S, A)), (H, 1, 1)), policy(H, rng.random() < 0.5)
        result = run.risk(0.5 * r, rule, delta=delta, **about)
        values, mass = hidden.distribution(system, r, rule)
        values = 0.5 * values
        for t in values:
            found = result.probability(float(t))
            checks.within(f"{name}: P(total >= {t})", found.low, mass[values >= t].sum(), found.high)
        share = float(rng.choice([0.05, 0.4]))
        below = np.cumsum(mass)
        tail = np.minimum(mass, np.maximum(share - (below - mass), 0)) @ values / share
        found = result.cvar(share)
        checks.within(f"{name}: cvar", found.low, tail, found.high, H)

    def trade_offs():
        cost = rng.random((H, S, A))
        curve = run.pareto(table, cost, points=3, **rescaled, **about)
        bound = float(rng.uniform(0, H))
        at = curve.at(bound)
        best = _best_within(system, [table, cost], [(1.0, bound)])
        if best is None:
            checks.is_true(f"{name}: the trade-off has a low end", not at.low > -np.inf)
        else:
            checks.within(f"{name}: trade-off", at.low, best, np.inf if np.isnan(at.high) else at.high, size)
            checks.is_true(f"{name}: the trade-off is empty", not np.isnan(at.high))

    def tests_of_the_class():
        checks.is_true(f"{name}: {run.check(delta=delta)}", not run.check(delta=delta).is_refuted)

    def robustness():
        least = run.robustness(0.5, delta=delta).zeta_low
        checks.at_most(f"{name}: zeta_low", least, 0.0)

    def audits():
        new, other = policy(H, False), policy(H, True) if rng.random() < 0.5 else None
        result = hf.audit(run, table, new, other, **rescaled)
        checks.is_true(f"{name}: audit is refuted", not result.is_refuted)
        true = hidden.value(system, Pay(table), new) - hidden.value(
            system, Pay(table), result.incumbent.policy
        )
        checks.within(f"{name}: audit", result.comparison.low, true, result.comparison.high, size)
        content = result.to_dict()["difference"]["interval"]
        checks.is_true(f"{name}: audit as data", content == [result.comparison.low, result.comparison.high])

    def observed():
        if mean is None:
            return
        reward = run.observed_reward.between(0, 1)
        pay = Pay(np.tile(mean, (H, 1, 1)))
        plan_is_true(f"{name}: observed", run.plan(reward, delta=delta), pay, H)
        a, b = policy(H, False), policy(H, True)
        plan_is_true(f"{name}: observed evaluation", run.evaluate(reward, b, delta=delta), pay, H)
        result = run.compare(reward, a, b, delta=delta)
        true = hidden.value(system, pay, a) - hidden.value(system, pay, b)
        checks.within(f"{name}: observed comparison", result.low, true, result.high, H)

    def intervals():
        if len(system.shown) != S:
            return
        confidence = run.confidence(delta)
        low, high = confidence.entry_intervals()
        for s, a, j in np.argwhere(np.asarray(problem.space.support)):
            if problem.space.reachable[s] and allowed[s, a]:
                p = system.P[s, a, problem.space.succ[s, a, j]]
                checks.within(f"{name}: entry", low[s, a, j], p, high[s, a, j])

    def files():
        start, steps = int(rng.integers(S)), int(rng.integers(1, H + 1))
        plan = run.plan(table, **rescaled)
        asked = {
            "plan": lambda: plan.certificate,
            "evaluation": lambda: run.evaluate(table, policy(H, False), **rescaled).certificate,
            "event": lambda: (
                run.plan(hf.reach(problem, states, within=min(within, H)), delta=delta).certificate
            ),
            "elsewhere": lambda: (
                run.plan(
                    hf.goal(problem.with_start(start, steps), 0), delta=delta, start=start, horizon=steps
                ).certificate
            ),
            "every reward": lambda: run.certificate(delta),
            "uniform": lambda: run.certificate(delta, method="uniform"),
            "goals": lambda: run.certificate(delta, rewards="goals", progress=False),
        }
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            run.save(path / "run")
            loaded = hf.load(path / "run")
            again = loaded.plan(table, **rescaled)
            numbers = [(x.value, x.value_low, x.value_high, x.gap) for x in (plan, again)]
            checks.is_true(f"{name}: loaded {numbers}", numbers[0] == numbers[1])
            for what, certificate in asked.items():
                try:
                    made = certificate()
                    made.save(path / "certificate.json")
                except HorizonfreeError as error:
                    checks.refuse(f"{name}: file of {what}", error)
                    continue
                for other in (run, loaded):
                    found = hf.verify(path / "certificate.json", other)
                    checks.is_true(f"{name}: file of {what} {found.differences}", bool(found))

    def identities():
        def numbers(plan):
            return np.array([plan.value, plan.value_low, plan.value_high, plan.gap])

        def are_same(what, a, b, unit):
            is_same = np.allclose(a, b, rtol=0, atol=1e-8 * unit)
            checks.is_true(f"{name}: {what}: {a} and {b}", is_same)

        plan, uniform = run.plan(table, **rescaled), run.certificate(delta)
        checks.at_most(f"{name}: value_low is above the estimate", plan.value_low - plan.value, 0.0, size)
        checks.at_most(f"{name}: value_high is below the estimate", plan.value - plan.value_high, 0.0, size)
        checks.at_most(f"{name}: gap against eps", plan.certificate.eps, uniform.eps + 1e-9)
        again = run.evaluate(table, plan.policy, **rescaled)
        are_same("plan and evaluation", numbers(plan), numbers(again), size)
        same = run.compare(table, plan.policy, plan.policy, **rescaled)
        are_same("compared with itself", [same.low, same.high], [0, 0], size)
        c, b = 10.0 ** rng.integers(-3, 4), float(rng.normal())
        other = run.plan(c * table + b * size, scale="rescale", delta=delta)
        first = run.plan(table, scale="rescale", delta=delta)
        shift = np.array([1, 1, 1, 0]) * b * size * H
        are_same("another unit", numbers(other), c * numbers(first) + shift, (c + abs(b)) * size * H)
        for family in ("goals", "occupancies"):
            reward = hf.goal if family == "goals" else hf.occupancy
            at = [s for s in range(S) if problem.space.reachable[s]]
            gaps = [run.plan(reward(problem, s), delta=delta).gap for s in at]
            certificate = run.certificate(delta, rewards=family, progress=False)
            checks.at_most(f"{name}: plans of {family}", max(gaps), certificate.eps + 1e-9)
        everywhere = run.plan(table, start=problem.start, horizon=H, **rescaled)
        are_same("from the same start", numbers(plan), numbers(everywhere), size)
        decided = run.plan(table, constraints=[hf.at_most(table, 0.0)], **rescaled)
        alone = run.evaluate(table, decided.policy, scale="rescale", delta=delta)
        result = decided.constraints[0]
        are_same("constraint", [result.value, result.low, result.high], numbers(alone)[:3], size)

    questions = (
        plans, partial(evaluations, False), partial(evaluations, True), partial(comparisons, False),
        partial(comparisons, True), extended, families, elsewhere, events, properties, constraints, risk, trade_offs,
        tests_of_the_class, robustness, audits, observed, intervals, files, identities,
    )  # fmt: skip
    for i in rng.permutation(len(questions))[:number]:
        question = questions[i]
        checks.ask(f"{name}: {getattr(question, 'func', question).__name__}", question)


def _aliases(allowed):
    """A forbidden action stands for the first allowed one."""
    return np.where(allowed, np.arange(allowed.shape[1]), allowed.argmax(1)[:, None])


def _padded(table, T):
    return np.concatenate([table, np.zeros((T - len(table), *table.shape[1:]))])


def _tiled(table, T):
    return _padded(np.tile(table, (1, 2, 1)), T)


def _best_within(system, tables, bounds):
    """The best total of the first table among policies with sign * total <= bound for the others; None without any.

    A linear programme over the occupancies of the hidden system.
    """
    reward, *costs = (x[:, system.shown] for x in tables)
    H, X, A = reward.shape
    index = np.arange(H * X * A).reshape(H, X, A)
    flow, supply = np.zeros((H * X, index.size)), np.zeros(H * X)
    for h, x in itertools.product(range(H), range(X)):
        flow[h * X + x, index[h, x]] = 1.0
        if h:
            flow[h * X + x, index[h - 1].ravel()] -= system.P[:, :, x].ravel()
    supply[:X] = system.start
    above = np.stack([sign * cost.ravel() for (sign, _), cost in zip(bounds, costs)])
    high = np.where(np.broadcast_to(system.allowed[system.shown], reward.shape).ravel(), 1.0, 0.0)
    size = max(np.abs(reward).max(), 1e-300)
    found = linprog(
        -reward.ravel() / size, above, [bound for _, bound in bounds], flow, supply,
        np.stack([np.zeros(index.size), high], axis=1),
    )  # fmt: skip
    return None if found.status == 2 else -found.fun * size
