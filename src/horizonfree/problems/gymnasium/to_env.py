"""A problem as a Gymnasium environment, for agents of other libraries and for tests."""

from typing import Any

import numpy as np

from horizonfree._extras import needs_extra
from horizonfree.mdp.policies import is_allowed
from horizonfree.mdp.rewards import Reward, RewardLike, as_table
from horizonfree.mdp.space import start_distribution
from horizonfree.problems.problem import Problem

with needs_extra("gymnasium", "environments of Gymnasium"):
    import gymnasium
    from gymnasium.spaces import Discrete


class ProblemEnv(gymnasium.Env[np.int64, np.int64]):
    """Episodes of H steps from the start, truncated at H; info["h"] counts the steps taken.

    The reward has any form that `rewards.as_table` takes, without a limit on its total; a `Reward` pays its table.
    (Gymnasium's checker wants episodes of two steps or more.)
    """

    metadata = {"render_modes": []}  # noqa: RUF012  # the type that Gymnasium declares

    def __init__(self, problem: Problem, reward: RewardLike = None) -> None:
        H, S, A = problem.horizon, problem.num_states, problem.num_actions
        if isinstance(reward, Reward):
            reward = reward.table
        table = np.zeros((H, S, A)) if reward is None else as_table(problem, reward)
        self.observation_space = Discrete(S)
        self.action_space = Discrete(A)
        self._problem, self._reward, self._kernel = problem, table, problem.kernel()
        self._allowed = is_allowed(problem.space)
        self._h, self._s = H, 0  # the episode is over: call reset()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Back to the start, drawn where it is random."""
        super().reset(seed=seed)
        initial = start_distribution(self._problem.start, self._problem.num_states)
        self._h, self._s = 0, int(self.np_random.choice(len(initial), p=initial))
        return np.int64(self._s), self._info()

    def step(self, action: np.integer[Any] | int) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """One transition."""
        h, s, a = self._h, self._s, int(action)
        if h == self._problem.horizon:
            raise gymnasium.error.ResetNeeded("the episode is over, or none has begun; call reset()")
        if not self.action_space.contains(a):
            raise gymnasium.error.InvalidAction(f"action {action!r} is not in {self.action_space}")
        if not self._allowed[s, a]:
            raise gymnasium.error.InvalidAction(
                f"state {s} does not allow action {a}; see info['action_mask']"
            )
        p = np.maximum(self._kernel.prob[s, a], 0)
        j = self.np_random.choice(p.size, p=p / p.sum())
        self._h, self._s = h + 1, int(self._kernel.succ[s, a, j])
        is_cut = self._h == self._problem.horizon
        return np.int64(self._s), float(self._reward[h, s, a]), False, is_cut, self._info()

    def _info(self) -> dict[str, Any]:
        """The number of steps taken; where some actions are forbidden, also the mask of those allowed."""
        mask = (
            {}
            if self._problem.space.acts is None
            else {"action_mask": self._allowed[self._s].astype(np.int8)}
        )
        return {"h": self._h, **mask}
