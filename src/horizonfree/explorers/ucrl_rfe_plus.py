"""UCRL-RFE+: UCRL-RFE with a variance-weighted planner for the exploration itself.

Paper: W. Zhang, D. Zhou, Q. Gu 2021 (NeurIPS), arXiv 2110.06394.
Algorithm: UCRL-RFE+. The regression on maximisers stays, unweighted, for the exploration reward and for planning.
    Two more learn the exploration's own values V^k, weighted by their estimated variance (weighted.py).
Symbols: nu is sigma^2 of weighted.py; otherwise as in ucrl_rfe.py.
Guarantee: as UCRL-RFE with fewer episodes, H^4 d (H + d)/eps^2 up to logarithms. `relaxed` is U of ucrl_rfe.py with the
    weighted regression as its planner; 2 U bounds the gap of plans in `theta_hat`, with constants="paper".
Departures:
    1. Those of ucrl_rfe.py.
    2. The radius of the second moments carries H^4 inside its logarithm, as the proof needs (radius.radii_rfe_plus).
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree.estimators import radius, weighted
from horizonfree.estimators.optimism import box_rows, exploration_reward, max_box_norm, optimistic, step_error
from horizonfree.estimators.projection import pooled_least_squares
from horizonfree.estimators.radius import Radii, model_sizes
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
    """The policy, its values V^k and the maximisers f; the smallest U so far (`relaxed`); both kinds of regressions."""

    policy: Int[Array, "H S"]
    V: Float[Array, "H1 S"]
    f: Float[Array, "S A n"]
    relaxed: Float[Array, ""]
    ridge: Ridge
    own: Ridge  # the weighted regressions on V^k (hat) and its square (tilde)
    episode: Int[Array, ""]


class UCRLRFEPlus(PlugIn):
    """UCRL-RFE+ (Zhang, Zhou, Gu 2021): UCRL-RFE whose exploration plans with variance-weighted regression."""

    constants: Constants = "scaled"
    scale: Deviations = 1.0
    bias_scale: BiasAdded = 0.0
    delta: Delta = 0.05
    budget: Budget = None

    def __check_init__(self) -> None:
        radius.check_options(self.constants, self.scale, self.bias_scale, self.delta)

    def init(self, model: MixtureModel) -> State:
        """No data: every Sigma = I / B^2."""
        (H, S, _), d, lam = model.space.sizes, model.dim, model.bound**-2.0
        policy, V, f = jnp.zeros((H, S), jnp.int32), jnp.zeros((H + 1, S)), jnp.zeros(model.space.succ.shape)
        own = Ridge.init(lam, d, (weighted.NUM_MOMENTS,))
        return State(policy, V, f, jnp.asarray(1.0), Ridge.init(lam, d), own, jnp.int32(0))

    def choose(self, key: Array, model: MixtureModel, state: State, evidence: MixtureEvidence) -> State:
        """PLAN(theta_hat_k, Sigma_hat_k, r^k, beta_hat), r^k from the unweighted Sigma_k and the planning radius."""
        radii, beta = self.radii(model)
        box, hat = max_box_norm(model, state.ridge), weighted.first_moments(state.own)
        policy, V = optimistic(
            model, hat, radii.hat, exploration_reward(model, box, beta), model.space.horizon
        )
        _, U = optimistic(model, hat, radii.hat, step_error(model, box, beta), 1.0)
        relaxed = jnp.minimum(model.space.at_start(U[0]), state.relaxed)
        return State(policy, V, box.f.astype(float), relaxed, state.ridge, state.own, state.episode)

    def update(
        self, model: MixtureModel, state: State, evidence: MixtureEvidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """Regress on the maximisers, unweighted, and on V^k and its square, weighted."""
        phi_u, y = box_rows(model, state.f, trajectory)
        ridge = state.ridge.extend(phi_u, y, jnp.ones_like(y))
        radii, beta = self.radii(model)
        own, nu = weighted.regress(model, state.own, state.V, trajectory, radii)
        numbers = {
            "V": model.space.at_start(state.V[0]),
            "relaxed": state.relaxed,
            "log_det": ridge.log_det,
            "smallest_nu": nu.min(),
            "largest_nu": nu.max(),
        }
        new = State(state.policy, state.V, state.f, state.relaxed, ridge, own, state.episode + 1)
        balls = (ConfidenceBall(ridge, beta), ConfidenceBall(own, weighted.pair_radii(radii)))
        return new, Info(numbers, balls)

    def theta_hat(self, model: MixtureModel, state: State, evidence: MixtureEvidence) -> Float[Array, " d"]:
        """The valid parameter nearest to theta_{K+1} in the Sigma norm."""
        return pooled_least_squares(model.valid, state.ridge)

    def claim(self, model: MixtureModel, state: State) -> Certificate:
        """2 U: rigorous with the paper's constants."""
        parts = {"relaxed": float(state.relaxed), "V": float(model.space.at_start(state.V[0]))}
        terms = Terms(self.delta, self.constants, self.budget)
        return claim(2 * parts["relaxed"], parts, "2U", terms, int(state.episode))

    def radii(self, model: MixtureModel) -> tuple[Radii, Float[Array, ""]]:
        """Three radii to explore with, and beta to plan with; the same in every episode."""
        sizes = model_sizes(model)
        if self.constants == "paper":
            return radius.radii_rfe_plus(
                check_budget(self.budget, "K that the radii refer to"), sizes, self.delta
            )
        scaled = sizes, self.scale, self.bias_scale
        return radius.scaled_variances(*scaled), radius.scaled_rfe(*scaled)
