"""The notation of bounded properties: what is read, what it means, and what is refused with the list."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError, OptionError, UnknownNameError
from horizonfree.mdp.events import LOST, OPEN, WON
from horizonfree.problems.verification.explicit import layout_of
from tests.reference import events as reference

RNG = np.random.default_rng(8)
P = RNG.dirichlet(np.ones(3), (3, 2))
MASKS = {"goal": np.array([False, False, True]), "bad": np.array([False, True, False])}
COST = np.array([[1.0, 2.0], [0.5, -1.0], [0.0, 3.0]])


@pytest.fixture(scope="module")
def problem():
    layout = layout_of(MASKS, {"cost": COST})
    return hf.Mixture.from_kernels([P], horizon=3, weights=[1.0], layout=layout, states=["a", "b", "c & d"])


@pytest.mark.parametrize(
    ("text", "decisions", "steps", "pays", "is_max"),
    [
        ('Pmax=? [F<=2 "goal"]', [OPEN, OPEN, WON], 2, (1, 0, 0), True),
        ('  P max = ? [ F <= 2 "goal" ] ', [OPEN, OPEN, WON], 2, (1, 0, 0), True),
        ('Pmin=? [F<3 "goal"]', [OPEN, OPEN, WON], 2, (1, 0, 0), False),
        ('Pmax=? [!"bad" U<=2 "goal"]', [OPEN, LOST, WON], 2, (1, 0, 0), True),
        ('Pmax=? [true U<=1 "c & d"]', [OPEN, OPEN, WON], 1, (1, 0, 0), True),
        ('Pmin=? [G<=2 !"bad"]', [OPEN, LOST, OPEN], 2, (0, 0, 1), False),
        ('Pmax=? [G<=2 ("goal" | "a")]', [OPEN, LOST, OPEN], 2, (0, 0, 1), True),
        ('Pmax=? [F<=2 "bad" => "goal"]', [WON, OPEN, WON], 2, (1, 0, 0), True),
        ('Pmax=? [F<=2 "a" | "b" & false]', [WON, OPEN, OPEN], 2, (1, 0, 0), True),
        ('Pmax=? [F<=2 !!"b"]', [OPEN, WON, OPEN], 2, (1, 0, 0), True),
    ],
)
def test_a_property_is_an_event_with_the_probability_of_all_sequences(
    text, decisions, steps, pays, is_max, problem
):
    event = hf.property(text).on_problem(problem)
    assert (event.decided.tolist(), event.steps, tuple(event.pays), event.is_max) == (
        decisions,
        steps,
        pays,
        is_max,
    )
    run = hf.explore(problem, "uniform", episodes=1, progress=False)
    plan = run.plan(hf.property(text))
    true = reference.best(P, [1, 0, 0], decisions, steps, pays, is_max)
    assert plan.value == pytest.approx(true, abs=1e-9)
    assert plan.value_low - 1e-9 <= true <= plan.value_high + 1e-9
    assert hf.true_gap(problem, hf.property(text), plan.policy) == pytest.approx(0, abs=1e-9)
    assert run.evaluate(hf.property(text), plan.policy).value == pytest.approx(true, abs=1e-9)


@pytest.mark.parametrize("steps", [1, 3])
def test_sums_of_rewards_are_backward_induction(steps, problem):
    run = hf.explore(problem, "uniform", episodes=1, progress=False)
    for is_max in (True, False):
        V, policies = np.zeros(3), []
        for _ in range(steps):
            Q = COST + P @ V
            V = Q.max(1) if is_max else Q.min(1)
            policies.append(Q.argmax(1) if is_max else Q.argmin(1))
        text = f'R{{"cost"}}{"max" if is_max else "min"}=? [C<={steps}]'
        plan = run.plan(hf.property(text))
        assert plan.value == pytest.approx(V[0])
        assert plan.value_low <= V[0] + 1e-9
        assert V[0] <= plan.value_high + 1e-9
        assert plan.policy.shape == (steps, 3)
        assert hf.true_gap(problem, hf.property(text), plan.policy) == pytest.approx(0, abs=1e-9)
        unnamed = run.plan(hf.property(text.replace('{"cost"}', "")))
        assert unnamed.value == plan.value


def test_a_property_is_certified_from_where_the_system_is(problem):
    run = hf.explore(problem, "uniform", episodes=1, progress=False)
    plan = run.plan(hf.property('Pmax=? [F<=1 "goal"]'), start=1)
    assert plan.value == pytest.approx(P[1, :, 2].max())
    assert "from b, within 1 steps" in plan.certificate.holds_for


@pytest.mark.parametrize(
    "text",
    [
        'Pmax=? [F "goal"]',
        'P>0.5 [F<=2 "goal"]',
        "Pmax=? [F<=2 x=4]",
        'Pmax=? [X "goal"]',
        'Pmax=? [F[1,3] "goal"]',
        'Pmax=? ["goal" U "bad"]',
        'Pmax=? [F<=2 "goal" "bad"]',
        'Pmax=? [F<=2 ("goal"]',
        "Pmax=? [F<=2 &]",
        "Pmax=? []",
        'Pmax=? [F<0 "goal"]',
        'Pmax=? [F<=9999999 "goal"]',
        'Pmax=? [F<=12345678901 "goal"]',
        'Pmax=? [F<=2 F<=3 "goal"]',
        'R{"cost"}max=? [F "goal"]',
        "R=? [I=3]",
        'P{"cost"}max=? [F<=2 "goal"]',
        'S=? ["goal"]',
        "",
        7,
        None,
    ],
)
def test_everything_else_is_refused_with_the_list(text, problem):
    with pytest.raises(OptionError, match=r"not supported: .*; supported are Pmax=\?"):
        hf.property(text)


def test_names_that_do_not_exist_and_a_missing_direction_are_refused(problem):
    with pytest.raises(UnknownNameError, match="goall"):
        hf.property('Pmax=? [F<=2 "goall"]').on_problem(problem)
    with pytest.raises(UnknownNameError, match="did you mean 'cost'"):
        hf.property('R{"cots"}max=? [C<=2]').on_problem(problem)
    with pytest.raises(OptionError, match="max or min is missing"):
        hf.property('P=? [F<=2 "goal"]').on_problem(problem)
    chain = hf.Mixture.from_kernels([P[:, :1]], horizon=3, weights=[1.0])
    assert hf.property('P=? [F<=2 "2"]').on_problem(chain).is_max
    with pytest.raises(UnknownNameError, match="no rewards with names"):
        hf.property('R{"x"}=? [C<=2]').on_problem(chain)


def test_labels_are_names_of_states_everywhere(problem):
    assert problem.labels == {"goal": [2], "bad": [1]}
    np.testing.assert_array_equal(hf.goal(problem, "goal"), hf.goal(problem, 2))
    np.testing.assert_array_equal(hf.occupancy(problem, ["goal", "b", 0]), hf.occupancy(problem, [2, 1, 0]))
    np.testing.assert_array_equal(problem.reward("cost"), COST)
    with pytest.raises(HorizonfreeError):
        hf.goal(problem, "nowhere")


def test_labels_and_rewards_belong_to_the_states_of_a_part_and_are_stored(tmp_path):
    kernel = np.zeros((4, 1, 4))
    kernel[0, 0, 2] = kernel[1, 0, 3] = kernel[2, 0, 2] = kernel[3, 0, 3] = 1
    layout = layout_of({"two": np.arange(4) == 2}, {"r": np.arange(4.0)[:, None]})
    problem = hf.Mixture.from_kernels([kernel], horizon=3, weights=[1.0], layout=layout)
    part = problem.reachable_part()
    assert part.num_states == 2
    assert part.labels == {"two": [1]}
    assert part.reward("r").ravel().tolist() == [0.0, 2.0]
    hf.explore(part, "uniform", episodes=1, progress=False, out=tmp_path / "run")
    loaded = hf.load(tmp_path / "run")
    assert loaded.problem.labels == {"two": [1]}
    assert loaded.plan(hf.property('Pmax=? [F<=1 "two"]')).value == pytest.approx(1)
