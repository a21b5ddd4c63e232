"""Explore a problem: blocks of compiled episodes until a number of episodes or a certified gap is reached."""

import dataclasses
import time
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from horizonfree import evidence as ev
from horizonfree import rewards, stopping
from horizonfree._x64 import to_device, to_numpy, x64
from horizonfree.checks import check_seed, count
from horizonfree.errors import ModelError, OptionError, RunError
from horizonfree.explorers import find, make_explorer
from horizonfree.explorers._api import (
    Explorer,
    Info,
    Progress,
    absorb,
    begin,
    choose,
    episode_keys,
    simulate_block,
)
from horizonfree.mixture import Known, Mixture
from horizonfree.problems.live import attempt, check_env_matches
from horizonfree.progress import meter
from horizonfree.run import Run
from horizonfree.simulate import UNSEEN, Sampler
from horizonfree.stopping import MOST, Goal
from horizonfree.valid import valid_set

BLOCK = 256  # the most episodes between two looks at the clock
SECONDS = 0.25  # how long a block should take
SAVE_SECONDS = 10.0  # how long a run that lives in a folder may go without a checkpoint
Rows = list[Mapping[str, np.ndarray]]

_begin = eqx.filter_jit(begin)
_choose = eqx.filter_jit(choose)
_block = eqx.filter_jit(simulate_block)
_absorb = eqx.filter_jit(absorb)


@x64
def explore(
    problem: Any,
    explorer: str | Explorer = "information",
    *,
    episodes: int | None = None,
    seed: int = 0,
    known: Mixture | Known | None = None,
    encode: Callable[[Any], int] | None = None,
    budget: int | None = None,
    until_eps: float | None = None,
    delta: float = 0.05,
    reward: Any = None,
    progress: bool | None = None,
    out: str | PathLike[str] | None = None,
    save_episodes: int | None = None,
    save_seconds: float = SAVE_SECONDS,
    **options: Any,
) -> Run:
    """Explore without a reward, and return a run that can plan for any.

    problem: a Mixture with its truth, which simulates itself; or a Gymnasium environment that is only stepped, with
        `known=` the Mixture it belongs to (and `encode=`, observation -> state, where its states are not integers).
    explorer: a name (`explorers()` lists them, `options` are theirs) or an Explorer.
    episodes: how many; with until_eps, at most how many.
    until_eps: stop as soon as a certificate at confidence 1 - delta is at most this: for every reward at once, or with
        reward= for the one or the several given. Certificates hold at all times, so stopping by them is allowed.
    delta: failure probability of the certificates asked for, and of the explorer's own confidence sets.
    budget: declare the number of episodes beforehand for sharper certificates around it; more or fewer may follow.
    reward: for until_eps, and for explorers that use one.
    progress: show progress; by default when standard error is a terminal.
    out: a new folder for the run. A checkpoint is written there every save_seconds, and every save_episodes if given;
        after a crash, load(out).resume() goes on from the last one.
    """
    is_simulated = isinstance(problem, Mixture)
    if is_simulated and known is not None:
        raise OptionError("known= belongs to a real environment; this problem carries its own known class")
    if not is_simulated and known is None:
        raise OptionError("to explore a real environment say which class it belongs to: known=problem")
    mixture = problem if is_simulated else known if isinstance(known, Mixture) else Mixture(known)  # type: ignore[arg-type]
    episodes, until_eps, delta, budget = stopping.check(episodes, until_eps, delta, budget)
    check_seed(seed)
    _saving(save_episodes, save_seconds)
    total = budget or episodes or MOST
    kind = build_explorer(explorer, mixture, options, {"budget": total, "delta": delta, "reward": reward})
    if until_eps is None:
        check_reward_matters(kind, reward)
    valid = valid_set(mixture.known)
    bets = ev.init(valid, *ev.ladder(budget))
    first = _begin(kind, to_device(mixture.known), to_device(valid), bets)
    run = Run(mixture, kind, int(seed), valid, to_numpy(first), {}, is_simulated)
    settings = {"episodes": episodes, "until_eps": until_eps, "delta": delta, "reward": reward}
    run = dataclasses.replace(run, goal=_goal(run, **settings))
    if out is not None:
        from horizonfree.store import create

        run = create(run, out)
    return advance(
        run,
        progress=progress,
        env=None if is_simulated else problem,
        encode=encode,
        save_episodes=save_episodes,
        save_seconds=save_seconds,
    )


