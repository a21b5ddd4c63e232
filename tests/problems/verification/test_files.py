"""DRN and UMB: what is written is read back, damage is refused with its place, and Storm computes the same values."""

import io
import json
import tarfile

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError
from tests.problems.verification.models import assert_same, random_model

READ = {"drn": hf.read_drn, "umb": hf.read_umb}
PROPERTIES = (
    'Pmax=? [F<=4 "goal"]',
    'Pmin=? [F<=4 "goal"]',
    'Pmax=? [!"bad" U<=3 "goal"]',
    'Pmin=? [!"bad" U<=3 "goal"]',
    'R{"time"}max=? [C<=5]',
    'R{"cost"}min=? [C<=5]',
)
DRN = """@type: MDP
@value_type: double
@parameters

@reward_models
cost
@nr_states
2
@nr_choices
2
@model
state 0 [1] init
\taction go [0]
\t\t0 : 0.5
\t\t1 : 1/2
state 1 [0] goal
\taction stay [2]
\t\t1 : 1
"""


@pytest.mark.parametrize("kind", ["drn", "umb"])
@pytest.mark.parametrize("seed", range(6))
def test_what_is_written_is_read_back(kind, seed, tmp_path):
    model = random_model(seed, S=1 + seed * 3, is_interval=seed % 2 == 0, has_names=seed % 3 > 0)
    path = tmp_path / f"model.{kind}"
    getattr(model, f"to_{kind}")(path)
    loaded = READ[kind](path)
    assert_same(model, loaded)
    getattr(loaded, f"to_{kind}")(tmp_path / f"again.{kind}")
    assert_same(loaded, READ[kind](tmp_path / f"again.{kind}"))
    for text in PROPERTIES:
        assert model.value(text) == loaded.value(text)


@pytest.mark.parametrize("kind", ["drn", "umb"])
@pytest.mark.parametrize("seed", range(4))
def test_storm_computes_the_values_of_what_we_write(kind, seed, tmp_path):
    stormpy = pytest.importorskip("stormpy", reason="stormpy is not installed")
    model = random_model(seed, S=8, is_interval=seed > 0)
    path = str(tmp_path / f"model.{kind}")
    getattr(model, f"to_{kind}")(path)
    if kind == "umb":
        storm_model = stormpy.build_model_from_umb(path)
    else:
        storm_model = stormpy.build_model_from_drn[stormpy.Interval if seed else float](path)
    modes = stormpy.UncertaintyResolutionMode
    for text in PROPERTIES:
        for uncertainty in ("robust", "cooperative"):
            options = {"uncertainty_resolution_mode": getattr(modes, uncertainty.upper())} if seed else {}
            result = stormpy.model_checking(storm_model, stormpy.parse_properties(text)[0], **options)
            value = result.get_value(storm_model.initial_states[0])
            assert model.value(text, uncertainty=uncertainty) == pytest.approx(value, abs=1e-6)


