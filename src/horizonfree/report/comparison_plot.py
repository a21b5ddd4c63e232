"""The figure of a comparison of algorithms: true and certified suboptimality against episodes."""

from collections.abc import Sequence
from itertools import cycle
from os import PathLike

from horizonfree._extras import needs_extra
from horizonfree.batch.compare import Row, algorithm_name, explorer_label, medians
from horizonfree.explorers.registry import find_entry
from horizonfree.report.theme import display_text

CURVES = {"gap": "true suboptimality, worst goal", "eps": "certified suboptimality, every reward"}
BASELINES = ("uniform", "goal-cycling")


def plot_comparison(rows: Sequence[Row], path: str | PathLike[str]) -> None:
    """Medians over the seeds. Dashed: algorithms that explore for one reward; dotted: baselines."""
    with needs_extra("report", "reports and figures"):
        import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = {explorer_label(row): algorithm_name(row) for row in rows}
    colours = dict(zip(names, cycle(plt.get_cmap("tab10").colors)))  # type: ignore[attr-defined]  # a listed colour map
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", sharex=True)
    for axis, (curve, title) in zip(axes, CURVES.items()):
        values = medians(rows, curve)
        for name, algorithm in names.items():
            by_k = values[name]
            style = (
                ":" if algorithm in BASELINES else "--" if "reward" in find_entry(algorithm).options else "-"
            )
            look = {"color": colours[name], "label": display_text(name), "linewidth": 1.6}
            axis.plot(list(by_k), list(by_k.values()), style, **look)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("episodes")
        axis.grid(alpha=0.25, linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    if any(row["gap"] > 0 for row in rows):
        axes[0].set_yscale("log")
    axes[0].set_ylabel("suboptimality, of a total of 1")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8, frameon=False)
    figure.savefig(path, facecolor="white", metadata={"Date": None})
    plt.close(figure)
