"""Curves of a batch: what is computed of every member at the checkpoints."""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from horizonfree._validation import check_known, check_size, require
from horizonfree._x64 import to_numpy
from horizonfree.batch.members import Members
from horizonfree.batch.simulate import Setup
from horizonfree.explorers.loop import Progress
from horizonfree.mdp import rewards
from horizonfree.models import certify
from horizonfree.models.base import Evidence
from horizonfree.models.registry import diagnostics_of
from horizonfree.planning import evaluate, optimal
from horizonfree.planning.traced import evaluate_jax
from horizonfree.problems.problem import Problem

MEMBERS_PER_TASK = 25  # a member takes about 10 ms


@dataclass(frozen=True, eq=False)
class CertifiedCurves:
    """Which curves to compute, at which delta; of each problem the optimal values `best` of the rewards.

    gap: the largest true suboptimality, over the rewards, of plans that are optimal in the estimate. `Run.plan` returns
    such a plan, or for tables the plan of the confidence set's centre where its certified gap is smaller;
    eps: the uniform certificate; efficiency: K T / q, 1 for the best design in hindsight; excess: above 0, the truth is
    outside the confidence set. Computed in NumPy, member by member, in worker processes where asked for.
    """

    curves: tuple[str, ...]
    delta: float
    problems: tuple[Problem, ...]
    rewards: Float[np.ndarray, "T H S A"]
    best: tuple[Float[np.ndarray, " T"], ...]

    def of_member(self, index: int, evidence: Evidence) -> list[float]:
        """The curves of one member of problem number `index`."""
        problem, values = self.problems[index], {}
        if "excess" in self.curves:
            values["excess"] = float(problem.model.violation(evidence, problem.truth, np.asarray(self.delta)))
        if "efficiency" in self.curves:
            values["efficiency"] = diagnostics_of(problem.model).inefficiency(evidence)
        if "gap" in self.curves or "eps" in self.curves:
            confidence = certify.confidence(problem.model, evidence, delta=self.delta)
            values["eps"] = certify.uniform_eps(confidence)
        if "gap" in self.curves:
            plans = optimal(confidence.kernel, self.rewards).policy
            V = evaluate(problem.kernel(), self.rewards, plans)[:, 0]
            values["gap"] = float((self.best[index] - problem.space.at_start(V)).max())
        return [values[name] for name in self.curves]

    def of_members(
        self, indices: Sequence[int], evidence: Sequence[Evidence], pool: Executor | None = None
    ) -> dict[str, Float[np.ndarray, " N"]]:
        """The curves of all members, in the processes of a pool if there is one."""
        if pool is None:
            rows = self._of_some(indices, evidence)
        else:
            cuts = range(0, len(indices), MEMBERS_PER_TASK)
            parts = [(indices[i : i + MEMBERS_PER_TASK], evidence[i : i + MEMBERS_PER_TASK]) for i in cuts]
            rows = [row for part in pool.map(self._of_some, *zip(*parts)) for row in part]
        return {name: np.array(column) for name, column in zip(self.curves, zip(*rows))}

    def _of_some(self, indices: Sequence[int], evidence: Sequence[Evidence]) -> list[list[float]]:
        return [
            self.of_member(index, member_evidence)
            for index, member_evidence in zip(indices, evidence, strict=True)
        ]


@contextmanager
def worker_pool(workers: int) -> Iterator[Executor | None]:
    """A pool of processes that are started afresh, as JAX cannot be forked; None for one worker."""
    if workers == 1:
        yield None
    else:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            yield pool


CURVES = ("gap", "own_gap", "eps", "efficiency", "excess")
MAX_SUITE_BYTES = 2**30  # of the default rewards


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The curves of a batch, and their rewards with the optimal values `best` in each problem."""

    curves: tuple[str, ...]
    rewards: Float[np.ndarray, "T H S A"]
    best: tuple[Float[np.ndarray, " T"], ...]
    delta: float

    def certified(
        self, members: Members, first: int, N: int, progress: Progress, pool: Executor | None
    ) -> dict[str, Float[np.ndarray, "N 1"]]:
        """All curves but own_gap, of members first, ..., first + N - 1, in the processes of a pool."""
        names = tuple(name for name in self.curves if name != "own_gap")
        if not names:
            return {}
        batch = to_numpy(progress.evidence)
        evidence = [jax.tree.map(lambda x, i=i: x[i], batch) for i in range(N)]
        certified = CertifiedCurves(names, self.delta, tuple(members.problems), self.rewards, self.best)
        indices = [members[first + i].problem for i in range(N)]
        curves = certified.of_members(indices, evidence, pool)
        return {name: x[:, None] for name, x in curves.items()}


def build_evaluation(
    members: Members, checkpoints: np.ndarray, curves: Any, reward_list: Any, delta: float
) -> Evaluation:
    """Check the names of the curves; resolve the rewards, and solve them in the truth, if a curve needs them."""
    is_list = np.iterable(curves) and not isinstance(curves, str)
    require(is_list, "curves", curves, f"a list of {', '.join(CURVES)}")
    names = tuple(curves)
    for name in names:
        check_known(name, CURVES, "curve")
    if not len(checkpoints):
        names = ()
    problems = members.problems
    space = problems[0].space
    if not {"gap", "own_gap"} & set(names):
        return Evaluation(names, np.zeros((0, *space.sizes)), (np.zeros(0),) * len(problems), delta)
    if reward_list is None:
        entries = 16 * space.num_states * math.prod(space.sizes)
        check_size(
            entries, MAX_SUITE_BYTES, f"the default rewards need {entries:,} bytes", "give rewards=[...]"
        )
        table = rewards.suite(space)
    else:
        is_list = np.iterable(reward_list) and not isinstance(reward_list, str)
        reward_tuple = tuple(reward_list) if is_list else ()
        require(bool(reward_tuple), "rewards", reward_list, "a list of at least one reward")
        table = np.stack([rewards.resolve(problems[0], x).table for x in reward_tuple])
    best = tuple(x.space.at_start(optimal(x.kernel(), table).V[:, 0]) for x in problems)
    return Evaluation(names, table, best, delta)


@eqx.filter_jit
def own_gaps(
    shared: Setup,
    own: Setup,
    progress: Progress,
    rewards: Float[Array, "T H S A"],
    *,
    batch_size: int | None,
) -> Float[Array, " N"]:
    """The largest true suboptimality, over the rewards, of the own plans of every member's explorer; traced.

    Computed for `batch_size` members side by side.
    """

    def of_member(pair: tuple[Setup, Progress]) -> Array:
        setup, now = eqx.combine(pair[0], shared), pair[1]
        truth = setup.model.kernel(setup.truth)

        def value(reward: Array) -> Array:
            policy = setup.explorer.plan(setup.model, now.state, now.evidence, reward).policy
            return setup.model.space.at_start(evaluate_jax(truth, reward, policy)[0])

        largest: Array = (setup.best - jax.vmap(value)(rewards)).max()
        return largest

    result: Array = jax.lax.map(of_member, (own, progress), batch_size=batch_size)
    return result
