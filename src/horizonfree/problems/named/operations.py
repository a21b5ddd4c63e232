"""Operations: stock and queues whose random input is an unknown mixture of known distributions."""

from typing import Annotated

import numpy as np
import scipy  # `scipy.sparse` is loaded on first use
from jaxtyping import Float, Int

from horizonfree.problems.classes import Mixture
from horizonfree.problems.named.navigation import line
from horizonfree.problems.problem import Problem
from horizonfree.problems.registry import Between, Horizon, Seed, problem


def input_models(num: int, low: float, high: float, most: int) -> Float[np.ndarray, "{num} {most+1}"]:
    """Poisson distributions with means spread from low to high; `most` takes the mass beyond it."""
    mean = np.linspace(low, high, num)[:, None]
    counts = np.arange(most)
    special = scipy.special
    pmf = np.exp(special.xlogy(counts, mean) - special.gammaln(counts + 1) - mean)
    return np.concatenate([pmf, special.pdtrc(most - 1, mean)], axis=1)


def kernel(
    s: Int[np.ndarray, "S A *chance"],
    a: Int[np.ndarray, "S A *chance"],
    s_next: Int[np.ndarray, "S A *chance"],
    prob: Float[np.ndarray, "S A *chance"],
) -> "scipy.sparse.coo_array":
    """A sparse kernel [S*A, S]; outcomes of chance that lead to the same state add up."""
    S, A = s.shape[:2]
    return scipy.sparse.coo_array((prob.ravel(), ((s * A + a).ravel(), s_next.ravel())), shape=(S * A, S))


def names_by_mean(
    what: str, low: float, high: float, kernels: "list[scipy.sparse.coo_array]"
) -> "dict[str, scipy.sparse.coo_array]":
    """Kernels by the means of their inputs, as `input_models` spreads them."""
    means = np.linspace(low, high, len(kernels))
    return {f"mean {what} {mean:.4g}": x for mean, x in zip(means, kernels, strict=True)}


@problem("inventory")
def inventory(
    capacity: Annotated[int, Between(2, 500, "the most that can be stored")] = 12,
    max_order: Annotated[int, Between(1, 500, "the most that can be ordered at once")] = 5,
    models: Annotated[int, Between(1, 6, "known demand models")] = 3,
    horizon: Horizon = 12,
    seed: Seed = 0,
) -> Problem:
    """A shop that orders, sells and loses the sales it cannot serve; demand mixes known models.

    State: stock at the end of the day. The order a arrives at once, what exceeds the capacity is refused, then
    demand D takes its part: s' = max(min(s + a, capacity) - D, 0). Model i of D is Poisson with a mean between 1 and
    4, at most 8. The seed draws the weights from the uniform distribution on the simplex. Start: empty.

    Source: the stochastic inventory of Puterman (1994), "Markov decision processes", section 3.2.
    """
    demand = input_models(models, 1.0, 4.0, 8)
    stock, order, D = np.indices((capacity + 1, max_order + 1, demand.shape[1]))
    next_stock = np.maximum(np.minimum(stock + order, capacity) - D, 0)
    return Mixture.from_kernels(
        names_by_mean("demand", 1.0, 4.0, [kernel(stock, order, next_stock, model[D]) for model in demand]),
        horizon=horizon,
        weights=np.random.default_rng(seed).dirichlet(np.ones(models)),
        states=[f"stock {s}" for s in range(capacity + 1)],
        layout=line(capacity + 1, [f"order {a}" for a in range(max_order + 1)]),
    )


@problem("queue")
def queue(
    capacity: Annotated[int, Between(2, 500, "places in the queue")] = 15,
    speeds: Annotated[int, Between(2, 20, "service speeds to choose from")] = 3,
    models: Annotated[int, Between(1, 4, "known arrival models")] = 3,
    horizon: Horizon = 20,
    seed: Seed = 0,
) -> Problem:
    """A queue with a choice of service speed; arrivals mix known models.

    In a slot a waiting customer leaves with the known probability (a + 1) / (speeds + 1) of speed a, then N
    customers arrive, and those who find no place are lost. Model i of N is Poisson with a mean between 0.2 and 1, at
    most 4. The seed draws the weights from the uniform distribution on the simplex. Start: empty.

    Source: service rate control in Puterman (1994), "Markov decision processes", section 3.7.
    """
    arrivals = input_models(models, 0.2, 1.0, 4)
    s, a, leaves, N = np.indices((capacity + 1, speeds, 2, arrivals.shape[1]))
    rate = (a + 1) / (speeds + 1)
    service = np.where(leaves, rate, 1 - rate)
    next_length = np.minimum(np.maximum(s - leaves, 0) + N, capacity)
    return Mixture.from_kernels(
        names_by_mean(
            "arrivals", 0.2, 1.0, [kernel(s, a, next_length, service * model[N]) for model in arrivals]
        ),
        horizon=horizon,
        weights=np.random.default_rng(seed).dirichlet(np.ones(models)),
        states=[f"{s} waiting" for s in range(capacity + 1)],
        layout=line(capacity + 1, [f"speed {a}" for a in range(speeds)]),
    )
