"""UCRL-VTR+: optimism for one known reward, with variance-weighted value-targeted regression.

Paper: D. Zhou, Q. Gu, C. Szepesvari 2021 (COLT), arXiv 2012.08507.
Algorithm: UCRL-VTR+, the episodic one. A pair of regressions per step (weighted.py); planning as in optimism.py, cap H.
Symbols: values in [0, H]: the library's reward, of total at most 1, is multiplied by H, and `V` in the rows divided by
    it again; lam = 1/B^2.
Guarantee: with constants="paper", optimism V_k >= V_star with probability 1 - 3 delta (delta for each of the radii
    hat, check and tilde) and regret of order sqrt(d^2 H^2 + d H^3) sqrt(KH) up to logarithms with probability
    1 - 5 delta. None with constants="scaled".
Departures:
    1. `pool_steps` shares one pair of regressions among the steps, which is right for kernels that do not depend on the
       step, as all of the library's are. The radii are then those after kH rows, and delta is not divided by H:
       again delta for each of the three.
    2. `theta_hat` pools the steps in any case and takes the nearest valid parameter.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree._x64 import Number
from horizonfree.estimators import radius, weighted
from horizonfree.estimators.optimism import optimistic
from horizonfree.estimators.projection import pooled_least_squares
from horizonfree.estimators.radius import Radii, model_sizes
from horizonfree.estimators.ridge import Ridge
from horizonfree.explorers.base import (
    BiasAdded,
    ConfidenceBall,
    Constants,
    Delta,
    Deviations,
    Info,
    PlugIn,
    PoolSteps,
    Reward,
)
from horizonfree.mdp.space import Trajectory
from horizonfree.models.mixture.evidence import MixtureEvidence
from horizonfree.models.mixture.model import MixtureModel


class State(eqx.Module):
    """The regressions [H 2] or [2], and the optimistic policy and values made from them."""

    policy: Int[Array, "H S"]
    V: Float[Array, "H1 S"]
    ridge: Ridge
    episode: Int[Array, ""]


class UCRLVTRPlus(PlugIn):
    """UCRL-VTR+ (Zhou, Gu, Szepesvari 2021): optimism for one given reward, variance-weighted, one model per step."""

    reward: Reward
    constants: Constants = "scaled"
    scale: Deviations = 1.0
    bias_scale: BiasAdded = 0.0
    pool_steps: PoolSteps = False
    delta: Delta = 0.05

    def __check_init__(self) -> None:
        radius.check_options(self.constants, self.scale, self.bias_scale, self.delta)

    def init(self, model: MixtureModel) -> State:
        """No data: every Sigma = I / B^2."""
        H, S, _ = model.space.sizes
        batch = (weighted.NUM_MOMENTS,) if self.pool_steps else (H, weighted.NUM_MOMENTS)
        ridge = Ridge.init(model.bound**-2.0, model.dim, batch)
        return State(jnp.zeros((H, S), jnp.int32), jnp.zeros((H + 1, S)), ridge, jnp.int32(0))

    def choose(self, key: Array, model: MixtureModel, state: State, evidence: MixtureEvidence) -> State:
        """Optimistic value iteration for H times the reward."""
        beta, reward = (
            self.radii(model, state.episode + 1).hat,
            model.space.horizon * jnp.asarray(self.reward),
        )
        policy, V = optimistic(model, weighted.first_moments(state.ridge), beta, reward, model.space.horizon)
        return State(policy, V, state.ridge, state.episode)

    def update(
        self, model: MixtureModel, state: State, evidence: MixtureEvidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """Regress on the values along the episode."""
        ridge, sigma_sq = weighted.regress(
            model, state.ridge, state.V, trajectory, self.radii(model, state.episode + 1)
        )
        episode = state.episode + 1
        numbers = {
            "V": model.space.at_start(state.V[0]) / model.space.horizon,
            "smallest_sigma_sq": sigma_sq.min(),
            "largest_sigma_sq": sigma_sq.max(),
        }
        ball = ConfidenceBall(ridge, weighted.pair_radii(self.radii(model, episode + 1)))
        return State(state.policy, state.V, ridge, episode), Info(numbers, (ball,))

    def theta_hat(self, model: MixtureModel, state: State, evidence: MixtureEvidence) -> Float[Array, " d"]:
        """Least squares of the first moments of all steps, among the valid parameters."""
        return pooled_least_squares(model.valid, weighted.first_moments(state.ridge))

    def claim(self, model: MixtureModel, state: State) -> None:
        """None: its guarantee is on regret."""
        return None

    def radii(self, model: MixtureModel, k: Number) -> Radii:
        """The radii at episode k."""
        sizes = model_sizes(model)
        if self.constants == "scaled":
            return radius.scaled_variances(sizes, self.scale, self.bias_scale)
        return radius.radii_vtr_plus(k, sizes, self.delta, pool_steps=self.pool_steps)
