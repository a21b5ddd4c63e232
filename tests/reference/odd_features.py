"""Features that try linear programmes and ranks: probabilities forced to zero or nearly, small rows, odd units."""

import numpy as np


def odd_features(seed):
    """phi [S, A, S, d], a true theta, and a bound on its norm; seeds take turns with five kinds."""
    rng = np.random.default_rng([77, seed])
    S, A, d = int(rng.integers(3, 6)), int(rng.integers(1, 4)), int(rng.integers(2, 9))
    K = rng.gamma(rng.choice([0.1, 1]), size=(d, S, A, S))
    K = K * (rng.random(K.shape) < rng.choice([0.4, 1])) + 1e-13 * (rng.random() < 0.3)
    K[..., 0] += 1e-3
    phi, theta = np.moveaxis(K / K.sum(-1, keepdims=True), 0, -1).copy(), rng.dirichlet(np.full(d, 0.5))
    tiny, i = 10.0 ** rng.uniform(-13, -3), int(rng.integers(d))
    j = (i + 1) % d
    change = [forced_zero, nearly_zero, small_row, other_units, nearly_alike][seed % 5]
    phi, theta = change(rng, phi, theta, i, j, tiny)
    return phi, theta, float(np.linalg.norm(theta)) * 10.0 ** rng.integers(0, 6) * (1 + 1e-9)


def forced_zero(rng, phi, theta, i, j, tiny):
    """One probability is c theta_i, another -c theta_i."""
    c = rng.choice([1, 0.1, 1e-3, 1e-6])
    phi[0, 0], phi[0, 0, 0] = 0, 1
    phi[0, 0, 1, i], phi[0, 0, 2, i] = c, -c
    theta[i] = 0
    return phi, theta / theta.sum()


def nearly_zero(rng, phi, theta, i, j, tiny):
    """One probability is theta_i, another tiny theta_j - theta_i: neither can be larger than tiny."""
    phi[0, 0], phi[0, 0, 0] = 0, 1
    phi[0, 0, 1, i], phi[0, 0, 2, i], phi[0, 0, 2, j] = 1, -1, tiny
    phi[0, 0, 0, j] -= tiny
    theta[i] = 0.3 * tiny * theta[j]
    is_other = np.arange(len(theta)) != i
    theta[is_other] *= (1 - theta[i]) / theta[is_other].sum()
    return phi, theta


def small_row(rng, phi, theta, i, j, tiny):
    """A row of features is as good as zero."""
    row = phi[0, 0, -1].copy()
    phi[0, 0, -1] = tiny * row
    phi[0, 0, 0] += (1 - tiny) * row
    return phi, theta


def other_units(rng, phi, theta, i, j, tiny):
    """Coordinates are turned and stretched; two probabilities may be forced to zero by opposite rows."""
    d = len(theta)
    M = np.linalg.qr(rng.normal(size=(d, d)))[0] @ np.diag(10.0 ** rng.uniform(-3, 3, size=d))
    phi, theta = phi @ M, np.linalg.solve(M, theta)
    if rng.random() < 0.5:
        v = rng.normal(size=d)
        v -= theta * (v @ theta) / (theta @ theta)
        v *= np.abs(phi).max() * rng.choice([1, 1e-3, 1e-6])
        total = phi[0, 0].sum(0)
        phi[0, 0], phi[0, 0, 0] = 0, total
        phi[0, 0, 1], phi[0, 0, 2] = v, -v
    return phi, theta


def nearly_alike(rng, phi, theta, i, j, tiny):
    """Two columns differ by a small share."""
    share = 10.0 ** rng.uniform(-9, -2)
    phi[..., 1] = (1 - share) * phi[..., 0] + share * phi[..., 1]
    return phi, theta
