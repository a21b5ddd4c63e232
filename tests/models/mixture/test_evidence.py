"""Evidence: the bets are honest probability assignments, start when they say, and cover the truth."""

from itertools import pairwise, product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom

from horizonfree import Mixture, simulate
from horizonfree._x64 import to_device, to_numpy
from horizonfree.errors import OptionError
from horizonfree.guarantees.e_processes import EProcesses, ladder
from horizonfree.mdp.space import Trajectory
from horizonfree.models.mixture import evidence as ev
from horizonfree.models.mixture import learner
from horizonfree.models.mixture.learner import predict
from tests.reference import small
from tests.reference.episodes import make_sampler
from tests.reference.jitted import jitted

learn = eqx.filter_jit(learner.update)


def uniform_policy(problem):
    return np.full(problem.space.sizes, 1.0 / problem.num_actions)


def bets(starts, weights):
    return EProcesses(np.array(starts, np.int32), np.array(weights))


def nothing(valid, starts, weights):
    return jitted(lambda valid: learner.init_evidence(valid, bets(starts, weights)), valid)


def replay(valid, trajectories, starts, weights, step=learn):
    """Evidence after each episode."""
    with jax.enable_x64(True):
        valid = to_device(valid)
        history = [nothing(valid, starts, weights)]
        for k in range(len(trajectories.a)):
            history.append(step(valid, history[-1], to_device(small.pick(trajectories, k))))
        return [to_numpy(x) for x in history]


@pytest.mark.parametrize("name", ["corner", "slips", "tabular"])
def test_the_predictions_of_all_possible_data_sum_to_one(name):
    """exp(-Lq) is a probability of the data: over every outcome of two episodes it adds up to exactly one.

    Training on an episode before predicting it, or a predictor outside Theta, would break this.
    """
    problem = small.PROBLEMS[name]()
    valid, space = problem.model.valid, problem.space
    H = 2  # two episodes of two steps
    policy = np.ones((2, H, problem.num_states), int)  # action 1 is never deterministic

    def outcomes(s, k, h):
        if h == H:
            yield [s], []
            return
        a = policy[k, h, s]
        for j in np.flatnonzero(space.support[s, a]):
            for states, slots in outcomes(space.succ[s, a, j], k, h + 1):
                yield [s, *states], [j, *slots]

    pairs = list(product(*(list(outcomes(problem.start, k, 0)) for k in range(2))))
    s = np.array([[states for states, _ in pair] for pair in pairs], np.int32)
    j = np.array([[slots for _, slots in pair] for pair in pairs], np.int32)
    a = policy[np.arange(2)[None, :, None], np.arange(H), s[..., :-1]].astype(np.int32)
    assert len(pairs) >= 16

    with jax.enable_x64(True):
        valid_ = to_device(valid)
        first = nothing(valid_, [0, 1], [0.5, 0.5])

        def both(trajectories):
            last = jax.lax.scan(lambda e, t: (learner.update(valid_, e, t), None), first, trajectories)[0]
            return last.loss, last.table_loss

        losses, table = jitted(jax.vmap(both), to_device(Trajectory(s, a, j)))
    assert np.exp(-table).sum() == pytest.approx(1, abs=1e-9)
    assert np.exp(-losses[:, 0]).sum() == pytest.approx(1, abs=1e-9)
    # the bet on the second episode alone sums to one for each first episode
    first_episode = np.unique(s[:, 0], axis=0, return_inverse=True)[1].reshape(-1)
    np.testing.assert_allclose(np.bincount(first_episode, np.exp(-losses[:, 1])), 1, atol=1e-9)


def test_each_loss_is_that_of_the_predictor_before_the_episode():
    problem = small.slips()
    valid = problem.model.valid
    data = simulate(problem, uniform_policy(problem), episodes=12, seed=3)
    starts, weights = [0, 5], [0.7, 0.3]
    history = replay(valid, data, starts, weights)
    losses = np.zeros((2, 2))
    for k, (before, after) in enumerate(pairwise(history)):
        steps = zip(data.s[k], data.a[k], data.j[k])
        p = np.array([before.thetas @ problem.model.phi[s, a, j] for s, a, j in steps])
        losses += (k >= np.array(starts))[:, None] * -np.log(p).sum(0)
        np.testing.assert_allclose(after.losses, losses, rtol=1e-12)


def test_a_bet_mixes_its_predictors_with_weights_of_before_its_start():
    """a_i = 1/4 + half of the posterior; Lq = -log sum a_i exp(-Lq_i), at most log 4 above the better one."""
    problem = small.dense(S=12, weights=(0.9, 0.1, 0.0))
    data = simulate(problem, uniform_policy(problem), episodes=12, seed=3)
    history = replay(problem.model.valid, data, [0, 5], [0.7, 0.3])
    last, before = history[-1], history[5].losses[0]
    posterior = np.exp(-before) / np.exp(-before).sum()
    for j, share in enumerate(([0.5, 0.5], posterior)):
        a = 1 / 4 + np.asarray(share) / 2
        assert last.loss[j] == pytest.approx(-np.log((a * np.exp(-last.losses[j])).sum()), rel=1e-12)
        assert last.loss[j] <= last.losses[j].min() + np.log(4)
    assert abs(posterior[0] - 0.5) > 0.05  # or the test would not tell the weights apart
    now = np.exp(-last.losses[0]) / np.exp(-last.losses[0]).sum()
    np.testing.assert_allclose(last.theta, now @ last.thetas, rtol=1e-12)


