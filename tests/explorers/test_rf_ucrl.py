"""RF-UCRL against the algorithm as printed: its numbers, its mechanism (|Q_hat - Q| <= E), its certificate."""

import equinox as eqx
import jax
import numpy as np
import pytest

import horizonfree as hf
from horizonfree._x64 import to_device, to_numpy
from horizonfree.errors import OptionError
from horizonfree.explorers.per_step import Frequencies, greedy_random_ties
from horizonfree.explorers.rf_ucrl import RFUCRL
from horizonfree.guarantees.e_processes import ladder
from horizonfree.mdp.space import Trajectory
from horizonfree.problems.classes import Tabular
from tests.reference import rf_ucrl as literal
from tests.reference.episodes import follow
from tests.reference.tables import (
    best_values,
    dense_tables,
    double_chain,
    explore_seeds,
    filled_tables,
    q_values,
    random_problem,
)

# As one program each: outside of one, every call of a loop is traced anew.
errors, plan = eqx.filter_jit(RFUCRL.errors), eqx.filter_jit(RFUCRL.plan)


def test_the_thresholds_are_those_of_the_paper(x64):
    for (S, A, H), n, delta, expected in (
        ((2, 2, 3), 0, 0.1, 6.480639),
        ((2, 2, 3), 10, 0.1, 8.878534),
        ((3, 2, 5), 10, 0.05, 12.673596),
    ):
        model = random_problem(S, A, H).model
        assert float(RFUCRL(delta=delta).beta(model, np.float64([n]))[0]) == pytest.approx(expected, abs=5e-7)
        pooled = RFUCRL(delta=delta, pool_steps=True).beta(model, np.float64([n]))[0]
        assert float(pooled) == pytest.approx(expected - np.log(H), abs=5e-7)
    small_model = random_problem(1, 2, 3).model
    assert float(RFUCRL(delta=0.1).beta(small_model, np.float64([7]))[0]) == pytest.approx(np.log(120))


@pytest.mark.parametrize("pool_steps", [False, True])
def test_without_visits_the_bounds_are_what_is_left_of_the_rewards(pool_steps, x64):
    model = to_device(random_problem(H=3).model)
    explorer = RFUCRL(pool_steps=pool_steps)
    state = explorer.init(model)
    largest = np.array([2.0, 1.0, 0.0])
    E = errors(explorer, jax.random.key(0), model, state.seen, state.bonus, largest, 1.0, True).X
    np.testing.assert_array_equal(E, np.broadcast_to([[[2.0]], [[1.0]], [[0.0]]], (3, 3, 2)))
    assert explorer.bounds(model, state.seen) == (2.0, 1.0)


def test_one_step_needs_no_exploration():
    """All rewards are known at the last step: E = 0, and the rule stops before the first episode."""
    run = hf.explore(random_problem(H=1), RFUCRL(), episodes=3, progress=False)
    np.testing.assert_array_equal(run.records["E"], 0.0)
    assert run.explorer.stopping_time(run.records, 0.1) == 0
    assert run.certificate(method="paper").eps == 0.0


def test_how_many_visits_the_rule_needs_before_it_can_stop(x64):
    """S = 3, A = 2, H = 5, delta = .1, eps = .5, if all else is known: n >= 512 beta(n) in the first step.

    512 (log(600) + 2 log(e(1 + n/2))) = 13,314.4 at n = 13,315.
    """
    model = random_problem(3, 2, 5).model
    n = np.arange(13_000.0, 14_000.0)
    first = 4 * np.sqrt(2 * np.asarray(RFUCRL(delta=0.1).beta(model, n)) / n)
    assert n[first <= 0.25].min() == 13_315


