"""What the evidence of a linear MDP says at confidence 1 - delta: the best of its bets.

On one event of probability 1 - delta, for every bet j with weight w_j and at all times, the lemma of widths.py holds

    for all V at once, at L = (S-1) log 2 + log(1 / (delta' w_j)),
    and for V*_2..V*_H of each of F declared rewards, at L = log(2 (H-1) F / (delta w_j)),

delta' = delta, or delta/2 where rewards were declared. The bet with the smallest uniform gap is kept.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array
from horizonfree._x64 import Leaf, leaf
from horizonfree.guarantees.certificate import at_most_of
from horizonfree.mdp.space import Kernel, Space
from horizonfree.models.interface import Confidence
from horizonfree.models.linear.evidence import Evidence
from horizonfree.models.linear.misfit import contradictions
from horizonfree.models.linear.uniform import misjudged
from horizonfree.models.linear.widths import Fit, fit, level_of_all, level_of_some

DRIFT = 0.69, 0.8  # a rule of thumb for the uniform gap of well-chosen episodes (`needed`)


class LinearConfidence(eqx.Module, Confidence):
    """P~ of one bet is the kernel to plan with; what else of its `Fit` the bounds need is here.

    `beta_all` is that of all V, `beta_declared` that of declared rewards; `misfits` pairs that speak against the class.
    """

    kernel: Kernel
    eps: Float[Leaf, ""]
    delta: Float[Leaf, ""]
    is_refuted: Bool[Leaf, ""]
    X: Float[Leaf, "S A d"]
    e: Float[Leaf, "S A"]
    is_bad: Bool[Leaf, "S A"]
    logdet: Float[Leaf, ""]
    beta_all: Float[Leaf, ""]
    beta_declared: Float[Leaf, ""]
    bet: Int[Leaf, ""]
    starts: Int[Leaf, " J"]
    misfits: Int[Leaf, ""]
    episodes: Int[Leaf, ""]
    impossible: Int[Leaf, ""]
    horizon: int = eqx.field(static=True)

    @property
    def width(self) -> Float[np.ndarray, "S A"]:
        """How far a row of the kernel may be from the truth, in total variation; on the host."""
        n = np.linalg.norm(np.asarray(self.X), axis=-1)
        found = np.minimum(1.0, float(self.beta_all) * n + np.asarray(self.e))
        return np.where(np.asarray(self.is_bad), 1.0, found)

    def parts(self) -> dict[str, float]:
        """Of the bet that was chosen."""
        S, A, d = self.X.shape
        return {
            "start": float(self.starts[self.bet]),
            "episodes": float(self.episodes),
            "features": float(d),
            "pairs": float(S * A),
            "known": float(S * A - np.asarray(self.is_bad).sum()),
            "width": float(self.width.max()),
            "beta": float(self.beta_all),
        }

    def refutation(self) -> str:
        """Pairs that do not go as their features say."""
        if self.impossible > 0:
            return f"{int(self.impossible)} transitions are impossible for every parameter"
        surely = f"(wrong with probability {at_most_of(float(self.delta))} at most)"
        if self.misfits > 0:
            return f"{int(self.misfits)} pairs (s,a) do not go as these features allow {surely}"
        return f"no linear MDP with these features explains the data {surely}"

    def missing(self) -> str:
        """Pairs outside of what the bet has seen, or just more episodes."""
        bad, pairs = np.argwhere(np.asarray(self.is_bad)), self.is_bad.size
        enough = float(f"{self.needed(0.5):.2g}")
        wanted = f"a gap of 0.5 for every reward needs about {enough:,.0f} well-chosen episodes in all"
        if len(bad):
            s, a = bad[0]
            return (
                f"nothing is known of {len(bad)} of {pairs} pairs (s,a), as nothing like them was seen; the first is "
                f"({s}, {a}); {wanted}"
            )
        s, a = np.unravel_index(int(self.width.argmax()), self.width.shape)
        return f"the least known of {pairs} pairs (s,a) is ({s}, {a}), up to {self.width.max():.2g}; {wanted}"

    def needed(self, target: float) -> float:
        """4 (.69) (S log 2 + .8 d + log(1/delta)) (H-1) d / target^2: what the best design takes, roughly."""
        S, _, d = self.X.shape
        share, per_feature = DRIFT
        level = S * math.log(2) + per_feature * d - math.log(float(self.delta))
        return 4 * share * level * max(self.horizon - 1, 1) * d / target**2

    def more_episodes(self, target: float) -> float:
        """The gap falls like 1/sqrt(episodes); where it says nothing, what the best design needs, less those seen."""
        eps, seen = float(self.eps), int(self.episodes)
        if eps <= target:
            return 0.0
        if eps < 1:
            used = seen - int(self.starts[self.bet])
            return float(math.ceil(used * ((eps / target) ** 2 - 1)))
        return max(0.0, math.ceil(self.needed(target) - seen))

    def after(self, times: float) -> tuple["LinearConfidence", float]:
        """Widths shrink like 1/sqrt(times); pairs of which nothing is known stay so, and a gap that says nothing."""
        root, eps = math.sqrt(times), float(self.eps)
        X, e = (leaf(np.asarray(x) / root) for x in (self.X, self.e))
        later = leaf(np.asarray(eps / root if eps < 1 else eps))
        shrunk = eqx.tree_at(lambda x: (x.X, x.e, x.eps), self, (X, e, later))
        used = int(self.episodes) - int(self.starts[self.bet])
        return shrunk, used * (times - 1)


def confidence(
    space: Space,
    phi: Float[Array, "S A d"],
    white: Float[Array, "d d"],
    num_declared: int,
    evidence: Evidence,
    delta: Float[Array, ""],
) -> LinearConfidence:
    """The confidence of the evidence, with the bet that gives the smallest uniform gap; traceable."""
    S = phi.shape[0]
    part = delta / 2 if num_declared else delta
    L_all = level_of_all(S, part * evidence.weights)
    L_some = level_of_some((space.horizon - 1) * num_declared, delta / 2 * evidence.weights)

    def of(j: Array) -> Fit:
        V0, C0 = evidence.gram_at[j], evidence.cross_at[j]
        return fit(phi, white, V0, evidence.gram - V0, evidence.cross - C0, evidence.episodes + space.horizon)

    def one(j: Array) -> tuple[Array, Array]:
        found = of(j)
        beta = found.beta(L_all[j])
        eps = jnp.minimum(1.0, 2 * misjudged(space, space.kernel(found.prob), found.width(beta)))
        wide = found.beta(L_some[j] if num_declared else L_all[j]) * found.n + found.e
        # a gap of 1 says nothing: then the bet that knows the rows best, for the declared rewards if there are any
        return jnp.where(eps < 1, eps, 1 + jnp.where(found.is_bad, 1.0, wide / (1 + wide)).mean()), eps

    scores, gaps = jax.lax.map(one, jnp.arange(len(evidence.starts)))
    best = smallest(scores)
    found = of(best)
    beta = found.beta(level_of_all(S, delta / 2 * evidence.weights[best]))
    misfits: Array = contradictions(found, beta, evidence.counts, delta).sum(dtype=jnp.int32)
    return LinearConfidence(
        kernel=space.kernel(found.prob),
        eps=gaps[best],
        delta=delta,
        is_refuted=(evidence.impossible > 0) | (misfits > 0),
        X=found.X,
        e=found.e,
        is_bad=found.is_bad,
        logdet=found.logdet,
        beta_all=found.beta(L_all[best]),
        beta_declared=found.beta(L_some[best]),
        bet=best,
        starts=evidence.starts,
        misfits=misfits,
        episodes=evidence.episodes,
        impossible=evidence.impossible,
        horizon=space.horizon,
    )


def smallest(x: Float[Array, " n"]) -> Int[Array, ""]:
    """Where the smallest number is; what could not be computed never is it; traceable."""
    return jnp.argmin(jnp.where(jnp.isnan(x), jnp.inf, x))
