"""Marked states in the playground: its answers are those of `run.plan` with a constraint."""

from typing import Any

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import OptionError
from horizonfree.planning import evaluate, visits
from horizonfree.runs.run import Run
from horizonfree.web import bounded
from horizonfree.web.session import Session
from tests.report.example_runs import grid, logged, rejected_run, run_with_starts, table

from .client import Client, question

MARKS, BOUND = [5, 6, 9], 0.2


@pytest.fixture(scope="module")
def run() -> Run:
    return grid(episodes=300)


@pytest.fixture(scope="module")
def session(run: Run) -> Session:
    return Session(run)


def ask(session: Session, **changes: Any) -> dict[str, Any]:
    return session.plan(question(avoid=MARKS, bound=BOUND) | changes)


def painted(when: str) -> Any:
    """The reward of `question`."""
    reward = np.zeros((8, 16, 4))
    if when == "end":
        reward[7, 10], reward[7, 3] = 1.0, 0.5
    else:
        reward[:, 10], reward[:, 3] = 1 / 8, 0.5 / 8
    return reward


def plan_within(run: Run, reward: Any, marks: list[int] = MARKS, bound: float = BOUND, **options: Any) -> Any:
    constraint = hf.at_most(hf.reach(run.problem, marks), bound)
    return run.plan(reward, constraints=[constraint], **options)


@pytest.mark.parametrize("when", ["end", "along", "reach"])
def test_a_plan_within_a_bound_is_the_one_of_the_run(session: Session, run: Run, when: str) -> None:
    reward = hf.reach(run.problem, [3, 10]) if when == "reach" else painted(when)
    plan, answer = plan_within(run, reward), ask(session, when=when)
    assert answer["bounded"]["status"] == plan.status == "feasible"
    assert answer["bounded"]["risk_summary"] == plan.constraints[0].summary()
    assert answer["bounded"]["risk"] == pytest.approx(plan.constraints[0].value, abs=1e-14)
    assert answer["summary"] == plan.certificate.summary()
    assert answer["value"] == pytest.approx(plan.value, abs=1e-14)
    numbers = (answer["gap"], answer["value_low"], answer["value_high"])
    assert numbers == (plan.gap, plan.value_low, plan.value_high)
    last = 2 ** (len(plan.memory.events) - 1) * 16
    for is_after, first in ((False, 0), (True, last)):
        for step in range(8):
            policy, rules = (
                ask(session, when=when, step=step, after=is_after),
                plan.policy[step, first : first + 16],
            )
            assert policy["policy"] == rules.argmax(-1).tolist()
            drawn_in = {s: dict(map(tuple, actions)) for s, actions in policy["draws"]}
            for s in range(16):
                expected = {a: p for a, p in enumerate(rules[s]) if p > 0}
                assert drawn_in.get(s, {policy["policy"][s]: 1.0}) == expected
    share = plan.occupancy.sum(0).reshape(-1, 16).sum(0) / 8
    np.testing.assert_allclose(answer["occupancy"], share, atol=1e-6)


def test_values_are_those_before_and_after_a_marked_state(session: Session, run: Run) -> None:
    plan = plan_within(run, painted("end"))
    V = evaluate(plan.kernel, painted("end")[:, np.tile(np.arange(16), 2)], plan.policy)
    for is_after in (False, True):
        answer_shown = ask(session, step=2, after=is_after)
        np.testing.assert_allclose(answer_shown["values"], V[2].reshape(2, 16)[int(is_after)], atol=1e-6)
    free = evaluate(plan.kernel, painted("end")[:, np.tile(np.arange(16), 2)], plan.policy)[2][16:]
    best = session.plan(question(step=2))["values"]
    np.testing.assert_allclose(free, best, atol=1e-6)  # nothing is left to lose