@pytest.mark.parametrize(
    ("clip", "bonus_scale", "pool_steps"),
    [(True, 1.0, False), (False, 1.0, False), (True, 0.05, False), (True, 0.03, True), (False, 1.0, True)],
)
def test_twenty_episodes_agree_with_the_printed_algorithm(clip, bonus_scale, pool_steps, x64):
    """Ties are free in the paper: actions are the library's, once shown to attain the maxima."""
    problem, delta = random_problem(), 0.1
    model, (H, S, A) = to_device(problem.model), problem.space.sizes
    explorer = RFUCRL(clip=clip, bonus_scale=bonus_scale, pool_steps=pool_steps, delta=delta)
    counts, below = literal.Counts(H, S, A, pool_steps), 0
    for state, trajectory, updated in follow(problem, explorer, 20, gathers=True):
        E = literal.rf_ucrl(counts, delta, clip, bonus_scale)
        chosen_E = np.take_along_axis(E, state.policy[..., None], axis=2)[..., 0]
        np.testing.assert_allclose(chosen_E, E.max(-1), rtol=1e-9, atol=1e-9)
        assert float(state.error) == pytest.approx(E[0, 0].max(), abs=1e-9)
        below += float(state.error) < H - 1
        counts.add(trajectory.s, trajectory.a)
        visits = counts.N.sum(-1).sum(0, keepdims=True) if pool_steps else counts.N.sum(-1)
        np.testing.assert_array_equal(updated.seen.visits, visits)
        p_hat = [[[counts.p_hat(h, s, a) for a in range(A)] for s in range(S)] for h in range(H)]
        np.testing.assert_allclose(dense_tables(problem.space, updated.seen.prob), p_hat, rtol=0, atol=1e-12)
    assert below > 0 or bonus_scale == 1
    largest = np.minimum(1, np.arange(H)[::-1])
    expected = [literal.rf_ucrl(counts, delta, largest=x)[0, 0].max() for x in (None, largest)]
    np.testing.assert_allclose(explorer.bounds(model, updated.seen), expected, rtol=0, atol=1e-9)
    reward = np.random.default_rng(0).random((H, S, A))
    _, V = plan(explorer, model, to_device(updated), model.init_evidence(ladder()), reward)
    np.testing.assert_allclose(V, literal.value_iteration(counts, reward), rtol=0, atol=1e-9)


SEEDS, DELTA = 200, 0.1
MAX_FAILURES = (
    45  # of 200 seeds, each with probability 0.1 at most: more than that has probability below 1e-6
)


@pytest.fixture(scope="module", params=[False, True], ids=["steps apart", "pooled"])
def two_hundred(request):
    """200 seeds with the paper's constants, and |Q_hat - Q| for random policies and rewards."""
    problem = random_problem(S=3, A=2, H=4, seed=1)
    explorer = RFUCRL(delta=DELTA, pool_steps=request.param, clip=True)
    states, _ = explore_seeds(problem, explorer, 300, SEEDS)
    rng, (H, S, A) = np.random.default_rng(0), problem.space.sizes
    P_hat = dense_tables(problem.space, states.seen.prob)
    P = np.broadcast_to(problem.kernel().dense(), (H, S, A, S))
    wrong = {"per-step": 0.0, "total": 0.0}
    for _ in range(40):
        policy = rng.integers(A, size=(H, S))
        kinds = {"per-step": rng.integers(2, size=(H, S, A)).astype(float), "total": np.zeros((H, S, A))}
        kinds["total"][rng.integers(1, H)] = rng.integers(2, size=(S, 1))
        for kind, reward in kinds.items():
            errors = np.abs(q_values(P_hat, reward, policy) - q_values(P, reward, policy))
            wrong[kind] = np.maximum(wrong[kind], errors)
    return problem, explorer, states, wrong


@eqx.filter_jit
def all_error_bounds(explorer, model, counts, largest, bonus_scale):
    def compute(counts):
        bonus = explorer.bonus(model, counts.visits)
        return explorer.errors(jax.random.key(0), model, counts, bonus, largest, bonus_scale, True).X

    return jax.vmap(compute)(counts)


def error_bounds(problem, explorer, states, largest, bonus_scale=1.0):
    with jax.enable_x64(True):
        args = to_device((problem.model, states.seen, largest))
        return to_numpy(all_error_bounds(explorer, *args, bonus_scale))


@pytest.mark.parametrize("kind", ["per-step", "total"])
def test_values_are_misjudged_by_at_most_E(two_hundred, kind):
    """At all steps and pairs; a thirtieth of the bonus would not do."""
    problem, explorer, states, wrong = two_hundred
    steps_left = np.arange(problem.horizon)[::-1].astype(float)
    largest = steps_left if kind == "per-step" else np.minimum(steps_left, 1)
    E = error_bounds(problem, explorer, states, largest)
    assert (E >= 0).all()
    assert (E <= largest[:, None, None]).all()
    assert (wrong[kind] > E + 1e-9).any((1, 2, 3)).sum() <= MAX_FAILURES
    smaller = error_bounds(problem, explorer, states, largest, 1 / 30)
    assert (wrong[kind] > smaller + 1e-9).any((1, 2, 3)).mean() > 0.5


@pytest.fixture(scope="module")
def long_run():
    """Long enough for the paper's own bound to say something."""
    problem = random_problem(S=2, A=2, H=3)
    return hf.explore(problem, "rf-ucrl", episodes=10_000, delta=DELTA, pool_steps=True, progress=False)


