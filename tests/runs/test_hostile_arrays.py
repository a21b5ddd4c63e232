"""Arrays, checkpoints and records that someone forged, with seals that are valid: refused with words."""

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError, RunError
from horizonfree.runs import store
from tests.reference.resealed import Change, change_checkpoint, change_run, gone, put, without_recipe
from tests.runs.test_store import assert_same

NEWEST = "checkpoint-0000000004.npz"
HUGE = 10**30


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return without_recipe(tmp_path_factory.mktemp("hostile") / "a")


@pytest.fixture
def folder(stored: Path, tmp_path: Path) -> Path:
    """A copy of the run without a recipe."""
    return Path(shutil.copytree(stored, tmp_path / "a"))


def array(name: str, new: Callable[[np.ndarray], Any]) -> Change:
    """Another array under a name, made of the one that is there."""

    def change(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        arrays[name] = np.asarray(new(np.array(arrays.get(name))))

    return change


def missing(name: str) -> Change:
    """No array of that name."""
    return lambda header, arrays: arrays.__delitem__(name)


def entry(value: Any) -> Callable[[np.ndarray], np.ndarray]:
    """The same array with another first entry."""

    def new(x: np.ndarray) -> np.ndarray:
        x.flat[0] = value
        return x

    return new


def typed(kind: str) -> Callable[[np.ndarray], np.ndarray]:
    def as_type(x: np.ndarray) -> np.ndarray:
        return x.astype(kind)

    as_type.__name__ = f"is {kind}"
    return as_type


def flat(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1)


def scalar(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1)[0]


def longer(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, x])


def empty(x: np.ndarray) -> np.ndarray:
    return x[:0]


GIVEN = ("space.succ", "space.support", "space.reachable", "phi")
FLOATS = ("rows", "sums", "affine", "basis", "center", "sizes")
VALID = (*FLOATS, "row_of", "free", "positive")
ARRAYS: list[tuple[str, Change, str]] = [
    *((f"{x} {how.__name__}", array(f"model.{x}", how), x.split(".")[-1])
      for x in GIVEN for how in (flat, scalar, longer, empty) if (x, how) != ("space.reachable", flat)),
    *((f"{x} {how.__name__}", array(f"model.valid.{x}", how), "valid parameters")
      for x in VALID for how in (scalar, longer, empty) if x != "sums" or how is not longer),
    *((f"{x} is {kind}", array(f"model.{x}", typed(kind)), x.split(".")[-1])
      for x in GIVEN for kind in ("float32", "complex128", "S8", "M8[s]")),
    *((f"{x} is {kind}", array(f"model.valid.{x}", typed(kind)), "valid parameters")
      for x in VALID for kind in ("float32", "complex128", "S8", "M8[s]", ">f8")),
    *((f"{x} missing", missing(f"model.{x}"), x.split(".")[-1]) for x in GIVEN),
    *((f"{x} missing", missing(f"model.valid.{x}"), "valid") for x in VALID),
    *((f"phi {x}", array("model.phi", entry(x)), "not finite") for x in (np.nan, np.inf, -np.inf)),
    *((f"{x} NaN", array(f"model.valid.{x}", entry(np.nan)), "not finite") for x in FLOATS),
    *((f"succ {x}", array("model.space.succ", entry(x)), "succ names") for x in (-1, 3, 2**31 - 1)),
    *((f"row_of {x}", array("model.valid.row_of", entry(x)), "row_of names") for x in (-1, 99, 2**31 - 1)),
    *((f"initial {x}", array("model.space.initial", entry(x)), "start") for x in (np.nan, np.inf, -0.5, 2.0)),
    *((f"initial {how.__name__}", array("model.space.initial", how), "start")
      for how in (scalar, longer, empty, typed("S8"), typed("complex128"))),
    ("initial missing", missing("model.space.initial"), "start"),
    ("reachable", array("model.space.reachable", np.logical_not), "reachable"),
    ("dense, but lists differ", array("model.space.succ", lambda x: x[..., ::-1]), "is_dense"),
    *((f"truth {x}", array("truth", entry(x)), "truth") for x in (np.nan, np.inf, -5.0, 5.0)),
    *((f"truth {how.__name__}", array("truth", how), "theta|run that this library wrote|truth")
      for how in (scalar, longer, empty, typed("S8"), typed("complex128"))),
    ("an array for an option", array("explorer.budget", lambda x: np.ones(3)), "option|budget"),
    ("an array for no option", array("explorer.x", lambda x: np.ones(3)), "no option 'x'"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "words"), ARRAYS, ids=[x[0] for x in ARRAYS])
