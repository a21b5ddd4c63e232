"""A user's problems on the command line: kernels in a file, a function, a model checker's file, an environment.

    numpy.savez("shop.npz", calm=P0, storm=P1, horizon=20)

Every entry of such a file is a kernel [S, A, S] under its name, except for `horizon` (required), `start` (a state or a
distribution), `weights` (the truth, so that the problem can simulate itself), `states` and `actions` (names),
`actions_allowed` [S, A], and `kernels`, all kernels [d, S, A, S] in one array, without names.
"""

import importlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from horizonfree._validation import calling, did_you_mean, reading, suggestion
from horizonfree.errors import OptionError, UnknownNameError

if TYPE_CHECKING:
    import numpy as np

    from horizonfree import Problem

SETTINGS = ("horizon", "start")  # keys of an .npz file that --param can give, too
KEYS = (*SETTINGS, "weights", "states", "actions", "actions_allowed", "kernels")  # the others are kernels
EXPLORE_PARAMS = ("horizon", "start", "terminal")  # for hf.explore
DISCRETIZE_PARAMS = ("bins", "actions", "repeat")  # for hf.discretize; the others are for gymnasium.make
PRISM = (".prism", ".pm", ".nm", ".jani")
EXPLICIT = (".drn", ".umb")


def problem_from_file(path: Path, param: dict[str, Any]) -> "Problem":
    """The problem in an .npz file; horizon and start in `param` take precedence."""
    import numpy as np

    from horizonfree import Mixture

    entries = _arrays(path)
    for name in param:
        if name not in SETTINGS:
            raise OptionError(f"--param {name}: a file of kernels has the parameters horizon and start")
    kernels = {key: x for key, x in entries.items() if key not in KEYS}
    if bool(kernels) == ("kernels" in entries):
        content = f"both kernels and {next(iter(kernels))!r}" if kernels else "no kernel"
        raise OptionError(
            f"{path} has {content}; give each kernel [S, A, S] under its name, or `kernels` [d, S, A, S]"
        )
    for key, x in kernels.items():
        if x.ndim != 3:
            hint = did_you_mean(key, KEYS)
            raise OptionError(
                f"{path}: {key!r} has shape {x.shape}; a kernel is [S, A, S], other keys are {', '.join(KEYS)}{hint}"
            )
    settings = {key: entries[key] for key in SETTINGS if key in entries} | param
    if "horizon" not in settings:
        raise OptionError(
            f"{path} has no horizon, the steps of an episode; save it, or give --param horizon=20"
        )
    names: dict[str, Any] = {
        key: [str(x) for x in np.atleast_1d(entries[key])] for key in ("states", "actions") if key in entries
    }
    settings = {key: x.item() if np.ndim(x) == 0 and hasattr(x, "item") else x for key, x in settings.items()}
    optional: dict[str, Any] = {key: entries.get(key) for key in ("weights", "actions_allowed")}
    return Mixture.from_kernels(
        kernels or entries["kernels"], name=path.stem, **optional, **settings, **names
    )


def _arrays(path: Path) -> "dict[str, np.ndarray]":
    """All entries of an .npz file, without unpickling."""
    import numpy as np

    form = "an .npz file of arrays, as written by numpy.savez"
    with reading(f"kernels {path}", form, Exception):
        content = np.load(path, allow_pickle=False)
        if isinstance(content, np.ndarray):
            raise OptionError(
                f"kernels {path} is a single array; save it with numpy.savez, and horizon= beside it"
            )
        with content as file:
            return {key: file[key] for key in file.files}


def is_function(name: str) -> bool:
    """Whether a name is module:function or file.py:function."""
    return ":" in name and not name.startswith("gymnasium:")


def problem_from_function(name: str, param: dict[str, Any]) -> "Problem":
    """The problem that a function of a module returns for the parameters."""
    return as_problem(name, *call_function(name, param))


def as_problem(name: str, result: Any, unused: dict[str, Any]) -> "Problem":
    """The problem that `call_function` returned; an error for anything else."""
    from horizonfree import Problem

    if isinstance(result, Problem):
        if unused:
            raise OptionError(f"--param {next(iter(unused))}: {name} has no such parameter")
        return result
    what = "it must return a Problem, as Mixture.from_kernels does"
    if is_env(result):
        what += f", for this command; the environment can be explored: horizonfree explore {name}"
    raise OptionError(f"{name} returns a {type(result).__name__}; {what}")


