"""`check_explorer`: what every explorer must do, whatever its algorithm."""

import dataclasses
import inspect
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import jax
import numpy as np

from horizonfree._x64 import to_device, to_numpy, x64
from horizonfree.batch.explore import explore_many
from horizonfree.errors import OptionError
from horizonfree.explorers.base import Explorer
from horizonfree.explorers.loop import Progress, choose_policy, episode_keys, init_progress, update_progress
from horizonfree.explorers.python import PythonExplorer, choose_python, python_progress, update_python
from horizonfree.explorers.registry import describe, make_explorer, stored_options
from horizonfree.guarantees.e_processes import ladder
from horizonfree.mdp.policies import policy_table
from horizonfree.mdp.rewards import suite
from horizonfree.mdp.space import Trajectory
from horizonfree.models.base import Model
from horizonfree.models.linear.model import LinearModel
from horizonfree.planning.traced import Sampler
from horizonfree.problems.classes import Mixture
from horizonfree.problems.problem import Problem, true_gap
from horizonfree.runs.certificates import explorer_claim
from horizonfree.runs.explore import explore
from horizonfree.runs.run import Run
from horizonfree.runs.storage import load
from horizonfree.testing.certificates import (
    Audit,
    boundary_parameters,
    check_run,
    dense_kernels,
    random_reward,
    valid_vertices,
)
from horizonfree.testing.conformance import (
    ConformanceReport,
    clear_caches,
    first_difference,
    require,
    run_checks,
)

EPISODES, SEED = 6, 1
METHODS = {  # and the number of their arguments
    "init": 1,
    "choose": 4,
    "update": 4,
    "plan": 4,
    "claim": 2,
}
CLAIM_RUNS, CLAIM_EPISODES = 20, 30
FALSE_ALARM = 1e-6  # probability that a correct claim fails its check
TRUTH_TOLERANCE = 1e-12  # to which an option is recognised as the truth
LOSS_TOLERANCE = 1e-9


@x64
def check_explorer(
    explorer: Explorer | type[Explorer],
    problem: Problem | None = None,
    *,
    only: Sequence[str] | None = None,
    raise_error: bool = True,
) -> ConformanceReport:
    """Check an explorer of your own: everything that the library relies on, and what is expected of its runs.

    explorer: an object, or a class whose options have defaults. problem: a small one with a truth, of the class that it
    learns; by default several of a few states, with one state, one action, one step, and forbidden actions among them.

    The checks: the interface; options that a stored run can restore; policies, records and plans; the same seed gives
    the same bits, also after an interruption, through a folder and in a batch; nothing depends on the truth; the
    certificates of its runs hold for every parameter of the confidence set; its own claim, if it has one, fails no
    more often than it says (a correct one fails this check with probability at most 1e-6).

    only: the names of some checks, by default all. Raises an AssertionError that lists what fails; with
    raise_error=False the report does.

    >>> import horizonfree as hf
    >>> from horizonfree.explorers import Uniform
    >>> len(hf.testing.check_explorer(Uniform).passed)
    10
    """
    instance = _build(explorer)
    problems = default_problems(instance) if problem is None else [problem]
    main = problems[0]
    checks = {
        "interface": partial(_check_interface, instance),
        "options": partial(_check_options, instance, main),
        "runs": partial(_check_runs, instance, problems),
        "plans": partial(_check_plans, instance, main),
        "same seed, same bits": partial(_check_repeats, instance, main),
        "resume to the bit": partial(_check_resume, instance, main),
        "batches": partial(_check_batch, instance, main),
        "no peeking at the truth": partial(_check_blind, instance, main),
        "certificates": partial(_check_certificates, instance, main),
        "own claim": partial(_check_claim, instance, main),
    }
    return run_checks(f"explorer {describe(instance)[0]}", checks, only, raise_error=raise_error)


def default_problems(explorer: Explorer) -> list[Problem]:
    """Small problems of the class that an explorer learns: the first has S = 4, A = 2, H = 3 and a drawn start."""
    rng = np.random.default_rng(0)
    shapes = [(4, 2, 3), (1, 1, 1), (3, 2, 1), (3, 1, 4)]
    if any(isinstance(getattr(explorer, x.name), np.ndarray) for x in dataclasses.fields(explorer)):
        shapes = shapes[:1]  # an option, such as a reward, has the sizes of one problem
    result = []
    for S, A, H in shapes:
        kernels = rng.dirichlet(np.ones(S), (3, S, A))
        start = rng.dirichlet(np.ones(S)) if (S, A, H) == shapes[0] else 0
        allowed = np.array([[1, 0], [1, 1], [0, 1]]) if (S, A) == (3, 2) else None
        result.append(
            Mixture.from_kernels(
                kernels, horizon=H, start=start, weights=[0.2, 0.5, 0.3], actions_allowed=allowed
            )
        )
    return [_as_learned(problem, explorer) for problem in result]


