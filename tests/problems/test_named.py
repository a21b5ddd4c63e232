"""Named problems: each is a valid member of its class, equals its description, and says clearly what it refuses."""

import inspect
import itertools
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from horizonfree.errors import FeatureError, OptionError, UnknownNameError
from horizonfree.mdp.space import check_kernel
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.problems import Problem, make, problems
from tests.reference import memory

NAMES = sorted(problems())
# How many directions of the parameter can be learnt, with the default parameters.
NUM_FREE = {
    "combination-lock": 2,  # codes - 1
    "double-chain": 1,
    "hard-instance": 3,  # d - 1
    "inventory": 2,  # models - 1
    "linear-lock": 8 * 79,  # d (S - 1)
    "queue": 2,  # models - 1
    "random-mixture": 4,  # d - 1
    "rfe-lower-bound": 5,  # d - 1
    "river-swim": 2,
    "rooms": 1,
    "soft-aggregation": 6 * 99,  # d (S - 1)
    "vtr-lower-bound": 18,  # H (d - 1)
    "zoned-grid": 4,  # zones
}


def largest_norm(model: MixtureModel) -> float:
    """max over (s,a) and V of ||phi_V(s,a)||: a convex function of V, so over the vertices {0,1}^n."""
    n = model.phi.shape[2]
    vertices = np.array(list(itertools.product([0.0, 1.0], repeat=n)))
    return float(np.linalg.norm(vertices @ np.asarray(model.phi), axis=-1).max())


def optimal_and_worst(problem: Problem, reward: np.ndarray) -> tuple[float, float]:
    """The largest and the smallest value over all policies, by backward induction on the full table."""
    P = problem.kernel().dense()
    best = worst = np.zeros(problem.num_states)
    for r in reward[::-1]:
        best, worst = (r + P @ best).max(axis=1), (r + P @ worst).min(axis=1)
    return float(best[problem.start]), float(worst[problem.start])


def assert_is_of_its_class(problem: Problem) -> None:
    model = problem.model
    check_kernel(problem.kernel())
    if isinstance(model, MixtureModel):
        assert model.valid.contains(problem.truth)
        assert np.linalg.norm(problem.truth) <= model.bound * (1 + 1e-12)
        if model.phi.shape[2] <= 12:
            assert largest_norm(model) <= 1 + 1e-12
    if "cells" in problem.layout:
        assert problem.layout["cells"].shape == (problem.num_states, 2)
        assert len(np.unique(problem.layout["cells"], axis=0)) == problem.num_states
    if "actions" in problem.layout:
        assert len(problem.layout["actions"]) == problem.num_actions


def test_the_table_of_free_directions_names_every_problem():
    assert sorted(NUM_FREE) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_default_problem_is_of_its_class_with_known_free_directions(name):
    problem = make(name)
    assert_is_of_its_class(problem)
    assert problem.model.num_unknown == NUM_FREE[name]
    # Every state is reached by some policy within the episode, its end included.
    space = problem.space
    reached = {space.start}
    for _ in range(space.horizon):
        states = np.array(sorted(reached))
        reached |= set(space.succ[states][space.support[states]].tolist())
    assert len(reached) == space.num_states


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_builds_the_same_problem_again_also_through_json(name):
    problem = make(name)
    recipe = json.loads(json.dumps(problem.recipe))
    rebuilt = make(recipe["name"], **recipe["parameters"])
    assert problem.name == rebuilt.name == name
    assert rebuilt.recipe == problem.recipe
    np.testing.assert_array_equal(rebuilt.model.phi, problem.model.phi)
    np.testing.assert_array_equal(rebuilt.truth, problem.truth)


def test_the_description_follows_from_the_function(subtests):
    for name in NAMES:
        with subtests.test(name):
            spec = problems()[name]
            signature = inspect.signature(spec.build).parameters
            assert {p.name: p.default for p in spec.parameters} == {
                k: p.default for k, p in signature.items()
            }
            assert spec.description.endswith(".")
            assert len(spec.source) > 10
            for parameter in spec.parameters:
                assert parameter.check(parameter.default) == parameter.default
                assert type(parameter.default) is parameter.type
                assert parameter.meaning


