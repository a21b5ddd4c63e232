"""Explorers of one's own: in plain Python and traced, by object and by name, in runs, folders, batches and sweeps."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import OptionError, RunError, UnknownNameError
from horizonfree.explorers import registry
from tests.adversary.planted import LeastTaken, RandomGoals
from tests.runs.test_store import assert_same

NAME = "tests.adversary.planted:LeastTaken"


class Eager(hf.PythonExplorer):
    """Goes, in its estimate, where visits are few; counts episodes in its state."""

    power: float = 0.5

    def init(self, model):
        return {"episodes": np.zeros(2, int), "last": np.zeros(model.space.num_states)}

    def choose(self, rng, model, state, evidence):
        reward = (
            np.broadcast_to((1 + evidence.visits) ** -self.power, model.space.sizes) / model.space.horizon
        )
        return hf.planning.optimal(self.estimate(model, evidence), reward).policy

    def update(self, model, state, evidence, trajectory):
        state["episodes"] += 1
        state["last"][:] = 0
        state["last"][trajectory.s] = 1
        return state, {"count": state["episodes"][0]}


@pytest.fixture(scope="module")
def problem():
    return hf.make("zoned-grid", size=3, zones=2, horizon=5)


@pytest.mark.parametrize("explorer", [Eager(power=1.0), LeastTaken(), RandomGoals(step=-2)])
def test_it_is_stored_and_resumed_to_the_bit(problem, explorer, tmp_path):
    uninterrupted = hf.explore(problem, explorer, episodes=9, seed=3, progress=False)
    hf.explore(problem, explorer, episodes=4, seed=3, out=tmp_path / "a", progress=False)
    loaded = hf.load(tmp_path / "a")
    assert loaded.certificate().eps <= 1
    assert_same(uninterrupted, loaded.resume(episodes=5, progress=False))


def test_its_state_and_records_are_its_own(problem):
    run = hf.explore(problem, Eager(), episodes=7, progress=False)
    np.testing.assert_array_equal(run.records["count"], np.arange(1, 8))
    assert run.explorer_spec.name.endswith("test_python_explorer:Eager")
    plan = run.plan(hf.goal(problem, 8), model="explorer")
    assert plan.policy.shape == (5, 9)


def test_a_batch_has_its_runs(problem):
    batch = hf.explore_many(problem, Eager(), episodes=8, seeds=3, checkpoints=[4, 8], progress=False)
    for seed in range(3):
        run = hf.explore(problem, Eager(), episodes=8, seed=seed, progress=False)
        np.testing.assert_array_equal(batch[seed].visits, run.visits)
        assert batch.curves["eps"][seed, 1] == pytest.approx(run.certificate(method="uniform").eps, abs=1e-9)
    goals = [hf.goal(problem, s) for s in range(9)] + [hf.occupancy(problem, s) for s in range(9)]
    gaps = [hf.true_gap(problem, r, batch[0].plan(r, model="explorer").policy) for r in goals]
    assert batch.curves["own_gap"][0, 1] == pytest.approx(max(gaps), abs=1e-9)


def test_a_batch_in_a_folder_is_read_back_and_options_vary(problem, tmp_path):
    settings = {"episodes": 5, "seeds": 2, "checkpoints": [5], "progress": False, "out": tmp_path / "b"}
    grid = {"power": [0.25, 1.0]}
    first = hf.explore_many(problem, Eager(), over=grid, **settings)
    second = hf.explore_many(problem, Eager(), over=grid, **settings)
    np.testing.assert_array_equal(first.curves["gap"], second.curves["gap"])
    assert first.shape == (1, 2, 2)
    run = hf.explore(problem, Eager(power=1.0), episodes=5, seed=1, progress=False)
    np.testing.assert_array_equal(second[3].visits, run.visits)


def test_it_explores_a_real_environment(problem):
    env = problem.to_gymnasium()
    run = hf.explore(env, Eager(), known=problem, episodes=6, seed=2, progress=False)
    second = hf.explore(env, Eager(), known=problem, episodes=3, seed=2, progress=False)
    assert_same(run, second.resume(episodes=3, env=env, progress=False))


def test_it_has_a_name_and_options(problem):
    run = hf.explore(problem, NAME, episodes=3, progress=False)
    assert_same(run, hf.explore(problem, LeastTaken(), episodes=3, progress=False))
    by_name = hf.explore(
        problem, "tests.explorers.test_python_explorer:Eager", power=2.0, episodes=3, progress=False
    )
    assert by_name.explorer.power == 2.0
    with pytest.raises(UnknownNameError, match="no option 'powr'"):
        hf.explore(problem, "tests.explorers.test_python_explorer:Eager", powr=2.0, episodes=3)
    assert registry.about(NAME)["about"].startswith("Right: the action")


def test_what_is_no_explorer_is_refused(problem):
    for name, message in {
        "tests.adversary.planted:Nothing": "cannot be imported",
        "no.such.module:Explorer": "cannot be imported",
        "tests.adversary.planted:np": "must be a subclass",
    }.items():
        with pytest.raises((UnknownNameError, OptionError), match=message):
            hf.explore(problem, name, episodes=1)
    with pytest.raises(OptionError, match=r"give an object with its options: LeastTaken\(\)"):
        hf.explore(problem, LeastTaken, episodes=1)


def test_an_entry_point_gives_it_a_short_name(problem, monkeypatch):
    point = EntryPoint("least-taken", NAME, registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == registry.GROUP else [])
    run = hf.explore(problem, "least-taken", episodes=3, progress=False)
    assert run.explorer_spec.name == "least-taken"
    assert "least-taken" in hf.explorers()
    assert hf.explore(problem, LeastTaken(), episodes=1, progress=False).explorer_spec.name == "least-taken"


def test_its_errors_are_its_own_and_finished_episodes_are_kept(problem, tmp_path):
    class Fails(LeastTaken):
        def choose(self, rng, model, state, evidence):
            if evidence.episodes == 3:
                raise ZeroDivisionError("in the fourth episode")
            return super().choose(rng, model, state, evidence)

    calls = []
    with pytest.raises(ZeroDivisionError, match="in the fourth episode"):
        hf.explore(problem, Fails(), episodes=9, progress=False, callback=lambda k, _: calls.append(k))
    assert calls
    assert max(calls) <= 3


def test_a_class_of_a_script_is_stored_and_must_be_defined_again_to_resume(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nimport horizonfree as hf\n"
        "class Own(hf.PythonExplorer):\n"
        "    def choose(self, rng, model, state, evidence):\n"
        "        return evidence.visits.argmin(axis=1)\n"
        "problem = hf.make('river-swim', states=3, horizon=4)\n"
        f"hf.explore(problem, Own(), episodes=4, progress=False, out={str(tmp_path / 'run')!r})\n"
    )
    subprocess.run([sys.executable, script], check=True, cwd=tmp_path)
    run = hf.load(tmp_path / "run")
    assert run.plan(hf.goal(run.problem, 2)).gap <= 1
    with pytest.raises(UnknownNameError, match="__main__:Own"):
        run.resume(episodes=1)
    with pytest.raises(RunError, match="cannot be stored"):
        hf.explore(run.problem, Lambda(), episodes=1, progress=False).save(tmp_path / "c")


class Lambda(LeastTaken):
    """With an option that no file can hold."""

    rule: object = len


def test_a_sweep_takes_it_by_name_and_as_an_object(tmp_path):
    source = {
        "problems": {"river-swim": {"states": 3, "horizon": 4}},
        "explorers": {"named": {"name": NAME}, "object": LeastTaken()},
        "episodes": 6,
        "checkpoints": [6],
        "records": ["different"],
    }
    result = hf.sweep(source, tmp_path / "s", workers=1, progress=False)
    assert not result.failed
    eps_by_name, eps_of_object = (result.where(explorer=x)["eps"] for x in ("named", "object"))
    np.testing.assert_array_equal(eps_by_name, eps_of_object)
    with pytest.raises(OptionError, match="is an array"):
        hf.sweep(source | {"explorers": {"a": Table(np.zeros(3))}}, tmp_path / "t")


class Table(LeastTaken):
    """With an array as its option."""

    numbers: np.ndarray


def test_a_sweep_lets_every_explorer_see_the_problem_as_what_it_learns(tmp_path):
    source = {
        "problems": {"river-swim": {"states": 3, "horizon": 4}},
        "explorers": {"rf-ucrl": {}, "wang2020": {}, "table": {"name": "uniform", "seen_as": "table"}},
        "episodes": 5,
        "checkpoints": [5],
        "seeds": 2,
    }
    result = hf.sweep(source, tmp_path / "s", workers=1, progress=False)
    assert not result.failed
    problem = hf.make("river-swim", states=3, horizon=4)
    explorers = {"rf-ucrl": {}, "wang2020": {}, "table": {"name": "uniform", "seen_as": "table"}}
    rows = hf.compare(problem, explorers, episodes=5, seeds=2, checkpoints=[5])
    for name in explorers:
        eps = result.where(explorer=name)["eps"].tolist()
        assert eps == pytest.approx([row["eps"] for row in rows if row["explorer"] == name])
    with pytest.raises(OptionError, match="learns a MixtureModel"):
        hf.sweep(
            source | {"problems": {"river-swim": {"seen_as": "tabular"}}, "explorers": {"ucrl-rfe": {}}},
            tmp_path / "t",
        )
