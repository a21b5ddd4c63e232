"""The sums R, S, A, G of the proof for a run of HF-UCRL-RFE++, against the bounds of the paper's lemmas.

The sums are not stored with a run: its episodes are replayed from the seed, which needs a simulated problem. The sums
and their bounds are defined in theory/bounds.py. The proof is of the algorithm that calls its oracle before every
episode (lazy = 0) and regresses on the results of the oracle.

With constants="paper" the bounds hold with probability 1 - delta; with "scaled" ones they show the
bounds that the lemmas would give if the radius were right.
"""

import math
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree._x64 import to_device, to_numpy, x64
from horizonfree.errors import OptionError
from horizonfree.estimators import moments, radius
from horizonfree.estimators.ridge import Ridge
from horizonfree.explorers.hf_ucrl_rfe import HAT, HFUCRLRFE, TILDE, State
from horizonfree.explorers.loop import Progress, episode_keys
from horizonfree.mdp.space import Trajectory
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.planning.traced import Sampler
from horizonfree.theory.bounds import (
    Symbols,
    bound_A,
    bound_G,
    bound_R,
    bound_S_hat,
    bound_S_tilde,
    bound_sum,
    zeta,
)

REPLAY_TOLERANCE = 1e-6  # of log dets of the replay, against the stored ones


@runtime_checkable
class ReplayableRun(Protocol):
    """The attributes of a run that an audit needs."""

    problem: Any
    explorer: Any
    seed: int
    is_simulated: bool

    @property
    def episodes(self) -> int:
        """The number of episodes."""

    @property
    def progress(self) -> Progress:
        """The explorer's state and the evidence."""


class Sums(NamedTuple):
    """Sums over the episodes; axis 0 of R, S, A is the family (TILDE, HAT), axis 1 the order."""

    R: Float[Array, "2 M"]
    S: Float[Array, "2 M"]
    A: Float[Array, "2 M"]
    G: Float[Array, ""]
    I_2: Float[Array, ""]
    I_4: Float[Array, ""]
    V_hat: Float[Array, ""]


class AuditedSum(NamedTuple):
    """One sum: its name, its order m (None where it has none), its value, and the bound of its lemma."""

    name: str
    order: int | None
    value: float
    bound: float

    @property
    def share(self) -> float:
        """Value over bound; above 1 the lemma would be violated."""
        return self.value / self.bound if self.bound > 0 else math.inf if self.value > 0 else 0.0


@x64
def audit(run: ReplayableRun, *, mended: bool = True) -> list[AuditedSum]:
    """Every sum of the proof for a run, with its bound. mended: R_m is bounded with the factor that its proof loses."""
    explorer, host_model = _check_run(run)
    model, truth, state = to_device((host_model, run.problem.truth, run.progress.state))
    sampler = Sampler.of(to_device(run.problem.kernel()))
    key, count = jax.random.key(run.seed), jnp.int32(run.progress.episode)
    replayed, sums = _replay(explorer, model, sampler, truth, key, count, to_device(run.progress.evidence))
    log_det_before = state.ridge.log_det
    if not np.allclose(
        cast(Ridge, replayed.ridge).log_det, log_det_before, rtol=REPLAY_TOLERANCE, atol=REPLAY_TOLERANCE
    ):
        raise OptionError(
            "replaying this run from its seed gave other episodes: it was made on another device or by another "
            "version; explore again, then audit"
        )
    return _compare(to_numpy(sums), run_symbols(explorer, host_model, run.episodes), mended)


def run_symbols(explorer: HFUCRLRFE, model: MixtureModel, K: int) -> Symbols:
    """The symbols of the bounds for the first K episodes; beta is that of the budget."""
    H, d, M = model.space.horizon, model.dim, explorer.orders(model)
    alpha, gamma, lam = explorer.parameters(model)
    iota = math.log1p(K * H / (d * float(lam) * alpha**2))
    beta = float(explorer.beta(model, explorer.total()))
    event = float(radius.per_event(explorer.delta, M))
    return Symbols(K, H, d, M, alpha, gamma, beta, iota, zeta(K, H, event))


def _check_run(run: ReplayableRun) -> tuple[HFUCRLRFE, MixtureModel]:
    """The explorer and model of a run; raises if the proof does not apply to it, or if it cannot be replayed."""
    explorer = run.explorer
    model: MixtureModel = run.problem.model  # what this explorer learns
    if not isinstance(explorer, HFUCRLRFE):
        raise OptionError("the sums are those of the proof of hf-ucrl-rfe++; this run has another explorer")
    if explorer.sets != "regression":
        raise OptionError("the sums are those of sets='regression'; likelihood sets have no regressions")
    if explorer.oracle == "relaxed" or explorer.lazy > 0:
        raise OptionError(
            f"oracle is {explorer.oracle!r} and lazy is {explorer.lazy}; the proof is of lazy=0 with "
            "oracle='ascent' or oracle='exhaustive'"
        )
    if not run.is_simulated or run.problem.truth is None or run.episodes == 0:
        raise OptionError(
            "an audit plays the episodes again: it needs a simulated run of at least one episode"
        )
    return explorer, model


