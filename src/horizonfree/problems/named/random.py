"""Random problems: mixtures of random kernels, and linear MDPs with random features."""

from typing import Annotated

import numpy as np
import scipy  # `scipy.sparse` is loaded on first use

from horizonfree._validation import MAX_INT
from horizonfree.models.mixture import features
from horizonfree.problems.classes import LinearMDP, Mixture
from horizonfree.problems.problem import Problem
from horizonfree.problems.registry import Between, Horizon, check_at_least, problem

Drawn = Annotated[int, Between(0, MAX_INT, "draws the features and the truth")]


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
    check_at_least("states", states, successors, "successors are different states")
    stored = states if 2 * successors > states else successors  # as in features.pack
    features.check_size(states, actions, stored, dim)
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


@problem("linear-lock")
def linear_lock(
    blocks: Annotated[int, Between(2, 100, "d, blocks of states to get through")] = 8,
    per_block: Annotated[int, Between(1, 1000, "states in a block")] = 10,
    actions: Annotated[int, Between(2, 100, "A")] = 3,
    horizon: Horizon = 10,
    slip: Annotated[float, Between(0, 0.5, "mean probability that the good action fails")] = 0.1,
    leak: Annotated[float, Between(0, 1, "probability to land in the first block instead")] = 0.1,
    seed: Drawn = 0,
) -> Problem:
    """A lock of blocks of states: one action of each state leads on, the others lead back, to destinations unknown.

    d = blocks destinations; destination i is a random state of block i, with probability `leak` one of block 0. In
    block z the good action of a state leads to destination z+1, or fails to 0, with a probability of its own, at most
    2 slip; the others lead to a random mixture of destinations 0..z. Labels are shuffled; the start is in block 0.

    Source: this library.
    """
    rng = np.random.default_rng(seed)
    d, S, A = blocks, blocks * per_block, actions
    mu, phi = np.zeros((d, S)), np.zeros((S, A, d))
    for i, block in enumerate(np.arange(S).reshape(d, per_block)):
        mu[i, block] += (1 - leak) * rng.dirichlet(np.ones(per_block))
        mu[i, :per_block] += leak * rng.dirichlet(np.ones(per_block))
    good = rng.integers(A, size=S)
    for s, a in np.ndindex(S, A):
        z = s // per_block
        if a == good[s]:
            fails = rng.uniform(0, 2 * slip)
            phi[s, a, min(z + 1, d - 1)] += 1 - fails
            phi[s, a, 0] += fails
        else:
            phi[s, a, : z + 1] = rng.dirichlet(np.ones(z + 1))
    order = rng.permutation(S)
    start = int(np.flatnonzero(order == 0)[0])
    return LinearMDP.from_features(phi[order], mu=mu[:, order], horizon=horizon, start=start)


@problem("soft-aggregation")
def soft_aggregation(
    states: Annotated[int, Between(20, 10_000, "S")] = 100,
    actions: Annotated[int, Between(2, 100, "A")] = 4,
    dim: Annotated[int, Between(4, 100, "d, destinations, of which two are rare")] = 6,
    horizon: Horizon = 10,
    rare: Annotated[float, Between(0, 0.5, "least weight of a rare destination behind its gate")] = 0.05,
    seed: Drawn = 0,
) -> Problem:
    """States that belong to several clusters at once; two destinations can be reached through gates only.

    Features are random weights of dim-2 common destinations, each a random third of the states. A gate is an action of
    a state of the destination before; it gives the rare destination a weight between `rare` and 1/2. Random actions do
    well here: a control for problems that need exploration.

    Source: this library; after the soft state aggregation of Singh, Jaakkola and Jordan (1995).
    """
    check_at_least("states", states, 3 * dim, "every destination has states of its own")
    rng = np.random.default_rng(seed)
    S, A, d = states, actions, dim
    mu, phi, members = np.zeros((d, S)), np.zeros((S, A, d)), []
    for i in range(d):
        members.append(rng.choice(S, S // 3 if i < d - 2 else S // 10, replace=False))
        mu[i, members[i]] = rng.dirichlet(np.full(len(members[i]), 0.2 + 1e-3))
    phi[:, :, : d - 2] = rng.dirichlet(np.full(d - 2, 0.3), size=(S, A))
    for i in (d - 2, d - 1):
        for s in rng.choice(members[i - 1], max(2, len(members[i - 1]) // 4), replace=False):
            a, weight = rng.integers(A), rng.uniform(rare, 0.5)
            if phi[s, a, d - 2]:  # a gate already: of the same gates, the two could not be told apart
                a = (a + 1) % A
            phi[s, a] *= 1 - weight
            phi[s, a, i] += weight
    return LinearMDP.from_features(phi, mu=mu, horizon=horizon, start=int(mu[0].argmax()))
