"""Problems, logs, rewards and costs of one's own, without a line of Python beyond the file that holds them."""

import re
from pathlib import Path

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.cli import own_problems
from tests.shell import Shell

S, A, H = 4, 2, 3
RNG = np.random.default_rng(0)
CALM, STORM = RNG.dirichlet(np.ones(S), size=(2, S, A))
STATES, ACTIONS = np.array(["port", "bay", "cape", "sea"]), np.array(["wait", "sail"])
NAMED = {"calm": CALM, "storm": STORM, "states": STATES, "actions": ACTIONS}
COST = np.array([[0, 4], [1, 2.5], [3, 1], [9, 0]])


def harbour() -> hf.Problem:
    return hf.Mixture.from_kernels(
        {"calm": CALM, "storm": STORM}, horizon=H, states=STATES, actions=ACTIONS, weights=[0.4, 0.6]
    )


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own") / "a"
    hf.explore(harbour(), "uniform", episodes=40, progress=False, out=folder)
    return folder


def test_kernels_in_a_file_are_explored_by_their_names(shell: Shell) -> None:
    np.savez("harbour.npz", **NAMED, weights=[0.4, 0.6], horizon=H)
    output = shell.json("explore --kernels harbour.npz --explorer uniform --episodes 40 --out a")
    assert output["problem"] == "harbour"
    assert [x["name"] for x in output["weights"]] == ["calm", "storm"]
    run = hf.load("a")
    np.testing.assert_allclose(run.problem.kernel().dense(), 0.4 * CALM + 0.6 * STORM)
    assert run.problem.layout["states"] == STATES.tolist()
    assert run.problem.actions_allowed.all()
    allowed = np.ones((S, len(ACTIONS)), bool)
    allowed[0, 0] = False
    np.savez(
        "plain.npz", kernels=np.stack([CALM, STORM]), horizon=H, start=np.eye(S)[1], actions_allowed=allowed
    )
    from_file = own_problems.problem_from_file(Path("plain.npz"), {})
    np.testing.assert_array_equal(from_file.actions_allowed, allowed)
    code, _, err = shell(
        "explore --kernels plain.npz --explorer uniform --episodes 4 --param horizon=2 --out b"
    )
    assert code == 2
    assert "has no truth, so it cannot simulate itself" in err


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"calm": CALM}, "has no horizon, the steps of an episode; save it, or give --param horizon=20"),
        ({"horizon": 3}, r"has no kernel; give each kernel \[S, A, S\]"),
        ({"horizon": 3, "kernels": CALM[None], "calm": CALM}, "has both kernels and 'calm'; give"),
        (
            {"horizon": 3, "calm": CALM, "horizn": 3},
            r"'horizn' has shape \(\); a kernel .*did you mean 'horizon'",
        ),
        ({"horizon": 3, "calm": CALM, "start": 9}, "start is 9; it must be a state"),
    ],
)
def test_a_file_of_kernels_is_refused_with_words(
    arrays: dict[str, object], message: str, shell: Shell
) -> None:
    np.savez("x.npz", **arrays)  # type: ignore[arg-type]  # any of them
    code, _, err = shell("explore --kernels x.npz --episodes 4")
    assert code == 2
    assert re.search(message, err)
    assert len(err.splitlines()) == 1


def test_other_files_are_no_kernels(shell: Shell) -> None:
    np.save("one.npy", CALM)
    Path("text.npz").write_text("hello")
    for name, message in {
        "one.npy": "is a single array",
        "text.npz": "is not an .npz",
        "none.npz": "No such",
    }.items():
        assert message in shell(f"explore --kernels {name} --episodes 4")[2]
    assert "each name a problem" in shell("explore river-swim --kernels one.npy --episodes 4")[2]


def test_a_function_of_ones_own_makes_a_problem(shell: Shell) -> None:
    Path("harbours.py").write_text(
        "import horizonfree as hf\n"
        "def river(states=4): return hf.make('river-swim', states=states, horizon=3)\n"
        "def number(): return 3\n"
        "def broken(): raise KeyError('gone')\n"
    )
    for k, name in enumerate(("harbours:river", "./harbours.py:river")):
        line = f"explore {name} --param states=3 --explorer uniform --episodes 4 --out {k}"
        assert shell.json(line)["problem"] == "river-swim"
    for name, message in {
        "harbours:rivr": "has no function 'rivr'; did you mean 'river'?",
        "harbours:number": "returns a int; it must return a Problem",
        "harbours:broken": "fails: KeyError: 'gone'",
        "no_such_module:x": "importing no_such_module fails: ModuleNotFoundError",
        "nowhere.py:x": "importing nowhere.py fails: FileNotFoundError",
    }.items():
        code, _, err = shell(f"explore {name} --episodes 4")
        assert code == 2
        assert message in err