def _as_learned(problem: Problem, explorer: Explorer) -> Problem:
    for view in (problem, problem.as_tabular(), problem.as_linear()):
        if isinstance(view.model, explorer.learns):
            return view
    raise OptionError(
        f"{type(explorer).__name__} learns a {explorer.learns.__name__}; give check_explorer a small problem of "
        "that class"
    )


def _build(explorer: Any) -> Explorer:
    if isinstance(explorer, type):
        try:
            explorer = explorer()
        except TypeError as error:
            raise OptionError(f"{explorer.__name__} needs options ({error}); give an object") from None
    if not isinstance(explorer, Explorer):
        raise OptionError(
            f"this is a {type(explorer).__name__}; an explorer is a subclass of Explorer or PythonExplorer"
        )
    return explorer


def _explore(
    explorer: Explorer, problem: Problem, episodes: int = EPISODES, seed: int = SEED, **options: Any
) -> Run:
    return explore(problem, explorer, episodes=episodes, seed=seed, progress=False, **options)


# ---- The checks. ----


def _check_interface(explorer: Explorer) -> None:
    for name, count in METHODS.items():
        arguments = inspect.signature(getattr(explorer, name)).parameters
        require(
            len(arguments) == count,
            f"{name} takes {len(arguments)} arguments ({', '.join(arguments)}), not {count}",
        )
    require(
        isinstance(explorer.learns, type) and issubclass(explorer.learns, Model),
        f"learns is {explorer.learns!r}; it must be a class of models, such as MixtureModel or Model",
    )


def _check_options(explorer: Explorer, problem: Problem) -> None:
    """A stored run finds the class by its name, and builds the same object."""
    name, options = describe(_explore(explorer, problem, 1).explorer or explorer)
    scalars, arrays = stored_options(name, options)
    rebuilt = make_explorer(name, **{key: x for key, x in (scalars | arrays).items() if x is not None})
    require(type(rebuilt) is type(explorer), f"{name} is another class than the one that is checked")
    for key, x in describe(rebuilt)[1].items():
        require(
            np.array_equal(x, options[key]),
            f"option {key} was {options[key]!r} and is {x!r} when it is built again",
        )


def _check_runs(explorer: Explorer, problems: Sequence[Problem]) -> None:
    for problem in problems:
        S, A, H = problem.num_states, problem.num_actions, problem.horizon
        where = f"with S = {S}, A = {A}, H = {H}"
        run = _explore(explorer, problem)
        policy_table(run.progress.state.policy, *problem.space.sizes)
        for name, x in run.records.items():
            require(
                x.shape == (EPISODES,),
                f"record {name} has shape {x.shape} {where}; it must be one number per episode",
            )
            require(
                np.isfinite(x).all(),
                f"record {name} is {x.tolist()} {where}; records must be finite",
            )
        require(
            run.visits.sum() == EPISODES * H,
            f"{run.visits.sum()} steps were counted {where}, not {EPISODES * H}",
        )
        require(0 <= run.certificate().eps <= 1, f"certificate().eps is {run.certificate().eps} {where}")


def _check_plans(explorer: Explorer, problem: Problem) -> None:
    run = _explore(explorer, problem)
    for reward in suite(problem.space)[:4]:
        plan = run.plan(reward, model="explorer")
        require(
            np.isfinite(plan.value) and -LOSS_TOLERANCE <= plan.value <= 1 + LOSS_TOLERANCE,
            f"plan() gives the value {plan.value}; values of rewards of total 1 are in [0, 1]",
        )
        policy_table(plan.policy, *problem.space.sizes)


def _check_same(a: Run, b: Run, what: str) -> None:
    """The same records, state and evidence, to the last bit."""
    trees = {
        "record": (dict(a.records), dict(b.records)),
        "state": (a.progress.state, b.progress.state),
        "evidence": (a.evidence, b.evidence),
    }
    for kind, (x, y) in trees.items():
        difference = first_difference(x, y)
        require(difference is None, f"{what}: {kind}{difference}")


def _check_repeats(explorer: Explorer, problem: Problem) -> None:
    """Hidden state, clocks and global random numbers would show here; programs are traced again."""
    first = _explore(explorer, problem)
    _explore(explorer, problem, seed=SEED + 1)
    clear_caches()
    _check_same(first, _explore(explorer, problem), "a second exploration with the same seed")


