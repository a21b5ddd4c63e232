"""Loops, branches and calls of traced programs, by Python's; for op_by_op.py.

Each is a function of parameters p and of `later`, which makes a function of a program when it is first called, and has
it as `function`. It returns one of arrays.
"""

import numpy as np

from tests.reference.draws import kind


class TooMany(Exception):
    """More operations than there should be."""


class Steps:
    """Operations of all programs so far, the most that there may be, and whether JAX is asked for one of them.

    An operation on many numbers counts as several. alone: the only one of this program, which JAX is not asked for: it
    would ask back.
    """

    done = 0
    limit = float("inf")
    is_asking = False
    alone = None


def _go_on():
    if Steps.done > Steps.limit:
        raise TooMany


def _scan(p, later):
    a, b, body = p["num_consts"], p["num_consts"] + p["num_carry"], later(p["jaxpr"])
    order = range(p["length"])[:: -1 if p["reverse"] else 1]
    many = [((p["length"], *x.shape), kind(x)) for x in p["jaxpr"].out_avals[b - a :]]

    def scan(*given):
        fixed, carry, over = given[:a], given[a:b], given[b:]
        rows, step = [np.empty(*x) for x in many], body.function
        for i in order:
            _go_on()
            found = step(*fixed, *carry, *[x[i] for x in over])
            carry = found[: b - a]
            for row, x in zip(rows, found[b - a :]):
                row[i] = x
        return [*carry, *rows]

    return scan


def _while(p, later):
    """A mapped loop goes on for as long as any of its lanes does; the others keep what they have."""
    a, b = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    goes_on, body = later(p["cond_jaxpr"]), later(p["body_jaxpr"])

    def plain(*given):
        asked, fixed, now = given[:a], given[a:b], given[b:]
        ask, step = goes_on.function, body.function
        while ask(*asked, *now)[0]:
            _go_on()
            now = step(*fixed, *now)
        return now

    def mapped(*given):
        now = given[b:]
        while (open_ := goes_on(*given[:a], *now)[0]).any():
            _go_on()
            later = body(*given[a:b], *now)
            now = later if open_.all() else [_chosen(open_, y, x) for x, y in zip(now, later)]
        return now

    return mapped if p["cond_jaxpr"].out_avals[0].shape else plain


def _chosen(which, yes, no):
    return np.where(np.expand_dims(which, tuple(range(which.ndim, no.ndim))), yes, no)


def _branches(p, later):
    branches = [later(x) for x in p["branches"]]
    last = len(branches) - 1
    return lambda which, *given: branches[min(max(int(which), 0), last)](*given)


def _platform(p, later):
    """The branch of a processor; that of all others is called None."""
    mine = np.int32(next(i for i, names in enumerate(p["platforms"]) if names is None or "cpu" in names))
    return lambda: [mine]


def _sort(p, later):
    """All in the order of the first few."""
    axis, keys = p["dimension"], p["num_keys"]

    def sort(*given):
        order = np.lexsort(given[:keys][::-1], axis)
        return [np.take_along_axis(x, order, axis) for x in given]

    return sort


FLOW = {
    "cond": _branches,
    "custom_jvp_call": lambda p, later: later(p["call_jaxpr"]),
    "jit": lambda p, later: later(p["jaxpr"]),
    "optimization_barrier": lambda p, later: lambda *given: given,
    "platform_index": _platform,
    "scan": _scan,
    "sort": _sort,
    "while": _while,
}
