# %% [markdown]
# # First steps
#
# Explore once, without a reward. Then plan for any reward, with a proof of how good the plan is.
#
# ## A problem
#
# River swim: a swimmer in one of six places goes with the current or against it. How often swimming against it succeeds
# is not known. The library knows the possible kernels and how they may be mixed, but not the weights.

# %%
# %matplotlib inline
import numpy as np

import horizonfree as hf
from horizonfree import planning, report

river = hf.make("river-swim", states=6, horizon=12)
print(river)

# %% [markdown]
# ## Explore without a reward

# %%
run = hf.explore(river, episodes=200, seed=0, progress=False)
print(run)

# %% [markdown]
# The certificate holds for every reward at once, whatever you think of later. It needs no assumption on how the episodes
# were chosen, and you may look at it after every episode and stop when you like.

# %%
certificate = run.certificate()
print(certificate)
print("assumes:", certificate.assumes)

# %% [markdown]
# The bound falls as episodes come in. This simulation knows the truth, so the figure can show the true suboptimality, too.

# %%
report.figures(run)["gap"]

# %% [markdown]
# ## Plan for a reward
#
# A reward is an array [H, S, A]; there are helpers for common ones. "Be in the last place at the end":

# %%
plan = run.plan(hf.goal(river, 5))
print(plan)

# %% [markdown]
# And one made by hand: a small reward on the left bank at every step, a large one on the right bank, costs for swimming.
# Costs need `scale="rescale"`; the bounds are then in the units of the reward.

# %%
reward = np.zeros(river.space.sizes)
reward[:, 0, :] = 0.005
reward[:, 5, :] = 0.5
reward[:, :, 1] -= 0.01
mixed = run.plan(reward, scale="rescale")
print(f"value {mixed.value:.3f}, 95% confidence interval [{mixed.value_low:.2f}, {mixed.value_high:.2f}]")
print("actions of the first step:", [river.action_name(a) for a in mixed.policy[0]])

# %% [markdown]
# Because the river is simulated, the plan can be compared with the best one. The loss is below the certified bound.

# %%
best = planning.optimal(river.kernel(), reward)
achieved = planning.evaluate(river.kernel(), reward, mixed.policy)
loss = best.V[0, 0] - achieved[0, 0]
print(f"true loss below the bound: {bool(loss <= mixed.gap + 1e-12)}")

# %% [markdown]
# ## More episodes

# %%
for episodes in (400, 800):
    run = run.resume(episodes=episodes - run.episodes, progress=False)
    print(f"{run.episodes} episodes: {run.certificate().eps:.3f}")
