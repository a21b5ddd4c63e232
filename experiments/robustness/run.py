"""Rows of the robustness experiment: systems outside their class, certificates within a declared misspecification.

    python experiments/robustness/run.py [--problems zoned,queue] [--adversaries bias,tilt]

Each run explores a system whose laws are within zeta of one parameter, made by an adversary: `bias` moves zeta from the
likeliest to the least likely successor of every pair, `flip` does so for half of the episodes and the opposite then,
`random` moves it between two successors drawn for every pair. Two see everything: before each block of episodes `tilt`
takes the laws under which the bets of Theorem R1 win most, `push` those under which theta_star comes nearest to leaving
a half-space of Theorem R3. Rows that are there are kept: delete them to make them again. README.md says what they mean.
"""

import argparse
import json
import time
from itertools import pairwise, product
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import horizonfree as hf
from horizonfree._x64 import scope, to_device, to_numpy
from horizonfree.explorers.loop import init_progress, simulate_block
from horizonfree.explorers.registry import ExplorerSpec, make_explorer
from horizonfree.guarantees.e_processes import ladder
from horizonfree.mdp.space import Kernel
from horizonfree.models import certify
from horizonfree.models.mixture.evidence import STARTS, Record, predictors
from horizonfree.models.mixture.robust.frequencies import kinds_of
from horizonfree.models.mixture.robust.half_spaces import MAX_EXPONENT, Blocks, directions, half_spaces
from horizonfree.models.mixture.robust.sets import SPACES
from horizonfree.planning.induction import best_plan
from horizonfree.planning.traced import Sampler
from horizonfree.runs.recipes import versions

HERE = Path(__file__).parent
ZETAS = (0.0, 0.001, 0.003, 0.01, 0.03)
DELTA = 0.05
BLOCK = 256
PROBLEMS = {
    "zoned": (lambda: hf.make("zoned-grid", size=8, horizon=20), (1000, 10_000)),
    "queue": (lambda: hf.make("queue", capacity=15, horizon=30, seed=1), (10_000,)),
    "mixture": (lambda: hf.make("random-mixture", states=20, actions=3, dim=4, horizon=15), (1000, 10_000)),
    "inventory": (lambda: hf.make("inventory"), (10_000,)),
    "larger": (lambda: hf.make("random-mixture", states=40, actions=3, dim=6, horizon=15, seed=5), (10_000,)),
}
SEEDS = {"bias": 100, "flip": 101, "random": 102, "tilt": 103, "push": 104}  # of the adversaries
_block = eqx.filter_jit(simulate_block)


def shift_mass(kernel: Kernel, zeta: float, rng: np.random.Generator | None = None, sign: int = 1) -> Kernel:
    """A kernel within zeta of this one."""
    P = np.array(kernel.prob)
    for s, a in np.ndindex(P.shape[:2]):
        successors = np.flatnonzero(P[s, a] > 0)
        if len(successors) < 2:
            continue
        order = successors[np.argsort(P[s, a, successors], kind="stable")][::sign]
        target, source = (order[0], order[-1]) if rng is None else rng.choice(successors, 2, replace=False)
        share = min(zeta, P[s, a, source])
        P[s, a, source] -= share
        P[s, a, target] += share
    return Kernel(kernel.succ, P, kernel.is_dense)


def best_laws(P: np.ndarray, f: np.ndarray, zeta: float) -> np.ndarray:
    """The laws within zeta of P [S, A, n], on its successors, with the largest mean of f [S, A, n]."""
    best = np.where(P > 0, f, -np.inf).argmax(-1)[..., None]
    order = np.argsort(np.where(P > 0, f, np.inf), axis=-1)
    mass = np.take_along_axis(P, order, -1)
    shift = np.clip(zeta - (np.cumsum(mass, -1) - mass), 0.0, mass)
    Q = np.zeros_like(P)
    np.put_along_axis(Q, order, mass - shift, -1)
    np.put_along_axis(Q, best, np.take_along_axis(Q, best, -1) + shift.sum(-1, keepdims=True), -1)
    return Q


