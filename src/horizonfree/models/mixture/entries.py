"""How large each transition probability of a mixture can be: the confidence set projected on every entry.

A parameter of the confidence set has row r between p_r (1 - below_r) and p_r (1 + above_r) (ellipsoid.py). Rows that
no direction of the data changes have a known probability; rows of states that no episode comes to, of which nothing is
known, may have any.
"""

import numpy as np
from jaxtyping import Float

from horizonfree.mdp.space import Space
from horizonfree.models.mixture.ellipsoid import Ellipsoid
from horizonfree.models.mixture.valid import RANK_TOLERANCE, ValidSet

ROUNDING = 1e-12  # by which ends of intervals are moved outwards


def entry_intervals(
    space: Space, valid: ValidSet, ball: Ellipsoid
) -> tuple[Float[np.ndarray, "S A n"], Float[np.ndarray, "S A n"]]:
    """The ends of each entry on the successor lists; 0 in slots of padding."""
    p = np.maximum(np.asarray(valid.rows) @ ball.theta, 0.0)
    free = np.asarray(valid.free)
    low = np.where(free, ball.p * (1 - ball.below) - ROUNDING, p)
    high = np.where(free, ball.p * (1 + ball.above) + ROUNDING, p)
    moves = np.linalg.norm(np.asarray(valid.rows) @ np.asarray(valid.affine), axis=1)
    is_open = ~free & (moves > RANK_TOLERANCE * np.asarray(valid.sizes))
    low, high = np.where(is_open, 0.0, low), np.where(is_open, 1.0, high)
    row_of, support = np.asarray(valid.row_of), np.asarray(space.support)
    ends = (np.append(np.clip(x, 0.0, 1.0), 0.0)[row_of] for x in (low, high))
    found_low, found_high = (np.where(support, x, 0.0) for x in ends)
    return found_low, found_high
