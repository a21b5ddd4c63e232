"""Linear MDPs through the code that all classes share: folders, batches, logs, environments, reports, playground."""

import shutil

import jax
import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import OptionError
from horizonfree.report import write_report
from tests.models.linear.systems import tiny
from tests.web.client import Client


@pytest.fixture(scope="module")
def problem():
    return tiny()


@pytest.fixture(scope="module")
def run(problem, tmp_path_factory):
    """60 episodes, with a declared reward, in a folder."""
    out = tmp_path_factory.mktemp("linear") / "a"
    return hf.explore(
        problem, "uniform", episodes=60, seed=1, rewards=[hf.goal(problem, 3)], out=out, budget=60
    )


def assert_same(a, b):
    for x, y in zip(jax.tree.leaves(a.evidence), jax.tree.leaves(b.evidence), strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_run_that_is_stored_goes_on_as_if_it_had_not_been(problem, run, tmp_path):
    loaded = hf.load(run.folder)
    assert_same(loaded, run)
    np.testing.assert_array_equal(loaded.problem.model.declared, run.problem.model.declared)
    reward = hf.goal(problem, 3)
    assert loaded.plan(reward).gap == run.plan(reward).gap
    assert loaded.plan(reward).gap < loaded.plan(reward * (1 - 1e-9)).gap or loaded.plan(reward).gap == 1
    uninterrupted = hf.explore(problem, "uniform", episodes=90, seed=1, budget=60)
    assert_same(hf.load(shutil.copytree(run.folder, tmp_path / "a")).resume(episodes=30), uninterrupted)


def test_members_of_a_batch_are_ordinary_runs(problem):
    batch = hf.explore_many(
        problem, "uniform", episodes=60, seeds=[1, 2], checkpoints=[60], budget=60, progress=False
    )
    assert_same(batch[0], hf.explore(problem, "uniform", episodes=60, seed=1, budget=60))
    assert (batch.curves["excess"] < 0).all()
    assert batch.curves["eps"][1, 0] == pytest.approx(batch[1].certificate().eps)


def test_logs_and_environments_teach_what_simulated_episodes_do(problem, run):
    log = hf.simulate(problem, np.full((5, 18, 2), 0.5), episodes=60, seed=3)
    logged = hf.from_episodes(problem, (log.s, log.a), budget=60)
    phi = np.asarray(problem.model.phi)[log.s[:, :-1], log.a].reshape(-1, 3)
    np.testing.assert_allclose(logged.evidence.gram, phi.T @ phi, rtol=1e-12)
    np.testing.assert_allclose(
        logged.evidence.cross, phi.T @ np.eye(18)[log.s[:, 1:].ravel()], rtol=0, atol=1e-12
    )
    live = hf.explore(problem.to_gymnasium(), "uniform", known=problem, episodes=5, progress=False)
    assert int(live.evidence.visits.sum()) == 25


def test_reports_and_the_playground_speak_of_it(run, tmp_path):
    page = tmp_path / "report.html"
    write_report(run, page)
    text = page.read_text()
    assert "features, 3" in text
    assert "The measures of 3 features" in text
    client = Client(run)
    answer = client.post("/api/plan", json={"weights": [[3, 1.0]], "when": "end", "step": 2, "seed": 5})
    assert answer.status_code == 200
    assert len(answer.json()["policy"]) == 18


def test_explorers_of_other_classes_are_refused_in_both_directions(problem):
    message = (
        "'optimal-design' learns a MixtureModel, but this problem has a LinearModel; .*: .*linear-design"
    )
    with pytest.raises(OptionError, match=message):
        hf.explore(problem, "optimal-design", episodes=1)
    with pytest.raises(OptionError, match="learns a LinearModel, but this problem has a MixtureModel"):
        hf.explore(hf.make("river-swim", states=3, horizon=3), "linear-design", episodes=1)


def test_a_problem_that_was_moved_is_explored_stored_and_read(tmp_path):
    for i, change in enumerate(({"start": 2}, {"horizon": 3})):
        problem = tiny().with_rewards("goals").with_start(**change)
        run = hf.explore(problem, "uniform", episodes=5, progress=False)
        run.save(tmp_path / str(i))
        assert hf.load(tmp_path / str(i)).certificate().eps == run.certificate().eps


def test_units_of_single_features_change_no_certificate():
    phi, mu = np.random.default_rng(0).dirichlet(np.ones(3), (5, 2)), np.eye(5)[:3] * 0.8 + 0.04
    scale = np.array([1.0, 1e-3, 50.0])
    problems = [
        hf.LinearMDP.from_features(phi * x, horizon=4, mu=mu / x[:, None]) for x in (np.ones(3), scale)
    ]
    policy = np.full(problems[0].space.sizes, 0.5)
    log = hf.simulate(problems[0], policy, episodes=3000, seed=1)
    eps = [hf.certify(problem, log, budget=3000).eps for problem in problems]
    assert eps[0] < 1
    assert eps[1] == pytest.approx(eps[0], abs=1e-6)


def test_probabilities_that_nearly_sum_to_one_are_made_to():
    run = hf.explore(tiny(), "uniform", episodes=300, progress=False)
    H, S, A = run.problem.space.sizes
    reward = np.full((H, S, A), 1 / H)
    for total in (1 - 9e-9, 1 + 9e-9):
        evaluation = run.evaluate(reward, np.full((H, S, A), total / A))
        assert not evaluation.certificate.is_rejected
        assert evaluation.value_low <= 1 <= evaluation.value_high + 1e-12
