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
    arrays = {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(x) for path, x in leaves}
    arrays |= {f"record.{name}": np.asarray(x) for name, x in run.records.items()}
    if isinstance(run.problem.model, MixtureModel):
        arrays["theta_hat"] = np.asarray(run.theta_hat)
    for method in ("uniform", "direct", "paper"):
        try:
            certificate = run.certificate(method=method)
        except ValueError:  # not for this explorer, or for this number of unknowns
            continue
        arrays[method] = np.array([certificate.eps, *certificate.parts.values()])
    problem = run.problem
    S = problem.num_states
    for title, reward in {"goal": hf.goal(problem, S - 1), "stay": hf.occupancy(problem, S // 2)}.items():
        for model in ("likelihood", "explorer"):
            plan = run.plan(reward, model=model)
            arrays[f"plan.{title}.{model}.policy"] = plan.policy
            arrays[f"plan.{title}.{model}.numbers"] = np.array([plan.value, plan.gap])
    return arrays


def dump(path: str, names: list[str]) -> None:
    arrays: dict[str, np.ndarray] = {}
    for name in names or hf.problems():
        named_problem = hf.make(name)
        for explorer, description in hf.explorers(all=True).items():
            start_time = time.perf_counter()
            is_for_tables = EXPLORERS[explorer].explorer_type.learns is TabularModel
            problem = named_problem.as_tabular() if is_for_tables else named_problem
            options = {}
            if "reward" in description["options"]:
                options["reward"] = hf.occupancy(problem, problem.num_states - 1)
            if explorer == "hf-ucrl-rfe++":
                options["scale"] = 0.15
            try:
                run = hf.explore(problem, explorer, episodes=EPISODES, seed=3, progress=False, **options)
            except hf.errors.OptionError as refusal:  # for another class of models, or for more episodes
                print(f"{name} {explorer}: {refusal}", flush=True)
                continue
            arrays |= {f"{name}/{explorer}/{key}": x for key, x in of_run(run).items()}
            jax.clear_caches()
            print(f"{name} {explorer} {time.perf_counter() - start_time:.1f} s", flush=True)
        if name in ("zoned-grid", "random-mixture"):
            for explorer, options in {"optimal-design": {}, "hf-ucrl-rfe++": {"scale": 0.15}}.items():
                settings = {"episodes": 20, "seeds": 3, "checkpoints": [5, 20], "progress": False}
                batch = hf.explore_many(named_problem, explorer, **settings, **options)
                arrays |= {f"{name}/batch {explorer}/{key}": x for key, x in batch.curves.items()}
    np.savez(path, **arrays)


def compare(old_path: str, new_path: str, renames: list[str]) -> bool:
    """Print what differs; whether nothing does."""
    old, new, num_same, other, missing = np.load(old_path), np.load(new_path), 0, [], []
    for key in old.files:
        prefix, _, name = key.rpartition("/")
        for pair in renames:
            first, last = pair.split("=")
            if name.startswith(first):
                name = last + name.removeprefix(first)
                break
        if f"{prefix}/{name}" not in new.files:
            missing.append(name)
            continue
        x, y = old[key], new[f"{prefix}/{name}"]
        if x.shape == y.shape and x.dtype == y.dtype and x.tobytes() == y.tobytes():
            num_same += 1
            continue
        far = np.inf if x.shape != y.shape else np.abs(x.astype(float) - y.astype(float)).max()
        other.append((f"{prefix}/{name}", far))
    print(f"{num_same} arrays have the same bits, {len(other)} differ, {len(missing)} are gone")
    for name, far in other:
        print(f"  {name}: by {far:.3g}")
    print("gone:", dict(Counter(missing)))
    return not other


if __name__ == "__main__":
    if sys.argv[1] == "dump":
        dump(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(not compare(sys.argv[2], sys.argv[3], sys.argv[4:]))