@x64
def advance(
    run: Run,
    *,
    episodes: int | None = None,
    until_eps: float | None = None,
    delta: float = 0.05,
    reward: Any = None,
    progress: bool | None = None,
    env: Any = None,
    encode: Callable[[Any], int] | None = None,
    save_episodes: int | None = None,
    save_seconds: float = SAVE_SECONDS,
) -> Run:
    """Go on with a run for so many more episodes, or until a certified gap; with neither, to the goal it had.

    The run given is left as it is; its folder, if it has one, goes on with the new one. Results do not depend on when
    checkpoints are written or how the episodes are cut into blocks.
    """
    explorer = run.explorer
    if explorer is None:
        raise OptionError("these episodes were logged, not explored; there is no explorer to go on with")
    if env is None and not run.is_simulated:
        raise OptionError("this run explored a real environment; pass it again: env=...")
    often = _saving(save_episodes, save_seconds)
    if reward is not None and until_eps is None:
        raise OptionError("reward= says what until_eps= is about; give both")
    if episodes is not None or until_eps is not None or run.goal is None:
        run = dataclasses.replace(run, goal=_goal(run, episodes, until_eps, delta, reward))
    engine = _simulated(run, explorer) if env is None else _stepped(run, explorer, env, encode)
    return _run_to_goal(run, run.goal, engine, progress, often, save_seconds)  # type: ignore[arg-type]


def _run_to_goal(
    run: Run,
    goal: Goal,
    engine: "Engine",
    progress: bool | None,
    save_episodes: int,
    save_seconds: float,
) -> Run:
    """The loop: blocks of about SECONDS each, a checkpoint now and then, a certificate when it is due."""
    from horizonfree.store import writing

    # Rebound in one go, so that an interruption between two lines never finds a state without its rows.
    so_far: tuple[Progress, Rows] = (to_device(run.progress), [run.rows] if run.rows else [])
    count, saved, clock = 1, run.episodes, time.perf_counter()
    with writing(run) as save, meter(run.episodes, goal, progress) as show:
        try:
            while True:
                k = int(so_far[0].episode)
                eps = None
                if goal.until_eps is not None and k == goal.next_look(k):
                    eps = _certified(_with(run, *so_far), goal)
                show(k, so_far[1][-1] if so_far[1] else {}, eps)
                if k >= goal.last or (
                    eps is not None and goal.until_eps is not None and eps <= goal.until_eps
                ):
                    break
                if k - saved >= save_episodes or time.perf_counter() - clock >= save_seconds:
                    save(_with(run, *so_far))
                    saved, clock = k, time.perf_counter()
                count = min(count, goal.next_look(k + 1) - k, saved + save_episodes - k)
                began = time.perf_counter()
                state, info, error = engine(so_far[0], count)
                so_far = state, [*so_far[1], {name: np.asarray(x)[:count] for name, x in info.items()}]
                if error is not None:
                    raise error
                seconds = (time.perf_counter() - began) / count
                count = int(np.clip(SECONDS / max(seconds, 1e-6), 1, BLOCK))
        finally:  # also when it was interrupted: nothing that was explored is lost
            now = _with(run, *so_far)
            if now.episodes > saved:
                save(now)
    return now


Engine = Callable[
    [Progress, int], tuple[Progress, Info, BaseException | None]
]  # and what ended the block early


def _simulated(run: Run, explorer: Explorer) -> Engine:
    """Compiled blocks of a problem that simulates itself."""
    known, valid = to_device(run.problem.known), to_device(run.valid)
    sampler = Sampler.of(to_device(run.problem.kernel()))
    truth, key = jnp.asarray(run.problem.truth), jax.random.key(run.seed)

    def engine(state: Progress, count: int) -> tuple[Progress, Info, None]:
        return *_block(explorer, known, valid, sampler, truth, key, state, jnp.int32(count), BLOCK), None

    return engine


