"""A reconstruction of the plug-in explorer of Chen, Hu, Yang and Wang 2022, not the published algorithm line by line.

Paper: X. Chen, J. Hu, L. Yang, L. Wang 2022, "Near-optimal reward-free exploration for linear mixture MDPs with plug-in
    solver" (ICLR), arXiv 2110.03244. Its text was not read for this file; what is known of it is what HF-UCRL-RFE++
    (arXiv 2303.10165) says of it: one model per step, rewards in [0, 1], weights from estimated variances of order two,
    a pseudo value maximised over policy, model and reward, and planning by any solver in the learnt model.
Algorithm: (pi_k, r_k) maximise Vhat_1(s_1) in a model theta_k inside its confidence sets; then two series of
    regressions per step, on V and on Vhat, with variance weights (weighted.py). On the scale of rewards in [0, 1],
        V_h    = r_h + <phi_{V_{h+1}}, theta_h>,                           u_h = min{H, beta ||phi_{V_{h+1}}||_V}
        Vhat_h = min{H, u_h + 2 beta ||phi_{Vhat_{h+1}}||_Vhat + <phi_{Vhat_{h+1}}, theta_h>}.
Symbols: axis of series: PLAIN (V), PSEUDO (Vhat). lam = 1/B^2.
Guarantee: none claimed. Not verified against the paper: the radii (here those of UCRL-VTR+ with delta/4), whether the
    weights carry the uncertainty term E, the confidence sets. Certificates of the evidence hold as for every explorer.
Departures: besides the above,
    1. theta_k is the least-squares point of both series among the valid kernels, per step.
    2. The maximum over (pi, r) is searched: r = 1 where the derivative of Vhat_1 is positive (before caps Vhat_1 is
       convex in r), pi greedy in Vhat, `sweeps` times from the last answer; rewards depend on step and state.
    3. `pool_steps` shares the regressions among the steps; `estimate` pools them in any case, since the library's
       kernels do not depend on the step.
"""

from functools import partial
from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from horizonfree import weighted
from horizonfree.confidence import least_squares
from horizonfree.errors import OptionError
from horizonfree.evidence import Evidence
from horizonfree.explorers._api import Explorer, Info
from horizonfree.explorers._options import Added, Delta, Deviations, PoolSteps
from horizonfree.explorers.ucrl_vtr_plus import paper_radii, pooled_estimate
from horizonfree.mixture import Known
from horizonfree.planning import TIE, greedy, significant
from horizonfree.radius import Radii, check_options
from horizonfree.ridge import Ridge
from horizonfree.simulate import Trajectory
from horizonfree.valid import ValidSet

PLAIN, PSEUDO = 0, 1
LEAK = 0.01  # slope of the caps above H, in the search only: while all is capped, it tells policies apart


class Answer(eqx.Module):
    """A policy and a reward, and their values."""

    policy: Int[Array, "H S"]
    reward: Float[Array, "H S"]
    V: Float[Array, "H+1 S"]
    V_hat: Float[Array, "H+1 S"]


class State(eqx.Module):
    """The regressions [H 2 2] or [2 2] (series, moments), and the last answer of the oracle."""

    answer: Answer
    ridge: Ridge
    episode: Int[Array, ""]

    @property
    def policy(self) -> Int[Array, "H S"]:
        """pi_k of the next episode."""
        return self.answer.policy


class Model(eqx.Module):
    """P_theta of every step on successor lists, ||phi_v|| = ||F v|| and ||F_hat v|| in both norms, the radius."""

    p: Float[Array, "H S A n"]
    F: Float[Array, "H S A d n"]
    F_hat: Float[Array, "H S A d n"]
    beta: Float[Array, ""]


