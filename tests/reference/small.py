"""Small problems of every kind that the likelihood and its certificates must handle, and data for them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from horizonfree import Mixture
from horizonfree._x64 import to_device, to_numpy
from horizonfree.planning.traced import Sampler
from tests.reference.episodes import empty_evidence, make_sampler


def dense(seed=0, weights=(0.5, 0.3, 0.2), S=4, A=2, horizon=4, start=0):
    """A mixture of random kernels, every state reachable in one step."""
    kernels = np.random.default_rng(seed).dirichlet(np.ones(S), size=(len(weights), S, A))
    return Mixture.from_kernels(kernels, horizon=horizon, start=start, weights=weights)


def corner(seed=0):
    """The truth is one of the base kernels, and these have zeros: the likelihood is largest on the boundary."""
    S, A, d = 4, 2, 3
    rng = np.random.default_rng(seed)
    kernels = np.zeros((d, S, A, S))
    for i in range(d):
        for s in range(S):
            for a in range(A):
                kernels[i, s, a, rng.choice(S, 2, replace=False)] = rng.dirichlet([1.0, 1.0])
    return Mixture.from_kernels(kernels, horizon=4, weights=[1.0, 0.0, 0.0])


def slips(rates=(0.2, 0.35), S=6, horizon=6, start=0):
    """A corridor whose halves slip with unknown probabilities: deterministic rows, shared rows, sparse lists."""
    d = 1 + len(rates)  # theta = (1, slip rates)
    phi = np.zeros((S, 2, S, d))
    for s in range(S):
        zone = 1 + (s * len(rates)) // S
        forward, backward = min(s + 1, S - 1), max(s - 1, 0)
        phi[s, 0, backward, 0] = 1.0  # walking back never fails
        phi[s, 1, forward, 0] += 1.0
        phi[s, 1, forward, zone] -= 1.0
        phi[s, 1, backward, zone] += 1.0
    return Mixture.from_features(phi, horizon=horizon, start=start, bound=2.0, theta=np.r_[1.0, rates])


def tabular(S=3, A=2, horizon=3, seed=0):
    """Nothing is shared: each pair (s,a) has a distribution of its own."""
    P = np.random.default_rng(seed).dirichlet(np.ones(S), size=(S, A))
    return Mixture.from_tabular(P, horizon=horizon)


PROBLEMS = {"dense": dense, "corner": corner, "slips": slips, "tabular": tabular}


def gather(problem, episodes, seeds, budget=None):
    """Evidence of uniformly random exploration, one per seed (a leading axis), as NumPy arrays."""
    with jax.enable_x64(True):
        model = to_device(problem.model)
        sampler = make_sampler(to_device(problem.kernel()))
        policy = to_device(np.full(problem.space.sizes, 1.0 / problem.num_actions))
        args = model, sampler, policy, empty_evidence(model, budget or episodes)
        evidences = [to_numpy(_gather(*args, jax.random.key(seed), np.int32(episodes))) for seed in seeds]
    return jax.tree.map(lambda *x: np.stack(x), *evidences)


@eqx.filter_jit
def _gather(model, sampler, policy, first, key, episodes):
    """One program for all problems of the same sizes, however many episodes and seeds there are."""

    def step(k, evidence):
        return model.update(evidence, sampler.episode(jax.random.fold_in(key, k), policy, model.space))

    return jax.lax.fori_loop(0, episodes, step, first)


def pick(tree, i):
    """One element of a batch."""
    return jax.tree.map(lambda x: np.asarray(x[i]), tree)


def inside(valid, rng, count, spread=1.0):
    """Random points of Theta: the centre plus a random share of the way to the boundary in a random direction."""
    z, p = valid.rows[valid.free] @ valid.basis, valid.rows[valid.free] @ valid.center
    points = []
    for _ in range(count):
        direction = rng.normal(size=valid.num_free)
        change = z @ direction
        longest = (p[change < 0] / -change[change < 0]).min()
        points.append(valid.center + valid.basis @ direction * longest * spread * rng.uniform())
    return np.array(points)


def gather_outside(problem, parts, episodes, seeds, budget=None, *, is_recorded=True):
    """Recorded evidence of random exploration outside the class: kernels [S, A, S] that rule one after the other.

    Each kernel rules an equal part of the episodes; one evidence per seed, on a leading axis.
    """
    S, A, _ = problem.space.succ.shape
    s, a = np.arange(S)[:, None, None], np.arange(A)[None, :, None]
    probs = np.stack([np.where(problem.space.support, Q[s, a, problem.space.succ], 0.0) for Q in parts])
    with jax.enable_x64(True):
        model = to_device(problem.model)
        policy = to_device(np.full(problem.space.sizes, 1.0 / A))
        first = empty_evidence(model, budget or episodes, has_history=is_recorded)

        def explore(key, probs):
            def part(evidence, keys):
                sampler = Sampler.of(model.space.kernel(keys[0]))

                def step(evidence, key):
                    return model.update(evidence, sampler.episode(key, policy, model.space)), None

                return jax.lax.scan(step, evidence, keys[1])[0], None

            keys = jax.random.split(key, (len(parts), episodes // len(parts)))
            return jax.lax.scan(part, first, (probs, keys))[0]

        keys = jax.vmap(jax.random.key)(jnp.asarray(seeds))
        return to_numpy(jax.jit(jax.vmap(explore, (0, None)))(keys, jnp.asarray(probs)))
