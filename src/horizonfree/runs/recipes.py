"""A problem as plain data: its recipe where that gives the very same problem again, else its arrays."""

import hashlib
import json
import math
import platform
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from horizonfree.errors import HorizonfreeError, RunError
from horizonfree.models.interface import Model
from horizonfree.models.registry import CLASSES, class_name
from horizonfree.models.serialization import arrays_of, statics_of, under
from horizonfree.models.serialization import rebuild as rebuild_model
from horizonfree.problems import make
from horizonfree.problems.problem import Problem

PACKAGES = ("horizonfree", "jax", "jaxlib", "equinox", "numpy", "scipy", "gymnasium")


def describe(problem: Problem) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A JSON object and the arrays that it needs: with a recipe, only those of the model that are derived."""
    mark, model = fingerprint(problem), problem.model
    layout, drawn = laid_out(problem)
    given, derived = _split(model)
    if problem.recipe is not None and _gives(problem.recipe, mark, layout, drawn):
        return {"recipe": problem.recipe, "fingerprint": mark}, derived
    arrays = given | derived
    if problem.truth is not None:
        arrays["truth"] = np.asarray(problem.truth)
    said = {
        "name": problem.name,
        "fingerprint": mark,
        "layout": layout,
        "class": class_name(model),
        "model": statics_of(model),
    }
    return said, arrays | {f"layout.{key}": x for key, x in drawn.items()}


def rebuild(said: Mapping[str, Any], arrays: Mapping[str, np.ndarray], made_by: Mapping[str, str]) -> Problem:
    """The problem that `describe` spoke of, or an error if it cannot be had any more."""
    if "recipe" in said:
        recipe = said["recipe"]
        if recipe["name"].count(":") > recipe["name"].startswith("gymnasium:"):
            raise RunError(
                f"problem {recipe['name']!r} names a module to import, which a stored run may not do"
            )
        problem = make(recipe["name"], **recipe["parameters"])
        model = problem.model
        derived = under(arrays, "model.")
        if derived:  # as they were: other versions may compute them to other bits
            whole = arrays_of(model) | derived
            problem = replace(problem, model=rebuild_model(type(model), statics_of(model), whole))
    else:
        model = rebuild_model(CLASSES[said["class"]], said["model"], under(arrays, "model."))
        layout = said["layout"] | under(arrays, "layout.")
        problem = Problem(model, arrays.get("truth"), said["name"], None, layout)
    if fingerprint(problem) != said["fingerprint"]:
        raise RunError(
            f"problem {problem.name!r} is no longer the one that was explored; use the versions that it was made with: "
            + ", ".join(f"{name} {made_by[name]}" for name in ("horizonfree", "gymnasium") if name in made_by)
        )
    return problem


def fingerprint(problem: Problem) -> str:
    """A digest of everything that an exploration of the problem depends on."""
    given, _ = _split(problem.model)
    digest = hashlib.sha256(json.dumps([class_name(problem.model), statics_of(problem.model)]).encode())
    truth = {} if problem.truth is None else {"truth": problem.truth}
    for name, x in sorted((given | truth).items()):
        array = np.ascontiguousarray(x)
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _split(model: Model) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The arrays of a model: those that it was made of, and those that were derived from them."""
    arrays = arrays_of(model, "model.")
    is_derived = {name: name.split(".")[1] in model.derived for name in arrays}
    given = {name: x for name, x in arrays.items() if not is_derived[name]}
    return given, {name: x for name, x in arrays.items() if is_derived[name]}


@cache
def versions() -> dict[str, str]:
    """Of Python, this library, and what its numbers depend on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def other_versions(before: Mapping[str, str]) -> list[str]:
    """Those that are not the versions of now: they may round otherwise, and a resumed run is told so."""
    now = versions()
    return [f"{name} {x} (now {now.get(name)})" for name, x in before.items() if x != now.get(name)]


def _gives(
    recipe: Mapping[str, Any], mark: str, layout: dict[str, Any], drawn: dict[str, np.ndarray]
) -> bool:
    """Whether a recipe, after a journey through JSON, builds the problem of this fingerprint with this layout."""
    try:
        said = json.loads(json.dumps(recipe, allow_nan=False))
        made = rebuild({"recipe": said, "fingerprint": mark}, {}, {})
    except (TypeError, ValueError, HorizonfreeError):
        return False
    made_layout, made_drawn = laid_out(made)
    is_drawn_alike = drawn.keys() == made_drawn.keys() and all(
        x.dtype == made_drawn[key].dtype and np.array_equal(x, made_drawn[key]) for key, x in drawn.items()
    )
    return layout == made_layout and is_drawn_alike


def laid_out(problem: Problem) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What JSON can hold of a layout, and its arrays."""
    plain, drawn = {}, {}
    for key, x in problem.layout.items():
        where = f"layout[{key!r}] of problem {problem.name!r}"
        if not isinstance(key, str):
            raise RunError(f"{where} cannot be stored: its key is not text; call it {str(key)!r}")
        if not isinstance(x, np.ndarray):
            plain[key] = _plain(x, where)
        elif x.dtype.hasobject:
            raise RunError(
                f"{where} is an array of Python objects, which cannot be stored; use numbers or text"
            )
        else:
            drawn[key] = x
    return plain, drawn


def _plain(x: Any, where: str) -> Any:
    """A value as JSON gives it back: tuples are lists then, NumPy's numbers those of Python."""
    if isinstance(x, np.generic):
        x = x.item()
    if isinstance(x, (list, tuple)):
        return [_plain(y, where) for y in x]
    if isinstance(x, Mapping) and all(isinstance(key, str) for key in x):
        return {key: _plain(y, where) for key, y in x.items()}
    if x is None or isinstance(x, (str, int)) or (isinstance(x, float) and math.isfinite(x)):
        return x
    raise RunError(
        f"{where} holds {x!r}, which cannot be stored; use a NumPy array, or text, finite numbers, and lists and "
        "dictionaries (with text as keys) of them"
    )
