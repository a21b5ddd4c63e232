"""What compiled calls and the oracle of single runs on a CPU (compiled.py) hand each other, in few arrays."""

from typing import NamedTuple

from jaxtyping import Bool, Float, Int, UInt32

from horizonfree._x64 import Leaf
from horizonfree.regression.oracle.objective import Factors
from horizonfree.regression.oracle.result import OracleResult, Point


class Needed(NamedTuple):
    """What the loops need of the factors of `layout.phi`."""

    p: Float[Leaf, "G n"]
    F_tilde: Float[Leaf, "G m n"]
    F_hat: Float[Leaf, "G m n"]
    box_tilde: Float[Leaf, " G"]
    box_slope: Float[Leaf, "G n"]

    @classmethod
    def of(cls, x: Factors) -> "Needed":
        """Of all factors; traceable."""
        return cls(x.p, x.F_tilde, x.F_hat, x.box_tilde, x.box_slope)


class Question(NamedTuple):
    """What is asked: the words of a key, beta and the radius of the search, where to start, and factors."""

    words: UInt32[Leaf, "2"]
    radii: Float[Leaf, "2"]
    policy: Int[Leaf, "H S"]
    target: Bool[Leaf, " S"]
    step: Int[Leaf, ""]
    factors: Needed


class Reply(NamedTuple):
    """An answer in few arrays, which are handed to compiled calls sooner than many."""

    policy: Int[Leaf, "H S"]
    target: Bool[Leaf, " S"]
    counts: Int[Leaf, "2"]  # step, sweeps
    values: Float[Leaf, "2 H1 S"]  # V, Vhat
    numbers: Float[Leaf, "6"]  # value, raw, upper, radius, search_value, U

    def result(self) -> tuple[OracleResult, Float[Leaf, ""]]:
        """That of `ascent`, and U at the start; traceable."""
        step, sweeps = (self.counts[..., i] for i in range(2))  # arrays, not numbers, of NumPy's arrays, too
        value, raw, upper, radius, search_value, U = (self.numbers[..., i] for i in range(6))
        point, numbers = Point(self.policy, step, self.target), (value, raw, upper, radius, search_value)
        return OracleResult(point, self.values[0], self.values[1], *numbers, sweeps, "ascent"), U