MACHINES = """
import gymnasium, numpy as np
class Machines(gymnasium.Env):
    def __init__(self, parts=3):
        self.observation_space = gymnasium.spaces.MultiDiscrete([parts, parts])
        self.action_space = gymnasium.spaces.MultiDiscrete([2, 2])
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = np.zeros(2, int)
        return self.state.copy(), {}
    def step(self, action):
        wear = self.np_random.random(2) < 0.3
        self.state = np.where(action == 1, 0, np.minimum(self.state + wear, self.observation_space.nvec - 1))
        return self.state.copy(), 0.0, False, False, {}
def limited(horizon): return gymnasium.wrappers.TimeLimit(Machines(), horizon)
"""


def test_a_function_of_ones_own_makes_an_environment(shell: Shell) -> None:
    """It is stepped; parameters that the function does not have are for the exploration, as for gymnasium:ID."""
    Path("machines.py").write_text(MACHINES)
    code, _, err = shell("explore machines:Machines --episodes 3")
    assert code == 2
    assert "--param horizon=100" in err  # the line that it names works
    output = shell.json("explore machines:Machines --param parts=2 --param horizon=4 --episodes 3 --out a")
    assert (output["problem"], output["episodes"]) == ("Machines", 3)
    run = hf.load("a")
    assert (run.problem.num_states, run.problem.num_actions, run.problem.horizon) == (4, 4, 4)
    assert not run.is_simulated
    by_name = shell.json("plan a --goal '(1, 0)' --start '(0, 1)' --horizon 2")
    assert by_name["path"] == shell.json("plan a --goal 2 --start 1 --horizon 2")["path"]
    assert (hf.goal(run.problem, (1, 0)) == hf.goal(run.problem, 2)).all()  # an observation as its name
    code, _, err = shell("explore --resume a --episodes 2")
    assert code == 2
    assert "(or module:function in its place)" in err
    assert shell.json("explore machines:Machines --param parts=2 --resume a --episodes 2")["episodes"] == 5
    assert shell.json("explore machines:limited --param horizon=5 --episodes 2 --out b")["episodes"] == 2
    for line, message in {
        "explore machines:Machines --param part=2 --episodes 2": "unexpected keyword argument 'part'",
        "compare --problem machines:Machines --explorer uniform --episodes 2": "horizonfree explore machines:Machines",
    }.items():
        code, _, err = shell(line)
        assert code == 2, line
        assert message in err


def test_costs_are_given_in_any_unit_and_answered_in_it(shell: Shell, run_folder: Path) -> None:
    """By numbers, and by names in another order, from a spreadsheet."""
    run = hf.load(run_folder)
    expected = run.plan(hf.rescale(run.problem, -COST))
    np.savetxt("plain.csv", COST, delimiter=",")
    np.save("cost.npy", COST)
    rows = [f"{STATES[s]},{COST[s, 1]},{COST[s, 0]}" for s in (3, 1, 0, 2)]
    Path("named.csv").write_text("state,sail,wait\n" + "\n".join(rows) + "\n")
    for name in ("plain.csv", "cost.npy", "named.csv"):
        output = shell.json(f"plan {run_folder} --cost {name}")
        assert output["cost"] == pytest.approx(-expected.value)
        assert output["cost_low"] == pytest.approx(-expected.value_high)
        assert output["cost_low"] <= output["cost"] <= output["cost_high"]
        assert output["gap"] == pytest.approx(expected.gap)
        np.testing.assert_array_equal(output["policy"], expected.policy)
    assert re.search(
        r"^cost +[\d.]+ +95% confidence interval",
        shell(f"plan {run_folder} --cost plain.csv")[1],
        re.MULTILINE,
    )
    np.savetxt("profit.csv", -COST, delimiter=",")
    assert shell.json(f"plan {run_folder} --reward profit.csv --scale rescale")["value"] == pytest.approx(
        expected.value
    )
    code, _, err = shell(f"plan {run_folder} --reward profit.csv")
    assert code == 2
    assert "the scale 'rescale' takes any rewards or costs" in err
    assert "costs have the scale rescale" in shell(f"plan {run_folder} --cost plain.csv --scale total")[2]


def test_a_table_of_one_column_is_for_every_action(shell: Shell, run_folder: Path) -> None:
    Path("by_number.csv").write_text("state,cost\n2,3\n0,0\n1,1\n3,9\n")
    Path("alone.csv").write_text("0\n1\n3\n9\n")
    first, other = (shell.json(f"plan {run_folder} --cost {x}.csv")["cost"] for x in ("by_number", "alone"))
    run = hf.load(run_folder)
    expected = -run.plan(-np.array([0, 1, 3, 9.0]), scale="rescale").value
    assert first == other == pytest.approx(expected)


BAD_TABLES = [
    ("state,cost\nport,1\nport,2\nbay,1\ncape,1\n", "names port 2 times; it needs each once"),
    ("state,cost\nport,1\nprt,2\n", "there is no state 'prt'; did you mean 'port'?"),
    ("state,wait,sial\nport,1,2\n", "names bay 0 times"),
    ("1,2\n3\n", "has rows of [1, 2] cells"),
    ("", "has rows of [] cells"),
    ("1,x\n2,3\n", "names and no numbers|'1' is not|there is no"),
    ("state,cost\nport,x\n", "'x' is not a number"),
    ("a,b\n", "has a line of names and no numbers below it"),
]


