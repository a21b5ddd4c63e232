"""What is printed of things: a few lines that say what they are; and what `dir` and a dot find in the library."""

import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import horizonfree as hf
from horizonfree._repr import ReprMixin

LEFT, RIGHT = np.zeros((2, 3, 2, 3))
for s in range(3):
    LEFT[s, :, max(s - 1, 0)] = RIGHT[s, :, min(s + 1, 2)] = 1.0
NAMES: dict[str, Any] = {"states": ["port", "bay", "<sea>"], "actions": ["wait", "sail"]}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> hf.Run:
    problem = hf.Mixture.from_kernels(
        {"back": LEFT, "on": RIGHT}, horizon=4, weights=[0.2, 0.8], name="harbour", **NAMES
    )
    folder = tmp_path_factory.mktemp("shown") / "a"
    return hf.explore(problem, "uniform", episodes=20, progress=False, out=folder)


def test_a_problem_says_what_it_is(run: hf.Run) -> None:
    lines = repr(run.problem).splitlines()
    assert lines[0] == "Problem harbour"
    assert "  states   3: port, bay, <sea>" in lines
    assert "  episode  4 steps from port" in lines
    assert "  unknown  1 number, in the weights of back, on" in lines
    assert repr(hf.make("zoned-grid")).count("\n") == 5
    assert "one of 2 states, drawn" in repr(hf.Tabular(3, 2, 2, start=[0.5, 0.5, 0]))


def test_a_run_a_plan_and_a_certificate_say_what_they_are(run: hf.Run) -> None:
    assert "20, explored by uniform, seed 0" in repr(run)
    assert re.search(r"back: 0\.\d{3}, on: 0\.\d{3}", repr(run))
    assert str(run.folder) in repr(run)
    plan = run.plan(hf.goal(run.problem, "<sea>"))
    text = repr(plan)
    assert text.startswith("Plan for 4 steps from port\n")
    assert re.search(r"value +0\.\d+, 95% confidence interval \[", text)
    assert plan.certificate.summary() in text
    assert re.search(r"first +(wait|sail)", text)
    assert plan.certificate.summary() in repr(plan.certificate)
    assert repr(run.certificate()).startswith("Certificate\n")


def test_a_notebook_gets_a_table_and_names_are_not_markup(run: hf.Run) -> None:
    objects: list[ReprMixin] = [run, run.problem, run.certificate(), run.plan(hf.goal(run.problem, 2))]
    for item in objects:
        page = item._repr_html_()
        assert page.startswith("<table>")
        assert page.count("<tr>") == len(item._repr_table().lines)
    page = run.problem._repr_html_()
    assert "&lt;sea&gt;" in page
    assert "<sea>" not in page


def test_a_plan_knows_where_it_spends_its_time(run: hf.Run) -> None:
    """Against the sum over all trajectories, written out; a policy that draws its actions as well."""
    P = run.confidence().kernel.dense()
    rng = np.random.default_rng(0)
    for policy in (rng.integers(2, size=(4, 3)), rng.dirichlet(np.ones(2), size=(4, 3))):
        probabilities = np.eye(2)[policy] if policy.ndim == 2 else policy
        mass, expected = np.array([1.0, 0, 0]), []
        for h in range(4):
            expected.append(mass)
            mass = sum(mass[s] * probabilities[h, s, a] * P[s, a] for s in range(3) for a in range(2))
        plan = run.evaluate(hf.goal(run.problem, 2), policy)
        np.testing.assert_allclose(plan.occupancy, expected, atol=1e-12)
    with pytest.raises(hf.errors.ShapeError, match="this plan has no start"):
        _ = replace(plan, start=None).occupancy


def test_the_library_shows_its_names_and_its_rooms() -> None:
    assert set(hf.__all__) <= set(dir(hf))
    for room in ("planning", "report", "errors"):
        assert getattr(hf, room) is import_module(f"horizonfree.{room}")
        assert room in dir(hf)
    with pytest.raises(AttributeError, match=r"no attribute 'reprot'; see dir\(horizonfree\)"):
        hf.reprot  # noqa: B018  # asking is the test
    assert callable(hf.problems)
    assert Path(hf.web.__file__).is_file()
