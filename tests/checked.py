"""Every call into the library, checked against its annotations, shapes included.

In place of `jaxtyping.jaxtyped`, which binds each call to a signature and looks at its arguments twice, and of a
function inside of another makes its checks anew whenever the other is called. Most calls are like others before them:
annotations speak of types and shapes alone, so that what was found of these need not be looked at again.
"""

import inspect
from collections.abc import Callable, Hashable
from dataclasses import is_dataclass
from functools import partial, wraps
from types import CodeType
from typing import Any, NamedTuple

import jax
import jaxtyping
import numpy as np
from jaxtyping._decorator import _destring_annotation, _make_fn_with_signature
from jaxtyping._storage import pop_shape_memo, push_shape_memo, shape_str


class _Checks(NamedTuple):
    """What looks at the arguments of a function and at what it returns; its signature, where shapes speak of it.

    right: the kinds of arguments that are, and of arguments with results.
    """

    given: Callable[..., None]
    found: Callable[[Any], Any] | None
    signature: inspect.Signature | None
    right: set[Hashable]


_arrays: dict[type, bool] = {}  # which types are
_checks: dict[tuple[str, str, CodeType], _Checks] = {}


def checked(thing: Any = None, *, typechecker: Any) -> Any:
    """A function or a class of the library, its calls checked; without one, what makes such of them."""
    if thing is None:
        return partial(checked, typechecker=typechecker)
    if inspect.isclass(thing):
        if is_dataclass(thing) and getattr(thing.__init__, "__globals__", {}).get("__name__") != __name__:
            thing.__init__ = checked(thing.__init__, typechecker=typechecker)
        return thing
    # of two classes with the same fields codes are equal
    which = thing.__module__, thing.__qualname__, thing.__code__
    checks = _checks.get(which)

    @wraps(thing)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal checks
        if jaxtyping.config.jaxtyping_disable:
            return thing(*args, **kwargs)
        if checks is None:
            checks = _checks[which] = _made(thing, typechecker)
        if checks.signature is not None:
            return _looked_at(thing, checks, args, kwargs)
        kind: Hashable = tuple(map(_kind, args))
        if kwargs:
            kind = kind, tuple([(name, _kind(x)) for name, x in kwargs.items()])
        if kind not in checks.right:
            result = _looked_at(thing, checks, args, kwargs)
            checks.right.update([kind, (kind, _kind(result))])
            return result
        result = thing(*args, **kwargs)
        if checks.found is None:
            return result
        whole = kind, _kind(result)
        if whole not in checks.right:
            _looked_at(lambda *_, **__: result, checks, args, kwargs)
            checks.right.add(whole)
        return result

    return call


def _kind(x: Any) -> Hashable:
    """All that annotations can speak of: types, shapes, words. Nothing is like lists and tables of several kinds."""
    kind = type(x)
    is_array = _arrays.get(kind)
    if is_array is not None:
        return (kind, x.shape, x.dtype) if is_array else kind
    if kind is tuple:
        return kind, *map(_kind, x)
    if kind is list or kind is dict:  # of which one entry is looked at, any
        inside = set(map(_kind, x)) if kind is list else {(type(key), _kind(x[key])) for key in x}
        return (kind, *inside) if len(inside) <= 1 else object()
    if kind is str:
        return x
    is_array = _arrays[kind] = isinstance(x, jax.Array | np.ndarray)
    return (kind, x.shape, x.dtype) if is_array else kind


def _looked_at(thing: Any, checks: _Checks, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a call returns, its arguments looked at before and its result after."""
    memos = push_shape_memo(_bound(checks.signature, args, kwargs))
    try:
        _look(checks.given, memos, *args, **kwargs)
        result = thing(*args, **kwargs)
        if checks.found is not None:
            _look(checks.found, memos, result)
        return result
    finally:
        pop_shape_memo()


def _look(check: Callable[..., Any], memos: Any, /, *args: Any, **kwargs: Any) -> None:
    try:
        check(*args, **kwargs)
    except TypeError:  # a call with the wrong arguments: the function itself says so
        raise
    except Exception as error:
        raise jaxtyping.TypeCheckError(f"jaxtyping: {error}\n{shape_str(memos)}") from None


def _bound(
    signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    if signature is None:
        return {}
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _made(function: Any, typechecker: Any) -> _Checks:
    asked = inspect.signature(function)
    kinds = {
        name: _destring_annotation(x.annotation, function.__globals__) for name, x in asked.parameters.items()
    }
    returned = _destring_annotation(asked.return_annotation, function.__globals__)
    named = function.__name__, function.__qualname__, function.__module__
    parameters = [x.replace(annotation=kinds[name]) for name, x in asked.parameters.items()]
    given = typechecker(_make_fn_with_signature(*named, inspect.Signature(parameters), output=False))
    found = None
    if asked.return_annotation is not inspect.Signature.empty:
        one = inspect.Parameter("result", inspect.Parameter.POSITIONAL_ONLY, annotation=returned)
        found = typechecker(_make_fn_with_signature(*named, inspect.Signature([one]), output=False))
    speaks = "{" in str([*kinds.values(), returned])
    return _Checks(given, found, asked if speaks else None, set())
