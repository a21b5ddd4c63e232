"""Tests. Calls into the library are checked against its annotations, shapes included; conftest.py turns it on."""

from pathlib import Path
from types import FunctionType
from typing import Any

import jax
import jaxtyping
import numpy as np
from beartype import BeartypeConf, beartype
from jaxtyping import install_import_hook

SOURCE = Path(__file__).parent.parent / "src"
# By Numba, which wants functions as they are.
COMPILED = {
    "horizonfree.planning.lanes",
    "horizonfree.planning.loops",
    "horizonfree.models.mixture.design_loop",
    "horizonfree.models.mixture.hinge_loop",
    "horizonfree.models.mixture.states_loop",
    "horizonfree.regression.oracle.climb_loop",
    "horizonfree.regression.oracle.draws",
    "horizonfree.regression.oracle.pairs",
    "horizonfree.regression.oracle.penalised_loop",
    "horizonfree.regression.oracle.search_loop",
    "horizonfree.regression.oracle.tiles",
    "horizonfree.regression.oracle.vectors",
}
# What people call with whatever they have, and what checks it: errors of ours say more than a type checker.
PUBLIC = set(
    "act advance certificate certify check check_kernel compare confidence declaring discretize evaluate explore "
    "explore_many explorers extended from_episodes from_features from_gymnasium from_kernels from_log from_noise "
    "from_simulators from_table from_tabular goal home load load_sweep make make_explorer occupancy optimal "
    "optimal_values plan policy_table problems rescale resolve resume robustness save seen_as simulate "
    "simulate_kernel state_number suite sweep true_gap visits".split()
)
# Whose functions check their numbers themselves.
THEORY = {
    "horizonfree.regression.lower_bounds",
    "horizonfree.regression.ranges",
    "horizonfree.regression.theory",
    "horizonfree.regression.theory_linear",
}
# A whole number will do where a number is asked for.
_checked = beartype(conf=BeartypeConf(is_pep484_tower=True))


def check(thing: Any) -> Any:
    """The type checker of the tests. Public functions are left to their own checks, whose words other tests read."""
    if getattr(thing, "__name__", "") in PUBLIC or thing.__module__ in THEORY:
        return thing
    if isinstance(thing, FunctionType) and "<locals>" in thing.__qualname__:
        has_defaults = thing.__defaults__ or thing.__kwdefaults__
        return _checked(thing) if has_defaults else _remembered(thing)
    return _checked(thing)


_seen: dict[Any, Any] = {}


def _remembered(thing: FunctionType) -> Any:
    """A function inside another is made at every call. Of it jaxtyping hands over a signature with nothing behind it,
    and one that was seen before is checked by what was made of it then.
    """
    key = thing.__module__, thing.__qualname__, thing.__code__, str(thing.__annotations__)
    if key not in _seen:
        _seen[key] = _checked(thing)
    return _seen[key]


def check_shapes() -> None:
    """Check every function and class of the library, but for the compiled loops, from the next import on.

    Tests may hand NumPy's arrays to what is traced, as JAX does itself: mypy keeps the two apart in the library.
    """
    jaxtyping.Array = jax.Array | np.ndarray
    names = {".".join(x.relative_to(SOURCE).with_suffix("").parts) for x in SOURCE.rglob("*.py")}
    install_import_hook(sorted(x for x in names - COMPILED if not x.endswith("__init__")), "tests.check")
