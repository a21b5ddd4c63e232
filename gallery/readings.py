"""The data of the case studies, as experiments read them, too: orders a day of a shop, months of buses."""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np

DATA = Path(__file__).parent / "data"
BEGIN = "1997-03-31"  # from here on the shop takes on no new customers


class Bus(NamedTuple):
    """Bins of 5,000 miles since the last engine [months + 1], whether it was replaced [months], and which bus it is."""

    bins: np.ndarray
    replaced: np.ndarray
    group: str


def orders() -> np.ndarray:
    """Orders of each day, in the order of time."""
    with (DATA / "cdnow_daily.csv").open() as file:
        return np.array([int(row["orders"]) for row in csv.DictReader(file) if row["day"] >= BEGIN])


def buses() -> list[Bus]:
    """All buses in the order of the file: a digit is bins added in a month, a letter the same after a replacement."""
    with (DATA / "buses.csv").open() as file:
        return [_bus(int(row["first"]), row["months"], row["group"]) for row in csv.DictReader(file)]


def _bus(first: int, months: str, group: str) -> Bus:
    bins, is_replaced = [first], [month.isalpha() for month in months]
    for month, is_new in zip(months, is_replaced):
        bins.append("abc".index(month) if is_new else bins[-1] + int(month))
    return Bus(np.array(bins), np.array(is_replaced, int), group)
