"""How near is the bound N of what a plan loses to the largest 4 Vhat that a search finds, and what would be nearer?

    python experiments/oracle_quality/upper.py      # about two minutes of processor time

The problems of experiments/likelihood_sets after 1,000 episodes, seed 0. Prints per problem: 4 Vhat of 5 x 100 sweeps
in the set of all data (a lower bound of its maximum), N, 4T, the two certificates of the evidence, seconds of N.

`through_coupling` is an attempt that does not help: N with few transitions before the reward, and what is lost earlier
from how fast two trajectories with a common Markov policy can meet, at worst (`apart`).
"""

import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import horizonfree as hf
from horizonfree import oracle
from horizonfree._x64 import to_device, x64
from horizonfree.explorers.likelihood_sets import BETA, prepared_in
from horizonfree.oracle.likelihood_ratio import extremes, grid, likelihood_ratio_bound, programme

sys.path.insert(0, str(Path(__file__).parents[1] / "likelihood_sets"))
from run import EPISODES, OPTIONS, PROBLEMS

LARGER = {
    "grid 8x8, q=4": ("zoned-grid", {"size": 8, "zones": 4}, (20, 64)),
    "mixture, q=7": (
        "random-mixture",
        {"states": 20, "actions": 3, "dim": 8, "successors": 4},
        (8, 64),
    ),
    "mixture, q=11": (
        "random-mixture",
        {"states": 40, "actions": 4, "dim": 12, "successors": 3},
        (20,),
    ),
}
BEFORE = (0, 2, 5, 10, 20, 40)  # transitions before the reward that N is used for


@jax.jit
def found(prepared):
    """Vhat of the best point of a search, at the true radius; small radii are tried where values are capped."""
    H, S = prepared.space.horizon, prepared.space.num_states
    warm = oracle.Point(jnp.zeros((H, S), jnp.int32), jnp.int32(H - 1), jnp.ones(S, bool))
    beta = jnp.asarray(BETA)
    return oracle.ascent(jax.random.key(0), prepared, beta, beta, warm, chains=5, sweeps=100).value


def steps_to_everywhere(succ, support):
    """m: after every pair, every state is possible k steps later, for every k >= m; None if there is no such m."""
    S, A, _ = succ.shape
    step = np.zeros((S, A, S), bool)
    for s in range(S):
        for a in range(A):
            step[s, a, succ[s, a][support[s, a]]] = True
    now = step.copy()
    for k in range(1, S * S + 2):
        if now.all():
            return k
        now = np.einsum("sax,xy->say", step, now.any(1)) > 0
    return None


def apart(p, succ, C):
    """C_{k+1}(s, s') = max over two actions of the mean of C_k in a coupling; 0 at s = s'."""
    S, A, n = p.shape
    q = np.zeros((S * A, S))
    for i in range(n):
        np.add.at(q, (np.arange(S * A), succ[..., i].ravel()), p[..., i].ravel())
    new = np.zeros((S * A, S * A))
    for x in range(S * A):
        common = np.minimum(q[x], q)  # moves together; the rest independently
        left, right = q[x] - common, q - common
        mass = left.sum(1)
        new[x] = np.einsum("yi,ij,yj->y", left, C, right) / np.where(mass > 0, mass, 1.0)
    C = np.minimum(new.reshape(S, A, S, A).max((1, 3)), 1.0)
    np.fill_diagonal(C, 0.0)
    return C


def through_coupling(prepared, H):
    """2 Y and the largest C_k per step: the bound of docs/likelihood-sets.md, "what does not help"; None without m."""
    p, succ = (np.asarray(x).transpose(2, 1, 0) for x in (prepared.p, prepared.succ))
    tilts = np.asarray(prepared.F_tilde).transpose(3, 2, 1, 0)
    box, support = 2 * BETA * np.asarray(prepared.box_tilde).T, np.asarray(prepared.space.support)
    m = steps_to_everywhere(succ, support)
    if m is None or m >= H - 1:
        return None
    widest, C = [], 1.0 - np.eye(len(p))
    for _ in range(H):
        both = support[..., :, None] & support[..., None, :]
        widest.append(np.where(both, C[succ[..., :, None], succ[..., None, :]], 0.0).max((-2, -1)))
        C = apart(p, succ, C)
    least = np.inf
    for k0 in (k for k in BEFORE if k + m < H):
        log_lam = grid(p, tilts, 1.0, succ, k0 + m - 1)
        Y = programme(p, extremes(p, tilts), succ, log_lam, k0 + m - 1)[:, len(log_lam) // 2]
        worst = prepared.space.at_start(Y)
        for k in range(k0, H - 1):
            width = np.linalg.norm(np.einsum("sanm,san->sam", tilts, Y[succ]), axis=-1)
            Y = np.minimum(1, widest[k] * box + (p * Y[succ]).sum(-1) + width).max(1)
            worst = max(worst, prepared.space.at_start(Y))
        least = min(least, worst)
    return 2 * least, (widest[H - 2].max() / widest[H // 2].max()) ** (1 / (H - 2 - H // 2))


@x64
def line(name, problem):
    run = hf.explore(
        problem, "hf-ucrl-rfe++", episodes=EPISODES, budget=EPISODES, seed=0, progress=False, **OPTIONS
    )
    confidence = run.confidence(0.05)
    prepared = prepared_in(problem.space, confidence)
    largest = 4 * float(found(to_device(prepared)))
    start = time.process_time()
    N = likelihood_ratio_bound(prepared, BETA)
    seconds = time.process_time() - start
    parts = run.certificate(method="paper").parts
    uniform = run.certificate(method="uniform").eps
    direct = run.certificate(method="direct").eps if confidence.valid.num_free <= 5 else np.nan
    coupled = through_coupling(prepared, problem.horizon) if problem.num_states <= 25 else None
    columns = {
        "4Vhat": largest,
        "N": N,
        "4T": 4 * parts["total_variance"],
        "uniform": uniform,
        "direct": direct,
    }
    columns |= {} if coupled is None else {"coupled": coupled[0], "rate": coupled[1]}
    shown = " ".join(f"{key} {value:.3f}" for key, value in columns.items())
    print(f"{name} H={problem.horizon}: {shown} seconds {seconds:.2f}", flush=True)


def main() -> None:
    for name, (kind, sizes, horizons) in (PROBLEMS | LARGER).items():
        for horizon in horizons:
            line(name, hf.make(kind, horizon=horizon, **sizes))


if __name__ == "__main__":
    main()
