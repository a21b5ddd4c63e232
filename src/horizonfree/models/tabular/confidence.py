"""What the evidence of a table says at confidence 1 - delta: a ball around the frequencies of every unknown pair."""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array
from horizonfree._x64 import Leaf, leaf
from horizonfree.mdp.space import Kernel, Space
from horizonfree.models.interface import Confidence
from horizonfree.models.tabular import radius
from horizonfree.models.tabular.balls import Balls
from horizonfree.models.tabular.evidence import Seen
from horizonfree.models.tabular.uniform import Uniform, uniform

TYPICAL = 14.0  # n eps of a pair that has been seen often
FINITE = 1e100  # a larger kappa stands for infinity


class TabularConfidence(eqx.Module, Confidence):
    """`kernel` holds the observed frequencies. Rows of pairs that were never visited are zero: nothing is earned there.

    The centres of the balls leave out rarely seen successors (Lemma 3). `eps` is proved for plans in the centres.
    """

    kernel: Kernel
    eps: Float[Leaf, ""]
    delta: Float[Leaf, ""]
    is_refuted: Bool[Leaf, ""]
    balls: Balls
    uniform: Uniform
    pairs: Int[Leaf, "X 2"]
    visits: Int[Leaf, " X"]
    episodes: Int[Leaf, ""]
    impossible: Int[Leaf, ""]

    @property
    def centre(self) -> Kernel:
        """The centres of the balls."""
        return Kernel(self.balls.succ, self.balls.prob, self.kernel.is_dense)

    def parts(self) -> dict[str, float]:
        """kappa only where it says something."""
        kappa = float(self.uniform.kappa)
        return {
            "episodes": float(self.episodes),
            "pairs": float(len(self.pairs)),
            "known": float(np.isfinite(self._radii()).sum()),
            **({"least": float(self.visits.min())} if len(self.pairs) else {}),
            **({"kappa": kappa} if kappa < FINITE else {}),
        }

    def refutation(self) -> str:
        """Transitions outside the support."""
        return f"{int(self.impossible)} transitions are impossible for every parameter"

    def missing(self) -> str:
        """Pairs of which nothing is known, or just more episodes."""
        X = len(self.pairs)
        if not X:
            return "nothing is unknown, and more episodes do not help"
        least = int(np.argmin(self.visits))
        s, a = np.asarray(self.pairs)[least]
        seen = f"the least seen of {X} unknown pairs (s,a) is ({s}, {a}), {int(self.visits[least])} times"
        enough = float(f"{self.needed(0.5):.2g}")
        wanted = f"a gap of 0.5 needs about {enough:,.0f} well-chosen episodes in all"
        unknown = int((~np.isfinite(self._radii())).sum())
        return (
            f"nothing is known of {unknown} of {X} pairs; {seen}; {wanted}"
            if unknown
            else f"{seen}; {wanted}"
        )

    def needed(self, target: float) -> float:
        """2 (n eps) X / target^2: episodes of the best design for a gap, with the n eps of the pairs so far."""
        eps = self._radii()
        is_known = np.isfinite(eps)
        n_eps = (np.asarray(self.visits)[is_known] * eps[is_known]).tolist() or [TYPICAL]
        return 2 * float(np.median(n_eps)) * len(self.pairs) / target**2

    def more_episodes(self, target: float) -> float:
        """kappa falls like 1/episodes; where it says nothing, what the best design needs in all, less those seen."""
        kappa, seen = float(self.uniform.kappa), int(self.episodes)
        if float(self.eps) <= target:
            return 0.0
        if kappa < FINITE:
            wanted = -math.log1p(-(target**2)) / 2
            return max(0.0, math.ceil(seen * (kappa / wanted - 1)))
        return max(0.0, math.ceil(self.needed(target) - seen))

    def after(self, times: float) -> tuple["TabularConfidence", float]:
        """Balls shrink like 1/times; pairs of which nothing is known stay so."""
        kappa, pinsker = float(self.uniform.kappa) / times, float(self.uniform.pinsker) / math.sqrt(times)
        found = [pinsker, math.sqrt(-math.expm1(-2 * kappa)), kappa]
        shrunk = eqx.tree_at(
            lambda x: (x.balls.eps, x.uniform, x.eps),
            self,
            (
                leaf(np.asarray(self.balls.eps) / times),
                Uniform(*(leaf(np.asarray(x)) for x in found)),
                leaf(np.asarray(min(found[:2]))),
            ),
        )
        return shrunk, int(self.episodes) * (times - 1)

    def _radii(self) -> Float[np.ndarray, " X"]:
        """eps of the unknown pairs."""
        s, a = np.asarray(self.pairs).T
        radii: np.ndarray = np.asarray(self.balls.eps)[s, a]
        return radii


def confidence(
    space: Space, pairs: Int[Array, "X 2"], seen: Seen, delta: Float[Array, ""], is_support_known: bool
) -> TabularConfidence:
    """The balls of all unknown pairs and the gap for every reward; traceable."""
    s, a = pairs.T
    N = seen.counts[s, a]
    possible = space.support[s, a].sum(-1)
    ball = radius.balls(N.astype(jnp.float64), possible, radius.level(len(pairs), delta), is_support_known)
    even = seen.is_listed / seen.is_listed.sum(-1, keepdims=True)
    nowhere = jnp.zeros(space.succ.shape[:2])

    def each(x: Array) -> Array:
        """Forbidden actions have what is done for them."""
        return x if space.acts is None else x[jnp.arange(len(x))[:, None], space.acts]

    balls = Balls(
        succ=each(jnp.asarray(seen.succ)),
        prob=each(
            even.at[s, a].set(ball.centre)
        ),  # rows with one possible successor, or out of reach, are even
        eps=each(nowhere.at[s, a].set(ball.eps)),
        is_open=each(jnp.zeros_like(nowhere, bool).at[s, a].set(~ball.is_complete)),
        is_anywhere=not is_support_known,
    )
    is_full = seen.succ.shape == space.succ.shape
    is_dense = space.is_dense and is_full
    frequencies = each(even.at[s, a].set(N / jnp.maximum(N.sum(-1, keepdims=True), 1)))
    found = uniform(space, Kernel(balls.succ, balls.prob, is_dense), balls.eps)
    return TabularConfidence(
        kernel=Kernel(balls.succ, frequencies, is_dense),
        eps=found.gap(),
        delta=delta,
        is_refuted=seen.impossible > 0,
        balls=balls,
        uniform=found,
        pairs=jnp.asarray(pairs),
        visits=N.sum(-1),
        episodes=seen.episodes,
        impossible=seen.impossible,
    )
