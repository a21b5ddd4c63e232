"""From simulators to a car: four simulators of MountainCar disagree about gravity and engine, and a real one is driven.

State: 24 x 16 cells of position and speed, and the flag. Action: push left, nothing, push right, for five frames. The
class is all mixtures of four simulators, each a kernel counted from samples within the cells and blurred a little. The
real car has numbers of its own and moves on the line, not on cells: it is not of the class, only near it. What the
samples allow, whether the class is refuted, and what a declared misspecification costs is asked, too.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from shared import COLORS, figure, interval_text, main, round_up, table

import horizonfree as hf
from horizonfree import planning
from horizonfree.guarantees.e_processes import power

LEFT, RIGHT, SPEED, FLAG = -1.2, 0.6, 0.07, 0.5  # of the track; Gymnasium's numbers
SIMULATORS = [(gravity, force) for gravity in (0.002, 0.003) for force in (0.0008, 0.0012)]
CARS = {
    "in the middle": (0.0025, 0.001),
    "like the weakest simulator": (0.003, 0.0008),
    "weaker than any simulator": (0.0032, 0.0007),
}
FRAMES, H = 5, 41
SAMPLES = 400  # of every cell, push and simulator
TARGET = 0.1  # of the moves: 4.1


def drive(
    x: np.ndarray, v: np.ndarray, push: np.ndarray, gravity: float, force: float
) -> tuple[np.ndarray, np.ndarray]:
    """Five frames of Gymnasium's MountainCar; at the flag it stays."""
    for _ in range(FRAMES):
        next_v = np.clip(v + (push - 1) * force - np.cos(3 * x) * gravity, -SPEED, SPEED)
        next_x = np.clip(x + next_v, LEFT, RIGHT)
        next_v = np.where((next_x <= LEFT) & (next_v < 0), 0, next_v)
        x, v = np.where(x >= FLAG, x, next_x), np.where(x >= FLAG, v, next_v)
    return x, v


