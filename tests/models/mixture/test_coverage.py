"""Many seeds of dense mixtures at delta = 1/2: how often the truth leaves the set; what plans lose while it is in."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom

from horizonfree._x64 import to_device, to_numpy
from horizonfree.guarantees.e_processes import ladder
from horizonfree.mdp.rewards import goal
from horizonfree.models import certify
from horizonfree.planning.induction import best_plan, policy_values
from horizonfree.planning.traced import Sampler
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
    policy, first = jnp.full((H, S, A), 1.0 / A), model.init_evidence(ladder(EPISODES))

    def step(evidence, key):
        evidence = model.update(evidence, sampler.episode(key, policy, model.space))
        return evidence, model.violation(evidence, truth, jnp.asarray(DELTA)) > 0

    def one(key):
        evidence, is_out = jax.lax.scan(step, first, jax.random.split(key, EPISODES))
        return evidence, is_out.any(), is_out[-1]

    return jax.lax.map(one, keys, batch_size=100)


def certified(problem, rewards, evidence):
    """The uniform certificate; of the plan for every reward the loss, the gap, and whether its interval holds."""
    model, kernel, space = problem.model, problem.kernel(), problem.space
    confidence, found = certify.confidence(model, evidence, delta=DELTA), []
    for reward in rewards:
        plan = best_plan(confidence.kernel, reward).policy
        value = space.at_start(policy_values(kernel, reward, plan)[0])
        bounds = certify.bounds(confidence, reward, plan)
        is_inside = bounds.low <= value + 1e-9 and value <= bounds.high + 1e-9
        best = space.at_start(best_plan(kernel, reward).V[0])
        found.append((best - value, min(*bounds.gaps.values(), 1.0), is_inside))
    return certify.uniform_eps(confidence), *np.array(found).T


@pytest.mark.parametrize("name", MIXTURES)
def test_the_truth_stays_in_the_set_and_plans_keep_their_promise(name):
    """P(the truth ever leaves) <= delta: fails wrongly with probability <= 1e-6 (binomial). Inside none is exceeded."""
    problem = MIXTURES[name]()
    rewards = np.stack([goal(problem, s) for s in (1, 4, 6)])
    with jax.enable_x64(True):
        model, kernel = to_device((problem.model, problem.kernel()))
        keys = jax.random.split(jax.random.key(3), SEEDS)
        evidence, has_left, is_out = to_numpy(explored(model, kernel, problem.truth, keys))
    few = [certified(problem, rewards, jax.tree.map(lambda x, i=i: x[i], evidence)) for i in range(200)]
    eps, loss, gap, is_inside = (np.array(x) for x in zip(*few, strict=True))
    assert has_left.sum() <= binom.isf(1e-6, SEEDS, DELTA)
    inside = ~is_out[:200]
    assert inside.sum() > 50
    assert (loss <= gap + 1e-9)[inside].all()
    assert (loss <= eps[:, None] + 1e-9)[inside].all()
    assert is_inside[inside].all()
    assert np.median(eps) < 1  # something is certified