@st.composite
def random_problem(draw):
    """A problem with small parameters, each within its own range."""
    spec = problems()[draw(st.sampled_from(NAMES))]
    values = {}
    for p in spec.parameters:
        room = {"seed": 10**6, "episodes": 1000}.get(p.name, 4)
        if p.type is int:
            values[p.name] = draw(st.integers(int(p.low), int(min(p.high, p.low + room))))
        else:
            values[p.name] = draw(st.floats(p.low, min(p.high, 2.0)))
    return spec.name, values


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(random_problem())
def test_whatever_is_not_refused_is_of_its_class(drawn_problem):
    name, values = drawn_problem
    try:
        problem = make(name, **values)
    except OptionError:
        reject()
    assert_is_of_its_class(problem)
    assert problem.recipe["parameters"] == values


OUT_OF_RANGE = [
    ("zoned-grid", {"size": 1}, ["size is 1", "from 2 to 200"]),
    ("zoned-grid", {"size": 3}, ["size is 3", "at least 4"]),
    ("zoned-grid", {"size": 8.0}, ["size is 8.0", "an integer"]),
    ("zoned-grid", {"size": True}, ["size is True"]),
    ("zoned-grid", {"horizon": 0}, ["horizon is 0", "from 1 to 1000000"]),
    ("zoned-grid", {"horizon": 2000000}, ["horizon is 2000000", "from 1 to 1000000"]),
    ("zoned-grid", {"seed": -1}, ["seed is -1", "from 0 to 9223372036854775807"]),
    ("double-chain", {"fail": float("nan")}, ["fail is nan", "from 0 to 1"]),
    ("double-chain", {"fail": "0.1"}, ["fail is '0.1'", "a number"]),
    ("river-swim", {"forward": 0.7, "backward": 0.4}, ["1 - forward - backward is -0.1"]),
    ("combination-lock", {"codes": 5}, ["keys is 4", "at least 5"]),
    ("random-mixture", {"successors": 21}, ["states is 20", "at least 21"]),
    ("hard-instance", {"episodes": 47}, ["episodes is 47", "at least 48"]),
    ("hard-instance", {"bound": 1.03}, ["bound is 1.03", "at least 1.03125"]),
    ("hard-instance", {"episodes": 10**15, "bound": 1.0}, ["bound is 1;", "at least 1.00000001:"]),
    ("vtr-lower-bound", {"episodes": 26}, ["episodes is 26", "at least 27"]),
    ("vtr-lower-bound", {"dim": 3}, ["dim is 3", "from 4"]),
    ("rfe-lower-bound", {"gap": 0.9}, ["gap is 0.9", "0.848528"]),
]


def test_a_value_out_of_range_is_refused_with_its_name_and_range(subtests):
    for name, values, message in OUT_OF_RANGE:
        with subtests.test(name, values=values):
            with pytest.raises(OptionError) as error:
                make(name, **values)
            for word in message:
                assert word in str(error.value)


@pytest.mark.parametrize(
    ("name", "values", "refused_value"),
    [
        *[
            ("hard-instance", {"dim": d, "episodes": K}, {"bound": 1.0})
            for d in (2, 9)
            for K in (300, 10**15)
        ],
        *[("rfe-lower-bound", {"dim": d}, {"gap": 0.999}) for d in range(4, 13)],
    ],
)
def test_the_limit_in_a_refusal_is_accepted_when_it_is_given_back(name, values, refused_value):
    (option,) = refused_value
    with pytest.raises(OptionError) as error:
        make(name, **values, **refused_value)
    name_in_text, limit = re.search(
        rf"{option} is (\S+); it must be at (?:least|most) (\S+):", str(error.value)
    ).groups()
    assert name_in_text != limit
    make(name, **values, **{option: float(limit)})


