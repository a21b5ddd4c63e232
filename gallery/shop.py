"""A shop that believes in two Poissons: a certificate is as good as its class, and richer ones may refute it.

State: stock, 0 to 32, in the morning. Action: order 0, 3, .. 30, which arrive at once. The unknown is how many orders a
day brings. Two classes: a mixture of two Poisson laws (one unknown), and any law at all (32 unknowns). Weeks are drawn
from the real days, so that the truth is known and what a plan loses can be computed; then they are taken as they came.
"""

import math
from typing import Any

import numpy as np
import readings
from matplotlib.figure import Figure
from scipy.stats import poisson
from shared import COLORS, figure, main, round_up, table

import horizonfree as hf
from horizonfree import planning
from horizonfree.guarantees.e_processes import power

S, A, H, START, DAYS = 33, 11, 8, 16, 7  # a week, and the morning after it
MEANS = (5, 12)
COST = np.tile(
    -0.1 * np.arange(S)[:, None] - 3.0 * (np.arange(S) == 0)[:, None], (1, A)
)  # shelf, and sold out
TWO, ANY = "two Poissons", "any law"
REAL, INSIDE, ORDERED = "real days, drawn", "inside the class", "real days, in order"
QUARTERS = (13, 26, 39, 52, 65)  # weeks after which the class is tested


def night(stock: Any, order: Any, demand: Any) -> Any:
    """Stock tomorrow: the stock when the shop opens, less the demand."""
    return np.maximum(np.minimum(stock + 3 * order, S - 1) - demand, 0)


def poissons() -> dict[str, np.ndarray]:
    """The two laws [S] of the small class; what exceeds the shelf counts as the largest."""
    laws = poisson.pmf(np.arange(S), np.array(MEANS)[:, None])
    laws[:, -1] += 1 - laws.sum(1)
    return {f"mean {mean}": law for mean, law in zip(MEANS, laws)}


def shop(models: Any = None, weights: Any = None) -> hf.Problem:
    """What the shop may believe: a mixture of these laws of demand or, without, any law."""
    sizes: dict[str, Any] = {"num_states": S, "num_actions": A, "horizon": H, "start": START}
    return hf.Mixture.from_noise(night, range(S), models=models, weights=weights, name="shop", **sizes)


