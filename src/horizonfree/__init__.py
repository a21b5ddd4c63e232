"""Explore once, without a reward. Then plan for any reward, with a proof of how good the plan is."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horizonfree import theory
    from horizonfree.batch import Batch, explore_many
    from horizonfree.certificates import Certificate
    from horizonfree.exploration import explore
    from horizonfree.explorers import explorers
    from horizonfree.mixture import Mixture
    from horizonfree.moments import home
    from horizonfree.problems import from_gymnasium, make, problems
    from horizonfree.rewards import goal, occupancy, rescale
    from horizonfree.run import Plan, Run, certify, from_episodes, true_gap
    from horizonfree.simulate import simulate
    from horizonfree.store import load

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Certificate",
    "Mixture",
    "Plan",
    "Run",
    "certify",
    "explore",
    "explore_many",
    "explorers",
    "from_episodes",
    "from_gymnasium",
    "goal",
    "home",
    "load",
    "make",
    "occupancy",
    "problems",
    "rescale",
    "simulate",
    "theory",
    "true_gap",
]

# Where each public name lives. It is loaded when it is first used: the command line answers --help at once.
_HOME = {
    "Batch": "batch",
    "Certificate": "certificates",
    "Mixture": "mixture",
    "Plan": "run",
    "Run": "run",
    "certify": "run",
    "explore": "exploration",
    "explore_many": "batch",
    "explorers": "explorers",
    "from_episodes": "run",
    "from_gymnasium": "problems",
    "goal": "rewards",
    "home": "moments",
    "load": "store",
    "make": "problems",
    "occupancy": "rewards",
    "problems": "problems",
    "rescale": "rewards",
    "simulate": "simulate",
    "true_gap": "run",
}


class _Package(ModuleType):
    """A function that has the name of its module wins: `explorers`, `problems`, `simulate`."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name == "theory":
        return import_module("horizonfree.theory")
    if name not in _HOME:
        raise AttributeError(f"module 'horizonfree' has no attribute {name!r}")
    value = getattr(import_module(f"horizonfree.{_HOME[name]}"), name)
    globals()[name] = value
    return value
