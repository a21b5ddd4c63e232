"""Ctrl-C, whenever it comes: one line, no traceback, and exit code 130."""

import signal
import subprocess
import sys
import time
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

import horizonfree as hf
from tests.shell import TINY, Shell

# Ctrl-C while a module is being loaded: this finder sends the signal when it is asked for the module.
PRESS = """
import os, signal, sys
_, module, *words = sys.argv

class Press:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

from horizonfree.cli import main
sys.meta_path.insert(0, Press())
sys.argv = ["horizonfree", *words]
main()
"""
# As JAX does it: a callback of the garbage collector, which drops whatever is raised in it.
DROP = """
import gc, os, signal, sys
from horizonfree.cli import _interrupt

def drop(phase, info):
    if phase == "start":
        gc.callbacks.remove(drop)
        os.kill(os.getpid(), signal.SIGINT)

try:
    with _interrupt.raise_interrupts():
        gc.callbacks.append(drop)
        gc.collect()
        while True:
            pass
except KeyboardInterrupt:
    sys.exit(130)
"""
READY = (
    "from horizonfree.cli import main, _interrupt; _interrupt.exit_on_interrupt(); "
    "print('ready', flush=True); main()"
)


def python(script: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("module", ["typer", "numpy", "jax", "jax.numpy"])
def test_while_something_is_loaded(module: str, tmp_path: Path) -> None:
    arguments = ["explore", "river-swim", "--episodes", "1"] if module.startswith("jax") else ["theory"]
    done = python(PRESS, module, *arguments, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "horizonfree: stopped\n")


def test_while_the_playground_prepares_itself(tmp_path: Path) -> None:
    hf.explore(hf.make("river-swim", states=3, horizon=3), "uniform", episodes=2, out=tmp_path / "a")
    done = python(PRESS, "uvicorn", "serve", "a", "--port", "0", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "horizonfree: stopped\n")


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.2, 0.5, 1.0, 2.0])
def test_at_any_time(seconds: float, tmp_path: Path) -> None:
    """It may have finished before: then with its answer, even if the interpreter dies of the signal on its way out."""
    process = subprocess.Popen(
        [sys.executable, "-c", READY, "theory"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    is_stopped = process.returncode == 130
    assert is_stopped or process.returncode in (0, -signal.SIGINT)
    assert err == ("horizonfree: stopped\n" if is_stopped else "")
    assert is_stopped or "confidence radius" in out


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(tmp_path, capsys, monkeypatch)


def test_what_was_saved_at_home_is_found(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    explore, resume = hf.explore, hf.Run.resume

    @wraps(explore)
    def stopped(*args: Any, **options: Any) -> None:
        explore(*args, **options)
        raise KeyboardInterrupt

    def stopped_again(run: hf.Run, **options: Any) -> None:
        resume(run, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(hf, "explore", stopped)
    code, _, err = shell(f"explore {TINY} --explorer uniform --episodes 2 --out='~/runs/a'")
    assert code == 130
    assert f"stopped after episode 2, saved in {tmp_path}/runs/a; resume with:" in err
    monkeypatch.setattr(hf.Run, "resume", stopped_again)
    code, _, err = shell("explore --episodes 3 --resume='~/runs/a'")
    assert code == 130
    assert f"stopped after episode 5, saved in {tmp_path}/runs/a; resume with:" in err


@pytest.mark.parametrize("is_there", [False, True])
def test_before_the_first_episode_nothing_is_saved(
    is_there: bool, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    @wraps(hf.explore)
    def stopped(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(hf, "explore", stopped)
    if is_there:
        Path("a").mkdir()
    code, _, err = shell(f"explore {TINY} --explorer uniform --episodes 2 --out a")
    assert code == 130
    assert err.endswith("stopped before the first episode; nothing was saved\n")


def test_an_interruption_that_is_dropped_comes_again(tmp_path: Path) -> None:
    done = python(DROP, folder=tmp_path)
    assert (done.returncode, done.stderr) == (130, "")


def test_other_processes_end_too(tmp_path: Path) -> None:
    """Explorers are compared in processes of their own. They hold our pipes: as long as one lives, this waits."""
    script = (
        "import multiprocessing, os, signal, time\n"
        "from horizonfree.cli import _interrupt\n"
        "_interrupt.exit_on_interrupt()\n"
        "multiprocessing.get_context('spawn').Process(target=time.sleep, args=(600,)).start()\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
    )
    done = python(script, folder=tmp_path)
    assert (done.returncode, done.stderr) == (130, "horizonfree: stopped\n")


def test_a_process_that_ignores_it_goes_on(tmp_path: Path) -> None:
    script = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{PRESS}"
    command = f"explore {TINY} --explorer uniform --episodes 2 --out a"
    done = python(script, "typer", *command.split(), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert hf.load(tmp_path / "a").episodes == 2
