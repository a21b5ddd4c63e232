"""Problems in run folders: they come back from their recipe or their arrays, with their layout."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import RunError
from horizonfree.models.serialization import arrays_of
from horizonfree.runs import files, recipes


def test_a_gymnasium_problem_comes_back_from_its_recipe(tmp_path: Path) -> None:
    problem = hf.from_gymnasium("FrozenLake-v1", horizon=5, map_name="4x4")
    hf.explore(problem, "uniform", episodes=2).save(tmp_path / "a")
    loaded = hf.load(tmp_path / "a").problem
    assert recipes.fingerprint(loaded) == recipes.fingerprint(problem)
    assert (
        json.loads((tmp_path / "a" / "run.json").read_text())["problem"]["recipe"]["name"]
        == "gymnasium:FrozenLake-v1"
    )


def test_a_problem_without_a_recipe_comes_back_from_its_arrays(problem: hf.Problem, tmp_path: Path) -> None:
    problem_in_folder = dataclasses.replace(problem, recipe=None, name="mine")
    hf.explore(problem_in_folder, "uniform", episodes=2).save(tmp_path / "a")
    loaded = hf.load(tmp_path / "a").problem
    assert recipes.fingerprint(loaded) == recipes.fingerprint(problem_in_folder)
    assert loaded.name == "mine"
    np.testing.assert_array_equal(loaded.layout["cells"], problem_in_folder.layout["cells"])
    assert loaded.layout["actions"] == problem_in_folder.layout["actions"]


LAYOUT = {
    "title": "abc",
    "columns": 3,
    "names": [np.int64(1), "b", None, 0.5, True],
    "nested": {"a": [[1], [2, 3]]},
    "cells": np.arange(18).reshape(9, 2),
}


@pytest.mark.parametrize("has_recipe", [False, True])
def test_a_layout_comes_back_as_it_was(has_recipe: bool, problem: hf.Problem, tmp_path: Path) -> None:
    problem_in_folder = dataclasses.replace(
        problem, layout=LAYOUT, recipe=problem.recipe if has_recipe else None
    )
    hf.explore(problem_in_folder, "uniform", episodes=1).save(tmp_path / "a")
    loaded = dict(hf.load(tmp_path / "a").problem.layout)
    cells = loaded.pop("cells")
    assert loaded == {key: x for key, x in LAYOUT.items() if key != "cells"}
    np.testing.assert_array_equal(cells, LAYOUT["cells"])


BAD_LAYOUTS = [
    (
        {"note": {1, 2}},
        r"layout\['note'\] of problem 'zoned-grid' holds \{1, 2\}, which cannot be stored; use",
    ),
    ({"note": [1.0, np.nan]}, r"layout\['note'\] .* holds nan"),
    ({"note": [np.zeros(2)]}, r"layout\['note'\] .* holds array"),
    ({"note": {1: 2}}, r"layout\['note'\] .* holds \{1: 2\}"),
    ({"note": np.array([{}])}, r"layout\['note'\] .* is an array of Python objects"),
    ({7: "x"}, r"layout\[7\] .* its key is not text; use '7'"),
]


def test_a_layout_that_cannot_be_stored_is_named(
    problem: hf.Problem, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for layout, message in BAD_LAYOUTS:
        with subtests.test(message):
            with pytest.raises(RunError, match=message):
                hf.explore(
                    dataclasses.replace(problem, layout=layout), "uniform", episodes=1, out=tmp_path / "a"
                )
            assert list(tmp_path.iterdir()) == []


def test_a_recipe_that_no_longer_tells_the_truth_is_not_used(problem: hf.Problem, tmp_path: Path) -> None:
    other = dataclasses.replace(
        problem, truth=hf.make("zoned-grid", size=3, zones=1, horizon=4, seed=9).truth
    )
    hf.explore(other, "uniform", episodes=2).save(tmp_path / "a")
    np.testing.assert_array_equal(hf.load(tmp_path / "a").problem.truth, other.truth)


def derived_arrays(problem: hf.Problem) -> dict[str, np.ndarray]:
    """What was computed from the rest of a model."""
    arrays = arrays_of(problem.model)
    return {name: x for name, x in arrays.items() if name.split(".")[0] in problem.model.derived}


@pytest.mark.parametrize("has_recipe", [False, True])
def test_what_is_derived_is_stored_as_it_was(has_recipe: bool, problem: hf.Problem, tmp_path: Path) -> None:
    problem_in_folder = problem if has_recipe else dataclasses.replace(problem, recipe=None)
    hf.explore(problem_in_folder, "uniform", episodes=1).save(tmp_path / "a")
    _, arrays, _ = files.read_npz(tmp_path / "a" / "arrays.npz")
    stored_arrays = {
        name.removeprefix("model."): x for name, x in arrays.items() if name.startswith("model.")
    }
    expected = derived_arrays(problem_in_folder) if has_recipe else arrays_of(problem_in_folder.model)
    assert stored_arrays.keys() == expected.keys()
    assert "valid.basis" in stored_arrays
    for name, x in stored_arrays.items():
        assert (x.dtype, x.tobytes()) == (expected[name].dtype, expected[name].tobytes())
    loaded = hf.load(tmp_path / "a").problem
    for name, x in derived_arrays(loaded).items():
        assert (x.dtype, x.tobytes()) == (stored_arrays[name].dtype, stored_arrays[name].tobytes())


def test_what_is_derived_comes_from_the_folder_not_from_the_recipe(
    problem: hf.Problem, tmp_path: Path
) -> None:
    """Other versions may find another basis of the same directions: a run goes on with the one it began with."""
    hf.explore(problem, "uniform", episodes=1, out=tmp_path / "a")
    header, arrays, _ = files.read_npz(tmp_path / "a" / "arrays.npz")
    changed_arrays = arrays | {"model.valid.basis": -arrays["model.valid.basis"]}
    checksum = files.write_npz(tmp_path / "a" / "arrays.npz", header, changed_arrays)
    manifest, arrays_before = files.read_json(tmp_path / "a" / "run.json")
    assert "recipe" in manifest["problem"]
    files.write_json(tmp_path / "a" / "run.json", manifest | {"arrays": checksum})
    _, arrays_after = files.read_json(tmp_path / "a" / "run.json")
    for path in (tmp_path / "a").glob("checkpoint-*.npz"):
        header, arrays, _ = files.read_npz(path)
        assert header["run"] == arrays_before
        files.write_npz(path, header | {"run": arrays_after}, arrays)
    loaded = hf.load(tmp_path / "a").problem
    np.testing.assert_array_equal(loaded.model.valid.basis, -problem.model.valid.basis)
    np.testing.assert_array_equal(loaded.model.phi, problem.model.phi)
    assert recipes.fingerprint(loaded) == recipes.fingerprint(problem)


def test_a_random_start_belongs_to_the_fingerprint() -> None:
    kernels = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 4, 2))
    starts = (0, [0.5, 0.5, 0, 0], [0.4, 0.6, 0, 0], [1.0, 0, 0, 0])
    marks = [recipes.fingerprint(hf.Mixture.from_kernels(kernels, horizon=3, start=x)) for x in starts]
    assert len(set(marks)) == 3
    assert marks[0] == marks[3]
