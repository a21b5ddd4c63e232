"""`check_model`: what every model class must do."""

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from scipy.stats import binom

from horizonfree._x64 import to_device, x64
from horizonfree.batch.explore import explore_many
from horizonfree.errors import HorizonfreeError
from horizonfree.explorers.registry import find_entry
from horizonfree.guarantees.e_processes import ladder
from horizonfree.mdp.rewards import goal
from horizonfree.mdp.space import Kernel
from horizonfree.models.base import Confidence, Description, Evidence
from horizonfree.planning import evaluate
from horizonfree.problems.problem import Problem
from horizonfree.problems.simulate import simulate
from horizonfree.runs.explore import explore
from horizonfree.runs.logged import from_episodes
from horizonfree.runs.run import Run
from horizonfree.runs.storage import load
from horizonfree.testing.certificates import (
    Inside,
    check_certificates,
    is_inside,
    random_policy,
    random_reward,
)
from horizonfree.testing.conformance import ConformanceReport, first_difference, require, run_checks

EPISODES, SEED = 12, 1
COVERAGE_RUNS, COVERAGE_DELTA = 60, 0.2
FALSE_ALARM = 1e-6  # probability that a correct class fails its coverage check
TOLERANCE = 1e-9
MAX_ROUNDING = 1e-3


@x64
def check_model(
    problem: Problem,
    *,
    inside: Inside = is_inside,
    only: Sequence[str] | None = None,
    raise_error: bool = True,
) -> ConformanceReport:
    """Check a model class of your own on a small problem of it with a truth.

    inside: another test of membership in the confidence set than `model.violation`, as for `check_certificates`.

    The checks: the kernel is linear in the parameter and has rows that sum to one; the evidence has the counts of the
    episodes, in shapes that never change; confidence sets are NumPy, shrink when delta grows, and contain the truth as
    often as they say (a correct class fails this check with probability at most 1e-6); bounds contain the value in the
    estimate; runs are stored, loaded, resumed to the bit and explored in batches; certificates hold for every parameter
    of the confidence set (`check_certificates`).

    only: the names of some checks, by default all. Raises an AssertionError that lists what fails; with
    raise_error=False the report does.

    >>> import horizonfree as hf
    >>> report = hf.testing.check_model(hf.make("river-swim", states=3, horizon=4))
    >>> report.failed
    {}
    """
    checks: dict[str, Callable[[], None]] = {
        "interface": partial(_check_interface, problem),
        "kernel": partial(_check_kernel, problem),
        "evidence": partial(_check_evidence, problem),
        "estimate": partial(_check_estimate, problem),
        "confidence": partial(_check_confidence, problem),
        "bounds": partial(_check_bounds, problem),
        "coverage": partial(_check_coverage, problem),
        "stored runs": partial(_check_store, problem),
        "batches": partial(_check_batch, problem),
        "certificates": partial(_check_certificates, problem, inside),
    }
    return run_checks(f"model class {type(problem.model).__name__}", checks, only, raise_error=raise_error)


def _run(problem: Problem, episodes: int = EPISODES, seed: int = SEED) -> Run:
    return explore(problem, "uniform", episodes=episodes, seed=seed, progress=False)


def _check_interface(problem: Problem) -> None:
    model = problem.model
    require(problem.truth is not None, "the problem has no truth; give one that simulates itself")
    require(
        isinstance(model.num_unknown, int) and model.num_unknown >= 0, f"num_unknown is {model.num_unknown!r}"
    )
    shape = np.shape(problem.truth)
    require(
        model.parameter_shape == shape, f"parameter_shape is {model.parameter_shape}, the truth has {shape}"
    )
    require(model.methods[:1] == ("uniform",), f"methods is {model.methods}; it must begin with 'uniform'")
    kind = find_entry(model.explorer).explorer_type
    require(
        isinstance(model, kind.learns), f"the default explorer {model.explorer!r} does not learn this class"
    )
    require(issubclass(model.evidence_type, Evidence), "evidence_type is no subclass of Evidence")
    description = model.describe()
    require(
        isinstance(description, Description) and all(description),
        f"describe gives {description!r}; every part needs a text",
    )
    require(
        0 <= model.rounding() <= MAX_ROUNDING,
        f"rounding gives {model.rounding()}; at most {MAX_ROUNDING} is usable",
    )


