"""The server of the playground: one page, three questions, for this machine only.

Whoever may ask is decided before anything is looked up or read: the Host must be this machine (so that no other name
can be pointed at it), the Origin, where a browser sends one, must be the page itself, and questions must be JSON of
bounded size. The answers are plain data; nothing that arrives is executed, unpickled or written to disk.
"""

import asyncio
import ipaddress
import json
import re
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from horizonfree.errors import HorizonfreeError, OptionError
from horizonfree.runs.run import Run
from horizonfree.web.session import Painting, Session, home, index

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

MOST_BYTES = 2**20  # of a question
HEADER_SECONDS, BODY_SECONDS = 10, 20  # within which a request must have arrived
MOST_CONNECTIONS = 64  # at once; one page uses a few
SEEDS = 2**31
HOST = re.compile(r"(?:\[([0-9a-fA-F:]{2,39})\]|([0-9a-zA-Z.]+))(?::[0-9]{1,5})?")  # [IPv6] or name, port
SCRIPTS = ("page.js", "board.js", "table.js", "link.js", "words.js")
PAGE = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
} | {f"/{name}": (name, "text/javascript") for name in SCRIPTS}
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Refused(Exception):
    """A request that is not answered: an HTTP status and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def app(run: Run, *, delta: float = 0.05) -> "Starlette":
    """The playground of a run as an ASGI application."""
    return app_of(Session(run, delta))


def app_of(session: Session) -> "Starlette":
    """The playground of a session, which may be warm already."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    asked = session.run.problem
    H, S = asked.horizon, asked.num_states

    def error(status: int, why: str) -> Response:
        return JSONResponse({"error": why}, status, HEADERS)

    def guarded(inner: "ASGIApp") -> "ASGIApp":
        async def respond(scope: "Scope", receive: "Receive", send: "Send") -> None:
            answer = inner
            if scope["type"] == "http":
                try:
                    check_sender(Request(scope))
                except Refused as refused:
                    answer = error(refused.status, str(refused))
            await answer(scope, receive, send)

        return respond

    async def page(request: Request) -> Response:
        name, kind = PAGE[request.url.path]
        return Response(files("horizonfree.web").joinpath(name).read_bytes(), 200, HEADERS, kind)

    async def problem(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(session.problem), 200, HEADERS)

    async def plan(request: Request) -> Response:
        question = await read(request)
        painting = session.painting(question)
        step = index(question.get("step", 0), H, "step")
        first = home(asked)
        start = index(question.get("start", first), S, "start", min(first, 0))
        seed = index(question.get("seed", 0), SEEDS, "seed")
        allowance = index(question.get("allowance", 0), len(session.allowances), "allowance")

        def work() -> dict[str, Any]:
            return session.answer(painting, step=step, start=start, seed=seed, allowance=allowance)

        return JSONResponse(await run_in_threadpool(work), 200, HEADERS)

    async def reward(request: Request) -> Response:
        content = await run_in_threadpool(session.file, session.painting(await read(request)))
        return Response(content, 200, HEADERS, "application/octet-stream")

    async def refuse(request: Request, failure: Exception) -> Response:
        if isinstance(failure, HTTPException):
            words = {404: "there is no such page", 405: "not in this way"}
            return error(failure.status_code, words.get(failure.status_code, "refused"))
        return error(failure.status if isinstance(failure, Refused) else 422, str(failure))

    async def leave(request: Request, failure: Exception) -> Response:
        return Response(status_code=400)  # nobody is there to read it

    async def fail(request: Request, failure: Exception) -> Response:
        return error(500, f"the server failed ({type(failure).__name__}); its terminal says more")

    made = Starlette(
        routes=[
            *(Route(path, page, methods=["GET"]) for path in PAGE),
            Route("/api/problem", problem, methods=["GET"]),
            Route("/api/plan", plan, methods=["POST"]),
            Route("/api/reward.npy", reward, methods=["POST"]),
        ],
        middleware=[Middleware(guarded)],
        exception_handlers={
            HTTPException: refuse,
            Refused: refuse,
            HorizonfreeError: refuse,
            ClientDisconnect: leave,
            Exception: fail,
        },
    )
    made.router.redirect_slashes = False  # a redirect repeats the Host
    return made


