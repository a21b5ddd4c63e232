"""A traced function evaluated one operation after the other, by NumPy where it has the operation: nothing is fused.

Loops, branches and calls are Python's. What is not written down (eigenvalues, some functions) is asked of JAX, one
operation at a time.
"""

from functools import wraps
from itertools import count

import equinox as eqx
import jax
import numpy as np
from jax.extend.core import Literal

from tests.reference.draws import is_key, packed, unpacked
from tests.reference.operations import by_numpy


def evaluated(function, *given):
    """What a function of trees returns, as filter_jit would return it."""
    return interpreted(function)(*given)


steps = count()  # of all programs so far


def interpreted(function):
    """In place of filter_jit: traced once for each kind of arguments, and evaluated so at every call."""
    known = {}

    @wraps(function)
    def call(*given, **named):
        leaves, tree = jax.tree.flatten((given, named))
        arrays = [x for x in leaves if eqx.is_array(x)]
        kind = tree, tuple((x.shape, x.dtype) if eqx.is_array(x) else x for x in leaves)
        if kind not in known:
            known[kind] = eqx.filter_make_jaxpr(function)(*given, **named)
        program, shapes, rest = known[kind]
        with np.errstate(all="ignore"):
            found = _run(program, arrays)
        found = [_as_key(x) if is_key(v.dtype) else x for x, v in zip(found, program.out_avals)]
        return eqx.combine(jax.tree.unflatten(jax.tree.structure(shapes), found), rest)

    return call


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
            kind = np.uint64 if is_key(variable.aval.dtype) else variable.aval.dtype
            assert (x.shape, x.dtype) == (variable.aval.shape, kind), step
            known[variable] = x
    return [read(x) for x in code.outvars]


def _here(x):
    """All is NumPy's; keys are numbers."""
    if isinstance(x, jax.Array) and is_key(x.dtype):
        return packed(jax.random.key_data(x))
    return np.asarray(x)


def _as_key(x):
    return jax.random.wrap_key_data(unpacked(x), impl="threefry2x32")


def _step(primitive, given, p):
    """The results of one operation with parameters p."""
    next(steps)
    if primitive.name in FLOW:
        return FLOW[primitive.name](given, p)
    found = by_numpy(primitive.name, given, p)
    if found is not None:
        return [found]
    found = primitive.bind(*given, **p)
    return found if primitive.multiple_results else [found]


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


def _platform(given, p):
    """The branch of a processor; that of all others is called None."""
    of = p["platforms"]
    return [np.int32(next(i for i, names in enumerate(of) if names is None or "cpu" in names))]


def _sort(given, p):
    """All in the order of the first few."""
    order = np.lexsort(given[: p["num_keys"]][::-1], p["dimension"])
    return [np.take_along_axis(x, order, p["dimension"]) for x in given]


FLOW = {
    "cond": lambda given, p: _run(p["branches"][int(given[0])], given[1:]),
    "custom_jvp_call": lambda given, p: _run(p["call_jaxpr"], given),
    "jit": lambda given, p: _run(p["jaxpr"], given),
    "optimization_barrier": lambda given, p: given,
    "platform_index": _platform,
    "scan": _scan,
    "sort": _sort,
    "while": _while,
}
