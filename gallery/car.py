"""From simulators to a car: four simulators of MountainCar disagree about gravity and engine, and a real one is driven.

State: 24 x 16 cells of position and speed, and the flag. Action: push left, nothing, push right, for five frames. The
class is all mixtures of four simulators, each a kernel counted from samples within the cells and blurred a little. The
real car has numbers of its own and moves on the line, not on cells: it is not of the class, only near it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from shared import COLORS, between, figure, main, table, up

import horizonfree as hf
from horizonfree import planning

LEFT, RIGHT, SPEED, FLAG = -1.2, 0.6, 0.07, 0.5  # of the track; Gymnasium's numbers
SIMULATORS = [(gravity, force) for gravity in (0.002, 0.003) for force in (0.0008, 0.0012)]
CARS = {
    "in the middle": (0.0025, 0.001),
    "like the weakest simulator": (0.003, 0.0008),
    "weaker than any simulator": (0.0032, 0.0007),
}
FRAMES, H = 5, 41


def drive(
    x: np.ndarray, v: np.ndarray, push: np.ndarray, gravity: float, force: float
) -> tuple[np.ndarray, np.ndarray]:
    """Five frames of Gymnasium's MountainCar; at the flag it stays."""
    for _ in range(FRAMES):
        faster = np.clip(v + (push - 1) * force - np.cos(3 * x) * gravity, -SPEED, SPEED)
        further = np.clip(x + faster, LEFT, RIGHT)
        faster = np.where((further <= LEFT) & (faster < 0), 0, faster)
        x, v = np.where(x >= FLAG, x, further), np.where(x >= FLAG, v, faster)
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

    def of(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The state of each position and speed."""
        i = np.clip(((x - LEFT) / (RIGHT - LEFT) * self.across).astype(int), 0, self.across - 1)
        j = np.clip(((v + SPEED) / (2 * SPEED) * self.up).astype(int), 0, self.up - 1)
        return np.where(x >= FLAG, self.flag, i * self.up + j)

    def kernel(self, gravity: float, force: float, samples: int = 400) -> np.ndarray:
        """Where a simulator leads from points drawn in every cell [S, 3, S]."""
        rng, s = np.random.default_rng(0), np.arange(self.flag)[:, None]
        found = np.zeros((self.flag + 1, 3, self.flag + 1))
        found[self.flag, :, self.flag] = 1
        for push in range(3):
            x = LEFT + (RIGHT - LEFT) * (s // self.up + rng.random((self.flag, samples))) / self.across
            v = -SPEED + 2 * SPEED * (s % self.up + rng.random((self.flag, samples))) / self.up
            to = self.of(*drive(x, v, np.asarray(push), gravity, force))
            np.add.at(found, (np.repeat(s, samples), push, to.ravel()), 1 / samples)
        return found

    def blur(self, kernel: np.ndarray) -> np.ndarray:
        """The same, to a cell or one of its eight neighbours."""
        s, near = np.arange(self.flag), np.zeros((self.flag + 1, self.flag + 1))
        near[self.flag, self.flag] = 1
        for di, dj in np.ndindex(3, 3):
            i, j = (
                np.clip(s // self.up + di - 1, 0, self.across - 1),
                np.clip(s % self.up + dj - 1, 0, self.up - 1),
            )
            near[s, i * self.up + j] += 1 / 9
        return kernel @ near


def problem_on(cells: Cells, weights: Any = None) -> hf.Problem:
    """Mixtures of the simulators; two moves in a hundred are blurred, so that no neighbour is impossible."""
    kernels = [cells.kernel(*numbers) for numbers in SIMULATORS]
    blurred = cells.blur(np.mean(kernels, axis=0))
    start = int(cells.of(np.array(-0.5), np.array(0.0)))
    kernels = [0.98 * kernel + 0.02 * blurred for kernel in kernels]
    return hf.Mixture.from_kernels(kernels, horizon=H, start=start, weights=weights)


def ride(cells: Cells, car: tuple[float, float], actions: Any, rides: int) -> tuple[np.ndarray, np.ndarray]:
    """Rides of the real car: states [K, H+1] and pushes [K, H]; actions(h, states) are taken."""
    x, v = np.full(rides, -0.5), np.zeros(rides)
    states, taken = np.zeros((rides, H + 1), int), np.zeros((rides, H), int)
    states[:, 0] = cells.of(x, v)
    for h in range(H):
        taken[:, h] = actions(h, states[:, h])
        x, v = drive(x, v, taken[:, h], *car)
        states[:, h + 1] = cells.of(x, v)
    return states, taken


def study(small: bool = False) -> dict[str, Any]:
    """Random rides of each car, and the plan "be at the flag for as many moves as possible" on the car itself."""
    cells, looks = (Cells(12, 8), [20]) if small else (Cells(24, 16), [20, 80, 160])
    cars = dict(list(CARS.items())[:1]) if small else CARS
    problem = problem_on(cells)
    reward = np.zeros((cells.flag + 1, 3))
    reward[cells.flag] = 1
    equal = problem_on(cells, np.full(4, 0.25)).kernel()
    blind = planning.optimal(equal, np.broadcast_to(reward, (H, *reward.shape))).policy
    found = {
        name: {"blind": at_flag(cells, car, blind), "rows": tried(cells, problem, car, reward, looks)}
        for name, car in cars.items()
    }
    if not small:
        value = float(
            planning.optimal(equal, np.broadcast_to(reward, (H, *reward.shape))).V[0, problem.start]
        )
        found = {"of the class": {"blind": value, "rows": control(cells, reward, looks)}, **found}
    return {"looks": looks, "cars": found}


def at_flag(cells: Cells, car: tuple[float, float], policy: np.ndarray) -> int:
    """How many of the moves of one ride the real car is at the flag."""
    states, _ = ride(cells, car, lambda h, s: policy[h, s], 1)
    return int((states[0, :H] == cells.flag).sum())


def tried(
    cells: Cells, problem: hf.Problem, car: tuple[float, float], reward: np.ndarray, looks: list[int]
) -> Any:
    """One car: what is certified after so many rides, and what the plan then does on the car."""
    rng = np.random.default_rng(1)
    states, taken = ride(cells, car, lambda h, s: rng.integers(0, 3, len(s)), max(looks))
    found = []
    for look in looks:
        run = hf.from_episodes(problem, (states[:look], taken[:look]), budget=look)
        said, plan = certified(run, reward)
        found.append({**said, "driven": at_flag(cells, car, plan.policy)})
    return found


def certified(run: hf.Run, reward: np.ndarray) -> tuple[dict[str, Any], hf.Plan]:
    """What is proved of the plan, in moves at the flag."""
    plan = run.plan(reward, scale="per-step")
    return {
        "rejected": bool(plan.certificate.is_rejected),
        "gap": plan.gap,
        "low": plan.value_low,
        "high": plan.value_high,
    }, plan


def control(cells: Cells, reward: np.ndarray, looks: list[int]) -> Any:
    """A car that is of the class, an equal mixture of the simulators on cells: there the numbers must be right."""
    truth, found = problem_on(cells, np.full(4, 0.25)), []
    random = np.full((H, cells.flag + 1, 3), 1 / 3)
    for look in looks:
        run = hf.from_episodes(truth, hf.simulate(truth, random, episodes=look, seed=1), budget=look)
        said, plan = certified(run, reward)
        table = np.broadcast_to(reward, (H, *reward.shape))
        value = planning.evaluate(truth.kernel(), table, plan.policy)[0, truth.start]
        found.append({**said, "driven": float(value)})
    return found


def words(found: dict[str, Any]) -> str:
    """The table of the page."""
    rows = [
        [name, str(look), up(x["gap"]), between(x["low"], x["high"]), f"{x['driven']:.4g}", inside(x),
         "yes" if x["rejected"] else "no"]
        for name, one in found["cars"].items() for look, x in zip(found["looks"], one["rows"])
    ]  # fmt: skip
    titles = ["car", "rides", "loses at most", "promised", "truly", "kept", "class rejected"]
    blind = [f"{one['blind']:.4g} ({name})" for name, one in found["cars"].items()]
    return "\n\n".join(
        [
            "Moves at the flag, of 41, for the plan made after so many random rides:",
            table(titles, rows),
            "A plan for an equal mixture of the simulators, made without any ride: " + ", ".join(blind) + ".",
        ]
    )


def inside(x: dict[str, Any]) -> str:
    """Whether what was promised is what happened."""
    return "yes" if x["low"] <= x["driven"] <= x["high"] else "**no**"


def draw(found: dict[str, Any]) -> Figure:
    """What was promised after 20, 80, 160 rides, and what the cars did."""
    fig, axes = figure(len(found["cars"]), 2.8)
    fig.set_size_inches(9, 2.8)
    for color, axis, (name, one) in zip(COLORS, axes, found["cars"].items()):
        places = np.arange(len(found["looks"]))
        low, high, driven = (np.array([x[key] for x in one["rows"]]) for key in ("low", "high", "driven"))
        axis.vlines(places, low, high, color=color, lw=5, alpha=0.5, label="promised")
        axis.plot(places, driven, "kx", label="truly")
        axis.set_xticks(places, [str(look) for look in found["looks"]])
        axis.set(xlabel="rides", ylim=(0, 24), xlim=(-0.6, len(places) - 0.4), title=name)
        axis.title.set_fontsize(8)
    axes[0].set(ylabel="moves at the flag")
    axes[0].legend(fontsize=7, frameon=False, loc="lower left")
    return fig


if __name__ == "__main__":
    main("car", study, words, draw)
