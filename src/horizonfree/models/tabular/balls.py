"""The balls of all pairs, on short lists of the successors that their centres have: what all bounds are made of.

NumPy in, NumPy out, or traced.
"""

from horizonfree._arrays import Array, Leaf, library, node, static
from horizonfree._shapes import Bool, Float, Int
from horizonfree.guarantees.psi import curvature, psi_inverse
from horizonfree.mdp.space import Space
from horizonfree.models.tabular.support import highest_mean


@node
class Balls:
    """KL(prob || p)(s,a) <= eps(s,a) for every pair: 0 where the row is known, infinite where nothing is.

    `succ` and `prob` list the successors of the centre. `is_open`: p may have mass outside them, on any state where it
    `is_anywhere`, else on the lists of the space.
    """

    succ: Int[Leaf, "S A C"]
    prob: Float[Leaf, "S A C"]
    eps: Float[Leaf, "S A"]
    is_open: Bool[Leaf, "S A"]
    is_anywhere: bool = static()

    @property
    def is_unknown(self) -> Bool[Array, "S A"]:
        """Where nothing is known."""
        return ~library(self.eps).isfinite(self.eps)

    @property
    def leak(self) -> Float[Array, "S A"]:
        """rho, the most mass that p has outside the centre: KL(prob || p) >= -log(1 - mass)."""
        xp = library(self.eps)
        return xp.where(self.is_open, -xp.expm1(-self.eps), 0.0)

    def weights(self) -> Float[Array, "S A C"]:
        """w_i = p_hat_i / k(b_i), b_i the most that x_i = p_i/p_hat_i - 1 can be: sum p_hat_i^2 x_i^2 / w_i <= eps.

        So |sum (p - p_hat)_i v_i| <= sqrt(eps sum w_i v_i^2) over the centre, for every v. Zero where nothing is
        known.
        """
        xp = library(self.prob)
        is_used = (self.prob > 0) & ~self.is_unknown[..., None]
        p = xp.where(is_used, self.prob, 1.0)
        b = xp.minimum(psi_inverse(xp.where(is_used, self.eps[..., None] / p, 0.0)), 1 / p - 1)
        return xp.where(is_used, p / curvature(b), 0.0)

    def highest(self, space: Space, v: Float[Array, "k S"]) -> Float[Array, "k S A"]:
        """max of p.v over each ball, for k functions of the states."""
        xp = library(self.prob, v)
        prob, eps = (xp.broadcast_to(x, (len(v), *x.shape)) for x in (self.prob, self.eps))
        return highest_mean(prob, eps, v[:, self.succ], self.largest(space, v))

    def largest(self, space: Space, v: Float[Array, "k S"]) -> Float[Array, "k S A"]:
        """The largest value among the possible successors of each pair."""
        xp = library(self.prob, v)
        if self.is_anywhere:
            centre = xp.where(self.prob > 0, v[:, self.succ], -xp.inf).max(-1)
            return xp.where(self.is_open, v.max(-1)[:, None, None], centre)
        at_slot = v[:, None, None, :] if space.is_dense else v[:, space.succ]
        return xp.where(space.support, at_slot, -xp.inf).max(-1)
