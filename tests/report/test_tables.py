"""The report of an unknown table."""

from pathlib import Path

import numpy as np
import pytest

from horizonfree.report import write_report
from horizonfree.report.draw import draw_all
from horizonfree.report.facts import compute_facts
from tests.report.example_runs import table


def test_counts_do_not_tell_when_so_the_figure_looks_ahead(tmp_path: Path) -> None:
    facts = compute_facts(table())
    assert [m.episodes for m in facts.history] == [1500]
    episodes, gaps = np.array(facts.forecast).T
    assert (episodes[0], episodes[-1]) == (1500, pytest.approx(150_000))
    assert gaps[0] == pytest.approx(facts.certificate.eps)
    assert (np.diff(gaps) < 0).all()
    (axis,) = draw_all(facts)["gap"].axes
    assert any(np.array_equal(line.get_ydata(), gaps) for line in axis.lines)
    page = write_report(table(), tmp_path / "report.html").read_text()
    assert "the dashed line is a forecast" in page
    assert "because the problem is simulated" not in page
    assert "44 unknown pairs" in page


def test_nothing_is_foretold_where_nothing_is_proved_yet() -> None:
    facts = compute_facts(table(2))
    assert facts.forecast == []
    assert len(draw_all(facts)["gap"].axes) == 2
