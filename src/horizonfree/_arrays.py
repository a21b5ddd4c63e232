"""Formulas that are written once, for NumPy's arrays and for JAX's, and trees that do not need JAX to be there.

Compiled calls trace a formula with JAX's arrays. The command line computes the same with NumPy's, since loading JAX
takes longer than a plan. `library` says whose functions an array needs; `backward`, `repeat`, `each`, `put` and `add`
are what the two do differently. A file that imports neither JAX nor equinox can be used without them.

A `node` is a frozen dataclass. JAX, once it is loaded, sees it as a tree of its fields; `static` fields are part of its
type, as equinox's are.
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, dataclass_transform

import numpy as np

if TYPE_CHECKING:
    # An array of either library; jaxtyping checks them in the tests.
    Array: TypeAlias = Any
    Leaf: TypeAlias = Any
    Number: TypeAlias = Any
elif "jax" in sys.modules:
    Array = Leaf = sys.modules["jax"].Array | np.ndarray | np.generic
    Number = Leaf | float
else:
    Array = Leaf = np.ndarray | np.generic
    Number = Leaf | float

_T = TypeVar("_T")
_C = TypeVar("_C")
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


def mapped(function: Callable[[Any], Any], x: _T) -> _T:
    """A node of arrays with a function of each."""
    names = [y.name for y in fields(cast(Any, x))]
    return _unchecked(type(x), ((name, function(getattr(x, name))) for name in names))


def backward(step: Callable[[_C, Any], tuple[_C, Any]], end: _C, inputs: tuple[Array, ...]) -> tuple[_C, Any]:
    """From the last entries of the inputs to the first: what is carried there, and the outputs, stacked.

    `step` takes what is carried and a tuple of entries, and gives what is carried on and an output: an array, a tuple
    of them, or None.
    """
    if library(*inputs) is not np:
        return cast(tuple[_C, Any], _lax().scan(step, end, inputs, reverse=True))
    carried, outputs = end, []
    for h in reversed(range(len(inputs[0]))):
        carried, output = step(carried, tuple(x[h, ...] for x in inputs))
        outputs.append(output)
    outputs.reverse()
    if isinstance(outputs[0], tuple):
        return carried, tuple(np.stack(x) for x in zip(*outputs))
    return carried, None if outputs[0] is None else np.stack(outputs)


def in_tiles(function: Callable[[Any], Any], rows: tuple[Array, ...], most: int) -> Any:
    """function(rows): arrays and a tree of arrays with an entry for each state, computed `most` states at a time.

    So what JAX keeps in between does not leave the cache. NumPy's are computed at once. The last tile may repeat some
    states of the one before.
    """
    S = len(rows[0])
    if library(*rows) is np or S <= most:
        return function(rows)
    lax, tree = _lax(), sys.modules["jax"].tree

    def tile(i: Array, found: Any) -> Any:
        first = library(i).minimum(i * most, S - most)
        part = function(tuple(lax.dynamic_slice_in_dim(x, first, most) for x in rows))
        return tree.map(lambda x, y: lax.dynamic_update_slice_in_dim(x, y, first, 0), found, part)

    like = sys.modules["jax"].eval_shape(lambda: function(tuple(x[:most] for x in rows)))
    xp = library(*rows)
    empty = tree.map(lambda x: xp.zeros((S, *x.shape[1:]), x.dtype), like)
    return lax.fori_loop(0, -(-S // most), tile, empty)


def repeat(times: int, change: Callable[[_C], _C], x: _C, like: Any) -> _C:
    """x, changed so often; `like` is an array of the same library."""
    if library(like) is not np:
        return cast(_C, _lax().fori_loop(0, times, lambda _, x: change(x), x))
    for _ in range(times):
        x = change(x)
    return x


def each(function: Callable[[Any], Any], x: Array) -> Any:
    """The function of each entry of x, stacked."""
    if library(x) is not np:
        return sys.modules["jax"].vmap(function)(x)
    return np.stack([function(y) for y in x])


def taken(x: Any, at: Any) -> Any:
    """x[at], of places none of which is below zero or beyond the end: JAX need not look for such."""
    xp = library(x, *at) if isinstance(at, tuple) else library(x, at)
    if xp is np:
        return x[at]
    return xp.asarray(x).at[at].get(mode="promise_in_bounds", wrap_negative_indices=False)


def put(x: Any, where: Any, values: Any) -> Any:
    """x with these values at a place."""
    if library(x, values) is not np:
        return library(x, values).asarray(x).at[where].set(values)
    copy = np.array(x)
    copy[where] = values
    return copy


def add(x: Any, where: Any, values: Any) -> Any:
    """x with these values added at places that may repeat."""
    if library(x, values) is not np:
        return library(x, values).asarray(x).at[where].add(values)
    copy = np.array(x)
    np.add.at(copy, where, values)
    return copy


def _lax() -> Any:
    return sys.modules["jax"].lax
