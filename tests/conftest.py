"""Shared by all tests: checks of array shapes, JAX's own cache of compiled programs, 64 bits for tests that use x64."""

import os
import signal
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import jax
import pytest
from jaxtyping import install_import_hook

# Shapes are checked where the mathematics is. These three files check the arguments of public functions themselves, and
# tests read their errors.
SOURCE = Path(__file__).parent.parent / "src"
CHECKED = ("guarantees", "models", "explorers", "estimators", "oracle")
NOT_CHECKED = ("features", "moments", "registry")
install_import_hook(
    [
        ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for name in CHECKED
        for path in (SOURCE / "horizonfree" / name).rglob("*.py")
        if path.stem not in NOT_CHECKED
    ],
    "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))",
)

# A shell that starts the tests in the background may have them ignore Ctrl-C, and so every process they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Compiled programs are kept between test runs and shared with the processes that tests start.
_cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "horizonfree-tests"
for _name, _value in (
    ("jax_compilation_cache_dir", str(_cache)),
    ("jax_persistent_cache_min_compile_time_secs", 0.0),
):
    jax.config.update(_name, _value)
    os.environ[_name.upper()] = str(_value)


@pytest.fixture(autouse=True, scope="module")
def _clear_caches() -> Iterator[None]:
    """Compiled programs of one file are of little use to the next, and hundreds of them take gigabytes."""
    yield
    jax.clear_caches()


@pytest.fixture
def x64() -> Iterator[None]:
    """For tests that call traced functions directly."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def anew() -> Iterator[None]:
    """For tests that change constants which traced functions read."""
    jax.clear_caches()
    yield
    jax.clear_caches()


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without their figures, for tests of what is around them: drawing takes most of the time."""
    from horizonfree.report import page as seen
    from horizonfree.report import theme

    monkeypatch.setattr(import_module("horizonfree.report.draw"), "draw_all", seen.alt_texts)
    monkeypatch.setattr(theme, "to_svg", lambda *_: "<svg></svg>")
    monkeypatch.setattr(theme, "write_png", lambda _, path: path.touch())
