"""Operations of JAX by NumPy, with the parameters that traced programs give them; for op_by_op.py."""

import numpy as np
from jax.lax import GatherScatterMode
from scipy.special import gammaln

from tests.reference.draws import DRAWS

PLAIN = dict(add=np.add, sub=np.subtract, mul=np.multiply, max=np.maximum, min=np.minimum, neg=np.negative)
PLAIN |= dict(eq=np.equal, ne=np.not_equal, lt=np.less, le=np.less_equal, gt=np.greater, ge=np.greater_equal)
PLAIN |= dict(
    exp=np.exp, log=np.log, sqrt=np.sqrt, abs=np.abs, sign=np.sign, is_finite=np.isfinite, rem=np.fmod
)
PLAIN |= dict(log1p=np.log1p, expm1=np.expm1, floor=np.floor, ceil=np.ceil, square=np.square, copy=np.copy)
PLAIN |= dict(lgamma=gammaln, shift_left=np.left_shift, xor=np.bitwise_xor)
PLAIN |= {"add_any": np.add, "and": np.bitwise_and, "or": np.bitwise_or, "not": np.bitwise_not}
OVER_AXES = dict(reduce_prod=np.prod)
OVER_AXES |= dict(
    reduce_sum=np.sum, reduce_max=np.max, reduce_min=np.min, reduce_or=np.any, reduce_and=np.all
)


def by_numpy(name, given, p):
    """None where NumPy would do something else."""
    if name in PLAIN:
        return PLAIN[name](*given)
    if name in OVER_AXES:
        return OVER_AXES[name](given[0], axis=p["axes"]).astype(given[0].dtype)
    if name in SHAPED:
        return SHAPED[name](given, p)
    x = given[0] if given else None
    if name == "div" and x.dtype.kind == "f":
        return x / given[1]
    if name == "convert_element_type" and (x.dtype.kind != "f" or p["new_dtype"].kind == "f"):
        return x.astype(p["new_dtype"])
    if name == "select_n":
        return np.where(x, given[2], given[1]) if x.dtype == bool else np.choose(x, given[1:])
    if name == "convert_element_type" and np.abs(x).max(initial=0) < 2**31:
        return x.astype(p["new_dtype"])
    if name == "shift_right_logical" and x.dtype.kind == "u":
        return x >> given[1]
    if name == "bitcast_convert_type" and x.dtype.itemsize == p["new_dtype"].itemsize:
        return x.view(p["new_dtype"])
    if name in DRAWS:
        return DRAWS[name](given, p)
    if name in CHANGED:
        return _scatter(given, p, CHANGED[name])
    return None


def _spread(given, p):
    kept = np.ones(len(p["shape"]), int)
    kept[list(p["broadcast_dimensions"])] = given[0].shape
    return np.broadcast_to(given[0].reshape(kept), p["shape"])


def _part(given, p):
    strides = p["strides"] or [1] * given[0].ndim
    return given[0][tuple(map(slice, p["start_indices"], p["limit_indices"], strides))]


def _counted(given, p):
    size = [1] * len(p["shape"])
    size[p["dimension"]] = -1
    return np.broadcast_to(np.arange(p["shape"][p["dimension"]], dtype=p["dtype"]).reshape(size), p["shape"])


def _dot(given, p):
    """Axes in the order of dot_general: batches, what is left of the first, what is left of the second."""
    (summed, batches), (x, y) = p["dimension_numbers"], given
    first, second = list(range(x.ndim)), [x.ndim + i for i in range(y.ndim)]
    for i, j in (*zip(*summed), *zip(*batches)):
        second[j] = first[i]
    alike = [first[i] for i in batches[0]]
    out = alike + [i for i in first if i not in second] + [j for j in second if j not in first]
    return np.einsum(x, first, y, second, out)


def _clipped(given, p):
    """Where a slice begins: as near as it fits."""
    return [max(0, min(int(i), n - m)) for i, n, m in zip(given[1:], given[0].shape, p["slice_sizes"])]


def _taken(given, p):
    return given[0][tuple(slice(i, i + m) for i, m in zip(_clipped(given, p), p["slice_sizes"]))]


def _put(given, p):
    x, new, *at = given
    found = x.copy()
    begin = _clipped([x, *at], {"slice_sizes": new.shape})
    found[tuple(slice(i, i + m) for i, m in zip(begin, new.shape))] = new
    return found


def _places(shape, indices, along, sizes, batched, mode):
    """Of every window its entries, an index for each axis, [*windows, *sizes]; and which windows are inside."""
    windows = indices.shape[:-1]
    begin = np.zeros((*windows, len(shape)), np.int64)
    begin[..., list(along)] = indices
    for axis, of in batched:
        begin[..., axis] = np.arange(windows[of]).reshape([-1 if i == of else 1 for i in range(len(windows))])
    last = np.array(shape) - sizes
    is_inside = ((begin >= 0) & (begin <= last)).all(-1)
    spread = np.clip(begin, 0, last).reshape(*windows, *[1] * len(shape), len(shape))
    steps = np.meshgrid(*map(np.arange, sizes), indexing="ij", sparse=True)
    at = tuple(spread[..., i] + step for i, step in enumerate(steps))
    return at, is_inside if mode == GatherScatterMode.FILL_OR_DROP else np.ones(windows, bool)


