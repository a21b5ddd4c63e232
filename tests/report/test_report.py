"""The report: its numbers are identities of the run, and its page stands alone."""

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import horizonfree as hf
from horizonfree import report
from horizonfree.errors import OptionError
from horizonfree.explorers import make_explorer
from horizonfree.guarantees.meanings import MEANINGS
from horizonfree.planning import backward as planning
from horizonfree.report import facts as ft
from horizonfree.report import history
from horizonfree.report.page import bound, number, summary
from horizonfree.runs.run import Run

RIVER = hf.make("river-swim", states=8, horizon=4)


def grid(episodes: int = 70, seed: int = 0, explorer: str = "information") -> Run:
    problem = hf.make("zoned-grid", size=4, zones=2, horizon=8)
    return hf.explore(problem, explorer, episodes=episodes, seed=seed, progress=False)


@pytest.fixture(scope="module")
def run() -> Run:
    return grid()


def known_world() -> Run:
    """One kernel, nothing to learn: q = 0; no cells either."""
    kernel = np.random.default_rng(0).dirichlet(np.ones(3), (1, 3, 2))
    problem = hf.Mixture.from_kernels(kernel, horizon=4, weights=[1.0], name="known")
    return hf.explore(problem, "uniform", episodes=3, progress=False)


def rejected() -> Run:
    """Logged episodes that jump two places at once, which the river cannot do."""
    return hf.from_episodes(RIVER, ([[0, 2, 2, 2, 2]] * 3, [[1, 1, 1, 1]] * 3))


def logged() -> Run:
    """Honest episodes gathered by somebody else; whether the class knows their truth is not for us to say."""
    seen = hf.simulate(RIVER, np.ones((4, 8), int), episodes=50)
    return hf.from_episodes(RIVER, seen)


def unlabelled() -> Run:
    """A mixture without cells or names of actions."""
    problem = hf.make("random-mixture")
    return hf.explore(problem, "uniform", episodes=30, progress=False)


# ---- the numbers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_an_earlier_certificate_is_the_one_that_the_run_would_have_given_then(seed: int) -> None:
    found = {m.episodes: m for m in history.moments(grid(70, seed), 0.05)}
    assert sorted(found) == [20, 60, 70]
    for k in (20, 60):
        then = grid(k, seed)
        assert found[k].eps == pytest.approx(then.certificate().eps, rel=1e-6)
        assert found[k].doubt == pytest.approx(history.doubt(then, then.confidence(0.05)), rel=1e-6)
        assert found[k].inefficiency == pytest.approx(history.inefficiency(then, then.evidence), rel=1e-6)
    assert found[70].eps == grid(70, seed).certificate().eps


def test_the_worst_true_gap_is_the_worst_over_the_goals(run: Run) -> None:
    gaps = []
    for s in np.flatnonzero(hf.rewards.occupied_states(run.problem.known)[-1]):
        goal = hf.goal(run.problem, int(s))
        gaps.append(hf.true_gap(run.problem, goal, run.plan(goal).policy))
    assert history.moments(run, 0.05)[-1].true_gap == pytest.approx(max(gaps), abs=1e-9)


def test_no_goal_loses_more_than_the_certificate(run: Run) -> None:
    """False alarm: 1e-6, the delta of the certificate."""
    assert history.moments(run, 1e-6)[-1].true_gap <= run.certificate(1e-6).eps


