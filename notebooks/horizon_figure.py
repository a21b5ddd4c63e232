# %% [markdown]
# # Reproducing a figure: horizon-free
#
# J. Zhang, W. Zhang and Gu (2023) prove that the episodes which reward-free exploration of a linear mixture MDP needs do not
# grow with the horizon, up to logarithms, when rewards sum to at most 1. [The paper, measured](../reproduce.md) shows it
# with 20 seeds and horizons up to 512. This notebook makes a small form of its figure: 3 seeds, horizons 8 to 128, 250
# episodes, in about a minute.

# %%
import matplotlib.pyplot as plt
import numpy as np

import horizonfree as hf

HORIZONS, SEEDS, EPISODES = (8, 32, 128), range(3), 250
EXPLORERS = {
    "HF-UCRL-RFE++": "hf-ucrl-rfe++",
    "optimal design": "optimal-design",
    "uniform actions": "uniform",
}


def bound(horizon, explorer, seed):
    """The certified suboptimality for every reward."""
    problem = hf.make("river-swim", states=8, horizon=horizon)
    return hf.explore(problem, explorer, episodes=EPISODES, seed=seed, progress=False).certificate().eps


bounds = {
    label: np.array([[bound(horizon, name, seed) for seed in SEEDS] for horizon in HORIZONS])
    for label, name in EXPLORERS.items()
}

# %% [markdown]
# The bound is the certificate of the evidence, which does not depend on the algorithm that chose the episodes. Lines are
# medians; dots are seeds.

# %%
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
for (label, values), marker in zip(bounds.items(), "os^"):
    (line,) = axes.plot(HORIZONS, np.median(values, axis=1), label=label)
    axes.plot(HORIZONS, values, marker, color=line.get_color(), markersize=4)
axes.set(xscale="log", ylim=(0, 1), xlabel="horizon H", ylabel="certified suboptimality")
axes.set_xticks(HORIZONS, [str(h) for h in HORIZONS])
axes.minorticks_off()
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# The exponents of H, as slopes of log(bound) against log(H):

# %%
for label, values in bounds.items():
    slope = np.polyfit(np.log(HORIZONS), np.log(np.median(values, axis=1)), 1)[0]
    factor = np.median(values[-1]) / np.median(values[0])
    print(f"{label}: {slope:+.2f}; H = {HORIZONS[-1]} against H = {HORIZONS[0]}: times {factor:.2f}")

# %% [markdown]
# Sixteen times the horizon changes the bounds little: exponents are near 0 on this problem. It proves nothing about others: the
# theorem is about the worst case, three seeds are few, and the paper's own guarantee, with its constants, says nothing
# after 250 episodes. The [full experiment](../reproduce.md) has intervals, three problems and the algorithms that do grow.
