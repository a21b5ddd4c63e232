"""Explore a problem or an environment, and go on with a run."""

import dataclasses
import inspect
import warnings
from collections.abc import Callable
from os import PathLike
from typing import Any

from horizonfree._jit import jit
from horizonfree._validation import check_bool, check_count, check_seed, short_repr
from horizonfree._x64 import to_device, to_numpy, x64
from horizonfree.errors import OptionError, PartWarning
from horizonfree.explorers.interface import Explorer
from horizonfree.explorers.loop import Progress, begin
from horizonfree.explorers.registry import EXPLORERS, ExplorerSpec, find, make_explorer, typed_name
from horizonfree.guarantees.bets import ladder
from horizonfree.mdp import rewards
from horizonfree.models.interface import Model
from horizonfree.models.tabular.model import TabularModel
from horizonfree.problems.gymnasium.as_table import unknown_table
from horizonfree.problems.problem import Problem
from horizonfree.problems.reachable import num_out_of_reach
from horizonfree.runs.drive import SAVE_SECONDS, Callback, Saving, drive
from horizonfree.runs.engines import simulated, stepped
from horizonfree.runs.run import Run
from horizonfree.runs.storage import create
from horizonfree.runs.until import MOST_EPISODES, check, until


@jit
def _begin(explorer: Explorer, model: Model, budget: int | None) -> Progress:
    """Before the first episode, with what `misspecification` reads."""
    return begin(explorer, model, model.with_history(model.init_evidence(ladder(budget, model.burn_in))))


@x64
def explore(
    problem: Any,
    explorer: str | Explorer | None = None,
    *,
    episodes: int | None = None,
    seed: int = 0,
    known: Problem | Model | None = None,
    encode: Callable[[Any], int] | None = None,
    horizon: int | None = None,
    start: Any = None,
    budget: int | None = None,
    until_eps: float | None = None,
    delta: float = 0.05,
    misspecification: Any = 0.0,
    reward: Any = None,
    rewards: Any = None,
    progress: bool | None = None,
    callback: Callback | None = None,
    out: str | PathLike[str] | None = None,
    save_episodes: int | None = None,
    save_seconds: float = SAVE_SECONDS,
    **options: Any,
) -> Run:
    """Explore without a reward, and return a run that can plan for any.

    problem: a Problem with its truth, which simulates itself (where most states are out of reach, explore its
        `reachable_part()`); or a Gymnasium environment that is only stepped, with
        `known=` the problem it belongs to (and `encode=`, observation -> state, where its states are not integers).
        Without known= nothing is known of it: an unknown table, of `horizon` steps (its time limit) from `start` (a
        state, a distribution or "unknown"; by default what it says, or where its first resets lead, if to one state).
    explorer: a name (`explorers()` lists them, `options` are theirs) or an Explorer; by default the one for the class.
    episodes: how many; with until_eps, at most how many.
    until_eps: stop as soon as a certificate at confidence 1 - delta is at most this: for every reward at once, or with
        reward= for the one or the several given. Certificates hold at all times, so stopping by them is allowed.
    delta: failure probability of the certificates asked for, and of the explorer's own confidence sets.
    misspecification: for until_eps, how far transition laws may be from those of one parameter (see Run.certificate).
    budget: declare the number of episodes beforehand for sharper certificates around it; more or fewer may follow.
    reward: for until_eps, and for explorers that use one.
    rewards: of a linear MDP, those of interest, declared beforehand for sharper certificates: a list, "goals" (to end
        in a state, for each) or "occupancies" (to stay in it). Every other reward can be planned for, too.
    progress: show progress; by default when standard error is a terminal.
    callback: called as callback(episodes, numbers) after each block of episodes (about four times a second) and at the
        end: what the explorer reports of the last episode, and "eps" where a certificate was made for until_eps. What
        it raises ends the exploration, after saving.
    out: a new folder for the run. A checkpoint is written there every save_seconds, and every save_episodes if given;
        after a crash, load(out).resume() goes on from the last one.
    """
    check_bool(progress, "progress")
    _check_callback(callback)
    world = _world(problem, known, horizon, start)
    is_simulated = world is problem
    world = world if rewards is None else world.declaring(rewards)
    asked, saving = (
        check(episodes, until_eps, delta, budget, misspecification),
        _saving(save_episodes, save_seconds),
    )
    check_seed(seed)
    given = {
        "budget": asked.budget or asked.episodes or MOST_EPISODES,
        "delta": asked.delta,
        "reward": reward,
    }
    kind = build_explorer(world.model.explorer if explorer is None else explorer, world, options, given)
    if asked.until_eps is None:
        check_reward_matters(kind, reward)
    end = until(world, 0, asked, reward)
    _suggest_part(world)
    first = to_numpy(_begin(kind, to_device(world.model), asked.budget))
    run = Run(world, ExplorerSpec.of(kind), int(seed), first.evidence, first.state, {}, is_simulated, end)
    engine = simulated(run, kind) if is_simulated else stepped(run, kind, problem, encode)
    if out is not None:
        run = create(run, out)
    return drive(run, end, engine, saving, progress, callback)