def test_the_certificate_is_twice_U_and_plans_keep_it(long_run):
    problem, claim = long_run.problem, long_run.certificate(DELTA, method="paper")
    E, U = long_run.explorer.bounds(problem.model, long_run.progress.state.seen)
    assert claim.eps == pytest.approx(2 * U)
    assert U < E < 2 * U
    assert claim.eps < 0.5
    assert "plans in the explorer's own model" in claim.holds_for
    assert claim.parts == {"E": E, "U": U}
    P = np.broadcast_to(problem.kernel().dense(), (3, 2, 2, 2))
    for seed in range(5):
        reward = np.random.default_rng(seed).random((3, 2, 2)) / 3
        policy = long_run.plan(reward, model="explorer").policy
        loss = best_values(P, reward)[0, 0] - q_values(P, reward, policy)[0, 0, policy[0, 0]]
        assert loss <= claim.eps


def test_the_rule_stops_where_E_reaches_half_of_eps(long_run):
    E = long_run.records["E"]
    t = long_run.explorer.stopping_time(long_run.records, 1.0)
    assert E[t] <= 0.5
    assert (E[:t] > 0.5).all()
    assert t > 0
    assert long_run.explorer.stopping_time(long_run.records, 0.01) is None


def test_a_scaled_bonus_explores_with_less_and_claims_as_much():
    """The certificate is made of visits, with the paper's constants, whatever gathered them."""
    problem = random_problem(S=2, A=2, H=3)
    runs = [hf.explore(problem, RFUCRL(bonus_scale=x), episodes=50, progress=False) for x in (1.0, 1e-6)]
    assert runs[1].records["E"][-1] < 1e-4 < runs[0].records["E"][-1]
    for run in runs:
        claim = run.certificate(method="paper")
        assert claim.eps == 1.0
        assert "vacuous" in claim.summary()


def test_it_reaches_the_ends_of_the_double_chain_and_random_actions_do_not():
    """The visits of the paper's figure: nearly even against a peak in the middle."""
    problem, visits = double_chain(), {}
    for name in ("rf-ucrl", "uniform"):
        run = hf.explore(problem, name, episodes=3000, progress=False)
        visits[name] = np.asarray(run.evidence.visits).sum(1) / (3000 * problem.horizon)
    assert visits["rf-ucrl"][[0, -1]].min() > 5 * visits["uniform"][[0, -1]].max()
    assert visits["rf-ucrl"].max() < 0.15


def test_a_start_that_is_drawn_counts_by_its_mean(x64):
    problem = random_problem(start=[0.25, 0.0, 0.75])
    model, explorer = to_device(problem.model), RFUCRL(clip=True, bonus_scale=0.05)
    for state, _, _ in follow(problem, explorer, 12, gathers=True):
        device_state, largest = to_device(state), np.arange(3.0, -1, -1)
        E = errors(
            explorer, jax.random.key(0), model, device_state.seen, device_state.bonus, largest, 0.05, True
        ).X
        assert float(state.error) == pytest.approx(np.asarray(E).max(-1)[0] @ [0.25, 0.0, 0.75], abs=1e-12)


def test_known_successors_alone_are_listed(x64):
    """A table of which the support is known has short lists; the numbers are the same."""
    P = np.zeros((5, 2, 5))
    for s in range(5):
        np.add.at(P[s, 0], [max(s - 1, 0), s], [0.7, 0.3])
        np.add.at(P[s, 1], [min(s + 1, 4), s], [0.6, 0.4])
    short = Tabular.from_table(P, horizon=4, start=2, support="given")
    assert (
        RFUCRL(successors=1).init(to_device(short.model)).seen.succ is None
    )  # these lists are short already
    assert short.space.succ.shape[2] == 2
    counts = literal.Counts(4, 5, 2, possible=P > 0)
    for state, trajectory, updated in follow(short, RFUCRL(clip=True, bonus_scale=0.05), 20, gathers=True):
        assert float(state.error) == pytest.approx(
            literal.rf_ucrl(counts, 0.05, True, 0.05)[0, 2].max(), abs=1e-9
        )
        counts.add(trajectory.s, trajectory.a)
        p_hat = [[[counts.p_hat(h, s, a) for a in range(2)] for s in range(5)] for h in range(4)]
        np.testing.assert_allclose(dense_tables(short.space, updated.seen.prob), p_hat, rtol=0, atol=1e-12)


