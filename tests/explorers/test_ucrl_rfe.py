"""UCRL-RFE against the algorithm as printed, its mechanism (optimism), and its certificate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import horizonfree as hf
from horizonfree import planning
from horizonfree.errors import OptionError
from horizonfree.estimators.optimism import exploration_reward, max_box_norm
from horizonfree.explorers.base import ConfidenceBall
from horizonfree.explorers.loop import ball_records
from horizonfree.explorers.ucrl_rfe import UCRLRFE
from horizonfree.guarantees.certificate import round_up_text
from horizonfree.oracle import box_max
from horizonfree.planning.traced import optimal_jax
from tests.reference import ucrl_rfe as literal
from tests.reference.episodes import follow, full_features, full_slots, seeds

PROBLEMS = {
    "grid": lambda: hf.make("zoned-grid", size=3, zones=3, horizon=5),
    "river": lambda: hf.make("river-swim", states=4, horizon=6),
    "mixture": lambda: hf.make("random-mixture", states=4, actions=2, dim=3, horizon=4),
}


@pytest.mark.parametrize(
    ("name", "constants"), [("grid", "scaled"), ("river", "paper"), ("mixture", "scaled")]
)
def test_twenty_episodes_agree_with_the_printed_algorithm(name, constants, x64):
    """Ties are free in the paper: maximisers and actions are the library's, once shown to attain the maxima."""
    problem, K = PROBLEMS[name](), 20
    model, phi = problem.model, full_features(problem.model)
    H, d = model.space.horizon, model.dim
    explorer = UCRLRFE(constants=constants, scale=0.2, bias_scale=0.1, budget=K)
    beta = float(explorer.beta(model))
    regression = literal.Regression.init(model.bound**-2, d)
    for state, trajectory, updated in follow(problem, explorer, K):
        width = literal.widest(phi, regression.Sigma)
        f = full_slots(model.space, state.f)
        np.testing.assert_allclose(literal.attained_norm(phi, f, regression.Sigma), width, rtol=0, atol=1e-9)
        reward = literal.exploration_reward(width, beta, H)
        Q, V = literal.plan(phi, [regression.theta()] * H, [regression.Sigma] * H, beta, reward, H)
        chosen_Q = np.take_along_axis(Q, state.policy[..., None], axis=2)[..., 0]
        np.testing.assert_allclose(chosen_Q, V[:H], atol=1e-9)
        assert float(state.value) == pytest.approx(V[0, model.space.start], abs=1e-9)
        literal.regress_on_maximisers(regression, phi, f, trajectory.s, trajectory.a)
        np.testing.assert_allclose(updated.ridge.Sigma, regression.Sigma, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(updated.ridge.b, regression.b, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(np.asarray(updated.ridge.theta), regression.theta(), rtol=1e-9, atol=1e-9)


def reward_and_optimum(explorer):
    """r^k, and the true optimal value for it, of a state that was chosen."""

    def details(setting, state):
        model = setting.model
        r = exploration_reward(model, max_box_norm(model, state.ridge), explorer.beta(model))
        best = optimal_jax(model.kernel(setting.truth), r)[1][0, model.space.start]
        ratio = ball_records((ConfidenceBall(state.ridge, explorer.beta(model)),), setting.truth)[
            "truth_ratio"
        ]
        return {"optimum": best, "ratio_before": ratio, "reward": r}

    return details


@pytest.fixture(scope="module")
def two_hundred():
    """200 seeds of a small problem, with the radius of the paper and with one that lets values fall below H."""
    problem, episodes = PROBLEMS["mixture"](), {}
    for constants in ("paper", "scaled"):
        explorer = UCRLRFE(constants=constants, budget=40, scale=0.5, bias_scale=0.5)
        episodes[constants] = seeds(problem, explorer, 40, 200, reward_and_optimum(explorer))
    return problem, episodes


def test_with_the_papers_radius_every_value_is_optimistic(two_hundred):
    """The theorem allows a share delta of the seeds to fail; its radius is far larger than needed."""
    rows = two_hundred[1]["paper"]
    assert float(rows["ratio_before"].max()) < 1
    assert (rows["V"] >= rows["optimum"] - 1e-9).all()


def test_whenever_the_ball_holds_the_truth_the_value_is_optimistic(two_hundred):
    """No probability: the argument of the theorem, where the values are not at their cap."""
    problem, rows = two_hundred[0], two_hundred[1]["scaled"]
    holds = rows["ratio_before"] <= 1
    assert (rows["V"] >= rows["optimum"] - 1e-9)[holds].all()
    assert (holds & (rows["V"] < problem.horizon)).sum() > 1000


def test_the_exploration_reward_never_grows(two_hundred):
    for rows in two_hundred[1].values():
        assert (np.diff(rows["reward"], axis=1) <= 1e-12).all()
        assert (rows["reward"][:, :, -1] == 0).all()  # the last step teaches nothing


@pytest.fixture(scope="module")
def long_run():
    """Long enough for the paper's own radius to say something."""
    return hf.explore(PROBLEMS["mixture"](), "ucrl-rfe", episodes=20_000, constants="paper", progress=False)


def test_what_a_plan_misjudges_is_at_most_u(long_run):
    """|V under estimate - V under truth| <= U for any policy and reward of total 1, with the paper's constants."""
    problem, rng = long_run.problem, np.random.default_rng(0)
    assert (
        long_run.records["truth_ratio"].max() <= 1
    )  # fails with probability 1e-6 or less: a sixth of it is usual
    H, S, A = problem.horizon, problem.num_states, problem.num_actions
    model = problem.model.kernel(long_run.theta_hat)
    assert long_run.problem.model.valid.contains(long_run.theta_hat)
    tables, policies = np.zeros((500, H, S, A)), rng.integers(0, A, (500, H, S))
    tables[np.arange(500), rng.integers(0, H, 500)] = rng.integers(0, 2, (500, S, 1))
    values = [planning.evaluate(x, tables, policies)[:, 0, problem.start] for x in (model, problem.kernel())]
    wrong = np.abs(values[0] - values[1]).max()
    assert 0 < wrong <= long_run.records["relaxed"][-1] < 0.5


def test_the_certificate_is_twice_u_and_says_what_backs_it(long_run):
    problem, claim = long_run.problem, long_run.certificate(method="paper")
    assert claim.eps == pytest.approx(2 * long_run.records["relaxed"][-1])
    assert claim.eps < 0.8
    assert claim.summary() == (
        f"suboptimality at most {round_up_text(claim.eps)} (95% confidence) after {long_run.episodes:,} episodes"
    )
    assert long_run.certificate(0.2, method="paper") == claim
    with pytest.raises(OptionError, match=r"delta is 0\.01, but this run explored with 0\.05"):
        long_run.certificate(0.01, method="paper")
    for table in (hf.goal(problem, g) for g in range(4)):
        assert hf.true_gap(problem, table, long_run.plan(table, model="explorer").policy) <= claim.eps
    assert (np.diff(long_run.records["relaxed"]) <= 0).all()
    certificate_after = long_run.resume(episodes=1, progress=False).certificate(method="paper")
    assert certificate_after.eps == 1.0
    assert "budget of 20000" in certificate_after.summary()


def test_before_the_first_episode_the_certificate_says_what_is_missing(x64):
    model = PROBLEMS["mixture"]().model
    for constants, message in (("paper", "vacuous: the paper's constants"), ("scaled", "no guarantee")):
        explorer = UCRLRFE(constants=constants, budget=10)
        claim = explorer.claim(model, explorer.init(model))
        assert claim.eps == 1.0
        assert message in claim.summary()


BAD_OPTIONS = [
    ({"constants": "mine"}, "constants is 'mine'"),
    ({"scale": -1.0}, "scale is -1.0"),
    ({"bias_scale": float("nan")}, "bias_scale is nan"),
    ({"delta": 0.0}, "delta is 0.0"),
]


def test_options_outside_their_range_are_refused(subtests):
    for options, message in BAD_OPTIONS:
        with subtests.test(message), pytest.raises(OptionError, match=message):
            UCRLRFE(**options)


def test_the_box_maximiser_equals_brute_force_on_a_thousand_cases(x64):
    """1,008 random cases, 84 of each number of successors up to 12."""
    rng = np.random.default_rng(0)
    for n in range(1, 13):
        count, d = 84, int(rng.integers(1, 6))
        F = rng.normal(size=(count, d, n)) * rng.choice([1.0, 1e-3], size=(count, 1, n))
        box = jax.jit(box_max)(jnp.asarray(F))
        vertices = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
        brute = np.linalg.norm(vertices @ F.transpose(0, 2, 1), axis=-1).max(axis=1)
        norms = np.linalg.norm((F * np.asarray(box.f)[:, None, :]).sum(-1), axis=-1)
        np.testing.assert_allclose(norms, brute, rtol=1e-12)
        np.testing.assert_allclose(box.lower, brute, rtol=1e-12)
        np.testing.assert_array_equal(box.lower, box.upper)
