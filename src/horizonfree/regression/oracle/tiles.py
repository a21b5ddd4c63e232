"""Norms and steps back in vectors, for loops that Numba compiles.

All actions: a tile of states stands side by side in the registers. One action per state: a column of its matrices does.
V and Vhat of a state are a pair, side by side in memory, and so are the rows of both matrices: what is done to a pair
is done to both at once, and the norms of both are sums of every other number.

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

from horizonfree.planning.backward import TIE
from horizonfree.planning.lanes import Build
from horizonfree.regression.oracle.ascent import LEAK

TILE = 8  # states of a tile
ROWS = 4  # of a matrix: their number is padded to a multiple, as is that of its columns

_FUSED = ("contract",)
_SIZE, _NUMBER, _FLAG = types.intp, types.float64, types.boolean
_WORD = ir.IntType(32)
_PAIR = ir.VectorType(ir.DoubleType(), 2)


def _inlined(function: Callable[..., tuple[Any, Build]]) -> Callable[..., Any]:
    """`intrinsic`: what the function builds takes the place of its calls."""
    made: Callable[..., Any] = intrinsic(function)
    return made


class _Code:
    """What is built, with words for what it needs. Arrays are flat, `at` counts vectors of so many lanes."""

    def __init__(self, context: Any, builder: Any, lanes: int = TILE) -> None:
        self.context, self.builder, self.lanes = context, builder, lanes
        self.vector = ir.VectorType(ir.DoubleType(), lanes)

    def load(self, array: Any, at: Any, vector: Any = None) -> Any:
        return self.builder.load(self._place(array, at, vector or self.vector), align=4)

    def store(self, x: Any, array: Any, at: Any) -> None:
        self.builder.store(x, self._place(array, at, x.type), align=4)

    def _place(self, array: tuple[Any, Any], at: Any, vector: Any) -> Any:
        first = self.builder.mul(at, ir.Constant(at.type, vector.count))
        return self.builder.bitcast(self._entry(array, first), vector.as_pointer())

    def _entry(self, array: tuple[Any, Any], i: Any) -> Any:
        kind, value = array
        return self.builder.gep(self.context.make_array(kind)(self.context, self.builder, value).data, [i])

    def number(self, array: Any, i: Any) -> Any:
        return self.builder.load(self._entry(array, i))

    def whole(self, array: Any, i: Any) -> Any:
        """A whole number of 32 bits as an index."""
        return self.builder.zext(self.number(array, i), ir.IntType(64))

    def shuffled(self, x: Any, y: Any, order: Any) -> Any:
        chosen = ir.Constant(ir.VectorType(_WORD, len(order)), list(order))
        return self.builder.shuffle_vector(x, y, chosen)

    def variable(self, x: Any) -> Any:
        return cgutils.alloca_once_value(self.builder, x)  # type: ignore[no-untyped-call]

    def add(self, total: Any, x: Any, y: Any) -> None:
        self.builder.store(self.plus(self.builder.load(total), self.times(x, y)), total)

    def all(self, x: float) -> Any:
        return ir.Constant(self.vector, [x] * self.lanes)

    def same(self, x: Any) -> Any:
        nothing = ir.Constant(ir.VectorType(x.type, self.lanes), ir.Undefined)
        first = self.builder.insert_element(nothing, x, _WORD(0))
        return self.shuffled(first, nothing, [0] * self.lanes)

    def repeated(self, pair: Any) -> Any:
        return self.shuffled(pair, pair, [0, 1] * (self.lanes // 2))

    def pair(self, x: Any, y: Any) -> Any:
        nothing = ir.Constant(_PAIR, ir.Undefined)
        return self.builder.insert_element(self.builder.insert_element(nothing, x, _WORD(0)), y, _WORD(1))

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

    def intrinsic(self, name: str, x: Any) -> Any:
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

    def gathered(self, V: Any, first: Any, succ: Any, at: Any) -> tuple[Any, Any]:
        """V and Vhat at a tile of successors."""
        entries = [
            self.builder.add(self.builder.mul(at, ir.Constant(at.type, TILE)), ir.Constant(at.type, i))
            for i in range(TILE)
        ]
        pairs = [self.load(V, self.builder.add(first, self.whole(succ, i)), _PAIR) for i in entries]
        while len(pairs) > 2:  # of even lanes, and of odd ones
            width = range(2 * pairs[0].type.count)
            pairs = [
                self.shuffled(x, y, width)
                for k in range(0, len(pairs), 4)
                for x, y in zip(pairs[k : k + 2], pairs[k + 2 : k + 4])
            ]
        even = [lane + TILE * k for lane in range(0, TILE, 2) for k in (0, 1)]
        return self.shuffled(*pairs, even), self.shuffled(*pairs, [i + 1 for i in even])

    def dot(self, table: Any, row: Any, v: list[Any], first: int = 0) -> Any:
        """sum_j table[row, j] v[j] from j = first on."""
        total, at = self.all(0.0), self.builder.mul(row, ir.Constant(row.type, len(v)))
        for j in range(first, len(v)):
            x = self.load(table, self.builder.add(at, ir.Constant(row.type, j)))
            total = self.plus(total, self.times(x, v[j]))
        return total

    def long_dot(self, table: Any, row: Any, v: Any, n: Any, first: Any) -> Any:
        """The same where v is in memory."""
        total, at = self.variable(self.all(0.0)), self.builder.mul(row, n)
        with cgutils.for_range(self.builder, n, start=first) as loop:
            self.add(total, self.load(table, self.builder.add(at, loop.index)), self.load(v, loop.index))
        return self.builder.load(total)

    def norm(self, m: Any, row: Callable[[Any], Any]) -> Any:
        """Of a vector of m entries."""
        total = self.variable(self.all(0.0))
        with cgutils.for_range(self.builder, m) as loop:
            y = row(loop.index)
            self.add(total, y, y)
        return self.intrinsic("sqrt", self.builder.load(total))

    def short_norm(self, table: Any, tile: Any, v: list[Any], m: Any, is_triangle: Any) -> Any:
        """|F v| with v in registers; below the diagonal of a triangle nothing is looked at."""
        found, first = self.variable(self.all(0.0)), self.builder.mul(tile, m)
        with self.builder.if_else(is_triangle) as (triangle, full):
            with triangle:
                total = self.all(0.0)
                for i in range(ROWS):
                    y = self.dot(table, self.builder.add(first, ir.Constant(m.type, i)), v, i)
                    total = self.plus(total, self.times(y, y))
                self.builder.store(self.intrinsic("sqrt", total), found)
            with full:
                size = self.norm(m, lambda i: self.dot(table, self.builder.add(first, i), v))
                self.builder.store(size, found)
        return self.builder.load(found)

    def long_norm(self, table: Any, tile: Any, v: Any, m: Any, n: Any, is_triangle: Any) -> Any:
        """|F v| with v in memory."""
        first, nothing = self.builder.mul(tile, m), ir.Constant(m.type, 0)

        def row(i: Any) -> Any:
            begin = self.builder.select(is_triangle, i, nothing)
            return self.long_dot(table, self.builder.add(first, i), v, n, begin)

        return self.norm(m, row)


@_inlined
def step_back(
    _: Any,
    F: Any,
    F_hat: Any,
    p: Any,
    succ: Any,
    tile: Any,
    m: Any,
    n: Any,
    is_triangle: Any,
    V: Any,
    first: Any,
    beta: Any,
    v: Any,
    z: Any,
    Q: Any,
    R: Any,
    at: Any,
) -> tuple[Any, Build]:
    """Q[at] = V_h without its reward, R[at] = Vhat_h before its cap, of one action in a tile of states.

    V holds V_{h+1} and Vhat_{h+1} in pairs, from `first` on; v and z are room. The caps of the search; see
    objective.backup.
    """

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code, typed = _Code(context, builder), list(zip(signature.args, args))
        F, F_hat, p, succ, V, v, z, Q, R = (typed[i] for i in (0, 1, 2, 3, 8, 11, 12, 13, 14))
        tile, m, n, is_triangle, first, at = (args[i] for i in (4, 5, 6, 7, 9, 15))
        beta = code.same(args[10])
        slots = builder.mul(tile, n)

        def finish(bonus: Any, hat: Any, value: Any, value_hat: Any) -> None:
            u = code.cap(code.times(beta, bonus))
            more = code.times(code.times(code.all(2.0), beta), hat)
            raw = builder.fadd(u, code.plus(more, value_hat))
            code.store(code.smaller(code.larger(value, code.all(0.0)), code.all(1.0)), Q, at)
            code.store(code.larger(raw, code.all(0.0)), R, at)

        def gathered(j: Any) -> tuple[Any, Any]:
            return code.gathered(V, first, succ, builder.add(slots, j))

        with builder.if_else(builder.icmp_signed("==", n, ir.Constant(n.type, ROWS))) as (few, others):
            with few:
                both = [gathered(ir.Constant(n.type, j)) for j in range(ROWS)]
                vs, zs = [x for x, _ in both], [x for _, x in both]
                norms = (code.short_norm(x, tile, y, m, is_triangle) for x, y in ((F, vs), (F_hat, zs)))
                finish(*norms, code.dot(p, tile, vs), code.dot(p, tile, zs))
            with others:
                with cgutils.for_range(builder, n) as loop:
                    for x, room in zip(gathered(loop.index), (v, z)):
                        code.store(x, room, loop.index)
                norms = (code.long_norm(x, tile, y, m, n, is_triangle) for x, y in ((F, v), (F_hat, z)))
                zero = ir.Constant(n.type, 0)
                finish(*norms, *(code.long_dot(p, tile, x, n, zero) for x in (v, z)))
        return context.get_dummy_value()

    tables = (F, F_hat, p, succ, _SIZE, _SIZE, _SIZE, _FLAG)
    return types.void(*tables, V, _SIZE, _NUMBER, v, z, Q, R, _SIZE), build


@_inlined
def choose(
    _: Any, Q: Any, R: Any, A: Any, w: Any, score: Any, left: Any, policy: Any, V: Any, raw: Any, at: Any
) -> tuple[Any, Build]:
    """The best action of each of the first `left` states of a tile, and its values; see objective.sweep_back.

    The score is w_Vhat Vhat + w_V V with the weights of the tile, or Vhat where both vanish. The action that is there
    stays on ties, else the first of the best is taken. All arrays of steps are looked at in the tile `at`.
    """

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code, typed = _Code(context, builder), list(zip(signature.args, args))
        Q, R, w, score, policy, V, raw = (typed[i] for i in (0, 1, 3, 4, 6, 7, 8))
        A, left, at = args[2], builder.trunc(args[5], _WORD), args[9]
        words, none = ir.VectorType(_WORD, TILE), code.all(0.0)
        weights = code.load(w, at, ir.VectorType(ir.DoubleType(), 2 * TILE))
        w_V, w_hat = (code.shuffled(weights, weights, range(k, 2 * TILE, 2)) for k in (0, 1))
        is_none = builder.and_(builder.fcmp_ordered("==", w_V, none), builder.fcmp_ordered("==", w_hat, none))
        top = code.variable(code.all(float("-inf")))

        def judge(a: Any) -> None:
            hat = code.cap(code.load(R, a))
            both = code.plus(code.times(w_hat, hat), code.times(w_V, code.load(Q, a)))
            x = builder.select(is_none, hat, both)
            code.store(x, score, a)
            builder.store(code.larger(x, builder.load(top)), top)

        code.each(A, judge)
        size = code.intrinsic("fabs", builder.load(top))
        least = builder.fsub(builder.load(top), builder.fmul(code.all(TIE), size))
        lanes = ir.Constant(words, list(range(TILE)))
        is_out = builder.icmp_signed(">=", lanes, code.same(left))
        old, best = code.load(policy, at, words), code.variable(ir.Constant(words, [0] * TILE))
        is_kept, is_found = code.variable(is_out), code.variable(builder.icmp_signed("<", lanes, lanes))

        def pick(a: Any) -> None:
            action, so_far = code.same(builder.trunc(a, _WORD)), builder.load(is_found)
            is_good = builder.fcmp_ordered(">=", code.load(score, a), least)
            is_first = builder.and_(is_good, builder.not_(so_far))
            builder.store(builder.select(is_first, action, builder.load(best)), best)
            builder.store(builder.or_(so_far, is_good), is_found)
            stays = builder.and_(is_good, builder.icmp_signed("==", old, action))
            builder.store(builder.or_(builder.load(is_kept), stays), is_kept)

        code.each(A, pick)
        chosen = builder.select(builder.load(is_kept), old, builder.load(best))
        code.store(chosen, policy, at)
        inside = builder.select(is_out, ir.Constant(words, [-1] * TILE), chosen)
        value, before = code.variable(none), code.variable(none)

        def take(a: Any) -> None:
            is_it = builder.icmp_signed("==", inside, code.same(builder.trunc(a, _WORD)))
            for table, x in ((Q, value), (R, before)):
                builder.store(builder.select(is_it, code.load(table, a), builder.load(x)), x)

        code.each(A, take)
        code.store(builder.load(before), raw, at)
        order = [i + TILE * k for i in range(TILE) for k in (0, 1)]
        code.store(code.shuffled(builder.load(value), code.cap(builder.load(before)), order), V, at)
        return context.get_dummy_value()

    return types.void(Q, R, _SIZE, w, score, _SIZE, policy, V, raw, _SIZE), build


@_inlined
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
    """y = F v and F_hat z in pairs, out = |F v|, |F_hat z|, p'v, p'z, for a pair (s,a) of a kind.

    Its successors stand in succ[at], succ[at + TILE], ..., and m is a multiple of ROWS.
    """

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code, typed = _Code(context, builder, 2 * ROWS), list(zip(signature.args, args))
        columns, p, succ, V, y, out = (typed[i] for i in (0, 1, 5, 7, 9, 10))
        kind, m, n, at, first = (args[i] for i in (2, 3, 4, 6, 8))
        blocks, begin = builder.udiv(m, ir.Constant(m.type, ROWS)), builder.mul(kind, n)
        square, mean = code.variable(code.all(0.0)), code.variable(ir.Constant(_PAIR, [0.0, 0.0]))

        def after(j: Any) -> Any:
            slot = builder.add(at, builder.mul(j, ir.Constant(j.type, TILE)))
            return code.load(V, builder.add(first, code.whole(succ, slot)), _PAIR)

        with cgutils.for_range(builder, blocks) as block:
            total = code.variable(code.all(0.0))

            def add(j: Any, total: Any = total, block: Any = block.index) -> None:
                column = builder.add(builder.mul(builder.add(begin, j), blocks), block)
                code.add(total, code.repeated(after(j)), code.load(columns, column))

            code.each(n, add)
            x = builder.load(total)
            code.store(x, y, block.index)
            code.add(square, x, x)

        def weigh(j: Any) -> None:
            by = code.number(p, builder.add(begin, j))
            code.add(mean, code.pair(by, by), after(j))

        code.each(n, weigh)
        halves = builder.load(square)
        while halves.type.count > 2:
            half = halves.type.count // 2
            halves = builder.fadd(
                code.shuffled(halves, halves, range(half)),
                code.shuffled(halves, halves, range(half, 2 * half)),
            )
        code.store(code.intrinsic("sqrt", halves), out, ir.Constant(m.type, 0))
        code.store(builder.load(mean), out, ir.Constant(m.type, 1))
        return context.get_dummy_value()

    return types.void(columns, p, _SIZE, _SIZE, _SIZE, succ, _SIZE, V, _SIZE, y, out), build


@_inlined
def turn_back(_: Any, rows: Any, kind: Any, m: Any, n: Any, y: Any, slope: Any) -> tuple[Any, Build]:
    """slope = F'y and F_hat'y_hat in pairs, for one kind; n is a multiple of ROWS."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code, typed = _Code(context, builder, 2 * ROWS), list(zip(signature.args, args))
        rows, y, slope = (typed[i] for i in (0, 4, 5))
        kind, m, n = args[1:4]
        blocks, begin = builder.udiv(n, ir.Constant(n.type, ROWS)), builder.mul(kind, m)
        with cgutils.for_range(builder, blocks) as block:
            total = code.variable(code.all(0.0))

            def add(i: Any, total: Any = total, block: Any = block.index) -> None:
                row = builder.add(builder.mul(builder.add(begin, i), blocks), block)
                code.add(total, code.repeated(code.load(y, i, _PAIR)), code.load(rows, row))

            code.each(m, add)
            code.store(builder.load(total), slope, block.index)
        return context.get_dummy_value()

    return types.void(rows, _SIZE, _SIZE, _SIZE, y, slope), build


