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
    start has an error of at most 3e sqrt(w) + w with the constants above (`misjudged`), whatever policies gathered the
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
    4. Ties are broken at random. The proof prints 2e sqrt(w) where lemma and rule have 3e.
    5. p_hat without visits is even over the possible successors; it matters without clipping only.
"""

import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree._x64 import to_device, x64
from horizonfree.explorers.per_step import (
    ErrorExplorer,
    Errors,
    Frequencies,
    State,
    missed_transitions,
    propagate_errors,
)
from horizonfree.guarantees.certificate import Certificate, Terms, claim
from horizonfree.models.tabular.model import TabularModel

POOLED = "the theorem has visits of each step apart, and pool_steps shares them"


class RFExpress(ErrorExplorer):
    """RF-Express (Menard et al. 2021), for tabular MDPs: as RF-UCRL, with bonuses that fall like 1/n."""

    number: ClassVar[str] = "W"

    def largest(self, H: int) -> float:
        """The error before the first episode, H."""
        return float(H)

    def bonus(self, model: TabularModel, n: Int[Array, "*n"]) -> Float[Array, "*n"]:
        """The bonus 15 H^2 beta(n)/n; traced."""
        n = jnp.asarray(n, jnp.float64)
        return 15 * model.space.horizon**2 * self.beta(model, n) / jnp.maximum(n, 1)

    def exploration_errors(self, key: Array, model: TabularModel, seen: Frequencies, bonus: Array) -> Errors:
        """W with the options of the explorer; traced."""
        return self.errors(key, model, seen, bonus, self.bonus_scale, self.clip)

    def value_error(self, error: Any) -> Any:
        """3e sqrt(w) + w bounds the error."""
        return error_bound(error)

    def claim(self, model: TabularModel, state: State) -> Certificate:
        """2 (3e sqrt(w) + w), with the paper's constants, however the data were gathered."""
        w, k = self.w(model, state.seen), int(state.episode)
        terms = Terms(self.delta, "paper", k)
        void = POOLED if self.pool_steps else missed_transitions(state.seen)
        return claim(2 * error_bound(w), {"W": w}, "2(3e sqrt W + W)", terms, k, void)

    @x64
    def w(self, model: TabularModel, seen: Frequencies) -> float:
        """max_a W_1(s_1,a) with the constants of the theorem; on the host."""
        model, seen = to_device((model, seen))
        return float(_first(self, model, seen))

    def errors(
        self,
        key: Array,
        model: TabularModel,
        seen: Frequencies,
        bonus: Float[Array, "T S A"],
        bonus_scale: float,
        clip: bool,
    ) -> Errors:
        """W with these constants; traced."""
        H = model.space.horizon
        scales, caps = jnp.full(H, bonus_scale, jnp.float64), jnp.full(H, float(H) if clip else jnp.inf)
        return propagate_errors(key, model.space, seen, bonus, scales, caps, 1 + 1 / H)

    def beta(self, model: TabularModel, n: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """The threshold for n KL(p_hat, p); traced."""
        H, S, A = model.space.sizes
        return jnp.log(3 * S * A * H / self.delta) + S * jnp.log(8 * math.e * (n + 1))


def error_bound(w: Any) -> Any:
    """3e sqrt(w) + w, a bound on the error of the value of any policy for any reward."""
    return 3 * math.e * w**0.5 + w


@eqx.filter_jit
def _first(explorer: RFExpress, model: TabularModel, seen: Frequencies) -> Float[Array, ""]:
    """w with the paper's constants."""
    bonus = explorer.bonus(model, seen.visits)
    return explorer.errors(jax.random.key(0), model, seen, bonus, 1.0, True).first