def test_values_of_intervals_are_those_of_the_worst_members():
    """Against 3,000 random members; the extreme is attained by a vertex, so no member is beyond it."""
    model, rng = random_model(5, S=5), np.random.default_rng(0)
    robust = model.value('Pmin=? [F<=1 "goal"]', uncertainty="cooperative")
    best = model.value('Pmin=? [F<=1 "goal"]', uncertainty="robust")
    s = int(np.flatnonzero(model.initial)[0])
    if model.labels["goal"][s]:
        pytest.skip("it starts in a goal")
    values = []
    for c in range(model.first_choice[s], model.first_choice[s + 1]):
        part = slice(model.first_branch[c], model.first_branch[c + 1])
        low, high, goal = model.low[part], model.high[part], model.labels["goal"][model.target[part]]
        members = []
        for _ in range(3000):
            p, budget = low.copy(), 1 - low.sum()
            for i in rng.permutation(len(p)):
                step = min(high[i] - low[i], budget) * rng.choice([1.0, rng.random()])
                p[i], budget = p[i] + step, budget - step
            if budget < 1e-12:
                members.append(p @ goal)
        values.append((min(members), max(members)))
    assert robust == pytest.approx(min(x for x, _ in values), abs=1e-9)
    assert best == pytest.approx(min(x for _, x in values), abs=1e-9)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("state 1", "state 3", "line 16: state 3 follows state 0"),
        ("0 : 0.5", "0 : half", "line 14: 'half' is no finite number"),
        ("1/2", "1/0", "line 15"),
        ("0 : 0.5", "0 : 0.4", "of choice 0 (line 13), of state 0, sum to 0.9"),
        ("0 : 0.5", "7 : 0.5", "branch 0 (line 14) leads to state 7"),
        ("0 : 0.5", "0 : [0.7, 0.2]", "interval in"),
        ("[1] init", "[1, 2] init", "line 12: [1, 2] has 2 rewards; @reward_models names 1"),
        ("init", "", "no initial one"),
        ("@type: MDP", "@type: CTMC", "type 'CTMC'"),
        ("@model\n", "", "line 11: 'state 0 [1] init' is no part of a header"),
        ("@nr_states\n2", "@nr_states\n5", "@nr_states is 5, but there are 2"),
        ("@nr_states\n2", "@nr_states\n99999999999", "must be a number up to"),
        ("@parameters\n\n", "@parameters\np q\n", "has parameters"),
        ("action go [0]", "acton go", "line 13: 'acton go' is no transition"),
        ("state 0 [1] init\n", "", "line 12"),
        ("\taction stay [2]\n\t\t1 : 1\n", "", "@nr_choices is 2, but there are 1 choices"),
        ("1 : 1\n", "1 : nan\n", "'nan' is no finite number"),
    ],
)
def test_a_damaged_drn_file_is_refused_with_its_place(old, new, place, tmp_path):
    path = tmp_path / "m.drn"
    path.write_text(DRN)
    assert hf.read_drn(path).value('Pmax=? [F<=2 "goal"]') == 0.75
    assert old in DRN
    path.write_text(DRN.replace(old, new, 1))
    with pytest.raises(HorizonfreeError) as error:
        hf.read_drn(path)
    assert place in str(error.value)
    assert str(path) in str(error.value)


def entries(path):
    with tarfile.open(path) as archive:
        return {x.name: archive.extractfile(x).read() for x in archive}


def packed(path, files):
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda x: x.pop("index.json"), "has no index.json"),
        (lambda x: x.update({"index.json": b"{"}), "it is no JSON"),
        (lambda x: x.update({"index.json": b"[1]"}), "format-version must be 1"),
        (lambda x: x.update({"index.json": b'{"format-version": 1}'}), "index.json is damaged"),
        (lambda x: x.pop("branch-to-target.bin"), "is missing"),
        (lambda x: x.update({"branch-to-target.bin": x["branch-to-target.bin"][:-8]}), "bytes"),
        (
            lambda x: x.update({"branch-to-target.bin": b"\xff" * len(x["branch-to-target.bin"])}),
            "names state",
        ),
        (
            lambda x: x.update({"choice-to-branches.bin": x["choice-to-branches.bin"][::-1]}),
            "must rise from 0",
        ),
        (
            lambda x: x.update({"branch-to-probability.bin": b"\xff" * len(x["branch-to-probability.bin"])}),
            "finite",
        ),
        (lambda x: x.pop("state-is-initial.bin"), "no initial one"),
        (lambda x: x.update({"state-is-initial.bin": b"\x01"}), "bytes"),
    ],
)
def test_a_damaged_umb_file_is_refused_with_its_place(change, place, tmp_path):
    path = tmp_path / "m.umb"
    random_model(1).to_umb(path)
    files = entries(path)
    change(files)
    packed(path, files)
    with pytest.raises(HorizonfreeError) as error:
        hf.read_umb(path)
    assert place in str(error.value)
    assert str(path) in str(error.value)


def test_declared_sizes_are_checked_before_anything_is_read(tmp_path):
    path = tmp_path / "m.umb"
    random_model(1).to_umb(path)
    files = entries(path)
    for key in ("#states", "#choices", "#branches", "#choice-actions"):
        for size in (10**15, -1, 1.5, True, "x"):
            index = json.loads(files["index.json"])
            index["transition-system"][key] = size
            packed(path, files | {"index.json": json.dumps(index).encode()})
            with pytest.raises(HorizonfreeError):
                hf.read_umb(path)


