"""Events on lifted states, against sums over all sequences of states."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError
from horizonfree.mdp.events import LOST, OPEN, WON, Event, Worth
from horizonfree.mdp.rewards import max_total
from horizonfree.planning import evaluate, optimal
from tests.reference import events as reference

RNG = np.random.default_rng(11)
CASES = [
    (Worth(1.0, 0.0, 0.0), True),
    (Worth(1.0, 0.0, 0.0), False),
    (Worth(0.0, 0.0, 1.0), True),
    (Worth(0.0, 0.0, 1.0), False),
    (Worth(0.0, 1.0, 1.0), True),
]


def make_problem(P, horizon, start=0, **options):
    return hf.Mixture.from_kernels([P], horizon=horizon, weights=[1.0], start=start, **options)


@pytest.mark.parametrize("start", [0, [0.5, 0.25, 0.25]])
@pytest.mark.parametrize(("pays", "is_max"), CASES)
def test_the_value_on_lifted_states_is_the_sum_over_all_sequences(pays, is_max, start):
    P = RNG.dirichlet(np.ones(3), (3, 2))
    problem = make_problem(P, 3, start)
    first = np.eye(3)[0] if start == 0 else np.array(start)
    for decisions in (
        [OPEN, WON, LOST],
        [OPEN, OPEN, WON],
        [WON, OPEN, OPEN],
        [OPEN, OPEN, OPEN],
        [LOST, WON, WON],
    ):
        for steps in (1, 2):
            event = Event(np.array(decisions), steps, pays, is_max)
            space = problem.with_start(None, steps + 1, is_paid_after=True).space
            lift, table = event.lift(space), event.reward(space)
            kernel = lift.kernel(problem.kernel())
            np.testing.assert_allclose(np.asarray(kernel.prob).sum(-1), 1)
            value = float(lift.space.at_start(optimal(kernel, table).V[0]))
            value = value if is_max else 1 - value
            assert value == pytest.approx(reference.best(P, first, decisions, steps, pays, is_max), abs=1e-12)
            policy = RNG.integers(2, size=(steps + 1, 3))
            lifted_value = float(lift.space.at_start(evaluate(kernel, table, policy[:, lift.origin])[0]))
            true = reference.probability(P, first, policy, decisions, steps, pays)
            assert (lifted_value if is_max else 1 - lifted_value) == pytest.approx(true, abs=1e-12)
            totals = max_total(lift.space, table)
            assert totals[0, lift.space.starts()].max() <= 1


@pytest.mark.parametrize(("S", "A", "H"), [(1, 1, 1), (1, 2, 5), (2, 1, 500), (4, 3, 12)])
def test_reaching_is_backward_induction_for_all_sizes(S, A, H):
    P = RNG.dirichlet(np.ones(S), (S, A))
    problem = make_problem(P, H)
    event = hf.reach(problem, [S - 1], within=H)
    assert event.steps == H
    run = hf.explore(problem, "uniform", episodes=1, progress=False)
    plan = run.plan(event)
    assert plan.policy.shape == (H, S)
    target = np.arange(S) == S - 1
    assert plan.value == pytest.approx(reference.reached_within(P, target, H)[0], abs=1e-9)
    assert hf.true_gap(problem, event, plan.policy) == pytest.approx(0, abs=1e-9)


def test_reaching_is_at_least_ending_there_and_deterministic_kernels_are_exact():
    P = np.zeros((3, 2, 3))
    P[0, 0, 1] = P[0, 1, 0] = P[1, :, 2] = P[2, :, 0] = 1  # a way through 1 and 2 back to 0
    problem = make_problem(P, 3)
    run = hf.explore(problem, "uniform", episodes=1, progress=False)
    assert run.plan(hf.reach(problem, 1)).value == pytest.approx(1)
    assert run.plan(hf.reach(problem, 2, within=1), delta=0.5).value == pytest.approx(0)
    P = RNG.dirichlet(np.ones(3), (3, 2))
    problem = make_problem(P, 4)
    run = hf.explore(problem, "uniform", episodes=1, progress=False)
    for s in range(3):
        assert run.plan(hf.reach(problem, s)).value >= run.plan(hf.goal(problem, s)).value - 1e-12


def test_events_of_other_problems_and_odd_bounds_are_refused():
    problem = make_problem(RNG.dirichlet(np.ones(3), (3, 2)), 4)
    run = hf.explore(problem, "uniform", episodes=1, progress=False)
    with pytest.raises(HorizonfreeError, match="0 to 4"):
        hf.reach(problem, 0, within=5)
    with pytest.raises(HorizonfreeError, match="0 to 2"):
        hf.reach(problem, 3)
    with pytest.raises(HorizonfreeError, match="in 0 steps"):
        run.plan(hf.reach(problem, 2, within=0))
    with pytest.raises(HorizonfreeError, match="5 states, this one has 3"):
        run.plan(Event(np.zeros(5, int), 2))
    with pytest.raises(HorizonfreeError, match=r"at most .* are possible: ask for fewer"):
        Event(np.zeros(3, int), 10**8).reward(problem.space)
    event = hf.reach(problem, 2)
    for options in ({"scale": "rescale"}, {"discount": 0.9}, {"final": [0, 0, 1]}, {"horizon": 2}):
        with pytest.raises(HorizonfreeError, match="are for rewards"):
            run.plan(event, **options)
    with pytest.raises(HorizonfreeError, match="misspecification"):
        run.plan(event, misspecification=0.01)
    with pytest.raises(HorizonfreeError, match="maximum-likelihood estimate"):
        run.plan(event, model="explorer")
    with pytest.raises(HorizonfreeError, match="policy has shape"):
        run.evaluate(event, np.zeros((7, 3), int))


def test_forbidden_actions_are_not_taken():
    P = RNG.dirichlet(np.ones(3), (3, 2))
    allowed = np.array([[True, False], [True, True], [False, True]])
    problem = make_problem(P, 3, actions_allowed=allowed)
    run = hf.explore(problem, "uniform", episodes=1, progress=False)
    event = hf.reach(problem, 2, within=2)
    plan = run.plan(event)
    true = reference.best(P, np.eye(3)[0], [0, 0, 1], 2, event.pays, True, allowed)
    assert plan.value == pytest.approx(true, abs=1e-12)
    assert allowed[np.arange(3), plan.policy].all()
    with pytest.raises(HorizonfreeError, match="does not allow"):
        run.evaluate(event, np.ones((2, 3), int))
