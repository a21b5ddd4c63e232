"""What every class of models can do: learn from episodes, plan, and say how far it may be wrong.

A class (linear mixtures, tables, linear MDPs) is a folder beside this file. It supplies a `Model`, what a learner may
know before the first episode, and a `Confidence`, what episodes add to that at a confidence of 1 - delta. Everything
else in the library, from the episode loop to the report, knows classes by these two alone.
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array, Leaf
from horizonfree.errors import OptionError
from horizonfree.guarantees.bets import Bets
from horizonfree.mdp.space import Kernel, Space
from horizonfree.mdp.trajectory import Trajectory
from horizonfree.models.confidence import Bounds as Bounds
from horizonfree.models.confidence import Confidence as Confidence
from horizonfree.models.confidence import Policy as Policy
from horizonfree.models.draws import Draws

# A tree of fixed shapes, the class's own, with `episodes` [], `visits` [S, A], `impossible` [] (transitions that no
# parameter explains), and `starts`, `weights` of its bets.
Evidence = Any


EXACT = (
    "certificates for a class that is a little wrong (misspecification=) are proved for mixtures only; leave it out, "
    "or describe the problem as a Mixture"
)


class Intervals(NamedTuple):
    """The parameter in the units in which it was given, each entry with its interval [low, high].

    `is_learnable` is False where nothing that can happen in an episode depends on the entry alone.
    """

    estimate: Float[np.ndarray, " d"]
    low: Float[np.ndarray, " d"]
    high: Float[np.ndarray, " d"]
    is_learnable: Bool[np.ndarray, " d"]


class Description(NamedTuple):
    """A class of models in the words of a report.

    `sharing`: how states share data; `unit`: what G-efficiency counts; `learnt`: what was learnt.
    """

    sharing: str
    unit: str
    learnt: str


class Model(abc.ABC):
    """A class of dynamics on a space; its classes are frozen dataclasses and pytrees (`_arrays.node`).

    `evidence_type` is the dataclass of its evidence; `methods` names its certificates for every reward, "uniform"
    first; `derived` the fields that are computed from the others, which a stored run keeps as they were; `explorer` the
    one to explore with where none is named; `burn_in` the part of a declared budget, one in so many, after which its
    late bet starts; `alternatives` the automatic ones that bet against it.
    """

    space: Space
    evidence_type: ClassVar[type]
    methods: ClassVar[tuple[str, ...]]
    derived: ClassVar[tuple[str, ...]]
    explorer: ClassVar[str]
    burn_in: ClassVar[int]
    alternatives: ClassVar[tuple[str, ...]] = ()

    @property
    @abc.abstractmethod
    def num_unknown(self) -> int:
        """q, how many numbers there are to learn."""

    @abc.abstractmethod
    def describe(self) -> Description:
        """The class in the words of a report."""

    @property
    @abc.abstractmethod
    def assumption(self) -> str:
        """What every certificate of the class takes for granted, as a sentence without its end."""

    def with_rewards(self, rewards: Float[np.ndarray, "F H S A"]) -> "Model":
        """The same class, where rewards that are declared before the first episode have sharper certificates."""
        raise OptionError(
            "rewards= declares rewards before the first episode; the certificates of this class hold for every reward "
            "alike: leave it out, and plan for them afterwards"
        )

    @abc.abstractmethod
    def kernel(self, parameter: Any) -> Kernel:
        """The transition probabilities of one parameter; NumPy in, NumPy out, or traced."""

    @abc.abstractmethod
    def parameter(self, given: Any, name: str) -> Any:
        """A parameter in the units in which people give it, checked; `name` is what errors call it."""

    @abc.abstractmethod
    def in_units(self, parameter: Any) -> Float[np.ndarray, " d"]:
        """The same back in those units."""

    @abc.abstractmethod
    def init_evidence(self, bets: Bets) -> Evidence:
        """The evidence before the first episode."""

    def with_history(self, evidence: Evidence) -> Evidence:
        """The same before the first episode, with room for what `within` reads; a class that has no such need has none.

        Single runs keep it, batches do not.
        """
        return evidence

    def robust_confidence(self, evidence: Evidence, delta: float) -> Callable[[Any], Confidence]:
        """What the evidence says, if the laws of the system are within a declared radius of one parameter; on the host.

        A function of the misspecification: what does not depend on it is computed once. Where a class has no proof of
        that it is refused.
        """
        raise OptionError(EXACT)

    def asymptotic_gap(self, misspecification: Any) -> float:
        """About the gap for every reward that is left however many episodes there are; on the host."""
        raise OptionError(EXACT)

    def restricted_to(self, states: Int[np.ndarray, " m"], parameter: Any) -> tuple["Model", Any]:
        """The same class on these states alone, to which episodes keep, and a parameter (or None) of it there."""
        raise OptionError("this class of models cannot be restricted to a part of its states")

    @abc.abstractmethod
    def update(self, evidence: Evidence, trajectory: Trajectory) -> Evidence:
        """The evidence after one more episode; traced."""

    @abc.abstractmethod
    def estimate(self, evidence: Evidence) -> Kernel:
        """A kernel that the evidence suggests, cheap enough for every episode; traced."""

    @abc.abstractmethod
    def confidence(self, evidence: Evidence, delta: float) -> Confidence:
        """What the evidence says at confidence 1 - delta; on the host, NumPy in and out."""

    def posterior_draws(self, evidence: Evidence, prior: Any, count: int, rng: np.random.Generator) -> Draws:
        """So many parameters from the Bayesian posterior; prior None is the class's own; on the host."""
        raise OptionError(
            "a posterior is available for mixtures and tables only: the measures of a linear MDP have no prior that "
            "keeps them valid; describe the problem as one of those"
        )

    def remedy(self, evidence: Evidence, delta: float) -> str:
        """What can still be asked where the class is rejected, as the end of a sentence; on the host."""
        return ""

    @abc.abstractmethod
    def sharper(self, evidence: Evidence, confidence: Any, method: str) -> tuple[float, dict[str, float]]:
        """eps of another of the `methods`, for every reward, with the numbers it is made of; on the host, slower."""

    @property
    @abc.abstractmethod
    def sharpest(self) -> str:
        """The sharpest of the `methods` that takes about a second at most."""

    @abc.abstractmethod
    def rounding(self) -> float:
        """By how much the arithmetic may err in the difference of two values in [0, 1]."""

    # What bets against the class (docs/alternatives.md).

    def max_log_likelihood(self, evidence: Evidence, confidence: Any) -> float:
        """Not less than the logarithm of the largest likelihood of the evidence in the class."""
        raise OptionError(
            "alternatives bet against mixtures and tables; against this class of models there are none yet"
        )

    def marginal_log_likelihood(self, counts: Int[np.ndarray, "C S A n"]) -> float:
        """The logarithm of their likelihood, each part with a parameter of its own, averaged; or a bound below it."""
        raise OptionError("this class of models cannot bet against another; give a mixture or a table")

    def changepoint_evidence(self, evidence: Evidence) -> tuple[list[float], Float[np.ndarray, " J"]]:
        """The same of two parts, before and after the start of each bet, with the bets' weights.

        Empty where the evidence does not tell; then the episodes themselves must.
        """
        return [], np.zeros(0)

    def memory_labels(self) -> Int[np.ndarray, "S A n"]:
        """A number for each transition, which the next one may depend on where the class is wrong."""
        raise OptionError("this class of models has no memory to bet on")

    # What judges and reports ask.

    @abc.abstractmethod
    def violation(
        self, evidence: Evidence, parameter: Any, delta: float | Float[Leaf, ""]
    ) -> Float[Leaf, ""]:
        """Above 0 where the parameter is outside the confidence set; traced.

        Not above 0 for every parameter inside. A class says where it tests only a condition that members must meet.
        """

    @abc.abstractmethod
    def inefficiency(self, evidence: Evidence) -> Float[Array, ""]:
        """1 for data from the best design in hindsight, 2 for data that took twice the episodes; traced."""

    @abc.abstractmethod
    def evidence_history(self, evidence: Evidence) -> list[Evidence]:
        """The evidence at moments in the past, as far as it tells."""

    @abc.abstractmethod
    def row_uncertainty(self, confidence: Any) -> Float[np.ndarray, " S"]:
        """How far a transition probability out of each state may be from its estimate; nan for unreachable states."""

    @abc.abstractmethod
    def mean_uncertainty(self, confidence: Any) -> float:
        """The same on average over what is unknown."""

    @abc.abstractmethod
    def intervals(self, confidence: Any) -> Intervals | None:
        """The parameter and where it lies, None where the class has too many to show."""
