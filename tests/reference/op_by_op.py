"""A traced function evaluated one operation after the other, by NumPy where it has the operation: nothing is fused.

Loops, branches and calls are Python's. What NumPy lacks (scatter, random bits) is asked of JAX, one operation at a
time: each is compiled for each of its shapes.
"""

import equinox as eqx
import jax
import numpy as np
from jax.extend.core import Literal
from jax.lax import GatherScatterMode

PLAIN = dict(add=np.add, sub=np.subtract, mul=np.multiply, max=np.maximum, min=np.minimum, neg=np.negative)
PLAIN |= dict(eq=np.equal, ne=np.not_equal, lt=np.less, le=np.less_equal, gt=np.greater, ge=np.greater_equal)
PLAIN |= dict(
    exp=np.exp,
    log=np.log,
    log1p=np.log1p,
    expm1=np.expm1,
    sqrt=np.sqrt,
    abs=np.abs,
    sign=np.sign,
    is_finite=np.isfinite,
    rem=np.fmod,
)
PLAIN |= {"add_any": np.add, "and": np.bitwise_and, "or": np.bitwise_or, "not": np.bitwise_not}
OVER_AXES = dict(reduce_sum=np.sum, reduce_max=np.max, reduce_min=np.min, reduce_or=np.any, reduce_and=np.all)


def evaluated(function, *given):
    """What a function of trees returns, as filter_jit would return it."""
    program, shapes, rest = eqx.filter_make_jaxpr(function)(*given)
    found = _run(program, jax.tree.leaves(eqx.filter(given, eqx.is_array)))
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(shapes), found), rest)


def _run(program, given):
    """The results of a closed program."""
    code = program.jaxpr
    known = dict(zip(code.constvars, map(_here, program.consts)))
    known |= dict(zip(code.invars, map(_here, given), strict=True))

    def read(x):
        return _here(x.val) if isinstance(x, Literal) else known[x]

    for step in code.eqns:
        found = _step(step.primitive, [read(x) for x in step.invars], dict(step.params))
        for variable, x in zip(step.outvars, map(_here, found), strict=True):
            assert (x.shape, x.dtype) == (variable.aval.shape, variable.aval.dtype), step
            known[variable] = x
    return [read(x) for x in code.outvars]


def _here(x):
    """Keys stay JAX's, all else is NumPy's."""
    is_key = isinstance(x, jax.Array) and jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)
    return x if is_key else np.asarray(x)


def _step(primitive, given, p):
    """The results of one operation with parameters p."""
    if primitive.name in FLOW:
        return FLOW[primitive.name](given, p)
    if all(isinstance(x, np.ndarray) for x in given):
        with np.errstate(all="ignore"):
            found = _by_numpy(primitive.name, given, p)
        if found is not None:
            return [found]
    found = primitive.bind(*given, **p)
    return found if primitive.multiple_results else [found]


def _by_numpy(name, given, p):
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
    if name == "select_n" and x.dtype == bool:
        return np.where(x, given[2], given[1])
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


def _gathered(given, p):
    """Slices of x that begin at places: clipped into x, or not a number where they leave it."""
    (x, places), numbers, sizes = given, p["dimension_numbers"], p["slice_sizes"]
    many = places.shape[:-1]
    begin = [np.zeros(many, np.int64)] * x.ndim
    for i, axis in enumerate(numbers.start_index_map):
        begin[axis] = places[..., i].astype(np.int64)
    for axis, batch in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims):
        begin[axis] = np.indices(many)[batch]
    most = [length - size for length, size in zip(x.shape, sizes)]
    inside = np.all([(0 <= b) & (b <= m) for b, m in zip(begin, most)], axis=0)
    gone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    within = np.indices([1 if axis in gone else size for axis, size in enumerate(sizes)])
    places = [np.clip(b, 0, m)[(..., *[None] * x.ndim)] + steps for b, m, steps in zip(begin, most, within)]
    found = x[tuple(places)].reshape(*many, *(n for axis, n in enumerate(sizes) if axis not in gone))
    if p["mode"] == GatherScatterMode.FILL_OR_DROP and not inside.all():
        if p["fill_value"] is not None or x.dtype.kind != "f":
            return None
        found = np.where(inside.reshape(*many, *[1] * (found.ndim - len(many))), found, np.nan)
    slices = list(numbers.offset_dims)
    order = [i for i in range(found.ndim) if i not in slices]
    return np.moveaxis(found, range(found.ndim), order + slices)


