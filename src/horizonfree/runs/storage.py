"""Run folders: everything about a run, in files that survive a crash at any moment.

    run.json                problem, explorer with all its options, seed, versions
    arrays.npz              derived arrays of the model (all arrays without a recipe), a reward
    records.jsonl           one line per episode
    checkpoint-<k>.npz      run after k episodes, stop rule, length and CRC-32 of records.jsonl; two are kept
    lock                    held while a process explores into the folder

A checkpoint is written after its records. Records beyond it are cut off by the next one, so a killed run goes on from
its last checkpoint. Each episode has its own random key, so the run ends with the same bits as one that was never
stopped. Nothing here needs JAX: the state of the explorer is read as arrays, and restored when the run is resumed
(state.py).
"""

import dataclasses
import json
import re
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from horizonfree.errors import HorizonfreeError, RunError
from horizonfree.explorers.registry import ExplorerSpec, current_name, stored_options
from horizonfree.models.serialization import arrays_of, rebuild, under
from horizonfree.runs import files, recipes
from horizonfree.runs.observed import ObservedReward
from horizonfree.runs.run import Run
from horizonfree.runs.state import StoredState, arrays_of_state
from horizonfree.runs.until import StopRule, check_stored_rule

FORMAT = 4
OLDER_FORMATS_VERSION = "0.1.0"  # the version that reads older formats
MANIFEST, ARRAYS, RECORDS = "run.json", "arrays.npz", "records.jsonl"
NUM_CHECKPOINTS = 2  # in a folder
RULE_ARRAYS = ("targets", "zeta")  # of the stop rule
_CHECKPOINT = re.compile(r"checkpoint-(\d{10})\.npz")


class RunWarning(UserWarning):
    """A run folder was damaged but could be read up to an earlier checkpoint."""


class Mark(NamedTuple):
    """The state of records.jsonl: episodes, length and CRC-32."""

    episode: int = 0
    size: int = 0
    crc: int = 0


class Checkpoint(NamedTuple):
    """The run of a checkpoint, the mark of its records, and the versions that wrote it."""

    run: Run
    mark: Mark
    versions: dict[str, str]


def create(run: Run, path: str | PathLike[str]) -> Run:
    """Write a run into a new folder, which can be loaded only when it is complete; the run with its folder."""
    folder = files.resolve_path(path)
    _check_free(folder)
    header, arrays = _manifest(run)
    with files.new_directory(folder) as target:
        _check_free(target)
        try:
            header["arrays"] = files.write_npz(target / ARRAYS, {}, arrays)
            _write_checkpoint(target, files.json_checksum(header), run, Mark())
            files.write_json(target / MANIFEST, header)  # last: a folder without it holds no run
        except BaseException:
            for file in (target / MANIFEST, target / ARRAYS, target / RECORDS, *_checkpoints(target)):
                file.unlink(missing_ok=True)
            raise
    return dataclasses.replace(run, folder=folder)


def load(path: str | PathLike[str]) -> Run:
    """The run in a folder, as of its last checkpoint. Going on with it (`resume`) continues in the folder.

    A damaged checkpoint is skipped for the one before it, with a RunWarning; any other damaged, missing or foreign file
    is a RunError. Nothing is unpickled and no link is followed.

    >>> import tempfile, horizonfree as hf
    >>> folder = tempfile.mkdtemp()
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> run = hf.explore(problem, episodes=20, out=folder, progress=False)
    >>> hf.load(folder).episodes
    20
    """
    folder = files.resolve_path(path)
    if not folder.is_dir():
        raise RunError(f"{folder} is not a folder; give one that a run was explored or saved into")
    if not (folder / MANIFEST).exists():
        raise RunError(f"{folder} holds no run: there is no {MANIFEST} in it")
    header, arrays, run_id = _read_manifest(folder)
    try:
        run = _empty_run(header, arrays, folder)
    except HorizonfreeError:
        raise
    except Exception as error:
        raise RunError(f"{folder} is not a run that this library wrote ({error!r})") from None
    return _newest_checkpoint(folder, run, run_id, warn=True).run


@contextmanager
def checkpoint_writer(run: Run) -> Iterator[Callable[[Run], None]]:
    """A function that saves a grown run into its folder, which is locked meanwhile; it is called once on entry.

    For a run without a folder the function does nothing.
    """
    if run.folder is None:
        yield lambda new_run: None
        return
    folder = run.folder
    with files.lock(folder):
        header, run_id = files.read_json(folder / MANIFEST)
        newest = _newest_checkpoint(folder, run, run_id)
        mark = newest.mark
        if mark.episode != run.episodes:
            raise RunError(
                f"{folder} is at episode {mark.episode}, this run at {run.episodes}: load the folder again to go "
                "on with it, or save this run into another"
            )
        other = recipes.other_versions(newest.versions)
        if other:
            message = (
                f"{folder} was last written with {', '.join(other)}; results may differ in the last bits"
            )
            warnings.warn(RunWarning(message), stacklevel=7)  # the line that resumes the run
        last_saved = run

        def save(new_run: Run) -> None:
            nonlocal mark, last_saved
            _check_still_there(folder, run_id)
            mark, last_saved = _write_checkpoint(folder, run_id, new_run, mark), new_run
            valid = [path for path in _checkpoints(folder) if _episode_of(path) <= mark.episode]
            for path in set(_checkpoints(folder)) - set(valid[:NUM_CHECKPOINTS]):
                with files.os_errors(path):
                    path.unlink()

        save(run)
        yield save
        _check_still_complete(folder, run_id, header["arrays"], last_saved)


