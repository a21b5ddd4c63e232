"""The state of an explorer as arrays for storage, and its restoration when a run goes on."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from horizonfree.errors import RunError

if TYPE_CHECKING:
    from horizonfree.explorers.loop import Progress

ENDED_IN = "ended_in"  # record of real episodes: the state in which the environment terminated, or NO_END


class StoredState(NamedTuple):
    """A state read from a checkpoint: its arrays by name, the file, and the versions that wrote it."""

    arrays: Mapping[str, np.ndarray]
    path: Path
    versions: Mapping[str, str]


def arrays_of_state(state: Any, prefix: str) -> dict[str, np.ndarray]:
    """The arrays of a state, a pytree or stored, by their paths in it."""
    if state is None:
        return {}
    if isinstance(state, StoredState):
        return {prefix + name: x for name, x in state.arrays.items()}
    import jax

    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {prefix + path_name(path): np.asarray(x) for path, x in leaves}


def path_name(path: Any) -> str:
    """A path in a pytree as text, e.g. ridge.Sigma."""
    import jax

    return jax.tree_util.keystr(path, simple=True, separator=".")


def progress_of(run: Any) -> "Progress":
    """The number of episodes, the explorer's state and the evidence of a run, as NumPy arrays."""
    from horizonfree.explorers.loop import Progress

    state = run.state
    if isinstance(state, StoredState):
        state = None if run.explorer is None else _restore(run, state)
    return Progress(run.evidence.episodes, state, run.evidence)


def _restore(run: Any, stored: StoredState) -> Any:
    """A stored state in the structure of the explorer's first state."""
    import equinox as eqx
    import jax

    from horizonfree._x64 import scope, to_device
    from horizonfree.explorers.python import PythonExplorer, init_state

    with scope():
        explorer, model = run.explorer, run.problem.model
        if isinstance(explorer, PythonExplorer):
            first = init_state(explorer, model)
        else:
            explorer, model = to_device((explorer, model))
            first = eqx.filter_eval_shape(lambda: explorer.init(model))
    leaves, structure = jax.tree_util.tree_flatten_with_path(first)
    filled = []
    for path, leaf in leaves:
        name = path_name(path)
        x = stored.arrays.get(name)
        if x is None or x.shape != leaf.shape or x.dtype != leaf.dtype:
            actual = "missing" if x is None else f"{x.dtype}{list(x.shape)}"
            raise RunError(
                f"{stored.path}: state.{name} is {actual}, but this version of the library needs "
                f"{leaf.dtype}{list(leaf.shape)}; go on with the version that wrote it, "
                f"{stored.versions.get('horizonfree')}"
            )
        filled.append(x)
    return jax.tree_util.tree_unflatten(structure, filled)
