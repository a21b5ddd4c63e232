"""UCRL-RFE: reward-free exploration by the largest norm over a box.

Paper: W. Zhang, D. Zhou, Q. Gu 2021 (NeurIPS), arXiv 2110.06394.
Algorithm: UCRL-RFE and its module PLAN (optimism.py). One regression for all steps; its targets are the maximisers u of
    ||phi_u|| themselves.
Symbols: values and rewards on the paper's scale, r_h in [0, 1] and V in [0, H]; lam = 1/B^2; steps count from 1.
Guarantee: with constants="paper" and probability 1 - delta, the paper's plans are optimistic and need H^5 d^2/eps^2
    episodes up to logarithms. Plans made in `estimate` lose at most 2 U_k for rewards of total at most 1: U_k,
    `relaxed` in the rows, is the same recursion with reward min{1, beta max_f ||phi_f||} and cap 1 (docs/ucrl-rfe.md
    has the argument). With constants="scaled" there is no such theorem.
Departures:
    1. The exploration reward has no square root around the norm: printed in (4.2), but the proofs use the plain norm.
    2. Above 8 successors the maximiser is found by ascent and the reward uses a certified bound above it.
    3. `estimate` is the regression projected on the valid parameters in the Sigma norm, which brings it no further from
       theta_star; the library plans in it without a bonus, the paper with one.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from horizonfree import radius
from horizonfree.certificates import Certificate, claimed
from horizonfree.confidence import least_squares
from horizonfree.errors import OptionError
from horizonfree.evidence import Evidence
from horizonfree.explorers._api import Explorer, Info
from horizonfree.explorers._options import Added, Budget, Constants, Delta, Deviations
from horizonfree.mixture import Known
from horizonfree.optimism import optimistic
from horizonfree.oracle import BoxMax, box_max
from horizonfree.ridge import Ridge
from horizonfree.simulate import Trajectory
from horizonfree.valid import ValidSet


class State(eqx.Module):
    """The regression; the policy, its optimistic value and the maximisers it was made with; the smallest U so far."""

    policy: Int[Array, "H S"]
    value: Float[Array, ""]
    f: Float[Array, "S A n"]
    relaxed: Float[Array, ""]
    ridge: Ridge
    episode: Int[Array, ""]


class UCRLRFE(Explorer):
    """UCRL-RFE (Zhang, Zhou, Gu 2021): explores where some value function is predicted worst."""

    constants: Constants = "scaled"
    scale: Deviations = 1.0
    bias_scale: Added = 0.0
    delta: Delta = 0.05
    budget: Budget = None

    def __check_init__(self) -> None:
        radius.check_options(self.constants, self.scale, self.bias_scale, self.delta)
        if self.constants == "paper" and self.budget is None:
            raise OptionError("budget is missing: the number of episodes K that the radius refers to")

    def init(self, known: Known, valid: ValidSet) -> State:
        """No data: Sigma = I / B^2."""
        H, S = known.horizon, known.num_states
        ridge = Ridge.init(known.bound**-2.0, known.dim)
        cap, f = jnp.asarray(float(H)), jnp.zeros(known.phi.shape[:3])
        return State(jnp.zeros((H, S), jnp.int32), cap, f, jnp.asarray(1.0), ridge, jnp.int32(0))

    def is_due(self, known: Known, state: State) -> bool:
        """Every episode."""
        return True

    def choose(self, key: Array, known: Known, valid: ValidSet, state: State, evidence: Evidence) -> State:
        """PLAN(theta_k, Sigma_k, r^k, beta)."""
        beta, ridge = self.beta(known), state.ridge
        box = widest(known, ridge)
        policy, V = optimistic(known, ridge, beta, exploration_reward(known, box, beta), known.horizon)
        _, U = optimistic(known, ridge, beta, doubt(known, box, beta), 1.0)
        value, relaxed = V[0, known.start], jnp.minimum(U[0, known.start], state.relaxed)
        return State(policy, value, box.f.astype(float), relaxed, ridge, state.episode)

    def update(
        self, known: Known, valid: ValidSet, state: State, evidence: Evidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """Regress on the maximisers along the episode."""
        phi_u, y = box_rows(known, state.f, trajectory)
        ridge = state.ridge.extend(phi_u, y, jnp.ones_like(y))
        info = {"V": state.value, "relaxed": state.relaxed, "log_det": jnp.asarray(ridge.log_det)}
        return eqx.tree_at(lambda x: (x.ridge, x.episode), state, (ridge, state.episode + 1)), info

    def estimate(self, known: Known, valid: ValidSet, state: State, evidence: Evidence) -> Float[Array, " d"]:
        """The valid parameter nearest to theta_{K+1} in the Sigma norm."""
        return least_squares(valid, jnp.asarray(state.ridge.Sigma), jnp.asarray(state.ridge.b))

    def audit(self, known: Known, state: State, truth: Float[Array, " d"]) -> Info:
        """How far theta_star is from the centre of the ball, in radii; above 1 it is outside."""
        return {"truth_ratio": state.ridge.distance(truth) / self.beta(known)}

    def claim(self, known: Known, state: State) -> Certificate:
        """2 U: rigorous with the paper's constants."""
        episodes, relaxed, value = int(state.episode), float(state.relaxed), float(state.value)
        return claim(self.constants, self.delta, self.budget, episodes, relaxed, value)

    def beta(self, known: Known) -> Float[Array, ""]:
        """The radius, the same in every episode."""
        d, H, B = known.dim, known.horizon, known.bound
        if self.constants == "paper":
            return radius.beta_rfe(self.budget or 1, d, H, B, self.delta)
        return jnp.asarray(self.scale * H + self.bias_scale)


