"""What all case studies do: record their numbers, draw their figure, and write the tables of their page."""

import json
import math
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
START, END = "<!-- written by gallery/{}.py -->", "<!-- until here -->"
COLORS = ("#1f6feb", "#d9480f", "#2b8a3e", "#862e9c")


def rounded(results: Any) -> Any:
    """Six digits of every number: enough to read, few enough to be the same on other machines."""
    if isinstance(results, dict):
        return {str(key): rounded(value) for key, value in results.items()}
    if isinstance(results, (list, tuple)):
        return [rounded(value) for value in results]
    return float(f"{results:.6g}") if isinstance(results, float) else results


def table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of Markdown."""
    head = list(titles)
    lines = [head, ["---"] * len(head), *map(list, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def round_up(x: float) -> str:
    """Two digits, rounded up, so that it stays proved; tiny numbers as 0.0001."""
    if x <= 1e-4:
        return "0.0001"
    digits = 1 - math.floor(math.log10(x))
    return f"{math.ceil(x * 10**digits - 1e-6) / 10**digits:.{max(digits, 0)}f}"


def interval_text(low: float, high: float) -> str:
    """An interval, rounded outwards."""
    return f"{math.floor(100 * low) / 100:.2f} to {math.ceil(100 * high) / 100:.2f}"


def figure(columns: int = 1, height: float = 3.4) -> tuple[Figure, Any]:
    """An empty figure on white, without any global state, and its axes."""
    fig = Figure(figsize=(4.4 * columns + 1, height), layout="constrained", facecolor="white")
    axes = fig.subplots(1, columns, squeeze=False)[0]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    return fig, axes


def stored_results(name: str) -> dict[str, Any]:
    """What the script recorded when it last ran: "full" and "small"."""
    results: dict[str, Any] = json.loads((HERE / "results" / f"{name}.json").read_text())
    return results


def page_with(name: str, text: str) -> str:
    """The page with this text between its two comments."""
    page = (DOCS / "gallery" / f"{name}.md").read_text()
    head, _, tail = page.partition(START.format(name) + "\n")
    _, _, end = tail.partition(END)
    return f"{head}{START.format(name)}\n{text.strip()}\n{END}{end}"


def main(
    name: str,
    study: Callable[..., dict[str, Any]],
    report_text: Callable[[dict[str, Any]], str],
    draw: Callable[[dict[str, Any]], Figure],
) -> None:
    """Run, record, draw, write."""
    start_time = time.perf_counter()
    results = {"full": rounded(study()), "small": rounded(study(small=True))}
    print(report_text(results["full"]))
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")
    draw(results["full"]).savefig(DOCS / "images" / f"gallery-{name}.svg", metadata={"Date": None})
    (DOCS / "gallery" / f"{name}.md").write_text(page_with(name, report_text(results["full"])))
    print(f"{time.perf_counter() - start_time:.0f} s", file=sys.stderr)
