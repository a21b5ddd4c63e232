"""Episodes that end: in simulators, live environments, tables of Gymnasium, and logs.

Truths are tables over the states and their copies, evaluated by the NumPy code below, which shares nothing with the
library. Certificates are at delta = 1e-8 and fewer than 100 of them are made: a false alarm has probability 1e-6.
"""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete

import horizonfree as hf
from horizonfree.errors import ModelError, OptionError, ShapeError
from tests.reference.gymnasium_tables import hoeffding

DELTA = 1e-8
WAIT, RUN, CREEP = 0, 1, 2


def loss_and_value(P: np.ndarray, reward: np.ndarray, policy: np.ndarray, start: int) -> tuple[float, float]:
    """What a policy [H, S] loses in the table P [S, A, S] with rewards [H, S, A], and its value."""
    S = len(P)
    best, values = np.zeros(S), np.zeros(S)
    for r, rule in zip(reward[::-1], np.asarray(policy)[::-1]):
        best = (r + P @ best).max(1)
        values = (r + P @ values)[np.arange(S), rule]
    return float(best[start] - values[start]), float(values[start])


class Path(gymnasium.Env):
    """0 -> 1 (thin ice) -> 2 -> 3: a move succeeds with probability p; in 1 the ice breaks with breaks[action]."""

    observation_space, action_space = Discrete(4), Discrete(3)

    def __init__(self, p, breaks, is_cut=False):
        self.p, self.breaks, self.is_cut = p, breaks, is_cut

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.s = 0
        return 0, {}

    def step(self, action):
        if action != WAIT and self.np_random.random() < self.p:
            self.s = min(self.s + 1, 3)
        is_over = self.s == 1 and self.np_random.random() < self.breaks[action]
        return self.s, 0.0, bool(is_over), self.is_cut, {}

    def table(self) -> np.ndarray:
        """[5, 3, 5]: state 4 is 1, ended."""
        P = np.zeros((5, 3, 5))
        for s, a in np.ndindex(4, 3):
            P[s, a, min(s + 1, 3)] += self.p * (a != WAIT)
            P[s, a, s] += 1 - self.p * (a != WAIT)
        P[..., 4] = P[..., 1] * self.breaks
        P[..., 1] -= P[..., 4]
        P[4] = np.eye(5)[4]
        return P


def set_state(env, s, rng):
    env.unwrapped.s = s


NEAR = np.zeros((4, 3, 4), bool)
for _s in range(4):
    NEAR[_s, :, [_s, min(_s + 1, 3)]] = True

ALWAYS, NEVER = (1.0, 1.0, 1.0), (0.0, 0.0, 0.0)
PAIRS = {
    "one ends": [(0.6, ALWAYS), (0.9, NEVER)],
    "at random": [(0.6, (0.7, 0.7, 0.7)), (0.9, (0.1, 0.1, 0.1))],
    "by the action": [(0.7, (0.0, 1.0, 0.0)), (0.9, (0.0, 0.9, 0.0))],
}


def sampled(name, samples=2000, successors=NEAR, **options):
    envs = [Path(*numbers) for numbers in PAIRS[name]]
    return hf.from_simulators(
        envs, samples=samples, place=set_state, start=0, horizon=6, successors=successors, **options
    )


@pytest.mark.parametrize("name", PAIRS)
def test_each_simulator_has_its_own_probability_of_ending(name):
    """Every frequency is near its probability but for a false alarm of 1e-6."""
    problem = sampled(name)
    assert problem.num_states == 5
    assert problem.layout["ended"].tolist() == [-1, 4, -1, -1]
    assert problem.state_name(4) == "state 1 (ended)"
    assert "at random" in problem._repr_table()[1][-3][1]
    for i, numbers in enumerate(PAIRS[name]):
        kernel = problem.model.kernel(problem.model.parameter(np.eye(2)[i], "one")).dense()
        assert np.abs(kernel - Path(*numbers).table()).max() <= hoeffding(2000, 2 * 12 * 5)
    m = problem.sampling.successors
    np.testing.assert_array_equal(
        m[:, 0], [3, 3, 2, 1, 1]
    )  # itself, the next one, and 1 ended where 1 may follow


