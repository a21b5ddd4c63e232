"""Unified Markov binary files (UMB): reading and writing MDPs, Markov chains and interval MDPs.

A file is an archive with an index in JSON and one binary file per array, as in version 1 of the format. Nothing is
unpacked to the disk; sizes are checked before anything is read.
"""

import io
import itertools
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from horizonfree import __version__
from horizonfree._validation import reading
from horizonfree.errors import OptionError
from horizonfree.problems.verification.explicit import MAX_MODEL_SIZE, ExplicitModel, check_model, check_path

STATE_NAMES = (
    "state-names"  # key of the names of states in the index of files written here, among "parameters"
)
MAX_FILES, MAX_BYTES = 10_000, 2**31
NUMBER_BITS = {"double": 64, "double-interval": 128, "rational": 128, "rational-interval": 256}
VARIABLE_BITS = {"bool": 1, "int": 64, "uint": 64, "string": 64}


def read_umb(path: Any) -> ExplicitModel:
    """The MDP, Markov chain or interval MDP in a UMB file, compressed with gzip, xz or not at all.

    >>> import tempfile
    >>> import horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> run = hf.explore(problem, episodes=50, progress=False)
    >>> path = tempfile.mkdtemp() + "/model.umb"
    >>> run.to_umb(path)
    >>> hf.read_umb(path).num_states
    4
    """
    file = check_path(path)
    with reading(file, DAMAGED, KeyError, TypeError, AttributeError, ValueError):
        return _Reader(file, _members(file)).model()


DAMAGED = "a UMB file; its index.json is damaged"


def _members(file: Path) -> dict[str, bytes]:
    """The files of an archive by name."""
    result: dict[str, bytes] = {}
    total = 0
    with reading(f"model {file}", "a UMB archive", Exception), tarfile.open(file, "r:*") as archive:
        for member in archive:
            if not member.isfile():
                continue
            total += member.size
            if len(result) >= MAX_FILES or total > MAX_BYTES:
                raise OptionError(f"{file} holds more than {MAX_FILES:,} files or {MAX_BYTES:,} bytes")
            content = archive.extractfile(member)
            result[member.name.removeprefix("./").lstrip("/")] = b"" if content is None else content.read()
    return result


