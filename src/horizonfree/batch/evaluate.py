"""Curves of a batch: what is computed of every member at the checkpoints."""

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from horizonfree._validation import require, short_repr
from horizonfree._x64 import to_numpy
from horizonfree.batch.certificates import CertifiedCurves
from horizonfree.batch.members import Members
from horizonfree.batch.simulate import Setup
from horizonfree.errors import OptionError, UnknownNameError
from horizonfree.explorers.loop import Progress
from horizonfree.mdp import rewards
from horizonfree.planning import optimal
from horizonfree.planning.traced import evaluate_jax

CURVES = ("gap", "own_gap", "eps", "efficiency", "excess")
MAX_SUITE_BYTES = 2**30  # of the default rewards


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The curves of a batch, and their rewards with the optimal values `best` in each problem."""

    curves: tuple[str, ...]
    rewards: Float[np.ndarray, "T H S A"]
    best: tuple[Float[np.ndarray, " T"], ...]
    delta: float

    def certified(
        self, members: Members, first: int, N: int, progress: Progress, pool: Executor | None
    ) -> dict[str, Float[np.ndarray, "N 1"]]:
        """All curves but own_gap, of members first, ..., first + N - 1, in the processes of a pool."""
        names = tuple(name for name in self.curves if name != "own_gap")
        if not names:
            return {}
        batch = to_numpy(progress.evidence)
        evidence = [jax.tree.map(lambda x, i=i: x[i], batch) for i in range(N)]
        certified = CertifiedCurves(names, self.delta, tuple(members.problems), self.rewards, self.best)
        indices = [members[first + i].problem for i in range(N)]
        curves = certified.of_members(indices, evidence, pool)
        return {name: x[:, None] for name, x in curves.items()}


def build_evaluation(
    members: Members, checkpoints: np.ndarray, curves: Any, reward_list: Any, delta: float
) -> Evaluation:
    """Check the names of the curves; resolve the rewards, and solve them in the truth, if a curve needs them."""
    if isinstance(curves, str) or not np.iterable(curves):
        raise OptionError(f"curves is {short_repr(curves)}; it must be a list of {', '.join(CURVES)}")
    names = tuple(curves)
    for name in names:
        if not isinstance(name, str) or name not in CURVES:
            raise UnknownNameError(f"no curve is called {short_repr(name)}; there are {', '.join(CURVES)}")
    if not len(checkpoints):
        names = ()
    problems = members.problems
    space = problems[0].space
    if not {"gap", "own_gap"} & set(names):
        return Evaluation(names, np.zeros((0, *space.sizes)), (np.zeros(0),) * len(problems), delta)
    if reward_list is None:
        if 16 * space.num_states * np.prod(space.sizes) > MAX_SUITE_BYTES:
            raise OptionError("the problem is too large for the default rewards; give rewards=[...]")
        table = rewards.suite(space)
    else:
        is_list = np.iterable(reward_list) and not isinstance(reward_list, str)
        listed = tuple(reward_list) if is_list else ()
        require(bool(listed), "rewards", reward_list, "a list of at least one reward")
        table = np.stack([rewards.resolve(problems[0], x).table for x in listed])
    best = tuple(x.space.at_start(optimal(x.kernel(), table).V[:, 0]) for x in problems)
    return Evaluation(names, table, best, delta)


@eqx.filter_jit
def own_gaps(
    shared: Setup,
    own: Setup,
    progress: Progress,
    rewards: Float[Array, "T H S A"],
    *,
    batch_size: int | None,
) -> Float[Array, " N"]:
    """The largest true suboptimality, over the rewards, of the own plans of every member's explorer; traced.

    Computed for `batch_size` members side by side.
    """

    def of_member(pair: tuple[Setup, Progress]) -> Array:
        setup, now = eqx.combine(pair[0], shared), pair[1]
        truth = setup.model.kernel(setup.truth)

        def value(reward: Array) -> Array:
            policy = setup.explorer.plan(setup.model, now.state, now.evidence, reward).policy
            return setup.model.space.at_start(evaluate_jax(truth, reward, policy)[0])

        return (setup.best - jax.vmap(value)(rewards)).max()

    result: Array = jax.lax.map(of_member, (own, progress), batch_size=batch_size)
    return result
