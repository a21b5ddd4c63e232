"""A model of any class, or a world, as plain data, numbers and named arrays, and back: dataclasses in dataclasses."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar, cast, get_type_hints

import numpy as np

_T = TypeVar("_T")


def arrays_of(tree: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """The arrays of a tree under the names of their places."""
    import jax  # reading needs none of it

    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {prefix + path_name(where): np.asarray(x) for where, x in leaves}


def path_name(where: Any) -> str:
    """The place of a leaf, e.g. space.succ."""
    import jax

    return jax.tree_util.keystr(where, simple=True, separator=".")


def under(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin so, without that beginning."""
    return {name.removeprefix(prefix): x for name, x in arrays.items() if name.startswith(prefix)}


def statics_of(module: Any) -> dict[str, Any]:
    """The fields that are no arrays: numbers, and those of modules inside."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(module):
        value = getattr(module, field.name)
        if dataclasses.is_dataclass(value):
            found[field.name] = statics_of(value)
        elif field.metadata.get("static"):
            found[field.name] = value
    return found


def rebuild(kind: type[_T], statics: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> _T:
    """The module that `statics_of` and `arrays_of` spoke of; an array that is not there is None."""
    hints = get_type_hints(kind)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(cast(Any, kind)):
        hint = hints[field.name]
        if dataclasses.is_dataclass(hint):
            fields[field.name] = rebuild(
                cast(type, hint), statics[field.name], under(arrays, f"{field.name}.")
            )
        elif field.metadata.get("static"):
            fields[field.name] = statics[field.name]
        else:
            fields[field.name] = arrays.get(field.name)
    return kind(**fields)
