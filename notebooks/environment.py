# %% [markdown]
# # A Gymnasium environment
#
# Something that can be reset and stepped, and nothing else is known about it. The environment is explored without a reward;
# then any goal can be planned for.
#
# ## The environment
#
# A part wears, a stock of spare parts is kept. States and actions are elements of ordinary Gymnasium spaces; no encoding by
# hand is needed.

# %%
import gymnasium
from gymnasium.spaces import Dict, Discrete, MultiDiscrete

import horizonfree as hf


class Machine(gymnasium.Env):
    """Wear 0 to 2, and at most one spare part."""

    observation_space = Dict(wear=Discrete(3), stock=Discrete(2))
    action_space = MultiDiscrete([2, 2])  # replace the part, order another one

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.wear, self.stock = 0, 1
        return {"wear": self.wear, "stock": self.stock}, {}

    def step(self, action):
        replaces = action[0] == 1 and self.stock == 1
        self.wear = 0 if replaces else min(self.wear + int(self.np_random.random() < 0.3), 2)
        self.stock = 1 if action[1] == 1 else self.stock - replaces
        return {"wear": self.wear, "stock": self.stock}, -float(self.wear), False, False, {}


# %% [markdown]
# ## Explore
#
# `tabular-design` visits where the bounds are wide. Every episode is a real episode of the environment.

# %%
run = hf.explore(Machine(), "tabular-design", episodes=300, horizon=10, seed=0, progress=False)
print(run)

# %%
print(run.certificate())

# %% [markdown]
# States have names:

# %%
print(run.problem.layout["states"])

# %% [markdown]
# ## Plan and roll out
#
# "Be worn out without a spare part at the end" is a strange goal, and as good as any other: it was not known while the
# environment was explored.

# %%
goal = hf.goal(run.problem, "wear 2, stock 0")
plan = run.plan(goal)
print(plan)

# %% [markdown]
# The plan acts in the environment itself. Its success rate should be near the value and inside the confidence
# interval.

# %%
last = run.problem.layout["states"].index("wear 2, stock 0")
ends = [plan.rollout(Machine(), seed=seed).states[run.problem.horizon - 1] for seed in range(500)]
rate = sum(int(s) == last for s in ends) / len(ends)
print(
    f"reached in {rate:.2f} of 500 episodes; proved: value in [{plan.value_low:.2f}, {plan.value_high:.2f}]"
)

# %% [markdown]
# ## Costs instead
#
# Wear costs at every step, orders do too. Again nothing is explored.

# %%
import numpy as np

names = run.problem.layout["states"]
reward = np.zeros(run.problem.space.sizes)
reward[:, :, :] -= np.array([int(name[5]) for name in names])[None, :, None] / 30
for a in range(run.problem.num_actions):
    reward[:, :, a] -= 0.02 * ("1)" in run.problem.action_name(a))
plan = run.plan(reward, scale="rescale")
low, high = -plan.value_high, -plan.value_low
print(f"cost {-plan.value:.2f}, 95% confidence interval [{low:.2f}, {high:.2f}]")
for name in names:
    print(f"{name}: (replace, order) =", run.problem.action_name(plan.policy[0, names.index(name)]))
