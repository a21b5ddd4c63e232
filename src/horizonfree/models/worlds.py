"""The worlds of the classes of models by name, loaded one at a time and without JAX; registry.py names the classes."""

import dataclasses
from collections.abc import Mapping
from typing import Any, cast, get_type_hints

import numpy as np

from horizonfree.errors import ShapeError
from horizonfree.mdp.space import TOLERANCE, Kernel, check_space
from horizonfree.models.plain import rebuild
from horizonfree.models.world import World


def world_of(name: str, statics: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> World:
    """The world that `plain.statics_of` and `plain.arrays_of` spoke of; refuses what no class could have made."""
    made: Any = rebuild(_kind(name), statics, arrays)
    _check_types(made)
    check_space(made.space)
    made.check()
    return cast(World, made)


def kernel_of(world: World, statics: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Kernel:
    """A kernel on the states and actions of a world; refuses successors that are none."""
    kernel = rebuild(Kernel, statics, arrays)
    _check_types(kernel)
    succ, prob, (_, S, A) = np.asarray(kernel.succ), np.asarray(kernel.prob), world.space.sizes
    if (
        succ.shape[:2] != (S, A)
        or succ.min() < 0
        or succ.max() >= S
        or (kernel.is_dense and succ.shape[2] != S)
    ):
        raise ShapeError(f"the kernel's lists {succ.shape} are not those of {S} states and {A} actions")
    if not ((prob >= -TOLERANCE).all() and (prob.sum(-1) <= 1 + TOLERANCE).all()):
        raise ShapeError(
            "the kernel has probabilities that are none; rows of which nothing is known are zero"
        )
    return kernel


def _kind(name: str) -> type:
    """The class of worlds of a class of models."""
    if name == "mixture":
        from horizonfree.models.mixture.tangent import World as Mixed

        return Mixed
    if name == "tabular":
        from horizonfree.models.tabular.tangent import World as Tabular

        return Tabular
    if name == "linear":
        from horizonfree.models.linear.world import World as Linear

        return Linear
    raise ShapeError(f"there is no class of models {name!r}")


def _check_types(made: Any) -> None:
    """Refuse a node whose fields, and those of nodes inside, are not as annotated; a letter is one size throughout."""
    sizes: dict[str, int] = {}

    def look(node: Any) -> None:
        hints = get_type_hints(type(node))
        for field in dataclasses.fields(node):
            value, hint = getattr(node, field.name), hints[field.name]
            if dataclasses.is_dataclass(value):
                look(value)
                continue
            kinds = getattr(hint, "__args__", None) or (hint,)
            kind = next((x for x in kinds if isinstance(value, x)), None)
            letters = getattr(kind, "dim_str", "").split()
            if kind is None or any(sizes.setdefault(x, n) != n for x, n in zip(letters, np.shape(value))):
                raise ShapeError(f"{field.name} is no {hint}, or is of another size than the rest")

    look(made)