def walk(fail=0.3, S=5, H=4, terminal=()):
    """A walk: an action moves left or right, or fails; the two successors of a pair are unknown."""
    P = np.zeros((S, 2, S))
    for s in range(S):
        for a, successor in enumerate([max(s - 1, 0), min(s + 1, S - 1)]):
            np.add.at(P[s, a], [successor, s], [1 - fail, fail])
    P[list(terminal)] = np.eye(S)[list(terminal), None]
    return Tabular.from_table(P, horizon=H, start=S // 2, terminal=terminal)


@pytest.mark.parametrize(("pool_steps", "clip"), [(False, False), (False, True), (True, False)])
def test_lists_that_are_filled_as_transitions_are_seen_change_nothing(pool_steps, clip, x64):
    """Rows without visits are on no list, and even as they are without lists."""
    problem = walk()
    H, S, A = problem.space.sizes
    explorer = RFUCRL(successors=2, pool_steps=pool_steps, clip=clip, bonus_scale=0.05, delta=0.1)
    counts = literal.Counts(H, S, A, pool_steps)
    for state, trajectory, updated in follow(problem, explorer, 20, gathers=True):
        E = literal.rf_ucrl(counts, 0.1, clip, 0.05)
        assert float(state.error) == pytest.approx(E[0, 2].max(), rel=1e-9)
        counts.add(trajectory.s, trajectory.a)
        p_hat = np.array([[[counts.p_hat(h, s, a) for a in range(A)] for s in range(S)] for h in range(H)])
        bounds = (
            filled_tables(updated.seen, S)
            + np.asarray(updated.seen.unseen_rows(problem.space))[..., None] / S
        )
        np.testing.assert_allclose(bounds, p_hat[: len(bounds)], rtol=0, atol=1e-12)
        np.testing.assert_allclose(
            updated.bonus, explorer.bonus(problem.model, updated.seen.visits), rtol=1e-12
        )
    assert int(updated.seen.missed) == 0
    assert updated.seen.prob.shape[1] == 2
    reward = np.random.default_rng(0).random((H, S, A))
    model = to_device(problem.model)
    _, V = plan(explorer, model, to_device(updated), model.init_evidence(ladder()), reward)
    np.testing.assert_allclose(V, literal.value_iteration(counts, reward), rtol=0, atol=1e-9)


@pytest.mark.parametrize("pool_steps", [False, True])
def test_known_rows_stand_in_the_lists_from_the_start_and_what_finds_no_place_voids_the_claim(pool_steps):
    problem = walk(terminal=[0, 4])
    run = hf.explore(problem, RFUCRL(successors=1, pool_steps=pool_steps), episodes=30, progress=False)
    frequencies = run.progress.state.seen
    np.testing.assert_array_equal(frequencies.succ[0, [0, 4]], [[0, 0], [4, 4]])
    np.testing.assert_array_equal(frequencies.prob[:, 0, [0, 4]], 1.0)
    counts = np.asarray(run.evidence.counts)
    assert int(frequencies.missed) == counts.sum() - sum(
        counts[s, a, frequencies.succ[0, s, a]] for s, a in np.ndindex(5, 2) if counts[s, a].any()
    )
    assert int(frequencies.missed) > 0
    claim = run.certificate(method="paper")
    assert claim.eps == 1.0
    assert "did not fit into the lists" in claim.summary()
    enough = hf.explore(problem, RFUCRL(successors=2, pool_steps=pool_steps), episodes=30, progress=False)
    assert int(enough.progress.state.seen.missed) == 0
    assert "did not fit" not in enough.certificate(method="paper").summary()


def test_steps_that_were_not_seen_count_for_nothing(x64):
    """An episode that broke off after its first step, or said something impossible."""
    problem = random_problem(H=3)
    model = to_device(problem.model)
    empty = Frequencies.empty(model, 3)
    trajectory = Trajectory(*(np.int32(x) for x in ([0, 1, 1, 1], [1, 0, 0], [1, -2, -1])))
    updated = empty.learn(model.space, trajectory)
    assert int(updated.visits.sum()) == int(updated.visits[0, 0, 1]) == 1
    np.testing.assert_array_equal(updated.prob[0, :, 0, 1], [0.0, 1.0, 0.0])
    np.testing.assert_array_equal(updated.prob[1:], empty.prob[1:])


def test_ties_are_settled_by_lot(x64):
    """Every action that is best is picked by as many lots as the others, and no other action by any."""
    X = np.array([[1.0, 2.0, 2.0, 0.0, 2.0]])
    actions = [int(greedy_random_ties(np.uint32([lot]), X)[0]) for lot in range(6)]
    assert actions == [1, 2, 4, 1, 2, 4]
    assert int(greedy_random_ties(np.uint32([2**32 - 1]), X)[0]) in (1, 2, 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bonus_scale": -1.0}, "bonus_scale is -1.0"),
        ({"bonus_scale": float("nan")}, "bonus_scale is nan"),
        ({"delta": 1.0}, "delta is 1.0"),
        ({"successors": 0}, "successors is 0"),
    ],
)
def test_options_outside_their_range_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        RFUCRL(**options)


def test_a_mixture_is_refused_unless_it_is_made_tabular():
    problem = hf.make("river-swim", states=3, horizon=3)
    with pytest.raises(OptionError, match=r"learns a TabularModel.*problem\.as_tabular\(\)"):
        hf.explore(problem, "rf-ucrl", episodes=1, progress=False)
    run = hf.explore(problem.as_tabular(), "rf-ucrl", episodes=2, progress=False)
    assert run.episodes == 2
