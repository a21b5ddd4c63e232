"""What is likely: kernels drawn from a Bayesian posterior, and values of policies under them.

Nothing here is proved. Where the kernel is drawn from the prior and the class is right, a quantity lies in an interval
of posterior probability 0.95 with probability 0.95, on average over that prior; for one fixed kernel nothing is
guaranteed (experiments/calibration measures it). NumPy in, NumPy out.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from horizonfree._repr import ReprMixin, ReprTable
from horizonfree._validation import check_count, check_seed
from horizonfree.errors import ModelError
from horizonfree.mdp.events import Lift
from horizonfree.mdp.policies import check_allowed, policy_table
from horizonfree.mdp.rewards import RewardLike, resolve
from horizonfree.mdp.space import Kernel
from horizonfree.models.base import Evidence, Model
from horizonfree.models.draws import Convergence
from horizonfree.models.registry import posterior_draws
from horizonfree.planning.induction import policy_values, solve

BLOCK = 2**21  # probabilities and rewards that are held at once, of several draws


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(ReprMixin):
    """Draws from the posterior of a model class after some episodes.

    `parameters` [D, ...] are parameters of `model`; `prior` is in words; `convergence` is the check of the Markov
    chains, None where draws are independent. Values are in the units of the reward.
    """

    model: Model
    parameters: Float[np.ndarray, "D *parameter"]
    prior: str
    seed: int
    episodes: int
    convergence: Convergence | None = None

    def __len__(self) -> int:
        return len(self.parameters)

    @property
    def label(self) -> str:
        """What every number made of it must say."""
        return f"not proved: Bayesian, prior {self.prior}"

    def _repr_table(self) -> ReprTable:
        check = "independent draws" if self.convergence is None else self.convergence.summary()
        lines = [("label", self.label), ("after", f"{self.episodes:,} episodes"), ("check", check)]
        return ReprTable(f"Posterior, {len(self):,} draws with seed {self.seed}", lines)

    def kernel(self, i: int) -> Kernel:
        """The transition probabilities of draw i."""
        return self.model.kernel(self.parameters[i])

    def values(self, reward: RewardLike, policy: Any, *, scale: str = "total") -> Float[np.ndarray, " D"]:
        """The value of a policy under every draw; reward, policy and scale as for `Run.evaluate`."""
        space = self.model.space
        checked, table = resolve(space, reward, scale=scale), policy_table(policy, *space.sizes)
        check_allowed(space, table)
        return checked.factor * self.table_values(checked.table, table) + checked.offset

    def best_values(self, reward: RewardLike, *, scale: str = "total") -> Float[np.ndarray, " D"]:
        """The value of the best policy of every draw."""
        checked = resolve(self.model.space, reward, scale=scale)
        return checked.factor * self.table_best_values(checked.table) + checked.offset

    def gaps(self, reward: RewardLike, policy: Any, *, scale: str = "total") -> Float[np.ndarray, " D"]:
        """What a policy loses against the best policy of every draw."""
        lost = self.best_values(reward, scale=scale) - self.values(reward, policy, scale=scale)
        return np.asarray(np.maximum(lost, 0.0))

    def table_values(
        self, table: Float[np.ndarray, "H S A"], policy: np.ndarray, lift: Lift | None = None
    ) -> Float[np.ndarray, " D"]:
        """`values` of a checked reward; with a lift, reward and policy are of lifted states."""
        result = []
        for kernel, m in self._stacked(len(table), lift):
            V = policy_values(kernel, np.tile(table, (1, m, 1)), np.concatenate([policy] * m, axis=1))
            result.append(self._at_start(V[0], m, lift))
        return np.concatenate(result)

    def table_best_values(
        self, table: Float[np.ndarray, "H S A"], lift: Lift | None = None
    ) -> Float[np.ndarray, " D"]:
        """`best_values` of a checked reward."""
        result = []
        for kernel, m in self._stacked(len(table), lift):
            solution, _ = solve(
                kernel, np.tile(table, (1, m, 1)), len(table), all_values=False, all_actions=False
            )
            result.append(self._at_start(solution.V[0], m, lift))
        return np.concatenate(result)

    def _stacked(self, horizon: int, lift: Lift | None) -> Iterator[tuple[Kernel, int]]:
        """Several draws at a time as one kernel, whose states are those of each in turn; and how many they are."""
        space = self.model.space if lift is None else lift.space
        S, A, n = space.succ.shape
        size = max(1, BLOCK // (S * A * max(n, horizon)))
        for first in range(0, len(self), size):
            kernels = [self.kernel(i) for i in range(first, min(first + size, len(self)))]
            if lift is not None:
                kernels = [lift.kernel(x) for x in kernels]
            if len(kernels) == 1:
                yield kernels[0], 1
                continue
            succ = np.concatenate([np.asarray(x.succ) + i * S for i, x in enumerate(kernels)])
            yield Kernel(succ, np.concatenate([np.asarray(x.prob) for x in kernels]), False), len(kernels)

    def _at_start(self, V: Float[np.ndarray, " mS"], m: int, lift: Lift | None) -> Float[np.ndarray, " m"]:
        space = self.model.space if lift is None else lift.space
        return np.asarray(space.at_start(V.reshape(m, -1)))


def posterior(
    model: Model, evidence: Evidence, *, draws: int = 1000, prior: Any = None, seed: int = 0
) -> Posterior:
    """Draws from the posterior of a model class; prior: see `Run.posterior`."""
    draws, seed = check_count(draws, "draws"), check_seed(seed)
    if int(evidence.impossible) > 0:
        raise ModelError(
            f"{int(evidence.impossible):,} transitions were seen that no parameter of the class explains, so that "
            "there is no posterior; describe the system by a class that allows them"
        )
    result = posterior_draws(model, evidence, prior, draws, np.random.default_rng(seed))
    episodes = int(evidence.episodes)
    return Posterior(model, result.parameters, result.prior, seed, episodes, result.convergence)
