"""What a model class provides: how it learns from episodes, and what its confidence sets bound.

A model class (linear mixtures, tabular MDPs, linear MDPs) is a folder beside this file and one line in registry.py. It
defines, as subclasses of the classes below,

    Model         what is known before the first episode
    Evidence      what a run stores of its episodes
    Confidence    the confidence set computed from the evidence at 1 - delta, and what policies can lose in it
    Diagnostics   what reports show
    Alternatives  richer classes that may refute this one (docs/alternatives.md); optional

The rest of the library uses a model class through these alone. Methods marked "traced" are in the folder's learner.py
and run inside compiled JAX programs; everything else is NumPy.
"""

import abc
import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Leaf, node
from horizonfree.errors import ModelError, OptionError
from horizonfree.guarantees.e_processes import EProcesses
from horizonfree.mdp.events import Lift
from horizonfree.mdp.rewards import StateRewards
from horizonfree.mdp.space import Kernel, Space, Trajectory, may_stay
from horizonfree.planning.induction import row_maxima

# Actions [H, S], or their probabilities [H, S, A].
Policy: TypeAlias = Int[np.ndarray, "H S"] | Float[np.ndarray, "H S A"]
Number: TypeAlias = float | Float[np.ndarray, ""]
# The evidence or the confidence of one model class, which is all that its own methods accept.
OwnEvidence: TypeAlias = Any
OwnConfidence: TypeAlias = Any

FORECAST_TIMES = [1.25**k for k in range(1, 42)]  # as much data, up to 10,000 times, that a forecast looks at
NO_RADII = (
    "certificates for a class that is a little wrong (misspecification=) are proved for mixtures and tables; leave it "
    "out, or describe the problem as one of these"
)


@node
class Evidence:
    """Sums over episodes, of fixed shapes: a scan can carry them, and vmap can map over seeds.

    `counts` of the transitions in the slots of the successor lists; `starts` and `weights` of the e-processes that were
    declared before the first episode; `episodes` so far; `impossible`: transitions that no parameter explains.
    """

    counts: Int[Leaf, "*batch S A n"]
    starts: Int[Leaf, "*batch J"]
    weights: Float[Leaf, "*batch J"]
    episodes: Int[Leaf, "*batch"]
    impossible: Int[Leaf, "*batch"]

    @property
    def visits(self) -> Int[Leaf, "*batch S A"]:
        """How often each action was taken in each state."""
        return self.counts.sum(-1)

    @property
    def theta(self) -> Float[Leaf, "*batch d"] | None:
        """The online estimate of the parameter; None in a class that has no parameter beside its kernel."""
        return None

    @property
    def has_history(self) -> bool:
        """Whether the counts are stored block by block, too (`Model.init_evidence`)."""
        return False


class Description(NamedTuple):
    """A model class in the words of reports and certificates.

    `assumption` of every certificate, as a sentence without its end; `sharing`: how states share data; `unit`: what
    G-efficiency counts; `parameter`: what is estimated.
    """

    assumption: str
    sharing: str
    unit: str
    parameter: str


