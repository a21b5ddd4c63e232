"""The playground where the first state is drawn: -1 stands for the draw."""

from typing import Any

import pytest

import horizonfree as hf
from horizonfree.planning import evaluate
from horizonfree.runs.run import Run
from horizonfree.web.session import drawing
from tests.report.example_runs import run_with_starts

from .client import Client

STARTS = [1, 8]


@pytest.fixture(scope="module")
def run() -> Run:
    return run_with_starts(tuple(STARTS))


@pytest.fixture(scope="module")
def client(run: Run) -> Client:
    return Client(run)


def ask(client: Client, **changes: Any) -> dict[str, Any]:
    question = {"weights": [[14, 1.0]], "when": "end"} | changes
    answer: dict[str, Any] = client.post("/api/plan", json=question).json()
    return answer


def test_the_page_is_told_that_the_start_is_drawn_and_from_where(client: Client) -> None:
    description = client.get("/api/problem").json()
    assert (description["start"], description["starts"], description["num_starts"]) == (-1, STARTS, 2)
    assert set(STARTS) <= set(description["reachable"])


def test_a_great_many_starts_are_counted_and_not_listed() -> None:
    description = drawing(hf.from_gymnasium("FrozenLake-v1", horizon=8, start=[1 / 16] * 16))
    assert (description["start"], description["starts"], description["num_starts"]) == (-1, [], 16)
    description = drawing(hf.make("zoned-grid", size=3, zones=1, horizon=4))
    assert (description["start"], description["starts"], description["num_starts"]) == (0, [0], 1)


@pytest.mark.parametrize("start", [{}, {"start": -1}])
def test_the_value_is_the_mean_over_the_starts(client: Client, run: Run, start: dict[str, int]) -> None:
    reward = hf.goal(run.problem, 14)
    plan = run.plan(reward)
    V = evaluate(plan.kernel, reward, plan.policy)[0]
    answer = ask(client, **start)
    assert answer["value"] == pytest.approx(V[STARTS].mean())
    assert answer["value"] == pytest.approx(plan.value)
    assert answer["gap"] == plan.gap
    assert answer["loss"] == pytest.approx(max(0, hf.true_gap(run.problem, reward, plan.policy)))


@pytest.mark.parametrize("start", [0, 8, 15])
def test_a_state_can_be_chosen_instead(client: Client, run: Run, start: int) -> None:
    reward = hf.goal(run.problem, 14)
    plan = run.plan(reward)
    answer = ask(client, start=start)
    assert answer["value"] == pytest.approx(evaluate(plan.kernel, reward, plan.policy)[0, start])
    assert answer["episode"][0] == start
    assert answer["gap"] == plan.gap


def test_every_episode_draws_its_start(client: Client) -> None:
    """That twenty draws agree has probability 2^-19; the seeds are fixed."""
    first = [ask(client, seed=seed)["episode"][0] for seed in range(20)]
    assert set(first) == set(STARTS)


@pytest.mark.parametrize("seed", [0, 3])
def test_an_episode_from_a_fixed_start_is_the_same_chosen_or_not(seed: int) -> None:
    """The episode also follows the plan through possible transitions."""
    problem = hf.make("zoned-grid", size=3, zones=1, horizon=6)
    client = Client(hf.explore(problem, "uniform", episodes=5, progress=False))
    question = {"weights": [[8, 1.0]], "seed": seed}
    answer = ask(client, **question)
    assert answer == ask(client, start=0, **question)
    plan = hf.explore(problem, "uniform", episodes=5, progress=False).plan(hf.goal(problem, 8))
    states, kernel = answer["episode"], problem.kernel()
    assert states[0] == 0
    for h in range(6):
        row = states[h], plan.policy[h, states[h]]
        assert states[h + 1] in kernel.succ[row][kernel.prob[row] > 0]


def test_what_is_neither_a_state_nor_the_draw_is_refused(client: Client, subtests: pytest.Subtests) -> None:
    for start in [-2, 16, -1.0, True, "-1", None]:
        with subtests.test(start=start):
            response = client.post("/api/plan", json={"weights": [[14, 1]], "when": "end", "start": start})
            assert response.status_code == 422
            assert "it must be an integer from -1 to 15" in response.json()["error"]
