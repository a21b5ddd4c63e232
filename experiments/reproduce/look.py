"""What is asked of a run by someone who knows the truth: gaps over a fixed set of rewards, an adversary, own claims.

The rewards have totals of at most 1: to be in a state at the end, to stay in it (both for every state), random dense
ones, random sparse ones (a set of states at one step), and what a hill-climb finds: sets of states, at one step or at
every one, changed state by state as long as the plan loses more. Plans are made in the maximum-likelihood model and, as
`own`, by the explorer itself. Everything is compiled by JAX: no plan needs another library.
"""

from functools import lru_cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import horizonfree as hf
from horizonfree._x64 import to_device, x64
from horizonfree.estimators.projection import least_squares
from horizonfree.explorers.hf_ucrl_rfe import HAT, HFUCRLRFE, TILDE
from horizonfree.planning.traced import evaluate_jax, optimal_jax

RANDOM = 16  # rewards of each random kind
CHAINS, MOVES = 8, 60  # of the adversary


@lru_cache(4)
def suite(problem) -> dict[str, np.ndarray]:
    """The rewards by their kinds; the same for every run on a problem."""
    H, S, A = problem.space.sizes
    rng = np.random.default_rng(0)
    sparse = np.zeros((RANDOM, H, S, A))
    for table in sparse:
        table[rng.integers(H), rng.random(S) < 0.5] = 1.0
    return {
        "goals": np.stack([hf.goal(problem, s) for s in range(S)]),
        "occupancies": np.stack([hf.occupancy(problem, s) for s in range(S)]),
        "dense": rng.random((RANDOM, H, S, A)) / H,
        "sparse": sparse,
    }


def _loss(space, truth, plan, reward):
    """What the plan of a reward loses."""
    _, V = optimal_jax(truth, reward)
    return space.at_start(V[0] - evaluate_jax(truth, reward, plan(reward))[0])


@eqx.filter_jit
def _losses(space, truth, kernel, rewards):
    return jax.vmap(lambda r: _loss(space, truth, lambda x: optimal_jax(kernel, x)[0], r))(rewards)


@eqx.filter_jit
def _own_losses(space, truth, explorer, model, state, evidence, rewards):
    def plan(reward):
        return explorer.plan(model, state, evidence, reward).policy

    return jax.vmap(lambda r: _loss(space, truth, plan, r))(rewards)


@eqx.filter_jit
def _climb(key, space, truth, kernel):
    """The largest loss that the adversary finds: half of its chains reward one step, half reward every step."""
    H, S, A = space.sizes
    is_spread = jnp.arange(CHAINS) % 2 == 0

    def table(step, chosen, spread):
        weight = jnp.where(spread, 1 / H, (jnp.arange(H) == step).astype(float))
        return jnp.broadcast_to(weight[:, None, None] * chosen[:, None], (H, S, A))

    def loss(step, chosen, spread):
        reward = table(step, chosen, spread)
        return _loss(space, truth, lambda x: optimal_jax(kernel, x)[0], reward)

    def move(now, key):
        step, chosen, best = now
        key_state, key_step, key_kind = jax.random.split(key, 3)
        turned = chosen ^ (jnp.arange(S) == jax.random.randint(key_state, (), 0, S))
        other = jax.random.randint(key_step, (), 0, H)
        is_step = jax.random.bernoulli(key_kind, 0.25)
        return jnp.where(is_step, other, step), jnp.where(is_step, chosen, turned), best

    def climb(key, spread):
        key_set, key_moves = jax.random.split(key)
        chosen = jax.random.bernoulli(key_set, 0.5, (S,))
        start = jnp.asarray(H - 1), chosen, loss(jnp.asarray(H - 1), chosen, spread)

        def body(now, key):
            step, chosen, best = move(now, key)
            found = loss(step, chosen, spread)
            return jax.tree.map(lambda x, y: jnp.where(found > best, x, y), (step, chosen, found), now), None

        (_, _, best), _ = jax.lax.scan(body, start, jax.random.split(key_moves, MOVES))
        return best

    return jax.vmap(climb)(jax.random.split(key, CHAINS), is_spread).max()


