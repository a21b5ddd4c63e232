"""Table and figure from the rows: `python experiments/robustness/figure.py`. Nothing is run again."""

import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
COLUMNS = {
    "eps": "every reward",
    "floor": "floor",
    "goal_median": "goals, median",
    "goal_largest": "goals, largest",
    "worst_median": "worst system, median",
    "worst_largest": "worst system, largest",
    "zeta_low": "zeta_low",
    "plain_eps": "plain",
}


def load(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def groups(rows: list[dict]) -> dict[tuple, list[dict]]:
    """The rows of each problem, number of episodes and zeta, in this order."""
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    groups_by_key: dict[tuple, list[dict]] = {}
    for row in sorted(rows, key=lambda x: (problems.index(x["problem"]), x["episodes"], x["zeta"])):
        groups_by_key.setdefault((row["problem"], row["episodes"], row["zeta"]), []).append(row)
    return groups_by_key


def median(rows: list[dict], name: str) -> float:
    return float(np.median([row[name] for row in rows]))


def table(rows: list[dict]) -> str:
    """Medians over the seeds; violations of all of them together."""
    heads = [
        "problem",
        "episodes",
        "zeta",
        *COLUMNS.values(),
        "goals exceeded",
        "plain: goals exceeded, rejected",
    ]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for (problem, episodes, zeta), group in groups(rows).items():
        cells = [problem, f"{episodes:,}", f"{zeta:g}", *(f"{median(group, x):.4f}" for x in COLUMNS)]
        goals = 16 * len(group)
        cells.append(f"{sum(x['violations'] for x in group)}/{goals}")
        num_rejected = sum(x["plain_rejected"] for x in group)
        cells.append(f"{sum(x['plain_violations'] for x in group)}/{goals}, {num_rejected}/{len(group)}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(rows: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    longest = [row for row in rows if row["episodes"] == 10_000]
    problems = list(dict.fromkeys(row["problem"] for row in longest))
    figure, axes = plt.subplots(
        1, len(problems), figsize=(2.6 * len(problems), 3.2), sharey=True, layout="constrained"
    )
    for axis, problem in zip(np.atleast_1d(axes), problems):
        groups_by_zeta = {key[2]: group for key, group in groups(longest).items() if key[0] == problem}
        zetas = list(groups_by_zeta)
        for name, style in {"eps": "-o", "floor": ":", "goal_largest": "-s", "worst_largest": "--"}.items():
            axis.plot(
                zetas,
                [median(groups_by_zeta[zeta], name) for zeta in zetas],
                style,
                label=COLUMNS[name],
                markersize=4,
            )
        axis.set_xscale("symlog", linthresh=1e-3)
        axis.set(title=problem, xlabel="zeta", ylim=(0, 1.05))
        axis.set_xticks([0, 0.001, 0.003, 0.01, 0.03], ["0", ".001", ".003", ".01", ".03"])
        axis.grid(linewidth=0.3)
    figure.legend(
        *np.atleast_1d(axes)[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=4,
        frameon=False,
    )
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    stored_rows = load(HERE / "results" / "rows.jsonl")
    print(table(stored_rows))
    draw(stored_rows, HERE / "results" / "figure.svg")
