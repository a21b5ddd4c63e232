"""Rows of the comparison: python experiments/compare_mixture/run.py [--workers 2] [--seeds 10]"""

import argparse
import json
import multiprocessing
import time
import tomllib
from functools import partial
from pathlib import Path

HERE = Path(__file__).parent


def rows(sweep: dict, entry: tuple[str, dict]) -> list[dict]:
    import horizonfree as hf
    from horizonfree.batch.compare import compare

    made = dict(sweep["problem"])
    problem = hf.make(made.pop("name"), **made)
    return compare(
        problem,
        dict([entry]),
        episodes=sweep["episodes"],
        seeds=sweep["seeds"],
        checkpoints=sweep["checkpoints"],
        reward=hf.occupancy(problem, sweep["reward_state"]),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "rows.jsonl")
    args = parser.parse_args()
    sweep = tomllib.loads((HERE / "sweep.toml").read_text())
    sweep["seeds"] = args.seeds or sweep["seeds"]
    began = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(args.workers) as pool, args.out.open("w") as file:
        for done in pool.imap(partial(rows, sweep), sweep["explorers"].items()):
            file.writelines(json.dumps(row) + "\n" for row in done)
            file.flush()
            print(f"{done[0]['explorer']}: {done[0]['seconds']:.0f} s")
    print(f"all: {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
