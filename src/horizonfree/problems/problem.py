"""A problem: what is known of a system and, for simulations only, the true kernel."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._deprecated import renamed, warn_renamed
from horizonfree._repr import ReprMixin, ReprTable, join_names
from horizonfree._validation import check_choice, require
from horizonfree.errors import OptionError, SimulationError
from horizonfree.mdp import names
from horizonfree.mdp.events import Event, check_event
from horizonfree.mdp.policies import is_allowed, policy_table
from horizonfree.mdp.rewards import family, resolve
from horizonfree.mdp.space import Kernel, Space, with_start
from horizonfree.models.base import Model
from horizonfree.planning import evaluate, optimal
from horizonfree.planning.induction import lost
from horizonfree.problems.sampling import Sampling, sampling_of
from horizonfree.problems.verification.properties import Accumulated, Property


@dataclass(frozen=True, eq=False, repr=False)
class Problem(ReprMixin):
    """A model, and the true parameter where the problem can simulate itself.

    Build one with `Mixture`, `Tabular` or `LinearMDP`, which are the problems of the three model classes.

    `recipe`: a name and parameters from which `make` builds the problem again, or None. `layout`: names of "states",
    "actions" and "weights"; "cells" [S, 2], column and row of each state on a grid; "ended", in which states episodes
    end (endings.py); "radii" [S, A] and "assumes" of cells of real-valued states (discretize.py); for a
    `reachable_part`, "state_ids" and "num_all_states" (names.py).

    >>> import horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> problem.num_states, problem.num_actions, problem.horizon
    (4, 2, 8)
    """

    model: Model
    truth: Any = None
    name: str = "problem"
    recipe: Mapping[str, Any] | None = None
    layout: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def _from_model(
        cls, model: Model, truth: Any = None, name: Any = "problem", layout: Any = None, **given: Any
    ) -> Self:
        """A problem without a recipe. `given`: names of its states, actions and weights."""
        require(isinstance(name, str), "name", name, "text")
        layout = names.named(layout, model.space, getattr(model, "dim", 0), **given)
        return cls._from_fields(model=model, truth=truth, name=name, recipe=None, layout=layout)

    @classmethod
    def _from_fields(cls, **values: Any) -> Self:
        problem = object.__new__(cls)  # a subclass may have a constructor of its own
        Problem.__init__(problem, **values)
        return problem

    def _replace(self, **changes: Any) -> Self:
        """A copy with other values of some fields."""
        return self._from_fields(**{x.name: getattr(self, x.name) for x in fields(Problem)} | changes)

    def check_exact_kernels(self, reason: str) -> None:
        """Raise an error where the kernels were estimated from samples, for which REASON holds no more."""
        if self.sampling is not None:
            raise OptionError(f"{reason}; the kernels of this problem were estimated from samples")

    def check_exact_class(self, reason: str) -> None:
        """Raise an error where REASON needs a correct model class: not with samples, nor with errors of cells."""
        self.check_exact_kernels(reason)
        if self.radii is not None:
            raise OptionError(f"{reason}, and here cells have errors")

    @property
    def space(self) -> Space:
        """States, actions, horizon and start."""
        return self.model.space

    @property
    def horizon(self) -> int:
        """H, the number of steps in an episode."""
        return self.space.horizon

    @property
    def start(self) -> int | Float[np.ndarray, " S"]:
        """s_1, the state in which every episode starts, or the distribution from which it is drawn."""
        return np.asarray(self.space.initial) if self.space.start is None else self.space.start

    @property
    def num_states(self) -> int:
        """S."""
        return self.space.num_states

    @property
    def num_actions(self) -> int:
        """A."""
        return self.space.num_actions

    @property
    def state_ids(self) -> Int[np.ndarray, " S"]:
        """For a part of another problem, the numbers of its states there; otherwise 0..S-1."""
        ids = self.space.state_ids
        return np.arange(self.num_states) if ids is None else np.asarray(ids)

    @property
    def actions_allowed(self) -> Bool[np.ndarray, "S A"]:
        """Which actions each state allows."""
        return is_allowed(self.space)

    @property
    def sampling(self) -> Sampling | None:
        """For kernels estimated from samples, how far they may be off; None for kernels that were given."""
        return sampling_of(self.layout, self.horizon)

    @property
    def radii(self) -> Float[np.ndarray, "S A"] | None:
        """How far, in total variation, laws may be from those of one parameter, for cells; None without such errors."""
        radii = self.layout.get("radii")
        return None if radii is None else np.asarray(radii, np.float64)

    def state_name(self, state: int) -> str:
        """The name of a state; "state 3" where it has none."""
        return names.name_of(self.layout, "states", state)

    def action_name(self, action: int) -> str:
        """The name of an action; "action 3" where it has none."""
        return names.name_of(self.layout, "actions", action)

    def weight_name(self, index: int) -> str:
        """The name of an entry of the parameter; "weight 3" where it has none."""
        return names.name_of(self.layout, "weights", index)

    def state_number(self, state: names.StateLike) -> int:
        """The number of a state, given by its name or number, or on a grid by its cell, (column, row)."""
        return names.number_of(self.layout, "states", state, self.num_states)

    def states_named(self, name: str) -> Int[np.ndarray, " n"]:
        """The states of a label or a cell, or the one that has this name."""
        return names.states_named(self.layout, name, self.num_states)

    @property
    def labels(self) -> dict[str, list[int]]:
        """Sets of states by name, of a model that was read from a file."""
        return names.labels_of(self.layout)

    def reward(self, name: str) -> Float[np.ndarray, "S A"]:
        """A reward by its name, of a model that was read from a file."""
        return names.reward_of(self.layout, name)

    def start_name(self) -> str:
        """Where episodes start, as text."""
        starts = np.flatnonzero(self.space.starts())
        return (
            self.state_name(int(starts[0])) if len(starts) == 1 else f"one of {len(starts):,} states, drawn"
        )

    def _repr_table(self) -> ReprTable:
        lines = []
        for kind, size in {"states": self.num_states, "actions": self.num_actions}.items():
            layout_names = self.layout.get(kind)
            lines.append(
                (
                    kind,
                    f"{size:,}" + (f": {join_names([str(x) for x in layout_names])}" if layout_names else ""),
                )
            )
        if self.space.acts is not None:
            low, high = np.sort(self.actions_allowed.sum(axis=1))[[0, -1]]
            text = f"{low:,} to {high:,} actions, by state" if low < high else f"{low:,} in every state"
            lines.append(("allowed", text))
        if names.ALL_STATES in self.layout:
            total = self.layout[names.ALL_STATES]
            lines.append(("part of", f"{total:,} states: those that episodes can reach"))
        lines.append(("episode", f"{self.horizon:,} steps from {self.start_name()}"))
        if "ended" in self.layout:
            from horizonfree.problems.endings import summary

            lines.append(("ends", summary(np.asarray(self.layout["ended"]))))
        weights = [str(x) for x in self.layout.get("weights") or ()]
        of_weights = f", in the weights of {join_names(weights)}" if weights else ""
        count = self.model.num_unknown
        lines.append(("unknown", f"{count:,} number{'s' * (count != 1)}{of_weights}"))
        lines.append(("truth", "not given" if self.truth is None else "hidden; it simulates itself"))
        return ReprTable(f"Problem {self.name}", lines)

    def kernel(self) -> Kernel:
        """The true transition probabilities, for simulation and scoring."""
        if self.truth is None:
            raise SimulationError(
                f"problem {self.name!r} has no truth, so it cannot simulate itself; pass weights=, theta= or mu= when "
                "you build it, or explore a real environment with known=problem"
            )
        return self.model.kernel(self.truth)

    def with_start(self, start: Any = None, horizon: Any = None, *, is_paid_after: bool = False) -> Self:
        """The same system with another start (a state or a distribution) or horizon; None leaves it unchanged.

        start: a state by number or name, or on a grid a cell (column, row), or a distribution [S].
        is_paid_after: the last step only pays for the state that the others lead to.

        >>> import horizonfree as hf
        >>> problem = hf.make("river-swim", states=5, horizon=10)
        >>> problem.with_start(2, horizon=4).start_name()
        'state 2'
        """
        first = names.start_of(self.layout, start, self.num_states)
        space = with_start(self.space, first, horizon, is_paid_after=is_paid_after)
        model: Any = self.model
        return self._replace(model=replace(model, space=space), recipe=None)

    def with_rewards(self, rewards: Any) -> Self:
        """The same system, with rewards declared before the first episode: a list, "goals" or "occupancies".

        Certificates of plans for these are sharper then. For linear MDPs.
        """
        _, resolved = family(self, rewards)
        model = self.model.with_rewards(np.stack([x.table for x in resolved]))
        return self._replace(model=model, recipe=None)

    def as_tabular(self, *, support: str = "any") -> "Problem":
        """The same system as a tabular MDP whose transition probabilities are entirely unknown.

        support: "any" (every state may follow every state-action pair) or "given" (which transitions are possible is
        known).

        >>> import horizonfree as hf
        >>> hf.make("river-swim", states=5).as_tabular().model.num_unknown
        10
        """
        from horizonfree.problems.classes import Tabular

        return Tabular.from_problem(self, support)

    def as_linear(self, phi: Any = None) -> "Problem":
        """The same system as a linear MDP: features of state-action pairs are known, their measures are not.

        phi: the features [S, A, d]; by default one for each state-action pair, which assumes nothing.

        >>> import horizonfree as hf
        >>> hf.make("river-swim", states=5).as_linear().model.dim
        10
        """
        from horizonfree.problems.classes import LinearMDP

        return LinearMDP.from_problem(self, phi)

    moved = renamed("Problem.moved", with_start)
    declaring = renamed("Problem.declaring", with_rewards)

    def seen_as(self, kind: str, *, support: str = "any") -> "Problem":
        """Deprecated: use `as_tabular()`."""
        check_choice(kind, "kind", ("tabular",))
        warn_renamed("Problem.seen_as('tabular')", "Problem.as_tabular()")
        return self.as_tabular(support=support)

    def reachable_part(self) -> "Problem":
        """The problem on the states that episodes can reach, under some policy and parameter.

        It is the problem itself if these are all. Episodes have the same distribution there, so certificates and plans
        are the same, and computed much faster where most states are out of reach. Its states are numbered anew:
        `state_ids` holds their numbers here. `restrict` and `extend` convert rewards and policies.

        Kernels estimated from samples cannot be restricted: their error may lead to any state.

        >>> import horizonfree as hf
        >>> problem = hf.make("zoned-grid", size=100, horizon=20)
        >>> part = problem.reachable_part()
        >>> problem.num_states, part.num_states
        (10000, 231)
        >>> run = hf.explore(part, episodes=20, progress=False)
        >>> plan = run.plan(part.restrict(hf.goal(problem, 203)))
        >>> part.extend(plan.policy).shape
        (20, 10000)
        """
        from horizonfree.problems.reachable import reachable_part

        return reachable_part(self)

    def restrict(self, x: Any) -> Any:
        """An object over all states of the whole problem, on the states of this part.

        x: an array [S], [S, A], [H, S] or [H, S, A], such as a reward, a policy or a mask; a reward as a function
        (h, s, a), or as `rescale` returns it; or a log, a `Trajectory` or a tuple (states, actions) as for
        `from_episodes`, whose states must all be in the part.
        """
        from horizonfree.problems.reachable import restrict

        return restrict(self, x)

    def extend(self, x: Any, fill: Any = 0) -> np.ndarray:
        """An array over the states of this part, on all states of the whole problem.

        x: an array [m], [m, A], [H, m] or [H, m, A], such as a policy. fill: the value of the other states, a number or
        an array that is broadcast, such as 1 / A for a policy of probabilities, or np.nan for unknown values.
        """
        from horizonfree.problems.reachable import extend

        return extend(self, x, fill)

    def to_gymnasium(self, reward: Any = None) -> Any:
        """The problem as a gymnasium.Env with episodes of H steps and a reward of any form; the default is zero."""
        from horizonfree.problems.gymnasium.to_env import ProblemEnv

        return ProblemEnv(self, reward)


def true_gap(problem: Problem, reward: Any, policy: Any, *, scale: str = "total") -> float:
    """The true suboptimality of a policy for a reward, an event or a property, for problems whose truth is known.

    >>> import numpy as np, horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> round(hf.true_gap(problem, hf.goal(problem, 3), np.zeros((8, 4), int)), 3)
    0.403
    """
    if isinstance(reward, (Event, Property)):
        return _true_gap_of_property(problem, reward, policy)
    resolved = resolve(problem, reward, scale=scale)
    kernel, space = problem.kernel(), problem.space
    table = policy_table(policy, *space.sizes)
    best, values = optimal(kernel, resolved.table).V, evaluate(kernel, resolved.table, table)
    return resolved.factor * lost(space, best, values)


def _true_gap_of_property(problem: Problem, reward: Event | Property, policy: Any) -> float:
    """The difference of probabilities, or of sums, between the best policy and this one."""
    result = reward.on_problem(problem) if isinstance(reward, Property) else reward
    _, S, A = problem.space.sizes
    if isinstance(result, Accumulated):
        payments = result.paid if result.is_max else -result.paid
        return true_gap(problem.with_start(None, result.steps), payments, policy, scale="rescale")
    check_event(result, problem.space)
    space = problem.with_start(None, result.steps + 1, is_paid_after=True).space
    lift, table = result.lift(space), policy_table(policy, result.steps, S, A)
    table = np.concatenate([table, table[-1:]])[:, lift.origin]
    kernel, payments = lift.kernel(problem.kernel()), result.reward(space)
    return lost(lift.space, optimal(kernel, payments).V, evaluate(kernel, payments, table))
