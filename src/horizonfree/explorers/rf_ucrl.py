"""RF-UCRL: greedy in an upper bound on the error of value estimates.

Paper: E. Kaufmann, P. Menard, O. D. Domingues, A. Jonsson, E. Leurent, M. Valko 2021 (ALT), arXiv 2006.06294,
    "Adaptive reward-free exploration".
Algorithm: 1, RF-UCRL; with pool_steps that of appendix E for kernels that all steps share. With beta(n) =
    log(2SAH/delta) + (S-1) log(e(1 + n/(S-1))), log(2SA/delta) where pooled (`beta`), and 1/0 = infinity,
        E_{H+1} = 0,   E_h(s,a) = min{ H-h, (H-h) sqrt(2 beta(n)/n) + sum_s' p_hat_h(s'|s,a) max_a' E_{h+1}(s',a') }
    pi_h(s) = argmax_a E_h(s,a); stop when max_a E_1(s_1,a) <= eps/2; plan by value iteration in p_hat.
Symbols: rewards in [0, 1] at every step, so that H-h is the largest total after step h (sigma_{H-h} of the paper); no
    discount, gamma = 1. n, p_hat: visits and frequencies of step h, or of all steps where pooled. `E` in the rows is
    max_a E_1(s_1,a) before the episode, its mean where the start is drawn.
Guarantee: with probability 1 - delta, at all times, for all policies, rewards, steps and pairs |Q_hat - Q| <= E_h(s,a)
    with the constants above, whatever policies gathered the data; so a plan loses at most 2 E_1. The rule
    stops after S A H^4 (log(1/delta) + S)/eps^2 episodes up to logarithms, H^3 where pooled. For rewards of total at
    most 1 the same induction holds with 1 in place of H-h, but for 0 at the last step: that is U, and `claim` is 2U.
Departures:
    1. clip=False (default) leaves out the minimum while exploring, as the authors' experiments do: under the minimum
       all actions tie for thousands of episodes. It is always there in `claim`.
    2. bonus_scale multiplies the bonus while exploring, as in the authors' code; never in `claim`. Pairs without visits
       count as n = 1 in the bonus, as there; at bonus_scale >= 1 the minimum is then at its cap, as printed.
    3. Ties are broken at random, as in the authors' code. The loop is printed with <= for > and E_h for E_1.
    4. p_hat without visits is even over the possible successors, printed as 1/S; it matters without clipping only.
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


class RFUCRL(ErrorExplorer):
    """RF-UCRL (Kaufmann et al. 2021), for tabular MDPs: greedy in a bound on the error of values."""

    number: ClassVar[str] = "E"

    def largest(self, H: int) -> float:
        """The error before the first episode, H-1."""
        return H - 1.0

    def bonus(self, model: TabularModel, n: Int[Array, "*n"]) -> Float[Array, "*n"]:
        """The bonus sqrt(2 beta(n)/n); traced."""
        n = jnp.asarray(n, jnp.float64)
        return jnp.sqrt(2 * self.beta(model, n) / jnp.maximum(n, 1))

    def exploration_errors(self, key: Array, model: TabularModel, seen: Frequencies, bonus: Array) -> Errors:
        """E, without the minimum unless `clip`; traced."""
        largest = max_remaining_reward(model.space.horizon)
        return self.errors(key, model, seen, bonus, largest, self.bonus_scale, self.clip)

    def value_error(self, error: Any) -> Any:
        """E bounds the error."""
        return error

    def claim(self, model: TabularModel, state: State) -> Certificate:
        """2U, with the paper's constants, however the data were gathered."""
        E, U = self.bounds(model, state.seen)
        k = int(state.episode)
        return claim(
            2 * U, {"E": E, "U": U}, "2U", Terms(self.delta, "paper", k), k, missed_transitions(state.seen)
        )

    @x64
    def bounds(self, model: TabularModel, seen: Frequencies) -> tuple[float, float]:
        """E_1 and U_1 at the start as the theorem has them; on the host."""
        H = model.space.horizon
        caps = (max_remaining_reward(H), jnp.minimum(max_remaining_reward(H), 1.0))
        model, seen = to_device((model, seen))
        E, U = (float(_first(self, model, seen, largest)) for largest in caps)
        return E, U

    def errors(
        self,
        key: Array,
        model: TabularModel,
        seen: Frequencies,
        bonus: Float[Array, "T S A"],
        largest: Float[Array, " H"],
        bonus_scale: float,
        clip: bool,
    ) -> Errors:
        """E, where the rewards after each step sum to at most `largest`; traced."""
        caps = largest if clip else jnp.full_like(largest, jnp.inf)
        return propagate_errors(key, model.space, seen, bonus, bonus_scale * largest, caps)

    def beta(self, model: TabularModel, n: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """The threshold for n KL(p_hat, p); traced."""
        H, S, A = model.space.sizes
        pairs = S * A * (1 if self.pool_steps else H)
        spread = (S - 1) * jnp.log(math.e * (1 + n / max(S - 1, 1)))
        return jnp.log(2 * pairs / self.delta) + spread


def max_remaining_reward(H: int) -> Float[Array, " H"]:
    """H-h, the largest total after each step."""
    return jnp.arange(H - 1.0, -1.0, -1.0)


@eqx.filter_jit
def _first(
    explorer: RFUCRL, model: TabularModel, seen: Frequencies, largest: Float[Array, " H"]
) -> Float[Array, ""]:
    """The bound at the start, with the paper's constants."""
    bonus = explorer.bonus(model, seen.visits)
    return explorer.errors(jax.random.key(0), model, seen, bonus, largest, 1.0, True).first
