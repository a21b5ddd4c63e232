"""Small random systems of every class, with few shapes, so that few programs are compiled."""

import numpy as np

import horizonfree as hf

S, A, H = 3, 2, 3


def table(rng, size=(), *, is_sharp=False):
    """Random rows [*size, S, A, S]: dense ones, with zeros, or deterministic ones."""
    P = rng.dirichlet(np.full(S, 0.7), (*size, S, A))
    if is_sharp:
        P = np.eye(S)[rng.integers(S, size=(*size, S, A))]
    return P


def kernels(rng, settings):
    return hf.Mixture.from_kernels(table(rng, (3,)), weights=_weights(rng, 3), **settings)


def sharp_kernels(rng, settings):
    """Deterministic rows: transitions that one kernel allows and another excludes; a truth at a vertex of the hull."""
    weights = np.eye(3)[rng.integers(3)] if rng.random() < 0.5 else _weights(rng, 3)
    return hf.Mixture.from_kernels(table(rng, (3,), is_sharp=True), weights=weights, **settings)


def duplicates(rng, settings):
    """Both actions of some states do the same in every kernel."""
    P = table(rng, (2,))
    for s in np.flatnonzero(rng.random(S) < 0.7):
        P[:, s, 1] = P[:, s, 0]
    return hf.Mixture.from_kernels(P, weights=_weights(rng, 2), **settings)


def equal_actions(rng, settings):
    """All actions of a state do the same: what is unknown is a context that no action influences."""
    P = table(rng, (2,))
    P[:, :, 1] = P[:, :, 0]
    return hf.Mixture.from_kernels(P, weights=_weights(rng, 2), **settings)


def redundant(rng, settings):
    """The third kernel is a mixture of the others."""
    P = table(rng, (2,))
    share = rng.random()
    return hf.Mixture.from_kernels(
        [*P, share * P[0] + (1 - share) * P[1]], weights=_weights(rng, 3), **settings
    )


def unreachable(rng, settings):
    """State 2 is out of reach, and the kernels differ there."""
    P = table(rng, (3,))
    P[:, :2, :, 2] = 0.0
    P /= P.sum(-1, keepdims=True)
    settings = settings | {"start": [0.5, 0.5, 0.0] if np.ndim(settings["start"]) else 0}
    return hf.Mixture.from_kernels(P, weights=_weights(rng, 3), **settings)


def features(rng, settings):
    """P = P_1 + t (P_2 - P_1), t of any sign."""
    P = table(rng, (2,))
    phi = np.stack([P[0], P[1] - P[0]], axis=-1)
    return hf.Mixture.from_features(phi, bound=3.0, theta=[1.0, rng.random()], **settings)


def any_sign(rng, settings):
    return hf.Mixture.from_kernels(table(rng, (2,)), weights=_weights(rng, 2), hull=False, **settings)


def noise(rng, settings):
    next_states = rng.integers(S, size=(S, A, 3))
    return hf.Mixture.from_noise(next_states, [0, 1, 2], weights=_weights(rng, 3), **settings)


def known_kernel(rng, settings):
    """Nothing is unknown."""
    return hf.Mixture.from_kernels(table(rng, (1,)), weights=[1.0], **settings)


def table_as_mixture(rng, settings):
    P = table(rng)
    return hf.Mixture.from_tabular(P, **settings)


def table_any(rng, settings):
    return hf.Tabular.from_table(table(rng, is_sharp=rng.random() < 0.3), **settings)


def table_given(rng, settings):
    P = table(rng) * (rng.random((S, A, S)) < 0.8)
    P[..., 0] += 1e-3
    return hf.Tabular.from_table(P / P.sum(-1, keepdims=True), support="given", **settings)


def table_certain(rng, settings):
    """Nearly all pairs are deterministic, of which nothing is known beforehand."""
    P = np.eye(S)[rng.integers(S, size=(S, A))]
    if rng.random() < 0.5:
        P[rng.integers(S), rng.integers(A)] = rng.dirichlet(np.ones(S))
    return hf.Tabular.from_table(P, **settings)


def table_terminal(rng, settings):
    P = table(rng)
    P[2] = np.eye(S)[2]
    return hf.Tabular.from_table(P, terminal=[2], **settings)


def table_support(rng, settings):
    """A support with a transition that never happens."""
    P = table(rng)
    P[:, :, 1] = 0.0
    support = rng.random((S, A, S)) < 0.5
    return hf.Tabular.from_table(P / P.sum(-1, keepdims=True), support=support | (P > 0), **settings)


def linear(rng, settings):
    phi, mu = rng.dirichlet(np.full(2, 0.5), (S, A)), rng.dirichlet(np.full(S, 0.5), 2)
    phi[0, 0], phi[0, 1] = [0.9, 0.1], [0.2, 0.8]  # independent
    return hf.LinearMDP.from_features(phi, mu=mu, **settings)


def linear_declared(rng, settings):
    problem = linear(rng, settings)
    return problem.with_rewards([hf.goal(problem, s) for s in range(S)])


def _weights(rng, d):
    return rng.dirichlet(np.full(d, 0.7))


CLASSES = {
    function.__name__: function
    for function in (
        kernels,
        sharp_kernels,
        duplicates,
        equal_actions,
        redundant,
        unreachable,
        features,
        any_sign,
        noise,
        known_kernel,
        table_as_mixture,
        table_any,
        table_certain,
        table_given,
        table_terminal,
        table_support,
        linear,
        linear_declared,
    )
}
