"""Data sets of Minari (https://minari.farama.org) as runs that plan and certify."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from horizonfree._extras import needs_extra
from horizonfree._validation import require, require_shape, short_repr, shorten
from horizonfree.errors import ShapeError, UnknownNameError
from horizonfree.problems.classes import UNKNOWN
from horizonfree.runs.log_files import from_log
from horizonfree.runs.run import Run


def from_minari(dataset: Any, **options: Any) -> Run:
    """A run made of a Minari data set; options: as for `from_log`, such as horizon=, start=, bins=.

    dataset: a `minari.MinariDataset`, or its name, which `minari.load_dataset` finds (extra `minari`).
        A Discrete observation is a state. Of others (Box with one axis, MultiDiscrete, Tuple or Dict of these) each
        component is a column, obs0, obs1, .. or obs_KEY, and the state is made of all of them; columns of real numbers
        need bins={"obs0": [..]}. Actions are Discrete.

    An episode that the environment terminated has ended; one that was truncated was not observed further. Which states
    are final is not known from the data: every state may be (`terminal="unknown"`), unless terminal= lists them.

    >>> import horizonfree as hf
    >>> run = hf.from_minari("D4RL/door/human-v2", horizon=50)  # doctest: +SKIP
    """
    if isinstance(dataset, str):
        with needs_extra("minari", "data sets of Minari by name"):
            import minari
        try:
            dataset = minari.load_dataset(dataset)
        except Exception as error:  # each way to be no data set has its own
            raise UnknownNameError(
                f"there is no data set {short_repr(dataset)} here: {shorten(error)}"
            ) from None
    require(
        hasattr(dataset, "iterate_episodes"),
        "the data set",
        dataset,
        "a minari.MinariDataset, or the name of one",
        ShapeError,
    )
    actions = dataset.action_space
    require(hasattr(actions, "n"), "the actions of the data set", actions, "Discrete", ShapeError)
    columns: dict[str, list[np.ndarray]] = {
        name: [] for name in ("episode", "step", "action", "terminated", "reward")
    }
    states: list[dict[str, np.ndarray]] = []
    for episode in dataset.iterate_episodes():
        length = len(episode.actions)
        components = _components(episode.observations)
        short = next((name for name, x in components.items() if len(x) != length + 1), None)
        if short is not None:
            raise ShapeError(
                f"episode {episode.id} has {length} actions and {len(components[short])} observations; it must have "
                "one observation more than actions"
            )
        states.append(components)
        columns["episode"].append(np.full(length, int(episode.id)))
        columns["step"].append(np.arange(length))
        columns["action"].append(np.asarray(episode.actions).reshape(length) - int(actions.start))
        columns["reward"].append(np.asarray(episode.rewards, float).reshape(length))
        columns["terminated"].append(np.asarray(episode.terminations, bool).reshape(length))
    if not states:
        raise ShapeError("the data set has no episodes")
    log = {name: np.concatenate(x) for name, x in columns.items()}
    names = list(states[0])
    for name in names:
        log[name] = np.concatenate([x[name][:-1] for x in states])
        log[f"next_{name}"] = np.concatenate([x[name][1:] for x in states])
    roles = {"state": names, "next_state": [f"next_{name}" for name in names]}
    options = {"num_actions": int(actions.n), "terminal": UNKNOWN, **options}
    observations = dataset.observation_space
    if hasattr(observations, "n"):
        for name in (names[0], f"next_{names[0]}"):
            log[name] = log[name] - int(observations.start)
        options = {"num_states": int(observations.n), **options}
    return from_log(log, columns=roles, **options)


def _components(observations: Any) -> dict[str, np.ndarray]:
    """The components of observations [L+1, ...] by name."""
    if isinstance(observations, Mapping):
        return {f"obs_{key}": _check_column(x, f"obs_{key}") for key, x in observations.items()}
    if isinstance(observations, (tuple, list)):
        return {f"obs{i}": _check_column(x, f"obs{i}") for i, x in enumerate(observations)}
    array = np.asarray(observations)
    if array.ndim == 1:
        return {"obs": array}
    return {f"obs{i}": _check_column(x, f"obs{i}") for i, x in enumerate(np.moveaxis(array, -1, 0))}


def _check_column(x: Any, name: str) -> np.ndarray:
    array = np.asarray(x)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    require_shape(array.ndim == 1, f"{name} of the observations", array.shape, "one number for each step")
    return array
