"""Problems of one's own on the command line: kernels in a .npz file, or a function in a module.

    numpy.savez("shop.npz", calm=P0, storm=P1, horizon=20)

Every entry of such a file is a kernel [S, A, S] and its key the kernel's name, but for these: `horizon` (needed),
`start` (a state or a distribution), `weights` (the truth, which lets the problem simulate itself), `states` and
`actions` (names), `actions_allowed` [S, A], and `kernels`, all kernels [d, S, A, S] in one array, without names.
"""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from horizonfree._validation import suggestion
from horizonfree.errors import HorizonfreeError, OptionError, UnknownNameError

if TYPE_CHECKING:
    from horizonfree import Problem

KEYS = ("horizon", "start", "weights", "states", "actions", "actions_allowed", "kernels")


def from_file(path: Path, param: dict[str, Any]) -> "Problem":
    """The problem in a .npz file; `param` overrules its horizon and start."""
    from horizonfree import Mixture

    found = _arrays(path)
    for name in param:
        if name not in ("horizon", "start"):
            raise OptionError(f"--param {name}: beside kernels in a file there are horizon and start")
    kernels = {key: x for key, x in found.items() if key not in KEYS}
    if bool(kernels) == ("kernels" in found):
        there = f"both kernels and {next(iter(kernels))!r}" if kernels else "no kernel"
        raise OptionError(
            f"{path} has {there}; give each kernel [S, A, S] under its name, or `kernels` [d, S, A, S]"
        )
    for key, x in kernels.items():
        if x.ndim != 3:
            near = suggestion(key, KEYS)
            hint = f" ({near})" if near.startswith("did you mean") else ""
            raise OptionError(
                f"{path}: {key!r} has shape {x.shape}; a kernel is [S, A, S], other keys are {', '.join(KEYS)}{hint}"
            )
    settings = {key: found[key] for key in KEYS[:2] if key in found} | param
    if "horizon" not in settings:
        raise OptionError(
            f"{path} has no horizon, the steps of an episode; save it, or give --param horizon=20"
        )
    names: dict[str, Any] = {
        key: [str(x) for x in np.atleast_1d(found[key])] for key in ("states", "actions") if key in found
    }
    plain = {key: x.item() if np.ndim(x) == 0 and hasattr(x, "item") else x for key, x in settings.items()}
    said: dict[str, Any] = {key: found.get(key) for key in ("weights", "actions_allowed")}
    return Mixture.from_kernels(kernels or found["kernels"], name=path.stem, **said, **plain, **names)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """All entries of a .npz file; nothing is unpickled."""
    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            raise OptionError(
                f"kernels {path} is a single array; save it with numpy.savez, and horizon= beside it"
            )
        with found as file:
            return {key: file[key] for key in file.files}
    except OSError as error:
        raise OptionError(f"kernels {path}: {error.strerror or error}") from None
    except OptionError:
        raise
    except Exception as error:  # a foreign file can fail to be an archive in many ways
        raise OptionError(
            f"kernels {path} is no .npz file of arrays, as numpy.savez writes it: {error}"
        ) from None


def is_function(name: str) -> bool:
    """Whether a problem is named as module:function or file.py:function."""
    return ":" in name and not name.startswith("gymnasium:")


def from_function(name: str, param: dict[str, Any]) -> "Problem":
    """What a function of somebody's module makes of the parameters."""
    from horizonfree import Problem

    where, _, function = name.rpartition(":")
    module = _module(where)
    made = getattr(module, function, None)
    if not callable(made):
        names = [x for x in vars(module) if callable(getattr(module, x)) and not x.startswith("_")]
        raise UnknownNameError(f"{where} has no function {function!r}; {suggestion(function, names)}")
    try:
        problem = made(**param)
    except HorizonfreeError:
        raise
    except Exception as error:  # whatever somebody's function does
        raise OptionError(f"{name} fails: {type(error).__name__}: {error}") from error
    if not isinstance(problem, Problem):
        raise OptionError(
            f"{name} gives a {type(problem).__name__}; it must give a Problem, as Mixture.from_kernels does"
        )
    return problem


def _module(where: str) -> ModuleType:
    """A module by name, from here or installed, or by its file."""
    try:
        if where.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(where).stem, where)
            assert spec is not None  # the ending is Python's
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
        if "" not in sys.path:
            sys.path.insert(0, "")
        return importlib.import_module(where)
    except HorizonfreeError:
        raise
    except Exception as error:  # whatever somebody's module does
        words = "write it as module:function or file.py:function"
        raise OptionError(f"{where} cannot be imported: {type(error).__name__}: {error}; {words}") from error
