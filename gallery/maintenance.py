"""A maintenance log with gaps: from a raw CSV to a decision in four commands.

The log is simulated, so that the truth is known: 400 machines for 30 to 60 weeks, 20 named states (wear, under a light
or a heavy load), 4 orders. Rows are lost, states and orders are blank. Two rules are compared: the one in use repairs
late, the new one early.
"""

import csv
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from shared import COLORS, figure, main

import horizonfree as hf
from horizonfree.cli.array_files import read_policy, read_reward

LOADS, WEAR = ("light", "heavy"), 10  # wear 0 to 8, and 9: failed
STATES = [f"{load}-{'failed' if w == WEAR - 1 else w}" for load in LOADS for w in range(WEAR)]
ACTIONS = ["run", "inspect", "repair", "replace"]
ORDER_COST = {"run": 0, "inspect": 1, "repair": 5, "replace": 14}
FAILED, WEEKLY = 20, 0.4  # costs of a failed machine and of wear, a week
HORIZON, START = 26, "light-0"
RULES = {"today": 8, "new": 5}  # wear from which on a machine is repaired; a failed one is replaced
LOST, BLANK = 0.01, 0.015  # shares of rows that are missing, of states and of orders that are blank
COLUMNS = {"episode": "machine", "step": "week", "state": "status", "action": "order"}
OPTIONS = "--columns episode=machine,step=week,state=status,action=order --missing drop --start light-0 --horizon 26"
COMMANDS = (
    f"certify --log machines.csv {OPTIONS} --out runs/machines",
    f"audit machines.csv {OPTIONS} --policy new.csv --incumbent today.csv --cost cost.csv",
    "plan runs/machines --cost cost.csv --compare new.csv --out plan.csv",
    "report runs/machines --cost cost.csv --policy today.csv",
)
MORE = (400, 2_000, 10_000, 50_000)  # machines, for half a year each


def kernel() -> np.ndarray:
    """The true transition probabilities [20, 4, 20]."""
    P = np.zeros((2 * WEAR, 4, 2 * WEAR))
    steps = {
        (0, 0): (0.60, 0.32, 0.08),
        (1, 0): (0.45, 0.40, 0.15),
        (0, 1): (0.80, 0.18, 0.02),
        (1, 1): (0.70, 0.26, 0.04),
    }
    for load in range(2):
        for w in range(WEAR):
            for a in range(4):
                next_wear = np.zeros(WEAR)
                if a == 3:
                    next_wear[0] = 1.0
                elif a == 2:
                    for less, p in ((1, 0.2), (2, 0.5), (3, 0.3)):
                        next_wear[max(0, min(w, WEAR - 2) - less)] += p
                elif w == WEAR - 1:
                    next_wear[w] = 1.0
                else:
                    fails = max(0, w - 5) * (0.06 if a == 0 else 0.03)
                    for added_wear, p in enumerate(steps[load, a]):
                        next_wear[min(w + added_wear, WEAR - 1)] += (1 - fails) * p
                    next_wear[WEAR - 1] += fails
                P[load * WEAR + w, a, load * WEAR : (load + 1) * WEAR] = 0.9 * next_wear
                P[load * WEAR + w, a, (1 - load) * WEAR : (2 - load) * WEAR] = 0.1 * next_wear
    return P


def crews() -> np.ndarray:
    """What the crews of the log do [20, 4]: mostly what is sensible."""
    by_wear = [(0.85, 0.08, 0.05, 0.02)] * 4 + [(0.60, 0.15, 0.18, 0.07)] * 2 + [(0.35, 0.10, 0.30, 0.25)] * 3
    return np.array([*by_wear, (0.0, 0.0, 0.3, 0.7)] * 2)


def rule(threshold: int) -> list[str]:
    """The order of a rule in every state."""
    wear = [*range(WEAR)] * 2
    return ["replace" if w == WEAR - 1 else "repair" if w >= threshold else "run" for w in wear]


