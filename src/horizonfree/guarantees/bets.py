"""When the bets of a class of models start, and what they weigh: declared before the first episode."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from horizonfree._validation import check_floats, check_integers
from horizonfree.errors import OptionError

# Episodes before each bet and its weight, when no budget is declared: most weight where most runs end.
LADDER = {0: 0.05, 20: 0.15, 60: 0.2, 200: 0.2, 600: 0.2, 2_000: 0.1, 6_000: 0.06, 20_000: 0.04}
LATEST = 2**31 - 1  # no run has more episodes
LATE = 0.9  # of the weight for the late bet of a declared budget; the rest is for the bet from the start


class Bets(NamedTuple):
    """J bets: the episodes before each, and weights that sum to at most 1."""

    starts: Int[np.ndarray, " J"]
    weights: Float[np.ndarray, " J"]


def ladder(budget: int | None = None, burn_in: int = 5) -> Bets:
    """The bets without a budget, good at any time; or with a budget of K episodes.

    Then they start at K/burn_in and at 0. K/5 is the best start of mixtures (it minimises slack / (K - start) for few
    unknowns); the class of models says what is best for it.
    """
    if budget is None:
        bets = LADDER
    elif budget < burn_in:
        bets = {0: 1.0}
    else:
        bets = {0: 1 - LATE, min(budget // burn_in, LATEST): LATE}
    return Bets(np.array(list(bets), np.int32), np.array(list(bets.values())))


def check_bets(bets: Bets) -> None:
    """Refuse bets whose weights are no share of one."""
    starts, weights = (
        check_integers(bets.starts, "starts of the bets"),
        check_floats(bets.weights, "weights of the bets"),
    )
    if starts.ndim != 1 or starts.shape != weights.shape or starts.size == 0 or (starts < 0).any():
        raise OptionError(
            f"starts of the bets are {starts}, weights {weights}; give as many of one as of the other, >= 0"
        )
    if not ((weights > 0).all() and weights.sum() <= 1 + 1e-12):
        raise OptionError(f"weights of the bets are {weights}; they must be positive and sum to at most 1")
