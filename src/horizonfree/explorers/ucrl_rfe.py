"""UCRL-RFE: reward-free exploration by the largest norm over a box.

Paper: W. Zhang, D. Zhou, Q. Gu 2021 (NeurIPS), arXiv 2110.06394.
Algorithm: UCRL-RFE and its module PLAN (estimators/optimism.py). One regression for all steps; its targets are the
    maximisers u of ||phi_u|| themselves.
Symbols: values and rewards on the paper's scale, r_h in [0, 1] and V in [0, H]; lam = 1/B^2; steps count from 1.
Guarantee: with constants="paper" and probability 1 - delta, the paper's plans are optimistic and need H^5 d^2/eps^2
    episodes up to logarithms. Plans made in `theta_hat` lose at most 2 U_k for rewards of total at most 1: U_k,
    `relaxed` in the rows, is the same recursion with reward min{1, beta max_f ||phi_f||} and cap 1 (docs/ucrl-rfe.md
    has the argument). With constants="scaled" there is no such theorem.
Departures:
    1. The exploration reward has no square root around the norm: printed in (4.2), but the proofs use the plain norm.
    2. Above 8 successors the maximiser is found by ascent and the reward uses a certified bound above it.
    3. `theta_hat` is the regression projected on the valid parameters in the Sigma norm: no further from
       theta_star; the library plans in it without a bonus, the paper with one.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree.estimators import radius
from horizonfree.estimators.optimism import box_rows, exploration_reward, max_box_norm, optimistic, step_error
from horizonfree.estimators.projection import pooled_least_squares
from horizonfree.estimators.radius import model_sizes
from horizonfree.estimators.ridge import Ridge
from horizonfree.explorers.base import (
    BiasAdded,
    Budget,
    ConfidenceBall,
    Constants,
    Delta,
    Deviations,
    Info,
    PlugIn,
    check_budget,
)
from horizonfree.guarantees.certificate import Certificate, Terms, claim
from horizonfree.mdp.space import Trajectory
from horizonfree.models.mixture.evidence import MixtureEvidence
from horizonfree.models.mixture.model import MixtureModel


class State(eqx.Module):
    """The policy, its optimistic value and the maximisers f; the smallest U so far (`relaxed`); the regression."""

    policy: Int[Array, "H S"]
    value: Float[Array, ""]
    f: Float[Array, "S A n"]
    relaxed: Float[Array, ""]
    ridge: Ridge
    episode: Int[Array, ""]


class UCRLRFE(PlugIn):
    """UCRL-RFE (Zhang, Zhou, Gu 2021): explores where some value function is predicted worst."""

    constants: Constants = "scaled"
    scale: Deviations = 1.0
    bias_scale: BiasAdded = 0.0
    delta: Delta = 0.05
    budget: Budget = None

    def __check_init__(self) -> None:
        radius.check_options(self.constants, self.scale, self.bias_scale, self.delta)

    def init(self, model: MixtureModel) -> State:
        """No data: Sigma = I / B^2."""
        H, S, _ = model.space.sizes
        ridge = Ridge.init(model.bound**-2.0, model.dim)
        cap, f = jnp.asarray(float(H)), jnp.zeros(model.space.succ.shape)
        return State(jnp.zeros((H, S), jnp.int32), cap, f, jnp.asarray(1.0), ridge, jnp.int32(0))

    def choose(self, key: Array, model: MixtureModel, state: State, evidence: MixtureEvidence) -> State:
        """The policy PLAN(theta_k, Sigma_k, r^k, beta)."""
        beta, ridge = self.beta(model), state.ridge
        box = max_box_norm(model, ridge)
        policy, V = optimistic(model, ridge, beta, exploration_reward(model, box, beta), model.space.horizon)
        _, U = optimistic(model, ridge, beta, step_error(model, box, beta), 1.0)
        value, relaxed = model.space.at_start(V[0]), jnp.minimum(model.space.at_start(U[0]), state.relaxed)
        return State(policy, value, box.f.astype(float), relaxed, ridge, state.episode)

    def update(
        self, model: MixtureModel, state: State, evidence: MixtureEvidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """Regress on the maximisers along the episode."""
        phi_u, y = box_rows(model, state.f, trajectory)
        ridge = state.ridge.extend(phi_u, y, jnp.ones_like(y))
        numbers = {"V": state.value, "relaxed": state.relaxed, "log_det": ridge.log_det}
        new = State(state.policy, state.value, state.f, state.relaxed, ridge, state.episode + 1)
        return new, Info(numbers, (ConfidenceBall(ridge, self.beta(model)),))

    def theta_hat(self, model: MixtureModel, state: State, evidence: MixtureEvidence) -> Float[Array, " d"]:
        """The valid parameter nearest to theta_{K+1} in the Sigma norm."""
        return pooled_least_squares(model.valid, state.ridge)

    def claim(self, model: MixtureModel, state: State) -> Certificate:
        """2 U: rigorous with the paper's constants."""
        parts = {"relaxed": float(state.relaxed), "V": float(state.value)}
        terms = Terms(self.delta, self.constants, self.budget)
        return claim(2 * parts["relaxed"], parts, "2U", terms, int(state.episode))

    def beta(self, model: MixtureModel) -> Float[Array, ""]:
        """The radius, the same in every episode."""
        sizes = model_sizes(model)
        if self.constants == "paper":
            return radius.beta_rfe(
                check_budget(self.budget, "K that the radius refers to"), sizes, self.delta
            )
        return radius.scaled_rfe(sizes, self.scale, self.bias_scale)
