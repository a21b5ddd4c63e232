"""When to replace the engines of a fleet of buses: real odometers, four costs, and what each plan loses at most.

State: miles since the last replacement, in 90 bins of 5,000. Each month: keep or replace. The unknown is how far a bus
drives in a month: +0, +1 or +2 bins, a replaced engine from bin 0. An episode is a bus, 116 months.
"""

from typing import Any

import numpy as np
import readings
from matplotlib.figure import Figure
from shared import COLORS, figure, interval_text, main, round_up, table

import horizonfree as hf
from horizonfree.guarantees.e_processes import power

BINS, MILES, MONTHS = 90, 5_000, 116
KEEP, REPLACE = 0, 1
COSTS = {  # replacement, then what a month costs for every bin, and for every bin beyond 200,000 miles
    "as Rust estimated": (10.07, 0.0023, 0.0),
    "labour four times dearer": (10.07, 0.0092, 0.0),
    "engines at 3": (3.0, 0.0092, 0.0),
    "breakdowns beyond 200,000 miles": (10.07, 0.0, 0.05),
}
RULE = 40  # a rule of thumb: replace at 200,000 miles


def buses() -> tuple[np.ndarray, np.ndarray]:
    """Bins [37, 117] and actions [37, 116] of the buses of 1975, in the order of the file."""
    group = [bus for bus in readings.buses() if bus.group == "a530875"]
    return np.stack([bus.bins for bus in group]), np.stack([bus.replaced for bus in group])


def fleet(weights: Any = None) -> hf.Problem:
    """Known is what a month does to a bus that drives so far; how often it drives so far is not."""

    def month(bin: int, action: int, bins: int) -> int:
        return min((0 if action == REPLACE else bin) + bins, BINS - 1)

    sizes = {"num_states": BINS, "num_actions": 2, "horizon": MONTHS}
    steps = {"+0": 0, "+1": 1, "+2": 2}
    return hf.Mixture.from_noise(month, steps, weights=weights, name="buses", **sizes)


def monthly(replacement: float, per_bin: float, extra: float) -> np.ndarray:
    """The costs of a month [BINS, 2]."""
    bins = np.arange(BINS)
    return np.stack([per_bin * bins + extra * np.maximum(bins - RULE, 0), np.full(BINS, replacement)], axis=1)


def cost_reward(problem: hf.Problem, *parts: float) -> Any:
    """Minus the costs of a month, brought to scale."""
    return hf.rescale(problem, -monthly(*parts))


def study(small: bool = False) -> dict[str, Any]:
    """The plans of 37 buses, the same for fewer, and how often a certificate fails on fleets of a known law."""
    fleet_data = [x[:12] if small else x for x in buses()]
    problem, total = fleet(), len(fleet_data[0])
    order = np.random.default_rng(0).permutation(total)  # drawn without a look at the readings
    states, actions = (x[order] for x in fleet_data)
    rewards = {name: cost_reward(problem, *parts) for name, parts in list(COSTS.items())[: 2 if small else 4]}
    run = hf.from_episodes(
        problem, (states, actions), budget=total
    )  # how many buses there are is known beforehand
    return {
        "buses": total,
        "months": int(actions.size),
        "replaced": int(actions.sum()),
        "weights": run.weights.tolist(),
        "intervals": run.weight_intervals.tolist(),
        "costs": {name: decision(run, reward) for name, reward in rewards.items()},
        "curve": curve(
            problem, rewards, states, actions, [total] if small else [8, 12, 16, 20, 24, 28, 32, 37]
        ),
        "thresholds": thresholds(run.plan(list(rewards.values())[1]).policy),
        "seen": [[int(h), int(states[k, h])] for k, h in np.argwhere(actions == REPLACE)],
        "file_order": hf.from_episodes(problem, tuple(fleet_data), budget=total)
        .plan(list(rewards.values())[1])
        .gap,
        "check": check(run.weights, total, fleets=0 if small else 60),
        "alternatives": class_test(run),
        "driven": driving_statistics(bins_driven(*fleet_data)),
        "replayed": {
            name: replayed(run, reward, COSTS[name], *fleet_data) for name, reward in rewards.items()
        },
        "price": {}
        if small
        else {name: run.plan(reward, misspecification=0.01).gap for name, reward in rewards.items()},
    }