def test_stored_arrays_are_checked_as_arguments_are(
    name: str, change: Change, words: str, folder: Path
) -> None:
    change_run(folder, change)
    with pytest.raises(HorizonfreeError, match=words):
        hf.load(folder)


TARGETS = np.full((1, 3, 3, 2), 0.1)
CHECKPOINTS: list[tuple[str, Change]] = [
    *((f"until.{name} {x!r:.20}", put(x, "until", name)) for name, values in {
        "first": (-1, 1.5, True, "0", None, [0], HUGE, 5),
        "last": (-1, 3.5, True, "4", None, [4], HUGE),
        "until_eps": (0, 1, -0.5, True, "x", [0.5], {}, HUGE),
        "delta": (0, 1, -0.5, True, "x", None, [0.5], HUGE),
        "more": (1,),
    }.items() for x in values),
    *((f"until {x!r}", put(x, "until")) for x in (3, "x", [], {})),
    *((f"targets {list(np.shape(x))} {np.asarray(x).dtype}", array("until.targets", lambda _, x=x: x)) for x in (
        TARGETS[0], TARGETS[:0], TARGETS[:, :2], 3.0, TARGETS.astype("S8"), TARGETS * 1j)),
    *((f"targets of {x}", array("until.targets", lambda _, x=x: TARGETS * x)) for x in (np.nan, np.inf, -1, 99)),
    *((f"records.{name} {x!r:.20}", put(x, "records", name)) for name, values in {
        "episode": (0, 3, 5, -1, 4.0, True, "4", None, HUGE),
        "size": (0, -1, 10**6, 1.5, True, "4", None, HUGE),
        "crc": (0, -1, 1.5, True, "4", None, HUGE),
        "types": (3, None, "x", ["information"], {"x": "<f8"}),
    }.items() for x in values),
    *((f"type {x!r}", put(x, "records", "types", "information"))
      for x in (3, None, "x", [], "|O", "<U1000000000", "|S2000000000", "M8[s]", "<c16", "<f8,<f8", "|V8", "<i4")),
    *((f"records {x!r}", put(x, "records")) for x in (3, None, "x", [], {})),
    *((f"format {x!r}", put(x, "format"))
      for x in (store.FORMAT - 1, store.FORMAT + 1, None, f"{store.FORMAT}", [store.FORMAT])),
    *((f"run {x!r:.20}", put(x, "run")) for x in ("0" * 64, None, 3)),
    *((f"versions {x!r}", put(x, "versions")) for x in (3, None, "x", [])),
    *((f"no {x}", gone(x)) for x in ("format", "run", "until", "records", "versions")),
    *((f"{x} missing", missing(x)) for x in (
        "episode", "state.policy", "evidence.counts", "evidence.starts", "evidence.weights", "evidence.thetas")),
    *((f"{x} {how.__name__}", array(x, how)) for how in (scalar, longer, empty, typed("S8"), typed("complex64"))
      for x in ("state.policy", "evidence.counts", "evidence.starts", "evidence.weights", "evidence.thetas")),
    *((f"episode {x}", array("episode", lambda _, x=x: np.int32(x))) for x in (-1, 0, 3, 5, 2**31 - 1)),
    *((f"evidence.episodes {x}", array("evidence.episodes", lambda _, x=x: np.int32(x))) for x in (-1, 3, 2**30)),
    *((f"{x} of {value}", array(f"evidence.{x}", entry(value))) for x, value in (
        ("counts", -1), ("row_counts", -1), ("since", -1), ("starts", -1), ("weights", -0.1), ("weights", 2.0),
        ("weights", np.nan), ("thetas", np.nan), ("thetas", np.inf), ("losses", np.nan), ("losses", -np.inf))),
    ("impossible of -1", array("evidence.impossible", lambda _: np.int32(-1))),
    ("table_loss of NaN", array("evidence.table_loss", lambda _: np.float64(np.nan))),
]  # fmt: skip


