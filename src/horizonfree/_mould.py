"""Trees whose arrays lie in a list, for compiled calls that come often: what is left of a tree is one static thing.

To take a tree of modules apart, and to compare what is in it, takes longer than a small compiled call.
"""

from typing import Any

import equinox as eqx
import jax

ARRAY = "<an array>"  # stands where one does


class Mould:
    """A tree without its arrays; a marker stands where one was. Moulds are equal if their trees are."""

    def __init__(self, tree: Any) -> None:
        leaves, self._tree = jax.tree.flatten(tree)
        self._rest = [ARRAY if eqx.is_array(x) else x for x in leaves]
        self._told = self._tree, tuple((type(x), x) for x in self._rest)
        self._hash = hash(self._told)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Mould) and self._told == other._told)

    def __reduce__(self) -> tuple[Any, ...]:
        return Mould, (self.filled([ARRAY] * self._rest.count(ARRAY)),)

    def filled(self, arrays: list[Any]) -> Any:
        """The tree with these arrays."""
        left = iter(arrays)
        return jax.tree.unflatten(self._tree, [next(left) if x == ARRAY else x for x in self._rest])


def apart(tree: Any) -> tuple[Mould, list[Any]]:
    """A tree as its mould and its arrays."""
    return Mould(tree), [x for x in jax.tree.leaves(tree) if eqx.is_array(x)]
