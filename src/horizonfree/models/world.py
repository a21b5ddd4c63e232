"""What bounds for one reward are made of, in a form that needs no JAX: a `World`, one per confidence.

A class of models makes it of a confidence (`Model.world`). A stored run keeps it, and the command line plans with it.
"""

from dataclasses import field
from typing import Protocol, runtime_checkable

import numpy as np

from horizonfree._arrays import Array, Leaf, leaf, node
from horizonfree._shapes import Bool, Float, Int
from horizonfree.mdp.lift import Lift
from horizonfree.mdp.space import Space

# Actions [H, S], or their probabilities [H, S, A].
Policy = Int[Array, "H S"] | Float[Array, "H S A"]


@node
class Bounds:
    """What a policy can lose for one reward, by several proofs, and between which numbers its true value lies.

    `value` is its value under the estimate. All for totals in [0, 1]; a gap may exceed 1, or be nan where its proof
    could not be computed. `is_refuted`: the bounds contradict each other; no parameter of the class explains the data.
    """

    value: Float[Leaf, ""]
    low: Float[Leaf, ""]
    high: Float[Leaf, ""]
    gaps: dict[str, Float[Leaf, ""]]
    is_refuted: Bool[Leaf, ""] = field(default_factory=lambda: leaf(np.asarray(False)))


@runtime_checkable
class World(Protocol):
    """Of a class of models, at one confidence: a node of arrays. NumPy in, NumPy out, or traced."""

    @property
    def space(self) -> Space:
        """Where it lives."""

    def check(self) -> None:
        """Refuse numbers that lead outside of arrays, where they come from a file whose shapes are right."""

    def lifted(self, lift: Lift) -> "World":
        """The same of lifted states (mdp/lift.py); refuses where nothing is proved of them. On the host."""

    def bounds(self, reward: Float[Array, "H S A"], policy: Policy) -> Bounds:
        """What a policy can lose for a reward."""

    def difference(
        self, reward: Float[Array, "H S A"], policies: tuple[Policy, Policy]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Between which numbers the value of the first policy minus that of the second lies."""


def apart(
    world: World, reward: Float[Array, "H S A"], policies: tuple[Policy, Policy]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The difference of two policies by their own intervals, where a class knows nothing better."""
    a, b = (world.bounds(reward, policy) for policy in policies)
    return a.low - b.high, a.high - b.low


def probabilities(policy: Policy, A: int) -> Float[Array, "H S A"]:
    """A policy as probabilities of its actions."""
    if policy.ndim == 3:
        return policy
    return (policy[..., None] == np.arange(A)).astype(np.float64)
