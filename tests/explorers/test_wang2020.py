"""Wang et al. 2020: numbers by hand, plain loops, that its radius is no knob, and what the literal radius does."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import OptionError
from horizonfree.explorers.wang2020 import Wang2020
from horizonfree.models.linear.model import LinearModel
from horizonfree.problems.classes import LinearMDP
from horizonfree.theory import linear as theory_linear
from tests.reference import linear_explorers as literal
from tests.reference.episodes import follow
from tests.reference.jitted import jitted
from tests.reference.linear_models import T_data, T_literal, T_model, attains, random_linear

HALF = [0.766853343835, 0.682829483529, 0.650807669821, 0.690127337926]
POOLED = [0.650268256054, 0.588665393156, 0.548467798361, 0.591440680412]


@eqx.filter_jit
def choose(explorer, model, state, evidence):
    return explorer.choose(jax.random.key(0), model, state, evidence)


def first_choice(start=0, data=True, **options):
    """The state that it chooses on instance T, from one of its four starts."""
    model, explorer = T_model(), Wang2020(**options)
    model = eqx.tree_at(lambda x: x.space.initial, model, np.eye(4)[start], is_leaf=lambda x: x is None)
    state = explorer.init(model)
    sums, evidence = T_data(model)
    if not data:
        evidence = jax.tree.map(jnp.zeros_like, evidence)
    elif state.sums is not None:
        state = eqx.tree_at(lambda x: x.sums, state, sums)
    return choose(explorer, model, state, evidence)


def values(**options):
    return [float(first_choice(start, **options).value) for start in range(4)]


def test_the_numbers_of_instance_T(x64):
    np.testing.assert_allclose(values(steps="own", beta=0.5), HALF, rtol=0, atol=1e-9)
    np.testing.assert_allclose(values(beta=0.5), POOLED, rtol=0, atol=1e-9)
    per_step, pooled = first_choice(steps="own", beta=0.5).policy, first_choice(beta=0.5).policy
    np.testing.assert_array_equal(per_step, [[0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 1]])
    np.testing.assert_array_equal(pooled[0], [0, 0, 1, 1])
    phi, Lam, C = T_literal(1.0, False)
    np.testing.assert_allclose(literal.norms(phi, Lam)[0, 0], [0.462377663224, 0.380562197554], atol=1e-11)
    np.testing.assert_allclose(literal.wang(phi, Lam, C, 0.5, False)[1][0], HALF, rtol=0, atol=1e-9)


def test_below_the_cap_the_radius_is_no_knob(x64):
    """A tenth of the radius: a tenth of the value, to the last digits, and the same policy."""
    large, small = first_choice(steps="own", beta=0.5), first_choice(steps="own", beta=0.05)
    np.testing.assert_array_equal(large.policy, small.policy)
    assert float(large.value) == pytest.approx(10 * float(small.value), rel=1e-14)
    capped = [first_choice(steps="own", cap=True, beta=beta) for beta in (0.5, 10.0)]
    assert float(capped[0].value) == pytest.approx(HALF[0], abs=1e-9)  # the cap of 3 is out of reach
    assert float(capped[1].value) == 3.0


def test_under_the_cap_and_before_the_first_episode_everything_ties(x64):
    assert values(steps="own", cap=True, beta=10.0) == [3.0] * 4
    assert values(steps="own", cap=True, beta=10.0, data=False) == [3.0] * 4
    policies = {first_choice(start, constants="paper").policy.tobytes() for start in range(4)}
    assert len(policies) == 1  # the same key, the same lots
    assert set(np.asarray(first_choice(constants="paper").policy).ravel()) == {
        0,
        1,
    }  # not the lowest action alone


@pytest.mark.parametrize("steps", ["own", "pooled"])
def test_twenty_episodes_agree_with_plain_loops(steps):
    problem, explorer = random_linear(), Wang2020(steps=steps, cap=True, beta=0.7)
    phi, H = np.asarray(problem.model.phi), problem.horizon
    data = literal.Data(phi, H)
    for state, trajectory, _ in follow(problem, explorer, 20, gathers=True):
        Q, V = literal.wang(phi, *data.tables(1.0, steps == "pooled"), 0.7, True)
        assert float(state.value) == pytest.approx(V[0, 1], abs=1e-9)
        attains(state.policy, Q)
        data.add(trajectory.s, trajectory.a)


def test_features_that_are_one_hot_count_visits_and_shrink_frequencies():
    """||phi|| = 1/sqrt(1 + n), and phi'w is n/(n+1) times the empirical mean."""
    S, A, H = 3, 2, 3
    P = np.random.default_rng(0).dirichlet(np.ones(S), (S, A))
    problem = LinearMDP.from_features(np.eye(S * A).reshape(S, A, -1), horizon=H, mu=P.reshape(-1, S))
    run = hf.explore(problem, Wang2020(), episodes=30, progress=False)
    n, counts = np.asarray(run.evidence.visits), np.asarray(run.evidence.counts)
    V = np.zeros((H + 1, S))
    for h in reversed(range(H)):
        Q = (1 + 1 / H) / np.sqrt(1 + n) + counts @ V[h + 1] / (1 + n)
        V[h] = Q.max(-1)
    resumed = run.resume(episodes=1, progress=False)
    assert resumed.records["V"][-1] == pytest.approx(V[0, 0], abs=1e-12)


