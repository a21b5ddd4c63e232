"""The best policy for a reward, the value of a policy, where it goes."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horizonfree.planning.backward import Solution, evaluate, optimal, visits
    from horizonfree.planning.many import Best, optimal_values

__all__ = ["Best", "Solution", "evaluate", "optimal", "optimal_values", "visits"]


def __getattr__(name: str) -> Any:
    """What is compiled is loaded when it is first used: induction.py needs no JAX."""
    if name not in __all__:
        raise AttributeError(f"module 'horizonfree.planning' has no attribute {name!r}")
    from horizonfree.planning import backward, many

    return getattr(many if name in ("Best", "optimal_values") else backward, name)
