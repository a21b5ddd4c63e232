"""The picture of the home page, computed by the library; draws images/overview.svg.

python docs/overview.py
"""

from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
import numpy as np

import horizonfree as hf
from horizonfree.guarantees.certificate import interval, round_up

CELLS = np.arange(64)
GOALS = {
    "in the corner": CELLS == 56,
    "on the right": CELLS % 8 >= 6,
    "in the last row": CELLS // 8 == 7,
}


def draw(path: Path) -> None:
    """Where 300 episodes of exploration went, and three plans with what is certified of them."""
    problem = hf.make("zoned-grid", size=8, zones=4, horizon=20)
    run = hf.explore(problem, episodes=300, seed=0, progress=False)
    visits = run.visits.sum(axis=1) / run.episodes
    panels = [("Explore once,\nwithout a reward", visits, None, f"{run.episodes} episodes, 64 cells")]
    for name, cells in GOALS.items():
        reward = np.zeros((problem.horizon, 64, 4))
        reward[-1, cells] = 1
        plan = run.plan(reward)
        said = (
            f"value {plan.value:.2f} in {interval(plan.value_low, plan.value_high)}\n"
            f"suboptimality at most {round_up(plan.gap, finest=0.001):.3f}"
        )
        panels.append((f"Then plan:\nend {name}", plan.occupancy.sum(axis=0), cells, said))
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "horizonfree", "font.family": "sans-serif"})
    figure, axes = plt.subplots(1, 4, figsize=(10, 3.3), layout="constrained")
    for axis, (title, shares, goal, said) in zip(axes, panels, strict=True):
        axis.pcolormesh(np.sqrt(shares.reshape(8, 8)), cmap="Blues", edgecolors="white", linewidth=0.5)
        axis.plot(0.5, 0.5, "o", color="black", markersize=4)
        if goal is not None:
            axis.plot(CELLS[goal] % 8 + 0.5, CELLS[goal] // 8 + 0.5, "*", color="#d1570a", markersize=7)
        axis.set(aspect="equal", xticks=[], yticks=[])
        axis.invert_yaxis()
        axis.set_title(title, fontsize=11)
        axis.set_xlabel(said, fontsize=10)
        axis.spines[:].set_visible(False)
    figure.savefig(path, facecolor="white", metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(__file__).parent / "images" / "overview.svg")
