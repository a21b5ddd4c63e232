"""Sixteen numbers side by side in registers, for loops that Numba compiles.

Numba has no vectors. Left to itself the compiler keeps running sums in memory and tests again and again whether arrays
overlap. Here a vector is a type of its own, which LLVM maps to the registers of the processor, whatever their width.
Products of dense rows round sums and products once where the processor can; all else has the bits of a scalar loop.

Numba's cache on disk does not notice changes of this file: after editing it, remove the caches (*.nbi, *.nbc).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_jitable, register_model

LANES = 16
LINE = 8  # numbers of 64 bits in a cache line, and rows and columns of a block that is transposed


def _has(feature: str) -> bool:
    """Whether the processor has a feature; no where it does not tell."""
    try:
        return bool(get_host_cpu_features().get(feature))
    except RuntimeError:
        return False


ROWS = 8 if _has("avx512f") else 2  # of a product: their sums should fill the registers

_I8P, _I32 = ir.IntType(8).as_pointer(), ir.IntType(32)
Build = Callable[[Any, Any, Any, Any], Any]  # (context, builder, signature, arguments) -> value


class Lanes(types.Type):
    """LANES numbers of one type."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        super().__init__(name=f"Lanes({dtype})")


FLOATS, INTEGERS, MASK = Lanes(types.float64), Lanes(types.int32), Lanes(types.boolean)
LLVM = {
    FLOATS: ir.VectorType(ir.DoubleType(), LANES),
    INTEGERS: ir.VectorType(ir.IntType(32), LANES),
    MASK: ir.VectorType(ir.IntType(1), LANES),
}


@register_model(Lanes)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Lanes) -> None:
        super().__init__(manager, kind, LLVM[kind])  # type: ignore[no-untyped-call]


def _at(context: Any, builder: Any, array: Any, kind: Any, index: Any, pointer: Any) -> Any:
    """The address of array[index], as a pointer to something else."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), pointer)


def _filled(builder: Any, x: Any, vector: ir.VectorType) -> Any:
    nothing = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(nothing, x, _I32(0))
    return builder.shuffle_vector(
        first, nothing, ir.Constant(ir.VectorType(_I32, vector.count), [0] * vector.count)
    )


def _inlined(function: Callable[..., tuple[Any, Build]]) -> Callable[..., Any]:
    """`intrinsic`: what the function builds takes the place of its calls."""
    made: Callable[..., Any] = intrinsic(function)
    return made


@_inlined
def splat(_: Any, x: Any) -> tuple[Any, Build]:
    """The same number in every lane."""
    kind = FLOATS if isinstance(x, types.Float) else INTEGERS

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _filled(builder, context.cast(builder, args[0], x, kind.dtype), LLVM[kind])

    return kind(x), build


@_inlined
def load(_: Any, x: Any, i: Any) -> tuple[Any, Build]:
    """x[i : i + LANES] of a flat array."""
    kind = Lanes(x.dtype)

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_at(context, builder, args[0], x, args[1], LLVM[kind].as_pointer()), align=8)

    return kind(x, types.intp), build


@_inlined
def store(_: Any, x: Any, i: Any, v: Any) -> tuple[Any, Build]:
    """x[i : i + LANES] = v."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _at(context, builder, args[0], x, args[1], LLVM[v].as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(x, types.intp, v), build


@_inlined
def plus_product(_: Any, q: Any, p: Any, v: Any) -> tuple[Any, Build]:
    """q + p v, for a number p."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fadd(args[0], builder.fmul(_filled(builder, args[1], LLVM[FLOATS]), args[2]))

    return FLOATS(FLOATS, types.float64, FLOATS), build


@_inlined
def plus_zero_times(_: Any, check: Any, v: Any) -> tuple[Any, Build]:
    """check + 0 v, one instruction where the processor can: not a number where v is not finite, else check."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        nothing = ir.Constant(LLVM[FLOATS], [0.0] * LANES)
        product = builder.fmul(nothing, args[1], flags=("contract",))
        return builder.fadd(args[0], product, flags=("contract",))

    return FLOATS(FLOATS, FLOATS), build


