"""The shape of the library: packages in the order of the data flow, headers of explorers, readable files."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "horizonfree"
_spec = importlib.util.spec_from_file_location("architecture", ROOT / "docs" / "architecture.py")
drawing = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(drawing)
PACKAGES, MODULES = drawing.PACKAGES, drawing.modules()

BASE = {
    "__init__",
    "__main__",
    "_arrays",
    "_deprecated",
    "_exact",
    "_extras",
    "_repr",
    "_jit",
    "_plots",
    "_validation",
    "_x64",
    "errors",
    "testing",
}  # modules outside the packages
# Methods of an object that lead to a module made for that object: the only imports against the data flow.
BACK = {
    ("problems.problem", "problems.gymnasium.to_env"),  # problem.to_gymnasium()
    ("problems.problem", "problems.reachable"),  # problem.reachable_part(), .restrict(), .extend()
    ("problems.problem", "problems.classes"),  # problem.as_tabular()
    ("problems.verification.explicit", "problems.verification.drn"),  # model.to_drn()
    ("problems.verification.explicit", "problems.verification.umb"),  # model.to_umb()
    ("runs.run", "runs.explore"),  # run.resume()
    ("runs.run", "runs.power"),  # run.power()
    ("runs.run", "runs.storage"),  # run.save()
}
FIELDS = ("Paper:", "Algorithm:", "Symbols:", "Guarantee:", "Departures:")
FRAME = {
    "__init__",
    "audit",
    "force",
    "base",
    "least_squares",
    "likelihood_sets",
    "loop",
    "per_step",
    "python",
    "registry",
}  # of explorers: no algorithms
MAX_LINES = 500


def package(name: str) -> str:
    return name.split(".")[0]


def test_every_module_imports_packages_above_its_own_only():
    rank = {name: i for i, name in enumerate(PACKAGES)}
    assert {package(name) for name in MODULES} == set(PACKAGES) | BASE
    wrong = [
        f"{name} -> {other}"
        for name, imports in drawing.arrows().items()
        for other in imports
        if package(name) in rank and package(other) in rank and rank[package(other)] > rank[package(name)]
    ]
    assert not wrong, f"imports against the data flow: {wrong}"


def test_no_import_leads_back_to_where_it_came_from():
    """Inside packages too. Imports inside functions count, except in the methods listed above."""
    state: dict[str, str] = {}

    def visit(name: str, path: list[str]) -> None:
        assert state.get(name) != "open", f"a cycle: {' -> '.join([*path[path.index(name) :], name])}"
        if name in state:
            return
        state[name] = "open"
        for other in drawing.arrows()[name]:
            if (name, other) not in BACK:
                visit(other, [*path, name])
        state[name] = "done"

    for name in MODULES:
        if name != "__init__":
            visit(name, [])
    unused = {pair for pair in BACK if pair[1] not in drawing.arrows()[pair[0]]}
    assert not unused, f"no longer needed: {unused}"


def test_files_stay_readable():
    long = {
        name: n for name, path in MODULES.items() if (n := len(path.read_text().splitlines())) > MAX_LINES
    }
    assert not long


def test_tests_have_the_packages_of_the_source():
    folders = {
        path.name for path in Path(__file__).parent.iterdir() if path.is_dir() and path.name[0] not in "._"
    }
    assert folders == set(PACKAGES) | {"adversary", "reference", "refusals"}


def test_packages_say_what_they_are_for_in_one_line_of_the_picture():
    for name in PACKAGES:
        assert 10 < len(drawing.purpose(name)) <= 75, name


def test_the_picture_of_the_packages_is_that_of_the_imports():
    assert (ROOT / "docs" / "images" / "architecture.svg").read_text() == drawing.draw(), (
        "run python docs/architecture.py"
    )


def test_the_objects_and_files_of_the_architecture_page_exist():
    text = (ROOT / "docs" / "architecture.md").read_text()
    names = re.findall(r"`(\w+)`, (\w+(?:/\w+)*\.py)", text)
    assert len(names) >= 10
    for name, file in names:
        assert re.search(rf"^class {name}\b", (SOURCE / file).read_text(), re.MULTILINE), (name, file)
    steps = re.findall(r"^ +(\S+) {2,}(\w+(?:/\w+)*\.py)", text, re.MULTILINE)
    assert len(steps) >= 15
    for name, file in steps:
        function = name.split("(")[0].split(".")[-1]
        assert re.search(rf"^ *def {function}\b", (SOURCE / file).read_text(), re.MULTILINE), (name, file)


def test_a_class_of_models_is_known_to_its_own_explorers_and_estimators_only():
    """The modules of a class are in its folder; only its own explorers and estimators import them."""
    allowed = {"models.mixture", "models.registry", "problems", "oracle", "estimators", "theory", "explorers"}
    outside = {
        f"{name} -> {other}"
        for name, imports in drawing.arrows().items()
        for other in imports
        if other.startswith("models.mixture") and not any(name.startswith(x) for x in allowed)
    }
    assert not outside, f"these know a class of models that they need not know: {outside}"


def explorer_modules() -> list[Path]:
    return [path for path in sorted((SOURCE / "explorers").glob("*.py")) if path.stem not in FRAME]


def test_every_explorer_says_what_it_is_and_is_registered(subtests):
    for path in explorer_modules():
        with subtests.test(path.stem):
            from horizonfree.explorers.registry import EXPLORERS

            header = ast.get_docstring(ast.parse(path.read_text())) or ""
            missing = [name for name in FIELDS if not re.search(rf"^{name}", header, re.MULTILINE)]
            assert not missing, f"the header of {path.name} lacks {missing}"
            kinds = {entry.explorer_type.__module__ for entry in EXPLORERS.values()}
            assert f"horizonfree.explorers.{path.stem}" in kinds


def test_nothing_leads_from_an_explorer_to_the_truth():
    """Explorers see a model; only problems, and what runs them, see the truth."""
    for name, imports in drawing.arrows().items():
        if package(name) == "explorers":
            assert not {other for other in imports if package(other) == "problems"}, name


def test_explorers_do_not_import_each_other():
    for path in explorer_modules():
        other_modules = {f"explorers.{other.stem}" for other in explorer_modules()}
        assert not drawing.arrows()[f"explorers.{path.stem}"] & other_modules, path.name


def test_using_the_library_changes_no_jax_setting_but_where_compiled_programs_are_kept(tmp_path):
    script = """
