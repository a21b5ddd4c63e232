"""HF-UCRL-RFE++: horizon-free reward-free exploration with high-order moment estimation.

Paper: J. Zhang, W. Zhang, Q. Gu 2023 (ICML), arXiv 2303.10165.
Algorithm: 1 (exploration and planning) and 2 (HOME, in moments.py). Two families of regressions with M moment orders
    each: tilde with targets V(.; theta_k, pi_k, r_k), hat with targets Vhat_k. Axis 0 of a ridge is the family (TILDE,
    HAT), axis 1 the order.
Symbols: u, V, Vhat as in oracle/objective.py; Sigma_dot is the ridge at the start of the episode; lam = d/B^2,
    alpha = H^{-1/2}, gamma = d^{-1/4}.
Guarantee: with constants="paper" and probability 1 - delta, the plan made in theta_{k*} is 4 U_{k*}-optimal for every
    reward of total at most 1 (`relaxed` in the rows; docs/hf-ucrl-rfe.md has the argument). With constants="scaled"
    there is no such theorem. Certificates of the evidence hold in both cases.
Departures:
    1. theta_k is not optimised over U_k: it is the least-squares point of both order-0 regressions among the valid
       kernels. The paper's sum bound needs only that theta_k lies in the two balls, which is checked (`ball_ratio`).
    2. The maximum over (pi, r) is found by ascent over single-step indicator rewards; or it is relaxed to U, and then
       each (s, a) has its own target for the tilde family, the f in [0,1]^S that is predicted worst there.
    3. Planning uses theta_{k*}, k* = argmin_k Vhat_k (the latest of equals), since Vhat_k need not fall with k.
    4. `lazy` > 0 skips the oracle until some log det Sigma has grown by that much; 0 calls it every episode.
    5. beta = beta_K in u and Vhat, beta_k in HOME and in the sets; delta is shared by 4M events; M is rounded up.
    6. u is built from V_{h+1}; constraints enter U with index k+1; U_1 is the ball of lam I. The printed text differs.
    7. U keeps the constraints of the last KEPT oracle calls instead of all episodes: a larger set, never a wrong one.
"""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from horizonfree import moments, oracle, radius
from horizonfree.certificates import Certificate, claimed
from horizonfree.confidence import ConfidenceSet, least_squares
from horizonfree.errors import OptionError
from horizonfree.evidence import Evidence
from horizonfree.explorers._api import Explorer, Info
from horizonfree.explorers._options import Bias, Budget, Constants, Delta, Noise
from horizonfree.mixture import AnyArray, Known
from horizonfree.ridge import Ridge
from horizonfree.simulate import Trajectory
from horizonfree.valid import ValidSet

TILDE, HAT = 0, 1
KEPT = 16  # oracle calls whose constraints are remembered


class Answer(eqx.Module):
    """What the oracle said: the policy and reward, the value functions to regress on, the value and its bounds."""

    point: oracle.Point
    V: Float[Array, "H+1 S"]
    V_hat: Float[Array, "H+1 S"]
    value: Float[Array, ""]
    upper: Float[Array, ""]
    relaxed: Float[Array, ""]
    theta: Float[Array, " d"]
    ball_ratio: Float[Array, ""]
    episode: Int[Array, ""]
    box: Float[Array, "..."]  # [S, A, n] the tilde targets of the relaxed oracle, else empty


class Constraints(eqx.Module):
    """The regressions of the last oracle calls: ||theta - theta_i||_{Sigma_i} <= beta_i."""

    theta: Float[Array, "C 2 M d"]
    Sigma: Float[Array, "C 2 M d d"]
    beta: Float[Array, " C"]


class State(eqx.Module):
    """What the next episode needs. `last` is in force, `best` has the smallest value so far."""

    ridge: Ridge
    last: Answer
    best: Answer
    log_det: Float[AnyArray, "2 M"]
    radius: Float[Array, ""]
    constraints: Constraints
    episode: Int[Array, ""]
    calls: Int[Array, ""]

    @property
    def policy(self) -> Int[Array, "H S"]:
        """pi_k of the next episode."""
        return self.last.point.policy


