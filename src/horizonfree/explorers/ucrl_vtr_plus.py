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
    2. `estimate` pools the steps in any case and takes the nearest valid parameter.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from horizonfree import radius, weighted
from horizonfree.confidence import least_squares
from horizonfree.evidence import Evidence
from horizonfree.explorers._api import Explorer, Info
from horizonfree.explorers._options import Added, Constants, Delta, Deviations, PoolSteps, Reward
from horizonfree.mixture import Known
from horizonfree.optimism import optimistic
from horizonfree.radius import Radii, check_options
from horizonfree.ridge import Ridge
from horizonfree.simulate import Trajectory
from horizonfree.valid import ValidSet


class State(eqx.Module):
    """The regressions [H 2] or [2], and the optimistic policy and values made from them."""

    policy: Int[Array, "H S"]
    V: Float[Array, "H+1 S"]
    ridge: Ridge
    episode: Int[Array, ""]


class UCRLVTRPlus(Explorer):
    """UCRL-VTR+ (Zhou, Gu, Szepesvari 2021): optimism for one given reward, variance-weighted, one model per step."""

    reward: Reward
    constants: Constants = "scaled"
    scale: Deviations = 1.0
    bias_scale: Added = 0.0
    pool_steps: PoolSteps = False
    delta: Delta = 0.05

    def __check_init__(self) -> None:
        check_options(self.constants, self.scale, self.bias_scale, self.delta)

    def init(self, known: Known, valid: ValidSet) -> State:
        """No data: every Sigma = I / B^2."""
        H, S = known.horizon, known.num_states
        batch = (weighted.PAIR,) if self.pool_steps else (H, weighted.PAIR)
        ridge = Ridge.init(known.bound**-2.0, known.dim, batch)
        return State(jnp.zeros((H, S), jnp.int32), jnp.zeros((H + 1, S)), ridge, jnp.int32(0))

    def is_due(self, known: Known, state: State) -> bool:
        """Every episode."""
        return True

    def choose(self, key: Array, known: Known, valid: ValidSet, state: State, evidence: Evidence) -> State:
        """Optimistic value iteration for H times the reward."""
        beta, reward = self.radii(known, state).hat, known.horizon * jnp.asarray(self.reward)
        policy, V = optimistic(known, weighted.first(state.ridge), beta, reward, known.horizon)
        return State(policy, V, state.ridge, state.episode)

    def update(
        self, known: Known, valid: ValidSet, state: State, evidence: Evidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """Regress on the values along the episode."""
        ridge, sigma_sq = weighted.regress(known, state.ridge, state.V, trajectory, self.radii(known, state))
        info = {
            "V": state.V[0, known.start] / known.horizon,
            "smallest_sigma_sq": sigma_sq.min(),
            "largest_sigma_sq": sigma_sq.max(),
        }
        return State(state.policy, state.V, ridge, state.episode + 1), info

    def estimate(self, known: Known, valid: ValidSet, state: State, evidence: Evidence) -> Float[Array, " d"]:
        """Least squares of the first moments of all steps, among the valid parameters."""
        return pooled_estimate(valid, weighted.first(state.ridge))

    def audit(self, known: Known, state: State, truth: Float[Array, " d"]) -> Info:
        """How far theta_star is from the centres of the balls, in radii; above 1 it is outside."""
        radii = self.radii(known, state)
        return {"truth_ratio": (state.ridge.distance(truth) / jnp.stack([radii.hat, radii.tilde])).max()}

    def claim(self, known: Known, state: State) -> None:
        """None: its guarantee is on regret."""
        return None

    def radii(self, known: Known, state: State) -> Radii:
        """Radii of episode k."""
        if self.constants == "scaled":
            return weighted.scaled(known.dim, known.horizon, self.scale, self.bias_scale)
        return paper_radii(known, state.episode + 1, self.delta, self.pool_steps)


def paper_radii(known: Known, k: Int[Array, ""], delta: float, pool_steps: bool) -> Radii:
    """The theorem's radii at episode k; pooled, kH rows count for one regression and each radius has all of delta."""
    d, H, B = known.dim, known.horizon, known.bound
    if pool_steps:
        return radius.radii_vtr_plus(k * H, d, H, B, delta * H)
    return radius.radii_vtr_plus(k, d, H, B, delta)


def pooled_estimate(valid: ValidSet, ridge: Ridge) -> Float[Array, " d"]:
    """argmin over valid theta of the sum of ||theta - theta_i||^2_{Sigma_i}, over a batch of regressions."""
    Sigma, b = jnp.asarray(ridge.Sigma), jnp.asarray(ridge.b)
    d = b.shape[-1]
    return least_squares(valid, Sigma.reshape(-1, d, d).sum(0), b.reshape(-1, d).sum(0))
