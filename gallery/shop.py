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
from shared import COLORS, figure, main, table, up

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
QUARTERS = (13, 26, 39, 52, 65)  # weeks after which alternatives are asked


def night(stock: Any, order: Any, demand: Any) -> Any:
    """Stock tomorrow: what is on the shelf when the shop opens, less what is asked for."""
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


def drawn(law: np.ndarray, weeks: int, seed: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Books of a shop whose demand has this law."""
    return books(np.random.default_rng(seed).choice(S, (weeks, DAYS), p=law), seed)


def study(small: bool = False) -> dict[str, Any]:
    """Certificates against the truth, who refutes the class and when, and what can be said then."""
    seen = readings.orders()
    real = np.bincount(seen, minlength=S) / len(seen)
    worlds = {REAL: real, INSIDE: np.array([0.55, 0.45]) @ np.stack(list(poissons().values()))}
    weeks, repeats = ([20], 1) if small else ([65, 260, 1040], 20)
    cases = [(REAL, TWO), (REAL, ANY), (INSIDE, TWO)][: 1 if small else 3]
    believed, half = {TWO: shop(poissons()), ANY: shop()}, len(seen) // 2
    looks = weeks if small else [*QUARTERS]
    ordered = seen[: len(seen) // DAYS * DAYS].reshape(-1, DAYS)
    logs = {world: [drawn(law, looks[-1], seed) for seed in range(repeats)] for world, law in worlds.items()}
    logs[ORDERED] = [books(ordered, seed) for seed in range(repeats)]
    found: dict[str, Any] = {
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
        "looks": looks,
        "checks": {world: checks(believed[TWO], log, looks) for world, log in logs.items()},
    }
    if not small:
        found["any law, in order"] = checks(believed[ANY], logs[ORDERED][:1], looks[-1:])
        found["price"] = price(believed[TWO], real, weeks[-1])
    return found


def row(
    world: str, law: np.ndarray, name: str, problem: hf.Problem, weeks: int, repeats: int
) -> dict[str, Any]:
    """The same shop with so many weeks, several times."""
    table, reward = np.broadcast_to(COST, (H, S, A)), hf.rescale(problem, COST)
    truth = shop(weights=law).kernel()
    best, gaps, losses, rejected = planning.optimal(truth, table).V[0, START], [], [], [0, 0]
    for seed in range(repeats):
        run = hf.from_episodes(problem, drawn(law, weeks, seed), budget=weeks)
        plan = run.plan(reward)
        gaps.append(plan.gap)
        losses.append(float(best - planning.evaluate(truth, table, plan.policy)[0, START]))
        rejected[0] += plan.certificate.is_rejected
        rejected[1] += run.check().is_refuted
    return {
        "world": world, "class": name, "weeks": weeks, "gap": float(np.median(gaps)), "best": float(-best),
        "lost": float(np.median(losses)), "worst": max(losses), "rejected": int(rejected[0]),
        "refuted": int(rejected[1]), "exceeded": int(np.sum(np.array(losses) > np.array(gaps))),
    }  # fmt: skip


def checks(problem: hf.Problem, logs: list[Any], looks: list[int]) -> list[dict[str, Any]]:
    """What alternatives say of a class after so many weeks, for each log: how many refute it, and who most often."""
    found = []
    for look in looks:
        said = [hf.from_episodes(problem, tuple(x[:look] for x in log)).check() for log in logs]
        names = [x.strongest.name for x in said]
        found.append({
            "refuted": sum(x.is_refuted for x in said), "by": max(sorted(set(names)), key=names.count),
            "log_e": float(np.median([x.log_e for x in said])),
            "each": {name: float(log_e) for name, log_e in said[0].alternatives},
        })  # fmt: skip
    return found


def price(problem: hf.Problem, law: np.ndarray, weeks: int) -> dict[str, Any]:
    """How far the real law is from the small class, and what is certified of its plan if that is declared."""
    laws, share = np.stack(list(poissons().values())), np.linspace(0, 1, 10_001)[:, None]
    distance = float(np.abs(share * laws[0] + (1 - share) * laws[1] - law).sum(1).min() / 2)
    run = hf.from_episodes(problem, drawn(law, weeks, 0), budget=weeks)
    reward = hf.rescale(problem, COST)
    zetas = [0.05, math.ceil(100 * distance) / 100]
    plans = [run.plan(reward, misspecification=zeta) for zeta in zetas]
    return {
        "distance": distance, "weeks": weeks, "zetas": zetas, "gaps": [plan.gap for plan in plans],
        "low": plans[0].certificate.parts["zeta_low"],
    }  # fmt: skip


def words(found: dict[str, Any]) -> str:
    """The tables of the page."""
    first, second = found["halves"]
    return "\n\n".join(
        [
            f"{found['days']} days: {found['mean']:.2f} orders a day on average, variance {found['variance']:.1f} "
            f"(a Poisson law would have {found['mean']:.2f}). The best plan costs {found['rows'][0]['best']:.2f} a "
            f"week. Medians and counts of {found['repeats']} repetitions:",
            promised(found),
            "Repetitions in which two Poissons are refuted, and the median of the mean e-value (20 refutes):",
            refuted(found),
            f"Orders a day: {first:.1f} in the first half, {second:.1f} in the second. "
            + after(found["any law, in order"][0], found["price"], found["looks"][-1]),
        ]
    )


def promised(found: dict[str, Any]) -> str:
    """Certified and true loss, and who says that the class is wrong."""
    rows = [
        [x["world"], x["class"], str(x["weeks"]), up(x["gap"]), f"{x['lost']:.3f}",
         *(f"{x[key]}" for key in ("exceeded", "refuted"))] for x in found["rows"]
    ]  # fmt: skip
    titles = ["demand", "class", "weeks", "suboptimality at most", "true", "bound exceeded"]
    return table([*titles, "refuted"], rows)


def refuted(found: dict[str, Any]) -> str:
    """Week by week, who refutes."""
    rows = [
        [world, *(f"{x['refuted']}" for x in looks[1:4]), power(looks[-1]["log_e"]),
         looks[-1]["by"] if looks[-1]["refuted"] else "none"] for world, looks in found["checks"].items()
    ]  # fmt: skip
    last = found["looks"][-1]
    counts = [f"{look} weeks" for look in found["looks"][1:4]]
    return table(["demand", *counts, f"e-value after {last}", f"by, of {found['repeats']} mostly"], rows)


def after(rich: dict[str, Any], price: dict[str, Any], weeks: int) -> str:
    """What is left of the class."""
    change = power(rich["each"]["a change in time"])
    priced = ", ".join(f"{up(gap)} within {zeta:g}" for gap, zeta in zip(price["gaps"], price["zetas"]))
    return (
        f"Any law, on the real days in order, is not refuted after {weeks} weeks (a change in time: e-value "
        f"{change}). Two Poissons with a declared misspecification, {price['weeks']} weeks of days drawn: "
        f"suboptimality at most {priced}. The law of the real days is {price['distance']:.3f} from the nearest mixture "
        f"in total variation; the data prove at least {math.floor(1000 * price['low']) / 1000:.3f}."
    )


def draw(found: dict[str, Any]) -> Figure:
    """Certified and true loss against weeks, for both classes, on real days; the evidence against two Poissons."""
    fig, (left, right) = figure(2)
    for color, name in zip(COLORS, (TWO, ANY)):
        rows = [x for x in found["rows"] if x["world"] == REAL and x["class"] == name]
        weeks, worst = [x["weeks"] for x in rows], [max(x["worst"], 1e-3) for x in rows]
        left.plot(weeks, [x["gap"] for x in rows], "o-", color=color, label=f"{name}: certified")
        left.plot(weeks, worst, "x--", color=color, label=f"{name}: largest true loss")
    left.set(
        xscale="log", yscale="log", xlabel="weeks seen", ylabel="loss (0.001: at most that)", ylim=(5e-4, 900)
    )
    left.set_xticks(weeks, [str(week) for week in weeks])
    left.minorticks_off()
    left.legend(fontsize=7, frameon=False)
    for color, (world, looks) in zip(COLORS, found["checks"].items()):
        evidence = [x["log_e"] / math.log(10) for x in looks]
        right.plot(found["looks"], evidence, "o-", ms=4, color=color, label=world)
    right.axhline(math.log10(20), color="black", lw=0.8, ls="--")
    right.text(found["looks"][0], math.log10(20) + 0.1, "refuted above", fontsize=8)
    right.set(xlabel="weeks seen", ylabel="against two Poissons: e-value, as 10^...")
    right.set_xticks(found["looks"])
    right.legend(fontsize=7, frameon=False)
    return fig


if __name__ == "__main__":
    main("shop", study, words, draw)
