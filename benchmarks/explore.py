"""HF-UCRL-RFE++ per episode: against the paper-literal NumPy loop, and how its cost grows with H and d.

    python benchmarks/explore.py [--quick] [--json]

The literal loop (_literal.py) is given the oracle's answer and does the rest of an episode: the value functions and
both families of HOME regressions. Ours is timed for the same part, and for whole episodes with the oracle inside.
"""

import argparse
import json

from _timing import interleave, one_core, ratio, seconds

one_core()

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import _literal as literal
import horizonfree as hf
from horizonfree._x64 import to_device
from horizonfree.explorers.hf_ucrl_rfe import HFUCRLRFE
from horizonfree.explorers.loop import begin, simulate_block
from horizonfree.guarantees.bets import ladder
from horizonfree.mdp.rollout import Sampler
from horizonfree.regression import moments, oracle, radius
from horizonfree.regression.ridge import Ridge


def learning(problem, M: int):
    """Our learning part of one episode as a call without arguments, and the literal one."""
    model, H, d = to_device(problem.model), problem.horizon, problem.model.dim
    alpha, gamma, lam = radius.parameters(radius.sizes_of(problem.model))
    sampler = Sampler.of(to_device(problem.kernel()))
    policy = jnp.zeros((H, problem.num_states), jnp.int32)
    trajectory = sampler.episode(jax.random.key(0), policy, model.space)
    reward = jnp.zeros((H, problem.num_states)).at[-1].set(1.0)
    theta, inverse = jnp.asarray(problem.truth), jnp.eye(d) / lam

    @jax.jit
    def ours(ridge):
        prepared = oracle.prepare(model, theta, inverse, inverse)
        path = oracle.evaluate(prepared, policy, reward, 1.0)
        V = jnp.stack([path.V, path.V_hat], axis=1)
        phi, y = moments.episode_rows(model, V, trajectory, M)
        return moments.regress(ridge, phi, y, beta=1.0, alpha=alpha, gamma=gamma)[0]

    ridge = Ridge.init(lam, d, (2, M))
    phi = np.moveaxis(problem.model.phi_V(np.eye(problem.num_states)), 0, 2)  # [S, A, S, d]
    first = np.tile(lam * np.eye(d), (M, 1, 1)), np.zeros((M, d))
    answer = [np.asarray(x) for x in (policy, reward, trajectory.s, trajectory.a)]

    def printed():
        return literal.episode(phi, np.asarray(theta), *first, *answer, 1.0, alpha, gamma)

    return (lambda: jax.block_until_ready(ours(ridge))), printed


def check(ridge, families) -> None:
    """Both must do the same work."""
    for i, (Sigma, b) in enumerate(families):
        np.testing.assert_allclose(ridge.Sigma[i], Sigma, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(ridge.b[i], b, rtol=1e-6, atol=1e-9)


def whole_episodes(problem, episodes: int, lazy: float):
    """Seconds per episode with the oracle inside, after compilation."""
    explorer = HFUCRLRFE(budget=episodes, lazy=lazy)
    model, truth = to_device((problem.model, problem.truth))
    sampler = Sampler.of(to_device(problem.kernel()))
    block, key = eqx.filter_jit(simulate_block), jax.random.key(0)
    first = begin(explorer, model, model.nothing(ladder()))

    def run():
        count = jnp.int32(episodes)
        return jax.block_until_ready(
            block(explorer, model, sampler, truth, key, first, count, episodes)[0].episode
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
        check(ours(), printed())
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
