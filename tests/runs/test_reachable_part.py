"""A run on the reachable part of a problem has the episodes, certificates and plans of a run on the whole problem."""

import warnings
from dataclasses import replace

import gymnasium
import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import ModelError, OptionError, PartWarning, ShapeError
from horizonfree.problems import reachable
from horizonfree.report.facts import compute_facts, history_of
from horizonfree.runs.recipes import fingerprint

EPISODES = 12
CLOSE = 1e-9


def grid(**settings):
    """Of 64 cells, of which six steps from the corner come to 28, and act in 21."""
    return hf.make("zoned-grid", **{"size": 8, "zones": 2, "horizon": 6, "seed": 1, **settings})


def corridor(S=40, A=3, seed=5):
    """Two random kernels on neighbouring states: every pair has rows of its own."""
    rng = np.random.default_rng(seed)
    P = np.zeros((2, S, A, S))
    for s in range(S):
        neighbours = np.unique(np.clip([s - 1, s, s + 1], 0, S - 1))
        P[:, s, :, neighbours] = rng.dirichlet(np.ones(len(neighbours)), (2, A)).transpose(2, 0, 1)
    return P


def problem_with_random_start():
    start = np.zeros(40)
    start[[3, 5, 9]] = 0.5, 0.3, 0.2
    return hf.Mixture.from_kernels(corridor(), horizon=4, start=start, weights=[0.6, 0.4])


def forbidding():
    allowed = np.ones((40, 3), bool)
    allowed[::2, 0] = False
    return hf.Mixture.from_kernels(
        corridor(), horizon=5, start=20, weights=[0.6, 0.4], actions_allowed=allowed
    )


def table():
    return hf.Tabular.from_table(corridor()[0], horizon=4, start=20, support="given")


def table_of_few_actions():
    allowed = np.ones((40, 3), bool)
    allowed[1::2, 0] = False
    return hf.Tabular.from_table(
        corridor()[0], horizon=3, start=np.eye(40)[[4, 30]].mean(0), support="given", actions_allowed=allowed
    )


SHAPES = {
    "grid": grid,
    "one step": lambda: grid(horizon=1),
    "two zones": lambda: grid(size=12, zones=4, horizon=5),
    "drawn": problem_with_random_start,
    "forbidding": forbidding,
    "table": table,
    "table of few actions": table_of_few_actions,
    "grid as a table": lambda: grid().as_tabular(support="given"),
}
FEW_ROWS = ("grid", "one step", "two zones", "table", "table of few actions", "grid as a table")


@pytest.fixture(scope="module")
def problem():
    return grid()


@pytest.fixture(scope="module")
def part(problem):
    return problem.reachable_part()


@pytest.fixture(scope="module")
def whole_run(problem):
    return hf.explore(problem, "optimal-design", episodes=EPISODES, seed=3, progress=False)


@pytest.fixture(scope="module")
def run(part):
    return hf.explore(part, "optimal-design", episodes=EPISODES, seed=3, progress=False)


def test_a_part_has_the_visited_states_and_their_rows(problem, part):
    cells = np.asarray(problem.layout["cells"]).sum(axis=1)
    states = np.flatnonzero(cells <= 6)
    assert (part.state_ids == states).all()
    assert (states[np.asarray(part.space.reachable)] == np.flatnonzero(cells <= 5)).all()
    large, small = problem.kernel().dense(), part.kernel().dense()
    for i, s in enumerate(states):
        if cells[s] <= 5:  # an action can be taken
            assert (small[i] == large[s][:, states]).all()
            assert large[s][:, states].sum(-1) == pytest.approx(1)
        else:
            assert small[i] == pytest.approx(np.broadcast_to(np.eye(28)[i], (4, 28)))
    assert part.space.start == 0
    assert part.model.valid.num_free == problem.model.valid.num_free
    assert "part of  64 states" in str(part)