class Model(abc.ABC):
    """A model class on a space; its subclasses are frozen dataclasses and pytrees (`_arrays.node`).

    `evidence_type` is its class of evidence. `methods` names its certificates for every reward, "uniform" first.
    `derived` are fields that are computed from the others; a stored run keeps their values. `explorer` is the default
    explorer. With a declared budget of K episodes the late e-process starts after K / `burn_in`. `is_hull`: parameters
    are weights, of which none is negative. `is_shared`: state-action pairs share data; else evidence of runs adds up.
    """

    space: Space
    evidence_type: ClassVar[type[Evidence]]
    methods: ClassVar[tuple[str, ...]] = ("uniform",)
    derived: ClassVar[tuple[str, ...]] = ()
    explorer: ClassVar[str]
    burn_in: ClassVar[int] = 5
    is_hull = False
    is_shared: ClassVar[bool] = True

    @property
    @abc.abstractmethod
    def num_unknown(self) -> int:
        """How many numbers are unknown."""

    @property
    @abc.abstractmethod
    def parameter_shape(self) -> tuple[int, ...]:
        """The shape of a parameter."""

    @abc.abstractmethod
    def describe(self) -> Description:
        """The class in words."""

    @abc.abstractmethod
    def kernel(self, parameter: Any) -> Kernel:
        """The transition probabilities of one parameter, linear in it; traced, or NumPy in and out."""

    @abc.abstractmethod
    def parameter(self, argument: Any, name: str) -> Any:
        """The parameter that a caller describes, checked; `name` is what errors call it."""

    @abc.abstractmethod
    def init_evidence(self, bets: EProcesses, *, has_history: bool = False) -> OwnEvidence:
        """The evidence before the first episode.

        has_history: store what `robust_confidence` needs beside the counts, where the class can. Batches do not.
        """

    @abc.abstractmethod
    def update(self, evidence: OwnEvidence, trajectory: Trajectory) -> OwnEvidence:
        """The evidence after one more episode; traced."""

    @abc.abstractmethod
    def estimate(self, evidence: OwnEvidence) -> Kernel:
        """An online estimate, cheap enough for every episode; traced."""

    @abc.abstractmethod
    def confidence(self, evidence: OwnEvidence, delta: float) -> "Confidence":
        """The confidence set of the evidence at 1 - delta."""

    @abc.abstractmethod
    def violation(
        self, evidence: OwnEvidence, parameter: Any, delta: float | Float[Leaf, ""]
    ) -> Float[Leaf, ""]:
        """Positive where the parameter is outside the confidence set; traced, or NumPy in and out.

        Not positive for any parameter inside. A class may test a necessary condition only; its docstring says so.
        """

    @abc.abstractmethod
    def rounding(self) -> float:
        """By how much rounding errors may change the difference of two values in [0, 1]."""

    def may_stay(self) -> Bool[np.ndarray, " S"]:
        """States that may follow themselves whatever the action: an episode may end there.

        A class that can exclude some of them, because they are left under every parameter, does.
        """
        return may_stay(self.space)

    def robust_confidence(self, evidence: OwnEvidence, delta: float) -> "Callable[[Any], Confidence]":
        """The confidence set as a function of the misspecification; what does not depend on it is computed once."""
        raise OptionError(NO_RADII)

    def with_rewards(self, rewards: Float[np.ndarray, "F H S A"]) -> "Model":
        """The class with sharper certificates for these rewards, declared before the first episode."""
        raise OptionError(
            "rewards= declares rewards before the first episode; the certificates of this class hold for every reward "
            "alike: leave it out, and plan for them afterwards"
        )

    def restricted_to(self, states: Int[np.ndarray, " m"], parameter: Any) -> tuple["Model", Any]:
        """The class on these states, which no episode leaves, and a parameter (or None) of it there."""
        raise OptionError("this class of models cannot be restricted to a part of its states")


@dataclass(frozen=True, eq=False)
class Bounds:
    """What a policy can lose for one reward, by several proofs, and a confidence interval for its value.

    `value` is its value in the estimate. All numbers are for totals in [0, 1]; a gap may exceed 1, or be nan where its
    proof could not be computed. `is_refuted`: the bounds contradict each other; no parameter explains the data.
    """

    value: Number
    low: Number
    high: Number
    gaps: dict[str, Number]
    is_refuted: Any = False


@dataclass(frozen=True, eq=False)
class Described:
    """What texts need of a problem: a layout with names of states and actions, and the assumptions of its log."""

    layout: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    def assumptions(self) -> tuple[str, ...]:
        """What certificates assume beside the model class: how the log was recorded, bins, and cells."""
        return (*self.layout.get("log", {}).get("assumes", ()), *self.layout.get("assumes", ()))


