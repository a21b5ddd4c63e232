"""Spaces of environments: numbers and names of their elements, cells and levels, and one line for each environment."""

import math

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from gymnasium.utils.env_checker import data_equivalence

import horizonfree as hf
from horizonfree.errors import HorizonfreeError, OptionError, ShapeError, TargetWarning, UnknownNameError
from horizonfree.problems.gymnasium.as_table import unknown_table
from horizonfree.problems.gymnasium.flatten import MAX_ELEMENTS, Flattened, Numbering, flatten


def random_space(rng, depth):
    """A finite space of a few elements, nested up to a depth."""
    kind = rng.integers(5 if depth else 3)
    if kind == 0:
        return Discrete(int(rng.integers(1, 4)), start=int(rng.integers(-2, 3)))
    if kind == 1:
        shape = [(2,), (1,), (2, 1)][rng.integers(3)]
        start = rng.integers(-1, 3, shape)
        return MultiDiscrete(rng.integers(1, 4, shape), start=start)
    if kind == 2:
        return MultiBinary([1, 2, (1, 2)][rng.integers(3)])
    children = [random_space(rng, depth - 1) for _ in range(rng.integers(1, 3))]
    return Tuple(children) if kind == 3 else Dict({f"key{i}": x for i, x in enumerate(children)})


def num_elements(space):
    """The number of elements by the definition of the spaces."""
    if isinstance(space, Discrete):
        return int(space.n)
    if isinstance(space, MultiDiscrete):
        return int(np.prod(space.nvec))
    if isinstance(space, MultiBinary):
        return 2 ** int(np.prod(space.shape))
    children = space.spaces.values() if isinstance(space, Dict) else space.spaces
    return math.prod(num_elements(x) for x in children)


