"""Colours and styles of figures, and SVG output.

In an SVG file figures have the colours below. Inside a page every colour becomes a variable of the style sheet, so that
the same figure serves light and dark pages.
"""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from horizonfree._extras import needs_extra
from horizonfree._plots import CONTROL

if TYPE_CHECKING:
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

INK = "#1c2733"
MUTED = "#5a6b7b"
RULE = "#d5dde4"
CELL = "#edf1f5"
ACCENT = "#1f5fd0"
WARM = "#b6541a"
ON_COLOR = "#fdfefe"  # marks on a dark cell
DPI = 160  # of a picture
LEVELS = 33  # shades between CELL and a full colour

VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    RULE: "--rule",
    CELL: "--cell",
    ACCENT: "--accent",
    WARM: "--warm",
    ON_COLOR: "--on",
}
STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": RULE,
    "axes.grid": True,
    "axes.labelcolor": MUTED,
    "axes.labelsize": 9.5,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "figure.constrained_layout.use": True,
    "font.size": 9.5,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",
    "text.color": INK,
    "xtick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.color": RULE,
    "ytick.labelcolor": MUTED,
}


@contextmanager
def style() -> Iterator[None]:
    """The style of Matplotlib inside a scope."""
    with needs_extra("report", "reports and figures"):
        import matplotlib

    with matplotlib.rc_context(STYLE):  # type: ignore[arg-type]  # the stubs list every key as a literal
        yield


def shade(color: str, level: int) -> str:
    """The colour `level` steps of LEVELS - 1 from CELL to a full colour."""
    share = level / (LEVELS - 1)
    pairs = zip(_channels(CELL), _channels(color))
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in pairs)


def colormap(color: str) -> "ListedColormap":
    """Shades of one colour."""
    from matplotlib.colors import ListedColormap

    return ListedColormap([shade(color, level) for level in range(LEVELS)])


def inline_svg(svg: str, alt: str) -> str:
    """A figure as an SVG element for a page: colours as variables, unique ids, no declarations.

    alt: the alternative text. An element with the gid "is-NAME" gets the class NAME.
    """
    text = re.sub(r' id="is-([\w-]+)"', r' class="\1"', svg[svg.index("<svg") :])
    used_ids = set(re.findall(r"#([\w-]+)[\")]", text))
    text = re.sub(r' id="([\w.-]+)"', lambda match: match[0] if match[1] in used_ids else "", text)
    text = re.sub(r' (?:width|height)="[\d.]+pt"', "", text, count=2)
    text = re.sub(r"#[0-9a-f]{6}\b", lambda match: _CSS.get(match[0], match[0]), text)
    label = escape(CONTROL.sub("?", alt))
    return text.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def to_svg(figure: "Figure", name: str) -> str:
    """A figure as deterministic SVG; its background is removed. (`savefig` would draw everything twice.)"""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    for patch in (figure.patch, *(ax.patch for ax in figure.axes)):
        patch.set(facecolor="none", edgecolor="none")
    file, dpi = io.StringIO(), figure.dpi
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        no_metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
        FigureCanvasSVG(figure).print_svg(file, metadata=no_metadata)  # type: ignore[no-untyped-call]  # Matplotlib has no types
    figure.set_dpi(dpi)
    return file.getvalue()


def write_png(figure: "Figure", path: Path) -> None:
    """Write a figure as PNG on white."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.patch.set_facecolor("white")
    figure.set_dpi(DPI)
    FigureCanvasAgg(figure).print_png(path)  # type: ignore[no-untyped-call]  # Matplotlib has no types


def _channels(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


_CSS = {
    shade(
        color, level
    ): f"color-mix(in srgb, var({VARIABLES[color]}) {100 * level / (LEVELS - 1):.3g}%, var(--cell))"
    for color in (ACCENT, WARM)
    for level in range(LEVELS)
} | {color: f"var({variable})" for color, variable in VARIABLES.items()}
