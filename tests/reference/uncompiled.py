"""Programs that are not compiled for as long as they are asked seldom.

To compile one takes as long as to go through its operations one by one (op_by_op.py) several times; a block of
episodes, as long as a dozen of them. So whatever JAX would compile is first evaluated so; what turns out to be long, or
was asked often in the tests before, is compiled after all, until the file ends: each begins anew, so that what it finds
does not depend on those before it. Within a test what was evaluated once is evaluated again, since bits are the same
only where the same is done. Where a test compares bits of two programs or processes, or asks the same again and again,
it has the marker `compiled`, or its file has.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from unittest.mock import patch
from weakref import WeakKeyDictionary

import jax
from jax._src import pjit
from jax._src.lib import xla_client
from jax.extend.core import jaxprs_in_params

from tests.reference.draws import is_key
from tests.reference.flow import FLOW, Steps, TooMany
from tests.reference.op_by_op import as_key, run, weight

WORTH = 400  # so many operations take as long as to compile one,
CALL = 40  # to hand over what is given and what is found, as long as so many,
PROGRAM = 10  # and to compile a program of nothing as long as to compile so many.


class _Kind:
    """One kind of question: how many operations are worth it, how many it has had, and how many the last time.

    is_compiled: None until a test asks for it.
    """

    def __init__(self, program):
        parts = {}
        takes = _least(program.jaxpr, parts)
        self.worth = WORTH * (PROGRAM + sum(size for size, _ in parts.values()))
        self.done, self.last, self.is_compiled = 0, CALL + takes, None

    def settle(self):
        """Compiled from now on."""
        _forget_calls()
        self.is_compiled = True


def _least(code, parts):
    """Operations that a program takes if its loops end at once, but for those of known length.

    parts: how many are written in each part of it, and how many these take.
    """
    if id(code) not in parts:
        parts[id(code)] = len(code.eqns), 0
        takes = 0
        for step in code.eqns:
            takes += weight(step)
            if step.primitive.name in FLOW:
                inner = [_least(x, parts) for x in jaxprs_in_params(step.params)]
                within = min(inner, default=0) if step.primitive.name == "cond" else sum(inner)
                takes += within * step.params.get("length", 1)
        parts[id(code)] = len(code.eqns), takes
    return parts[id(code)][1]


_kinds: WeakKeyDictionary = WeakKeyDictionary()
_evaluated: list[_Kind] = []  # in this test


def another_file():
    """Every kind is as good as new; what was compiled is still there."""
    for kind in _kinds.values():
        kind.done, kind.is_compiled = 0, None
    _forget_calls()


def another_test():
    """What was not compiled may be."""
    for kind in _evaluated:
        kind.is_compiled = None
    _evaluated.clear()


def _forget_calls():
    """JAX forgets which functions it can call without Python, and which it cannot."""
    pjit._cpp_pjit_cache_fun_only.clear()
    pjit._cpp_pjit_cache_explicit_attributes.clear()


def _seldom(compiled):
    """In place of the function of JAX that compiles a program and runs it: results, and nothing compiled."""

    def call(*given, jaxpr, **rest):
        if Steps.is_asking or jaxpr.effects or jax.default_backend() != "cpu":
            return compiled(*given, jaxpr=jaxpr, **rest)
        if jaxpr not in _kinds:
            _kinds[jaxpr] = _Kind(jaxpr)
        kind, before = _kinds[jaxpr], Steps.done
        if kind.is_compiled is None and kind.done + kind.last > kind.worth:
            kind.settle()
        if kind.is_compiled:
            return compiled(*given, jaxpr=jaxpr, **rest)
        if kind.is_compiled is None:
            Steps.limit = before + kind.worth
        Steps.alone = jaxpr.jaxpr.eqns[0] if len(jaxpr.jaxpr.eqns) == 1 else None
        try:
            found = run(jaxpr, given)
        except TooMany:
            kind.settle()
            return compiled(*given, jaxpr=jaxpr, **rest)
        finally:
            Steps.limit, Steps.alone = float("inf"), None
        if kind.is_compiled is None:
            kind.is_compiled = False
            _evaluated.append(kind)
        kind.last = CALL + Steps.done - before
        kind.done += kind.last
        return [_there(x, v) for x, v in zip(found, jaxpr.out_avals)], None, None, []

    return call


def _there(x, variable):
    """JAX's."""
    if is_key(variable.dtype):
        return as_key(x)
    device, place = _device()
    return xla_client.batched_device_put(
        variable, place, [x], [device], committed=False, force_copy=True, enable_x64=True
    )


@cache
def _device():
    device = jax.devices("cpu")[0]
    return device, jax.sharding.SingleDeviceSharding(device)


@contextmanager
def uncompiled() -> Iterator[None]:
    """What is asked seldom is not compiled in here."""
    with patch.object(pjit, "_pjit_call_impl_python", _seldom(pjit._pjit_call_impl_python)):
        yield
