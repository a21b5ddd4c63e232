"""What the documentation says is true: examples run, names exist, links lead somewhere."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_example_of_the_readme_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    scope: dict = {}
    exec(example, scope)
    words, numbers = capsys.readouterr().out.strip().splitlines()[-2:]
    assert words.startswith("at most")
    value, gap = map(float, numbers.split())
    assert 0 < value < 1
    assert 0 <= gap < 1
    assert scope["action"] in range(4)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\((?!https?:)([^)#\s]+\.[a-z]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "index.md").read_text()
    missing = [
        p.name for p in (ROOT / "docs").glob("*.md") if p.name != "index.md" and f"({p.name})" not in index
    ]
    assert not missing


def test_every_function_of_the_paper_map_exists():
    text = (ROOT / "docs" / "paper-map.md").read_text()
    names = re.findall(r"`((?:[a-z_]+\.)+[A-Za-z_]+)(?:\([^`]*\))?`", text)
    assert len(names) > 20
    for name in names:
        if name.endswith(".py"):
            continue
        parts = name.split(".")
        for depth in range(len(parts) - 1, 0, -1):
            try:
                found = importlib.import_module("horizonfree." + ".".join(parts[:depth]))
                break
            except ModuleNotFoundError:
                continue
        else:
            pytest.fail(f"{name} names no module")
        for part in parts[depth:]:
            found = getattr(found, part)


def test_every_test_file_of_the_paper_map_exists():
    text = (ROOT / "docs" / "paper-map.md").read_text()
    for name in re.findall(r"`((?:explorers/)?test_[a-z_]+\.py)`", text):
        assert (ROOT / "tests" / name).exists(), name
