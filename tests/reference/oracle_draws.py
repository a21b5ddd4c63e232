"""Random problems for the oracle of HF-UCRL-RFE++: a model, two covariances, a radius. Use in the 64-bit scope."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from horizonfree import Mixture, Problem, oracle
from horizonfree._x64 import to_device
from horizonfree.problems.named.synthetic import hard_instance
from tests.reference.episodes import full_features

HARD = "hard"
prepare, evaluate = jax.jit(oracle.prepare), jax.jit(oracle.evaluate)  # operation by operation takes longer


class Draw(eqx.Module):
    """A random oracle problem: a mixture with its truth as the model, two covariances, a radius."""

    problem: Problem
    Sigma_tilde: np.ndarray
    Sigma_hat: np.ndarray
    beta: float

    @property
    def inputs(self):
        return (
            self.problem.model,
            self.problem.truth,
            np.linalg.inv(self.Sigma_tilde),
            np.linalg.inv(self.Sigma_hat),
        )

    @property
    def prepared(self):
        return prepare(*to_device(self.inputs))

    @property
    def phi(self):
        """Features [S, A, S, d], unpacked."""
        return full_features(self.problem.model)


def sparse_mixture(rng, S, A, H, d, n, start=0):
    """Base kernels on n random successors of each (s, a)."""
    kernels = np.zeros((d, S, A, S))
    for s, a in np.ndindex(S, A):
        successors = rng.choice(S, n, replace=False)
        kernels[:, s, a, successors] = rng.dirichlet(np.full(n, 0.7), d)
    return Mixture.from_kernels(kernels, horizon=H, start=start, weights=rng.dirichlet(np.ones(d)))


def covariance(rng, model):
    """I plus 1 to 1000 random regression vectors phi_V(s, a), weighted."""
    N, (_, S, A) = int(10 ** rng.uniform(0, 3)), model.space.sizes
    s, a = rng.integers(S, size=N), rng.integers(A, size=N)
    V = rng.uniform(size=(N, S)) * (rng.uniform(size=(N, S)) < 0.5)
    x = np.einsum("kn,knd->kd", np.take_along_axis(V, model.space.succ[s, a], 1), model.phi[s, a])
    return np.eye(model.dim) + (x.T * rng.uniform(0.5, 5, N)) @ x


def draw(rng, sizes, beta=None):
    if sizes[0] == HARD:
        problem = hard_instance(
            dim=sizes[1], episodes=3 * sizes[1] ** 2, horizon=5, seed=int(rng.integers(99))
        )
    else:
        problem = sparse_mixture(rng, *sizes)
    Sigmas = covariance(rng, problem.model), covariance(rng, problem.model)
    return Draw(problem, *Sigmas, 10 ** rng.uniform(-1.3, 0.3) if beta is None else beta)


def random_pair(rng, problem):
    """A random policy and a random reward [H, S] of total <= 1."""
    H, S = problem.horizon, problem.num_states
    reward = rng.uniform(size=(H, S)) * rng.dirichlet(np.ones(H))[:, None]
    return rng.integers(problem.num_actions, size=(H, S)).astype(np.int32), reward


def warm_start(problem):
    H, S = problem.horizon, problem.num_states
    return oracle.Point(jnp.zeros((H, S), jnp.int32), jnp.int32(H - 1), jnp.ones(S, bool))


def fork_draw(diagonal):
    """x_1 goes to x_2 or x_3, both absorb; only the sum of the two chances is well known in the hat norm."""
    phi = np.zeros((3, 1, 3, 4))
    phi[0, 0, 1, 0] = phi[0, 0, 2, 1] = phi[1, 0, 1, 2] = phi[2, 0, 2, 3] = 1
    problem = Mixture.from_features(phi, horizon=3, bound=2.0, theta=[0.5, 0.5, 1, 1])
    unit = problem.model.unit  # phi was divided by it; so are the covariances, by its square
    direction = np.array([1.0, 1, 0, 0])
    Sigma_hat = np.eye(4) + 1e8 * np.outer(direction, direction)
    return Draw(problem, np.diag(diagonal) / unit**2, Sigma_hat / unit**2, 10.0)


def fork_value(x, *targets):
    reward = np.zeros((3, 3))
    reward[2, targets] = 1
    return evaluate(x.prepared, np.zeros((3, 3), np.int32), reward, x.beta).V_hat[0, 0]
