"""A reconstruction of the plug-in explorer of Chen, Hu, Yang and Wang 2022, not the published algorithm line by line.

Paper: X. Chen, J. Hu, L. Yang, L. Wang 2022, "Near-optimal reward-free exploration for linear mixture MDPs with plug-in
    solver" (ICLR), arXiv 2110.03244. Its text was not read for this file; what is known of it is what HF-UCRL-RFE++
    (arXiv 2303.10165) says of it: one model per step, rewards in [0, 1], weights from estimated variances of order two,
    a pseudo value maximised over policy, model and reward, and planning by any solver in the learnt model.
Algorithm: (pi_k, r_k) maximise Vhat_1(s_1) in a model theta_k inside its confidence sets; then two series of
    regressions per step, on V and on Vhat, with variance weights (estimators/weighted.py). With rewards in [0, 1],
        V_h    = r_h + <phi_{V_{h+1}}, theta_h>,                           u_h = min{H, beta ||phi_{V_{h+1}}||_V}
        Vhat_h = min{H, u_h + 2 beta ||phi_{Vhat_{h+1}}||_Vhat + <phi_{Vhat_{h+1}}, theta_h>}.
Symbols: axis of series: PLAIN (V), PSEUDO (Vhat). lam = 1/B^2.
Guarantee: none claimed. Not verified against the paper: the radii (here those of UCRL-VTR+ with delta/4), whether the
    weights carry the uncertainty term E, the confidence sets. Certificates of the evidence hold as for every explorer.
Departures: besides the above,
    1. theta_k is the least-squares point of both series among the valid kernels, per step.
    2. The maximum over (pi, r) is searched: r = 1 where the derivative of Vhat_1 is positive (before caps Vhat_1 is
       convex in r), pi greedy in Vhat, `sweeps` times from the last answer; rewards depend on step and state.
    3. `pool_steps` shares the regressions among the steps; `theta_hat` pools them in any case, since the library's
       kernels do not depend on the step.
"""

from functools import partial
from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree._validation import check_at_least
from horizonfree._x64 import Number
from horizonfree.estimators import radius, weighted
from horizonfree.estimators.projection import least_squares, pooled_least_squares
from horizonfree.estimators.radius import Radii, model_sizes
from horizonfree.estimators.ridge import Ridge
from horizonfree.explorers.base import BiasAdded, ConfidenceBall, Delta, Deviations, Info, PlugIn, PoolSteps
from horizonfree.mdp.space import Space, Trajectory
from horizonfree.models.mixture.evidence import MixtureEvidence
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.oracle.objective import PAIRS_FIRST, Tables, cap, pseudo_step
from horizonfree.planning.traced import TIE, greedy, significant

PLAIN, PSEUDO = 0, 1
LEAK = 0.01  # slope of the caps above H, in the search only: while all is capped, it tells policies apart


class Answer(eqx.Module):
    """The result of a search: a policy and a reward, and their values."""

    policy: Int[Array, "H S"]
    reward: Float[Array, "H S"]
    V: Float[Array, "H1 S"]
    V_hat: Float[Array, "H1 S"]


class State(eqx.Module):
    """The regressions [H 2 2] or [2 2] (series, moments), and the last result of the search."""

    answer: Answer
    ridge: Ridge
    episode: Int[Array, ""]

    @property
    def policy(self) -> Int[Array, "H S"]:
        """pi_k of the next episode."""
        return self.answer.policy


class Estimate(eqx.Module):
    """P_theta and both norms of every step, on successor lists, and the radius."""

    tables: Tables  # p [H, S, A, n], F and F_hat [H, S, A, d, n]
    beta: Float[Array, ""]