def decision(run: hf.Run, reward: Any) -> dict[str, float]:
    """What a plan costs, what it loses at most, and how much it saves against the rule of thumb."""
    plan, rule = run.plan(reward), (np.arange(BINS) >= RULE).astype(int)
    comparison = run.compare(reward, plan.policy, rule)
    cost, low, high = -plan.value, -plan.value_high, -plan.value_low
    return {
        "cost": cost, "low": low, "high": high, "gap": plan.gap, "percent": 100 * plan.gap / cost,
        "saved_low": comparison.low, "saved_high": comparison.high,
    }  # fmt: skip


def curve(
    problem: hf.Problem,
    rewards: dict[str, Any],
    states: np.ndarray,
    actions: np.ndarray,
    fleet_sizes: list[int],
) -> dict[str, Any]:
    """Certified loss in percent of the plan's cost, against buses seen; the bets are those of the whole fleet."""
    runs = [hf.from_episodes(problem, (states[:k], actions[:k]), budget=len(states)) for k in fleet_sizes]
    plans = {name: [run.plan(reward) for run in runs] for name, reward in rewards.items()}
    return {"seen": fleet_sizes, **{name: [100 * p.gap / -p.value for p in plans[name]] for name in plans}}


def thresholds(policy: np.ndarray) -> list[int]:
    """The smallest bin at which the plan replaces, month by month; 90 where it never does."""
    return [int(np.flatnonzero(row == REPLACE)[0]) if (row == REPLACE).any() else BINS for row in policy]


def check(weights: np.ndarray, total: int, fleets: int) -> dict[str, Any]:
    """Fleets drawn from the estimated law, where the true loss can be computed."""
    problem = fleet(np.maximum(weights, 0) / np.maximum(weights, 0).sum())
    rewards = [cost_reward(problem, *parts) for parts in COSTS.values()]
    rule, num_failed, closest = np.tile(np.arange(BINS) >= 50, (MONTHS, 1)).astype(np.int32), 0, 0.0
    for seed in range(fleets):
        episodes = hf.simulate(problem, rule, episodes=total, seed=seed)
        run = hf.from_episodes(problem, episodes, budget=total)
        for reward in rewards:
            plan = run.plan(reward)
            loss = hf.true_gap(problem, reward, plan.policy)
            num_failed += loss > plan.gap
            closest = max(closest, loss / plan.gap)
    return {"fleets": fleets, "plans": fleets * len(rewards), "failed": int(num_failed), "closest": closest}


def class_test(run: hf.Run) -> dict[str, Any]:
    """Whether richer classes refute the class."""
    check = run.check()
    return {
        "refuted": check.is_refuted,
        "by": check.strongest.name,
        "log_e": check.strongest.log_e,
    }


