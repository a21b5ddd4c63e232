"""A problem: what a learner may know of a system and, for simulation only, the hidden truth."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._repr import ReprMixin, Summary, join_names
from horizonfree._validation import short_repr
from horizonfree.errors import OptionError, SimulationError
from horizonfree.mdp import names
from horizonfree.mdp.allowed import is_allowed
from horizonfree.mdp.families import family
from horizonfree.mdp.space import Kernel, Space, moved
from horizonfree.models.interface import Model
from horizonfree.problems.sampling import Sampling, sampling_of


@dataclass(frozen=True, eq=False, repr=False)
class Problem(ReprMixin):
    """A model, and the parameter of it that is the truth where the problem can simulate itself.

    `recipe` says how to build it again (a name and its parameters) where it has one; `layout` helps to draw it:
    "cells" [S, 2] column and row of each state on a grid, and it holds the names of "states", "actions", "weights".
    "ended" says in which states episodes end (endings.py), where something was declared. A part of another problem
    (`reachable_part`) has "state_ids" and "num_all_states" there (names.py).
    """

    model: Model
    truth: Any = None
    name: str = "problem"
    recipe: Mapping[str, Any] | None = None
    layout: Mapping[str, Any] = field(default_factory=dict)

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
        """s_1, the state in which every episode starts, or the distribution that it is drawn from."""
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
        """The numbers of the states in the problem that this is a part of; 0..S-1 where it is no part of another."""
        ids = self.space.state_ids
        return np.arange(self.num_states) if ids is None else np.asarray(ids)

    @property
    def actions_allowed(self) -> Bool[np.ndarray, "S A"]:
        """Which actions each state allows."""
        return is_allowed(self.space)

    @property
    def sampling(self) -> Sampling | None:
        """How far kernels that were estimated may be off, and what that allows; None where they were given."""
        return sampling_of(self.layout, self.horizon)

    def state_name(self, state: int) -> str:
        """What a state is called; "state 3" where it has no name."""
        return names.name_of(self.layout, "states", state)

    def action_name(self, action: int) -> str:
        """What an action is called; "action 3" where it has no name."""
        return names.name_of(self.layout, "actions", action)

    def weight_name(self, index: int) -> str:
        """What an entry of the parameter is called; "weight 3" where it has no name."""
        return names.name_of(self.layout, "weights", index)

    def state_number(self, state: int | str) -> int:
        """The number of a state that is given by its name, or by its number."""
        return names.number_of(self.layout, "states", state, self.num_states)

    def states_named(self, name: str) -> Int[np.ndarray, " n"]:
        """The states of a label, or the one that has this name."""
        return names.states_named(self.layout, name, self.num_states)

    @property
    def labels(self) -> dict[str, list[int]]:
        """Sets of states that have a name, of a model that was read from a file."""
        return names.labels_of(self.layout)

    def reward(self, name: str) -> Float[np.ndarray, "S A"]:
        """A reward by its name, of a model that was read from a file."""
        return names.reward_of(self.layout, name)

    def first_state(self) -> str:
        """Where an episode starts, in words."""
        starts = np.flatnonzero(self.space.starts())
        return (
            self.state_name(int(starts[0])) if len(starts) == 1 else f"one of {len(starts):,} states, drawn"
        )

    def card(self) -> Summary:
        """Sizes, names and what is unknown."""
        sizes = {"states": self.num_states, "actions": self.num_actions}
        lines = []
        for kind, size in sizes.items():
            called = self.layout.get(kind)
            lines.append(
                (kind, f"{size:,}" + (f": {join_names([str(x) for x in called])}" if called else ""))
            )
        if self.space.acts is not None:
            least, most = np.sort(self.actions_allowed.sum(axis=1))[[0, -1]]
            lines.append(
                (
                    "allowed",
                    f"{least:,} to {most:,} actions, by state"
                    if least < most
                    else f"{least:,} in every state",
                )
            )
        if names.ALL_STATES in self.layout:
            lines.append(
                ("part of", f"{self.layout[names.ALL_STATES]:,} states: those that episodes can come to")
            )
        lines.append(("episode", f"{self.horizon:,} steps from {self.first_state()}"))
        if "ended" in self.layout:
            from horizonfree.problems.endings import in_words

            lines.append(("ends", in_words(np.asarray(self.layout["ended"]))))
        weights = [str(x) for x in self.layout.get("weights") or ()]
        of_what = f", in the weights of {join_names(weights)}" if weights else ""
        lines.append(("unknown", f"{self.model.num_unknown:,} numbers{of_what}"))
        lines.append(("truth", "not given" if self.truth is None else "hidden; it simulates itself"))
        return Summary(f"Problem {self.name}", lines)

    def kernel(self) -> Kernel:
        """The true transition probabilities, for simulation and scoring."""
        if self.truth is None:
            raise SimulationError(
                f"problem {self.name!r} has no truth, so it cannot simulate itself; pass weights=, theta= or mu= when "
                "you build it, or explore a real environment with known=problem"
            )
        return self.model.kernel(self.truth)

    def moved(self, start: Any = None, horizon: Any = None, *, is_paid_after: bool = False) -> "Problem":
        """The same system with episodes from elsewhere, or of another length; None leaves it as it is.

        is_paid_after: the last step is only a payment for the state that the others lead to.
        """
        space = moved(self.space, start, horizon, is_paid_after=is_paid_after)
        model: Any = self.model
        return replace(self, model=replace(model, space=space), recipe=None)

    def declaring(self, rewards: Any) -> "Problem":
        """The same system, with rewards of interest declared before the first episode: a list, "goals", "occupancies".

        Certificates of plans for these are sharper then; for classes of which that is true, linear MDPs.
        """
        _, checked = family(self, rewards)
        model = self.model.with_rewards(np.stack([x.table for x in checked]))
        return replace(self, model=model, recipe=None)

    def seen_as(self, kind: str, *, support: str = "any") -> "Problem":
        """The same system as a learner sees it who knows less: kind "tabular", an unknown table.

        support: "any" (every state may follow every pair) or "given" (which transitions are possible is known).
        """
        from horizonfree.problems.tabular import seen_as

        if kind != "tabular":
            raise OptionError(f"kind is {short_repr(kind)}; it must be 'tabular'")
        return seen_as(self, support)

    def reachable_part(self) -> "Problem":
        """The problem on the states that episodes can come to, under some policy and parameter.

        It is the problem itself if these are all. Episodes have the same law there, so that certificates and plans are
        the same, too; where most states are out of reach they are much faster. It is a problem like any other, whose
        states are numbered anew: `state_ids` holds the numbers that they have here. `restrict` and `extend` take
        rewards and policies there and back.

        Kernels from samples cannot be restricted, as their error may lead anywhere.

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
        """What holds for all states of the problem that this is a part of, on the states of the part.

        x: an array [S], [S, A], [H, S] or [H, S, A], such as a reward, a policy or a mask; a reward as a function
        (h, s, a), or as `rescale` returns it; or a log, a `Trajectory` or a tuple (states, actions) as for
        `from_episodes`, whose states must all be in the part.
        """
        from horizonfree.problems.reachable import restrict

        return restrict(self, x)

    def extend(self, x: Any, fill: Any = 0) -> np.ndarray:
        """An array over the states of this part on all states of the problem that it is a part of.

        x: an array [m], [m, A], [H, m] or [H, m, A], such as a policy. fill: what the other states have, a number or an
        array that is broadcast, such as 1 / A for a policy of probabilities, or np.nan for what is not known.
        """
        from horizonfree.problems.reachable import extend

        return extend(self, x, fill)

    def to_gymnasium(self, reward: Any = None) -> Any:
        """The problem as a gymnasium.Env of episodes of H steps; a reward of any form, zero without one."""
        from horizonfree.problems.gymnasium.to_env import ProblemEnv

        return ProblemEnv(self, reward)


def described(model: Model, truth: Any, name: Any, layout: Any, **given: Any) -> Problem:
    """A problem without a recipe, with names of its states, actions or weights where they are given."""
    if not isinstance(name, str):
        raise OptionError(f"name is {short_repr(name)}; it must be text")
    return Problem(
        model, truth, name, None, names.named(layout, model.space, getattr(model, "dim", 0), **given)
    )