class Chen2022(PlugIn):
    """Reconstruction of Chen, Hu, Yang, Wang 2022: plug-in exploration, variance-weighted, one model per step.

    The radii of constants "paper" are those of UCRL-VTR+ with delta/4, not verified against the paper.
    """

    constants: Annotated[
        str,
        "'paper': the radii of UCRL-VTR+ with delta/4, not verified against the paper; "
        "'scaled': radii of no theorem, made of scale and bias_scale",
    ] = "scaled"
    scale: Deviations = 1.0
    bias_scale: BiasAdded = 0.0
    pool_steps: PoolSteps = False
    delta: Delta = 0.05
    sweeps: Annotated[int, "how often policy and reward are improved in turn, in every episode"] = 5

    def __check_init__(self) -> None:
        radius.check_options(self.constants, self.scale, self.bias_scale, self.delta)
        check_at_least(self.sweeps, "sweeps", 1)

    def init(self, model: MixtureModel) -> State:
        """No data: every Sigma = I / B^2."""
        H, S, _ = model.space.sizes
        batch = (2, weighted.NUM_MOMENTS) if self.pool_steps else (H, 2, weighted.NUM_MOMENTS)
        none = jnp.zeros((H + 1, S))
        answer = Answer(jnp.zeros((H, S), jnp.int32), jnp.ones((H, S)), none, none)
        return State(answer, Ridge.init(model.bound**-2.0, model.dim, batch), jnp.int32(0))

    def choose(self, key: Array, model: MixtureModel, state: State, evidence: MixtureEvidence) -> State:
        """theta_k, then the search for (pi_k, r_k)."""
        first = weighted.first_moments(state.ridge)  # [H 2] or [2]
        Sigma, b = first.Sigma.sum(-3), first.b.sum(-2)
        solve = partial(least_squares, model.valid)
        theta = solve(Sigma, b) if self.pool_steps else jax.vmap(solve)(Sigma, b)
        F = jnp.einsum("...ij,sanj->...sain", first.W, model.phi)  # [H 2 S A d n] or [2 S A d n]
        p = jnp.einsum("sanj,...j->...san", model.phi, theta)
        p, F = (jnp.broadcast_to(x, (model.space.horizon, *x.shape[-y:])) for x, y in ((p, 3), (F, 5)))
        estimate = Estimate(Tables(p, F[:, PLAIN], F[:, PSEUDO]), self.radii(model, state.episode + 1).hat)
        answer = search(model.space, estimate, state.answer, self.sweeps)
        return State(answer, state.ridge, state.episode)

    def update(
        self, model: MixtureModel, state: State, evidence: MixtureEvidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """Regress on V and Vhat along the episode."""
        V = jnp.stack([state.answer.V, state.answer.V_hat], axis=1)  # PLAIN, PSEUDO
        radii = self.radii(model, state.episode + 1)
        ridge, sigma_sq = weighted.regress(model, state.ridge, V, trajectory, radii)
        episode = state.episode + 1
        numbers = {
            "V_hat": model.space.at_start(state.answer.V_hat[0]) / model.space.horizon,
            "smallest_sigma_sq": sigma_sq.min(),
            "largest_sigma_sq": sigma_sq.max(),
        }
        ball = ConfidenceBall(ridge, weighted.pair_radii(self.radii(model, episode + 1)))
        return State(state.answer, ridge, episode), Info(numbers, (ball,))

    def theta_hat(self, model: MixtureModel, state: State, evidence: MixtureEvidence) -> Float[Array, " d"]:
        """Least squares of the first moments of both series and all steps, among the valid parameters."""
        return pooled_least_squares(model.valid, weighted.first_moments(state.ridge))

    def claim(self, model: MixtureModel, state: State) -> None:
        """None: a reconstruction proves nothing."""
        return None

    def radii(self, model: MixtureModel, k: Number) -> Radii:
        """The radii at episode k."""
        sizes = model_sizes(model)
        if self.constants == "scaled":
            return radius.scaled_variances(sizes, self.scale, self.bias_scale)
        return radius.radii_vtr_plus(k, sizes, self.delta / 4, pool_steps=self.pool_steps)


def search(space: Space, estimate: Estimate, last: Answer, sweeps: int) -> Answer:
    """Alternate between policy and reward, from the last answer; the best point, at the caps of the paper."""

    def score(reward: Array, policy: Array) -> Array:
        return space.at_start(pseudo_values(space, estimate, policy, reward, LEAK)[1][0])

    def sweep(_: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        policy, reward, *best = carry
        policy, V_hat = improve(space, estimate, reward)
        value = space.at_start(V_hat[0])
        rises = value > best[2] + TIE * jnp.abs(best[2])
        best = [jnp.where(rises, x, y) for x, y in zip((policy, reward, value), best)]
        reward = (significant(jax.grad(score)(reward, policy)) > 0).astype(float)
        return policy, reward, *best

    first = (last.policy, last.reward)
    first_state = (*first, *first, score(last.reward, last.policy))
    *_, policy, reward, _ = jax.lax.fori_loop(0, sweeps, sweep, first_state)
    return Answer(policy, reward, *pseudo_values(space, estimate, policy, reward, 0.0))


def pseudo_values(
    space: Space, estimate: Estimate, policy: Int[Array, "H S"], reward: Float[Array, "H S"], leak: float
) -> tuple[Float[Array, "H1 S"], Float[Array, "H1 S"]]:
    """V and Vhat of a policy and a reward."""
    h, s = jnp.arange(space.horizon)[:, None], jnp.arange(space.num_states)
    tables = Tables(*(x[h, s, policy] for x in estimate.tables))

    def step(
        carry: tuple[Array, Array], x: tuple[Array, Array, Tables]
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        r, succ, tables = x
        values = backup(space.horizon, estimate.beta, leak, carry, r, succ, tables)
        return values, values

    inputs = (reward, space.succ[s, policy], tables)
    V, V_hat = jax.lax.scan(step, _end(space), inputs, reverse=True)[1]
    return _with_end(V), _with_end(V_hat)


def improve(
    space: Space, estimate: Estimate, reward: Float[Array, "H S"]
) -> tuple[Int[Array, "H S"], Float[Array, "H1 S"]]:
    """The policy that takes, backwards, the action of the largest Vhat, and its Vhat; leaky caps."""
    s = jnp.arange(space.num_states)

    def step(
        carry: tuple[Array, Array], x: tuple[Array, Tables]
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        r, tables = x
        V, V_hat = backup(space.horizon, estimate.beta, LEAK, carry, r[:, None], space.succ, tables)
        _, a = greedy(V_hat, TIE)
        return (V[s, a], V_hat[s, a]), (a, V_hat[s, a])

    policy, V_hat = jax.lax.scan(step, _end(space), (reward, estimate.tables), reverse=True)[1]
    return policy, _with_end(V_hat)


def backup(
    H: int,
    beta: Float[Array, ""],
    leak: float,
    next_values: tuple[Float[Array, " S"], Float[Array, " S"]],
    r: Float[Array, "..."],
    succ: Int[Array, "*pairs n"],
    tables: Tables,
) -> tuple[Float[Array, "*pairs"], Float[Array, "*pairs"]]:
    """V_h and Vhat_h from V_{h+1} and Vhat_{h+1}, of some pairs (s,a)."""
    V, V_hat = next_values
    x = pseudo_step(tables, V[succ], V_hat[succ], beta, float(H), leak, PAIRS_FIRST)
    return r + x.V, jnp.maximum(cap(x.u + x.bonus + x.V_hat, float(H), leak), 0)


def _end(space: Space) -> tuple[Float[Array, " S"], Float[Array, " S"]]:
    """V_{H+1} = Vhat_{H+1} = 0."""
    return jnp.zeros(space.num_states), jnp.zeros(space.num_states)


def _with_end(V: Float[Array, "H S"]) -> Float[Array, "H1 S"]:
    return jnp.concatenate([V, jnp.zeros_like(V[:1])])
