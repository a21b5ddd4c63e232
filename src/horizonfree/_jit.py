"""`equinox.filter_jit` with XLA options that shorten the first call."""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax

_P = ParamSpec("_P")
_R = TypeVar("_R")
FAST_COMPILE: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False}
UNOPTIMIZED: dict[str, Any] = FAST_COMPILE | {"xla_backend_optimization_level": 0}
MAX_UNOPTIMIZED_SIZE = 2**16  # numbers in all array arguments together


def jit(
    function: Callable[_P, _R],
    *,
    donate: bool = False,
    fast_compile: bool = False,
    seldom_called: bool = False,
) -> Callable[_P, _R]:
    """Compile a function for the types and shapes of its arrays; its other arguments are static.

    donate: the compiled program may overwrite the arrays of all arguments but the first.
    fast_compile: on a CPU, compile without fusion emitters.
    seldom_called: as fast_compile, and with few numbers also without LLVM's optimizations.
    """

    @cache
    def compiled(is_unoptimized: bool) -> Callable[_P, _R]:
        is_fast = fast_compile or seldom_called
        options = _supported_options(is_unoptimized) if is_fast else None
        filter_jit: Any = eqx.filter_jit  # its type annotations lack the options of jax.jit
        jitted: Callable[_P, _R] = filter_jit(
            function, donate="all-except-first" if donate else "none", compiler_options=options
        )
        return jitted

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        is_unoptimized = seldom_called and _size((args, kwargs)) <= MAX_UNOPTIMIZED_SIZE
        return compiled(is_unoptimized)(*args, **kwargs)

    return call


@cache
def _supported_options(is_unoptimized: bool) -> dict[str, Any] | None:
    options = UNOPTIMIZED if is_unoptimized else FAST_COMPILE
    if jax.default_backend() != "cpu":
        return None
    try:
        jax.jit(lambda: 0).lower().compile(options)
    except jax.errors.JaxRuntimeError:  # this version of XLA does not have them
        return None
    return options


def _size(tree: Any) -> int:
    return sum(x.size for x in jax.tree.leaves(tree) if eqx.is_array(x))
