"""Run folders: everything about a run, in files that survive a crash at any moment.

    run.json                what is explored and how: problem, explorer with all its options, seed, versions
    arrays.npz              its arrays: what was derived of the model (all of it without a recipe), a reward
    records.jsonl           one line per episode
    checkpoint-<k>.npz      the run after k episodes, its end, and the length and CRC-32 of records.jsonl; two are kept
    answers.npz             what the last checkpoint says at one confidence, for the shell; may be deleted (kept.py)
    lock                    held while someone explores into the folder

A checkpoint is written after the records that it speaks of. Records beyond it are cut off by the next one, so a run
that was killed goes on from its last checkpoint as if nothing had happened. Each episode draws from its own random
key, so it ends with the same bits as a run that was never stopped.
"""

import dataclasses
import os
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from horizonfree._x64 import to_device, x64
from horizonfree.errors import HorizonfreeError, RunError
from horizonfree.explorers.interface import Explorer
from horizonfree.explorers.loop import Progress, begin
from horizonfree.explorers.registry import EXPLORERS, describe, make_explorer
from horizonfree.guarantees.bets import Bets
from horizonfree.models.interface import Model
from horizonfree.models.plain import arrays_of, path_name, under
from horizonfree.runs import recipes, sealed
from horizonfree.runs.checkpoints import (
    ARRAYS,
    FORMAT,
    MANIFEST,
    RECORDS,
    Mark,
    check_format,
    checkpoints,
    episode_of,
    path_of,
    read_checkpoint,
)
from horizonfree.runs.manifest import check_manifest
from horizonfree.runs.part import part_with
from horizonfree.runs.ranges import check_progress
from horizonfree.runs.records import from_lines, to_lines
from horizonfree.runs.run import Run
from horizonfree.runs.until import Until, checked

CHECKPOINTS = 2  # that are kept
SHAPES = 64  # of runs that are remembered
END = ("targets", "zeta")  # arrays of the end that was asked for
_T = TypeVar("_T")


class RunWarning(UserWarning):
    """A run folder was damaged but could be read up to an earlier checkpoint."""


def create(run: Run, path: str | os.PathLike[str]) -> Run:
    """A new folder that holds the run, whole before it can be loaded. Returns the run as living there."""
    folder = sealed.place(path)
    _check_free(folder)
    header, arrays = _manifest(run)
    with sealed.begun(folder) as held:
        _check_free(held)
        try:
            header["arrays"] = sealed.write_npz(held / ARRAYS, {}, arrays)
            _checkpoint(held, sealed.seal_of(header), run, Mark())
            sealed.write_json(held / MANIFEST, header)  # last: a folder without it holds no run
        except BaseException:
            for file in (held / MANIFEST, held / ARRAYS, held / RECORDS, *checkpoints(held)):
                file.unlink(missing_ok=True)
            raise
    return dataclasses.replace(run, folder=folder)


def _check_free(folder: Path) -> None:
    """Refuse what is neither new nor an empty folder."""
    with sealed.told(folder):
        if (folder / MANIFEST).exists():
            raise RunError(f"{folder} already holds a run: resume it, or choose another folder")
        if folder.exists() and not (folder.is_dir() and sealed.is_blank(folder)):
            raise RunError(f"{folder} exists and is not an empty folder; choose another")


@x64
def load(path: str | os.PathLike[str]) -> Run:
    """The run in a folder, as of its last checkpoint. Going on with it (`resume`) continues in the folder.

    Nothing is unpickled and no link is followed. A damaged checkpoint is passed over for the one before it, with a
    RunWarning; anything else that is damaged, missing, or of another version is a RunError.
    """
    folder = sealed.place(path)
    if not folder.is_dir():
        raise RunError(f"{folder} is not a folder; give one that a run was explored or saved into")
    if not (folder / MANIFEST).exists():
        raise RunError(f"{folder} holds no run: there is no {MANIFEST} in it")
    header, seal = sealed.read_json(folder / MANIFEST)
    check_format(folder / MANIFEST, header)
    _, arrays, found = sealed.read_npz(folder / ARRAYS)
    if found != header.get("arrays"):
        raise RunError(f"{folder / ARRAYS} belongs to another run; restore the one saved with {MANIFEST}")
    try:
        run = _begun(header, arrays, folder)
    except Exception as error:  # a seal is no signature: anything may be under it
        if isinstance(error, HorizonfreeError):
            raise
        raise RunError(f"{folder} is not a run that this library wrote ({error!r})") from None
    return _newest(folder, lambda checkpoint: _restored(run, seal, checkpoint), is_told=True)[0]