@eqx.filter_jit
def _centers(explorer, model, ridge):
    """theta of the regression on V alone, of that on V_hat alone, and of both."""
    alone = [least_squares(model.valid, ridge.Sigma[f, 0], ridge.b[f, 0]) for f in (TILDE, HAT)]
    return [*alone, explorer.center(model, ridge)]


class Look:
    """The numbers of a run. `wanted`: parts of {"gap", "own_gap", "adversary", "claim", "families"}."""

    def __init__(self, problem, wanted, last: int, delta: float) -> None:
        self.wanted, self.last, self.delta = set(wanted), last, delta
        kinds = suite(problem) if {"gap", "own_gap", "families"} & self.wanted else {}
        self.names = [kind for kind, tables in kinds.items() for _ in tables]
        self.rewards = np.concatenate(list(kinds.values())) if kinds else None

    def __call__(self, run) -> dict[str, float]:
        with jax.default_device(jax.devices("cpu")[0]):  # one run at a time: nothing for a GPU
            return self._numbers(run)

    @x64
    def _numbers(self, run) -> dict[str, float]:
        problem, found = run.problem, {}
        space, truth, model = to_device((problem.space, problem.kernel(), problem.model))
        is_last = run.episodes == self.last
        if "gap" in self.wanted:
            kernel = to_device(run.confidence(self.delta).kernel)
            lost = np.asarray(_losses(space, truth, kernel, self.rewards))
            found |= {f"gap_{kind}": self._worst(lost, kind) for kind in dict.fromkeys(self.names)}
            found["gap"] = float(lost.max())
            if "adversary" in self.wanted:
                key = jax.random.key(run.seed)
                climbed = float(_climb(key, space, truth, kernel)) if is_last else np.nan
                found |= {"gap_adversary": climbed, "gap_any": max(found["gap"], climbed)}
        if "own_gap" in self.wanted:
            state, evidence = to_device((run.progress.state, run.progress.evidence))
            given = space, truth, run.explorer, model, state, evidence, self.rewards
            found["own_gap"] = float(np.asarray(_own_losses(*given)).max())
        if "claim" in self.wanted:
            found |= self._claim(run, is_last)
        if "families" in self.wanted:
            found |= self._families(run, space, truth, model)
        return found

    def _worst(self, lost: np.ndarray, kind: str) -> float:
        return float(max(x for x, name in zip(lost, self.names) if name == kind))

    def _claim(self, run, is_last: bool) -> dict[str, float]:
        """The explorer's own guarantee; that of hf-ucrl-rfe++ takes seconds, so only at the end."""
        is_slow = isinstance(run.explorer, HFUCRLRFE)
        claim = None
        if is_last or not is_slow:
            claim = run.explorer.claim(run.problem.model, run.progress.state)
        parts = {} if claim is None else claim.parts
        return {
            "claim": np.nan if claim is None else claim.eps,
            "total_variance": parts.get("total_variance", np.nan),
            "V_hat_best": parts.get("V_hat", np.nan),
            "U_best": parts.get("relaxed", np.nan),
        }

    def _families(self, run, space, truth, model) -> dict[str, float]:
        """Losses of plans in the estimate of one family of regressions, and of both."""
        ridge = getattr(run.progress.state, "ridge", None)
        if not isinstance(run.explorer, HFUCRLRFE) or ridge is None:
            return {"gap_tilde": np.nan, "gap_hat": np.nan, "gap_both": np.nan}
        thetas = _centers(run.explorer, model, to_device(ridge))
        lost = [float(_losses(space, truth, model.kernel(x), self.rewards).max()) for x in thetas]
        return dict(zip(("gap_tilde", "gap_hat", "gap_both"), lost))
