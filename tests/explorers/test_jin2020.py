"""Jin et al. 2020 against the algorithm as printed: EULER's bounds, the replayed policies, coverage, planners."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import horizonfree as hf
from horizonfree._x64 import to_device, to_numpy
from horizonfree._x64 import x64 as x64_scope
from horizonfree.errors import OptionError
from horizonfree.explorers import jin2020
from horizonfree.explorers.jin2020 import Jin2020, sufficient_episodes
from horizonfree.explorers.per_step import Frequencies, slots_first
from horizonfree.guarantees.e_processes import ladder
from horizonfree.problems.classes import Tabular
from tests.reference import jin2020 as literal
from tests.reference.episodes import follow
from tests.reference.jitted import jitted
from tests.reference.rf_ucrl import Counts, value_iteration
from tests.reference.tables import best_values, dense_tables, explore_seeds, random_problem

natural_policy_gradient = eqx.filter_jit(jin2020.natural_policy_gradient)


def test_the_numbers_of_the_theorem():
    """S = 3, A = 2, H = 5, eps = .5, p = .1, c = 1."""
    N0, N = sufficient_episodes((5, 3, 2), 0.5, 0.1)
    assert pytest.approx(5.0e9, rel=0.01) == N0
    assert pytest.approx(1.4e6, rel=0.03) == N


@pytest.mark.parametrize(
    ("is_faithful", "budget", "pool_steps"), [(False, 60, False), (True, 60, False), (False, 100, True)]
)
def test_its_episodes_agree_with_the_printed_algorithm(is_faithful, budget, pool_steps, x64):
    """48 episodes for goals, then 12 or 52 that replay: with fewer draws than policies, and with more."""
    problem, N0, delta, scale = random_problem(S=2, A=2, H=2), 12, 0.1, 0.002
    model, (H, S, A) = problem.model, problem.space.sizes
    explorer = Jin2020(N0, budget, scale, pool_steps, is_faithful, delta=delta)
    first = S * H * N0
    counts, data, num_used, below = None, Counts(H, S, A, pool_steps), [], 0

    def visits(counts):
        return counts.N.sum(-1).sum(0, keepdims=True) if pool_steps else counts.N.sum(-1)

    for k, (state, trajectory, updated) in enumerate(follow(problem, explorer, budget, gathers=True)):
        if k < first:
            goal = divmod(k // N0, S)
            if k % N0 == 0:
                counts = Counts(H, S, A, pool_steps)
            actions = state.policy.argmax(-1)
            np.testing.assert_array_equal(state.policy, np.eye(A)[actions])
            Q, upper, _ = literal.euler(counts, goal, N0, delta, is_faithful, scale, actions)
            chosen_Q = np.take_along_axis(Q, actions[..., None], axis=2)[..., 0]
            np.testing.assert_allclose(chosen_Q, upper[:H], rtol=0, atol=1e-9)
            assert float(state.reach) == pytest.approx(upper[0, 0], abs=1e-9)
            below += 0 < float(state.reach) < 1
            num_used.append(state.policy)
            counts.add(trajectory.s, trajectory.a)
            np.testing.assert_array_equal(updated.euler.visits, visits(counts))
        else:
            t = state.draws[k - first]
            expected = num_used[t].copy()
            expected[divmod(t // N0, S)] = 1 / A
            np.testing.assert_array_equal(state.policy, expected)
            data.add(trajectory.s, trajectory.a)
        np.testing.assert_array_equal(updated.seen.visits, visits(data))
    assert below > 0
    assert state.draws.min() >= 0
    assert state.draws.max() < first == len(num_used)  # |Psi| = S H N0
    assert len(state.policies) == min(first, budget - first)
    reward = np.random.default_rng(0).random((H, S, A))
    _, V = explorer.plan(to_device(model), to_device(updated), model.init_evidence(ladder()), reward)
    np.testing.assert_allclose(V, value_iteration(data, reward), rtol=0, atol=1e-9)


@eqx.filter_jit
def euler(explorer, space, counts, goals):
    """EULER's policy and bounds for several goals (h, s), of one table of frequencies or of many."""

    def plan_goal(counts, goal):
        return explorer.euler(jax.random.key(0), space, counts, *goal)

    for_all = jax.vmap(plan_goal, (None, 0))
    return (jax.vmap(for_all, (0, None)) if counts.visits.ndim == 4 else for_all)(counts, goals)


@x64_scope
def euler_bounds(explorer, space, counts, goals):
    return to_numpy(euler(explorer, *to_device((space, counts)), jnp.asarray(goals, jnp.int32)))


