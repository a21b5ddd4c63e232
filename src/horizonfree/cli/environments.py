"""Gymnasium environments at the shell that have no transition table: they are stepped, as in Python."""

import json
import sys
from typing import TYPE_CHECKING, Any

from horizonfree.errors import OptionError, UnknownNameError

if TYPE_CHECKING:
    from horizonfree.problems.problem import Problem

ABOUT = ("horizon", "start", "terminal")  # parameters for hf.explore
CUTS = ("bins", "actions", "repeat")  # parameters for hf.discretize; the others are for gymnasium.make


def live_env(name: str, param: dict[str, Any]) -> Any:
    """The environment "gymnasium:ID" with the parameters for it, discretized where asked; None if it has a table P."""
    import gymnasium

    from horizonfree._validation import shorten
    from horizonfree.problems.gymnasium.discretize import discretize

    make_kwargs = {key: x for key, x in param.items() if key not in (*ABOUT, *CUTS)}
    env_id = name.removeprefix("gymnasium:")
    if "" not in sys.path:
        sys.path.insert(0, "")  # for module:ID
    try:
        env = gymnasium.make(env_id, **make_kwargs)
    except (gymnasium.error.Error, ImportError) as error:
        raise UnknownNameError(f"gymnasium cannot make {env_id!r}: {shorten(error)}") from error
    except Exception as error:  # of the environment's constructor
        raise OptionError(f"gymnasium cannot make {env_id!r} with {make_kwargs}: {shorten(error)}") from error
    if hasattr(env.unwrapped, "P"):
        return None
    cuts = {key: _value(param[key], key) for key in CUTS if key in param}
    return discretize(env, cuts.pop("bins", None), **cuts) if cuts else env


def env_problem(env: Any, param: dict[str, Any]) -> "Problem":
    """The environment as a tabular MDP."""
    from horizonfree.problems.gymnasium.as_table import unknown_table

    return unknown_table(env, **{key: _value(param[key], key) for key in ABOUT if key in param})


def _value(x: Any, name: str) -> Any:
    """A parameter; lists are written as in JSON."""
    if not (isinstance(x, str) and x.startswith("[")):
        return x
    try:
        return json.loads(x)
    except json.JSONDecodeError as error:
        raise OptionError(f"--param {name}={x} is no list: {error}") from None
