"""Curves of a batch that are computed from the evidence: in NumPy, member by member, in worker processes where asked for."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
from jaxtyping import Float

from horizonfree.models import certify
from horizonfree.models.base import Evidence
from horizonfree.models.registry import diagnostics_of
from horizonfree.planning import evaluate, optimal
from horizonfree.problems.problem import Problem

MEMBERS_PER_TASK = 25  # a member takes about 10 ms


@dataclass(frozen=True, eq=False)
class CertifiedCurves:
    """Which curves to compute, at which delta; of each problem the optimal values `best` of the rewards.

    gap: the largest true suboptimality, over the rewards, of plans that are optimal in the estimate. `Run.plan` returns
    such a plan, or for tables the plan of the confidence set's centre where its certified gap is smaller;
    eps: the uniform certificate; efficiency: K T / q, 1 for the best design in hindsight; excess: above 0, the truth is
    outside the confidence set.
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
        return [self.of_member(index, own) for index, own in zip(indices, evidence, strict=True)]


@contextmanager
def worker_pool(workers: int) -> Iterator[Executor | None]:
    """A pool of processes that are started afresh, as JAX cannot be forked; None for one worker."""
    if workers == 1:
        yield None
    else:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            yield pool
