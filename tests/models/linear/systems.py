"""Small linear MDPs, their sums and what these say, for the tests of this folder."""

import itertools

import numpy as np

import horizonfree as hf
from horizonfree.models.linear import bounds, model

TINY = {"blocks": 3, "per_block": 6, "actions": 2, "horizon": 5}

# Instance T of the test numbers: S=4, A=2, d=2, H=3, and five episodes.
q = (np.arange(4)[:, None] + 1 + 2 * np.arange(2)) / 8
PHI = np.stack([1 - q, q], axis=-1)
MU = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
STATES = np.array([[0, 1, 3, 2], [0, 3, 2, 2], [0, 0, 1, 3], [0, 2, 3, 0], [0, 3, 3, 1]])
ACTIONS = np.array([[0, 1, 1], [1, 0, 1], [0, 0, 1], [1, 1, 0], [1, 1, 1]])


def sums(episodes, times):
    """Gram and cross sums of some of the five episodes, each repeated."""
    s, a = STATES[episodes], ACTIONS[episodes]
    x = PHI[s[:, :-1], a].reshape(-1, 2)
    return times * x.T @ x, times * x.T @ np.eye(4)[s[:, 1:].ravel()]


def fitted(phi=PHI, V0=None, V1=None, C1=None, ratio=15.0):
    """The estimate of instance T, in coordinates in which the ridge is the unit matrix; or of other sums."""
    white = model.whitening(phi)
    if V0 is None:
        V0, (V1, C1) = sums([0, 1], 100)[0], sums([2, 3, 4], 1000)
        white = np.eye(2) / np.sqrt(8)
    return bounds.fit(bounds.regress(phi, white, V1, C1), phi, white, V0, V1, 0.0, ratio)


def policy_bounds(fit, reward, policy, L, L_all):
    """The values that the pass for one reward leaves in the first step."""
    kind = np.int32 if np.ndim(policy) == 2 else np.float64
    return bounds.values(fit, reward, np.asarray(policy, kind), fit.beta(L), fit.beta(L_all))


def norms(fit):
    """n of every pair."""
    return np.linalg.norm(fit.X, axis=-1)


def tiny(**changes):
    return hf.make("linear-lock", **TINY | changes)


def corners(S):
    """One of each pair of opposite corners of the cube [0,1]^S, constants left out."""
    return np.array([(0.0, *x) for x in itertools.product((0.0, 1.0), repeat=S - 1)])[1:]


def draw_system(rng, S, A, d, H, beta, beta_all):
    """Sums in which the event of the certificates holds, and only just: features, truth, reward, sums.

    The noise C1 - V1 mu is at the limit of what all V allow, or the best values of the reward; often the data say
    nothing of some pairs.
    """
    phi, mu = rng.dirichlet(np.full(d, 0.7), (S, A)), rng.dirichlet(np.ones(S), d)
    reward = rng.random((H, S, A)) ** 4
    if rng.random() < 0.5:
        reward[: H - 1] = 0
    reward /= reward.max((1, 2)).sum()
    if rng.random() < 0.3:  # two features are always seen in one mixture, but for a few pairs
        phi[:, :, 0], phi[:, :, 1] = (phi[:, :, :2].sum(-1) * share for share in (0.3, 0.7))
        visited_phi, rare = phi.copy(), rng.integers(S * A, size=2)
        phi.reshape(-1, d)[rare, :2] = phi.reshape(-1, d)[rare, 1::-1]
        phi.reshape(-1, d)[rare] = 0.5 * phi.reshape(-1, d)[rare] + 0.5 * np.eye(d)[0]
    else:
        visited_phi = phi
    visits = rng.integers(1, 1 + 10 ** rng.integers(2, 6), size=S * A)
    x = visited_phi.reshape(-1, d)
    V1 = x.T @ (visits[:, None] * x)
    V0 = V1 * rng.choice([0.0, 0.1])
    size, U = np.linalg.eigh(V1)
    U = U[:, size > 1e-6 * size.max()]
    all_phi = phi.reshape(-1, d)
    root = np.linalg.cholesky(0.25 * 9 * V0 + all_phi.T @ all_phi / (S * A) + V1)
    noise = U @ rng.standard_normal((U.shape[1], S))
    if rng.random() < 0.5:  # all in one direction: at the limit in one corner
        noise = np.outer(U @ rng.standard_normal(U.shape[1]), rng.choice([-1.0, 1.0], S))
    noise -= noise.mean(-1, keepdims=True)

    def widths(V, radius):
        spread = (V.max(-1) - V.min(-1)) * radius
        lengths = np.linalg.norm(np.linalg.solve(root, noise @ V.T), axis=0)
        return (lengths[spread > 0] / spread[spread > 0]).max(initial=0.0)

    V = best_values(phi @ mu, reward)[1:H]
    noise /= max(widths(corners(S), beta_all), widths(V, beta), 1e-300)
    return phi, mu, reward, V0, V1, V1 @ mu + noise


def best_values(P, reward):
    H, S, _ = reward.shape
    V = np.zeros((H + 1, S))
    for h in range(H - 1, -1, -1):
        V[h] = (reward[h] + P @ V[h + 1]).max(-1)
    return V
