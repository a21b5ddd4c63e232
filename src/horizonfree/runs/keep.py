"""Keep what a stored run says at one confidence, so that the shell can plan without JAX (kept.py)."""

from dataclasses import asdict, replace
from typing import Any

import numpy as np

from horizonfree import __version__
from horizonfree._x64 import to_numpy
from horizonfree.errors import HorizonfreeError
from horizonfree.models.plain import arrays_of, statics_of
from horizonfree.models.registry import class_name
from horizonfree.runs import kept, sealed
from horizonfree.runs.answers import Answers
from horizonfree.runs.recipes import laid_out
from horizonfree.runs.run import Run

MOST_BYTES = 2**25  # to plan in NumPy with more would take longer than to load JAX


def answers(run: Run, delta: float, misspecification: float = 0.0) -> Answers:
    """What a run answers, with the truth where it is known: a real environment need not have the one of its class."""
    is_known = run.is_simulated and run.problem.truth is not None
    return replace(run.answers(delta, misspecification), truth=run.core.kernel() if is_known else None)


def keep(run: Run, delta: float) -> None:
    """Keep the answers of a run in its folder, where it is the run that the folder's last checkpoint speaks of.

    Where the folder cannot be written, or has gone on, nothing is kept: answers are only slower then.
    """
    if run.folder is None or run.part is not None or run.problem.sampling is not None:
        return
    header, arrays = _described(run, delta)
    if sum(x.nbytes for x in arrays.values()) > MOST_BYTES:
        return
    try:
        tie, stored = kept.tie(run.folder)
        if not all(
            np.array_equal(stored[f"evidence.{name}"], x) for name, x in arrays_of(run.evidence).items()
        ):
            return
        header |= {"format": kept.FORMAT, "version": __version__, "tie": tie._asdict()}
        sealed.write_npz(run.folder / kept.NAME, header, arrays, kept.ASIDE)
    except (OSError, HorizonfreeError, KeyError, IndexError, ValueError):
        return


def _described(run: Run, delta: float) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A JSON object and arrays, each stored once."""
    model, confidence, found = run.problem.model, run.confidence(delta), answers(run, delta)
    with np.errstate(all="ignore"):
        world: Any = to_numpy(model.world(confidence))
    certificate = asdict(run.certificate(delta))
    said = found.said
    arrays = (
        arrays_of(world, "world.") | arrays_of(found.kernel, "kernel.") | arrays_of(found.centre, "centre.")
    )
    layout, drawn = laid_out(run.problem)
    arrays |= {f"layout.{key}": x for key, x in drawn.items()}
    arrays["parts"] = np.array(list(said.parts.values()), float)
    arrays["certificate"] = np.array(list(certificate["parts"].values()), float)
    if found.truth is not None:
        arrays["truth"] = np.asarray(found.truth.prob)
    names: dict[Any, str] = {}
    same = {}
    for name, x in arrays.items():
        first = names.setdefault((x.dtype.str, x.shape, x.tobytes()), name)
        if first != name:
            same[name] = first
    header = {
        "class": class_name(model),
        "layout": layout,
        "world": statics_of(world),
        "kernel": statics_of(found.kernel),
        "said": {
            "delta": said.delta,
            "rounding": said.rounding,
            "is_refuted": said.is_refuted,
            "parts": list(said.parts),
            "refutation": said.refutation(),
            "missing": said.missing(),
            "start": said.start,
            "assumes": said.assumes,
        },
        "certificate": certificate | {"parts": list(certificate["parts"])},
        "same": same,
    }
    return header, {name: x for name, x in arrays.items() if name not in same}
