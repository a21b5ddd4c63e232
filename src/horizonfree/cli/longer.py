"""Rewards that are discounted or paid for at the end, asked of a run on the command line."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from horizonfree.problems.truth import true_gap
from horizonfree.runs.extended import extended

if TYPE_CHECKING:
    from horizonfree import Plan, Run


class Longer(NamedTuple):
    """A run, and from where it is asked."""

    run: "Run"
    start: int | None
    horizon: int | None

    def __call__(
        self, reward: Any, policy: Any, *, scale: str, delta: float, model: str, discount: Any, final: Any
    ) -> tuple["Plan", float | None]:
        """The plan, or the policy as one, and what it really loses, where the truth is known."""
        run, where = self.run, {"start": self.start, "horizon": self.horizon}
        how: dict[str, Any] = {"scale": scale, "delta": delta, "discount": discount, "final": final, **where}
        found = (
            run.plan(reward, model=model, **how) if policy is None else run.evaluate(reward, policy, **how)
        )
        if not run.is_simulated or run.problem.truth is None:
            return found, None
        is_moved = self.start is not None or self.horizon is not None
        there = run.problem.moved(self.start, self.horizon) if is_moved else run.problem
        world = extended(there, reward, discount, final)
        acting = found.policy if final is None else np.concatenate([found.policy, found.policy[-1:]])
        return found, true_gap(*world, acting, scale=scale)
