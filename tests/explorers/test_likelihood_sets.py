"""HF-UCRL-RFE++ with likelihood sets: its claim against a twin, an adversary and coverage; the steps of its rate."""

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import horizonfree as hf
from horizonfree import testing
from horizonfree._x64 import to_device
from horizonfree.errors import OptionError
from horizonfree.explorers.likelihood_sets import BETA, explored_with, prepared_in
from horizonfree.oracle.likelihood_ratio import extremes, grid
from horizonfree.oracle.variance import MUS
from tests.reference import claim_adversary, small
from tests.reference import likelihood_ratio as ratio_twin
from tests.reference import variance_bound as twin

EXPLORER = "hf-ucrl-rfe++"


def explore(problem, episodes=200, seed=0, **options):
    settings = {"sets": "likelihood", "chains": 1, "sweeps": 4} | options
    return hf.explore(problem, EXPLORER, episodes=episodes, seed=seed, progress=False, **settings)


@pytest.fixture(scope="module")
def run():
    return explore(hf.make("river-swim", states=5, horizon=6))


def dense_tilts(confidence):
    """z [S, A, S, q] of the successors, one by one."""
    succ, z = np.asarray(confidence.space.succ), np.asarray(confidence.tilts)
    S, A, n = succ.shape
    dense = np.zeros((S, A, S, z.shape[-1]))
    for s, a, j in product(range(S), range(A), range(n)):
        dense[s, a, succ[s, a, j]] += z[s, a, j]
    return dense


def relaxed_twin(P, z, H):
    """U_h(s) = max_a [ubar + ||U_{h+1}|| + P U_{h+1}]_{[0,1]}, ||f|| = |sum f z|, ubar half of its largest value."""
    S, A = P.shape[:2]
    U = np.zeros(S)
    for _ in range(H - 1):
        Q = np.zeros((S, A))
        for s, a in product(range(S), range(A)):
            widest = max(np.linalg.norm(np.array(f) @ z[s, a]) for f in product((0, 1), repeat=S))
            Q[s, a] = min(1, widest / 2) + np.linalg.norm(U @ z[s, a]) + P[s, a] @ U
        U = np.clip(Q, 0, 1).max(1)
    return U


def test_the_claim_is_the_least_of_U_T_N_and_the_evidence_written_out(run, x64):
    claim, confidence = run.certificate(method="paper"), run.confidence()
    P, z, start = confidence.kernel.dense(), dense_tilts(confidence), run.problem.start
    U = relaxed_twin(P, z, 6)[start]
    p = np.asarray(confidence.kernel.prob)
    factors = [[x.T for x in row] for row in np.asarray(confidence.tilts)]
    T = twin.least(P, p, factors, BETA, 6, start, MUS)
    succ, tilts = np.asarray(run.problem.space.succ), np.asarray(confidence.tilts)
    stars = extremes(p, tilts)
    rows = [[list(stars[:, s, a]) for a in range(len(p[0]))] for s in range(len(p))]
    lam = np.exp(grid(p, tilts, 1.0, succ, 5))
    N = ratio_twin.least(p, rows, succ, start, lam, 6)
    assert claim.parts["relaxed"] == pytest.approx(U, rel=1e-9)
    assert claim.parts["total_variance"] == pytest.approx(T, rel=1e-9)
    assert claim.parts["likelihood_ratio"] == pytest.approx(N, rel=1e-6)
    assert N < min(4 * U, 4 * T)
    assert claim.parts["evidence"] == run.certificate().eps
    assert claim.eps == pytest.approx(min(4 * U, 4 * T, N, run.certificate().eps), rel=1e-6)
    assert claim.eps < 1
    assert "suboptimality at most" in claim.statement
    assert "any stopping time" in claim.statement
    assert claim.holds_for == run.certificate().holds_for


@pytest.mark.parametrize("name", ["river-swim", "zoned-grid", "random-mixture"])
def test_the_set_is_inside_the_ball_that_is_claimed(name, x64):
    """Every member of the set, also on its boundary: |(P_theta - P_hat) f| <= 2 beta ||f|| for random f."""
    run = explore(hf.make(name, horizon=6), 60)
    for delta in (0.5, 0.05):
        confidence = run.confidence(delta)
        prepared_model = prepared_in(run.problem.space, confidence)
        F = np.moveaxis(np.asarray(prepared_model.F_tilde), (-1, -2), (0, 1))
        rng = np.random.default_rng(1)
        members = testing.boundary_parameters(run, delta, 12, rng)
        assert len(members)
        is_used, n = np.asarray(run.problem.space.reachable), F.shape[-1]
        for theta in members:
            offset = np.asarray(run.problem.model.kernel(theta).prob) - np.asarray(confidence.kernel.prob)
            for f in rng.random((20, n)) > 0.5:
                width = 2 * BETA * np.linalg.norm(F @ f, axis=-1)
                assert (np.abs(offset @ f) <= width * (1 + 1e-9) + 1e-9)[is_used].all()