@contextmanager
def writing(run: Run) -> Iterator[Callable[[Run], None]]:
    """A function that saves a run, grown by episodes, into its folder, which is held meanwhile; first the run itself.

    For a run without a folder it does nothing.
    """
    if run.folder is None:
        yield lambda now: None
        return
    folder = run.folder
    with sealed.locked(folder):
        manifest, seal = sealed.read_json(folder / MANIFEST)
        _, versions, mark = _newest(folder, lambda checkpoint: _restored(run, seal, checkpoint))
        if mark.episode != run.episodes:
            raise RunError(
                f"{folder} stands at episode {mark.episode}, this run at {run.episodes}: load the folder again to go "
                "on with it, or save this run into another"
            )
        other = recipes.other_versions(versions)
        if other:
            words = f"{folder} was last written with {', '.join(other)}; it goes on, perhaps to other bits"
            warnings.warn(RunWarning(words), stacklevel=4)
        saved = run

        def save(now: Run) -> None:
            nonlocal mark, saved
            _check_still_there(folder, seal)
            mark, saved = _checkpoint(folder, seal, now, mark), now
            newest = [path for path in checkpoints(folder) if episode_of(path) <= mark.episode]
            for path in set(checkpoints(folder)) - set(newest[:CHECKPOINTS]):
                with sealed.told(path):
                    path.unlink()

        save(run)
        yield save
        _check_still_whole(folder, seal, manifest["arrays"], saved)


def _check_still_there(folder: Path, seal: str) -> None:
    """Refuse a folder that was moved away, emptied, or replaced under a run that goes on."""
    if not (folder / MANIFEST).exists() or sealed.read_json(folder / MANIFEST)[1] != seal:
        raise RunError(
            f"{folder} is no longer the folder that this run was explored into: somebody moved, emptied or replaced "
            "it; nothing more was written"
        )


def _check_still_whole(folder: Path, seal: str, arrays: str, run: Run) -> None:
    """At the end of a run: what somebody did to its records meanwhile is made good, anything else is refused."""
    _check_still_there(folder, seal)
    if sealed.read_npz(folder / ARRAYS)[2] != arrays:
        raise RunError(f"{folder / ARRAYS} was replaced meanwhile; restore it, then load the folder")
    try:
        read_checkpoint(seal, path_of(folder, run.episodes))
    except (ValueError, KeyError, TypeError):
        _checkpoint(folder, seal, run, Mark())


def settings(run: Run) -> dict[str, Any]:
    """What a run explores and how, as it is written into run.json: problem, explorer, options, seed, versions."""
    return _manifest(run)[0]


