"""The traced part: counts."""

import jax.numpy as jnp

from horizonfree.models.base import Evidence


def init_evidence(space, bets):
    """No counts."""
    starts, weights = jnp.asarray(bets.starts, jnp.int32), jnp.asarray(bets.weights, jnp.float64)
    return Evidence(jnp.zeros(space.succ.shape, jnp.int32), starts, weights, jnp.int32(0), jnp.int32(0))


def update(evidence, trajectory):
    """One more episode."""
    s, a, j = trajectory.s[:-1], trajectory.a, trajectory.j
    return Evidence(
        counts=evidence.counts.at[s, a, j].add(1),
        starts=evidence.starts,
        weights=evidence.weights,
        episodes=evidence.episodes + 1,
        impossible=evidence.impossible,
    )