def attack(run, delta, rng):
    """Whether theta_star is in the set, and the largest loss in it that was found, as a share of the claim."""
    confidence, claim = run.confidence(delta), run.certificate(delta, method="paper")
    space = run.problem.space
    support = np.zeros((space.num_states, space.num_actions, space.num_states), bool)
    S, A, _ = support.shape
    for s, a in product(range(S), range(A)):
        support[s, a, np.asarray(space.succ)[s, a][np.asarray(space.support)[s, a]]] = True
    programme = claim_adversary.Programme(confidence.kernel.dense(), support, space.horizon)
    is_in = bool(testing.is_inside(run, run.problem.truth[None], delta)[0])
    loss = claim_adversary.worst_of_two(rng, programme, run.problem.kernel().dense(), 2)
    return is_in, loss / claim.eps


def losses(seeds, episodes, delta=0.5):
    problem, rows = small.dense(S=3, horizon=4), []
    for seed in seeds:
        run = explore(problem, episodes, seed)
        if not run.certificate(delta).is_rejected:
            rows.append(attack(run, delta, np.random.default_rng(seed)))
    return np.array(rows)


def test_no_plan_loses_more_than_is_claimed_at_even_odds():
    """delta = 0.5, so sets are small. While theta_star is in the set this is certain, for every seed."""
    rows = losses(range(12), 150)
    assert rows[:, 0].sum() > 3
    assert (rows[rows[:, 0] > 0, 1] <= 1).all()


@pytest.mark.slow
def test_no_violation_in_a_thousand_runs():
    rows = losses(range(1000), 150)
    is_in, ratio = rows.T
    assert (ratio[is_in > 0] <= 1).all()
    assert (ratio <= 1).all()  # 0 violations: also where theta_star left the set. The seeds are fixed
    print(f"{(is_in > 0).mean():.3f} inside, largest share {ratio.max():.3f}")


@pytest.mark.slow
def test_no_member_of_the_set_loses_more_than_is_claimed():
    """theta_star anywhere on the boundary of the set, the worst reward for it."""
    for problem in (
        small.dense(S=3, horizon=4),
        small.dense(S=4, horizon=6, seed=3),
        hf.make("river-swim", horizon=6),
    ):
        run = explore(problem, 300)
        confidence, claim = run.confidence(0.5), run.certificate(0.5, method="paper")
        support = confidence.kernel.dense() > 0
        programme = claim_adversary.Programme(confidence.kernel.dense(), support, problem.horizon)
        rng = np.random.default_rng(0)
        for theta in testing.boundary_parameters(run, 0.5, 24, rng):
            P_star = np.asarray(problem.model.kernel(theta).dense())
            assert claim_adversary.worst_of_two(rng, programme, P_star) <= claim.eps


def test_what_is_explored_with_written_out(run, x64):
    """The bet of the least slack per episode, the information of its data at the predictor, its inverse times 2 W."""
    model, evidence = run.problem.model, run.evidence
    ball = explored_with(*to_device((model, evidence)), 0.05)
    valid, theta = model.valid, np.asarray(evidence.theta)
    rows, Z, free = np.asarray(valid.rows), np.asarray(valid.basis), np.asarray(valid.free)
    p, pseudo = rows @ theta, 0.5 * min(1, valid.num_free / free.sum())
    started = [j for j in range(len(evidence.starts)) if evidence.episodes > evidence.starts[j]]

    def slack(j):
        log_gain = sum(N * np.log(x) for N, x in zip(evidence.since[j], p) if N)
        return float(evidence.loss[j] - np.log(0.05 * evidence.weights[j]) + log_gain)

    def information(counts):
        F = np.zeros((valid.num_free,) * 2)
        for N, x, row, is_free, is_virtual in zip(counts, p, rows, free, np.asarray(valid.virtual)):
            if is_free and not is_virtual:
                F += (N + pseudo) * np.outer(Z.T @ row, Z.T @ row) / x**2
        return F

    best = min(started, key=lambda j: slack(j) / (evidence.episodes - evidence.starts[j]))
    inv = 2 * max(slack(best), 1.0) * Z @ np.linalg.inv(information(evidence.since[best])) @ Z.T
    np.testing.assert_allclose(ball.theta, theta)
    np.testing.assert_allclose(ball.inv, inv, rtol=1e-8, atol=1e-9 * np.abs(inv).max())
    assert float(ball.log_det) == pytest.approx(np.linalg.slogdet(information(evidence.row_counts))[1])


def test_a_drawn_start():
    """U and T are means over the start."""
    run = explore(small.dense(start=np.array([0.5, 0.25, 0.25, 0.0])), 100)
    claim, rng = run.certificate(0.5, method="paper"), np.random.default_rng(0)
    assert claim.eps < 1
    for _ in range(20):
        reward = testing.random_reward(run.problem, rng)
        assert hf.true_gap(run.problem, reward, run.plan(reward, delta=0.5).policy) <= claim.eps


