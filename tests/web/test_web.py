"""The server of the playground: who may ask, what it refuses, and that its answers are the library's."""

import io
import itertools
import json
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import horizonfree as hf
from horizonfree import web
from horizonfree.errors import OptionError
from horizonfree.explorers.registry import ExplorerSpec, make_explorer
from horizonfree.planning import evaluate, visits
from horizonfree.runs.run import Run
from horizonfree.web.server import MAX_BYTES, PAGE, is_loopback
from horizonfree.web.session import MAX_CACHED_PLANS, Painting, Session, drawing

from .client import Client, question


@pytest.fixture(scope="module")
def run() -> Run:
    problem = hf.make("zoned-grid", size=4, zones=2, horizon=8)
    return hf.explore(problem, "optimal-design", episodes=70, progress=False)


@pytest.fixture(scope="module")
def client(run: Run) -> Client:
    return Client(run)


# ---- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["end", "along"])
def test_a_plan_is_the_one_of_the_run(client: Client, run: Run, when: str) -> None:
    answer = client.post("/api/plan", json=question(when=when)).json()
    states = np.zeros(16)
    states[[10, 3]] = 1.0, 0.5
    reward = np.zeros((8, 16, 4))
    if when == "end":
        reward[7] = states[:, None]
    else:
        reward[:] = states[:, None] / 8
    plan = run.plan(reward)
    assert answer["policy"] == plan.policy[2].tolist()
    assert answer["value"] == pytest.approx(plan.value)
    assert answer["gap"] == plan.gap
    assert answer["summary"] == plan.certificate.summary()
    assert answer["loss"] == pytest.approx(max(0, hf.true_gap(run.problem, reward, plan.policy)))
    V = evaluate(plan.kernel, reward, plan.policy)
    np.testing.assert_allclose(answer["values"], V[2], atol=1e-6)
    time_share = visits(plan.kernel, plan.policy, run.problem.start).sum(axis=(0, 2)) / 8
    np.testing.assert_allclose(answer["occupancy"], time_share, atol=1e-6)


def test_at_least_once_is_the_plan_of_reach(client: Client, run: Run) -> None:
    """Every weight above 0 counts as being there; values and loss are those of the lifted problem."""
    answer = client.post("/api/plan", json=question(when="reach")).json()
    plan = run.plan(hf.reach(run.problem, [3, 10]))
    assert answer["policy"] == plan.policy[2].tolist()
    assert answer["value"] == pytest.approx(plan.value)
    assert (answer["value_low"], answer["gap"]) == (plan.value_low, plan.gap)
    assert answer["values"][3] == answer["values"][10] == 1
    reached = [(simulated(run, plan.policy, seed) & {3, 10}) != set() for seed in range(400)]
    assert np.mean(reached) == pytest.approx(plan.value, abs=0.15)
    assert 0 <= answer["loss"] <= plan.gap
    last = client.post("/api/plan", json=question(when="reach", step=7)).json()
    assert len(last["policy"]) == 16
    for wrong, message in {
        "costs": {"weights": [[3, -1.0]]},
        "nothing painted": {"weights": []},
        "misspecification": {"misspecification": 4},
    }.items():
        response = client.post("/api/plan", json=question(when="reach", **message))
        assert response.status_code == 422, wrong
        assert "at least once" in response.text
    assert client.post("/api/reward.npy", json=question(when="reach")).status_code == 422


def simulated(run: Run, policy: np.ndarray, seed: int) -> set[int]:
    """The states of an episode of the truth."""
    episodes = hf.simulate(run.problem, np.vstack([policy, policy[-1:]]), episodes=1, seed=seed)
    return set(episodes.s[0, :-1].tolist())


def test_a_plan_within_an_misspecification_is_that_of_the_run(client: Client, run: Run) -> None:
    misspecifications = client.get("/api/problem").json()["misspecifications"]
    answer = client.post("/api/plan", json=question(misspecification=4)).json()
    reward = np.zeros((8, 16, 4))
    reward[7, [10, 3]] = np.array([1.0, 0.5])[:, None]
    plan = run.plan(reward, misspecification=misspecifications[4])
    assert answer["gap"] == plan.gap
    assert answer["misspecification"] == misspecifications[4]
    assert answer["every"]["eps"] == run.certificate(misspecification=misspecifications[4]).eps
    assert answer["gap"] > client.post("/api/plan", json=question()).json()["gap"]
    response = client.post("/api/plan", json=question(misspecification=len(misspecifications)))
    assert response.status_code == 422


