"""What a report opens with: the goals together, then every reward; intervals that stay true when they are rounded."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import horizonfree as hf
from horizonfree import report
from horizonfree.guarantees.certificate import interval
from horizonfree.report import facts as facts_module
from horizonfree.report import facts as ft
from horizonfree.report.facts import goals_certificate
from horizonfree.report.page import bound
from horizonfree.runs.run import Run

from .example_runs import rejected_run
from .reading import Page

INTERVALS = [
    (0.6532, 0.7581, "[0.65, 0.76]"),
    (0.65, 0.76, "[0.65, 0.76]"),
    (0.0, 1.0, "[0, 1]"),
    (0.00631, 0.03454, "[0.006, 0.035]"),
    (0.70912341, 0.70912347, "[0.709123, 0.709124]"),
    (1.1e-9, 1.3e-9, "[0, 0.000001]"),
    (0.9951, 1.0, "[0.9951, 1]"),
    (-0.2, 0.05, "[-0.20, 0.05]"),
    (12.3, 57.9, "[12, 58]"),
    (1234.5, 5678.9, "[1,200, 5,700]"),
]


def test_intervals_are_written_for_people(subtests: pytest.Subtests) -> None:
    for low, high, text in INTERVALS:
        with subtests.test(text):
            assert interval(low, high) == text


@given(st.floats(-1e4, 1e4), st.floats(0, 1e4))
def test_intervals_are_rounded_outwards_and_by_little(low: float, width: float) -> None:
    high = low + width
    below, above = (float(x.replace(",", "")) for x in interval(low, high)[1:-1].split(", "))
    tiny = 1e-8 * max(1.0, width)
    assert low - max(0.1 * width, 1e-6) - tiny <= below <= low + tiny
    assert high - tiny <= above <= high + max(0.1 * width, 1e-6) + tiny


def test_the_headline_is_the_largest_gap_of_the_goals(run: Run) -> None:
    gaps = [run.plan(hf.goal(run.problem, s)).gap for s in range(16)]
    certificate = goals_certificate(run)
    assert certificate.eps == pytest.approx(max(gaps))
    assert certificate.summary().startswith("all 16 goals: suboptimality at most ")
    facts = ft.compute_facts(run)
    assert facts.family_name == "all 16 goals"
    assert facts.hardest_goal == ft.state_text(run.problem, int(np.argmax(gaps)))


def test_many_goals_are_thinned_and_counted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts_module, "MAX_GOALS", 15)
    monkeypatch.setattr(facts_module, "MAX_SCORED_GOALS", 5)
    states = facts_module.goal_states(run).scored
    gaps = [run.plan(hf.goal(run.problem, int(s))).gap for s in states]
    certificate = goals_certificate(run)
    assert certificate.eps == pytest.approx(max(gaps))
    assert certificate.summary().startswith(
        "worst of 5 goals, evenly spaced among 16: suboptimality at most "
    )
    facts = ft.compute_facts(run)
    assert facts.family_name == "worst of 5 goals"
    assert facts.hardest_goal == ft.state_text(run.problem, int(states[np.argmax(gaps)]))


def test_a_report_opens_with_the_goals_and_then_every_reward(text: str, run: Run) -> None:
    lead = Page(text[: text.index("<figure>")]).text
    goals, every_reward = run.certificate(rewards="goals"), run.certificate()
    first = lead.index(f"all 16 goals: suboptimality at most {bound(goals.eps)}")
    assert first < lead.index(f"of total at most 1: suboptimality at most {bound(every_reward.eps)}")
    for forecast in (goals.forecast, every_reward.forecast):
        assert forecast
        assert forecast in lead
    page_text = Page(text).text
    for title, _, table in ft.example_rewards(run.problem):
        plan = run.plan(table)
        assert title in page_text
        assert f"95% confidence interval {interval(plan.value_low, plan.value_high)}" in page_text


def test_what_is_refuted_has_no_interval(tmp_path: Path) -> None:
    text = report.write_report(rejected_run(), tmp_path / "r.html").read_text(encoding="utf-8")
    plans_text = text[text.index("Plans for single rewards") :]
    assert "confidence interval [" not in Page(plans_text).text


def test_rows_of_a_comparison_have_both_certificates(tmp_path: Path, run: Run) -> None:
    (row,) = report.compare({"a": run})
    goals, every_reward = run.certificate(rewards="goals"), run.certificate()
    assert (row["goals_gap"], row["certified_gap"]) == (goals.eps, every_reward.eps)
    assert (row["goals_summary"], row["forecast"]) == (goals.summary(), every_reward.forecast)
    page = Page(report.write_comparison({"a": run}, tmp_path / "c.html").read_text(encoding="utf-8"))
    assert f"{bound(goals.eps)} {bound(every_reward.eps)} " in " ".join(page.text.split())