def test_with_many_rows_the_mixture_bets_far_better_than_half_a_count_per_row():
    problem = small.dense(S=16, weights=(0.9, 0.1, 0.0), horizon=8)
    evidence = small.pick(small.gather(problem, 200, [0]), 0)
    assert evidence.loss[-1] < evidence.losses[-1, 0] - 5
    assert evidence.loss[-1] < evidence.losses[-1, 1] + 1.4


def test_a_large_fit_is_made_on_a_schedule_and_still_predicts_before_it_sees(monkeypatch):
    """Every episode at first, then whenever there are 2 % more episodes."""
    monkeypatch.setattr(learner, "MAX_WORK_PER_EPISODE", 0)
    problem = small.dense()
    data = simulate(problem, uniform_policy(problem), episodes=160, seed=0)
    step = jax.jit(lambda *given: learner.update(*given))  # traced anew
    history = replay(problem.model.valid, data, [0], [1.0], step=step)
    is_new = np.array([not np.array_equal(x.thetas, y.thetas) for x, y in pairwise(history)])
    assert is_new[:40].all()
    assert 45 <= is_new.sum() <= 130
    gaps = np.diff(np.flatnonzero(is_new))
    assert gaps.max() == np.ceil(0.02 * 160)


def test_counts_are_what_was_seen_and_bets_count_from_their_start():
    problem = small.dense()
    valid = problem.model.valid
    data = simulate(problem, uniform_policy(problem), episodes=9, seed=1)
    last = replay(valid, data, [0, 4, 20], [0.5, 0.25, 0.25])[-1]
    counts, rows = np.zeros_like(last.counts), np.zeros((3, len(valid.rows)), int)
    for k in range(9):
        for s, a, j in zip(data.s[k], data.a[k], data.j[k]):
            counts[s, a, j] += 1
            rows[0, valid.row_of[s, a, j]] += 1
            rows[1, valid.row_of[s, a, j]] += k >= 4
    np.testing.assert_array_equal(last.counts, counts)
    np.testing.assert_array_equal(last.row_counts, rows[0])
    np.testing.assert_array_equal(last.since, rows)
    assert (last.episodes, last.impossible) == (9, 0)
    assert (last.losses[2] == 0).all()


def test_of_many_rows_an_episode_looks_at_its_own_alone_and_learns_the_same(monkeypatch):
    """With a step that no parameter explains, and a bet that has not begun."""
    problem = small.slips()
    data = simulate(problem, uniform_policy(problem), episodes=4, seed=0)
    is_odd = np.arange(data.j.size).reshape(data.j.shape) == data.j.shape[1] + 2
    data = Trajectory(data.s, data.a, np.where(is_odd, -1, data.j).astype(np.int32))
    last = replay(problem.model.valid, data, [0, 2, 9], [0.5, 0.25, 0.25])[-1]
    monkeypatch.setattr(learner, "MAX_DENSE_ROWS", 0)
    with jax.enable_x64(True):
        valid = to_device(problem.model.valid)
        step = eqx.filter_jit(lambda *given: learner.update(*given))  # traced anew
        now = nothing(valid, [0, 2, 9], [0.5, 0.25, 0.25])
        for k in range(4):
            now = step(valid, now, to_device(small.pick(data, k)))
    for name in ("counts", "row_counts", "since", "impossible"):
        np.testing.assert_array_equal(getattr(now, name), getattr(last, name))
    np.testing.assert_allclose(now.losses, last.losses, rtol=1e-12)
    np.testing.assert_allclose(now.thetas, last.thetas, rtol=1e-12)


def test_the_predictor_depends_on_the_counts_seen_and_not_on_later_ones():
    problem = small.slips()
    valid = problem.model.valid
    data = simulate(problem, uniform_policy(problem), episodes=6, seed=0)
    history = replay(valid, data, [0], [1.0])
    with jax.enable_x64(True):
        for before, after in pairwise(history):
            expected = jitted(predict, *to_device((valid, after.row_counts, before.thetas)))
            np.testing.assert_allclose(after.thetas, expected, atol=1e-12)
    p = valid.rows[valid.free] @ np.concatenate([x.thetas for x in history]).T
    assert (p > 0).all()
    assert (p < 1).all()


@pytest.mark.parametrize("j", [-1, 99])
def test_a_slot_that_does_not_exist_is_an_impossible_transition(j):
    problem = small.slips()
    valid = problem.model.valid
    data = simulate(problem, uniform_policy(problem), episodes=1, seed=0)
    bad = Trajectory(data.s, data.a, np.where(np.arange(problem.horizon) == 2, j, data.j).astype(np.int32))
    assert replay(valid, bad, [0], [1.0])[-1].impossible == 1