def tilt_kernel(problem: hf.Problem, record: Record, block: int, zeta: float, late_start: int) -> Kernel:
    """The laws with the largest mean of P_t/P, for the predictor of a block of episodes after these counts."""
    theta = predictors(problem.model.valid, np.asarray(record.rows))[block]
    kernel, P = problem.kernel(), np.asarray(problem.kernel().prob)
    rho = np.asarray(problem.model.kernel(theta).prob) / np.where(P > 0, P, 1.0)
    return Kernel(kernel.succ, best_laws(P, rho, zeta), kernel.is_dense)


def push_kernel(problem: hf.Problem, record: Record, block: int, zeta: float, late_start: int) -> Kernel:
    """The laws with the largest mean of e^g, g of the half-space, of the bet that begins `late`, that is nearest."""
    if block <= late_start:
        return problem.kernel()
    valid = problem.model.valid
    z = np.asarray(valid.rows @ valid.basis * valid.free[:, None])
    theta = predictors(valid, np.asarray(record.rows))[: block + 1]
    y = (theta - valid.center) @ valid.basis
    p = theta @ valid.rows.T
    p = np.where(p > 0, p, 1.0)
    kinds = kinds_of(valid, np.full(problem.space.sizes[1:], zeta))
    share = SPACES * DELTA * 0.9  # the late bet's
    v = directions(z, p[late_start], np.asarray(record.rows[:late_start]).sum(0), kinds.rows.size, share)
    visits = kinds.total(np.asarray(record.visits))
    blocks = Blocks(*(np.asarray(x)[late_start:block] for x in (y, p, record.rows, visits)))
    truth = (problem.truth - valid.center) @ valid.basis
    nearest = half_spaces(kinds, blocks, z, v, truth, share, anywhere=False).level.argmin()
    g = np.append(np.clip(v[nearest] @ z.T / p[block], -MAX_EXPONENT, MAX_EXPONENT), 0.0)[
        np.asarray(valid.row_of)
    ]
    kernel = problem.kernel()
    return Kernel(kernel.succ, best_laws(np.asarray(kernel.prob), g, zeta), kernel.is_dense)


