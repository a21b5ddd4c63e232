"""Problems as plain data: a recipe where it rebuilds the same problem, otherwise arrays."""

import hashlib
import json
import math
import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from horizonfree.errors import HorizonfreeError, RunError
from horizonfree.models.base import Model
from horizonfree.models.registry import CLASSES, class_name
from horizonfree.models.serialization import arrays_of, statics_of, under
from horizonfree.models.serialization import rebuild as rebuild_model
from horizonfree.problems import make, problem_of_model
from horizonfree.problems.problem import Problem

PACKAGES = ("horizonfree", "jax", "jaxlib", "equinox", "numpy", "scipy", "gymnasium")


def describe(problem: Problem) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A JSON object and its arrays; with a recipe, only the derived arrays of the model."""
    digest, model = fingerprint(problem), problem.model
    layout, layout_arrays = split_layout(problem)
    primary, derived_arrays = _split(model)
    if problem.recipe is not None and _rebuilds(problem.recipe, digest, layout, layout_arrays):
        return {"recipe": problem.recipe, "fingerprint": digest}, derived_arrays
    arrays = primary | derived_arrays
    if problem.truth is not None:
        arrays["truth"] = np.asarray(problem.truth)
    entry = {
        "name": problem.name,
        "fingerprint": digest,
        "layout": layout,
        "class": class_name(model),
        "model": statics_of(model),
    }
    return entry, arrays | {f"layout.{key}": x for key, x in layout_arrays.items()}


def rebuild(
    entry: Mapping[str, Any], arrays: Mapping[str, np.ndarray], made_by: Mapping[str, str]
) -> Problem:
    """The problem of a JSON object from `describe`, or an error if it would not be the same."""
    if "recipe" in entry:
        recipe = entry["recipe"]
        if recipe["name"].count(":") > recipe["name"].startswith("gymnasium:"):
            raise RunError(
                f"problem {recipe['name']!r} names a module to import, which a stored run may not do"
            )
        problem = make(recipe["name"], **recipe["parameters"])
        model = problem.model
        derived_arrays = under(arrays, "model.")
        if derived_arrays:  # other versions may compute different bits
            complete = arrays_of(model) | derived_arrays
            problem = problem._replace(model=rebuild_model(type(model), statics_of(model), complete))
    else:
        model = rebuild_model(CLASSES[entry["class"]].model, entry["model"], under(arrays, "model."))
        layout = entry["layout"] | under(arrays, "layout.")
        problem = problem_of_model(model, arrays.get("truth"), entry["name"], layout)
    if fingerprint(problem) != entry["fingerprint"]:
        raise RunError(
            f"problem {problem.name!r} is no longer the one that was explored; use the versions that it was made with: "
            + ", ".join(f"{name} {made_by[name]}" for name in ("horizonfree", "gymnasium") if name in made_by)
        )
    return problem


def fingerprint(problem: Problem) -> str:
    """A digest of everything that an exploration of the problem depends on."""
    primary, _ = _split(problem.model)
    digest = hashlib.sha256(json.dumps([class_name(problem.model), statics_of(problem.model)]).encode())
    truth = {} if problem.truth is None else {"truth": problem.truth}
    for name, x in sorted((primary | truth).items()):
        array = np.ascontiguousarray(x)
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _split(model: Model) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The primary and the derived arrays of a model."""
    arrays = arrays_of(model, "model.")
    is_derived = {name: name.split(".")[1] in model.derived for name in arrays}
    primary = {name: x for name, x in arrays.items() if not is_derived[name]}
    return primary, {name: x for name, x in arrays.items() if is_derived[name]}


@cache
def versions() -> dict[str, str]:
    """Versions of Python, of this library, and of what its numbers depend on."""
    result = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            result[name] = version(name)
        except PackageNotFoundError:
            continue
    return result


def other_versions(stored: Mapping[str, str]) -> list[str]:
    """Versions that differ from the present ones, which may round differently."""
    installed = versions()
    return [
        f"{name} {x} (now {installed.get(name)})" for name, x in stored.items() if x != installed.get(name)
    ]


def _rebuilds(
    recipe: Mapping[str, Any], digest: str, layout: dict[str, Any], layout_arrays: dict[str, np.ndarray]
) -> bool:
    """Whether a recipe, stored as JSON, builds the problem with this fingerprint and layout."""
    try:
        entry = json.loads(json.dumps(recipe, allow_nan=False))
        rebuilt = rebuild({"recipe": entry, "fingerprint": digest}, {}, {})
    except (TypeError, ValueError, HorizonfreeError):
        return False
    other_layout, other_arrays = split_layout(rebuilt)
    are_arrays_equal = layout_arrays.keys() == other_arrays.keys() and all(
        x.dtype == other_arrays[key].dtype and np.array_equal(x, other_arrays[key])
        for key, x in layout_arrays.items()
    )
    return layout == other_layout and are_arrays_equal


def split_layout(problem: Problem) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The plain values of a layout, and its arrays."""
    scalars, arrays = {}, {}
    for key, x in problem.layout.items():
        where = f"layout[{key!r}] of problem {problem.name!r}"
        if not isinstance(key, str):
            raise RunError(f"{where} cannot be stored: its key is not text; use {str(key)!r}")
        if not isinstance(x, np.ndarray):
            scalars[key] = _json_value(x, where)
        elif x.dtype.hasobject:
            raise RunError(
                f"{where} is an array of Python objects, which cannot be stored; use numbers or text"
            )
        else:
            arrays[key] = x
    return scalars, arrays


def _json_value(x: Any, where: str) -> Any:
    """A value as JSON returns it: tuples as lists, NumPy numbers as Python numbers."""
    if isinstance(x, np.generic):
        x = x.item()
    if isinstance(x, (list, tuple)):
        return [_json_value(y, where) for y in x]
    if isinstance(x, Mapping) and all(isinstance(key, str) for key in x):
        return {key: _json_value(y, where) for key, y in x.items()}
    if x is None or isinstance(x, (str, int)) or (isinstance(x, float) and math.isfinite(x)):
        return x
    raise RunError(
        f"{where} holds {x!r}, which cannot be stored; use a NumPy array, or text, finite numbers, and lists and "
        "dictionaries (with text as keys) of them"
    )
