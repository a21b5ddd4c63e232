"""How `print`, notebooks and pandas show problems, runs, plans and certificates."""

import base64
import html
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from horizonfree._extras import import_optional

if TYPE_CHECKING:
    import pandas

MAX_LISTED_NAMES = 6
PICTURE_DPI = 80  # in notebooks


class ReprTable(NamedTuple):
    """A title, and lines of a label and a text."""

    title: str
    lines: list[tuple[str, str]]


class ReprMixin(ABC):
    """`repr` as lines of text, and as an HTML table in notebooks."""

    @abstractmethod
    def _repr_table(self) -> ReprTable: ...

    def __repr__(self) -> str:
        title, lines = self._repr_table()
        width = max((len(label) for label, _ in lines), default=0)
        return "\n".join([title, *(f"  {label:<{width}}  {text}" for label, text in lines)])

    def _repr_html_(self) -> str:
        title, lines = self._repr_table()
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(label)}</th>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for label, text in lines
        )
        image = picture(title, getattr(self, "plot", None))
        return f"<table><caption><b>{html.escape(title)}</b></caption>{rows}</table>{image}"


def picture_html(title: str, text: str, plot: Callable[[], Any] | None) -> str:
    """HTML for notebooks: the text, and the picture that `plot` draws, where Matplotlib is installed."""
    return f"<pre>{html.escape(text)}</pre>{picture(title, plot)}"


def picture(title: str, plot: Callable[[], Any] | None) -> str:
    """The axes that `plot` returns as an image in HTML; empty where there are none, or no Matplotlib."""
    axes = plot() if plot is not None and find_spec("matplotlib") is not None else None
    if axes is None:
        return ""
    data = io.BytesIO()
    figure = (axes.flat[0] if hasattr(axes, "flat") else axes).get_figure()
    figure.savefig(data, format="png", dpi=PICTURE_DPI, bbox_inches="tight")
    code = base64.b64encode(data.getvalue()).decode()
    return f"<img alt='{html.escape(title)}' src='data:image/png;base64,{code}'>"


def join_names(names: Sequence[str]) -> str:
    """Names separated by commas, with dots instead of those in the middle where there are many."""
    is_short = len(names) <= MAX_LISTED_NAMES
    return ", ".join(names if is_short else [*names[: MAX_LISTED_NAMES - 2], "..", names[-1]])


def data_frame(columns: Mapping[str, Any]) -> "pandas.DataFrame":
    """Columns as a data frame; text is categorical."""
    pandas = import_optional("pandas")
    frame = pandas.DataFrame(dict(columns))
    texts = [name for name in frame if not pandas.api.types.is_numeric_dtype(frame[name])]
    return frame.astype(dict.fromkeys(texts, "category"))
