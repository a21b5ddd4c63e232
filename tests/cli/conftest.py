"""A shell for every test of the command line."""

from pathlib import Path

import pytest

from horizonfree.report import page, theme
from horizonfree.report.seen import seen
from tests.shell import Shell


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(tmp_path, capsys, monkeypatch)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without their figures, for tests of what is around them: drawing takes most of the time."""
    monkeypatch.setattr(page, "draw_all", seen)
    monkeypatch.setattr(theme, "inline_svg", lambda *_: "<svg></svg>")
