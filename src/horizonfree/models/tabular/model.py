"""Tabular MDPs: every kernel with the given support, or every kernel at all.

A parameter is a table of probabilities on the successor lists (mdp/space.py), [S, A, n]. A pair with one possible
successor is known; every other reachable pair is unknown, and the unknown pairs are all that there is to learn. A
terminal state is one whose only successor is itself. Where any state may follow, the lists are dense. A forbidden
action (mdp/policies.py) is no pair of its own: it has the counts and the ball of the action that replaces it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Leaf, node, static
from horizonfree._validation import (
    check_floats,
    check_shape,
    check_table_size,
    require_entries,
    require_shape,
)
from horizonfree.errors import KernelError
from horizonfree.guarantees.e_processes import EProcesses
from horizonfree.mdp.policies import is_allowed, redirect_forbidden
from horizonfree.mdp.space import Kernel, Space, Trajectory, check_kernel, make_space, restricted_space
from horizonfree.models.base import Description, Evidence, Model
from horizonfree.models.misspecification import Misspecification
from horizonfree.models.tabular import joint, radius
from horizonfree.models.tabular.confidence import TabularConfidence, confidence
from horizonfree.models.tabular.evidence import TabularEvidence, frequencies
from horizonfree.models.tabular.robust import RobustTabularConfidence, robust_confidence

MACHINE_EPS = float(np.finfo(np.float64).eps)


@node
class TabularModel(Model):
    """A space and its unknown pairs; `is_support_known` False: any state may follow an unknown pair."""

    space: Space
    pairs: Int[Leaf, "X 2"]
    is_support_known: bool = static()
    is_shared: ClassVar[bool] = False
    evidence_type: ClassVar[type[Evidence]] = TabularEvidence
    explorer: ClassVar[str] = "tabular-design"

    @property
    def num_unknown(self) -> int:
        """X, the number of unknown pairs."""
        return len(self.pairs)

    @property
    def parameter_shape(self) -> tuple[int, ...]:
        """The shape [S, A, n] of the successor lists."""
        return tuple(self.space.succ.shape)

    def describe(self) -> Description:
        """What is learned, in words for reports."""
        known = ", and only the declared transitions are possible" if self.is_support_known else ""
        return Description(
            "the next state depends on state and action alone, in the same way in every episode and step"
            + known,
            "Every pair of a state and an action is learnt by itself.",
            f"unknown pairs, {self.num_unknown}",
            f"A table of transition probabilities, {self.num_unknown} unknown pairs of a state and an action; their "
            "uncertainty is drawn above.",
        )

    def kernel(self, parameter: Float[Leaf, "S A n"]) -> Kernel:
        """The table itself."""
        meaning = f"{self.space.succ.shape}, that of the successor lists"
        require_shape(np.shape(parameter) == self.space.succ.shape, "the table", np.shape(parameter), meaning)
        return self.space.kernel(parameter)

    def parameter(self, argument: Any, name: str) -> Float[np.ndarray, "S A n"]:
        """Probabilities [S, A, S], on the successor lists; rows are scaled to sum to one exactly."""
        table = check_floats(argument, name)
        succ, support = np.asarray(self.space.succ), np.asarray(self.space.support)
        S, A, _ = succ.shape
        check_shape(table, name, (S, A, S), "[S, A, S]")
        table = redirect_forbidden(self.space.acts, table)
        prob = np.where(support, np.take_along_axis(table, succ, axis=-1), 0.0)
        impossible = table.copy()
        where = np.nonzero(support)
        impossible[*where[:2], succ[where]] = 0.0
        meaning = "the support (or a terminal state) says that it is impossible"
        require_entries(impossible == 0, name, table, meaning, KernelError, ": P(s'={2} | s={0}, a={1})")
        check_kernel(self.space.kernel(prob), name)
        prob = np.maximum(prob, 0.0)
        return np.asarray(prob / prob.sum(-1, keepdims=True))

    def restricted_to(
        self, states: Int[np.ndarray, " m"], parameter: Float[np.ndarray, "S A n"] | None
    ) -> tuple["TabularModel", Float[np.ndarray, "m A n"] | None]:
        """The model on these states; a state in which episodes can only end has one successor, in its first slot."""
        space = restricted_space(self.space, states)
        is_acting, is_first = np.asarray(space.reachable)[:, None, None], np.arange(space.succ.shape[2]) == 0
        space = replace(space, support=np.where(is_acting, space.support, is_first))
        if parameter is not None:
            parameter = np.where(is_acting, parameter[states], is_first.astype(np.float64))
        return TabularModel(space, unknown_pairs(space), self.is_support_known), parameter

    def init_evidence(self, bets: EProcesses, *, has_history: bool = False) -> TabularEvidence:
        """Evidence of no episodes."""
        from horizonfree.models.tabular import learner

        return learner.init_evidence(self.space, bets)

    def update(self, evidence: TabularEvidence, trajectory: Trajectory) -> TabularEvidence:
        """Add the counts of an episode; traced."""
        from horizonfree.models.tabular import learner

        return learner.update(self.space, evidence, trajectory)

    def estimate(self, evidence: TabularEvidence) -> Kernel:
        """The frequencies; uniform over the possible successors of a pair without visits; traced."""
        return frequencies(self.space, evidence)

    def confidence(self, evidence: TabularEvidence, delta: float) -> TabularConfidence:
        """A ball for every unknown pair, from the counts."""
        return confidence(self.space, self.pairs, evidence, delta, self.is_support_known)

    def robust_confidence(
        self, evidence: TabularEvidence, delta: float
    ) -> Callable[[Misspecification], RobustTabularConfidence]:
        """The confidence about all systems whose transition laws are within declared radii of one table."""
        return robust_confidence(self.space, self.pairs, evidence, delta, self.is_support_known)

    def rounding(self) -> float:
        """Bound on the rounding error of H steps, each with sums of n products and a few functions of them."""
        return float(self.space.horizon * 16 * (self.space.succ.shape[2] + 4) * MACHINE_EPS)

    def violation(
        self,
        evidence: TabularEvidence,
        parameter: Float[np.ndarray, "S A n"],
        delta: float | Float[np.ndarray, ""],
    ) -> Float[np.ndarray, ""]:
        """By how much the worst pair, or all pairs together, exclude the parameter."""
        s, a = self.pairs.T
        if not len(self.pairs):
            return np.asarray(np.log(delta))
        m = np.asarray(self.space.support)[s, a].sum(-1).astype(float)
        N = np.asarray(evidence.counts)[s, a].astype(float)
        L = radius.level(len(self.pairs), float(delta))
        alone = radius.violation(N, parameter[s, a], m, L).max()
        return np.asarray(max(alone, joint.violation(N, parameter[s, a], float(delta))))


def unknown_pairs(space: Space) -> Int[np.ndarray, "X 2"]:
    """Pairs of reachable states with more than one possible successor, of allowed actions."""
    is_unknown = (np.asarray(space.support).sum(-1) > 1) & np.asarray(space.reachable)[:, None]
    is_unknown &= is_allowed(space)
    return np.argwhere(is_unknown).astype(np.int32)


def tabular_model(
    possible: Bool[np.ndarray, "S A S"],
    *,
    horizon: Any,
    start: Any,
    is_support_known: bool,
    acts: Int[np.ndarray, "S A"] | None = None,
) -> TabularModel:
    """The class of all tables in which only these transitions are possible; acts: as in mdp/policies.py."""
    succ, support, is_dense = successor_lists(redirect_forbidden(acts, possible))
    space = make_space(succ, support, is_dense, horizon, start, acts)
    return TabularModel(space, unknown_pairs(space), is_support_known)


def successor_lists(
    possible: Bool[np.ndarray, "S A S"],
) -> tuple[Int[np.ndarray, "S A n"], Bool[np.ndarray, "S A n"], bool]:
    """Successor lists of what is possible, and whether they are dense; raises an error for a pair without successor."""
    S, A, _ = possible.shape
    check_table_size(S, A)
    count = possible.sum(-1)
    meaning = "support must leave at least one possible successor"
    require_entries(count > 0, "the number of successors of", count, meaning, KernelError, " (s={}, a={})")
    n = int(count.max())
    if 2 * n > S:
        return np.broadcast_to(np.arange(S, dtype=np.int32), (S, A, S)).copy(), possible.copy(), True
    order = np.argsort(~possible, axis=-1, kind="stable")[..., :n].astype(np.int32)
    is_slot = np.arange(n) < count[..., None]
    last = np.take_along_axis(order, count[..., None] - 1, axis=-1)
    return np.where(is_slot, order, last), is_slot, False
