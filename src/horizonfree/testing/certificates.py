"""Adversarial tests of certificates, also for model classes written elsewhere.

`check_certificates(problem)` simulates the problem, draws parameters from the confidence set of each run, and compares
every number that the run reports with exact values, for each of these parameters. The statement is deterministic: a
certificate holds for every parameter of the confidence set, so a single violation is an error.

Of a model it uses `parameter_shape`, `kernel(parameter)`, linear in the parameter, `violation(evidence, parameter,
delta)`, positive outside the confidence set, and `is_hull`: whether no entry is negative. The exact values are computed
in plain NumPy from dense kernels [N, S, A, S] (_exact.py).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from horizonfree._exact import Kernels, Task, optimal_values, policy_values, task_of
from horizonfree._x64 import x64
from horizonfree.errors import HorizonfreeError
from horizonfree.mdp.rewards import goal, occupancy
from horizonfree.models.base import Model
from horizonfree.problems.problem import Problem
from horizonfree.problems.simulate import simulate
from horizonfree.runs.logged import from_episodes
from horizonfree.runs.run import Run

Draw = Callable[[Run, float, np.random.Generator], Iterable[Any]]
Inside = Callable[[Run, np.ndarray, float], Bool[np.ndarray, " N"]]

BISECTIONS = 40  # towards the boundary of a confidence set
TOLERANCE = 1e-8  # relative to the largest total reward
VACUOUS_SHARE = 0.999  # bounds above this share of the largest total are left out of the worst ratio
MIN_SHARE = 1e-6  # and so are bounds below this share


@dataclass(frozen=True)
class Report:
    """What `check_certificates` found.

    `runs` data sets were explored; `parameters` parameters of their confidence sets were tried in `statements`
    comparisons with an exact value. `refused` questions raised a HorizonfreeError. `worst_ratio` is the largest true
    loss divided by its bound, over bounds that are not vacuous. `violations` has a sentence for each false statement.
    """

    runs: int
    parameters: int
    statements: int
    refused: int
    worst_ratio: float
    violations: tuple[str, ...]

    def raise_for_violations(self) -> None:
        """Raise an AssertionError that lists the violations, if there are any."""
        if self.violations:
            sentences = "\n".join(f"- {sentence}" for sentence in self.violations[:20])
            raise AssertionError(f"{len(self.violations)} false certificates:\n{sentences}")


@dataclass
class Audit:
    """Compares what runs report with exact values, and keeps the counts of a Report."""

    runs: int = 0
    parameters: int = 0
    statements: int = 0
    refused: int = 0
    worst_ratio: float = 0.0
    violations: list[str] = field(default_factory=list)

    def report(self) -> Report:
        """The counts so far."""
        counts = self.runs, self.parameters, self.statements, self.refused
        return Report(*counts, self.worst_ratio, tuple(self.violations))

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """A question that may be refused with a HorizonfreeError; any other error is not caught."""
        try:
            yield
        except HorizonfreeError:
            self.refused += 1

    def at_most(self, what: str, true: Any, bound: float, size: float = 1.0) -> None:
        """True values must not exceed a bound."""
        true = np.atleast_1d(np.asarray(true, float))
        if not len(true):
            return
        self.statements += len(true)
        largest = float(true.max())
        if MIN_SHARE * size < bound < VACUOUS_SHARE * size:
            self.worst_ratio = max(self.worst_ratio, largest / bound)
        if not largest <= bound + TOLERANCE * size:
            self.violations.append(
                f"{what}: at most {bound:.9g} was reported, the true value is {largest:.9g}"
            )

    def plan(self, what: str, plan: Any, kernels: Kernels, task: Task) -> None:
        """The gap, the interval of the value and the summary of a Plan."""
        values = policy_values(kernels, task, plan.policy)
        loss = optimal_values(kernels, task) - values
        self.at_most(f"{what}: gap", loss, plan.gap, task.size)
        if plan.certificate.is_rejected:
            return
        self.at_most(f"{what}: value_high", values - plan.value_high, 0.0, task.size)
        self.at_most(f"{what}: value_low", plan.value_low - values, 0.0, task.size)
        self.summary(f"{what}: summary", loss, plan.certificate.summary(), task.size)

    def summary(self, what: str, loss: Any, summary: str, size: float = 1.0) -> None:
        """The number in the summary of a certificate."""
        result = re.search(r"suboptimality at most (-?[\d.]+(?:e[+-]?\d+)?) \(", summary)
        if result is not None:
            self.at_most(f"{what} ({summary[:60]})", loss, float(result[1]), size)

    def comparison(self, what: str, comparison: Any, kernels: Kernels, task: Task, a: Any, b: Any) -> None:
        """The interval of a Comparison of policies a and b."""
        true = policy_values(kernels, task, a) - policy_values(kernels, task, b)
        self.at_most(f"{what}: high", true - comparison.high, 0.0, task.size)
        self.at_most(f"{what}: low", comparison.low - true, 0.0, task.size)


@x64
def is_inside(run: Run, parameters: Float[np.ndarray, "N *shape"], delta: float) -> Bool[np.ndarray, " N"]:
    """Which parameters are in the confidence set of a run, by `model.violation`."""
    model, evidence, level = run.problem.model, run.evidence, np.asarray(delta)
    result = [float(model.violation(evidence, x, level)) for x in np.asarray(parameters, float)]
    return np.array(result) <= 0


def dense_kernels(model: Model, parameters: Iterable[Any]) -> Kernels:
    """Dense tables [N, S, A, S] of several parameters."""
    return np.stack([np.asarray(model.kernel(parameter).dense()) for parameter in parameters])


def to_boundary(
    inside: Callable[[np.ndarray], Bool[np.ndarray, " N"]], origin: np.ndarray, targets: np.ndarray
) -> np.ndarray:
    """From a point of a convex set towards each target, the last point of the set that bisection finds."""
    axes = (len(targets),) + (1,) * (targets.ndim - 1)
    low, high = np.zeros(axes), np.ones(axes)
    low[inside(targets)] = 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        is_in = inside(origin + middle * (targets - origin)).reshape(axes)
        low, high = np.where(is_in, middle, low), np.where(is_in, high, middle)
    return np.asarray(origin + low * (targets - origin))


def valid_vertices(model: Model, count: int, rng: np.random.Generator) -> np.ndarray:
    """Vertices of the set of valid parameters in random directions: linear programmes; [count, *shape]."""
    from scipy.optimize import linprog

    shape, matrix = linear_map(model)
    S, A = model.space.sizes[1:]
    sums, impossible = matrix.reshape(S * A, S, -1).sum(1), matrix[~_dense_support(model).ravel()]
    equal = np.vstack([sums, impossible])
    total = np.append(np.ones(S * A), np.zeros(len(impossible)))
    rows = -matrix
    if model.is_hull:
        rows = np.vstack([rows, -np.eye(matrix.shape[1])])
    result = []
    for _ in range(count):
        direction = rng.normal(size=matrix.shape[1])
        solved = linprog(direction, rows, np.zeros(len(rows)), equal, total, bounds=(None, None))
        if solved.status == 0:
            result.append(solved.x.reshape(shape))
    return np.array(result).reshape(-1, *shape)


def _dense_support(model: Model) -> Bool[np.ndarray, "S A S"]:
    """Which transitions the class allows."""
    (S, A), space = model.space.sizes[1:], model.space
    result = np.zeros((S, A, S), bool)
    s, a, j = np.nonzero(np.asarray(space.support))
    result[s, a, np.asarray(space.succ)[s, a, j]] = True
    return result


def linear_map(model: Model) -> tuple[tuple[int, ...], np.ndarray]:
    """The shape of a parameter, and the matrix [S*A*S, n] from parameters to dense kernels."""
    shape = model.parameter_shape
    units = np.eye(int(np.prod(shape))).reshape(-1, *shape)
    return shape, dense_kernels(model, units).reshape(len(units), -1).T


def boundary_parameters(
    run: Run, delta: float, count: int, rng: np.random.Generator, inside: Inside = is_inside
) -> np.ndarray:
    """The truth, where it is in the confidence set, and points of the boundary seen from it; [N, *shape]."""
    truth = np.asarray(run.problem.truth, float)
    if not inside(run, truth[None], delta)[0]:
        return np.zeros((0, *truth.shape))
    targets = valid_vertices(run.problem.model, count, rng)
    result = to_boundary(lambda x: inside(run, x, delta), truth, targets)
    mixed = rng.dirichlet(np.ones(len(result)), max(1, count // 4)) if len(result) else np.zeros((0, 0))
    inner = np.tensordot(mixed, result, 1)
    all_points = np.concatenate([truth[None], result, inner])
    return np.asarray(all_points[inside(run, all_points, delta)])


def random_reward(problem: Problem, rng: np.random.Generator) -> Float[np.ndarray, "H S A"]:
    """A sparse reward whose total is at most 1 on every sequence of states."""
    sizes = problem.horizon, problem.num_states, problem.num_actions
    table = rng.random(sizes) * (rng.random(sizes) < rng.choice([0.2, 0.6, 1.0]))
    return np.asarray(table / max(table.max(axis=(1, 2)).sum(), 1e-9))


def random_policy(problem: Problem, rng: np.random.Generator, *, is_stochastic: bool) -> np.ndarray:
    """A policy of allowed actions, [H, S] or [H, S, A]."""
    H, (S, A) = problem.horizon, problem.actions_allowed.shape
    rule = np.where(problem.actions_allowed, rng.random((H, S, A)), 0.0)
    rule = rule if not is_stochastic else rule / rule.sum(-1, keepdims=True)
    return rule if is_stochastic else rule.argmax(-1)


def check_certificates(
    problem: Problem,
    *,
    episodes: Sequence[int] = (1, 5, 50),
    seeds: Sequence[int] = (0, 1, 2),
    delta: Sequence[float] = (0.5, 0.05),
    rewards: Sequence[Any] | None = None,
    parameters: Draw | None = None,
    inside: Inside = is_inside,
    directions: int = 24,
    raise_error: bool = True,
) -> Report:
    """Check plans, evaluations, comparisons and uniform certificates of simulated runs against exact values.

    problem: one with a truth. rewards: of total at most 1; by default goals, occupancies and random tables.
    parameters: a function (run, delta, rng) that returns more parameters; those outside the confidence set are left
    out. inside: another test of membership than `model.violation`, a function (run, parameters [N, *shape], delta) ->
    bools [N]; linear MDPs need one, as their `violation` is a necessary condition only. directions: how many boundary
    points are looked for. raise_error: raise an AssertionError at violations.
    """
    audit = Audit()
    for seed in seeds:
        rng = np.random.default_rng([seed, 20])
        behaviour = random_policy(problem, rng, is_stochastic=True)
        for number in episodes:
            run = from_episodes(problem, simulate(problem, behaviour, episodes=number, seed=seed))
            for level in delta:
                result = boundary_parameters(run, level, directions, rng, inside)
                if parameters is not None:
                    extra = np.array([np.asarray(x, float) for x in parameters(run, level, rng)])
                    result = (
                        np.concatenate([result, extra[inside(run, extra, level)]]) if len(extra) else result
                    )
                if len(result):
                    kernels = dense_kernels(problem.model, result)
                    check_run(audit, run, kernels, level, rng, rewards)
    report = audit.report()
    if raise_error:
        report.raise_for_violations()
    return report


def check_run(
    audit: Audit,
    run: Run,
    kernels: Kernels,
    delta: float,
    rng: np.random.Generator,
    rewards: Sequence[Any] | None = None,
) -> None:
    """Check what a run reports at one delta, for kernels of parameters in its confidence set."""
    problem = run.problem
    audit.runs, audit.parameters = audit.runs + 1, audit.parameters + len(kernels)
    where = f"{problem.name}, {run.episodes} episodes, delta {delta:g}"
    uniform = run.certificate(delta)
    if rewards is None:
        states = range(min(problem.num_states, 3))
        rewards = [goal(problem, s) for s in states] + [occupancy(problem, s) for s in states]
        rewards += [random_reward(problem, rng) for _ in range(3)]
    for i, reward in enumerate(rewards):
        with audit.refusals():
            task, name = task_of(problem, reward), f"{where}, reward {i}"
            plan = run.plan(reward, delta=delta)
            audit.plan(f"{name}, plan", plan, kernels, task)
            if not uniform.is_rejected:
                loss = optimal_values(kernels, task) - policy_values(kernels, task, plan.policy)
                audit.at_most(f"{name}, uniform certificate", loss, uniform.eps)
                audit.summary(f"{name}, uniform summary", loss, uniform.summary())
            a, b = (random_policy(problem, rng, is_stochastic=x) for x in (False, True))
            for policy in (a, b):
                audit.plan(f"{name}, evaluate", run.evaluate(reward, policy, delta=delta), kernels, task)
            audit.comparison(f"{name}, compare", run.compare(reward, a, b, delta=delta), kernels, task, a, b)
