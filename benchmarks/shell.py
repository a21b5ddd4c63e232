"""What commands cost: CPU seconds of whole processes, start-up included, user and system together.

    python benchmarks/shell.py [--times 5] [--explore] [--large]

Runs are explored into a temporary folder first, with caches of their own, so that nothing of the user's is touched.
Each command then runs so often in a process of its own, and the least is printed. --explore: also 300 episodes of
several explorers on the 8x8 grid, in the first process of all (nothing compiled) and in the second. --large: also runs
with 400 states. `python -c pass` and `import numpy`, `import jax` show what the machine makes of the same.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HORIZONFREE = [sys.executable, "-m", "horizonfree"]
EXPLORERS = (
    "optimal-design",
    "hf-ucrl-rfe++",
    "hf-ucrl-vtr+",
    "ucrl-rfe",
    "ucrl-rfe+",
    "ucrl-vtr+",
    "uniform",
)
FOR_A_REWARD = ("hf-ucrl-vtr+", "ucrl-vtr+")  # explorers that want one


def cpu(command: list[str], env: dict[str, str]) -> float:
    """CPU seconds of a process and its children."""
    before = os.times()
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def explored(folder: Path, env: dict[str, str], *words: str) -> Path:
    """A run in a folder."""
    cpu([*HORIZONFREE, "explore", *words, "--episodes", "300", "--out", str(folder)], env)
    return folder


def commands(folder: Path, env: dict[str, str], is_large: bool) -> dict[str, list[str]]:
    """What is measured, by name."""
    grid = explored(folder / "grid", env, "zoned-grid")
    runs = {
        "mixture, S = 64, 4 unknowns, H = 20": (grid, 63),
        "table, S = 31, H = 20": (explored(folder / "table", env, "double-chain"), 3),
        "linear MDP": (explored(folder / "linear", env, "linear-lock"), 3),
    }
    if is_large:
        for zones in (4, 8):
            words = ["--param", "size=20", "--param", f"zones={zones}", "--param", "horizon=50"]
            run = explored(folder / f"large{zones}", env, "zoned-grid", *words)
            runs[f"mixture, S = 400, {zones} unknowns, H = 50"] = run, 399
    found = {
        f"plan --goal ({name})": [*HORIZONFREE, "plan", str(x), "--goal", str(s)]
        for name, (x, s) in runs.items()
    }
    found |= {f"{name}, --draws 0": [*command, "--draws", "0"] for name, command in found.items()}
    found["certify"] = [*HORIZONFREE, "certify", str(grid)]
    found["certify --rewards goals"] = [*HORIZONFREE, "certify", str(grid), "--rewards", "goals"]
    return found | {name: [*HORIZONFREE, name] for name in ("problems", "explorers", "theory")}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--explore", action="store_true")
    parser.add_argument("--large", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"XDG_CACHE_HOME": f"{folder}/cache"}
        # As in a shell that sets nothing.
        for name in ("JAX_COMPILATION_CACHE_DIR", "PYTHONDONTWRITEBYTECODE"):
            env.pop(name, None)
        if chosen.explore:
            print("| 300 episodes, zoned-grid 8x8 | first process | second |\n|---|---|---|")
            for name in EXPLORERS:
                words = [
                    *HORIZONFREE,
                    "explore",
                    "zoned-grid",
                    "--explorer",
                    name,
                    *(["--goal", "63"] if name in FOR_A_REWARD else []),
                    "--episodes",
                    "300",
                    "--out",
                ]
                first, second = (cpu([*words, f"{folder}/{name}-{i}"], env) for i in range(2))
                print(f"| {name} | {first:.1f} | {second:.2f} |", flush=True)
        measured = {name: [sys.executable, "-c", name] for name in ("pass", "import numpy", "import jax")}
        measured |= commands(Path(folder), env, chosen.large)
        print("| command | CPU seconds |\n|---|---|")
        for name, command in measured.items():
            least = min(cpu(command, env) for _ in range(chosen.times))
            print(f"| {name} | {max(least, 0.0):.2f} |", flush=True)


if __name__ == "__main__":
    main()