class Chen2022(Explorer):
    """Reconstruction of Chen, Hu, Yang, Wang 2022: plug-in exploration, variance-weighted, one model per step.

    The radii of constants "paper" are those of UCRL-VTR+ with delta/4, not verified against the paper.
    """

    constants: Annotated[
        str,
        "'paper': the radii of UCRL-VTR+ with delta/4, not verified against the paper; "
        "'scaled': radii of no theorem, made of scale and bias_scale",
    ] = "scaled"
    scale: Deviations = 1.0
    bias_scale: Added = 0.0
    pool_steps: PoolSteps = False
    delta: Delta = 0.05
    sweeps: Annotated[int, "how often policy and reward are improved in turn, in every episode"] = 5

    def __check_init__(self) -> None:
        check_options(self.constants, self.scale, self.bias_scale, self.delta)
        if self.sweeps < 1:
            raise OptionError(f"sweeps is {self.sweeps}; the search needs at least one")

    def init(self, known: Known, valid: ValidSet) -> State:
        """No data: every Sigma = I / B^2."""
        H, S = known.horizon, known.num_states
        batch = (2, weighted.PAIR) if self.pool_steps else (H, 2, weighted.PAIR)
        none = jnp.zeros((H + 1, S))
        answer = Answer(jnp.zeros((H, S), jnp.int32), jnp.ones((H, S)), none, none)
        return State(answer, Ridge.init(known.bound**-2.0, known.dim, batch), jnp.int32(0))

    def is_due(self, known: Known, state: State) -> bool:
        """Every episode."""
        return True

    def choose(self, key: Array, known: Known, valid: ValidSet, state: State, evidence: Evidence) -> State:
        """theta_k, then the search for (pi_k, r_k)."""
        first = weighted.first(state.ridge)  # [H 2] or [2]
        Sigma, b = first.Sigma.sum(-3), first.b.sum(-2)
        solve = partial(least_squares, valid)
        theta = solve(Sigma, b) if self.pool_steps else jax.vmap(solve)(Sigma, b)
        phi = jnp.asarray(known.phi)
        F = jnp.einsum("...ij,sanj->...sain", first.W, phi)  # [H 2 S A d n] or [2 S A d n]
        p = jnp.einsum("sanj,...j->...san", phi, theta)
        by_step = [jnp.broadcast_to(x, (known.horizon, *x.shape[-y:])) for x, y in ((p, 3), (F, 5))]
        model = Model(by_step[0], by_step[1][:, PLAIN], by_step[1][:, PSEUDO], self.radii(known, state).hat)
        return State(search(known, model, state.answer, self.sweeps), state.ridge, state.episode)

    def update(
        self, known: Known, valid: ValidSet, state: State, evidence: Evidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """Regress on V and Vhat along the episode."""
        V = jnp.stack([state.answer.V, state.answer.V_hat], axis=1)  # PLAIN, PSEUDO
        ridge, sigma_sq = weighted.regress(known, state.ridge, V, trajectory, self.radii(known, state))
        info = {
            "V_hat": state.answer.V_hat[0, known.start] / known.horizon,
            "smallest_sigma_sq": sigma_sq.min(),
            "largest_sigma_sq": sigma_sq.max(),
        }
        return State(state.answer, ridge, state.episode + 1), info

    def estimate(self, known: Known, valid: ValidSet, state: State, evidence: Evidence) -> Float[Array, " d"]:
        """Least squares of the first moments of both series and all steps, among the valid parameters."""
        return pooled_estimate(valid, weighted.first(state.ridge))

    def audit(self, known: Known, state: State, truth: Float[Array, " d"]) -> Info:
        """How far theta_star is from the centres of the balls, in radii; above 1 it is outside."""
        radii = self.radii(known, state)
        return {"truth_ratio": (state.ridge.distance(truth) / jnp.stack([radii.hat, radii.tilde])).max()}

    def claim(self, known: Known, state: State) -> None:
        """None: a reconstruction proves nothing."""
        return None

    def radii(self, known: Known, state: State) -> Radii:
        """Radii of episode k."""
        if self.constants == "scaled":
            return weighted.scaled(known.dim, known.horizon, self.scale, self.bias_scale)
        return paper_radii(known, state.episode + 1, self.delta / 4, self.pool_steps)


def search(known: Known, model: Model, last: Answer, sweeps: int) -> Answer:
    """Policy, then reward, again and again from the last answer; the best point met, at the caps of the paper."""
    start = known.start

    def score(reward: Array, policy: Array) -> Array:
        return pseudo_values(known, model, policy, reward, LEAK)[1][0, start]

    def sweep(_: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        policy, reward, *best = carry
        policy, V_hat = improve(known, model, reward)
        rises = V_hat[0, start] > best[2] + TIE * jnp.abs(best[2])
        best = [jnp.where(rises, x, y) for x, y in zip((policy, reward, V_hat[0, start]), best)]
        reward = (significant(jax.grad(score)(reward, policy)) > 0).astype(float)
        return policy, reward, *best

    first = (last.policy, last.reward)
    begin = (*first, *first, score(last.reward, last.policy))
    *_, policy, reward, _ = jax.lax.fori_loop(0, sweeps, sweep, begin)
    return Answer(policy, reward, *pseudo_values(known, model, policy, reward, 0.0))


def pseudo_values(
    known: Known, model: Model, policy: Int[Array, "H S"], reward: Float[Array, "H S"], leak: float
) -> tuple[Float[Array, "H+1 S"], Float[Array, "H+1 S"]]:
    """V and Vhat of a policy and a reward."""
    h, s = jnp.arange(known.horizon)[:, None], jnp.arange(known.num_states)

    def step(
        carry: tuple[Array, Array], x: tuple[Array, ...]
    ) -> tuple[tuple[Array, Array], tuple[Array, ...]]:
        r, *tables = x
        V, V_hat = backup(model.beta, known.horizon, leak, *carry, r, *tables)
        return (V, V_hat), (V, V_hat)

    tables = (jnp.asarray(known.succ)[s, policy], *(x[h, s, policy] for x in (model.p, model.F, model.F_hat)))
    V, V_hat = jax.lax.scan(step, _end(known), (reward, *tables), reverse=True)[1]
    return _with_end(V), _with_end(V_hat)


def improve(
    known: Known, model: Model, reward: Float[Array, "H S"]
) -> tuple[Int[Array, "H S"], Float[Array, "H+1 S"]]:
    """The policy that takes, backwards, the action of the largest Vhat, and its Vhat; leaky caps."""
    s, succ = jnp.arange(known.num_states), jnp.asarray(known.succ)

    def step(
        carry: tuple[Array, Array], x: tuple[Array, ...]
    ) -> tuple[tuple[Array, Array], tuple[Array, ...]]:
        r, *tables = x
        V, V_hat = backup(model.beta, known.horizon, LEAK, *carry, r[:, None], succ, *tables)
        _, a = greedy(V_hat, TIE)
        return (V[s, a], V_hat[s, a]), (a, V_hat[s, a])

    tables = (reward, model.p, model.F, model.F_hat)
    policy, V_hat = jax.lax.scan(step, _end(known), tables, reverse=True)[1]
    return policy, _with_end(V_hat)


def backup(
    beta: Float[Array, ""],
    H: int,
    leak: float,
    V: Float[Array, " S"],
    V_hat: Float[Array, " S"],
    r: Float[Array, "#*pairs"],
    succ: Int[Array, "*pairs n"],
    p: Float[Array, "*pairs n"],
    F: Float[Array, "*pairs d n"],
    F_hat: Float[Array, "*pairs d n"],
) -> tuple[Float[Array, "*pairs"], Float[Array, "*pairs"]]:
    """V_h and Vhat_h from V_{h+1} and Vhat_{h+1}, of some pairs (s,a)."""

    def cap(x: Array) -> Array:
        return jnp.minimum(x, H) + leak * jnp.maximum(x - H, 0)

    v, z = V[succ], V_hat[succ]
    u = cap(beta * norm((F * v[..., None, :]).sum(-1)))
    raw = u + 2 * beta * norm((F_hat * z[..., None, :]).sum(-1)) + (p * z).sum(-1)
    return r + (p * v).sum(-1), jnp.maximum(cap(raw), 0)


def norm(x: Float[Array, "*rest d"]) -> Float[Array, "*rest"]:
    """Euclidean norm with slope 0 at 0."""
    square = (x * x).sum(-1)
    is_zero = square == 0
    return jnp.where(is_zero, 0.0, jnp.sqrt(jnp.where(is_zero, 1.0, square)))


def _end(known: Known) -> tuple[Float[Array, " S"], Float[Array, " S"]]:
    """V_{H+1} = Vhat_{H+1} = 0."""
    return jnp.zeros(known.num_states), jnp.zeros(known.num_states)


def _with_end(V: Float[Array, "H S"]) -> Float[Array, "H+1 S"]:
    return jnp.concatenate([V, jnp.zeros_like(V[:1])])
