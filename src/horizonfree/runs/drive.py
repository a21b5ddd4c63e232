"""From one episode to the last: blocks of compiled episodes, checkpoints now and then, certificates when due."""

import dataclasses
import time
from collections.abc import Callable, Mapping

import numpy as np

from horizonfree._x64 import to_device, to_numpy
from horizonfree.errors import RunError
from horizonfree.explorers.loop import Progress, Records
from horizonfree.runs.engines import BLOCK, Engine, Recorder
from horizonfree.runs.meter import meter
from horizonfree.runs.run import Run
from horizonfree.runs.storage import writing
from horizonfree.runs.until import MOST_EPISODES, Until

Callback = Callable[[int, Mapping[str, float]], object]
SECONDS = 0.25  # how long a block should take
NEAR = 1.4  # of the gap that is asked for: from there on the sharpest certificate may reach it
SAVE_SECONDS = 10.0  # how long a run that lives in a folder may go without a checkpoint


@dataclasses.dataclass(frozen=True)
class Saving:
    """How often a checkpoint is written: after so many episodes or seconds, whichever comes first."""

    episodes: int = MOST_EPISODES
    seconds: float = SAVE_SECONDS


def drive(
    run: Run,
    until: Until,
    engine: Engine,
    saving: Saving,
    progress: bool | None,
    callback: Callback | None = None,
    recorder: Recorder | None = None,
) -> Run:
    """Explore to the end that was asked for. Whatever interrupts it, what was explored is saved.

    callback: called after each block with the episodes so far and the numbers of the last one.
    """
    now, pace = _Growing(run, recorder), Pace()
    with writing(run) as write, meter(run.episodes, until, progress) as show:
        saver = _Saver(write, saving, run.episodes)
        try:
            while True:
                k = now.episodes
                eps = _certified(now.run(), until) if until.is_look(k) else None
                show(k, now.last, eps)
                if callback is not None and k > run.episodes:
                    callback(k, _numbers(now.last, eps))
                if until.is_reached(k, eps):
                    break
                saver.save_if_due(now)
                count = min(pace.count, until.next_look(k + 1) - k, saver.next_due - k)
                began = time.perf_counter()
                error = now.grow(engine, count)
                if error is not None:
                    raise error
                pace.learn(count, time.perf_counter() - began)
        finally:
            saver.save(now)
    return now.run()


def _numbers(records: Mapping[str, np.ndarray], eps: float | None) -> dict[str, float]:
    """What the explorer reported of the last episode, and the certified gap where one was made."""
    found = {name: float(x[-1]) for name, x in records.items()}
    return found if eps is None else found | {"eps": eps}


class Pace:
    """How many episodes make a block: about SECONDS' worth, one at first."""

    def __init__(self) -> None:
        self.count = 1

    def learn(self, count: int, seconds: float) -> None:
        """So many episodes took so long."""
        self.count = int(np.clip(SECONDS * count / max(seconds, 1e-6 * count), 1, BLOCK))


class _Growing:
    """A run that grows. State and records are replaced in one go: an interruption finds either both or neither."""

    def __init__(self, run: Run, recorder: Recorder | None) -> None:
        self._run, self._recorder = run, recorder
        self._so_far: tuple[Progress, list[Mapping[str, np.ndarray]]]
        self._so_far = to_device(run.progress), [run.records] if run.records else []

    @property
    def episodes(self) -> int:
        """How many so far."""
        return int(self._so_far[0].episode)

    @property
    def last(self) -> Mapping[str, np.ndarray]:
        """The records of the last block."""
        return self._so_far[1][-1] if self._so_far[1] else {}

    def grow(self, engine: Engine, count: int) -> BaseException | None:
        """So many more episodes; what ended them early, if something did."""
        state, numbers, error = engine(self._so_far[0], count)
        self._so_far = state, [*self._so_far[1], _first(numbers, count)]
        return error

    def run(self) -> Run:
        """The run as it is now."""
        state, records = self._so_far
        if any(x.keys() != records[0].keys() for x in records):
            raise RunError(
                f"the explorer now reports {sorted(records[-1])}, but the run so far has {sorted(records[0])}; "
                "go on with the version of the library that began it"
            )
        joined = {
            name: np.concatenate([x[name] for x in records]) for name in (records[0] if records else ())
        }
        now = to_numpy(state)
        rewards = self._run.rewards if self._recorder is None else self._recorder.rewards
        return dataclasses.replace(
            self._run, evidence=now.evidence, state=now.state, records=joined, rewards=rewards
        )


def _first(numbers: Records, count: int) -> dict[str, np.ndarray]:
    return {name: np.asarray(x)[:count] for name, x in numbers.items()}


class _Saver:
    """Checkpoints: when the next is due, and what is saved already."""

    def __init__(self, write: Callable[[Run], None], saving: Saving, episodes: int) -> None:
        self._write, self._saving = write, saving
        self._saved, self._clock = episodes, time.perf_counter()

    @property
    def next_due(self) -> int:
        """The episode at which the next checkpoint is due at the latest."""
        return self._saved + self._saving.episodes

    def save_if_due(self, now: _Growing) -> None:
        """Write a checkpoint when it is time."""
        if now.episodes >= self.next_due or time.perf_counter() - self._clock >= self._saving.seconds:
            self._write(now.run())
            self._saved, self._clock = now.episodes, time.perf_counter()

    def save(self, now: _Growing) -> None:
        """Write what is not written yet."""
        if now.episodes > self._saved:
            self._write(now.run())


def _certified(run: Run, until: Until) -> float:
    """The gap to be stopped by: of every reward, or the largest of those given."""
    within = until.misspecification
    if until.targets is None:
        eps, wanted = (
            run.certificate(until.delta, method="uniform", misspecification=within).eps,
            until.until_eps,
        )
        is_near = wanted is not None and wanted < eps < NEAR * wanted
        return run.certificate(until.delta, misspecification=within).eps if is_near else eps
    plans = (run.plan(table, delta=until.delta, misspecification=within) for table in until.targets)
    return max(plan.certificate.eps for plan in plans)
