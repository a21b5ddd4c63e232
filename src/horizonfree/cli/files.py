"""Arrays that people give in files: rewards and policies. Nothing is unpickled."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from horizonfree.errors import OptionError

KINDS = {
    ".csv": "a table of numbers with commas between them, a row for each step or state",
    ".json": "a list of numbers, or what `plan --json` prints",
}
OF_NUMPY = "a .npy file of numbers, as numpy.save writes it"


def read_array(path: Path, what: str) -> Any:
    """An array from a .npy or .json file; `what` it is."""
    return _read(path, what, KINDS.get(path.suffix.lower(), OF_NUMPY))


def read_policy(path: Path, num_states: int) -> Any:
    """Actions [H, S] or [S], or probabilities [H, S, A] or [S, A], from a .npy, .csv or .json file.

    Numbers in text have no type: they are actions where they are whole and their last axis is that of the states.
    """
    kind = path.suffix.lower()
    if kind not in KINDS:
        return read_array(path, "policy")
    table = _read(path, "policy", KINDS[kind])
    is_actions = table.ndim in (1, 2) and table.shape[-1] == num_states
    is_whole = is_actions and bool((np.abs(table) < 2**31).all() and (table == table.astype(int)).all())
    return table.astype(int) if is_whole else table


def write_policy(path: Path, policy: np.ndarray) -> None:
    """A policy into a file that `read_policy` reads, by its ending; .npy where that is no other."""
    kind = path.suffix.lower()
    if kind == ".csv" and policy.ndim == 3:
        raise OptionError(f"{path}: a policy that draws its actions does not fit a table; use .npy or .json")
    if kind == ".csv":
        path.write_text("".join(",".join(map(str, row)) + "\n" for row in policy.tolist()))
    elif kind == ".json":
        path.write_text(json.dumps({"policy": policy.tolist()}) + "\n")
    else:
        with path.open("wb") as file:  # a bare name would be given an ending
            np.save(file, policy)


def _read(path: Path, what: str, wanted: str) -> np.ndarray:
    """The array in a file, by its ending; or what it should be."""
    try:
        with path.open("rb") as file:
            return {".csv": _of_csv, ".json": _of_json}.get(path.suffix.lower(), _of_npy)(file)
    except OSError as error:
        raise OptionError(f"{what} {path}: {error.strerror or error}") from None
    except Exception as error:  # a foreign file can fail to be an array in many ways
        raise OptionError(f"{what} {path} is not {wanted}: {error}") from None


def _of_npy(file: Any) -> np.ndarray:
    return np.asarray(npy.read_array(file, allow_pickle=False))


def _of_csv(file: Any) -> np.ndarray:
    lines = file.read().decode("utf-8-sig").split()
    if not lines:
        raise ValueError("it is empty")
    return np.squeeze(np.array([[float(x) for x in line.split(",")] for line in lines]))


def _of_json(file: Any) -> np.ndarray:
    found = json.load(file)
    return np.array(found["policy"] if isinstance(found, dict) else found, dtype=np.float64)