@eqx.filter_jit
def _replay(
    explorer: HFUCRLRFE,
    model: MixtureModel,
    sampler: Sampler,
    truth: Float[Array, " d"],
    key: Array,
    episodes: Int[Array, ""],
    evidence: Any,
) -> tuple[State, Sums]:
    """Replay all episodes; the explorer's choices do not depend on the evidence."""
    M, beta = explorer.orders(model), explorer.beta(model, explorer.total())

    def body(k: Array, carry: tuple[State, Sums]) -> tuple[State, Sums]:
        state, sums = carry
        key_choose, key_play = episode_keys(key, Progress(k, state, evidence))
        state = explorer.choose(key_choose, model, state, evidence)
        trajectory = sampler.episode(key_play, state.policy, model.space)
        terms = episode_sums(explorer, model, state, trajectory, truth, beta)
        state, _ = explorer.update(model, state, evidence, trajectory)
        return state, jax.tree.map(jnp.add, sums, terms)

    orders, unit = jnp.zeros((2, M)), jnp.asarray(0.0)
    start = explorer.init(model), Sums(orders, orders, orders, unit, unit, unit, unit)
    result: tuple[State, Sums] = jax.lax.fori_loop(0, episodes, body, start)
    return result


def episode_sums(
    explorer: HFUCRLRFE,
    model: MixtureModel,
    state: State,
    trajectory: Trajectory,
    truth: Float[Array, " d"],
    beta: Float[Array, ""],
) -> Sums:
    """The terms of one episode, before the explorer learns from it; traced."""
    M, ridge, result = explorer.orders(model), cast(Ridge, state.ridge), state.last.found
    targets = jnp.stack([result.V, result.V_hat], axis=1)
    phi, y = moments.episode_rows(model, targets, trajectory, M + 1)  # one order more, for the last variance
    mean = phi @ truth
    alpha, gamma, _ = explorer.parameters(model)
    radius_k = explorer.beta(model, state.episode + 1)
    rows = phi[:, :, :M], y[:, :, :M]
    _, sigma_sq = moments.regress(ridge, *rows, beta=radius_k, alpha=alpha, gamma=gamma)

    def step(current: Ridge, row: tuple[Array, Array, Array]) -> tuple[Ridge, Array]:
        return current.update(row[0], row[1], 1 / row[2]), current.log_det

    _, log_det = jax.lax.scan(step, ridge, (*rows, sigma_sq))  # before each step
    is_on = (log_det - ridge.log_det <= math.log(16)).all((1, 2))  # I_h
    on_mask = is_on[:, None, None]
    size = jnp.minimum(1, beta * ridge.norm_inv(rows[0]))
    V_hat = jnp.take_along_axis(result.V_hat[:-1], trajectory.s[:-1, None], axis=1)[:, 0]
    remainder = V_hat - size[:, TILDE, 0] - mean[:, HAT, 0]
    is_off = ~is_on
    return Sums(
        (on_mask * size).sum(0),
        (on_mask * jnp.maximum(mean[:, :, 1:] - mean[:, :, :-1] ** 2, 0.0)).sum(0),  # not below 0 by rounding
        (on_mask * (mean - y)[:, :, :M]).sum(0),
        is_off[-1].astype(float),
        (is_on * remainder).sum(),
        jnp.where(is_off.any(), V_hat[is_off.argmax()], 0.0),
        V_hat[0],
    )


def _compare(sums: Sums, x: Symbols, mended: bool) -> list[AuditedSum]:
    """Every lemma separately, with the measured sums on its right side."""
    R, S, A = (np.asarray(table).tolist() for table in (sums.R, sums.S, sums.A))
    G, audited = float(sums.G), []
    for family, name in ((TILDE, "tilde"), (HAT, "hat")):
        for m in range(x.M):
            r, s, a = (table[family] for table in (R, S, A))
            audited.append(AuditedSum(f"A_{name}", m, abs(a[m]), bound_A(s[m], x)))
            if m == x.M - 1:
                continue
            audited.append(AuditedSum(f"R_{name}", m, r[m], bound_R(s[m], r[m], r[m + 1], x, mended=mended)))
            if family == HAT:
                bound = bound_S_hat(a[m + 1], G, R[HAT][0], R[TILDE][0], m)
            else:
                bound = bound_S_tilde(a[m + 1], G, R[TILDE][0], m, x.K)
            audited.append(AuditedSum(f"S_{name}", m, s[m], bound))
    total = bound_sum(R[TILDE][0], R[HAT][0], A[HAT][0], G)
    return [
        *audited,
        AuditedSum("G", None, G, bound_G(x)),
        AuditedSum("I_2", None, float(sums.I_2), 4 * R[HAT][0]),
        AuditedSum("I_4", None, float(sums.I_4), G),
        AuditedSum("V_hat", None, float(sums.V_hat), total),
    ]
