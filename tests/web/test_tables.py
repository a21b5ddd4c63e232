"""The playground of an unknown table."""

import pytest

import horizonfree as hf
from tests.report.example_runs import table

from .client import Client


def test_it_answers() -> None:
    run = table()
    client = Client(run)
    description = client.get("/api/problem").json()
    assert (description["start"], len(description["cells"])) == (0, 16)
    answer = client.post("/api/plan", json={"weights": [[14, 1.0]], "when": "end"}).json()
    plan = run.plan(hf.goal(run.problem, 14))
    assert answer["gap"] == plan.gap < 1
    assert answer["value"] == pytest.approx(plan.value)
    assert (answer["value_low"], answer["value_high"]) == (plan.value_low, plan.value_high)
