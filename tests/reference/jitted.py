"""Traced functions, called compiled."""

from collections.abc import Callable
from typing import Any

import equinox as eqx


def jitted(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a function of trees returns, compiled."""
    return eqx.filter_jit(function)(*args, **kwargs)
