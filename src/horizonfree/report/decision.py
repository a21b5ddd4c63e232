"""The first screen of an analyst's report: the plan for a cost beside today's policy, with names."""

from typing import Any

import numpy as np

from horizonfree.mdp.names import name_of
from horizonfree.models.base import probabilities
from horizonfree.runs.audit import audit
from horizonfree.runs.run import Run

MAX_ROWS = 24  # states of the table
MIN_TIME = 5e-4  # share of the steps from which on a state is listed


def decide(
    run: Run, reward: Any, today: Any = None, *, is_cost: bool = False, delta: float = 0.05
) -> dict[str, Any]:
    """The audit of the best plan against today's policy as plain data, with a row for each state.

    today: as for `Run.evaluate`; None: the policy of the data.
    """
    plan = run.plan(reward, scale="rescale", delta=delta)
    result = audit(run, reward, plan.policy, today, delta=delta)
    share = plan.occupancy.mean(axis=0)
    listed = np.flatnonzero(share >= MIN_TIME)
    order = np.sort(listed[np.argsort(-share[listed], kind="stable")[:MAX_ROWS]])
    new, old = (probabilities(x.policy, run.problem.num_actions) for x in (result.new, result.incumbent))
    layout = run.problem.layout
    rows = [
        {
            "state": name_of(layout, "states", int(s)),
            "time": f"{share[s]:.1%}",
            "plan": _actions(new[:, s], plan.occupancy[:, s], layout),
            "today": _actions(old[:, s], plan.occupancy[:, s], layout),
        }
        for s in order
    ]
    return {
        **result.to_dict(is_cost=is_cost),
        "today": "the policy of the data" if today is None else "today's policy",
        "rows": rows,
        "more_states": int((share > 0).sum()) - len(order),
    }


def _actions(table: np.ndarray, mu: np.ndarray, layout: Any) -> str:
    """What a policy [H, A] does in a state, on average over the steps at which the plan is there."""
    share = mu @ table / mu.sum()
    main = [a for a in np.argsort(-share, kind="stable") if share[a] >= 0.005]
    if len(main) == 1:
        return name_of(layout, "actions", int(main[0]))
    return ", ".join(f"{name_of(layout, 'actions', int(a))} {share[a]:.0%}" for a in main)
