"""Explorers in plain Python: NumPy in, NumPy out, nothing is traced. For algorithms whose speed does not matter.

The episodes themselves and the evidence are compiled as for every explorer (loop.py), so certificates do not change.
"""

import abc
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from horizonfree._arrays import Array
from horizonfree._jit import jit
from horizonfree._validation import check_real, require, require_shape, short_repr
from horizonfree._x64 import Leaf, to_device, to_numpy, x64
from horizonfree.errors import OptionError
from horizonfree.explorers.base import Explorer, ExplorerPlan
from horizonfree.explorers.loop import Progress, Records, episode_keys
from horizonfree.mdp.policies import policy_table
from horizonfree.mdp.space import Kernel, Trajectory
from horizonfree.models.base import Evidence, Model, probabilities
from horizonfree.planning.induction import best_plan
from horizonfree.planning.traced import Sampler

_T = TypeVar("_T")


class PythonState(eqx.Module):
    """The policy of the next episode as probabilities, and the explorer's own arrays."""

    policy: Float[Leaf, "H S A"]
    memory: dict[str, Any]


class PythonExplorer(Explorer):
    """A reward-free exploration algorithm in plain Python and NumPy: only `choose` is needed.

    Its annotated class attributes are its options, as in a dataclass. `learns` is its class of models, by default any.
    What it remembers is `state`, a dictionary of NumPy arrays of fixed shapes and types; it must keep nothing anywhere
    else, so that a run can be stored and resumed. All arguments are NumPy and read-only. `evidence.visits` [S, A] has
    the numbers of visits, `model.space` the sizes.

    >>> import numpy as np, horizonfree as hf
    >>> class LeastVisited(hf.PythonExplorer):
    ...     def choose(self, rng, model, state, evidence):
    ...         return evidence.visits.argmin(axis=1)
    >>> run = hf.explore(hf.make("river-swim", states=4), LeastVisited(), episodes=20, progress=False)
    >>> run.episodes
    20
    """

    learns: ClassVar[type[Model]] = Model  # type: ignore[type-abstract]  # every class

    def init(self, model: Any) -> dict[str, Any]:
        """The state before the first episode: arrays by name."""
        return {}

    @abc.abstractmethod
    def choose(self, rng: Any, model: Any, state: Any, evidence: Any) -> Any:
        """The policy of the next episode: actions [H, S] or probabilities [H, S, A]; [S] or [S, A] for every step.

        rng: a numpy.random.Generator that depends on the seed of the run and the number of the episode only.
        """

    def update(self, model: Any, state: Any, evidence: Any, trajectory: Trajectory) -> Any:
        """The state after an episode, and numbers by name for the records; `evidence` contains the episode."""
        return state, {}

    def plan(self, model: Any, state: Any, evidence: Any, reward: Float[np.ndarray, "H S A"]) -> ExplorerPlan:
        """The plan of the algorithm itself for a reward; by default the best policy in the estimate."""
        return ExplorerPlan(*best_plan(self.estimate(model, evidence), reward))

    def claim(self, model: Any, state: Any) -> Any:
        """The algorithm's own guarantee for its own plans, None if it has none."""
        return None

    @staticmethod
    @x64
    def estimate(model: Any, evidence: Any) -> Kernel:
        """The transition probabilities that the evidence suggests, to plan in: hf.planning.optimal(kernel, reward)."""
        return to_numpy(_estimate(*to_device((model, evidence))))


def init_state(explorer: PythonExplorer, model: Model) -> PythonState:
    """The state before the first episode."""
    memory = _checked_memory(explorer, explorer.init(read_only(model)), None)
    return PythonState(np.zeros(model.space.sizes), memory)


def python_progress(explorer: PythonExplorer, model: Model, empty_evidence: Evidence) -> Progress:
    """The progress before the first episode."""
    return Progress(jnp.int32(0), init_state(explorer, model), empty_evidence)


def choose_python(explorer: PythonExplorer, model: Model, key: Array, progress: Progress) -> Progress:
    """Choose the policy of the next episode, with random numbers from the key that traced explorers get."""
    rng = np.random.default_rng(np.asarray(_choice_key(key, progress)))
    state, evidence = read_only(progress.state.memory), read_only(progress.evidence)
    policy = explorer.choose(rng, read_only(model), state, evidence)
    table = policy_table(policy, *model.space.sizes)
    choice = PythonState(probabilities(table, model.space.num_actions).astype(np.float64), state)
    return Progress(progress.episode, choice, progress.evidence)