def explore(problem: hf.Problem, zeta: float, adversary: str, episodes: int) -> hf.Run:
    """A run of `optimal-design`, budget declared, in the systems of an adversary one after the other."""
    seed = SEEDS[adversary]
    sees = {"tilt": tilt_kernel, "push": push_kernel}.get(adversary)
    starts = STARTS[STARTS < episodes] if sees else [0, episodes // 2]
    rng = np.random.default_rng(seed) if adversary == "random" else None
    fixed = shift_mass(problem.kernel(), zeta, rng)
    with scope():
        model, explorer = to_device(problem.model), make_explorer("optimal-design")
        evidence = model.init_evidence(ladder(episodes, model.burn_in), has_history=True)
        progress, key = init_progress(explorer, model, evidence), jax.random.key(seed)
        for i, (first, last) in enumerate(pairwise([*starts, episodes])):
            kernel = shift_mass(problem.kernel(), zeta, sign=-1) if adversary == "flip" and i else fixed
            if sees:
                late_start = int(
                    np.searchsorted(STARTS, episodes // model.burn_in)
                )  # the first block of the late bet
                kernel = sees(problem, to_numpy(progress.evidence.record), i, zeta, late_start)
            sampler = Sampler.of(to_device(kernel))
            for done in range(first, last, BLOCK):
                count = jnp.int32(min(last - done, BLOCK))
                progress, _ = _block(explorer, model, sampler, None, key, progress, count, BLOCK)
        final = to_numpy(progress)
        spec = ExplorerSpec.of(explorer)
        return hf.Run(problem, spec, seed, final.evidence, final.state, {}, is_simulated=False)


def best_means(kernel: Kernel, f: np.ndarray, zeta: float) -> np.ndarray:
    """max of Q f over laws within zeta of each pair's, on its successors."""
    successor_values = f[np.asarray(kernel.succ)]
    return (best_laws(np.asarray(kernel.prob), successor_values, zeta) * successor_values).sum(-1)


def history_gap(kernel: Kernel, reward: np.ndarray, policy: np.ndarray, zeta: float, start: int) -> float:
    """What a plan loses in the worst system with memory within zeta of a kernel: exact (docs/robust.md, section 4)."""
    S = reward.shape[1]
    upper, low, gap = np.zeros(S), np.zeros(S), np.zeros(S)
    states = np.arange(S)
    for r, pi in zip(reward[::-1], policy[::-1]):
        best = r + best_means(kernel, upper, zeta)
        own_value = (r - best_means(kernel, -low, zeta))[states, pi]
        other_values = np.where(np.arange(r.shape[1]) == pi[:, None], -np.inf, best).max(-1)
        gap = np.maximum(best_means(kernel, gap, zeta)[states, pi], other_values - own_value)
        upper, low = best.max(-1), own_value
    return float(gap[start])


def goals(problem: hf.Problem) -> list[np.ndarray]:
    """Sixteen rewards: to be in a state at the end."""
    tables = []
    for s in np.linspace(0, problem.num_states - 1, 16).astype(int):
        table = np.zeros(problem.space.sizes)
        table[-1, s] = 1.0
        tables.append(table)
    return tables


def score(run: hf.Run, zeta: float) -> dict:
    """Certificates within zeta, the plain ones, and what the plans really lose at worst."""
    problem = run.problem
    start_time = time.process_time()
    with_zeta = problem.model.robust_confidence(run.evidence, DELTA)(hf.Misspecification(tv=zeta))
    seconds = time.process_time() - start_time
    plain_confidence = run.confidence(DELTA)
    gaps, plain_gaps, worst = [], [], []
    for table in goals(problem):
        policy = np.array(best_plan(with_zeta.kernel, table).policy, np.int32)
        gaps.append(certify.for_reward(problem.model, with_zeta, table, policy)[1].eps)
        plain_policy = np.array(best_plan(plain_confidence.kernel, table).policy, np.int32)
        plain_gaps.append(certify.for_reward(problem.model, plain_confidence, table, plain_policy)[1].eps)
        worst.append(history_gap(problem.kernel(), table, policy, zeta, problem.space.start))
    return {
        "eps": min(1.0, float(with_zeta.eps)),
        "floor": float(with_zeta.floor),
        "zeta_low": float(with_zeta.zeta_low),
        "is_rejected": bool(with_zeta.is_refuted),
        "goal_median": float(np.median(gaps)),
        "goal_largest": max(gaps),
        "worst_median": float(np.median(worst)),
        "worst_largest": max(worst),
        "violations": int(np.sum(np.array(worst) > gaps)),
        "plain_eps": float(plain_confidence.eps),
        "plain_rejected": bool(plain_confidence.is_refuted),
        "plain_violations": int(np.sum(np.array(worst) > plain_gaps)),
        "seconds": round(seconds, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--adversaries", default=",".join(SEEDS))
    args = parser.parse_args()
    names, adversaries = args.problems.split(","), args.adversaries.split(",")
    out = HERE / "results" / "rows.jsonl"
    rows = [json.loads(x) for x in out.read_text().splitlines()] if out.exists() else []
    done = {(x["problem"], x["episodes"], x["zeta"], x["adversary"]) for x in rows}
    with out.open("a") as file:
        for name in names:
            make, budgets = PROBLEMS[name]
            problem = make()
            for episodes, zeta, adversary in product(budgets, ZETAS, adversaries):
                if (name, episodes, zeta, adversary) in done:
                    continue
                run = explore(problem, zeta, adversary, episodes)
                row = {"problem": name, "episodes": episodes, "zeta": zeta, "adversary": adversary}
                row |= {"seed": SEEDS[adversary], **score(run, zeta), "versions": versions()}
                file.write(json.dumps(row) + "\n")
                file.flush()


if __name__ == "__main__":
    main()
