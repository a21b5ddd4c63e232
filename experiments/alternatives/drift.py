"""Rows of a second problem: does "change" find a jump and a slow drift of the library's queue?

    python experiments/alternatives/drift.py [--seeds 5]     # rows -> results/drift.jsonl, and their table

The weights of the three arrival models turn from (.6, .3, .1) to (.1, .3, .6): after half of the nights, or a little
every sixteenth of them; or not at all. Speeds are chosen at random, a night is an episode of 20 slots.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import horizonfree as hf
from horizonfree.runs.recipes import versions

HERE = Path(__file__).parent
NIGHTS, PARTS = (32, 64, 128, 256, 512), 16
FIRST, LAST = np.array([0.6, 0.3, 0.1]), np.array([0.1, 0.3, 0.6])
SYSTEMS = {
    "in the class": lambda t: 0.5,
    "a jump after half of the nights": lambda t: float(t >= 0.5),
    "a slow drift": lambda t: t,
}


def log(queue: hf.Problem, system: str, nights: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Nights one after the other, while the weights turn."""
    rng, model = np.random.default_rng([seed, nights]), queue.model
    H, S, A = queue.space.sizes
    P = np.stack([np.asarray(model.kernel(model.parameter(x, "one")).dense()) for x in np.eye(3)])
    states, actions = np.zeros((nights, H + 1), int), rng.integers(A, size=(nights, H))
    for k in range(nights):
        share = SYSTEMS[system](k // (nights // PARTS) / (PARTS - 1))
        law = np.tensordot((1 - share) * FIRST + share * LAST, P, axes=1)
        for h in range(H):
            states[k, h + 1] = rng.choice(S, p=law[states[k, h], actions[k, h]])
    return states, actions


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    queue, out = hf.make("queue"), HERE / "results" / "drift.jsonl"
    with out.open("w") as file:
        for system in SYSTEMS:
            for nights in NIGHTS:
                for seed in range(seeds):
                    check = hf.from_episodes(queue, log(queue, system, nights, seed)).check()
                    e = {name: round(x / np.log(10), 3) for name, x in check.alternatives}
                    row = {"world": system, "nights": nights, "seed": seed, "refuted": check.is_refuted}
                    row |= {"by": check.strongest.name, "log10_e": e, "versions": versions()}
                    file.write(json.dumps(row) + "\n")
                    file.flush()
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    for system in SYSTEMS:
        counts = [sum(x["refuted"] for x in rows if (x["world"], x["nights"]) == (system, n)) for n in NIGHTS]
        print(f"| {system} | " + " | ".join(map(str, counts)) + " |")


if __name__ == "__main__":
    main()
