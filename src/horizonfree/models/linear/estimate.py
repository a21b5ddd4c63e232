"""The estimate of one bet and how sure of it we are: NumPy in, NumPy out, or traced. widths.py computes it."""

from horizonfree._arrays import Array, Leaf, library, node
from horizonfree._shapes import Bool, Float


@node
class Fit:
    """The estimate of one bet, and how sure of it we are."""

    raw: Float[Leaf, "S A S"]  # x'Mhat
    prob: Float[Leaf, "S A S"]  # P~
    X: Float[Leaf, "S A d"]
    e: Float[Leaf, "S A"]
    is_bad: Bool[Leaf, "S A"]
    logdet: Float[Leaf, ""]

    @property
    def n(self) -> Float[Array, "S A"]:
        """|X|."""
        return library(self.X).sqrt((self.X**2).sum(-1))

    def beta(self, L: Float[Array, ""]) -> Float[Array, ""]:
        """beta(L)."""
        return library(self.logdet, L).sqrt((self.logdet / 2 + L) / 2)

    def width(self, beta: Float[Array, ""]) -> Float[Array, "S A"]:
        """By how much P~ V may differ from P V, for V in [0,1]^S."""
        xp = library(self.X, beta)
        return xp.where(self.is_bad, 1.0, xp.minimum(1.0, beta * self.n + self.e))
