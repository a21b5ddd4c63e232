"""Many seeds of dense mixtures at delta = 1/2: how often the truth leaves the set; what plans lose while it is in."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom

from horizonfree._x64 import to_device, to_numpy
from horizonfree.guarantees.bets import ladder
from horizonfree.mdp.rewards import goal
from horizonfree.mdp.rollout import Sampler
from horizonfree.models.certify import uniform_eps
from horizonfree.planning.backward import evaluate_jax, optimal_jax
from tests.reference import small

DELTA, SEEDS, EPISODES = 0.5, 1000, 60
MIXTURES = {
    "inside": lambda: small.dense(S=8, weights=(0.4, 0.3, 0.2, 0.1)),
    "sparse truth": lambda: small.dense(S=8, weights=(0.9, 0.1, 0.0, 0.0)),
    "vertex": lambda: small.dense(S=8, weights=(1.0, 0.0, 0.0), start=[0.5, 0.5, *[0.0] * 6]),
}


@eqx.filter_jit
def explored(model, kernel, truth, keys):
    """Of every key the evidence of its episodes, and whether the truth was outside at any time and at the end."""
    sampler, (H, S, A) = Sampler.of(kernel), model.space.sizes
    policy, first = jnp.full((H, S, A), 1.0 / A), model.nothing(ladder(EPISODES))

    def step(evidence, key):
        evidence = model.learn(evidence, sampler.episode(key, policy, model.space))
        return evidence, model.excess(evidence, truth, jnp.asarray(DELTA)) > 0

    def one(key):
        evidence, is_out = jax.lax.scan(step, first, jax.random.split(key, EPISODES))
        return evidence, is_out.any(), is_out[-1]

    return jax.lax.map(one, keys, batch_size=100)


@eqx.filter_jit
def certified(model, kernel, rewards, evidence):
    """The certificate of every evidence; of its plan for every reward the loss, the gap, and whether bounds hold."""

    def certify(evidence):
        found = model.confidence(evidence, jnp.asarray(DELTA))

        def one(reward):
            plan, _ = optimal_jax(found.kernel, reward)
            loss = optimal_jax(kernel, reward)[1][0] - evaluate_jax(kernel, reward, plan)[0]
            bounds = model.bounds(found, reward, plan)
            value = model.space.at_start(evaluate_jax(kernel, reward, plan)[0])
            gap = jnp.minimum(jnp.stack(list(bounds.gaps.values())).min(), 1.0)
            is_inside = (bounds.low <= value + 1e-9) & (value <= bounds.high + 1e-9)
            return model.space.at_start(loss), gap, is_inside

        return uniform_eps(found), jax.vmap(one)(rewards)

    return jax.vmap(certify)(evidence)


@pytest.mark.parametrize("name", MIXTURES)
def test_the_truth_stays_in_the_set_and_plans_keep_their_promise(name):
    """P(the truth ever leaves) <= delta: fails wrongly with probability <= 1e-6 (binomial). Inside none is exceeded."""
    problem = MIXTURES[name]()
    rewards = np.stack([goal(problem, s) for s in (1, 4, 6)])
    with jax.enable_x64(True):
        model, kernel = to_device((problem.model, problem.kernel()))
        keys = jax.random.split(jax.random.key(3), SEEDS)
        evidence, has_left, is_out = to_numpy(explored(model, kernel, problem.truth, keys))
        few = jax.tree.map(lambda x: x[:200], evidence)
        eps, (loss, gap, is_inside) = to_numpy(certified(model, kernel, rewards, few))
    assert has_left.sum() <= binom.isf(1e-6, SEEDS, DELTA)
    inside = ~is_out[:200]
    assert inside.sum() > 50
    assert (loss <= gap + 1e-9)[inside].all()
    assert (loss <= eps[:, None] + 1e-9)[inside].all()
    assert is_inside[inside].all()
    assert np.median(eps) < 1  # something is certified