def _check_rows(kernel: Kernel, reachable: np.ndarray, what: str) -> None:
    prob = np.asarray(kernel.prob)[reachable]
    require(np.isfinite(prob).all(), f"{what} has entries that are not finite")
    require((prob >= -TOLERANCE).all(), f"{what} has the probability {prob.min() if prob.size else 0}")
    require(np.allclose(prob.sum(-1), 1, rtol=0, atol=TOLERANCE), f"rows of {what} do not sum to one")


def _check_kernel(problem: Problem) -> None:
    model, rng = problem.model, np.random.default_rng(0)
    _check_rows(problem.kernel(), np.asarray(problem.space.reachable), "the true kernel")
    a, b = rng.normal(size=(2, *model.parameter_shape))
    mixed = np.asarray(model.kernel(0.3 * a + 0.7 * b).dense())
    sum_ = 0.3 * np.asarray(model.kernel(a).dense()) + 0.7 * np.asarray(model.kernel(b).dense())
    require(np.allclose(mixed, sum_, rtol=1e-9, atol=1e-9), "kernel is not linear in the parameter")


def _check_evidence(problem: Problem) -> None:
    model, (S, A) = problem.model, problem.space.sizes[1:]
    episodes = simulate(
        problem, random_policy(problem, np.random.default_rng(0), is_stochastic=True), episodes=5, seed=SEED
    )
    evidence = from_episodes(problem, episodes).evidence
    require(int(evidence.episodes) == 5, f"evidence.episodes is {int(evidence.episodes)} after 5 episodes")
    counts = np.zeros((S, A), int)
    np.add.at(counts, (np.asarray(episodes.s)[:, :-1].ravel(), np.asarray(episodes.a).ravel()), 1)
    require(np.array_equal(evidence.visits, counts), "evidence.visits are not the visits of the episodes")
    require(int(evidence.impossible) == 0, "evidence.impossible counts transitions of the true kernel")
    device = to_device(model)
    first = jax.eval_shape(lambda: device.init_evidence(ladder()))
    one_episode = jax.tree.map(lambda x: x[0], to_device(episodes))
    shapes = jax.eval_shape(lambda: device.update(device.init_evidence(ladder()), one_episode))
    difference = first_difference(first, shapes, shapes_only=True)
    require(difference is None, f"update changes evidence{difference}")


def _check_estimate(problem: Problem) -> None:
    run = _run(problem)
    _check_rows(
        to_numpy_kernel(problem.model.estimate(to_device(run.evidence))),
        np.asarray(problem.space.reachable),
        "estimate",
    )


def to_numpy_kernel(kernel: Kernel) -> Kernel:
    """The kernel with NumPy arrays."""
    result: Kernel = jax.tree.map(np.asarray, kernel)
    return result


def _check_confidence(problem: Problem) -> None:
    run, previous = _run(problem), np.inf
    for delta in (0.01, 0.1, 0.5):
        confidence = problem.model.confidence(run.evidence, delta)
        require(isinstance(confidence, Confidence), f"confidence gives a {type(confidence).__name__}")
        leaves = jax.tree.leaves([getattr(confidence, name) for name in confidence.__dataclass_fields__])
        require(
            not any(isinstance(x, jax.Array) for x in leaves), "confidence has JAX arrays; it must be NumPy"
        )
        _check_rows(confidence.kernel, np.asarray(problem.space.reachable), "confidence.kernel")
        eps = float(confidence.eps)
        require(eps >= 0, f"confidence.eps is {eps}")
        require(
            eps <= previous * (1 + TOLERANCE) + TOLERANCE,
            f"eps is {eps:.6g} at delta = {delta}, but {previous:.6g} at a smaller delta",
        )
        previous = eps