@pytest.mark.parametrize("successors", [NEAR, None], ids=["declared", "any"])
@pytest.mark.parametrize("truth", [0, 1])
@pytest.mark.parametrize("name", PAIRS)
def test_certificates_hold_in_each_of_the_simulators(name, truth, successors):
    env = Path(*PAIRS[name][truth])
    for seed in (0, 1) if successors is not None else (0,):
        problem = sampled(name, 3000, successors, seed=seed)
        run = hf.explore(env, "uniform", known=problem, episodes=300, seed=seed, progress=False)
        for goal in (3, 4):
            reward = np.zeros((6, 5, 3))
            reward[-1, goal] = 1
            plan = run.plan(reward, delta=DELTA)
            assert not plan.certificate.is_rejected
            loss, value = loss_and_value(env.table(), reward, plan.policy, 0)
            assert loss <= plan.gap
            assert plan.value_low <= value <= plan.value_high
            if goal == 3 and successors is not None:  # not vacuous
                assert plan.gap < 0.95
                assert "assuming that states end episodes only as they did" in plan.certificate.summary()


LAKES = (["SHFF", "FFFF", "FFFF", "FFFG"], ["SFFF", "HFFF", "FFFF", "FFFG"])


def lake(desc):
    return gymnasium.make("FrozenLake-v1", desc=desc, is_slippery=False, max_episode_steps=8)


def joint(env) -> np.ndarray:
    """The table of one lake on 16 cells and the ended copies of cells 1 (number 16) and 4 (number 17)."""
    copies, P = {1: 16, 4: 17}, np.zeros((18, 4, 18))
    for s, a in np.ndindex(16, 4):
        for p, successor, _, is_over in env.unwrapped.P[s][a]:
            P[s, a, copies.get(successor, successor) if is_over else successor] += p
    P[[16, 17], :, [16, 17]] = 1
    return P


def check_lake(problem, truth):
    assert problem.num_states == 18
    assert problem.layout["ended"][[1, 4, 15]].tolist() == [16, 17, 15]
    run = hf.explore(lake(LAKES[truth]), "uniform", known=problem, episodes=100, progress=False)
    reward = np.zeros((8, 18, 4))
    reward[-1, 15] = 1
    plan = run.plan(reward, delta=DELTA)
    loss, value = loss_and_value(joint(lake(LAKES[truth])), reward, plan.policy, 0)
    assert loss <= plan.gap < 0.9
    assert plan.value_low <= value <= plan.value_high


def neighbours() -> np.ndarray:
    row, column = np.divmod(np.arange(16), 4)
    distance = np.abs(row[:, None] - row) + np.abs(column[:, None] - column)
    return np.repeat((distance <= 1)[:, None], 4, axis=1)


def test_two_maps_of_a_lake_as_simulators():
    maps = [lake(desc) for desc in LAKES]
    settings = {"samples": 3000, "place": set_state, "successors": neighbours(), "start": 0, "horizon": 8}
    problem = hf.from_simulators(maps, **settings)
    for truth in (0, 1):
        check_lake(problem, truth)


@pytest.mark.parametrize("truth", [0, 1])
def test_two_maps_of_a_lake_as_tables(truth):
    problem = hf.from_gymnasium([lake(desc) for desc in LAKES], horizon=8)
    check_lake(problem, truth)
    for weights in ([0.5, 0.5], [0.2, 0.8]):
        kernel = problem.model.kernel(problem.model.parameter(np.array(weights), "weights")).dense()
        expected = sum(w * joint(lake(desc)) for w, desc in zip(weights, LAKES))
        is_live = np.r_[0:15, 16, 17]
        np.testing.assert_allclose(kernel[is_live], expected[is_live], atol=1e-12)


def test_simulators_that_end_alike_need_no_copies():
    """Bit for bit the mixture of the kernels, and rows of final states are known."""

    class Ends(Path):
        def step(self, action):
            return self.s, 0.0, False, False, {}

        def move(self, action):
            self.s = min(self.s + (action == RUN), 3)
            return self.s, 0.0, self.s == 3, False, {}

    moves, stays = Ends(1.0, NEVER), Ends(1.0, NEVER)
    moves.step = moves.move
    problem = hf.from_simulators([moves, stays], samples=7, place=set_state, start=0, horizon=5)
    kernels = np.zeros((2, 4, 3, 4))
    kernels[:, np.arange(4), :, np.arange(4)] = 1
    kernels[0, range(3), RUN] = np.eye(4)[1:]
    exact = hf.Mixture.from_kernels(kernels, horizon=5)
    np.testing.assert_array_equal(problem.model.phi, exact.model.phi)
    np.testing.assert_array_equal(problem.space.succ, exact.space.succ)
    np.testing.assert_array_equal(problem.sampling.samples[:, 0], [7, 7, 7, 0])
    np.testing.assert_array_equal(problem.sampling.successors[:, 0], [4, 4, 4, 1])
    assert problem.layout["ended"].tolist() == [-1, -1, -1, 3]
    assert "states" not in problem.layout


