"""Many seeds of linear-lock at delta = 0.2: how often anything that is certified fails."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import binom

import horizonfree as hf
from horizonfree._x64 import to_device, to_numpy, x64
from horizonfree.guarantees.certificate import MAX_NONVACUOUS
from horizonfree.guarantees.e_processes import ladder
from horizonfree.planning.induction import best_policy, policy_values
from horizonfree.planning.traced import Sampler
from tests.models.linear.systems import tiny

DELTA, SEEDS, EPISODES, LOOKS = 0.2, 1000, 80, 4


@x64
def explore_many(model, kernel, truth):
    """The evidence of each seed, and whether the truth was ever outside of the confidence set.

    Half of the seeds act at random, half take the action that was taken least.
    """
    model, kernel, truth = to_device((model, kernel, truth))
    delta, sampler = jnp.asarray(DELTA), Sampler.of(kernel)
    H, S, A = model.space.sizes
    first = model.init_evidence(ladder(EPISODES, model.burn_in))

    def explore(key, is_random):
        def step(evidence, key):
            rare = jax.nn.one_hot(evidence.visits.argmin(-1), A, dtype=jnp.float64)
            policy = jnp.broadcast_to(jnp.where(is_random, 1 / A, rare), (H, S, A))
            return model.update(evidence, sampler.episode(key, policy, model.space)), None

        def certify_look(evidence, keys):
            evidence, _ = jax.lax.scan(step, evidence, keys)
            return evidence, model.violation(evidence, truth, delta) > 0

        keys = jax.random.split(key, EPISODES).reshape(LOOKS, EPISODES // LOOKS)
        evidence, is_out = jax.lax.scan(certify_look, first, keys)
        return evidence, is_out.any()

    keys = jax.random.split(jax.random.key(3), SEEDS)
    return to_numpy(jax.jit(jax.vmap(explore))(keys, jnp.arange(SEEDS) % 2 == 0))


def certified():
    """For each seed: was the truth ever outside, the loss of plans, their gaps, and values outside of their interval.

    Goals 1, 4 and 9 are declared, goals 2 and 3 are not.
    """
    problem = tiny()
    model, kernel = problem.with_rewards([hf.goal(problem, s) for s in (1, 4, 9)]).model, problem.kernel()
    rewards = [hf.goal(problem, s) for s in (1, 4, 9, 2, 3)]
    best = [best_policy(kernel, reward)[1][0] for reward in rewards]
    at_start = problem.space.at_start

    def for_reward(confidence, reward, best):
        plan, _ = best_policy(confidence.kernel, reward)
        value = at_start(policy_values(kernel, reward, plan)[0])
        bounds = confidence.bounds(reward, plan)
        is_outside = bounds.low > value + 1e-9 or value > bounds.high + 1e-9 or bounds.is_refuted
        return at_start(best) - value, min(*bounds.gaps.values(), 1.0), is_outside

    evidences, is_out = explore_many(model, kernel, np.asarray(problem.truth))
    results = []
    for i in range(SEEDS):
        confidence = model.confidence(jax.tree.map(lambda x, i=i: x[i], evidences), DELTA)
        eps = confidence.eps if confidence.eps <= MAX_NONVACUOUS and not confidence.is_refuted else 1.0
        per_reward = (for_reward(confidence, reward, V) for reward, V in zip(rewards, best))
        results.append((eps, confidence.is_refuted, *zip(*per_reward)))
    return tuple(map(np.array, zip(*results))), is_out


def test_what_is_certified_holds():
    """P(anything fails) <= delta: fails wrongly with probability <= 1e-6 (binomial), and it finds something to say."""
    (eps, is_refuted, loss, gap, is_outside), is_out = certified()
    num_failed = (
        is_out
        | is_refuted
        | (loss > gap + 1e-9).any(1)
        | is_outside.any(1)
        | (loss > eps[:, None] + 1e-9).any(1)
    )
    assert num_failed.sum() <= binom.isf(1e-6, SEEDS, DELTA)
    assert np.median(gap) < 1