def test_both_bounds_of_euler_are_the_printed_ones_at_all_steps(x64):
    """After 60 episodes for the first goal, whose visits serve for another."""
    problem, N0, counts, goal = random_problem(S=3, A=2, H=4), 60, Counts(4, 3, 2), (3, 1)
    explorer = Jin2020(per_goal=N0, budget=800, bonus_scale=1e-3, delta=0.1)
    episodes = list(follow(problem, explorer, N0, gathers=True))
    for _, trajectory, _ in episodes:
        counts.add(trajectory.s, trajectory.a)
    for is_faithful in (False, True):
        variant = Jin2020(per_goal=N0, budget=800, bonus_scale=1e-3, delta=0.1, faithful=is_faithful)
        euler_result = jax.tree.map(
            lambda x: x[0], euler_bounds(variant, problem.space, episodes[-1][2].euler, [goal])
        )
        _, upper, lo = literal.euler(counts, goal, N0, 0.1, is_faithful, 1e-3, euler_result.policy)
        np.testing.assert_allclose(euler_result.up, upper[:4], rtol=0, atol=1e-9)
        np.testing.assert_allclose(euler_result.lo, lo[:4], rtol=0, atol=1e-9)
        assert (euler_result.lo[0] > 0).any()


@pytest.mark.parametrize(("is_faithful", "pool_steps"), [(False, False), (True, True)])
def test_the_bounds_of_euler_hold(is_faithful, pool_steps):
    """lo <= V^pi <= V* <= up, at all steps and states, for all goals: 200 seeds with the paper's constants.

    They fail with probability 0.1 for each seed at most: more than 45 of 200 with less than 1e-6. With 1e-3 of the
    bonus they fail for most.
    """
    problem, N0, seeds = random_problem(S=2, A=2, H=3, seed=1), 200, 200
    options = {
        "per_goal": N0,
        "budget": 10_000,
        "delta": 0.1,
        "faithful": is_faithful,
        "pool_steps": pool_steps,
    }
    states, _ = explore_seeds(
        problem, Jin2020(**options), N0, seeds
    )  # all for the first goal, but visits serve for any
    (H, S, A), P = problem.space.sizes, np.broadcast_to(problem.kernel().dense(), (3, 2, 2, 2))
    goals = list(np.ndindex(H, S))

    def failures(scale):
        euler_result = euler_bounds(Jin2020(bonus_scale=scale, **options), problem.space, states.euler, goals)
        is_wrong = np.zeros(seeds, bool)
        for i, goal in enumerate(goals):
            reward, policy = np.zeros((H, S, A)), euler_result.policy[:, i]
            reward[goal] = 1
            best, values = best_values(P, reward)[:H], policy_values(P, reward, policy)
            is_ordered = (
                (euler_result.lo[:, i] <= values + 1e-9)
                & (values <= best + 1e-9)
                & (best <= euler_result.up[:, i] + 1e-9)
            )
            is_wrong |= ~is_ordered.all((1, 2))
        return is_wrong.sum()

    assert failures(1.0) <= 45
    assert failures(1e-3) > 100


def policy_values(P, reward, policy):
    """V [N, H, S] of policies [N, H, S] in tables [H, S, A, S]."""
    V = np.zeros((len(policy), len(P) + 1, P.shape[1]))
    for h in reversed(range(len(P))):
        Q = reward[h] + np.einsum("sat,nt->nsa", P[h], V[:, h + 1])
        V[:, h] = np.take_along_axis(Q, policy[:, h, :, None], axis=-1)[..., 0]
    return V[:, :-1]


