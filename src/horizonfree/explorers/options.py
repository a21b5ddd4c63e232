"""Options that several explorers have; the text beside a type is what the option means."""

from typing import Annotated

import numpy as np

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