def check_sender(request: "Request") -> None:
    """Refuse requests that were not made by this page on this machine."""
    host = request.headers.get("host", "")
    parts = HOST.fullmatch(host)
    if parts is None or not is_loopback(parts[1] or parts[2]):
        raise Refused(
            421, f"host {host[:80]!r} is not this machine; open the address that the terminal shows"
        )
    origin = request.headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        raise Refused(403, f"another page ({origin[:80]}) may not use this server")


async def read(request: "Request") -> dict[str, Any]:
    """The JSON object in a request, of bounded size."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refused(415, "questions are JSON: send Content-Type: application/json")
    body = b""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise Refused(413, f"the question is larger than {MOST_BYTES} bytes")
    except TimeoutError:
        raise Refused(408, f"the question did not arrive within {BODY_SECONDS} s") from None
    try:
        question = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Refused(400, "the question is not valid JSON") from None
    if not isinstance(question, dict):
        raise Refused(400, "the question must be a JSON object")
    return question


def say_where(address: str) -> None:
    """Tell people where the playground is."""
    print(f"The playground is at {address}\nStop it with Ctrl-C.", flush=True)


def serve(
    run: Run,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    open_browser: bool = False,
    delta: float = 0.05,
    ready: Callable[[str], None] = say_where,
) -> None:
    """Serve the playground of a run on this machine until interrupted; port 0 takes any that is free.

    `ready` is called with the address as soon as it is known and the first answer will be quick.
    """
    try:
        import uvicorn
    except ImportError:
        raise OptionError("the playground needs a web server: pip install 'horizonfree[web]'") from None
    if not is_loopback(host):
        raise OptionError(
            f"host is {host!r}; the playground is for this machine only: use 127.0.0.1 or localhost"
        )
    if not 0 <= port < 2**16:
        raise OptionError(f"port is {port}; ports are 0 to 65535, and 0 takes any that is free")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise OptionError(f"port {port} cannot be used ({error}); choose another, or 0 for any") from None
    with listener:
        name = f"[{host}]" if ":" in host else host
        address = f"http://{name}:{listener.getsockname()[1]}/"
        print(f"Preparing the planner for {run.problem.num_states:,} states ...", file=sys.stderr)
        session = Session(run, delta)
        warm_up(session)
        ready(address)
        if open_browser:
            threading.Timer(0.5, webbrowser.open, [address]).start()
        config = uvicorn.Config(
            app_of(session),
            log_level="warning",
            lifespan="off",
            ws="none",
            http=_impatient(),
            limit_concurrency=MOST_CONNECTIONS,
        )
        try:
            uvicorn.Server(config).run(sockets=[listener])
        except KeyboardInterrupt:
            print("Stopped.", file=sys.stderr)


def _impatient() -> Any:
    """The protocol of the server, which hangs up on whoever does not say in time what for, at first or after an answer.

    The server's own patience with silence begins anew with every byte.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Impatient(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.loop.call_later(HEADER_SECONDS, self.hang_up, None)

        def on_response_complete(self) -> None:
            answered = self.cycle  # the next request may have arrived already
            super().on_response_complete()
            self.loop.call_later(HEADER_SECONDS, self.hang_up, answered)

        def hang_up(self, last: Any) -> None:
            if self.cycle is last and not self.transport.is_closing():  # no request since
                self.transport.close()

    return Impatient


def warm_up(session: Session) -> None:
    """Certify, and compile what an answer needs, so that the first one is as quick as the rest."""
    session.problem()
    session.answer(Painting(((0, 1.0),), "end"), step=0, start=home(session.run.problem), seed=0)


def is_loopback(name: str) -> bool:
    """Whether a host name or address is this machine."""
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
