"""Reward-free exploration algorithms, one file each.

`explorers()` lists them by name. Their classes are attributes, imported when they are used:

    from horizonfree.explorers import HFUCRLRFE

    run = hf.explore(problem, HFUCRLRFE(scale=0.5), episodes=300)
"""

from typing import TYPE_CHECKING, Any

from horizonfree.explorers.registry import explorer_classes, explorers

if TYPE_CHECKING:
    from horizonfree.explorers.base import ConfidenceBall, Explorer, ExplorerPlan, Info
    from horizonfree.explorers.chen2022 import Chen2022
    from horizonfree.explorers.francis import Francis
    from horizonfree.explorers.goal_cycling import GoalCycling
    from horizonfree.explorers.hf_ucrl_rfe import HFUCRLRFE
    from horizonfree.explorers.hf_ucrl_vtr import HFUCRLVTR
    from horizonfree.explorers.jin2020 import Jin2020
    from horizonfree.explorers.linear_design import LinearDesign
    from horizonfree.explorers.lsvi_rfe import LSVIRFE
    from horizonfree.explorers.optimal_design import OptimalDesign
    from horizonfree.explorers.rf_express import RFExpress
    from horizonfree.explorers.rf_ucrl import RFUCRL
    from horizonfree.explorers.rflin import RFLIN
    from horizonfree.explorers.sstp import SSTP
    from horizonfree.explorers.tabular_design import TabularDesign
    from horizonfree.explorers.ucrl_rfe import UCRLRFE
    from horizonfree.explorers.ucrl_rfe_plus import UCRLRFEPlus
    from horizonfree.explorers.ucrl_vtr_plus import UCRLVTRPlus
    from horizonfree.explorers.uniform import Uniform
    from horizonfree.explorers.wang2020 import Wang2020

_BASE = ("ConfidenceBall", "Explorer", "ExplorerPlan", "Info")
__all__ = [
    "HFUCRLRFE",
    "HFUCRLVTR",
    "LSVIRFE",
    "RFLIN",
    "RFUCRL",
    "SSTP",
    "UCRLRFE",
    "Chen2022",
    "ConfidenceBall",
    "Explorer",
    "ExplorerPlan",
    "Francis",
    "GoalCycling",
    "Info",
    "Jin2020",
    "LinearDesign",
    "OptimalDesign",
    "RFExpress",
    "TabularDesign",
    "UCRLRFEPlus",
    "UCRLVTRPlus",
    "Uniform",
    "Wang2020",
    "explorers",
]


def __getattr__(name: str) -> Any:
    if name in _BASE:
        from horizonfree.explorers import base

        return getattr(base, name)
    classes = explorer_classes()
    if name not in classes:
        raise AttributeError(f"module 'horizonfree.explorers' has no attribute {name!r}")
    return classes[name].explorer_type
