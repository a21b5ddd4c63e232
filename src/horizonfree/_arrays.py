"""Dataclasses of arrays that are pytrees once JAX is loaded.

A `node` is a frozen dataclass of arrays. It needs no JAX; when JAX is loaded, nodes are registered as pytrees of their
fields, and `static` fields become part of the type.

The few functions of nodes that are both traced and called with NumPy arrays use `x.__array_namespace__()`, the module
(numpy or jax.numpy) that an array belongs to.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias, TypeVar, cast, dataclass_transform

# An array of NumPy or of JAX, traced or not; jaxtyping checks shapes and types of numbers in the tests.
Array: TypeAlias = Any
Leaf: TypeAlias = Any  # a field of a pytree
Number: TypeAlias = Any  # an array without axes, or a float

_T = TypeVar("_T")
_unregistered: list[type] = []  # nodes that are not registered with JAX yet


def static() -> Any:
    """A field of a node that is no array."""
    return field(metadata={"static": True})


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(static, field))
def node(kind: type[_T]) -> type[_T]:
    """A frozen dataclass whose fields are arrays, nodes, or `static`."""
    cls = dataclass(frozen=True, eq=False)(kind)
    _unregistered.append(cls)
    if "jax" in sys.modules:
        register_nodes()
    return cls


def register_nodes() -> None:
    """Register all nodes with JAX, which is loaded."""
    while _unregistered:
        _register(_unregistered.pop())


def _register(kind: type) -> None:
    util = sys.modules["jax"].tree_util
    all_fields: Any = fields(cast(Any, kind))
    arrays = [x.name for x in all_fields if not x.metadata.get("static")]
    static_names = [x.name for x in all_fields if x.metadata.get("static")]
    keys = [util.GetAttrKey(name) for name in arrays]

    def leaves(x: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return tuple(getattr(x, name) for name in arrays), tuple(getattr(x, name) for name in static_names)

    def flatten_with_names(x: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        children, statics = leaves(x)
        return tuple(zip(keys, children)), statics

    def build(statics: tuple[Any, ...], children: tuple[Any, ...]) -> Any:
        return _unchecked(kind, zip([*arrays, *static_names], [*children, *statics]))

    util.register_pytree_with_keys(kind, flatten_with_names, build, leaves)


def _unchecked(kind: type[_T], values: Iterable[tuple[str, Any]]) -> _T:
    """A node with these values, arrays or not: JAX also fills trees with placeholders."""
    x = object.__new__(kind)
    x.__dict__.update(values)
    return x
