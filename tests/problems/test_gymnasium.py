"""Gymnasium in both directions: our kernels are the environments' own, and our environments sample our kernels."""

from collections import Counter

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import horizonfree as hf
from horizonfree.errors import (
    KernelError,
    ModelError,
    OptionError,
    RewardError,
    ShapeError,
    SimulationError,
    UnknownNameError,
)
from horizonfree.mdp.rewards import Reward, as_table, goal, rescale
from horizonfree.models.registry import diagnostics_of
from horizonfree.problems import Problem, from_gymnasium, make, problems
from tests.reference.gymnasium_tables import hoeffding, transition_table


@st.composite
def maps(draw):
    rows, columns = draw(st.integers(1, 5)), draw(st.integers(2, 5))
    letters = draw(st.lists(st.sampled_from("SFFHG"), min_size=rows * columns, max_size=rows * columns))
    letters[draw(st.integers(0, len(letters) - 1))] = "S"
    return ["".join(letters[r * columns : (r + 1) * columns]) for r in range(rows)]


@settings(max_examples=100, deadline=None)
@given(maps(), st.booleans(), st.floats(0, 1))
def test_every_frozen_lake_is_a_mixture_of_three_moves(desc, is_slippery, success_rate):
    env = gymnasium.make("FrozenLake-v1", desc=desc, is_slippery=is_slippery, success_rate=success_rate)
    problem = from_gymnasium(env, horizon=7)
    assert problem.model.dim == 3
    S, rho = env.observation_space.n, env.unwrapped.initial_state_distrib
    np.testing.assert_allclose(problem.kernel().dense(), transition_table(env), atol=1e-12)
    starts = np.flatnonzero(rho)
    if len(starts) == 1:
        assert (problem.start, problem.space.initial) == (starts[0], None)
    else:  # a random start stays a distribution
        assert problem.space.start is None
        np.testing.assert_allclose(problem.start, rho, atol=1e-12)
    assert problem.layout["cells"].tolist() == [[s % len(desc[0]), s // len(desc[0])] for s in range(S)]
    assert problem.model.valid.contains(problem.truth)


@pytest.mark.parametrize(
    ("name", "options", "weights"),
    [
        ("FrozenLake-v1", {"map_name": "8x8"}, [1 / 3, 1 / 3, 1 / 3]),
        ("FrozenLake-v1", {"success_rate": 0.8}, [0.1, 0.8, 0.1]),
        ("FrozenLake8x8-v1", {"is_slippery": False}, [0, 1, 0]),
        ("CliffWalking-v1", {}, [0, 1, 0]),
        ("CliffWalkingSlippery-v1", {}, [1 / 3, 1 / 3, 1 / 3]),
        ("Taxi-v4", {}, [1, 0, 0]),
        ("Taxi-v4", {"is_rainy": True}, [0.8, 0.1, 0.1]),
        ("Taxi-v4", {"is_rainy": True, "rainy_probability": 0.5}, [0.5, 0.25, 0.25]),
    ],
)
def test_the_kernel_is_the_table_of_the_environment(name, options, weights):
    start = {"start": 1} if name.startswith("Taxi") else {}
    problem = from_gymnasium(name, horizon=30, **start, **options)
    np.testing.assert_allclose(diagnostics_of(problem.model).in_units(problem.truth), weights, atol=1e-12)
    expected = transition_table(gymnasium.make(name, **options))
    np.testing.assert_allclose(problem.kernel().dense(), expected, atol=1e-12)
    assert problem.model.valid.num_free == 2
    rebuilt = make(problem.recipe["name"], **problem.recipe["parameters"])
    np.testing.assert_array_equal(rebuilt.model.phi, problem.model.phi)
    assert rebuilt.recipe == problem.recipe


@pytest.mark.parametrize("is_rainy", [False, True])
def test_a_fickle_passenger_changes_destination_on_the_first_ride_only(is_rainy):
    """North and back alone, pick up, north twice: states follow the kernel; false alarm 1e-6 in both cases."""
    options = {"fickle_passenger": True, "fickle_probability": 0.6, "is_rainy": is_rainy}
    env = gymnasium.make("Taxi-v4", **options)
    pickup = env.unwrapped.encode(4, 3, 3, 0)  # at B, passenger at B, wants R
    problem = from_gymnasium("Taxi-v4", horizon=6, start=pickup, **options)
    assert (problem.num_states, problem.model.dim) == (1000, 6)
    P, actions, N = problem.kernel().dense(), [1, 0, 4, 1, 1], 3000
    law = np.eye(1000)[pickup]
    successors = [Counter() for _ in actions]
    for episode in range(N):
        env.reset(seed=episode)
        env.unwrapped.s = s = pickup
        has_ridden = 0
        for step, a in enumerate(actions):
            s_next, *_ = env.step(a)
            has_ridden |= s // 4 % 5 == 4 and s // 20 != s_next // 20
            s = s_next
            successors[step][s + 500 * has_ridden] += 1
    for step, a in enumerate(actions):
        law = law @ P[:, a]
        count = np.array([successors[step][s] for s in range(1000)])
        assert not count[law == 0].any()
        assert np.abs(count / N - law).max() <= hoeffding(N, 2 * 5 * 1000)
    assert len(successors[3]) >= 4  # every destination came up


def test_a_list_of_environments_is_a_mixture_of_their_kernels():
    envs = [gymnasium.make("FrozenLake-v1", success_rate=p) for p in (0.4, 0.9)]
    weights = [0.3, 0.7]
    problem = from_gymnasium(envs, horizon=9, weights=weights)
    expected = sum(w * transition_table(env) for w, env in zip(weights, envs))
    np.testing.assert_allclose(problem.kernel().dense(), expected, atol=1e-12)
    assert problem.model.valid.num_free == 1
    unknown = from_gymnasium(["FrozenLake-v1", "FrozenLake-v1"], horizon=9, is_slippery=False)
    assert (unknown.truth, unknown.model.dim) == (None, 2)


def test_environments_of_a_list_may_start_apart():
    descs = (["SFG"], ["FSG"])
    problem = from_gymnasium(
        [gymnasium.make("FrozenLake-v1", desc=d) for d in descs], 4, weights=[0.25, 0.75]
    )
    assert (problem.num_states, problem.start) == (4, 3)
    np.testing.assert_allclose(problem.kernel().dense()[3, 0], [0.25, 0.75, 0, 0], atol=1e-12)


class TableEnv(gymnasium.Env):
    """Any P at all."""

    def __init__(self, P, start=0):
        self.P = P
        self.initial_state_distrib = np.eye(len(P))[start]
        self.observation_space, self.action_space = Discrete(len(P)), Discrete(len(P[0]))


def test_any_other_table_is_tabular_with_known_support():
    P = {
        0: {
            0: [(0.5, 1, 0.0, False), (0.25, 1, 0.0, False), (0.25, 0, 0.0, False)],
            1: [(1.0, 2, 1.0, True)],
        },
        1: {0: [(1.0, 1, 0.0, False)], 1: [(0.5, 2, 0.0, True), (0.5, 0, 0.0, False)]},
        2: {0: [(1.0, 0, 0.0, False)], 1: [(1.0, 1, 0.0, False)]},
    }
    problem = from_gymnasium(TableEnv(P), horizon=3)
    expected = [[[0.25, 0.75, 0], [0, 0, 1]], [[0, 1, 0], [0.5, 0, 0.5]], [[0, 0, 1], [0, 0, 1]]]
    np.testing.assert_allclose(problem.kernel().dense(), expected, atol=1e-12)
    assert problem.model.dim == 8
    assert problem.model.valid.num_free == 2


def test_an_edited_table_is_not_taken_for_the_original():
    env = gymnasium.make("FrozenLake-v1")
    env.unwrapped.P[0][0] = [(1.0, 5, 0, True)]
    problem = from_gymnasium(env, horizon=3)
    np.testing.assert_allclose(problem.kernel().dense(), transition_table(env), atol=1e-12)
    assert problem.model.dim > 3


def test_what_cannot_become_a_problem_is_refused():
    with pytest.raises(KernelError, match=r"sums to 0\.5"):
        from_gymnasium(TableEnv({0: {0: [(0.5, 0, 0.0, False)]}}), horizon=3)
    with pytest.raises(ShapeError, match=r"P\[0\]\[0\] leads to 7"):
        from_gymnasium(TableEnv({0: {0: [(1.0, 7, 0.0, False)]}}), horizon=3)
    with pytest.raises(ShapeError, match="is not P"):
        from_gymnasium(TableEnv({0: {0: [(1.0, 0)]}}), horizon=3)
    with pytest.raises(ShapeError, match="BlackjackEnv has no table P"):
        from_gymnasium("Blackjack-v1", horizon=3)
    with pytest.raises(UnknownNameError, match="cannot make 'FrozenLac-v1'"):
        from_gymnasium("FrozenLac-v1", horizon=3)
    with pytest.raises(OptionError, match=r"with \{'slippery': True\}"):
        from_gymnasium("FrozenLake-v1", horizon=3, slippery=True)
    with pytest.raises(OptionError, match="cannot make 'FrozenLake-v1' with"):
        from_gymnasium("FrozenLake-v1", horizon=3, desc=["S", "G"])  # gymnasium wants two columns
    with pytest.raises(OptionError, match="already built"):
        from_gymnasium(gymnasium.make("FrozenLake-v1"), horizon=3, map_name="8x8")
    with pytest.raises(OptionError, match="weights= is for a list"):
        from_gymnasium("FrozenLake-v1", horizon=3, weights=[1.0])
    with pytest.raises(
        ShapeError, match="start is 16; it must be a state, 0 to 15, or a distribution over them"
    ):
        from_gymnasium("FrozenLake-v1", horizon=3, start=16)
    with pytest.raises(ShapeError, match="list of environments is empty"):
        from_gymnasium([], horizon=3)
    with pytest.raises(ShapeError, match="environment 1 has"):
        from_gymnasium(["FrozenLake-v1", "FrozenLake8x8-v1"], horizon=3)
    with pytest.raises(ModelError, match="fickle"):
        from_gymnasium(["Taxi-v4"], horizon=3, start=1, fickle_passenger=True)
    homeless = TableEnv({0: {0: [(1.0, 0, 0.0, False)]}})
    del homeless.initial_state_distrib
    with pytest.raises(OptionError, match="pass start="):
        from_gymnasium(homeless, horizon=3)
    assert from_gymnasium(homeless, horizon=3, start=0).start == 0


@pytest.mark.parametrize("name", sorted(problems()))
def test_every_problem_passes_the_checker_of_gymnasium(name):
    check_env(make(name).to_gymnasium(), skip_render_check=True)  # warnings are errors here


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalking-v1", "Taxi-v4"])
def test_there_and_back_passes_the_checker_too_and_pays_any_form_of_reward(name):
    problem = from_gymnasium(name, horizon=2)
    costs = -np.arange(problem.num_states, dtype=float)
    forms = [costs, lambda h, s, a: costs[s], rescale(problem, costs), goal(problem, 3)]
    for reward in forms:
        env = problem.to_gymnasium(reward)
        check_env(env, skip_render_check=True)
        s, _ = env.reset(seed=0)
        table = reward.table if isinstance(reward, Reward) else as_table(problem, reward)
        assert env.step(0)[1] == table[0, s, 0]


def absorbing_kernel(P, start=0):
    return from_gymnasium(TableEnv(P, start), horizon=3).kernel().dense()


def test_only_what_can_happen_ends_an_episode():
    """Outcomes of probability zero, and those of states in which no episode acts, end nothing."""
    move, stay = [(1.0, 1, 0.0, False)], [(1.0, 0, 0.0, False)]
    impossible = [(0.0, 0, 0.0, True), (1.0, 1, 0.0, False)]
    np.testing.assert_array_equal(absorbing_kernel({0: {0: move}, 1: {0: impossible}})[0, 0], [0, 1])
    np.testing.assert_array_equal(
        absorbing_kernel({0: {0: [*move, (0.0, 1, 0.0, True)]}, 1: {0: stay}})[:, 0], [[0, 1], [1, 0]]
    )
    unreachable = {0: {0: move}, 1: {0: stay}, 2: {0: [(1.0, 0, 0.0, True)]}}
    np.testing.assert_array_equal(absorbing_kernel(unreachable)[:2, 0, :2], [[0, 1], [1, 0]])


def test_a_state_that_ends_some_episodes_only_gets_a_copy():
    """By the action, and where it is also the start. Nothing is known of such a table: endings must be unknown, too."""
    row, to_start = {0: [(1.0, 1, 0.0, True)], 1: [(1.0, 1, 0.0, False)]}, [(1.0, 0, 0.0, False)]
    by_action = TableEnv({0: row, 1: {0: to_start, 1: to_start}})
    problem = from_gymnasium(by_action, horizon=3)
    expected = [[[0, 0, 1], [0, 1, 0]], [[1, 0, 0]] * 2, [[0, 0, 1]] * 2]
    np.testing.assert_array_equal(problem.kernel().dense(), expected)
    assert problem.layout["ended"].tolist() == [-1, 2]
    assert problem.state_name(2) == "state 1 (ended)"
    with pytest.raises(ModelError, match=r"state 1 ends some episodes .* terminal='unknown'"):
        hf.explore(by_action, horizon=3, episodes=1)
    cycle_of_two = {0: {0: [(1.0, 1, 0.0, False)]}, 1: {0: [(1.0, 0, 1.0, True)]}}
    np.testing.assert_array_equal(
        absorbing_kernel(cycle_of_two)[:, 0], [[0, 1, 0], [0, 0, 1], [0, 0, 1]]
    )  # 2 is 0, ended
    hole = from_gymnasium("FrozenLake-v1", horizon=3, start=5)
    np.testing.assert_allclose(hole.kernel().dense()[5, :, 5], 1, atol=1e-12)


def test_a_map_drawn_at_random_is_in_the_recipe():
    problem = from_gymnasium("FrozenLake-v1", horizon=5, map_name=None)
    rebuilt = make(problem.recipe["name"], **problem.recipe["parameters"])
    np.testing.assert_array_equal(rebuilt.kernel().dense(), problem.kernel().dense())


class TaxiEnv(TableEnv):
    """A user's class with a name that Gymnasium has too."""


def test_kinds_are_not_told_by_name_alone():
    problem = from_gymnasium(TaxiEnv({0: {0: [(1.0, 0, 0.0, False)]}}), horizon=3)
    assert problem.model.dim == 1
    assert "actions" not in problem.layout


BAD_TABLES = [
    ({}, ShapeError, "is not P"),
    ({1: {0: [(1.0, 1, 0.0, False)]}}, ShapeError, "is not P"),
    ({0: {0: []}}, ShapeError, "no outcomes"),
    ({0: {0: [(1.0, 0.5, 0.0, False)]}}, ShapeError, r"P\[0\]\[0\] leads to 0.5"),
    ({0: {0: [("x", 0, 0.0, False)]}}, ShapeError, "is not P"),
    ({0: {0: [(1.0, 0, 0.0, False), (-0.5, 0, 0.0, False)]}}, KernelError, "probability -0.5"),
    ({0: {0: [(1.0, 0, 0.0, False), (np.nan, 0, 0.0, False)]}}, KernelError, "probability nan"),
    (
        {0: {0: [(1.0, 1, 0.0, False)]}, 1: {0: [(1.0, 0, 0.0, False)], 1: [(1.0, 1, 0.0, False)]}},
        ShapeError,
        r"P\[1\] has 2 actions but P\[0\] has 1",
    ),
]


def test_bad_tables_are_refused(subtests):
    for P, error, message in BAD_TABLES:
        with subtests.test(message):
            env = TableEnv({0: {0: [(1.0, 0, 0.0, False)]}})
            env.P = P
            del env.observation_space, env.action_space
            with pytest.raises(error, match=message):
                from_gymnasium(env, horizon=3, start=0)


def test_spaces_and_starts_that_do_not_fit_the_table_are_refused():
    env = TableEnv({0: {0: [(1.0, 0, 0.0, False)]}})
    for start in (1.5, True, -1):
        with pytest.raises(ShapeError, match="it must be a state, 0 to 0, or a distribution over them"):
            from_gymnasium(env, horizon=3, start=start)
    with pytest.raises(
        UnknownNameError, match=r"start is 'a'; it must be a state, .* no state 'a'; states are 0 to 0"
    ):
        from_gymnasium(env, horizon=3, start="a")
    env.initial_state_distrib = np.array([0.5, 0.5])
    with pytest.raises(ShapeError, match=r"initial_state_distrib has shape \(2,\)"):
        from_gymnasium(env, horizon=3)
    env.initial_state_distrib = np.array([0.5])
    with pytest.raises(KernelError, match="sum to 1"):
        from_gymnasium(env, horizon=3)
    env.action_space = Discrete(2)
    with pytest.raises(ShapeError, match="action_space of TableEnv has 2 elements but P has 1"):
        from_gymnasium(env, horizon=3, start=0)
    with pytest.raises(UnknownNameError, match="cannot make 'no_such_module:X-v0'"):
        from_gymnasium("no_such_module:X-v0", horizon=3)
    with pytest.raises(UnknownNameError, match="has no parameter 'env'; its name says which it is"):
        make("gymnasium:FrozenLake-v1", env="Taxi-v4", horizon=3)


def test_our_environment_samples_the_kernel_and_pays_the_reward():
    """Every frequency against Hoeffding's bound for its number of visits; false alarm below 1e-6.

    The numbers of visits are random, so the bound is taken over all their 32,000 values.
    """
    problem = make("random-mixture", states=5, successors=4, horizon=8)
    rng = np.random.default_rng(1)
    reward = rng.uniform(size=(8, 5, 4))
    env = problem.to_gymnasium(reward)
    count = np.zeros((5, 4, 5))
    s, _ = env.reset(seed=0)
    for _ in range(4000):
        for h in range(8):
            a = int(rng.integers(4))
            s_next, r, is_over, is_cut, info = env.step(a)
            assert (r, is_over, is_cut) == (reward[h, s, a], False, h == 7)
            assert info == {"h": h + 1}
            count[s, a, s_next] += 1
            s = s_next
        s, _ = env.reset()
        assert s == problem.start
    N = count.sum(axis=-1, keepdims=True)
    assert N.min() > 100
    t = np.array([[hoeffding(n, count.size * 32_000) for n in row] for row in N[..., 0]])[..., None]
    P = problem.kernel().dense()
    assert (np.abs(count / N - P) <= t).all()
    assert not count[P == 0].any()


def test_our_environment_refuses_what_is_wrong():
    problem = make("river-swim")
    with pytest.raises(ShapeError, match=r"shape \(9,\); it must be \[S\]=\(8,\)"):
        problem.to_gymnasium(np.zeros(9))
    with pytest.raises(RewardError, match=r"reward\[2\] is nan"):
        problem.to_gymnasium([0, 0, np.nan, 0, 0, 0, 0, 0])
    with pytest.raises(ShapeError, match="must hold real numbers"):
        problem.to_gymnasium("much")
    with pytest.raises(SimulationError, match="has no truth"):
        Problem(problem.model).to_gymnasium()
    env = problem.to_gymnasium()
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset()
    with pytest.raises(gymnasium.error.InvalidAction):
        env.step(2)
