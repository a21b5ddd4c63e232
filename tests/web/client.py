"""Questions to a playground, without a network."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from horizonfree import web
from horizonfree.runs.run import Run

HOME = "http://127.0.0.1:8000"


class Client:
    """Requests to the application without a network."""

    def __init__(self, run: Run) -> None:
        self.app = web.app(run)

    def send(self, method: str, path: str, **content: Any) -> httpx.Response:
        async def send_once() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)  # type: ignore[arg-type]
            async with httpx.AsyncClient(transport=transport, base_url=HOME) as client:
                return await client.request(method, path, **content)

        with ThreadPoolExecutor(1) as pool:  # the browser tests may have a loop running in this thread
            return pool.submit(lambda: asyncio.run(send_once())).result()

    def get(self, path: str, **content: Any) -> httpx.Response:
        return self.send("GET", path, **content)

    def post(self, path: str, **content: Any) -> httpx.Response:
        return self.send("POST", path, **content)


def question(**changes: Any) -> dict[str, Any]:
    return {"weights": [[10, 1.0], [3, 0.5]], "when": "end", "step": 2, "seed": 5} | changes


def assert_close(actual: Any, expected: Any) -> None:
    """Equal JSON, and numbers to 1e-9."""
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key in expected:
            assert_close(actual[key], expected[key])
    elif isinstance(expected, list):
        assert len(actual) == len(expected)
        for x, y in zip(actual, expected):
            assert_close(x, y)
    elif isinstance(expected, float):
        assert actual == pytest.approx(expected, rel=1e-9, abs=1e-9)
    else:
        assert actual == expected