def costs() -> np.ndarray:
    """The cost of a week [20, 4]."""
    wear = np.tile(np.arange(WEAR), 2)
    state = np.where(wear == WEAR - 1, FAILED, WEEKLY * wear)
    return state[:, None] + np.array(list(ORDER_COST.values()))


def write_files(folder: Path, machines: int) -> None:
    """The log, the costs and both rules, as an analyst would get them."""
    rng, P, crew = np.random.default_rng(0), kernel(), crews()
    rows = []
    for m in range(machines):
        s, first = 0, date(2023, 1, 2) + timedelta(weeks=int(rng.integers(0, 40)))
        for week in range(int(rng.integers(30, 61))):
            a = int(rng.choice(4, p=crew[s]))
            status, order, u = STATES[s], ACTIONS[a], rng.random()
            status = "" if LOST < u < LOST + BLANK and week else status
            order = "" if LOST + BLANK < u < LOST + 2 * BLANK else order
            if u > LOST or not week:
                rows.append((f"M{m:03d}", (first + timedelta(weeks=week)).isoformat(), status, order))
            s = int(rng.choice(2 * WEAR, p=P[s, a]))
    rng.shuffle(rows)
    tables = {
        "machines.csv": [("machine", "week", "status", "order"), *rows],
        "cost.csv": [("state", *ACTIONS), *((s, *map(float, row)) for s, row in zip(STATES, costs()))],
    }
    for name, threshold in RULES.items():
        tables[f"{name}.csv"] = [("state", "action"), *zip(STATES, rule(threshold))]
    for name, table in tables.items():
        with (folder / name).open("w", newline="") as file:
            csv.writer(file).writerows(table)


@contextmanager
def example_folder(machines: int) -> Iterator[Path]:
    """A folder with the files."""
    with tempfile.TemporaryDirectory() as name:
        write_files(Path(name), machines)
        yield Path(name)


def study(small: bool = False) -> dict[str, Any]:
    """What the four commands print, the same in numbers, and the truth."""
    with example_folder(60 if small else 400) as folder:
        run = hf.from_log(
            folder / "machines.csv", columns=COLUMNS, missing="drop", start=START, horizon=HORIZON
        )
        reward = -read_reward(folder / "cost.csv", run.problem, "cost")
        rules = {name: read_policy(folder / f"{name}.csv", run.problem) for name in RULES}
        audit = hf.audit(run, reward, rules["new"], rules["today"])
        plan = run.plan(reward, scale="rescale")
        names = run.problem.layout["states"]
        truth = hf.Tabular.from_table(kernel(), horizon=HORIZON, start=0)
        policies = {name: read_policy(folder / f"{name}.csv", name_states(truth)) for name in RULES}
        action_table = np.zeros((HORIZON, len(STATES)), int)
        orders = [ACTIONS.index(x) for x in run.problem.layout["actions"]]
        action_table[:, [STATES.index(x) for x in names]] = np.array(orders)[plan.policy]
        policies["plan"] = action_table
        results = {
            "machines": run.episodes,
            "notes": run.problem.layout["log"]["notes"],
            "audit": {
                key: x
                for key, x in audit.to_dict(is_cost=True).items()
                if key in ("new", "incumbent", "difference")
            },
            "plan": {
                "gap": plan.gap,
                "likely_gap": plan.credible_gap(),
                "likely": sorted(-x for x in plan.credible_interval()),
            },
            "true": {name: true_cost(truth, policy) for name, policy in policies.items()},
            "optimal": -float(
                hf.planning.optimal(truth.kernel(), np.tile(-costs(), (HORIZON, 1, 1))).V[0, 0]
            ),
        }
        if not small:
            results["power"] = powers(run, reward, rules)
            results["outputs"] = [output(command, folder) for command in COMMANDS]
    return results


