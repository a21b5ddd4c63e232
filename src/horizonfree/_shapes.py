"""Annotations of arrays and their shapes: jaxtyping's; or labels that say the same, where nothing has loaded it.

jaxtyping takes a fifth of the time in which the command line starts, and nothing is checked there but what a file
holds (models/worlds.py), for which labels are enough.
"""

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING or "jaxtyping" in sys.modules or "jax" in sys.modules:
    from jaxtyping import Bool as Bool
    from jaxtyping import Float as Float
    from jaxtyping import Int as Int
else:

    class Label:
        """An array of some kinds of numbers with named axes; `__args__` are the alternatives, itself the first."""

        def __init__(self, kinds: str, dim_str: str, *others: Any) -> None:
            """kinds: as NumPy's dtypes call them."""
            self.kinds, self.dim_str, self.__args__ = kinds, dim_str, (self, *others)

        def __or__(self, other: Any) -> "Label":
            """This, or something else."""
            others = getattr(other, "__args__", (type(other) if other is None else other,))
            return Label(self.kinds, self.dim_str, *self.__args__[1:], *others)

        __ror__ = __or__

        def __instancecheck__(self, value: Any) -> bool:
            """Whether a value is such an array; its axes are only counted."""
            is_array = isinstance(value, (np.ndarray, np.generic))
            return is_array and value.dtype.kind in self.kinds and value.ndim == len(self.dim_str.split())

    class Kind:
        """Float["S A"] and the like."""

        def __init__(self, kinds: str) -> None:
            """As NumPy's dtypes call them."""
            self.kinds = kinds

        def __getitem__(self, item: tuple[Any, str]) -> Label:
            """Of an array, which is NumPy's here, and its axes."""
            return Label(self.kinds, item[1])

    Bool, Float, Int = Kind("b"), Kind("f"), Kind("iu")
