"""Plots on Matplotlib axes: what is drawn, and how axes are scaled."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree._plots import LOSS_TOLERANCE, draw_bands, new_axes, save_figure
from horizonfree.errors import OptionError, UnknownNameError


@pytest.fixture(scope="module")
def problem():
    return hf.make("river-swim", states=4, horizon=6)


@pytest.fixture(scope="module")
def batch(problem):
    return hf.explore_many(problem, "optimal-design", episodes=16, seeds=5, progress=False)


def test_a_batch_has_default_checkpoints_and_is_drawn_as_medians_with_quartiles(batch):
    np.testing.assert_array_equal(batch.checkpoints, [2, 4, 6, 8, 10, 12, 14, 16])
    ax = batch.plot("eps")
    (line,) = ax.get_lines()
    np.testing.assert_allclose(line.get_xdata(), batch.checkpoints)
    np.testing.assert_allclose(line.get_ydata(), np.median(batch.curves["eps"], axis=0))
    (band,) = ax.collections
    low, high = np.percentile(batch.curves["eps"], [25, 75], axis=0)
    box = band.get_datalim(ax.transData)
    assert box.y0 == pytest.approx(low.min())
    assert box.y1 == pytest.approx(high.max())
    with pytest.raises(UnknownNameError, match="no curve of this batch 'epz'"):
        batch.plot("epz")
    assert len(repr(batch).splitlines()) <= 25


def test_zero_is_drawn_as_zero_and_logarithmic_axes_span_the_data():
    ax = new_axes()
    draw_bands(ax, {"a": {10: [1e-3], 100: [LOSS_TOLERANCE / 2], 1000: [0.5]}}, {})
    (line,) = ax.get_lines()
    np.testing.assert_array_equal(line.get_ydata(), [1e-3, 0.0, 0.5])
    assert ax.get_yscale() == "symlog"
    assert ax.get_ylim()[0] == 0
    assert ax.get_ylim()[1] >= 0.5
    assert ax.get_xscale() == "log"
    low, high = ax.get_xlim()
    assert low <= 10
    assert high >= 1000
    without_zero = new_axes()
    draw_bands(without_zero, {"a": {1: [1e-3], 2: [0.5]}}, {})
    assert without_zero.get_yscale() == "log"
    band = new_axes()
    draw_bands(band, {"a": {1: [0, 0, 0.2, 0.3, 0.4], 2: [0.01, 0.01, 0.01]}}, {})
    assert band.get_yscale() == "symlog"  # no median is zero, but a quartile is
    with_zero = new_axes()
    draw_bands(with_zero, {"a": {1: [0.5], 2: [0.4]}, "nothing": {1: [np.nan]}}, {})
    assert with_zero.get_yscale() == "linear"
    assert len(with_zero.get_lines()) == 1


def test_a_run_and_a_plan_have_pictures(problem):
    run = hf.explore(problem, episodes=30, progress=False)
    (line,) = run.plot().get_lines()
    assert line.get_xdata()[-1] == 30
    assert line.get_ydata()[-1] == pytest.approx(run.certificate().eps)
    grid = hf.make("zoned-grid", size=3, zones=2, horizon=5)
    for plan in (
        run.plan(hf.goal(problem, 3)),
        hf.explore(grid, episodes=5, progress=False).plan(hf.goal(grid, 8)),
    ):
        (image,) = plan.plot().get_images()
        pixels = np.asarray(image.get_array())
        table = (
            plan.occupancy.T if "cells" not in plan.layout or len(pixels) > 3 else plan.occupancy.mean(axis=0)
        )
        np.testing.assert_allclose(np.sort(pixels.ravel()), np.sort(table.ravel()))
        assert "<img" in plan._repr_html_()
        ax = plan.plot()
        ticks = np.r_[ax.get_xticks(), ax.get_yticks()]  # of steps, states, columns and rows
        np.testing.assert_array_equal(ticks, np.round(ticks))
    assert "<img" in run._repr_html_()
    assert "<table" in run._repr_html_()


def test_a_figure_has_the_format_of_its_suffix(batch, tmp_path):
    for suffix, head in {".svg": b"<?xml", ".pdf": b"%PDF", ".png": b"\x89PNG"}.items():
        path = tmp_path / f"figure{suffix}"
        save_figure(batch.plot("gap"), path)
        assert path.read_bytes().startswith(head)
    with pytest.raises(OptionError, match=r"suffix '\.gif'"):
        save_figure(batch.plot("gap"), tmp_path / "figure.gif")


def test_given_axes_are_drawn_on(batch):
    ax = new_axes()
    assert batch.plot("eps", ax) is ax


def test_a_sweep_is_drawn_against_a_parameter(tmp_path):
    source = {
        "problems": {"river-swim": {"states": 3, "vary": {"horizon": [4, 40]}}},
        "explorers": {"uniform": {}, "goal-cycling": {}},
        "episodes": 6,
        "checkpoints": [3, 6],
        "seeds": 3,
    }
    result = hf.sweep(source, tmp_path / "s", workers=1, progress=False)
    ax = result.plot("eps", x="horizon")
    lines = {line.get_label(): line for line in ax.get_lines()}
    assert list(lines) == ["uniform", "goal-cycling"]
    np.testing.assert_allclose(lines["uniform"].get_xdata(), [4, 40])
    last = result.where(episodes=6, explorer="uniform")
    expected = [np.median(last.where(problem=f"river-swim horizon={h}")["eps"]) for h in (4, 40)]
    np.testing.assert_allclose(lines["uniform"].get_ydata(), expected)
    assert len(result.plot("eps").get_lines()) == 4
    figure = result.plot("gap", problem="river-swim horizon=4")
    assert len(figure.get_lines()) == 2
    with pytest.raises(OptionError, match="no setting of this sweep has a number 'scale'"):
        result.plot("eps", x="scale")
    frame = result.to_pandas(named_axes=True)
    assert list(frame.index.names) == ["problem", "explorer", "seed", "episodes"]
    assert list(frame.columns) == ["eps", "gap"]


def test_a_dataset_has_named_axes(batch):
    xarray = pytest.importorskip("xarray")
    data = batch.to_xarray()
    assert isinstance(data, xarray.Dataset)
    assert data["eps"].dims == ("problem", "explorer", "seed", "checkpoint")
    np.testing.assert_array_equal(
        data["eps"].sel(seed=3, checkpoint=16).values.ravel(), batch.curves["eps"][3, -1:]
    )
    assert data["information"].sizes["episode"] == 16