def _check_free(folder: Path) -> None:
    """An error unless the folder is new or empty."""
    with files.os_errors(folder):
        if (folder / MANIFEST).exists():
            raise RunError(f"{folder} already holds a run: resume it, or choose another folder")
        if folder.exists() and not (folder.is_dir() and files.is_empty(folder)):
            raise RunError(f"{folder} exists and is not an empty folder; choose another")


def _check_still_there(folder: Path, run_id: str) -> None:
    """An error if the folder was moved, emptied or replaced during the run."""
    if not (folder / MANIFEST).exists() or files.read_json(folder / MANIFEST)[1] != run_id:
        raise RunError(
            f"{folder} is no longer the folder that this run was explored into: it was moved, emptied or "
            "replaced; nothing more was written"
        )


def _check_still_complete(folder: Path, run_id: str, arrays: str, run: Run) -> None:
    """At the end of a run: rewrite records that were changed meanwhile; an error for other changes."""
    _check_still_there(folder, run_id)
    if files.read_npz(folder / ARRAYS)[2] != arrays:
        raise RunError(f"{folder / ARRAYS} was replaced meanwhile; restore it, then load the folder")
    try:
        _read_checkpoint(run, run_id, _path_of(folder, run.episodes))
    except (ValueError, KeyError, TypeError):
        _write_checkpoint(folder, run_id, run, Mark())


# ---- the manifest, which does not change while a run grows ----


def _manifest(run: Run) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    problem, arrays = recipes.describe(run.problem)
    explorer: dict[str, Any] | None = None
    if run.explorer_spec is not None:
        name = run.explorer_spec.name
        scalars, of_explorer = stored_options(name, run.explorer_spec.options)
        arrays |= {f"explorer.{key}": x for key, x in of_explorer.items()}
        explorer = {"name": name, "options": scalars}
    header = {
        "format": FORMAT,
        "problem": problem,
        "explorer": explorer,
        "seed": run.seed,
        "is_simulated": run.is_simulated,
        "versions": recipes.versions(),
    }
    return header, arrays


def _read_manifest(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray], str]:
    """The manifest, its arrays, and its checksum, which identifies the run in checkpoints."""
    path = folder / MANIFEST
    _check_format(path)
    header, run_id = files.read_json(path)
    _, arrays, checksum = files.read_npz(folder / ARRAYS)
    if checksum != header["arrays"]:
        raise RunError(f"{folder / ARRAYS} belongs to another run; restore the one saved with {MANIFEST}")
    return header, arrays, run_id


def _check_format(path: Path) -> None:
    """An error for another format, before the checksum is verified, which may depend on the format."""
    data = files.read_bytes(path)
    try:
        header = json.loads(data)
        number, versions = header.get("format", 0), header.get("versions", {})
    except (ValueError, AttributeError):
        raise files.damage_error(path) from None
    if number != FORMAT:
        writer = versions.get("horizonfree", "unknown") if isinstance(versions, dict) else "unknown"
        reader = OLDER_FORMATS_VERSION if isinstance(number, int) and number < FORMAT else writer
        raise RunError(
            f"{path} has format {number!r}, written by horizonfree {writer}; this version reads format {FORMAT}: use "
            f"horizonfree {reader}"
        )


def _empty_run(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], folder: Path) -> Run:
    """The run of a manifest, without evidence."""
    problem = recipes.rebuild(header["problem"], arrays, header["versions"])
    spec = None
    if header["explorer"] is not None:
        options = header["explorer"]["options"] | under(arrays, "explorer.")
        spec = ExplorerSpec(current_name(header["explorer"]["name"]), options)
    no_evidence: Any = None
    return Run(problem, spec, header["seed"], no_evidence, None, {}, header["is_simulated"], None, folder)


# ---- checkpoints ----