class _Reader:
    """The arrays of an archive, each checked against the sizes that the index declares."""

    def __init__(self, file: Path, members: Mapping[str, bytes]):
        self.file, self.members = file, members

    def fail(self, name: str, reason: str) -> NoReturn:
        """Refuse one file of the archive."""
        raise OptionError(f"{self.file}, {name}: {reason}")

    def index(self) -> dict[str, Any]:
        """The content of index.json."""
        if "index.json" not in self.members:
            raise OptionError(f"{self.file} has no index.json; it is no UMB file")
        try:
            result = json.loads(self.members["index.json"])
        except ValueError as error:
            self.fail("index.json", f"it is no JSON: {error}")
        if not isinstance(result, dict) or result.get("format-version") != 1:
            self.fail("index.json", "format-version must be 1")
        return result

    def numbers(self, name: str, kind: str, size: int) -> np.ndarray | None:
        """An array of a declared length; None where there is no such file."""
        content = self.members.get(name)
        if content is None:
            return None
        num_bytes = size * np.dtype(kind).itemsize
        if len(content) != num_bytes:
            self.fail(name, f"it has {len(content):,} bytes; {size:,} numbers need {num_bytes:,}")
        return np.frombuffer(content, kind)

    def bits(self, name: str, size: int) -> np.ndarray | None:
        """An array of bools."""
        integers = self.numbers(name, "<u8", -(-size // 64))
        if integers is None:
            return None
        return np.unpackbits(integers.view(np.uint8), bitorder="little")[:size].astype(bool)

    def offsets(self, name: str, size: int, end: int) -> np.ndarray:
        """The first part of each of `size` entries and the end, [size + 1]; one part each if there is no such file."""
        result = self.numbers(name, "<u8", size + 1)
        if result is None:
            return np.arange(size + 1)
        if result[0] != 0 or result[-1] != end or (result[1:] < result[:-1]).any():
            self.fail(name, f"it must rise from 0 to {end:,}")
        return result.astype(np.int64)

    def intervals(
        self, name: str, type_entry: Mapping[str, Any], size: int
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Lower and upper ends of an array of numbers or intervals; None where there is no such file."""
        kind = str(type_entry["type"])
        if kind not in NUMBER_BITS or int(type_entry.get("size", NUMBER_BITS[kind])) != NUMBER_BITS[kind]:
            self.fail("index.json", f"{name} is of type {dict(type_entry)}; supported are {NUMBER_BITS}")
        num_words = NUMBER_BITS[kind] // 64
        if kind.startswith("double"):
            result = self.numbers(name, "<f8", size * num_words)
            table = None if result is None else result.reshape(size, num_words)
        else:
            integers = self.numbers(name, "<i8", size * num_words)
            table = None if integers is None else _fractions(integers.reshape(size, -1, 2))
        if table is None:
            return None
        if not np.isfinite(table).all():
            self.fail(name, f"entry {int(np.argwhere(~np.isfinite(table))[0, 0])} is no finite number")
        return table[:, 0].astype(np.float64), table[:, -1].astype(np.float64)

    def strings(self, folder: str, size: int) -> list[str] | None:
        """The strings of a folder; None where there are none."""
        content = self.members.get(f"{folder}/strings.bin")
        if content is None or f"{folder}/string-mapping.bin" not in self.members:
            return None
        first = self.offsets(f"{folder}/string-mapping.bin", size, len(content))
        try:
            return [content[a:b].decode() for a, b in itertools.pairwise(first)]
        except UnicodeDecodeError as error:
            self.fail(f"{folder}/strings.bin", str(error))

    def model(self) -> ExplicitModel:
        """The model of the archive."""
        index = self.index()
        system = index["transition-system"]
        if system["time"] != "discrete" or int(system["#players"]) > 1 or int(system.get("#observations", 0)):
            self.fail("index.json", "only MDPs and Markov chains in discrete time are supported")
        sizes = [self.size(system, key) for key in ("#states", "#choices", "#branches")]
        S, C, B = sizes
        type_entry = system.get("branch-probability-type")
        if type_entry is None:
            self.fail("index.json", "it has no probabilities")
        prob = self.intervals("branch-to-probability.bin", type_entry, B)
        target = self.numbers("branch-to-target.bin", "<u8", B)
        if prob is None or target is None:
            self.fail("index.json", "branch-to-probability.bin or branch-to-target.bin is missing")
        if B and target.max() >= S:
            self.fail("branch-to-target.bin", f"it names state {target.max()}; states are 0 to {S - 1}")
        initial = self.bits("state-is-initial.bin", S)
        result = ExplicitModel(
            np.zeros(S, bool) if initial is None else initial,
            self.offsets("state-to-choices.bin", S, C),
            self.offsets("choice-to-branches.bin", C, B),
            target.astype(np.int64),
            *prob,
            self.actions(system, C),
            self.labels(index, S),
            self.rewards(index, "states", S),
            self.rewards(index, "choices", C),
            self.state_names(index, S),
            str(index.get("model-data", {}).get("description", "")),
        )
        return check_model(result, str(self.file))

    def size(self, system: Mapping[str, Any], key: str) -> int:
        """A declared number of states, choices, branches or actions."""
        value = system[key]
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_MODEL_SIZE:
            self.fail(
                "index.json", f"{key} is {str(value)[:30]}; it must be a number up to {MAX_MODEL_SIZE:,}"
            )
        return value

    def actions(self, system: Mapping[str, Any], C: int) -> Sequence[str]:
        """The name of each choice."""
        size = self.size(system, "#choice-actions")
        names = self.strings("actions/choices", size) if size else None
        if names is None:
            return ()
        which = self.numbers("actions/choices/values.bin", "<u4", C)
        which = np.zeros(C, np.uint32) if which is None else which
        if C and which.max() >= size:
            self.fail("actions/choices/values.bin", f"it names action {which.max()} of {size}")
        return [names[i] for i in which] if any(names) else ()

    def annotations(self, index: Mapping[str, Any], group: str, entity: str) -> dict[str, tuple[str, Any]]:
        """File and type of each annotation of a group for "states", "choices" or "branches", by name."""
        result = index.get("annotations", {}).get(group, {})
        return {
            str(x.get("alias", key)): (f"annotations/{group}/{key}/{entity}/values.bin", x["type"])
            for key, x in result.items()
            if entity in x["applies-to"]
        }

    def labels(self, index: Mapping[str, Any], S: int) -> dict[str, np.ndarray]:
        """Sets of states; a missing file is the empty set."""
        result = {}
        for name, (file, _) in self.annotations(index, "aps", "states").items():
            mask = self.bits(file, S)
            if name != "init":
                result[name] = np.zeros(S, bool) if mask is None else mask
        return result

    def rewards(self, index: Mapping[str, Any], entity: str, size: int) -> dict[str, np.ndarray]:
        """Rewards of states or choices; those of branches are refused."""
        branches = self.annotations(index, "rewards", "branches")
        if branches:
            self.fail(
                "index.json", f"reward {next(iter(branches))!r} is paid for branches, which is not supported"
            )
        result = {}
        for name, (file, kind) in self.annotations(index, "rewards", entity).items():
            values = self.intervals(file, kind, size)
            if values is not None:
                if not np.array_equal(*values):
                    self.fail(file, "rewards that are intervals are not supported")
                result[name] = values[0]
        return result

    def state_names(self, index: Mapping[str, Any], S: int) -> Sequence[str]:
        """The values of the variables of each state, or its name where that is the only variable."""
        parameters = index.get("file-data", {}).get("parameters")
        if (
            isinstance(parameters, dict)
            and isinstance(parameters.get(STATE_NAMES), list)
            and len(parameters[STATE_NAMES]) == S
        ):
            return [str(x) for x in parameters[STATE_NAMES]]
        valuations = index.get("valuations", {}).get("states")
        content = self.members.get("valuations/states/valuations.bin")
        if valuations is None or content is None or len(valuations["classes"]) != 1:
            return ()
        variables = valuations["classes"][0]["variables"]
        widths = [_width(x) for x in variables]
        total = sum(widths)
        if total % 8 or len(content) * 8 != total * S:
            self.fail("valuations/states/valuations.bin", f"it has {len(content):,} bytes for {S:,} states")
        bits = np.unpackbits(np.frombuffer(content, np.uint8).reshape(S, -1), axis=1, bitorder="little")
        names = self.strings("valuations/states", int(valuations.get("#strings", 0))) or []
        parts: list[list[str]] = []
        start = 0
        for variable, width in zip(variables, widths):
            if "name" in variable:
                text = _values(bits[:, start : start + width], variable, names)
                is_only = len(variables) == 1 and variable["type"]["type"] == "string"
                parts.append(text if is_only else [f"{variable['name']}={x}" for x in text])
            start += width
        result = [" & ".join(x) for x in zip(*parts)]
        return result if len(set(result)) == S and all(result) else ()


def _fractions(x: np.ndarray) -> np.ndarray:
    """Pairs of a signed numerator and an unsigned denominator as floats."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(x[..., 0] / x[..., 1].view(np.uint64))


def _width(variable: Mapping[str, Any]) -> int:
    """Bits of a variable, or of padding."""
    if "padding" in variable:
        return int(variable["padding"])
    kind = variable["type"]
    if kind["type"] not in VARIABLE_BITS or variable.get("is-optional"):
        raise OptionError(
            f"variable {variable.get('name')!r} is of a type that is not supported: {dict(kind)}"
        )
    width = int(kind.get("size", VARIABLE_BITS[kind["type"]]))
    if not 1 <= width <= 64:
        raise OptionError(f"variable {variable.get('name')!r} has {width} bits; 1 to 64 are supported")
    return width


def _values(bits: np.ndarray, variable: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """The values of one variable, as text."""
    kind, width = variable["type"]["type"], bits.shape[1]
    integers = [int(x) for x in bits.astype(object) @ (1 << np.arange(width).astype(object))]
    if kind == "bool":
        return ["true" if x else "false" for x in integers]
    if kind == "string":
        if max(integers, default=0) >= len(names):
            raise OptionError(f"variable {variable.get('name')!r} names text {max(integers)} of {len(names)}")
        return [names[x] for x in integers]
    if kind == "int":
        integers = [x - (1 << width) if x >> (width - 1) else x for x in integers]
    return [str(x + int(variable.get("offset", 0))) for x in integers]


def write_umb(model: ExplicitModel, path: Any) -> None:
    """An MDP or an interval MDP as an uncompressed UMB file."""
    files = {
        "state-to-choices.bin": model.first_choice.astype("<u8"),
        "state-is-initial.bin": _pack_bits(model.initial),
        "choice-to-branches.bin": model.first_branch.astype("<u8"),
        "branch-to-target.bin": model.target.astype("<u8"),
        "branch-to-probability.bin": (
            np.stack([model.low, model.high], 1) if model.is_interval else model.low
        ).astype("<f8"),
    }
    kind = "double-interval" if model.is_interval else "double"
    actions = sorted(set(model.actions))
    system = {
        "time": "discrete",
        "#players": 1,
        "#states": model.num_states,
        "#initial-states": int(model.initial.sum()),
        "#choices": model.num_choices,
        "#choice-actions": len(actions),
        "#branches": len(model.target),
        "#branch-actions": 0,
        "#observations": 0,
        "branch-probability-type": {"type": kind, "size": NUMBER_BITS[kind]},
    }
    if actions:
        index = {name: i for i, name in enumerate(actions)}
        files["actions/choices/values.bin"] = np.array([index[x] for x in model.actions], "<u4")
        files |= _strings("actions/choices", actions)
    aps, rewards = {}, {}
    for i, (name, mask) in enumerate(model.labels.items()):
        aps[f"label-{i}"] = {"alias": name, "applies-to": ["states"], "type": {"type": "bool", "size": 1}}
        files[f"annotations/aps/label-{i}/states/values.bin"] = _pack_bits(mask)
    for i, name in enumerate(model.reward_names):
        parts = {"states": model.state_rewards, "choices": model.choice_rewards}
        entities = [entity for entity, values in parts.items() if name in values]
        rewards[f"reward-{i}"] = {
            "alias": name,
            "applies-to": entities,
            "type": {"type": "double", "size": 64},
        }
        for entity in entities:
            files[f"annotations/rewards/reward-{i}/{entity}/values.bin"] = parts[entity][name].astype("<f8")
    content: dict[str, Any] = {
        "format-version": 1,
        "format-revision": 0,
        "model-data": {"description": model.description},
        "file-data": {"tool": "horizonfree", "tool-version": __version__},
        "transition-system": system,
        "annotations": {key: x for key, x in (("aps", aps), ("rewards", rewards)) if x},
    }
    if model.states:  # Storm 2.0 reads no valuations that are text
        content["file-data"]["parameters"] = {STATE_NAMES: list(model.states)}
    _archive(check_path(path), {"index.json": json.dumps(content, indent=1).encode(), **files})


def _pack_bits(mask: np.ndarray) -> np.ndarray:
    """Bools as bits, in words of 64."""
    bits = np.zeros(-(-len(mask) // 64) * 64, bool)
    bits[: len(mask)] = mask
    return np.packbits(bits, bitorder="little")


def _strings(folder: str, names: Sequence[str]) -> dict[str, Any]:
    """Texts and where each begins."""
    parts = [name.encode() for name in names]
    first = np.cumsum([0, *map(len, parts)]).astype("<u8")
    return {f"{folder}/string-mapping.bin": first, f"{folder}/strings.bin": b"".join(parts)}


def _archive(path: Path, files: Mapping[str, Any]) -> None:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, x in files.items():
            content = x if isinstance(x, bytes) else np.ascontiguousarray(x).tobytes()
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