@dataclass(frozen=True)
class Cells:
    """A grid over position and speed; its last state is the flag."""

    across: int
    up: int

    @property
    def flag(self) -> int:
        """The number of the state that is the flag, and of cells."""
        return self.across * self.up

    def index(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The state of each position and speed."""
        i = np.clip(((x - LEFT) / (RIGHT - LEFT) * self.across).astype(int), 0, self.across - 1)
        j = np.clip(((v + SPEED) / (2 * SPEED) * self.up).astype(int), 0, self.up - 1)
        return np.where(x >= FLAG, self.flag, i * self.up + j)

    def counts(self, gravity: float, force: float, seed: int = 0, samples: int = SAMPLES) -> np.ndarray:
        """How often a simulator leads where from points drawn in every cell [S, 3, S]."""
        rng, s = np.random.default_rng(seed), np.arange(self.flag)[:, None]
        table = np.zeros((self.flag + 1, 3, self.flag + 1), int)
        table[self.flag, :, self.flag] = samples
        for push in range(3):
            x = LEFT + (RIGHT - LEFT) * (s // self.up + rng.random((self.flag, samples))) / self.across
            v = -SPEED + 2 * SPEED * (s % self.up + rng.random((self.flag, samples))) / self.up
            successor = self.index(*drive(x, v, np.asarray(push), gravity, force))
            np.add.at(table, (np.repeat(s, samples), push, successor.ravel()), 1)
        return table

    def blur(self, kernel: np.ndarray) -> np.ndarray:
        """The kernel whose next cell is spread evenly over that cell and its eight neighbours."""
        s, weights = np.arange(self.flag), np.zeros((self.flag + 1, self.flag + 1))
        weights[self.flag, self.flag] = 1
        for di, dj in np.ndindex(3, 3):
            i, j = (
                np.clip(s // self.up + di - 1, 0, self.across - 1),
                np.clip(s % self.up + dj - 1, 0, self.up - 1),
            )
            weights[s, i * self.up + j] += 1 / 9
        return kernel @ weights


def problem_on(cells: Cells, weights: Any = None) -> hf.Problem:
    """Mixtures of the simulators; two moves in a hundred are blurred, so that no neighbour is impossible."""
    kernels = [cells.counts(*numbers) / SAMPLES for numbers in SIMULATORS]
    mean_kernel = cells.blur(np.mean(kernels, axis=0))
    start = int(cells.index(np.array(-0.5), np.array(0.0)))
    kernels = [0.98 * kernel + 0.02 * mean_kernel for kernel in kernels]
    return hf.Mixture.from_kernels(kernels, horizon=H, start=start, weights=weights)


def sampled(cells: Cells, start: int) -> dict[str, Any]:
    """What the samples of the simulators allow before any ride, and with one's word for which cells may follow."""
    counts = [cells.counts(*numbers) for numbers in SIMULATORS]
    possible = cells.blur(np.mean([cells.counts(*numbers, seed=1) for numbers in SIMULATORS], axis=0)) > 0
    settings: dict[str, Any] = {"horizon": H, "start": start, "smoothing": 0.5}
    problems = {
        "any cell": hf.from_simulators(counts, **settings),
        "cells nearby": hf.from_simulators(counts, successors=possible, **settings),
    }
    return {name: problem.sampling.summary() for name, problem in problems.items()}


def ride(cells: Cells, car: tuple[float, float], actions: Any, rides: int) -> tuple[np.ndarray, np.ndarray]:
    """Rides of the real car: states [K, H+1] and pushes [K, H]; actions(h, states) are taken."""
    x, v = np.full(rides, -0.5), np.zeros(rides)
    states, actions_taken = np.zeros((rides, H + 1), int), np.zeros((rides, H), int)
    states[:, 0] = cells.index(x, v)
    for h in range(H):
        actions_taken[:, h] = actions(h, states[:, h])
        x, v = drive(x, v, actions_taken[:, h], *car)
        states[:, h + 1] = cells.index(x, v)
    return states, actions_taken


def study(small: bool = False) -> dict[str, Any]:
    """Random rides of each car, and the plan "be at the flag for as many moves as possible" on the car itself."""
    cells, looks = (Cells(12, 8), [20]) if small else (Cells(24, 16), [20, 80, 160])
    cars = dict(list(CARS.items())[:1]) if small else CARS
    problem = problem_on(cells)
    reward = np.zeros((cells.flag + 1, 3))
    reward[cells.flag] = 1
    equal = problem_on(cells, np.full(4, 0.25)).kernel()
    average_policy = planning.optimal(equal, np.broadcast_to(reward, (H, *reward.shape))).policy
    results = {
        name: {
            "blind": at_flag(cells, car, average_policy),
            **evaluate_car(cells, problem, car, reward, looks, small),
        }
        for name, car in cars.items()
    }
    if not small:
        value = float(
            planning.optimal(equal, np.broadcast_to(reward, (H, *reward.shape))).V[0, problem.start]
        )
        results = {"of the class": {"blind": value, **control(cells, reward, looks)}, **results}
    return {"looks": looks, "sampled": sampled(cells, problem.start), "cars": results}


def at_flag(cells: Cells, car: tuple[float, float], policy: np.ndarray) -> int:
    """How many of the moves of one ride the real car is at the flag."""
    states, _ = ride(cells, car, lambda h, s: policy[h, s], 1)
    return int((states[0, :H] == cells.flag).sum())


def evaluate_car(
    cells: Cells,
    problem: hf.Problem,
    car: tuple[float, float],
    reward: np.ndarray,
    looks: list[int],
    small: bool,
) -> dict[str, Any]:
    """One car: the certificates after each number of rides, and how often the plan reaches the flag on it."""
    rng = np.random.default_rng(1)
    states, actions = ride(cells, car, lambda h, s: rng.integers(0, 3, len(s)), max(looks))
    rows = []
    for look in looks:
        run = hf.from_episodes(problem, (states[:look], actions[:look]), budget=look)
        row, plan = certified(run, reward)
        rows.append({**row, "driven": at_flag(cells, car, plan.policy)})
    last = {"check": class_test(run)} if small else {"check": class_test(run), "price": price(run, reward)}
    return {"rows": rows, **last}


def class_test(run: hf.Run) -> dict[str, Any]:
    """Whether richer classes refute the class."""
    check = run.check()
    return {"refuted": check.is_refuted, "by": check.strongest.name, "log_e": check.strongest.log_e}


def price(run: hf.Run, reward: np.ndarray) -> dict[str, Any]:
    """What a declared misspecification costs, in moves, and what TARGET tolerates; None where the data refute it."""
    robustness = run.robustness(target=TARGET, reward=reward / H)
    gaps = [None if np.isnan(gap) else H * float(gap) for gap in robustness.gaps]
    return {
        "zeta": robustness.zeta,
        "low": robustness.zeta_low,
        "zetas": robustness.zetas.tolist(),
        "gaps": gaps,
    }


def certified(run: hf.Run, reward: np.ndarray) -> tuple[dict[str, Any], hf.Plan]:
    """What is proved of the plan, in moves at the flag."""
    plan = run.plan(reward, scale="per-step")
    return {
        "rejected": bool(plan.certificate.is_rejected),
        "gap": plan.gap,
        "low": plan.value_low,
        "high": plan.value_high,
    }, plan


def control(cells: Cells, reward: np.ndarray, looks: list[int]) -> dict[str, Any]:
    """A car that is of the class, an equal mixture of the simulators on cells: there the numbers must be right."""
    truth, rows = problem_on(cells, np.full(4, 0.25)), []
    random = np.full((H, cells.flag + 1, 3), 1 / 3)
    for look in looks:
        run = hf.from_episodes(truth, hf.simulate(truth, random, episodes=look, seed=1), budget=look)
        row, plan = certified(run, reward)
        table = np.broadcast_to(reward, (H, *reward.shape))
        value = planning.evaluate(truth.kernel(), table, plan.policy)[0, truth.start]
        rows.append({**row, "driven": float(value)})
    return {"rows": rows, "check": class_test(run), "price": price(run, reward)}


def report_text(results: dict[str, Any]) -> str:
    """The tables of the page."""
    rows = [
        [name, str(look), round_up(x["gap"]), interval_text(x["low"], x["high"]), f"{x['driven']:.4g}", inside(x)]
        for name, entry in results["cars"].items() for look, x in list(zip(results["looks"], entry["rows"]))[::2]
    ]  # fmt: skip
    titles = ["car", "rides", "suboptimality at most", "95% interval", "true", "inside"]
    rejected = sum(x["rejected"] for entry in results["cars"].values() for x in entry["rows"])
    return "\n\n".join(
        [
            "Moves at the flag, of 41, of the plan made after some random rides, with the kernels taken for exact "
            f"(runs that reject the model class: {rejected}):",
            table(titles, rows),
            f"Tests of the model class after {results['looks'][-1]} rides, its least misspecification, and the "
            f"misspecification at which a suboptimality of {TARGET * H:.1f} moves is still certified:",
            verdicts(results),
        ]
    )


def verdicts(results: dict[str, Any]) -> str:
    """Is the class refuted, and what does it cost that it is wrong."""
    rows = []
    for name, entry in results["cars"].items():
        check, cost = entry["check"], entry["price"]
        by = f"{check['by']}, {power(check['log_e'])}"
        zeta = "none" if cost["zeta"] is None else f"{np.floor(1e4 * cost['zeta']) / 1e4:g}"
        low = f"{np.floor(1e3 * cost['low']) / 1e3:g}"
        finite = [(z, gap) for z, gap in zip(cost["zetas"], cost["gaps"]) if gap is not None and z > 0]
        least = f"{round_up(finite[0][1])} within {finite[0][0]:g}"
        rows.append([name, "yes" if check["refuted"] else "no", by, low, zeta, least])
    titles = ["car", "refuted", "strongest e-value", "misspecification at least", "tolerated"]
    return table([*titles, "suboptimality at most"], rows)


def inside(x: dict[str, Any]) -> str:
    """Whether what was promised is what happened."""
    return "yes" if x["low"] <= x["driven"] <= x["high"] else "**no**"


def draw(results: dict[str, Any]) -> Figure:
    """What was promised after 20, 80, 160 rides, and what the cars did; what a misspecification costs."""
    fig, axes = figure(len(results["cars"]) + 1, 2.8)
    fig.set_size_inches(11.5, 2.8)
    for color, axis, (name, entry) in zip(COLORS, axes, results["cars"].items()):
        places = np.arange(len(results["looks"]))
        low, high, reached = (np.array([x[key] for x in entry["rows"]]) for key in ("low", "high", "driven"))
        axis.vlines(places, low, high, color=color, lw=5, alpha=0.5, label="promised")
        axis.plot(places, reached, "kx", label="truly")
        axis.set_xticks(places, [str(look) for look in results["looks"]])
        axis.set(xlabel="rides", ylim=(0, 24), xlim=(-0.6, len(places) - 0.4), title=name)
        axes[-1].plot(
            entry["price"]["zetas"][1:], np.array(entry["price"]["gaps"][1:], float), ".-", color=color
        )
    axes[0].set(ylabel="moves at the flag")
    axes[0].legend(fontsize=7, frameon=False, loc="lower left")
    axes[-1].set(xlabel="misspecification", ylabel="moves lost at most", title="its price", ylim=(0, 41))
    axes[-1].set(xscale="log", xlim=(7e-5, 0.15))
    axes[-1].set_xticks([1e-4, 1e-3, 1e-2, 1e-1], [".0001", ".001", ".01", ".1"])
    for axis in axes:
        axis.title.set_fontsize(8)
    return fig


if __name__ == "__main__":
    main("car", study, report_text, draw)