def test_a_wrong_name_is_answered_with_the_closest():
    with pytest.raises(UnknownNameError, match="'zonedgrid'; did you mean 'zoned-grid'"):
        make("zonedgrid")
    with pytest.raises(UnknownNameError, match="has no parameter 'sise'; did you mean 'size'"):
        make("zoned-grid", sise=4)
    with pytest.raises(UnknownNameError, match="choose one of: combination-lock, double-chain"):
        make("%%%")
    for name in (None, 5, ["%%%"]):
        with pytest.raises(
            UnknownNameError, match=re.escape(f"no problem {name!r}; choose one of: combination-lock")
        ):
            make(name)
    with pytest.raises(OptionError, match="needs a horizon"):
        make("gymnasium:FrozenLake-v1")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("combination-lock", {"length": 1000, "keys": 6, "codes": 6}),
        ("double-chain", {"length": 10001}),
        ("inventory", {"capacity": 500, "max_order": 20, "models": 2}),
        ("queue", {"capacity": 500, "speeds": 4, "models": 2}),
        ("river-swim", {"states": 1000}),
        ("rooms", {"columns": 10, "rows": 10}),
        ("zoned-grid", {"size": 60}),
    ],
)
def test_memory_is_proportional_to_the_transitions_that_exist(name, values):
    with memory.peak_memory() as peak_bytes:
        model = make(name, **values).model
        peak = peak_bytes()
    # Listing and sorting the transitions takes up to 44 times phi; full tables took 80 to 6000 times as much.
    assert peak < 60 * np.asarray(model.phi).nbytes


def test_a_problem_too_large_is_refused_before_it_is_drawn():
    largest = {p.name: p.high for p in problems()["random-mixture"].parameters}
    with pytest.raises(FeatureError, match="phi would take"):
        make("random-mixture", **largest)
    # More than half of the states as successors: every state is kept.
    with pytest.raises(FeatureError, match=r"phi would take 11\.9 GiB"):
        make("random-mixture", states=40000, actions=1, dim=1, successors=20001)


def test_the_library_works_without_gymnasium():
    code = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "from horizonfree.problems import make\n"
        "assert make('double-chain').num_states == 31"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_zoned_grid_slips_as_its_zone_says():
    size, zones = 5, 2
    problem = make("zoned-grid", size=size, zones=zones, seed=3)
    theta = (problem.truth / problem.model.unit).reshape(zones, 2)
    np.testing.assert_allclose(theta.sum(axis=1), 1, atol=1e-15)
    assert ((theta[:, 0] >= 0.3) & (theta[:, 0] <= 0.95)).all()
    table = np.zeros((25, 4, 25))
    for row, column, a, b in itertools.product(range(size), range(size), range(4), range(4)):
        dx, dy = [(0, -1), (1, 0), (0, 1), (-1, 0)][b]
        x, y = min(max(column + dx, 0), size - 1), min(max(row + dy, 0), size - 1)
        z = column * zones // size
        table[row * size + column, a, y * size + x] += theta[z, 0] if a == b else theta[z, 1] / 3
    np.testing.assert_allclose(problem.kernel().dense(), table, atol=1e-15)


def test_rooms_have_doors_and_nothing_else_between_them():
    problem = make("rooms", slip=0.0)
    # 15 rooms of 25 cells, 4 doors in each of 3 rows, 5 doors in each of 2 walls across.
    assert problem.num_states == 15 * 25 + 4 * 3 + 5 * 2
    assert len(problem.layout["walls"]) + problem.num_states == 29 * 17
    assert problem.layout["cells"][problem.start].tolist() == [14, 8]
    P = problem.kernel().dense()
    cells = problem.layout["cells"]
    steps = np.abs(cells[:, None] - cells[None]).sum(axis=-1)
    assert steps[P.any(axis=1)].max() == 1
    moves = P.any(axis=1) & (steps == 1)
    assert (moves == moves.T).all()  # every move can be undone
    assert moves.sum() / 2 == 15 * 40 + 2 * 22  # 40 pairs of neighbours in a room, two at each door


def test_river_swim_is_the_chain_with_three_outcomes():
    P = make("river-swim", states=4, forward=0.3, backward=0.1).kernel().dense()
    np.testing.assert_allclose(P[:, 0], np.eye(4)[[0, 0, 1, 2]], atol=1e-15)
    swim = [[0.7, 0.3, 0, 0], [0.1, 0.6, 0.3, 0], [0, 0.1, 0.6, 0.3], [0, 0, 0.1, 0.9]]
    np.testing.assert_allclose(P[:, 1], swim, atol=1e-15)