class Confidence(Described, abc.ABC):
    """The confidence set of the evidence at 1 - delta: a frozen dataclass of NumPy arrays.

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
    def bounds(self, reward: Float[np.ndarray, "H S A"], policy: Policy) -> Bounds:
        """What a policy can lose for a reward."""

    def difference(
        self, reward: Float[np.ndarray, "H S A"], policies: tuple[Policy, Policy]
    ) -> tuple[float, float]:
        """Bounds on the value of the first policy minus that of the second; by default from the two intervals."""
        a, b = (self.bounds(reward, policy) for policy in policies)
        return float(a.low - b.high), float(a.high - b.low)

    def bounds_of_states(self, rewards: StateRewards) -> Iterator[Bounds] | None:
        """`bounds` of the best plan in the estimate for each reward; None where one by one is as fast."""
        return None

    def sharper(self, method: str) -> tuple[float, dict[str, float]]:
        """eps by another of `Model.methods`, and the numbers that it is made of; slower."""
        raise OptionError(f"method is {method!r}; this class of models has 'uniform' alone")

    @property
    def sharpest(self) -> str:
        """The sharpest of `Model.methods` that is affordable."""
        return "uniform"

    def entry_intervals(self) -> tuple[Float[np.ndarray, "S A n"], Float[np.ndarray, "S A n"]]:
        """The smallest and the largest value of each transition probability in the confidence set."""
        raise OptionError("intervals of transition probabilities are known for mixtures and tables only")

    @abc.abstractmethod
    def lifted(self, lift: Lift) -> "Confidence":
        """The confidence set on lifted states (mdp/events.py); an error where nothing is proved of them."""

    @abc.abstractmethod
    def parts(self) -> dict[str, float]:
        """The numbers that every certificate is made of (`certificate.MEANINGS`)."""

    @abc.abstractmethod
    def refutation(self) -> str:
        """Why the class is wrong, where `is_refuted`."""

    def check_not_refuted(self) -> None:
        """Raise an error where the data refute the model class."""
        if self.is_refuted:
            raise ModelError(f"the data refute the model class: {self.refutation()}")

    @abc.abstractmethod
    def missing(self) -> str:
        """Why a certificate is vacuous, and what would help."""

    @abc.abstractmethod
    def more_episodes(self, target: float) -> float:
        """About how many more episodes like those so far bring eps to the target; infinite where that is not known."""

    @abc.abstractmethod
    def after(self, times: float) -> tuple["Confidence", float]:
        """The forecast: about the confidence set of `times` as much data with the same estimate, and how many more
        episodes those are. `more_episodes` is its inverse for eps.
        """

    def episodes_until(self, is_enough: Callable[["Confidence"], bool]) -> float:
        """About how many more episodes like those so far are enough, by `after`; infinite if 10,000 times are not."""
        if not is_enough(self.after(FORECAST_TIMES[-1])[0]):
            return math.inf
        enough = bisect_left(FORECAST_TIMES, True, key=lambda times: is_enough(self.after(times)[0]))
        return self.after(FORECAST_TIMES[enough])[1]

    def condition(self) -> str:
        """What a certificate assumes beside the class, as the end of its sentence."""
        return ""

    @property
    def leads_anywhere(self) -> bool:
        """Whether a transition may lead to a state that is not in the successor lists."""
        return False

    def check_reward(self, reward: Float[np.ndarray, "H S A"]) -> None:
        """Refuse a reward for which nothing is proved."""


class Intervals(NamedTuple):
    """The parameter in the caller's units, each entry with its interval [low, high].

    `is_learnable` is False where no transition probability of an episode depends on the entry alone.
    """

    estimate: Float[np.ndarray, " d"]
    low: Float[np.ndarray, " d"]
    high: Float[np.ndarray, " d"]
    is_learnable: Bool[np.ndarray, " d"]


class Diagnostics(abc.ABC):
    """What reports show of a model class; registry.py finds it."""

    def __init__(self, model: Any) -> None:
        self.model = model

    @abc.abstractmethod
    def in_units(self, parameter: Any) -> Float[np.ndarray, " d"]:
        """A parameter in the caller's units, flat."""

    @abc.abstractmethod
    def row_uncertainty(self, confidence: OwnConfidence) -> Float[np.ndarray, " S"]:
        """How far a transition probability out of each state may be from the estimate; nan for unreachable states."""

    @abc.abstractmethod
    def mean_uncertainty(self, confidence: OwnConfidence) -> float:
        """The mean of that over what is unknown."""

    @abc.abstractmethod
    def inefficiency(self, evidence: OwnEvidence) -> float:
        """1 for data from the best design in hindsight, 2 for data that took twice the episodes.

        0 where nothing is unknown.
        """

    def intervals(self, confidence: OwnConfidence) -> Intervals | None:
        """The entries of the parameter with intervals; None where the class has too many to show."""
        return None

    def evidence_history(self, evidence: OwnEvidence) -> list[OwnEvidence]:
        """The evidence at earlier moments, as far as it can be computed from the evidence of now."""
        return []

    def remedy(self, evidence: OwnEvidence, delta: float) -> str:
        """What can still be certified where the class is rejected, as the end of a sentence."""
        return ""

    def asymptotic_gap(self, misspecification: Any) -> float:
        """About the suboptimality bound for every reward that remains after infinitely many episodes."""
        raise OptionError(NO_RADII)