def widest(known: Known, ridge: Ridge) -> BoxMax:
    """max over f in [0,1]^S of ||phi_f(s,a)||_{Sigma^{-1}} of every pair, on its successors."""
    X = jnp.swapaxes(jnp.asarray(known.phi) @ jnp.asarray(ridge.W).T, -1, -2)
    return box_max(jnp.linalg.qr(X, mode="r") if X.shape[-1] < X.shape[-2] else X)


def exploration_reward(known: Known, box: BoxMax, beta: Float[Array, ""]) -> Float[Array, "H S A"]:
    """r_h^k = min{1, (2 beta / H) max over f in [0, H-h]^S of ||phi_f||}.   (eq. 4.2)"""
    return jnp.minimum(1.0, 2 * beta / known.horizon * steps_left(known)[:, None, None] * box.upper)


def doubt(known: Known, box: BoxMax, beta: Float[Array, ""]) -> Float[Array, "H S A"]:
    """min{1, beta max over f in [0,1]^S of ||phi_f||}, zero at the last step: by how much one step misjudges V <= 1."""
    return jnp.minimum(1.0, beta * box.upper) * (steps_left(known) > 0)[:, None, None]


def steps_left(known: Known) -> Float[Array, " H"]:
    """H - h for h = 1..H: the most that V_{h+1} can be."""
    return jnp.arange(known.horizon - 1, -1, -1, dtype=float)


def box_rows(
    known: Known, f: Float[Array, "S A n"], trajectory: Trajectory
) -> tuple[Float[Array, "H d"], Float[Array, " H"]]:
    """phi_u(s_h, a_h) and u(s_{h+1}), u = (H - h) f; both 0 where no slot was taken."""
    s, a, j = trajectory.s[:-1], trajectory.a, trajectory.j
    u = (steps_left(known) * (j >= 0))[:, None] * f[s, a]
    y = jnp.take_along_axis(u, jnp.maximum(j, 0)[:, None], axis=1)[:, 0]
    return jnp.einsum("hn,hnd->hd", u, jnp.asarray(known.phi)[s, a]), y


def claim(
    constants: str, delta: float, budget: int | None, episodes: int, relaxed: float, value: float
) -> Certificate:
    """Gap at most 2 U for rewards of total <= 1 and plans made in `estimate`; value, V_1^k, is on the paper's scale."""
    eps = min(1.0, 2 * relaxed)
    words = claimed(eps, delta, constants)
    if constants == "paper" and episodes > (budget or 0):
        eps, words = 1.0, f"vacuous: {episodes} episodes, but the radius is that of a budget of {budget}"
    return Certificate(eps, delta, f"{constants} constants, 2U", words, {"relaxed": relaxed, "V": value})