def _stepped(run: Run, explorer: Explorer, env: Any, encode: Callable[[Any], int] | None) -> Engine:
    """One real episode after the other.

    An episode that breaks off counts as far as it was seen, and ends the exploration: Ctrl-C alone makes it forgotten.
    """
    check_env_matches(env, run.problem.known, encode)
    if run.evidence.impossible:
        raise ModelError(
            f"{run.evidence.impossible} observations of this run are impossible under every parameter: the known class "
            "does not describe this environment; begin a new run with one that does"
        )
    known, valid = to_device(run.problem.known), to_device(run.valid)
    key = jax.random.key(run.seed)

    def episode(state: Progress) -> tuple[Progress, Info, Exception | None]:
        rng = np.random.default_rng([run.seed, int(state.episode)])
        state = _choose(explorer, known, valid, episode_keys(key, state)[0], state)
        trajectory, error = attempt(env, run.problem.known, np.asarray(state.state.policy), rng, encode)
        if error is not None and (trajectory.j == UNSEEN).all():
            raise error
        return *_absorb(explorer, known, valid, None, state, to_device(trajectory)), error

    def engine(state: Progress, count: int) -> tuple[Progress, Info, BaseException | None]:
        done: tuple[Progress, list[Info]] = (state, [])
        error: BaseException | None = None
        while len(done[1]) < count and error is None:
            try:
                state, info, error = episode(done[0])
                done = state, [*done[1], info]
            except BaseException as stop:
                if not done[1]:
                    raise
                error = stop
        return done[0], jax.tree.map(lambda *x: jnp.stack(x), *done[1]), error

    return engine


def _saving(save_episodes: Any, save_seconds: Any) -> int:
    """The most episodes between two checkpoints; refuses what does not say when to write them."""
    if not (isinstance(save_seconds, (int, float)) and save_seconds >= 0):
        raise OptionError(f"save_seconds is {save_seconds!r}; it must be a number of at least 0")
    return MOST if save_episodes is None else count(save_episodes, "save_episodes")


def build_explorer(
    explorer: str | Explorer, problem: Mixture, options: dict[str, Any], given: dict[str, Any]
) -> Explorer:
    """A named explorer, told the budget, delta and the reward where it wants them; or the one that is already built."""
    if isinstance(explorer, Explorer):
        if options:
            raise OptionError(
                f"options {sorted(options)} belong to a named explorer; this one is already built"
            )
        return explorer
    fields = find(explorer).options
    if "reward" in fields:
        if given["reward"] is None:
            raise OptionError(f"explorer {explorer!r} needs a reward: it explores for one, not for all")
        given = given | {"reward": rewards.resolve(problem, given["reward"]).table.copy()}
    return make_explorer(explorer, **options, **{key: x for key, x in given.items() if key in fields})


def check_reward_matters(explorer: Explorer, reward: Any) -> None:
    """Refuse a reward that the explorer would never look at."""
    if reward is not None and not hasattr(explorer, "reward"):
        raise OptionError(
            "this explorer explores for all rewards alike; plan for a reward afterwards, or explore up to a gap "
            "that is certified for it (until_eps)"
        )


def _goal(run: Run, episodes: int | None, until_eps: float | None, delta: float, reward: Any) -> Goal:
    """What a caller asks for, as episodes of this run and rewards of this problem."""
    episodes, until_eps, delta, _ = stopping.check(episodes, until_eps, delta)
    if episodes is None and until_eps is None:
        raise OptionError("say how long to explore: episodes=500, or until_eps=0.2")
    H = run.problem.horizon
    if episodes is None:
        last = min(run.episodes + MOST, stopping.most_episodes(H))
    else:
        last = run.episodes + episodes
        stopping.check_countable(last, H)
    if until_eps is None or reward is None:
        return Goal(run.episodes, last, until_eps, delta)
    several = reward if isinstance(reward, (list, tuple)) else [reward]
    targets = np.stack([rewards.resolve(run.problem, x).table for x in several])
    return Goal(run.episodes, last, until_eps, delta, targets)


def _with(run: Run, state: Progress, rows: Rows) -> Run:
    if any(row.keys() != rows[0].keys() for row in rows):
        raise RunError(
            f"the explorer now reports {sorted(rows[-1])}, but the run so far has {sorted(rows[0])}; go on with the "
            "version of the library that began it"
        )
    joined = {name: np.concatenate([row[name] for row in rows]) for name in (rows[0] if rows else ())}
    return dataclasses.replace(run, progress=to_numpy(state), rows=joined)


def _certified(run: Run, goal: Goal) -> float:
    """The gap to be stopped by: of every reward, or the largest of those given."""
    if goal.targets is None:
        return run.certificate(goal.delta).eps
    return max(run.plan(table, delta=goal.delta).certificate.eps for table in goal.targets)
