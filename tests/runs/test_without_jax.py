"""Stored runs of every model class answer in a process that never imports JAX."""

import subprocess
import sys
from pathlib import Path

import pytest

import horizonfree as hf

PROBLEMS = {
    "mixture": lambda: hf.make("zoned-grid", size=3, zones=2, horizon=4),
    "tabular": lambda: hf.make("river-swim", states=4, horizon=5).as_tabular(),
    "linear": lambda: hf.make("linear-lock", blocks=2, horizon=4),
}
ASK = """
import sys
import numpy as np
import horizonfree as hf
run = hf.load(sys.argv[1])
reward = hf.goal(run.problem, 1)
plan = run.plan(reward)
run.certificate(), run.certificate(rewards="goals"), run.evaluate(reward, plan.policy), repr(run), repr(plan)
run.compare(reward, plan.policy, np.zeros_like(plan.policy)), run.plan(reward, discount=0.9)
assert hf.true_gap(run.problem, reward, plan.policy) >= 0
print(repr(plan.gap), not {"jax", "equinox"} & set(sys.modules))
"""
SHELL = """
import sys
sys.argv = ["horizonfree", *sys.argv[1:]]
from horizonfree.cli import main
try:
    main()
finally:
    assert not {"jax", "equinox"} & set(sys.modules)
"""


def python(*arguments: str) -> str:
    """What a new process prints."""
    return subprocess.run(
        [sys.executable, "-c", *arguments], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_loaded_run_answers_without_jax(name: str, tmp_path: Path) -> None:
    """In Python and at the shell, with the numbers of the process that explored."""
    run = hf.explore(PROBLEMS[name](), episodes=30, out=tmp_path / "a")
    gap, is_without = python(ASK, str(tmp_path / "a")).split()
    assert float(gap) == run.plan(hf.goal(run.problem, 1)).gap
    assert is_without == "True"
    folder, page = str(tmp_path / "a"), str(tmp_path / "page.html")
    for line in (["plan", folder, "--goal", "1"], ["certify", folder], ["report", folder, "--out", page]):
        assert python(SHELL, *line)