def test_many_goals_are_thinned_evenly_and_end_at_both_ends(
    monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    every = history.goals(run)
    monkeypatch.setattr(history, "GOALS", 5)
    few = history.goals(run)
    assert len(few) == 5
    assert len(every) == 16
    np.testing.assert_array_equal(few[[0, -1]], every[[0, -1]])


def test_intervals_are_the_shadow_of_the_ellipsoid(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every parameter on the ellipsoid stays within the intervals, and each end is attained."""
    monkeypatch.setattr(ft, "CUT", 0)
    confidence, unit = run.confidence(0.05), run.problem.known.unit
    weights = ft.weights(run, confidence)
    Z, rows = np.asarray(run.valid.basis), np.asarray(run.valid.rows)
    z_rows, z = rows @ Z, np.asarray(confidence.ball.z)
    q = Z.shape[1]

    def moved(u: np.ndarray) -> np.ndarray:
        return Z @ np.linalg.lstsq(z_rows, z @ u, rcond=None)[0] / unit

    radius = weights.high - weights.estimate
    np.testing.assert_allclose(weights.estimate - weights.low, radius)
    rng = np.random.default_rng(0)
    for u in rng.normal(size=(200, q)):
        assert (np.abs(moved(u / np.linalg.norm(u))) <= radius + 1e-12).all()
    for i in range(len(radius)):
        toward = np.array([moved(e)[i] for e in np.eye(q)])
        assert moved(toward / np.linalg.norm(toward))[i] == pytest.approx(radius[i])


def test_intervals_hold_the_truth(run: Run) -> None:
    """False alarm: 1e-6, the delta of the confidence."""
    weights = ft.weights(run, run.confidence(1e-6))
    assert weights.truth is not None
    assert (weights.low - 1e-9 <= weights.truth).all()
    assert (weights.truth <= weights.high + 1e-9).all()


def test_intervals_are_cut_where_no_kernel_has_such_a_weight() -> None:
    """Weights of a grid are probabilities, of staying on course and of slipping; one episode says little of them."""
    run = hf.explore(hf.make("zoned-grid", size=3, zones=2, horizon=4), episodes=1)
    weights = ft.weights(run, run.confidence(0.05))
    np.testing.assert_allclose(weights.low, 0.0, atol=1e-9)
    np.testing.assert_allclose(weights.high, 1.0, atol=1e-9)


def test_doubt_is_zero_where_everything_is_known_and_nan_where_nobody_gets() -> None:
    run = known_world()
    np.testing.assert_array_equal(ft.doubts(run, run.confidence(0.05)), 0.0)
    far = hf.explore(RIVER, "uniform", episodes=5, progress=False)
    np.testing.assert_array_equal(np.isnan(ft.doubts(far, far.confidence(0.05))), np.arange(8) > 3)


def test_visits_count_every_step(run: Run) -> None:
    assert ft.facts(run).visits.sum() == run.episodes * run.problem.horizon


def test_an_example_is_the_plan_of_its_reward_and_its_truth(run: Run) -> None:
    for title, states, table in ft.samples(run.problem):
        found = ft.example(run, title, states, table, 0.05)
        plan = run.plan(table)
        assert found.V[run.problem.start] == pytest.approx(plan.value, abs=1e-12)
        assert (found.gap, found.value) == (plan.gap, plan.value)
        best = planning.optimal(run.problem.kernel(), table).V[0, run.problem.start]
        assert found.best == pytest.approx(best)
        assert found.loss == pytest.approx(max(0.0, hf.true_gap(run.problem, table, plan.policy)))


@pytest.mark.parametrize(
    ("x", "text"),
    [(0.0, "0"), (0.5614, "0.561"), (12.345, "12.3"), (1234.5, "1,234"), (3.0, "3"), (6.98e-5, "0.00007")]
    + [(1e-9, "under 0.000001"), (float("nan"), "–"), (None, "–"), (0.001, "0.00100"), (99.96, "100.0")],
)
def test_numbers_are_written_for_people(x: float | None, text: str) -> None:
    assert number(x) == text


@pytest.mark.parametrize(
    "x", [0.0, 2.001e-11, 1e-9, 9.995e-7, 3e-6, 0.000999, 0.041, 0.0413001, 0.56139, 0.99951, 1.0]
)
def test_bounds_are_never_rounded_down(x: float) -> None:
    assert x <= float(bound(x)) <= max(1.011 * x, x + 1e-6 if x >= 1e-6 else 0.0)


# ---- the page --------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """What a browser would ask for, every id, and the visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self._is_hidden = False
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._is_hidden = tag in ("style", "title")
        for name, value in attributes:
            if name in ("src", "href", "xlink:href", "srcset", "data", "action"):
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        self._is_hidden = False

    def handle_data(self, data: str) -> None:
        if not self._is_hidden:
            self.text += " ".join(data.split()) + " "


def stands_alone(text: str) -> Page:
    """Nothing is asked for outside the file, nothing runs, ids are unique, every colour follows the theme."""
    page = Page(text)
    assert all(link.startswith(("#", "data:")) for link in page.links)
    assert all(link.startswith("#") for link in re.findall(r"url\(['\"]?([^)]*)", text))
    assert "@import" not in text
    assert set(re.findall(r"https?://[^\"' )]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "script" not in page.tags
    assert len(page.ids) == len(set(page.ids))
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        assert not re.findall(r":\s*#[0-9a-f]{6}\b", svg)
    return page


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (grid, ["no plan loses more than", "really lost at the worst goal", "End in column", "zoned-grid"]),
        (known_world, ["Nothing had to be learnt", "loses at most"]),
        (rejected, ["The data contradict the model", "model rejected", "if the model were right"]),
        (logged, ["river", "What 50 logged episodes taught", "Its episodes were logged"]),
        (unlabelled, ["For all rewards at once nothing is proved yet", "random-mixture", "uniform"]),
    ],
)
def test_a_report_says_what_matters_and_stands_alone(
    tmp_path: Path, make: Callable[[], Run], said: list[str]
) -> None:
    run = make()
    path = report.write_report(run, tmp_path / "deep" / "report.html")
    text = path.read_text(encoding="utf-8")
    page = stands_alone(text)
    for words in [
        *said,
        f"What {run.episodes} ",
        "Settings and versions",
        "numpy",
        "Plans for three rewards",
    ]:
        assert words in page.text
    assert list(path.parent.iterdir()) == [path]
    if not run.is_simulated:
        assert "really lost" not in page.text
        assert "truth" not in page.text
        assert "without a reward" not in page.text
        assert "never saw" not in page.text
        assert "known while exploring" not in page.text


def test_the_first_screen_repeats_the_certificate(tmp_path: Path, run: Run) -> None:
    text = report.write_report(run, tmp_path / "r.html").read_text(encoding="utf-8")
    lead = Page(text[: text.index("<h2>")]).text
    assert f"no plan loses more than {bound(run.certificate().eps)} " in lead
    assert "With probability 0.95" in lead


def test_an_explorer_that_was_given_a_reward_is_not_called_reward_free(tmp_path: Path, run: Run) -> None:
    guided = replace(run, explorer=make_explorer("ucrl-vtr", budget=70, reward=hf.goal(run.problem, 3)))
    text = report.write_report(guided, tmp_path / "r.html").read_text(encoding="utf-8")
    page = stands_alone(text)
    assert "A reward guided it" in page.text
    assert "never saw" not in page.text
    assert "without a reward" not in page.text
    assert "array [8, 16, 4]" in page.text


def test_every_part_of_the_certificate_is_explained_and_nothing_else(tmp_path: Path, run: Run) -> None:
    text = report.write_report(run, tmp_path / "r.html").read_text(encoding="utf-8")
    words = text[text.index("The words on this page") : text.index("</details>")]
    explained = set(re.findall(r"<dt>(\w+)</dt>", words))
    assert set(run.certificate().parts) <= explained
    assert "attained" not in explained
    assert set(run.certificate(method="direct").parts) <= set(MEANINGS)


def test_a_reconstruction_is_called_one(tmp_path: Path, run: Run) -> None:
    chen = replace(run, explorer=make_explorer("chen2022"))
    for path in (
        report.write_report(chen, tmp_path / "r.html"),
        report.write_comparison({"a": chen}, tmp_path / "c.html"),
    ):
        text = path.read_text(encoding="utf-8")
        assert "chen2022 (reconstruction)" in text
        assert "chen2022" not in text.replace("chen2022 (reconstruction)", "")
    assert report.compare({"a": chen})[0]["explorer"] == "chen2022 (reconstruction)"


def test_thinned_goals_are_counted_where_the_worst_is_told(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> tuple[str, str, str]:
        page, both = tmp_path / "r.html", tmp_path / "c.html"
        report.write_report(run, page)
        report.write_comparison({"one": run, "two": run}, both)
        texts = (Page(path.read_text(encoding="utf-8")).text for path in (page, both))
        return *texts, report.figures(run)["gap"].axes[1].get_title(loc="left")

    page, both, title = told()
    assert "really lost at the worst goal;" in page
    assert "really lost, worst goal " in both
    assert title == "really lost, at the worst goal"
    assert "were scored" not in page + both
    monkeypatch.setattr(history, "GOALS", 5)
    page, both, title = told()
    assert "really lost at the worst of 5 goals;" in page
    assert "(5 of 16 were scored, evenly spread)" in page
    assert "really lost, worst of 5 goals " in both
    assert both.count("5 of 16 goals were scored") == 2
    assert title == "really lost, at the worst of 5 goals"
    other = hf.explore(RIVER, "uniform", episodes=5, progress=False)  # four goals
    report.write_comparison({"many": run, "few": other}, tmp_path / "mixed.html")
    mixed = Page((tmp_path / "mixed.html").read_text(encoding="utf-8")).text
    assert "really lost, worst goal scored " in mixed
    assert mixed.count("goals were scored") == 1
    assert [row["goals_scored"] for row in report.compare({"a": run, "b": other, "c": logged()})] == [
        5,
        4,
        None,
    ]


def test_the_same_run_gives_the_same_bytes(tmp_path: Path, run: Run) -> None:
    first, second = (report.write_report(run, tmp_path / name).read_bytes() for name in ("a.html", "b.html"))
    assert first == second


def test_names_are_text_and_never_markup(tmp_path: Path) -> None:
    run = known_world()
    run = replace(run, problem=replace(run.problem, name="<script>alert(1)</script>"))
    stands_alone(report.write_report(run, tmp_path / "r.html").read_text(encoding="utf-8"))
    text = report.write_comparison({"<img src=x>": run}, tmp_path / "c.html").read_text(encoding="utf-8")
    assert "img" not in stands_alone(text).tags


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, run: Run) -> None:
    target = tmp_path / "report.html"
    target.mkdir()
    for path in (target, tmp_path):
        with pytest.raises(IsADirectoryError) as refused:
            report.write_report(run, path)
        assert refused.value.filename == str(path)
    assert list(tmp_path.iterdir()) == [target]


# ---- comparisons and figures -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(run: Run) -> dict[str, Run]:
    return {"design": run, "random": grid(70, explorer="uniform")}


def test_a_comparison_ranks_by_what_is_proved(tmp_path: Path, pair: dict[str, Run]) -> None:
    rows = report.compare(pair)
    assert [row["run"] for row in rows] == ["design", "random"]
    for row in rows:
        assert row["certified_gap"] == pair[row["run"]].certificate().eps
    best = min(rows, key=lambda row: row["certified_gap"])["run"]
    page = stands_alone(report.write_comparison(pair, tmp_path / "c.html").read_text(encoding="utf-8"))
    assert f"{best} has the smallest" in page.text
    assert "different problems" not in page.text


def test_a_comparison_of_different_problems_says_so(tmp_path: Path, run: Run) -> None:
    text = report.write_comparison({"a": run, "b": rejected()}, tmp_path / "c.html").read_text(
        encoding="utf-8"
    )
    page = stands_alone(text)
    assert "different problems" in page.text
    assert "rejected" in page.text
    assert "really lost" not in page.text  # the truth of logged episodes is not known


def test_a_loss_is_never_told_below_zero(run: Run) -> None:
    found = ft.facts(run, 0.05)
    rounded = history.Moment(found.episodes, 0.5, 0.0, 1.0, true_gap=-2.776e-17)
    assert summary(replace(found, history=[rounded]))["worst_true_gap"] == 0


def test_nothing_to_compare_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="nothing to compare"):
        report.write_comparison({}, tmp_path / "c.html")


def test_figures_are_written_as_svg_and_png(tmp_path: Path, run: Run) -> None:
    names = {"gap", "states", "weights", "rows", "plan-1", "plan-2", "plan-3"}
    assert set(report.figures(run)) == names
    written = report.write_figures(run, tmp_path / "figures")
    assert {path.name for path in written} == {f"{name}.{kind}" for name in names for kind in ("svg", "png")}
    for path in written:
        start = path.read_bytes()[:8]
        assert start == b"\x89PNG\r\n\x1a\n" if path.suffix == ".png" else start.startswith(b"<?xml")
    with pytest.raises(OptionError, match="format is 'pdf'"):
        report.write_figures(run, tmp_path, formats=["pdf"])
