"""One task: its rows. Each has the numbers of one seed at one checkpoint, with those of the explorer's own records."""

import time
from itertools import product

import families  # noqa: F401  (registers the problems of E8)
import jax
import minimax
import monitor
import numpy as np
from look import Look
from shared import folded

import horizonfree as hf
from horizonfree.explorers.registry import find_entry
from horizonfree.runs.recipes import versions
from horizonfree.sweeps.tasks import build_problem, build_reward, explorer_options

KEPT = ("V_hat", "V", "relaxed", "upper", "E", "oracle_calls", "balls_violated", "ball_ratio")
DIGITS = 4


def answer(task: dict) -> dict:
    """The rows of a task, with what they took and what they were made by."""
    return answers_of({"": task})[""]


def answers_of(tasks: dict[str, dict]) -> dict[str, dict]:
    """The answers of tasks that differ in their seeds alone, made at once; each has its share of what that took."""
    began, spent = time.perf_counter(), time.process_time()
    first = next(iter(tasks.values()))
    all_seeds = [seed for task in tasks.values() for seed in task["seeds"]]
    make = {"E4": minimax.rows, "E4_eps": minimax.rows, "E7": monitor.rows}.get(first["experiment"], swept)
    rows = [{key: plain(x) for key, x in row.items()} for row in make(first | {"seeds": all_seeds})]
    spent, seconds = time.process_time() - spent, time.perf_counter() - began
    device = jax.devices()[0]
    return {
        key: {
            "experiment": task["experiment"],
            "problem": task["problem"],
            "explorer": task["explorer"],
            "who": task["who"],
            "cpu": round(spent / len(tasks), 2),
            "seconds": round(seconds / len(tasks), 2),
            "versions": versions() | ({} if device.platform == "cpu" else {"device": device.device_kind}),
            "rows": folded([row for row in rows if row["seed"] in task["seeds"]]),
        }
        for key, task in tasks.items()
    }


def plain(x):
    """As JSON holds it, to a few digits."""
    if isinstance(x, (str, type(None))):
        return x
    x = float(x)
    return None if np.isnan(x) else int(x) if x.is_integer() else float(f"{x:.{DIGITS}g}")


def swept(task: dict) -> list[dict]:
    """The rows of a setting: seed by seed, checkpoint by checkpoint; with several scales, one after the other."""
    instances = task.get("instances", [None])
    worlds = [task["world"] | ({} if i is None else {"seed": i}) for i in instances]
    problems, name = [build_problem(world) for world in worlds], task["who"]["name"]
    problem = problems[0]
    needs_reward = "reward" in find_entry(name).options
    given = {
        "episodes": task["episodes"],
        "seeds": task["seeds"],
        "budget": task["budget"] or task["episodes"],
        "delta": task["delta"],
        "reward": build_reward(problem, task["world"]) if needs_reward else None,
        "progress": False,
    }
    looks = task["checkpoints"]
    began = time.process_time()
    batch = hf.explore_many(
        problems,
        name,
        checkpoints=looks,
        curves=["eps", "excess"],
        measure=Look(problem, task["look"], looks[-1], task["delta"]),
        over=task["over"],
        **given,
        **explorer_options(task["who"]),
    )
    spent = time.process_time() - began
    scales = next(iter(task["over"].values())) if task["over"] else [None]
    members = list(product(instances, scales, task["seeds"]))
    out = []
    for i, (instance, scale, seed) in enumerate(members):
        for c, k in enumerate(batch.checkpoints.tolist()):
            row = {} if instance is None else {"instance": instance}
            row |= {"seed": seed, "episodes": k, "scale": scale}
            row |= {key: x[i, c] for key, x in batch.curves.items()}
            row |= recorded({key: x[i, :k].astype(float) for key, x in batch.records.items()})
            out.append(row)
    return [row | {"cpu_per_run": spent / len(members)} for row in out]


def recorded(records: dict[str, np.ndarray]) -> dict[str, float]:
    """The records as they are now; of V_hat also the sum, and where it was smallest (the latest of equals)."""
    found = {key: records[key][-1] for key in KEPT if key in records}
    if "truth_ratio" in records:
        found["worst_ratio"] = records["truth_ratio"].max()
    if "V_hat" in records:
        V_hat = records["V_hat"]
        found |= {"V_hat_sum": V_hat.sum(), "k_star": len(V_hat) - V_hat[::-1].argmin()}
    return found
