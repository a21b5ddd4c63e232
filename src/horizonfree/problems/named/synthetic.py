"""Synthetic problems: the instances behind lower bounds, and random problems.

No explorer learns the instances behind lower bounds fast. Each has actions a in {-1, 1}^(d-1), all of them, so the
number of actions is 2^(d-1) (entry i of action number a is +1 where bit i of a is set), and a hidden mu with entries
+-Delta. The seed draws the signs of mu.
"""

from typing import Annotated

import numpy as np
import scipy  # `scipy.sparse` is loaded on first use
from jaxtyping import Float

from horizonfree._validation import MAX_INT
from horizonfree.mdp.space import MAX_HORIZON
from horizonfree.models.mixture import features
from horizonfree.problems.classes import LinearMDP, Mixture
from horizonfree.problems.problem import Problem
from horizonfree.problems.registry import Between, Horizon, Seed, check_at_least, check_at_most, problem

Dim = Annotated[int, Between(2, 14, "d; there are 2^(d-1) actions")]
Episodes = Annotated[int, Between(1, 10**15, "K, the number of episodes the instance is hard for")]


def sign_vectors(dim: int) -> Float[np.ndarray, "A {dim-1}"]:
    """Every vector of {-1, 1}^(d-1), in the order of the actions."""
    bits = np.arange(2 ** (dim - 1))[:, None] >> np.arange(dim - 1) & 1
    return 2.0 * bits - 1


def random_signs(seed: int, *shape: int) -> Float[np.ndarray, "..."]:
    """The signs of mu."""
    return np.random.default_rng(seed).choice([-1.0, 1.0], shape)


@problem("hard-instance")
def hard_instance(
    dim: Dim = 4,
    episodes: Episodes = 48,
    horizon: Annotated[int, Between(2, MAX_HORIZON, "steps in an episode")] = 10,
    bound: Annotated[float, Between(1, 10**6, "B, the bound on the norm of the parameter")] = 1.1,
    seed: Seed = 0,
) -> Problem:
    """One gamble, then a good or a bad state for ever: the hard-to-learn linear mixture MDP.

    From x_1, action a leads to x_3 with probability delta + <mu, a>, else to x_2; both absorb. delta = 1/6, mu in
    {-Delta, Delta}^(d-1), Delta = sqrt(delta / K) / (4 sqrt 2). With alpha^2 = 1 / (1 + Delta (d-1)) and beta^2 =
    Delta alpha^2: phi(x_2|x_1,a) = (alpha (1-delta), -beta a), phi(x_3|x_1,a) = (alpha delta, beta a),
    theta = (1/alpha, mu/beta) of norm 1 + Delta (d-1). The reward of the lower bound is 1/H in x_3. K >= 3 d^2.

    Source: Zhou and Gu (2022), "Computationally efficient horizon-free reinforcement learning for linear mixture
    MDPs"; alpha and beta from Zhou, Gu and Szepesvari (2021).
    """
    check_at_least("episodes", episodes, 3 * dim**2, "the lower bound holds for K >= 3 d^2")
    delta = 1 / 6
    Delta = np.sqrt(delta / episodes) / (4 * np.sqrt(2))
    check_at_least("bound", bound, 1 + Delta * (dim - 1), "||theta|| = 1 + Delta (d-1)")
    alpha = np.sqrt(1 / (1 + Delta * (dim - 1)))
    beta = np.sqrt(Delta) * alpha
    actions = sign_vectors(dim)
    phi = np.zeros((3, len(actions), 3, dim))
    phi[0, :, 1, 0], phi[0, :, 1, 1:] = alpha * (1 - delta), -beta * actions
    phi[0, :, 2, 0], phi[0, :, 2, 1:] = alpha * delta, beta * actions
    phi[1, :, 1, 0] = phi[2, :, 2, 0] = alpha
    mu = Delta * random_signs(seed, dim - 1)
    return Mixture.from_features(
        phi, horizon=horizon, bound=bound, theta=np.concatenate([[1 / alpha], mu / beta])
    )