def test_after_one_episode_nothing_is_claimed():
    run = explore(hf.make("river-swim", states=4, horizon=5), 1)
    claim = run.certificate(method="paper")
    assert claim.eps == 1.0
    assert claim.is_vacuous


@pytest.mark.parametrize(
    "shape",
    [
        {"states": 4, "actions": 2, "dim": 1, "horizon": 4},  # nothing is unknown
        {"states": 4, "actions": 1, "dim": 2, "horizon": 4},
        {"states": 4, "actions": 2, "dim": 12, "horizon": 4},
        {"states": 4, "actions": 2, "dim": 2, "horizon": 1},
        {"states": 4, "actions": 2, "dim": 2, "horizon": 500},
    ],
)
def test_foreign_shapes(shape):
    run = explore(hf.make("random-mixture", **shape), 20, sweeps=2)
    claim = run.certificate(method="paper")
    assert 0 <= claim.eps <= 1
    if shape["dim"] == 1 or shape["horizon"] == 1:
        assert claim.eps <= 1e-9


def test_options_of_the_regressions_are_refused_and_the_claim_is_for_any_delta(run):
    with pytest.raises(OptionError, match="scale is an option of sets='regression'"):
        explore(run.problem, 1, scale=2.0)
    with pytest.raises(OptionError, match="sets is 'other'"):
        explore(run.problem, 1, sets="other")
    eps = [run.certificate(delta, method="paper").eps for delta in (0.5, 0.05, 0.001)]
    assert eps[0] <= eps[1] <= eps[2]


def test_its_plan_and_records(run):
    assert {"V_hat", "upper", "relaxed", "log_det"} <= set(run.records)
    assert run.records["V_hat"][-1] <= run.records["upper"][-1] + 1e-9
    assert run.records["V_hat"][-1] < run.records["V_hat"][0]
    np.testing.assert_allclose(run.theta_hat, run.evidence.theta)


def test_the_page_prints_what_it_says(capsys):
    text = (Path(__file__).parents[2] / "docs" / "likelihood-sets.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(example, {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"^# (.+)$", example, re.MULTILINE)


def trajectories(S, H):
    return product(range(S), repeat=H)


@pytest.mark.parametrize("seed", range(6))
def test_the_pseudo_value_and_the_change_of_measure_of_the_rate(seed):
    """(3)-(6) of docs/likelihood-sets.md, by enumeration of all trajectories under one policy; no action is needed."""
    S, H = 3, 5
    rng = np.random.default_rng(seed)
    P, z = rng.dirichlet(np.ones(S), S), rng.normal(size=(S, S, 2)) * 10 ** rng.uniform(-2, -0.5)
    z -= z.mean(1, keepdims=True)  # sums to zero
    u = rng.normal(size=2)
    offset = z @ (u / np.linalg.norm(u))
    P_star = P + offset * min(1, 0.9 * (P / np.maximum(np.abs(offset), 1e-300)).min())
    rho = (np.linalg.norm(z, axis=-1) ** 2 / P).sum(1)  # rho^2
    kl = (P_star * np.log(P_star / P)).sum(1)
    assert (kl <= rho + 1e-12).all()
    for f in rng.random((50, S)):
        assert (np.linalg.norm(f @ z, axis=-1) ** 2 <= rho * (P @ f**2 - (P @ f) ** 2) + 1e-12).all()
    V, V_hat = np.zeros((H + 1, S)), np.zeros((H + 1, S))
    target = rng.random(S) < 0.5
    for h in reversed(range(H)):
        V[h] = (h == H - 1) * target + P @ V[h + 1]
        widths = [np.linalg.norm(np.einsum("t,stq->sq", f[h + 1], z), axis=-1) for f in (V, V_hat)]
        V_hat[h] = np.clip(np.minimum(1, widths[0] / 2) + widths[1] + P @ V_hat[h + 1], 0, 1)
    means = {}
    for name, kernel in (("hat", P), ("star", P_star)):
        X = J = 0.0
        for path in trajectories(S, H - 1):
            states = [0, *path]
            chance = np.prod([kernel[s, t] for s, t in zip(states, path)])
            sums = np.cumsum([rho[s] for s in states[: H - 1]])
            stop = int((sums > 1).argmax()) if (sums > 1).any() else H - 1
            X += chance * (sums[stop - 1] if stop else 0.0)
            J += chance * bool((sums > 1).any())
        means[name] = X, J
    (X, J), (X_star, J_star), x = means["hat"], means["star"], V_hat[0, 0]
    assert x <= np.sqrt(X) / 2 + 2 * X + 2 * J + 1e-12
    assert X <= 4 * X_star + 1e-12
    assert J <= 2 * J_star + 2 * X_star + 1e-12
    assert x <= np.sqrt(X_star) + 12 * X_star + 4 * J_star + 1e-12
