"""The work of a batch: its members in chunks, blocks of episodes, curves at the checkpoints."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from horizonfree._jit import jit
from horizonfree._validation import MAX_INT, check_int, short_repr
from horizonfree._x64 import leaf, to_device, to_numpy
from horizonfree.batch.cast import Cast
from horizonfree.batch.certificates import certified_curves
from horizonfree.batch.chunks import Arrays, Due, Form
from horizonfree.batch.many import CURVES, TRACED_CURVES, World, begin_many, judge_many, simulate_many, stack
from horizonfree.errors import OptionError, UnknownNameError
from horizonfree.explorers.loop import Progress, Records, begin
from horizonfree.explorers.registry import ExplorerSpec, describe
from horizonfree.guarantees.bets import Bets
from horizonfree.mdp import rewards
from horizonfree.mdp.space import Kernel
from horizonfree.models.interface import Evidence, Model
from horizonfree.planning import optimal
from horizonfree.planning.rollout import Sampler
from horizonfree.runs.drive import Pace
from horizonfree.runs.engines import BLOCK
from horizonfree.runs.recipes import fingerprint, versions
from horizonfree.runs.run import Run
from horizonfree.runs.until import Until

CHUNK_BYTES = 2 * 2**30  # bytes for a chunk where the device does not say what it has
DEVICE_SHARE = 0.5  # of the device's memory for a chunk
# Members of a chunk, wide and narrow, at the most: an interruption loses one chunk.
MOST_MEMBERS = {True: 16_384, False: 256}
FEW_MEMBERS = 16  # members that are compiled for, to learn what one takes
JUDGED = 1024  # members whose curves are computed side by side, in the wide arrangement
SUITE = 2**30  # bytes of rewards that are made without being asked for
Measure = Callable[[Run], Mapping[str, float]]  # numbers of one's own, by name


@jit
def _prepared(
    model: Model, kernel: Kernel, starts: tuple[int, ...], weights: tuple[float, ...]
) -> tuple[Sampler, Evidence]:
    """What a world needs of a problem, and no evidence yet; at once, not operation by operation."""
    return Sampler.of(kernel), model.init_evidence(Bets(np.array(starts, np.int32), np.array(weights)))


@jit
def _keys(seeds: Int[Array, " N"]) -> Array:
    return jax.vmap(jax.random.key)(seeds)


@dataclass(frozen=True, eq=False)
class Judge:
    """What is computed at the checkpoints: curves, over rewards with the optimal values `best` of each problem."""

    curves: tuple[str, ...]
    rewards: Float[np.ndarray, "T H S A"]
    best: tuple[Float[np.ndarray, " T"], ...]
    delta: float


@dataclass(frozen=True, eq=False)
class Job:
    """Everything that a batch depends on."""

    cast: Cast
    episodes: int
    bets: Bets
    checkpoints: Int[np.ndarray, " C"]
    judge: Judge
    is_wide: bool
    memory: int = CHUNK_BYTES
    measure: Measure | None = None

    def settings(self) -> dict[str, Any]:
        """The same as plain data."""
        said = [describe(explorer) for explorer in self.cast.explorers]
        return {
            "problems": [fingerprint(problem) for problem in self.cast.problems],
            "explorers": [[name, {key: _plain(x) for key, x in options.items()}] for name, options in said],
            "seeds": list(self.cast.seeds),
            "episodes": self.episodes,
            "bets": self.bets.starts.tolist(),
            "checkpoints": self.checkpoints.tolist(),
            "curves": list(self.judge.curves),
            "rewards": _plain(self.judge.rewards),
            "delta": self.judge.delta,
            "versions": versions(),
        }

    def worlds(self, members: Sequence[int]) -> tuple[World, World]:
        """(shared, own) of some members."""
        cast = self.cast
        made = []
        for problem, best in zip(cast.problems, self.judge.best):
            model, truth, kernel, best = to_device((problem.model, problem.truth, problem.kernel(), best))
            sampler, nothing = _prepared(model, kernel, *(tuple(x.tolist()) for x in self.bets))
            made += [World(x, model, sampler, truth, nothing, best, None) for x in cast.explorers]
        places = [cast[i] for i in members]
        which = np.array([x.problem * len(cast.explorers) + x.explorer for x in places])
        shared, own = stack(made, which)
        keys = _keys(leaf(np.array([x.seed for x in places], np.int64)))
        return shared, eqx.tree_at(lambda world: world.key, own, keys, is_leaf=lambda x: x is None)

    @cached_property
    def one(self) -> tuple[World, Progress]:
        """The own part of the first member, and the shapes of its state before the first episode."""
        who = self.cast[0]

        def first() -> Progress:
            model = to_device(self.cast.problems[who.problem].model)
            return begin(self.cast.explorers[who.explorer], model, model.init_evidence(self.bets))

        return self.worlds([0])[1], eqx.filter_eval_shape(first)

    def fitting(self) -> int:
        """How many members make a chunk: as many as fit, and chunks of nearly one size.

        A member takes its own part of the world, its state (read, written, and once more while it changes) and a block
        of records; side by side with others it needs workspace of its own, too.
        """
        own, state = self.one
        each = _bytes(own) + 3 * _bytes(state) + 64 * min(self.episodes, BLOCK)
        N, most = len(self.cast), MOST_MEMBERS[self.is_wide]
        if self.is_wide and min(N, most) > FEW_MEMBERS:
            each += self.workspace()
        if self.memory < each:
            raise OptionError(f"memory is {self.memory}; one member takes about {each} bytes")
        number = -(-N // min(N, most, self.memory // each))
        return -(-N // number)

    def workspace(self) -> int:
        """Bytes for the intermediate results of one member among others, as the compiler counts them."""
        shared, own = self.worlds(range(FEW_MEMBERS))
        state = begin_many(shared, own, is_wide=True)
        count, size = jnp.int32(1), min(BLOCK, self.episodes)
        lowered = simulate_many.lower(shared, own, state, count, size, is_wide=True)  # type: ignore[attr-defined]
        program = lowered.compile()
        return int(program.compiled.memory_analysis().temp_size_in_bytes) // FEW_MEMBERS

    def judged(self) -> int | None:
        """How many members can be judged side by side, if they are: each takes a plan and values for every reward."""
        if not self.is_wide:
            return None
        T, H, S, _ = self.judge.rewards.shape
        return int(np.clip(self.memory // max(32 * T * (H + 1) * S, 1), 1, JUDGED))

    def run(self, first: int, size: int, show: Callable[[int], None]) -> Arrays:
        """A chunk of members through all episodes; `show` is told how many of the batch are done.

        A last chunk that is smaller is filled up, so that all are one compiled programme.
        """
        N, K = min(size, len(self.cast) - first), self.episodes
        members = [min(first + i, len(self.cast) - 1) for i in range(size)]
        shared, own = self.worlds(members)
        rewards = jnp.asarray(self.judge.rewards)
        state = begin_many(shared, own, is_wide=self.is_wide)
        records, found, k, pace = [], [], 0, Pace()
        for mark in dict.fromkeys([*self.checkpoints.tolist(), K]):
            while k < mark:  # in blocks of about the same time each
                began, new = time.perf_counter(), min(pace.count, mark - k)
                state, numbers = simulate_many(
                    shared, own, state, jnp.int32(new), min(BLOCK, K), is_wide=self.is_wide
                )
                records.append({name: np.asarray(x)[:N, :new] for name, x in numbers.items()})
                pace.learn(new, time.perf_counter() - began)
                k += new
                show(first * K + N * k)
            if k in self.checkpoints:
                traced = tuple(name for name in TRACED_CURVES if name in self.judge.curves)
                curves = judge_many(shared, own, state, rewards, traced, at_once=self.judged())
                points = {name: np.asarray(x)[:N, None] for name, x in curves.items()}
                points |= self.certified(first, N, state)
                found.append(points | self.measured(first, N, state, records))
        return (
            {f"progress.{i}": np.asarray(x)[:N] for i, x in enumerate(jax.tree.leaves(state))}
            | {f"records.{name}": np.concatenate([x[name] for x in records], 1) for name in records[0]}
            | {f"curves.{name}": np.concatenate([x[name] for x in found], 1) for name in (found or [{}])[0]}
        )

    def certified(self, first: int, N: int, state: Progress) -> dict[str, Float[np.ndarray, "N 1"]]:
        """The curves that certificates give, of N members as they are now."""
        wanted = set(self.judge.curves).difference(TRACED_CURVES)
        if not wanted:
            return {}
        evidence, found = to_numpy(state.evidence), []
        for i in range(N):
            which = self.cast[first + i].problem
            own = jax.tree.map(lambda x, i=i: x[i], evidence)
            judge = self.judge
            found.append(
                certified_curves(
                    self.cast.problems[which], own, wanted, judge.delta, judge.rewards, judge.best[which]
                )
            )
        return {name: np.array([[x[name]] for x in found]) for name in found[0]}

    def measured(
        self, first: int, N: int, state: Progress, records: Sequence[Mapping[str, np.ndarray]]
    ) -> dict[str, Float[np.ndarray, "N 1"]]:
        """What `measure` says of N members as they are now."""
        if self.measure is None:
            return {}
        progress = to_numpy(state)
        so_far = {name: np.concatenate([x[name] for x in records], 1) for name in records[0]}
        runs = (member(self.cast, first + i, progress, so_far, i, self.judge.delta) for i in range(N))
        said = [self.measure(run) for run in runs]
        return {name: np.array([[float(x[name])] for x in said]) for name in said[0]}

    def form(self, first: int, size: int) -> Form:
        """The arrays of `run`: their types and shapes."""
        N, C = min(size, len(self.cast) - first), len(self.checkpoints)
        state, numbers = self._one_episode
        return (
            {f"progress.{i}": Due((N, *x.shape[1:]), x.dtype) for i, x in enumerate(jax.tree.leaves(state))}
            | {f"records.{name}": Due((N, self.episodes), x.dtype) for name, x in numbers.items()}
            | {f"curves.{name}": Due((N, C), np.dtype(float)) for name in self.judge.curves}
        )

    @cached_property
    def _one_episode(self) -> tuple[Progress, Records]:
        """The shapes of one member after an episode."""
        shared, own = self.worlds([0])

        def simulate() -> tuple[Progress, Records]:
            state = begin_many(shared, own, is_wide=self.is_wide)
            return simulate_many(shared, own, state, jnp.int32(1), 1, is_wide=self.is_wide)

        shapes: tuple[Progress, Records] = eqx.filter_eval_shape(simulate)
        return shapes

    def progress(self, arrays: Arrays) -> Progress:
        """The states among the arrays of `run`."""
        leaves, shape = jax.tree.flatten(self.one[1])
        progress: Progress = jax.tree.unflatten(shape, [arrays[f"progress.{i}"] for i in range(len(leaves))])
        return progress


def member(
    cast: Cast, which: int, progress: Progress, records: Mapping[str, np.ndarray], i: int, delta: float
) -> Run:
    """A member of the cast as an ordinary run, from row i of its states and records."""
    who = cast[which]
    now = jax.tree.map(lambda x: np.asarray(x[i]), progress)
    return Run(
        cast.problems[who.problem],
        ExplorerSpec.of(cast.explorers[who.explorer]),
        who.seed,
        now.evidence,
        now.state,
        {name: x[i] for name, x in records.items()},
        until=Until(0, int(now.episode), delta=delta),
    )


def room(memory: Any) -> int:
    """Bytes for a chunk: as given, or a share of what the device has."""
    if memory is not None:
        return check_int(memory, "memory", 1, MAX_INT, "a whole number of bytes, at least 1")
    limit = (jax.devices()[0].memory_stats() or {}).get("bytes_limit")
    return CHUNK_BYTES if limit is None else int(DEVICE_SHARE * limit)


def judge(cast: Cast, looks: np.ndarray, curves: Any, given: Any, delta: float) -> Judge:
    """Rewards are resolved, and solved in the truth, only where a curve needs them."""
    if isinstance(curves, str) or not np.iterable(curves):
        raise OptionError(f"curves is {short_repr(curves)}; it must be a list of {', '.join(CURVES)}")
    chosen = tuple(curves)
    for name in chosen:
        if not isinstance(name, str) or name not in CURVES:
            raise UnknownNameError(f"no curve is called {short_repr(name)}; there are {', '.join(CURVES)}")
    names = chosen if len(looks) else ()
    space = cast.problems[0].space
    sizes = space.sizes
    if not {"gap", "own_gap"} & set(names):
        return Judge(names, np.zeros((0, *sizes)), (np.zeros(0),) * len(cast.problems), delta)
    if given is None:
        if 16 * space.num_states * np.prod(sizes) > SUITE:
            raise OptionError(
                "the problem is too large for the default rewards; give rewards=[...] to judge by"
            )
        table = rewards.suite(space)
    else:
        listed = tuple(given) if np.iterable(given) and not isinstance(given, str) else ()
        if not listed:
            raise OptionError(f"rewards is {short_repr(given)}; it must be a list of at least one reward")
        table = np.stack([rewards.resolve(cast.problems[0], x).table for x in listed])
    best = tuple(
        problem.space.at_start(optimal(problem.kernel(), table).V[:, 0]) for problem in cast.problems
    )
    return Judge(names, table, best, delta)


def _bytes(tree: Any) -> int:
    """Of the arrays in a tree; keys count as what they are made of."""
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))


def _plain(x: Any) -> Any:
    """An array as its digest."""
    if not isinstance(x, np.ndarray):
        return x
    return [str(x.dtype), list(x.shape), hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()]
