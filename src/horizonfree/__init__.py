"""Explore once, without a reward. Then plan for any reward, with a proof of how good the plan is."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horizonfree import theory
    from horizonfree._extras import show_versions
    from horizonfree.batch import Batch, explore_many
    from horizonfree.batch.compare import compare
    from horizonfree.explorers import explorers
    from horizonfree.explorers.python import PythonExplorer
    from horizonfree.guarantees.certificate import Certificate
    from horizonfree.mdp.events import reach
    from horizonfree.mdp.rewards import goal, occupancy, rescale
    from horizonfree.models.misspecification import Misspecification
    from horizonfree.problems import (
        LinearMDP,
        Mixture,
        Problem,
        Tabular,
        from_gymnasium,
        from_simulators,
        make,
        problems,
    )
    from horizonfree.problems.gymnasium.discretize import discretize
    from horizonfree.problems.problem import true_gap
    from horizonfree.problems.simulate import simulate
    from horizonfree.problems.verification.drn import read_drn
    from horizonfree.problems.verification.prism import from_prism
    from horizonfree.problems.verification.properties import property
    from horizonfree.problems.verification.umb import read_umb
    from horizonfree.runs.audit import audit
    from horizonfree.runs.constrained import at_least, at_most
    from horizonfree.runs.explore import explore
    from horizonfree.runs.log_files import certify, from_log
    from horizonfree.runs.logged import from_episodes
    from horizonfree.runs.minari import from_minari
    from horizonfree.runs.plan import Plan
    from horizonfree.runs.run import Run
    from horizonfree.runs.storage import load
    from horizonfree.runs.verify import verify
    from horizonfree.sweeps.results import Sweep, load_sweep
    from horizonfree.sweeps.sweep import sweep

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Certificate",
    "LinearMDP",
    "Misspecification",
    "Mixture",
    "Plan",
    "Problem",
    "PythonExplorer",
    "Run",
    "Sweep",
    "Tabular",
    "at_least",
    "at_most",
    "audit",
    "certify",
    "compare",
    "discretize",
    "explore",
    "explore_many",
    "explorers",
    "from_episodes",
    "from_gymnasium",
    "from_log",
    "from_minari",
    "from_prism",
    "from_simulators",
    "goal",
    "load",
    "load_sweep",
    "make",
    "occupancy",
    "problems",
    "property",
    "reach",
    "read_drn",
    "read_umb",
    "rescale",
    "show_versions",
    "simulate",
    "sweep",
    "theory",
    "true_gap",
    "verify",
]

# The module of each public name. Modules are imported when a name is first used, so that `horizonfree --help` is fast.
_MODULE_OF = {
    "Batch": "batch",
    "Certificate": "guarantees.certificate",
    "LinearMDP": "problems",
    "Misspecification": "models.misspecification",
    "Mixture": "problems",
    "Plan": "runs.plan",
    "Problem": "problems",
    "PythonExplorer": "explorers.python",
    "Run": "runs.run",
    "Sweep": "sweeps.results",
    "Tabular": "problems",
    "at_least": "runs.constrained",
    "at_most": "runs.constrained",
    "audit": "runs.audit",
    "certify": "runs.log_files",
    "compare": "batch.compare",
    "discretize": "problems.gymnasium.discretize",
    "explore": "runs.explore",
    "explore_many": "batch",
    "explorers": "explorers",
    "from_episodes": "runs.logged",
    "from_gymnasium": "problems",
    "from_log": "runs.log_files",
    "from_minari": "runs.minari",
    "from_prism": "problems.verification.prism",
    "from_simulators": "problems",
    "goal": "mdp.rewards",
    "load": "runs.storage",
    "load_sweep": "sweeps.results",
    "make": "problems",
    "occupancy": "mdp.rewards",
    "problems": "problems",
    "property": "problems.verification.properties",
    "reach": "mdp.events",
    "read_drn": "problems.verification.drn",
    "read_umb": "problems.verification.umb",
    "rescale": "mdp.rewards",
    "show_versions": "_extras",
    "simulate": "problems.simulate",
    "sweep": "sweeps.sweep",
    "true_gap": "problems.problem",
    "verify": "runs.verify",
}

# Packages and modules that are imported when they are first used: hf.planning, hf.report.
_LAZY_MODULES = (
    *("errors", "estimators", "mdp", "models", "oracle", "planning", "report", "runs", "sweeps", "testing"),
    *("theory", "web"),
)
_PUBLIC_MODULES = ("errors", "planning", "report", "testing", "theory", "web")


class _Package(ModuleType):
    """Functions take precedence over packages of the same name: `explorers`, `problems`."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _MODULE_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    """The names that users need, whether they are imported yet or not."""
    return sorted({*__all__, *_PUBLIC_MODULES, "__version__", "__doc__"})


def __getattr__(name: str) -> Any:
    if name in _LAZY_MODULES:
        return import_module(f"horizonfree.{name}")
    if name == "home":
        from horizonfree._deprecated import warn_renamed

        warn_renamed("hf.home", "hf.theory.home")
        return import_module("horizonfree.theory").home
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'horizonfree' has no attribute {name!r}; see dir(horizonfree)")
    value = getattr(import_module(f"horizonfree.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value