def test_an_episode_follows_the_plan_from_the_state_asked_for(client: Client, run: Run) -> None:
    answer = client.post("/api/plan", json=question(start=5)).json()
    episode = answer["episode"]
    assert len(episode) == 9
    assert episode[0] == 5
    succ, prob = run.problem.kernel().succ, run.problem.kernel().prob
    for h in range(8):
        policy = client.post("/api/plan", json=question(start=5, step=h)).json()["policy"]
        s, a = episode[h], policy[episode[h]]
        assert prob[s, a][succ[s, a] == episode[h + 1]].sum() > 0
    assert answer == client.post("/api/plan", json=question(start=5)).json()


def test_logged_episodes_show_no_truth_and_play_in_the_estimated_system(run: Run) -> None:
    episodes = hf.simulate(run.problem, np.ones((8, 16), int), episodes=30)
    logged_run = hf.from_episodes(run.problem, episodes)
    answer = Client(logged_run).post("/api/plan", json=question()).json()
    assert answer["loss"] is None
    assert len(answer["episode"]) == 9


def test_the_saved_reward_plans_the_same(client: Client, run: Run) -> None:
    content = client.post("/api/reward.npy", json=question()).content
    reward = np.load(io.BytesIO(content), allow_pickle=False)
    assert reward.shape == (8, 16, 4)
    assert run.plan(reward).gap == client.post("/api/plan", json=question()).json()["gap"]


def test_the_problem_is_described_in_plain_data(client: Client, run: Run) -> None:
    answer = client.get("/api/problem").json()
    assert answer["states"] == 16
    assert answer["cells"] == np.asarray(run.problem.layout["cells"]).tolist()
    assert answer["eps"] == run.certificate().eps
    assert answer["forecast"] == run.certificate().forecast
    goals = run.certificate(rewards="goals")
    assert answer["goals"] == {
        "name": "all 16 goals",
        "eps": goals.eps,
        "forecast": goals.forecast,
        "is_vacuous": False,
    }
    assert "theta" not in json.dumps(answer)


def test_the_value_has_an_interval_from_the_start_that_the_proof_is_about(client: Client, run: Run) -> None:
    plan = run.plan(Session(run).table(Painting(((3, 0.5), (10, 1.0)), "end")))
    answer = client.post("/api/plan", json=question()).json()
    assert (answer["value_low"], answer["value_high"]) == (plan.value_low, plan.value_high)
    assert answer["value_low"] < answer["value"] < answer["value_high"]
    other_answer = client.post("/api/plan", json=question(start=5)).json()
    assert (other_answer["value_low"], other_answer["value_high"]) == (None, None)


def test_what_is_likely_is_that_of_the_run(client: Client, run: Run) -> None:
    """Of the problem's own start; within a misspecification there is no posterior."""
    answer = client.post("/api/plan", json=question()).json()
    reward = np.zeros((8, 16, 4))
    reward[-1, 10], reward[-1, 3] = 1.0, 0.5
    plan = run.plan(reward)
    assert (answer["likely"]["low"], answer["likely"]["high"]) == pytest.approx(plan.credible_interval())
    assert answer["likely"]["gap"] == pytest.approx(plan.credible_gap())
    assert answer["likely"]["label"].startswith("not proved: Bayesian")
    assert client.post("/api/plan", json=question(start=3)).json()["likely"] is None
    assert client.post("/api/plan", json=question(misspecification=2)).json()["likely"] is None


def test_what_is_proved_of_all_paintings_is_computed_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(run)
    first = session.problem()
    monkeypatch.setattr("horizonfree.web.session.goals_certificate", None)
    assert session.problem() == first


def test_the_page_is_told_where_the_episodes_are_from(run: Run) -> None:
    def source_of(run_shown: Run) -> tuple[Any, ...]:
        description = Session(run_shown).problem()
        return description["is_logged"], description["explorer"], description["uses_reward"]

    assert source_of(run) == (False, "optimal-design", False)
    guided = make_explorer("ucrl-vtr", budget=70, reward=hf.goal(run.problem, 3))
    assert source_of(replace(run, explorer_spec=ExplorerSpec.of(guided))) == (
        False,
        "ucrl-vtr (reconstruction)",
        True,
    )
    assert (
        source_of(replace(run, explorer_spec=ExplorerSpec.of(make_explorer("chen2022"))))[1]
        == "chen2022 (reconstruction)"
    )
    episodes = hf.simulate(run.problem, np.ones((8, 16), int), episodes=3)
    assert source_of(hf.from_episodes(run.problem, episodes))[0]


