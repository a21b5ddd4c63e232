"""What the core needs, without the packages of the extras; what an extra installs is named where it is missing."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import horizonfree as hf
from horizonfree._extras import EXTRAS, check_extra, needs_extra
from horizonfree.errors import OptionError

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGES = {package for packages in EXTRAS.values() for package in packages}
ALSO = {"pandas", "markupsafe", "PIL", "click_default_group"}  # not dependencies of the core, either
BLOCK = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {sorted(PACKAGES | ALSO)!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
"""
SHELL = BLOCK + "\nfrom horizonfree.cli import main\nsys.argv[0] = 'horizonfree'\nmain()\n"


def python(code: str, *args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True, check=False
    )


def test_the_core_answers_without_any_extra(tmp_path):
    """Make, explore, certify, plan, save and load: every model class."""
    done = python(
        BLOCK
        + """
import horizonfree as hf
problems = [
    hf.make("river-swim", states=3, horizon=3),
    hf.make("river-swim", states=3, horizon=3).as_tabular(),
    hf.make("linear-lock", blocks=2, horizon=3),
]
for i, problem in enumerate(problems):
    run = hf.explore(problem, episodes=4, progress=False)
    run.save(f"{sys.argv[1]}/{i}")
    again = hf.load(f"{sys.argv[1]}/{i}")
    assert again.certificate().eps == run.certificate().eps <= 1
    assert again.plan(hf.goal(problem, 1)).gap <= 1
    repr(again), repr(again.plan(hf.goal(problem, 1)))
hf.show_versions()
""",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_command_line_works_without_any_extra(tmp_path):
    """Text and JSON; the report, the tour and the playground name the extra before they work."""
    run = tmp_path / "run"
    for line in (
        ["explore", "river-swim", "--episodes", 3, "--out", run],
        ["plan", run, "--goal", 7],
        ["certify", run, "--json"],
        ["problems"],
        ["explorers"],
    ):
        done = python(SHELL, *line)
        assert done.returncode == 0, (line, done.stderr[-2000:])
    (tmp_path / "sweep.toml").write_text(
        "seeds = 1\nepisodes = 2\n[problems.river-swim]\n[explorers.uniform]\n"
    )
    for line, extra in (
        (["report", run], "report"),
        (["tour", "--out", tmp_path / "tour"], "report"),
        (["compare", run, "--out", tmp_path / "page.html"], "report"),
        (["compare", "--problem", "river-swim", "--episodes", 2, "--out", tmp_path / "rows"], "report"),
        (["sweep", tmp_path / "sweep.toml", "--report", "--out", tmp_path / "sweep"], "report"),
        (["serve", run, "--port", 0], "web"),
        (["explore", "gymnasium:FrozenLake-v1", "--episodes", 2], "gymnasium"),
    ):
        done = python(SHELL, *line)
        assert done.returncode == 2, (line, done.stderr[-2000:])
        assert f"pip install 'horizonfree[{extra}]'" in " ".join(done.stderr.split()), line
    assert not (tmp_path / "tour").exists()
    assert not (tmp_path / "rows").exists()
    assert not (tmp_path / "sweep").exists()


def test_python_functions_name_their_extra(tmp_path):
    (tmp_path / "log.parquet").touch()
    (tmp_path / "model.prism").write_text("dtmc\nconst double p;\nmodule m\nendmodule\n")
    done = python(
        BLOCK
        + """
import horizonfree as hf
from horizonfree.errors import OptionError
problem = hf.make("river-swim", states=3, horizon=3)
run = hf.explore(problem, "uniform", episodes=2, progress=False)
calls = [
    ("report", lambda: hf.report.write_report(run, sys.argv[1] + "/r.html")),
    ("report", lambda: hf.report.figures(run)),
    ("web", lambda: hf.web.app(run)),
    ("gymnasium", lambda: hf.from_gymnasium("FrozenLake-v1", horizon=5)),
    ("gymnasium", lambda: problem.to_gymnasium()),
    ("gymnasium", lambda: hf.discretize(None, 3)),
    ("minari", lambda: hf.from_minari("some/data-v0")),
    ("parquet", lambda: hf.from_log(sys.argv[1] + "/log.parquet", problem)),
    ("storm", lambda: hf.from_prism(sys.argv[1] + "/model.prism", unknown=["p"], horizon=3)),
    ("dask", lambda: hf.sweep(sweep, sys.argv[1] + "/d", on="dask")),
    ("ray", lambda: hf.sweep(sweep, sys.argv[1] + "/e", on="ray")),
]
sweep = {"problems": {"river-swim": {}}, "explorers": {"uniform": {}}, "seeds": 1, "episodes": 2, "measure": ["eps"]}
for extra, call in calls:
    try:
        call()
    except OptionError as error:
        assert f"run: pip install 'horizonfree[{extra}]'" in str(error), (extra, error)
    else:
        raise AssertionError(extra)
""",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_an_extra_that_is_broken_is_not_called_missing():
    with pytest.raises(ModuleNotFoundError, match="no_such_part"), needs_extra("report", "x"):
        raise ModuleNotFoundError("No module named 'no_such_part'", name="no_such_part")
    with (
        pytest.raises(
            OptionError, match=r"^x: jinja2 is not installed; run: pip install 'horizonfree\[report\]'$"
        ),
        needs_extra("report", "x"),
    ):
        raise ModuleNotFoundError("No module named 'jinja2.sandbox'", name="jinja2.sandbox")
    check_extra("report", "x")


def package_names(requirements: list[str]) -> set[str]:
    return {re.match(r"[\w-]+", line).group() for line in requirements}


def test_the_extras_are_those_of_the_project():
    """Every package that the library imports from an extra is in that extra and not in the core; `all` has each."""
    extras = PROJECT["optional-dependencies"]
    for extra, packages in EXTRAS.items():
        listed_packages = package_names(extras[extra]) | (
            {"distributed"} if "dask[distributed]" in extras[extra][0] else set()
        )
        assert set(packages) == listed_packages, extra
    assert set(re.findall(r"\w+", extras["all"][0])) - {"horizonfree"} == set(EXTRAS)
    assert package_names(PROJECT["dependencies"]) == {
        "numpy",
        "scipy",
        "jax",
        "equinox",
        "jaxtyping",
        "typer",
        "rich",
    }


def test_every_import_of_an_extra_names_the_extra():
    """Packages of extras are imported inside `needs_extra`, after it in the same function, or for annotations."""
    unguarded = []
    for path in (ROOT / "src").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        scopes = [x for x in ast.walk(tree) if isinstance(x, ast.With | ast.If)]
        safe = {
            id(inner)
            for x in scopes
            if "needs_extra" in ast.dump(x.items[0] if isinstance(x, ast.With) else x.test)
            or "TYPE_CHECKING" in ast.dump(x.items[0] if isinstance(x, ast.With) else x.test)
            for inner in ast.walk(x)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in safe:
                modules = (
                    [node.module or ""] if isinstance(node, ast.ImportFrom) else [x.name for x in node.names]
                )
                if {x.split(".")[0] for x in modules} & PACKAGES:
                    unguarded.append(
                        f"{path.relative_to(ROOT / 'src' / 'horizonfree').as_posix()}:{node.lineno}"
                    )
    behind = {  # reached only after an import above
        "report/theme.py", "report/sweep_page.py", "report/draw.py",
        "web/server.py", "sweeps/clusters.py", "problems/verification/affine.py",
    }  # fmt: skip
    assert {x.split(":")[0] for x in unguarded} <= behind, unguarded


def test_runs_are_stored_where_there_is_no_fcntl(tmp_path):
    """As on Windows: no locks, no core affinity, no `resource`."""
    done = python(
        """
import os, sys
sys.modules["fcntl"] = sys.modules["resource"] = None
if hasattr(os, "sched_getaffinity"):
    del os.sched_getaffinity
import horizonfree as hf
run = hf.explore(hf.make("river-swim", states=3, horizon=3), "uniform", episodes=3, out=sys.argv[1], progress=False)
again = hf.load(sys.argv[1]).resume(episodes=2, progress=False)
assert hf.load(sys.argv[1]).episodes == again.episodes == 5
from horizonfree.sweeps.worker import peak_memory
assert peak_memory() >= 0
""",
        tmp_path / "run",
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_version_has_one_source():
    assert "version" not in PROJECT
    assert PROJECT["dynamic"] == ["version"]
    assert f"\nversion: {hf.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"version = {{{hf.__version__}}}" in (ROOT / "docs" / "citing.md").read_text()
