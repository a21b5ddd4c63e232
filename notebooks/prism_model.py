# %% [markdown]
# # A PRISM model
#
# A probabilistic program is at hand, but some of its rates are not known. Data tell them, and properties are checked with a
# bound on the error. stormpy builds the model (`pip install 'horizonfree[storm]'`).
#
# ## The model
#
# A robot on a field of 5 x 5 cells. It slips with probability `p` on smooth ground and with `q` on gravel.

# %%
from pathlib import Path

import horizonfree as hf

file = next(
    x / "gallery" / "robot.prism"
    for x in (Path.cwd(), *Path.cwd().parents)
    if (x / "gallery" / "robot.prism").exists()
)
print(file.read_text())

# %% [markdown]
# Both rates are unknown. The file has values for them: they are the hidden truth, with which the robot is simulated.

# %%
robot = hf.from_prism(file, unknown=["p", "q"], horizon=12)
print(robot)

# %% [markdown]
# ## Explore, then estimate the rates

# %%
run = hf.explore(robot, episodes=200, seed=0, progress=False)
for name, interval in zip("pq", run.weight_intervals[1:]):
    print(f"{name} in [{interval[0]:.3f}, {interval[1]:.3f}] (95% confidence)")

# %% [markdown]
# ## Check properties
#
# Reach the goal within 12 steps, with the best policy:

# %%
plan = run.plan(hf.property('Pmax=? [F<=12 "goal"]'))
print(f"{plan.value:.3f} in [{plan.value_low:.2f}, {plan.value_high:.2f}]")
print(plan.certificate)

# %% [markdown]
# And how the bound falls with the time that the robot has:

# %%
for k in (8, 10, 12):
    plan = run.plan(hf.property(f'Pmax=? [F<={k} "goal"]'))
    print(f"within {k} steps: {plan.value:.3f} in [{plan.value_low:.2f}, {plan.value_high:.2f}]")

# %% [markdown]
# ## Back to Storm
#
# The confidence set as an interval MDP, for any tool that reads DRN:

# %%
import tempfile

with tempfile.TemporaryDirectory() as folder:
    target = Path(folder) / "robot.drn"
    run.to_drn(target)
    print("\n".join(target.read_text().splitlines()[:12]))
