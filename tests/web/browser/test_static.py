"""The playground without a server, in a real browser: its numbers are those of Python on this machine."""

import functools
import http.server
import json
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import horizonfree as hf
from horizonfree.web.session import Session
from tests.web.client import assert_close

from .conftest import wait_until_settled

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

BUILD = Path(__file__).parents[3] / "playground" / "build.py"
SECONDS = 300  # until the page must have its first answer, on a busy machine
QUESTIONS = (
    {"weights": [[5, 1.0]], "when": "end", "step": 0, "seed": 0},
    {"weights": [[3, 1.0], [7, 0.25], [8, -0.5]], "when": "along", "step": 2, "start": 1, "seed": 4},
    {"weights": [[5, 1.0]], "when": "end", "step": 3, "seed": 1, "avoid": [2, 3], "bound": 0.2},
)
pytestmark = pytest.mark.slow


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that writes no log."""

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The playground as `make docs` builds it."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed; Python for the browser comes from its registry")
    folder = tmp_path_factory.mktemp("site") / "playground"
    result = subprocess.run([sys.executable, BUILD, folder], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """Below a folder, as on a static host."""
    handler = functools.partial(Quiet, directory=str(folder.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/playground/"
        server.shutdown()


@pytest.fixture
def page(browser: "Browser", address: str) -> Iterator["Page"]:
    """A tab; anything that goes wrong, and any request to another place, fails the test."""
    wrong: list[str] = []
    page = browser.new_page(viewport={"width": 1280, "height": 860})
    page.set_default_timeout(1000 * SECONDS)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda x: wrong.append(x.text) if x.type in ("error", "warning") else None)
    page.on(
        "request", lambda x: None if x.url.startswith((address, "data:", "blob:")) else wrong.append(x.url)
    )
    yield page
    page.close()
    assert wrong == []


def ask(page: "Page", name: str, question: dict[str, Any] | None = None) -> Any:
    """An answer of the page's back end."""
    text = page.evaluate(
        "async ([name, question]) => JSON.stringify(await (await import('./backend.js')).ask(name, question))",
        [name, question],
    )
    return json.loads(text)


def store_run(folder: Path, name: str, target: Path) -> hf.Run:
    """A run of the page, loaded by this machine."""
    with zipfile.ZipFile(folder / "runs" / f"{name}.zip") as archive:
        archive.extractall(target)
    return hf.load(target)


@pytest.mark.parametrize("name", ["grid", "river", "lake"])
def test_answers_are_those_of_python(
    folder: Path, address: str, page: "Page", tmp_path: Path, name: str
) -> None:
    page.goto(f"{address}?run={name}")
    wait_until_settled(page)
    session = Session(store_run(folder, name, tmp_path / name))
    problem = json.loads(json.dumps(session.problem())) | {"misspecifications": [0.0]}
    assert_close(ask(page, "problem"), problem)
    assert page.is_hidden("#wrong")
    for question in QUESTIONS:
        assert_close(ask(page, "plan", question), json.loads(json.dumps(session.plan(question))))
    with pytest.raises(Exception, match="weights lie between -1 and 1"):
        ask(page, "plan", {"weights": [[0, 2.0]], "when": "end"})


def test_painting_shows_plan_interval_and_certificate(
    folder: Path, address: str, page: "Page", tmp_path: Path, picture: Callable[["Page", str], None]
) -> None:
    page.goto(f"{address}?run=grid#when=end&paint=35")
    wait_until_settled(page)
    box = page.locator("#board").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 0.5 * box["width"] / 6, box["y"] + 5.5 * box["height"] / 6)
    wait_until_settled(page)
    assert page.url.endswith("paint=30,35")
    run = store_run(folder, "grid", tmp_path / "run")
    plan = run.plan(hf.goal(run.problem, [30, 35]))
    assert float(page.inner_text("#value")) == pytest.approx(plan.value, rel=6e-3)
    assert "interval [" in page.inner_text("#between")
    assert "(95% confidence, any stopping time)" in page.inner_text("#proof")
    assert "for every" not in page.inner_text("#runs")
    with page.expect_download() as download:
        page.click("#save")
    assert download.value.suggested_filename == "zoned-grid-reward.npy"
    picture(page, "static-playground")


def test_a_folder_of_ones_own_is_loaded(address: str, page: "Page", tmp_path: Path) -> None:
    run = hf.explore(hf.make("zoned-grid", size=3, zones=2, horizon=5), episodes=40, progress=False)
    run.save(tmp_path / "mine")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("no run")
    page.goto(address)
    page.wait_for_selector("#folder")
    assert page.is_hidden("main")
    assert "nothing is sent anywhere" in page.inner_text("#about")
    page.set_input_files("#folder", tmp_path / "empty")
    page.get_by_text("holds no run").wait_for()
    page.set_input_files("#folder", tmp_path / "mine")
    wait_until_settled(page)
    question = {"weights": [[8, 1.0]], "when": "end"}
    assert_close(ask(page, "plan", question), json.loads(json.dumps(Session(run).plan(question))))


def test_an_unknown_run_is_refused(address: str, page: "Page") -> None:
    page.goto(f"{address}?run=nothing")
    page.get_by_text("There is no run nothing here.").wait_for()
