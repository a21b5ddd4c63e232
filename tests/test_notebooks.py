"""Every notebook runs and prints what its page shows; pages are in the navigation."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
NAMES = sorted(path.stem for path in (ROOT / "notebooks").glob("*.py") if path.stem != "build")


@pytest.fixture(scope="module")
def build():
    for package in ("jupytext", "nbclient", "ipykernel"):
        pytest.importorskip(package, reason=f"{package} is not installed; the extra docs has it")
    spec = importlib.util.spec_from_file_location("notebooks_build", ROOT / "notebooks" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_are_built_and_in_the_navigation(build):
    assert sorted(build.NAMES) == NAMES
    nav = (ROOT / "mkdocs.yml").read_text()
    for name in NAMES:
        assert f"notebooks/{name}.md" in nav
        page = (ROOT / "docs" / "notebooks" / f"{name}.md").read_text()
        for image in re.findall(r"!\[[^]]+\]\(([^)]+)\)", page):
            assert (ROOT / "docs" / "notebooks" / image).exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_runs_and_prints_what_its_page_shows(build, name):
    """Equal words, and numbers to the last digit that other processors may round differently."""
    if name == "prism_model":
        pytest.importorskip("stormpy", reason="stormpy is not installed")
    page, figures = build.executed(name)
    expected_page = (ROOT / "docs" / "notebooks" / f"{name}.md").read_text()
    assert NUMBER.sub("#", page) == NUMBER.sub("#", expected_page)
    for number, expected in zip(NUMBER.findall(page), NUMBER.findall(expected_page), strict=True):
        assert float(number) == pytest.approx(float(expected), rel=0.02, abs=1e-8)
    assert set(figures) == set(re.findall(r"!\[[^]]+\]\(([^)]+)\)", expected_page))
