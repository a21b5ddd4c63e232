"""The interface of an explorer, and options that several explorers have.

An explorer has an initial state and rules to choose a policy, to learn from an episode, and to plan. It receives a
model and the evidence of the episodes so far, never the truth, and a reward only as an option. All methods but
`claim` are
traced: a block of episodes is one compiled call, and seeds map over it.
"""

import abc
from typing import Annotated, Any, ClassVar, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree._validation import check_count, check_number, check_probability
from horizonfree.errors import OptionError
from horizonfree.estimators.ridge import Ridge
from horizonfree.guarantees.certificate import Certificate
from horizonfree.mdp.space import Trajectory
from horizonfree.models.base import Model, OwnEvidence
from horizonfree.models.mixture.evidence import MixtureEvidence
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.planning.traced import optimal_jax


class ConfidenceBall(NamedTuple):
    """Confidence balls ||theta - theta_i||_{Sigma_i} <= radius_i, of one regression or a batch of them."""

    ridge: Ridge
    radius: Float[Array, "*batch"]


class Info(eqx.Module):
    """The report of an episode: numbers by name for the records, and balls that contain the truth with high
    probability."""

    numbers: dict[str, Array]
    balls: tuple[ConfidenceBall, ...] = ()


class ExplorerPlan(NamedTuple):
    """A policy for a reward, and its values in the explorer's own estimate."""

    policy: Int[Array, "H S"]
    V: Float[Array, "H1 S"]


class Explorer(eqx.Module):
    """A reward-free exploration algorithm. Its fields are its options, `learns` is its class of models.

    Its state is a pytree of fixed shapes with a field `policy`, [H, S] actions or [H, S, A] probabilities, which
    `choose` sets. It contains only what the next episode needs. It may have a field `is_due`, a traced bool: then a
    policy is chosen before the next episode only where it is true.
    """

    learns: eqx.AbstractClassVar[type[Model]]

    @abc.abstractmethod
    def init(self, model: Any) -> Any:
        """The state before the first episode; its policy is not played."""

    @abc.abstractmethod
    def choose(self, key: Array, model: Any, state: Any, evidence: OwnEvidence) -> Any:
        """The state with the policy of the next episode."""

    @abc.abstractmethod
    def update(
        self, model: Any, state: Any, evidence: OwnEvidence, trajectory: Trajectory
    ) -> tuple[Any, Info]:
        """The state after an episode; `evidence` already contains that episode."""

    @abc.abstractmethod
    def plan(
        self, model: Any, state: Any, evidence: OwnEvidence, reward: Float[Array, "H S A"]
    ) -> ExplorerPlan:
        """The plan of the algorithm itself for a reward."""

    @abc.abstractmethod
    def claim(self, model: Any, state: Any) -> Certificate | None:
        """The algorithm's own guarantee for its own plans, None if it has none; on the host."""

    def claim_in(self, model: Any, confidence: Any, uniform: Certificate) -> Certificate | None:
        """The own guarantee of an algorithm whose set is the confidence set of the evidence; on the host.

        uniform: the certificate of that set. None where the algorithm has sets of its own (`claim`).
        """
        return None


class PlugIn(Explorer):
    """An explorer of mixtures that plans with a point estimate of the parameter."""

    learns: ClassVar[type[Model]] = MixtureModel

    @abc.abstractmethod
    def theta_hat(self, model: MixtureModel, state: Any, evidence: MixtureEvidence) -> Float[Array, " d"]:
        """The algorithm's own point estimate; traced."""

    def plan(
        self, model: MixtureModel, state: Any, evidence: MixtureEvidence, reward: Float[Array, "H S A"]
    ) -> ExplorerPlan:
        """The optimal policy for this parameter."""
        return ExplorerPlan(*optimal_jax(model.kernel(self.theta_hat(model, state, evidence)), reward))


# ---- Options: the text beside a type is the meaning of the option. ----

Constants = Annotated[
    str, "'paper': the radii of the theorem; 'scaled': radii of no theorem, made of scale and bias_scale"
]
Delta = Annotated[float, "failure probability that the radii refer to"]
Budget = Annotated[int | None, "episodes K that the radii refer to; by default those asked for"]
Reward = Annotated[np.ndarray, "the reward to explore for, of total at most 1"]
PoolSteps = Annotated[bool, "one model for all steps instead of one per step"]

# Radii of regressions that are weighted by moments (estimators/moments.py).
Noise = Annotated[float, "when scaled: the noise part of the radii"]
Bias = Annotated[float, "when scaled: the factor of their bias sqrt(lam) B"]

# Radii in units of the largest standard deviation of the noise of a row.
Deviations = Annotated[float, "when scaled: the radii, in the largest standard deviations of a row's noise"]
BiasAdded = Annotated[float, "when scaled: what is added to each radius"]

# Explorers of tabular MDPs, as in the code of their authors.
Clip = Annotated[
    bool, "cap the bounds at the largest value there is, as printed; the authors' experiments do not"
]
BonusScale = Annotated[
    float, "factor of the bonuses while exploring; 1 is the paper's, and always the certificate's"
]
Episodes = Annotated[int | None, "episodes in all, which phases or stages share; by default those asked for"]
Successors = Annotated[
    int | None,
    "the most different successors a pair may show, for speed in large tabular MDPs; by default any number",
]
MAX_BONUS = 1e100  # sums of bonuses stay finite


def check_bonus(bonus_scale: float, delta: float) -> None:
    """Check the options of a bonus."""
    check_number(bonus_scale, "bonus_scale", 0, MAX_BONUS, f"a number between 0 and {MAX_BONUS:g}")
    check_probability(delta, "delta")


def check_budget(budget: int | None, purpose: str) -> int:
    """The budget; `explore` passes the number of episodes where it is None."""
    if budget is None:
        raise OptionError(f"budget is missing: the number of episodes {purpose}")
    return budget


def check_successors(successors: int | None) -> None:
    """Check the length of successor lists; None stands for any."""
    if successors is not None:
        check_count(successors, "successors")
