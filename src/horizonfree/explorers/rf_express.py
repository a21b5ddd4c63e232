"""RF-Express: RF-UCRL with bonuses that fall like 1/n.

Paper: P. Menard, O. D. Domingues, A. Jonsson, E. Kaufmann, E. Leurent, M. Valko 2021 (ICML), arXiv 2007.13442,
    "Fast active learning for pure exploration in reinforcement learning".
Algorithm: RF-Express. With beta(n) = log(3SAH/delta) + S log(8e(n+1)) (`beta`), and W_h = H where n = 0,
        W_{H+1} = 0,   W_h(s,a) = min{ H, 15 H^2 beta(n)/n + (1 + 1/H) sum_s' p_hat_h(s'|s,a) max_a' W_{h+1}(s',a') }
    pi_h(s) = argmax_a W_h(s,a); stop when 3e sqrt(w) + w <= eps/2, w = max_a W_1(s_1,a); plan by value iteration in
    p_hat.
Symbols: rewards in [0, 1] at every step. n, p_hat: visits and frequencies of step h. `W` in the rows is w before the
    episode, its mean where the start is drawn.
Guarantee: with probability 1 - delta, at all times, for all policies and rewards in [0, 1] per step, the value at the
    start is misjudged by at most 3e sqrt(w) + w with the constants above (`misjudged`), whatever policies gathered the
    data; so a plan loses at most twice that, which is `claim`. The rule stops after S A H^3 (log(1/delta) + S)/eps^2
    episodes up to logarithms. Rewards of total at most 1 are among those in [0, 1] per step and gain nothing by it:
    the claim is the same number for them. Where the start is drawn, the bound holds for each start, and on average
    because 3e sqrt(w) + w is concave.
Departures:
    1. clip=False (default) leaves out the minimum while exploring: under it all actions tie at H until about
       15 e H^2 beta visits of a pair. It is always there in `claim`.
    2. bonus_scale multiplies the bonus while exploring, never in `claim`. Pairs without visits count as n = 1 in the
       bonus; at bonus_scale >= 1 the minimum is then H, as printed.
    3. pool_steps shares visits and frequencies among the steps, as the authors' code can; no theorem is printed for
       it, so that nothing is claimed.
    4. Ties are settled by lot. The proof prints 2e sqrt(w) where lemma and rule have 3e.
    5. p_hat without visits is even over the possible successors, and leads nowhere with `successors`; it matters
       without clipping only.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from horizonfree._x64 import Leaf, to_device, x64
from horizonfree.explorers.interface import Explorer, Info, Planned
from horizonfree.explorers.options import (
    BonusScale,
    Clip,
    Delta,
    PoolSteps,
    Successors,
    check_bonus,
    check_successors,
)
from horizonfree.explorers.per_step import Errors, Frequencies, carry_back, why_void
from horizonfree.guarantees.certificate import Certificate, Terms, claim
from horizonfree.mdp.rollout import Trajectory
from horizonfree.models.interface import Model
from horizonfree.models.tabular.evidence import Evidence
from horizonfree.models.tabular.model import TabularModel

POOLED = "the theorem has visits of each step apart, and pool_steps shares them"


class State(eqx.Module):
    """The policy, w when it was made, and what was seen."""

    policy: Int[Leaf, "*batch H S"]
    W: Float[Leaf, "*batch"]
    seen: Frequencies
    episode: Int[Leaf, "*batch"]


class RFExpress(Explorer):
    """RF-Express (Menard et al. 2021), for unknown tables: as RF-UCRL, with bonuses that fall like 1/n."""

    clip: Clip = False
    bonus_scale: BonusScale = 1.0
    pool_steps: PoolSteps = False
    successors: Successors = None
    delta: Delta = 0.05
    learns: ClassVar[type[Model]] = TabularModel

    def __check_init__(self) -> None:
        check_bonus(self.bonus_scale, self.delta)
        check_successors(self.successors)

    def init(self, model: TabularModel) -> State:
        """No visits."""
        H, S, _ = model.space.sizes
        seen = Frequencies.nothing(model.space, 1 if self.pool_steps else H, self.successors)
        return State(jnp.zeros((H, S), jnp.int32), jnp.asarray(float(H)), seen, jnp.int32(0))

    def choose(self, key: Array, model: TabularModel, state: State, evidence: Evidence) -> State:
        """Greedy in W."""
        found = self.errors(key, model, state.seen, self.bonus_scale, self.clip)
        return State(found.policy, found.first, state.seen, state.episode)

    def update(
        self, model: TabularModel, state: State, evidence: Evidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """Visits and frequencies."""
        seen = state.seen.learn(model, evidence, trajectory)
        return State(state.policy, state.W, seen, state.episode + 1), Info({"W": state.W})

    def plan(
        self, model: TabularModel, state: State, evidence: Evidence, reward: Float[Array, "H S A"]
    ) -> Planned:
        """The best policy in p_hat."""
        return state.seen.plan(model.space, reward)

    def claim(self, model: TabularModel, state: State) -> Certificate:
        """2 (3e sqrt(w) + w), with the paper's constants whatever explored."""
        w, k = self.w(model, state.seen), int(state.episode)
        terms = Terms(self.delta, "paper", k)
        void = POOLED if self.pool_steps else why_void(state.seen)
        return claim(2 * misjudged(w), {"W": w}, "2(3e sqrt W + W)", terms, k, void)

    @x64
    def w(self, model: TabularModel, seen: Frequencies) -> float:
        """max_a W_1(s_1,a) as the theorem has it; on the host."""
        model, seen = to_device((model, seen))
        return float(_first(self, model, seen))

    def errors(
        self, key: Array, model: TabularModel, seen: Frequencies, bonus_scale: float, clip: bool
    ) -> Errors:
        """W; traced."""
        H = model.space.horizon
        n = seen.visits.astype(jnp.float64)
        bonus = 15 * H**2 * self.beta(model, n) / jnp.maximum(n, 1)
        scales, caps = jnp.full(H, bonus_scale, jnp.float64), jnp.full(H, float(H) if clip else jnp.inf)
        return carry_back(key, model.space, seen, bonus, scales, caps, 1 + 1 / H)

    def beta(self, model: TabularModel, n: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """The threshold for n KL(p_hat, p); traced."""
        H, S, A = model.space.sizes
        return jnp.log(3 * S * A * H / self.delta) + S * jnp.log(8 * math.e * (n + 1))

    def stopping_time(self, records: Mapping[str, np.ndarray], eps: float) -> int | None:
        """After how many episodes the paper's rule stops, None if it did not; rewards are in [0, 1] per step."""
        stops = np.flatnonzero(misjudged(np.asarray(records["W"])) <= eps / 2)
        return int(stops[0]) if stops.size else None


def misjudged(w: Any) -> Any:
    """3e sqrt(w) + w, by how much the value of any policy for any reward may be misjudged."""
    return 3 * math.e * w**0.5 + w


@eqx.filter_jit
def _first(explorer: RFExpress, model: TabularModel, seen: Frequencies) -> Float[Array, ""]:
    """w with the paper's constants."""
    return explorer.errors(jax.random.key(0), model, seen, 1.0, True).first
