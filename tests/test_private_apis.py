"""The library and its tests use public APIs of their dependencies only."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
OURS = {"horizonfree", "tests", *(path.stem for path in (ROOT / "experiments").rglob("*.py"))}
# Not public although no part of the name begins with an underscore, or public and not to be used here.
FORBIDDEN = (
    "jax.experimental.serialize_executable",
    "jax.interpreters",
    "jax.lib",
    "jaxlib",
    "llvmlite",
    "numba.core",
    "xdist",
)
# File and module -> why it is still there.
EXCEPTIONS: dict[tuple[str, str], str] = {}


def private_uses(text: str) -> Iterator[str]:
    """Names of private modules, functions and attributes of dependencies that a file imports or reads."""
    tree = ast.parse(text)
    packages = {}  # name in the file -> module
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for x in node.names:
                packages[x.asname or x.name.split(".")[0]] = x.name if x.asname else x.name.split(".")[0]
                if is_private(x.name):
                    yield x.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for x in node.names:
                packages[x.asname or x.name] = f"{node.module}.{x.name}"
                if is_private(f"{node.module}.{x.name}"):
                    yield f"{node.module}.{x.name}"
    for node in ast.walk(tree):
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if parts and isinstance(node, ast.Name) and node.id in packages:
            name = ".".join([packages[node.id], *reversed(parts)])
            if is_private(name) and not is_private(packages[node.id]):
                yield name


def is_private(name: str) -> bool:
    package, *modules = name.split(".")
    if package in OURS or package in sys.stdlib_module_names - {"_pytest"}:
        return False
    hidden = [x for x in (package, *modules) if x.startswith("_") and not x.startswith("__")]
    return bool(hidden) or any(f"{name}.".startswith(f"{x}.") for x in FORBIDDEN)


def found_in(folder: str) -> set[tuple[str, str]]:
    paths = (ROOT / folder).rglob("*.py")
    return {(path.relative_to(ROOT).as_posix(), x) for path in paths for x in private_uses(path.read_text())}


def test_the_library_uses_public_apis_only():
    uses = found_in("src")
    assert not uses - set(EXCEPTIONS)
    unused = {x for x in EXCEPTIONS if x[0].startswith("src/")} - uses
    assert not unused, f"no longer needed: {unused}"


def test_the_tests_use_public_apis_only():
    assert not found_in("tests") - set(EXCEPTIONS)


def test_private_uses_are_found():
    private = {
        "from jax._src import pjit": "jax._src.pjit",
        "import jax._src.core": "jax._src.core",
        "from _pytest import main": "_pytest.main",
        "from ray._private import services": "ray._private.services",
        "from jaxlib import lapack": "jaxlib.lapack",
        "def f():\n    from jax.experimental import serialize_executable": "jax.experimental.serialize_executable",
        "import numpy as np\nnp._core.umath": "numpy._core",
        "from xdist.scheduler import LoadFileScheduling": "xdist.scheduler.LoadFileScheduling",
    }
    for text, name in private.items():
        assert any(x.startswith(name) for x in private_uses(text)), text
    public = "import os, jax.numpy as jnp\nfrom horizonfree import _jit\nos._exit(0)\njnp.zeros(1)\njax.__version__\n"
    assert not list(private_uses(public))