def test_padding_and_rows_that_are_always_zero_are_impossible_transitions():
    problem = small.slips()
    valid = problem.model.valid
    s, a, j = np.argwhere(valid.row_of == len(valid.rows))[0]
    H = problem.horizon
    bad = Trajectory(
        np.full((1, H + 1), s, np.int32), np.full((1, H), a, np.int32), np.full((1, H), j, np.int32)
    )
    last = replay(valid, bad, [0], [1.0])[-1]
    assert last.impossible == H
    assert np.isfinite(last.loss).all()


def test_a_known_transition_is_possible_however_small_its_probability():
    """1e-12 is not zero: to see it refutes nothing."""
    P = np.zeros((2, 2, 1, 2))
    P[:, 0, 0] = [1 - 1e-12, 1e-12]
    P[0, 1, 0], P[1, 1, 0] = [0.5, 0.5], [0.1, 0.9]
    problem = Mixture.from_kernels(P, horizon=2, weights=[0.5, 0.5])
    rare = Trajectory(*(np.array([x], np.int32) for x in ([0, 1, 0], [0, 0], [1, 0])))
    last = replay(problem.model.valid, rare, [0], [1.0])[-1]
    assert last.impossible == 0
    assert np.isfinite(last.loss).all()


DELTA, SEEDS, EPISODES = 0.2, 2000, 40


PROBLEMS = small.PROBLEMS | {
    "drawn start": lambda: small.slips(start=[0.5, 0, 0, 0.2, 0, 0.3]),
    "many rows": lambda: small.dense(S=8, weights=(0.9, 0.1, 0.0, 0.0)),
}
FEW_ROWS = ("slips", "drawn start")  # all seeds at once are done before the program is compiled


@pytest.mark.parametrize("name", ["dense", "corner", "slips", "drawn start", "many rows"])
def test_the_truth_leaves_the_set_at_some_time_in_at_most_a_share_delta_of_runs(name):
    """Ville: P(exists n, j: theta_star not in U_j) <= delta. Fails wrongly with probability <= 1e-6 (binomial)."""
    problem = PROBLEMS[name]()
    with jax.enable_x64(True):
        valid, space = to_device((problem.model.valid, problem.space))
        sampler, truth = make_sampler(to_device(problem.kernel())), jnp.asarray(problem.truth)
        policy = jnp.asarray(uniform_policy(problem))
        first = to_device(jitted(lambda valid: learner.init_evidence(valid, ladder(EPISODES)), valid))

        def leaves(key):
            def step(evidence, key):
                evidence = learner.update(valid, evidence, sampler.episode(key, policy, space))
                return evidence, (ev.violation(valid, evidence, truth, DELTA) > 0).any()

            return jax.lax.scan(step, first, jax.random.split(key, EPISODES))[1].any()

        every = jax.jit(lambda keys: jax.lax.map(leaves, keys, batch_size=100))
        if name in FEW_ROWS:
            every = eqx.filter_jit(jax.vmap(leaves))
        left = int(np.asarray(every(jax.random.split(jax.random.key(7), SEEDS))).sum())
    assert left <= binom.isf(1e-6, SEEDS, DELTA)
    assert left > 0  # the bets do win sometimes: the set is not the whole of Theta


def test_excess_is_the_log_loss_against_the_bets():
    problem = small.dense()
    valid = problem.model.valid
    evidence = small.pick(small.gather(problem, 10, [0]), 0)
    with jax.enable_x64(True):
        found = jitted(ev.violation, *to_device((valid, evidence)), jnp.asarray(problem.truth), 0.1)
    p = valid.rows @ problem.truth
    for j in range(len(evidence.starts)):
        literal = (
            -(evidence.since[j] * np.log(p)).sum()
            - evidence.loss[j]
            - np.log(1 / (0.1 * evidence.weights[j]))
        )
        assert found[j] == pytest.approx(literal)


def test_bets_that_are_none_are_refused():
    valid = small.dense().model.valid
    with jax.enable_x64(True), pytest.raises(OptionError, match="they must be positive and sum to at most 1"):
        learner.init_evidence(valid, bets([0, 5], [0.6, 0.6]))


def test_the_model_learns_as_its_evidence_does():
    problem = small.slips()
    data = simulate(problem, uniform_policy(problem), episodes=3, seed=0)
    expected = replay(problem.model.valid, data, [0], [1.0])[-1]
    with jax.enable_x64(True):
        model = to_device(problem.model)
        found = jitted(lambda model: model.init_evidence(bets([0], [1.0])), model)
        learns = eqx.filter_jit(type(model).update)
        for k in range(3):
            found = learns(model, found, to_device(small.pick(data, k)))
        assert found.visits.sum() == 3 * problem.horizon
        np.testing.assert_allclose(model.estimate(found).prob, model.kernel(found.theta).prob)
    for x, y in zip(jax.tree.leaves(to_numpy(found)), jax.tree.leaves(expected)):
        np.testing.assert_allclose(x, y, rtol=1e-12)
