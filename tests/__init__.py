"""Tests. Calls into the library are checked against its annotations, shapes included; conftest.py turns it on."""

from pathlib import Path
from typing import Any

import jax
import jaxtyping
import numpy as np
from beartype import BeartypeConf, beartype
from jaxtyping import install_import_hook

from tests.checked import checked

SOURCE = Path(__file__).parent.parent / "src"
# By Numba, which wants functions as they are.
COMPILED = {
    "horizonfree.planning.lanes",
    "horizonfree.planning.loops",
    "horizonfree.models.mixture.design_loop",
    "horizonfree.models.mixture.hinge_loop",
    "horizonfree.models.mixture.states_loop",
    "horizonfree.regression.oracle.penalised_loop",
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
    is_own = getattr(thing, "__name__", "") in PUBLIC or thing.__module__ in THEORY
    return thing if is_own else _checked(thing)


def check_shapes() -> None:
    """Check every function and class of the library, but for the compiled loops, from the next import on.

    Tests may hand NumPy's arrays to what is traced, as JAX does itself: mypy keeps the two apart in the library.
    """
    jaxtyping.Array = jax.Array | np.ndarray
    jaxtyping.jaxtyped = checked
    names = {".".join(x.relative_to(SOURCE).with_suffix("").parts) for x in SOURCE.rglob("*.py")}
    install_import_hook(sorted(x for x in names - COMPILED if not x.endswith("__init__")), "tests.check")
