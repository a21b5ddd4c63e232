"""Options that several explorers have; the text beside a type is what the option means."""

from typing import Annotated

import numpy as np

from horizonfree._validation import check_count, check_probability
from horizonfree.errors import OptionError

Constants = Annotated[
    str, "'paper': the radii of the theorem; 'scaled': radii of no theorem, made of scale and bias_scale"
]
Delta = Annotated[float, "failure probability that the radii refer to"]
Budget = Annotated[int | None, "episodes K that the radii refer to; by default those asked for"]
Reward = Annotated[np.ndarray, "the reward to explore for, of total at most 1"]
PoolSteps = Annotated[bool, "one model for all steps instead of one per step"]

# Of radii that weigh rows by moments (moments.py).
Noise = Annotated[float, "when scaled: the noise part of the radii"]
Bias = Annotated[float, "when scaled: the factor of their bias sqrt(lam) B"]

# Of radii in the largest standard deviation that the noise of a row can have.
Deviations = Annotated[float, "when scaled: the radii, in the largest standard deviations of a row's noise"]
Added = Annotated[float, "when scaled: what is added to each radius"]

# Of explorers of tables, as in the code of their authors.
Clip = Annotated[
    bool, "cap the bounds at the largest value there is, as printed; the authors' experiments do not"
]
BonusScale = Annotated[
    float, "factor of the bonuses while exploring; 1 is the paper's, and always the certificate's"
]
Episodes = Annotated[int | None, "episodes in all, which phases or stages share; by default those asked for"]
Successors = Annotated[
    int | None,
    "the most different successors a pair may show, for speed in large unknown tables; by default any number",
]
MOST_BONUS = 1e100  # sums of bonuses stay finite


def check_bonus(bonus_scale: float, delta: float) -> None:
    """Refuse what no bonus can be made of."""
    if not 0 <= bonus_scale <= MOST_BONUS:
        raise OptionError(f"bonus_scale is {bonus_scale}; it must lie between 0 and {MOST_BONUS:g}")
    check_probability(delta, "delta")


def check_successors(successors: int | None) -> None:
    """Refuse lists without a place."""
    if successors is not None:
        check_count(successors, "successors")
