"""How large each transition probability of a table can be: the balls projected on every entry.

If KL(c || p) <= eps, every entry has kl(c_i, p_i) <= eps, the divergence of coins (data processing), and a p that moves
the other entries in proportion attains it. Successors outside the centre have at most the leak 1 - exp(-eps) of the
mass (balls.py).
"""

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree.mdp.space import Space
from horizonfree.models.tabular.balls import Balls

BISECTIONS = 60
ROUNDING = 1e-12  # by which ends of intervals are moved outwards


def entry_intervals(
    space: Space, balls: Balls, pairs: Int[np.ndarray, "X 2"]
) -> tuple[Float[np.ndarray, "S A n"], Float[np.ndarray, "S A n"]]:
    """The ends of each entry on the successor lists; 0 in slots of padding."""
    support, centre = np.asarray(space.support), on_lists(space, balls)
    eps = balls.eps[..., None]
    radius = np.broadcast_to(np.where(np.isfinite(eps), eps, 0.0), centre.shape)
    low, high = coin_interval(centre, radius)
    high = np.where(centre > 0, high, balls.leak[..., None])
    is_learnt = np.zeros(support.shape[:2], bool)
    is_learnt[*pairs.T] = True
    is_learnt |= balls.eps > 0  # forbidden actions have the ball of what is done for them
    nothing_known = np.where(is_learnt, balls.is_unknown, support.sum(-1) > 1)[..., None]
    exact = ~is_learnt[..., None] & ~nothing_known
    low = np.where(exact, centre, np.where(nothing_known, 0.0, low - ROUNDING))
    high = np.where(exact, centre, np.where(nothing_known, 1.0, high + ROUNDING))
    return np.where(support, np.clip(low, 0, 1), 0.0), np.where(support, np.clip(high, 0, 1), 0.0)


def coin_interval(
    c: Float[np.ndarray, "*n"], eps: Float[np.ndarray, "*n"]
) -> tuple[Float[np.ndarray, "*n"], Float[np.ndarray, "*n"]]:
    """The smallest and largest p with kl(c, p) <= eps, each from outside."""
    inside_low, outside_low = c.copy(), np.zeros_like(c)
    inside_high, outside_high = c.copy(), np.ones_like(c)
    for _ in range(BISECTIONS):
        for inside, outside in ((inside_low, outside_low), (inside_high, outside_high)):
            middle = (inside + outside) / 2
            is_inside = _coin_divergence(c, middle) <= eps
            inside[is_inside], outside[~is_inside] = middle[is_inside], middle[~is_inside]
    is_sure = eps <= 0
    return np.where(is_sure, c, outside_low), np.where(is_sure, c, outside_high)


@np.errstate(divide="ignore", invalid="ignore")
def _coin_divergence(c: np.ndarray, p: np.ndarray) -> np.ndarray:
    first = np.where(c > 0, c * np.log(c / p), 0.0)
    second = np.where(c < 1, (1 - c) * np.log((1 - c) / (1 - p)), 0.0)
    return np.asarray(first + second)


def on_lists(space: Space, balls: Balls) -> Float[np.ndarray, "S A n"]:
    """The centres on the successor lists of the space."""
    S, A, n = space.succ.shape
    s, a, c = np.nonzero(balls.prob > 0)
    is_slot: Bool[np.ndarray, "m n"] = np.asarray(space.support)[s, a] & (
        np.asarray(space.succ)[s, a] == balls.succ[s, a, c][:, None]
    )
    found = np.zeros((S, A, n))
    found[s, a, is_slot.argmax(1)] = balls.prob[s, a, c]
    return found
