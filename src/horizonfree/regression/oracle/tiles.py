"""Norms and steps back in vectors, for loops that Numba compiles.

All actions: a tile of states stands side by side in the registers. One action per state: a column of its matrix does.

Left to itself the compiler tests again and again whether arrays overlap, and keeps sums in memory; planning/lanes.py
has more. Products may be fused with sums. Numba's cache on disk does not notice changes of this file: after editing
it, remove the caches (*.nbi, *.nbc).
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from horizonfree.planning.lanes import Build
from horizonfree.regression.oracle.ascent import LEAK

TILE = 8  # states of a tile
ROWS = 4  # of a matrix: their number is padded to a multiple, as is that of its columns

_FUSED = ("contract",)
_SIZE, _NUMBER = types.intp, types.float64


def _inlined(function: Callable[..., tuple[Any, Build]]) -> Callable[..., Any]:
    """`intrinsic`: what the function builds takes the place of its calls."""
    made: Callable[..., Any] = intrinsic(function)
    return made


class _Code:
    """What is built, with words for what it needs. Arrays are flat, `at` counts vectors of so many lanes."""

    def __init__(self, context: Any, builder: Any, lanes: int = TILE) -> None:
        self.context, self.builder, self.lanes = context, builder, lanes
        self.vector = ir.VectorType(ir.DoubleType(), lanes)

    def load(self, array: Any, at: Any) -> Any:
        return self.builder.load(self._place(array, at), align=8)

    def store(self, x: Any, array: Any, at: Any) -> None:
        self.builder.store(x, self._place(array, at), align=8)

    def _place(self, array: tuple[Any, Any], at: Any) -> Any:
        first = self.builder.mul(at, ir.Constant(at.type, self.lanes))
        return self.builder.bitcast(self._entry(array, first), self.vector.as_pointer())

    def _entry(self, array: tuple[Any, Any], i: Any) -> Any:
        kind, value = array
        return self.builder.gep(self.context.make_array(kind)(self.context, self.builder, value).data, [i])

    def number(self, array: Any, i: Any) -> Any:
        return self.builder.load(self._entry(array, i))

    def variable(self, x: Any) -> Any:
        return cgutils.alloca_once_value(self.builder, x)  # type: ignore[no-untyped-call]

    def add(self, total: Any, x: Any, y: Any) -> None:
        self.builder.store(self.plus(self.builder.load(total), self.times(x, y)), total)

    def all(self, x: float) -> Any:
        return ir.Constant(self.vector, [x] * self.lanes)

    def same(self, x: Any) -> Any:
        nothing = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(nothing, x, ir.IntType(32)(0))
        order = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(first, nothing, order)

    def plus(self, x: Any, y: Any) -> Any:
        return self.builder.fadd(x, y, flags=_FUSED)

    def times(self, x: Any, y: Any) -> Any:
        return self.builder.fmul(x, y, flags=_FUSED)

    def larger(self, x: Any, y: Any) -> Any:
        return self.builder.select(self.builder.fcmp_ordered(">", x, y), x, y)

    def smaller(self, x: Any, y: Any) -> Any:
        return self.builder.select(self.builder.fcmp_ordered("<", x, y), x, y)

    def cap(self, x: Any) -> Any:
        above = self.larger(self.builder.fsub(x, self.all(1.0)), self.all(0.0))
        return self.plus(self.smaller(x, self.all(1.0)), self.times(self.all(LEAK), above))

    def root(self, x: Any) -> Any:
        kind, name = ir.FunctionType(self.vector, [self.vector]), f"llvm.sqrt.v{self.lanes}f64"
        root = cgutils.get_or_insert_function(self.builder.module, kind, name)  # type: ignore[no-untyped-call]
        return self.builder.call(root, [x])

    def sum(self, x: Any) -> Any:
        kind = ir.FunctionType(ir.DoubleType(), [ir.DoubleType(), self.vector])
        name = f"llvm.vector.reduce.fadd.v{self.lanes}f64"
        total = cgutils.get_or_insert_function(self.builder.module, kind, name)  # type: ignore[no-untyped-call]
        return self.builder.call(total, [ir.DoubleType()(0.0), x], fastmath=("reassoc",))

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

    def dot(self, table: Any, row: Any, v: Any, n: Any) -> Any:
        """sum_j table[row, j] v[j]."""
        total, first = self.variable(self.all(0.0)), self.builder.mul(row, n)
        self.each(n, lambda j: self.add(total, self.load(table, self.builder.add(first, j)), self.load(v, j)))
        return self.builder.load(total)

    def norm(self, table: Any, tile: Any, v: Any, m: Any, n: Any) -> Any:
        """|F v|."""
        total, first = self.variable(self.all(0.0)), self.builder.mul(tile, m)
        with cgutils.for_range(self.builder, m) as loop:
            y = self.dot(table, self.builder.add(first, loop.index), v, n)
            self.add(total, y, y)
        return self.root(self.builder.load(total))


@_inlined
def product(_: Any, F: Any, first: Any, v: Any, n: Any, m: Any, y: Any) -> tuple[Any, Build]:
    """y = sum_j v[j] F[first + j], of vectors of m numbers, a multiple of ROWS; returns |y|^2."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code, typed = _Code(context, builder, ROWS), list(zip(signature.args, args))
        blocks, n = builder.udiv(args[4], ir.Constant(args[4].type, ROWS)), args[3]
        square = code.variable(code.all(0.0))
        with cgutils.for_range(builder, blocks) as block:
            total = code.variable(code.all(0.0))

            def add(j: Any, total: Any = total, block: Any = block.index) -> None:
                row = builder.mul(builder.add(args[1], j), blocks)
                code.add(
                    total, code.same(code.number(typed[2], j)), code.load(typed[0], builder.add(row, block))
                )

            code.each(n, add)
            x = builder.load(total)
            code.store(x, typed[5], block.index)
            code.add(square, x, x)
        return code.sum(builder.load(square))

    return types.float64(F, _SIZE, v, _SIZE, _SIZE, y), build


