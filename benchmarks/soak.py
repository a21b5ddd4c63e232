"""The playground's server under valid and hostile requests for a while: failures, and how much its memory grows.

    python benchmarks/soak.py [--seconds 600] [--rate 50]

A process of its own serves on a free loopback port; this one sends a bounded number of requests a second, one after the
other, and nothing anywhere else. It fails if the server stops, answers 500, prints a traceback, refuses a valid
question, or grows by more than MAX_GROWTH_BYTES after the first tenth of the time.
"""

import argparse
import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

MAX_GROWTH_BYTES = 64 * 2**20  # bytes after the beginning, in which caches fill
PATIENCE = 15.0  # seconds for an answer
SERVE = """
import horizonfree as hf
from horizonfree import web
problem = hf.make("zoned-grid", size=4, zones=2, horizon=8)
web.serve(hf.explore(problem, "uniform", episodes=20, progress=False), port=0)
"""


def send(port: int, data: bytes, *, is_read: bool = True) -> int:
    """Send bytes on a connection of their own; the status of the answer, 0 without one."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
            connection.sendall(data)
            if not is_read:
                return 0
            answer = b""
            while part := connection.recv(2**16):
                answer += part
    except (ConnectionResetError, BrokenPipeError):
        return 0
    status_line = answer.split(b" ", 2)
    return int(status_line[1]) if len(status_line) > 1 and status_line[1].isdigit() else 0


def request(port: int, line: str, body: bytes = b"", **headers: str) -> bytes:
    """A request that asks the server to hang up after the answer."""
    request_headers = {"Host": f"127.0.0.1:{port}", "Connection": "close", "Content-Length": str(len(body))}
    request_headers |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in request_headers.items())
    return f"{line} HTTP/1.1\r\n{head}\r\n".encode() + body


def valid(port: int, rng: random.Random) -> tuple[str, bytes]:
    """A request that must be answered with 200."""
    kind = rng.choice(
        [
            "GET /",
            "GET /page.js",
            "GET /api/problem",
            "POST /api/plan",
            "POST /api/plan",
            "POST /api/reward.npy",
        ]
    )
    if kind.startswith("GET"):
        return kind, request(port, kind)
    weights = [[s, round(rng.random(), 3)] for s in rng.sample(range(16), rng.randint(1, 4))]
    question = {"weights": weights, "when": rng.choice(["end", "along"]), "step": rng.randrange(8)}
    question |= {"seed": rng.randrange(2**31)}
    return kind, request(port, kind, json.dumps(question).encode(), Content_Type="application/json")


def hostile(port: int, rng: random.Random) -> tuple[str, bytes, bool]:
    """A request that must be refused or get no answer, and whether its sender waits for one."""
    ask = {"Content_Type": "application/json"}
    noise = rng.randbytes(rng.randint(1, 2000))
    cut = request(port, "POST /api/plan", b"x" * 500, **ask)
    requests = {
        "noise": (noise + b"\r\n\r\n", False),
        "noise as JSON": (request(port, "POST /api/plan", noise, **ask), True),
        "deep JSON": (request(port, "POST /api/plan", b"[" * 50_000, **ask), True),
        "too large": (request(port, "POST /api/plan", b" " * (2**20 + 1), **ask), True),
        "wrong values": (
            request(port, "POST /api/plan", b'{"weights": [[99, 1e999]], "when": "end"}', **ask),
            True,
        ),
        "another host": (request(port, "GET /", Host="evil.example"), True),
        "another origin": (request(port, "POST /api/plan", b"{}", Origin="http://evil.example", **ask), True),
        "no such page": (request(port, f"GET /{noise[:20].hex()}"), True),
        "out of the folder": (request(port, "GET /..%2f..%2fetc%2fpasswd"), True),
        "another way": (request(port, "DELETE /api/plan"), True),
        "leaves in the head": (cut[:40], False),
        "leaves in the body": (cut[:-200], False),
        "leaves before the answer": (request(port, "GET /api/problem"), False),
    }
    name = rng.choice(sorted(requests))
    return name, *requests[name]


def memory(process: "subprocess.Popen[str]") -> int:
    """Bytes that a process has in memory."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * 4096


def soak(
    process: "subprocess.Popen[str]", port: int, seconds: float, rate: float
) -> tuple[Counter[str], list[str], list[int]]:
    """Send `rate` requests a second for `seconds`: counts of requests and answers, errors, and memory over time."""
    rng, num_sent, wrong, sizes = random.Random(0), Counter[str](), list[str](), list[int]()
    start_time = time.monotonic()
    for i in range(int(seconds * rate)):
        delay = time.monotonic() - start_time
        if delay > seconds or process.poll() is not None or len(wrong) > 20:
            break
        time.sleep(max(0.0, i / rate - delay))
        if i % max(1, int(rate)) == 0:
            sizes.append(memory(process))
        if i % 2:
            name, data, is_read = hostile(port, rng)
            status = send(port, data, is_read=is_read)
            is_wrong = status in (200, 500)
        else:
            name, data = valid(port, rng)
            status = send(port, data)
            is_wrong = status != 200
        num_sent[f"{name}: {status or 'no answer'}"] += 1
        if is_wrong:
            wrong.append(f"{name} was answered with {status}")
    sizes.append(memory(process))
    return num_sent, wrong, sizes


def main() -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it, for the server too
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rate", type=float, default=50)
    args = parser.parse_args()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE], stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            assert process.stdout is not None
            address = next(x for x in iter(process.stdout.readline, "") if "http://" in x).split()[-1]
            port = urlsplit(address).port or 0
            num_sent, wrong, sizes = soak(process, port, args.seconds, args.rate)
            if process.poll() is not None:
                wrong.append(f"the server stopped with exit code {process.returncode}")
            process.send_signal(signal.SIGINT)
            if process.wait(timeout=60):
                wrong.append(f"at Ctrl-C the server ended with exit code {process.returncode}")
        finally:
            process.kill()
            process.communicate()
        errors.seek(0)
        log_text = errors.read()
    if "Traceback" in log_text:
        wrong.append(f"its terminal shows a failure:\n{log_text[-3000:]}")
    first, last = sizes[len(sizes) // 10], sizes[-1]
    if last - first > MAX_GROWTH_BYTES:
        wrong.append(f"its memory grew by {(last - first) / 2**20:.1f} MiB")
    for name, number in sorted(num_sent.items()):
        print(f"{number:7,}  {name}")
    print(
        f"{num_sent.total():,} requests; memory {first / 2**20:.1f} -> {last / 2**20:.1f} MiB; {len(wrong)} failures"
    )
    for message in wrong:
        print(message)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
