"""The file of a sweep: what it says, and what is refused in it."""

import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError, OptionError, UnknownNameError
from horizonfree.sweeps import spec
from horizonfree.sweeps.tasks import build_tasks
from tests.sweeps.conftest import TINY

TEXT = """
title = "a"
seeds = [3, 5]
episodes = 100
[problems.grid]
name = "zoned-grid"
size = 3
vary = { horizon = [4, 6], zones = [1, 3] }
[explorers.optimal-design]
[explorers.half]
name = "ucrl-rfe"
scale = 0.5
"""


def test_a_file_is_read_and_what_varies_is_multiplied(tmp_path):
    (tmp_path / "a.toml").write_text(TEXT)
    spec_read = spec.read(tmp_path / "a.toml")
    assert list(spec_read.problems) == [f"grid horizon={h} zones={z}" for h in (4, 6) for z in (1, 3)]
    assert spec_read.problems["grid horizon=6 zones=3"] == {
        "name": "zoned-grid",
        "size": 3,
        "horizon": 6,
        "zones": 3,
    }
    assert spec_read.explorers["optimal-design"] == {"name": "optimal-design"}
    assert spec_read.checkpoints == [12, 25, 37, 50, 62, 75, 87, 100]
    assert spec_read.seeds == [3, 5]
    assert spec.read(spec_read.to_dict()) == spec_read


BOTH = TINY | {"explorers": {"random": {"name": "uniform"}, "told": {"name": "uniform", "declared": True}}}


def test_tasks_are_chunks_of_seeds_and_declared_budgets_are_runs_of_their_own():
    tasks = list(build_tasks(spec.read(BOTH | {"seeds": 5})).values())
    assert [x["seeds"] for x in tasks if x["explorer"] == "random"] == [[0, 1], [2, 3], [4]]
    declared_tasks = [
        (x["episodes"], x["checkpoints"], x["budget"]) for x in tasks if x["explorer"] == "told"
    ]
    assert declared_tasks == [(2, [2], 2), (8, [8], 8)] * 3


def test_a_sweep_that_grows_keeps_its_tasks():
    small_tasks, large_tasks = (build_tasks(spec.read(TINY | {"seeds": n})) for n in (4, 6))
    assert set(small_tasks) < set(large_tasks)
    assert not set(small_tasks) & set(build_tasks(spec.read(TINY | {"delta": 0.1})))


MISTAKES = [
    ({"seed": 3}, "no key 'seed'; did you mean 'seeds'"),
    ({"measure": ["esp"]}, "measure 'esp'; did you mean 'eps'"),
    ({"slopes": ["epss"]}, "slopes 'epss'; did you mean 'eps'"),
    ({"records": ["logdet"], "explorers": {"ucrl-vtr": {}}}, "reports 'logdet'; did you mean 'log_det'"),
    ({"records": ["V"]}, "no explorer of this sweep reports 'V'"),
    ({"rewards": "goal"}, "rewards 'goal'; did you mean 'goals'"),
    ({"seeds": 0}, "seeds is 0"),
    ({"seeds": [1, 1]}, "each once"),
    ({"checkpoints": [5, 200], "episodes": 100}, "checkpoint 200 lies beyond"),
    ({"checkpoints": None}, "say how long"),
    ({"delta": 2}, "delta is 2"),
    ({"problems": {}}, "no problems"),
    ({"problems": {"river": {"name": "river-swin"}}}, "problems.river: .*river-swim"),
    ({"problems": {"river": {"name": "river-swim", "state": 3}}}, "problems.river: .*'states'"),
    ({"problems": {"river-swim": {"vary": {"states": 3}}}}, r"vary.states is 3; it must be a list"),
    ({"problems": {"river-swim": {"reward": {"end": [1]}}}}, "reward is"),
    ({"explorers": {"a": {"name": "unifrom"}}}, "explorers.a: .*uniform"),
    ({"explorers": {"ucrl-rfe": {"scal": 1}}}, "explorers.ucrl-rfe on problems.river: .*'scale'"),
    ({"explorers": {"ucrl-rfe": {"delta": 0.1}}}, "at the top of the file"),
    (
        {"explorers": {"rf-ucrl": {"seen_as": "linear"}}},
        "'rf-ucrl' learns a TabularModel, but this problem has a LinearModel",
    ),
    ({"explorers": {"uniform": 3}}, "it must be a table"),
    ({"explorers": {"uniform": {"declared": 1}}}, "true or false"),
]


def test_mistakes_are_refused_with_words_before_anything_starts(tmp_path, subtests):
    for changes, message in MISTAKES:
        with subtests.test(message):
            with pytest.raises(HorizonfreeError, match=message):
                hf.sweep({key: x for key, x in (TINY | changes).items() if x is not None}, tmp_path / "a")
            assert not (tmp_path / "a").exists()


def test_what_is_no_sweep_is_refused(tmp_path):
    (tmp_path / "a.toml").write_text("a = [")
    for source in (tmp_path / "a.toml", tmp_path / "b.toml", 3, None):
        with pytest.raises((OptionError, UnknownNameError, HorizonfreeError)):
            hf.sweep(source, tmp_path / "out")
