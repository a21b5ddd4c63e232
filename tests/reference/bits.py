"""All that a small exploration says, as one fingerprint; as a script, in a process with settings of JAX changed."""

import ast
import hashlib
import sys

import jax
import numpy as np

import horizonfree as hf

FIRST, MORE = 6, 3  # episodes before and after the run is taken up again
BUDGET = 20  # episodes of a log, and those declared of a run: all are certified by one program


def fingerprint(*trees: object) -> str:
    """The SHA-256 of every array's type, shape and bits."""
    digest = hashlib.sha256()
    for x in jax.tree.leaves(trees):
        array = np.asarray(x)
        digest.update(f"{array.dtype} {array.shape} ".encode() + array.tobytes())
    return digest.hexdigest()


def make_problem() -> hf.Problem:
    """From a random first state: every kind of number is drawn."""
    kernels = np.random.default_rng(0).dirichlet(np.ones(3), (2, 3, 2))
    return hf.Mixture.from_kernels(kernels, horizon=3, start=[0.5, 0.25, 0.25], weights=[0.5, 0.5])


def explored_run() -> hf.Run:
    return hf.explore(make_problem(), "optimal-design", episodes=FIRST, budget=BUDGET, seed=3, progress=False)


def resumed(run: hf.Run) -> hf.Run:
    return run.resume(episodes=MORE, progress=False)


def run_of_random_start() -> hf.Run:
    """Random actions."""
    return hf.explore(make_problem(), "uniform", episodes=FIRST, budget=BUDGET, seed=2**40, progress=False)


def of_run(run: hf.Run) -> str:
    """Progress, records, certificate and plans of a run."""
    plan, evaluation = (
        run.plan(hf.goal(run.problem, 2), model=model, scale="per-step")
        for model in ("likelihood", "explorer")
    )
    certificate = run.certificate()
    numbers = [
        certificate.eps,
        *certificate.parts.values(),
        plan.value,
        plan.gap,
        evaluation.value,
        evaluation.gap,
    ]
    return fingerprint(
        run.progress, dict(run.records), run.theta_hat, plan.policy, evaluation.policy, numbers
    )


def simulated() -> str:
    problem = make_problem()
    H, S, A = problem.space.sizes
    episodes = hf.simulate(problem, np.full((H, S, A), 1 / A), episodes=BUDGET, seed=5)
    logged = hf.certify(problem, episodes, budget=BUDGET)
    gap = hf.true_gap(problem, hf.goal(problem, 2), np.ones((H, S), int))
    return fingerprint(episodes, logged.eps, dict(logged.parts), gap)


def fingerprint_of_batch() -> str:
    """From a fixed first state."""
    problem = hf.make("river-swim", states=4, horizon=3)
    batch = hf.explore_many(problem, "uniform", episodes=3, seeds=2, checkpoints=[3], progress=False)
    return fingerprint(batch.progress, dict(batch.records), dict(batch.curves))


def all_fingerprints() -> dict[str, str]:
    """What each part of the library says."""
    run = explored_run()
    return {
        "explored": of_run(run),
        "resumed": of_run(resumed(run)),
        "drawn": of_run(run_of_random_start()),
        "simulated": simulated(),
        "several": fingerprint_of_batch(),
    }


if __name__ == "__main__":
    cache, settings = sys.argv[1:]
    jax.config.update("jax_compilation_cache_dir", cache)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    for name, value in ast.literal_eval(settings).items():
        jax.config.update(name, value)
    jax_settings = dict(jax.config.values)
    print(all_fingerprints())
    assert dict(jax.config.values) == jax_settings, "the library has changed a setting of JAX"
