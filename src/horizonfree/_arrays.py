"""Dataclasses that are pytrees once JAX is loaded, and the few formulas that NumPy and JAX share.

A `node` is a frozen dataclass of arrays. It needs no JAX; when JAX is loaded, nodes are registered as pytrees of their
fields, and `static` fields become part of the type. `library` says whose functions an array needs.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias, TypeVar, cast, dataclass_transform

import numpy as np

# An array of NumPy or of JAX, traced or not; jaxtyping checks shapes and types of numbers in the tests.
Array: TypeAlias = Any
Leaf: TypeAlias = Any  # a field of a pytree
Number: TypeAlias = Any  # an array without axes, or a float

_T = TypeVar("_T")
_unseen: list[type] = []  # nodes that JAX has not been told of


def static() -> Any:
    """A field of a node that is no array."""
    return field(metadata={"static": True})


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(static, field))
def node(kind: type[_T]) -> type[_T]:
    """A frozen dataclass whose fields are arrays, nodes, or `static`."""
    made = dataclass(frozen=True, eq=False)(kind)
    _unseen.append(made)
    if "jax" in sys.modules:
        tell_jax()
    return made


def tell_jax() -> None:
    """Have JAX see the nodes as trees. Called when it is loaded."""
    while _unseen:
        _tell(_unseen.pop())


def _tell(kind: type) -> None:
    util = sys.modules["jax"].tree_util
    own: Any = fields(cast(Any, kind))
    arrays = [x.name for x in own if not x.metadata.get("static")]
    others = [x.name for x in own if x.metadata.get("static")]
    keys = [util.GetAttrKey(name) for name in arrays]

    def leaves(x: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return tuple(getattr(x, name) for name in arrays), tuple(getattr(x, name) for name in others)

    def named(x: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        children, statics = leaves(x)
        return tuple(zip(keys, children)), statics

    def made(statics: tuple[Any, ...], children: tuple[Any, ...]) -> Any:
        return _unchecked(kind, zip([*arrays, *others], [*children, *statics]))

    util.register_pytree_with_keys(kind, named, made, leaves)


def _unchecked(kind: type[_T], values: Iterable[tuple[str, Any]]) -> _T:
    """A node of such values, arrays or not: trees are filled with other things on their way."""
    x = object.__new__(kind)
    x.__dict__.update(values)
    return x


def leaf(array: np.ndarray) -> Leaf:
    """An array of the host as the field of a tree."""
    return cast(Leaf, array)


def library(*arrays: Any) -> Any:
    """jax.numpy as soon as one of the arrays is JAX's, traced or not; else numpy."""
    jax = sys.modules.get("jax")
    is_traced = jax is not None and any(isinstance(x, jax.Array) for x in arrays)
    return sys.modules["jax.numpy"] if is_traced else np


def taken(x: Any, at: Any) -> Any:
    """x[at], of places none of which is below zero or beyond the end: JAX need not look for such."""
    xp = library(x, *at) if isinstance(at, tuple) else library(x, at)
    if xp is np:
        return x[at]
    return xp.asarray(x).at[at].get(mode="promise_in_bounds", wrap_negative_indices=False)
