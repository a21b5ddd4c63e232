"""Rows of the experiment on cells: certified gaps against bins and episodes, with and without a Lipschitz constant.

    python experiments/cells/run.py [--problem thermostat]

Rows that are there are kept: delete them to make them again. README.md says what they mean.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

import horizonfree as hf
from horizonfree.runs.recipes import versions

ROWS = Path(__file__).parent / "results" / "rows.jsonl"
DELTA = 0.05
DRIVEN = 20_000  # episodes in which a plan is followed, for its true value


class System(NamedTuple):
    """A real-valued system: x' = clip(drift(x, a) + sigma noise), d coordinates in [low, high].

    `slope`: of the drift. `goal`: each coordinate is to be in this interval at the last step.
    """

    dim: int
    low: float
    high: float
    drift: Callable[[np.ndarray, np.ndarray], np.ndarray]
    actions: int
    sigma: float
    slope: float
    start: tuple[float, ...]
    goal: tuple[float, float]
    horizon: int
    bins: tuple[int, ...]
    episodes: tuple[int, ...]

    @property
    def lipschitz(self) -> float:
        """Of the law, in total variation, for each unit of a coordinate: slope / (sigma sqrt(2 pi))."""
        return self.slope / (self.sigma * np.sqrt(2 * np.pi))

    def step(self, x: np.ndarray, a: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Many transitions at once."""
        noise = self.sigma * rng.standard_normal(x.shape)
        return np.clip(self.drift(x, a) + noise, self.low, self.high)


STEPS = np.array([[0.0, 0.0], [0.3, 0.0], [-0.3, 0.0], [0.0, 0.3], [0.0, -0.3]])
SYSTEMS = {
    "thermostat": System(
        dim=1,
        low=10.0,
        high=30.0,
        drift=lambda x, a: x + 0.2 * (12 - x) + 3.0 * a[:, None],
        actions=3,
        sigma=3.0,
        slope=0.8,
        start=(14.0,),
        goal=(18.0, 24.0),
        horizon=4,
        bins=(5, 10, 20, 40, 80),
        episodes=(1_000, 10_000, 100_000, 1_000_000),
    ),
    "robot": System(
        dim=2,
        low=0.0,
        high=1.0,
        drift=lambda x, a: x + STEPS[a],
        actions=5,
        sigma=0.3,
        slope=1.0,
        start=(0.1, 0.1),
        goal=(0.5, 1.0),
        horizon=3,
        bins=(4, 8, 16, 24),
        episodes=(10_000, 100_000, 1_000_000),
    ),
}


class Env(gymnasium.Env[np.ndarray, int]):
    """A system that can only be stepped."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.observation_space = gymnasium.spaces.Box(system.low, system.high, (system.dim,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(system.actions)
        self._x = np.zeros((1, system.dim))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """The start, always the same."""
        super().reset(seed=seed)
        self._x = np.array([self.system.start])
        return self._x[0].copy(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One transition."""
        self._x = self.system.step(self._x, np.array([action]), self.np_random)
        return self._x[0].copy(), 0.0, False, False, {}


def cells(system: System, bins: int, x: np.ndarray) -> np.ndarray:
    """The numbers of the cells of points [n, d]."""
    width = (system.high - system.low) / bins
    digits = np.minimum(((x - system.low) / width).astype(int), bins - 1)
    return np.asarray(digits @ bins ** np.arange(system.dim)[::-1])


def collect(system: System, bins: int, episodes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Episodes with actions drawn at random, as cells."""
    rng = np.random.default_rng(seed)
    x = np.tile(np.array(system.start), (episodes, 1))
    states = np.zeros((episodes, system.horizon + 1), np.int32)
    actions = rng.integers(system.actions, size=(episodes, system.horizon)).astype(np.int32)
    states[:, 0] = cells(system, bins, x)
    for h in range(system.horizon):
        x = system.step(x, actions[:, h], rng)
        states[:, h + 1] = cells(system, bins, x)
    return states, actions


def mean_return(system: System, bins: int, policy: np.ndarray, goal: np.ndarray, seed: int) -> float:
    """The share of episodes under a plan that end in the goal: in the system itself, not in cells."""
    rng = np.random.default_rng([seed, 1])
    x = np.tile(np.array(system.start), (DRIVEN, 1))
    for h in range(system.horizon - 1):
        x = system.step(x, policy[h, cells(system, bins, x)], rng)
    return float(np.isin(cells(system, bins, x), goal).mean())


def compute_row(name: str, bins: int, episodes: int, seed: int = 0) -> dict[str, Any]:
    """One row."""
    system, start_time = SYSTEMS[name], time.process_time()
    log = collect(system, bins, episodes, seed)
    edges = np.linspace(system.low, system.high, bins + 1)
    middles = (edges[:-1] + edges[1:]) / 2
    inside = (middles > system.goal[0]) & (middles < system.goal[1])
    grid = np.stack(np.meshgrid(*[inside] * system.dim, indexing="ij"), -1).all(-1).ravel()
    goal = np.flatnonzero(grid)
    row: dict[str, Any] = {"problem": name, "bins": bins, "episodes": episodes, "seed": seed, "delta": DELTA}
    for kind, lipschitz in (("exact", None), ("lipschitz", system.lipschitz)):
        env = hf.discretize(Env(system), bins, lipschitz=lipschitz)
        problem = hf.explore(env, horizon=system.horizon, episodes=1, progress=False).problem
        run = hf.from_episodes(problem, log)
        plan = run.plan(hf.goal(problem, goal), delta=DELTA)
        certificate = run.certificate(DELTA)
        row[kind] = {
            "gap": plan.gap,
            "low": plan.value_low,
            "value": plan.value,
            "high": plan.value_high,
            "every": certificate.eps,
            "driven": mean_return(system, bins, plan.policy, goal, seed),
        }
        if lipschitz is not None:
            radii = problem.radii
            assert radii is not None
            row |= {"zeta": float(radii.max()), "floor": certificate.parts["floor"]}
    row |= {"seconds": round(time.process_time() - start_time, 2), "versions": versions()}
    return row


def main() -> None:
    """Write the rows that are missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", choices=list(SYSTEMS))
    selected = parser.parse_args().problem
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []
    done = {(x["problem"], x["bins"], x["episodes"]) for x in rows}
    for name, system in SYSTEMS.items():
        for episodes in system.episodes:
            for bins in system.bins:
                if (name, bins, episodes) in done or selected not in (None, name):
                    continue
                row = compute_row(name, bins, episodes)
                with ROWS.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(name, bins, episodes, row["lipschitz"]["gap"], row["exact"]["gap"], row["seconds"])


if __name__ == "__main__":
    main()
