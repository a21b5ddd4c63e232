"""Linear MDPs for tests of explorers: instance T with its features as they are, random ones, and given data."""

import equinox as eqx
import jax
import numpy as np

from horizonfree._x64 import to_device
from horizonfree.explorers.least_squares import Sums
from horizonfree.guarantees.e_processes import ladder
from horizonfree.mdp.space import Trajectory
from horizonfree.problems.classes import LinearMDP
from tests.reference.linear_explorers import Data, instance


@eqx.filter_jit
def _learn(model, trajectories):
    """As one program: step by step every operation would be one."""
    sums, evidence = Sums.empty(model, 3), model.init_evidence(ladder())
    for x in trajectories:
        sums, evidence = sums.learn(model, x), model.update(evidence, x)
    return sums, evidence


def T_model():
    """Instance T (S = 4, A = 2, d = 2, H = 3) on the device, its features as they are: models divide by a norm."""
    phi, mu, _, _ = instance()
    model = LinearMDP.from_features(phi, horizon=3, start=0, mu=mu).model
    return to_device(eqx.tree_at(lambda x: x.phi, model, phi))


def episode(s, a):
    """A trajectory of which every step was seen."""
    s, a = np.int32(s), np.int32(a)
    return Trajectory(s, a, s[1:])


def T_data(model):
    """Own sums and evidence of the five episodes of instance T."""
    _, _, s, a = instance()
    return _learn(model, [episode(x, y) for x, y in zip(s, a)])


def T_literal(lam, is_pooled):
    """phi, Lam and C of the same in plain NumPy."""
    phi, _, s, a = instance()
    data = Data(phi, 3)
    for x, y in zip(s, a):
        data.add(x, y)
    return phi, *data.tables(lam, is_pooled)


def random_linear(S=5, A=2, d=3, H=3, seed=0, start=1):
    """Dirichlet features and measures."""
    rng = np.random.default_rng(seed)
    phi, mu = rng.dirichlet(np.ones(d), (S, A)), rng.dirichlet(np.ones(S), d)
    return LinearMDP.from_features(phi, horizon=H, start=start, mu=mu)


def episode_key(seed, k):
    """The key with which the policy of episode k is chosen."""
    return jax.random.split(jax.random.fold_in(jax.random.key(seed), k))[0]


def attains(policy, Q, atol=1e-9):
    """Actions [H, S], or their probabilities, are among the best of Q [H, S, A]."""
    pi = np.eye(Q.shape[-1])[policy] if np.ndim(policy) == 2 else np.asarray(policy)
    np.testing.assert_allclose((pi * Q).sum(-1), Q.max(-1), rtol=0, atol=atol)
