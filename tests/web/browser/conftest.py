"""A real Chromium, and playgrounds for it to visit."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import horizonfree as hf
from horizonfree import report
from horizonfree.runs.run import Run
from horizonfree.web.server import app_of, warm_up
from horizonfree.web.session import Session
from tests.report.example_runs import run_with_starts

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
# One process for all tabs: two for each take a fifth of all the time of these tests.
FLAGS += ["--disable-component-update", "--disable-sync", "--renderer-process-limit=1"]
# The first has no windows to draw, and takes half the time of the others.
BROWSERS = "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"
MISSING = "no Chromium found; install it with: apt-get install -y --no-install-recommends chromium"
KEPT = "localStorage.length + sessionStorage.length + document.cookie.length"
SCREENSHOTS = Path(__file__).parents[3] / "out" / "screenshots"


class Playground(NamedTuple):
    """A run that is being served."""

    run: Run
    address: str


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(MISSING)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def window(browser: "Browser") -> Callable[..., "BrowserContext"]:
    """One for all tabs with the same settings: pages keep nothing but what their addresses say."""
    open_windows: dict[str, BrowserContext] = {}

    def find(**settings: object) -> "BrowserContext":
        settings = {"viewport": {"width": 1280, "height": 860}} | settings
        kind = repr(sorted(settings.items()))
        if kind not in open_windows:
            open_windows[kind] = browser.new_context(**settings)
            open_windows[kind].new_page()  # so that its process stays
        return open_windows[kind]

    return find


@pytest.fixture
def visit(window: Callable[..., "BrowserContext"]) -> Iterator[Callable[..., "Page"]]:
    """Open an address in a tab of its own; anything that goes wrong inside the page fails the test."""
    wrong: list[str] = []
    pages = []

    def open_tab(address: str, is_failing: bool = False, **settings: object) -> "Page":
        page = window(**settings).new_page()
        pages.append(page)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        if not is_failing:  # Chromium reports every refused request on the console
            page.on("console", lambda x: wrong.append(x.text) if x.type in ("error", "warning") else None)
        home = address.split("#")[0]
        page.on(
            "request", lambda x: None if x.url.startswith((home, "data:", "blob:")) else wrong.append(x.url)
        )
        page.goto(address)
        if address.startswith("http"):
            wait_until_settled(page)
        return page

    yield open_tab
    errors = [page.evaluate(KEPT) for page in pages if page.url.startswith("http")]
    for page in pages:
        page.close()
    assert not any(errors)
    assert wrong == []


def wait_until_settled(page: "Page") -> None:
    """Wait until the page has the answer to its last question."""
    page.wait_for_selector(".result[aria-busy=false]")


def wait_for(page: "Page", condition: str) -> None:
    """Wait for a condition in the page; its policy forbids Playwright's own way, which evaluates text there."""
    while not page.evaluate(condition):
        page.wait_for_timeout(20)


@pytest.fixture
def picture() -> Callable[["Page", str], None]:
    """Keep a screenshot to look at."""

    def take(page: "Page", name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)

    return take


@pytest.fixture(scope="session")
def grid() -> Iterator[Playground]:
    problem = hf.make("zoned-grid", size=8, zones=4, horizon=20)
    yield from _served(hf.explore(problem, "optimal-design", episodes=150, progress=False))


@pytest.fixture(scope="session")
def page_of_report(grid: Playground, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report.write_report(grid.run, tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="session")
def mixture() -> Iterator[Playground]:
    yield from _served(hf.explore(hf.make("random-mixture"), "uniform", episodes=30, progress=False))


@pytest.fixture(scope="session")
def lake() -> Iterator[Playground]:
    """A map whose first state is drawn."""
    yield from _served(run_with_starts((1, 8)))


def _served(run: Run) -> Iterator[Playground]:
    """Serve a run from a thread, as `web.serve` does."""
    import socket

    import uvicorn

    session = Session(run)
    warm_up(session)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(
            uvicorn.Config(app_of(session), log_level="warning", lifespan="off", ws="none")
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield Playground(run, f"http://127.0.0.1:{listener.getsockname()[1]}/")
        server.should_exit = True
        thread.join(10)
