"""How far are the bounds from the ascent on a real run? Prints one line per (episodes, radius).

    python experiments/oracle_quality/bounds.py

The covariances and the model are those that HF-UCRL-RFE++ holds after K episodes on the 8x8 zoned grid.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

import horizonfree as hf
from horizonfree import oracle
from horizonfree._x64 import to_device

TILDE, HAT = 0, 1


@jax.jit
def bounds(prepared_model, beta):
    """Raw value of 3 x 60 sweeps, W and U."""
    H, S = prepared_model.space.horizon, prepared_model.space.num_states
    warm = oracle.Point(jnp.zeros((H, S), jnp.int32), jnp.int32(H - 1), jnp.ones(S, bool))
    ascent = oracle.ascent(jax.random.key(0), prepared_model, beta, beta, warm, chains=3, sweeps=60)
    return ascent.raw, ascent.upper, prepared_model.space.at_start(oracle.relaxed(prepared_model, beta)[1][0])


def main() -> None:
    problem = hf.make("zoned-grid", size=8, zones=4, horizon=20)
    options = {"constants": "scaled", "scale": 1.0, "bias_scale": 0.0, "moment_orders": 4}
    for K in (30, 100, 300):
        run = hf.explore(problem, explorer="hf-ucrl-rfe++", episodes=K, seed=0, **options)
        state = run.progress.state
        with jax.enable_x64(True):
            inverses = (jnp.asarray(state.ridge.Sigma_inv[i, 0]) for i in (TILDE, HAT))
            full = oracle.prepare(to_device(problem.model), jnp.asarray(state.last.theta), *inverses)
            free = eqx.tree_at(lambda x: (x.F_hat, x.box_hat), full, (0 * full.F_hat, 0 * full.box_hat))
            for beta in (0.1, 0.03):
                raw, W, U = bounds(full, beta)
                raw_free, W_free, _ = bounds(free, beta)
                variance_bound, variance_bound_free = (
                    oracle.total_variance_bound(x, beta) for x in (full, free)
                )
                print(
                    f"K={K} beta={beta}: value {raw:.4f}, over it W {W / raw:.2f}, U {U / raw:.2f}, "
                    f"total variance {variance_bound / raw:.2f}; hat-free {raw_free:.4f}, W {W_free / raw_free:.2f}, "
                    f"total variance {variance_bound_free / raw_free:.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
