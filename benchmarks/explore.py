"""HF-UCRL-RFE++ per episode, against the paper-literal NumPy loop; explorers of unknown tables beside public figures;
explorers of linear MDPs.

    python benchmarks/explore.py [--quick] [--json] [--only mixture tables linear]

The literal loop (_literal.py) is given the oracle's answer and does the rest of an episode: the value functions and
both families of HOME regressions. Ours is timed for the same part, and for whole episodes with the oracle inside; then
how its cost grows with H and d.

Unknown tables: episodes per second of CPU time of `run.resume` and the certificate for every reward after it, the
evidence kept, compilation apart, best of a few. The public figures were measured once, elsewhere: the authors' code on
one core of a busy 2.8 GHz Xeon, CPU time, without certificates like ours. They are quoted, not run again here.
Sizes are theirs, or nearly (their 15 rooms have 389 states, ours 397); moves and starts on the grid differ.

Linear MDPs: the same for `linear-lock`, without certificates; there is no public code to compare with.
"""

import argparse
import json
import time

from _timing import interleave, one_core, ratio, seconds

one_core()

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import _literal as literal
import horizonfree as hf
from horizonfree import oracle
from horizonfree._x64 import to_device
from horizonfree.estimators import moments, radius
from horizonfree.estimators.ridge import Ridge
from horizonfree.explorers.hf_ucrl_rfe import HFUCRLRFE
from horizonfree.explorers.loop import init_progress, simulate_block
from horizonfree.guarantees.e_processes import ladder
from horizonfree.planning.traced import Sampler

CHAIN = {"name": "double-chain", "length": 31, "horizon": 20}
GRID = {"name": "zoned-grid", "size": 21, "zones": 1, "horizon": 20}
ROOMS = {"name": "rooms", "columns": 5, "rows": 3, "room_size": 5, "horizon": 30}
LAKE = {"name": "gymnasium:FrozenLake-v1", "horizon": 100}
TABLES = [  # (problem, explorer, options, episodes, public figure); nothing is known of the support
    (CHAIN, "rf-ucrl", {}, 20_000, 543),
    (CHAIN, "rf-ucrl", {"successors": 4}, 20_000, 543),
    (GRID, "rf-ucrl", {"successors": 4}, 4_000, 96),
    (ROOMS, "rf-express", {"successors": 4}, 3_000, 36),
    (CHAIN, "tabular-design", {}, 100_000, None),
    (LAKE | {"map_name": "4x4"}, "tabular-design", {}, 100_000, None),
    (LAKE | {"map_name": "8x8"}, "tabular-design", {}, 100_000, None),
]


LOCK = {"blocks": 8, "per_block": 10, "actions": 3, "horizon": 10}
LARGE_LOCK = {"blocks": 8, "per_block": 25, "actions": 4, "horizon": 20}
LINEAR = [  # (problem, explorer, options, episodes)
    *(
        (LOCK, name, {"steps": steps}, 6_000)
        for name in ("wang2020", "linear-design")
        for steps in ("own", "pooled")
    ),
    *((LOCK, name, {}, 6_000) for name in ("lsvi-rfe", "francis", "rflin")),
    *(
        (LARGE_LOCK, name, {"steps": steps}, 3_000)
        for name in ("wang2020", "linear-design")
        for steps in ("own", "pooled")
    ),
]


def linear_row(sizes: dict, explorer: str, options: dict, episodes: int, repeats: int):
    """Episodes per second of an explorer of linear MDPs."""
    problem = hf.make("linear-lock", **sizes)
    first, times = hf.explore(problem, explorer, episodes=episodes, progress=False, **options), []
    for _ in range(repeats):
        start = time.process_time()
        first.resume(episodes=episodes, progress=False)
        times.append(time.process_time() - start)
    return {
        "sizes": [problem.num_states, problem.num_actions, problem.model.dim, problem.horizon],
        "explorer": explorer,
        "options": options,
        "episodes": episodes,
        "episodes_per_s": episodes / min(times),
    }


def table_row(spec: dict, explorer: str, options: dict, episodes: int, public: int | None, repeats: int):
    """Episodes per second of an explorer of unknown tables, with its certificate and without."""
    problem_spec = dict(spec)
    problem = hf.make(problem_spec.pop("name"), **problem_spec).as_tabular()
    first = hf.explore(problem, explorer, episodes=episodes, progress=False, **options)
    first.certificate()
    separate, complete = [], []
    for _ in range(repeats):
        start = time.process_time()
        run = first.resume(episodes=episodes, progress=False)
        separate.append(time.process_time() - start)
        run.certificate()
        complete.append(time.process_time() - start)
    return {
        "problem": spec["name"] + (f" {spec['map_name']}" if "map_name" in spec else ""),
        "sizes": [problem.num_states, problem.num_actions, problem.horizon],
        "explorer": explorer,
        "options": options,
        "episodes": episodes,
        "exploration_per_s": episodes / min(separate),
        "episodes_per_s": episodes / min(complete),
        "public_per_s": public,
    }


