"""The table of the README from the rows: `python experiments/interval_mdp/figure.py [ROWS]`."""

import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
METHODS = (
    "ours",
    "ours, projected",
    "KT, anytime",
    "ours and KT, half of delta each",
    "Clopper-Pearson, fixed n",
    "Hoeffding, fixed n",
)
TITLES = (
    "successors",
    "episodes",
    "method",
    "any stopping time",
    "width of the value",
    "loss at most",
    "false",
)


def table(rows: list[dict]) -> str:
    """Medians over seeds; false: in how many seeds a statement, or an interval of some entry, was not true."""
    lines = [f"| {' | '.join(TITLES)} |", "|---" * len(TITLES) + "|"]
    for support in ("any", "given"):
        for episodes in sorted({row["episodes"] for row in rows}):
            for method in METHODS:
                key = {"support": support, "episodes": episodes, "method": method}
                matches = [row for row in rows if key.items() <= row.items()]
                width, loss = (np.median([row[x] for row in matches]) for x in ("width", "loss"))
                false = sum(not row["is_valid"] for row in matches)
                cells = [support, f"{episodes:,}", method, "no" if "fixed" in method else "yes"]
                cells += [f"{width:.4f}", f"{loss:.4f}", f"{false} of {len(matches)}"]
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "results" / "rows.jsonl"
    print(table([json.loads(line) for line in path.read_text().splitlines()]))
