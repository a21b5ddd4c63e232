"""Rows on the 15 rooms: how many states were visited, and how evenly.

python experiments/rf_express_rooms/run.py [--seeds N] [--only LABEL ...] [--out FILE]

Rows are appended, so that explorers may be run one by one.
"""

import argparse
import json
import os
import time
import tomllib
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np

import horizonfree as hf

HERE = Path(__file__).parent
MOVES = ((0, -1), (0, 1), (-1, 0), (1, 0))  # (row, column): left, right, up, down


def free_cells(rows: int, columns: int, size: int) -> list[tuple[int, int]]:
    """Cells (row, column) of rooms in rows, which doors join to one long row that turns at the ends, as rlberry's."""
    pitch, middle, doors = size + 1, size // 2, set()
    for r in range(rows):
        doors |= {(r * pitch + middle, c * pitch + size) for c in range(columns - 1)}
        turn = columns - 1 if r % 2 == 0 else 0
        doors |= {(r * pitch + size, turn * pitch + middle)} if r + 1 < rows else set()
    cells = np.ndindex(rows * pitch - 1, columns * pitch - 1)
    return [cell for cell in cells if cell in doors or size not in (cell[0] % pitch, cell[1] % pitch)]


def rooms(rows: int, columns: int, room_size: int, success: float, horizon: int):
    """An unknown table; a move goes as intended, or to another free neighbour; one into a wall stays."""
    cells = free_cells(rows, columns, room_size)
    index = {cell: s for s, cell in enumerate(cells)}
    P = np.zeros((len(cells), len(MOVES), len(cells)))
    for s, (row, column) in enumerate(cells):
        successors = [index.get((row + i, column + j)) for i, j in MOVES]
        free = [x for x in successors if x is not None]
        for a, target in enumerate(successors):
            other_cells = [x for x in free if x != target]
            if target is None:
                P[s, a, s] = 1.0
            else:
                P[s, a, target] = success if other_cells else 1.0
                P[s, a, other_cells] = (1 - success) / max(len(other_cells), 1)
    middle = tuple(n // 2 * (room_size + 1) + room_size // 2 for n in (rows, columns))
    return hf.Tabular.from_table(P, horizon=horizon, start=index[middle], name="15 rooms")


def in_reach(problem) -> int:
    """States that some episode can show: those within H - 1 moves."""
    leads, reached = (problem.kernel().dense() > 0).any(1), np.arange(problem.num_states) == problem.start
    for _ in range(problem.horizon - 1):
        reached = reached | leads[reached].any(0)
    return int(reached.sum())


def score(visits: np.ndarray) -> dict:
    """As the authors' plots: the number of states visited, and the entropy of the visits in bits."""
    p = visits[visits > 0] / visits.sum()
    return {"states": int((visits > 0).sum()), "entropy": float(-(p * np.log2(p)).sum())}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "rows.jsonl")
    args = parser.parse_args()
    sweep = tomllib.loads((HERE / "sweep.toml").read_text())
    problem = rooms(**sweep["problem"])
    sizes = {"num_states": problem.num_states, "in_reach": in_reach(problem)}
    last = sweep["checkpoints"][-1]
    with args.out.open("a") as file:
        for entry in sweep["explorers"]:
            options = dict(entry)
            label, name = options.pop("label"), options.pop("name")
            if args.only and label not in args.only:
                continue
            for seed in range(args.seeds or sweep["seeds"]):
                run, start_time = None, time.process_time()
                for k in sweep["checkpoints"]:
                    if run is None:
                        settings = {"budget": last, "seed": seed, "delta": sweep["delta"], "progress": False}
                        run = hf.explore(problem, name, episodes=k, **settings, **options)
                    else:
                        run = run.resume(episodes=k - run.episodes, progress=False)
                    row = {"explorer": label, "seed": seed, "episodes": k} | sizes
                    row |= score(np.asarray(run.evidence.visits).sum(-1))
                    file.write(json.dumps(row | {"seconds": time.process_time() - start_time}) + "\n")
                file.flush()


if __name__ == "__main__":
    main()
