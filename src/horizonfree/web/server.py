"""The server of the playground: one page and three requests, for this machine only.

Before anything is read, the Host must be this machine (against DNS rebinding), the Origin, if there is one, must be the
page itself, and requests must be JSON of bounded size. Answers are plain data; nothing in a request is executed,
unpickled or written to disk.
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

from horizonfree._extras import needs_extra
from horizonfree._validation import require
from horizonfree.errors import HorizonfreeError, OptionError
from horizonfree.runs.run import Run
from horizonfree.web.session import Painting, Session, default_start

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

MAX_BYTES = 2**20  # of a request
HEADER_SECONDS, BODY_SECONDS = 10, 20  # until a request must have arrived
MAX_CONNECTIONS = 64  # one page uses a few
HOST = re.compile(r"(?:\[([0-9a-fA-F:]{2,39})\]|([0-9a-zA-Z.]+))(?::[0-9]{1,5})?")  # [IPv6] or name, port
SCRIPTS = ("page.js", "backend.js", "board.js", "table.js", "link.js", "text.js", "avoid.js")
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


class RequestError(Exception):
    """A rejected request: an HTTP status and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def app(run: Run, *, delta: float = 0.05) -> "Starlette":
    """The playground of a run as an ASGI application."""
    return app_of(Session(run, delta))


def app_of(session: Session) -> "Starlette":
    """The playground of a session."""
    with needs_extra("web", "the playground"):
        from starlette.applications import Starlette
        from starlette.concurrency import run_in_threadpool
        from starlette.exceptions import HTTPException
        from starlette.middleware import Middleware
        from starlette.requests import ClientDisconnect, Request
        from starlette.responses import JSONResponse, Response
        from starlette.routing import Route

    def error(status: int, reason: str) -> Response:
        return JSONResponse({"error": reason}, status, HEADERS)

    def guarded(inner: "ASGIApp") -> "ASGIApp":
        async def respond(scope: "Scope", receive: "Receive", send: "Send") -> None:
            answer = inner
            if scope["type"] == "http":
                try:
                    check_sender(Request(scope))
                except RequestError as request_error:
                    answer = error(request_error.status, str(request_error))
            await answer(scope, receive, send)

        return respond

    async def page(request: Request) -> Response:
        name, kind = PAGE[request.url.path]
        return Response(files("horizonfree.web").joinpath(name).read_bytes(), 200, HEADERS, kind)

    async def problem(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(session.problem), 200, HEADERS)

    async def plan(request: Request) -> Response:
        question = await read(request)
        return JSONResponse(await run_in_threadpool(session.plan, question), 200, HEADERS)

    async def reward(request: Request) -> Response:
        content = await run_in_threadpool(session.file, session.painting(await read(request)))
        return Response(content, 200, HEADERS, "application/octet-stream")

    async def reject(request: Request, failure: Exception) -> Response:
        if isinstance(failure, HTTPException):
            reasons = {404: "there is no such page", 405: "this method is not allowed"}
            return error(failure.status_code, reasons.get(failure.status_code, "rejected"))
        return error(failure.status if isinstance(failure, RequestError) else 422, str(failure))

    async def leave(request: Request, failure: Exception) -> Response:
        return Response(status_code=400)  # the client has disconnected

    async def fail(request: Request, failure: Exception) -> Response:
        return error(500, f"the server failed ({type(failure).__name__}); see its terminal")

    application = Starlette(
        routes=[
            *(Route(path, page, methods=["GET"]) for path in PAGE),
            Route("/api/problem", problem, methods=["GET"]),
            Route("/api/plan", plan, methods=["POST"]),
            Route("/api/reward.npy", reward, methods=["POST"]),
        ],
        middleware=[Middleware(guarded)],
        exception_handlers={
            HTTPException: reject,
            RequestError: reject,
            HorizonfreeError: reject,
            ClientDisconnect: leave,
            Exception: fail,
        },
    )
    application.router.redirect_slashes = False  # a redirect would repeat the Host
    return application


def check_sender(request: "Request") -> None:
    """An error for requests that were not made by this page on this machine."""
    host = request.headers.get("host", "")
    parts = HOST.fullmatch(host)
    if parts is None or not is_loopback(parts[1] or parts[2]):
        raise RequestError(
            421, f"host {host[:80]!r} is not this machine; open the address that the terminal shows"
        )
    origin = request.headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        raise RequestError(403, f"another page ({origin[:80]}) may not use this server")


async def read(request: "Request") -> dict[str, Any]:
    """The JSON object in a request, of bounded size."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RequestError(415, "requests are JSON: send Content-Type: application/json")
    body = b""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise RequestError(413, f"the request is larger than {MAX_BYTES} bytes")
    except TimeoutError:
        raise RequestError(408, f"the request did not arrive within {BODY_SECONDS} s") from None
    try:
        question = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise RequestError(400, "the request is not valid JSON") from None
    if not isinstance(question, dict):
        raise RequestError(400, "the request must be a JSON object")
    return question


def print_address(address: str) -> None:
    """Print the address of the playground."""
    print(f"The playground is at {address}\nStop it with Ctrl-C.", flush=True)


def serve(
    run: Run,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    open_browser: bool = False,
    delta: float = 0.05,
    ready: Callable[[str], None] = print_address,
) -> None:
    """Serve the playground of a run on this machine until interrupted; port 0 is any free port.

    ready: called with the address when the server is warmed up.
    """
    with needs_extra("web", "the playground"):
        import uvicorn
    require(is_loopback(host), "host", host, "this machine, 127.0.0.1 or localhost")
    require(0 <= port < 2**16, "port", port, "a port, 0 to 65535, 0 for any free one")
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
            http=_protocol_with_timeouts(),
            limit_concurrency=MAX_CONNECTIONS,
        )
        try:
            uvicorn.Server(config).run(sockets=[listener])
        except KeyboardInterrupt:
            print("Stopped.", file=sys.stderr)


def _protocol_with_timeouts() -> Any:
    """The HTTP protocol with a timeout for the headers of the first and of later requests.

    The timeout of uvicorn restarts with every byte.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class ProtocolWithTimeouts(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.loop.call_later(HEADER_SECONDS, self.close_if_idle, None)

        def on_response_complete(self) -> None:
            cycle = self.cycle  # before the next request
            super().on_response_complete()
            self.loop.call_later(HEADER_SECONDS, self.close_if_idle, cycle)

        def close_if_idle(self, last: Any) -> None:
            if self.cycle is last and not self.transport.is_closing():  # no request since
                self.transport.close()

    return ProtocolWithTimeouts


def warm_up(session: Session) -> None:
    """Certify, so that the first answer is as fast as later ones."""
    session.problem()
    session.answer(Painting(((0, 1.0),), "end"), step=0, start=default_start(session.run.problem), seed=0)


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
