"""RFLIN: EGS by hand and against plain loops, epochs that share the budget, FORCE inside, and what it claims."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from horizonfree.errors import OptionError
from horizonfree.explorers.registry import label
from horizonfree.explorers.rflin import RFLIN, apportion, practical_epochs, uncertainty
from horizonfree.guarantees.e_processes import ladder
from horizonfree.problems.classes import LinearMDP
from horizonfree.theory import linear as theory_linear
from tests.reference import linear_explorers as literal
from tests.reference.episodes import follow
from tests.reference.linear_models import T_data, T_model, attains, random_linear

SQUARES = [0.338509316770, 0.164596273292, 0.229813664596, 0.142857142857]
SQUARES += [0.164596273292, 0.164596273292, 0.142857142857, 0.229813664596]


def test_the_numbers_of_instance_T(x64):
    """Of step 2, with all data as those of the epoch; then the reward at gamma^2 = 0.3."""
    model = T_model()
    gram = np.asarray(T_data(model)[0].gram)[1]
    values = np.asarray(uncertainty(model, gram)).T
    np.testing.assert_allclose(values.ravel(), SQUARES, rtol=0, atol=1e-9)
    reward = literal.egs_reward(literal.instance()[0], gram, 0.3, np.ones((4, 2)))
    np.testing.assert_allclose(
        reward.ravel()[:4], [1, 0.548654244306, 0.766045548654, 0.476190476190], atol=1e-9
    )
    np.testing.assert_allclose(np.minimum(1.0, values / 0.3), reward, rtol=0, atol=1e-12)


def test_epochs_share_the_budget_exactly():
    epochs = practical_epochs(100, 1, 2)
    np.testing.assert_allclose(epochs.gamma_sq, [0.075, 0.3, 1.2, 4.8], rtol=1e-14)
    assert epochs.lengths.tolist() == [[53, 27, 13, 7]]  # 54, 27, 14, 7 rounded up would be 102
    for budget, H in ((1000, 10), (20, 3), (7, 3), (1, 5), (99_999, 7)):
        lengths = practical_epochs(budget, H, 3).lengths
        assert lengths.sum() == budget
        assert (np.diff(lengths, axis=1) <= 0).all()  # the first is the longest
    assert apportion(5, np.ones(3)).tolist() == [2, 2, 1]


@pytest.fixture(scope="module", params=["own", "pooled"])
def literal_run(request):
    """Twenty episodes beside plain loops, and the sets X of the epochs."""
    steps = request.param
    problem, explorer = random_linear(), RFLIN(budget=20, steps=steps)
    phi, H = np.asarray(problem.model.phi), problem.horizon
    epochs = practical_epochs(20, H, 3)
    ends = np.cumsum(epochs.lengths)
    data, gram, X, history = literal.Data(phi, H), np.zeros((3, 3)), np.ones(phi.shape[:2], bool), []
    for k, (state, trajectory, updated) in enumerate(follow(problem, explorer, 20, gathers=True)):
        e = int((k >= ends).sum())
        h, gamma_sq = e // 4, epochs.gamma_sq[e % 4]
        reward = literal.egs_reward(phi, gram, gamma_sq, X)
        Q, V = literal.lsvi_ucb(phi, *data.tables(1.0, steps == "pooled"), reward, h, 0.5)
        history.append((state, Q, V, h, reward, e, X))
        data.add(trajectory.s, trajectory.a)
        x = phi[trajectory.s[h], trajectory.a[h]]
        gram = gram + np.outer(x, x)
        after_e = min(int((k + 1 >= ends).sum()), 4 * H - 1)
        if after_e != e:
            covered = np.array(
                [[literal.norm(y, np.eye(3) + gram) ** 2 <= gamma_sq for y in row] for row in phi]
            )
            X = X & ~covered if after_e // 4 == h else np.ones_like(X)
            gram = np.zeros((3, 3))
        np.testing.assert_array_equal(np.asarray(updated.is_left).T, X)
    return history


def test_twenty_episodes_agree_with_plain_loops(literal_run):
    for state, Q, V, h, _, _, _ in literal_run:
        assert float(state.reach) == pytest.approx(V[0, 1], abs=1e-9)
        attains(state.policy[: h + 1], Q[: h + 1])
        np.testing.assert_array_equal(state.policy[h + 1 :], 0.5)


def test_within_an_epoch_the_reward_never_grows_and_what_was_covered_never_returns(literal_run):
    for (*_, r, e, X), (*_, r_next, e_next, X_next) in itertools.pairwise(literal_run):
        if e == e_next:
            assert (r_next <= r + 1e-12).all()
        if e // 4 == e_next // 4:
            assert (X_next <= X).all()


def test_one_hot_features_have_reward_one_until_a_pair_was_seen_often_enough(x64):
    """1/(1 + n) <= gamma^2 is when the reward falls below 1."""
    S, A = 2, 2
    P = np.full((S, A, S), 0.5)
    model = LinearMDP.from_features(np.eye(4).reshape(S, A, -1), horizon=1, mu=P.reshape(-1, S)).model
    for n in range(6):
        reward = np.minimum(1.0, np.asarray(uncertainty(model, jnp.diag(jnp.full(4, float(n))))) / 0.25)
        assert (reward == 1).all() == (1 / (1 + n) >= 0.25)


def test_the_regret_minimiser_is_named_wherever_it_shows():
    assert label("rflin") == "rflin (regmin lsvi-ucb)"
    assert label("rflin", {"regmin": "force"}) == "rflin (regmin force)"


def test_with_force_an_epoch_starts_afresh_and_agrees_with_plain_loops():
    """Epochs of 6, 3, 1 and 0 episodes for each of two steps; the values are FORCE's own."""
    problem = random_linear(S=3, A=2, d=2, H=2)
    explorer = RFLIN(budget=20, regmin="force", bonus_scale=0.02, delta=0.5)
    phi, epochs, gram = np.asarray(problem.model.phi), practical_epochs(20, 2, 2), np.zeros((2, 2))
    ends, X, literal_force, last = np.cumsum(epochs.lengths), np.ones((3, 2), bool), None, -1
    for k, (state, trajectory, _) in enumerate(follow(problem, explorer, 20)):
        e = int((k >= ends).sum())
        if e != last:
            if last >= 0:
                covered = np.array(
                    [[literal.norm(y, np.eye(2) + gram) ** 2 <= gamma_sq for y in r] for r in phi]
                )
                X = X & ~covered if e // 4 == last // 4 else np.ones_like(X)
            last, gram = e, np.zeros((2, 2))
            literal_force = literal.Force(phi, 2, epochs.lengths.ravel()[e], 0.5)
        h, gamma_sq = e // 4, epochs.gamma_sq[e % 4]
        Q, V = literal_force.optimism(literal.egs_reward(phi, gram, gamma_sq, X), h, 0.02)
        assert float(state.reach) == pytest.approx(V[0, 1], abs=1e-9)
        attains(state.policy[: h + 1], Q[: h + 1])
        literal_force.learn(trajectory.s, trajectory.a, V)
        x = phi[trajectory.s[h], trajectory.a[h]]
        gram = gram + np.outer(x, x)