@_inlined
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
        code, typed = _Code(context, builder), list(zip(signature.args, args))
        slope, p, succ, w = (typed[i] for i in (0, 1, 4, 6))
        kind, n, at, first = (args[i] for i in (2, 3, 5, 7))
        steep, by = code.pair(*args[8:10]), code.pair(*args[10:12])

        def grow(j: Any) -> None:
            slot = builder.add(at, builder.mul(j, ir.Constant(j.type, TILE)))
            after = builder.add(first, code.whole(succ, slot))
            share = code.number(p, builder.add(builder.mul(kind, n), j))
            more = code.plus(
                code.times(steep, code.load(slope, j, _PAIR)), code.times(by, code.pair(share, share))
            )
            code.store(code.plus(code.load(w, after, _PAIR), more), w, after)

        code.each(n, grow)
        return context.get_dummy_value()

    return types.void(slope, p, _SIZE, _SIZE, succ, _SIZE, w, _SIZE, *[_NUMBER] * 4), build


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
        bonus = code.times(code.same(args[8]), code.intrinsic("sqrt", builder.load(square)))
        value = code.plus(code.times(code.all(2.0), bonus), mean)
        code.store(code.larger(value, code.load(typed[10], nothing)), typed[10], nothing)
        return context.get_dummy_value()

    return types.void(F, p, _SIZE, _SIZE, _SIZE, _SIZE, _NUMBER, w, _NUMBER, y, best), build