def test_a_policy_draws_and_its_episodes_are_drawn(session: Session, run: Run) -> None:
    """As often as the truth says they enter a marked state, which is within the bound."""
    plan = plan_within(run, painted("end"))
    assert any(ask(session, step=h, after=a)["draws"] for h in range(8) for a in (False, True))
    true_risk = ask(session)["bounded"]["true_risk"]
    lift = plan.memory.lift
    d = visits(lift.kernel(run.problem.kernel()), plan.policy, np.eye(32)[run.problem.space.start])
    entered_mass = d.sum(-1)[:, MARKS].sum()  # rows of states that were entered just now
    assert true_risk == pytest.approx(entered_mass, abs=1e-12)
    assert true_risk <= BOUND
    episodes = [ask(session, seed=seed)["episode"] for seed in range(600)]
    share = np.mean([bool(set(states[:-1]) & set(MARKS)) for states in episodes])
    assert share == pytest.approx(true_risk, abs=5 * np.sqrt(true_risk * (1 - true_risk) / 600))
    assert all(max(states) < 16 for states in episodes)


def test_a_bound_from_another_state_is_in_the_estimate_and_not_certified(session: Session, run: Run) -> None:
    answer, home = ask(session, start=4), ask(session)
    assert answer["bounded"]["risk"] != home["bounded"]["risk"]
    assert answer["bounded"]["risk_summary"] == home["bounded"]["risk_summary"]
    assert answer["value_low"] is None
    assert answer["episode"][0] == 4
    assert ask(session, start=5)["bounded"]["risk"] == 1


def test_without_marks_it_is_the_plan_without_a_bound(session: Session) -> None:
    unbounded = session.plan(question())
    assert unbounded["bounded"] is None
    assert unbounded["draws"] == []
    assert ask(session, avoid=[]) == ask(session, avoid=[], bound=None) == unbounded
    assert ask(session)["likely"] is None


def test_costs_and_marks_of_one_state(session: Session, run: Run) -> None:
    weights = [[5, -1.0], [6, 1.0], [10, 1.0]]
    reward = np.zeros((8, 16, 4))
    reward[:, 5], reward[:, [6, 10]] = -1 / 8, 1 / 8
    plan = plan_within(run, reward, scale="rescale")
    answer = ask(session, weights=weights, when="along")
    assert answer["value"] == pytest.approx(plan.value, abs=1e-14)
    assert (answer["gap"], answer["value_low"]) == (plan.gap, plan.value_low)


@pytest.mark.parametrize(
    ("marks", "bound", "status"),
    [
        (list(range(16)), 0.5, "infeasible"),
        ([0], 0.99, "infeasible"),
        ([0, 3], 1.0, "feasible"),
        ([10], 0.0, "infeasible"),
        ([1], 0.128, "undecided"),
        ([3, 10], 0.01, None),
    ],
)
def test_marks_of_every_state_of_the_start_and_of_the_goal(
    session: Session, run: Run, marks: list[int], bound: float, status: str | None
) -> None:
    answer, plan = ask(session, avoid=marks, bound=bound), plan_within(run, painted("end"), marks, bound)
    assert answer["bounded"]["status"] == plan.status
    assert status in (None, plan.status)
    assert answer["bounded"]["forecast"] == plan.certificate.forecast
    assert answer["summary"] == plan.certificate.summary()
    if 0 in marks:
        assert answer["bounded"]["risk"] == answer["bounded"]["true_risk"] == 1
    assert bool(answer["bounded"]["forecast"]) == (plan.status == "undecided")


def test_other_runs() -> None:
    """Logs, tables, a drawn start and refuted classes."""
    logged_answer = Session(logged()).plan({"weights": [[3, 1.0]], "when": "end", "avoid": [1], "bound": 0.5})
    assert logged_answer["bounded"]["true_risk"] is None
    unknown = table()
    table_answer = Session(unknown).plan(
        {"weights": [[14, 1.0]], "when": "end", "avoid": [5, 7], "bound": 0.4}
    )
    plan = plan_within(unknown, hf.goal(unknown.problem, 14), [5, 7], 0.4)
    assert (table_answer["bounded"]["status"], table_answer["gap"]) == (plan.status, plan.gap)
    start = Session(run_with_starts((1, 8))).plan(
        {"weights": [[14, 1.0]], "when": "end", "avoid": [8], "bound": 0.9}
    )
    assert start["bounded"]["risk"] >= 0.5
    wrong = Session(rejected_run()).plan({"weights": [[3, 1.0]], "when": "end", "avoid": [1], "bound": 0.4})
    assert wrong["is_rejected"]
    assert wrong["bounded"]["status"] == "undecided"


