"""Where is the gap between T and the largest Vhat? Medians over 24 tiny problems, on which that is enumerated.

    python experiments/oracle_quality/gap.py        # a minute or two of processor time

Random mixtures (S = 3, A = 2, H = 4, d = 3) after EPISODES of random actions, with the likelihood sets of their data.

The chain, each with its cause of loss:

    Y0  max over policies and antichains of the sum of E u_h         what the algorithm needs for gaps
    M   the same maximum of Vhat                                     second norm, of Vhat itself
    T0  min over mu of mu/4 + D(mu)                                  value functions of different pairs are let free
    T   with 2 sqrt(q y) in the square                               variances are those of theta_star
    N   a quarter of the bound by likelihood ratios                  policies and rewards may have a memory
    U   a width in every step
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import horizonfree as hf
from horizonfree import oracle
from horizonfree._x64 import to_device, x64
from horizonfree.explorers.likelihood_sets import BETA, prepared_in
from horizonfree.oracle.exhaustive import enumerated
from horizonfree.oracle.likelihood_ratio import likelihood_ratio_bound
from horizonfree.oracle.variance import MUS, gather, penalised_max, variance_bound

PROBLEMS, EPISODES = 24, (100, 1_000, 10_000)
QUANTILES = (0.1, 0.5, 0.9)
RATIOS = (("M", "Y0"), ("T0", "Y0"), ("T", "T0"), ("T", "Y0"), ("T", "M"), ("N", "M"), ("U", "M"))


@eqx.filter_jit
def largest(model, prepared):
    """The largest Vhat over deterministic policies and antichains, with and without the norm of Vhat itself."""
    free = eqx.tree_at(lambda x: (x.F_hat, x.box_hat), prepared, (0 * prepared.F_hat, 0 * prepared.box_hat))
    beta = jnp.asarray(BETA)
    return enumerated(model, prepared, beta)[1].value, enumerated(model, free, beta)[1].value


@x64
def numbers(seed: int, episodes: int) -> dict[str, float]:
    """The chain of one problem."""
    problem = hf.make("random-mixture", states=3, actions=2, dim=3, successors=3, horizon=4, seed=seed)
    run = hf.explore(problem, "uniform", episodes=episodes, seed=seed, progress=False)
    prepared = prepared_in(problem.space, run.confidence(0.05))
    M, Y0 = map(float, largest(*to_device((problem.model, prepared))))
    F, p, box = (np.asarray(x) for x in (prepared.F_tilde, prepared.p, prepared.box_tilde))
    at_start, rows = prepared.space.at_start, []
    for mu in MUS:
        g = np.minimum(BETA * penalised_max(F, p, mu / BETA, box), 0.5)
        rows.append(mu / 4 + float(at_start(gather(prepared, g, g))))
    U = float(at_start(oracle.relaxed(prepared, jnp.asarray(BETA))[1][0]))
    T, N = variance_bound(prepared, BETA), likelihood_ratio_bound(prepared, BETA) / 4
    return {"Y0": Y0, "M": M, "T0": min(rows), "T": T, "N": N, "U": U}


def main() -> None:
    for episodes in EPISODES:
        rows = [numbers(seed, episodes) for seed in range(PROBLEMS)]
        print(
            f"{episodes} episodes, medians:",
            {x: round(float(np.median([r[x] for r in rows])), 4) for x in rows[0]},
        )
        for above, below in RATIOS:
            ratios = [row[above] / row[below] for row in rows]
            print(
                f"  {above}/{below}", " ".join(f"{np.quantile(ratios, q):.2f}" for q in QUANTILES), flush=True
            )


if __name__ == "__main__":
    main()
