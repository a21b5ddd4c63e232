"""Steps back for all actions, a tile of states side by side in the registers; for loops that Numba compiles.

V and Vhat of a state are a pair, side by side in memory. Numba's cache on disk does not notice changes of this file:
after editing it, remove the caches (*.nbi, *.nbc).
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from horizonfree.planning.backward import TIE
from horizonfree.planning.lanes import Build
from horizonfree.regression.oracle.vectors import ROWS, TILE, WORD, Code, inlined

_SIZE, _NUMBER, _FLAG = types.intp, types.float64, types.boolean


class _Tile(Code):
    """Norms and products of a tile."""

    def gathered(self, pairs: Any, succ: Any, at: Any) -> tuple[Any, Any]:
        """V and Vhat at a tile of successors."""
        first = self.builder.mul(at, ir.Constant(at.type, TILE))
        slots = [self.builder.add(first, ir.Constant(at.type, i)) for i in range(TILE)]
        found = [self.builder.load(self.of_successor(pairs, succ, i), align=8) for i in slots]
        while len(found) > 2:  # even lanes, and odd ones
            width = range(2 * found[0].type.count)
            found = [
                self.shuffled(found[k + i], found[k + i + 2], width)
                for k in range(0, len(found), 4)
                for i in (0, 1)
            ]
        even = [lane + TILE * k for lane in range(0, TILE, 2) for k in (0, 1)]
        x, y = found
        return self.shuffled(x, y, even), self.shuffled(x, y, [i + 1 for i in even])

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


@inlined
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
        code, typed = _Tile(context, builder), list(zip(signature.args, args))
        F, F_hat, p, succ, V, v, z, Q, R = (typed[i] for i in (0, 1, 2, 3, 8, 11, 12, 13, 14))
        tile, m, n, is_triangle, first, at = (args[i] for i in (4, 5, 6, 7, 9, 15))
        beta = code.same(args[10])
        slots, after = builder.mul(tile, n), code.beyond(V, first)

        def finish(bonus: Any, hat: Any, value: Any, value_hat: Any) -> None:
            u = code.cap(code.times(beta, bonus))
            more = code.times(code.times(code.all(2.0), beta), hat)
            raw = builder.fadd(u, code.plus(more, value_hat))
            code.store(code.smaller(code.larger(value, code.all(0.0)), code.all(1.0)), Q, at)
            code.store(code.larger(raw, code.all(0.0)), R, at)

        def gathered(j: Any) -> tuple[Any, Any]:
            return code.gathered(after, succ, builder.add(slots, j))

        with builder.if_else(builder.icmp_signed("==", n, ir.Constant(n.type, ROWS))) as (few, others):
            with few:
                both = [gathered(ir.Constant(n.type, j)) for j in range(ROWS)]
                vs, zs = [x for x, _ in both], [x for _, x in both]
                u, hat = (code.short_norm(x, tile, y, m, is_triangle) for x, y in ((F, vs), (F_hat, zs)))
                finish(u, hat, code.dot(p, tile, vs), code.dot(p, tile, zs))
            with others:
                with cgutils.for_range(builder, n) as loop:
                    for x, room in zip(gathered(loop.index), (v, z)):
                        code.store(x, room, loop.index)
                u, hat = (code.long_norm(x, tile, y, m, n, is_triangle) for x, y in ((F, v), (F_hat, z)))
                zero = ir.Constant(n.type, 0)
                finish(u, hat, code.long_dot(p, tile, v, n, zero), code.long_dot(p, tile, z, n, zero))
        return context.get_dummy_value()

    tables = (F, F_hat, p, succ, _SIZE, _SIZE, _SIZE, _FLAG)
    return types.void(*tables, V, _SIZE, _NUMBER, v, z, Q, R, _SIZE), build


@inlined
def choose(
    _: Any, Q: Any, R: Any, A: Any, w: Any, score: Any, left: Any, policy: Any, V: Any, raw: Any, at: Any
) -> tuple[Any, Build]:
    """The best action of each of the first `left` states of a tile, and its values; see objective.sweep_back.

    The score is w_Vhat Vhat + w_V V with the weights of the tile, or Vhat where both vanish. The action that is there
    stays on ties, else the first of the best is taken. All arrays of steps are looked at in the tile `at`.
    """

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code, typed = _Tile(context, builder), list(zip(signature.args, args))
        Q, R, w, score, policy, V, raw = (typed[i] for i in (0, 1, 3, 4, 6, 7, 8))
        A, left, at = args[2], builder.trunc(args[5], WORD), args[9]
        words, none = ir.VectorType(WORD, TILE), code.all(0.0)
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
            action, so_far = code.same(builder.trunc(a, WORD)), builder.load(is_found)
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
            is_it = builder.icmp_signed("==", inside, code.same(builder.trunc(a, WORD)))
            for table, x in ((Q, value), (R, before)):
                builder.store(builder.select(is_it, code.load(table, a), builder.load(x)), x)

        code.each(A, take)
        code.store(builder.load(before), raw, at)
        order = [i + TILE * k for i in range(TILE) for k in (0, 1)]
        code.store(code.shuffled(builder.load(value), code.cap(builder.load(before)), order), V, at)
        return context.get_dummy_value()

    return types.void(Q, R, _SIZE, w, score, _SIZE, policy, V, raw, _SIZE), build


@inlined
def flip(
    _: Any, F: Any, p: Any, tile: Any, m: Any, n: Any, j: Any, sign: Any, w: Any, beta: Any, y: Any, best: Any
) -> tuple[Any, Build]:
    """Coordinate j of z goes from 0 to w_j, or back. y holds F z and max(p, 0)'z, best the most of their sums."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        code, typed = _Tile(context, builder), list(zip(signature.args, args))
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
