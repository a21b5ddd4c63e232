"""Plans on the command line: intervals of values, policies in files, comparisons, other starts, families of rewards."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.guarantees.certificate import MEANINGS, interval
from horizonfree.runs.run import Run
from tests.shell import TINY, Shell

SMALL = TINY.replace("horizon=4", "horizon=6")  # every state can be reached
H, S, A = 6, 9, 4


@pytest.fixture(scope="module")
def stored_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    problem = hf.make("zoned-grid", size=3, zones=1, horizon=H)
    return hf.explore(problem, episodes=60, out=tmp_path_factory.mktemp("runs") / "a", progress=False)


@pytest.fixture
def run(shell: Shell, stored_run: Run) -> Run:
    """With a copy in the folder `a`, for the commands."""
    shutil.copytree(stored_run.folder, "a")
    return stored_run


def test_a_plan_shows_the_interval_of_its_value(shell: Shell, run: Run) -> None:
    expected, output = run.plan(hf.goal(run.problem, 8)), shell.json("plan a --goal 8")
    for name in ("value", "value_low", "value_high", "gap"):
        assert output[name] == pytest.approx(getattr(expected, name))
    assert expected.value_low < expected.value < expected.value_high
    out = shell("plan a --goal 8")[1]
    message = f"95% confidence interval {interval(expected.value_low, expected.value_high)}"
    assert re.search(rf"^value +{expected.value:.4g} +{re.escape(message)} *$", out, re.MULTILINE)
    assert "certified" in out
    np.save("ones.npy", np.ones(S))
    scaled = shell.json("plan a --reward ones.npy --scale per-step")
    assert scaled["value_low"] == pytest.approx(H)
    assert scaled["value_high"] == pytest.approx(H)


def test_a_policy_of_ones_own_is_valued_from_a_file_of_any_kind(shell: Shell, run: Run) -> None:
    rng, goal = np.random.default_rng(0), hf.goal(run.problem, 8)
    actions, probabilities = rng.integers(A, size=(H, S)), rng.dirichlet(np.ones(A), size=(H, S))
    deterministic = np.eye(A, dtype=int)[actions[0]]
    files = {
        "actions.npy": actions,
        "every.npy": actions[0],
        "drawn.npy": probabilities,
        "actions.csv": actions,
        "every.csv": actions[0],
        "drawn.csv": probabilities[0],
        "sure.csv": deterministic,
        "actions.json": actions,
        "drawn.json": probabilities,
        "sure.json": deterministic,
    }
    for name, array in files.items():
        if name.endswith(".npy"):
            np.save(name, array)
        elif name.endswith(".csv"):
            np.savetxt(name, array, delimiter=",", fmt="%d" if array.dtype.kind == "i" else "%.18g")
        else:
            Path(name).write_text(json.dumps(array.tolist()))
        output = shell.json(f"plan a --goal 8 --policy {name}")
        expected = run.evaluate(goal, array.astype(float) if name.startswith("sure") else array)
        for field in ("value", "value_low", "value_high", "gap"):
            assert output[field] == pytest.approx(getattr(expected, field)), name
        np.testing.assert_allclose(output["policy"], expected.policy)
        assert output["true_loss"] == pytest.approx(
            hf.true_gap(run.problem, goal, expected.policy), abs=1e-12
        )


def test_what_is_printed_or_written_can_be_read_again(shell: Shell, run: Run) -> None:
    text = shell("plan a --goal 8 --out p.npy --json")[1]
    Path("p.json").write_text(text)
    for name in ("p.json", "p.npy"):
        second = shell.json(f"plan a --goal 8 --policy {name}")
        assert second["policy"] == json.loads(text)["policy"]
        assert second["value"] == pytest.approx(json.loads(text)["value"])


def test_two_policies_are_compared(shell: Shell, run: Run) -> None:
    goal, stay = hf.goal(run.problem, 8), np.zeros((H, S), int)
    np.save("still.npy", stay)
    expected = run.compare(goal, run.plan(goal).policy, stay)
    output = shell.json("plan a --goal 8 --compare still.npy")["comparison"]
    assert {name: output[name] for name in ("difference", "low", "high")} == pytest.approx(
        {"difference": expected.difference, "low": expected.low, "high": expected.high}
    )
    assert output["summary"] == expected.summary()
    assert expected.low > 0
    interval_text = interval(expected.low, expected.high)
    message = f"the plan minus still.npy: 95% confidence interval {interval_text}; the plan is better"
    assert message in shell("plan a --goal 8 --compare still.npy")[1]
    shell.json("plan a --goal 8 --out best.npy")
    other = shell("plan a --goal 8 --policy still.npy --compare best.npy")[1]
    assert (
        f"still.npy minus best.npy: 95% confidence interval {interval(-expected.high, -expected.low)}"
        in other
    )
    assert "best.npy is better" in other
    assert "either may be better" in shell("plan a --goal 8 --policy best.npy --compare best.npy")[1]


def test_a_plan_can_start_elsewhere_with_fewer_steps(shell: Shell, run: Run) -> None:
    """The goal is then one of the steps that are left."""
    reward = np.zeros((2, S, A))
    reward[-1, 8] = 1
    expected, output = (
        run.plan(reward, start=4, horizon=2),
        shell.json("plan a --goal 8 --start 4 --horizon 2"),
    )
    assert output["value"] == pytest.approx(expected.value)
    assert output["gap"] == pytest.approx(expected.gap)
    assert np.shape(output["policy"]) == (2, S)
    assert output["true_loss"] <= output["gap"]
    assert "from state 4, in 2 steps" in shell("plan a --goal 8 --start 4 --horizon 2")[1]
    np.save("always.npy", np.ones(S, int))
    evaluation = shell.json("plan a --goal 8 --start 1 --policy always.npy")
    assert evaluation["value"] == pytest.approx(
        run.evaluate(hf.goal(run.problem, 8), np.ones(S, int), start=1).value
    )


BAD_LINES = [
    ("--policy no.npy", "policy no.npy: No such file"),
    ("--policy no.csv", "policy no.csv: No such file"),
    ("--policy text.csv", "policy text.csv, row 1: 'up' is not a number"),
    ("--policy empty.csv", "policy empty.csv has rows of [] cells; all must have as many, and one at least"),
    ("--policy ragged.csv", "policy ragged.csv has rows of [1, 2] cells; all must have as many"),
    ("--policy text.json", "policy text.json is not a list of numbers, or the output of `plan --json`"),
    ("--policy deep.json", "policy deep.json is not a list of numbers"),
    ("--policy other.json", "policy other.json is not a list of numbers"),
    ("--policy short.csv", "policy has shape (3,)"),
    ("--policy high.csv", "is 7; an action is 0 to 3"),
    ("--policy half.csv", "policy has shape (9,) and type float64"),
    ("--compare short.csv", "policy has shape (3,)"),
    ("--policy fine.csv --model explorer", "--model belongs to a plan; leave it out with --policy"),
    ("--start 9", "there is no state '9'; states are 0 to 8"),
    ("--start x", "there is no state 'x'; states are 0 to 8"),
    ("--horizon 0", "horizon is 0; it must be a number of steps"),
    ("--start 1 --horizon 9", "nothing is known of it"),
]


def test_what_is_wrong_with_a_policy_or_a_start_is_one_line(shell: Shell, subtests: pytest.Subtests) -> None:
    hf.explore(hf.make("zoned-grid", size=3, zones=1, horizon=4), "uniform", episodes=2, out="a")
    for name, text in {
        "text.csv": "up,down",
        "empty.csv": "",
        "ragged.csv": "1,2\n3",
        "text.json": "hello",
        "deep.json": "[" * 10_000,
        "other.json": '{"actions": [1]}',
        "short.csv": "1,2,3",
        "high.csv": ",".join("7" * S),
        "half.csv": ",".join(["0.5"] * S),
        "fine.csv": ",".join("1" * S),
    }.items():
        Path(name).write_text(text)
    for line, message in BAD_LINES:
        with subtests.test(line):
            code, out, err = shell(f"plan a --goal 1 {line}")
            assert code == 2
            assert out == ""
            last = err.splitlines()[-1]
            assert last.startswith("horizonfree: error: ")
            assert message in last


@pytest.mark.parametrize("rewards", ["goals", "occupancies"])
def test_a_family_is_certified_and_its_worst_is_named(rewards: str, shell: Shell, run: Run) -> None:
    expected, output = run.certificate(rewards=rewards), shell.json(f"certify a --rewards {rewards}")
    assert output["eps"] == pytest.approx(expected.eps)
    assert output["forecast"] == expected.forecast
    make = hf.goal if rewards == "goals" else hf.occupancy
    assert run.plan(make(run.problem, output["worst_state"])).gap == pytest.approx(expected.eps)
    out = shell(f"certify a --rewards {rewards} --verbose")[1]
    assert out.startswith(f"After 60 episodes: {expected.summary()}\n")
    assert "index of the reward" not in shell(f"certify a --rewards {rewards}")[1]
    assert expected.forecast in out
    assert re.search(r"^gap .* for each of these rewards\s*$", out, re.MULTILINE)
    assert f"{MEANINGS['worst']}: that of state {output['worst_state']}" in out


def test_a_family_that_does_not_exist_is_refused(shell: Shell, run: Run) -> None:
    for line, message in {
        "certify a --rewards gaols": "--rewards gaols: did you mean 'goals'?",
        "certify a --rewards goals --method direct": "--method is for every reward;",
    }.items():
        code, _, err = shell(line)
        assert code == 2
        assert message in err


def test_forecasts_stand_beside_certificates(shell: Shell, run: Run) -> None:
    forecast = run.certificate().forecast
    assert forecast
    assert shell.json("certify a")["forecast"] == forecast
    assert forecast in shell("certify a")[1]
    code, out, _ = shell(f"explore {SMALL} --episodes 60 --out b")
    assert code == 0
    assert forecast in out


@pytest.mark.usefixtures("undrawn")
def test_a_report_tells_machines_what_it_tells_people(shell: Shell, run: Run) -> None:
    output = shell.json("report a --figures f")
    assert output["goals"]["eps"] == pytest.approx(run.certificate(rewards="goals").eps)
    assert output["every_reward"]["eps"] == pytest.approx(run.certificate().eps)
    assert len(output["plans"]) == 4
    assert output["plans"][3]["title"].startswith("Reach")
    for plan in output["plans"]:
        assert plan["value_low"] <= plan["value"] <= plan["value_high"]
    assert output["goals"]["summary"] in shell("report a")[1]


def test_a_comparison_of_runs_has_both_certificates(shell: Shell, run: Run) -> None:
    (row,) = shell.json("compare a")["runs"]
    assert row["goals_gap"] == pytest.approx(run.certificate(rewards="goals").eps)
    assert row["certified_gap"] == pytest.approx(run.certificate().eps)
    assert "certified, all goals" in shell("compare a")[1]


def test_misspecification_from_the_shell_is_that_of_the_library(shell: Shell, run: Run) -> None:
    output = shell.json("certify a --misspecification .002")
    expected = run.certificate(misspecification=0.002)
    assert output["eps"] == expected.eps
    assert output["parts"]["zeta"] == 0.002
    assert output["summary"] == expected.summary()
    gap = shell.json("plan a --goal 8 --misspecification .002")["gap"]
    assert gap == pytest.approx(run.plan(hf.goal(run.problem, 8), misspecification=0.002).gap)
    curve = shell.json("robustness a --target .9 --goal 8")
    robustness = run.robustness(0.9, reward=hf.goal(run.problem, 8))
    assert curve["zeta"] == robustness.zeta
    assert [x["gap"] for x in curve["curve"]] == pytest.approx(robustness.gaps.tolist(), nan_ok=True)
    assert robustness.summary() in " ".join(shell("robustness a --target .9 --goal 8")[1].split())
    assert shell("plan a --goal 8 --policy x.npy --misspecification .1")[0] == 2


def test_what_is_likely_stands_under_what_is_proved(shell: Shell, run: Run) -> None:
    expected, output = run.plan(hf.goal(run.problem, 8)), shell.json("plan a --goal 8")
    credible = output["likely"]
    assert (credible["low"], credible["high"]) == pytest.approx(expected.credible_interval())
    assert credible["gap"] == pytest.approx(expected.credible_gap())
    assert credible["label"] == run.posterior().label
    out = shell("plan a --goal 8")[1]
    assert out.index("certified") < out.index("likely value") < out.index("likely gap")
    assert "not proved" in out
    assert "likely" not in shell.json("plan a --goal 8 --draws 0")
    np.save("theirs.npy", np.zeros((H, S), int))
    comparison = shell.json("plan a --goal 8 --compare theirs.npy")["comparison"]
    expected_comparison = run.compare(hf.goal(run.problem, 8), expected.policy, np.zeros((H, S), int))
    assert comparison["probability"] == expected_comparison.probability
    robust_plan = shell.json("plan a --goal 8 --misspecification .01")
    assert "leave misspecification= out" in robust_plan["likely"]["refusal"]


def test_an_interval_beside_a_bound_is_on_its_side_of_it() -> None:
    """Rounded outwards to two digits alone, [0, 0.012] would stand beside "at most 0.0005 is violated"."""
    assert interval(0.0006, 0.0118) == "[0, 0.012]"
    assert interval(0.0006, 0.0118, 0.0005) == "[0.0006, 0.0118]"
    assert interval(0.1, 0.2985, 0.299) == "[0.100, 0.299]"
    assert interval(0.1, 0.3, 0.3) == interval(0.1, 0.29999996, 0.3) == "[0.10, 0.30]"
    rng = np.random.default_rng(0)
    for low, width, bound in rng.random((1000, 3)) ** 3:
        below, above = (float(x) for x in interval(low, low + width, bound)[1:-1].split(", "))
        assert below <= low + 1e-9
        assert low + width <= above + 1e-9
        assert below >= bound or low < bound
        assert above <= bound or low + width > bound