class Alternatives:
    """What richer classes need to know of a model class to test it. `names` are the automatic ones."""

    names: ClassVar[tuple[str, ...]] = ()

    def __init__(self, model: Any) -> None:
        self.model = model

    def max_log_likelihood(self, evidence: OwnEvidence, confidence: OwnConfidence) -> float:
        """At least the logarithm of the largest likelihood of the evidence in the class."""
        raise OptionError(
            "alternatives bet against mixtures and tables; against this class of models there are none yet"
        )

    def marginal_log_likelihood(self, counts: Int[np.ndarray, "C S A n"]) -> float:
        """At most the logarithm of the likelihood averaged over parameters, of a separate one for each part C."""
        raise OptionError("this class of models cannot bet against another; give a mixture or a table")

    def changepoint_evidence(self, evidence: OwnEvidence) -> tuple[list[float], Float[np.ndarray, " J"]]:
        """`marginal_log_likelihood` of the parts before and after the start of each e-process, and their weights.

        Empty where the evidence does not determine it; then the episodes are needed.
        """
        return [], np.zeros(0)

    def memory_labels(self) -> Int[np.ndarray, "S A n"]:
        """A label of each transition, on which the next one may depend where the class is wrong."""
        raise OptionError("this class of models has no memory to bet on")


def probabilities(policy: Policy, A: int) -> Float[np.ndarray, "H S A"]:
    """A policy as probabilities of its actions."""
    if policy.ndim == 3:
        return policy
    return np.asarray((policy[..., None] == np.arange(A)).astype(np.float64))


def length(x: Float[np.ndarray, "*n d"]) -> Float[np.ndarray, "*n"]:
    """The Euclidean norm along the last axis."""
    return np.asarray(np.sqrt(np.einsum("...i,...i->...", x, x)))


def opnorm(M: Float[np.ndarray, "*b q q"]) -> Float[np.ndarray, "*b"]:
    """An upper bound on the largest |eigenvalue| of symmetric matrices: tr(M^16)^(1/16), at most q^(1/16) times it."""
    if M.shape[-1] == 0:
        return np.zeros(M.shape[:-2])
    scale = row_maxima(abs(M).reshape(-1, M.shape[-1] ** 2)).reshape(M.shape[:-2])
    power = M / np.where(scale > 0, scale, 1.0)[..., None, None]
    for _ in range(3):
        power = power @ power
    norm = length(power.reshape(*M.shape[:-2], -1))
    for _ in range(3):  # a power of 1/8 takes longer
        norm = np.sqrt(norm)
    return np.asarray(scale * norm)
