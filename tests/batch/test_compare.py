"""Comparisons: rows agree with the runs they stand for."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree import planning
from horizonfree.batch.compare import compare, compare_in_processes, medians
from horizonfree.errors import OptionError, UnknownNameError
from horizonfree.explorers.registry import label
from horizonfree.mdp import rewards
from horizonfree.report.draw import plot_comparison
from tests.reference.linear_models import random_linear


@pytest.fixture(scope="module")
def rows():
    problem = hf.make("river-swim", states=4, horizon=6)
    return problem, compare(problem, ["uniform", "goal-cycling"], episodes=16, seeds=2, checkpoints=[4, 16])


def test_there_is_a_row_for_every_explorer_seed_and_checkpoint(rows):
    keys = [(row["explorer"], row["seed"], row["episodes"]) for row in rows[1]]
    assert keys == [
        (name, seed, k) for name in ("uniform", "goal-cycling") for seed in (0, 1) for k in (4, 16)
    ]


def test_a_row_has_the_numbers_of_its_run(rows):
    problem, found = rows
    run = hf.explore(problem, "uniform", episodes=16, seed=1, progress=False)
    (row,) = [x for x in found if (x["explorer"], x["seed"], x["episodes"]) == ("uniform", 1, 16)]
    assert row["eps"] == pytest.approx(run.certificate(method="uniform").eps, rel=1e-9)
    tables = [f(problem, g) for f in (rewards.goal, rewards.occupancy) for g in range(4)]
    for curve, theta in (("gap", run.confidence().theta), ("own_gap", run.theta_hat)):
        plans = [planning.optimal(problem.model.kernel(theta), table).policy for table in tables]
        worst = max(hf.true_gap(problem, table, policy) for table, policy in zip(tables, plans))
        assert row[curve] == pytest.approx(worst, abs=1e-9)


def test_medians_are_over_the_seeds(rows):
    found = medians(rows[1], "eps")
    expected = np.median([x["eps"] for x in rows[1] if (x["explorer"], x["episodes"]) == ("uniform", 16)])
    assert found["uniform"][16] == expected
    assert list(found) == ["uniform", "goal-cycling"]


def test_a_reconstruction_is_called_one_in_tables_and_figures(tmp_path):
    row = {"seed": 0, "episodes": 4, "gap": 0.1, "own_gap": 0.1, "eps": 0.5}
    found = [{"explorer": name, **row} for name in ("chen2022", "uniform")]
    assert list(medians(found, "eps")) == ["chen2022 (reconstruction)", "uniform"]
    plot_comparison(found, tmp_path / "figure.svg")
    assert "chen2022 (reconstruction)" in (tmp_path / "figure.svg").read_text()


def test_nothing_and_the_unknown_are_refused(rows):
    with pytest.raises(OptionError, match="nothing to compare"):
        compare(rows[0], [], episodes=2)
    with pytest.raises(UnknownNameError, match="ucrl-rfe"):
        compare(rows[0], ["uniform", "ucrl-ref"], episodes=2)


def test_processes_of_their_own_give_the_same_rows_and_a_figure(tmp_path):
    parameters, how = {"states": 4, "horizon": 6}, {"episodes": 16, "seeds": 2, "checkpoints": [4, 16]}
    (found,) = compare_in_processes("river-swim", parameters, ["uniform"], workers=1, **how)
    expected = compare(hf.make("river-swim", **parameters), ["uniform"], **how)
    for mine, other in zip(found, expected, strict=True):
        assert mine | {"seconds": 0} == other | {"seconds": 0}
    plot_comparison(found, tmp_path / "figure.svg")
    assert "uniform" in (tmp_path / "figure.svg").read_text()


def test_a_contest_refuses_unknown_explorers_before_it_starts():
    with pytest.raises(UnknownNameError, match="unifrom"):
        compare_in_processes("river-swim", {}, ["unifrom"], episodes=1)
    for given in ({"workers": 0}, {"seeds": 0}, {"episodes": 0}):
        (name,) = given
        with pytest.raises(OptionError, match=f"{name} is 0"):
            compare_in_processes("river-swim", {}, ["uniform"], **{"episodes": 1, **given})


def test_the_same_explorer_twice_under_names_of_ones_own(rows, tmp_path):
    problem, found = rows
    how = {"episodes": 16, "seeds": 2, "checkpoints": [4, 16]}
    both = hf.compare(problem, {"a": {"name": "uniform"}, "uniform": {}}, **how)
    assert [row["explorer"] for row in both] == ["a"] * 4 + ["uniform"] * 4
    assert {row["algorithm"] for row in both} == {"uniform"}
    mine = [row for row in found if row["explorer"] == "uniform"]
    for part in (both[:4], both[4:]):
        assert [row["eps"] for row in part] == [row["eps"] for row in mine]
    assert list(medians(both, "eps")) == ["a", "uniform"]
    marked = {"algorithm": "chen2022", "marks": label("chen2022")[len("chen2022") :]}
    plot_comparison([row | marked for row in both[:4]], tmp_path / "figure.svg")
    assert "a (reconstruction)" in (tmp_path / "figure.svg").read_text()
    with pytest.raises(UnknownNameError, match="no option 'scal'; did you mean 'scale'"):
        compare_in_processes("river-swim", {}, {"a": {"name": "ucrl-rfe", "scal": 1}}, episodes=1)
    with pytest.raises(OptionError, match="list of names"):
        hf.compare(problem, "uniform", episodes=2)


def test_what_was_exchanged_inside_an_algorithm_is_shown_as_it_was_chosen():
    """RFLIN names its regret minimiser: the one that ran, whatever the row is called."""
    explorers = {"rflin": {}, "slow": {"name": "rflin", "regmin": "force"}}
    rows = compare(random_linear(), explorers, episodes=3, seeds=1, checkpoints=[3])
    assert set(medians(rows, "eps")) == {"rflin (regmin lsvi-ucb)", "slow (regmin force)"}
