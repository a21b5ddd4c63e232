"""The wheel and the source distribution, installed into empty environments: the README's code runs in each."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
UV = Path(sys.executable).with_name("uv")


def is_there(name: str) -> bool:
    """Whether it runs: a name on the path may be a stand-in for what is not installed."""
    return (
        bool(shutil.which(name))
        and subprocess.run([name, "-V"], capture_output=True, check=False).returncode == 0
    )


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not UV.exists(), reason="uv is not beside this interpreter"),
]


README = ROOT / "tests" / "readme.py"


def run(*args: object, env: Mapping[str, str] = os.environ, **options: object) -> str:
    """The output of a command that must not see this checkout."""
    env = {name: value for name, value in env.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(x) for x in args], capture_output=True, text=True, check=False, env=env, **options
    )
    assert done.returncode == 0, f"{args}: {done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The source distribution, and the wheels made of it: with compiled code, and without."""
    folder = tmp_path_factory.mktemp("built")
    run(UV, "build", "-q", "-o", folder / "native", ROOT)
    run(UV, "build", "-q", "-o", folder / "pure", ROOT, env=os.environ | {"HORIZONFREE_PURE": "1"})
    files = {"sdist": folder / "native", "native": folder / "native", "pure": folder / "pure"}
    return {
        name: next(folder.glob("*.tar.gz" if name == "sdist" else "*.whl")) for name, folder in files.items()
    }


def install(
    file: Path, folder: Path, python: str = sys.executable, extra: str = "", **options: object
) -> Path:
    """A new environment in which only the library and what it needs are installed; its commands."""
    run(UV, "venv", "-q", "--python", python, folder)
    name = f"horizonfree{extra} @ {file.as_uri()}"
    interpreter = folder / "bin" / "python"
    run(UV, "pip", "install", "-q", "--python", interpreter, "-c", ROOT / "constraints.txt", name, **options)
    run(UV, "pip", "check", "-q", "--python", interpreter)
    return folder / "bin"


def explore(bin: Path, folder: Path) -> Path:
    """A run explored and planned for on the command line."""
    run(bin / "horizonfree", "explore", "river-swim", "--episodes", 3, "--out", folder, cwd=folder.parent)
    run(bin / "horizonfree", "plan", folder, "--goal", 7)
    return folder


def stderr_of(bin: Path, *args: object) -> str:
    done = subprocess.run([str(bin / "horizonfree"), *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 2, args
    return " ".join(done.stderr.split())


@pytest.mark.parametrize("python", ["python3.11", "python3.12", "python3.13", "python3.14"])
def test_the_core_runs_the_readme(distributions, python, tmp_path):
    if not is_there(python):
        pytest.skip(f"no {python} here")
    bin = install(distributions["native"], tmp_path / "env", python)
    run(bin / "python", README, cwd=tmp_path)
    folder = explore(bin, tmp_path / "run")
    run(bin / "python", "-c", "from horizonfree.native import library; assert library.build_name()")
    assert "pip install 'horizonfree[report]'" in stderr_of(bin, "report", folder)
    assert "pip install 'horizonfree[web]'" in stderr_of(bin, "serve", folder, "--port", 0)
    installed = run(UV, "pip", "freeze", "--python", bin / "python")
    assert not {"gymnasium", "matplotlib", "jinja2", "starlette"} & {
        line.split("==")[0] for line in installed.splitlines()
    }


def test_the_extra_report_writes_reports(distributions, tmp_path):
    bin = install(distributions["native"], tmp_path / "env", extra="[report]")
    run(bin / "python", README, cwd=tmp_path)
    folder = explore(bin, tmp_path / "run")
    run(bin / "horizonfree", "report", folder)
    assert (folder / "report.html").stat().st_size > 10_000


def test_the_extra_web_has_the_playground(distributions, tmp_path):
    bin = install(distributions["native"], tmp_path / "env", extra="[web]")
    folder = explore(bin, tmp_path / "run")
    code = "import sys, uvicorn, horizonfree as hf; hf.web.app(hf.load(sys.argv[1]))"
    run(bin / "python", "-c", code, folder)


@pytest.mark.parametrize("kind", ["sdist", "pure"])
def test_it_runs_the_readme_where_there_is_no_compiler(distributions, kind, tmp_path):
    """The search path is empty while it is built and installed; the only difference is a warning and the time."""
    (tmp_path / "nothing").mkdir()
    environment = os.environ | {"PATH": str(tmp_path / "nothing"), "CC": ""}
    bin = install(distributions[kind], tmp_path / "env", env=environment)
    run(bin / "python", "-c", "from horizonfree.native import library; assert library.build_name() is None")
    run(bin / "python", README, cwd=tmp_path)


def test_wheels_hold_what_they_should(distributions):
    """The pure wheel has no compiled code; neither has more than the library."""
    assert distributions["pure"].name.endswith("-py3-none-any.whl")
    assert "-py3-none-" in distributions["native"].name
    names = {kind: zipfile.ZipFile(distributions[kind]).namelist() for kind in ("pure", "native")}
    assert {x for x in names["native"] if x.endswith(".so")}
    assert {x for x in names["native"] if not x.endswith(".so")} == set(names["pure"])
    assert {x.split("/")[0].split("-")[0] for x in names["pure"]} == {"horizonfree"}
    with tarfile.open(distributions["sdist"]) as archive:
        assert not [x for x in archive.getnames() if x.endswith(".so")]