def _write_checkpoint(folder: Path, run_id: str, run: Run, mark: Mark) -> Mark:
    """Write the records after a mark, then the checkpoint; the new mark."""
    lines = to_lines(run, mark.episode)
    new_mark = Mark(run.episodes, mark.size + len(lines), zlib.crc32(lines, mark.crc))
    if not files.append_bytes(
        folder / RECORDS, mark.size, lines
    ):  # the file was shortened: write all records again
        lines = to_lines(run, 0)
        new_mark = Mark(run.episodes, len(lines), zlib.crc32(lines))
        files.replace_file(folder / RECORDS, lines)
    arrays = arrays_of(run.evidence, "evidence.") | arrays_of_state(run.state, "state.")
    if run.rewards is not None:
        arrays |= run.rewards.arrays("rewards.")
    stop_rule = None
    if run.until is not None:
        rule = {x.name: getattr(run.until, x.name) for x in dataclasses.fields(StopRule)}
        stop_rule = {name: x for name, x in rule.items() if name not in RULE_ARRAYS}
        arrays |= {f"until.{name}": rule[name] for name in RULE_ARRAYS if rule[name] is not None}
    header = {
        "run": run_id,
        "until": stop_rule,
        "records": {**new_mark._asdict(), "types": {name: x.dtype.str for name, x in run.records.items()}},
        "versions": recipes.versions(),
    }
    files.write_npz(_path_of(folder, run.episodes), header, arrays)
    return new_mark


def _read_checkpoint(run: Run, run_id: str, path: Path) -> Checkpoint:
    """A checkpoint, if it belongs to this run and its records are complete."""
    header, arrays, _ = files.read_npz(path)
    if header["run"] != run_id:
        raise RunError(f"{path} belongs to another run; remove it from this folder")
    mark = Mark(**{name: header["records"][name] for name in Mark._fields})
    if mark.episode != _episode_of(path):
        raise ValueError(f"it is the checkpoint of episode {mark.episode}")
    lines = files.read_bytes(path.with_name(RECORDS))[: mark.size]
    if len(lines) < mark.size or zlib.crc32(lines) != mark.crc:
        raise files.damage_error(path.with_name(RECORDS))
    evidence: Any = rebuild(run.problem.model.evidence_type, {}, under(arrays, "evidence."))
    stop_rule = None
    if header["until"] is not None:
        rule: dict[str, Any] = {name: arrays.get(f"until.{name}") for name in RULE_ARRAYS}
        stop_rule = check_stored_rule(StopRule(**header["until"], **rule), run.problem)
    state = StoredState(under(arrays, "state."), path, header["versions"])
    records = from_lines(lines, header["records"]["types"])
    rewards = ObservedReward.of_arrays(under(arrays, "rewards."))
    grown = dataclasses.replace(
        run, evidence=evidence, state=state, records=records, until=stop_rule, rewards=rewards
    )
    return Checkpoint(grown, mark, header["versions"])


def _newest_checkpoint(folder: Path, run: Run, run_id: str, *, warn: bool = False) -> Checkpoint:
    """The newest checkpoint that is complete."""
    errors: list[Exception] = []
    for path in _checkpoints(folder):
        try:
            checkpoint = _read_checkpoint(run, run_id, path)
        except Exception as error:
            if not path.exists():  # a running exploration has replaced it
                return _newest_checkpoint(folder, run, run_id, warn=warn)
            is_own = isinstance(error, RunError)
            errors.append(error if is_own else RunError(f"{path} is not a valid checkpoint ({error!r})"))
            continue
        if errors and warn:
            message = f"{errors[0]}; read up to episode {_episode_of(path)}, resuming repeats the rest"
            warnings.warn(RunWarning(message), stacklevel=3)
        return checkpoint
    raise (errors or [RunError(f"{folder} holds no checkpoint; explore again, into a new folder")])[0]


def _checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a folder, newest first."""
    with files.os_errors(folder):
        return sorted((x for x in folder.iterdir() if _CHECKPOINT.fullmatch(x.name)), reverse=True)


def _path_of(folder: Path, episode: int) -> Path:
    return folder / f"checkpoint-{episode:010d}.npz"


def _episode_of(path: Path) -> int:
    return int(path.stem.removeprefix("checkpoint-"))


# ---- records as JSON lines, one per episode ----


def to_lines(run: Run, since: int) -> bytes:
    """The records after some episodes; numbers keep every bit, infinite ones and nan become text."""
    names = list(run.records)
    columns = [run.records[name][since:].tolist() for name in names]
    episodes = zip(*columns) if names else ((),) * (run.episodes - since)
    lines = []
    for episode, numbers in enumerate(episodes, since + 1):
        entry = {name: x if abs(x) < np.inf else str(x) for name, x in zip(names, numbers)}
        lines.append(json.dumps({"episode": episode} | entry, allow_nan=False) + "\n")
    return "".join(lines).encode()


def from_lines(lines: bytes, types: Mapping[str, str]) -> dict[str, np.ndarray]:
    """The inverse of `to_lines`."""
    entries = [json.loads(line) for line in lines.splitlines()]
    records = {}
    for name, kind in types.items():
        column = np.array([float(x[name]) for x in entries]).astype(np.dtype(kind))
        column.flags.writeable = False
        records[name] = column
    return records