def test_problems_without_cells_and_with_walls_are_described() -> None:
    drawing_without_cells = drawing(hf.make("random-mixture"))
    assert drawing_without_cells["cells"] is None
    assert drawing_without_cells["actions"] == ["0", "1", "2", "3"]
    rooms = drawing(hf.make("rooms", columns=2, rows=1, room_size=2, horizon=4))
    assert sorted(rooms["cells"]) == [[0, 0], [0, 1], [1, 0], [1, 1], [2, 1], [3, 0], [3, 1], [4, 0], [4, 1]]


def test_plans_are_remembered_but_not_without_end(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(run)
    plans: list[Painting] = []
    original = session._plan
    monkeypatch.setattr(session, "_plan", lambda *x: (plans.append(x[0]), original(*x))[1])
    first = Painting(((1, 1.0),), "end")
    for step in range(8):
        session.answer(first, step=step, start=0, seed=0)
    assert plans == [first]
    for i in range(MAX_CACHED_PLANS):
        session.planned(Painting(((2, 0.01 * (i + 1)),), "end"))
    session.planned(first)
    assert plans.count(first) == 2
    assert len(session._cache) == MAX_CACHED_PLANS


# ---- refusals --------------------------------------------------------------------------------------------------------


QUESTIONS = [
    ({"when": "never"}, "when is 'never'"),
    ({"weights": {"1": 1}}, "list of"),
    ({"weights": [[1, 1], [1, 0.5]]}, "state 1 has two weights"),
    ({"weights": [[16, 1]]}, "from 0 to 15"),
    ({"weights": [[-1, 1]]}, "from 0 to 15"),
    ({"weights": [[True, 1]]}, "from 0 to 15"),
    ({"weights": [[1.0, 1]]}, "from 0 to 15"),
    ({"weights": [[1, 1.5]]}, "between -1 and 1"),
    ({"weights": [[1, -1.5]]}, "between -1 and 1"),
    ({"weights": [[1, "1"]]}, "between -1 and 1"),
    ({"weights": [[1, True]]}, "between -1 and 1"),
    ({"weights": [[1, 1, 1]]}, "[state, weight]"),
    ({"weights": [1]}, "[state, weight]"),
    ({"step": 8}, "step is 8"),
    ({"step": -1}, "step is -1"),
    ({"start": 99}, "start is 99"),
    ({"start": -1}, "start is -1; it must be an integer from 0 to 15"),
    ({"seed": "x"}, "seed is 'x'"),
    ({"seed": 2**40}, "seed is"),
]


def test_a_question_that_makes_no_sense_is_refused_with_the_reason(
    client: Client, subtests: pytest.Subtests
) -> None:
    for changes, reason in QUESTIONS:
        with subtests.test(str(changes)):
            response = client.post("/api/plan", json=question(**changes))
            assert response.status_code == 422
            assert reason in response.json()["error"]


def test_what_is_wrong_is_repeated_in_brief(client: Client, subtests: pytest.Subtests) -> None:
    for value, name in itertools.product(
        ["x" * 900_000, ["x" * 300_000] * 2, {"x" * 900_000: 1}, 10**4000], ["when", "step", "weights"]
    ):
        with subtests.test(name, value=type(value).__name__):
            response = client.post(
                "/api/plan", json=question(**{name: [value] if name == "weights" else value})
            )
            assert response.status_code == 422
            assert len(response.content) < 400


BODIES = [
    (b"", 400),
    (b"{", 400),
    (b"[]", 400),
    (b"\xff\xfe", 400),
    (b'{"weights": [[1, NaN]], "when": "end"}', 400),
    (b'{"weights": [[1, Infinity]], "when": "end"}', 400),
    (b'{"weights": [[1, 1e999]], "when": "end"}', 422),
    (b"[" * 100_000, 400),
    (b'{"weights": ' + b"9" * 10_000 + b"}", 400),
    (b" " * (MAX_BYTES + 1), 413),
    (b"\x80\x04\x95\x0b", 400),
]


def test_a_body_that_is_not_a_question_is_refused(client: Client, subtests: pytest.Subtests) -> None:
    for path, (body, status) in itertools.product(["/api/plan", "/api/reward.npy"], BODIES):
        with subtests.test(path, body=body[:40]):
            response = client.post(path, content=body, headers={"Content-Type": "application/json"})
            assert response.status_code == status
            assert response.json()["error"]


def test_only_json_is_read(client: Client, subtests: pytest.Subtests) -> None:
    """A page elsewhere can send plain text or a form without asking first; JSON it cannot."""
    for kind in ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"]:
        with subtests.test(str(kind)):
            response = client.post(
                "/api/plan", content=json.dumps(question()), headers={"Content-Type": kind}
            )
            assert response.status_code == 415


HOSTS = (
    ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "192.168.0.7:8000", "", "localhost.evil"]
    + ["[::2]:80", "127.0.0.1@evil.example", "localhost:evil.example:80", "localhost:", "localhost:80:80"]
    + ["[127.0.0.1]evil.example", "[127.0.0.1]", "[::1]evil.example", "[::1", "[::1%25evil.example]", "::1"]
)


