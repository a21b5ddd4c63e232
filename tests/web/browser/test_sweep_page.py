"""The page of a sweep in a browser: settings are hidden, tables sorted."""

from pathlib import Path
from typing import TYPE_CHECKING

from horizonfree.report.sweep_page import write_sweep
from horizonfree.sweeps import results, sweep
from horizonfree.sweeps import spec as specs
from horizonfree.sweeps.tasks import build_tasks
from tests.sweeps.conftest import TINY, rows_for

from .test_playground import Picture, Visit

if TYPE_CHECKING:
    from playwright.sync_api import Locator

WHO = {"name": "uniform"}
SPEC = TINY | {"measure": ["eps"], "explorers": {"b": WHO, "a": WHO, "c": WHO}}
EPS = {"a": 0.3, "b": 0.1, "c": 0.2}


def test_a_setting_can_be_hidden_and_a_table_sorted(visit: Visit, picture: Picture, tmp_path: Path) -> None:
    spec = specs.read(SPEC)
    writer = results.RowWriter(tmp_path)
    for key, task in build_tasks(spec).items():
        rows = rows_for(task)
        rows["rows"]["eps"] = [EPS[task["explorer"]]] * len(rows["rows"]["seed"])
        writer.append(sweep.task_line(key, task, rows))
    lines = results.RowWriter(tmp_path).lines
    page = visit(
        f"file://{write_sweep(results.build_sweep(tmp_path, spec, lines), tmp_path / 'report.html')}"
    )

    def title(column: int) -> "Locator":
        return page.locator("table.sortable").first.locator(f"th:nth-child({column}) button")

    def order() -> list[str]:
        return (
            page.locator("table.sortable").first.locator("tbody tr:visible td:first-child").all_inner_texts()
        )

    assert order() == ["b: uniform", "a: uniform", "c: uniform"]
    title(3).click()
    assert order() == ["b: uniform", "c: uniform", "a: uniform"]
    title(3).click()
    assert order() == ["a: uniform", "c: uniform", "b: uniform"]
    title(1).click()
    assert order() == ["a: uniform", "b: uniform", "c: uniform"]
    page.get_by_label("b: uniform").uncheck()
    assert order() == ["a: uniform", "c: uniform"]
    visible = (
        "[...document.querySelectorAll('svg .setting-%d')].map((x) => getComputedStyle(x).display != 'none')"
    )
    for number, is_shown in ((0, False), (1, True)):
        assert set(page.evaluate(visible % number)) == {is_shown}
    picture(page, "sweep")