def test_literal_constants_claim_nothing_and_say_how_many_episodes_they_need(x64):
    problem = random_linear(S=3, A=2, d=2, H=2)
    explorer = RFLIN(budget=5, constants="paper", steps="own")
    state = explorer.init(problem.model)
    claim = explorer.claim(problem.model, state)
    schedule = theory_linear.rflin_schedule(0.1, 0.05, 2, 2)
    assert claim.is_vacuous
    assert claim.parts["needed"] == theory_linear.rflin_episodes(schedule, 2) > 1e12
    assert f"{claim.parts['needed']:.2g} episodes with FORCE" in claim.summary()
    np.testing.assert_array_equal(explorer.schedule(problem.model).gamma_sq, schedule.gamma_sq)
    assert RFLIN(budget=5).claim(problem.model, state) is None
    reward, evidence = np.full((2, 3, 2), 0.1), problem.model.init_evidence(ladder())
    V = jax.jit(explorer.plan)(problem.model, state, evidence, reward)[1]
    assert (np.asarray(V)[:2] == 1).all()  # the printed bonus: everything is at the cap


BAD_OPTIONS = [
    ({"regmin": "euler"}, "regmin is 'euler'; it must be 'lsvi-ucb' or 'force'"),
    ({"constants": "all"}, "constants is 'all'"),
    ({"steps": "all"}, "steps is 'all'"),
    ({"bonus_scale": -1.0}, "bonus_scale is -1.0"),
    ({"eps": 0.0}, r"eps is 0\.0"),
]


def test_options_outside_their_range_are_refused(subtests):
    for options, message in BAD_OPTIONS:
        with subtests.test(message), pytest.raises(OptionError, match=message):
            RFLIN(**options)


def test_a_budget_is_needed_and_force_refuses_one_that_it_cannot_keep():
    model = random_linear().model
    with pytest.raises(OptionError, match="budget is missing"):
        RFLIN().init(model)
    with pytest.raises(OptionError, match=r"FORCE keeps all .* transitions of an epoch"):
        RFLIN(regmin="force", budget=10**9).init(model)
