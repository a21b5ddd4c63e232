"""Steps back and derivatives of one action per state, for loops that Numba compiles.

V and Vhat of a state are a pair, side by side in memory, and so are the rows of F and F_hat: what is done to a pair is
done for both norms at once, and their squares are sums of every other number. Numba's cache on disk does not notice
changes of this file: after editing it, remove the caches (*.nbi, *.nbc).
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from horizonfree.planning.lanes import Build
from horizonfree.regression.oracle.vectors import PAIR, ROWS, TILE, Code, inlined

_SIZE, _NUMBER = types.intp, types.float64


class _Pairs(Code):
    """Products of F and F_hat with what is at the successors of one (s,a)."""

    def __init__(self, context: Any, builder: Any) -> None:
        super().__init__(context, builder, 2 * ROWS)

    def slot(self, at: Any, j: Any) -> Any:
        return self.builder.add(at, self.builder.mul(j, ir.Constant(j.type, TILE)))

    def after(self, pairs: Any, succ: Any, at: Any, j: Any) -> Any:
        """V_{h+1} and Vhat_{h+1} at the j-th successor."""
        return self.builder.load(self.of_successor(pairs, succ, self.slot(at, j)), align=8)

    def short(self, table: Any, kind: Any, parts: list[Any]) -> Any:
        """sum_i table[kind, i] parts[i], of pairs, for matrices of one block."""
        total, first = self.all(0.0), self.builder.mul(kind, ir.Constant(kind.type, len(parts)))
        for i, part in enumerate(parts):
            x = self.load(table, self.builder.add(first, ir.Constant(kind.type, i)))
            total = self.plus(total, self.times(self.repeated(part), x))
        return total

    def long(
        self, table: Any, kind: Any, number: Any, blocks: Any, part: Callable[[Any], Any], out: Any
    ) -> Any:
        """The same, written to memory block by block; returns the squares, not yet summed."""
        square, first = self.variable(self.all(0.0)), self.builder.mul(kind, number)
        with cgutils.for_range(self.builder, blocks) as block:
            total = self.variable(self.all(0.0))
            with cgutils.for_range(self.builder, number) as loop:
                row = self.builder.mul(self.builder.add(first, loop.index), blocks)
                x = self.load(table, self.builder.add(row, block.index))
                self.add(total, self.repeated(part(loop.index)), x)
            x = self.builder.load(total)
            self.store(x, out, block.index)
            self.add(square, x, x)
        return self.builder.load(square)

    def roots(self, squares: Any) -> Any:
        """Of the two sums of every other number."""
        while squares.type.count > 2:
            half = squares.type.count // 2
            parts = [self.shuffled(squares, squares, range(k, k + half)) for k in (0, half)]
            squares = self.builder.fadd(*parts)
        return self.intrinsic("sqrt", squares)

    def is_short(self, m: Any, n: Any) -> Any:
        """Whether both matrices are of one block, as on most grids; m is padded."""
        few = ir.Constant(n.type, ROWS)
        return self.builder.and_(
            self.builder.icmp_signed("==", n, few), self.builder.icmp_signed("==", m, few)
        )


@inlined
def look_ahead(
    _: Any,
    columns: Any,
    p: Any,
    kind: Any,
    m: Any,
    n: Any,
    succ: Any,
    at: Any,
    V: Any,
    first: Any,
    y: Any,
    out: Any,
) -> tuple[Any, Build]:
    """out = |F v|, |F_hat z|, p'v, p'z for a pair (s,a) of a kind; y is room.

    Its successors stand in succ[at], succ[at + TILE], ..., and m is a multiple of ROWS.
    """

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code, typed = _Pairs(context, builder), list(zip(signature.args, args))
        columns, p, succ, V, y, out = (typed[i] for i in (0, 1, 5, 7, 9, 10))
        kind, m, n, at, first = (args[i] for i in (2, 3, 4, 6, 8))
        begin, blocks = builder.mul(kind, n), builder.udiv(m, ir.Constant(m.type, ROWS))
        later = code.beyond(V, first)

        def after(j: Any) -> Any:
            return code.after(later, succ, at, j)

        def finish(squares: Any, mean: Any) -> None:
            code.store(code.roots(squares), out, ir.Constant(n.type, 0))
            code.store(mean, out, ir.Constant(n.type, 1))

        def add(mean: Any, j: Any, part: Any) -> Any:
            by = code.number(p, builder.add(begin, j))
            return code.plus(mean, code.times(code.pair(by, by), part))

        nothing = ir.Constant(PAIR, [0.0, 0.0])
        with builder.if_else(code.is_short(m, n)) as (short, long):
            with short:
                slots = [ir.Constant(n.type, j) for j in range(ROWS)]
                parts, mean = [after(j) for j in slots], nothing
                for j, part in zip(slots, parts):
                    mean = add(mean, j, part)
                x = code.short(columns, kind, parts)
                finish(code.times(x, x), mean)
            with long:
                mean = code.variable(nothing)
                with cgutils.for_range(builder, n) as loop:
                    builder.store(add(builder.load(mean), loop.index, after(loop.index)), mean)
                finish(code.long(columns, kind, n, blocks, after, y), builder.load(mean))
        return context.get_dummy_value()

    return types.void(columns, p, _SIZE, _SIZE, _SIZE, succ, _SIZE, V, _SIZE, y, out), build


@inlined
def slopes(
    _: Any,
    columns: Any,
    rows: Any,
    kind: Any,
    m: Any,
    n: Any,
    succ: Any,
    at: Any,
    V: Any,
    first: Any,
    y: Any,
    out: Any,
    slope: Any,
) -> tuple[Any, Build]:
    """out = |F v|, |F_hat z|, and slope = F'F v, F_hat'F_hat z in pairs; see `look_ahead`."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code, typed = _Pairs(context, builder), list(zip(signature.args, args))
        columns, rows, succ, V, y, out, slope = (typed[i] for i in (0, 1, 5, 7, 9, 10, 11))
        kind, m, n, at, first = (args[i] for i in (2, 3, 4, 6, 8))
        few, later = ir.Constant(n.type, ROWS), code.beyond(V, first)

        def after(j: Any) -> Any:
            return code.after(later, succ, at, j)

        with builder.if_else(code.is_short(m, n)) as (short, long):
            with short:
                x = code.short(columns, kind, [after(ir.Constant(n.type, j)) for j in range(ROWS)])
                code.store(code.roots(code.times(x, x)), out, ir.Constant(n.type, 0))
                parts = [code.shuffled(x, x, (2 * i, 2 * i + 1)) for i in range(ROWS)]
                code.store(code.short(rows, kind, parts), slope, ir.Constant(n.type, 0))
            with long:
                squares = code.long(columns, kind, n, builder.udiv(m, few), after, y)
                blocks = builder.udiv(builder.add(n, ir.Constant(n.type, ROWS - 1)), few)
                code.long(rows, kind, m, blocks, lambda i: code.load(y, i, PAIR), slope)
                code.store(code.roots(squares), out, ir.Constant(n.type, 0))
        return context.get_dummy_value()

    return types.void(columns, rows, _SIZE, _SIZE, _SIZE, succ, _SIZE, V, _SIZE, y, out, slope), build