@pytest.mark.parametrize("kind", ["drn", "umb"])
def test_files_that_were_cut_or_changed_at_random_give_a_model_or_an_error_of_ours(kind, tmp_path):
    path, rng = tmp_path / f"m.{kind}", np.random.default_rng(3)
    for seed in range(3):
        getattr(random_model(seed), f"to_{kind}")(path)
        content = path.read_bytes()
        for _ in range(60):
            damaged = bytearray(content[: rng.integers(1, len(content))] if rng.random() < 0.3 else content)
            for i in rng.integers(len(damaged), size=rng.integers(1, 6)):
                damaged[i] = rng.integers(256)
            path.write_bytes(bytes(damaged))
            try:
                model = READ[kind](path)
            except HorizonfreeError:
                continue
            assert model.num_states >= 1


def test_what_is_no_file_is_refused(tmp_path):
    for read in (hf.read_drn, hf.read_umb):
        for path in (tmp_path, tmp_path / "none", 5):
            with pytest.raises(HorizonfreeError):
                read(path)
    (tmp_path / "x.umb").write_bytes(b"no archive")
    with pytest.raises(HorizonfreeError, match="not a UMB archive"):
        hf.read_umb(tmp_path / "x.umb")
    (tmp_path / "x.drn").write_bytes(b"\xff\xfe")
    with pytest.raises(HorizonfreeError, match="not a DRN file"):
        hf.read_drn(tmp_path / "x.drn")
    model = random_model(0)
    model.labels["a b"] = model.initial
    with pytest.raises(HorizonfreeError, match="letters, digits"):
        model.to_drn(tmp_path / "y.drn")


def test_an_explicit_model_is_a_table_to_be_learnt(tmp_path):
    model = random_model(3, is_interval=False)
    problem = model.problem(horizon=5)
    for text in PROPERTIES:
        run = hf.explore(problem, "uniform", episodes=2, progress=False)
        plan = run.plan(hf.property(text))
        loss = hf.true_gap(problem, hf.property(text), plan.policy)
        assert -1e-9 <= loss <= plan.gap + 1e-9
    kernel, best = problem.kernel().dense(), model.value(PROPERTIES[0])
    target = model.labels["goal"]
    allowed = problem.actions_allowed
    V = target.astype(float)
    for _ in range(4):
        V = np.where(target, 1.0, np.where(allowed, kernel @ V, -1).max(1))
    assert V[model.initial][0] == pytest.approx(best)
    assert random_model(2).problem(horizon=4).truth is None


def test_storm_files_with_names_and_rewards_are_read(tmp_path):
    stormpy = pytest.importorskip("stormpy", reason="stormpy is not installed")
    from pathlib import Path

    model = Path(__file__).parents[3] / "gallery" / "robot.prism"
    options = stormpy.BuilderOptions()
    options.set_build_all_labels()
    options.set_build_all_reward_models()
    options.set_build_choice_labels()
    options.set_build_state_valuations()
    storm_model = stormpy.build_model(stormpy.parse_prism_program(str(model)), options=options)
    stormpy.io.export_to_umb(storm_model, str(tmp_path / "r.umb"))
    stormpy.io.export_to_drn(storm_model, str(tmp_path / "r.drn"))
    for read, name in ((hf.read_umb, "r.umb"), (hf.read_drn, "r.drn")):
        own = read(tmp_path / name)
        assert own.num_states == 25
        assert sorted(set(own.actions)) == ["right", "stay", "up"]
        assert "x=0 & y=0" in own.states
        for text in ('Pmax=? [F<=12 "goal"]', 'R{"energy"}max=? [C<=9]', 'Pmin=? ["edge" U<=7 "goal"]'):
            result = stormpy.model_checking(storm_model, stormpy.parse_properties(text)[0])
            assert own.value(text) == pytest.approx(result.get_value(storm_model.initial_states[0]), abs=1e-9)