def _gather(given, p):
    """Windows of the first at places that the second says."""
    (x, indices), d, mode = given, p["dimension_numbers"], p["mode"]
    batched = list(zip(d.operand_batching_dims, d.start_indices_batching_dims))
    if x.size == 0 or indices.dtype.kind not in "iu":
        return None
    at, is_inside = _places(x.shape, indices, d.start_index_map, np.array(p["slice_sizes"]), batched, mode)
    found, windows = x[at], indices.ndim - 1
    if not is_inside.all():
        if p["fill_value"] is None and x.dtype.kind != "f":
            return None
        fill = np.asarray(np.nan if p["fill_value"] is None else p["fill_value"], x.dtype)
        found = np.where(is_inside.reshape(*is_inside.shape, *[1] * x.ndim), found, fill)
    gone = *d.collapsed_slice_dims, *d.operand_batching_dims
    found = found.squeeze(tuple(windows + i for i in gone))
    return np.moveaxis(found, range(windows, found.ndim), d.offset_dims)


def _scatter(given, p, change):
    """The first, changed by windows of the last at places that the second says."""
    (x, indices, new), d, mode = given, p["dimension_numbers"], p["mode"]
    batched = list(zip(d.operand_batching_dims, d.scatter_indices_batching_dims))
    whole = np.moveaxis(new, d.update_window_dims, range(new.ndim - len(d.update_window_dims), new.ndim))
    windows = indices.ndim - 1
    missing = *d.inserted_window_dims, *d.operand_batching_dims
    whole = np.expand_dims(whole, tuple(windows + i for i in missing))
    sizes = np.array(whole.shape[windows:], int)
    if x.size == 0:
        return x
    at, is_inside = _places(x.shape, indices, d.scatter_dims_to_operand_dims, sizes, batched, mode)
    is_in = np.broadcast_to(is_inside.reshape(*is_inside.shape, *[1] * x.ndim), whole.shape)
    found = x.copy()
    change(found, tuple(np.broadcast_to(i, whole.shape)[is_in] for i in at), whole[is_in])
    return found


CHANGED = {"scatter": np.ndarray.__setitem__, "scatter-add": np.add.at, "scatter-mul": np.multiply.at}
CHANGED |= {"scatter-max": np.maximum.at, "scatter-min": np.minimum.at}


def _padded(given, p):
    (x, fill), ends = given, [row[:2] for row in p["padding_config"]]
    if any(low < 0 or high < 0 or inner for low, high, inner in p["padding_config"]):
        return None
    return np.pad(x, ends, constant_values=fill)


def _cumulative(function):
    def along(given, p):
        x, axis = given[0], p["axis"]
        if p["reverse"]:
            return np.flip(function.accumulate(np.flip(x, axis), axis, x.dtype), axis)
        return function.accumulate(x, axis, x.dtype)

    return along


def _first(function):
    """argmax and argmin; what is not a number counts as either, as JAX has it."""
    return lambda given, p: function(given[0], p["axes"][0]).astype(p["index_dtype"])


def _factor(given, p):
    """Lower triangles."""
    try:
        return np.linalg.cholesky(given[0])
    except np.linalg.LinAlgError:
        return None


def _solved(given, p):
    """Of triangles and right sides: x with op(A) x = b, or x op(A) = b."""
    A, b = np.tril(given[0]) if p["lower"] else np.triu(given[0]), given[1]
    if p["unit_diagonal"] or (np.diagonal(A, axis1=-2, axis2=-1) == 0).any():
        return None
    turned = np.swapaxes(A, -1, -2) if p["transpose_a"] == p["left_side"] else A
    if p["left_side"]:
        return np.linalg.solve(turned, b)
    return np.swapaxes(np.linalg.solve(turned, np.swapaxes(b, -1, -2)), -1, -2)


SHAPED = {
    "argmax": _first(np.argmax),
    "argmin": _first(np.argmin),
    "broadcast_in_dim": _spread,
    "cholesky": _factor,
    "clamp": lambda given, p: np.minimum(np.maximum(given[1], given[0]), given[2]),
    "concatenate": lambda given, p: np.concatenate(given, p["dimension"]),
    "cummax": _cumulative(np.maximum),
    "cummin": _cumulative(np.minimum),
    "cumprod": _cumulative(np.multiply),
    "cumsum": _cumulative(np.add),
    "dot_general": _dot,
    "dynamic_slice": _taken,
    "dynamic_update_slice": _put,
    "gather": _gather,
    "integer_pow": lambda given, p: given[0] ** p["y"],
    "iota": _counted,
    "pad": _padded,
    "pow": lambda given, p: given[0] ** given[1].astype(given[0].dtype),
    "reshape": lambda given, p: given[0].reshape(p["new_sizes"]),
    "rev": lambda given, p: np.flip(given[0], p["dimensions"]),
    "slice": _part,
    "squeeze": lambda given, p: np.squeeze(given[0], p["dimensions"]),
    "stack": lambda given, p: np.stack(given, p["axis"]),
    "transpose": lambda given, p: np.transpose(given[0], p["permutation"]),
    "triangular_solve": _solved,
}