@_inlined
def step_back(
    _: Any,
    F: Any,
    F_hat: Any,
    p: Any,
    tile: Any,
    m: Any,
    n: Any,
    v: Any,
    z: Any,
    beta: Any,
    Q: Any,
    R: Any,
    at: Any,
) -> tuple[Any, Build]:
    """Q[at] = V_h without its reward, R[at] = Vhat_h before its cap, of one action in a tile of states.

    v and z hold V_{h+1} and Vhat_{h+1} at the successors. The caps of the search; see objective.backup.
    """

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code, typed = _Code(context, builder), list(zip(signature.args, args))
        F, F_hat, p, v, z, Q, R = (typed[i] for i in (0, 1, 2, 6, 7, 9, 10))
        tile, m, n, beta, at = (args[i] for i in (3, 4, 5, 8, 11))
        beta = code.same(beta)
        u = code.cap(code.times(beta, code.norm(F, tile, v, m, n)))
        bonus = code.times(code.times(code.all(2.0), beta), code.norm(F_hat, tile, z, m, n))
        raw = builder.fadd(u, code.plus(bonus, code.dot(p, tile, z, n)))
        value = code.dot(p, tile, v, n)
        code.store(code.smaller(code.larger(value, code.all(0.0)), code.all(1.0)), Q, at)
        code.store(code.larger(raw, code.all(0.0)), R, at)
        return context.get_dummy_value()

    return types.void(F, F_hat, p, _SIZE, _SIZE, _SIZE, v, z, _NUMBER, Q, R, _SIZE), build


@_inlined
def weigh(_: Any, Q: Any, R: Any, at: Any, wV: Any, wZ: Any, h: Any, score: Any) -> tuple[Any, Build]:
    """score[at]: w_Vhat Vhat + w_V V of a tile with weights at h, or Vhat where both vanish."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code, typed = _Code(context, builder), list(zip(signature.args, args))
        hat, value = code.cap(code.load(typed[1], args[2])), code.load(typed[0], args[2])
        w_V, w_hat, none = code.load(typed[3], args[5]), code.load(typed[4], args[5]), code.all(0.0)
        both = code.plus(code.times(w_hat, hat), code.times(w_V, value))
        is_none = builder.and_(builder.fcmp_ordered("==", w_V, none), builder.fcmp_ordered("==", w_hat, none))
        code.store(builder.select(is_none, hat, both), typed[6], args[2])
        return context.get_dummy_value()

    return types.void(Q, R, _SIZE, wV, wZ, _SIZE, score), build


@_inlined
def flip(
    _: Any, F: Any, p: Any, tile: Any, m: Any, n: Any, j: Any, sign: Any, w: Any, beta: Any, y: Any, best: Any
) -> tuple[Any, Build]:
    """Coordinate j of z goes from 0 to w_j, or back. y holds F z and max(p, 0)'z, best the most of their sums."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code, typed = _Code(context, builder), list(zip(signature.args, args))
        tile, m, n, j = args[2:6]
        nothing = ir.Constant(j.type, 0)
        step, square = code.times(code.same(args[6]), code.load(typed[7], j)), code.variable(code.all(0.0))
        with cgutils.for_range(builder, m) as loop:
            row = builder.mul(builder.add(builder.mul(tile, m), loop.index), n)
            y = code.plus(
                code.load(typed[9], loop.index), code.times(step, code.load(typed[0], builder.add(row, j)))
            )
            code.store(y, typed[9], loop.index)
            code.add(square, y, y)
        p = code.larger(code.load(typed[1], builder.add(builder.mul(tile, n), j)), code.all(0.0))
        mean = code.plus(code.load(typed[9], m), code.times(step, p))
        code.store(mean, typed[9], m)
        bonus = code.times(code.same(args[8]), code.root(builder.load(square)))
        value = code.plus(code.times(code.all(2.0), bonus), mean)
        code.store(code.larger(value, code.load(typed[10], nothing)), typed[10], nothing)
        return context.get_dummy_value()

    return types.void(F, p, _SIZE, _SIZE, _SIZE, _SIZE, _NUMBER, w, _NUMBER, y, best), build
