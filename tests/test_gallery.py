"""Every case study of the gallery still runs, says what is stored, and its page shows what is stored."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
NAMES = ["buses", "gambler", "shop", "car", "maintenance", "robot", "ice", "stock"]
ORDERED = "real days, in order"


@pytest.fixture
def shared(monkeypatch):
    """What scripts have in common, as a module; others have one of that name."""
    monkeypatch.syspath_prepend(str(ROOT / "gallery"))
    yield importlib.import_module("shared")
    for name in ("shared", "readings", *NAMES):
        sys.modules.pop(name, None)


@pytest.fixture
def study(request, shared):
    """The script, as a module."""
    return importlib.import_module(request.param)


def assert_same(value, expected, path="study"):
    """Equal words and whole numbers; other numbers to a thousandth."""
    assert type(value) is type(expected), path
    if isinstance(value, dict):
        assert sorted(value) == sorted(expected), path
        for key in value:
            assert_same(value[key], expected[key], f"{path}.{key}")
    elif isinstance(value, list):
        assert len(value) == len(expected), path
        for k, (item, other) in enumerate(zip(value, expected)):
            assert_same(item, other, f"{path}[{k}]")
    elif isinstance(value, float):
        np.testing.assert_allclose(value, expected, rtol=1e-3, atol=1e-6, err_msg=path)
    else:
        assert value == expected, path


@pytest.mark.parametrize("study", NAMES, indirect=True)
def test_a_small_version_runs_and_says_what_is_stored(study, shared):
    if study.__name__ == "robot":
        pytest.importorskip("stormpy", reason="stormpy is not installed")
    expected = shared.stored_results(study.__name__)["small"]
    assert_same(shared.rounded(study.study(small=True)), expected)


@pytest.mark.parametrize("study", NAMES, indirect=True)
def test_the_page_shows_what_is_stored(study, shared):
    full = shared.stored_results(study.__name__)["full"]
    page = (ROOT / "docs" / "gallery" / f"{study.__name__}.md").read_text()
    assert shared.page_with(study.__name__, study.report_text(full)) == page
    assert (ROOT / "docs" / "images" / f"gallery-{study.__name__}.svg").exists()
    assert study.draw(full).axes


def test_the_sayings_of_the_pages_follow_from_what_is_stored(shared):
    """What stands in sentences, not in tables: promises hold inside the class, and wrong classes are found out."""
    results = {name: shared.stored_results(name)["full"] for name in NAMES}
    assert results["buses"]["check"]["failed"] == 0
    assert max(x["percent"] for x in results["buses"]["costs"].values()) < 0.5
    buses = results["buses"]
    assert buses["alternatives"]["refuted"]
    assert all(x["plan"] <= x["best"] + 1e-9 and x["plan"] < x["rule"] for x in buses["replayed"].values())
    above = [name for name, x in buses["costs"].items() if x["high"] < buses["replayed"][name]["plan"]]
    assert above == [list(buses["costs"])[i] for i in (0, 3)]
    assert buses["driven"]["first"] > buses["driven"]["second"]
    shares = [buses["price"][name] / x["cost"] for name, x in buses["costs"].items()]
    assert shares[0] < 1e-4
    assert 0.08 < min(shares[1:]) < max(shares) < 0.2
    games = results["gambler"]["looks"].index(30)
    assert results["gambler"]["coins"]["0.4"]["looks"][games]["gap"] < 1e-4
    shop, weeks = results["shop"], results["shop"]["looks"]
    real = [x for x in shop["rows"] if x["world"] == "real days, drawn"]
    assert all(x["rejected"] == 0 for x in shop["rows"])
    assert all((x["exceeded"] > 0) == (x["class"] == "two Poissons") for x in real)
    assert all(x["refuted"] == 20 for x in real if x["class"] == "two Poissons" and x["weeks"] > 65)
    assert all(x["refuted"] == 0 for x in shop["rows"] if x not in real or x["class"] == "any law")
    drawn_days, inside, ordered_days = (
        shop["checks"][x] for x in ("real days, drawn", "inside the class", ORDERED)
    )
    assert (drawn_days[0]["refuted"], 10 < drawn_days[-1]["refuted"]) == (0, True)
    assert not any(x["refuted"] for x in inside)
    assert ordered_days[weeks.index(52)]["refuted"] == 20
    assert ordered_days[-1]["by"] == "a change in time"
    assert shop["any law, in order"][0]["refuted"] == 0
    assert 0 < shop["price"]["low"] < shop["price"]["distance"] <= shop["price"]["zetas"][-1]
    assert shop["price"]["gaps"][-1] > 0.9 * shop["rows"][0]["best"]
    cars = results["car"]["cars"]
    assert all(x["low"] <= x["driven"] <= x["high"] for x in cars["of the class"]["rows"])
    assert not any(x["low"] <= x["driven"] <= x["high"] for x in cars["weaker than any simulator"]["rows"])
    assert [name for name, x in cars.items() if x["check"]["refuted"]] == list(cars)[1:3]
    control, *other_prices = (x["price"] for x in cars.values())
    assert 0.0015 <= control["zeta"] < 0.0016
    assert control["low"] == 0
    assert all(x["zeta"] is None and x["low"] > 0 for x in other_prices)
    assert min(gap for x in other_prices for gap in x["gaps"] if gap is not None) > 30
    robot = results["robot"]["looks"]
    assert all(x["p"][0] <= 0.1 <= x["p"][1] and x["q"][0] <= 0.3 <= x["q"][1] for x in robot)
    assert all(x["loss"] > 10 * x["reach"]["gap"] for x in robot if x["episodes"] >= 100)
