"""Certificates as files: what is saved is confirmed by the same run, also when loaded, and by nothing else."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError
from horizonfree.problems.verification.explicit import layout_of
from horizonfree.runs import certificate_files, files

RNG = np.random.default_rng(4)
KERNELS = RNG.dirichlet(np.ones(3), (2, 3, 2))
COST = RNG.normal(size=(3, 2))
SCHEMA = Path(__file__).parents[2] / "docs" / "assets" / "certificate.schema.json"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    layout = layout_of({"goal": np.arange(3) == 2}, {"cost": COST})
    mixture = hf.Mixture.from_kernels(KERNELS, horizon=4, weights=[0.7, 0.3], layout=layout)
    problems = {"mixture": mixture, "table": mixture.as_tabular(), "linear": hf.make("linear-lock")}
    return {name: hf.explore(x, "uniform", episodes=60, progress=False) for name, x in problems.items()}


QUESTIONS = {
    "every reward": lambda run: run.certificate(),
    "another delta": lambda run: run.certificate(0.3),
    "goals": lambda run: run.certificate(rewards="goals"),
    "goal": lambda run: run.plan(hf.goal(run.problem, 0)).certificate,
    "per step": lambda run: run.plan(np.eye(run.problem.num_states)[0], scale="per-step").certificate,
    "explorer's plan": lambda run: run.plan(hf.goal(run.problem, 0), model="explorer").certificate,
    "rescaled": lambda run: run.plan(-np.arange(run.problem.num_states), scale="rescale").certificate,
    "policy": lambda run: (
        run.evaluate(hf.goal(run.problem, 0), np.ones(run.problem.num_states, int)).certificate
    ),
    "elsewhere": lambda run: (
        run.plan(hf.occupancy(run.problem.with_start(None, 2), 1), horizon=2).certificate
    ),
}
EVENTS = {
    "reach": lambda run: run.plan(hf.reach(run.problem, 2)).certificate,
    "least": lambda run: run.plan(hf.property('Pmin=? [F<=3 "goal"]')).certificate,
    "always": lambda run: run.plan(hf.property('Pmax=? [G<=4 !"goal"]'), start=1).certificate,
    "cost": lambda run: run.plan(hf.property('R{"cost"}min=? [C<=4]')).certificate,
    "stochastic": lambda run: run.evaluate(hf.reach(run.problem, 2), np.full((3, 2), 0.5)).certificate,
}
CASES = [(name, q) for name in ("mixture", "table", "linear") for q in QUESTIONS]
CASES += [(name, q) for name in ("mixture", "table") for q in EVENTS] + [("mixture", "direct")]


def ask(run, question):
    if question == "direct":
        return run.certificate(method="direct")
    return {**QUESTIONS, **EVENTS}[question](run)


@pytest.mark.parametrize(("name", "question"), CASES)
def test_a_certificate_is_confirmed_by_its_run_and_by_a_copy_from_the_disk(name, question, runs, tmp_path):
    run, path = runs[name], tmp_path / "c.json"
    certificate = ask(run, question)
    certificate.save(path)
    run.save(tmp_path / "run")
    for other in (run, hf.load(tmp_path / "run")):
        verdict = hf.verify(path, other)
        assert verdict.is_confirmed, verdict.differences
        assert verdict.bound == pytest.approx(certificate.eps, rel=1e-9)
        assert verdict.statement == certificate.statement
        assert "confirmed" in str(verdict)
    longer_run = run.resume(episodes=1)
    assert not hf.verify(path, longer_run).is_confirmed


def test_the_file_has_the_keys_and_types_of_the_schema(runs, tmp_path):
    path = tmp_path / "c.json"
    runs["mixture"].certificate().save(path)
    content = json.loads(path.read_text())
    schema = json.loads(SCHEMA.read_text())
    assert set(schema["required"]) == set(content) == {"checksum", *certificate_files.KEYS}
    assert set(schema["properties"]) == set(content)
    types = {"string": str, "number": (int, float), "boolean": bool, "integer": int, "object": dict}
    for key, value in content.items():
        assert isinstance(value, types[schema["properties"][key]["type"]])
    kinds = {x["properties"]["kind"]["const"]: x for x in schema["properties"]["question"]["oneOf"]}
    assert set(kinds) == set(certificate_files.KINDS)
    for question in ("every reward", "goals", "goal", "reach"):
        ask(runs["mixture"], question).save(path)
        stored_question = json.loads(path.read_text())["question"]
        assert set(stored_question) == set(kinds[stored_question["kind"]]["required"])
    assert "truth" not in path.read_text()


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("bound", 0.0001, "more than the 0.0001 of the file"),
        ("statement", "suboptimality at most 0.001", "statement is"),
        ("delta", 0.001, "statement is|the bound is"),
        ("assumes", "nothing", "assumes is"),
        ("method", "magic", "method is"),
        ("holds_for", "everyone", "holds_for is"),
        ("episodes", 7, "the file has 7"),
        ("is_rejected", True, "not refuted"),
        ("model", {"states": 3, "actions": 2, "digest": "0" * 64}, "the model of the run is another"),
        ("model", {"states": 5, "actions": 2, "digest": "0" * 64}, "the run has 3 states"),
        ("data", {"digest": "0" * 64}, "the data of the run is another"),
    ],
)
def test_whatever_is_changed_is_not_confirmed(key, value, reason, runs, tmp_path):
    import re

    path = tmp_path / "c.json"
    runs["mixture"].certificate().save(path)
    content, _ = files.read_json(path)
    files.write_json(path, content | {key: value})  # with a checksum of its own
    verdict = hf.verify(path, runs["mixture"])
    assert not verdict.is_confirmed
    assert any(re.search(reason, x) for x in verdict.differences), verdict.differences


def test_damaged_and_foreign_files_are_refused(runs, tmp_path):
    path, run = tmp_path / "c.json", runs["mixture"]
    run.plan(hf.reach(run.problem, 2)).certificate.save(path)
    content, _ = files.read_json(path)
    text = path.read_bytes()
    path.write_bytes(text[:-10])
    with pytest.raises(HorizonfreeError, match="damaged"):
        hf.verify(path, run)
    for key in certificate_files.KEYS:
        files.write_json(path, {x: y for x, y in content.items() if x != key})
        with pytest.raises(HorizonfreeError, match=r"no certificate of this format|missing"):
            hf.verify(path, run)
    question = content["question"]
    bad = [
        {"kind": "magic"},
        question | {"steps": "x"},
        question | {"decided": question["decided"] | {"shape": [10**9]}},
        question | {"decided": question["decided"] | {"zlib": "!"}},
        question | {"decided": question["decided"] | {"dtype": "O"}},
        question | {"policy": question["decided"]},
        question | {"pays": [2, 0, 0]},
        question | {"view": {"start": 3}},
        {x: y for x, y in question.items() if x != "policy"},
    ]
    for other in bad:
        files.write_json(path, content | {"question": other})
        with pytest.raises(HorizonfreeError):
            hf.verify(path, run)
    bomb = certificate_files.packed(np.zeros(10**7, np.int64)) | {"shape": [3]}
    files.write_json(path, content | {"question": question | {"decided": bomb}})
    with pytest.raises(HorizonfreeError, match="another size"):
        hf.verify(path, run)
    with pytest.raises(HorizonfreeError):
        hf.verify(tmp_path / "none.json", run)


def test_a_certificate_goes_to_other_processes_without_its_run(runs, tmp_path):
    for certificate in (
        runs["mixture"].certificate(),
        runs["mixture"].plan(hf.goal(runs["mixture"].problem, 0)).certificate,
    ):
        other = pickle.loads(pickle.dumps(certificate))
        assert other == certificate
        assert other.claim is None
        with pytest.raises(HorizonfreeError, match="cannot be saved"):
            other.save(tmp_path / "c.json")


def test_certificates_that_no_file_can_hold_say_so(runs, tmp_path):
    run = runs["mixture"]
    reward = hf.goal(run.problem, 0)
    for certificate in (
        run.certificate(misspecification=0.01),
        run.certificate(alternatives="auto"),
        run.certificate(rewards=[reward]),
        run.plan(reward, misspecification=0.01).certificate,
        run.plan(reward, discount=0.9).certificate,
        run.plan(reward / 2, final=[0, 0, 0.5]).certificate,
    ):
        with pytest.raises(HorizonfreeError, match="cannot be saved"):
            certificate.save(tmp_path / "c.json")
    with pytest.raises(HorizonfreeError, match="no folder"):
        run.certificate().save(tmp_path / "none" / "c.json")