def update_python(
    explorer: PythonExplorer, model: Model, progress: Progress, trajectory: Trajectory
) -> tuple[Progress, Records]:
    """Learn from an episode, simulated or not."""
    evidence = _update(*to_device((model, progress.evidence, trajectory)))
    old_memory = progress.state.memory
    copies = {name: np.array(x) for name, x in old_memory.items()}  # which the explorer may change
    result = explorer.update(read_only(model), copies, read_only(evidence), read_only(trajectory))
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping)):
        raise OptionError(
            f"{type(explorer).__name__}.update returns {short_repr(result)}; it must return the state and a dictionary "
            "of numbers, such as (state, {})"
        )
    memory = _checked_memory(explorer, result[0], old_memory)
    numbers = {str(name): _number(explorer, name, x) for name, x in result[1].items()}
    return Progress(progress.episode + 1, PythonState(progress.state.policy, memory), evidence), numbers


def simulate_python(
    explorer: PythonExplorer, model: Model, sampler: Sampler, key: Array, progress: Progress
) -> tuple[Progress, Records]:
    """One episode of a simulated problem."""
    progress = choose_python(explorer, model, key, progress)
    trajectory = _play(to_device(model), sampler, key, progress)
    return update_python(explorer, model, progress, trajectory)


def simulate_several(
    one_more: Callable[[Progress], tuple[Progress, Records]], progress: Progress, count: int
) -> tuple[Progress, Records, BaseException | None]:
    """`count` episodes, their records, and the error that stopped them early, after at least one."""
    done: tuple[Progress, list[Records]] = progress, []
    for _ in range(count):
        try:
            following, numbers = one_more(done[0])
        except BaseException as error:
            if not done[1]:
                raise
            return done[0], _stack(done[1]), error
        done = following, [*done[1], numbers]
    return done[0], _stack(done[1]), None


def own_state(state: Any) -> Any:
    """The state as the explorer itself sees it."""
    return state.memory if isinstance(state, PythonState) else state


def read_only(tree: _T) -> _T:
    """Every array as a NumPy array that cannot be changed."""

    def view(x: Any) -> Any:
        if not isinstance(x, (np.ndarray, jax.Array)):
            return x
        array = np.asarray(x).view()
        array.flags.writeable = False
        return array

    viewed: _T = jax.tree.map(view, tree)
    return viewed


@jit
def _choice_key(key: Array, progress: Progress) -> Array:
    return jax.random.key_data(episode_keys(key, progress)[0])


@jit
def _play(model: Model, sampler: Sampler, key: Array, progress: Progress) -> Trajectory:
    return sampler.episode(episode_keys(key, progress)[1], progress.state.policy, model.space)


@jit
def _update(model: Model, evidence: Evidence, trajectory: Trajectory) -> Evidence:
    updated: Evidence = model.update(evidence, trajectory)
    return updated


@jit
def _estimate(model: Model, evidence: Evidence) -> Kernel:
    return model.estimate(evidence)


def _checked_memory(explorer: PythonExplorer, memory: Any, old_memory: Any) -> dict[str, np.ndarray]:
    """The state as arrays by name, which have the shapes and types of the state before."""
    name = type(explorer).__name__
    require(
        isinstance(memory, Mapping) and all(isinstance(key, str) for key in memory),
        f"the state of {name}",
        memory,
        "a dictionary of arrays by name",
    )
    arrays = {key: check_real(x, f"state[{key!r}] of {name}") for key, x in sorted(memory.items())}
    if old_memory is not None:
        for key in sorted({*arrays, *old_memory}):
            layout, was = (
                "missing" if x is None else f"{x.dtype}{list(x.shape)}"
                for x in (arrays.get(key), old_memory.get(key))
            )
            if layout != was:
                raise OptionError(
                    f"state[{key!r}] of {name} was {was} and is {layout}; the arrays of a state keep their "
                    "names, shapes and types, so that a run can be stored"
                )
    return arrays


def _number(explorer: PythonExplorer, name: Any, value: Any) -> np.ndarray:
    array = check_real(value, f"the record {name!r} of {type(explorer).__name__}")
    name = f"the record {name!r} of {type(explorer).__name__}"
    require_shape(array.shape == (), name, array.shape, "(), one number", OptionError)
    return array


def _stack(rows: list[Records]) -> Records:
    """Records of several episodes, which must have the same names."""
    for row in rows:
        if row.keys() != rows[0].keys():
            raise OptionError(
                f"update reported {sorted(rows[0])} first and {sorted(row)} later; report the same names"
            )
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}