@pytest.mark.parametrize("name", SHAPES)
def test_episodes_and_answers_are_those_of_the_whole(name):
    """To rounding; where rows are left out, up to the barrier of the likelihood, which is divided by their number."""
    problem = SHAPES[name]()
    part = problem.reachable_part()
    assert part.num_states < problem.num_states
    is_same = name in FEW_ROWS
    close = CLOSE if is_same else 5e-5
    whole_run, run = (hf.explore(x, episodes=EPISODES, seed=3, progress=False) for x in (problem, part))
    assert (part.restrict(whole_run.visits) == run.visits).all()
    assert whole_run.visits.sum() == run.visits.sum() == EPISODES * problem.horizon
    for record, x in whole_run.records.items():
        assert run.records[record] == pytest.approx(x, rel=CLOSE)
    assert run.certificate().eps == pytest.approx(whole_run.certificate().eps, abs=close)
    assert run.certificate().holds_for == whole_run.certificate().holds_for
    for family in ("goals", "occupancies"):
        a, b = run.certificate(rewards=family), whole_run.certificate(rewards=family)
        assert a.eps == pytest.approx(b.eps, abs=close)
        assert a.parts["rewards"] == b.parts["rewards"]
    if run.has_parameter:
        assert run.theta_hat == pytest.approx(whole_run.theta_hat, abs=CLOSE)
        assert run.weight_intervals == pytest.approx(whole_run.weight_intervals, abs=close)
    first_allowed = problem.actions_allowed.argmax(1)
    rng = np.random.default_rng(1)
    random_reward = rng.uniform(size=problem.space.sizes) / problem.horizon
    state = int(part.state_ids[part.num_states // 2])
    for reward in (hf.goal(problem, state), hf.occupancy(problem, state), random_reward):
        a, b = run.plan(part.restrict(reward)), whole_run.plan(reward)
        assert a.value == pytest.approx(b.value, abs=close)
        if run.has_parameter:
            for field in ("value_low", "value_high", "gap"):
                assert getattr(a, field) == pytest.approx(getattr(b, field), abs=close)
        else:  # bounds of tables use the largest reward of every step, which the part may not have
            assert a.gap <= b.gap + close
            assert a.value_low >= b.value_low - close
            assert a.value_high <= b.value_high + close
            assert a.gap == pytest.approx(b.gap, abs=1e-3)
        assert a.kernel.prob[np.asarray(part.space.reachable)] == pytest.approx(
            b.kernel.prob[part.state_ids][np.asarray(part.space.reachable)], abs=close
        )
        policy = part.extend(a.policy, fill=first_allowed)
        assert policy.shape == (problem.horizon, problem.num_states)
        assert whole_run.evaluate(reward, policy).value == pytest.approx(b.value, abs=close)
        assert run.evaluate(part.restrict(reward), part.restrict(b.policy)).value == pytest.approx(
            a.value, abs=close
        )
        assert hf.true_gap(problem, reward, policy) == pytest.approx(
            hf.true_gap(part, part.restrict(reward), a.policy), abs=CLOSE
        )


def test_methods_and_misspecification_are_those_of_the_whole(run, whole_run):
    """Laws keep to the listed successors, and episodes to the part; it has fewer classes of pairs to share delta."""
    small, large = (x.resume(episodes=300, progress=False) for x in (run, whole_run))
    assert small.certificate(method="direct").eps == pytest.approx(
        large.certificate(method="direct").eps, abs=CLOSE
    )
    for misspecification in (0.001, hf.Misspecification(kl=1e-5)):
        a, b = (x.certificate(misspecification=misspecification).eps for x in (small, large))
        assert a <= b + CLOSE
        assert a == pytest.approx(b, abs=0.01)
    a, b = (x.robustness(0.5).zeta for x in (small, large))
    assert a >= b - CLOSE


def test_laws_that_lead_anywhere_are_refused(part, run):
    misspecification = hf.Misspecification(tv=0.01, support="anywhere")
    for ask in (
        lambda: run.certificate(misspecification=misspecification),
        lambda: run.plan(hf.goal(part, 12), misspecification=misspecification),
        lambda: run.robustness(shape=misspecification),
        lambda: hf.explore(part, until_eps=0.5, misspecification=misspecification, progress=False),
    ):
        with pytest.raises(OptionError, match="states that this part of a problem leaves out"):
            ask()


def test_a_problem_without_unreachable_states_is_its_own_part():
    problem = hf.make("random-mixture", states=5, actions=2, successors=3, horizon=4)
    assert problem.reachable_part() is problem
    assert (problem.state_ids == np.arange(5)).all()
    linear = hf.make("linear-lock")
    assert linear.reachable_part() is linear
    x = np.arange(5.0)
    assert (problem.restrict(x) == x).all()
    assert (problem.extend(x) == x).all()


def test_a_part_of_a_part_is_a_part_of_the_whole(problem, part):
    shorter = part.with_start(horizon=3).reachable_part()
    assert (shorter.state_ids == problem.with_start(horizon=3).reachable_part().state_ids).all()
    assert shorter.num_states == 10
    assert shorter.extend(np.ones(10)).shape == (64,)
    assert shorter.reachable_part() is shorter


def test_kernels_from_samples_have_no_part():
    def step(s, a, rng):
        return min(s + rng.integers(2), 9)

    problem = hf.from_simulators([step], num_states=10, num_actions=2, samples=50, horizon=2)
    with pytest.raises(OptionError, match="estimated from samples"):
        problem.reachable_part()


def test_plans_from_elsewhere(problem, part, run, whole_run):
    reward = np.where(np.arange(64) == 18, 1 / 3, 0.0)
    state = int(np.flatnonzero(part.state_ids == 9)[0])
    a, b = run.plan(part.restrict(reward), start=state, horizon=3), whole_run.plan(reward, start=9, horizon=3)
    assert a.value == pytest.approx(b.value, abs=CLOSE)
    assert a.gap == pytest.approx(b.gap, abs=CLOSE)
    assert a.certificate.summary() == b.certificate.summary()
    assert a.certificate.summary().endswith("from state 9, in 3 steps")
    start = np.where(np.isin(np.arange(64), [1, 8]), 0.5, 0.0)
    a = run.plan(part.restrict(reward), start=part.restrict(start), horizon=3)
    assert a.value == pytest.approx(whole_run.plan(reward, start=start, horizon=3).value, abs=CLOSE)
    with pytest.raises(ShapeError, match=r"state 27 can be reached, which no episode of 6 steps"):
        run.plan(part.restrict(reward), start=int(np.flatnonzero(part.state_ids == 27)[0]), horizon=1)


def test_rewards_for_transitions_and_for_the_end(problem, part, run, whole_run):
    pay = np.zeros((64, 4, 64))
    pay[:, 1, 9], pay[8, :, 9] = 0.1, 0.05
    small = pay[part.state_ids][:, :, part.state_ids]
    final = np.where(np.arange(64) == 18, 0.2, 0.0)
    zero = np.zeros(64)
    a = run.plan(part.restrict(zero), transition=small, final=part.restrict(final), discount=0.9)
    b = whole_run.plan(zero, transition=pay, final=final, discount=0.9)
    assert (a.value, a.gap) == pytest.approx((b.value, b.gap), abs=CLOSE)


def test_a_stored_run_has_its_part(part, run, tmp_path):
    first_half = hf.explore(part, "optimal-design", episodes=EPISODES // 2, seed=3, progress=False)
    first_half.save(tmp_path / "run")
    resumed = hf.load(tmp_path / "run").resume(episodes=EPISODES // 2, progress=False)
    assert (resumed.problem.state_ids == part.state_ids).all()
    assert fingerprint(resumed.problem) == fingerprint(part)
    assert resumed.problem.extend(np.ones(28)).sum() == 28
    assert resumed.problem.state_name(27) == "state 48"
    for name, x in run.records.items():
        assert (resumed.records[name] == x).all()
    assert resumed.certificate() == run.certificate()


def test_a_real_environment_has_the_states_of_the_whole(problem, part):
    for env in (problem.to_gymnasium(), part.to_gymnasium()):
        live_run = hf.explore(env, "optimal-design", known=part, episodes=4, progress=False)
        assert live_run.visits.sum() == 24
        assert live_run.visits[~np.asarray(part.space.reachable)].sum() == 0
        assert not live_run.certificate().is_rejected

    class Jumping(gymnasium.Wrapper):
        def step(self, action):
            return np.int64(63), *self.env.step(action)[1:]

    with pytest.raises(ModelError, match="is 63, which no episode of 6 steps can reach"):
        hf.explore(Jumping(problem.to_gymnasium()), "optimal-design", known=part, episodes=4, progress=False)


def test_logs_are_restricted(problem, part):
    log = hf.simulate(problem, np.ones((6, 64), int), episodes=5)
    s, a = np.asarray(log.s), np.asarray(log.a)
    whole_run = hf.from_episodes(problem, log)
    for episodes in (part.restrict(log), part.restrict((s, a))):
        part_run = hf.from_episodes(part, episodes)
        assert part_run.visits.sum() == 30
        assert (part.restrict(whole_run.visits) == part_run.visits).all()
        assert part_run.certificate().eps == pytest.approx(whole_run.certificate().eps, abs=CLOSE)
    ragged = [s[0], s[1, :4]], [a[0], a[1, :3]]
    assert hf.from_episodes(part, part.restrict(ragged)).visits.sum() == 9
    log_with_jump = s.copy()
    log_with_jump[0, 3:] = 63
    with pytest.raises(ModelError, match=r"states\[0, 3\] is 63, which no episode"):
        part.restrict((log_with_jump, a))
    assert hf.from_episodes(problem, (log_with_jump, a)).certificate().is_rejected
    with pytest.raises(ShapeError, match=r"states\[0, 3\] is 64; states are 0 to 63"):
        part.restrict((np.where(log_with_jump == 63, 64, log_with_jump), a))


def test_batches_take_parts(part, run):
    batch = hf.explore_many(part, "optimal-design", seeds=[3], episodes=EPISODES, progress=False)
    assert batch[0].certificate().eps == pytest.approx(run.certificate().eps, abs=CLOSE)


def test_reports_are_those_of_the_whole(part, run, whole_run):
    a, b = compute_facts(run), compute_facts(whole_run)
    assert (a.visits == part.restrict(b.visits)).all()
    assert a.uncertainty == pytest.approx(part.restrict(b.uncertainty), abs=CLOSE, nan_ok=True)
    assert a.history[-1].true_gap == pytest.approx(history_of(whole_run, 0.05)[-1].true_gap, abs=CLOSE)
    assert [x.title for x in a.examples] == [x.title for x in b.examples]
    assert a.hardest_goal == b.hardest_goal


def test_words_name_pairs_in_the_numbers_of_the_whole(run):
    confidence = run.confidence()
    stop = np.zeros((28, 4), bool)
    stop[-1, 2] = True
    changed_confidence = replace(confidence, divergence=replace(confidence.divergence, stop=stop))
    assert changed_confidence.unsure_pairs().tolist() == [[48, 2]]


def test_explore_says_where_most_states_are_out_of_reach(problem, part, monkeypatch):
    monkeypatch.setattr(reachable, "MIN_OUT_OF_REACH", 37)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hf.explore(problem, episodes=1, progress=False)  # 36 are out of reach
    monkeypatch.setattr(reachable, "MIN_OUT_OF_REACH", 36)
    with pytest.warns(
        PartWarning, match=r"36 of 64 states cannot be reached within 6 steps: explore\(problem"
    ):
        hf.explore(problem, episodes=1, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hf.explore(part, episodes=1, progress=False)