@problem("vtr-lower-bound")
def vtr_lower_bound(
    dim: Annotated[int, Between(4, 10, "d of one step; there are 2^(d-1) actions")] = 4,
    episodes: Episodes = 45,
    horizon: Annotated[int, Between(3, 200, "steps in an episode")] = 6,
    seed: Seed = 0,
) -> Problem:
    """A corridor with a gamble at every step, each with a hidden vector of its own.

    From x_h, action a leads to the goal x_{H+2} with probability delta + <mu_h, a>, else to x_{h+1}; x_{H+1} and the
    goal absorb. delta = 1/H, mu_h in {-Delta, Delta}^(d-1), Delta = sqrt(delta / K) / (4 sqrt 2), K >= (d-1)^2 H / 2.
    The original changes its parameter with the step. As step h is always in x_h or absorbed, one parameter with a
    block for every x_h says the same: theta = (1/alpha, mu_1/beta, ..., mu_H/beta), of 1 + H (d-1) entries;
    the features of x_h are those of the hard instance, with a in block h. alpha^2 = 1 / (1 + c), beta^2 = c
    alpha^2 / (d-1) with c = (d-1) Delta sqrt(H) keeps ||phi_V|| <= 1 and makes ||theta|| = 1 + c smallest.

    Source: Zhou, Gu and Szepesvari (2021), "Nearly minimax optimal reinforcement learning for linear mixture
    Markov decision processes".
    """
    H = horizon
    check_at_least("episodes", episodes, (dim - 1) ** 2 * H / 2, "the bound holds for K >= (d-1)^2 H / 2")
    delta = 1 / H
    Delta = np.sqrt(delta / episodes) / (4 * np.sqrt(2))
    c = (dim - 1) * Delta * np.sqrt(H)
    alpha = np.sqrt(1 / (1 + c))
    beta = np.sqrt(c / (dim - 1)) * alpha
    actions = sign_vectors(dim)
    A = len(actions)
    h, a, i = (x.ravel() for x in np.indices((H, A, dim - 1)))
    block = 1 + h * (dim - 1) + i
    step, action = (x.ravel() for x in np.indices((H, A)))
    end, b = np.repeat([H, H + 1], A), np.tile(np.arange(A), 2)
    parts = [
        (h, a, h + 1, block, -beta * actions[a, i]),
        (h, a, np.full(h.size, H + 1), block, beta * actions[a, i]),
        (step, action, step + 1, np.zeros(H * A, int), np.full(H * A, alpha * (1 - delta))),
        (step, action, np.full(H * A, H + 1), np.zeros(H * A, int), np.full(H * A, alpha * delta)),
        (end, b, end, np.zeros(2 * A, int), np.full(2 * A, alpha)),
    ]
    mu = Delta * random_signs(seed, H * (dim - 1))
    return Mixture.from_features(
        tuple(np.concatenate(column) for column in zip(*parts)),
        horizon=H,
        bound=1 + c,
        theta=np.concatenate([[1 / alpha], mu / beta]),
    )


@problem("rfe-lower-bound")
def rfe_lower_bound(
    dim: Dim = 6,
    gap: Annotated[float, Between(0, 1, "c, the strength of the hidden signal")] = 0.5,
    horizon: Horizon = 10,
    seed: Seed = 0,
) -> Problem:
    """One fair coin with a small hidden bias, then two absorbing states.

    phi(s_21|s_1,a) = (sqrt(2)/4, a/sqrt(2d)), phi(s_22|s_1,a) = (sqrt(2)/4, -a/sqrt(2d)), absorbing rows (1/sqrt 2,
    0), theta = (sqrt 2, c t/sqrt d) with signs t, so P(s_21|s_1,a) = 1/2 + c <t, a> / (sqrt(2) d). Probabilities
    need c (d-1) <= d / sqrt 2. The theorem asks for d >= 50, out of reach with all 2^(d-1) actions; the instance
    has the same form for every d.

    Source: Zhang, Zhou and Gu (2021), "Reward-free model-based reinforcement learning with linear function
    approximation".
    """
    largest = dim / (np.sqrt(2) * (dim - 1))
    check_at_most("gap", gap, largest, f"beyond it, with dim={dim}, probabilities are negative")
    actions = sign_vectors(dim)
    phi = np.zeros((3, len(actions), 3, dim))
    phi[0, :, 1:, 0] = np.sqrt(2) / 4
    phi[0, :, 1, 1:], phi[0, :, 2, 1:] = actions / np.sqrt(2 * dim), -actions / np.sqrt(2 * dim)
    phi[1, :, 1, 0] = phi[2, :, 2, 0] = 1 / np.sqrt(2)
    theta = np.concatenate([[np.sqrt(2)], gap * random_signs(seed, dim - 1) / np.sqrt(dim)])
    return Mixture.from_features(
        phi, horizon=horizon, bound=np.sqrt(2 + gap**2 * (dim - 1) / dim), theta=theta
    )


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
    width = states if 2 * successors > states else successors  # as in features.pack
    features.check_size(states, actions, width, dim)
    rng = np.random.default_rng(seed)
    rows = states * actions
    succ = np.concatenate([rng.choice(states, successors, replace=False) for _ in range(rows)])
    first = np.arange(rows + 1) * successors
    kernels = [
        scipy.sparse.csr_array((p.ravel(), succ, first), shape=(rows, states))
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
    right_action = rng.integers(A, size=S)
    for s, a in np.ndindex(S, A):
        z = s // per_block
        if a == right_action[s]:
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
