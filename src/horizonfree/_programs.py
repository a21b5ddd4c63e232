"""Compiled programs that the command line keeps between processes, to be found again without a trace.

JAX keeps executables by their lowered text. To look one up it must trace and lower again, which is most of a small run.
`program` compiles a function as `equinox.filter_jit` does; in a process of the command line it also keeps the
executable under a digest of all that decides it: the function, the types and shapes of its arrays, everything else
among its arguments, the source files of this library, the versions, the settings of JAX and XLA, the processor. In
other processes, whose code may be anything, nothing is kept.

Files lie beside those that JAX keeps in the user's cache folder (_x64.keep_compiled): the user's alone, sealed against
damage, the oldest removed when there are many. Who names another folder for JAX's, or none, has no files of ours.
"""

import hashlib
import os
import pickle
import platform
import tempfile
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

import equinox as eqx
import jax
import jaxlib.version
import numpy as np
from jax.experimental import serialize_executable
from jaxlib import lapack

from horizonfree import _shell

_P = ParamSpec("_P")
_R = TypeVar("_R")
ARRAY = "<an array>"  # stands where one does
MOST_FILES = 256
SEAL = 32  # bytes
NEVER = 1e9  # seconds
# Episodes and certificates, whose time goes into gathers and factors, are compiled in six tenths of the time and are
# then as fast but for a twentieth. A certificate of few numbers is compiled in a third of it (10 ms, then, not 6).
SOON = {"xla_cpu_use_fusion_emitters": False}
AT_ONCE = SOON | {"xla_backend_optimization_level": 0}
FEW = 2**16


def program(
    function: Callable[_P, _R], *, takes: bool = False, soon: bool = False, is_seldom: bool = False
) -> Callable[_P, _R]:
    """The function, compiled for the types and shapes of its arrays; everything else among its arguments is static.

    takes: it may write over the arrays of all arguments but the first, which nobody can use afterwards.
    soon: on a processor it is compiled without what brings it nothing (SOON).
    is_seldom: called now and then, so that a processor compiles it as fast as may be (SOON, AT_ONCE).
    """
    donate: Any = "all-except-first" if takes else "none"
    compiled: Callable[_P, _R] = eqx.filter_jit(function, donate=donate)
    known: dict[Hashable, _Program] = {}

    @cache
    def in_haste(is_small: bool) -> Callable[_P, _R]:
        options = _haste(is_small)
        try:
            jax.jit(lambda: 0).lower().compile(options)
        except jax.errors.JaxRuntimeError:  # an option that this XLA does not have
            return compiled
        jit: Any = eqx.filter_jit  # whose types know nothing of options
        jitted: Callable[_P, _R] = jit(function, donate=donate, compiler_options=options)
        return jitted

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if not is_seldom and not _folder():
            return (in_haste(False) if soon else compiled)(*args, **kwargs)
        leaves, tree = jax.tree.flatten((args, kwargs))
        arrays = [x for x in leaves if eqx.is_array(x)]
        if any(isinstance(x, jax.core.Tracer) for x in arrays):
            return compiled(*args, **kwargs)
        is_small = is_seldom and sum(x.size for x in arrays) <= FEW
        if not _folder():
            return in_haste(is_small)(*args, **kwargs)
        rest = tuple(ARRAY if eqx.is_array(x) else x for x in leaves)
        shapes = tuple((x.shape, x.dtype, getattr(x, "weak_type", False)) for x in arrays)
        if (tree, rest, shapes) not in known:
            kept = sum(eqx.is_array(x) for x in jax.tree.leaves(args[:1])) if takes else len(arrays)
            options = _haste(is_small) if soon or is_seldom else {}
            asked = _Asked(jax.tree.unflatten(tree, rest), arrays, shapes, kept, options)
            known[tree, rest, shapes] = _found(function, asked)
        result: _R = known[tree, rest, shapes](arrays)
        return result

    return call


def _haste(is_small: bool) -> dict[str, Any]:
    """Options of XLA for what is compiled soon; of few numbers, at once."""
    if jax.default_backend() != "cpu":
        return {}
    return AT_ONCE if is_small else SOON


class _Asked(NamedTuple):
    """Arguments with their arrays apart, of which the first ones are `kept`; the function may write over the others."""

    arguments: Any
    arrays: list[Any]
    shapes: tuple[Any, ...]
    kept: int
    options: dict[str, Any]  # of XLA


class _Program(NamedTuple):
    """An executable on two lists of arrays, the first of which are kept, and the tree that its results fill."""

    run: Callable[[list[Any], list[Any]], list[Any]]
    result: Any
    kept: int

    def __call__(self, arrays: list[Any]) -> Any:
        return _filled(self.result, self.run(arrays[: self.kept], arrays[self.kept :]))