def _manifest(run: Run) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Everything that does not change while a run grows."""
    problem, arrays = recipes.describe(run.problem)
    explorer: dict[str, Any] | None = None
    if run.explorer is not None:
        name, options = describe(run.explorer)
        if name not in EXPLORERS:
            raise RunError(
                f"explorer {name} has no name in EXPLORERS, so a stored run could not find it again"
            )
        plain = {key: x for key, x in options.items() if not isinstance(x, np.ndarray)}
        arrays |= {f"explorer.{key}": x for key, x in options.items() if isinstance(x, np.ndarray)}
        explorer = {"name": name, "options": plain}
    header = {
        "format": FORMAT,
        "problem": problem,
        "explorer": explorer,
        "seed": run.seed,
        "is_simulated": run.is_simulated,
        "versions": recipes.versions(),
    }
    return header, arrays


def _begun(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], folder: Path) -> Run:
    """The run of a manifest, before its first episode and without a state."""
    check_manifest(folder / MANIFEST, header)
    problem = recipes.rebuild(header["problem"], arrays, header["versions"])
    explorer = None
    if header["explorer"] is not None:
        options = header["explorer"]["options"] | under(arrays, "explorer.")
        explorer = make_explorer(header["explorer"]["name"], **options)
    nothing = Progress(np.asarray(0, np.int32), None, None)  # a checkpoint fills it in
    return Run(problem, explorer, header["seed"], nothing, {}, header["is_simulated"], None, folder)


def _checkpoint(folder: Path, seal: str, run: Run, mark: Mark) -> Mark:
    """Write the records after a mark, then the checkpoint that speaks of them; returns the new mark."""
    lines = to_lines(run, mark.episode)
    after = Mark(run.episodes, mark.size + len(lines), zlib.crc32(lines, mark.crc))
    if not sealed.extend(folder / RECORDS, mark.size, lines):  # cut or removed by someone: all of it is here
        lines = to_lines(run, 0)
        after = Mark(run.episodes, len(lines), zlib.crc32(lines))
        sealed.replace(folder / RECORDS, lines)
    until, arrays = None, arrays_of(run.progress)
    if run.until is not None:
        end = {x.name: getattr(run.until, x.name) for x in dataclasses.fields(Until)}
        until = {name: x for name, x in end.items() if name not in END}
        arrays |= {f"until.{name}": end[name] for name in END if end[name] is not None}
    header = {
        "format": FORMAT,
        "run": seal,
        "until": until,
        "records": {**after._asdict(), "types": {name: x.dtype.str for name, x in run.records.items()}},
        "versions": recipes.versions(),
    }
    sealed.write_npz(path_of(folder, run.episodes), header, arrays)
    return after


def _restored(run: Run, seal: str, path: Path) -> tuple[Run, dict[str, str], Mark]:
    """The run of a checkpoint: its state is filled, leaf by leaf, into the shape that the explorer gives it.

    With it the versions that wrote it, and how far it has come.
    """
    header, arrays, mark, lines = read_checkpoint(seal, path)
    part = part_with(run.problem, run.explorer, len(arrays["evidence.counts"]))
    world = run.explorer, (part or run.problem).model
    bets = (tuple(arrays[f"evidence.{name}"].tolist()) for name in ("starts", "weights"))
    rest = *bets, bool(under(arrays, "evidence.record."))  # members of batches and older folders have none

    def first() -> Progress:
        return _first(*to_device(world), *rest)

    as_shape: Any = jax.ShapeDtypeStruct  # which has no types
    shapes = jax.tree.map(lambda x: as_shape(x.shape, x.dtype) if eqx.is_array(x) else x, world)
    parts, tree = jax.tree.flatten(shapes)
    leaves, shape = jax.tree_util.tree_flatten_with_path(_first_shapes(tree, tuple(parts), *rest))
    filled = []
    for where, leaf in leaves:
        name = path_name(where)
        stored = arrays.get(name)
        if stored is None or stored.shape != leaf.shape or stored.dtype != leaf.dtype:
            there = "nothing" if stored is None else f"{stored.dtype}{list(stored.shape)}"
            raise RunError(
                f"{path}: {name} is {there}, but this version of the library keeps {leaf.dtype}{list(leaf.shape)} "
                f"there; go on with the version that wrote it, {header['versions'].get('horizonfree')}"
            )
        filled.append(stored)
    until = None
    if header["until"] is not None:
        found: dict[str, Any] = {name: arrays.get(f"until.{name}") for name in END}
        until = checked(Until(**header["until"], **found), run.problem)
    progress = jax.tree_util.tree_unflatten(shape, filled)
    check_progress(progress, mark.episode, run.problem.num_actions, first)
    records = from_lines(lines, header["records"]["types"], mark.episode)
    grown = dataclasses.replace(run, progress=progress, records=records, until=until, part=part)
    return grown, header["versions"], mark


def _first(
    explorer: Explorer | None,
    model: Model,
    starts: tuple[int, ...],
    weights: tuple[float, ...],
    is_recorded: bool,
) -> Progress:
    """Before the first episode, with bets of these starts and weights."""
    nothing = model.nothing(Bets(np.array(starts), np.array(weights)))
    if is_recorded:
        nothing = model.recorded(nothing)
    if explorer is None:
        return Progress(jnp.int32(0), None, nothing)
    return begin(explorer, model, nothing)


@lru_cache(maxsize=SHAPES)
def _first_shapes(tree: Any, parts: tuple[Any, ...], *rest: Any) -> Progress:
    """The shapes of `_first`, of an explorer and a model whose arrays are shapes; traced once for all runs of them."""
    shapes: Progress = eqx.filter_eval_shape(_first, *jax.tree.unflatten(tree, parts), *rest)
    return shapes


def _newest(folder: Path, read: Callable[[Path], _T], *, is_told: bool = False) -> _T:
    """What the newest checkpoint that is whole says."""
    refused: list[Exception] = []
    for path in checkpoints(folder):
        try:
            found = read(path)
        except Exception as error:  # a seal is no signature: anything may be under it
            if not path.exists():  # an exploration that is under way has put newer ones in its place
                return _newest(folder, read, is_told=is_told)
            is_clear = isinstance(error, RunError)
            refused.append(error if is_clear else RunError(f"{path} is not a checkpoint of ours ({error!r})"))
            continue
        if refused and is_told:
            words = f"{refused[0]}; read up to episode {episode_of(path)}, and resuming makes the rest again"
            warnings.warn(RunWarning(words), stacklevel=4)
        return found
    raise (refused or [RunError(f"{folder} holds no checkpoint; explore again, into a new folder")])[0]
