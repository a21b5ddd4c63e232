# %% [markdown]
# # A log
#
# You have a table of what happened; nobody explored anything. Would another policy have been better, and how sure is that?
# This is offline reinforcement learning and off-policy evaluation.
#
# ## The table
#
# One row per machine and week: its state, the order that was given, the reward. Usually it is a file. Here it is simulated,
# so that the answers can be compared with the truth at the end: a machine wears, a worn machine often breaks, a service
# makes it good again.

# %%
import numpy as np

import horizonfree as hf
from horizonfree import planning

STATES, ORDERS, WEEKS = ["good", "worn", "broken"], ["run", "service"], 12
P = np.array([  # [state, order, next state]
    [[0.75, 0.22, 0.03], [0.95, 0.05, 0.00]],
    [[0.00, 0.65, 0.35], [0.80, 0.20, 0.00]],
    [[0.00, 0.00, 1.00], [0.60, 0.30, 0.10]],
])  # fmt: skip
INCOME = np.array([[1.0, 0.6], [0.8, 0.4], [0.0, -0.5]]) / WEEKS  # of a week [state, order]

random = np.random.default_rng(0)
log = {"machine": [], "week": [], "status": [], "order": []}
for machine in range(400):
    s = 0
    for week in range(WEEKS):
        order = int(random.random() < [0.1, 0.3, 0.7][s])  # what the crew does
        for column, value in zip(log, (f"M{machine:03}", week, STATES[s], ORDERS[order])):
            log[column].append(value)
        s = int(random.choice(3, p=P[s, order]))
print(f"{len(log['week']):,} rows, such as", {column: values[5] for column, values in log.items()})

# %% [markdown]
# ## Read it
#
# A dictionary, a data frame, or a path of a CSV or Parquet file. Nothing is assumed about the probabilities: they are a table
# to be learnt.

# %%
columns = {"episode": "machine", "step": "week", "state": "status", "action": "order"}
run = hf.from_log(log, columns=columns, start="good")
print(run)

# %% [markdown]
# Does the next state depend on the state and the order alone, as an MDP needs? An e-value tests it:

# %%
print(run.check())

# %% [markdown]
# ## Compare two policies
#
# The crew services worn machines in three weeks out of ten. The alternative services every worn and every broken machine.

# %%
states, orders = run.problem.layout["states"], run.problem.layout["actions"]
service, reward = orders.index("service"), np.zeros(run.problem.space.sizes)
for s, name in enumerate(states):
    reward[:, s] = INCOME[STATES.index(name)][[ORDERS.index(order) for order in orders]]
crew = np.zeros((len(states), 2))
crew[:, service] = [[0.1, 0.3, 0.7][STATES.index(name)] for name in states]
crew[:, 1 - service] = 1 - crew[:, service]
careful = np.array([service if name != "good" else 1 - service for name in states])

audit = hf.audit(run, reward, careful, incumbent=crew, scale="rescale")
print(audit.proved)

# %% [markdown]
# The log's own probabilities of orders were not used: the crew above is only what the new policy is compared with.
#
# ## Plan
#
# The best policy in the estimate, with an interval for its value and a bound on what it loses to the best there is:

# %%
plan = run.plan(reward, scale="rescale")
print(plan)

# %% [markdown]
# ## The truth
#
# What was proved is true here. (With probability 0.95 all statements of a run hold together.)

# %%
state_order = [STATES.index(name) for name in states]
action_order = [ORDERS.index(order) for order in orders]
truth = hf.Tabular.from_table(
    P[state_order][:, action_order][:, :, state_order],
    horizon=run.problem.horizon,
    start=states.index("good"),
)


def value(policy):
    """The true value of a policy from the start."""
    V = planning.evaluate(truth.kernel(), reward, policy)
    return float(V[0, states.index("good")])


shape = (run.problem.horizon, 1, 1)
new, old = (value(np.tile(p, shape[: 1 + p.ndim])) for p in (careful, crew))
print(f"careful {new:.3f}, crew {old:.3f}, plan {value(plan.policy):.3f}")
print("value of the plan inside its interval:", plan.value_low <= value(plan.policy) <= plan.value_high)
print("difference inside its interval:", audit.comparison.low <= new - old <= audit.comparison.high)