def test_another_host_name_is_refused(client: Client, subtests: pytest.Subtests) -> None:
    for path, host in itertools.product(
        ["/", "/page.js", "/api/problem", "/api/problem/", "/nothing", "/api/plan"], HOSTS
    ):
        with subtests.test(path, host=host):
            response = client.get(path, headers={"Host": host})
            assert response.status_code == 421
            assert "not this machine" in response.json()["error"]


def test_this_machine_is_answered(client: Client, subtests: pytest.Subtests) -> None:
    for host in ["127.0.0.1:8000", "localhost:8000", "[::1]:8000", "LOCALHOST", "127.0.0.1"]:
        with subtests.test(host):
            assert client.get("/", headers={"Host": host}).status_code == 200
            own_headers = {"Host": host, "Origin": f"http://{host}"}
            assert client.post("/api/plan", json=question(), headers=own_headers).status_code == 200


def test_another_origin_is_refused(client: Client, subtests: pytest.Subtests) -> None:
    for origin in [
        "http://evil.example",
        "null",
        "http://127.0.0.1:9999",
        "https://127.0.0.1:8000",
        "http://localhost:8000",
    ]:
        with subtests.test(origin):
            response = client.post("/api/plan", json=question(), headers={"Origin": origin})
            assert response.status_code == 403
            assert "may not use" in response.json()["error"]


def test_unknown_pages_and_methods_are_refused_in_json(client: Client) -> None:
    assert client.get("/%2e%2e/%2e%2e/etc/passwd").status_code == 404
    assert client.get("/api/plan").status_code == 405
    assert client.get("/api/problem/").status_code == 404
    assert client.get("/server.py").json() == {"error": "there is no such page"}


def test_a_failure_inside_is_an_error_without_its_details(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("/secret/path")

    monkeypatch.setattr(Session, "answer", fail)
    client = Client(run)
    response = client.post("/api/plan", json=question())
    assert response.status_code == 500
    assert "secret" not in response.text


def test_every_answer_forbids_the_browser_to_go_elsewhere(client: Client) -> None:
    for method, path in [("GET", "/"), ("GET", "/api/problem"), ("GET", "/nothing"), ("POST", "/api/plan")]:
        response = client.send(method, path)
        policy = response.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_the_page_asks_for_nothing_outside(client: Client) -> None:
    for path in PAGE:
        response = client.get(path)
        assert response.status_code == 200
        text = response.text
        assert "http://" not in text
        assert "https://" not in text
        assert "innerHTML" not in text
        assert "eval(" not in text


# ---- serving ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "example.org", ""])
def test_only_this_machine_is_served(run: Run, host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(OptionError, match="it must be this machine"):
        web.serve(run, host=host)


def test_a_port_in_use_is_named(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(OptionError, match=f"port {port} cannot be used"):
            web.serve(run, port=port)
    with pytest.raises(OptionError, match="port is 99999"):
        web.serve(run, port=99999)


SERVE = """
import sys
import horizonfree as hf
from horizonfree import web
web.serve(hf.load(sys.argv[1]), port=0)
"""


def test_it_serves_until_interrupted(tmp_path: Path) -> None:
    """A process of its own says where it is, answers there and nowhere else, and stops quietly at Ctrl-C."""
    problem = hf.make("river-swim", states=4, horizon=4)
    hf.explore(problem, "uniform", episodes=5, progress=False, out=tmp_path / "a")
    command = [sys.executable, "-c", SERVE, str(tmp_path / "a")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    address = next(line for line in lines if "http://" in line).split()[-1]
    assert httpx.get(address).status_code == 200
    answer = httpx.post(f"{address}api/plan", json={"weights": [[2, 1]], "when": "end"}).json()
    assert 0 < answer["value"] <= 1
    assert httpx.get(address, headers={"Host": "evil.example"}).status_code == 421
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert err == "Preparing the planner for 4 states ...\nStopped.\n"
