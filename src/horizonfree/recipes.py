"""A problem as plain data: its recipe where that gives the very same problem again, else its arrays."""

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
from horizonfree.mixture import Known, Mixture, check_kernel
from horizonfree.problems import make

PACKAGES = ("horizonfree", "jax", "jaxlib", "equinox", "numpy", "scipy", "numba", "gymnasium")
_STATIC = ("horizon", "start", "bound", "unit", "is_dense")


def describe(problem: Mixture) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A JSON object and the arrays that it needs."""
    mark, known = fingerprint(problem), problem.known
    layout, drawn = _layout(problem)
    if problem.recipe is not None and _gives(problem.recipe, mark, layout, drawn):
        return {"recipe": problem.recipe, "fingerprint": mark}, {}
    arrays = {"problem.succ": np.asarray(known.succ), "problem.phi": np.asarray(known.phi)}
    if problem.truth is not None:
        arrays["problem.truth"] = problem.truth
    said = {
        "name": problem.name,
        "fingerprint": mark,
        "layout": layout,
        **{name: getattr(known, name) for name in _STATIC},
    }
    return said, arrays | {f"layout.{key}": x for key, x in drawn.items()}


def rebuild(said: Mapping[str, Any], arrays: Mapping[str, np.ndarray], made_by: Mapping[str, str]) -> Mixture:
    """The problem that `describe` spoke of, or an error if it cannot be had any more."""
    if "recipe" in said:
        recipe = said["recipe"]
        if recipe["name"].count(":") > recipe["name"].startswith("gymnasium:"):
            raise RunError(
                f"problem {recipe['name']!r} names a module to import, which a stored run may not do"
            )
        problem = make(recipe["name"], **recipe["parameters"])
    else:
        known = Known(arrays["problem.succ"], arrays["problem.phi"], *(said[name] for name in _STATIC))
        layout = said["layout"] | {
            name.removeprefix("layout."): x for name, x in arrays.items() if name.startswith("layout.")
        }
        problem = Mixture(known, arrays.get("problem.truth"), said["name"], None, layout)
        if problem.truth is not None:
            check_kernel(problem.kernel(), "P_theta of the stored truth")
    if fingerprint(problem) != said["fingerprint"]:
        raise RunError(
            f"problem {problem.name!r} is no longer the one that was explored; use the versions that it was made with: "
            + ", ".join(f"{name} {made_by[name]}" for name in ("horizonfree", "gymnasium") if name in made_by)
        )
    return problem


def fingerprint(problem: Mixture) -> str:
    """A digest of everything that an exploration of the problem depends on."""
    known = problem.known
    digest = hashlib.sha256(json.dumps([getattr(known, name) for name in _STATIC]).encode())
    for x in (known.succ, known.phi, problem.truth if problem.truth is not None else np.zeros(0)):
        array = np.ascontiguousarray(x)
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


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


def _gives(
    recipe: Mapping[str, Any], mark: str, layout: dict[str, Any], drawn: dict[str, np.ndarray]
) -> bool:
    """Whether a recipe, after a journey through JSON, builds the problem of this fingerprint with this layout."""
    try:
        said = json.loads(json.dumps(recipe, allow_nan=False))
        made = rebuild({"recipe": said, "fingerprint": mark}, {}, {})
    except (TypeError, ValueError, HorizonfreeError):
        return False
    made_layout, made_drawn = _layout(made)
    is_drawn_alike = drawn.keys() == made_drawn.keys() and all(
        x.dtype == made_drawn[key].dtype and np.array_equal(x, made_drawn[key]) for key, x in drawn.items()
    )
    return layout == made_layout and is_drawn_alike


def _layout(problem: Mixture) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
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
