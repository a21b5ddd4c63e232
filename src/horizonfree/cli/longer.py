"""Rewards that are discounted, for transitions, or paid for at the end, asked of a run on the command line."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from horizonfree.mdp.lift import expected, payments
from horizonfree.mdp.rewards import as_table
from horizonfree.problems.truth import true_gap
from horizonfree.runs.extended import More, extended

if TYPE_CHECKING:
    from horizonfree import Plan, Run


class Longer(NamedTuple):
    """A run, and from where it is asked."""

    run: "Run"
    start: int | None
    horizon: int | None

    def __call__(
        self, reward: Any, policy: Any, *, scale: str, delta: float, model: str, more: More
    ) -> tuple["Plan", float | None]:
        """The plan, or the policy as one, and what it really loses, where the truth is known."""
        run, where = self.run, {"start": self.start, "horizon": self.horizon}
        how: dict[str, Any] = {"scale": scale, "delta": delta, **more._asdict(), **where}
        found = (
            run.plan(reward, model=model, **how) if policy is None else run.evaluate(reward, policy, **how)
        )
        if not run.is_simulated or run.problem.truth is None:
            return found, None
        is_moved = self.start is not None or self.horizon is not None
        there = run.problem.moved(self.start, self.horizon) if is_moved else run.problem
        table = as_table(there, reward)
        if more.transition is not None:  # where the truth is known, so is what transitions pay on average
            table = table + expected(there.kernel(), payments(there.space, more.transition))
        world, table, _ = extended(there, table, more.discount, more.final)
        acting = found.policy if more.final is None else np.concatenate([found.policy, found.policy[-1:]])
        return found, true_gap(world, table, acting, scale="rescale")
