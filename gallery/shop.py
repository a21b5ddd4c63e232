"""A shop that believes in two Poissons: a certificate is as good as its class, and a wrong class need not show.

State: stock, 0 to 32, in the morning. Action: order 0, 3, .. 30, which arrive at once. The unknown is how many orders a
day brings. Two classes: a mixture of two Poisson laws (one unknown), and any law at all (32 unknowns). Weeks are drawn
from the real days, so that the truth is known and what a plan loses can be computed.
"""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import poisson
from shared import COLORS, HERE, figure, main, table, up

import horizonfree as hf
from horizonfree import planning

S, A, H, START = 33, 11, 8, 16  # a week, and the morning after it
MEANS = (5, 12)
COST = np.tile(
    -0.1 * np.arange(S)[:, None] - 3.0 * (np.arange(S) == 0)[:, None], (1, A)
)  # shelf, and sold out
TWO, ANY = "two Poissons", "any law"


def days() -> np.ndarray:
    """Orders a day since the shop has stopped taking on customers."""
    read = np.loadtxt(HERE / "data" / "cdnow_daily.csv", delimiter=",", skiprows=1, dtype=str)
    return read[read[:, 0] >= "1997-03-31", 1].astype(int)


def kernel(law: np.ndarray) -> np.ndarray:
    """Stock tomorrow [S, A, S] if demand has this law."""
    found, (s, a, demand) = np.zeros((S, A, S)), np.indices((S, A, S))
    np.add.at(found, (s, a, np.maximum(stocked(s, a) - demand, 0)), np.broadcast_to(law, (S, A, S)))
    return found


def stocked(stock: np.ndarray, action: np.ndarray) -> np.ndarray:
    """What is on the shelf when the shop opens."""
    return np.minimum(stock + 3 * action, S - 1)


def poissons() -> np.ndarray:
    """The two laws [2, S] of the small class; what exceeds the shelf counts as the largest."""
    laws = poisson.pmf(np.arange(S), np.array(MEANS)[:, None])
    laws[:, -1] += 1 - laws.sum(1)
    return laws


def classes() -> dict[str, hf.Problem]:
    """What the shop may believe."""
    believed = {TWO: poissons(), ANY: np.eye(S)}
    return {
        name: hf.Mixture.from_kernels([kernel(law) for law in laws], horizon=H, start=START)
        for name, laws in believed.items()
    }


def study(small: bool = False) -> dict[str, Any]:
    """How often a plan loses more than is certified: real days, and as a control days inside the small class."""
    seen = days()
    real = np.bincount(seen, minlength=S) / len(seen)
    worlds = {"real days": real, "inside the class": np.array([0.55, 0.45]) @ poissons()}
    weeks, repeats = ([20], 1) if small else ([65, 260, 1040], 20)
    cases = [("real days", TWO), ("real days", ANY), ("inside the class", TWO)][: 1 if small else 3]
    believed, half = classes(), len(seen) // 2
    return {
        "days": len(seen),
        "mean": seen.mean().item(),
        "variance": seen.var().item(),
        "halves": [seen[:half].mean().item(), seen[half:].mean().item()],
        "repeats": repeats,
        "rows": [
            row(world, worlds[world], name, believed[name], k, repeats)
            for world, name in cases
            for k in weeks
        ],
    }


def row(
    world: str, law: np.ndarray, name: str, problem: hf.Problem, weeks: int, repeats: int
) -> dict[str, Any]:
    """The same shop with so many weeks, several times."""
    table, reward = np.broadcast_to(COST, (H, S, A)), hf.rescale(problem, COST)
    truth = hf.Mixture.from_kernels([kernel(law)], horizon=H, start=START, weights=[1.0]).kernel()
    best, gaps, losses, rejected = planning.optimal(truth, table).V[0, START], [], [], 0
    for seed in range(repeats):
        run = hf.from_episodes(problem, drawn(law, weeks, seed), budget=weeks)
        plan = run.plan(reward)
        gaps.append(plan.gap)
        losses.append(float(best - planning.evaluate(truth, table, plan.policy)[0, START]))
        rejected += plan.certificate.is_rejected
    return {
        "world": world, "class": name, "weeks": weeks, "gap": float(np.median(gaps)), "best": float(-best),
        "lost": float(np.median(losses)), "worst": max(losses), "rejected": int(rejected),
        "exceeded": int(np.sum(np.array(losses) > np.array(gaps))),
    }  # fmt: skip


def drawn(law: np.ndarray, weeks: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Weeks of a shop that orders at random: stock [K, H+1] and orders [K, H]."""
    rng = np.random.default_rng(seed)
    stock, orders = np.full((weeks, H + 1), START), rng.integers(0, A, (weeks, H))
    demand = rng.choice(S, (weeks, H), p=law)
    for h in range(H):
        stock[:, h + 1] = np.maximum(stocked(stock[:, h], orders[:, h]) - demand[:, h], 0)
    return stock, orders


def words(found: dict[str, Any]) -> str:
    """The table of the page."""
    rows = [
        [x["world"], x["class"], str(x["weeks"]), up(x["gap"]), f"{x['lost']:.3f}",
         f"{x['exceeded']} of {found['repeats']}", f"{x['rejected']} of {found['repeats']}"] for x in found["rows"]
    ]  # fmt: skip
    titles = [
        "demand",
        "class",
        "weeks",
        "certified loss",
        "true loss",
        "certificate too small",
        "class rejected",
    ]
    first, second = found["halves"]
    return "\n\n".join(
        [
            f"{found['days']} days: {found['mean']:.2f} orders a day on average, variance {found['variance']:.1f} "
            f"(a Poisson law would have {found['mean']:.2f}). The best plan costs {found['rows'][0]['best']:.2f} a "
            f"week. Medians of {found['repeats']} repetitions:",
            table(titles, rows),
            f"In the first half of the days there were {first:.1f} orders a day, in the second {second:.1f}.",
        ]
    )


def draw(found: dict[str, Any]) -> Figure:
    """Certified and true loss against weeks, for both classes, on real days."""
    fig, (axis,) = figure(1)
    for color, name in zip(COLORS, (TWO, ANY)):
        rows = [x for x in found["rows"] if x["world"] == "real days" and x["class"] == name]
        weeks = [x["weeks"] for x in rows]
        axis.plot(weeks, [x["gap"] for x in rows], "o-", color=color, label=f"{name}: certified")
        axis.plot(
            weeks,
            [max(x["worst"], 1e-3) for x in rows],
            "x--",
            color=color,
            label=f"{name}: largest true loss",
        )
    axis.set(
        xscale="log", yscale="log", xlabel="weeks seen", ylabel="loss (0.001: at most that)", ylim=(5e-4, 900)
    )
    axis.legend(fontsize=7, frameon=False)
    return fig


if __name__ == "__main__":
    main("shop", study, words, draw)
