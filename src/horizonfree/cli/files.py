"""Arrays in files: rewards and policies. Nothing is unpickled."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from horizonfree.errors import OptionError

FORMATS = {
    ".csv": "a table of numbers with commas between them, a row for each step or state",
    ".json": "a list of numbers, or the output of `plan --json`",
}
NPY_FORMAT = "a .npy file of numbers, as written by numpy.save"


def read_array(path: Path, what: str) -> Any:
    """An array from a .npy or .json file; `what` names it in errors."""
    return _read(path, what, FORMATS.get(path.suffix.lower(), NPY_FORMAT))


def read_policy(path: Path, num_states: int) -> Any:
    """Actions [H, S] or [S], or probabilities [H, S, A] or [S, A], from a .npy, .csv or .json file.

    In text files, integers whose last axis is that of the states are actions.
    """
    kind = path.suffix.lower()
    if kind not in FORMATS:
        return read_array(path, "policy")
    table = _read(path, "policy", FORMATS[kind])
    is_actions = table.ndim in (1, 2) and table.shape[-1] == num_states
    is_whole = is_actions and bool((np.abs(table) < 2**31).all() and (table == table.astype(int)).all())
    return table.astype(int) if is_whole else table


def write_policy(path: Path, policy: np.ndarray) -> None:
    """Write a policy for `read_policy`, in the format of the file name; .npy by default."""
    kind = path.suffix.lower()
    if kind == ".csv" and policy.ndim == 3:
        raise OptionError(f"{path}: a stochastic policy does not fit into a table; use .npy or .json")
    if kind == ".csv":
        path.write_text("".join(",".join(map(str, row)) + "\n" for row in policy.tolist()))
    elif kind == ".json":
        path.write_text(json.dumps({"policy": policy.tolist()}) + "\n")
    else:
        with path.open("wb") as file:  # np.save(path) would append .npy
            np.save(file, policy)


def _read(path: Path, what: str, description: str) -> np.ndarray:
    try:
        with path.open("rb") as file:
            return {".csv": _read_csv, ".json": _read_json}.get(path.suffix.lower(), _read_npy)(file)
    except OSError as error:
        raise OptionError(f"{what} {path}: {error.strerror or error}") from None
    except Exception as error:  # an invalid file can raise anything
        raise OptionError(f"{what} {path} is not {description}: {error}") from None


def _read_npy(file: Any) -> np.ndarray:
    return np.asarray(npy.read_array(file, allow_pickle=False))


def _read_csv(file: Any) -> np.ndarray:
    lines = file.read().decode("utf-8-sig").split()
    if not lines:
        raise ValueError("it is empty")
    return np.squeeze(np.array([[float(x) for x in line.split(",")] for line in lines]))


def _read_json(file: Any) -> np.ndarray:
    value = json.load(file)
    return np.array(value["policy"] if isinstance(value, dict) else value, dtype=np.float64)