def test_every_significant_state_is_covered():
    """max over policies of P_h(s,a) <= 2SAH mu_h(s,a), mu of all S H N0 policies; where none can go it need not be."""
    P = np.zeros((4, 2, 4))
    P[:, 0] = [[0.8, 0.2, 0, 0], [0.5, 0.5, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]
    P[:, 1] = [[0.1, 0.5, 0.4, 0], [0, 0.3, 0.7 - 1e-6, 1e-6], [0, 0, 1, 0], [0, 0, 0, 1]]
    problem = Tabular.from_table(P, horizon=3)
    (H, S, A), N0 = problem.space.sizes, 60
    run = hf.explore(
        problem, "jin2020", episodes=2 * S * H * N0, per_goal=N0, bonus_scale=0.01, progress=False
    )
    tables, mu = np.broadcast_to(P, (H, S, A, S)), np.zeros((H, S, A))
    policies = run.progress.state.policies
    assert len(policies) == S * H * N0
    for t, actions in enumerate(policies):
        pi = np.eye(A)[actions]
        pi[divmod(t // N0, S)] = 1 / A
        mu += literal.visits(tables, pi, 0) / len(policies)
    significant = 0
    for h, s in np.ndindex(H, S):
        reach = literal.most_reach(tables, h, s, 0)
        if reach >= 1e-3:
            significant += 1
            assert (reach <= 2 * S * A * H * mu[h, s] + 1e-12).all(), (h, s)
    assert significant == 7  # of 12: one at the first step, three at each of the others
    assert 0 < literal.most_reach(tables, 2, 3, 0) < 1e-5


def table(problem, P):
    """Tables [H, S, A, S] as frequencies, for planners."""
    return Frequencies(np.ones(P.shape[:3], np.int32), np.stack([slots_first(x) for x in P]))


def test_policy_gradient_is_the_printed_one_and_a_huge_step_is_policy_iteration(x64):
    problem, rng = random_problem(S=3, A=3, H=4), np.random.default_rng(0)
    P, reward = rng.dirichlet(np.ones(3), (4, 3, 3)), rng.random((4, 3, 3))
    counts, space = table(problem, P), to_device(problem.space)
    for eta, T in ((0.3, 7), (2.0, 15)):
        policy = natural_policy_gradient(space, counts, reward, eta, T)
        np.testing.assert_allclose(
            policy, literal.natural_policy_gradient(P, reward, eta, T), rtol=0, atol=1e-9
        )
    for T in (1, 2, 3):
        policy = natural_policy_gradient(space, counts, reward, 1e6, T)
        np.testing.assert_allclose(policy, literal.policy_iteration(P, reward, T), rtol=0, atol=1e-9)


def test_policy_gradient_loses_no_more_than_its_theorem_says(x64):
    """H log A/(eta T) + H^2/T, for rewards in [0, 1] per step; and the last greedy step does not do worse."""
    problem, rng = random_problem(S=3, A=3, H=4), np.random.default_rng(1)
    P, reward = rng.dirichlet(np.ones(3), (4, 3, 3)), rng.random((4, 3, 3))
    counts, space, best = table(problem, P), to_device(problem.space), best_values(P, reward)[0, 0]
    for eta, T in ((0.5, 20), (1.0, 60)):
        pi = np.asarray(natural_policy_gradient(space, counts, reward, eta, T))
        loss = best - pi[0, 0] @ literal.q_values(P, reward, pi)[0, 0]
        assert 0 < loss <= 4 * np.log(3) / (eta * T) + 16 / T
    explorer = Jin2020(planner="natural-policy-gradient", eta=0.5, iterations=20, per_goal=1, budget=100)
    model = to_device(problem.model)
    state = explorer.init(model)
    state = type(state)(**{**vars(state), "seen": counts})
    plan = eqx.filter_jit(
        lambda model, state, reward: explorer.plan(model, state, model.init_evidence(ladder()), reward)
    )
    policy, V = plan(model, state, reward)
    greedy = literal.q_values(P, reward, np.eye(3)[np.asarray(policy)])
    np.testing.assert_allclose(
        V[0], np.take_along_axis(greedy[0], np.asarray(policy)[0][:, None], 1)[:, 0], atol=1e-12
    )
    pi = np.asarray(natural_policy_gradient(space, counts, reward, 0.5, 20))
    assert pi[0, 0] @ literal.q_values(P, reward, pi)[0, 0] <= float(V[0, 0]) + 1e-12 <= best + 1e-9


def test_only_replayed_episodes_make_its_model_and_both_planners_agree(x64):
    problem = random_problem(S=3, A=2, H=3)
    run = hf.explore(problem, "jin2020", episodes=600, per_goal=10, progress=False)
    assert int(run.progress.state.seen.visits[0].sum()) == 600 - 90
    assert int(run.evidence.visits.sum()) == 600 * 3
    np.testing.assert_array_equal(run.records["reach"][90:], 0.0)
    assert run.explorer.claim(problem.model, run.progress.state) is None
    prob = dense_tables(problem.space, run.progress.state.seen.prob)
    np.testing.assert_allclose(prob.sum(-1), 1.0, atol=1e-12)
    reward, (model, progress) = hf.occupancy(problem, 2), to_device((problem.model, run.progress))
    other = Jin2020(planner="natural-policy-gradient", eta=50.0, iterations=200, budget=600)
    args = model, progress.state, progress.evidence, reward
    values = [jitted(x.plan, *args).V[0, 0] for x in (run.explorer, other)]
    assert float(values[0]) == pytest.approx(float(values[1]), abs=1e-3)


def test_the_toy_of_the_papers_figure_has_an_insignificant_state():
    """s2 is reached with probability 1e-6 at most: insignificant at 1e-5."""
    P = np.zeros((5, 2, 5))
    P[0, :, 1:3] = [1 - 1e-6, 1e-6]
    P[1, 0, 3] = P[1, 1, 4] = P[2, :, 4] = P[3, :, 3] = P[4, :, 4] = 1
    tables = np.broadcast_to(P, (3, 5, 2, 5))
    reach = np.array([[literal.most_reach(tables, h, s, 0) for s in range(5)] for h in range(3)])
    assert (reach[:, 2] < 1e-5).all()
    assert (reach.max(0)[[0, 1, 3, 4]] > 0.99).all()


BAD_OPTIONS = [
    ({"per_goal": 0}, "per_goal is 0"),
    ({"iterations": 0}, "iterations is 0"),
    ({"planner": "guess"}, "planner is 'guess'"),
    ({"eta": 0.0}, r"eta is 0\.0"),
    ({"bonus_scale": -1.0}, r"bonus_scale is -1\.0"),
]


def test_options_outside_their_range_are_refused(subtests):
    for options, message in BAD_OPTIONS:
        with subtests.test(message), pytest.raises(OptionError, match=message):
            Jin2020(**options)


def test_too_few_episodes_are_refused():
    with pytest.raises(
        OptionError, match="budget is 90 episodes, but 10 for each of 3 states and 3 steps are 90"
    ):
        hf.explore(random_problem(S=3, H=3), "jin2020", episodes=90, progress=False)
    with pytest.raises(OptionError, match="budget is missing"):
        Jin2020().episodes(random_problem().space)
