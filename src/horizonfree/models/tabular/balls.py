"""The balls of all pairs, on short lists of the successors that their centres have: what all bounds are made of."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree.guarantees.divergence import curvature, psi_inverse
from horizonfree.mdp.lift import Lift
from horizonfree.mdp.space import Space
from horizonfree.models.tabular.support import highest_mean


@dataclass(frozen=True, eq=False)
class Balls:
    """KL(prob || p)(s,a) <= eps(s,a) for every pair: 0 where the row is known, infinite where nothing is.

    `succ` and `prob` list the successors of the centre. `is_open`: p may have mass outside them, on any state where it
    `is_anywhere`, else on the lists of the space. `copies`, for lifted states: which copy of all states (of
    that many) follows a pair.
    """

    succ: Int[np.ndarray, "S A C"]
    prob: Float[np.ndarray, "S A C"]
    eps: Float[np.ndarray, "S A"]
    is_open: Bool[np.ndarray, "S A"]
    is_anywhere: bool
    copies: Int[np.ndarray, "S A"] | None = None
    copy_size: int = 0

    def lifted(self, lift: Lift) -> "Balls":
        """On lifted states: every pair has the ball of the one that it lifts."""
        succ, prob, eps, is_open = (
            lift.lists(self.succ),
            *(lift.of(x) for x in (self.prob, self.eps, self.is_open)),
        )
        return Balls(succ, prob, eps, is_open, self.is_anywhere, lift.copies(), len(lift.first))

    @property
    def is_unknown(self) -> Bool[np.ndarray, "S A"]:
        """Where nothing is known."""
        return ~np.isfinite(self.eps)

    @property
    def leak(self) -> Float[np.ndarray, "S A"]:
        """rho, the most mass that p has outside the centre: KL(prob || p) >= -log(1 - mass)."""
        return np.where(self.is_open, -np.expm1(-self.eps), 0.0)

    def weights(self) -> Float[np.ndarray, "S A C"]:
        """w_i = p_hat_i / k(b_i), b_i the most that x_i = p_i/p_hat_i - 1 can be: sum p_hat_i^2 x_i^2 / w_i <= eps.

        So |sum (p - p_hat)_i v_i| <= sqrt(eps sum w_i v_i^2) over the centre, for every v. Zero where nothing is
        known.
        """
        is_used = (self.prob > 0) & ~self.is_unknown[..., None]
        p = np.where(is_used, self.prob, 1.0)
        b = np.minimum(psi_inverse(np.where(is_used, self.eps[..., None] / p, 0.0)), 1 / p - 1)
        return np.where(is_used, p / curvature(b), 0.0)

    def highest(
        self, v: Float[np.ndarray, "k S"], largest: Float[np.ndarray, "k S A"]
    ) -> Float[np.ndarray, "k S A"]:
        """max of p.v over each ball, for k functions of the states; largest: as below."""
        prob, eps = (np.broadcast_to(x, (len(v), *x.shape)) for x in (self.prob, self.eps))
        return highest_mean(prob, eps, v[:, self.succ], largest)

    def largest(self, space: Space, v: Float[np.ndarray, "k S"]) -> Float[np.ndarray, "k S A"]:
        """The largest value among the possible successors of each pair."""
        if self.is_anywhere:
            centre = np.where(self.prob > 0, v[:, self.succ], -np.inf).max(-1)
            top = v.max(-1)[:, None, None]
            if self.copies is not None:
                top = v.reshape(len(v), -1, self.copy_size).max(-1)[:, self.copies]
            return np.where(self.is_open, top, centre)
        at_slot = v[:, None, None, :] if space.is_dense else v[:, space.succ]
        return np.where(space.support, at_slot, -np.inf).max(-1)
