"""What the data say at confidence 1 - delta: the base class `Confidence`, and the `Bounds` that it computes.

Everything here is NumPy. Each class of models has a frozen dataclass of its own, made by `Model.confidence`.
"""

import abc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float, Int

from horizonfree.errors import OptionError
from horizonfree.mdp.families import StateRewards
from horizonfree.mdp.lift import Lift
from horizonfree.mdp.space import Kernel, Space

# Actions [H, S], or their probabilities [H, S, A].
Policy: TypeAlias = Int[np.ndarray, "H S"] | Float[np.ndarray, "H S A"]
Number: TypeAlias = float | Float[np.ndarray, ""]


@dataclass(frozen=True, eq=False)
class Bounds:
    """What a policy can lose for one reward, by several proofs, and an interval that contains its true value.

    `value` is its value under the estimate. All for totals in [0, 1]; a gap may exceed 1, or be nan where its proof
    could not be computed. `is_refuted`: the bounds contradict each other; no parameter of the class explains the data.
    """

    value: Number
    low: Number
    high: Number
    gaps: dict[str, Number]
    is_refuted: Any = False


class Confidence(abc.ABC):
    """What the evidence says at confidence 1 - delta: a frozen dataclass of NumPy arrays, and what policies can lose.

    `kernel` is the estimate to plan with. `eps` bounds, for every reward at once, the suboptimality of a plan that is
    optimal in `centre`. `is_refuted`: no parameter of the class explains the data.
    """

    space: Space
    kernel: Kernel
    eps: Any  # a float, or a NumPy array of no axes
    delta: Any
    is_refuted: Any

    @property
    def centre(self) -> Kernel:
        """The kernel that the confidence set is built around: the estimate, unless a class needs another."""
        return self.kernel

    @abc.abstractmethod
    def parts(self) -> dict[str, float]:
        """The numbers that every certificate is made of; guarantees/meanings.py says what they mean."""

    @abc.abstractmethod
    def refutation(self) -> str:
        """Why the class is wrong, where it is."""

    def condition(self) -> str:
        """What a certificate assumes beside the class, as the end of its sentence; nothing, as a rule."""
        return ""

    @property
    def leads_anywhere(self) -> bool:
        """Whether episodes may come to states that the successor lists do not lead to."""
        return False

    def check_reward(self, reward: Float[np.ndarray, "H S A"]) -> None:  # noqa: B027
        """Refuse a reward of which nothing is proved; there is none, as a rule."""

    @abc.abstractmethod
    def missing(self) -> str:
        """What keeps a vacuous certificate from saying something, and what would help."""

    @abc.abstractmethod
    def more_episodes(self, target: float) -> float:
        """About how many more episodes like those seen bring eps to the target; infinite where that cannot be said."""

    @abc.abstractmethod
    def after(self, times: float) -> tuple["Confidence", float]:
        """About what would be said with so many times the data and the same estimate, and the episodes it takes.

        For forecasts: nothing is certified by it.
        """

    @abc.abstractmethod
    def bounds(self, reward: Float[np.ndarray, "H S A"], policy: Policy) -> Bounds:
        """What a policy can lose for a reward."""

    @abc.abstractmethod
    def difference(
        self, reward: Float[np.ndarray, "H S A"], policies: tuple[Policy, Policy]
    ) -> tuple[float, float]:
        """Bounds on the value of the first policy minus that of the second."""

    def bounds_of_states(self, rewards: StateRewards) -> Iterator[Bounds] | None:
        """`bounds` of the best plan under the estimate for each reward; None where one by one is as fast."""
        return None

    def entry_intervals(self) -> tuple[Float[np.ndarray, "S A n"], Float[np.ndarray, "S A n"]]:
        """The smallest and the largest value of each transition probability in the confidence set."""
        raise OptionError("intervals of transition probabilities are known for mixtures and tables only")

    @abc.abstractmethod
    def lifted(self, lift: Lift) -> "Confidence":
        """The bounds on lifted states (mdp/lift.py); raises an error where nothing is proved of them."""


def difference_by_intervals(
    confidence: Confidence, reward: Float[np.ndarray, "H S A"], policies: tuple[Policy, Policy]
) -> tuple[float, float]:
    """The difference of two policies by the interval of each, for classes without a sharper bound."""
    a, b = (confidence.bounds(reward, policy) for policy in policies)
    return float(a.low - b.high), float(a.high - b.low)


def probabilities(policy: Policy, A: int) -> Float[np.ndarray, "H S A"]:
    """A policy as probabilities of its actions."""
    if policy.ndim == 3:
        return policy
    return (policy[..., None] == np.arange(A)).astype(np.float64)
