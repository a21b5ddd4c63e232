"""Operations of JAX by NumPy, with the parameters that traced programs give them; for op_by_op.py.

Each is a function of parameters p, of the kinds `of` that it is given and `out` that it returns, and of `ask`, which
does the same in JAX. It returns a function of arrays, or None where NumPy would do something else.
"""

import operator

import numpy as np
from numpy.linalg import _umath_linalg
from scipy.special import gammaln

from tests.reference.draws import DRAWS
from tests.reference.windows import CHANGED, gather, scatter

PLAIN = dict(add=np.add, sub=np.subtract, mul=np.multiply, max=np.maximum, min=np.minimum, neg=np.negative)
PLAIN |= dict(eq=np.equal, ne=np.not_equal, lt=np.less, le=np.less_equal, gt=np.greater, ge=np.greater_equal)
PLAIN |= dict(
    exp=np.exp, log=np.log, sqrt=np.sqrt, abs=np.abs, sign=np.sign, is_finite=np.isfinite, rem=np.fmod
)
PLAIN |= dict(log1p=np.log1p, expm1=np.expm1, floor=np.floor, ceil=np.ceil, square=np.square)
PLAIN |= dict(lgamma=gammaln, shift_left=np.left_shift, xor=np.bitwise_xor, nextafter=np.nextafter)
PLAIN |= {"add_any": np.add, "and": np.bitwise_and, "or": np.bitwise_or, "not": np.bitwise_not}
# Of two numbers by themselves, at a tenth of the time; what is not a number is the larger and the smaller of both.
ALONE = {x: getattr(operator, x) for x in ("add", "sub", "mul", "neg", "eq", "ne", "lt", "le", "gt", "ge")}
ALONE |= dict(max=lambda x, y: x if x >= y or x != x else y, min=lambda x, y: x if x <= y or x != x else y)
OVER_AXES = dict(reduce_sum=np.add, reduce_prod=np.multiply, reduce_max=np.maximum, reduce_min=np.minimum)
OF_TRUTHS = dict(reduce_or=np.logical_or, reduce_and=np.logical_and)
SMALL = 4096  # numbers: as many are spread by a copy
SHORT, ROWS = 8, 32  # an axis of so many numbers is gone through by hand, where so many rows are for each


def by_numpy(name, p, of, out, ask):
    """The operation of that name; None where there is none."""
    if name in ALONE and not any(x.ndim for x in of):
        return ALONE[name]
    if name in PLAIN:
        return PLAIN[name]
    if name in OVER_AXES or (name in OF_TRUTHS and of[0].dtype == bool):
        return _reduced((OVER_AXES | OF_TRUTHS)[name], p, of[0])
    if name in DRAWS:
        return DRAWS[name](p)
    if name in CHANGED:
        return scatter(p, of, CHANGED[name])
    return OTHERS[name](p, of, out, ask) if name in OTHERS else None


def _reduced(function, p, x):
    axes, dtype, reduce = tuple(p["axes"]), x.dtype, function.reduce
    if x.size == 0 and function not in (np.add, np.multiply):
        return None
    if axes == (x.ndim - 1,) and 1 < (n := x.shape[-1]) <= SHORT and x.size >= ROWS * n * n:
        return _along_a_short_axis(function, n)
    where = axes[0] if len(axes) == 1 else axes
    if dtype.kind == "i" or dtype.kind == "u":  # of which NumPy would make larger ones
        return lambda x: reduce(x, where, dtype)
    return lambda x: reduce(x, where)


def _along_a_short_axis(function, n):
    """The last: NumPy would begin anew in every row."""

    def reduced(x):
        found = function(x[..., 0], x[..., 1])
        for j in range(2, n):
            function(found, x[..., j], out=found)
        return found

    return reduced


def _same(p, of, out, ask):
    return same


def same(x):
    """Nothing to do."""
    return x


