"""Programs of the library that small questions do not have compiled, for as long as they are asked seldom.

To compile a certificate takes as long as to go through its operations one by one (op_by_op.py) several times; a block
of episodes, as long as a dozen of them.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, wraps
from unittest.mock import patch

import equinox as eqx
import jax
import numpy as np

from horizonfree._x64 import to_device
from horizonfree.explorers import on_host
from horizonfree.models import certify
from horizonfree.planning import backward
from horizonfree.problems import truth
from horizonfree.runs import engines, explore, logged, own_plan
from tests.reference.op_by_op import interpreted, steps

FEW = 30  # episodes
# Operations of one kind of question: so many take as long as to compile it.
WORTH = {"_confidence": 90_000, "_block": 60_000, "_turn": 60_000}


def _episodes(program, given):
    """How many a program plays or learns from; elsewhere none."""
    if program is engines._block.__wrapped__:
        return int(given[2])
    if program is on_host._turn.__wrapped__:
        return int(given[0][5][0])
    return len(given[2].a) if program is logged._replay.__wrapped__ else 0


@cache
def seldom(compiled):
    """A compiled function: the first calls of every kind go through it operation by operation."""
    function, done, last = compiled.__wrapped__, Counter(), {}
    one_by_one, worth = interpreted(function), WORTH.get(function.__name__, 30_000)

    @wraps(function)
    def call(*given, **named):
        leaves, tree = jax.tree.flatten((given, named))
        if any(isinstance(x, jax.core.Tracer) for x in leaves):
            return compiled(*given, **named)
        kind = tree, tuple((np.shape(x), x.dtype) if eqx.is_array(x) else x for x in leaves)
        if done[kind] + last.get(kind, 0) > worth or _episodes(function, given) > FEW:
            return compiled(*given, **named)
        before = next(steps)
        found = to_device(one_by_one(*given, **named))
        last[kind] = next(steps) - before
        done[kind] += last[kind]
        return found

    return call


@contextmanager
def uncompiled() -> Iterator[None]:
    """Small questions in here are not compiled. What was traced is kept: not for tests that change what is traced."""
    programs = (
        (certify, "_confidence"),
        (certify, "_bounds"),
        (certify, "_difference"),
        (backward, "_best"),
        (backward, "_evaluate"),
        (backward, "_visits"),
        (engines, "_block"),
        (engines, "_sampler"),
        (explore, "_begin"),
        (logged, "_replay"),
        (on_host, "_turn"),
        (own_plan, "_plan"),
        (own_plan, "_estimate"),
        (truth, "episodes_of"),
    )
    with ExitStack() as changed:
        for module, name in programs:
            changed.enter_context(patch.object(module, name, seldom(getattr(module, name))))
        yield
