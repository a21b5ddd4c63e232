"""Constructors of unknown tables: what they know, what they refuse, and other problems seen as tables."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import ShapeError, SimulationError
from horizonfree.models.tabular.model import TabularModel
from horizonfree.problems.classes import Tabular
from tests.models.tabular.cases import random_table

P = random_table(np.random.default_rng(0), 5, 2, 2)


def test_a_table_of_which_nothing_is_known_has_no_truth():
    problem = Tabular(5, 2, 7, start=3)
    assert isinstance(problem, hf.Problem)
    assert isinstance(problem.model, TabularModel)
    assert (problem.num_states, problem.num_actions, problem.horizon, problem.start) == (5, 2, 7, 3)
    with pytest.raises(SimulationError):
        problem.kernel()


@pytest.mark.parametrize("support", ["any", "given", P > 0])
def test_a_simulated_table_keeps_its_truth(support):
    problem = Tabular.from_table(P, horizon=4, support=support)
    np.testing.assert_allclose(problem.kernel().dense(), P, atol=1e-15)
    is_given = not isinstance(support, str) or support == "given"
    assert problem.model.is_support_known == is_given
    assert problem.space.succ.shape[2] == (2 if is_given else 5)


def test_a_start_may_be_drawn():
    start = np.array([0.5, 0.5, 0, 0, 0])
    np.testing.assert_array_equal(Tabular(5, 2, 3, start=start).start, start)


@pytest.mark.parametrize("name", ["river-swim", "zoned-grid"])
@pytest.mark.parametrize("support", ["any", "given"])
def test_a_mixture_as_a_tabular_mdp_is_the_same_system(name, support):
    problem = hf.make(name)
    table = problem.as_tabular(support=support)
    np.testing.assert_allclose(table.kernel().dense(), problem.kernel().dense(), atol=1e-12)
    assert table.horizon == problem.horizon
    assert table.name == problem.name
    np.testing.assert_array_equal(table.start, problem.start)
    assert table.model.num_unknown > problem.model.num_unknown


def test_states_that_are_never_left_stay_terminal():
    absorbing = P.copy()
    absorbing[2] = np.eye(5)[2]
    problem = Tabular.from_table(absorbing, horizon=3, support="given")
    assert 2 not in problem.as_tabular().model.pairs[:, 0]


@pytest.mark.parametrize("support", [None, np.eye(3, dtype=bool)[:, None].repeat(2, 1) | (np.arange(3) == 2)])
def test_an_unknown_start_is_a_state_more(support):
    """From it any of the others follows, nothing leads to it, and it takes a step of its own."""
    fixed, unknown = (Tabular(3, 2, 4, start=start, support=support) for start in (0, "unknown"))
    assert unknown.space.sizes == (5, 4, 2)
    assert unknown.space.start == 3
    possible = {x: x.space.kernel(np.asarray(x.space.support, float)).dense() > 0 for x in (fixed, unknown)}
    np.testing.assert_array_equal(possible[unknown][:3, :, :3], possible[fixed])
    assert possible[unknown][3, :, :3].all()
    assert not possible[unknown][:, :, 3].any()
    pairs = {x: {tuple(pair) for pair in np.asarray(x.model.pairs).tolist()} for x in (fixed, unknown)}
    assert pairs[unknown] >= pairs[fixed] | {(3, 0), (3, 1)}
    with pytest.raises(ShapeError, match="horizon is 0"):
        Tabular(3, 2, 0, start="unknown")