def learning(problem, M: int):
    """Our learning part of one episode as a call without arguments, and the literal one."""
    model, H, d = to_device(problem.model), problem.horizon, problem.model.dim
    alpha, gamma, lam = radius.parameters(radius.model_sizes(problem.model))
    sampler = Sampler.of(to_device(problem.kernel()))
    policy = jnp.zeros((H, problem.num_states), jnp.int32)
    trajectory = sampler.episode(jax.random.key(0), policy, model.space)
    reward = jnp.zeros((H, problem.num_states)).at[-1].set(1.0)
    theta, inverse = jnp.asarray(problem.truth), jnp.eye(d) / lam

    @jax.jit
    def incremental_update(ridge):
        prepared_model = oracle.prepare(model, theta, inverse, inverse)
        path = oracle.evaluate(prepared_model, policy, reward, 1.0)
        V = jnp.stack([path.V, path.V_hat], axis=1)
        phi, y = moments.episode_rows(model, V, trajectory, M)
        return moments.regress(ridge, phi, y, beta=1.0, alpha=alpha, gamma=gamma)[0]

    ridge = Ridge.init(lam, d, (2, M))
    phi = np.moveaxis(problem.model.phi_V(np.eye(problem.num_states)), 0, 2)  # [S, A, S, d]
    first = np.tile(lam * np.eye(d), (M, 1, 1)), np.zeros((M, d))
    answer = [np.asarray(x) for x in (policy, reward, trajectory.s, trajectory.a)]

    def printed_update():
        return literal.episode(phi, np.asarray(theta), *first, *answer, 1.0, alpha, gamma)

    return (lambda: jax.block_until_ready(incremental_update(ridge))), printed_update


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
    first = init_progress(explorer, model, model.init_evidence(ladder()))

    def run():
        count = jnp.int32(episodes)
        return jax.block_until_ready(
            block(explorer, model, sampler, truth, key, first, count, episodes)[0].episode
        )

    run()
    return seconds(run, 0.0) / episodes


def exponent(sizes, times) -> float:
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def mixture(is_quick: bool) -> dict[str, object]:
    """HF-UCRL-RFE++ beside the literal loop, and its exponents."""
    budget, M = (0.05 if is_quick else 0.5), 16
    result: dict[str, object] = {}
    with jax.enable_x64(True):
        grid = hf.make("zoned-grid", size=8, zones=4, horizon=20)
        own_seconds, printed_seconds = learning(grid, M)
        check(own_seconds(), printed_seconds())
        times = interleave({"ours": own_seconds, "printed": printed_seconds}, 2 if is_quick else 4, budget)
        result["learning_ms"] = 1e3 * min(times["ours"])
        result["literal_ms"] = 1e3 * min(times["printed"])
        result["learning_ratio"] = ratio(times["printed"], times["ours"])
        episodes = 40 if is_quick else 300
        for name, lazy in {"lazy": 0.5, "every_episode": 0.0}.items():
            result[f"episode_ms_{name}"] = 1e3 * whole_episodes(grid, episodes, lazy)
            result[f"episode_ratio_{name}"] = result["literal_ms"] / result[f"episode_ms_{name}"]
        horizons, dims = ([16, 64], [8, 32]) if is_quick else ([32, 64, 128, 256], [16, 32, 64, 128])
        by_H = [seconds(learning(hf.make("zoned-grid", horizon=H), M)[0], budget) for H in horizons]
        result["exponent_in_H"] = exponent(horizons, by_H)
        by_d = []
        for d in dims:
            problem = hf.make("random-mixture", states=16, actions=2, dim=d, successors=4, horizon=20)
            by_d.append(seconds(learning(problem, M)[0], budget))
        result["exponent_in_d"] = exponent(dims, by_d)
        result["ms_by_H"] = dict(zip(horizons, (1e3 * t for t in by_H)))
        result["ms_by_d"] = dict(zip(dims, (1e3 * t for t in by_d)))
    return result


def print_mixture(result: dict) -> None:
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


def print_tables(rows: list[dict]) -> None:
    print("unknown tables, any support, one core: episodes/s with the certificate (without); public figure")
    for row in rows:
        S, A, H = row["sizes"]
        options = "".join(f", {key}={value}" for key, value in row["options"].items())
        print(f"  {row['explorer']}{options} on {row['problem']} (S = {S}, A = {A}, H = {H}):", end=" ")
        print(f"{row['episodes_per_s']:,.0f} ({row['exploration_per_s']:,.0f});", end=" ")
        print(f"public code {row['public_per_s']}" if row["public_per_s"] else "no public code")


def print_linear(rows: list[dict]) -> None:
    print("linear MDPs, linear-lock, one core: episodes/s")
    for row in rows:
        S, A, d, H = row["sizes"]
        options = "".join(f", {key}={value}" for key, value in row["options"].items())
        print(f"  {row['explorer']}{options} (S = {S}, A = {A}, d = {d}, H = {H}):", end=" ")
        print(f"{row['episodes_per_s']:,.0f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", nargs="*", default=["mixture", "tables", "linear"])
    args = parser.parse_args()
    result: dict[str, object] = mixture(args.quick) if "mixture" in args.only else {}
    if "tables" in args.only:
        share, repeats = (10, 1) if args.quick else (1, 3)
        result["tables"] = [
            table_row(*table_args, n // share, public, repeats) for *table_args, n, public in TABLES
        ]
    if "linear" in args.only:
        share, repeats = (10, 1) if args.quick else (1, 3)
        result["linear"] = [linear_row(*table_args, n // share, repeats) for *table_args, n in LINEAR]
    if args.json:
        print(json.dumps(result))
        return
    if "mixture" in args.only:
        print_mixture(result)
    if "tables" in args.only:
        print_tables(result["tables"])
    if "linear" in args.only:
        print_linear(result["linear"])


if __name__ == "__main__":
    main()
