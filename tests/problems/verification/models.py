"""Random explicit models."""

import numpy as np

from horizonfree.problems.verification.explicit import ExplicitModel


def random_model(seed, S=6, is_interval=True, has_names=True):
    """A random MDP or interval MDP with labels, rewards and names."""
    rng = np.random.default_rng(seed)
    choices = rng.integers(1, 4, S)
    C = int(choices.sum())
    branches = rng.integers(1, min(S, 4) + 1, C)
    target = np.concatenate([np.sort(rng.choice(S, n, replace=False)) for n in branches])
    p = np.concatenate([rng.dirichlet(np.ones(n)) for n in branches])
    width = rng.random(len(p)) * (0.3 if is_interval else 0.0)
    low, high = np.clip(p - width, 0, 1), np.clip(p + width, 0, 1)
    initial = np.arange(S) == rng.integers(S)
    return ExplicitModel(
        initial,
        np.concatenate([[0], np.cumsum(choices)]),
        np.concatenate([[0], np.cumsum(branches)]),
        target,
        low if is_interval else p,
        high if is_interval else p,
        [f"act_{i % 3}" for i in range(C)] if has_names else (),
        {"goal": (rng.random(S) < 0.3) | (np.arange(S) == S // 2), "bad": np.arange(S) == S - 1},
        {"time": rng.random(S)},
        {"time": rng.random(C), "cost": rng.normal(size=C)},
        [f"x={s} & y=0" for s in range(S)] if has_names else (),
        "a model at random",
    )


def assert_same(a, b):
    """Whether two models are equal in all that formats hold."""
    for name in ("initial", "first_choice", "first_branch", "target", "low", "high"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    assert list(a.actions) == list(b.actions)
    assert list(a.states) == list(b.states)
    names = {name for name, mask in a.labels.items() if mask.any()}
    assert names == {name for name, mask in b.labels.items() if mask.any()}
    for name in names:
        np.testing.assert_array_equal(a.labels[name], b.labels[name])
    assert a.reward_names == b.reward_names
    for name in a.reward_names:
        np.testing.assert_array_equal(a.rewards(name), b.rewards(name))