def _cut(given, p):
    """A slice whose place is data, moved into x."""
    x, sizes = given[0], p["slice_sizes"]
    begin = [int(np.clip(i, 0, n - size)) for i, n, size in zip(given[1:], x.shape, sizes)]
    return x[tuple(slice(i, i + size) for i, size in zip(begin, sizes))]


def _factor(given, p):
    """Of positive definite matrices; JAX says nan of others."""
    try:
        return np.linalg.cholesky(given[0])
    except np.linalg.LinAlgError:
        return None


def _back_substituted(given, p):
    a, b = given
    if not p["left_side"] or p["conjugate_a"]:
        return None
    a = np.tril(a) if p["lower"] else np.triu(a)
    if p["unit_diagonal"]:
        a = a - np.eye(a.shape[-1]) * np.diagonal(a, axis1=-2, axis2=-1)[..., None] + np.eye(a.shape[-1])
    if (np.diagonal(a, axis1=-2, axis2=-1) == 0).any():
        return None
    return np.linalg.solve(np.swapaxes(a, -1, -2) if p["transpose_a"] else a, b)


def _summed_up(given, p):
    x, axis = given[0], p["axis"]
    if p["reverse"]:
        return np.flip(np.cumsum(np.flip(x, axis), axis, x.dtype), axis)
    return np.cumsum(x, axis, x.dtype)


SHAPED = {
    "argmax": lambda given, p: np.argmax(given[0], p["axes"][0]).astype(p["index_dtype"]),
    "argmin": lambda given, p: np.argmin(given[0], p["axes"][0]).astype(p["index_dtype"]),
    "cholesky": _factor,
    "cumsum": _summed_up,
    "dynamic_slice": _cut,
    "gather": _gathered,
    "triangular_solve": _back_substituted,
    "broadcast_in_dim": _spread,
    "concatenate": lambda given, p: np.concatenate(given, p["dimension"]),
    "dot_general": _dot,
    "integer_pow": lambda given, p: given[0] ** p["y"],
    "iota": _counted,
    "rev": lambda given, p: np.flip(given[0], p["dimensions"]),
    "reshape": lambda given, p: given[0].reshape(p["new_sizes"]),
    "slice": _part,
    "stack": lambda given, p: np.stack(given, p["axis"]),
    "squeeze": lambda given, p: np.squeeze(given[0], p["dimensions"]),
    "transpose": lambda given, p: np.transpose(given[0], p["permutation"]),
}


def _scan(given, p):
    a, b = p["num_consts"], p["num_consts"] + p["num_carry"]
    fixed, carry, rows = given[:a], given[a:b], []
    for i in range(p["length"])[:: -1 if p["reverse"] else 1]:
        found = _run(p["jaxpr"], [*fixed, *carry, *(x[i] for x in given[b:])])
        carry, row = found[: b - a], found[b - a :]
        rows.append(row)
    if not rows:
        return [*carry, *(np.empty((0, *x.shape), x.dtype) for x in p["jaxpr"].out_avals[b - a :])]
    ordered = rows[:: -1 if p["reverse"] else 1]
    return [*carry, *map(np.stack, zip(*ordered))]


def _while(given, p):
    """A mapped loop goes on for as long as any of its lanes does; the others keep what they have."""
    a, b = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    now = given[b:]
    while (goes_on := _run(p["cond_jaxpr"], [*given[:a], *now])[0]).any():
        later = _run(p["body_jaxpr"], [*given[a:b], *now])
        if not goes_on.all():
            later = [
                np.where(np.expand_dims(goes_on, tuple(range(goes_on.ndim, x.ndim))), y, x)
                for x, y in zip(now, later)
            ]
        now = later
    return now


FLOW = {
    "cond": lambda given, p: _run(p["branches"][int(given[0])], given[1:]),
    "custom_jvp_call": lambda given, p: _run(p["call_jaxpr"], given),
    "jit": lambda given, p: _run(p["jaxpr"], given),
    "scan": _scan,
    "while": _while,
}
