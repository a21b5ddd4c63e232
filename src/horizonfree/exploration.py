"""Explore a problem: blocks of compiled episodes until a number of episodes or a certified gap is reached."""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from horizonfree import evidence as ev
from horizonfree import explorers, rewards
from horizonfree._x64 import to_device, to_numpy, x64
from horizonfree.errors import OptionError
from horizonfree.explorers._api import Explorer, Info, Progress, absorb, begin, simulate_block
from horizonfree.mixture import Known, Mixture
from horizonfree.problems.live import check_env_matches, run_episode
from horizonfree.progress import meter
from horizonfree.run import Run
from horizonfree.simulate import Sampler
from horizonfree.valid import valid_set

BLOCK = 256  # the most episodes between two looks at the clock
SECONDS = 0.25  # how long a block should take
GROWTH = 1.1  # with until_eps, a certificate is made whenever the episodes have grown by this factor
MOST = 1_000_000  # episodes after which until_eps gives up

_begin = eqx.filter_jit(begin)
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
    **options: Any,
) -> Run:
    """Explore without a reward, and return a run that can plan for any.

    problem: a Mixture with its truth, which simulates itself; or a Gymnasium environment that is only stepped, with
        `known=` the Mixture it belongs to (and `encode=`, observation -> state, where its states are not integers).
    explorer: a name (`explorers()` lists them, `options` are theirs) or an Explorer.
    episodes: how many; with until_eps, at most how many.
    until_eps: stop as soon as a certificate at confidence 1 - delta is at most this: for every reward at once, or with
        reward= for the one or the several given. Certificates hold at all times, so stopping by them is allowed.
    budget: declare the number of episodes beforehand for sharper certificates around it; more or fewer may follow.
    reward: for until_eps, and for explorers that use one.
    progress: show progress; by default when standard error is a terminal.
    """
    is_simulated = isinstance(problem, Mixture)
    if is_simulated and known is not None:
        raise OptionError("known= belongs to a real environment; this problem carries its own known class")
    if not is_simulated and known is None:
        raise OptionError("to explore a real environment say which class it belongs to: known=problem")
    mixture = problem if is_simulated else known if isinstance(known, Mixture) else Mixture(known)  # type: ignore[arg-type]
    _check(episodes, until_eps, delta, budget)
    kind = explorer if isinstance(explorer, Explorer) else _make(explorer, mixture, options, episodes, reward)
    if isinstance(explorer, Explorer) and options:
        raise OptionError(f"options {sorted(options)} belong to a named explorer; this one is already built")
    valid = valid_set(mixture.known)
    starts, weights = ev.ladder(budget)
    key = jax.random.key(seed)
    first = _begin(kind, to_device(mixture.known), to_device(valid), ev.init(valid, starts, weights), key)
    run = Run(mixture, kind, seed, valid, to_numpy(first), {})
    return advance(
        run,
        episodes=episodes,
        until_eps=until_eps,
        delta=delta,
        reward=reward,
        progress=progress,
        env=None if is_simulated else problem,
        encode=encode,
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
) -> Run:
    """Go on with a run for so many more episodes, or until a certified gap; the run given is left as it is."""
    _check(episodes, until_eps, delta, None)
    most = MOST if episodes is None else episodes
    targets = None if reward is None else reward if isinstance(reward, (list, tuple)) else [reward]
    if run.explorer is None:
        raise OptionError("these episodes were logged, not explored; there is no explorer to go on with")
    engine = _simulated(run, run.explorer) if env is None else _stepped(run, run.explorer, env, encode)
    rows = [run.rows] if run.rows else []
    state, done, count, look = to_device(run.progress), 0, 1, 1.0
    now = run
    with meter(most, until_eps, progress) as show:
        while done < most:
            count = min(count, most - done)
            began = time.perf_counter()
            state, info = engine(state, count)
            rows.append({name: np.asarray(x)[:count] for name, x in info.items()})
            done += count
            seconds = (time.perf_counter() - began) / count
            is_last = done == most
            now = _with(run, state, rows) if until_eps is not None or is_last else now
            if until_eps is not None and (done >= look or is_last):
                eps = _certified(now, targets, delta)
                show(done, rows[-1], eps)
                if eps <= until_eps:
                    return now
                look = max(done + 1, done * GROWTH)
            else:
                show(done, rows[-1], None)
            count = int(np.clip(SECONDS / max(seconds, 1e-6), 1, BLOCK))
            if until_eps is not None:
                count = max(1, min(count, int(np.ceil(look)) - done))
    return now


