"""Comparisons: rows agree with the runs they stand for."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree import planning
from horizonfree._plots import save_figure
from horizonfree.batch import compare as comparing
from horizonfree.batch.compare import compare, compare_in_processes, medians, plot_comparison
from horizonfree.errors import OptionError, UnknownNameError
from horizonfree.explorers.registry import label
from horizonfree.mdp import rewards
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
    problem, stored_rows = rows
    run = hf.explore(problem, "uniform", episodes=16, seed=1, progress=False)
    (row,) = [x for x in stored_rows if (x["explorer"], x["seed"], x["episodes"]) == ("uniform", 1, 16)]
    assert row["eps"] == pytest.approx(run.certificate(method="uniform").eps, rel=1e-9)
    tables = [f(problem, g) for f in (rewards.goal, rewards.occupancy) for g in range(4)]
    for curve, theta in (("gap", run.confidence().theta), ("own_gap", run.theta_hat)):
        plans = [planning.optimal(problem.model.kernel(theta), table).policy for table in tables]
        worst = max(hf.true_gap(problem, table, policy) for table, policy in zip(tables, plans))
        assert row[curve] == pytest.approx(worst, abs=1e-9)


def test_medians_are_over_the_seeds(rows):
    median_rows = medians(rows[1], "eps")
    expected = np.median([x["eps"] for x in rows[1] if (x["explorer"], x["episodes"]) == ("uniform", 16)])
    assert median_rows["uniform"][16] == expected
    assert list(median_rows) == ["uniform", "goal-cycling"]


def test_a_reconstruction_is_called_one_in_tables_and_figures(tmp_path):
    row = {"seed": 0, "episodes": 4, "gap": 0.1, "own_gap": 0.1, "eps": 0.5}
    labelled_rows = [{"explorer": name, **row} for name in ("chen2022", "uniform")]
    assert list(medians(labelled_rows, "eps")) == ["chen2022 (reconstruction)", "uniform"]
    save_figure(plot_comparison(labelled_rows), tmp_path / "figure.svg")
    assert "chen2022 (reconstruction)" in (tmp_path / "figure.svg").read_text()


def test_nothing_and_the_unknown_are_refused(rows):
    with pytest.raises(OptionError, match="nothing to compare"):
        compare(rows[0], [], episodes=2)
    with pytest.raises(UnknownNameError, match="ucrl-rfe"):
        compare(rows[0], ["uniform", "ucrl-ref"], episodes=2)


def test_processes_of_their_own_give_the_same_rows_and_a_figure(tmp_path):
    parameters, settings = {"states": 4, "horizon": 6}, {"episodes": 16, "seeds": 2, "checkpoints": [4, 16]}
    ((_, process_rows),) = compare_in_processes(
        hf.make("river-swim", **parameters), ["uniform"], workers=1, **settings
    )
    expected = compare(hf.make("river-swim", **parameters), ["uniform"], **settings)
    for row, other in zip(process_rows, expected, strict=True):
        assert row | {"seconds": 0} == other | {"seconds": 0}
    save_figure(plot_comparison(process_rows), tmp_path / "figure.svg")
    assert "uniform" in (tmp_path / "figure.svg").read_text()


def test_a_contest_refuses_unknown_explorers_before_it_starts():
    with pytest.raises(UnknownNameError, match="unifrom"):
        compare_in_processes(hf.make("river-swim"), ["unifrom"], episodes=1)
    for bad_options in ({"workers": 0}, {"seeds": 0}, {"episodes": 0}):
        (name,) = bad_options
        with pytest.raises(OptionError, match=f"{name} is 0"):
            compare_in_processes(hf.make("river-swim"), ["uniform"], **{"episodes": 1, **bad_options})


def test_the_same_explorer_twice_under_names_of_ones_own(rows, tmp_path):
    problem, stored_rows = rows
    settings = {"episodes": 16, "seeds": 2, "checkpoints": [4, 16]}
    comparison = hf.compare(problem, {"a": {"name": "uniform"}, "uniform": {}}, **settings)
    assert [row["explorer"] for row in comparison] == ["a"] * 4 + ["uniform"] * 4
    assert {row["algorithm"] for row in comparison} == {"uniform"}
    uniform_rows = [row for row in stored_rows if row["explorer"] == "uniform"]
    for part in (comparison[:4], comparison[4:]):
        assert [row["eps"] for row in part] == [row["eps"] for row in uniform_rows]
    assert list(medians(comparison, "eps")) == ["a", "uniform"]
    entry = {"algorithm": "chen2022", "marks": label("chen2022")[len("chen2022") :]}
    save_figure(plot_comparison([row | entry for row in comparison[:4]]), tmp_path / "figure.svg")
    assert "a (reconstruction)" in (tmp_path / "figure.svg").read_text()
    with pytest.raises(UnknownNameError, match="no option 'scal'; did you mean 'scale'"):
        compare_in_processes(hf.make("river-swim"), {"a": {"name": "ucrl-rfe", "scal": 1}}, episodes=1)
    with pytest.raises(OptionError, match="list of names"):
        hf.compare(problem, "uniform", episodes=2)


def test_what_was_exchanged_inside_an_algorithm_is_shown_as_it_was_chosen():
    """RFLIN names its regret minimiser: the one that ran, whatever the row is called."""
    explorers = {"rflin": {}, "slow": {"name": "rflin", "regmin": "force"}}
    rows = compare(random_linear(), explorers, episodes=3, seeds=1, checkpoints=[3])
    assert set(medians(rows, "eps")) == {"rflin (regmin lsvi-ucb)", "slow (regmin force)"}


class Stumbles(hf.PythonExplorer):
    """Fails in its third episode."""

    def choose(self, rng, model, state, evidence):
        if evidence.episodes == 2:
            raise ZeroDivisionError("in the third episode")
        return np.zeros(model.space.num_states, int)


def test_every_explorer_sees_the_problem_as_what_it_learns():
    problem = hf.make("river-swim", states=3, horizon=4)
    explorers = {
        "optimal-design": {},
        "rf-ucrl": {},
        "wang2020": {},
        "table": {"name": "uniform", "seen_as": "table"},
        "mu": {"name": "lsvi-rfe", "seen_as": problem.as_linear().model.phi},
        "own": {"name": "uniform"},
    }
    result = hf.compare(problem, explorers, episodes=6, seeds=2, checkpoints=[6])
    assert list(result.medians("eps")) == [
        "optimal-design",
        "rf-ucrl (as a table)",
        "wang2020 (reconstruction, as a linear MDP, one-hot)",
        "table (as a table)",
        "mu (reconstruction, as a linear MDP, 6 features)",
        "own",
    ]
    views = {"rf-ucrl": problem.as_tabular(), "wang2020": problem.as_linear()}
    for name, view in views.items():
        comparison = hf.compare(view, [name], episodes=6, seeds=2, checkpoints=[6])
        own_rows = [row for row in result if row["explorer"] == name]
        assert [row["eps"] for row in own_rows] == [row["eps"] for row in comparison]
        assert [row["gap"] for row in own_rows] == [row["gap"] for row in comparison]


def test_what_cannot_be_seen_as_a_mixture_is_refused_before_the_first_episode(monkeypatch):
    table = hf.make("river-swim", states=3, horizon=4).as_tabular()
    calls = []
    monkeypatch.setattr(comparing, "run_job", lambda *_: calls.append(1))
    with pytest.raises(OptionError, match="learns a MixtureModel"):
        hf.compare(table, ["uniform", "optimal-design"], episodes=3)
    with pytest.raises(OptionError, match="checkpoint is 9"):
        hf.compare(table, ["uniform"], episodes=3, checkpoints=[9])
    with pytest.raises(OptionError, match="seen_as"):
        hf.compare(table, {"a": {"name": "uniform", "seen_as": "tabel"}}, episodes=3)
    assert not calls


def test_finished_work_is_kept_when_an_explorer_fails():
    problem = hf.make("river-swim", states=3, horizon=4)
    settings = {"episodes": 6, "seeds": 1, "checkpoints": [6]}
    result = hf.compare(problem, {"bad": Stumbles(), "uniform": {}}, **settings)
    assert {row["explorer"] for row in result} == {"uniform"}
    assert "in the third episode" in result.failed["bad"]
    assert "failed: bad" in repr(result)
    with pytest.raises(ZeroDivisionError):
        hf.compare(problem, [Stumbles()], **settings)


def test_a_worker_that_dies_loses_only_its_explorer(tmp_path):
    """In processes: the label and rows of those that end, an error text of those that fail."""
    parts = dict(
        compare_in_processes(
            hf.make("river-swim", states=3, horizon=4),
            {"bad": {"name": "tests.batch.test_compare:Stumbles"}, "uniform": {}},
            episodes=6,
            seeds=1,
            checkpoints=[6],
            workers=1,
        )
    )
    assert "in the third episode" in parts["bad"]
    assert [row["explorer"] for row in parts["uniform"]] == ["uniform"]


def test_a_comparison_is_short_at_a_prompt_and_a_picture_in_a_notebook(rows):
    comparison = rows[1]
    assert len(repr(comparison).splitlines()) <= 25
    assert "<img" in comparison._repr_html_()
    many_rows = [row | {"explorer": f"{i}", "algorithm": "uniform"} for i in range(40) for row in comparison]
    assert len(repr(comparing.ExplorerComparison("x", tuple(many_rows), {})).splitlines()) <= 25
    assert list(comparison.to_pandas()["episodes"])[:2] == [4, 16]


def test_progress_names_explorer_seeds_and_remaining_time(rows, capsys):
    hf.compare(rows[0], ["uniform", "goal-cycling"], episodes=4, seeds=2, checkpoints=[4], progress=True)
    err = capsys.readouterr().err
    assert "0 of 2 explorers done; uniform, seeds 0 to 1" in err
    assert err.rstrip().endswith("2 of 2 explorers done")
