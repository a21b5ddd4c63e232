"""The tasks of a sweep: one is a problem, an explorer, and a chunk of the seeds. A task is JSON data.

The key of a task is the digest of all that it depends on, so a sweep that grows keeps its finished tasks. The numbers
of a task depend on nothing but the task, the versions and the device: not on the executor that runs it.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import numpy as np

from horizonfree._validation import check_choice, check_size, suggestion
from horizonfree._x64 import to_device, x64
from horizonfree.batch.compare import view_of
from horizonfree.batch.explore import Batch, explore_many
from horizonfree.errors import OptionError, UnknownNameError
from horizonfree.explorers.base import Explorer
from horizonfree.explorers.loop import init_progress, update_progress
from horizonfree.explorers.python import PythonExplorer, python_progress, simulate_python
from horizonfree.explorers.registry import current_name, find_entry
from horizonfree.guarantees.e_processes import ladder
from horizonfree.mdp.rewards import goal, occupancy
from horizonfree.planning.traced import Sampler
from horizonfree.problems import make
from horizonfree.problems.problem import Problem
from horizonfree.runs.explore import build_explorer
from horizonfree.runs.recipes import versions
from horizonfree.runs.until import check_countable
from horizonfree.sweeps.spec import (
    EXPLORER_KEYS,
    MISPLACED_OPTIONS,
    PROBLEM_KEYS,
    RunMeasures,
    Spec,
    curve_names,
    error_context,
    measure_rewards,
)

Task = dict[str, Any]
REWARD_KINDS = {"goal": goal, "stay": occupancy}
CACHED_PROBLEMS = 32
MAX_TASKS = 200_000  # they are all listed before the first one starts


def build_tasks(spec: Spec) -> dict[str, Task]:
    """Every task by its key, in the order of the file; seeds vary slowest, so that all settings advance together."""
    size = spec.seeds_per_task
    number = -(-len(spec.seeds) // size) * len(spec.problems) * len(spec.explorers)
    check_size(number, MAX_TASKS, f"these are {number:,} tasks", f"raise seeds_per_task, now {size}")
    tasks: dict[str, Task] = {}
    for i in range(0, len(spec.seeds), size):
        for problem, problem_table in spec.problems.items():
            for explorer, explorer_table in spec.explorers.items():
                for part in _parts(spec, explorer_table):
                    task = {
                        "problem": problem,
                        "explorer": explorer,
                        "seeds": spec.seeds[i : i + size],
                        **part,
                        "delta": spec.delta,
                        "measure": spec.measure,
                        "records": spec.records,
                        "rewards": spec.rewards,
                        "world": problem_table,
                        "who": explorer_table,
                    }
                    tasks[task_id(task)] = task
    return tasks


def num_rows(task: Task) -> int:
    """Rows of a task: one for each seed and checkpoint."""
    return len(task["seeds"]) * len(task["checkpoints"])


def _parts(spec: Spec, explorer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One exploration through all checkpoints; with declared = true one up to each, with that number as budget."""
    if explorer.get("declared"):
        return [{"episodes": k, "checkpoints": [k], "budget": k} for k in spec.checkpoints]
    budget = explorer.get("budget")
    return [{"episodes": spec.episodes, "checkpoints": spec.checkpoints, "budget": budget}]


def task_id(task: Task) -> str:
    """The key of a task."""
    return hashlib.sha256(json.dumps(task, sort_keys=True).encode()).hexdigest()[:16]


# ---- Checks before a sweep starts. ----


def check_spec(spec: Spec) -> None:
    """Raise if a problem or explorer cannot be built, or if two do not go together."""
    for label, explorer in spec.explorers.items():
        with error_context(f"explorers.{label}"):
            find_entry(explorer["name"])
            for name in set(MISPLACED_OPTIONS) & set(explorer):
                raise OptionError(MISPLACED_OPTIONS[name])
            if explorer.get("declared") and "budget" in explorer:
                raise OptionError("declared = true declares each checkpoint; leave budget out")
    settings: list[tuple[Problem, Explorer]] = []
    for problem_label, table in spec.problems.items():
        with error_context(f"problems.{problem_label}"):
            problem = build_problem(table)
            problem.kernel()  # raises for a problem without truth
            check_countable(spec.episodes, problem.horizon)
            reward = build_reward(problem, table)
            measure_rewards(problem, spec.rewards)
        arguments = {"budget": spec.episodes, "delta": spec.delta, "reward": reward}
        for label, explorer in spec.explorers.items():
            with error_context(f"explorers.{label} on problems.{problem_label}"):
                view, _ = explorer_view(problem, explorer)
                name = current_name(explorer["name"])
                settings.append((view, build_explorer(name, view, explorer_options(explorer), arguments)))
    check_records(spec.records, settings)


