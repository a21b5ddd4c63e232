"""The wheel, installed into an empty environment: it holds what it needs, with and without extras."""

import shutil
import subprocess
import sys
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


def run(*words: object, **how: object) -> str:
    done = subprocess.run([str(x) for x in words], capture_output=True, text=True, check=False, **how)
    assert done.returncode == 0, f"{words}: {done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(UV, "build", "--wheel", "-q", "-o", folder, ROOT)
    return next(folder.glob("*.whl"))


@pytest.mark.parametrize("extra", ["", "[web]"])
@pytest.mark.parametrize("python", ["python3.11", "python3.12", "python3.13", "python3.14"])
def test_it_explores_plans_and_reports_in_an_empty_environment(wheel, python, extra, tmp_path):
    if not is_there(python):
        pytest.skip(f"no {python} here")
    run(UV, "venv", "-q", "--python", python, tmp_path / "env")
    interpreter = tmp_path / "env" / "bin" / "python"
    run(
        UV, "pip", "install", "-q", "--python", interpreter, "-c", ROOT / "constraints.txt", f"{wheel}{extra}"
    )
    run(UV, "pip", "check", "-q", "--python", interpreter)
    command = tmp_path / "env" / "bin" / "horizonfree"
    run(command, "explore", "river-swim", "--episodes", 3, "--out", tmp_path / "run", cwd=tmp_path)
    run(command, "plan", tmp_path / "run", "--goal", 7)
    run(interpreter, "-c", "from horizonfree.native import library; assert library.build_name()")
    run(command, "report", tmp_path / "run")
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    if extra:
        run(interpreter, "-c", "import horizonfree.web, uvicorn; horizonfree.web.server._impatient()")
    else:
        said = subprocess.run(
            [command, "serve", tmp_path / "run", "--port", "0"], capture_output=True, text=True, check=False
        )
        assert said.returncode == 2
        assert "pip install" in said.stderr
