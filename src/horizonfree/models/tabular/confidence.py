"""The confidence set of a tabular MDP: a KL ball around the observed frequencies of every unknown pair.

The balls bound what plans lose, for every reward at once. Trajectories of the centre diverge from those of the truth by
KL <= E sum_{h<H} eps (guarantees/divergence.py), and one may leave the comparison anywhere at the price of the
probability to get there. A row whose centre is a point mass (`is_point`) can instead be compared by what it misses:
mass 1 - exp(-eps), without a square root. For every eta > 0

    c_h(s) = max_a min(1, cost(s,a) + sum p_hat c_{h+1}),           suboptimality <= eta + 2 c_1,
    cost = eps/(4 eta), or min(eps/(4 eta), 1 - exp(-eps)) at point masses,

where the minimum leaves exactly where that is cheaper; and suboptimality <= sqrt(1 - exp(-2 kappa)) without
leaving. With cost = 0 at point masses, c of the other rows, and `leak`, the largest probability of any trajectory
of the centre to meet another successor at one of them,

    suboptimality <= leak + eta + 2 c_1.

The last transition touches no reward. docs/tabular.md, section 4, has the proofs.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from horizonfree.mdp.events import Lift
from horizonfree.mdp.names import name_of
from horizonfree.mdp.policies import redirect_forbidden
from horizonfree.mdp.space import Kernel, Space
from horizonfree.models.base import Bounds, Confidence, Number, Policy
from horizonfree.models.tabular import radius
from horizonfree.models.tabular.balls import Balls, entry_intervals
from horizonfree.models.tabular.bounds import Expansion, Values
from horizonfree.models.tabular.evidence import ListedCounts, TabularEvidence, short_lists
from horizonfree.models.tabular.joint import Joint, along_paths, joint, no_joint, own_leak
from horizonfree.planning.induction import occupancy_measure

ETAS = np.geomspace(2e-3, 0.6, 30)
LARGE_NUMBER = 1e200  # in place of infinity, which zero probabilities would turn into no number
HALF_KNOWN = 1.0  # a point mass with a larger eps counts as one of the other rows
BLOCK_SIZE = 2**17  # numbers that are computed side by side: about as many as fit into the cache of a core


@dataclass(frozen=True)
class Uniform:
    """Three bounds on the loss of a plan that is optimal in the centre, and kappa; enormous where too little is known.

    The third is leak + rest: what the point masses cost, and the other rows.
    """

    pinsker: float
    hellinger: float
    kappa: float
    leak: float
    rest: float

    def gap(self, regret: float = 0.0) -> float:
        """The smallest, for a plan with this regret in the centre; not capped at 1."""
        return min(self.pinsker + regret, self.hellinger + 2 * regret, self.leak + self.rest + regret)


def point_masses(kernel: Kernel, eps: Float[np.ndarray, "S A"]) -> Bool[np.ndarray, "S A"]:
    """Unknown rows of which something is known and whose centre has one successor."""
    return np.asarray(((kernel.prob > 0).sum(-1) == 1) & (eps > 0) & np.isfinite(eps))


def uniform(space: Space, kernel: Kernel, eps: Float[np.ndarray, "S A"], joint: Joint) -> Uniform:
    """The gap for every reward."""
    is_point, is_stop = point_masses(kernel, eps), ~np.isfinite(eps)
    eps = np.minimum(eps, LARGE_NUMBER / space.horizon)
    scaled = eps / (4 * ETAS[:, None, None])
    c = _largest_sums(space, kernel, np.where(is_point, np.minimum(scaled, -np.expm1(-eps)), scaled), 1.0)
    pinsker = float((ETAS + 2 * c).min())
    kappa = float(_largest_sums(space, kernel, eps[None], LARGE_NUMBER)[0])
    hellinger = math.sqrt(-math.expm1(-2 * kappa))
    if not is_point.any():
        return Uniform(pinsker, hellinger, kappa, 0.0, pinsker)
    is_point &= (joint.weight > 0) | (eps <= HALF_KNOWN)
    rest = 0.0
    if (~is_point & (eps > 0)).any():
        c = _largest_sums(space, kernel, np.where(is_point, 0.0, scaled), 1.0)
        rest = float((ETAS + 2 * c).min()) if c.any() else 0.0
    one_by_one = along_paths(space, kernel, is_stop, np.where(is_point, eps, 0.0))
    if math.isfinite(joint.exponent):
        others = np.where(is_point & (joint.weight == 0), eps, 0.0)
        together = joint.exponent + along_paths(space, kernel, is_stop, others)
    else:
        together = math.inf
    return Uniform(pinsker, hellinger, kappa, -math.expm1(-min(one_by_one, together)), rest)


def _largest_sums(
    space: Space, kernel: Kernel, paid: Float[np.ndarray, "k S A"], cap: float
) -> Float[np.ndarray, " k"]:
    """c_1 at the start, for several payments and one cap."""
    size = max(1, BLOCK_SIZE // kernel.prob.size)
    parts = [_side_by_side(space, kernel, paid[i : i + size], cap) for i in range(0, len(paid), size)]
    return np.concatenate(parts)


def _side_by_side(
    space: Space, kernel: Kernel, paid: Float[np.ndarray, "k S A"], cap: float
) -> Float[np.ndarray, " k"]:
    k, S, A = paid.shape
    # States last, where NumPy's sums and maxima over short axes are fast.
    prob, succ = (np.ascontiguousarray(x.transpose(1, 2, 0)) for x in (kernel.prob, kernel.succ))
    paid = np.ascontiguousarray(paid.swapaxes(1, 2))
    c = np.zeros((k, S))
    for _ in range(space.horizon - 1):
        if kernel.is_dense:
            following = (c @ kernel.prob.reshape(S * A, S).T).reshape(k, S, A).swapaxes(1, 2)
        else:
            following = (prob * c[:, succ]).sum(-2)
        c = np.minimum(paid + following, cap).max(1)
    return space.at_start(c)


TYPICAL_SCALED_RADIUS = 14.0  # n eps of a pair that has been seen often
MAX_KAPPA = 1e100  # a larger kappa stands for infinity


@dataclass(frozen=True, eq=False)
class TabularConfidence(Confidence):
    """`kernel` holds the observed frequencies. Rows of pairs that were never visited are zero: nothing is earned there.

    The centres of the balls leave out rarely seen successors (Lemma 3). `eps` is proved for plans in the centres.
    """

    space: Space
    kernel: Kernel
    eps: float
    delta: float
    is_refuted: bool
    balls: Balls
    joint: Joint
    uniform: Uniform
    pairs: Int[np.ndarray, "X 2"]
    visits: Int[np.ndarray, " X"]
    episodes: int
    impossible: int

    @property
    def centre(self) -> Kernel:
        """The centres of the balls."""
        return Kernel(self.balls.succ, self.balls.prob, self.kernel.is_dense)

    @np.errstate(all="ignore")  # of rows of which nothing is known
    def bounds(self, reward: Float[np.ndarray, "H S A"], policy: Policy) -> Bounds:
        """What a policy can lose: by tangents, by intervals, by the divergence of trajectories, by point masses."""
        first = self._expansion.at_first_step(reward, policy)
        V_star, V, up, upi, lo, D = (
            float(self.space.at_start(x))
            for x in (first.V_star, first.V, first.up, first.upi, first.lo, first.D)
        )
        gaps: dict[str, Number] = {
            "uniform": self.uniform.gap(max(V_star - V, 0.0)),
            "interval": up - lo,
            "tangent": D,
        }
        if self._is_point.any():
            low, high, gaps["paths"] = self._by_paths(reward, policy, first)
            lo, upi = max(lo, low), min(upi, high)
        return Bounds(V, lo, upi, gaps)

    def _by_paths(
        self, reward: Float[np.ndarray, "H S A"], policy: Policy, first: Values
    ) -> tuple[float, float, float]:
        """An interval of the policy's value, and what it can lose: docs/tabular.md, Theorem 7."""
        start = (
            np.eye(self.space.num_states)[self.space.start]
            if self.space.initial is None
            else self.space.initial
        )
        occupancy = occupancy_measure(self.centre, policy, np.asarray(start))[:-1].sum(0)
        if self.space.acts is not None:  # visits of one pair under all its names
            names, occupancy = occupancy, np.zeros_like(occupancy)
            np.add.at(occupancy, (np.arange(len(names))[:, None], self.space.acts), names)
        own = own_leak(self.joint, occupancy, self._is_point, self.balls.eps)
        most, half = self.uniform.leak, self.uniform.rest / 2
        cap, begins = min(1.0, float(reward.max((1, 2)).sum())), self.space.starts()
        V, V_star = float(self.space.at_start(first.V)), float(self.space.at_start(first.V_star))
        below = min(cap * own, V, most * float(first.V[begins].max()) + half)
        above = min(cap * own, cap - V, most * (cap - float(first.V[begins].min())) + half)
        best = V_star + most * (cap - float(first.V_star[begins].min())) + half
        return V - below, V + above, best - V + below

    def difference(
        self, reward: Float[np.ndarray, "H S A"], policies: tuple[Policy, Policy]
    ) -> tuple[float, float]:
        """By the interval of each policy, and by the difference of their tangents (Corollary 6a)."""
        low, high = super().difference(reward, policies)
        with np.errstate(all="ignore"):  # of rows of which nothing is known
            value, error = self._expansion.difference(reward, policies)
        return max(low, value - error), min(high, value + error)

    def entry_intervals(self) -> tuple[Float[np.ndarray, "S A n"], Float[np.ndarray, "S A n"]]:
        """The confidence set projected on every entry."""
        return entry_intervals(self.space, self.balls, self.pairs)

    def row_error(self) -> Float[np.ndarray, "S A"]:
        """How far rows may be from the centres, in total variation, by Pinsker's inequality."""
        return np.sqrt(self.balls.eps / 2)

    @np.errstate(all="ignore")
    def lifted(self, lift: Lift) -> "TabularConfidence":
        """The confidence of lifted states (mdp/events.py): one ball for every pair, though some are the same."""
        own, (S, A, _) = self.balls, self.balls.succ.shape
        visits = np.zeros((S, A), self.visits.dtype)
        visits[*self.pairs.T] = self.visits
        eps = own.eps[lift.origin]
        balls = own.lifted(lift)
        pairs = np.argwhere(eps > 0).astype(np.int32)
        empty = no_joint(eps.shape)  # a pair has several copies, whose visits it would have to add up
        result = uniform(lift.space, Kernel(balls.succ, balls.prob, False), eps, empty)
        return replace(
            self,
            space=lift.space,
            kernel=lift.kernel(self.kernel),
            eps=result.gap(),
            balls=balls,
            joint=empty,
            uniform=result,
            pairs=pairs,
            visits=redirect_forbidden(self.space.acts, visits)[lift.origin][*pairs.T],
            layout={key: x for key, x in self.layout.items() if key != "states"},
        )

    @cached_property
    def _is_point(self) -> Bool[np.ndarray, "S A"]:
        """Rows that are compared by what they miss."""
        return point_masses(self.centre, self.balls.eps)

    @cached_property
    def _expansion(self) -> Expansion:
        """What bounds of every reward have in common."""
        return Expansion.of(self.space, self.balls, self.pairs)

    def parts(self) -> dict[str, float]:
        """kappa only where it is finite."""
        kappa = self.uniform.kappa
        return {
            "episodes": float(self.episodes),
            "pairs": float(len(self.pairs)),
            "known": float(np.isfinite(self._radii()).sum()),
            **({"least": float(self.visits.min())} if len(self.pairs) else {}),
            **({"kappa": kappa} if kappa < MAX_KAPPA else {}),
        }

    def refutation(self) -> str:
        """Transitions outside the support."""
        return f"{self.impossible} transitions are impossible for every parameter"

    def missing(self) -> str:
        """Pairs of which nothing is known, or just more episodes."""
        X = len(self.pairs)
        if not X:
            return "nothing is unknown, and more episodes do not help"
        least = int(np.argmin(self.visits))
        s, a = self.pairs[least]
        pair = f"({self.space.id_of(int(s))}, {a})"
        if "states" in self.layout or "actions" in self.layout:
            pair = f"({name_of(self.layout, 'states', int(s))}, {name_of(self.layout, 'actions', int(a))})"
        seen = f"the least seen of {X} unknown pairs (s,a) is {pair}, {int(self.visits[least])} times"
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
        n_eps = (self.visits[is_known] * eps[is_known]).tolist() or [TYPICAL_SCALED_RADIUS]
        return 2 * float(np.median(n_eps)) * len(self.pairs) / target**2

    def more_episodes(self, target: float) -> float:
        """kappa and leaks fall like 1/episodes; where they say nothing, what the best design needs in all, less those
        seen.
        """
        if self.eps <= target:
            return 0.0
        result, times = self.uniform, []
        if result.kappa < MAX_KAPPA:
            times.append(result.kappa / (-math.log1p(-(target**2)) / 2))
        if result.rest == 0 and result.leak < 1:
            times.append(math.log1p(-result.leak) / math.log1p(-target))
        if times:
            return max(0.0, math.ceil(self.episodes * (min(times) - 1)))
        return max(0.0, math.ceil(self.needed(target) - self.episodes))

    def after(self, times: float) -> tuple["TabularConfidence", float]:
        """Balls shrink like 1/times, eps like its square root; pairs of which nothing is known stay so."""
        balls, together = replace(self.balls, eps=self.balls.eps / times), self.joint.after(times)
        by_kappa = math.sqrt(-math.expm1(-2 * self.uniform.kappa / times))
        result = uniform(self.space, self.centre, balls.eps, together)
        eps = min(self.uniform.pinsker / math.sqrt(times), by_kappa, result.leak + result.rest)
        later = replace(self, eps=eps, balls=balls, joint=together, uniform=result)
        return later, self.episodes * (times - 1)

    def _radii(self) -> Float[np.ndarray, " X"]:
        """eps of the unknown pairs."""
        s, a = self.pairs.T
        return np.asarray(self.balls.eps[s, a])


