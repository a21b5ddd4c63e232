"""Base kernels estimated from samples of simulators, or from counts.

Each simulator is sampled `samples` times at every state-action pair; an environment that cannot be put into a state
runs episodes of random actions. P_hat(s'|s,a) = (N(s') + c/m) / (N + c), c = `smoothing`, m possible next states. The
estimation errors are stored with the problem and are part of its certificates (sampling.py).

An outcome of a transition is a next state and whether the episode ends there (endings.py). Each simulator has its own
probability of ending. Counts [S, A, 2S] list the outcomes without an ending before those with one.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._validation import (
    calling,
    check_array,
    check_count,
    check_int,
    check_integers,
    check_number,
    check_seed,
    check_size,
    check_square,
    check_state,
    require,
    require_entries,
)
from horizonfree.errors import KernelError, ShapeError
from horizonfree.mdp.names import start_of, with_names
from horizonfree.mdp.space import start_distribution
from horizonfree.models.mixture.valid import extent
from horizonfree.problems.classes import Mixture
from horizonfree.problems.endings import (
    ENDED,
    Entries,
    ended_states,
    layout_with_copies,
    next_states,
    num_copies,
    with_copies,
)
from horizonfree.problems.gymnasium.sampled import Place, is_env, sampled_env, start_of_envs
from horizonfree.problems.sampling import Sampling

MAX_CALLS = 20_000_000  # of a simulator: some minutes
Encode = Callable[[Any], int]


def from_simulators(
    simulators: Any,
    *,
    horizon: int,
    num_states: int | None = None,
    num_actions: int | None = None,
    samples: int = 1000,
    encode: Encode | None = None,
    place: Place | None = None,
    smoothing: float = 0.0,
    successors: Any = None,
    start: Any = None,
    weights: Any = None,
    hull: bool = True,
    seed: int = 0,
    name: str = "simulators",
    layout: Mapping[str, Any] | None = None,
    states: Any = None,
    actions: Any = None,
) -> Mixture:
    """A mixture of simulators whose kernels are estimated; certificates include the estimation errors.

    simulators: a list, or a dictionary by name, of functions (s, a, rng) -> s'; of gymnasium environments; or of counts
        [S, A, S], with row totals fixed beforehand. `problem.sampling.summary()` says what can be certified with them
        before anything is explored.
    samples: the number for each state-action pair and simulator.
    place: a function (env, state, rng) that puts an environment into a state, for `discretize` often
        env.unwrapped.state = env.inside(state, rng). Without it, episodes of random actions are run, with `samples`
        steps per pair on average.
    encode: a function from observations to states, where these are not the same.
    smoothing: the number of samples added to every row, spread evenly over the possible next states.
    successors: [S, A, S], which states may follow, where that is known beforehand; by default any.
    hull: False for weights outside the simplex, as long as they make the estimates a kernel.
    states, actions: their names, optional.

    Ending (`terminated`) is an outcome with a probability of its own in each simulator. A state that the simulators
    enter both with and without ending gets a copy, "state 3 (ended)", numbered after the S states. It is assumed that
    other states always end an episode, or never, as in the samples; `hf.explore` checks this. `truncated` does not
    end an episode.

    >>> import horizonfree as hf
    >>> def dry(s, a, rng):
    ...     return min(s + 1, 3) if rng.random() < (0.9 if a else 0.2) else 0
    >>> def icy(s, a, rng):
    ...     return min(s + 1, 3) if rng.random() < (0.5 if a else 0.2) else 0
    >>> problem = hf.from_simulators({"dry": dry, "icy": icy}, num_states=4, num_actions=2, horizon=8)
    >>> problem.num_states, problem.model.dim
    (4, 2)
    """
    names, sources = _names_and_simulators(simulators)
    rngs = np.random.default_rng(check_seed(seed)).spawn(len(sources))
    sampler = _Sampler(num_states, num_actions, check_count(samples, "samples"), horizon, encode, place)
    outcomes = _stack_counts(
        [sampler.counts(x, label, rng) for x, label, rng in zip(sources, names, rngs)], names
    )
    if start is None:
        start = start_of_envs(sources, encode) if is_env(sources[0]) else 0
    S, A = outcomes.shape[1:3]
    start = start_of(with_names(layout, states), start, S)
    initial = start_distribution(start, S)
    allowed = _allowed_successors(successors, outcomes)
    ended = _ended_states(outcomes, initial > 0)
    counts, may_follow = _with_copies(outcomes, ended), with_copies(allowed, ended)
    is_final = np.append(ended == np.arange(S), np.ones(num_copies(ended), bool))
    kernels, shift = _estimates(counts, is_final, smoothing, may_follow)
    layout, states = layout_with_copies(layout, states, ended)
    first = start if np.ndim(start) == 0 else np.append(initial, np.zeros(num_copies(ended)))
    settings: dict[str, Any] = {"horizon": horizon, "start": first, "weights": weights, "hull": hull}
    settings |= {"name": name, "layout": layout, "states": states, "actions": actions}
    problem = Mixture.from_kernels(dict(zip(names, kernels)), **settings)
    is_sampled = (kernels > 0).any(0)
    can_end = bool(outcomes[..., S:].any())
    sampling = Sampling(
        samples=np.where(is_final[:, None], 0, counts.sum(-1).min(0)),
        successors=may_follow.sum(-1),
        shift=shift,
        rows=len(sources) * S * A,
        is_fixed=place is not None or not is_env(sources[0]),
        everywhere=bool((may_follow & ~is_sampled).any()),
        size=1.0 if hull else _size(problem),
        horizon=problem.horizon,
        can_end=can_end,
    )
    extra = {"simulators": names, **sampling.layout()} | ({ENDED: ended} if can_end else {})
    return problem._replace(layout={**problem.layout, **extra})


class _Sampler(NamedTuple):
    """How simulators are sampled."""

    num_states: int | None
    num_actions: int | None
    samples: int
    horizon: int
    encode: Encode | None
    place: Place | None

    def counts(self, simulator: Any, name: str, rng: np.random.Generator) -> Int[np.ndarray, "S A S2"]:
        """Counts of the outcomes of one simulator."""
        if is_env(simulator):
            options = self.samples, self.horizon, self.num_states, self.encode, self.place
            return sampled_env(simulator, name, rng, *options)
        if callable(simulator):
            return _without_ends(self._function_counts(simulator, name, rng))
        table = check_integers(simulator, f"simulator {name}")
        check_square(table, f"simulator {name}")
        require_entries(table >= 0, f"simulator {name}", table, "counts are whole numbers >= 0, [S, A, S]")
        return _without_ends(table.astype(np.int64))

    def _function_counts(
        self, simulator: Callable[..., Any], name: str, rng: np.random.Generator
    ) -> Int[np.ndarray, "S A S"]:
        sizes = {"num_states": self.num_states, "num_actions": self.num_actions}
        S, A = (
            check_int(x, key, 1, 2**31, "a whole number of at least 1, as a simulator is a function")
            for key, x in sizes.items()
        )
        calls = S * A * self.samples
        what = f"simulator {name} would be called {calls:,} times"
        check_size(calls, MAX_CALLS, what, "sample it yourself, and give counts [S, A, S]")
        counts = np.zeros((S, A, S), np.int64)
        for s, a in np.ndindex(S, A):
            where = f"simulator {name} at (s={s}, a={a})"
            with calling(where):
                for _ in range(self.samples):
                    counts[s, a, check_state(simulator(s, a, rng), where, S)] += 1
        return counts


def _without_ends(counts: Int[np.ndarray, "S A S"]) -> Int[np.ndarray, "S A S2"]:
    return np.concatenate([counts, np.zeros_like(counts)], axis=-1)


def _names_and_simulators(simulators: Any) -> tuple[list[str], list[Any]]:
    is_several = isinstance(simulators, Mapping) or np.iterable(simulators)
    is_several = is_several and not isinstance(simulators, str) and not is_env(simulators)
    require(is_several, "simulators", simulators, "a list of them, or a dictionary by name", ShapeError)
    values = list(simulators.values() if isinstance(simulators, Mapping) else simulators)
    require(values, "simulators", simulators, "a list of at least one", ShapeError)
    names = [str(key) for key in (simulators if isinstance(simulators, Mapping) else range(len(values)))]
    require(len(set(names)) == len(names), "names of the simulators", names, "different", ShapeError)
    if any(is_env(x) != is_env(values[0]) for x in values):
        raise ShapeError("some simulators are environments and some are not; give one kind")
    return names, values


def _stack_counts(counts: list[Int[np.ndarray, "S A S2"]], names: list[str]) -> Int[np.ndarray, "d S A S2"]:
    first = counts[0].shape[:2]
    for table, name in zip(counts, names):
        if table.shape[:2] != first:
            raise ShapeError(
                f"simulator {name} has [S, A] = {table.shape[:2]} but simulator {names[0]} {first}; they must agree"
            )
    return np.stack(counts)


def _allowed_successors(successors: Any, outcomes: Int[np.ndarray, "d S A S2"]) -> Bool[np.ndarray, "S A S"]:
    """Which states may follow, with or without ending: all, or those that are declared."""
    S, A = outcomes.shape[1:3]
    if successors is None:
        allowed = np.ones((S, A, S), bool)
    else:
        allowed = check_array(successors, "successors", (S, A, S), "[S, A, S]").astype(bool)
    wrong = np.argwhere((outcomes[..., :S] + outcomes[..., S:] > 0) & ~allowed)
    if wrong.size:
        i, s, a, successor = wrong[0]
        raise KernelError(f"simulator {i} went from (s={s}, a={a}) to {successor}, which successors excludes")
    empty_pairs = np.argwhere(~allowed.any(-1))
    if empty_pairs.size:
        s, a = empty_pairs[0]
        raise KernelError(
            f"successors lists no state that may follow (s={s}, a={a}); it must list at least one"
        )
    return allowed


def _ended_states(
    outcomes: Int[np.ndarray, "d S A S2"], starts: Bool[np.ndarray, " S"]
) -> Int[np.ndarray, " S"]:
    """In which state an episode is that has ended in s, for all simulators alike.

    Episodes may be asked for from another start later, so they act in every state that no transition ends in.
    """
    S = len(starts)
    s, successors = np.nonzero(outcomes.any(axis=(0, 2)))
    is_ended_in = outcomes[..., S:].any(axis=(0, 1, 2))
    return ended_states(Entries(s, successors % S, successors >= S), starts | ~is_ended_in)


def _with_copies(
    outcomes: Int[np.ndarray, "d S A S2"], ended: Int[np.ndarray, " S"]
) -> Int[np.ndarray, "d S1 A S1"]:
    """Counts of the next states, copies among them."""
    d, S, A, _ = outcomes.shape
    wider = S + num_copies(ended)
    counts = np.zeros((d, wider, A, wider), np.int64)
    states = np.arange(S)
    counts[:, :S, :, :S] = outcomes[..., :S]
    counts[:, :S, :, next_states(ended, states, np.ones(S, bool))] += outcomes[..., S:]
    return counts


def _estimates(
    counts: Int[np.ndarray, "d S A S"],
    is_final: Bool[np.ndarray, " S"],
    smoothing: Any,
    may_follow: Bool[np.ndarray, "S A S"],
) -> tuple[Float[np.ndarray, "d S A S"], Float[np.ndarray, "S A"]]:
    """Kernels, and how far smoothing moved them.

    A pair without samples leads to its own state, or where that cannot follow, to the first state that can.
    """
    smoothing = check_number(smoothing, "smoothing", 0, 1e300, "a number from 0 to 1e300")
    S = counts.shape[1]
    stay = np.eye(S)[:, None]
    may_stay = np.einsum("sas->sa", may_follow)
    unseen = np.where(may_stay[..., None], stay, np.eye(S)[may_follow.argmax(-1)])
    num_samples = counts.sum(-1, keepdims=True)
    frequencies = np.where(num_samples > 0, counts / np.maximum(num_samples, 1), unseen)
    smoothed_counts = counts + smoothing * may_follow / may_follow.sum(-1, keepdims=True)
    total = smoothed_counts.sum(-1, keepdims=True)
    smooth = np.where(total > 0, smoothed_counts / np.where(total > 0, total, 1.0), unseen)
    smooth, frequencies = (np.where(is_final[:, None, None], stay, x) for x in (smooth, frequencies))
    return smooth, np.abs(smooth - frequencies).sum(-1).max(0) / 2


def _size(problem: Mixture) -> float:
    """The largest sum of |weights| over weights that make the estimates a kernel."""
    valid = problem.model.valid
    ends = np.array([extent(valid, i) for i in range(len(np.asarray(valid.center)))])
    return float((np.abs(ends).max(1) * np.asarray(valid.sums)[0]).sum())