def test_a_table_that_does_not_fit_is_refused(
    shell: Shell, run_folder: Path, subtests: pytest.Subtests
) -> None:
    for text, message in BAD_TABLES:
        with subtests.test(message):
            Path("bad.csv").write_text(text)
            code, _, err = shell(f"plan {run_folder} --cost bad.csv")
            assert code == 2
            assert any(part in err for part in message.split("|")), err


def write_log(problem: hf.Problem, path: str, *, is_named: bool) -> None:
    """Episodes of a policy that always does the first action in even episodes, else the second."""
    lines = ["episode,step,state,action,next_state"]
    for a in (0, 1):
        episodes = hf.simulate(problem, np.full((H, S), a), episodes=30, seed=a)
        for k in range(30):
            for h in range(H):
                s, t = int(episodes.s[k, h]), int(episodes.s[k, h + 1])
                names = (STATES[s], ACTIONS[a], STATES[t]) if is_named else (s, a, t)
                lines.append(",".join(map(str, (30 * a + k, h, *names))))
    Path(path).write_text("\n".join(lines) + "\n")


def test_a_log_is_certified_and_kept_to_plan_with(shell: Shell) -> None:
    np.savez("harbour.npz", **NAMED, horizon=H)
    write_log(harbour(), "named.csv", is_named=True)
    write_log(harbour(), "plain.csv", is_named=False)
    np.savetxt("cost.csv", COST, delimiter=",")
    output = shell.json("certify --log named.csv --kernels harbour.npz --out a")
    assert output["episodes"] == 60
    expected = hf.from_log("plain.csv", harbour())
    assert output["eps"] == pytest.approx(expected.certificate().eps)
    assert shell.json("certify --log plain.csv --kernels harbour.npz")["eps"] == pytest.approx(output["eps"])
    assert shell.json("plan a --cost cost.csv")["cost"] == pytest.approx(
        -expected.plan(-COST, scale="rescale").value
    )
    table = shell.json("certify --log plain.csv --param num_states=4 --rewards goals")
    assert table["parts"]["rewards"] == S
    assert "is not one of the 4 states of the problem; did you mean 'port'?" in _with(
        shell, "named.csv", "port", "prot"
    )
    for line, message in {
        "certify": "Usage",
        "certify a --log plain.csv": "name the folder of a run, or a log",
        "certify a --param x=1": "--param belongs to --log; a run has its own",
        "certify --log plain.csv --param nmu=3": "a tabular MDP has num_states",
        "certify --log nothing.csv": "there is no file nothing.csv",
    }.items():
        code, out, err = shell(line)
        assert code == 2
        assert message in out + err


def _with(shell: Shell, name: str, old: str, new: str) -> str:
    Path("other.csv").write_text(Path(name).read_text().replace(old, new, 1))
    return shell("certify --log other.csv --kernels harbour.npz")[2]


def test_an_unknown_name_is_answered_before_anything_else_is_asked_for(shell: Shell) -> None:
    assert "did you mean 'river-swim'?" in shell("explore river-swin")[2]
    assert "did you mean 'uniform'?" in shell("explore river-swim --explorer unifrom")[2]


def test_costs_are_discounted_and_the_end_is_paid_for(shell: Shell, run_folder: Path) -> None:
    run, end = hf.load(run_folder), np.array([0.0, 1, 2, 5])
    np.savetxt("cost.csv", COST, delimiter=",")
    np.savetxt("end.csv", end)
    output = shell.json(f"plan {run_folder} --cost cost.csv --discount 0.9 --final end.csv")
    expected = run.plan(-COST, scale="rescale", discount=0.9, final=-end)
    assert output["cost"] == pytest.approx(-expected.value)
    assert np.shape(output["policy"]) == (H, S)
    assert 0 <= output["true_loss"] <= output["gap"] + 1e-9
    code, _, err = shell(f"plan {run_folder} --cost cost.csv --discount 0.9 --compare end.csv")
    assert code == 2
    assert "--compare is for rewards without --discount, --final and --transition" in err
    assert "discount is 2.0; it must be" in shell(f"plan {run_folder} --cost cost.csv --discount 2")[2]
    moves = 0.1 * (1 - np.eye(S))[:, None].repeat(len(ACTIONS), axis=1)
    np.save("moves.npy", moves)
    output = shell.json(f"plan {run_folder} --transition moves.npy --scale rescale")  # nothing else is paid
    expected = run.plan(np.zeros(S), scale="rescale", transition=moves)
    assert output["value"] == pytest.approx(expected.value)
    assert 0 <= output["true_loss"] <= output["gap"] + 1e-9
