"""The oracle of HF-UCRL-RFE++: max Vhat over policies and rewards.

By ascent, by enumeration, and bounds from above.
"""

from horizonfree.oracle.ascent import ascent, next_search_radius
from horizonfree.oracle.box import BoxMax, box_max
from horizonfree.oracle.exhaustive import exhaustive
from horizonfree.oracle.objective import Prepared, evaluate, prepare
from horizonfree.oracle.result import OracleResult, Point, relaxed, upper_bound
from horizonfree.oracle.search import search
from horizonfree.oracle.variance import total_variance_bound

__all__ = [
    "BoxMax",
    "OracleResult",
    "Point",
    "Prepared",
    "ascent",
    "box_max",
    "evaluate",
    "exhaustive",
    "next_search_radius",
    "prepare",
    "relaxed",
    "search",
    "total_variance_bound",
    "upper_bound",
]