STATES: list[tuple[str, str, Any, str]] = [
    *(("information", "policy", x, f"{x}; actions are 0 to 1") for x in (-1, 2, 2**31 - 1, -(2**31))),
    *(("information", "promise", x, f"{x}; it is finite") for x in (np.nan, np.inf, -np.inf)),
    *(("uniform", "policy", x, f"{x}; it is a probability") for x in (np.nan, np.inf, -0.5, 1.5)),
    ("uniform", "policy", 0.25, "0.75; probabilities sum to 1"),
    *(("goal-cycling", "aims", x, f"{x}; it is finite, and not negative") for x in (-1, -(2**31))),
    *(("ucrl-rfe", "episode", x, f"{x}; there are 4 episodes") for x in (-1, 5, 2**31 - 1)),
    *(
        ("hf-ucrl-rfe++", "last.found.point.step", x, f"{x}; steps are 0 to 2")
        for x in (-1, 3, 2**31 - 1, -(2**31))
    ),
    *(("hf-ucrl-rfe++", "last.found.point.policy", x, f"{x}; actions are 0 to 1") for x in (-1, 2)),
    *(
        ("ucrl-rfe", name, np.nan, "nan; it is finite")
        for name in ("value", "f", "ridge.Sigma", "ridge.W", "ridge.b")
    ),
]


@pytest.fixture(scope="module")
def of_explorers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs like `stored`, of several explorers."""
    folder = tmp_path_factory.mktemp("explorers")
    problem = hf.load(without_recipe(folder / "information")).problem
    for name in ("uniform", "goal-cycling", "ucrl-rfe", "hf-ucrl-rfe++"):
        given = {"budget": 20} if "ucrl" in name else {}
        hf.explore(problem, name, episodes=4, out=folder / name, save_episodes=2, **given)
    return folder


@pytest.mark.parametrize(
    ("explorer", "name", "value", "words"), STATES, ids=[f"{x[0]} {x[1]} {x[2]}" for x in STATES]
)
def test_a_state_that_no_explorer_leaves_is_passed_over(
    explorer: str, name: str, value: Any, words: str, of_explorers: Path, tmp_path: Path
) -> None:
    """The first entry of one array is forged; its name, its value and what it must be are told."""
    folder = Path(shutil.copytree(of_explorers / explorer, tmp_path / "a"))
    change_checkpoint(folder / NEWEST, array(f"state.{name}", entry(value)))
    expected = rf"{NEWEST}.*state\.{name}(\[[0, ]*\])? is {words}.*read up to episode 2"
    with pytest.warns(store.RunWarning, match=expected):
        run = hf.load(folder)
    assert run.episodes == 2


@pytest.mark.parametrize(("name", "change"), CHECKPOINTS, ids=[x[0] for x in CHECKPOINTS])
def test_a_checkpoint_that_no_run_could_have_written_is_passed_over(
    name: str, change: Change, folder: Path, stored: Path
) -> None:
    change_checkpoint(folder / NEWEST, change)
    with pytest.warns(store.RunWarning, match=r"(checkpoint-|records\.jsonl).*read up to episode 2"):
        run = hf.load(folder)
    assert_same(run.resume(episodes=2), hf.load(stored))


def forge(folder: Path, change: Callable[[list[Any]], list[Any]]) -> None:
    """Other records, to which the newest checkpoint agrees; text stands as it is."""
    path = folder / "records.jsonl"
    lines = change([json.loads(line) for line in path.read_text().splitlines()])
    data = "".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines).encode()
    path.write_bytes(data)

    def agree(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        header["records"] |= {"size": len(data), "crc": zlib.crc32(data)}

    change_checkpoint(folder / NEWEST, agree)


def last(value: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda lines: [*lines[:-1], value]


RECORDS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "fewer": lambda lines: lines[:-1],
    "more": lambda lines: [*lines, lines[-1] | {"episode": 5}],
    "none": lambda lines: [],
    "twice the same": lambda lines: [*lines[:-1], lines[-2]],
    "not an object": last(3),
    "a list": last([]),
    "text": last('"x"'),
    "no JSON": last("{"),
    "deep": last("[" * 100_000),
    "no number": last({"episode": 4, "information": "x"}),
    "nothing": last({"episode": 4, "information": None}),
    "a number beyond all": last({"episode": 4, "information": 10**400}),
    "a number of many digits": last('{"episode": 4, "information": ' + "9" * 5000 + "}"),
    "no entry": last({"episode": 4}),
    "no episode": lambda lines: [*lines[:-1], {"information": 0.0}],
}


@pytest.mark.parametrize("case", RECORDS)
def test_records_that_no_run_could_have_written_are_passed_over(
    case: str, folder: Path, stored: Path
) -> None:
    """The records up to the older checkpoint are whole but for two cases, which are refused."""
    forge(folder, RECORDS[case])
    if case == "none":
        with pytest.raises(RunError, match=r"checkpoint-.*\.npz|records\.jsonl"):
            hf.load(folder)
        return
    with pytest.warns(store.RunWarning, match=r"(checkpoint-|records\.jsonl).*read up to episode 2"):
        run = hf.load(folder)
    assert_same(run.resume(episodes=2), hf.load(stored))
