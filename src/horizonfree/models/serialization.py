"""Dataclasses of arrays as plain data, numbers and named arrays, and back; dataclasses may contain dataclasses."""

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

_T = TypeVar("_T")


def arrays_of(module: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """The arrays of a dataclass under the names of their fields, e.g. space.succ; fields that are None have none."""
    result: dict[str, np.ndarray] = {}
    for field in dataclasses.fields(module):
        value, name = getattr(module, field.name), prefix + field.name
        if dataclasses.is_dataclass(value):
            result |= arrays_of(value, f"{name}.")
        elif value is not None and not field.metadata.get("static"):
            result[name] = np.asarray(value)
    return result


def statics_of(module: Any) -> dict[str, Any]:
    """The fields that are no arrays, as JSON can hold them."""
    result: dict[str, Any] = {}
    for field in dataclasses.fields(module):
        value = getattr(module, field.name)
        if dataclasses.is_dataclass(value):
            result[field.name] = statics_of(value)
        elif field.metadata.get("static"):
            result[field.name] = value
    return result


def rebuild(kind: type[_T], statics: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> _T:
    """The dataclass of which `statics_of` and `arrays_of` were made; an array that is missing is None."""
    hints = get_type_hints(kind)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(cast(Any, kind)):
        inner = _dataclass_in(hints[field.name])
        if inner is not None:
            own = under(arrays, f"{field.name}.")
            is_there = bool(own) or field.name in statics
            fields[field.name] = rebuild(inner, statics.get(field.name, {}), own) if is_there else None
        elif field.metadata.get("static"):
            fields[field.name] = statics[field.name]
        else:
            fields[field.name] = arrays.get(field.name)
    return kind(**fields)


def under(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): x for name, x in arrays.items() if name.startswith(prefix)}


def _dataclass_in(hint: Any) -> type | None:
    """The dataclass that a field holds, perhaps optionally."""
    is_union = get_origin(hint) in (Union, types.UnionType)
    kinds = [x for x in (get_args(hint) if is_union else (hint,)) if dataclasses.is_dataclass(x)]
    return cast(type, kinds[0]) if kinds else None