def check_records(names: Iterable[str], settings: Iterable[tuple[Problem, Explorer]]) -> None:
    """Raise for a name that no setting records. A name that only some settings record is nan in other rows."""
    missing, records_known = set(names), set[str]()
    for problem, explorer in settings:
        if not missing:
            return
        records_known |= record_names(problem, explorer)
        missing -= records_known
    for name in sorted(missing):
        raise UnknownNameError(
            f"records: no explorer of this sweep reports {name!r}; {suggestion(name, records_known)}"
        )


@x64
def record_names(problem: Problem, explorer: Explorer) -> set[str]:
    """The names in the records of an exploration, from tracing one episode, or playing it in plain Python."""
    model, truth, kernel = to_device((problem.model, problem.truth, problem.kernel()))
    if isinstance(explorer, PythonExplorer):
        first_progress = python_progress(explorer, problem.model, model.init_evidence(ladder()))
        return set(
            simulate_python(explorer, problem.model, Sampler.of(kernel), jax.random.key(0), first_progress)[1]
        )

    def episode() -> dict[str, jax.Array]:
        progress = init_progress(explorer, model, model.init_evidence(ladder()))
        trajectory = Sampler.of(kernel).episode(jax.random.key(0), progress.state.policy, model.space)
        return update_progress(explorer, model, truth, progress, trajectory)[1]

    return set(eqx.filter_eval_shape(episode))


# ---- Building the objects of a task. ----


def build_problem(table: Mapping[str, Any]) -> Problem:
    """The problem of a table; the last few are cached."""
    return _build_problem(json.dumps(dict(table), sort_keys=True))


@lru_cache(CACHED_PROBLEMS)
def _build_problem(text: str) -> Problem:
    table = json.loads(text)
    problem = make(table["name"], **{name: x for name, x in table.items() if name not in PROBLEM_KEYS})
    if "seen_as" not in table:
        return problem
    check_choice(table["seen_as"], "seen_as", ("tabular", "linear"))
    return problem.as_tabular() if table["seen_as"] == "tabular" else problem.as_linear()


def explorer_view(problem: Problem, table: Mapping[str, Any]) -> tuple[Problem, str]:
    """The problem as the explorer of a table sees it, as in `hf.compare`, and a text for its label."""
    return view_of(problem, find_entry(table["name"]).explorer_type.learns, table.get("seen_as"))


def explorer_options(table: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the explorer of a table."""
    return {name: x for name, x in table.items() if name not in EXPLORER_KEYS}


def build_reward(problem: Problem, table: Mapping[str, Any]) -> Any:
    """The reward for explorers that need one: that of the table, or to stay in the last state."""
    reward = table.get("reward", {"stay": [problem.num_states - 1]})
    if len(reward) != 1 or next(iter(reward)) not in REWARD_KINDS:
        raise OptionError(
            f"reward is {reward}; it must be {{ goal = [...] }} or {{ stay = [...] }}, with states"
        )
    ((kind, states),) = reward.items()
    return REWARD_KINDS[kind](problem, states)


# ---- Running a task. ----


def run_task(task: Task) -> dict[str, Any]:
    """The rows of a task as columns, one row per seed and checkpoint, with time, device and versions."""
    start = time.perf_counter()
    batch = _explore(task)
    S, C = len(task["seeds"]), len(task["checkpoints"])
    columns = {"seed": np.repeat(task["seeds"], C), "episodes": np.tile(task["checkpoints"], S)}
    columns |= {name: batch.curves[name].ravel() for name in task["measure"]}
    last = np.asarray(task["checkpoints"]) - 1
    for name in task["records"]:
        record = batch.records.get(name)
        columns[name] = np.full(S * C, np.nan) if record is None else record[:, last].astype(float).ravel()
    return {
        "rows": {name: x.tolist() for name, x in columns.items()},
        "seconds": round(time.perf_counter() - start, 4),
        "device": jax.devices()[0].device_kind,
        "versions": versions(),
    }


def _explore(task: Task) -> Batch:
    """The batch of a task, with curves at its checkpoints."""
    explorer = task["who"]
    problem, _ = explorer_view(build_problem(task["world"]), explorer)
    measures = RunMeasures(problem, task["measure"], task["rewards"], task["delta"], len(task["seeds"]))
    name = current_name(explorer["name"])
    needs_reward = "reward" in find_entry(name).options
    return explore_many(
        problem,
        name,
        episodes=task["episodes"],
        seeds=task["seeds"],
        checkpoints=task["checkpoints"],
        curves=curve_names(task["measure"]),
        rewards=measure_rewards(problem, task["rewards"]),
        measure=measures if measures.names else None,
        budget=task["budget"],
        delta=task["delta"],
        reward=build_reward(problem, task["world"]) if needs_reward else None,
        progress=False,
        **explorer_options(explorer),
    )