def test_literal_constants_explore_as_random_actions_do():
    """Every Q is at its cap, so that every action is drawn as often: chi-square of 600 draws, alarm below 1e-6."""
    problem = random_linear(S=4, A=3, H=3)
    paper = Wang2020(constants="paper")
    run = hf.explore(problem, paper, episodes=200, progress=False)
    assert (run.records["V"] == problem.horizon).all()
    counts = np.asarray(run.evidence.visits).sum(0)
    assert ((counts - 200) ** 2 / 200).sum() < 27.7  # two degrees of freedom: exp(-27.7/2) = 9.6e-7
    sharp = hf.explore(problem, Wang2020(), episodes=200, progress=False)
    assert sharp.records["V"][-1] < 1
    claim = run.certificate(method="paper")
    d, H = problem.model.dim, problem.horizon
    assert claim.is_vacuous
    assert claim.parts["needed"] == theory_linear.wang_episodes(0.1, 0.05, d, H)
    assert f"{claim.parts['needed']:.2g} episodes" in claim.summary()
    assert "it leaves them open" in claim.method
    assert sharp.explorer.claim(problem.model, sharp.progress.state) is None


def test_the_sum_of_its_values_is_sublinear():
    """V_1 falls: the second half of 400 episodes has less than two thirds of the sum of the first."""
    V = hf.explore(random_linear(), Wang2020(), episodes=400, progress=False).records["V"]
    assert V[200:].sum() < 2 / 3 * V[:200].sum()


def test_the_planning_bonus_is_that_of_the_options(x64):
    model = T_model()
    sums, evidence = T_data(model)
    phi, Lam, C = T_literal(1.0, True)
    reward = np.random.default_rng(0).random((3, 4, 2)) / 3
    for bonus in (0.0, 0.3):
        explorer = Wang2020(plan_bonus=bonus)
        policy, V = jitted(explorer.plan, model, explorer.init(model), evidence, reward)
        Q, expected = literal.plan(phi, Lam, C, reward, bonus)
        np.testing.assert_allclose(V, expected, rtol=0, atol=1e-12)
        attains(policy, Q)
    paper = Wang2020(constants="paper")
    state = eqx.tree_at(lambda x: x.sums, paper.init(model), sums)
    assert (jitted(paper.plan, model, state, evidence, reward)[1][:3] == 1).all()  # all at the cap


BAD_OPTIONS = [
    ({"constants": "printed"}, "constants is 'printed'; it must be 'practical' or 'paper'"),
    ({"steps": "both"}, "steps is 'both'; it must be 'pooled' or 'own'"),
    ({"beta": 0.0}, r"beta is 0\.0"),
    ({"beta": float("nan")}, "beta is nan"),
    ({"plan_bonus": -1.0}, r"plan_bonus is -1\.0"),
    ({"eps": 2.0}, r"eps is 2\.0"),
    ({"delta": 0.0}, r"delta is 0\.0"),
]


def test_options_outside_their_range_are_refused(subtests):
    for options, message in BAD_OPTIONS:
        with subtests.test(message), pytest.raises(OptionError, match=message):
            Wang2020(**options)


def test_a_mixture_is_refused():
    assert Wang2020.learns is LinearModel
    with pytest.raises(OptionError, match="LinearModel"):
        hf.explore(hf.make("river-swim", states=3, horizon=3), "wang2020", episodes=1, progress=False)
