"""What a stored run answers without JAX: `answers.npz`, the world of its last checkpoint at one confidence.

The command line writes it when it has explored a run, or has planned with one that had none, and reads it instead of
the run: a plan with all its bounds is computed in NumPy, by the same formulas. It belongs to one checkpoint of one run,
whose seals it carries, to one delta, and to one version of the library; where any of them differs, or the file is
damaged, it is as if it were not there. Nothing else depends on it: it may be deleted at any time.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from horizonfree import __version__
from horizonfree._arrays import leaf
from horizonfree.guarantees.certificate import Certificate
from horizonfree.mdp.space import Kernel, check_kernel
from horizonfree.models.plain import under
from horizonfree.models.said import Said
from horizonfree.models.world import World
from horizonfree.models.worlds import kernel_of, world_of
from horizonfree.planning.induction import best_plan, policy_values
from horizonfree.runs import sealed
from horizonfree.runs.answers import Answers, Policies, Table
from horizonfree.runs.checkpoints import MANIFEST, checkpoints, episode_of, read_checkpoint

FORMAT = 3  # rises when worlds, or what is said of them, change
NAME, ASIDE = "answers.npz", ".partial-answers"


class Kept(NamedTuple):
    """The answers of a run at one confidence, its certificate for every reward, and its episodes."""

    answers: Answers
    certificate: Certificate
    episodes: int


class Tie(NamedTuple):
    """What the answers of a folder belong to: its run and its last checkpoint, by their seals."""

    run: str
    checkpoint: str
    episodes: int


def tie(folder: Path) -> tuple[Tie, dict[str, np.ndarray]]:
    """Of a folder as it is now, with the arrays of its last checkpoint; an error where that is not whole."""
    seal = sealed.read_json(folder / MANIFEST)[1]
    newest = checkpoints(folder)[0]
    arrays = read_checkpoint(seal, newest)[1]
    return Tie(seal, sealed.seal_in(newest), episode_of(newest)), arrays


def read(path: Any, delta: float) -> Kept | None:
    """What is kept in a folder for this delta, by this version; None where nothing is that can be used."""
    try:
        folder = sealed.place(path)
        header, arrays, _ = sealed.read_npz(folder / NAME)
        if header["format"] != FORMAT or header["version"] != __version__ or header["said"]["delta"] != delta:
            return None
        if Tie(**header["tie"]) != tie(folder)[0]:
            return None
        arrays |= {name: arrays[other] for name, other in header["same"].items()}
        return _kept(header, arrays)
    except Exception:  # a seal is no signature: anything may be under it; the run itself is read instead
        return None


def _kept(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Kept:
    world = world_of(header["class"], header["world"], under(arrays, "world."))
    kernel, centre = (
        kernel_of(world, header["kernel"], under(arrays, f"{name}.")) for name in ("kernel", "centre")
    )
    words, (S, A, n) = header["said"], world.space.succ.shape
    said = Said(
        delta=float(words["delta"]),
        rounding=float(words["rounding"]),
        is_refuted=bool(words["is_refuted"]),
        parts=dict(zip(words["parts"], arrays["parts"].tolist(), strict=True)),
        refutation=lambda: str(words["refutation"]),
        missing=lambda: str(words["missing"]),
        start=str(words["start"]),
        assumes=str(words["assumes"]),
    )
    truth = None
    if "truth" in arrays:
        truth = world.space.kernel(leaf(arrays["truth"].reshape(S, A, n)))
        check_kernel(truth)
    plain = header["certificate"]
    parts = dict(zip(plain["parts"], arrays["certificate"].tolist(), strict=True))
    certificate = Certificate(**{**plain, "parts": parts})
    layout = header["layout"] | under(arrays, "layout.")
    found = replace(in_numpy(world, kernel, centre, said, truth), layout=layout)
    return Kept(found, certificate, int(header["tie"]["episodes"]))


def in_numpy(
    world: World, kernel: Kernel, centre: Kernel, said: Said, truth: Kernel | None = None
) -> Answers:
    """Answers that need no JAX."""

    def values(kernel: Kernel, table: Table, policy: np.ndarray) -> np.ndarray:
        return np.asarray(policy_values(kernel, leaf(table), leaf(policy)))

    @np.errstate(all="ignore")  # infinite divergences, as in compiled code
    def bounds(table: np.ndarray, policy: np.ndarray) -> Any:
        return world.bounds(leaf(table), leaf(policy))

    @np.errstate(all="ignore")
    def difference(table: np.ndarray, policies: Policies) -> tuple[float, float]:
        low, high = world.difference(leaf(table), (leaf(policies[0]), leaf(policies[1])))
        return float(low), float(high)

    return Answers(world.space, kernel, centre, said, best_plan, values, bounds, difference, truth)
