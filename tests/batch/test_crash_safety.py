"""What `compare --problem ... --out` keeps: whatever happens, each file is the old one or the new one."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.shell import Shell

ROW = {
    "explorer": "uniform",
    "seed": 0,
    "episodes": 2,
    "gap": 0.5,
    "own_gap": 0.5,
    "eps": 0.5,
    "seconds": 1.0,
}
FILES = ("rows.jsonl", "figure.svg")  # in the order in which they are written
OLD = b"of a comparison before"
LINE = "compare --problem river-swim --explorer uniform --out contest"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Holds the files of an older comparison."""
    folder = tmp_path / "contest"
    folder.mkdir()
    put_back(folder)
    return folder


def put_back(folder: Path) -> None:
    for name in FILES:
        (folder / name).write_bytes(OLD)


def are_new(folder: Path) -> list[bool]:
    """Whether each file is the new one, and whole; else it is the old one."""
    rows, figure = ((folder / name).read_bytes() for name in FILES)
    if rows != OLD:
        assert [json.loads(line) for line in rows.splitlines()] == [ROW]
        assert rows.endswith(b"\n")
    if figure != OLD:
        assert ElementTree.fromstring(figure).tag.endswith("svg")
    return [rows != OLD, figure != OLD]


@pytest.mark.parametrize("call", [0, 1])
@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_full_disk_leaves_every_file_whole(
    name: str,
    call: int,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is full at the first file, or at the second; a file is flushed, renamed, and its folder flushed."""
    true, calls = getattr(os, name), []

    def fails(*args: object) -> None:
        calls.append(args)
        if len(calls) > call * (2 if name == "fsync" else 1):
            raise OSError(errno.ENOSPC, "no space left")
        true(*args)

    shell = Shell(tmp_path, capsys, monkeypatch)
    monkeypatch.setattr(
        "horizonfree.batch.compare.compare_in_processes", lambda *_, **__: [("uniform", [ROW])]
    )
    monkeypatch.setattr(os, name, fails)
    code, _, stderr = shell(LINE)
    assert code == 2
    assert f"{FILES[call]}: the disk is full" in stderr
    assert are_new(folder) == [call == 1, False]
    assert set(os.listdir(folder)) == set(FILES)


# Forks, after a comparison elsewhere, so that what is loaded and drawn is paid for once; each child is killed before
# its last step on the way to the disk.
KILLED = """
import contextlib, itertools, os, pathlib, signal, sys
from horizonfree.batch import compare
from horizonfree.cli import main

compare.compare_in_processes = lambda *_, **__: [("uniform", [{row}])]
true = {{name: getattr(os, name) for name in ("fdopen", "fsync", "replace")}}

def counted(name, steps, last):
    def step(*given):
        if next(steps) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return true[name](*given)
    return step

*line, out = sys.argv
sys.argv = [*line, "elsewhere"]
with contextlib.suppress(SystemExit):
    main()
sys.argv = [*line, out]
figure = pathlib.Path("elsewhere", "figure.svg").read_bytes()
compare.save_figure = lambda _, path: path.write_bytes(figure)
for last in itertools.count():
    child = os.fork()
    if not child:
        steps = itertools.count()
        for name in true:
            setattr(os, name, counted(name, steps, last))
        main()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print("ended", status, flush=True)
    sys.stdin.readline()
    if status != -signal.SIGKILL:
        break
"""


def test_a_kill_at_any_step_leaves_every_file_whole(folder: Path, tmp_path: Path) -> None:
    """After each kill the old files are put back. The last one is not killed, and leaves nothing but its files."""
    command = [sys.executable, "-W", "ignore", "-c", KILLED.format(row=ROW), *LINE.split()]
    statuses, leftovers = [], []
    temporary = tmp_path / "aside"  # where a kill leaves what was not written yet
    temporary.mkdir()
    process_options = {"cwd": tmp_path, "env": os.environ | {"TMPDIR": str(temporary)}}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **process_options
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for line in child.stdout:
            if not line.startswith("ended"):
                continue
            statuses.append(int(line.removeprefix("ended")))
            leftovers.append(are_new(folder))
            if statuses[-1]:
                put_back(folder)
            child.stdin.write("\n")
            child.stdin.flush()
    assert set(statuses[:-1]) == {-signal.SIGKILL}
    assert statuses[-1] == 0
    assert leftovers == [[False, False]] * 3 + [[True, False]] * 4 + [[True, True]] * 2
    assert set(os.listdir(folder)) == set(FILES)
