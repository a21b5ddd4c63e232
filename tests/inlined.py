"""Functions of JAX that are written into the programs around them anyway are called there, not traced first.

JAX traces each of them for every new kind of arguments, checks where its arguments are to lie, and then copies the few
operations that it found: a quarter of the time that a program takes to be traced.
"""

from types import SimpleNamespace
from typing import Any

from jax._src import core, pjit

_DIRECTLY = object()
_NOTHING = SimpleNamespace(effects=frozenset(), consts=())
_traced, _bound = pjit._infer_params, pjit._run_python_pjit


def _infer_params(fun: Any, info: Any, args: Any, kwargs: Any) -> Any:
    """What JAX makes of a function and its arguments; nothing of one that is to be called."""
    if info.inline and not core.trace_state_clean():
        return _DIRECTLY, []
    return _traced(fun, info, args, kwargs)


def _run_python_pjit(params: Any, flat: Any, fun: Any, args: Any, kwargs: Any) -> Any:
    """What JAX finds with it, the results first; nothing is remembered of a call."""
    if params is _DIRECTLY:
        return fun(*args, **kwargs), None, None, None, _NOTHING, None, None, []
    return _bound(params, flat, fun, args, kwargs)


def call_what_is_inlined() -> None:
    """From now on, in this process."""
    pjit._infer_params, pjit._run_python_pjit = _infer_params, _run_python_pjit