def name_states(problem: hf.Problem) -> hf.Problem:
    """A problem with the names of states and actions."""

    return problem._replace(layout={"states": STATES, "actions": ACTIONS})


def true_cost(problem: hf.Problem, policy: np.ndarray) -> float:
    """The true cost of half a year under a policy [H, S] or [S]."""
    table = np.broadcast_to(policy, (HORIZON, len(STATES)))
    V = hf.planning.evaluate(
        problem.kernel(), np.tile(-costs(), (HORIZON, 1, 1)), np.ascontiguousarray(table, np.int32)
    )
    return -float(V[0, 0])


def powers(run: hf.Run, reward: np.ndarray, rules: dict[str, np.ndarray]) -> dict[str, Any]:
    """How probably the difference of both rules is proved with the data of more machines."""
    settings: dict[str, Any] = {"policy": rules["new"], "incumbent": rules["today"], "scale": "rescale"}
    power = run.power(reward, episodes=MORE, draws=20, **settings)
    return {"machines": list(MORE), "probability": power.probability.tolist(), "half": power.needed(0.5)}


def output(command: str, folder: Path) -> str:
    """What a command prints."""
    environment = os.environ | {"COLUMNS": "110", "TERM": "dumb"}
    line = [sys.executable, "-m", "horizonfree", *command.split()]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return "\n".join(x.rstrip() for x in done.stdout.strip().splitlines())


def report_text(results: dict[str, Any]) -> str:
    """The commands, what the audit prints, and the truth."""
    commands = "\n".join(f"$ horizonfree {command}" for command in COMMANDS)
    parts = [
        f"```console\n{commands}\n```",
        f"The second one, `audit`, prints\n\n```text\n{results['outputs'][1]}\n```",
    ]
    true, plan = results["true"], results["plan"]
    power = results["power"]
    curve = ", ".join(f"{p:.0%} after {K:,}" for K, p in zip(power["machines"], power["probability"]))
    parts.append(
        f"**The truth** of the simulated log: half a year costs {true['today']:.1f} under today's rule, "
        f"{true['new']:.1f} under the new one and {true['plan']:.1f} under the plan; the best policy costs "
        f"{results['optimal']:.1f}. The plan loses {true['plan'] - results['optimal']:.1f}; likely was at most "
        f"{plan['likely_gap']:.1f} (probability 0.95), proved at most {plan['gap']:.0f}.\n\n"
        "**How much more data for a proof?** The probability that the new rule is *proved* to be better with the "
        f"records of more machines, half a year each, recorded as before (`run.power`, 20 draws): {curve}."
    )
    return "\n\n".join(parts)


def draw(results: dict[str, Any]) -> Figure:
    """Proved and likely costs of both rules beside the truth; and the power of more data."""
    fig, (axis, curve) = figure(2, 3.2)
    entries = {"today": results["audit"]["incumbent"], "new": results["audit"]["new"]}
    for y, (name, entry) in enumerate(entries.items()):
        axis.plot(entry["interval"], [y, y], color=COLORS[0], lw=2, label="proved, 95%" if not y else None)
        axis.plot(entry["likely"], [y, y], color=COLORS[1], lw=6, label="likely, 95%" if not y else None)
        axis.plot(results["true"][name], y, "k|", ms=18, label="truth" if not y else None)
    axis.set(
        yticks=[0, 1],
        yticklabels=["today's rule", "new rule"],
        ylim=(-0.5, 1.5),
        xlabel="cost of half a year",
    )
    axis.legend(frameon=False, fontsize=8)
    power = results.get("power", {"machines": [1], "probability": [0.0]})
    curve.plot(power["machines"], power["probability"], "o-", color=COLORS[2])
    curve.set(xscale="log", ylim=(-0.05, 1.05), xlabel="more machines", ylabel="probability of a proof")
    return fig


if __name__ == "__main__":
    main("maintenance", study, report_text, draw)
