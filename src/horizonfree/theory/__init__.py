"""Bounds and constants of the papers as functions: radii, sizes, Table 1.

>>> import horizonfree as hf
>>> f"{hf.theory.sample_complexity(0.1, 0.05, d=2, H=20, B=1):.1e}"  # episodes, with the paper's constants
'1.9e+18'
"""

from typing import Any

from horizonfree.theory.bounds import (
    Coefficients,
    Symbols,
    beta,
    bound_A,
    bound_G,
    bound_R,
    bound_S_hat,
    bound_S_tilde,
    bound_sum,
    coefficients,
    iota,
    lower_bound,
    moment_orders,
    operations,
    regret_lower_bound,
    sample_complexity,
    suboptimality,
    symbols,
    table,
    why_no_lower_bound,
    zeta,
)
from horizonfree.theory.table1 import Row, table1

__all__ = [
    "Coefficients",
    "Row",
    "Symbols",
    "beta",
    "bound_A",
    "bound_G",
    "bound_R",
    "bound_S_hat",
    "bound_S_tilde",
    "bound_sum",
    "coefficients",
    "home",
    "iota",
    "lower_bound",
    "moment_orders",
    "operations",
    "regret_lower_bound",
    "sample_complexity",
    "suboptimality",
    "symbols",
    "table",
    "table1",
    "why_no_lower_bound",
    "zeta",
]


def __getattr__(name: str) -> Any:
    if name == "home":  # HOME is compiled, and the other functions must not import JAX
        from horizonfree.estimators.moments import home

        return home
    raise AttributeError(f"module 'horizonfree.theory' has no attribute {name!r}")
