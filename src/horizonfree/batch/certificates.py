"""Curves of a batch that need confidence sets: in NumPy, member by member, in worker processes where asked for."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
from jaxtyping import Float

from horizonfree.models import certify
from horizonfree.models.base import Evidence
from horizonfree.planning import evaluate, optimal
from horizonfree.problems.problem import Problem

MIN_MEMBERS_PER_WORKER = 50  # a worker takes a second to start, a member about 20 ms
CHUNKS_PER_WORKER = 4


@dataclass(frozen=True, eq=False)
class CertifiedCurves:
    """Which curves to compute, at which delta; of each problem the optimal values `best` of the rewards.

    gap: the largest true suboptimality, over the rewards, of plans that are optimal in the estimate. `Run.plan` returns
    such a plan, or for tables the plan of the confidence set's centre where its certified gap is smaller;
    eps: the uniform certificate; excess: above 0, the truth is outside the confidence set.
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
        if "gap" in self.curves or "eps" in self.curves:
            confidence = certify.confidence(problem.model, evidence, delta=self.delta)
            values["eps"] = certify.uniform_eps(confidence)
        if "gap" in self.curves:
            plans = optimal(confidence.kernel, self.rewards).policy
            V = evaluate(problem.kernel(), self.rewards, plans)[:, 0]
            values["gap"] = float((self.best[index] - problem.space.at_start(V)).max())
        return [values[name] for name in self.curves]

    def of_members(
        self, indices: Sequence[int], evidence: Sequence[Evidence], workers: int = 1
    ) -> dict[str, Float[np.ndarray, " N"]]:
        """The curves of all members; workers: processes, of which each has at least MIN_MEMBERS_PER_WORKER members."""
        workers = min(workers, len(indices) // MIN_MEMBERS_PER_WORKER)
        if workers <= 1:
            rows = self._of_some(indices, evidence)
        else:
            parts = np.array_split(np.arange(len(indices)), CHUNKS_PER_WORKER * workers)
            chunks = [([indices[i] for i in part], [evidence[i] for i in part]) for part in parts]
            with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
                rows = [row for part in pool.map(self._of_some, *zip(*chunks)) for row in part]
        return {name: np.array(column) for name, column in zip(self.curves, zip(*rows))}

    def _of_some(self, indices: Sequence[int], evidence: Sequence[Evidence]) -> list[list[float]]:
        return [self.of_member(index, own) for index, own in zip(indices, evidence, strict=True)]
