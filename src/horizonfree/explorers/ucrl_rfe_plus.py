"""UCRL-RFE+: UCRL-RFE with a variance-weighted planner for the exploration itself.

Paper: W. Zhang, D. Zhou, Q. Gu 2021 (NeurIPS), arXiv 2110.06394.
Algorithm: UCRL-RFE+. The regression on maximisers stays, unweighted, for the exploration reward and for planning.
    Two more learn the exploration's own values V^k, weighted by their estimated variance (weighted.py).
Symbols: nu is sigma^2 of weighted.py; otherwise as in ucrl_rfe.py.
Guarantee: as UCRL-RFE with fewer episodes, H^4 d (H + d)/eps^2 up to logarithms. `relaxed` is U of ucrl_rfe.py with the
    weighted regression as its planner; 2 U bounds the gap of plans in `estimate`, with constants="paper".
Departures:
    1. Those of ucrl_rfe.py.
    2. The radius of the second moments carries H^4 inside its logarithm, as the proof needs (radius.radii_rfe_plus).
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from horizonfree import radius, weighted
from horizonfree.certificates import Certificate
from horizonfree.confidence import least_squares
from horizonfree.errors import OptionError
from horizonfree.evidence import Evidence
from horizonfree.explorers._api import Explorer, Info
from horizonfree.explorers._options import Added, Budget, Constants, Delta, Deviations
from horizonfree.explorers.ucrl_rfe import (
    box_rows,
    claim,
    doubt,
    exploration_reward,
    widest,
)
from horizonfree.mixture import Known
from horizonfree.optimism import optimistic
from horizonfree.radius import Radii
from horizonfree.ridge import Ridge
from horizonfree.simulate import Trajectory
from horizonfree.valid import ValidSet


class State(eqx.Module):
    """Both kinds of regressions; the policy, its values and the maximisers; the smallest U so far."""

    policy: Int[Array, "H S"]
    V: Float[Array, "H+1 S"]
    f: Float[Array, "S A n"]
    relaxed: Float[Array, ""]
    ridge: Ridge
    own: Ridge  # hat and tilde: regressions on V^k
    episode: Int[Array, ""]


class UCRLRFEPlus(Explorer):
    """UCRL-RFE+ (Zhang, Zhou, Gu 2021): UCRL-RFE whose exploration plans with variance-weighted regression."""

    constants: Constants = "scaled"
    scale: Deviations = 1.0
    bias_scale: Added = 0.0
    delta: Delta = 0.05
    budget: Budget = None

    def __check_init__(self) -> None:
        radius.check_options(self.constants, self.scale, self.bias_scale, self.delta)
        if self.constants == "paper" and self.budget is None:
            raise OptionError("budget is missing: the number of episodes K that the radii refer to")

    def init(self, known: Known, valid: ValidSet) -> State:
        """No data: every Sigma = I / B^2."""
        H, S, d, lam = known.horizon, known.num_states, known.dim, known.bound**-2.0
        policy, V, f = jnp.zeros((H, S), jnp.int32), jnp.zeros((H + 1, S)), jnp.zeros(known.phi.shape[:3])
        own = Ridge.init(lam, d, (weighted.PAIR,))
        return State(policy, V, f, jnp.asarray(1.0), Ridge.init(lam, d), own, jnp.int32(0))

    def is_due(self, known: Known, state: State) -> bool:
        """Every episode."""
        return True

    def choose(self, key: Array, known: Known, valid: ValidSet, state: State, evidence: Evidence) -> State:
        """PLAN(theta_hat_k, Sigma_hat_k, r^k, beta_hat), r^k from the unweighted Sigma_k and the planning radius."""
        radii, beta = self.radii(known)
        box, hat = widest(known, state.ridge), weighted.first(state.own)
        policy, V = optimistic(known, hat, radii.hat, exploration_reward(known, box, beta), known.horizon)
        _, U = optimistic(known, hat, radii.hat, doubt(known, box, beta), 1.0)
        relaxed = jnp.minimum(U[0, known.start], state.relaxed)
        return State(policy, V, box.f.astype(float), relaxed, state.ridge, state.own, state.episode)

    def update(
        self, known: Known, valid: ValidSet, state: State, evidence: Evidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """Regress on the maximisers, unweighted, and on V^k and its square, weighted."""
        phi_u, y = box_rows(known, state.f, trajectory)
        ridge = state.ridge.extend(phi_u, y, jnp.ones_like(y))
        own, nu = weighted.regress(known, state.own, state.V, trajectory, self.radii(known)[0])
        info = {
            "V": state.V[0, known.start],
            "relaxed": state.relaxed,
            "log_det": jnp.asarray(ridge.log_det),
            "smallest_nu": nu.min(),
            "largest_nu": nu.max(),
        }
        new = (ridge, own, state.episode + 1)
        return eqx.tree_at(lambda x: (x.ridge, x.own, x.episode), state, new), info

    def estimate(self, known: Known, valid: ValidSet, state: State, evidence: Evidence) -> Float[Array, " d"]:
        """The valid parameter nearest to theta_{K+1} in the Sigma norm."""
        return least_squares(valid, jnp.asarray(state.ridge.Sigma), jnp.asarray(state.ridge.b))

    def audit(self, known: Known, state: State, truth: Float[Array, " d"]) -> Info:
        """How far theta_star is from the centres of the three balls, in radii; above 1 it is outside."""
        radii, beta = self.radii(known)
        own = state.own.distance(truth) / jnp.stack([radii.hat, radii.tilde])
        return {"truth_ratio": jnp.maximum(state.ridge.distance(truth) / beta, own.max())}

    def claim(self, known: Known, state: State) -> Certificate:
        """2 U: rigorous with the paper's constants."""
        episodes, relaxed, value = int(state.episode), float(state.relaxed), float(state.V[0, known.start])
        return claim(self.constants, self.delta, self.budget, episodes, relaxed, value)

    def radii(self, known: Known) -> tuple[Radii, Float[Array, ""]]:
        """Three radii to explore with, and beta to plan with; the same in every episode."""
        d, H, B = known.dim, known.horizon, known.bound
        if self.constants == "paper":
            return radius.radii_rfe_plus(self.budget or 1, d, H, B, self.delta)
        return weighted.scaled(d, H, self.scale, self.bias_scale), jnp.asarray(
            self.scale * H + self.bias_scale
        )
