"""Problems whose instance the seed draws: a river (E1_instances, E3), and processes in continuous time (E8).

The latter are seen in H steps of length 1/H. Every unknown probability is a rate over H.
Finer steps do not make such a process harder: what can happen until the end of an episode, and how likely it is, tends
to a limit. So whatever still grows with H is due to the algorithm.
"""

from typing import Annotated

import numpy as np
import scipy.sparse

import horizonfree as hf
from horizonfree.problems.registry import Between, Horizon, Seed, problem

STROKE, CURRENT = (0.25, 0.45), (0.02, 0.1)  # probabilities of the river are drawn from these intervals
FORWARD, BACKWARD = (2.0, 6.0), (0.5, 2.0)  # rates of the rescaled river, likewise
INPUT_RATE, LARGEST_BATCH = 4.0, 3  # batches of 1, 2 or 3; the weights of the sizes are unknown
CAPACITY = 6
PRODUCTION_RATES, SERVICE_RATES = (0.0, 3.0, 6.0), (1.0, 4.0, 8.0)
Steps = Annotated[int, Between(16, 10**5, "steps in an episode; rates must be at most that many")]


@problem("drawn-river")
def drawn_river(horizon: Horizon = 16, seed: Seed = 0) -> hf.Problem:
    """Eight places along a river; strokes move forward and back with probabilities that the seed draws.

    Source: `river-swim` of this library.
    """
    forward, backward = np.random.default_rng(seed).uniform(*zip(STROKE, CURRENT))
    return hf.make("river-swim", states=8, forward=forward, backward=backward, horizon=horizon)


@problem("rescaled-river")
def rescaled_river(horizon: Steps = 64, seed: Seed = 0) -> hf.Problem:
    """Four places along a river; strokes move forward and back at rates that the seed draws.

    Source: `river-swim` of this library, in steps of length 1/H.
    """
    forward, backward = np.random.default_rng(seed).uniform(*zip(FORWARD, BACKWARD)) / horizon
    return hf.make("river-swim", states=4, forward=forward, backward=backward, horizon=horizon)


@problem("rescaled-inventory")
def rescaled_inventory(horizon: Steps = 64, seed: Seed = 0) -> hf.Problem:
    """A stock of at most six; the action is the rate of production, customers take batches of unknown sizes.

    Source: this experiment.
    """
    return _stock(PRODUCTION_RATES, is_stock=True, horizon=horizon, seed=seed)


@problem("rescaled-queue")
def rescaled_queue(horizon: Steps = 64, seed: Seed = 0) -> hf.Problem:
    """A queue of at most six; the action is the rate of service, customers arrive in batches of unknown sizes.

    Source: this experiment.
    """
    return _stock(SERVICE_RATES, is_stock=False, horizon=horizon, seed=seed)


def _stock(rates: tuple[float, ...], *, is_stock: bool, horizon: int, seed: int) -> hf.Problem:
    """Single units move one way at the rate of the action, batches the other way; base kernel i: batches of i + 1."""
    sign, S, A = 1 if is_stock else -1, CAPACITY + 1, len(rates)
    s, a, event = np.indices((S, A, 3))  # a unit, a batch, nothing
    one = np.asarray(rates)[a] / horizon
    many = INPUT_RATE / horizon
    prob = np.choose(event, [one, np.full_like(one, many), 1 - one - many])
    kernels = {}
    for size in range(1, LARGEST_BATCH + 1):
        to = np.clip(s + np.choose(event, [sign, -sign * size, 0]), 0, CAPACITY)
        entries = prob.ravel(), ((s * A + a).ravel(), to.ravel())
        kernels[f"batches of {size}"] = scipy.sparse.coo_array(entries, shape=(S * A, S))
    weights = np.random.default_rng(seed).dirichlet(np.ones(LARGEST_BATCH))
    return hf.Mixture.from_kernels(kernels, horizon=horizon, weights=weights)
