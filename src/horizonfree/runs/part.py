"""The part of a problem that its episodes come to, where that is much less than all of it: runs compute with it alone.

Everything that a run hands out is in the caller's numbers of states; its progress and its confidence sets are in those
of the part (mdp/part.py). At states that no episode comes to a plan takes action 0.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Int

from horizonfree._arrays import leaf
from horizonfree.errors import OptionError
from horizonfree.explorers.interface import Explorer
from horizonfree.mdp.part import index_of, visited_states
from horizonfree.mdp.rollout import Trajectory
from horizonfree.mdp.space import Space
from horizonfree.problems.problem import Problem

SPARED = 5_000  # states, half of all at least, that must be out of reach: below, little is gained


def part_of_problem(problem: Problem, explorer: Explorer | None = None) -> Problem | None:
    """The problem on the states that its episodes come to; None where these are most, or few are spared.

    Explorers for one reward have it on all states, and keep them; so do classes that cannot be cut, and
    kernels that are estimates: their error may lead anywhere.
    """
    space = problem.space
    if space.is_dense or space.num_states < SPARED or problem.sampling or hasattr(explorer, "reward"):
        return None
    states = visited_states(space)
    if space.num_states - len(states) < max(SPARED, len(states)):
        return None
    model = problem.model.part(states)
    return None if model is None else replace(problem, model=model, recipe=None, layout={})


def part_with(problem: Problem, explorer: Explorer | None, num_states: int) -> Problem | None:
    """The part that a stored run had, whose evidence has so many states; None where it had all."""
    return None if num_states == problem.num_states else part_of_problem(problem, explorer)


def check_exact(part: Problem | None, misspecification: object | None) -> None:
    """Refuse to let a class be wrong where states that no episode of it comes to were left out."""
    if part is not None and misspecification is not None:
        raise OptionError(
            "with misspecification= transitions may lead to states that no episode of the class comes to, and this run "
            "computes without them (run.part); leave it out"
        )


def has_all(space: Space, states: Int[np.ndarray, "*m"], S: int) -> bool:
    """Whether the space has all of these of the caller's S states."""
    return space.numbers is None or bool((index_of(np.asarray(space.numbers), S)[states] >= 0).all())


def trajectory_inside(space: Space, trajectory: Trajectory, S: int) -> Trajectory:
    """Episodes on the states of the space; a state that it does not have, which no parameter explains, is any."""
    if space.numbers is None:
        return trajectory
    s = index_of(np.asarray(space.numbers), S)[np.asarray(trajectory.s)]
    return Trajectory(leaf(np.maximum(s, 0)), trajectory.a, trajectory.j)
