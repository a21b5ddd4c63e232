"""The shape of the library: data flows one way, every algorithm says what it is, files stay readable."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "horizonfree"
TESTS = Path(__file__).parent

# A module may import those above it only. Packages count as one layer.
LAYERS = """
errors meanings checks _x64 features row_sums mixture valid rows simulate rewards lanes planning_cpu planning
radius ridge moments weighted optimism confidence
likelihood evidence likelihood_set ellipsoid divergence tangent direct certificates
oracle theory problems explorers
stopping progress run exploration recipes sealed store batch compare
report web settings tour cli __main__
""".split()

FIELDS = ("Paper:", "Algorithm:", "Symbols:", "Guarantee:", "Departures:")
MAX_LINES = 330


def modules() -> list[Path]:
    return sorted(
        path for path in SOURCE.rglob("*.py") if path.name != "__init__.py" or path.parent != SOURCE
    )


def layer(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Layers that a module imports when it is loaded; imports inside functions and for types do not count."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "horizonfree":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("horizonfree.")}
    return found - {layer(path)}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_follow_the_layers(path):
    assert layer(path) in LAYERS, f"{layer(path)} is not in the list of layers"
    rank = LAYERS.index(layer(path))
    upward = {name for name in imported(path) if LAYERS.index(name) > rank}
    assert not upward, f"{path.name} imports from layers above its own: {upward}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_stay_readable(path):
    assert len(path.read_text().splitlines()) <= MAX_LINES


def explorer_modules() -> list[Path]:
    return [path for path in sorted((SOURCE / "explorers").glob("*.py")) if not path.name.startswith("_")]


@pytest.mark.parametrize("path", explorer_modules(), ids=lambda path: path.stem)
def test_every_explorer_says_what_it_is_and_is_registered(path):
    from horizonfree.explorers import EXPLORERS

    header = ast.get_docstring(ast.parse(path.read_text())) or ""
    missing = [name for name in FIELDS if not re.search(rf"^{name}", header, re.MULTILINE)]
    assert not missing, f"the header of {path.name} lacks {missing}"
    kinds = {entry.kind.__module__ for entry in EXPLORERS.values()}
    assert f"horizonfree.explorers.{path.stem}" in kinds


def test_nothing_leads_from_an_explorer_to_the_truth():
    """Explorers see the known class; only the loop and the simulator see a Mixture."""
    for path in explorer_modules():
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        assert "Mixture" not in names, f"{path.name} names Mixture, which holds the truth"


BLOCKED = ("gymnasium", "starlette", "uvicorn", "matplotlib", "typer", "numba")


def test_the_core_runs_without_gymnasium_and_the_web_stack():
    """In a process where those packages cannot be imported: explore, plan and certify."""
    script = f"""
import sys
for name in {BLOCKED!r}:
    sys.modules[name] = None
import horizonfree as hf
problem = hf.make("river-swim", states=3, horizon=3)
run = hf.explore(problem, "uniform", episodes=2, progress=False)
assert run.certificate().eps <= 1
assert run.plan(hf.goal(problem, 2)).gap <= 1
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_importing_and_using_the_library_changes_no_jax_setting():
    script = """
import jax
before = dict(jax.config.values)
import horizonfree as hf
problem = hf.make("river-swim", states=3, horizon=3)
hf.explore(problem, "uniform", episodes=2, progress=False).certificate()
assert dict(jax.config.values) == before
import jax.numpy as jnp
assert jnp.ones(1).dtype == jnp.float32
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_no_file_names_a_machine_or_a_registry():
    root = SOURCE.parent.parent
    names = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=False).stdout
    if not names:
        pytest.skip("not a git checkout")
    pattern = re.compile(r"(?<![\w.])/(?:work|root|home)/|https?://[^\s\"')]*(?:/simple|/packages/|registry)")
    for name in names.splitlines():
        path = root / name
        if path.suffix in {".py", ".md", ".toml", ".txt", ".html", ".js", ".css", ".yml"} and path.exists():
            found = pattern.search(path.read_text())
            assert found is None or path == Path(__file__), f"{name} names {found.group()}"
