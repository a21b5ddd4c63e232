"""The sums of the proof of a run, against the same sums written out in NumPy, and against their bounds."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import horizonfree as hf
from horizonfree._x64 import to_device
from horizonfree.errors import OptionError
from horizonfree.explorers.audit import audit, run_symbols
from horizonfree.explorers.loop import episode_keys
from horizonfree.explorers.registry import ExplorerSpec, make_explorer
from horizonfree.guarantees.e_processes import ladder
from tests.reference import home as literal
from tests.reference.episodes import first_progress, full_features, make_sampler, play

K, M = 12, 2
OPTIONS = {"lazy": 0.0, "chains": 1, "sweeps": 2, "moment_orders": M, "scale": 1.0}


@pytest.fixture(scope="module")
def run():
    problem = hf.make("river-swim", states=4, horizon=5)
    return hf.explore(problem, "hf-ucrl-rfe++", episodes=K, seed=3, **OPTIONS)


def literal_sums(run, x):
    """R, S, A [family, order], G, I_2, I_4 and sum Vhat: equations of appendix A, episode by episode."""
    model, truth, explorer = run.problem.model, run.problem.truth, run.explorer
    phi, lam = full_features(model), model.dim / model.bound**2
    P = phi @ truth
    families = [literal.Family.init(M, model.dim, lam) for _ in range(2)]
    R, S, A = np.zeros((2, M)), np.zeros((2, M)), np.zeros((2, M))
    G = I_2 = I_4 = total = 0.0
    device, key = to_device(model), jax.random.key(run.seed)
    progress = first_progress(explorer, device, device.init_evidence(ladder()))
    sampler, state = make_sampler(to_device(run.problem.kernel())), progress.state
    choose, update = eqx.filter_jit(explorer.choose), eqx.filter_jit(explorer.update)
    for k in range(K):
        device_progress = type(progress)(jnp.int32(k), state, progress.evidence)
        key_choose, key_play = episode_keys(key, device_progress)
        state = choose(key_choose, device, state, progress.evidence)
        trajectory = play(sampler, key_play, state.policy, device.space)
        s, a = np.asarray(trajectory.s), np.asarray(trajectory.a)
        V = [np.asarray(v) for v in (state.last.found.V, state.last.found.V_hat)]
        frozen = [family.Sigma.copy() for family in families]
        beta_k, offset = float(explorer.beta(model, k + 1)), None
        done = [literal.regress(f, phi, v, s, a, beta_k, x.alpha, x.gamma) for f, v in zip(families, V)]
        running_Sigma = [family.Sigma.copy() for family in families]
        for h in range(len(a)):
            ratios = np.linalg.det(running_Sigma) / np.linalg.det(frozen)
            is_on = (np.sqrt(ratios) <= 4).all()
            offset = h if offset is None and not is_on else offset
            width = np.zeros(2)
            for i in range(2):
                for m in range(M):
                    target = V[i][h + 1] ** (2**m)
                    row, mean = target @ phi[s[h], a[h]], P[s[h], a[h]] @ target
                    size = min(1, x.beta * literal.norm_inv(row, frozen[i][m]))
                    width[i] = size if m == 0 else width[i]
                    R[i, m] += is_on * size
                    S[i, m] += is_on * (P[s[h], a[h]] @ target**2 - mean**2)
                    A[i, m] += is_on * (mean - target[s[h + 1]])
                    running_Sigma[i][m] += np.outer(row, row) / done[i][1][h, m]
            I_2 += is_on * (V[1][h, s[h]] - width[0] - P[s[h], a[h]] @ V[1][h + 1])
        G += offset is not None
        I_4 += V[1][offset, s[offset]] if offset is not None else 0
        total += V[1][0, s[0]]
        families = [family for family, _ in done]
        state, _ = update(device, state, progress.evidence, trajectory)
    return R, S, A, G, I_2, I_4, total


def test_every_sum_is_the_one_of_the_proof(run, x64):
    x = run_symbols(run.explorer, run.problem.model, K)
    R, S, A, G, I_2, I_4, total = literal_sums(run, x)
    sums = {(row.name, row.order): row.value for row in audit(run)}
    for i, family in enumerate(("tilde", "hat")):
        for m in range(M - 1):
            assert sums[f"R_{family}", m] == pytest.approx(R[i, m], rel=1e-6)
            assert sums[f"S_{family}", m] == pytest.approx(S[i, m], rel=1e-6, abs=1e-9)
        for m in range(M):
            assert sums[f"A_{family}", m] == pytest.approx(abs(A[i, m]), rel=1e-6, abs=1e-9)
    assert (sums["G", None], sums["V_hat", None]) == pytest.approx((G, total), rel=1e-6)
    assert (sums["I_2", None], sums["I_4", None]) == pytest.approx((I_2, I_4), rel=1e-6, abs=1e-9)
    assert sums["V_hat", None] == pytest.approx(run.records["V_hat"].sum(), rel=1e-9)


def test_bounds_hold_and_the_printed_one_on_R_is_the_smaller(run):
    corrected, as_printed = audit(run), audit(run, mended=False)
    assert all(row.share <= 1 for row in corrected), [row for row in corrected if row.share > 1]
    assert [row.name for row in corrected] == [row.name for row in as_printed]
    total = next(row for row in corrected if row.name == "V_hat")
    assert 0 < total.share < 1


NOT_COVERED = [
    ({"explorer_spec": ExplorerSpec.of(make_explorer("optimal-design"))}, "another explorer"),
    (
        {"explorer_spec": ExplorerSpec.of(make_explorer("hf-ucrl-rfe++", oracle="relaxed", lazy=0.0))},
        "oracle is 'relaxed'",
    ),
    ({"explorer_spec": ExplorerSpec.of(make_explorer("hf-ucrl-rfe++"))}, "lazy is 0.5"),
    ({"is_simulated": False}, "needs a simulated run"),
    ({"seed": 4}, "gave other episodes"),
]


def test_runs_that_the_proof_is_not_about_are_refused(run, subtests):
    for change, message in NOT_COVERED:
        with subtests.test(message), pytest.raises(OptionError, match=message):
            audit(dataclasses.replace(run, **change))
