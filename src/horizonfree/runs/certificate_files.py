"""Certificates as files that anyone who has the run can check.

A file holds the statement, the bound, delta, the method, what is assumed, digests of the model and of the data, and the
question that the certificate answers: every reward, a family of rewards, one policy for one reward, or one policy for
an event. verify.py computes the certificate from a run and compares. docs/certificate-files.md has the schema.

A digest is the SHA-256 of the arrays that a certificate is computed from: of the model class with its known numbers
(and without a hidden truth), and of the evidence. No file can show that the data were gathered as the assumptions say.
"""

import base64
import hashlib
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from horizonfree import __version__
from horizonfree._validation import reading
from horizonfree.errors import OptionError, RunError
from horizonfree.guarantees.certificate import Certificate
from horizonfree.mdp.events import Event
from horizonfree.mdp.rewards import Reward
from horizonfree.models.registry import class_name
from horizonfree.models.serialization import arrays_of
from horizonfree.problems.problem import Problem
from horizonfree.runs import files, recipes

FORMAT = "horizonfree certificate 1"
KEYS = {
    "format": str,
    "statement": str,
    "bound": float,
    "delta": float,
    "method": str,
    "assumes": str,
    "holds_for": str,
    "is_rejected": bool,
    "episodes": int,
    "parts": dict,
    "question": dict,
    "model": dict,
    "data": dict,
    "versions": dict,
}
MAX_BYTES = 2**26  # of a file
KINDS = ("every reward", "rewards", "policy", "event")


@dataclass(frozen=True)
class Claim:
    """The run that a certificate was computed from, and a function that returns the question that it answers."""

    run: Any
    question: Callable[[], dict[str, Any]]

    def __reduce__(self) -> tuple[Any, ...]:
        """A certificate that goes to another process or is copied leaves its run behind: None."""
        return type(None), ()

    def save(self, certificate: Certificate, path: Any) -> None:
        """Write the certificate into a file."""
        save(certificate, self, path)


def save(certificate: Certificate, claim: Claim, path: Any) -> None:
    """Write a certificate into a JSON file."""
    run = claim.run
    content: dict[str, Any] = {
        "format": FORMAT,
        "statement": certificate.statement,
        "bound": float(certificate.eps),
        "delta": float(certificate.delta),
        "method": certificate.method,
        "assumes": certificate.assumes,
        "holds_for": certificate.holds_for,
        "is_rejected": bool(certificate.is_rejected),
        "episodes": run.episodes,
        "parts": {
            name: float(x) if math.isfinite(x) else str(float(x)) for name, x in certificate.parts.items()
        },
        "question": claim.question(),
        "model": {
            "name": run.problem.name,
            "class": class_name(run.problem.model),
            "states": run.problem.num_states,
            "actions": run.problem.num_actions,
            "horizon": run.problem.horizon,
            "digest": model_digest(run.problem),
        },
        "data": {"digest": data_digest(run.evidence)},
        "versions": recipes.versions() | {"horizonfree": __version__},
    }
    file = files.resolve_path(path)
    if not file.parent.is_dir():
        raise RunError(f"{file.parent} is no folder; make it first")
    files.write_json(file, content)


def model_digest(problem: Problem) -> str:
    """The digest of the model class, its known numbers, the start and the horizon."""
    return recipes.fingerprint(Problem(problem.model))


def data_digest(evidence: Any) -> str:
    """The digest of the evidence."""
    digest = hashlib.sha256()
    for name, x in sorted(arrays_of(evidence, "evidence.").items()):
        array = np.ascontiguousarray(x)
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def every_reward(run: Any, certificate: Certificate, method: str) -> Certificate:
    """A certificate for every reward, with its claim."""
    question = {"kind": "every reward", "method": method}
    return replace(certificate, claim=Claim(run, lambda: question))


def family(run: Any, certificate: Certificate, rewards: Any) -> Certificate:
    """A certificate for a family of rewards that has a name, with its claim."""
    if not isinstance(rewards, str):
        return certificate
    question = {"kind": "rewards", "rewards": rewards}
    return replace(certificate, claim=Claim(run, lambda: question))


def of_policy(run: Any, reward: Reward, policy: np.ndarray) -> dict[str, Any]:
    """The question about one policy for one reward."""
    table = reward.table
    if reward.occupied is not None:
        table = np.where(reward.occupied[:, :, None], table, 0.0)
    return {
        "kind": "policy",
        "reward": packed(np.asarray(table, np.float64)),
        "factor": float(reward.factor),
        "offset": float(reward.offset),
        "policy": packed(policy),
        "view": _view_of(run),
    }


def of_event(run: Any, event: Event, policy: np.ndarray) -> dict[str, Any]:
    """The question about one policy for one event."""
    return {
        "kind": "event",
        "name": event.name,
        "decided": packed(np.asarray(event.decided, np.int64)),
        "steps": event.steps,
        "pays": list(event.pays),
        "is_max": event.is_max,
        "policy": packed(policy),
        "view": _view_of(run),
    }


def _view_of(run: Any) -> dict[str, Any] | None:
    """Start and horizon of a run from `Run.restart_from`, else None."""
    if run._view is None:
        return None
    start, horizon, is_paid_after = run._view
    return {"start": packed(start), "horizon": horizon, "is_paid_after": is_paid_after}


def packed(x: np.ndarray) -> dict[str, Any]:
    """An array as JSON: its bytes in base64, compressed."""
    x = np.ascontiguousarray(x)
    text = base64.b64encode(zlib.compress(x.tobytes(), 6)).decode()
    return {"dtype": x.dtype.str, "shape": list(x.shape), "zlib": text}


def unpacked(value: Any, shapes: list[tuple[int, ...]], kinds: str) -> np.ndarray:
    """The array, of one of these shapes and kinds of numbers; nothing larger is unpacked."""
    with reading("an array of the question", "readable", KeyError, TypeError, ValueError, zlib.error):
        shape, dtype = tuple(value["shape"]), np.dtype(value["dtype"])
        if shape not in shapes or dtype.kind not in kinds:
            raise OptionError(
                f"an array of the question has shape {shape} and type {dtype}; it must be one of {shapes}"
            )
        size = math.prod(shape) * dtype.itemsize
        content = zlib.decompressobj().decompress(base64.b64decode(value["zlib"], validate=True), size + 1)
        if len(content) != size:
            raise OptionError("an array of the question has another size than it says")
        return np.frombuffer(content, dtype).reshape(shape)


def read(path: Any) -> dict[str, Any]:
    """The content of a certificate file, checked against the schema."""
    file = Path(files.resolve_path(path))
    with files.os_errors(file):
        if file.stat().st_size > MAX_BYTES:
            raise RunError(f"{file} has more than {MAX_BYTES:,} bytes; it is no certificate")
    content, _ = files.read_json(file)
    if content.get("format") != FORMAT:
        raise RunError(f"{file} is no certificate of this format: {content.get('format')!r}")
    for key, kind in KEYS.items():
        value = content.get(key)
        is_right = isinstance(value, (int, float) if kind is float else kind)
        if not is_right or (kind is not bool and isinstance(value, bool)):
            raise RunError(f"{file}: {key} is missing or of the wrong type")
    if content["question"].get("kind") not in KINDS or not 0 < content["delta"] < 1:
        raise RunError(f"{file}: the question or delta is none that can be computed")
    return content