def test_truncation_ends_nothing():
    cut = [Path(p, NEVER, is_cut=True) for p in (0.6, 0.9)]
    for reset in (set_state, None):
        problem = hf.from_simulators(cut, samples=20, place=reset, start=0, horizon=6)
        assert (problem.num_states, "ended" in problem.layout) == (4, False)
    with pytest.raises(OptionError, match="truncated after step 1 but the horizon is 6"):
        hf.explore(cut[0], known=problem, episodes=1, progress=False)


def test_names_and_starts_reach_the_copies():
    envs = [Path(*numbers) for numbers in PAIRS["one ends"]]
    names, start = ["shore", "ice", "isle", "home"], [0.5, 0.0, 0.5, 0.0]
    problem = hf.from_simulators(envs, samples=20, place=set_state, start=start, horizon=6, states=names)
    assert problem.layout["states"] == [*names, "ice (ended)"]
    np.testing.assert_array_equal(problem.start, [*start, 0.0])
    with pytest.raises(ShapeError, match="states has 1 names; there are 4 states"):
        hf.from_simulators(envs, samples=20, place=set_state, horizon=6, states=["shore"])


def test_a_problem_with_copies_is_stored_and_shows_them_itself(tmp_path):
    problem = sampled("one ends", 300, weights=[0.0, 1.0])
    env = Path(*PAIRS["one ends"][1])
    hf.explore(env, "uniform", known=problem, episodes=5, progress=False, out=tmp_path / "run")
    run = hf.load(tmp_path / "run").resume(env=env, episodes=5, progress=False)
    assert run.episodes == 10
    assert (run.records["ended_in"] == -1).all()
    live_run = hf.explore(problem.to_gymnasium(), "uniform", known=problem, episodes=5, progress=False)
    assert live_run.evidence.impossible == 0


# Live environments that contradict the class


def assert_rejected(folder, env, message, **options):
    with pytest.raises(ModelError, match=message):
        hf.explore(env, "uniform", episodes=40, progress=False, out=folder, **options)
    assert hf.load(folder).certificate().is_rejected


@pytest.mark.parametrize(
    ("breaks", "truth", "message"),
    [
        (
            ALWAYS,
            NEVER,
            "entered state 1 after . steps and went on, but in the model class every episode ends",
        ),
        (
            NEVER,
            ALWAYS,
            "ended an episode in state 1 after . steps, but in the model class no episode ends there",
        ),
    ],
)
def test_an_environment_that_ends_as_no_simulator_did_refutes_them(breaks, truth, message, tmp_path):
    envs = [Path(1.0, breaks), Path(1.0, breaks)]
    problem = hf.from_simulators(envs, samples=50, place=set_state, horizon=6, smoothing=0.1)
    assert problem.num_states == 4
    assert_rejected(tmp_path / "run", Path(1.0, truth), message, known=problem)


def test_declared_terminal_states_are_checked_in_an_environment(tmp_path):
    message = "entered state 1 after . steps and went on"
    assert_rejected(tmp_path / "a", Path(0.9, NEVER), message, known=hf.Tabular(4, 3, 6, terminal=[1]))
    kernel = np.zeros((4, 3, 4))
    kernel[range(4), :, range(4)] = 0.1
    kernel[range(4), :, [1, 2, 3, 3]] += 0.9
    table = hf.Mixture.from_kernels([kernel, kernel[:, ::-1]], horizon=6)
    assert_rejected(tmp_path / "b", Path(0.9, ALWAYS), "ended an episode in state 1", known=table)


class Melting(Path):
    """The ice breaks in the first episodes and holds from then on."""

    def __init__(self, broken_at):
        super().__init__(0.9, NEVER)
        self.left = broken_at

    def reset(self, **options):
        self.left -= 1
        self.breaks = ALWAYS if self.left >= 0 else NEVER
        return super().reset(**options)


def test_an_end_is_remembered_when_a_state_is_left_later_even_in_another_process(tmp_path):
    """Twenty resets look for the start; the run then stops, is loaded, and goes on."""
    env = Melting(20 + 10)
    folder = tmp_path / "run"
    hf.explore(env, "uniform", episodes=10, horizon=6, progress=False, out=folder)
    run = hf.load(folder)
    assert 1 in run.records["ended_in"]
    assert not run.certificate().is_rejected
    with pytest.raises(
        ModelError, match=r"went on from state 1 at step ., but an earlier episode ended there"
    ):
        run.resume(env=env, episodes=40, progress=False)
    assert hf.load(folder).certificate().is_rejected


