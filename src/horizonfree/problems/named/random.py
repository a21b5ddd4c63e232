"""Random mixtures: for tests, sweeps and speed."""

from typing import Annotated

import numpy as np
import scipy  # loads `scipy.sparse`, which takes long, when it is asked for

from horizonfree._validation import MAX_INT
from horizonfree.models.mixture import features
from horizonfree.problems.mixture import Mixture
from horizonfree.problems.problem import Problem
from horizonfree.problems.registry import Between, Horizon, is_at_least, problem


@problem("random-mixture")
def random_mixture(
    states: Annotated[int, Between(1, 10**5, "S")] = 20,
    actions: Annotated[int, Between(1, 1000, "A")] = 4,
    dim: Annotated[int, Between(1, 1000, "d, the number of base kernels")] = 5,
    successors: Annotated[int, Between(1, 10**5, "possible next states of a state and action")] = 4,
    horizon: Horizon = 20,
    seed: Annotated[int, Between(0, MAX_INT, "draws the base kernels and the truth")] = 0,
) -> Problem:
    """Random base kernels on random successors, mixed by random weights.

    The base kernels share the successors of (s, a), drawn without repetition; their probabilities and the weights
    are uniform on the simplex. Set successors = states for dense kernels.

    Source: this library; a Garnet problem (Bhatnagar et al. 2009) for each base kernel.
    """
    is_at_least("states", states, successors, "successors are different states")
    kept = states if 2 * successors > states else successors  # as in features.pack
    features.check_size(states, actions, kept, dim)
    rng = np.random.default_rng(seed)
    rows = states * actions
    to = np.concatenate([rng.choice(states, successors, replace=False) for _ in range(rows)])
    first = np.arange(rows + 1) * successors
    kernels = [
        scipy.sparse.csr_array((p.ravel(), to, first), shape=(rows, states))
        for p in rng.dirichlet(np.ones(successors), size=(dim, rows))
    ]
    weights = rng.dirichlet(np.ones(dim))
    return Mixture.from_kernels(kernels, horizon=horizon, weights=weights)
