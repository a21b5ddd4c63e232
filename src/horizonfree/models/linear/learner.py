"""The traced part of the linear model class: evidence after each episode, a cheap estimate, and membership.

`estimate` is the ridge estimate phi (gram + lam I)^-1 cross with negative entries set to 0 and rows
scaled to sum to one.

`violation` tests membership in the confidence set, with the formulas of bounds.py.
"""

from itertools import product

import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jaxtyping import Float

from horizonfree._arrays import Array
from horizonfree.guarantees.e_processes import EProcesses, check_e_processes
from horizonfree.mdp.space import UNSEEN, Kernel, Space, Trajectory
from horizonfree.models.linear.bounds import RIDGE, LinearEvidence, fit, level_of_all, prior, regress
from horizonfree.planning.traced import allowed_actions

MAX_STATES_OF_VERTICES = 12  # largest S for which `violation` tests all 2^(S-1) vertices V


def init_evidence(phi: Float[Array, "S A d"], bets: EProcesses) -> LinearEvidence:
    """The evidence before the first episode."""
    check_e_processes(bets)
    S, A, d = phi.shape
    J = len(bets.starts)
    return LinearEvidence(
        gram=jnp.zeros((d, d)),
        cross=jnp.zeros((d, S)),
        gram_at=jnp.zeros((J, d, d)),
        cross_at=jnp.zeros((J, d, S)),
        counts=jnp.zeros((S, A, S), jnp.int32),
        starts=jnp.asarray(bets.starts, jnp.int32),
        weights=jnp.asarray(bets.weights, jnp.float64),
        episodes=jnp.int32(0),
        impossible=jnp.int32(0),
    )


def update(
    space: Space, phi: Float[Array, "S A d"], evidence: LinearEvidence, trajectory: Trajectory
) -> LinearEvidence:
    """Evidence after one more episode. Unobserved steps add nothing."""
    S, trajectory = len(phi), allowed_actions(space, trajectory)
    s, a, j = trajectory.s[:-1], trajectory.a, trajectory.j
    is_counted = (j >= 0) & (j < S)
    x = jnp.where(is_counted[:, None], phi[s, a], 0.0)
    after = jnp.where(is_counted, j, S)
    gram = evidence.gram + x.T @ x
    cross = evidence.cross.at[:, after].add(x.T, mode="drop")
    is_on = (evidence.episodes >= evidence.starts)[:, None, None]
    return LinearEvidence(
        gram=gram,
        cross=cross,
        gram_at=jnp.where(is_on, evidence.gram_at, gram),
        cross_at=jnp.where(is_on, evidence.cross_at, cross),
        counts=evidence.counts.at[s, a, after].add(1, mode="drop"),
        starts=evidence.starts,
        weights=evidence.weights,
        episodes=evidence.episodes + 1,
        impossible=evidence.impossible + (~is_counted & (j != UNSEEN)).sum(dtype=jnp.int32),
    )


def estimate(space: Space, phi: Float[Array, "S A d"], evidence: LinearEvidence) -> Kernel:
    """The normalised ridge estimate of the kernel, cheap enough for every episode."""
    raw = phi @ jsl.cho_solve((_ridge_root(evidence), True), evidence.cross)
    prob = jnp.maximum(raw, 0.0)
    total = prob.sum(-1, keepdims=True)
    is_seen = total > 0
    return space.kernel(jnp.where(is_seen, prob / jnp.where(is_seen, total, 1.0), 1 / space.num_states))


def _ridge_root(evidence: LinearEvidence) -> Float[Array, "d d"]:
    """The Cholesky factor of gram + lam I."""
    return jnp.linalg.cholesky(evidence.gram + RIDGE * jnp.eye(evidence.gram.shape[-1]))


def violation(
    space: Space,
    phi: Float[Array, "S A d"],
    white: Float[Array, "d d"],
    evidence: LinearEvidence,
    mu: Float[Array, "d S"],
    delta: Float[Array, ""],
) -> Float[Array, ""]:
    """The largest ||(C1 - V1 mu) V|| in the inverse of R + V1, less beta, over functions V and e-processes.

    C1, V1, R and beta are those of bounds.py. With few states, V ranges over the vertices of the cube [0, 1]^S. With
    more, rows are compared with their widths in total variation: a parameter beyond a width is outside the set, but not
    every other one is in it. delta: failure probability for all V and all e-processes together.
    """
    S, true = space.num_states, phi @ mu
    L = level_of_all(S, delta * evidence.weights, jnp)
    vertices = None
    if S <= MAX_STATES_OF_VERTICES:  # V and V + c are the same here, so the first entry is 0
        vertices = jnp.asarray(list(product((0.0, 1.0), repeat=S - 1))).reshape(2 ** (S - 1), S - 1)

    def violation_of(j: int) -> Array:
        V0, C0 = evidence.gram_at[j], evidence.cross_at[j]
        V1, C1 = evidence.gram - V0, evidence.cross - C0
        result = regress(phi, white, V1, C1, jnp)
        row = fit(result, phi, white, V0, V1, evidence.episodes + space.horizon, xp=jnp)
        if vertices is not None:
            _, root = prior(phi, white, V0, V1, xp=jnp)
            sums = (white.T @ (C1 - V1 @ mu))[:, 1:] @ vertices.T
            norms = jnp.linalg.norm(jsl.solve_triangular(root, sums, lower=True), axis=0)
            return norms.max() - row.beta(L[j])
        beyond = jnp.abs(result.raw - true).sum(-1) / 2 - row.beta(L[j]) * row.n - row.e
        return jnp.where(row.is_bad, -1.0, beyond).max()

    return jnp.stack([violation_of(j) for j in range(len(evidence.starts))]).max()
