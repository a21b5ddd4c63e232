"""HF-UCRL-RFE++ per episode: against the paper-literal NumPy loop, and how its cost grows with H and d.

    python benchmarks/explore.py [--quick] [--json]

The literal loop (tests/reference) is given the oracle's answer and does the rest of an episode: the value functions and
both families of HOME regressions. Ours is timed for the same part, and for whole episodes with the oracle inside.
"""

import argparse
import json
import sys
from pathlib import Path

from _timing import interleave, one_core, ratio, seconds

sys.path.insert(0, str(Path(__file__).parent.parent))
one_core()

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from tests.reference import home as literal
from tests.reference.episodes import full_features
from tests.reference.oracle import pseudo_values

import horizonfree as hf
from horizonfree.models.mixture import evidence as ev
from horizonfree.regression import moments
from horizonfree.regression import oracle
from horizonfree.regression import radius
from horizonfree._x64 import to_device
from horizonfree.explorers.interface import begin, simulate_block
from horizonfree.explorers.hf_ucrl_rfe import HFUCRLRFE
from horizonfree.regression.ridge import Ridge
from horizonfree.mdp.rollout import Sampler
from horizonfree.models.mixture.valid import valid_set


def learning(problem, M: int):
    """Our learning part of one episode as a call without arguments, and the literal one."""
    known, H, d = to_device(problem.known), problem.horizon, problem.known.dim
    alpha, gamma, lam = radius.parameters(d, H, problem.known.bound)
    sampler = Sampler.of(to_device(problem.kernel()))
    policy = jnp.zeros((H, problem.num_states), jnp.int32)
    trajectory = sampler.episode(jax.random.key(0), policy, problem.start)
    reward = jnp.zeros((H, problem.num_states)).at[-1].set(1.0)
    theta, inverse = jnp.asarray(problem.truth), jnp.eye(d) / lam

    @jax.jit
    def ours(ridge):
        prepared = oracle.prepare(known, theta, inverse, inverse)
        path = oracle.evaluate(prepared, policy, reward, 1.0)
        V = jnp.stack([path.V, path.V_hat], axis=1)
        phi, y = moments.episode_rows(known, V, trajectory, M)
        return moments.regress(ridge, phi, y, beta=1.0, alpha=alpha, gamma=gamma)[0]

    ridge = Ridge.init(lam, d, (2, M))
    phi = full_features(problem.known)
    family = literal.Family.init(M, d, lam)
    states, actions = np.asarray(trajectory.s), np.asarray(trajectory.a)
    numbers = [np.asarray(x) for x in (policy, reward, theta)]

    def printed():
        Sigma = family.Sigma[0]
        V, V_hat, _ = pseudo_values(phi, numbers[2], Sigma, Sigma, 1.0, numbers[0], numbers[1])
        return literal.episode(family, family, phi, V_hat, V, states, actions, 1.0, alpha, gamma)

    return (lambda: jax.block_until_ready(ours(ridge))), printed


def whole_episodes(problem, episodes: int, lazy: float):
    """Seconds per episode with the oracle inside, after compilation."""
    explorer = HFUCRLRFE(budget=episodes, lazy=lazy)
    valid, known = to_device(valid_set(problem.known)), to_device(problem.known)
    sampler, truth = Sampler.of(to_device(problem.kernel())), jnp.asarray(problem.truth)
    block, key = eqx.filter_jit(simulate_block), jax.random.key(0)
    first = begin(explorer, known, valid, ev.init(valid, *ev.ladder()))

    def run():
        count = jnp.int32(episodes)
        return jax.block_until_ready(
            block(explorer, known, valid, sampler, truth, key, first, count, episodes)[0].episode
        )

    run()
    return seconds(run, 0.0) / episodes


def exponent(sizes, times) -> float:
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    budget, M = (0.05 if args.quick else 0.5), 16
    result: dict[str, object] = {}
    with jax.enable_x64(True):
        grid = hf.make("zoned-grid", size=8, zones=4, horizon=20)
        ours, printed = learning(grid, M)
        times = interleave({"ours": ours, "printed": printed}, 2 if args.quick else 4, budget)
        result["learning_ms"] = 1e3 * min(times["ours"])
        result["literal_ms"] = 1e3 * min(times["printed"])
        result["learning_ratio"] = ratio(times["printed"], times["ours"])
        episodes = 40 if args.quick else 300
        for name, lazy in {"lazy": 0.5, "every_episode": 0.0}.items():
            result[f"episode_ms_{name}"] = 1e3 * whole_episodes(grid, episodes, lazy)
            result[f"episode_ratio_{name}"] = result["literal_ms"] / result[f"episode_ms_{name}"]
        horizons, dims = ([16, 64], [8, 32]) if args.quick else ([32, 64, 128, 256], [16, 32, 64, 128])
        by_H = [seconds(learning(hf.make("zoned-grid", horizon=H), M)[0], budget) for H in horizons]
        result["exponent_in_H"] = exponent(horizons, by_H)
        by_d = []
        for d in dims:
            problem = hf.make("random-mixture", states=16, actions=2, dim=d, successors=4, horizon=20)
            by_d.append(seconds(learning(problem, M)[0], budget))
        result["exponent_in_d"] = exponent(dims, by_d)
        result["ms_by_H"] = dict(zip(horizons, (1e3 * t for t in by_H)))
        result["ms_by_d"] = dict(zip(dims, (1e3 * t for t in by_d)))
    if args.json:
        print(json.dumps(result))
        return
    print("HF-UCRL-RFE++ on zoned-grid 8x8, H = 20, d = 8, M = 16, one core")
    print(f"  learning part: {result['learning_ms']:.2f} ms, literal {result['literal_ms']:.0f} ms,", end=" ")
    print(f"ratio {result['learning_ratio']:.0f}")
    for name in ("lazy", "every_episode"):
        print(
            f"  whole episode, oracle {name.replace('_', ' ')}: {result[f'episode_ms_{name}']:.2f} ms,",
            end=" ",
        )
        print(f"{result[f'episode_ratio_{name}']:.0f} times the literal learning part alone")
    print(f"  cost of learning grows as H^{result['exponent_in_H']:.2f}, d^{result['exponent_in_d']:.2f}")
    for key in ("ms_by_H", "ms_by_d"):
        print("   ", key, {k: round(v, 3) for k, v in result[key].items()})


if __name__ == "__main__":
    main()
