"""A prompt for the tests of the command line."""

import json
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from horizonfree.cli import main
from horizonfree.cli._shared import console

COMMAND = Path(sys.executable).with_name("horizonfree")
TINY = "zoned-grid --param size=3 --param zones=1 --param horizon=4"


class Shell:
    """A prompt in an empty folder: `shell("problems --json")` gives the exit code, the output and the errors."""

    def __init__(
        self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.capsys, self.monkeypatch = capsys, monkeypatch
        monkeypatch.chdir(folder)
        monkeypatch.setenv("COLUMNS", "160")
        monkeypatch.setattr(console, "width", 160)  # made when it was first imported, perhaps without COLUMNS

    def __call__(self, line: str) -> tuple[int, str, str]:
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            self.run(line)
        output = self.capsys.readouterr()
        return int(stop.value.code or 0), output.out, output.err

    def run(self, line: str) -> None:
        self.monkeypatch.setattr(sys, "argv", ["horizonfree", *shlex.split(line)])
        old_handler = signal.getsignal(signal.SIGINT)
        try:
            main()
        finally:
            signal.signal(signal.SIGINT, old_handler)

    def json(self, line: str) -> Any:
        code, out, err = self(f"{line} --json")
        assert code == 0, err
        return json.loads(out)
