"""Tables and the figure of the README from the rows: `python experiments/linear_mdp/figure.py`."""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "shared"))

from shared import chosen, load, median, values

KINDS = ("goals", "sets", "dense", "linear")
NAMES = {
    "lock": "linear-lock (S = 80, d = 8, H = 10)",
    "small": "linear-lock (S = 50, d = 5, H = 6)",
    "soft": "soft-aggregation (S = 100, d = 6, H = 10)",
}
COLOURS = {
    "eps": "#1f6feb",
    "goals": "#d1570a",
    "sets": "#8250df",
    "dense": "#2da44e",
    "linear": "#8b949e",
}
TITLES = {
    "eps": "every reward",
    "goals": "goals",
    "sets": "half-sets",
    "dense": "dense",
    "linear": "linear in phi",
}


def number(x: float) -> str:
    return "1" if x >= 1 else f"{x:.3f}" if x >= 0.01 else f"{x:.5f}".rstrip("0") if x >= 1e-5 else "0"


def gaps_table(rows: list[dict], problem: str) -> str:
    rows = chosen(rows, part="gaps", problem=problem)
    seeds, looks = len(values(rows, "seed")), values(rows, "episodes")
    head = [f"{NAMES[problem]}, {seeds} seeds"]
    head += [f"{steps}, K = {k:,}: goals, sets, dense, linear" for steps in ("pooled", "own") for k in looks]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for explorer in values(rows, "explorer"):
        cells = [explorer]
        for steps in ("pooled", "own"):
            for k in looks:
                matches = chosen(rows, explorer=explorer, steps=steps, episodes=k)
                cells.append(" ".join(number(median(matches, kind)) for kind in KINDS))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def design_line(rows: list[dict]) -> str:
    design_rows = [row for row in rows if "KT/d" in row]
    sentences = []
    for problem in values(design_rows, "problem"):
        for k in values(design_rows, "episodes"):
            x = [row["KT/d"] for row in chosen(design_rows, problem=problem, episodes=k)]
            sentences.append(f"{problem}, K = {k:,}: median {np.median(x):.4f}, largest {max(x):.4f}")
    return "K T/d of linear-design, pooled. " + "; ".join(sentences)


def certificates_table(rows: list[dict], problem: str) -> str:
    rows = chosen(rows, part="certificates", problem=problem)
    looks, seeds = values(rows, "episodes"), len(values(rows, "seed"))
    lines = [f"| {NAMES[problem]}, {seeds} seeds | " + " | ".join(f"K = {k:,}" for k in looks) + " |"]
    lines.append("|---" * (1 + len(looks)) + "|")
    for explorer in values(rows, "explorer"):
        own_rows = chosen(rows, explorer=explorer)
        cells = [
            number(median(chosen(own_rows, episodes=k), "eps")) if chosen(own_rows, episodes=k) else ""
            for k in looks
        ]
        lines.append(f"| {explorer}: every reward | " + " | ".join(cells) + " |")
        for kind in KINDS:
            cells = []
            for k in looks:
                matches = chosen(own_rows, episodes=k)
                fields = (f"{kind}_median", f"{kind}_max", f"{kind}_later", f"{kind}_true")
                cells.append(
                    " / ".join(number(median(matches, field)) for field in fields) if matches else ""
                )
            lines.append(f"| {explorer}: {TITLES[kind]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(rows: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "linear"
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    for axis, problem in ((left, "lock"), (middle, "small")):
        design_rows = chosen(rows, part="certificates", problem=problem, explorer="linear-design")
        ks = values(design_rows, "episodes")
        for kind, colour in COLOURS.items():
            for field, style in ((f"{kind}_median", "o-"), (f"{kind}_later", ".:")):
                field = "eps" if kind == "eps" else field
                y = [median(chosen(design_rows, episodes=k), field) for k in ks]
                text = TITLES[kind] if style == "o-" else None
                axis.loglog(ks, y, style, color=colour, label=text, markersize=4, linewidth=1.2)
        axis.set_title(NAMES[problem], fontsize=10)
        axis.set_xlabel("episodes")
        axis.set_ylabel("a plan loses at most (certified)")
    left.legend(
        fontsize=7, frameon=False, loc="lower left", title="declared: lines; later: dots", title_fontsize=7
    )
    design_rows = chosen(
        rows, part="gaps", problem="lock", episodes=max(values(chosen(rows, part="gaps"), "episodes"))
    )
    explorers = values(design_rows, "explorer")[::-1]
    for steps, marker in (("pooled", "o"), ("own", "x")):
        x = [max(median(chosen(design_rows, steps=steps, explorer=e), "goals"), 1e-6) for e in explorers]
        right.semilogx(x, range(len(explorers)), marker, color="#d1570a", label=f"steps {steps}")
    right.set_yticks(range(len(explorers)), explorers, fontsize=8)
    right.set_xlabel("worst true loss over all goals, K = 3,000")
    right.set_title("linear-lock", fontsize=10)
    right.legend(fontsize=7, frameon=False)
    for axis in (left, middle, right):
        axis.grid(alpha=0.25, linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, facecolor="white", metadata={"Date": None})


if __name__ == "__main__":
    stored_rows = load(HERE / "results" / "rows.jsonl")
    tables = [
        gaps_table(stored_rows, problem) for problem in values(chosen(stored_rows, part="gaps"), "problem")
    ]
    tables += [
        certificates_table(stored_rows, p)
        for p in values(chosen(stored_rows, part="certificates"), "problem")
    ]
    print(*tables, design_line(stored_rows), sep="\n\n")
    draw(stored_rows, HERE / "results" / "linear.svg")
