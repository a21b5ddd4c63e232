"""What a run shows of itself: a card to be printed, and its records as a data frame."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from horizonfree._repr import ReprMixin, Summary
from horizonfree.runs.frames import frame

if TYPE_CHECKING:
    import pandas

MOST = 8  # weights that are printed


class Printed(ReprMixin):
    """A run, as far as it is shown."""

    records: Mapping[str, np.ndarray]

    def card(self) -> Summary:
        """What was explored, how long, and what was learnt."""
        return card_of(self)

    def to_pandas(self) -> "pandas.DataFrame":
        """What the explorer reported, a row for each episode, counted from 1."""
        episodes = len(next(iter(self.records.values()), ()))
        return frame({"episode": np.arange(1, episodes + 1), **self.records})


def card_of(run: Any) -> Summary:
    """Of a `Run`, what was explored, how long, and what was learnt."""
    problem = run.problem
    spec = run.explorer_spec
    by = "logged" if spec is None else f"explored by {spec.name}, seed {run.seed}"
    lines = [
        ("problem", f"{problem.num_states:,} states, {problem.num_actions} actions, {problem.horizon} steps"),
        ("episodes", f"{run.episodes:,}, {by}"),
    ]
    if run.has_parameter and problem.layout.get("weights"):
        known = run.weights[:MOST]
        lines.append(
            ("weights", ", ".join(f"{problem.weight_name(i)}: {x:.3f}" for i, x in enumerate(known)))
        )
    lines += [] if run.folder is None else [("folder", str(run.folder))]
    lines.append(("ask it", "run.plan(reward), run.certificate(), run.resume(episodes=100)"))
    return Summary(f"Run of {problem.name}", lines)
