"""The traced part of tabular MDPs: counts of transitions."""

import jax.numpy as jnp
from jaxtyping import Bool

from horizonfree._arrays import Array
from horizonfree.guarantees.e_processes import EProcesses, check_e_processes
from horizonfree.mdp.space import UNSEEN, Space, Trajectory
from horizonfree.models.tabular.evidence import TabularEvidence
from horizonfree.planning.traced import take


def init_evidence(space: Space, bets: EProcesses) -> TabularEvidence:
    """No episodes yet."""
    check_e_processes(bets)
    return TabularEvidence(
        counts=jnp.zeros(space.succ.shape, jnp.int32),
        starts=jnp.asarray(bets.starts, jnp.int32),
        weights=jnp.asarray(bets.weights, jnp.float64),
        episodes=jnp.int32(0),
        impossible=jnp.int32(0),
    )


def update(space: Space, evidence: TabularEvidence, trajectory: Trajectory) -> TabularEvidence:
    """Evidence after one more episode. Steps that were not observed are not counted.

    Actions that are one and the same (mdp/policies.py) all have the counts.
    """
    s, a, j = trajectory.s[:-1], trajectory.a, trajectory.j
    is_counted = is_possible(space, trajectory)
    wrong: Array = (~is_counted & (j != UNSEEN)).sum(dtype=jnp.int32)
    slot = jnp.where(is_counted, j, space.succ.shape[2])
    if space.acts is None:
        counts = evidence.counts.at[s, a, slot].add(1, mode="drop")
    else:
        acts, every = jnp.asarray(space.acts)[s], jnp.arange(space.num_actions)
        is_same = acts == jnp.take_along_axis(acts, a[:, None], axis=1)
        counts = evidence.counts.at[s[:, None], every, slot[:, None]].add(
            is_same.astype(jnp.int32), mode="drop"
        )
    return TabularEvidence(
        counts=counts,
        starts=evidence.starts,
        weights=evidence.weights,
        episodes=evidence.episodes + 1,
        impossible=evidence.impossible + wrong,
    )


def is_possible(space: Space, trajectory: Trajectory) -> Bool[Array, " H"]:
    """Which steps were observed and are possible."""
    s, a, j = trajectory.s[:-1], trajectory.a, trajectory.j
    is_slot = (j >= 0) & (j < space.succ.shape[2])
    return is_slot & take(space.support, (s, a, jnp.where(is_slot, j, 0)))
