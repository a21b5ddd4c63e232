"""Numbers as a data frame, for those who have pandas."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from horizonfree.errors import OptionError
from horizonfree.mdp.names import name_of

if TYPE_CHECKING:
    import pandas


def frame(columns: Mapping[str, Any]) -> "pandas.DataFrame":
    """Columns as a data frame; text is categorical."""
    try:
        import pandas
    except ImportError:
        raise OptionError(
            "pandas is not installed: pip install pandas, or use the arrays themselves"
        ) from None
    texts = [name for name, x in columns.items() if np.asarray(x).dtype.kind in "OUT"]
    return pandas.DataFrame(dict(columns)).astype(dict.fromkeys(texts, "category"))


def of_plan(plan: Any) -> "pandas.DataFrame":
    """Of a `Plan`, a row for each step and state: what is done there, and how probably the plan is there."""
    H, S = plan.policy.shape[:2]
    step, state = (x.ravel() for x in np.indices((H, S)))
    actions = plan.policy if plan.policy.ndim == 2 else plan.policy.argmax(axis=-1)
    names = {
        "state": [name_of(plan.layout, "states", int(s)) for s in state],
        "action": [name_of(plan.layout, "actions", int(a)) for a in actions.ravel()],
    }
    return frame({"step": step, **names, "probability": plan.occupancy.ravel()})