@np.errstate(all="ignore")  # of rows of which nothing is known
def confidence(
    space: Space,
    pairs: Int[np.ndarray, "X 2"],
    evidence: TabularEvidence,
    delta: float,
    is_support_known: bool,
    lists: ListedCounts | None = None,
) -> TabularConfidence:
    """The balls of all unknown pairs and the gap for every reward; lists: the counts, by default on short lists."""
    seen = short_lists(space, evidence) if lists is None else lists
    s, a = pairs.T
    N = seen.counts[s, a].astype(float)
    visits = N.sum(-1)
    possible = np.asarray(space.support)[s, a].sum(-1)
    ball = radius.balls(N, possible, radius.level(len(pairs), delta))
    even = seen.is_listed / seen.is_listed.sum(-1, keepdims=True)
    S, A, _ = even.shape

    def on_pairs(default: np.ndarray, x: np.ndarray) -> np.ndarray:
        """x on the unknown pairs; forbidden actions have what is done for them."""
        table = default.copy()
        table[s, a] = x
        return redirect_forbidden(space.acts, table)

    balls = Balls(
        succ=redirect_forbidden(space.acts, seen.succ),
        prob=on_pairs(even, ball.centre),  # rows with one possible successor, or out of reach, are even
        eps=on_pairs(np.zeros((S, A)), ball.eps),
        is_open=on_pairs(np.zeros((S, A), bool), ~ball.is_complete),
        is_anywhere=not is_support_known,
    )
    is_dense = space.is_dense and seen.succ.shape == space.succ.shape
    frequencies = on_pairs(even, N / np.maximum(visits, 1)[:, None])
    centre = Kernel(balls.succ, balls.prob, is_dense)
    num_seen = (N > 0).sum(-1)
    weight = on_pairs(np.zeros((S, A)), np.where(num_seen == 1, visits - 1, 0.0))
    together = joint(space, centre, balls.is_unknown, weight, int((num_seen > 1).sum()), delta)
    result = uniform(space, centre, balls.eps, together)
    return TabularConfidence(
        space=space,
        kernel=Kernel(balls.succ, frequencies, is_dense),
        eps=result.gap(),
        delta=delta,
        is_refuted=bool(evidence.impossible > 0),
        balls=balls,
        joint=together,
        uniform=result,
        pairs=pairs,
        visits=visits.astype(np.int64),
        episodes=int(evidence.episodes),
        impossible=int(evidence.impossible),
    )
