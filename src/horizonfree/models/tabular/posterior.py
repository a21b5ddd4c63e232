"""The posterior of a tabular MDP: independent Dirichlet laws, one for each pair (s,a).

    P(.|s,a) ~ Dirichlet(alpha_j + N(s,a,j)),   j over the m(s,a) possible successors, N the counts

exactly, as the likelihood of a table is a product over pairs. Draws are independent. Gamma variables of a small shape a
underflow, so logarithms are drawn: log Gamma(a) has the law of log Gamma(a + 1) + log(U) / a, U uniform on (0, 1).
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from horizonfree._validation import check_floats, check_size, did_you_mean, require, require_shape
from horizonfree.errors import OptionError
from horizonfree.mdp.policies import redirect_forbidden
from horizonfree.mdp.space import Space
from horizonfree.models.draws import Draws
from horizonfree.models.tabular.evidence import TabularEvidence
from horizonfree.models.tabular.model import TabularModel

PRIORS = {"uniform": "1", "jeffreys": "1/2", "perks": "1/m"}  # name -> concentration per successor, m of them
DEFAULT_PRIOR = "perks"  # covers best where few successors are likely (experiments/calibration)
MAX_PROBABILITIES = 2**27  # in all draws
BLOCK_SIZE = 2**21  # probabilities per block of draws


def tabular_draws(
    model: TabularModel, evidence: TabularEvidence, prior: Any, count: int, rng: np.random.Generator
) -> Draws:
    """`count` tables [D, S, A, n]; prior None: `DEFAULT_PRIOR`."""
    space, counts = model.space, np.asarray(evidence.counts)
    support = np.asarray(space.support)
    check_size(
        count * support.size,
        MAX_PROBABILITIES,
        f"{count:,} draws are {count * support.size:,} probabilities",
        f"give draws={max(1, MAX_PROBABILITIES // support.size):,}, or declare which successors are possible",
    )
    alpha, description = concentration(space, DEFAULT_PRIOR if prior is None else prior)
    shape = np.where(support, alpha + counts, 1.0)
    result = np.empty((count, *support.shape))
    size = max(1, BLOCK_SIZE // support.size)
    for first in range(0, count, size):
        block = result[first : first + size]
        block[:] = np.log(rng.standard_gamma(np.broadcast_to(shape + 1, block.shape)))
        block -= rng.standard_exponential(block.shape) / shape  # -log U is exponential
        block[:] = np.where(support, block, -np.inf)
        block -= block.max(-1, keepdims=True)
        np.exp(block, out=block)
        block /= block.sum(-1, keepdims=True)
    if space.acts is not None:  # a forbidden action has the row of the one that replaces it
        result = redirect_forbidden(space.acts, result, axis=1)
    return Draws(result, description)


def concentration(space: Space, prior: Any) -> tuple[Float[np.ndarray, "S A n"], str]:
    """alpha of every slot, and a description; prior: a name, a number per successor, or an array [S, A, S]."""
    support, succ = np.asarray(space.support), np.asarray(space.succ)
    S, A, _ = succ.shape
    where = "each possible successor of a pair"
    if isinstance(prior, str):
        meaning = f"one of {', '.join(map(repr, PRIORS))}, a number or an array [S, A, S]{did_you_mean(prior, PRIORS)}"
        require(prior in PRIORS, "prior", prior, meaning)
        per_successor = PRIORS[prior]
        if per_successor == "1/m":
            description = "Dirichlet, 1/m for each of the m possible successors of a pair"
            return 1 / np.broadcast_to(support.sum(-1, keepdims=True), succ.shape), description
        return np.full(
            succ.shape, 0.5 if per_successor == "1/2" else 1.0
        ), f"Dirichlet, {per_successor} for {where}"
    table = check_floats(prior, "prior")
    meaning = f"a number, or an array [S, A, S] = {(S, A, S)}"
    require_shape(table.shape in ((), (S, A, S)), "prior", table.shape, meaning, OptionError)
    if table.ndim == 0:
        alpha, description = np.full(succ.shape, float(table)), f"Dirichlet, {float(table):g} for {where}"
    else:
        alpha = np.take_along_axis(redirect_forbidden(space.acts, table), succ, axis=-1)
        description = "Dirichlet as given"
    bad = np.argwhere(support & ~((alpha > 0) & np.isfinite(alpha)))
    if bad.size:
        s, a, j = bad[0]
        name = f"prior for (s={s}, a={a}) -> {succ[s, a, j]}"
        require(False, name, alpha[s, a, j], "a number above 0")
    return alpha, description