QUESTIONS = [
    ({"bound": 1.1}, "bound is 1.1; it must be a probability, 0 to 1"),
    ({"bound": -0.01}, "bound is -0.01"),
    ({"bound": None}, "bound is None"),
    ({"bound": "0.1"}, "bound is '0.1'"),
    ({"bound": True}, "bound is True"),
    ({"bound": 7, "avoid": []}, "bound is 7"),
    ({"avoid": [16]}, "avoid[0] is 16; it must be an integer from 0 to 15"),
    ({"avoid": [3, -1]}, "avoid[1] is -1"),
    ({"avoid": [3, 4, 3]}, "avoid has a state twice"),
    ({"avoid": [1.0]}, "avoid[0] is 1.0"),
    ({"avoid": [True]}, "avoid[0] is True"),
    ({"avoid": {"1": 1}}, "avoid must be a list of states"),
    ({"avoid": None}, "avoid must be a list of states"),
    ({"after": 1}, "after is 1; it must be true or false"),
    ({"misspecification": 3}, "set misspecification to 0"),
]


def test_a_bound_that_makes_no_sense_is_refused_with_the_reason(run: Run, subtests: pytest.Subtests) -> None:
    client = Client(run)
    for changes, reason in QUESTIONS:
        with subtests.test(str(changes)):
            request = question(avoid=MARKS, bound=BOUND) | changes
            response = client.post("/api/plan", json=request)
            assert response.status_code == 422
            assert reason in response.json()["error"]


def test_runs_that_have_no_such_plans_say_why(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Session(run).problem()["bound_refusal"] is None
    assert Session(rejected_run()).problem()["bound_refusal"] is None
    phi = np.random.default_rng(0).dirichlet(np.ones(2), (4, 2))
    linear = hf.LinearMDP.from_features(phi, horizon=4, mu=np.full((2, 4), 0.25))

    def step(s: int, a: int, rng: np.random.Generator) -> int:
        return int(min(s + rng.integers(2), 3))

    sampled = hf.from_simulators([step, step], num_states=4, num_actions=2, samples=50, horizon=4)
    runs = {
        "certificates of linear MDPs": hf.explore(linear, "uniform", episodes=5, progress=False),
        "estimated from samples": hf.from_episodes(sampled, ([[0, 1, 1, 2, 2]], [[0, 1, 1, 0]])),
        "one step an episode": hf.explore(
            hf.make("zoned-grid", size=2, zones=1, horizon=1), episodes=2, progress=False
        ),
    }
    for message, refused_run in runs.items():
        other_session = Session(refused_run)
        refusal = other_session.problem()["bound_refusal"]
        assert refusal.startswith("Not for this run: ")
        assert message in refusal
        with pytest.raises(OptionError) as error:
            other_session.plan({"weights": [[3, 1.0]], "when": "end", "avoid": [1], "bound": 0.1})
        assert str(error.value) == refusal
    monkeypatch.setattr(bounded, "MAX_TRANSITIONS", 1000)
    large = Client(run)
    reason = large.get("/api/problem").json()["bound_refusal"]
    assert reason.startswith(
        "A plan within a bound takes minutes for 8 steps, 16 states and 4 actions; at the shell: "
    )
    response = large.post("/api/plan", json=question(avoid=MARKS, bound=BOUND))
    assert (response.status_code, response.json()["error"]) == (422, reason)
    assert large.post("/api/plan", json=question()).status_code == 200