def test_a_river_without_hold_is_accepted_whatever_the_rounding(subtests):
    for percent in range(101):
        with subtests.test(percent=percent):
            P = (
                make("river-swim", states=4, forward=percent / 100, backward=(100 - percent) / 100)
                .kernel()
                .dense()
            )
            np.testing.assert_allclose(P.sum(axis=-1), 1, atol=1e-12)
            assert P.min() >= 0
            np.testing.assert_allclose(P[1, 1], [1 - percent / 100, 0, percent / 100, 0], atol=1e-15)


def test_double_chain_starts_in_the_middle_and_fails_as_told():
    problem = make("double-chain", length=5, fail=0.2)
    P = problem.kernel().dense()
    assert problem.start == 2
    np.testing.assert_allclose(P[2], [[0, 0.8, 0, 0.2, 0], [0, 0.2, 0, 0.8, 0]], atol=1e-15)
    np.testing.assert_allclose(P[0, 0], [0.8, 0.2, 0, 0, 0], atol=1e-15)


@pytest.mark.parametrize("seed", range(5))
def test_a_lock_opens_in_time_with_the_power_of_its_reliability(seed):
    problem = make("combination-lock", length=5, horizon=6, reliability=0.7, seed=seed)
    reward = np.zeros((6, 6, 4))
    reward[5, 5] = 1  # open at the last step: five right keys in a row from the start
    best, worst = optimal_and_worst(problem, reward)
    assert best == pytest.approx(0.7**5, abs=1e-12)
    assert worst == pytest.approx(0, abs=1e-12)  # the fourth key is in no code
    np.testing.assert_allclose(problem.kernel().dense()[5], np.eye(6)[[5] * 4], atol=1e-15)  # open for good


def test_inventory_sells_the_mean_demand_when_the_shelf_is_full_enough():
    problem = make("inventory", capacity=20, max_order=3, models=3)
    P = problem.kernel().dense()
    mean = 20 - P[20, 0] @ np.arange(21)
    weights = problem.truth / problem.model.unit
    # Poisson means 1, 2.5, 4; demand above 8 is counted as 8.
    pmf = np.array([[np.exp(-m) * m**k / np.prod(range(1, k + 1)) for k in range(8)] for m in (1, 2.5, 4)])
    expected = weights @ (pmf @ np.arange(8) + 8 * (1 - pmf.sum(axis=1)))
    assert mean == pytest.approx(expected, abs=1e-12)
    for s, a in itertools.product(range(21), range(4)):
        np.testing.assert_array_equal(P[s, a], P[min(s + a, 20), 0])  # only stock after delivery counts
    np.testing.assert_allclose(P[0, 0], np.eye(21)[0], atol=1e-15)  # nothing to sell
    assert P[12, 2] @ np.arange(21) == pytest.approx(14 - mean, abs=1e-12)


def test_a_queue_drifts_by_arrivals_minus_service():
    problem = make("queue", capacity=20, speeds=3, models=2)
    P = problem.kernel().dense()
    length = np.arange(21)
    arrivals = P[0, 0] @ length  # no one is in an empty queue
    for s, a in itertools.product(range(1, 17), range(3)):
        assert P[s, a] @ length == pytest.approx(s - (a + 1) / 4 + arrivals, abs=1e-12)
    assert 0.2 < arrivals < 1.0


def test_random_mixture_has_the_asked_number_of_successors():
    problem = make("random-mixture", states=12, successors=3, dim=4)
    assert ((problem.kernel().dense() > 0).sum(axis=-1) == 3).all()
    assert problem.model.dim == 4
    assert make("random-mixture", states=6, successors=6).space.is_dense


def test_a_name_may_have_the_present_version():
    assert make("river-swim-v1").name == "river-swim"
    assert problems()["river-swim"].versioned_name == "river-swim-v1"
    with pytest.raises(UnknownNameError, match="river-swim-v1"):
        make("river-swim-v2")