@pytest.mark.parametrize("seed", range(60))
def test_numbers_are_elements_and_back(seed):
    space = random_space(np.random.default_rng(seed), depth=3)
    numbering = Numbering(space)
    assert numbering.size == num_elements(space)
    numbers = range(0, numbering.size, max(1, numbering.size // 200))
    for i in numbers:
        element = numbering.decode(i)
        assert space.contains(element)
        assert numbering.encode(element) == i
    space.seed(seed)
    for _ in range(20):
        sample = space.sample()
        assert data_equivalence(numbering.decode(numbering.encode(sample)), sample)
    assert len({numbering.name(i) for i in numbers}) == len(numbers)


def test_names_are_readable():
    assert Numbering(Dict(wear=Discrete(3), stock=Discrete(2))).names() == [
        *("wear 0, stock 0", "wear 0, stock 1", "wear 1, stock 0", "wear 1, stock 1"),
        *("wear 2, stock 0", "wear 2, stock 1"),
    ]
    nested = Tuple([Discrete(2, start=5), Dict(on=MultiBinary(2), at=MultiDiscrete([1]))])
    assert Numbering(nested).name(7) == "(6, (on (1, 1), at 0))"
    assert Numbering(Discrete(4)).names() is None
    clash = Dict({"a": Discrete(1), "a 0, b": Discrete(1), "b": Discrete(1)})
    assert Numbering(clash).names() == ["a 0, a 0, b 0, b 0"]


@pytest.mark.parametrize(
    "space",
    [
        MultiBinary(10**6),
        MultiDiscrete([2**31, 2**31]),
        Tuple([MultiDiscrete([50_000, 50_000]), Discrete(2)]),
    ],
)
def test_too_many_elements_are_refused_before_anything_is_allocated(space):
    with pytest.raises(OptionError, match=f"elements to number; at most {MAX_ELEMENTS:,} are possible"):
        Numbering(space)


@pytest.mark.parametrize(
    ("space", "element"),
    [
        (MultiDiscrete([2, 3]), [0, 3]),
        (MultiDiscrete([2, 3]), [0]),
        (MultiDiscrete([2, 3]), [0, 0.5]),
        (Dict(a=Discrete(2)), {"b": 1}),
        (Dict(a=Discrete(2)), 1),
        (Tuple([Discrete(2), Discrete(2)]), (0, -1)),
        (Tuple([Discrete(2), Discrete(2)]), None),
        (MultiBinary(2), "on"),
    ],
)
def test_what_is_not_in_the_space_is_refused(space, element):
    with pytest.raises(ShapeError, match="is not in"):
        Numbering(space).encode(element)


class Machines(gymnasium.Env):
    """Two machines wear out; an action replaces each, or not."""

    def __init__(self, observations=None, actions=None):
        self.observation_space = observations or Dict(wear=MultiDiscrete([2, 3]), stock=Discrete(2))
        self.action_space = actions or MultiDiscrete([2, 2])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.wear = np.zeros(2, int)
        return {"wear": self.wear.copy(), "stock": 1}, {}

    def step(self, action):
        assert self.action_space.contains(action)
        grown = np.minimum(self.wear + (self.np_random.random(2) < 0.5), [1, 2])
        self.wear = np.where(action == 1, 0, grown)
        return {"wear": self.wear.copy(), "stock": 0}, -float(self.wear.sum()), False, False, {}


def test_two_machines_in_one_line():
    run = hf.explore(Machines(), episodes=5, horizon=6, progress=False)
    assert run.problem.space.sizes == (6, 12, 4)
    assert run.problem.state_name(11) == "wear (1, 2), stock 1"
    assert run.problem.action_name(2) == "(1, 0)"
    assert run.problem.start_name() == "wear (0, 0), stock 1"
    run = run.resume(env=Machines(), episodes=2, progress=False)
    assert run.evidence.counts.sum() == 7 * 6
    plan = run.plan(hf.goal(run.problem, "wear (0, 0), stock 0"))
    assert plan.act(0, "wear (0, 0), stock 1") == plan.act(0, 1)
    episode = plan.rollout(Machines(), seed=3)
    assert [plan.act(h, int(s)) for h, s in enumerate(episode.states[:-1])] == episode.actions.tolist()
    assert len(episode.states) == 7
    assert episode.total == episode.rewards.sum()


def test_names_survive_wrappers_that_keep_the_space():
    limited = gymnasium.wrappers.TimeLimit(flatten(Machines()), 4)
    problem = unknown_table(limited)
    assert problem.horizon == 4
    assert problem.state_name(1) == "wear (0, 0), stock 1"
    assert unknown_table(gymnasium.wrappers.TimeLimit(Machines(), 3)).horizon == 3
    shifted = gymnasium.wrappers.TransformObservation(limited, lambda s: (s + 1) % 12, Discrete(12))
    assert unknown_table(shifted, 4).state_name(1) == "state 1"
    assert flatten(gymnasium.make("FrozenLake-v1")).observation_space == Discrete(16)
    assert not isinstance(flatten(gymnasium.make("FrozenLake-v1")), Flattened)


def explore(env, **options):
    return hf.explore(env, episodes=2, progress=False, **{"horizon": 8, **options})


@pytest.mark.parametrize(
    ("name", "cut", "options", "sizes"),
    [
        ("Blackjack-v1", None, {"start": "unknown", "terminal": "unknown"}, (9, 1409, 2)),
        ("Pendulum-v1", {"bins": 3}, {"start": "unknown"}, (9, 29, 3)),
        ("Pendulum-v1", {"bins": 2, "actions": [[-2, 0, 2]]}, {"start": "unknown"}, (9, 10, 3)),
        ("CartPole-v1", {"bins": [3, [0], 3, [0]]}, {"start": "unknown"}, (9, 38, 2)),
        ("MountainCar-v0", {"bins": (4, 3)}, {}, (8, 13, 3)),
        ("Taxi-v4", None, {}, (8, 500, 6)),
        ("CliffWalking-v1", None, {}, (8, 48, 4)),
    ],
)
def test_one_line_each(name, cut, options, sizes):
    env = gymnasium.make(name)
    run = explore(env if cut is None else hf.discretize(env, **cut), **options)
    assert run.problem.space.sizes == sizes
    assert run.evidence.impossible == 0
    episode = run.plan(np.zeros(sizes[1])).rollout(env if cut is None else hf.discretize(env, **cut))
    assert 1 <= len(episode.actions) <= 8
    assert (episode.states < sizes[1]).all()


def test_names_and_grids_of_toy_text_environments():
    run = explore(gymnasium.make("CliffWalking-v1"))
    assert [run.problem.action_name(a) for a in range(4)] == ["up", "right", "down", "left"]
    assert run.problem.layout["cells"][47].tolist() == [11, 3]
    assert (hf.goal(run.problem, (11, 3)) == hf.goal(run.problem, 47)).all()
    assert "cells" not in explore(gymnasium.make("FrozenLake-v1"), start="unknown").problem.layout


def test_discretize_names_cells_and_levels():
    env = hf.discretize(gymnasium.make("Pendulum-v1"), [1, [0.0], 3], actions=3)
    assert env.state_names[0] == "(any, < 0, < -2.667)"
    assert env.state_names[-1] == "over"
    assert env.action_names == ["(-2)", "(0)", "(2)"]
    mixed = Machines(Tuple([Discrete(2), Box(0, 1, (1,))]), Dict(on=Discrete(2), power=Box(-1, 1, (2,))))
    cut = hf.discretize(mixed, [[0.25, 0.5]], actions=[2, [0.5]])
    assert (cut.observation_space, cut.action_space) == (Discrete(7), Discrete(4))
    assert cut.cell((1, np.array([0.3], np.float32))) == 4
    assert cut.state_names[4] == "(1, 0.25 to 0.5)"
    power = cut.actions.decode(3)
    assert mixed.action_space.contains(power)
    assert power["power"].tolist() == [1.0, 0.5]
    rng = np.random.default_rng(0)
    assert all(cut.cell(cut.inside(s, rng)) == s for s in range(6))


def test_states_by_a_function_without_a_model():
    env = gymnasium.make("MountainCar-v0")
    run = explore(env, encode=lambda x: int(x[1] > 0) + 2 * int(x[0] > 0), num_states=4)
    assert run.problem.space.sizes == (8, 4, 3)
    assert run.problem.space.start == 0
    assert run.evidence.counts.sum() == 16


CAR, LAKE = gymnasium.make("MountainCar-v0"), gymnasium.make("FrozenLake-v1")
REFUSALS = [
    (lambda: explore(CAR), r"hf\.discretize\(env, 10\).*--param bins=10.*encode=function, num_states=100"),
    (lambda: hf.discretize(gymnasium.make("CartPole-v1"), 3), r"discretize\(env, \[3, \[-1, 0, 1\], 3, \[-1"),
    (lambda: hf.discretize(gymnasium.make("Pendulum-v1"), [3, 3, 3]), r"actions=5"),
    (lambda: hf.discretize(CAR, 3, actions=2), "leave out actions="),
    (lambda: hf.discretize(CAR), "bins is missing"),
    (lambda: hf.discretize(LAKE, 3), r"discretize is for a Box.*hf\.explore\(env"),
    (lambda: explore(hf.discretize(CAR, 200)), r"possible transitions.*hf\.discretize\(env, 5\)"),
    (lambda: explore(CAR, encode=len), "num_states=100"),
    (lambda: explore(LAKE, num_states=3), "num_states= belongs to encode="),
    (lambda: explore(CAR, encode=lambda x: 0, num_states=2, start="unknown"), "TransformObservation"),
    (lambda: explore(Machines(Text(3))), "wrap the environment so that it has finitely many"),
    (lambda: explore(gymnasium.make("CliffWalking-v1"), horizon=None), "horizon=100 .*--param horizon=100"),
    (lambda: explore(gymnasium.make("Blackjack-v1")), "start='unknown'.*--param start=unknown"),
    (lambda: explore(hf.make("river-swim")), "horizon= is for an environment"),
    (lambda: hf.explore("zoned-grid", episodes=3), r"hf\.explore\(hf\.make\('zoned-grid'\)"),
    (lambda: hf.explore("zoned-gird", episodes=3), r"hf\.explore\(hf\.make\('zoned-grid'\)"),
    (lambda: hf.explore("gymnasium:Taxi-v4", episodes=3), r"gymnasium\.make\('Taxi-v4'\)"),
]


@pytest.mark.parametrize("number", range(len(REFUSALS)))
def test_refusals_name_the_line_that_works(number):
    call, message = REFUSALS[number]
    with pytest.raises(HorizonfreeError, match=message):
        call()


@pytest.mark.parametrize(
    ("name", "own_keyword"),
    [("n_episodes", "episodes="), ("verbose", "progress="), ("random_state", "seed=")],
)
def test_keywords_of_other_libraries(name, own_keyword):
    with pytest.raises(UnknownNameError, match=f"no option '{name}'; write {own_keyword}"):
        hf.explore(hf.make("river-swim"), **{name: 5})


def test_episodes_that_end_by_chance_need_copies():
    with pytest.raises(HorizonfreeError, match="terminal='unknown'"):
        hf.explore(gymnasium.make("Blackjack-v1"), episodes=500, horizon=8, start="unknown", progress=False)


def test_goals_by_cell():
    grid = hf.make("zoned-grid", size=3, zones=2, horizon=6)
    cells = grid.layout["cells"]
    for s, cell in enumerate(cells):
        assert (hf.goal(grid, tuple(cell.tolist())) == hf.goal(grid, s)).all()
    assert (hf.goal(grid, [1, 2])[-1, :, 0] > 0).sum() == 2
    with pytest.raises(
        ShapeError, match=r"\(3, 1\) is no cell; columns are 0 to 2.*several states are a list, \[3, 1\]"
    ):
        hf.goal(grid, (3, 1))
    table = hf.Tabular(5, 2, horizon=3)
    with pytest.raises(
        ShapeError, match=r"\(3, 3\) is no state: a tuple is a cell.*no grid; states are 0 to 4; .* \[3, 3\]"
    ):
        hf.goal(table, (3, 3))


def test_a_bound_that_is_not_reached_gives_a_warning():
    river = hf.make("river-swim", states=4, horizon=8)
    with pytest.warns(TargetWarning, match=r"until_eps=0\.01 is not reached: 5 episodes certify"):
        run = hf.explore(river, episodes=5, until_eps=0.01, progress=False)
    with pytest.warns(TargetWarning, match="10 episodes certify"):
        run.resume(episodes=5, until_eps=0.01, progress=False)


def test_rollouts_of_simulated_problems_and_parts():
    chain = hf.make("river-swim", states=4, horizon=8)
    run = hf.explore(chain, episodes=20, progress=False)
    plan = run.plan(hf.goal(chain, 3))
    episode = plan.rollout(chain.to_gymnasium(), seed=1)
    assert len(episode.actions) == 8
    assert not episode.terminated
    repeated = plan.rollout(chain.to_gymnasium(), seed=1)
    assert all(np.array_equal(x, y) for x, y in zip(episode, repeated))
    with pytest.raises(ShapeError, match="needs Discrete"):
        plan.rollout(LAKE)
