"""Shared by all tests: the strictest settings, a place for compiled code, small problems."""

import gc
import os
import shutil
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import jaxtyping
import pytest
from jax._src.lib import _jax

from tests import check_shapes
from tests.inlined import call_what_is_inlined
from tests.order import is_forgetful, place
from tests.reference.uncompiled import another_file, another_test, uncompiled

check_shapes()
call_what_is_inlined()
# Files that hand in what nobody should: the library's own refusals are read there, not the type checker's.
HOSTILE = ("hostile", "damage", "seal", "vanished", "refusals", "fuzz")

# A shell that starts the tests in the background may have them ignore Ctrl-C, and so every process they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What is imported is compiled once, not in every process that a test starts.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Most of the time of these tests is compilation: programs are kept between test runs, shared with the processes that
# tests start, and compiled in haste: they run more slowly, and numbers may differ in their last bits.
HASTE = (
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
)
os.environ["XLA_FLAGS"] = " ".join([*HASTE, os.environ.get("XLA_FLAGS", "")]).strip()
# Workers share the cores already, and XLA's own threads take time from them: a fifth for one worker alone, for three
# beside each other a twenty-fifth, where most is compiled.
os.environ.setdefault("PJRT_NPROC", "1")
_cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "horizonfree-tests"
for _name, _value in (
    ("jax_compilation_cache_dir", str(_cache)),
    ("jax_persistent_cache_min_compile_time_secs", 0.0),
):
    jax.config.update(_name, _value)
    os.environ[_name.upper()] = str(_value)

# Runs are written so that no crash loses them, for which a disk takes its time; a folder in memory takes none.
MEMORY, ROOM = Path("/dev/shm"), 4 * 2**30


def is_usable(folder: Path) -> bool:
    """Whether there is such a folder, with room for what tests write, in which programs may run."""
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        return False
    return shutil.disk_usage(folder).free > ROOM and not os.statvfs(folder).f_flag & os.ST_NOEXEC


if is_usable(MEMORY):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# Of every operation that is traced JAX would note the lines of Python that asked for it: a tenth of the time.
_jax.Traceback.enabled = False
jax.config.update("jax_traceback_in_locations_limit", 0)

# Tracing makes objects by the million, hardly any of them in cycles: these are looked for less often.
gc.set_threshold(100_000, 20, 20)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """By files (tests/order.py); within one, and among equal ones, the usual order."""
    items.sort(key=lambda item: place(item.nodeid.partition("::")[0]))


def pytest_sessionstart(session: pytest.Session) -> None:
    """On a fresh checkout every worker would compile every file: each begins with some, and finds the others done."""
    worker = getattr(session.config, "workerinput", None)
    if worker is not None:
        files = sorted(x.resolve() for folder in session.config.args for x in Path(folder).rglob("test_*.py"))
        for path in files[int(worker["workerid"][2:]) :: worker["workercount"]]:
            with suppress(Exception, pytest.skip.Exception):  # which is told when it is collected
                import_module(".".join(path.relative_to(session.config.rootpath).with_suffix("").parts))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Which worker has which file."""
    from tests.scheduling import Scheduling

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    """Modules stay: nobody need look through them for garbage."""
    gc.freeze()


def pytest_unconfigure() -> None:
    """Nor for any at the end, when all goes: Python would look three times."""
    gc.freeze()


MAPS = 16_000  # pieces of memory, most of them programs: 2 to 3 GB


def is_full() -> bool:
    """Whether this process holds so many compiled programs that they must go; always, where nobody says how many.

    Not by its size: what was freed stays with the process, which would seem full for ever.
    """
    try:
        return Path("/proc/self/maps").read_bytes().count(b"\n") > MAPS
    except OSError:
        return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Nothing is compiled for what is asked seldom, but where a test or its file has the marker `compiled`.

    With COMPILED in the environment, as `make test-all` has it, everything is.
    """
    another_test()
    is_compiled = "COMPILED" in os.environ or item.get_closest_marker("compiled")
    with nullcontext() if is_compiled else uncompiled():
        return (yield)


@pytest.fixture(autouse=True, scope="module")
def _forget_compiled_programs() -> Iterator[None]:
    """Hundreds of compiled programs in one process take gigabytes, and in the end crash it."""
    another_file()
    yield
    if is_full():
        jax.clear_caches()


@pytest.fixture(autouse=True)
def _unchecked_where_hostile(request: pytest.FixtureRequest) -> Iterator[None]:
    """No annotations are checked in hostile files, nor where a test asks for it by the marker `unchecked`."""
    is_hostile = any(word in request.module.__name__ for word in HOSTILE) or request.node.get_closest_marker(
        "unchecked"
    )
    jaxtyping.config.update("jaxtyping_disable", bool(is_hostile))
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def x64() -> Iterator[None]:
    """For tests that call traced functions directly."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def anew(request: pytest.FixtureRequest) -> Iterator[None]:
    """For tests that change what traced functions read: no program of before is used, and none of theirs later."""
    assert is_forgetful(request.node.nodeid.partition("::")[0]), "name the file in tests/order.py"
    jax.clear_caches()
    yield
    jax.clear_caches()


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without their figures, for tests of what is around them: drawing takes most of the time."""
    from horizonfree.report import seen, theme

    monkeypatch.setattr(import_module("horizonfree.report.figures"), "draw_all", seen.seen)
    monkeypatch.setattr(theme, "to_svg", lambda *_: "<svg></svg>")
    monkeypatch.setattr(theme, "write_png", lambda _, path: path.touch())
