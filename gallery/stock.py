"""A stock whose service level is certified: as little on the shelf as possible, and on 95 % of the mornings something.

State: stock, 0 to 12, in the morning. Action: how much to order, 0 to 4, which arrives before the shop opens. Nobody
knows the law of the demand, any law on 0 to 5. The log is that of a shop that orders at random.
"""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from shared import COLORS, figure, interval_text, main, round_up, table

import horizonfree as hf
from horizonfree.planning.induction import policy_values

S, A, H, START = 13, 5, 10, 6
DEMAND = np.array([0.1, 0.2, 0.3, 0.2, 0.15, 0.05])
LEVEL = 0.95


def night(stock: Any, order: Any, demand: Any) -> Any:
    """Stock tomorrow."""
    return np.maximum(np.minimum(stock + order, S - 1) - demand, 0)


def shop() -> hf.Problem:
    """How stock moves is known, the law of demand is not."""
    sizes: dict[str, Any] = {"num_states": S, "num_actions": A, "horizon": H, "start": START}
    return hf.Mixture.from_noise(night, range(len(DEMAND)), weights=DEMAND, name="stock", **sizes)


SHELF = -np.arange(S) / 1.0  # a unit for each item on the shelf each morning
OPEN = (np.arange(S) > 0) / H  # the share of mornings with something to sell


def study(small: bool = False) -> dict[str, Any]:
    """Plans with and without the service level, what they truly do, and how often the shelf is empty."""
    problem, rows = shop(), []
    uniform_policy = np.full((H, S, A), 1 / A)
    for look in [30, 120] if small else [30, 120, 480, 1920]:
        run = hf.from_episodes(problem, hf.simulate(problem, uniform_policy, episodes=look, seed=0))
        plan = run.plan(SHELF, scale="rescale", constraints=[hf.at_least(OPEN, LEVEL)])
        service, cost = truth(problem, plan.policy)
        risk = run.risk(-(np.arange(S) == 0).astype(float), plan.policy)
        empty = risk.probability(-1.0)
        rows.append(
            {
                "weeks": look,
                "status": plan.status,
                "service": [plan.constraints[0].low, plan.constraints[0].high],
                "true_service": service,
                "cost": [-plan.value_high, -plan.value_low],
                "true_cost": cost,
                "gap": plan.gap,
                "forecast": plan.certificate.forecast,
                "at most one": [empty.low, empty.high],
            }
        )
    cost_plan = run.plan(SHELF, scale="rescale")
    curve = run.pareto(SHELF, -OPEN, points=5 if small else 14, scale="rescale")
    levels = np.linspace(0.6, 0.99, 40)
    band = [[None if not np.isfinite(x) else -x for x in curve.at(-float(level))] for level in levels]
    free = np.eye(A)[cost_plan.policy]
    return {"rows": rows, "free": truth(problem, free), "levels": levels.tolist(), "band": band}


def truth(problem: hf.Problem, policy: np.ndarray) -> list[float]:
    """The true service level, and the true mean number of items on the shelf, summed over the mornings."""
    kernel = problem.kernel()
    values = []
    for payment in (OPEN, -SHELF):
        reward = np.broadcast_to(payment[:, None], (H, S, A))
        values.append(float(policy_values(kernel, reward, policy)[0, START]))
    return values


def report_text(results: dict[str, Any]) -> str:
    """The tables of the page."""
    rows = [
        (
            str(x["weeks"]),
            x["status"],
            interval_text(*x["service"]),
            f"{x['true_service']:.3f}",
            interval_text(*x["cost"]),
            f"{x['true_cost']:.1f}",
            round_up(x["gap"]),
            interval_text(*x["at most one"]),
        )
        for x in results["rows"]
    ]
    titles = (
        "episodes of ten days",
        "certified",
        "service level, certified",
        "true",
        "items on the shelf, certified",
        "true",
        "suboptimality at most",
        "probability of at most one empty morning, certified",
    )
    ahead = next((x["forecast"] for x in results["rows"] if x["status"] == "undecided"), "")
    note = f" After {results['rows'][0]['weeks']} episodes: {ahead}." if ahead else ""
    return (
        table(titles, rows)
        + f"\n\nWithout the service level the plan keeps {results['free'][1]:.1f} items and has something to sell on "
        f"{results['free'][0]:.0%} of the mornings.{note}"
    )


def draw(results: dict[str, Any]) -> Figure:
    """What service costs, with its band; certified service after more and more episodes."""
    fig, (left, right) = figure(2)
    band = np.array(results["band"], dtype=float)
    left.fill_between(results["levels"], band[:, 1], band[:, 2], color=COLORS[0], alpha=0.2, linewidth=0)
    left.plot(results["levels"], band[:, 0], color=COLORS[0])
    left.axvline(LEVEL, color=COLORS[1], linewidth=1, linestyle=":")
    left.set_xlabel("service level")
    left.set_ylabel("items on the shelf, ten mornings")
    left.set_title("what service costs, with its certified band", fontsize=10)
    weeks = [x["weeks"] for x in results["rows"]]
    low, high = np.array([x["service"] for x in results["rows"]]).T
    right.fill_between(weeks, low, high, color=COLORS[0], alpha=0.2, linewidth=0)
    right.plot(
        weeks, [x["true_service"] for x in results["rows"]], "o-", color=COLORS[2], markersize=4, label="true"
    )
    right.axhline(LEVEL, color=COLORS[1], linewidth=1, linestyle=":", label="asked for")
    right.set_xscale("log")
    right.set_xlabel("episodes of ten days")
    right.set_ylabel("service level of the plan")
    right.legend(frameon=False, fontsize=8)
    right.set_title("certified interval", fontsize=10)
    return fig


if __name__ == "__main__":
    main("stock", study, report_text, draw)
