"""Vectors for loops that Numba compiles: words for what LLVM is to build.

Left to itself the compiler tests again and again whether arrays overlap, and keeps sums in memory; planning/lanes.py
has more. Products may be fused with sums. Numba's cache on disk does not notice changes of this file: after editing
it, remove the caches (*.nbi, *.nbc).
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit
from numba.core import cgutils
from numba.extending import intrinsic

from horizonfree.planning.lanes import Build
from horizonfree.regression.oracle.ascent import LEAK

TILE = 8  # states of a tile
ROWS = 4  # of a matrix: their number is padded to a multiple, as is that of its columns
FUSED = ("contract",)
WORD = ir.IntType(32)
PAIR = ir.VectorType(ir.DoubleType(), 2)
# No array is made, so that nobody counts who holds one, and nothing is divided by zero. What compiled functions call
# has no way in from Python, where none may call it. With what Numba adds else they are compiled in twice the time.
BARE: dict[str, Any] = dict(error_model="numpy", _nrt=False)
PART: dict[str, Any] = BARE | dict(no_cpython_wrapper=True, no_cfunc_wrapper=True)
part = njit(**PART)
merged = njit(**PART, inline="always")  # into the one that calls it, before it is compiled


def inlined(function: Callable[..., tuple[Any, Build]]) -> Callable[..., Any]:
    """`intrinsic`: what the function builds takes the place of its calls."""
    made: Callable[..., Any] = intrinsic(function)
    return made


class Code:
    """What is built, with words for what it needs. Arrays are flat, `at` counts vectors of so many lanes."""

    def __init__(self, context: Any, builder: Any, lanes: int = TILE) -> None:
        self.context, self.builder, self.lanes = context, builder, lanes
        self.vector = ir.VectorType(ir.DoubleType(), lanes)

    def load(self, array: Any, at: Any, vector: Any = None) -> Any:
        """The vector `at`."""
        return self.builder.load(self._place(array, at, vector or self.vector), align=4)

    def store(self, x: Any, array: Any, at: Any) -> None:
        """x becomes the vector `at`."""
        self.builder.store(x, self._place(array, at, x.type), align=4)

    def _place(self, array: tuple[Any, Any], at: Any, vector: Any) -> Any:
        first = self.builder.mul(at, ir.Constant(at.type, vector.count))
        return self.builder.bitcast(self._entry(array, first), vector.as_pointer())

    def _entry(self, array: tuple[Any, Any], i: Any) -> Any:
        kind, value = array
        return self.builder.gep(self.context.make_array(kind)(self.context, self.builder, value).data, [i])

    def number(self, array: Any, i: Any) -> Any:
        """Entry i."""
        return self.builder.load(self._entry(array, i))

    def beyond(self, array: Any, first: Any) -> Any:
        """Where the pairs from `first` on are."""
        return self._entry(array, self.builder.shl(first, ir.Constant(first.type, 1)))

    def of_successor(self, pairs: Any, succ: Any, slot: Any) -> Any:
        """Where the pair of a successor is."""
        entry = self.builder.zext(self.number(succ, slot), ir.IntType(64))
        return self.builder.bitcast(self.builder.gep(pairs, [entry]), PAIR.as_pointer())

    def shuffled(self, x: Any, y: Any, order: Any) -> Any:
        """The lanes of both in this order."""
        chosen = ir.Constant(ir.VectorType(WORD, len(order)), list(order))
        return self.builder.shuffle_vector(x, y, chosen)

    def variable(self, x: Any) -> Any:
        """A place for what changes, with its first value."""
        return cgutils.alloca_once_value(self.builder, x)  # type: ignore[no-untyped-call]

    def add(self, total: Any, x: Any, y: Any) -> None:
        """total += x y."""
        self.builder.store(self.plus(self.builder.load(total), self.times(x, y)), total)

    def all(self, x: float) -> Any:
        """x in all lanes."""
        return ir.Constant(self.vector, [x] * self.lanes)

    def same(self, x: Any) -> Any:
        """The same of something built."""
        nothing = ir.Constant(ir.VectorType(x.type, self.lanes), ir.Undefined)
        first = self.builder.insert_element(nothing, x, WORD(0))
        return self.shuffled(first, nothing, [0] * self.lanes)

    def repeated(self, pair: Any) -> Any:
        """A pair again and again."""
        return self.shuffled(pair, pair, [0, 1] * (self.lanes // 2))

    def pair(self, x: Any, y: Any) -> Any:
        """Two numbers side by side."""
        nothing = ir.Constant(PAIR, ir.Undefined)
        return self.builder.insert_element(self.builder.insert_element(nothing, x, WORD(0)), y, WORD(1))

    def plus(self, x: Any, y: Any) -> Any:
        """x + y."""
        return self.builder.fadd(x, y, flags=FUSED)

    def times(self, x: Any, y: Any) -> Any:
        """x y."""
        return self.builder.fmul(x, y, flags=FUSED)

    def larger(self, x: Any, y: Any) -> Any:
        """max(x, y)."""
        return self.builder.select(self.builder.fcmp_ordered(">", x, y), x, y)

    def smaller(self, x: Any, y: Any) -> Any:
        """min(x, y)."""
        return self.builder.select(self.builder.fcmp_ordered("<", x, y), x, y)

    def cap(self, x: Any) -> Any:
        """objective.cap with the leak of the search."""
        above = self.larger(self.builder.fsub(x, self.all(1.0)), self.all(0.0))
        return self.plus(self.smaller(x, self.all(1.0)), self.times(self.all(LEAK), above))

    def intrinsic(self, name: str, x: Any) -> Any:
        """A function of LLVM, lane by lane."""
        kind = ir.FunctionType(x.type, [x.type])
        function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            self.builder.module, kind, f"llvm.{name}.v{x.type.count}f64"
        )
        return self.builder.call(function, [x])

    def each(self, n: Any, body: Callable[[Any], None]) -> None:
        """For j in range(n): without a loop for n = ROWS, which most grids have."""
        with self.builder.if_else(self.builder.icmp_signed("==", n, ir.Constant(n.type, ROWS))) as (
            few,
            others,
        ):
            with few:
                for j in range(ROWS):
                    body(ir.Constant(n.type, j))
            with others, cgutils.for_range(self.builder, n) as loop:
                body(loop.index)
