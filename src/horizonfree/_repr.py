"""What `print` and notebooks show of a problem, a run, a plan or a certificate: a title and a few lines."""

import html
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

FEW = 6  # names that are listed


class Summary(NamedTuple):
    """A title, and lines of a label and what there is to say."""

    title: str
    lines: list[tuple[str, str]]


class ReprMixin(ABC):
    """What shows itself as a card: as text where it is printed, as a table in a notebook."""

    @abstractmethod
    def card(self) -> Summary:
        """What there is to say, in a few lines."""

    def __repr__(self) -> str:
        title, lines = self.card()
        width = max((len(label) for label, _ in lines), default=0)
        return "\n".join([title, *(f"  {label:<{width}}  {words}" for label, words in lines)])

    def _repr_html_(self) -> str:
        title, lines = self.card()
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(label)}</th>"
            f"<td style='text-align:left'>{html.escape(words)}</td></tr>"
            for label, words in lines
        )
        return f"<table><caption><b>{html.escape(title)}</b></caption>{rows}</table>"


def join_names(names: Sequence[str]) -> str:
    """Names in a row; the last after dots where they are many."""
    return ", ".join(names if len(names) <= FEW else [*names[: FEW - 2], "..", names[-1]])
