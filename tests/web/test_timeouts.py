"""Clients that are slow, silent, or gone: the server waits for a while, then hangs up, and its terminal stays quiet."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

import horizonfree as hf

SECONDS = 1  # for which the server waits here, instead of ten or twenty
CONNECTIONS = 8  # at once, instead of 64
SERVE = f"""
import sys
import horizonfree as hf
from horizonfree import web
from horizonfree.web import server
server.HEADER_SECONDS = server.BODY_SECONDS = {SECONDS}
server.MAX_CONNECTIONS = {CONNECTIONS}
web.serve(hf.load(sys.argv[1]), port=0)
"""
LATE = 20 * SECONDS  # after which a test gives up: a machine may be busy
QUESTION = json.dumps({"weights": [[2, 1]], "when": "end"}).encode()


class Server(NamedTuple):
    address: str
    port: int
    errors: Path
    process: "subprocess.Popen[str]"

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=LATE)

    def head(self, line: str, *headers: str) -> bytes:
        return "\r\n".join([line, f"Host: 127.0.0.1:{self.port}", *headers, "", ""]).encode()

    def question(self, length: int) -> bytes:
        """The head of a question with a body of this length."""
        kind = "Content-Type: application/json"
        return self.head("POST /api/plan HTTP/1.1", kind, f"Content-Length: {length}")

    def is_well(self) -> bool:
        answer = httpx.post(
            f"{self.address}api/plan",
            content=QUESTION,
            headers={"Content-Type": "application/json"},
            timeout=LATE,
        )
        return answer.status_code == 200 and self.process.poll() is None


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    problem = hf.make("river-swim", states=4, horizon=4)
    hf.explore(problem, "uniform", episodes=5, progress=False, out=folder / "a")
    command = [sys.executable, "-c", SERVE, str(folder / "a")]
    errors = folder / "errors.txt"
    with errors.open("w") as file:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True)
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        address = next(line for line in lines if "http://" in line).split()[-1]
        yield Server(address, int(address.rstrip("/").rpartition(":")[2]), errors, process)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.communicate()


def receive_all(connection: socket.socket) -> bytes:
    """What the server says until it hangs up."""
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return received


def trickle(connection: socket.socket, byte: bytes) -> tuple[bytes, float]:
    """One byte after the other, for as long as the server takes them; what it said at last, and after how long."""
    start_time, received = time.monotonic(), b""
    connection.settimeout(0.05)
    while time.monotonic() - start_time < LATE:
        try:
            connection.sendall(byte)
            part = connection.recv(65536)
        except TimeoutError:
            continue
        except (BrokenPipeError, ConnectionResetError):
            break
        if not part:
            break
        received += part
    return received, time.monotonic() - start_time


def test_who_connects_and_says_nothing_is_hung_up_on(server: Server) -> None:
    with server.connect() as connection:
        start_time = time.monotonic()
        assert receive_all(connection) == b""
        assert 0.5 * SECONDS < time.monotonic() - start_time < LATE
    assert server.is_well()


def test_a_head_that_never_ends_is_hung_up_on(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(server.head("GET / HTTP/1.1")[:-2] + b"X: ")
        received, seconds = trickle(connection, b"x")
        assert received == b""
        assert seconds < LATE
    assert server.is_well()


def test_a_second_head_that_never_ends_is_hung_up_on(server: Server) -> None:
    """A connection that was answered once is closed after a timeout too."""
    with server.connect() as connection:
        connection.sendall(server.head("GET /page.css HTTP/1.1"))
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(server.head("GET / HTTP/1.1")[:-2] + b"X: ")
        _, seconds = trickle(connection, b"x")
        assert seconds < LATE
    assert server.is_well()


def test_one_connection_may_ask_again_and_again(server: Server) -> None:
    """For longer than the server waits for a head: it waits anew after every answer."""
    with httpx.Client(base_url=server.address, timeout=LATE) as client:
        for _ in range(6):
            assert client.get("/page.css").status_code == 200
            assert client.post("/api/plan", json=json.loads(QUESTION)).status_code == 200
            time.sleep(0.4 * SECONDS)


def test_a_body_that_does_not_come_is_answered_with_why(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(server.question(100) + b'{"weights"')
        received = receive_all(connection)
    assert received.startswith(b"HTTP/1.1 408")
    assert f"the request did not arrive within {SECONDS} s".encode() in received
    assert server.is_well()


def test_a_body_that_comes_byte_by_byte_is_not_waited_for(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(server.question(10**6))
        received, seconds = trickle(connection, b" ")
    assert received.startswith(b"HTTP/1.1 408")
    assert seconds < LATE


def test_a_body_that_nobody_reads_is_not_waited_for(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(server.head("POST /nothing HTTP/1.1", "Content-Length: 1000000"))
        received, seconds = trickle(connection, b" ")
    assert received.startswith(b"HTTP/1.1 404")
    assert seconds < LATE


def test_a_body_that_comes_in_time_is_read(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(server.question(len(QUESTION)))
        for i in range(len(QUESTION)):
            connection.sendall(QUESTION[i : i + 1])
            time.sleep(0.2 * SECONDS / len(QUESTION))
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("num_sent", [0, 1, 10])
def test_a_client_that_leaves_in_the_middle_is_no_trouble(server: Server, num_sent: int) -> None:
    for _ in range(3):
        with server.connect() as connection:
            connection.sendall(server.question(100) + b"x" * num_sent)
            time.sleep(0.05)
    with server.connect() as connection:  # with a reset instead of a goodbye
        connection.sendall(server.question(100) + b"x" * num_sent)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    assert server.is_well()


def test_what_is_not_http_is_refused(server: Server) -> None:
    for nonsense in (b"\0" * 100, b"\x16\x03\x01" + b"\xff" * 50, b"GET\r\n\r\n", b"x" * 10**5):
        with server.connect() as connection:
            try:
                connection.sendall(nonsense + b"\r\n\r\n")
            except (BrokenPipeError, ConnectionResetError):
                continue
            assert receive_all(connection)[:12] in (b"HTTP/1.1 400", b"")
    assert server.is_well()


def test_beyond_so_many_connections_the_server_is_busy_and_then_well_again(server: Server) -> None:
    connections = [server.connect() for _ in range(CONNECTIONS)]
    try:
        deadline = time.monotonic() + LATE
        assert httpx.get(server.address, timeout=LATE).status_code == 503
        for connection in connections:
            assert receive_all(connection) == b""
        while not server.is_well():
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        for connection in connections:
            connection.close()


def test_at_the_end_the_terminal_shows_no_failure(server: Server) -> None:
    assert server.is_well()
    text = server.errors.read_text()
    assert "Traceback" not in text
    assert "Exception" not in text