def _divided(p, of, out, ask):
    """Whole numbers toward zero."""
    if of[0].dtype.kind == "f":
        return np.divide if of[0].ndim or of[1].ndim else operator.truediv
    if of[0].dtype.kind == "u" and not of[0].ndim:
        return lambda x, y: x // y if y else ask(x, y)

    def divided(x, y):
        if (y == 0).any():
            return ask(x, y)
        return (x // y + ((x % y != 0) & ((x < 0) != (y < 0)))).astype(x.dtype)

    return divided


def _converted(p, of, out, ask):
    """Of fractions to whole numbers, those that are in the range of both."""
    dtype = p["new_dtype"]
    if of[0].dtype == dtype:
        return same
    if of[0].dtype.kind != "f" or dtype.kind == "f":
        return lambda x: x.astype(dtype)
    return lambda x: x.astype(dtype) if np.abs(x).max(initial=0) < 2**31 else ask(x)


def _selected(p, of, out, ask):
    where = np.where
    if of[0].dtype == bool and not of[0].ndim:
        return lambda which, no, yes: yes if which else no
    if of[0].dtype == bool:
        return lambda which, no, yes: where(which, yes, no)
    return lambda which, *cases: np.choose(which, cases)


def _shifted(p, of, out, ask):
    x = of[0].dtype
    if x.kind == "u":
        return np.right_shift
    plain = np.dtype(f"u{x.itemsize}")
    return lambda x, y: (x.view(plain) >> y.view(plain)).view(x.dtype)


def _in_order(is_strict):
    """Of all numbers, minus zero before zero; of what is no number JAX has an order of its own."""

    def compare(p, of, out, ask):
        if of[0].dtype.kind != "f":
            return np.less if is_strict else np.less_equal

        def compared(x, y):
            if not x.ndim and x != y and x == x and y == y:
                return x < y
            if np.isnan(x).any() or np.isnan(y).any():
                return ask(x, y)
            sign_x, sign_y = np.signbit(x), np.signbit(y)
            return (x < y) | ((x == y) & ((sign_x > sign_y) if is_strict else (sign_x >= sign_y)))

        return compared

    return compare


def _read_as(p, of, out, ask):
    dtype = p["new_dtype"]
    return (lambda x: x.view(dtype)) if of[0].dtype.itemsize == dtype.itemsize else None


def _spread(p, of, out, ask):
    shape, many = out.shape, out.size > SMALL
    kept = np.ones(len(shape), int)
    kept[list(p["broadcast_dimensions"])] = of[0].shape
    kept = tuple(kept.tolist())
    if kept == shape:
        return same if of[0].shape == shape else lambda x: x.reshape(shape)
    if many:
        return lambda x: np.broadcast_to(x.reshape(kept), shape)

    def filled(x):
        found = np.empty(shape, x.dtype)
        found.fill(x)
        return found

    def spread(x):
        found = np.empty(shape, x.dtype)
        found[...] = x.reshape(kept)
        return found

    return spread if of[0].ndim else filled


def _part(p, of, out, ask):
    at = tuple(map(slice, p["start_indices"], p["limit_indices"], p["strides"] or [1] * of[0].ndim))
    return lambda x: x[at]


def _counted(p, of, out, ask):
    size = [1] * len(p["shape"])
    size[p["dimension"]] = -1
    rows = np.arange(p["shape"][p["dimension"]], dtype=p["dtype"]).reshape(size)
    found = np.broadcast_to(rows, p["shape"])
    return lambda: found


def _dot(p, of, out, ask):
    """Axes in the order of dot_general: batches, what is left of the first, what is left of the second."""
    (summed, batches), (x, y) = p["dimension_numbers"], of
    if out.dtype.kind not in "fiu":
        return None
    left = [[i for i in range(v.ndim) if i not in (*summed[k], *batches[k])] for k, v in enumerate(of)]
    first, second = (*batches[0], *left[0], *summed[0]), (*batches[1], *summed[1], *left[1])
    B, M, K = (tuple(x.shape[i] for i in at) for at in (batches[0], left[0], summed[0]))
    N, n = tuple(y.shape[i] for i in left[1]), np.prod
    rows, columns = (*B, n(M, dtype=int), n(K, dtype=int)), (*B, n(K, dtype=int), n(N, dtype=int))
    shape, dtype = out.shape, out.dtype
    is_plain = not B and x.ndim <= 2 and y.ndim <= 2 and tuple(map(tuple, summed)) == ((x.ndim - 1,), (0,))
    if is_plain and x.dtype == y.dtype == dtype:
        return np.dot

    def dot(x, y):
        left, right = x.transpose(first).reshape(rows), y.transpose(second).reshape(columns)
        return (left.astype(dtype, copy=False) @ right.astype(dtype, copy=False)).reshape(shape)

    return dot


def _clipped(at, most):
    """Where a slice begins: as near as it fits."""
    return [max(0, min(int(i), n)) for i, n in zip(at, most)]


def _taken(p, of, out, ask):
    sizes = p["slice_sizes"]
    most = [n - m for n, m in zip(of[0].shape, sizes)]
    return lambda x, *at: x[tuple(slice(i, i + m) for i, m in zip(_clipped(at, most), sizes))]


def _put(p, of, out, ask):
    sizes = of[1].shape
    most = [n - m for n, m in zip(of[0].shape, sizes)]

    def put(x, new, *at):
        found = np.array(x)
        found[tuple(slice(i, i + m) for i, m in zip(_clipped(at, most), sizes))] = new
        return found

    return put


def _padded(p, of, out, ask):
    ends = [row[:2] for row in p["padding_config"]]
    if any(low < 0 or high < 0 or inner for low, high, inner in p["padding_config"]):
        return None
    inside, shape = tuple(slice(low, low + n) for (low, _), n in zip(ends, of[0].shape)), out.shape

    def padded(x, fill):
        found = np.full(shape, fill, x.dtype)
        found[inside] = x
        return found

    return padded


def _cumulative(function):
    def along(p, of, out, ask):
        axis, dtype = p["axis"], of[0].dtype
        if p["reverse"]:
            return lambda x: np.flip(function.accumulate(np.flip(x, axis), axis, dtype), axis)
        return lambda x: function.accumulate(x, axis, dtype)

    return along


def _first(function):
    """argmax and argmin; what is not a number counts as either, as JAX has it."""

    def found(p, of, out, ask):
        axis, dtype = p["axes"][0], p["index_dtype"]
        return lambda x: function(x, axis).astype(dtype)

    return found


def _factor(p, of, out, ask):
    """Lower triangles; of what has none JAX's answer."""

    def factor(x):
        found = _umath_linalg.cholesky_lo(x)
        return ask(x) if _is_in_vain(found) else found

    return factor


def _solved(p, of, out, ask):
    """Of triangles and right sides: x with op(A) x = b, or x op(A) = b."""
    inside = np.tri(of[0].shape[-1], dtype=out.dtype)
    inside, on_left = inside if p["lower"] else inside.T, p["left_side"]
    is_turned = p["transpose_a"] == on_left
    if p["unit_diagonal"]:
        return None

    def solved(A, b):
        kept = A * inside
        right = b if on_left else b.swapaxes(-1, -2)
        found = _umath_linalg.solve(kept.swapaxes(-1, -2) if is_turned else kept, right)
        if _is_in_vain(found):
            return ask(A, b)
        return found if on_left else found.swapaxes(-1, -2)

    return solved


def _is_in_vain(found):
    """Where there is no answer LAPACK's is not a number; nor where infinities were given."""
    total = np.add.reduce(found, None)
    return total != total


def _power(p, of, out, ask):
    y = p["y"]
    return lambda x: x**y


def _powers(p, of, out, ask):
    dtype = of[0].dtype
    return lambda x, y: x ** y.astype(dtype)


def _pieces(p, of, out, ask):
    at, axis = np.cumsum(p["sizes"])[:-1], p["axis"]
    return lambda x: np.split(x, at, axis)


def _reshaped(p, of, out, ask):
    shape = out.shape
    if of[0].shape == shape:
        return same
    return lambda x: x.reshape(shape)


def _turned(p, of, out, ask):
    order = p["permutation"]
    return lambda x: x.transpose(order)


def _reversed(p, of, out, ask):
    at = tuple(slice(None, None, -1 if i in p["dimensions"] else None) for i in range(of[0].ndim))
    return lambda x: x[at]


def _joined(p, of, out, ask):
    axis = p["dimension"]
    return lambda *given: np.concatenate(given, axis)


def _stacked(p, of, out, ask):
    shape, dtype, before = out.shape, out.dtype, (slice(None),) * p["axis"]

    def stacked(*given):
        found = np.empty(shape, dtype)
        for i, x in enumerate(given):
            found[(*before, i)] = x
        return found

    return stacked


def _tiled(p, of, out, ask):
    times = p["reps"]
    return lambda x: np.tile(x, times)


OTHERS = {
    "argmax": _first(np.argmax),
    "argmin": _first(np.argmin),
    "bitcast_convert_type": _read_as,
    "broadcast_in_dim": _spread,
    "cholesky": _factor,
    "clamp": lambda *_: lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "concatenate": _joined,
    "convert_element_type": _converted,
    "copy": _same,
    "copy_p": _same,
    "cummax": _cumulative(np.maximum),
    "cummin": _cumulative(np.minimum),
    "cumprod": _cumulative(np.multiply),
    "cumsum": _cumulative(np.add),
    "div": _divided,
    "dot_general": _dot,
    "dynamic_slice": _taken,
    "dynamic_update_slice": _put,
    "gather": gather,
    "integer_pow": _power,
    "iota": _counted,
    "le_to": _in_order(is_strict=False),
    "lt_to": _in_order(is_strict=True),
    "pad": _padded,
    "pow": _powers,
    "reshape": _reshaped,
    "rev": _reversed,
    "select_n": _selected,
    "shift_right_logical": _shifted,
    "slice": _part,
    "split": _pieces,
    "squeeze": _reshaped,
    "stack": _stacked,
    "tile": _tiled,
    "transpose": _turned,
    "triangular_solve": _solved,
}