def _check_resume(explorer: Explorer, problem: Problem) -> None:
    uninterrupted = _explore(explorer, problem)
    half = _explore(explorer, problem, 2, budget=None)
    if describe(half.explorer or explorer) == describe(uninterrupted.explorer or explorer):
        _check_same(
            uninterrupted,
            half.resume(episodes=EPISODES - 2, progress=False),
            "2 episodes and 4 more instead of 6",
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run")
        stopped = uninterrupted.explorer or explorer
        explore(problem, stopped, episodes=3, seed=SEED, progress=False, out=path)
        _check_same(
            uninterrupted,
            load(path).resume(episodes=EPISODES - 3, progress=False),
            "3 episodes, a stored run, and 3 more",
        )


def _check_batch(explorer: Explorer, problem: Problem) -> None:
    batch = explore_many(problem, explorer, episodes=EPISODES, seeds=[SEED, SEED + 1], progress=False)
    for i, member in enumerate(batch):
        single = _explore(explorer, problem, seed=SEED + i)
        require(
            np.array_equal(member.visits, single.visits),
            f"member {i} of a batch visits other states than the run with seed {SEED + i}",
        )
        for name, x in single.records.items():
            is_close = np.allclose(x, member.records[name], rtol=1e-8, atol=1e-9)
            require(
                is_close,
                f"record {name} of member {i} of a batch is not that of the run with seed {SEED + i}",
            )


def _check_blind(explorer: Explorer, problem: Problem) -> None:
    """Options hold no truth, a real environment is explored alike whatever the truth of `known=`, and recorded
    episodes lead to the same policies where no truth is in sight."""
    _check_options_hold_no_truth(explorer, problem)
    vertices = valid_vertices(problem.model, 4, np.random.default_rng(2))
    distances = [np.abs(x - problem.truth).max() for x in vertices]
    if distances:
        other = problem._replace(truth=vertices[int(np.argmax(distances))], recipe=None)
        env = problem.to_gymnasium()
        clear_caches()
        live_run = explore(env, explorer, known=problem, episodes=EPISODES, seed=SEED, progress=False)
        clear_caches()
        unknown = explore(env, explorer, known=other, episodes=EPISODES, seed=SEED, progress=False)
        _check_same(live_run, unknown, "the same environment, with another truth in known=")
    policies, trajectories = _open_policies(explorer, problem)
    blind_policies = _blind_policies(explorer, problem.model, trajectories)
    for k, (x, y) in enumerate(zip(policies, blind_policies, strict=True)):
        require(
            np.array_equal(x, y),
            f"the policy of episode {k + 1} is another one when the truth is out of sight",
        )


def _check_options_hold_no_truth(explorer: Explorer, problem: Problem) -> None:
    kernel = problem.kernel()
    secrets = [np.asarray(problem.truth), np.asarray(kernel.prob), kernel.dense()]
    for field in dataclasses.fields(explorer):
        value = getattr(explorer, field.name)
        require(
            not isinstance(value, (Problem, Run)),
            f"option {field.name} is a {type(value).__name__}, which has the truth",
        )
        for leaf in jax.tree.leaves(value):
            if not isinstance(leaf, (np.ndarray, jax.Array)) or np.ndim(leaf) == 0:
                continue
            is_truth = any(
                np.shape(leaf) == x.shape and np.allclose(leaf, x, rtol=0, atol=TRUTH_TOLERANCE)
                for x in secrets
            )
            require(not is_truth, f"option {field.name} holds the true transition probabilities")


def _init(explorer: Explorer, model: Model) -> tuple[Any, Progress]:
    """The model as the explorer gets it, and the progress before the first episode."""
    evidence = to_device(model).init_evidence(ladder(None, model.burn_in), has_history=True)
    if isinstance(explorer, PythonExplorer):
        return model, python_progress(explorer, model, evidence)
    return to_device(model), init_progress(explorer, to_device(model), evidence)


def _choose(explorer: Explorer, model: Any, key: Any, progress: Progress) -> Progress:
    if isinstance(explorer, PythonExplorer):
        return choose_python(explorer, model, key, progress)
    return choose_policy(explorer, model, episode_keys(key, progress)[0], progress)


def _open_policies(explorer: Explorer, problem: Problem) -> tuple[list[np.ndarray], list[Trajectory]]:
    """The policies and episodes of a simulation, where the truth is in the frames above the explorer."""
    truth, key = to_device(problem.truth), jax.random.key(SEED)
    model, progress = _init(_with_budget(explorer), problem.model)
    sampler, policies, trajectories = Sampler.of(to_device(problem.kernel())), [], []
    for _ in range(EPISODES):
        progress = _choose(_with_budget(explorer), model, key, progress)
        policies.append(np.asarray(progress.state.policy))
        _, key_episode = episode_keys(key, progress)
        trajectory = sampler.episode(key_episode, to_device(progress.state.policy), problem.space)
        trajectories.append(to_numpy(trajectory))
        if isinstance(explorer, PythonExplorer):
            progress, _ = update_python(explorer, model, progress, trajectory)
        else:
            progress, _ = update_progress(_with_budget(explorer), model, truth, progress, trajectory)
    return policies, trajectories


def _blind_policies(explorer: Explorer, model: Model, trajectories: Sequence[Trajectory]) -> list[np.ndarray]:
    """The policies for recorded episodes, in a thread of its own, whose frames have no problem and no truth."""
    results: list[np.ndarray] = []
    errors: list[BaseException] = []
    arguments = _with_budget(explorer), model, trajectories, results, errors
    thread = Thread(target=_replay, args=arguments)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results


@x64
def _replay(
    explorer: Explorer,
    model: Model,
    trajectories: Sequence[Trajectory],
    results: list[np.ndarray],
    errors: list[BaseException],
) -> None:
    try:
        own_model, progress = _init(explorer, model)
        for trajectory in trajectories:
            progress = _choose(explorer, own_model, jax.random.key(SEED), progress)
            results.append(np.asarray(progress.state.policy))
            if isinstance(explorer, PythonExplorer):
                progress, _ = update_python(explorer, own_model, progress, trajectory)
            else:
                progress, _ = update_progress(explorer, own_model, None, progress, to_device(trajectory))
    except BaseException as error:  # raised in the thread that waits
        errors.append(error)


def _with_budget(explorer: Explorer) -> Explorer:
    """The explorer with the budget that `explore` gives it."""
    if getattr(explorer, "budget", 0) is not None:
        return explorer
    options: Any = explorer
    instance: Explorer = dataclasses.replace(options, budget=EPISODES)
    return instance


def _check_certificates(explorer: Explorer, problem: Problem) -> None:
    """Certificates of its runs hold for the truth and for points of the boundary of the confidence set."""
    audit, rng = Audit(), np.random.default_rng(3)
    model: Any = problem.model
    for episodes in (1, 20):
        run = _explore(explorer, problem, episodes)
        for delta in (0.5, 0.05):
            if isinstance(model, LinearModel):  # membership of a point is only a necessary condition
                parameters = np.asarray(problem.truth)[None]
                evidence: Any = run.evidence
                is_inside = float(model.violation(evidence, problem.truth, np.asarray(delta))) <= 0
                parameters = parameters if is_inside else parameters[:0]
            else:
                parameters = boundary_parameters(run, delta, 8, rng)
            if len(parameters):
                check_run(audit, run, dense_kernels(problem.model, parameters), delta, rng)
    audit.report().raise_for_violations()


def _check_claim(explorer: Explorer, problem: Problem) -> None:
    """The loss of its own plans exceeds its claim in no more runs than the claim says."""
    first = _explore(explorer, problem)
    claim = explorer_claim(first, 0.05)
    if claim is None:
        return
    require(0 < claim.eps <= 1, f"claim gives eps = {claim.eps}; a bound for totals in [0, 1] is in (0, 1]")
    require(0 < claim.delta < 1, f"claim gives delta = {claim.delta}; it must be a probability")
    rng, violated = np.random.default_rng(4), 0
    rewards = [*suite(problem.space), *(random_reward(problem, rng) for _ in range(4))]
    for seed in range(CLAIM_RUNS):
        run = _explore(explorer, problem, CLAIM_EPISODES, seed)
        claimed_certificate = explorer_claim(run, 0.05)
        require(claimed_certificate is not None, "claim is None in some runs and not in others")
        assert claimed_certificate is not None
        losses = (true_gap(problem, r, run.plan(r, model="explorer").policy) for r in rewards)
        violated += max(losses) > claimed_certificate.eps + LOSS_TOLERANCE
    from scipy.stats import binom

    chance = float(binom.sf(violated - 1, CLAIM_RUNS, claim.delta))
    require(
        chance > FALSE_ALARM,
        f"in {violated} of {CLAIM_RUNS} runs its own plans lose more than it claims, at delta = {claim.delta:g}",
    )
