"""Episodes that somebody else gathered, as a run that can plan and certify."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from horizonfree._inputs import count, integers
from horizonfree._x64 import leaf, to_device, to_numpy, x64
from horizonfree.errors import ModelError, ShapeError
from horizonfree.explorers.loop import Progress
from horizonfree.guarantees.bets import ladder
from horizonfree.guarantees.certificate import Certificate
from horizonfree.mdp.rollout import IMPOSSIBLE, Trajectory
from horizonfree.models.interface import Evidence, Model
from horizonfree.problems.problem import Problem
from horizonfree.runs.run import Run


@x64
def from_episodes(problem: Problem, episodes: Any, *, budget: int | None = None) -> Run:
    """A run made of logged episodes, whoever gathered them, in order.

    episodes: a pair of arrays, states [K, H+1] and actions [K, H]; or from `simulate`. An episode's policy may
    depend on the episodes before it and on nothing later, and none may be left out for what it shows. Transitions that
    no parameter explains are kept and lead to "model rejected". budget: as for `explore`; it must have been fixed
    before the data were seen.
    """
    if not isinstance(problem, Problem):
        raise ShapeError(f"the problem is a {type(problem).__name__}; it must be a Problem")
    budget = None if budget is None else count(budget, "budget")
    trajectories = _trajectories(problem, episodes)
    model = to_device(problem.model)
    after = _replay(model, model.nothing(ladder(budget)), to_device(trajectories))
    progress = Progress(jnp.asarray(after.episodes), None, after)
    return Run(problem, None, 0, to_numpy(progress), {}, is_simulated=False)


def certify(
    problem: Problem, episodes: Any, *, delta: float = 0.05, budget: int | None = None
) -> Certificate:
    """The certificate that logged episodes support, for the plans of every reward; episodes as for `from_episodes`."""
    return from_episodes(problem, episodes, budget=budget).certificate(delta)


@eqx.filter_jit
def _replay(model: Model, first: Evidence, trajectories: Trajectory) -> Evidence:
    return jax.lax.scan(lambda now, x: (model.learn(now, x), None), first, trajectories)[0]


def _trajectories(problem: Problem, episodes: Any) -> Trajectory:
    """Logged states and actions with the successor slot of each step."""
    if isinstance(episodes, Trajectory):
        episodes = episodes.s, episodes.a
    if not isinstance(episodes, (tuple, list)) or len(episodes) != 2:
        raise ShapeError("episodes must be a pair of arrays, states [K, H+1] and actions [K, H]")
    s, a = (integers(x, name) for x, name in zip(episodes, ("states", "actions")))
    space = problem.space
    H, S, A = space.sizes
    if s.ndim != 2 or a.ndim != 2 or s.shape != (len(a), H + 1) or a.shape[1] != H or not len(a):
        raise ShapeError(
            f"states has shape {s.shape}, actions {a.shape}; they must be [K, H+1]=(K, {H + 1}) and [K, H]=(K, {H})"
        )
    for name, x, size in (("states", s, S), ("actions", a, A)):
        bad = np.argwhere((x < 0) | (x >= size))
        if bad.size:
            k, h = bad[0]
            raise ShapeError(f"{name}[{k}, {h}] is {x[k, h]}; {name} are 0 to {size - 1}")
    odd = np.flatnonzero(~space.starts()[s[:, 0]])
    if odd.size:
        k = int(odd[0])
        where = "elsewhere" if space.start is None else f"in {space.start}"
        raise ModelError(f"episode {k} starts in state {s[k, 0]}; the problem starts {where}")
    now = s[:, :-1], a
    hit = (np.asarray(space.succ)[now] == s[:, 1:, None]) & np.asarray(space.support)[now]
    j = np.where(hit.any(-1), hit.argmax(-1), IMPOSSIBLE)
    return Trajectory(*(leaf(x.astype(np.int32)) for x in (s, a, j)))