def call_function(name: str, param: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The result of a function of a module, and the parameters of `live_env` that the function does not have."""
    where, _, function = name.rpartition(":")
    module = _module(where)
    build = getattr(module, function, None)
    if not callable(build):
        names = [x for x in vars(module) if callable(getattr(module, x)) and not x.startswith("_")]
        raise UnknownNameError(f"{where} has no function {function!r}; {suggestion(function, names)}")
    try:
        own_params = inspect.signature(build).parameters.values()
        takes = (
            {*EXPLORE_PARAMS, *DISCRETIZE_PARAMS}
            if any(x.kind is x.VAR_KEYWORD for x in own_params)
            else {x.name for x in own_params}
        )
    except (TypeError, ValueError):  # a callable without a signature
        takes = {*EXPLORE_PARAMS, *DISCRETIZE_PARAMS}
    unused = {
        key: x
        for key, x in param.items()
        if key in (*EXPLORE_PARAMS, *DISCRETIZE_PARAMS) and key not in takes
    }
    with calling(name):
        return build(**{key: x for key, x in param.items() if key not in unused}), unused


def is_env(x: Any) -> bool:
    """Whether it is an environment of Gymnasium."""
    gymnasium = sys.modules.get("gymnasium")  # imported already if x is an environment
    return gymnasium is not None and isinstance(x, gymnasium.Env)


def _module(where: str) -> ModuleType:
    """A module by name or by its file."""
    with calling(f"importing {where}", "write it as module:function or file.py:function"):
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


def is_model_file(name: str | None) -> bool:
    """Whether a problem is named by the file of a PRISM, JANI or explicit model."""
    return name is not None and Path(name).suffix.lower() in (*PRISM, *EXPLICIT)


def problem_from_model(name: str, param: dict[str, Any], unknown: Sequence[str]) -> "Problem":
    """The problem in such a file; `param`: the horizon and, for PRISM and JANI, values of constants."""
    constants = dict(param)
    if "horizon" not in constants:
        raise OptionError(f"{name} has no horizon, the steps of an episode; give --param horizon=20")
    horizon = constants.pop("horizon")
    path = Path(name)
    if path.suffix.lower() in PRISM:
        from horizonfree import from_prism

        return from_prism(path, horizon=horizon, unknown=unknown, constants=constants)
    if constants or unknown:
        what = f"--param {next(iter(constants))}" if constants else "--unknown"
        raise OptionError(f"{what}: an explicit model has no constants; give --param horizon=20 only")
    from horizonfree import read_drn, read_umb

    model = read_drn(path) if path.suffix.lower() == ".drn" else read_umb(path)
    return model.problem(horizon=horizon, name=path.stem)


def live_env(name: str, param: dict[str, Any]) -> Any:
    """The environment "gymnasium:ID", discretized if the parameters ask for it; None if it has a table P."""
    from horizonfree.problems.gymnasium.from_env import make_env

    make_kwargs = {key: x for key, x in param.items() if key not in (*EXPLORE_PARAMS, *DISCRETIZE_PARAMS)}
    env_id = name.removeprefix("gymnasium:")
    if "" not in sys.path:
        sys.path.insert(0, "")  # for module:ID
    env = make_env(env_id, make_kwargs)
    if hasattr(env.unwrapped, "P"):
        return None
    return discretize_env(env, param)


def discretize_env(env: Any, param: dict[str, Any]) -> Any:
    """The environment, discretized if the parameters ask for it."""
    from horizonfree.problems.gymnasium.discretize import discretize

    cuts = {key: _value(param[key], key) for key in DISCRETIZE_PARAMS if key in param}
    return discretize(env, cuts.pop("bins", None), **cuts) if cuts else env


def recreate_env(name: str, param: dict[str, Any]) -> Any:
    """The environment "gymnasium:ID" or module:function of a run that is resumed."""
    if not is_function(name):
        return live_env(name, param)
    result, unused = call_function(name, param)
    if not is_env(result):
        raise OptionError(f"{name} returns a {type(result).__name__}; the run explored an environment")
    return discretize_env(result, unused)


def env_problem(env: Any, param: dict[str, Any]) -> "Problem":
    """The environment as a tabular MDP."""
    from horizonfree.problems.gymnasium.as_table import unknown_table

    return unknown_table(env, **{key: _value(param[key], key) for key in EXPLORE_PARAMS if key in param})


def _value(x: Any, name: str) -> Any:
    """A parameter; lists are written as in JSON."""
    if not (isinstance(x, str) and x.startswith("[")):
        return x
    with reading(f"--param {name}={x}", "a list"):
        return json.loads(x)
