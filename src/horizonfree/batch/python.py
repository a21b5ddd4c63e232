"""Members whose explorers are plain Python: one after the other, episode by episode."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from horizonfree.batch.simulate import Setup
from horizonfree.errors import OptionError
from horizonfree.explorers.loop import Progress, Records
from horizonfree.explorers.python import (
    PythonExplorer,
    own_state,
    python_progress,
    read_only,
    simulate_python,
    simulate_several,
)
from horizonfree.planning import evaluate


def init_members(explorers: Sequence[PythonExplorer], shared: Setup, own: Setup) -> Progress:
    """The progress of every member before its first episode."""
    setups = [_setup(shared, own, i) for i in range(len(explorers))]
    members = [python_progress(x, read_only(y.model), y.evidence) for x, y in zip(explorers, setups)]
    progress: Progress = _stack(members)
    return progress


def simulate_members(
    explorers: Sequence[PythonExplorer], shared: Setup, own: Setup, progress: Progress, count: int
) -> tuple[Progress, Records]:
    """`count` episodes of every member, and their records [N, count]."""
    after, records = [], []
    for i, explorer in enumerate(explorers):
        x = _setup(shared, own, i)

        def one_more(
            now: Progress, explorer: PythonExplorer = explorer, x: Setup = x
        ) -> tuple[Progress, Records]:
            return simulate_python(explorer, read_only(x.model), x.sampler, x.key, now)

        progress_i, numbers, error = simulate_several(one_more, _row(progress, i), count)
        if error is not None:
            raise error
        after.append(progress_i)
        records.append(numbers)
    if any(numbers.keys() != records[0].keys() for numbers in records):
        raise OptionError(
            "members of a batch report different records; update must report the same names for all seeds"
        )
    return _stack(after), _stack(records)


def own_gaps_python(
    explorers: Sequence[PythonExplorer],
    shared: Setup,
    own: Setup,
    progress: Progress,
    rewards: Float[np.ndarray, "T H S A"],
) -> Float[np.ndarray, " N"]:
    """The largest true suboptimality, over the rewards, of each explorer's own plans."""
    result = []
    for i, explorer in enumerate(explorers):
        setup, now = _setup(shared, own, i), read_only(_row(progress, i))
        model, truth, best = read_only((setup.model, setup.truth, setup.best))
        plans = [explorer.plan(model, own_state(now.state), now.evidence, r).policy for r in rewards]
        V = evaluate(model.kernel(truth), rewards, np.stack([np.asarray(plan) for plan in plans]))[:, 0]
        result.append(float((best - model.space.at_start(V)).max()))
    return np.array(result)


def _setup(shared: Setup, own: Setup, i: int) -> Setup:
    setup: Setup = eqx.combine(_row(own, i), shared)
    return setup


def _row(tree: Any, i: int) -> Any:
    return jax.tree.map(lambda x: x[i], tree)


def _stack(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *x: np.stack([np.asarray(y) for y in x]), *trees)