@_inlined
def add_rows(_: Any, r: Any, i: Any, P: Any, row: Any, n: Any, V: Any) -> tuple[Any, Build]:
    """r[i + k] += sum_j P[row + k, j] V[j] for k < ROWS, of flat arrays: r and V hold vectors, rows of P n numbers."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        r_, i, P_, row, n, V_ = args
        vector, number = LLVM[FLOATS].as_pointer(), ir.DoubleType().as_pointer()
        lanes = ir.Constant(n.type, LANES)
        places = [builder.mul(x, lanes) for x in _next(builder, i, ROWS)]
        targets = [_at(context, builder, r_, r, place, vector) for place in places]
        sums = [_variable(builder, builder.load(target, align=8)) for target in targets]
        starts = [builder.mul(x, n) for x in _next(builder, row, ROWS)]
        with cgutils.for_range(builder, n) as loop:
            v = builder.load(_at(context, builder, V_, V, builder.mul(loop.index, lanes), vector), align=8)
            for total, start in zip(sums, starts):
                p = builder.load(_at(context, builder, P_, P, builder.add(start, loop.index), number))
                _accumulate(builder, total, _filled(builder, p, LLVM[FLOATS]), v)
        for total, target in zip(sums, targets):
            builder.store(builder.load(total), target, align=8)
        return context.get_dummy_value()

    return types.void(r, types.intp, P, types.intp, types.intp, V), build


@_inlined
def product(_: Any, P: Any, i: Any, V: Any, n: Any) -> tuple[Any, Build]:
    """sum_j P[i + j] V[j] for j < n, of flat arrays of numbers; n >= LANES."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        P_, i, V_, n = args
        vector, lanes = LLVM[FLOATS], ir.Constant(n.type, LANES)
        zero = ir.Constant(vector, [0.0] * LANES)
        total = _variable(builder, zero)

        def add(j: Any, keep: Callable[[Any], Any]) -> None:
            v = builder.load(_at(context, builder, V_, V, j, vector.as_pointer()), align=8)
            p = builder.load(_at(context, builder, P_, P, builder.add(i, j), vector.as_pointer()), align=8)
            _accumulate(builder, total, p, keep(v))

        with cgutils.for_range(builder, builder.udiv(n, lanes)) as loop:
            add(builder.mul(loop.index, lanes), lambda v: v)
        rest = builder.urem(n, lanes)
        with builder.if_then(builder.icmp_unsigned("!=", rest, ir.Constant(n.type, 0))):
            index = ir.Constant(ir.VectorType(n.type, LANES), list(range(LANES)))
            first = _filled(builder, builder.sub(lanes, rest), index.type)
            is_new = builder.icmp_unsigned(">=", index, first)  # some of the last LANES were counted
            add(builder.sub(n, lanes), lambda v: builder.select(is_new, v, zero))
        kind = ir.FunctionType(ir.DoubleType(), [ir.DoubleType(), vector])
        name = f"llvm.vector.reduce.fadd.v{LANES}f64"
        reduce = cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]
        return builder.call(reduce, [ir.DoubleType()(0.0), builder.load(total)], fastmath=("reassoc",))

    return types.float64(P, types.intp, V, types.intp), build


def _next(builder: Any, x: Any, count: int) -> list[Any]:
    """x, x + 1, ..."""
    return [builder.add(x, ir.Constant(x.type, k)) for k in range(count)]


def _variable(builder: Any, x: Any) -> Any:
    """A variable with this value: in a register, once the compiler is done."""
    return cgutils.alloca_once_value(builder, x)  # type: ignore[no-untyped-call]


def _accumulate(builder: Any, total: Any, p: Any, v: Any) -> None:
    """total += p v, rounded once where the processor can."""
    product = builder.fmul(p, v, flags=("contract",))
    builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)


@_inlined
def exceeds(_: Any, v: Any, w: Any) -> tuple[Any, Build]:
    """v > w in each lane."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fcmp_ordered(">", *args)

    return MASK(FLOATS, FLOATS), build


@_inlined
def where(_: Any, mask: Any, v: Any, w: Any) -> tuple[Any, Build]:
    """v in the lanes of the mask, w in the others."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(*args)

    return v(MASK, v, w), build


@_inlined
def transpose(_: Any, x: Any, i: Any, rows: Any, y: Any, j: Any, columns: Any) -> tuple[Any, Build]:
    """y[j + columns c + r] = x[i + rows r + c] for r, c < LINE: a block of one flat array, transposed, in another."""
    size = types.intp

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, i, rows, target, j, columns = args
        vector = ir.VectorType(context.get_data_type(x.dtype), LINE)
        block = []
        for _ in range(LINE):
            block.append(builder.load(_at(context, builder, source, x, i, vector.as_pointer()), align=8))
            i = builder.add(i, rows)
        half = LINE // 2
        while half:  # exchange the off-diagonal quarters of ever smaller squares
            for r in (r for r in range(LINE) if not r & half):
                pair = block[r], block[r + half]
                left = [c if not c & half else LINE + c - half for c in range(LINE)]
                right = [c + half if not c & half else LINE + c for c in range(LINE)]
                for k, lanes in ((r, left), (r + half, right)):
                    block[k] = builder.shuffle_vector(*pair, ir.Constant(ir.VectorType(_I32, LINE), lanes))
            half //= 2
        for column in block:
            builder.store(column, _at(context, builder, target, y, j, vector.as_pointer()), align=8)
            j = builder.add(j, columns)
        return context.get_dummy_value()

    return types.void(x, size, size, y, size, size), build


def _fetch(level: int) -> Callable[..., Any]:
    @_inlined
    def fetch(_: Any, x: Any, i: Any) -> tuple[Any, Build]:
        """Ask for the cache line of x[i], which will be wanted soon; i may lie beyond the end."""

        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = ir.FunctionType(ir.VoidType(), [_I8P, _I32, _I32, _I32])
            ask = builder.module.declare_intrinsic("llvm.prefetch", [_I8P], kind)
            place = _at(context, builder, args[0], x, args[1], _I8P)
            is_read, is_data = _I32(0), _I32(1)
            builder.call(ask, [place, is_read, _I32(4 - level), is_data])
            return context.get_dummy_value()

        return types.void(x, types.intp), build

    return fetch


fetch = _fetch(2)  # into the second-level cache
# Into the first; not on AMD's processors, where that is slower.
fetch_near = _fetch(2 if _has("sse4a") else 1)


@register_jitable
def aligned(size: int) -> np.ndarray:
    """A flat array that begins with a cache line, not filled: a vector in two lines takes twice as long to load."""
    room = np.empty(size + LINE)
    first = (-room.ctypes.data // 8) % LINE
    return room[first : first + size]
