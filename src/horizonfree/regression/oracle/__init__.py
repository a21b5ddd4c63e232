"""Maximise Vhat_1(s_1) of HF-UCRL-RFE++ over policies and rewards: by ascent, by enumeration, and bounds from above."""

from horizonfree.regression.oracle.ascent import ascent, next_search_radius
from horizonfree.regression.oracle.bounds import relaxed, upper_bound
from horizonfree.regression.oracle.box import BoxMax, box_max
from horizonfree.regression.oracle.exhaustive import exhaustive
from horizonfree.regression.oracle.objective import Prepared, evaluate, prepare
from horizonfree.regression.oracle.result import OracleResult, Point
from horizonfree.regression.oracle.search import search
from horizonfree.regression.oracle.variance import total_variance_bound

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
