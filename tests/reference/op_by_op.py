"""A traced function evaluated one operation after the other, by NumPy where it has the operation: nothing is fused.

A program becomes the text of a Python function, one call a line; loops, branches and calls are Python's. What is not
written down (eigenvalues, some functions) is asked of JAX, one operation at a time.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property, wraps
from typing import NamedTuple
from weakref import WeakKeyDictionary

import equinox as eqx
import jax
import numpy as np
from jax.extend.core import Literal

from tests.reference.draws import is_key, kind, packed, unpacked
from tests.reference.flow import FLOW, Steps, TooMany
from tests.reference.operations import by_numpy, same

SMALL = 10_000  # numbers: a constant of so many is kept
SPREADING = {"add", "sub", "mul", "div", "max", "min", "eq", "ne", "lt", "le", "gt", "ge"}
MANY = 1000  # numbers: to compute as many takes as long as to begin an operation


def evaluated(function, *given):
    """What a function of trees returns, as filter_jit would return it."""
    return interpreted(function)(*given)


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
        found = run(program, arrays)
        found = [as_key(x) if is_key(v.dtype) else np.asarray(x) for x, v in zip(found, program.out_avals)]
        return eqx.combine(jax.tree.unflatten(jax.tree.structure(shapes), found), rest)

    return call


def run(program, given):
    """The results of a closed program: NumPy's, keys as numbers."""
    with np.errstate(all="ignore"):
        arrays = [here(x).astype(kind(v), copy=False) for x, v in zip(given, program.in_avals, strict=True)]
        return written(program)(*arrays)


def here(x):
    """All is NumPy's; keys are numbers."""
    if isinstance(x, jax.Array) and is_key(x.dtype):
        return packed(jax.random.key_data(x))
    return np.asarray(x)[()]


def as_key(x):
    return jax.random.wrap_key_data(unpacked(x), impl="threefry2x32")


_written: WeakKeyDictionary = WeakKeyDictionary()


def written(program) -> Callable[..., list]:
    """A closed program as a Python function; what nobody asks for is left out, what is constant is known before."""
    if program not in _written:
        _written[program] = _Text(program).function()
    return _written[program]


class _Text:
    """A function that is being written: its lines, what they speak of, and what its variables are called.

    uses: the steps that take a variable. narrow: shapes of those that are not spread.
    """

    def __init__(self, program):
        self.code = program.jaxpr
        self.lines, self.space, self.names, self.fixed = [], {}, {}, {}
        self.steps, self.uses, self.narrow = 0, defaultdict(list), {}
        self.results = {x for x in self.code.outvars if not isinstance(x, Literal)}
        for variable, x in zip(self.code.constvars, program.consts):
            self.fixed[variable] = here(x)
        for i, variable in enumerate(self.code.invars):
            self.names[variable] = f"x{i}"

    def function(self):
        given = ", ".join(self.names.values())
        steps = _needed(self.code)
        for step in steps:
            for x in step.invars:
                if not isinstance(x, Literal):
                    self.uses[x].append(step)
        for step in steps:
            self._write(step)
        found = ", ".join(map(self._name, self.code.outvars))
        text = "\n    ".join(
            [f"def function({given}):", f"Steps.done += {self.steps}", *self.lines, f"return [{found}]"]
        )
        self.space["Steps"] = Steps
        exec(compile(text, "<traced>", "exec"), self.space)
        return self.space["function"]

    def _write(self, step):
        call, is_one = _operation(step)
        known = [self._constant(x) for x in step.invars]
        if (
            is_one
            and _plain(step.outvars[0].aval).size <= SMALL
            and call.__name__ != "ask"
            and all(x is not None for x in known)
        ):
            with np.errstate(all="ignore"):
                self.fixed[step.outvars[0]] = _looked_at(call(*known), step.outvars[0])
            return
        if step.primitive.name == "broadcast_in_dim" and known[0] is None:
            call = self._narrow(step) or call
        if call is same and known[0] is None:
            self.names[step.outvars[0]] = self._name(step.invars[0])
            return
        self.steps += weight(step)
        name = f"f{len(self.lines)}"
        is_narrow = not self.narrow.keys().isdisjoint(step.outvars)
        self.space[name] = call if is_narrow else _at_first(self.space, name, call, step.outvars, is_one)
        given = ", ".join(map(self._name, step.invars))
        for variable in step.outvars:
            self.names[variable] = f"v{len(self.names)}"
        found = ", ".join(self.names[x] for x in step.outvars)
        self.lines.append(f"{found}{'' if is_one else ','} = {name}({given})")

    def _narrow(self, step):
        """What to do where NumPy spreads the result by itself, in all that is done with it; else None."""
        (x,), (variable,) = step.invars, step.outvars
        kept = [1] * variable.aval.ndim
        for axis, n in zip(step.params["broadcast_dimensions"], x.aval.shape):
            kept[axis] = n
        shape = tuple(kept) if x.aval.ndim else ()

        def is_spread(use):
            if use.primitive.name not in SPREADING or kind(variable.aval).kind != "f":
                return False
            shapes = [shape if v is variable else self._shape(v) for v in use.invars]
            return np.broadcast_shapes(*shapes) == use.outvars[0].aval.shape

        if variable in self.results or not all(map(is_spread, self.uses[variable])):
            return None
        self.narrow[variable] = shape
        return same if shape == x.aval.shape else lambda x: x.reshape(shape)

    def _shape(self, x):
        return x.aval.shape if isinstance(x, Literal) else self.narrow.get(x, x.aval.shape)

    def _constant(self, x):
        return np.asarray(x.val, kind(x.aval))[()] if isinstance(x, Literal) else self.fixed.get(x)

    def _name(self, x):
        """Constants have theirs when first spoken of."""
        known = None if not isinstance(x, Literal) and x in self.names else self._constant(x)
        if known is None:
            return self.names[x]
        name = f"k{len(self.space)}"
        self.space[name] = known
        if not isinstance(x, Literal):
            self.names[x] = name
        return name


