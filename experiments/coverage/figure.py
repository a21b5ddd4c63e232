"""Table and figure from the rows: `python experiments/coverage/figure.py`. Nothing is run again."""

import json
from pathlib import Path

from horizonfree.explorers.registry import label

HERE = Path(__file__).parent
SETS = {
    ("radius", "paper"): "balls, the paper's radius",
    ("claim", "paper"): "the paper's gap",
    ("likelihood", None): "likelihood set",
    ("certificate", None): "certificate",
}


def load(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def kind(row: dict) -> tuple[str, str | None]:
    return row["set"], row.get("constants")


def table(rows: list[dict]) -> str:
    """One line per problem and algorithm."""
    heads = ["problem", "algorithm", *SETS.values(), "radius needed", "smallest scale", "nats needed"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for problem, name in dict.fromkeys((row["problem"], row["algorithm"]) for row in rows):
        rows_by_kind = {
            kind(row): row for row in rows if (row["problem"], row["algorithm"]) == (problem, name)
        }
        cells = [problem, label(name)]
        for which in SETS:
            row = rows_by_kind.get(which)
            cells.append("" if row is None else f"{row['violations']}/{row['seeds']} (<= {row['high']:.2g})")
        paper, scaled = rows_by_kind.get(("radius", "paper")), rows_by_kind.get(("radius", "scaled"))
        cells.append("" if paper is None else f"{paper['needed']:.3f}")
        scale = None if scaled is None else scaled["scale"]
        cells.append("" if scaled is None else "none" if scale is None else f"{scale:.3g}")
        likelihood = rows_by_kind.get(("likelihood", None))
        cells.append("" if likelihood is None else f"{likelihood['needed']:.2f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(rows: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained", sharey=True)
    names = list(dict.fromkeys(row["algorithm"] for row in rows if kind(row) == ("radius", "paper")))
    for problem in dict.fromkeys(row["problem"] for row in rows):
        for axis, which, field in ((left, "paper", "needed"), (right, "scaled", "scale")):
            shares = {
                row["algorithm"]: row[field]
                for row in rows
                if row["problem"] == problem and kind(row) == ("radius", which) and row[field] is not None
            }
            axis.plot(list(shares.values()), [names.index(x) for x in shares], "o", label=problem)
    left.axvline(1.0, color="0.6", linewidth=0.8, linestyle=":")
    left.set_xlabel("share of the paper's radius that was needed")
    right.set_xlabel("smallest scale that covers")
    left.set_xscale("log")
    right.set_xlim(left=0)
    for axis in (left, right):
        axis.set_yticks(range(len(names)), [label(name) for name in names])
        axis.grid(axis="y", linewidth=0.3)
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    stored_rows = load(HERE / "results" / "rows.jsonl")
    print(table(stored_rows))
    draw(stored_rows, HERE / "results" / "figure.svg")
