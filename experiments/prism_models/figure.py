"""The table of the README from the rows: `python experiments/prism_models/figure.py [ROWS]`."""

import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def table(rows: list[dict]) -> str:
    """A line for each model: medians over seeds, and violations."""
    head = (
        "| model | states, actions, unknown | H | property | Storm, at the truth | interval (medians) | gap |"
    )
    lines = [head + " largest loss | false | plan, s | Storm, s |", "|---" * 11 + "|"]
    for name in dict.fromkeys(row["model"] for row in rows):
        model_rows = [row for row in rows if row["model"] == name]
        first = model_rows[0]
        low, high, gap = (np.median([row[key] for row in model_rows]) for key in ("low", "high", "gap"))
        wrong = sum(row["is_wrong"] for row in model_rows)
        plan, storm = (np.median([row["seconds"][key] for row in model_rows]) for key in ("plan", "storm"))
        cells = (
            name,
            f"{first['states']}, {first['actions']}, {first['unknown']}",
            str(first["horizon"]),
            f"`{first['property']}`".replace("|", "\\|"),
            f"{first['storm']:.4f}",
            f"[{low:.3f}, {high:.3f}]",
            f"{gap:.4f}",
            f"{max(row['loss'] for row in model_rows):.4f}",
            f"{wrong} of {len(model_rows)}",
            f"{plan:.3f}",
            f"{storm:.4f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "results" / "rows.jsonl"
    print(table([json.loads(line) for line in path.read_text().splitlines()]))