@x64
def advance(
    run: Run,
    *,
    episodes: int | None = None,
    until_eps: float | None = None,
    delta: float = 0.05,
    misspecification: Any = 0.0,
    reward: Any = None,
    progress: bool | None = None,
    callback: Callback | None = None,
    env: Any = None,
    encode: Callable[[Any], int] | None = None,
    save_episodes: int | None = None,
    save_seconds: float = SAVE_SECONDS,
) -> Run:
    """Go on with a run for so many more episodes, or until a certified gap; with neither, to the end it had.

    The run given is left as it is; its folder, if it has one, goes on with the new one. Results do not depend on when
    checkpoints are written or how the episodes are cut into blocks.
    """
    check_bool(progress, "progress")
    _check_callback(callback)
    explorer, saving = run.explorer, _saving(save_episodes, save_seconds)
    if explorer is None:
        raise OptionError("these episodes were logged, not explored; there is no explorer to go on with")
    if env is None and not run.is_simulated:
        raise OptionError("this run explored a real environment; pass it again: env=...")
    if reward is not None and until_eps is None:
        raise OptionError("reward= says what until_eps= is about; give both")
    end = run.until
    if episodes is not None or until_eps is not None or end is None:
        asked = check(episodes, until_eps, delta, None, misspecification)
        end = until(run.problem, run.episodes, asked, reward)
    run = dataclasses.replace(run, until=end)
    engine = simulated(run, explorer) if env is None else stepped(run, explorer, env, encode)
    return drive(run, end, engine, saving, progress, callback)


def _world(problem: Any, known: Any, horizon: Any, start: Any) -> Problem:
    """The problem itself, the one that an environment is known to belong to, or an unknown table."""
    if (horizon is not None or start is not None) and (isinstance(problem, Problem) or known is not None):
        raise OptionError("horizon= and start= are for an environment of which nothing is known")
    if isinstance(problem, Problem):
        if known is not None:
            raise OptionError(
                "known= belongs to a real environment; this problem carries its own known class"
            )
        return problem
    if known is None:
        return unknown_table(problem, horizon, start)
    if isinstance(known, Model):
        return Problem(known)
    if not isinstance(known, Problem):
        raise OptionError(
            f"known is a {type(known).__name__}; it must be a Problem, such as Mixture.from_kernels gives"
        )
    return known


def _suggest_part(problem: Problem) -> None:
    """A note where most states are out of reach."""
    missing = num_out_of_reach(problem)
    if missing:
        warnings.warn(
            PartWarning(
                f"{missing:,} of {problem.num_states:,} states cannot be reached within {problem.horizon:,} steps: "
                "explore(problem.reachable_part()), or --reachable at the shell, is faster and gives the same plans"
            ),
            stacklevel=4,
        )


def _check_callback(callback: Any) -> None:
    """Refuse what cannot be called as it will be; of functions of C nobody may know."""
    if callback is None:
        return
    try:
        if callable(callback):
            inspect.signature(callback).bind(1, {})
            return
    except TypeError:
        pass
    except ValueError:
        return
    raise OptionError(f"callback is {short_repr(callback)}; it must be a function of (episodes, numbers)")


def _saving(save_episodes: Any, save_seconds: Any) -> Saving:
    """When checkpoints are written; refuses what does not say so."""
    if not (isinstance(save_seconds, (int, float)) and save_seconds >= 0):
        raise OptionError(f"save_seconds is {short_repr(save_seconds)}; it must be a number of at least 0")
    often = MOST_EPISODES if save_episodes is None else check_count(save_episodes, "save_episodes")
    return Saving(often, save_seconds)


def build_explorer(
    explorer: str | Explorer, problem: Problem, options: dict[str, Any], given: dict[str, Any]
) -> Explorer:
    """A named explorer, told the budget, delta and the reward where it wants them; or the one that is already built."""
    if isinstance(explorer, Explorer):
        if options:
            raise OptionError(
                f"options {sorted(options)} belong to a named explorer; this one is already built"
            )
        kind = explorer
    else:
        explorer = typed_name(explorer)
        fields = find(explorer).options
        if "reward" in fields:
            if given["reward"] is None:
                raise OptionError(f"explorer {explorer!r} needs a reward: it explores for one, not for all")
            given = given | {"reward": rewards.resolve(problem, given["reward"]).table.copy()}
        kind = make_explorer(explorer, **options, **{key: x for key, x in given.items() if key in fields})
    if not isinstance(problem.model, kind.learns):
        raise OptionError(
            f"explorer {explorer!r} learns a {kind.learns.__name__}, but this problem has a "
            f"{type(problem.model).__name__}; choose another explorer: {_fitting(problem.model)}{_advice(kind)}"
        )
    return kind


def _fitting(model: Model) -> str:
    """The explorers for a class."""
    return ", ".join(name for name, entry in EXPLORERS.items() if isinstance(model, entry.kind.learns))


def _advice(explorer: Explorer) -> str:
    """What else could be done about an explorer of another class."""
    return ", or explore problem.seen_as('tabular')" if issubclass(TabularModel, explorer.learns) else ""


def check_reward_matters(explorer: Explorer, reward: Any) -> None:
    """Refuse a reward that the explorer would never look at."""
    if reward is not None and not hasattr(explorer, "reward"):
        raise OptionError(
            "this explorer explores for all rewards alike; plan for a reward afterwards, or explore up to a gap "
            "that is certified for it (until_eps)"
        )
