"""Medians, their intervals and slopes; the page that shows them; the command."""

import re

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.report.sweep_page import figure_of, style_of, write_sweep
from horizonfree.sweeps.results import Curve, Interval, bootstrap_medians, median_curve
from tests.shell import Shell
from tests.sweeps.conftest import TINY, rows_for

FALLING = TINY | {
    "seeds": 40,
    "seeds_per_task": 40,
    "checkpoints": [10, 100, 1000],
    "measure": ["eps"],
    "records": ["V_hat"],
    "slopes": ["eps"],
    "explorers": {"quick": {"name": "uniform"}, "slow <b>": {"name": "chen2022"}},
}


def falling(key, task, tries):
    """Numbers that fall as K^-1/2, or K^-1/4, with a spread over the seeds that is the same everywhere."""
    falling_rows = rows_for(task)
    power = 0.5 if task["explorer"] == "quick" else 0.25
    spread = np.exp(np.random.default_rng(0).normal(size=40))
    rows = zip(falling_rows["rows"]["seed"], falling_rows["rows"]["episodes"])
    falling_rows["rows"]["eps"] = [float(spread[seed] * k**-power) for seed, k in rows]
    return falling_rows


@pytest.fixture
def sweep(fake_executor, tmp_path):
    fake_executor(falling)
    return hf.sweep(FALLING, tmp_path / "a", progress=False)


def test_medians_have_intervals_and_slopes(sweep):
    curve = median_curve(sweep.where(explorer="quick"), "eps")
    values = sweep.where(explorer="quick")["eps"].reshape(40, 3)
    np.testing.assert_array_equal(curve.median, np.median(values, axis=0))
    assert (curve.low < curve.median).all()
    assert (curve.median < curve.high).all()
    assert curve.slope == pytest.approx((-0.5, -0.5, -0.5))  # every seed falls alike, so every draw does
    assert median_curve(sweep.where(explorer="quick"), "V_hat").seeds == 40
    assert median_curve(sweep.where(explorer="nobody"), "eps") is None


def test_intervals_are_those_of_the_bootstrap():
    """Of a median the distribution over draws is known: at or below the j-th of n values, binomially (p = j/n)."""
    n = 15
    bootstrapped = bootstrap_medians(np.arange(n, dtype=float)[:, None])[:, 0]
    from scipy.stats import binom

    for j in (4, 7, 10):
        exact = binom.sf(n // 2, n, (j + 1) / n)  # at least 8 of the 15 draws are among the j + 1 smallest
        assert abs((bootstrapped <= j).mean() - exact) < 5.2 * np.sqrt(
            exact * (1 - exact) / len(bootstrapped)
        )  # wrong: < 1e-6


def test_the_page_shows_every_setting_and_asks_for_nothing(sweep, tmp_path):
    text = write_sweep(sweep, tmp_path / "report.html").read_text()
    assert "slow &lt;b&gt;: chen2022 (reconstruction)" in text
    assert text.count('class="setting-0"') == text.count('class="setting-1"') >= 3  # line, band, row
    assert "-0.50 <small>[-0.50, -0.50]</small>" in text
    assert "-0.25 <small>[-0.25, -0.25]</small>" in text
    assert not re.search(r"(?:src|href)=\"?https?:", text)
    assert len({style_of(i) for i in range(48)}) == 48


@pytest.mark.parametrize(
    ("lowest", "scale"), [([0.9, 0.5], "linear"), ([0.9, 0.01], "log"), ([0.9, 0.0], "symlog")]
)
def test_an_axis_suits_its_numbers_and_zero_is_drawn_as_zero(lowest, scale):
    none = Interval(np.nan, np.nan, np.nan)
    high, low = np.array([1.0, 0.9]), np.array(lowest)
    curve = Curve(np.array([10, 100]), low, low, high, 3, none)
    (ax,) = figure_of({"a": curve}, {"a": style_of(0)}, "eps").axes
    assert ax.get_yscale() == scale
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), low)


@pytest.fixture
def shell(tmp_path, capsys, monkeypatch):
    return Shell(tmp_path, capsys, monkeypatch)


FILE = """
seeds = 4
seeds_per_task = 2
checkpoints = [2, 8]
measure = ["eps", "claim"]
[problems.river]
name = "river-swim"
states = 3
horizon = 3
[explorers.random]
name = "uniform"
"""


def test_the_command_counts_failures_and_goes_on(shell, tmp_path, fake_executor):
    (tmp_path / "a.toml").write_text(FILE)
    fake_executor(
        lambda key, task, tries: {"error": "no luck"} if task["seeds"] == [2, 3] else rows_for(task)
    )
    code, out, err = shell("sweep a.toml")
    assert code == 1
    assert "1 tasks failed" in out
    assert "random, seeds 2 to 3: no luck" in out
    assert "1 of 2 tasks done, 0 running, 1 failed, 4 rows" in err
    fake_executor(lambda key, task, tries: rows_for(task))
    output = shell.json("sweep sweeps/a --report")
    assert (output["rows"], output["failed"]) == (8, {})
    assert output["medians"] == [{"problem": "river", "explorer": "random", "eps": 1 / 3, "claim": 1 / 3}]
    assert (tmp_path / output["report"]).exists()
    code, _, err = shell("sweep b.toml")
    assert (code, err.splitlines()[-1]) == (2, "horizonfree: error: sweep b.toml: No such file or directory")


def test_ctrl_c_says_how_to_go_on(shell, tmp_path, fake_executor):
    def stop(key, task, tries):
        raise KeyboardInterrupt

    (tmp_path / "a.toml").write_text(FILE)
    fake_executor(stop)
    code, _, err = shell("sweep a.toml --out here")
    assert code == 130
    assert "horizonfree sweep a.toml --out here" in err


def test_a_dry_run_tells_what_it_takes_and_starts_nothing(shell, tmp_path):
    (tmp_path / "a.toml").write_text(FILE)
    output = shell.json("sweep a.toml --dry-run --workers 2")
    assert (output["tasks"], output["done"], output["rows"], output["settings"], output["tried"]) == (
        2,
        0,
        8,
        1,
        1,
    )
    assert 0 < output["seconds"] < 3600
    assert 2**26 < output["memory"] < 2**36
    assert not (tmp_path / "sweeps").exists()
