"""Unknown tables for the tests of their explorers: small problems, many seeds at once, values by plain loops."""

import jax
import jax.numpy as jnp
import numpy as np

from horizonfree._x64 import to_numpy
from horizonfree.problems.classes import Tabular
from tests.reference.episodes import Setting, first_progress


def random_problem(S=3, A=2, H=4, seed=0, start=0, support="any"):
    """Every transition is possible; most probabilities are small."""
    P = np.random.default_rng(seed).dirichlet(np.full(S, 0.5), size=(S, A))
    return Tabular.from_table(P, horizon=H, start=start, support=support)


def double_chain(L=31, H=20, fail=0.1):
    """The chain of Kaufmann et al. 2021: left or right from the middle, the other way with probability `fail`."""
    P = np.zeros((L, 2, L))
    for s in range(L):
        left, right = max(s - 1, 0), min(s + 1, L - 1)
        for a, (target, slip) in enumerate([(left, right), (right, left)]):
            P[s, a, target] += 1 - fail
            P[s, a, slip] += fail
    return Tabular.from_table(P, horizon=H, start=L // 2)


def explore_seeds(problem, explorer, episodes, count):
    """The states of `count` seeds after each episode, with a leading axis, and the evidence."""
    with jax.enable_x64(True):
        setting = Setting(problem)
        first = first_progress(explorer, setting.model, setting.nothing)

        def run_seed(seed):
            def step(progress, _):
                _, _, progress, numbers = setting.episode(explorer, jax.random.key(seed), progress, True)
                return progress, numbers

            progress, numbers = jax.lax.scan(step, first, None, length=episodes)
            return progress.state, numbers

        return to_numpy(jax.jit(jax.vmap(run_seed))(jnp.arange(count)))


def dense_tables(space, prob):
    """Frequencies [..., T, n, S, A] of the library as tables [..., H, S, A, S]."""
    prob = np.moveaxis(np.asarray(prob), -3, -1)
    table = np.zeros((*prob.shape[:-1], space.num_states))
    for s, a, j in np.argwhere(space.support):
        table[..., s, a, space.succ[s, a, j]] += prob[..., s, a, j]
    return np.broadcast_to(table, (*table.shape[:-4], space.horizon, *table.shape[-3:]))


def filled_tables(frequencies, S):
    """Frequencies on lists that were filled as transitions were seen, as tables [T, S, A, S]."""
    T, n, _, A = frequencies.prob.shape
    table = np.zeros((T, S, A, S))
    for j, s, a in np.ndindex(n, S, A):
        if frequencies.succ[j, s, a] < S:
            table[:, s, a, frequencies.succ[j, s, a]] += frequencies.prob[:, j, s, a]
    return table


def q_values(P, reward, policy):
    """Q [..., H, S, A] of actions [H, S] in tables P [..., H, S, A, S]."""
    H, S, A = reward.shape
    Q, V = np.zeros((*P.shape[:-4], H, S, A)), np.zeros((*P.shape[:-4], S))
    for h in reversed(range(H)):
        Q[..., h, :, :] = reward[h] + np.einsum("...san,...n->...sa", P[..., h, :, :, :], V)
        V = Q[..., h, np.arange(S), policy[h]]
    return Q


def best_values(P, reward):
    """V* [H + 1, S] in tables P [H, S, A, S]."""
    H, S, _ = reward.shape
    V = np.zeros((H + 1, S))
    for h in reversed(range(H)):
        V[h] = (reward[h] + P[h] @ V[h + 1]).max(-1)
    return V
