"""Table 1 as data: every row as printed, and who of ours it is."""

import pytest

import horizonfree as hf
from horizonfree.errors import OptionError

# (class, rewards, one kernel for all steps, bound): the rate, written as the table prints it
PRINTED = [
    ("tabular", "per-step", False, "upper", lambda S, A, d, H: H**5 * S**2 * A, "jin2020"),
    ("tabular", "per-step", False, "upper", lambda S, A, d, H: H**4 * S**2 * A, "rf-ucrl"),
    ("tabular", "per-step", False, "upper", lambda S, A, d, H: H**3 * S**2 * A, "rf-express"),
    ("tabular", "total", True, "upper", lambda S, A, d, H: S**2 * A, "sstp"),
    ("tabular", "per-step", False, "lower", lambda S, A, d, H: H**2 * S**2 * A, None),
    ("tabular", "total", True, "lower", lambda S, A, d, H: S**2 * A, None),
    ("linear", "per-step", False, "upper", lambda S, A, d, H: H**6 * d**3, "wang2020"),
    ("linear", "per-step", False, "upper", lambda S, A, d, H: H**5 * d**3, "francis"),
    ("linear", "per-step", False, "upper", lambda S, A, d, H: H**5 * d**2, "rflin"),
    ("mixture", "per-step", True, "upper", lambda S, A, d, H: H**4 * d * (H + d), "ucrl-rfe+"),
    ("mixture", "per-step", False, "upper", lambda S, A, d, H: H**3 * d * (H + d), "chen2022"),
    ("mixture", "total", True, "upper", lambda S, A, d, H: d**2, "hf-ucrl-rfe++"),
    ("mixture", "total H", True, "upper", lambda S, A, d, H: H**2 * d**2, "hf-ucrl-rfe++"),
    ("mixture", "total", True, "lower", lambda S, A, d, H: d**2, None),
    ("mixture", "per-step", True, "lower", lambda S, A, d, H: H**2 * d**2, None),
]


def test_every_row_is_the_printed_one():
    sizes = {"S": 7, "A": 3, "d": 5, "H": 11}
    rows = hf.theory.table1()
    assert len(rows) == len(PRINTED)
    for row, (model, scale, homogeneous, kind, rate, explorer) in zip(rows, PRINTED):
        assert (row.model, row.scale, row.homogeneous, row.kind, row.explorer) == (
            model,
            scale,
            homogeneous,
            kind,
            explorer,
        )
        assert row.rate(0.1, **sizes) == pytest.approx(100 * rate(**sizes)), row.algorithm


def test_the_explorers_of_the_table_exist_and_rates_are_written_out():
    names = {row.explorer for row in hf.theory.table1()} - {None}
    assert names <= set(hf.explorers(all=True))
    assert {"ucrl-rfe", "ucrl-vtr+", "lsvi-rfe"}.isdisjoint(names)  # of ours, but not of the table
    orders = [row.order for row in hf.theory.table1()]
    assert orders[0] == "H^5 S^2 A/eps^2"
    assert orders[9] == "(H^5 d + H^4 d^2)/eps^2"
    assert orders[11] == "d^2/eps^2"


def test_the_mixture_rows_meet_their_lower_bounds():
    rows = [row for row in hf.theory.table1() if row.model == "mixture"]
    own_row, ours_H, lower, lower_H = rows[-4:]
    assert own_row.terms == lower.terms
    assert ours_H.terms == lower_H.terms


@pytest.mark.parametrize(
    ("sizes", "message"),
    [({"eps": 0.0}, "eps is 0"), ({"eps": 0.1, "H": 0}, "H is 0"), ({"eps": 0.1, "d": True}, "d is True")],
)
def test_sizes_outside_their_range_are_refused(sizes, message):
    with pytest.raises(OptionError, match=message):
        hf.theory.table1()[0].rate(**sizes)