def books(demand: np.ndarray, seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Weeks with this demand [K, 7] of a shop that orders at random: stock, 8 mornings each, and orders."""
    orders = np.random.default_rng([seed, 1]).integers(0, A, demand.shape)
    stock = np.full((len(demand), DAYS + 1), START)
    for day in range(DAYS):
        stock[:, day + 1] = night(stock[:, day], orders[:, day], demand[:, day])
    return list(stock), list(orders)


def sample_log(law: np.ndarray, weeks: int, seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Books of a shop whose demand has this law."""
    return books(np.random.default_rng(seed).choice(S, (weeks, DAYS), p=law), seed)


def study(small: bool = False) -> dict[str, Any]:
    """Certificates against the truth, who refutes the class and when, and what can be said then."""
    demands = readings.orders()
    real = np.bincount(demands, minlength=S) / len(demands)
    systems = {REAL: real, INSIDE: np.array([0.55, 0.45]) @ np.stack(list(poissons().values()))}
    weeks, repeats = ([20], 1) if small else ([65, 260, 1040], 20)
    cases = [(REAL, TWO), (REAL, ANY), (INSIDE, TWO)][: 1 if small else 3]
    problems, half = {TWO: shop(poissons()), ANY: shop()}, len(demands) // 2
    looks = weeks if small else [*QUARTERS]
    weeks_in_order = demands[: len(demands) // DAYS * DAYS].reshape(-1, DAYS)
    logs = {
        system: [sample_log(law, looks[-1], seed) for seed in range(repeats)]
        for system, law in systems.items()
    }
    logs[ORDERED] = [books(weeks_in_order, seed) for seed in range(repeats)]
    results: dict[str, Any] = {
        "days": len(demands),
        "mean": demands.mean().item(),
        "variance": demands.var().item(),
        "halves": [demands[:half].mean().item(), demands[half:].mean().item()],
        "repeats": repeats,
        "rows": [
            row(system, systems[system], name, problems[name], k, repeats)
            for system, name in cases
            for k in weeks
        ],
        "looks": looks,
        "checks": {system: checks(problems[TWO], log, looks) for system, log in logs.items()},
    }
    if not small:
        results["any law, in order"] = checks(problems[ANY], logs[ORDERED][:1], looks[-1:])
        results["price"] = price(problems[TWO], real, weeks[-1])
    return results


def row(
    system: str, law: np.ndarray, name: str, problem: hf.Problem, weeks: int, repeats: int
) -> dict[str, Any]:
    """Bounds, losses and refutations after `weeks` weeks of a system, over repeated samples."""
    table, reward = np.broadcast_to(COST, (H, S, A)), hf.rescale(problem, COST)
    truth = shop(weights=law).kernel()
    best, gaps, losses, num_rejected = planning.optimal(truth, table).V[0, START], [], [], [0, 0]
    for seed in range(repeats):
        run = hf.from_episodes(problem, sample_log(law, weeks, seed), budget=weeks)
        plan = run.plan(reward)
        gaps.append(plan.gap)
        losses.append(float(best - planning.evaluate(truth, table, plan.policy)[0, START]))
        num_rejected[0] += plan.certificate.is_rejected
        num_rejected[1] += run.check().is_refuted
    return {
        "world": system, "class": name, "weeks": weeks, "gap": float(np.median(gaps)), "best": float(-best),
        "lost": float(np.median(losses)), "worst": max(losses), "rejected": int(num_rejected[0]),
        "refuted": int(num_rejected[1]), "exceeded": int(np.sum(np.array(losses) > np.array(gaps))),
    }  # fmt: skip


def checks(problem: hf.Problem, logs: list[Any], looks: list[int]) -> list[dict[str, Any]]:
    """Tests of the class after each number of weeks: how many logs refute it, and by which alternative most often."""
    rows = []
    for look in looks:
        tests = [hf.from_episodes(problem, tuple(x[:look] for x in log)).check() for log in logs]
        names = [x.strongest.name for x in tests]
        rows.append({
            "refuted": sum(x.is_refuted for x in tests), "by": max(sorted(set(names)), key=names.count),
            "log_e": float(np.median([x.log_e for x in tests])),
            "each": {name: float(log_e) for name, log_e in tests[0].alternatives},
        })  # fmt: skip
    return rows


def price(problem: hf.Problem, law: np.ndarray, weeks: int) -> dict[str, Any]:
    """How far the real law is from the small class, and what is certified of its plan if that is declared."""
    laws, share = np.stack(list(poissons().values())), np.linspace(0, 1, 10_001)[:, None]
    distance = float(np.abs(share * laws[0] + (1 - share) * laws[1] - law).sum(1).min() / 2)
    run = hf.from_episodes(problem, sample_log(law, weeks, 0), budget=weeks)
    reward = hf.rescale(problem, COST)
    zetas = [0.05, math.ceil(100 * distance) / 100]
    plans = [run.plan(reward, misspecification=zeta) for zeta in zetas]
    return {
        "distance": distance, "weeks": weeks, "zetas": zetas, "gaps": [plan.gap for plan in plans],
        "low": plans[0].certificate.parts["zeta_low"],
    }  # fmt: skip


def report_text(results: dict[str, Any]) -> str:
    """The tables of the page."""
    first, second = results["halves"]
    return "\n\n".join(
        [
            f"{results['days']} days: {results['mean']:.2f} orders a day on average, variance "
            f"{results['variance']:.1f} (a Poisson law would have {results['mean']:.2f}). The best plan "
            f"costs {results['rows'][0]['best']:.2f} a week. Medians and counts of {results['repeats']} repetitions:",
            bounds_table(results),
            "Repetitions in which two Poissons are refuted, and the median of the mean e-value (20 refutes):",
            refutation_table(results),
            f"Orders a day: {first:.1f} in the first half, {second:.1f} in the second. "
            + episodes_text(results["any law, in order"][0], results["price"], results["looks"][-1]),
        ]
    )


def bounds_table(results: dict[str, Any]) -> str:
    """Certified and true loss, and who says that the class is wrong."""
    rows = [
        [x["world"], x["class"], str(x["weeks"]), round_up(x["gap"]), f"{x['lost']:.3f}",
         *(f"{x[key]}" for key in ("exceeded", "refuted"))] for x in results["rows"]
    ]  # fmt: skip
    titles = ["demand", "class", "weeks", "suboptimality at most", "true", "bound exceeded"]
    return table([*titles, "refuted"], rows)


def refutation_table(results: dict[str, Any]) -> str:
    """Week by week, who refutes."""
    rows = [
        [system, *(f"{x['refuted']}" for x in looks[1:4]), power(looks[-1]["log_e"]),
         looks[-1]["by"] if looks[-1]["refuted"] else "none"] for system, looks in results["checks"].items()
    ]  # fmt: skip
    last = results["looks"][-1]
    counts = [f"{look} weeks" for look in results["looks"][1:4]]
    return table(["demand", *counts, f"e-value after {last}", f"by, of {results['repeats']} mostly"], rows)


def episodes_text(free_class: dict[str, Any], price: dict[str, Any], weeks: int) -> str:
    """What is left of the class."""
    change = power(free_class["each"]["a change in time"])
    robust_gaps = ", ".join(
        f"{round_up(gap)} within {zeta:g}" for gap, zeta in zip(price["gaps"], price["zetas"])
    )
    return (
        f"Any law, on the real days in order, is not refuted after {weeks} weeks (a change in time: e-value "
        f"{change}). Two Poissons with a declared misspecification, {price['weeks']} weeks of days drawn: "
        f"suboptimality at most {robust_gaps}. The law of the real days is {price['distance']:.3f} from the nearest "
        f"mixture in total variation; the data prove at least {math.floor(1000 * price['low']) / 1000:.3f}."
    )


def draw(results: dict[str, Any]) -> Figure:
    """Certified and true loss against weeks, for both classes, on real days; the evidence against two Poissons."""
    fig, (left, right) = figure(2)
    for color, name in zip(COLORS, (TWO, ANY)):
        rows = [x for x in results["rows"] if x["world"] == REAL and x["class"] == name]
        weeks, worst = [x["weeks"] for x in rows], [max(x["worst"], 1e-3) for x in rows]
        left.plot(weeks, [x["gap"] for x in rows], "o-", color=color, label=f"{name}: certified")
        left.plot(weeks, worst, "x--", color=color, label=f"{name}: largest true loss")
    left.set(
        xscale="log", yscale="log", xlabel="weeks seen", ylabel="loss (0.001: at most that)", ylim=(5e-4, 900)
    )
    left.set_xticks(weeks, [str(week) for week in weeks])
    left.minorticks_off()
    left.legend(fontsize=7, frameon=False)
    for color, (system, looks) in zip(COLORS, results["checks"].items()):
        evidence = [x["log_e"] / math.log(10) for x in looks]
        right.plot(results["looks"], evidence, "o-", ms=4, color=color, label=system)
    right.axhline(math.log10(20), color="black", lw=0.8, ls="--")
    right.text(results["looks"][0], math.log10(20) + 0.1, "refuted above", fontsize=8)
    right.set(xlabel="weeks seen", ylabel="against two Poissons: e-value, as 10^...")
    right.set_xticks(results["looks"])
    right.legend(fontsize=7, frameon=False)
    return fig


if __name__ == "__main__":
    main("shop", study, report_text, draw)