def weight(step):
    """As how many operations one counts."""
    return 1 + max([_plain(x.aval).size for x in (*step.invars, *step.outvars)]) // MANY


def _needed(code):
    """The steps that a result depends on, in their order."""
    wanted, kept = {x for x in code.outvars if not isinstance(x, Literal)}, []
    for step in reversed(code.eqns):
        if step.effects or not wanted.isdisjoint(step.outvars):
            wanted.update(x for x in step.invars if not isinstance(x, Literal))
            kept.append(step)
    return kept[::-1]


def _at_first(space, name, call, variables, is_one):
    """The operation, its results looked at when it is called for the first time."""

    def first(*given):
        found = call(*given)
        for variable, x in zip(variables, [found] if is_one else found, strict=True):
            _looked_at(x, variable)
        space[name] = call.function if isinstance(call, _later) else call
        return found

    return first


def _looked_at(x, variable):
    assert (x.shape, x.dtype) == (variable.aval.shape, kind(variable.aval)), (variable.aval, x.shape, x.dtype)
    return x


def _operation(step):
    """A function of arrays, and whether it returns one of them or a list."""
    name, p = step.primitive.name, step.params
    if name in FLOW:
        return FLOW[name](p, _later), False
    ask, is_one = _asked(step), not step.primitive.multiple_results
    call = by_numpy(name, p, [_plain(x.aval) for x in step.invars], _plain(step.outvars[0].aval), ask)
    return (ask, is_one) if call is None else (call, is_one)


class _Plain(NamedTuple):
    """The shape and type of numbers here, and how many they are."""

    shape: tuple[int, ...]
    dtype: np.dtype
    ndim: int
    size: int


@cache
def _plain(aval):
    return _Plain(aval.shape, kind(aval), len(aval.shape), math.prod(aval.shape))


def _asked(step):
    """The operation as JAX has it."""

    def ask(*given):
        if step is Steps.alone:
            raise TooMany
        arrays = [as_key(x) if is_key(v.aval.dtype) else x for x, v in zip(given, step.invars)]
        with asking():
            found = step.primitive.bind(*arrays, **step.params)
        return [here(x) for x in found] if step.primitive.multiple_results else here(found)

    return ask


@contextmanager
def asking() -> Iterator[None]:
    """In here JAX does what it is asked, compiled."""
    before, Steps.is_asking = Steps.is_asking, True
    try:
        yield
    finally:
        Steps.is_asking = before


class _later:
    """A program that is written when it is first called."""

    def __init__(self, program):
        self.program = program

    @cached_property
    def function(self):
        return written(self.program)

    def __call__(self, *given):
        return self.function(*given)