class HFUCRLRFE(Explorer):
    """HF-UCRL-RFE++ (Zhang, Zhang, Gu 2023): weighted regression on an exploration-driven pseudo reward."""

    constants: Constants = "scaled"
    scale: Noise = 1.0
    bias_scale: Bias = 0.0
    moment_orders: Annotated[int | None, "moments to estimate, instead of M = ceil(log2(7KH))"] = None
    lazy: Annotated[float, "call the oracle when some log det Sigma has grown by so much; 0: always"] = 0.5
    delta: Delta = 0.05
    oracle: Annotated[str, "'ascent': search for policy and reward; 'relaxed': one backward pass"] = "ascent"
    chains: Annotated[int, "of the ascent: searches at once, from different starts"] = 3
    sweeps: Annotated[int, "of the ascent: steps of each search"] = 20
    homotopy: Annotated[bool, "of the ascent: search with a smaller radius while values are capped"] = True
    budget: Budget = None

    def __check_init__(self) -> None:
        radius.check_options(self.constants, self.scale, self.bias_scale, self.delta)
        if self.oracle not in ("ascent", "relaxed"):
            raise OptionError(f"oracle is {self.oracle!r}; it must be 'ascent' or 'relaxed'")
        for name, low in {"lazy": 0, "chains": 1, "sweeps": 1}.items():
            if not getattr(self, name) >= low:
                raise OptionError(f"{name} is {getattr(self, name)}; it must be at least {low}")
        if self.moment_orders is not None and self.moment_orders < 1:
            raise OptionError(f"moment_orders is {self.moment_orders}; at least one order is needed")

    def init(self, known: Known, valid: ValidSet) -> State:
        """No data, no oracle yet: Sigma = lam I."""
        M, d, H, S = self.orders(known), known.dim, known.horizon, known.num_states
        ridge = Ridge.init(radius.parameters(d, H, known.bound).lam, d, (2, M))
        point = oracle.Point(jnp.zeros((H, S), jnp.int32), jnp.int32(H - 1), jnp.zeros(S, bool))
        zero, one = jnp.zeros((H + 1, S)), jnp.asarray(1.0)
        box = jnp.zeros(known.succ.shape if self.oracle == "relaxed" else (0,))
        nothing = Answer(point, zero, zero, one, one, one, jnp.zeros(d), one, jnp.int32(0), box)
        constraints = Constraints(
            jnp.zeros((KEPT, 2, M, d)), jnp.zeros((KEPT, 2, M, d, d)), jnp.full(KEPT, jnp.inf)
        )
        beta = self.beta(known, self.total(), known.bound)
        none = jnp.int32(0)
        return State(ridge, nothing, nothing, ridge.log_det, beta, constraints, none, none)

    def is_due(self, known: Known, state: State) -> bool | Bool[Array, ""]:
        """At first, and whenever some log det has grown by `lazy` since the last call."""
        if self.lazy == 0:
            return True
        return (state.calls == 0) | ((state.ridge.log_det - state.log_det).max() >= self.lazy)

    def choose(self, key: Array, known: Known, valid: ValidSet, state: State, evidence: Evidence) -> State:
        """theta_k, then the oracle at beta_K, then the constraints of its index."""
        ridge, beta = state.ridge, self.beta(known, self.total(), known.bound)
        theta = least_squares(valid, ridge.Sigma[:, 0].sum(0), ridge.b[:, 0].sum(0))
        beta_k = self.beta(known, state.episode + 1, known.bound)
        prepared = oracle.prepare(known, theta, ridge.Sigma_inv[TILDE, 0], ridge.Sigma_inv[HAT, 0])
        policy, U = oracle.relaxed(prepared, beta)
        near = ridge.distance(theta)[:, 0].max() / beta_k
        search_radius = beta
        if self.oracle == "relaxed":
            point = oracle.Point(policy, state.last.point.step, state.last.point.target)
            upper = oracle.upper_bound(prepared, beta)[0, known.start]
            seen = (point, jnp.zeros_like(U), U, U[0, known.start], upper)
        else:
            start = state.radius if self.homotopy else beta
            found = oracle.ascent(
                key, prepared, beta, start, state.last.point, chains=self.chains, sweeps=self.sweeps
            )
            seen = (found.point, found.V, found.V_hat, found.value, found.upper)
            search_radius = oracle.next_search_radius(found.search_value, found.radius, beta)
        box = (
            jnp.moveaxis(prepared.box_f, (0, 1, 2), (2, 1, 0)) if self.oracle == "relaxed" else state.last.box
        )
        answer = Answer(*seen, U[0, known.start], theta, near, state.episode, box)
        is_best = answer.value <= state.best.value
        slot = state.calls % KEPT
        kept = state.constraints
        return State(
            ridge,
            answer,
            jax.tree.map(lambda new, old: jnp.where(is_best, new, old), answer, state.best),
            ridge.log_det,
            search_radius,
            Constraints(
                kept.theta.at[slot].set(ridge.theta),
                kept.Sigma.at[slot].set(ridge.Sigma),
                kept.beta.at[slot].set(beta_k),
            ),
            state.episode,
            state.calls + 1,
        )

    def update(
        self, known: Known, valid: ValidSet, state: State, evidence: Evidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """Regress on the episode: both families, all orders."""
        M = self.orders(known)
        last = state.last
        if self.oracle == "relaxed":
            targets = last.box[trajectory.s[:-1], trajectory.a].at[-1].set(0.0)  # V_{H+1} = 0
            phi, y = moments.slot_rows(known, targets[:, None], trajectory, M)
            hat = moments.episode_rows(known, last.V_hat[:, None], trajectory, M)
            phi, y = jnp.concatenate([phi, hat[0]], axis=1), jnp.concatenate([y, hat[1]], axis=1)
        else:
            V = jnp.stack([last.V, last.V_hat], axis=1)  # TILDE, HAT
            phi, y = moments.episode_rows(known, V, trajectory, M)
        alpha, gamma, _ = radius.parameters(known.dim, known.horizon, known.bound)
        beta = self.beta(known, state.episode + 1, known.bound)
        ridge, _ = moments.regress(state.ridge, phi, y, beta=beta, alpha=alpha, gamma=gamma)
        state = eqx.tree_at(lambda x: (x.ridge, x.episode), state, (ridge, state.episode + 1))
        return state, {
            "V_hat": state.last.value,
            "upper": state.last.upper,
            "relaxed": state.last.relaxed,
            "ball_ratio": state.last.ball_ratio,
            "oracle_calls": state.calls,
            "search_radius": state.radius,
            "log_det_tilde": ridge.log_det[TILDE, 0],
            "log_det_hat": ridge.log_det[HAT, 0],
        }

    def estimate(self, known: Known, valid: ValidSet, state: State, evidence: Evidence) -> Float[Array, " d"]:
        """theta_{k*}, the model of the smallest value so far."""
        return state.best.theta

    def audit(self, known: Known, state: State, truth: Float[Array, " d"]) -> Info:
        """How far theta_star is from the centres of the 2M balls in force, in radii; above 1 it is outside."""
        ratio = state.ridge.distance(truth) / self.beta(known, state.episode + 1, known.bound)
        return {"truth_ratio": ratio.max(), "balls_violated": (ratio > 1).sum(dtype=jnp.int32)}

    def claim(self, known: Known, state: State) -> Certificate:
        """4 U_{k*}: rigorous with the paper's constants, while theta_{k*} lies in both order-0 balls.

        4 Vhat_{k*} stands beside it; it would be the smaller bound if the oracle's maximum were exact.
        """
        best = state.best
        eps = min(1.0, 4 * float(best.relaxed))
        parts = {
            "V_hat": float(best.value),
            "four_V_hat": 4 * float(best.value),
            "relaxed": float(best.relaxed),
            "ball_ratio": float(best.ball_ratio),
            "episode": float(best.episode),
        }
        if self.constants == "paper" and state.episode > self.total():
            words = "vacuous: explored beyond the budget of the radii"
            return Certificate(1.0, self.delta, "paper", words, parts)
        if self.constants == "paper" and best.ball_ratio > 1:
            return Certificate(1.0, self.delta, "paper", "vacuous: theta_k left its confidence balls", parts)
        words = claimed(eps, self.delta, self.constants)
        return Certificate(eps, self.delta, f"{self.constants} constants, 4U", words, parts)

    def orders(self, known: Known) -> int:
        """M."""
        if self.moment_orders is not None:
            return self.moment_orders
        return radius.moment_orders(self.total(), known.horizon)

    def total(self) -> int:
        """K."""
        if self.budget is None:
            raise OptionError("hf-ucrl-rfe++ needs budget, the number of episodes K that its radii refer to")
        return self.budget

    def beta(self, known: Known, k: int | Array, B: float) -> Float[Array, ""]:
        """beta_k: the theorem's radius, or a constant noise part."""
        d, H = known.dim, known.horizon
        if self.constants == "paper":
            return radius.beta_hf(k, d, H, B, self.delta, M=self.orders(known))
        bias = jnp.sqrt(radius.parameters(d, H, B).lam) * B
        return jnp.asarray(self.scale + self.bias_scale * bias)


def confidence_set(valid: ValidSet, state: State) -> ConfidenceSet:
    """U from the constraints of the last KEPT oracle calls (line 18), for questions afterwards; NumPy state."""
    used: Bool[Array, " C"] = jnp.isfinite(state.constraints.beta)
    kept = jax.tree.map(lambda x: x[used], state.constraints)
    d = kept.theta.shape[-1]
    per_call = kept.theta.shape[1] * kept.theta.shape[2]
    return ConfidenceSet(
        valid, kept.theta.reshape(-1, d), kept.Sigma.reshape(-1, d, d), kept.beta.repeat(per_call)
    )