def _check_bounds(problem: Problem) -> None:
    run, rng = _run(problem), np.random.default_rng(1)
    confidence = run.confidence(0.1)
    for is_stochastic in (False, True, False, True):
        reward, policy = random_reward(problem, rng), random_policy(problem, rng, is_stochastic=is_stochastic)
        bounds = confidence.bounds(reward, policy)
        value = float(problem.space.at_start(evaluate(confidence.kernel, reward, policy)[0]))
        require(
            abs(float(bounds.value) - value) <= 1e-8,
            f"bounds.value is {float(bounds.value)}, in the estimate it is {value}",
        )
        require(
            float(bounds.low) <= value + 1e-8, f"bounds.low is {float(bounds.low)}, above the value {value}"
        )
        require(
            value <= float(bounds.high) + 1e-8,
            f"bounds.high is {float(bounds.high)}, below the value {value}",
        )
        gaps = {name: float(x) for name, x in bounds.gaps.items()}
        require("uniform" in gaps, f"bounds.gaps has {sorted(gaps)}; 'uniform' is missing")
        require(
            all(x >= -1e-8 or np.isnan(x) for x in gaps.values()), f"bounds.gaps are {gaps}; none is negative"
        )


def _check_coverage(problem: Problem) -> None:
    """The truth is outside the set in no more runs than delta allows, and less often at a smaller delta."""
    model, outside = problem.model, 0
    policy = random_policy(problem, np.random.default_rng(0), is_stochastic=True)
    for seed in range(COVERAGE_RUNS):
        evidence = from_episodes(problem, simulate(problem, policy, episodes=8, seed=seed)).evidence
        large, small = (
            float(model.violation(evidence, problem.truth, np.asarray(x))) for x in (COVERAGE_DELTA, 1e-3)
        )
        require(small <= large + TOLERANCE, "the truth is inside the set at delta = 0.2, but not at 0.001")
        outside += large > 0
    chance = float(binom.sf(outside - 1, COVERAGE_RUNS, COVERAGE_DELTA))
    require(
        chance > FALSE_ALARM,
        f"the truth is outside the confidence set in {outside} of {COVERAGE_RUNS} runs, at delta = {COVERAGE_DELTA}",
    )


def _check_store(problem: Problem) -> None:
    run = _run(problem)
    with tempfile.TemporaryDirectory() as folder:
        run.save(Path(folder, "run"))
        loaded = load(Path(folder, "run"))
        require(type(loaded.problem.model) is type(problem.model), "a loaded run has another model class")
        require(loaded.certificate().eps == run.certificate().eps, "a loaded run has another certificate")
        reward = goal(problem, problem.num_states - 1)
        require(loaded.plan(reward).gap == run.plan(reward).gap, "a loaded run has other plans")
        loaded = loaded.resume(episodes=3, progress=False)
    uninterrupted: Any = _run(problem, EPISODES + 3).evidence
    difference = first_difference(loaded.evidence, uninterrupted)
    require(difference is None, f"after a stored run was resumed: evidence{difference}")


def _check_batch(problem: Problem) -> None:
    batch = explore_many(
        problem,
        "uniform",
        episodes=EPISODES,
        seeds=[SEED, SEED + 1],
        checkpoints=[EPISODES],
        curves=["eps"],
        progress=False,
    )
    for i, member in enumerate(batch):
        single = _run(problem, seed=SEED + i)
        require(
            np.array_equal(member.visits, single.visits),
            f"member {i} of a batch visits other states than its run",
        )
        eps = single.certificate(method="uniform").eps
        require(
            abs(batch.curves["eps"][i, 0] - eps) <= 1e-8,
            f"member {i} of a batch has eps {batch.curves['eps'][i, 0]}, its run {eps}",
        )


def _check_certificates(problem: Problem, inside: Inside) -> None:
    """Certificates, and plans from another start and for transition rewards, which may be refused."""
    check_certificates(problem, episodes=(1, 20), seeds=(0,), inside=inside, directions=12)
    run, (H, S, A) = _run(problem), problem.space.sizes
    payments = np.random.default_rng(0).uniform(size=(S, A, S)) / (2 * H)
    questions: dict[str, dict[str, Any]] = {
        "start=": {"start": S - 1},
        "horizon=": {"horizon": 2},
        "transition=": {"transition": payments},
    }
    for name, options in questions.items():
        try:
            plan = run.plan(np.zeros((S, A)), **options)
        except HorizonfreeError:
            continue
        require(
            plan.value_low - 1e-8 <= plan.value <= plan.value_high + 1e-8,
            f"run.plan({name}) has a value outside its interval",
        )
