"""Plots of a sweep: a measure against episodes, or against a parameter that varies."""

from typing import Any

from horizonfree._plots import CURVE_TITLES, draw_bands, new_axes
from horizonfree._validation import check_known
from horizonfree.errors import OptionError
from horizonfree.explorers.registry import setting_label
from horizonfree.problems import problems


def plot_sweep(
    sweep: Any, measure: str, x: str = "episodes", problem: str | None = None, ax: Any = None
) -> Any:
    """A measure of a sweep against episodes, or at the last checkpoint against a parameter of its tables."""
    check_known(measure, [*sweep.spec.measure, *sweep.spec.records], "measure of this sweep")
    if problem is not None:
        check_known(problem, sweep.spec.problems, "problem of this sweep")
    ax = new_axes() if ax is None else ax
    rows = sweep if problem is None else sweep.where(problem=problem)
    lines: dict[str, dict[float, list[float]]] = {}
    last = sweep.spec.checkpoints[-1]
    xs = _positions(sweep, x)
    for name, explorer, k, value in zip(
        rows["problem"], rows["explorer"], rows["episodes"], rows[measure], strict=True
    ):
        if x != "episodes" and k != last:
            continue
        position = int(k) if x == "episodes" else xs[name, explorer]
        if position is None:
            continue
        label = _line_label(sweep, name, explorer, x, is_several=problem is None)
        lines.setdefault(label, {}).setdefault(position, []).append(float(value))
    if not lines:
        raise OptionError(
            f"no setting of this sweep has a number {x!r}; vary it, as in vary = {{ {x} = [10, 20] }}"
        )
    draw_bands(ax, lines, {})
    suffix = "" if x == "episodes" else f", after {last:,} episodes"
    ax.set(title=f"{CURVE_TITLES.get(measure, measure)}{suffix}", xlabel=x, ylabel=measure)
    if len(lines) > 1:
        ax.legend(fontsize=8, frameon=False)
    return ax


def _positions(sweep: Any, x: str) -> dict[tuple[str, str], float | None]:
    """The number x of each setting, from its tables or the defaults of its problem; None where there is none."""
    result: dict[tuple[str, str], float | None] = {}
    for name, table in sweep.spec.problems.items():
        spec = problems().get(table["name"])
        defaults = {} if spec is None else {p.name: p.default for p in spec.parameters}
        for explorer, options in sweep.spec.explorers.items():
            value = ({**defaults, **table, **options}).get(x)
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            result[name, explorer] = value if is_number else None
    return result


def _line_label(sweep: Any, name: str, explorer_name: str, x: str, *, is_several: bool) -> str:
    """The label of a setting without the number that is on the axis."""

    def without_value(text: str) -> str:
        return " ".join(part for part in text.split() if not part.startswith(f"{x}="))

    explorer = setting_label(without_value(explorer_name), sweep.spec.explorers[explorer_name])
    bases = {without_value(label) for label in sweep.spec.problems}
    return f"{without_value(name)}, {explorer}" if is_several and len(bases) > 1 else explorer