def bins_driven(bins: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """How many bins each bus went on in each month [buses, MONTHS], whatever was replaced."""
    return np.where(actions == REPLACE, bins[:, 1:], np.diff(bins))


def driving_statistics(bins_per_month: np.ndarray) -> dict[str, float]:
    """Bins a month in both halves, and how often a bus stays in its bin after a month in which it did or did not."""
    stays, half = bins_per_month == 0, MONTHS // 2
    stayed_before, stays_now = stays[:, :-1], stays[:, 1:]
    return {
        "first": float(bins_per_month[:, :half].mean()), "second": float(bins_per_month[:, half:].mean()),
        "stays": float(stays_now[stayed_before].mean()), "moved": float(stays_now[~stayed_before].mean()),
    }  # fmt: skip


def replayed(
    run: hf.Run, reward: Any, parts: tuple[float, ...], bins: np.ndarray, actions: np.ndarray
) -> dict[str, float]:
    """What the plan, the rule of thumb and the best fixed limit would have cost a bus that drove as it did."""
    bins_per_month = bins_driven(bins, actions)
    limits = [at_limit(limit) for limit in range(1, BINS + 1)]
    costs = [
        replayed_cost(policy, monthly(*parts), bins_per_month)
        for policy in (run.plan(reward).policy, *limits)
    ]
    return {"plan": costs[0], "rule": costs[RULE], "best": min(costs[1:])}


def at_limit(limit: int) -> np.ndarray:
    """The policy that replaces from this bin on."""
    return np.tile((np.arange(BINS) >= limit).astype(int), (MONTHS, 1))


def replayed_cost(policy: np.ndarray, month: np.ndarray, bins_per_month: np.ndarray) -> float:
    """The mean cost of a policy for buses with these bins per month [buses, MONTHS]."""
    bin_now, total = np.zeros(len(bins_per_month), int), 0.0
    for h in range(MONTHS):
        action = policy[h, bin_now]
        total += float(month[bin_now, action].mean())
        bin_now = np.minimum(np.where(action == REPLACE, 0, bin_now) + bins_per_month[:, h], BINS - 1)
    return total


def report_text(results: dict[str, Any]) -> str:
    """The tables of the page."""
    low_high = [
        f"{w:.3f} ({low:.3f} to {high:.3f})"
        for w, (low, high) in zip(results["weights"], results["intervals"])
    ]
    rows = [
        [
            name,
            f"{x['cost']:.2f}",
            interval_text(x["low"], x["high"]),
            f"{round_up(x['gap'])}",
            f"{round_up(x['percent'])} %",
            saving_text(x),
        ]
        for name, x in results["costs"].items()
    ]
    drives = results["driven"]
    check, titles = (
        results["check"],
        ["costs", "plan costs", "95% confidence interval", "suboptimality at most", "of its cost"],
    )
    return "\n\n".join(
        [
            f"{results['buses']} buses, {results['months']:,} months, {results['replaced']} replacements. "
            f"Probability of the same bin, the next, or the one after: {', '.join(low_high)} "
            "(simultaneous 95% confidence intervals).",
            table([*titles, "against replacing at 200,000 miles"], rows),
            f"On {check['fleets']} fleets drawn from the estimated law, {check['failed']} of {check['plans']} plans "
            f"exceeded their bound (5 % of the fleets may).",
            f"**But** `run.check()` refutes the model class: {results['alternatives']['by']}, e-value "
            f"{power(results['alternatives']['log_e'])}. A bus stays in its bin in {100 * drives['stays']:.0f} % of "
            f"the months after one in which it stayed, and in {100 * drives['moved']:.0f} % of the others; it drives "
            f"{drives['first']:.2f} bins a month in the first half of the time, {drives['second']:.2f} in the second.",
            "Cost of the policies replayed on the recorded months, and the bound under a misspecification of 0.01:",
            replay_table(results),
        ]
    )


def replay_table(results: dict[str, Any]) -> str:
    """The plans on the real months."""
    rows = [
        [name, interval_text(cost["low"], cost["high"]),
         *(f"{results['replayed'][name][key]:.2f}" for key in ("plan", "rule", "best")),
         round_up(results["price"][name])]
        for name, cost in results["costs"].items()
    ]  # fmt: skip
    titles = ["costs", "plan, 95% interval", "plan, replayed", "at 200,000 miles", "best fixed limit"]
    return table([*titles, "suboptimality at most, within 0.01"], rows)


def saving_text(x: dict[str, float]) -> str:
    """What is proved of the difference to the rule of thumb."""
    saved_interval = interval_text(x["saved_low"], x["saved_high"])
    return f"cheaper by {saved_interval}" if x["saved_low"] > 0 else f"by {saved_interval}: not decided"


def draw(results: dict[str, Any]) -> Figure:
    """Certified loss against buses seen; the plan's thresholds beside what was done."""
    fig, (left, right) = figure(2)
    for color, name in zip(COLORS, results["costs"]):
        left.plot(
            results["curve"]["seen"],
            np.maximum(results["curve"][name], 1e-4),
            "o-",
            ms=3,
            color=color,
            label=name,
        )
    left.axhline(1, color="black", lw=0.8, ls="--")
    left.text(8, 1.1, "1 %", fontsize=8)
    left.set(yscale="log", xlabel="buses seen", ylabel="certified loss, % of the plan's cost")
    left.legend(fontsize=7, frameon=False, loc=(0.38, 0.1))
    months = np.arange(MONTHS)
    limit = np.array(results["thresholds"], float) * MILES / 1000
    right.plot(
        months,
        np.where(limit < BINS * MILES / 1000, limit, np.nan),
        color=COLORS[1],
        drawstyle="steps-mid",
        label="the plan replaces from here on",
    )
    replacements = np.array(results["seen"])
    right.plot(
        replacements[:, 0], replacements[:, 1] * MILES / 1000, "x", color="black", ms=4, label="what was done"
    )
    right.set(
        xlabel="month",
        ylabel="1,000 miles since replacement",
        title="labour four times dearer",
        ylim=(0, 400),
    )
    right.title.set_fontsize(9)
    right.legend(fontsize=7, frameon=False, loc="lower left")
    return fig


if __name__ == "__main__":
    main("buses", study, report_text, draw)
