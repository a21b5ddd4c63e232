"""The gambler's problem (Sutton and Barto, section 4.3) with an unknown coin.

State: capital 0 to 100. Action: the stake, at most the capital and what is missing to 100. The coin is the unknown: a
mixture of "always wins" and "always loses". The reward, "have 100 at the end", is named after the games were played.
"""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from shared import COLORS, figure, interval_text, main, round_up, table

import horizonfree as hf

COINS = (0.4, 0.55)
SHOWN = (6, 14, 30, 200)  # games of the rows of the page


def casino(wealth: int, coin: float) -> hf.Problem:
    """Two kernels, win and lose; 0 and `rich` keep what they have. The coin is hidden from everything but the games."""
    capital = np.arange(wealth + 1)[:, None]
    stake = stakes(wealth)
    kernels, (s, a) = np.zeros((2, *stake.shape, wealth + 1)), np.indices(stake.shape)
    kernels[0, s, a, capital + stake] = 1
    kernels[1, s, a, capital - stake] = 1
    return hf.Mixture.from_kernels(
        kernels, horizon=wealth + 1, start=wealth // 2, weights=[coin, 1 - coin], name="gambler"
    )


def stakes(wealth: int) -> np.ndarray:
    """What action a stakes at each capital: a + 1, or as much as makes sense."""
    capital = np.arange(wealth + 1)[:, None]
    return np.minimum(np.arange(1, wealth // 2 + 1), np.minimum(capital, wealth - capital))


def study(small: bool = False) -> dict[str, Any]:
    """Games until the plan is proved to be the best, for a bad and a good coin."""
    wealth, looks = (20, [10, 20]) if small else (100, [6, 10, 14, 18, 22, 26, 30, 40, 60, 100, 200])
    return {
        "rich": wealth,
        "looks": looks,
        "coins": {coin: games(wealth, coin, looks) for coin in COINS[: 1 if small else 2]},
    }


def games(wealth: int, coin: float, looks: list[int]) -> dict[str, Any]:
    """Explore without a reward, and look at the plan now and then."""
    problem = casino(wealth, coin)
    reward, run, rows = hf.goal(problem, wealth), None, []
    for look in looks:
        run = (
            hf.explore(problem, episodes=look, seed=0, progress=False)
            if run is None
            else run.resume(episodes=look - run.episodes, progress=False)
        )
        plan = run.plan(reward)
        low, high = run.weight_intervals[0]
        rows.append(
            {
                "gap": plan.gap,
                "value": plan.value,
                "low": plan.value_low,
                "high": plan.value_high,
                "coin_low": low,
                "coin_high": high,
                "lost": hf.true_gap(problem, reward, plan.policy),
            }
        )
    first = plan.policy[0]
    return {"looks": rows, "stakes": stakes(wealth)[np.arange(wealth + 1), first].tolist()}


def report_text(results: dict[str, Any]) -> str:
    """A table for each coin."""
    parts = []
    for coin, entry in results["coins"].items():
        rows = [
            [str(k), interval_text(x["coin_low"], x["coin_high"]), interval_text(x["low"], x["high"]),
             round_up(x["gap"]), loss_text(x["lost"])] for k, x in zip(results["looks"], entry["looks"]) if k in SHOWN
        ]  # fmt: skip
        titles = [
            "games",
            "the coin is in",
            "the plan wins with probability in",
            "suboptimality at most",
            "true suboptimality",
        ]
        parts.append(f"**A coin that wins with probability {coin}** (hidden)\n\n" + table(titles, rows))
    return "\n\n".join(parts)


def loss_text(x: float) -> str:
    """A true loss, which is nothing to round up."""
    return "0" if x < 1e-9 else f"{x:.1g}"


def draw(results: dict[str, Any]) -> Figure:
    """The certified loss against games; the stakes of the plan."""
    fig, (left, right) = figure(2)
    for color, (coin, entry) in zip(COLORS, results["coins"].items()):
        gaps = np.maximum([x["gap"] for x in entry["looks"]], 1e-4)
        left.plot(results["looks"], gaps, "o-", ms=3, color=color, label=f"coin {coin}")
        right.step(
            range(results["rich"] + 1), entry["stakes"], where="mid", color=color, lw=1, label=f"coin {coin}"
        )
    left.set(
        xscale="log", yscale="log", xlabel="games played", ylabel="certified loss (0.0001: at most that)"
    )
    right.set(xlabel="capital", ylabel="stake of the plan, first step")
    left.legend(fontsize=8, frameon=False)
    right.legend(fontsize=8, frameon=False)
    return fig


if __name__ == "__main__":
    main("gambler", study, report_text, draw)
