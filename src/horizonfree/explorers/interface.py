"""The interface of an explorer: an initial state, and rules to choose a policy, to learn from an episode, and to plan.

An explorer receives a model and the evidence gathered so far, never the truth and (unless it says so) never a reward.
All of it but `claim` is traced: a block of episodes is one compiled call, and seeds map over it.
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree.estimators.ridge import Ridge
from horizonfree.guarantees.certificate import Certificate
from horizonfree.mdp.trajectory import Trajectory
from horizonfree.models.interface import Evidence, Model


class Ball(NamedTuple):
    """Confidence balls ||theta - theta_i||_{Sigma_i} <= radius_i, of one regression or a batch of them."""

    ridge: Ridge
    radius: Float[Array, "*batch"]


class Info(eqx.Module):
    """What a reader wants to see of an episode: numbers by name, and balls that should hold the truth."""

    numbers: dict[str, Array]
    balls: tuple[Ball, ...] = ()


class Planned(NamedTuple):
    """A policy for a reward, and its values in the eyes of the explorer."""

    policy: Int[Array, "H S"]
    V: Float[Array, "H1 S"]


class Explorer(eqx.Module):
    """A reward-free exploration algorithm; its fields are its options, `learns` is the class of models it is for.

    Its state is a tree of fixed shapes with a field `policy`, [H, S] actions or [H, S, A] probabilities, which `choose`
    sets. It holds what the next episode needs and nothing else. A state may have a field `is_due`, a traced bool: then
    a policy is chosen before the next episode only where it is true.
    """

    learns: eqx.AbstractClassVar[type[Model]]

    @abc.abstractmethod
    def init(self, model: Any) -> Any:
        """The state before the first episode; cheap, its policy is not run."""

    @abc.abstractmethod
    def choose(self, key: Array, model: Any, state: Any, evidence: Evidence) -> Any:
        """The state with the policy of the next episode."""

    @abc.abstractmethod
    def update(self, model: Any, state: Any, evidence: Evidence, trajectory: Trajectory) -> tuple[Any, Info]:
        """The state after one more episode; evidence already holds that episode."""

    @abc.abstractmethod
    def plan(self, model: Any, state: Any, evidence: Evidence, reward: Float[Array, "H S A"]) -> Planned:
        """The policy with which the algorithm itself answers a reward."""

    @abc.abstractmethod
    def claim(self, model: Any, state: Any) -> Certificate | None:
        """The algorithm's own guarantee for its own plans, None if it has none; on the host."""
