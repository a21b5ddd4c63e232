"""HF-UCRL-VTR+ and UCRL-VTR: optimism for one known reward, with the same moment estimator.

Paper: Zhou, Gu 2022 (NeurIPS), arXiv 2205.11507, for HF-UCRL-VTR+; Jia, Yang, Szepesvari, Wang 2020 (L4DC) and Ayoub
    et al. 2020 (ICML) for UCRL-VTR.
Algorithm: optimistic value iteration for one known reward of total at most 1, value-targeted regression on the values
    V_k with weights from HOME (moments.py). UCRL-VTR is the case of one order and weights 1.
Symbols: one family of M ridges; Sigma_dot is the ridge at the start of the episode.
Guarantee: regret of order d sqrt(K) + d^2 up to logarithms with constants="paper" and M orders; optimism
    V_k >= V_star with probability 1 - delta. None with constants="scaled".
Departures:
    1. The main loop is written from memory of the published text; HOME and the radius are those of HF-UCRL-RFE++, which
       restates them. M = max{2, ceil(log2(7KH))} as there.
    2. delta is divided among the M regressions (and as many martingales), as in HF-UCRL-RFE++.
"""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree._x64 import Number
from horizonfree.estimators import moments, radius
from horizonfree.estimators.optimism import optimistic
from horizonfree.estimators.radius import model_sizes
from horizonfree.estimators.ridge import Ridge
from horizonfree.explorers.base import (
    Bias,
    Budget,
    ConfidenceBall,
    Constants,
    Delta,
    Info,
    Noise,
    PlugIn,
    Reward,
    check_budget,
)
from horizonfree.mdp.space import Trajectory
from horizonfree.models.mixture.evidence import MixtureEvidence
from horizonfree.models.mixture.model import MixtureModel


class State(eqx.Module):
    """The regressions, and the optimistic policy and values made from them."""

    policy: Int[Array, "H S"]
    V: Float[Array, "H1 S"]
    ridge: Ridge
    episode: Int[Array, ""]


class HFUCRLVTR(PlugIn):
    """HF-UCRL-VTR+ (Zhou, Gu 2022): optimism for one given reward, weighted by moments; unweighted, UCRL-VTR."""

    reward: Reward
    constants: Constants = "scaled"
    scale: Noise = 1.0
    bias_scale: Bias = 0.0
    is_weighted: Annotated[bool, "weigh rows by their moments; the name of the explorer settles it"] = True
    delta: Delta = 0.05
    budget: Budget = None

    def __check_init__(self) -> None:
        radius.check_options(self.constants, self.scale, self.bias_scale, self.delta)

    def init(self, model: MixtureModel) -> State:
        """No data: Sigma = lam I, theta = 0."""
        H, S, _ = model.space.sizes
        ridge = Ridge.init(radius.parameters(model_sizes(model)).lam, model.dim, (self.orders(model),))
        return State(jnp.zeros((H, S), jnp.int32), jnp.zeros((H + 1, S)), ridge, jnp.int32(0))

    def choose(self, key: Array, model: MixtureModel, state: State, evidence: MixtureEvidence) -> State:
        """Optimistic value iteration with the regression of order 0."""
        first = jax.tree.map(lambda x: x[0], state.ridge)
        beta, reward = self.beta(model, state.episode + 1), jnp.asarray(self.reward)
        policy, V = optimistic(model, first, beta, reward, 1.0)
        return State(policy, V, state.ridge, state.episode)

    def update(
        self, model: MixtureModel, state: State, evidence: MixtureEvidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """Regress on the episode, values as targets."""
        M = self.orders(model)
        phi, y = moments.episode_rows(model, state.V, trajectory, M)
        alpha, gamma, _ = radius.parameters(model_sizes(model))
        gamma = gamma if self.is_weighted else 0.0  # one order and gamma = 0: every weight is 1
        beta = self.beta(model, state.episode + 1)
        ridge, _ = moments.regress(state.ridge, phi, y, beta=beta, alpha=alpha, gamma=gamma)
        episode = state.episode + 1
        numbers = {"V": model.space.at_start(state.V[0]), "log_det": ridge.log_det[0]}
        ball = ConfidenceBall(ridge, self.beta(model, episode + 1))
        return State(state.policy, state.V, ridge, episode), Info(numbers, (ball,))

    def theta_hat(self, model: MixtureModel, state: State, evidence: MixtureEvidence) -> Float[Array, " d"]:
        """The regression of order 0; it need not be a kernel."""
        return state.ridge.theta[0]

    def claim(self, model: MixtureModel, state: State) -> None:
        """None: its guarantee is on regret."""
        return None

    def orders(self, model: MixtureModel) -> int:
        """M, or 1 for UCRL-VTR."""
        K = check_budget(self.budget, "K that the radii refer to")
        return radius.moment_orders(K, model.space.horizon) if self.is_weighted else 1

    def beta(self, model: MixtureModel, k: Number) -> Float[Array, ""]:
        """The radius beta_k."""
        sizes = model_sizes(model)
        if self.constants == "scaled":
            return radius.scaled_moments(sizes, self.scale, self.bias_scale)
        if self.is_weighted:
            return radius.beta_hf(k, sizes, self.delta, M=self.orders(model))
        return radius.beta_vtr(k, sizes, self.delta)
