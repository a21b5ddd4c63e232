"""Certificates as files that anyone who has the run can check.

A file holds the statement, the bound, delta, the method, what is assumed, digests of the model and of the data, and the
question that the certificate answers: every reward, a family of rewards, one policy for one reward, or one policy for
an event. `verify` computes the certificate again from a run and compares. docs/certificate-files.md has the schema.

A digest is the SHA-256 of the arrays that a certificate is computed from: of the model class with its known numbers
(and without a hidden truth), and of the evidence. That the data were gathered as the assumptions say no file can show.
"""

import base64
import binascii
import hashlib
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from horizonfree import __version__
from horizonfree._repr import ReprMixin, Summary
from horizonfree.errors import OptionError, RunError
from horizonfree.guarantees.certificate import Certificate
from horizonfree.mdp.events import Event, Worth
from horizonfree.mdp.rewards import Reward
from horizonfree.models.registry import class_name
from horizonfree.models.serialization import arrays_of
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
TOLERANCE = 1e-9  # relative, by which another machine may round otherwise
MOST_BYTES = 2**26  # of a file
KINDS = ("every reward", "rewards", "policy", "event")


@dataclass(frozen=True)
class Claim:
    """The run that a certificate was computed from, and a function that returns the question that it answers."""

    run: Any
    question: Callable[[], dict[str, Any]]

    def save(self, certificate: Certificate, path: Any) -> None:
        """Write the certificate into a file."""
        save(certificate, self, path)


@dataclass(frozen=True, repr=False)
class Verification(ReprMixin):
    """What `verify` found: `bound` as computed again, and a sentence for everything that does not agree."""

    is_confirmed: bool
    bound: float
    claimed: float
    statement: str
    differences: tuple[str, ...]

    def card(self) -> Summary:
        """The verdict and its reasons."""
        verdict = "confirmed" if self.is_confirmed else "not confirmed"
        lines = [("verdict", verdict), ("statement", self.statement)]
        lines.append(("bound", f"{self.claimed:.6g} in the file, {self.bound:.6g} computed again"))
        return Summary("Verification", [*lines, *(("differs", x) for x in self.differences)])


def save(certificate: Certificate, claim: Claim, path: Any) -> None:
    """Write a certificate into a JSON file."""
    run = claim.run
    content: dict[str, Any] = {
        "format": FORMAT,
        "statement": certificate.words,
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


def model_digest(problem: Any) -> str:
    """Of what a learner may know of a problem, its start and its horizon."""
    return recipes.fingerprint(replace(problem, truth=None))


def data_digest(evidence: Any) -> str:
    """Of everything that was learnt from the episodes."""
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


def of_policy(run: Any, checked: Reward, policy: np.ndarray) -> dict[str, Any]:
    """The question about one policy for one reward."""
    table = checked.table
    if checked.occupied is not None:
        table = np.where(checked.occupied[:, :, None], table, 0.0)
    return {
        "kind": "policy",
        "reward": packed(np.asarray(table, np.float64)),
        "factor": float(checked.factor),
        "offset": float(checked.offset),
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
    """Start and horizon of a run that is seen from elsewhere."""
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
    try:
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
    except (KeyError, TypeError, ValueError, zlib.error, binascii.Error) as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"an array of the question is damaged: {error}") from None


def read(path: Any) -> dict[str, Any]:
    """The content of a certificate file, checked against the schema."""
    file = Path(files.resolve_path(path))
    with files.os_errors(file):
        if file.stat().st_size > MOST_BYTES:
            raise RunError(f"{file} has more than {MOST_BYTES:,} bytes; it is no certificate")
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


def verify(path: Any, run: Any) -> Verification:
    """Compute the certificate of a file again from a run, and compare everything that it says."""
    content = read(path)
    question, sizes = (
        content["question"],
        {"states": run.problem.num_states, "actions": run.problem.num_actions},
    )
    other = [key for key, size in sizes.items() if content["model"].get(key) != size]
    if other:
        words = (
            f"the run has {sizes[other[0]]} {other[0]}, the file speaks of {content['model'].get(other[0])}"
        )
        return Verification(False, math.nan, float(content["bound"]), "not computed again", (words,))
    there = _view(run, question.get("view"))
    found = _again(run, there, question, content)
    bound, claimed = float(found.eps), float(content["bound"])
    digests = {
        "model": (content["model"].get("digest"), model_digest(there.problem)),
        "data": (content["data"].get("digest"), data_digest(run.evidence)),
    }
    differences = [
        f"the {name} of the run is another one than that of the file (digest {str(a)[:12]}..., here {b[:12]}...)"
        for name, (a, b) in digests.items()
        if a != b
    ]
    if not bound <= claimed * (1 + TOLERANCE) + 1e-15:
        differences.append(f"the bound is {bound:.9g}, more than the {claimed:.9g} of the file")
    texts = {"statement": found.words, "assumes": found.assumes, "holds_for": found.holds_for}
    texts["method"] = found.method
    differences += [
        f"{key} is {text!r}, in the file {content[key]!r}"
        for key, text in texts.items()
        if text != content[key]
    ]
    if found.is_rejected != content["is_rejected"]:
        differences.append(
            "the data refute the model class" if found.is_rejected else "the class is not refuted"
        )
    if run.episodes != content["episodes"]:
        differences.append(
            f"the run has {run.episodes:,} episodes, the file speaks of {content['episodes']:,}"
        )
    return Verification(not differences, bound, claimed, found.words, tuple(differences))


def _view(run: Any, view: Any) -> Any:
    """The run as seen from where the certificate starts."""
    if view is None:
        return run
    try:
        start = unpacked(view["start"], [(run.problem.num_states,)], "f")
        horizon, is_paid_after = view["horizon"], view["is_paid_after"]
    except OptionError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise OptionError(f"the view of the question is damaged: {error}") from None
    return run.seen_from(start, horizon, is_paid_after=bool(is_paid_after))


def _again(run: Any, there: Any, question: Mapping[str, Any], content: Mapping[str, Any]) -> Certificate:
    """The certificate of the question."""
    delta = float(content["delta"])
    H, S, A = there.problem.space.sizes
    if question["kind"] == "every reward":
        return run.certificate(delta, method=str(question.get("method")))
    if question["kind"] == "rewards":
        return run.certificate(delta, rewards=str(question.get("rewards")), progress=False)
    try:
        if question["kind"] == "policy":
            policy = unpacked(question["policy"], [(H, S), (H, S, A)], "if")
            table = unpacked(question["reward"], [(H, S, A)], "f")
            reward = Reward(table, float(question["factor"]), float(question["offset"]))
            return there.evaluate(reward, policy, delta=delta).certificate
        steps = int(question["steps"])
        policy = unpacked(question["policy"], [(steps, S), (steps, S, A)], "if")
        decided = unpacked(question["decided"], [(S,)], "i")
        worth = Worth(*(float(x) for x in question["pays"]))
        is_max, name = bool(question["is_max"]), str(question["name"])
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"the question is damaged: {error}") from None
    if not (np.isin(decided, (0, 1, 2)).all() and set(worth) <= {0.0, 1.0}):
        raise OptionError("the event of the question is none: outcomes are 0, 1 or 2, and worth 0 or 1")
    from horizonfree.runs.properties import answer

    event = Event(decided, steps, worth, is_max, name)
    return answer(run, event, policy, delta=delta, start=np.asarray(there.problem.start)).certificate
