"""The experiments as tasks: plain data. One is a setting with a few seeds, called by the digest of all it depends on.

A file of an experiment is that of a sweep (docs/sweeps.md) with three keys more:

    look = ["gap", "claim"]     what is asked of the runs (look.py)
    scale = [0.5, 1.0]          every explorer that has such a number is run with each of these ("scale" in the rows)
    scale = "covering"          ... with the one of tuning.toml for which the truth stayed inside (scales.py)
    scale = "tuned"             ... with the one of tuning.toml whose certificate was smallest
    instances = 10              every problem with the seeds 0 to 9 of its own; each is explored with every seed
    instances_per_task = 5      how many of them share a task; by default all
    seeds_of = { ucrl-rfe = 1 } fewer seeds for an explorer that is slow

E4 and E7 are no sweeps: minimax.py and monitor.py make their tasks.
"""

import tomllib
from pathlib import Path

import minimax
import monitor
import scales

from horizonfree.explorers.registry import find_entry
from horizonfree.sweeps.spec import parse
from horizonfree.sweeps.tasks import build_tasks, task_id

HERE = Path(__file__).parent
TABLE = HERE.parent / "table1"
FILES = {  # the most important first
    "tuning": [
        HERE / "tuning.toml",
        HERE / "tuning_tables.toml",
        HERE / "tuning_jin.toml",
        HERE / "tuning_linear.toml",
    ],
    "E8": [HERE / "E8.toml", HERE / "E8_cover.toml"],
    "E9": [HERE / "E9.toml"],
    "E4_eps": [HERE / "E4_eps.toml"],
    "E2": [HERE / "E2.toml"],
    "E3": [HERE / "E3.toml"],
    "E1_instances": [HERE / "E1_instances.toml"],
    "E1": [HERE / "E1.toml", HERE / "E1_tables.toml"],
    "table1": [TABLE / "mixture.toml", TABLE / "tables.toml", TABLE / "linear.toml"],
    "table1_ranks": [TABLE / "ranks_mixture.toml", TABLE / "ranks_tables.toml"],
    "E4": [HERE / "E4.toml"],
    "E5_search": [HERE / "E5_search.toml"],
    "E5": [HERE / "E5.toml"],
    "E7": [HERE / "E7.toml"],
    "E6": [HERE / "E6.toml"],
}
OWN = {"look": [], "scale": None, "instances": 0, "instances_per_task": 0, "seeds_of": {}}
KNOBS = ("scale", "bonus_scale", "beta")  # what multiplies an explorer's radius or bonus
SLOW = ("hf-ucrl-rfe++", "chen2022")
FEWER = 5  # times fewer episodes in the reduced version


def tasks(name: str, lines: list[dict], small: bool = False) -> dict[str, dict]:
    """The tasks of an experiment by their digests. lines: what was made so far, for the scales of the tuning."""
    found: dict[str, dict] = {}
    for path in FILES[name]:
        given = tomllib.loads(path.read_text())
        if small:
            given = reduced(given)
        for task in {"E4": minimax.tasks, "E4_eps": minimax.tasks, "E7": monitor.tasks}.get(name, swept)(
            given, lines
        ):
            task = {"experiment": name, **task}
            found[task_id(task)] = task
    longest: dict[tuple[str, str], float] = {}
    for task in found.values():
        longest[setting(task)] = max(work(task), longest.get(setting(task), 0.0))
    return dict(
        sorted(found.items(), key=lambda item: (-longest[setting(item[1])], setting(item[1]), -work(item[1])))
    )


def setting(task: dict) -> tuple[str, str]:
    """Tasks of one setting differ in their seeds or episodes alone: a worker compiles most of them once."""
    return task["problem"], task["explorer"]


def work(task: dict) -> float:
    """About how long a task takes, so that long ones begin first: steps, those of the slow ones ten times."""
    members = len(task["seeds"]) * (len(next(iter(task["over"].values()))) if task.get("over") else 1)
    members *= len(task.get("instances", [0]))
    steps = members * task.get("episodes", 1000) * task["world"].get("horizon", 10)
    return steps * (10 if task["who"]["name"] in SLOW else 1)


def swept(given: dict, lines: list[dict]) -> list[dict]:
    """The tasks of one file."""
    own = {key: given.pop(key, default) for key, default in OWN.items()}
    out = []
    for task in build_tasks(parse(given)).values():
        knob = knob_of(task["who"])
        if knob is not None and isinstance(own["scale"], str):
            value = scales.scale(lines, own["scale"], task["problem"], task["who"]["name"])
            task = task | {"who": task["who"] | ({} if value is None else {knob: value})}
        over = {knob: own["scale"]} if knob is not None and isinstance(own["scale"], list) else None
        seeds = task["seeds"][: own["seeds_of"].get(task["explorer"])]
        task = {**task, "seeds": seeds, "look": own["look"], "over": over}
        number = own["instances"]
        size = own["instances_per_task"] or number
        chunks = [list(range(i, min(i + size, number))) for i in range(0, number, max(size, 1))]
        out += [task | {"instances": chunk} for chunk in chunks] if chunks else [task]
    return out


def knob_of(who: dict) -> str | None:
    """The number that scales an explorer's radius, unless the file settles it."""
    options = find_entry(who["name"]).options
    return next((knob for knob in KNOBS if knob in options and knob not in who), None)


def reduced(given: dict) -> dict:
    """The same, smaller: one problem, two values of what varies, two explorers, four seeds, a fifth of the episodes."""
    found = dict(given)
    found["problems"] = dict([next(iter(given["problems"].items()))])
    for label, table in found["problems"].items():
        varied = {key: values[:2] for key, values in table.get("vary", {}).items()}
        found["problems"][label] = table | ({"vary": varied} if varied else {})
    found |= {"seeds": 4, "seeds_per_task": 4, "explorers": dict(list(given["explorers"].items())[:2])}
    if "checkpoints" in given:
        found["checkpoints"] = [k // FEWER for k in given["checkpoints"]][:3]
    if "multiples" in given:
        found |= {"multiples": given["multiples"][:2], "truths": 4}
    if "instances" in given:
        found |= {"instances": 3, "instances_per_task": 3, "seeds": 2, "seeds_per_task": 2}
    if "K0" in given:
        found["K0"] = given["K0"][:3]
    if isinstance(given.get("scale"), list):
        found["scale"] = given["scale"][1:4:2] or given["scale"]
    return found