def _filled(tree: Any, arrays: Sequence[Any]) -> Any:
    """A tree with arrays in their places."""
    leaves, shape = jax.tree.flatten(tree)
    left = iter(arrays)
    return jax.tree.unflatten(shape, [next(left) if x == ARRAY else x for x in leaves])


def _found(function: Callable[..., Any], asked: _Asked) -> _Program:
    """From its file, or compiled and kept."""
    folder = _folder()
    try:
        name = f"{function.__module__}.{function.__qualname__}"
        shapes = [str(x) for x in asked.shapes]
        what = pickle.dumps((_surroundings(), name, asked.arguments, shapes, asked.kept, asked.options))
    except (pickle.PicklingError, AttributeError, TypeError):  # no file for what cannot be told
        folder, what = None, b""
    path = None if folder is None else folder / hashlib.sha256(what).hexdigest()
    loaded = None if path is None else _loaded(path, asked.kept)
    if loaded is not None:
        return loaded
    result: list[Any] = []

    def flat(kept: list[Any], taken: list[Any]) -> list[Any]:
        args, kwargs = _filled(asked.arguments, [*kept, *taken])
        leaves, tree = jax.tree.flatten(function(*args, **kwargs))
        result.append(jax.tree.unflatten(tree, [ARRAY if eqx.is_array(x) else x for x in leaves]))
        return [x for x in leaves if eqx.is_array(x)]

    flat.__name__ = (
        f"{function.__name__}_{os.urandom(8).hex()}"  # what JAX's own files hold cannot be kept again
    )
    kept, taken = asked.arrays[: asked.kept], asked.arrays[asked.kept :]
    with _kept_by_us(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Some donated buffers were not usable")
        executable = _compiled(jax.jit(flat, donate_argnums=1).lower(kept, taken), asked.options)
    if path is not None:
        _keep(path, executable, result[0])
    return _Program(executable, result[0], asked.kept)


def _compiled(lowered: Any, options: dict[str, Any]) -> Any:
    """With these options of XLA, or without them where it has none of that name."""
    try:
        return lowered.compile(options or None)
    except jax.errors.JaxRuntimeError:
        if not options:
            raise
        return lowered.compile()


@contextmanager
def _kept_by_us() -> Iterator[None]:
    """JAX does not write meanwhile."""
    settings: Any = jax.config
    before = settings.jax_persistent_cache_min_compile_time_secs
    settings.update("jax_persistent_cache_min_compile_time_secs", NEVER)
    try:
        yield
    finally:
        settings.update("jax_persistent_cache_min_compile_time_secs", before)


def _loaded(path: Path, kept: int) -> _Program | None:
    """What was kept; None where nothing was, or where it is damaged."""
    try:
        content = path.read_bytes()
        if hashlib.sha256(content[SEAL:]).digest() != content[:SEAL]:
            return None
        result, executable = pickle.loads(content[SEAL:])
        linear_algebra: Any = lapack
        linear_algebra.prepare_lapack_call("potrf_ffi", np.float64)  # which lowering does else
        return _Program(serialize_executable.deserialize_and_load(*executable), result, kept)
    except Exception:  # whatever is wrong with a file: it is compiled again
        return None


def _keep(path: Path, executable: Any, result: Any) -> None:
    """Whole or not at all; where there is no room or right to write, not at all."""
    try:
        content = pickle.dumps((result, serialize_executable.serialize(executable)))
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(hashlib.sha256(content).digest() + content)
        os.replace(file.name, path)
        by_age = sorted(path.parent.iterdir(), key=lambda x: x.stat().st_mtime_ns)
        for old in by_age[:-MOST_FILES]:
            old.unlink(missing_ok=True)
    except (OSError, ValueError, TypeError, AttributeError, pickle.PicklingError):
        return


@cache
def _folder() -> Path | None:
    """Where programs are kept; None where they are not."""
    settings: Any = jax.config
    ours = _shell.cache_folder()
    if not _shell.is_shell() or ours is None or jax.default_backend() != "cpu":
        return None
    return ours / "programs" if settings.jax_compilation_cache_dir == str(ours / "jax") else None


@cache
def _surroundings() -> tuple[Any, ...]:
    """Everything that programs depend on, but for what is asked of them."""
    package = Path(__file__).parent
    files = sorted((str(x), x.stat().st_size, x.stat().st_mtime_ns) for x in package.rglob("*.py"))
    config: Any = jax.config
    settings = sorted((name, x) for name, x in os.environ.items() if name.startswith(("JAX_", "XLA_")))
    settings += sorted((name, str(x)) for name, x in config.values.items())
    versions = [platform.python_version(), jax.__version__, jaxlib.version.__version__, eqx.__version__]
    return files, settings, versions, platform.machine(), os.cpu_count(), _processor()


def _processor() -> list[str]:
    """What tells processors apart, where the system says so."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        return [platform.processor()]
    return [x for x in lines if x.startswith(("model name", "flags", "Features", "CPU part"))]