@pytest.mark.parametrize("breaks", [(0.5, 0.5, 0.5), (0.0, 0.9, 0.1)], ids=["at random", "by the action"])
def test_a_table_whose_endings_are_unknown_learns_them(breaks):
    env = Path(0.9, breaks)
    table = hf.Tabular(4, 3, 6, terminal="unknown", states=["a", "b", "c", "d"])
    assert table.layout["states"][4:] == ["a (ended)", "b (ended)", "c (ended)", "d (ended)"]
    assert table.model.num_unknown == 4 * 3
    run = hf.explore(env, known=table, episodes=1500, progress=False)
    P, states = np.zeros((8, 3, 8)), [0, 1, 2, 3, 5]
    P[np.ix_(states, range(3), states)] = env.table()
    P[range(4, 8), :, range(4, 8)] = 1
    for goal in (3, 5):
        reward = np.zeros((6, 8, 3))
        reward[-1, goal] = 1
        plan = run.plan(reward, delta=DELTA)
        loss, value = loss_and_value(P, reward, plan.policy, 0)
        assert loss <= plan.gap < 0.9
        assert plan.value_low <= value <= plan.value_high


def test_unknown_endings_go_with_an_unknown_start_and_forbidden_actions():
    allowed = np.ones((4, 3), bool)
    allowed[0, WAIT] = False
    table = hf.Tabular(4, 3, 6, "unknown", terminal="unknown", actions_allowed=allowed)
    assert table.space.sizes == (7, 9, 3)
    np.testing.assert_array_equal(table.actions_allowed[:8], [*allowed, *allowed])
    run = hf.explore(Path(0.9, ALWAYS), "uniform", known=table, episodes=10, progress=False)
    assert set(run.records["ended_in"]) <= {-1, 5}
    assert run.evidence.impossible == 0
    with pytest.raises(OptionError, match="terminal is 'some'; it must be a list of states, or 'unknown'"):
        hf.Tabular(4, 3, 6, terminal="some")


# Logs


def make_log(env, episodes, horizon, rng):
    """Random episodes as they are seen: lists of states and actions, and which of them ended."""
    states, actions, terminated = [], [], []
    for _ in range(episodes):
        s, is_over = [env.reset(seed=int(rng.integers(2**31)))[0]], False
        a: list[int] = []
        while len(a) < horizon and not is_over:
            a.append(int(rng.integers(3)))
            successor, _, is_over, *_ = env.step(a[-1])
            s.append(successor)
        states.append(s)
        actions.append(a)
        terminated.append(is_over)
    return (states, actions), terminated


def test_a_log_of_episodes_that_end_at_random_is_certified_with_its_endings_and_not_without():
    """To forget the ends would make the ice look safe: value 1 of the goal, truly less than half."""
    env = Path(1.0, (0.6, 0.6, 0.6))
    episodes, terminated = make_log(env, 3000, 6, np.random.default_rng(0))
    table = hf.Tabular(4, 3, 6, terminal="unknown")
    with pytest.raises(OptionError, match=r"stops in state ., where an episode may end or go on; .* ended="):
        hf.from_episodes(table, episodes)
    run = hf.from_episodes(table, episodes, ended=terminated)
    P, states = np.zeros((8, 3, 8)), [0, 1, 2, 3, 5]
    P[np.ix_(states, range(3), states)] = env.table()
    P[range(4, 8), :, range(4, 8)] = 1
    reward = np.zeros((6, 8, 3))
    reward[-1, 3] = 1
    plan = run.plan(reward, delta=DELTA)
    loss, value = loss_and_value(P, reward, plan.policy, 0)
    assert value < 0.5
    assert loss <= plan.gap < 0.9
    assert plan.value_low <= value <= plan.value_high < 0.9
    one_state = hf.Tabular(4, 3, 6)
    with pytest.raises(ModelError, match=r"goes on from state 1 at step ., but another episode ended there"):
        hf.certify(one_state, episodes, ended=terminated)
    assert not hf.certify(one_state, episodes).is_rejected  # taken as not seen further: the caller says so


