"""The confidence set of a table whose laws are within a declared radius of one fixed table P*: docs/robust-tables.md.

At each visit of x = (s,a) the next state has some law Q with TV(Q, P*_x) <= zeta(x), which may depend on the past. Draw
with it a hidden state Y of law P*_x that differs with probability zeta(x) at most. The hidden states of a pair are
independent draws of P*_x, whatever is done. So

    KL(p_Y || P*_x) <= eps      for the hidden frequencies, on the successors seen and one more for all others,
    TV(p_hat, p_Y)  <= xi       the share of visits at which both differ,

and the next law is within zeta of P*_x again. With the span of v over the possible successors,

    Q v <= min(max v, [the largest p v of a ball eps around p_hat with mass xi moved to the top] + zeta span v).

V* is the best value over all policies, with memory, and the laws may depend on the whole past: all bounds are functions
of state and step.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from horizonfree.errors import OptionError
from horizonfree.guarantees.certificate import round_up
from horizonfree.mdp.events import Lift
from horizonfree.mdp.policies import is_allowed, redirect_forbidden
from horizonfree.mdp.space import Kernel, Space
from horizonfree.models.base import FORECAST_TIMES, Bounds, Confidence, Number, Policy, probabilities
from horizonfree.models.misspecification import Misspecification
from horizonfree.models.tabular.balls import Balls, highest_mean
from horizonfree.models.tabular.confidence import ETAS
from horizonfree.models.tabular.evidence import TabularEvidence, short_lists
from horizonfree.models.tabular.radius import ROUNDING_FACTOR, log_kt
from horizonfree.planning.induction import best_policy, policy_values

COINS = 0.1  # share of delta for the visits at which the hidden state differs; the rest is for the balls
BISECTIONS = 60
BLOCK_SIZE = 2**20  # numbers that are computed side by side


def regret(m: Float[np.ndarray, " X"], n: Float[np.ndarray, " X"]) -> Float[np.ndarray, " X"]:
    """By how much the mixture of Krichevsky and Trofimov may fall behind the frequencies: worst where all are alike."""
    return -log_kt(n[:, None], m)


def ball_radius(
    visits: Float[np.ndarray, " X"],
    seen: Float[np.ndarray, " X"],
    possible: Float[np.ndarray, " X"],
    L: float,
) -> Float[np.ndarray, " X"]:
    """eps: of all possible successors (weight 1/2), or of those seen and one for the rest (1/2 over all such sets)."""
    from scipy.special import gammaln  # loads slowly

    n = np.maximum(visits, 1.0)
    choices = gammaln(possible + 1) - gammaln(seen + 1) - gammaln(possible - seen + 1)
    some = np.log(np.maximum(possible - 1, 1)) + choices + regret(seen + 1, n)
    price = np.where(seen < possible, np.minimum(regret(possible, n), some), regret(possible, n))
    return np.where(visits > 0, (L + math.log(2) + price) / n, np.inf) * ROUNDING_FACTOR


def differing_share(
    visits: Float[np.ndarray, " X"], zeta: Float[np.ndarray, " X"], L: float
) -> Float[np.ndarray, " X"]:
    """xi: the largest share with n kl(xi, zeta) <= L + (log n)/2 + log 2; 0 where zeta is."""
    n = np.maximum(visits, 1.0)
    most = (L + np.log(n) / 2 + math.log(2)) / n
    low, high = zeta.copy(), np.ones_like(zeta)
    with np.errstate(all="ignore"):
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            rest = np.where(middle < 1, (1 - middle) * np.log((1 - middle) / (1 - zeta)), 0.0)
            is_inside = middle * np.log(middle / zeta) + rest <= most
            low, high = np.where(is_inside, middle, low), np.where(is_inside, high, middle)
    return np.where(zeta <= 0, 0.0, np.where((zeta >= 1) | (visits == 0), 1.0, high))


@dataclass(frozen=True, eq=False)
class Laws:
    """What may follow every pair: the balls around the frequencies, and the radii xi and zeta [S, A]."""

    space: Space
    balls: Balls
    xi: Float[np.ndarray, "S A"]
    zeta: Float[np.ndarray, "S A"]

    def largest(
        self, v: Float[np.ndarray, "k S"]
    ) -> tuple[Float[np.ndarray, "k S A"], Float[np.ndarray, "k S A"]]:
        """The largest P* v and the largest Q v of every pair, for k functions."""
        balls = self.balls
        top, least = balls.largest(self.space, v), -balls.largest(self.space, -v)
        at, xi = v[:, balls.succ], np.broadcast_to(self.xi, top.shape)
        prob = np.broadcast_to(balls.prob, at.shape)
        if self.xi.any():  # mass xi moves from the lowest values to the top, which has a slot of its own
            order = np.argsort(at, axis=-1, kind="stable")
            sorted_prob = np.take_along_axis(prob, order, -1)
            before = np.cumsum(sorted_prob, -1) - sorted_prob
            moved = np.clip(xi[..., None] - before, 0.0, sorted_prob)
            left = np.empty_like(sorted_prob)
            np.put_along_axis(left, order, sorted_prob - moved, -1)
            prob = np.concatenate([left, moved.sum(-1, keepdims=True)], -1)
            at = np.concatenate([at, top[..., None]], -1)
        mean = np.minimum(top, highest_mean(prob, np.broadcast_to(balls.eps, top.shape), at, top))
        return mean, np.minimum(top, mean + self.zeta * (top - least))

    def values(self, reward: Float[np.ndarray, "H S A"], policy: Policy) -> Float[np.ndarray, "4 S"]:
        """up, upi, lo, D of the first step: Theorem T2."""
        pi, is_choice = probabilities(policy, reward.shape[2]), is_allowed(self.space)
        left = np.cumsum(reward.max((1, 2))[::-1])[::-1]
        caps = np.minimum(1.0, np.append(left, 0.0))
        up, upi, lo, D = np.zeros((4, reward.shape[1]))
        for h in reversed(range(len(reward))):
            _, most = self.largest(np.stack([up, upi, -lo, D]))
            best = np.minimum(caps[h], reward[h] + most[0])
            high = np.minimum(caps[h], reward[h] + most[1])
            low = np.maximum(0.0, reward[h] - most[2])
            lo = (pi[h] * low).sum(-1)
            upi = (pi[h] * high).sum(-1)
            others = lo[:, None] - pi[h] * low  # of the policy's other actions
            apart = np.minimum(best, high + most[3])
            loss = pi[h] * most[3] + (1 - pi[h]) * apart - others
            up = best.max(-1)
            most_lost = np.where(is_choice, loss, 0.0).max(-1)
            D = np.clip(np.minimum(most_lost, up - lo), 0.0, caps[h])
        return np.stack([up, upi, lo, D])

    def eps(self) -> float:
        """What a plan that is optimal in the frequencies loses at most, for every reward: Theorem T3."""
        space, kernel = self.space, self.balls
        prob, succ = kernel.prob, kernel.succ
        radius = np.minimum(kernel.eps, 1e200)

        def sums(cost: Float[np.ndarray, "k S A"]) -> Float[np.ndarray, " k"]:
            c = np.zeros((len(cost), space.num_states))
            for _ in range(space.horizon - 1):
                c = np.minimum(1.0, cost + (prob * c[:, succ]).sum(-1)).max(-1)
            return np.asarray(space.at_start(c))

        Z = np.zeros(space.num_states)
        for _ in range(space.horizon - 1):
            Z = np.minimum(1.0, self.zeta + self.largest(Z[None])[0][0]).max(-1)
        apart = float(space.at_start(Z)) + float(sums(self.xi[None])[0])
        size = max(1, BLOCK_SIZE // prob.size)
        parts = [radius / (4 * ETAS[i : i + size, None, None]) + self.xi for i in range(0, len(ETAS), size)]
        c = np.concatenate([sums(part) for part in parts])
        return 2 * apart + (float((ETAS + 2 * c).min()) if c.any() else 0.0)

    def floor(self) -> float:
        """About eps of endless data: with eps = 0 and xi = zeta."""
        exact = replace(self.balls, eps=np.zeros_like(self.balls.eps))
        return replace(self, balls=exact, xi=self.zeta).eps()


@dataclass(frozen=True, eq=False)
class RobustTabularConfidence(Confidence):
    """The confidence set for radii zeta [S, A]. `kernel` holds the observed frequencies, which plans are made in.

    `seen`, `possible`: how many successors every unknown pair has shown, and can have.
    """

    space: Space
    kernel: Kernel
    eps: float
    delta: float
    is_refuted: bool
    laws: Laws
    pairs: Int[np.ndarray, "X 2"]
    visits: Float[np.ndarray, " X"]
    seen: Float[np.ndarray, " X"]
    possible: Float[np.ndarray, " X"]
    episodes: float
    impossible: int
    way: str = ""

    @property
    def largest(self) -> float:
        """The largest radius."""
        return float(self.laws.zeta.max())

    def bounds(self, reward: Float[np.ndarray, "H S A"], policy: Policy) -> Bounds:
        """By Theorems T2 and T3."""
        up, upi, lo, D = (float(self.space.at_start(x)) for x in self.laws.values(reward, policy))
        V, V_star = (
            float(self.space.at_start(x[0]))
            for x in (policy_values(self.kernel, reward, policy), best_policy(self.kernel, reward)[1])
        )
        gaps: dict[str, Number] = {
            "uniform": self.eps + max(V_star - V, 0.0),
            "interval": up - lo,
            "tangent": D,
        }
        return Bounds(V, lo, upi, gaps)

    def row_error(self) -> Float[np.ndarray, "S A"]:
        """How far P* may be from the frequencies, in total variation."""
        return np.asarray(np.sqrt(self.laws.balls.eps / 2) + self.laws.xi)

    def lifted(self, lift: Lift) -> "RobustTabularConfidence":
        """The same laws: a lifted pair has that of the pair which it lifts, and they may depend on the past anyway."""
        own = self.laws
        laws = Laws(lift.space, own.balls.lifted(lift), lift.of(own.xi), lift.of(own.zeta))
        kernel = lift.kernel(self.kernel)
        layout = {key: x for key, x in self.layout.items() if key != "states"}
        return replace(self, space=lift.space, kernel=kernel, laws=laws, eps=laws.eps(), layout=layout)

    def parts(self) -> dict[str, float]:
        """The radii, and what is known of the pairs."""
        return {
            "zeta": self.largest,
            "zeta_low": 0.0,
            "floor": min(1.0, self.laws.floor()),
            "episodes": float(self.episodes),
            "pairs": float(len(self.pairs)),
            "known": float((self.visits > 0).sum()),
            **({"least": float(self.visits.min())} if len(self.pairs) else {}),
        }

    def condition(self) -> str:
        """What the certificate assumes of the radii."""
        within = f"{round_up(self.largest):.3g}"
        if self.way:
            within = f"a divergence of {round_up(2 * self.largest**2):.3g} ({self.way})"
        elif len(self.pairs) and np.ptp(self.laws.zeta[tuple(self.pairs.T)]) > 0:
            within = f"its radius, {within} at most,"
        return f", if every transition law is within {within} of one and the same table"

    def refutation(self) -> str:
        """Transitions outside the support."""
        return f"{self.impossible} transitions are impossible for every parameter"

    def missing(self) -> str:
        """What keeps a vacuous certificate from saying something."""
        if self.laws.floor() >= 1:
            return (
                f"with laws within {round_up(self.largest):.3g} of a table no number of episodes gives a gap for every "
                "reward; plan for one reward, or declare a smaller misspecification"
            )
        unknown = int((self.visits == 0).sum())
        least = f"; nothing is known of {unknown} of {len(self.pairs)} pairs" if unknown else ""
        return f"more episodes help, down to a gap of about {round_up(self.laws.floor()):.3g}{least}"

    def more_episodes(self, target: float) -> float:
        """From `after`; infinite where no forecast reaches the target."""
        for times in FORECAST_TIMES[::4]:
            later, episodes = self.after(times)
            if later.eps <= target:
                return float(math.ceil(episodes))
        return math.inf

    def after(self, times: float) -> tuple["RobustTabularConfidence", float]:
        """eps and xi of so many times the visits."""
        visits = self.visits * times
        laws = _laws(self.space, self.laws, self.pairs, (visits, self.seen, self.possible), self.delta)
        later = replace(self, laws=laws, eps=laws.eps(), visits=visits, episodes=self.episodes * times)
        return later, self.episodes * (times - 1)


def _laws(
    space: Space,
    laws: Laws,
    pairs: Int[np.ndarray, "X 2"],
    numbers: tuple[Float[np.ndarray, " X"], Float[np.ndarray, " X"], Float[np.ndarray, " X"]],
    delta: float,
) -> Laws:
    """The laws with eps and xi of these numbers of visits, and of successors seen and possible."""
    visits, seen, possible = numbers
    s, a = pairs.T
    X = max(1, len(pairs))

    def on_pairs(x: np.ndarray) -> np.ndarray:
        table = np.zeros(space.sizes[1:])
        table[s, a] = x
        return np.asarray(redirect_forbidden(space.acts, table))

    eps = ball_radius(visits, seen, possible, math.log(X / ((1 - COINS) * delta)))
    xi = differing_share(visits, laws.zeta[s, a], math.log(X / (COINS * delta)))
    return replace(laws, balls=replace(laws.balls, eps=on_pairs(eps)), xi=on_pairs(xi))


def robust_confidence(
    space: Space,
    pairs: Int[np.ndarray, "X 2"],
    evidence: TabularEvidence,
    delta: float,
    is_support_known: bool,
) -> Callable[[Misspecification], RobustTabularConfidence]:
    """The confidence of the evidence for any radii."""
    listed = short_lists(space, evidence)
    s, a = pairs.T
    counts = np.where(listed.is_listed, listed.counts, 0).astype(float)
    counts = redirect_forbidden(space.acts, counts)
    n = counts.sum(-1, keepdims=True)
    even = listed.is_listed / listed.is_listed.sum(-1, keepdims=True)
    is_pair = np.zeros(space.sizes[1:], bool)
    is_pair[s, a] = True
    is_pair = redirect_forbidden(space.acts, is_pair)
    frequencies = np.where(is_pair[..., None], counts / np.maximum(n, 1.0), even)
    numbers = (
        n[s, a, 0],
        (counts[s, a] > 0).sum(-1).astype(float),
        np.asarray(space.support)[s, a].sum(-1).astype(float),
    )
    is_open = np.zeros(space.sizes[1:], bool)
    is_open[s, a] = numbers[1] < numbers[2]
    succ = redirect_forbidden(space.acts, listed.succ)
    is_dense = space.is_dense and succ.shape == space.succ.shape
    balls = Balls(
        succ,
        frequencies,
        np.zeros(space.sizes[1:]),
        redirect_forbidden(space.acts, is_open),
        not is_support_known,
    )

    def within(declared: Misspecification) -> RobustTabularConfidence:
        if declared.support == "anywhere":
            raise OptionError(
                "support='anywhere' is for mixtures; a table says itself which states may follow: leave support= out"
            )
        zeta = np.where(is_pair, redirect_forbidden(space.acts, declared.radii(*space.sizes[1:])), 0.0)
        laws = Laws(space, balls, np.zeros_like(zeta), zeta)
        laws = _laws(space, laws, pairs, numbers, delta)
        return RobustTabularConfidence(
            space=space,
            kernel=Kernel(succ, frequencies, is_dense),
            eps=laws.eps(),
            delta=delta,
            is_refuted=bool(evidence.impossible > 0),
            laws=laws,
            pairs=pairs,
            visits=numbers[0],
            seen=numbers[1],
            possible=numbers[2],
            episodes=float(evidence.episodes),
            impossible=int(evidence.impossible),
            way=declared.way(),
        )

    return within
