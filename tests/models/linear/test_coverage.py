"""Many seeds of linear-lock at delta = 0.2: how often anything that is certified fails."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import binom

import horizonfree as hf
from horizonfree._x64 import to_device, to_numpy, x64
from horizonfree.guarantees.bets import ladder
from horizonfree.guarantees.certificate import LARGEST
from horizonfree.mdp.rollout import Sampler
from horizonfree.planning.backward import evaluate_jax, optimal_jax
from tests.models.linear.worlds import tiny

DELTA, SEEDS, EPISODES, LOOKS = 0.2, 1000, 80, 4


@x64
def certified():
    """For each seed: was the truth ever outside, the loss of plans, their gaps, and values outside of their interval.

    Half of the seeds act at random, half take the action that was taken least; goals 1, 4 and 9 are declared, goals 2
    and 3 are not.
    """
    problem = tiny()
    declared = problem.declaring([hf.goal(problem, s) for s in (1, 4, 9)])
    rewards = np.stack([hf.goal(problem, s) for s in (1, 4, 9, 2, 3)])
    model, kernel, rewards = to_device((declared.model, problem.kernel(), rewards))
    truth, delta, sampler = jnp.asarray(problem.truth), jnp.asarray(DELTA), Sampler.of(kernel)
    H, S, A = problem.space.sizes
    first = model.nothing(ladder(EPISODES, model.burn_in))

    def explore(key, is_random):
        def step(evidence, key):
            rare = jax.nn.one_hot(evidence.visits.argmin(-1), A, dtype=jnp.float64)
            policy = jnp.broadcast_to(jnp.where(is_random, 1 / A, rare), (H, S, A))
            return model.learn(evidence, sampler.episode(key, policy, model.space)), None

        def look(evidence, keys):
            evidence, _ = jax.lax.scan(step, evidence, keys)
            return evidence, model.excess(evidence, truth, delta) > 0

        keys = jax.random.split(key, EPISODES).reshape(LOOKS, EPISODES // LOOKS)
        evidence, is_out = jax.lax.scan(look, first, keys)
        return certify(evidence), is_out.any()

    def certify(evidence):
        found = model.traced_confidence(evidence, delta)

        def one(reward):
            plan, _ = optimal_jax(found.kernel, reward)
            value = model.space.at_start(evaluate_jax(kernel, reward, plan)[0])
            loss = model.space.at_start(optimal_jax(kernel, reward)[1][0]) - value
            bounds = model.bounds(found, reward, plan)
            is_outside = (bounds.low > value + 1e-9) | (value > bounds.high + 1e-9) | bounds.is_refuted
            return loss, jnp.minimum(jnp.stack(list(bounds.gaps.values())).min(), 1.0), is_outside

        eps = jnp.where((found.eps <= LARGEST) & ~found.is_refuted, found.eps, 1.0)
        return eps, found.is_refuted, *jax.lax.map(one, rewards)

    keys = jax.random.split(jax.random.key(3), SEEDS)
    return to_numpy(jax.jit(jax.vmap(explore))(keys, jnp.arange(SEEDS) % 2 == 0))


def test_what_is_certified_holds():
    """P(anything fails) <= delta: fails wrongly with probability <= 1e-6 (binomial), and it finds something to say."""
    (eps, is_refuted, loss, gap, is_outside), is_out = certified()
    failed = (
        is_out
        | is_refuted
        | (loss > gap + 1e-9).any(1)
        | is_outside.any(1)
        | (loss > eps[:, None] + 1e-9).any(1)
    )
    assert failed.sum() <= binom.isf(1e-6, SEEDS, DELTA)
    assert np.median(gap) < 1
