"""What a run answers: a plan for one reward, and which of two policies is better."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from horizonfree._inputs import whole
from horizonfree._shapes import Float, Int
from horizonfree.errors import ShapeError
from horizonfree.guarantees.certificate import Certificate, round_down, round_up, surely_of
from horizonfree.mdp.space import Kernel


@dataclass(frozen=True, eq=False)
class Plan:
    """The answer to one reward. Values and gap are in the units of the reward as it was given.

    `value` is the policy's value in the model it was planned in. With probability 1 - certificate.delta its true value
    is between `value_low` and `value_high`, and it loses at most `gap` against the best policy. `kernel` is the
    maximum-likelihood estimate that the certificate speaks of.
    """

    policy: Int[np.ndarray, "H S"] | Float[np.ndarray, "H S A"]
    value: float
    value_low: float
    value_high: float
    gap: float
    certificate: Certificate
    kernel: Kernel

    def act(self, h: int, state: int) -> int:
        """The action at step h (from 0) in a state; of a policy that draws it, the most probable one."""
        H, S = self.policy.shape[:2]
        h = whole(h, "h", 0, H - 1, f"a step, 0 to {H - 1}", ShapeError)
        state = whole(state, "state", 0, S - 1, f"a state, 0 to {S - 1}", ShapeError)
        chosen = self.policy[h, state]
        return int(chosen if chosen.ndim == 0 else chosen.argmax())


class Comparison(NamedTuple):
    """By how much policy a is better than policy b for a reward, in its units.

    `difference` is that of their values in the estimate. The true one is between `low` and `high`, with probability
    1 - delta.
    """

    difference: float
    low: float
    high: float
    delta: float

    @property
    def words(self) -> str:
        """What is proved."""
        surely = surely_of(self.delta)
        if self.low > 0:
            return f"a is better by at least {round_down(self.low):.3g}, with probability {surely}"
        if self.high < 0:
            return f"b is better by at least {round_down(-self.high):.3g}, with probability {surely}"
        low, high = -round_up(-self.low), round_up(self.high)
        return f"either may be better: a minus b is in [{low:.3g}, {high:.3g}], with probability {surely}"
