"""The computation of a batch: its members in chunks, each chunk in blocks of episodes, curves at the checkpoints."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from horizonfree._jit import jit
from horizonfree._validation import MAX_INT, check_int
from horizonfree._x64 import to_device, to_numpy
from horizonfree.batch.chunks import Arrays, ArraySpec, ArraySpecs
from horizonfree.batch.evaluate import Evaluation, own_gaps
from horizonfree.batch.members import Members
from horizonfree.batch.simulate import (
    Setup,
    init_many,
    init_members,
    own_gaps_python,
    simulate_many,
    simulate_members,
    stack,
)
from horizonfree.errors import OptionError
from horizonfree.explorers.loop import Progress, Records, init_progress
from horizonfree.explorers.python import PythonExplorer
from horizonfree.explorers.registry import ExplorerSpec, describe
from horizonfree.guarantees.e_processes import EProcesses
from horizonfree.mdp.space import Kernel
from horizonfree.models.base import Evidence, Model
from horizonfree.planning.traced import Sampler
from horizonfree.runs.loop import MAX_BLOCK, BlockSizer
from horizonfree.runs.recipes import fingerprint, versions
from horizonfree.runs.run import Run
from horizonfree.runs.until import StopRule

CHUNK_BYTES = 2 * 2**30  # memory of a chunk if the device does not report its own
DEVICE_SHARE = 0.5  # of the device's memory for a chunk
MAX_MEMBERS = {True: 16_384, False: 256}  # of a chunk, wide and narrow: an interruption loses one chunk
WORKSPACE_SAMPLE = 16  # members that are compiled for, to measure the workspace of one
MAX_EVALUATED = 1024  # members whose curves are computed side by side, in the wide arrangement
Measure = Callable[[Run], Mapping[str, float]]


@jit
def _prepare(
    model: Model, kernel: Kernel, starts: tuple[int, ...], weights: tuple[float, ...]
) -> tuple[Sampler, Evidence]:
    """The sampler and the empty evidence of a problem, in one compiled program."""
    return Sampler.of(kernel), model.init_evidence(EProcesses(np.array(starts, np.int32), np.array(weights)))


@jit
def _keys(seeds: Int[Array, " N"]) -> Array:
    return jax.vmap(jax.random.key)(seeds)


@dataclass(frozen=True, eq=False)
class Job:
    """Everything that a batch depends on."""

    members: Members
    episodes: int
    bets: EProcesses
    checkpoints: Int[np.ndarray, " C"]
    evaluation: Evaluation
    is_wide: bool
    memory: int = CHUNK_BYTES
    measure: Measure | None = None

    def settings(self) -> dict[str, Any]:
        """The settings as JSON data, arrays as digests."""
        explorers = [describe(explorer) for explorer in self.members.explorers]
        return {
            "problems": [fingerprint(problem) for problem in self.members.problems],
            "explorers": [
                [name, {key: _array_digest(x) for key, x in options.items()}] for name, options in explorers
            ],
            "seeds": list(self.members.seeds),
            "episodes": self.episodes,
            "bets": self.bets.starts.tolist(),
            "checkpoints": self.checkpoints.tolist(),
            "curves": list(self.evaluation.curves),
            "rewards": _array_digest(self.evaluation.rewards),
            "delta": self.evaluation.delta,
            "versions": versions(),
        }

    def setups(self, indices: Sequence[int]) -> tuple[Setup, Setup]:
        """(shared, own) of the members with these indices."""
        problems, explorers = self.members.problems, self.members.explorers
        setups = []
        for problem, best in zip(problems, self.evaluation.best):
            model, truth, kernel, best = to_device((problem.model, problem.truth, problem.kernel(), best))
            sampler, evidence = _prepare(model, kernel, *(tuple(x.tolist()) for x in self.bets))
            setups += [Setup(x, model, sampler, truth, evidence, best, None) for x in explorers]
        members = [self.members[i] for i in indices]
        which = np.array([x.problem * len(explorers) + x.explorer for x in members])
        shared, own = stack(setups, which)
        keys = _keys(jnp.asarray([x.seed for x in members], jnp.int64))
        return shared, eqx.tree_at(lambda setup: setup.key, own, keys, is_leaf=lambda x: x is None)

    @cached_property
    def first_member(self) -> tuple[Setup, Progress]:
        """The own part of the first member's setup, and the shapes of its progress before the first episode."""
        member = self.members[0]
        if self.is_python:
            shared, own = self.setups([0])
            return own, jax.tree.map(lambda x: x[0], init_members(self._explorers([0]), shared, own))

        def init() -> Progress:
            model = to_device(self.members.problems[member.problem].model)
            return init_progress(
                self.members.explorers[member.explorer], model, model.init_evidence(self.bets)
            )

        return self.setups([0])[1], eqx.filter_eval_shape(init)

    def chunk_size(self) -> int:
        """Members of a chunk: as many as fit into the memory, in chunks of nearly equal size.

        A member takes its own part of the setup, its progress (input, output, and a copy while it changes) and a block
        of records; in the wide arrangement also workspace.
        """
        own, progress = self.first_member
        bytes_per_member = _num_bytes(own) + 3 * _num_bytes(progress) + 64 * min(self.episodes, MAX_BLOCK)
        N, max_members = len(self.members), MAX_MEMBERS[self.is_wide]
        if self.is_wide and min(N, max_members) > WORKSPACE_SAMPLE:
            bytes_per_member += self.workspace_bytes()
        if self.memory < bytes_per_member:
            raise OptionError(f"memory is {self.memory}; one member takes about {bytes_per_member} bytes")
        chunks = -(-N // min(N, max_members, self.memory // bytes_per_member))
        return -(-N // chunks)

    def workspace_bytes(self) -> int:
        """Memory for the intermediate results of one member among others, from the compiler's analysis."""
        shared, own = self.setups(range(WORKSPACE_SAMPLE))
        progress = init_many(shared, own, is_wide=True)
        count, size = jnp.int32(1), min(MAX_BLOCK, self.episodes)
        lowered = simulate_many.lower(shared, own, progress, count, size, is_wide=True)  # type: ignore[attr-defined]
        program = lowered.compile()
        return int(program.compiled.memory_analysis().temp_size_in_bytes) // WORKSPACE_SAMPLE

    def num_evaluated(self) -> int | None:
        """Members whose curves are computed side by side; each takes a plan and values for every reward."""
        if not self.is_wide:
            return None
        T, H, S, _ = self.evaluation.rewards.shape
        return int(np.clip(self.memory // max(32 * T * (H + 1) * S, 1), 1, MAX_EVALUATED))

    def run(self, first: int, size: int, show: Callable[[int], None], pool: Executor | None = None) -> Arrays:
        """All episodes of a chunk of members; `show` receives the number of finished episodes of the batch.

        A smaller last chunk is filled up with its last member, so that one compiled program serves all chunks.
        """
        N, K = min(size, len(self.members) - first), self.episodes
        indices = [min(first + i, len(self.members) - 1) for i in range(N if self.is_python else size)]
        shared, own = self.setups(indices)
        rewards = jnp.asarray(self.evaluation.rewards)
        progress = self._init(indices, shared, own)
        records, curves, k, sizer = [], [], 0, BlockSizer()
        for checkpoint in dict.fromkeys([*self.checkpoints.tolist(), K]):
            while k < checkpoint:  # in blocks of about equal time
                start, count = time.perf_counter(), min(sizer.count, checkpoint - k)
                progress, numbers = self._simulate(indices, shared, own, progress, count)
                records.append({name: np.asarray(x)[:N, :count] for name, x in numbers.items()})
                sizer.update(count, time.perf_counter() - start)
                k += count
                show(first * K + N * k)
            if k in self.checkpoints:
                points = {}
                if "own_gap" in self.evaluation.curves:
                    gaps = self._own_gaps(indices, shared, own, progress, rewards)
                    points["own_gap"] = np.asarray(gaps)[:N, None]
                curves.append(
                    points
                    | self.evaluation.certified(self.members, first, N, progress, pool)
                    | self.measured(first, N, progress, records)
                )
        return (
            {f"progress.{i}": np.asarray(x)[:N] for i, x in enumerate(jax.tree.leaves(progress))}
            | {f"records.{name}": np.concatenate([x[name] for x in records], 1) for name in records[0]}
            | {f"curves.{name}": np.concatenate([x[name] for x in curves], 1) for name in (curves or [{}])[0]}
        )

    @property
    def is_python(self) -> bool:
        """Whether the explorers are plain Python (batch/simulate.py)."""
        return isinstance(self.members.explorers[0], PythonExplorer)

    def _explorers(self, indices: Sequence[int]) -> list[Any]:
        return [self.members.explorers[self.members[i].explorer] for i in indices]

    def _init(self, indices: Sequence[int], shared: Setup, own: Setup) -> Progress:
        if self.is_python:
            return init_members(self._explorers(indices), shared, own)
        return init_many(shared, own, is_wide=self.is_wide)

    def _simulate(
        self, indices: Sequence[int], shared: Setup, own: Setup, progress: Progress, count: int
    ) -> tuple[Progress, Records]:
        if self.is_python:
            return simulate_members(self._explorers(indices), shared, own, progress, count)
        size = min(MAX_BLOCK, self.episodes)
        return simulate_many(shared, own, progress, jnp.int32(count), size, is_wide=self.is_wide)

    def _own_gaps(
        self,
        indices: Sequence[int],
        shared: Setup,
        own: Setup,
        progress: Progress,
        rewards: Float[Array, "T H S A"],
    ) -> Any:
        if self.is_python:
            return own_gaps_python(self._explorers(indices), shared, own, progress, np.asarray(rewards))
        return own_gaps(shared, own, progress, rewards, batch_size=self.num_evaluated())

    def measured(
        self, first: int, N: int, progress: Progress, records: Sequence[Mapping[str, np.ndarray]]
    ) -> dict[str, Float[np.ndarray, "N 1"]]:
        """The numbers that `measure` returns for N members."""
        if self.measure is None:
            return {}
        progress = to_numpy(progress)
        joined = {name: np.concatenate([x[name] for x in records], 1) for name in records[0]}
        runs = (
            member_run(self.members, first + i, progress, joined, i, self.evaluation.delta) for i in range(N)
        )
        results = [self.measure(run) for run in runs]
        return {name: np.array([[float(x[name])] for x in results]) for name in results[0]}

    def array_specs(self, first: int, size: int) -> ArraySpecs:
        """Types and shapes of the arrays of `run`."""
        N, C = min(size, len(self.members) - first), len(self.checkpoints)
        progress, numbers = self._episode_shapes
        leaves = enumerate(jax.tree.leaves(progress))
        return (
            {f"progress.{i}": ArraySpec((N, *x.shape[1:]), x.dtype) for i, x in leaves}
            | {f"records.{name}": ArraySpec((N, self.episodes), x.dtype) for name, x in numbers.items()}
            | {f"curves.{name}": ArraySpec((N, C), np.dtype(float)) for name in self.evaluation.curves}
        )

    @cached_property
    def _episode_shapes(self) -> tuple[Progress, Records]:
        """The shapes of progress and records of one member after an episode."""
        shared, own = self.setups([0])
        if self.is_python:
            explorers = self._explorers([0])
            return simulate_members(explorers, shared, own, init_members(explorers, shared, own), 1)

        def simulate() -> tuple[Progress, Records]:
            progress = init_many(shared, own, is_wide=self.is_wide)
            return simulate_many(shared, own, progress, jnp.int32(1), 1, is_wide=self.is_wide)

        shapes: tuple[Progress, Records] = eqx.filter_eval_shape(simulate)
        return shapes

    def progress(self, arrays: Arrays) -> Progress:
        """The progress of all members, from the arrays of `run`."""
        leaves, shape = jax.tree.flatten(self.first_member[1])
        progress: Progress = jax.tree.unflatten(shape, [arrays[f"progress.{i}"] for i in range(len(leaves))])
        return progress


def member_run(
    members: Members, index: int, progress: Progress, records: Mapping[str, np.ndarray], i: int, delta: float
) -> Run:
    """A member as an ordinary run, from row i of progress and records."""
    member = members[index]
    member_progress = jax.tree.map(lambda x: np.asarray(x[i]), progress)
    return Run(
        members.problems[member.problem],
        ExplorerSpec.of(members.explorers[member.explorer]),
        member.seed,
        member_progress.evidence,
        member_progress.state,
        {name: x[i] for name, x in records.items()},
        until=StopRule(0, int(member_progress.episode), delta=delta),
    )


def chunk_memory(memory: Any) -> int:
    """Bytes for a chunk: the argument `memory`, or a share of the device's memory."""
    if memory is not None:
        return check_int(memory, "memory", 1, MAX_INT, "a whole number of bytes, at least 1")
    limit = (jax.devices()[0].memory_stats() or {}).get("bytes_limit")
    return CHUNK_BYTES if limit is None else int(DEVICE_SHARE * limit)


def _num_bytes(tree: Any) -> int:
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))


def _array_digest(x: Any) -> Any:
    """Type, shape and checksum of an array; anything else as it is."""
    if not isinstance(x, np.ndarray):
        return x
    return [str(x.dtype), list(x.shape), hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()]