@inlined
def spread(
    _: Any,
    slope: Any,
    p: Any,
    kind: Any,
    n: Any,
    succ: Any,
    at: Any,
    w: Any,
    first: Any,
    steep: Any,
    steep_hat: Any,
    by: Any,
    by_hat: Any,
) -> tuple[Any, Build]:
    """At each successor, both weights grow by steep slope + by p."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code, typed = _Pairs(context, builder), list(zip(signature.args, args))
        slope, p, succ, w = (typed[i] for i in (0, 1, 4, 6))
        kind, n, at, first = (args[i] for i in (2, 3, 5, 7))
        steep, by, later = code.pair(*args[8:10]), code.pair(*args[10:12]), code.beyond(w, first)

        def grow(j: Any) -> None:
            place = code.of_successor(later, succ, code.slot(at, j))
            share = code.number(p, builder.add(builder.mul(kind, n), j))
            more = code.plus(
                code.times(steep, code.load(slope, j, PAIR)), code.times(by, code.pair(share, share))
            )
            builder.store(code.plus(builder.load(place, align=8), more), place, align=8)

        code.each(n, grow)
        return context.get_dummy_value()

    return types.void(slope, p, _SIZE, _SIZE, succ, _SIZE, w, _SIZE, *[_NUMBER] * 4), build
