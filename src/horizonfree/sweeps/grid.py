"""The grid of a sweep as tasks: one is a problem, an explorer, and a chunk of the seeds. Tasks are plain data.

A task is called by the digest of all that it depends on, so a sweep that grows keeps the tasks it has.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from horizonfree.errors import OptionError
from horizonfree.explorers.interface import Explorer
from horizonfree.explorers.registry import current_name, find
from horizonfree.mdp.rewards import goal, occupancy
from horizonfree.problems import make
from horizonfree.problems.problem import Problem
from horizonfree.runs.explore import build_explorer
from horizonfree.runs.until import check_countable
from horizonfree.sweeps.file import ELSEWHERE, OF_EXPLORER, OF_PROBLEM, Spec, within
from horizonfree.sweeps.measures import rewards_of
from horizonfree.sweeps.records import check_records

Task = dict[str, Any]
FORMS = {"goal": goal, "stay": occupancy}  # of a reward in the file
KEPT = 32  # problems that a process keeps
MOST_TASKS = 200_000  # they are all listed before the first one starts


def tasks_of(spec: Spec) -> dict[str, Task]:
    """Every task by its digest, in the order of the file; seeds run slowest, so that all settings advance together."""
    size = spec.seeds_per_task
    number = -(-len(spec.seeds) // size) * len(spec.problems) * len(spec.explorers)
    if number > MOST_TASKS:
        raise OptionError(
            f"these are {number:,} tasks, more than {MOST_TASKS:,}; raise seeds_per_task, now {size}"
        )
    chunks = [spec.seeds[i : i + size] for i in range(0, len(spec.seeds), size)]
    found: dict[str, Task] = {}
    for seeds in chunks:
        for place, problem in spec.problems.items():
            for label, explorer in spec.explorers.items():
                for part in _parts(spec, explorer):
                    common = {"delta": spec.delta, "measure": spec.measure, "records": spec.records}
                    asked = {"problem": place, "explorer": label, "seeds": seeds, **part, **common}
                    task = asked | {"rewards": spec.rewards, "world": problem, "who": explorer}
                    found[digest(task)] = task
    return found


def rows_of(task: Task) -> int:
    """How many rows a task gives."""
    return len(task["seeds"]) * len(task["checkpoints"])


def _parts(spec: Spec, explorer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One exploration through all checkpoints; or, where their number is declared beforehand, one up to each."""
    if explorer.get("declared"):
        return [{"episodes": k, "checkpoints": [k], "budget": k} for k in spec.checkpoints]
    budget = explorer.get("budget")
    return [{"episodes": spec.episodes, "checkpoints": spec.checkpoints, "budget": budget}]


def digest(task: Task) -> str:
    """The name of a task."""
    return hashlib.sha256(json.dumps(task, sort_keys=True).encode()).hexdigest()[:16]


def check(spec: Spec) -> None:
    """Refuse problems that cannot be made, explorers that cannot be built, and pairs that do not go together."""
    for label, explorer in spec.explorers.items():
        with within(f"explorers.{label}"):
            find(explorer["name"])
            for name in set(ELSEWHERE) & set(explorer):
                raise OptionError(ELSEWHERE[name])
            if explorer.get("declared") and "budget" in explorer:
                raise OptionError("declared = true declares each checkpoint; leave budget out")
    settings: list[tuple[Problem, Explorer]] = []
    for place, problem in spec.problems.items():
        with within(f"problems.{place}"):
            made = problem_of(problem)
            made.kernel()  # refuses a problem without truth
            check_countable(spec.episodes, made.horizon)
            reward_of(made, problem)
            rewards_of(made, spec.rewards)
        for label, explorer in spec.explorers.items():
            with within(f"explorers.{label} on problems.{place}"):
                given = {"budget": spec.episodes, "delta": spec.delta, "reward": reward_of(made, problem)}
                settings.append(
                    (made, build_explorer(current_name(explorer["name"]), made, options_of(explorer), given))
                )
    check_records(spec.records, settings)


def problem_of(table: Mapping[str, Any]) -> Problem:
    """The problem of a table; the last few are kept."""
    return _made(json.dumps(dict(table), sort_keys=True))


@lru_cache(KEPT)
def _made(text: str) -> Problem:
    table = json.loads(text)
    parameters = {name: x for name, x in table.items() if name not in OF_PROBLEM}
    made = make(table["name"], **parameters)
    return made.seen_as(table["seen_as"]) if "seen_as" in table else made


def options_of(table: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the explorer of a table."""
    return {name: x for name, x in table.items() if name not in OF_EXPLORER}


def reward_of(problem: Problem, table: Mapping[str, Any]) -> Any:
    """What explorers that need a reward are given: what the table says, or to stay in the last state."""
    said = table.get("reward", {"stay": [problem.num_states - 1]})
    if len(said) != 1 or next(iter(said)) not in FORMS:
        raise OptionError(
            f"reward is {said}; it must be {{ goal = [...] }} or {{ stay = [...] }}, with states"
        )
    ((form, states),) = said.items()
    return FORMS[form](problem, states)
