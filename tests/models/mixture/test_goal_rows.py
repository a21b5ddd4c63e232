"""Where something can still be earned: distances by their definition, and the rows of a step."""

import numpy as np

from horizonfree.mdp.space import distances, make_space, predecessors
from horizonfree.models.mixture.tangent import goal_rows


def spaces(count=20):
    """Random lists, some of whose slots lead nowhere."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        S, A, n = rng.integers(1, 9), rng.integers(1, 4), rng.integers(1, 4)
        support = rng.uniform(size=(S, A, n)) < 0.6
        support[..., 0] = True
        yield make_space(rng.integers(S, size=(S, A, n)), support, False, 6, 0), rng


def literal(space):
    """Least numbers of transitions [from, to], by paths of every length."""
    S, A, n = space.succ.shape
    step = np.zeros((S, S), bool)
    for s, a, j in np.ndindex(S, A, n):
        step[s, space.succ[s, a, j]] |= bool(space.support[s, a, j])
    found, paths = np.full((S, S), np.inf), np.eye(S, dtype=bool)
    for length in range(S + 1):
        found[paths & np.isinf(found)] = length
        paths = paths @ step
    return found


def test_distances_are_least_numbers_of_transitions():
    for space, rng in spaces():
        most = int(rng.integers(0, 6))
        states = rng.integers(space.num_states, size=3)
        expected = np.minimum(literal(space), most + 1).T[states]
        np.testing.assert_array_equal(distances(predecessors(space), states, most), expected)


def test_rows_are_where_something_can_be_earned_and_nothing_stands_in_for_the_rest():
    for space, rng in spaces():
        S = space.num_states
        states = rng.integers(S, size=3)
        distance, occupied = distances(predecessors(space), states, 5), rng.uniform(size=S) < 0.7
        here = goal_rows(occupied, distance, 2)
        listed = list(zip(here.g.tolist(), here.s.tolist()))
        for g, s in np.ndindex(4, S):
            is_listed = occupied[s] and (g == 3 or distance[g, s] <= 2)
            assert ((g, s) in listed) == is_listed
            if occupied[s]:
                assert listed[here.row_of[g, s]] == ((g, s) if is_listed else (3, s))
