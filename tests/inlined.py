"""Operations of JAX that are written into the programs around them anyway are written there at once.

JAX traces each of its functions for every new kind of arguments, checks where these are to lie, and copies the few
operations that it found. Here such a function is called where it stands; what it wrote of arguments of one kind twice
is copied from then on, as it is of indexing, which JAX works out anew each time. A third of the time that a program
takes to be traced.
"""

from collections.abc import Callable, Hashable
from functools import wraps
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import numpy as np
from jax._src import api_util, config, core, linear_util, pjit, source_info_util
from jax._src.interpreters import partial_eval
from jax._src.numpy import indexing
from jax._src.ops import scatter

_DIRECTLY = object()
_NOTHING = SimpleNamespace(effects=frozenset(), consts=())
_infer_params, _run_python_pjit = pjit._infer_params, pjit._run_python_pjit
OFTEN = 2


class _Written(NamedTuple):
    """What a function writes, and the tree of what it returns."""

    jaxpr: core.Jaxpr
    consts: list[Any]
    tree: Any


_written: dict[Hashable, int | _Written] = {}  # or how often it was asked for


def _inferred(fun: Any, info: Any, args: Any, kwargs: Any) -> Any:
    """What JAX makes of a function and its arguments; nothing of one that is to be written at once."""
    if info.inline and not core.trace_state_clean():
        return _DIRECTLY, []
    return _infer_params(fun, info, args, kwargs)


def _run(params: Any, flat: Any, fun: Any, args: Any, kwargs: Any) -> Any:
    """What JAX finds with it, the results first; it is to remember nothing of a call."""
    if params is _DIRECTLY:
        return _results(fun, args, kwargs), None, None, None, _NOTHING, None, None, []
    return _run_python_pjit(params, flat, fun, args, kwargs)


def _results(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Of a function while a program is traced: copied, where it wrote the same before."""
    traced: list[Any] = []
    try:
        kinds = [_kind(x, traced) for x in args], [(name, _kind(x, traced)) for name, x in kwargs.items()]
        key = function, config.trace_context(), *kinds[0], *kinds[1]
        known = _written.get(key, 0)
    except TypeError:  # arrays, lists: what has no kind
        return function(*args, **kwargs)
    if not isinstance(known, _Written):
        if known < OFTEN:
            _written[key] = known + 1
            return function(*args, **kwargs)
        known = _written[key] = _write(function, args, kwargs, traced)
    trace, source = core.trace_ctx.trace, source_info_util.current()
    if type(trace) is partial_eval.DynamicJaxprTrace:
        here = [trace.to_jaxpr_tracer(x, source) for x in traced]
        found = partial_eval.inline_jaxpr_into_trace(trace, source, known.jaxpr, known.consts, *here)
    else:
        found = core.eval_jaxpr(known.jaxpr, known.consts, *traced)
    return jax.tree.unflatten(known.tree, found)


def _kind(x: Any, traced: list[Any]) -> Hashable:
    """All that decides what is written; what is traced is put into the list."""
    if isinstance(x, core.Tracer):
        if core.is_concrete(x):
            raise TypeError("known already: something else may be written for every value")
        traced.append(x)
        return x.aval
    kind = type(x)
    if kind is tuple:
        return kind, *[_kind(y, traced) for y in x]
    if kind is slice:
        return kind, _kind((x.start, x.stop, x.step), traced)
    return kind, repr(x) if isinstance(x, float | complex | np.generic) else x  # zero has two signs


def _filled(x: Any, traced: list[Any]) -> Any:
    """With other tracers in the places of those that `_kind` found, in its order."""
    if isinstance(x, core.Tracer):
        return traced.pop(0)
    if type(x) is tuple:
        return tuple([_filled(y, traced) for y in x])
    if type(x) is slice:
        return slice(*_filled((x.start, x.stop, x.step), traced))
    return x


def _write(function: Callable[..., Any], args: Any, kwargs: dict[str, Any], traced: list[Any]) -> _Written:
    trees = []

    def flat(*tracers: Any) -> Any:
        left = list(tracers)
        positional = [_filled(x, left) for x in args]
        leaves, tree = jax.tree.flatten(
            function(*positional, **{name: _filled(x, left) for name, x in kwargs.items()})
        )
        trees.append(tree)
        return leaves

    named = api_util.debug_info("inlined", flat, traced, {})
    jaxpr, _, consts = partial_eval.trace_to_jaxpr_dynamic(
        linear_util.wrap_init(flat, debug_info=named), [x.aval for x in traced]
    )
    return _Written(jaxpr, consts, trees[0])


def _remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs) if core.trace_state_clean() else _results(function, args, kwargs)

    return call


def call_what_is_inlined() -> None:
    """From now on, in this process."""
    pjit._infer_params, pjit._run_python_pjit = _inferred, _run
    indexing.rewriting_take = _remembered(indexing.rewriting_take)
    scatter._scatter_update = _remembered(scatter._scatter_update)