def test_logs_that_contradict_the_final_states_of_a_problem_do_not_count_for_it():
    states, actions = [[0, 1, 2, 3], [0, 1]], [[1, 1, 1], [1]]
    table = hf.Tabular(4, 3, 3, terminal=[1])
    assert hf.certify(table, (states, actions)).is_rejected
    assert not hf.certify(table, ([[0, 1], [0, 0, 1, 1]], [[1], [0, 1, 0]])).is_rejected
    moves = np.zeros((1, 4, 3, 4))
    moves[0, range(4), :, [1, 2, 3, 3]] = 1
    walk = hf.Mixture.from_kernels(moves, horizon=3)
    assert not hf.certify(walk, (states, actions)).is_rejected
    assert not hf.certify(walk, ([[0, 1, 2, 3]], [[1, 1, 1]]), ended=[True]).is_rejected
    with pytest.raises(
        ModelError, match="episode 1 ended in state 1 after 1 steps, but no episode of this problem"
    ):
        hf.certify(walk, (states, actions), ended=[False, True])
    for terminated in ([True], [0, 1]):
        with pytest.raises(ShapeError, match=r"it must be True or False for each of the 2 episodes"):
            hf.certify(walk, (states, actions), ended=terminated)


@pytest.mark.parametrize("flags", [("false", "True"), ("0", "1")])
def test_a_log_file_may_say_which_steps_terminated(flags, tmp_path):
    rows = [(0, 0, 0, 1, 1, 0), (0, 1, 1, 1, 2, 0), (1, 0, 0, 1, 1, 1), (2, 0, 0, 0, 0, 0)]
    text = "\n".join(",".join(map(str, row[:5])) + f",{flags[row[5]]},1" for row in rows)
    path = tmp_path / "log.csv"
    path.write_text("episode,step,state,action,next_state,terminated,truncated\n" + text)
    run = hf.from_log(path, terminal="unknown", num_states=3, num_actions=2)
    assert run.log.s[:, 1].tolist() == [1, 4, 0]  # 4 is 1, ended
    assert run.log.j[:, 1].tolist() == [2, -2, -2]  # what follows was not seen
    with pytest.raises(
        ModelError, match="episode 0 goes on from state 1 at step 2, but another episode ended"
    ):
        hf.from_log(path, num_states=3, num_actions=2)
    renamed_file = tmp_path / "renamed.csv"
    renamed_file.write_text(path.read_text().replace("terminated", "done"))
    with pytest.raises(OptionError, match="stops in state 2, where an episode may end or go on"):
        hf.from_log(renamed_file, terminal="unknown")
    renamed_log = hf.from_log(renamed_file, terminal="unknown", columns={"terminated": "done"})
    assert renamed_log.log.s[:, 1].tolist() == [1, 4, 0]
    columns = dict(zip(("episode", "step", "state", "action", "next_state"), np.array(rows).T[:5]))
    log_of_columns = hf.from_log({**columns, "terminated": [False, False, True, False]}, terminal="unknown")
    assert log_of_columns.log.s[:, 1].tolist() == [1, 4, 0]
    for flag, message in (
        (
            [True, False, True, False],
            r"row 1 \(episode 0\): terminated is true, but the episode goes on in row 2",
        ),
        ([0, 0, 2, 0], "column terminated, row 3: '2' is none of"),
        ([0, 0, 1], "the columns have lengths .*'terminated': 3"),
    ):
        with pytest.raises(ShapeError, match=message):
            hf.from_log({**columns, "terminated": flag}, terminal="unknown")


def test_copies_go_with_starts_that_differ_between_maps():
    """Ten states: eight cells, a copy of the one that is a hole on one map only, and one to draw the start."""
    descs = (["SHFG", "FFFF"], ["FSFG", "FFFF"])
    lakes = [gymnasium.make("FrozenLake-v1", desc=desc, is_slippery=False) for desc in descs]
    problem = hf.from_gymnasium(lakes, horizon=5)
    assert (problem.num_states, problem.start) == (8 + 1 + 1, 9)
    assert problem.layout["states"][8:] == ["state 1 (ended)", "before the start"]
    for env in lakes:
        run = hf.explore(env, "uniform", known=problem, episodes=20, progress=False)
        assert run.evidence.impossible == 0
        assert (8 in run.records["ended_in"]) == (env is lakes[0])


def test_a_problem_with_copies_can_be_as_a_tabular_mdp():
    problem = hf.from_gymnasium([lake(desc) for desc in LAKES], horizon=8, weights=[0.5, 0.5])
    table = problem.as_tabular()
    assert table.model.num_unknown == 4 * 15  # neither the goal nor the two copies
    np.testing.assert_allclose(table.kernel().dense(), problem.kernel().dense(), atol=1e-12)
    run = hf.explore(lake(LAKES[0]), "uniform", known=table, episodes=20, progress=False)
    assert run.evidence.impossible == 0
    assert 16 in run.records["ended_in"]
