"""Do two trees of this library explore, plan and certify alike, bit by bit?

    python benchmarks/bits.py dump OUT.npz [PROBLEM ...]      in each tree, with the interpreter of its .venv
    python benchmarks/bits.py compare BEFORE.npz AFTER.npz

Every named problem at its defaults with every explorer that is for it, 30 episodes: the records of the episodes, the
state and the evidence after them, certificates of all methods, plans; and two batches. Arrays are compared by name; one
that changed between the trees is given to `compare` as old=new (a beginning will do).
"""

import sys
import time
from collections import Counter

import jax
import numpy as np

import horizonfree as hf
from horizonfree.explorers.registry import EXPLORERS
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.models.tabular.model import TabularModel

EPISODES = 30


def of_run(run) -> dict[str, np.ndarray]:
    """All that a run says, as arrays."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(run.progress)
    found = {jax.tree_util.keystr(where, simple=True, separator="."): np.asarray(x) for where, x in leaves}
    found |= {f"record.{name}": np.asarray(x) for name, x in run.records.items()}
    if isinstance(run.problem.model, MixtureModel):
        found["theta_hat"] = np.asarray(run.theta_hat)
    for method in ("uniform", "direct", "paper"):
        try:
            certificate = run.certificate(method=method)
        except ValueError:  # not for this explorer, or not for so many unknowns
            continue
        found[method] = np.array([certificate.eps, *certificate.parts.values()])
    problem = run.problem
    S = problem.num_states
    for title, reward in {"goal": hf.goal(problem, S - 1), "stay": hf.occupancy(problem, S // 2)}.items():
        for model in ("likelihood", "explorer"):
            plan = run.plan(reward, model=model)
            found[f"plan.{title}.{model}.policy"] = plan.policy
            found[f"plan.{title}.{model}.numbers"] = np.array([plan.value, plan.gap])
    return found


def dump(path: str, chosen: list[str]) -> None:
    found: dict[str, np.ndarray] = {}
    for name in chosen or hf.problems():
        known = hf.make(name)
        for explorer, about in hf.explorers(all=True).items():
            began = time.perf_counter()
            is_for_tables = EXPLORERS[explorer].explorer_type.learns is TabularModel
            problem = known.as_tabular() if is_for_tables else known
            options = {}
            if "reward" in about["options"]:
                options["reward"] = hf.occupancy(problem, problem.num_states - 1)
            if explorer == "hf-ucrl-rfe++":
                options["scale"] = 0.15
            try:
                run = hf.explore(problem, explorer, episodes=EPISODES, seed=3, progress=False, **options)
            except hf.errors.OptionError as refusal:  # for another class of models, or for more episodes
                print(f"{name} {explorer}: {refusal}", flush=True)
                continue
            found |= {f"{name}/{explorer}/{key}": x for key, x in of_run(run).items()}
            jax.clear_caches()
            print(f"{name} {explorer} {time.perf_counter() - began:.1f} s", flush=True)
        if name in ("zoned-grid", "random-mixture"):
            for explorer, options in {"optimal-design": {}, "hf-ucrl-rfe++": {"scale": 0.15}}.items():
                how = {"episodes": 20, "seeds": 3, "checkpoints": [5, 20], "progress": False}
                batch = hf.explore_many(known, explorer, **how, **options)
                found |= {f"{name}/batch {explorer}/{key}": x for key, x in batch.curves.items()}
    np.savez(path, **found)


def compare(before: str, after: str, renamed: list[str]) -> bool:
    """Print what differs; whether nothing does."""
    old, new, same, other, gone = np.load(before), np.load(after), 0, [], []
    for key in old.files:
        where, _, name = key.rpartition("/")
        for pair in renamed:
            first, last = pair.split("=")
            if name.startswith(first):
                name = last + name.removeprefix(first)
                break
        if f"{where}/{name}" not in new.files:
            gone.append(name)
            continue
        x, y = old[key], new[f"{where}/{name}"]
        if x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes():
            same += 1
            continue
        far = np.inf if x.shape != y.shape else np.abs(x.astype(float) - y.astype(float)).max()
        other.append((f"{where}/{name}", far))
    print(f"{same} arrays have the same bits, {len(other)} differ, {len(gone)} are gone")
    for name, far in other:
        print(f"  {name}: by {far:.3g}")
    print("gone:", dict(Counter(gone)))
    return not other


if __name__ == "__main__":
    if sys.argv[1] == "dump":
        dump(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(not compare(sys.argv[2], sys.argv[3], sys.argv[4:]))