Engine = Callable[[Progress, int], tuple[Progress, Info]]


def _simulated(run: Run, explorer: Explorer) -> Engine:
    """Compiled blocks of a problem that simulates itself."""
    known, valid = to_device(run.problem.known), to_device(run.valid)
    sampler = Sampler.of(to_device(run.problem.kernel()))
    truth, key = jnp.asarray(run.problem.truth), jax.random.key(run.seed)

    def engine(state: Progress, count: int) -> tuple[Progress, Info]:
        return _block(explorer, known, valid, sampler, truth, key, state, jnp.int32(count), BLOCK)

    return engine


def _stepped(run: Run, explorer: Explorer, env: Any, encode: Callable[[Any], int] | None) -> Engine:
    """One real episode after the other."""
    check_env_matches(env, run.problem.known, encode)
    known, valid = to_device(run.problem.known), to_device(run.valid)
    key = jax.random.key(run.seed)

    def engine(state: Progress, count: int) -> tuple[Progress, Info]:
        infos = []
        for _ in range(count):
            k = int(state.episode)
            rng = np.random.default_rng([run.seed, k])
            policy = np.asarray(state.state.policy)
            trajectory = run_episode(env, run.problem.known, policy, rng, encode=encode)
            key_update = jax.random.split(jax.random.fold_in(key, k + 1))[1]
            state, info = _absorb(explorer, known, valid, None, key_update, state, to_device(trajectory))
            infos.append(info)
        return state, jax.tree.map(lambda *x: jnp.stack(x), *infos)

    return engine


def _make(
    name: str, problem: Mixture, options: dict[str, Any], episodes: int | None, reward: Any
) -> Explorer:
    """A named explorer, told the budget and the reward where it wants them."""
    fields = explorers.find(name).options
    if "budget" in fields and options.get("budget") is None:
        options = options | {"budget": episodes if episodes is not None else MOST}
    if "reward" in fields:
        if reward is None:
            raise OptionError(f"explorer {name!r} needs reward=: it explores for one reward, not for all")
        options = options | {"reward": rewards.resolve(problem, reward).table}
    return explorers.make_explorer(name, **options)


def _with(run: Run, state: Progress, rows: list[Mapping[str, np.ndarray]]) -> Run:
    joined = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    return dataclasses.replace(run, progress=to_numpy(state), rows=joined)


def _certified(run: Run, targets: Sequence[Any] | None, delta: float) -> float:
    """The gap to be stopped by: of every reward, or the largest of those given."""
    if targets is None:
        return run.certificate(delta).eps
    return max(run.plan(reward, delta=delta).certificate.eps for reward in targets)


def _check(episodes: int | None, until_eps: float | None, delta: float, budget: int | None) -> None:
    if episodes is None and until_eps is None:
        raise OptionError("say how long to explore: episodes=500, or until_eps=0.2")
    for name, value in {"episodes": episodes, "budget": budget}.items():
        if value is not None and (isinstance(value, bool) or int(value) != value or value < 1):
            raise OptionError(f"{name} is {value!r}; it must be a whole number of at least 1")
    if until_eps is not None and not 0 < until_eps < 1:
        raise OptionError(f"until_eps is {until_eps}; a gap to be certified lies between 0 and 1")
    if not 0 < delta < 1:
        raise OptionError(f"delta is {delta}; a failure probability lies between 0 and 1")