import os, sys, jax
before = dict(jax.config.values)
import horizonfree as hf
assert dict(jax.config.values) == before
from horizonfree._x64 import scope
for home in sys.argv[1:]:  # JAX begins after the fork
    if (child := os.fork()) == 0:
        os.environ["XDG_CACHE_HOME"] = home
        break
    assert os.waitpid(child, 0)[1] == 0
else:
    if sys.argv[1:]:
        sys.exit()
with scope():
    jax.jit(lambda x: x + 1)(1.0)
print(sorted(name for name, value in jax.config.values.items() if before[name] != value))
import jax.numpy as jnp
assert jnp.ones(1).dtype == jnp.float32
"""
    cache_settings = ["jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"]
    (tmp_path / "locked").write_text("a file where a folder should be")
    environment = {name: value for name, value in os.environ.items() if name.lower() not in cache_settings}
    for homes, variables, expected in (
        ([tmp_path, tmp_path / "locked"], {}, [cache_settings, []]),
        ([], {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "elsewhere")}, [[]]),
        ([], {"JAX_ENABLE_COMPILATION_CACHE": "false"}, [[]]),
    ):
        command = [sys.executable, "-c", script, *map(str, homes)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment | variables, timeout=300
        )
        lines = done.stdout.splitlines()
        assert (done.returncode, lines) == (0, [str(x) for x in expected]), done.stderr[-2000:]
    folder = tmp_path / "horizonfree" / "jax"
    assert list(folder.iterdir())
    assert folder.stat().st_mode & 0o077 == 0  # who can write there can have anything run


def test_no_file_names_a_machine_or_a_registry():
    root = SOURCE.parent.parent
    names = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=False).stdout
    if not names:
        pytest.skip("not a git checkout")
    pattern = re.compile(r"(?<![\w.])/(?:work|root|home)/|https?://[^\s\"')]*(?:/simple|/packages/|registry)")
    for name in names.splitlines():
        path = root / name
        if path.suffix in {".py", ".md", ".toml", ".txt", ".html", ".js", ".css", ".yml"} and path.exists():
            match = pattern.search(path.read_text())
            assert match is None or path == Path(__file__), f"{name} names {match.group()}"
