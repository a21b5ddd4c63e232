"""Numbers on their way out: a function that is called as episodes come, and data frames."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import OptionError

RIVER: dict[str, Any] = {"states": 3, "horizon": 3}


def test_a_callback_hears_of_every_block_and_of_the_end(tmp_path: Path) -> None:
    calls: list[tuple[int, dict[str, float]]] = []
    run = hf.explore(
        hf.make("river-swim", **RIVER),
        episodes=30,
        progress=False,
        callback=lambda k, x: calls.append((k, dict(x))),
        out=tmp_path / "a",
    )
    episodes = [k for k, _ in calls]
    assert episodes == sorted(set(episodes))
    assert episodes[0] >= 1
    assert episodes[-1] == 30
    for k, numbers in calls:
        assert numbers == {name: x[k - 1] for name, x in run.records.items()}
    calls.clear()
    run.resume(episodes=2, progress=False, callback=lambda k, x: calls.append((k, dict(x))))
    assert calls[-1][0] == 32
    assert calls[0][0] > 30


def test_certified_gaps_are_heard_and_what_a_callback_raises_ends_it_after_saving(tmp_path: Path) -> None:
    def until_certified(k: int, numbers: Any) -> None:
        if "eps" in numbers:
            assert 0 <= numbers["eps"] <= 1
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        hf.explore(
            hf.make("river-swim", **RIVER),
            episodes=200,
            until_eps=1e-6,
            progress=False,
            callback=until_certified,
            out=tmp_path / "a",
        )
    assert 0 < hf.load(tmp_path / "a").episodes < 200
    with pytest.raises(OptionError, match="callback is 3; it must be a function"):
        hf.explore(hf.make("river-swim", **RIVER), episodes=1, callback=3)  # type: ignore[arg-type]  # on purpose


def test_runs_and_plans_are_data_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    run = hf.explore(hf.make("river-swim", **RIVER), episodes=5, progress=False)
    frame = run.to_pandas()
    assert frame["episode"].tolist() == [1, 2, 3, 4, 5]
    assert set(frame) == {"episode", *run.records}
    plan = run.plan(hf.goal(run.problem, 2))
    table = plan.to_pandas()
    assert len(table) == 9
    row = table[(table["step"] == 0) & (table["state"] == "state 0")].iloc[0]
    assert row["action"] == run.problem.action_name(plan.act(0, 0))
    assert row["probability"] == 1
    np.testing.assert_allclose(table.groupby("step")["probability"].sum(), 1)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(OptionError, match="pandas is not installed"):
        run.to_pandas()
