"""How close does the ascent come to enumeration? Writes results/rows.csv and prints the shares.

    python experiments/oracle_quality/study.py [--draws 504]

Each draw: a random mixture or the hard instance, two random covariances from 1 to 1000 regression vectors, and a
radius for which the best uncapped value is near 0.2, 0.6, 1, 1.3 or 2. The seed of a draw is its number.
"""

import argparse
import csv
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from horizonfree import oracle
from horizonfree._x64 import to_device
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.problems.named.synthetic import hard_instance, random_mixture
from horizonfree.problems.problem import Problem

MIXTURES = [(3, 2, 3), (3, 3, 3), (4, 2, 4), (5, 2, 3)]  # (S, A, H), dense
HARD = [3, 4, 5]  # d, at H = 5
LEVELS = [0.2, 0.6, 1.0, 1.3, 2.0]
SWEEPS = [20, 60]
RESULTS = Path(__file__).parent / "results" / "rows.csv"


def draw_problem(i: int) -> tuple[str, Problem]:
    """Draw number i: families in turn, d from 2 to 4 for the mixtures."""
    family = i % (len(MIXTURES) + len(HARD))
    if family < len(MIXTURES):
        S, A, H = MIXTURES[family]
        d = 2 + i // 7 % 3
        problem = random_mixture(states=S, actions=A, dim=d, successors=S, horizon=H, seed=i)
        return f"mixture {S},{A},{H}", problem
    d = HARD[family - len(MIXTURES)]
    return f"hard {d}", hard_instance(dim=d, episodes=3 * d * d, horizon=5, seed=i)


def covariance(rng: np.random.Generator, model: MixtureModel) -> np.ndarray:
    """I plus weighted regression vectors phi_V(s, a), V random and half empty."""
    N = int(10 ** rng.uniform(0, 3))
    _, S, A = model.space.sizes
    s, a = rng.integers(S, size=N), rng.integers(A, size=N)
    V = rng.uniform(size=(N, S)) * (rng.uniform(size=(N, S)) < 0.5)
    x = np.einsum("kn,knd->kd", np.take_along_axis(V, model.space.succ[s, a], 1), model.phi[s, a])
    return np.eye(model.dim) + (x.T * rng.uniform(0.5, 5, N)) @ x


def radius_for(level: float, inputs: tuple) -> float:
    """A beta whose maximal raw value is within 15 % of the level, or the last of ten tries."""
    beta = 1.0
    for _ in range(10):
        ratio = level / float(oracle.exhaustive(*inputs, beta=beta).raw)
        if abs(ratio - 1) < 0.15:
            break
        beta *= ratio
    return beta


@jax.jit(static_argnames="sweeps")
def ascend(key, prepared_model, beta, warm, sweeps):
    return oracle.ascent(key, prepared_model, beta, beta, warm, chains=3, sweeps=sweeps)


def measure(i: int) -> dict[str, object]:
    family, problem = draw_problem(i)
    rng = np.random.default_rng(i)
    model, (H, S, _) = problem.model, problem.space.sizes
    inverses = [np.linalg.inv(covariance(rng, model)) for _ in range(2)]
    inputs = (model, problem.truth, *inverses)
    beta = radius_for(LEVELS[i // 7 % len(LEVELS)], inputs)
    best = oracle.exhaustive(*inputs, beta=beta)
    row = {"draw": i, "family": family, "d": model.dim, "beta": beta}
    row |= {"best": float(best.raw), "upper": float(best.upper)}
    warm = oracle.Point(jnp.zeros((H, S), jnp.int32), jnp.int32(H - 1), jnp.ones(S, bool))
    prepared_model = oracle.prepare(to_device(model), *inputs[1:])
    for sweeps in SWEEPS:
        result = ascend(jax.random.key(i), prepared_model, beta, warm, sweeps=sweeps)
        row[f"ascent_{sweeps}"] = float(result.raw)
    return row


def report(rows: list[dict[str, object]]) -> None:
    """Share of draws at 99 % of the maximum and the 5 % quantile of the ratio; upper bound over capped maximum."""
    groups = {
        (kind, cap): [
            r for r in rows if str(r["family"]).startswith(kind) and (r["best"] >= 0.98) == (cap == "capped")
        ]
        for kind in ("mixture", "hard")
        for cap in ("uncapped", "capped")
    }
    for name, group in [*groups.items(), (("all", ""), rows)]:
        best = np.array([r["best"] for r in group])
        line = f"{' '.join(name):18} {len(group):4d} draws"
        for sweeps in SWEEPS:
            ratio = np.array([r[f"ascent_{sweeps}"] for r in group]) / best
            line += f"   3 x {sweeps}: {np.mean(ratio >= 0.99):.3f} / {np.quantile(ratio, 0.05):.3f}"
        bound = np.array([r["upper"] for r in group]) / np.minimum(best, 1)
        print(f"{line}   bound: median {np.median(bound):.3f}, worst {bound.max():.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=504)
    with jax.enable_x64(True):
        rows = [measure(i) for i in range(parser.parse_args().draws)]
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    report(rows)


if __name__ == "__main__":
    main()
