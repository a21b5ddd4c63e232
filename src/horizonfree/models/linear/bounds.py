"""What a plan can lose: for every reward, also one that is chosen after the data, and for one; and what it is worth.

For every reward:

    U_H = 0,      U_h(s) = max_a min(1, b(s,a) + [P~ U_{h+1}](s,a)),      b = min(1, beta n + e), of all V at once

bounds |V^pi - V~^pi| for every policy and reward, V~ the values in the estimate: their difference is a sum over steps
of E_{P~} (P - P~) V^pi. So the best plan in the estimate loses at most 2 U_1, any policy 2 U_1 more than it does there.

For one reward, in one backward pass. With Vh the values of the policy in the estimate, c_h the range of V*_{h+1}, and
g_h = (mu - Mhat) V*_{h+1}, |g_h| <= beta c_h in the coordinates of X, the best value is

    V*_h = Vh_h + sum_h' J_hh'.g_h' + eta_h + rho_h,      |eta| <= E,  rho >= 0

where J_h = sum_a pi psi(s,a), psi(s,a) = P~ J_{h+1} and X(s,a) at h; E likewise of Ea = c e + P~ E; and
rho_h = A_h + sum_a pi P~ rho_{h+1}, A_h = max_a Q* - sum_a pi Q* what the policy loses in step h. Then for every action

    Q* - sum_a pi Q* <= Q - Vh + beta sum_h' c_h' |psi_h' - J_h'| + [Ea of both] + (1 - pi) P~ rho        by tangents
                     <= the same of r + P~ V*, V* in [lo, up], and of X, e at h alone                     by bands
                     <= (1 - pi) Qup - sum over the other actions of pi Qlo                               by intervals

A is at most the largest of the least (`top`), and D_h = top + sum_a pi [P~ D + b range(D)] bounds the regret, b for all
V at once. [lo, up] holds V*: by P~ lo - w and P~ up + w, w = c (beta n + e), and Vh -+ (beta sum c|J| + E), plus rho.

The policy's own value is V^pi = Vh + J.g^pi + eta^pi, g^pi of V^pi, which no one fixed beforehand: with beta of all V.
A pair of which nothing is known has psi = 0, Ea = 1; a state where the policy may take one has J = 0, E = 1, rho = 0.

The distance of a row of the estimate from the truth, for one e-process: V0 is the Gram matrix of the episodes before
the e-process, V1 and C1 are the sums since. With G the mean of phi phi' over all pairs, R = rho ratio V0 + lam G, fixed
when the e-process starts, x = phi(s,a) in the span of V1, and L a level (below),

    Mhat = V1^+ C1,      n(x) = ||V1^+ x||_{R+V1},      beta(L) = sqrt((log det(I + R^-1 V1) / 2 + L) / 2)
    |x'(Mhat - mu) V| <= c beta(L) n(x)           for V with max V - min V <= c

- of fixed functions V, at level L = log(number / delta), or of all V at once, at L = (S-1) log 2 + log(1/delta),
as what is bounded is linear in V and does not see constants, so that only the 2^(S-1) vertices of the cube matter.

P~ is x'Mhat without what is negative, made to sum to one, and e(s,a) what that changes; a pair outside of the span
is `is_bad`: nothing is known of it. X(s,a) is a vector with |X| = n. So |(P~ - P) V| <= c (beta n + e).
docs/linear.md has the proof, and that the coordinates in which V1 is inverted do not matter: they are those of
`features.whitening`, in which G is I/(SA). So features in other units, each in its own, give the same bounds.

Certificates compute all of this in NumPy. `learner.violation` traces `regress`, `fit` and `prior` with
xp=jax.numpy.

The evidence has sums over the transitions, and those at the start of each e-process:

    gram = sum_t x_t x_t',      cross = sum_t x_t e_{s'_t}',      x_t = phi(s_t, a_t)

over all steps of all episodes: one mu serves every step. No ridge is in them. An e-process that starts after m
episodes keeps the sums of those m apart (`gram_at`, `cross_at`); until then it tracks the running sums.

`Evidence` has fixed shapes: it can be carried by a scan and mapped over seeds (learner.py).
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from horizonfree._arrays import Array, Leaf, Number, node
from horizonfree.mdp.space import Space
from horizonfree.models.base import Bounds, Evidence, Policy, length, probabilities
from horizonfree.models.linear.variance import SecondMoments
from horizonfree.planning.induction import largest_totals

RHO, LAM = 0.25, 1.0  # rho and lam of R
RIDGE = 0.1  # lam of the ridge estimate
RATIO = 9.0  # episodes in an e-process per episode before it, for which R is chosen
SPAN_TOLERANCE = 1e-9  # largest distance of a feature from the span of V1, in white coordinates
EIGENVALUE_TOLERANCE = 1e-9  # smaller eigenvalues of V1, as a share of the largest, count as zero
RELATIVE_SUM_ERROR = 1e-13  # relative rounding error of the entries of short sums
ROUNDING_UNIT = 2.0**-53  # relative rounding error of one addition


@node
class LinearEvidence(Evidence):
    """The counts of the base class and the sums above; steps to no state at all are `impossible`."""

    gram: Float[Leaf, "*batch d d"]
    cross: Float[Leaf, "*batch d S"]
    gram_at: Float[Leaf, "*batch J d d"]
    cross_at: Float[Leaf, "*batch J d S"]


class Regression(NamedTuple):
    """x'Mhat of every pair, V1^+ x, and how far x is from the span of V1; 1/S and 0 where that is too far."""

    raw: Float[Array, "S A S"]
    g: Float[Array, "S A d"]
    outside: Float[Array, "S A"]
    is_bad: Bool[Array, "S A"]


@dataclass(frozen=True, eq=False)
class Fit:
    """The estimate P~ of one e-process, and the terms of its width."""

    prob: Float[Array, "S A S"]
    X: Float[Array, "S A d"]
    e: Float[Array, "S A"]
    is_bad: Bool[Array, "S A"]
    logdet: Float[Array, ""]

    @property
    def n(self) -> Float[Array, "S A"]:
        """n(s,a) = |X(s,a)|."""
        return (self.X**2).sum(-1) ** 0.5

    def beta(self, L: Number) -> Number:
        """The radius beta(L) at level L."""
        return ((self.logdet / 2 + L) / 2) ** 0.5

    def width(self, beta: float) -> Float[np.ndarray, "S A"]:
        """By how much P~ V may differ from P V, for V in [0,1]^S: the total variation of a row."""
        return np.where(self.is_bad, 1.0, np.minimum(1.0, beta * self.n + self.e))


def regress(
    phi: Float[Array, "S A d"],
    white: Float[Array, "d d"],
    V1: Float[Array, "d d"],
    C1: Float[Array, "d S"],
    xp: Any = np,
) -> Regression:
    """Least squares on the data since an e-process started; xp: NumPy, or jax.numpy where it is traced."""
    x, V = phi @ white, white.T @ V1 @ white
    size, U = xp.linalg.eigh((V + V.T) / 2)
    is_kept = size > EIGENVALUE_TOLERANCE * xp.maximum(size[-1], 1e-300)
    g = ((x @ U) * xp.where(is_kept, 1 / xp.where(is_kept, size, 1.0), 0.0)) @ U.T
    outside = xp.linalg.norm(x - ((x @ U) * is_kept) @ U.T, axis=-1)
    is_bad = outside > SPAN_TOLERANCE
    raw = xp.where(is_bad[..., None], 1 / len(phi), g @ (white.T @ C1))
    return Regression(raw, xp.where(is_bad[..., None], 0.0, g), outside, is_bad)


def fit(
    regression: Regression,
    phi: Float[Array, "S A d"],
    white: Float[Array, "d d"],
    V0: Float[Array, "d d"],
    V1: Float[Array, "d d"],
    terms: Number,
    ratio: Number = RATIO,
    xp: Any = np,
) -> Fit:
    """P~ and its widths, from the regression of the same V1; `terms`: additions in sequence that V0 + V1 took."""
    S, A, _ = phi.shape
    raw, g, outside, is_bad = regression
    R, root = prior(phi, white, V0, V1, ratio, xp)
    prob = xp.maximum(raw, 0.0)
    prob = prob / prob.sum(-1, keepdims=True)
    change = raw - prob
    # The larger of the mass that is added and the mass that is removed.
    change = (abs(change).sum(-1) + abs(change.sum(-1))) / 2
    # Rounding of the sums and distance from the span, with ||mu V|| <= sqrt(SA).
    share = xp.maximum(RELATIVE_SUM_ERROR, ROUNDING_UNIT * terms)
    noise = share * ((abs(white).T @ xp.diag(V0 + V1) ** 0.5) ** 2).sum()
    blur = math.sqrt(S * A) * (outside + noise * xp.linalg.norm(g, axis=-1))
    return Fit(
        prob=prob,
        X=g @ root,
        e=xp.where(is_bad, 0.0, change + blur),
        is_bad=is_bad,
        logdet=_logdet(root, xp) - _logdet(_cholesky(R, xp), xp),
    )


def prior(
    phi: Float[Array, "S A d"],
    white: Float[Array, "d d"],
    V0: Float[Array, "d d"],
    V1: Float[Array, "d d"],
    ratio: Number = RATIO,
    xp: Any = np,
) -> tuple[Float[Array, "d d"], Float[Array, "d d"]]:
    """R and the Cholesky factor of R + V1, in white coordinates."""
    S, A, d = phi.shape
    R, V = RHO * ratio * white.T @ V0 @ white + LAM / (S * A) * xp.eye(d), white.T @ V1 @ white
    return R, _cholesky(R + V, xp)


def _cholesky(M: Float[Array, "d d"], xp: Any) -> Float[Array, "d d"]:
    """The factor of the symmetric part; nan where rounding leaves none, as JAX has it: then nothing is certified."""
    try:
        factor: Array = xp.linalg.cholesky((M + M.T) / 2)
    except np.linalg.LinAlgError:
        return np.full(M.shape, np.nan)
    return factor


def _logdet(root: Float[Array, "d d"], xp: Any) -> Float[Array, ""]:
    """The log-determinant of a matrix, by its Cholesky factor."""
    return 2 * xp.log(xp.diagonal(root)).sum()


def level_of_all(num_states: int, delta: Number, xp: Any = np) -> Number:
    """The level L for all functions V at once."""
    return (num_states - 1) * math.log(2) - xp.log(delta)


def level_of_some(number: int, delta: Number) -> Number:
    """The level L for `number` functions V that are fixed beforehand."""
    return math.log(max(number, 1)) - np.log(delta)


MAX_GRADIENT_WORK = 2**34  # products in the gradients of all steps; with more, intervals and bands only
CONTRADICTION_TOLERANCE = 1e-9  # lo may exceed up by this much, from rounding


def uniform_loss(space: Space, fit: Fit, beta: float) -> float:
    """2 U_1, at most 1: what the best plan in the estimate can lose for any reward. beta: of all V."""
    if space.horizon == 1:
        return 0.0  # the last transition touches no reward
    U = largest_totals(space.kernel(fit.prob), fit.width(beta), space.horizon - 1, cap=1.0).max(-1)
    return float(np.minimum(1.0, 2 * space.at_start(U)))  # nan stays nan


class Numbers(NamedTuple):
    """Numbers that are carried back for each state [S], or their means P~ of the next ones for each pair [S, A]."""

    V_star: np.ndarray  # the best value in the estimate
    V: np.ndarray  # of the policy in the estimate
    up: np.ndarray  # the best value lies in [lo, up],
    lo: np.ndarray
    up_pi: np.ndarray  # that of the policy in [lo_pi, up_pi]
    lo_pi: np.ndarray
    D: np.ndarray  # the regret of the policy
    rho: np.ndarray
    E: np.ndarray
    E_pi: np.ndarray


class Carried(NamedTuple):
    """The state of the backward pass; h are the steps from this one on."""

    at: Numbers
    J: Float[np.ndarray, "S h d"]
    roots: Float[np.ndarray, "h d d"]  # |J root| bounds J.g, g the error of the best value after each step
    c_pi: Float[np.ndarray, " h"]  # the range of the policy's own value after each step
    is_refuted: Bool[np.ndarray, " S"]  # lo > up from here on: the event has failed


class Pass(NamedTuple):
    """The estimate, its radii for this reward (`beta`) and for all V, the width `b_all`, and second moments, if any."""

    fit: Fit
    n: Float[np.ndarray, "S A"]
    beta: float
    beta_all: float
    b_all: Float[np.ndarray, "S A"]
    has_gradients: bool
    moments: SecondMoments | None = None

    def means(self, after: Carried) -> tuple[Numbers, Float[np.ndarray, "S A h d"]]:
        """P~ of the numbers of the next step, and psi: all of them by one product of matrices."""
        (S, A), (_, later, d) = self.n.shape, after.J.shape
        table = np.concatenate([after.J.reshape(S, later * d), np.stack(after.at, axis=1)], axis=1)
        result = (self.fit.prob.reshape(S * A, S) @ table).reshape(S, A, -1)
        psi = np.zeros((S, A, 0, d))
        if self.has_gradients:
            psi = np.concatenate(
                [self.fit.X[:, :, None], result[..., : later * d].reshape(S, A, later, d)], axis=2
            )
            psi[self.fit.is_bad] = 0.0
        return Numbers(*np.moveaxis(result[..., later * d :], -1, 0)), psi

    def root(self, then: Numbers, c: float) -> Float[np.ndarray, "d d"]:
        """The root of this step (`Carried.roots`).

        It comes from the range c of the next best values, or from their second moments if that is less on average.
        """
        by_range = c * self.beta * np.eye(self.fit.X.shape[-1])
        if self.moments is None:
            return by_range
        by_moments = self.moments.root(np.maximum(then.up - then.lo.min(), 0.0))
        is_good = ~self.fit.is_bad
        is_less = length(self.fit.X @ by_moments)[is_good].sum() < c * self.beta * self.n[is_good].sum()
        return by_moments if is_less else by_range

    def blur(
        self, c: float, own: Float[np.ndarray, "S A"], P_E: Float[np.ndarray, "S A"]
    ) -> Float[np.ndarray, "S A"]:
        """Ea of every pair. own: the term |J root| of this step, which counts here if there are no gradients."""
        own = 0.0 * own if self.has_gradients else own
        return np.where(self.fit.is_bad, 1.0, own + c * self.fit.e + P_E)

    def step(self, after: Carried, r: Float[np.ndarray, "S A"], pi: Float[np.ndarray, "S A"]) -> Carried:
        """The bounds at one step, from those at the next."""
        fit, is_bad, then = self.fit, self.fit.is_bad, after.at
        P, psi = self.means(after)
        mean = partial(np.einsum, "sa,sa...->s...", pi)  # over the actions of the policy
        is_taken = is_bad & (pi > 0)
        is_lost = is_taken.any(-1)  # the policy may take a pair of which nothing is known
        is_open = is_bad | is_lost[:, None]
        c, c_pi = then.up.max() - then.lo.min(), then.up_pi.max() - then.lo_pi.min()
        root, roots, cs_pi = self.root(then, c), after.roots, after.c_pi
        if self.has_gradients:
            roots, cs_pi = np.concatenate([root[None], roots]), np.append(c_pi, cs_pi)
        X = fit.X @ root
        w = np.where(is_bad, c, np.minimum(c, length(X) + c * fit.e))

        # The best value by intervals, and its expansion: within `half` of V, up to rho.
        Q_up, Q_lo = np.minimum(1.0, r + P.up + w), np.maximum(0.0, r + P.lo - w)
        Q = r + P.V
        V, J = mean(Q), np.where(is_lost[:, None, None], 0.0, mean(psi))
        Ea = self.blur(c, length(X), P.E)
        E = np.where(is_lost, 1.0, mean(Ea))
        half = sizes(J, roots) + E

        # What an action can gain on the policy: by tangents, by bands, by intervals; top and rho from that.
        # What an action shares with the policy counts for neither: E_both = (1 - pi) Ea + sum over the others of pi Ea.
        E_both, e_both = ((1 - 2 * pi) * x + mean(x)[:, None] for x in (Ea, fit.e))
        tangent = Q - V[:, None] + sizes(psi - J[:, None], roots) + E_both + P.rho
        difference = fit.prob - mean(fit.prob)[:, None]
        most = difference @ then.lo + np.maximum(difference, 0.0) @ (then.up - then.lo)
        turned = length(X - mean(X)[:, None]) + c * e_both
        bands = r - mean(r)[:, None] + most + np.where(is_open, 2 * c, np.minimum(2 * c, turned))
        intervals = (1 - pi) * Q_up - mean(Q_lo)[:, None] + pi * Q_lo
        gain = np.minimum(np.minimum(np.where(is_open, 1.0, tangent - pi * P.rho), bands), intervals)
        top = np.maximum(0.0, np.where(pi == 1, 0.0, gain).max(-1))
        highest = Q_up - V[:, None] + half[:, None]
        rho = np.maximum(0.0, np.where(is_bad, highest, tangent).max(-1))
        rho = np.minimum(np.minimum(rho, np.maximum(0.0, highest.max(-1))), top + mean(P.rho))
        rho = np.where(is_lost, 0.0, rho)

        up = np.minimum(np.minimum(1.0, Q_up.max(-1)), V + half + rho)
        lo = np.maximum(Q_lo.max(-1), V - half)
        spread = then.D.max() - then.D.min()
        D = top + mean(np.minimum(then.D.max(), P.D + self.b_all * spread))

        # The value of the policy itself.
        E_pi = np.where(is_lost, 1.0, mean(self.blur(c_pi, c_pi * self.beta_all * self.n, P.E_pi)))
        half_pi, w_pi = self.beta_all * (length(J) @ cs_pi) + E_pi, c_pi * self.b_all
        up_pi = np.minimum(mean(np.minimum(1.0, r + P.up_pi + w_pi)), V + half_pi)
        lo_pi = np.maximum(mean(np.maximum(0.0, r + P.lo_pi - w_pi)), V - half_pi)

        at = Numbers(
            V_star=(r + P.V_star).max(-1),
            V=V,
            up=up,
            lo=np.minimum(up, lo),
            up_pi=up_pi,
            lo_pi=np.minimum(lo_pi, up_pi),
            D=np.minimum(np.minimum(1.0, up), D),
            rho=rho,
            E=E,
            E_pi=E_pi,
        )
        is_refuted = (
            (lo > up + CONTRADICTION_TOLERANCE)
            | (lo_pi > up_pi + CONTRADICTION_TOLERANCE)
            | after.is_refuted.any()
        )
        return Carried(at, J, roots, cs_pi, is_refuted)


def sizes(J: Float[np.ndarray, "*n h d"], roots: Float[np.ndarray, "h d d"]) -> Float[np.ndarray, "*n"]:
    """The sum over steps of |J root|."""
    *rows, steps, d = J.shape
    turned = np.moveaxis(J, -2, 0).reshape(steps, math.prod(rows), d) @ roots
    total: np.ndarray = length(turned).sum(0).reshape(rows)
    return total


def values(
    fit: Fit,
    reward: Float[np.ndarray, "H S A"],
    policy: Policy,
    beta: float,
    beta_all: float,
    moments: SecondMoments | None = None,
) -> Carried:
    """The pass from the last step to the first. beta: of V* of this reward, beta_all: of all V."""
    H, S, A = reward.shape
    d = fit.X.shape[-1]
    has_gradients = S * A * S * H * d * H <= MAX_GRADIENT_WORK
    backward = Pass(fit, fit.n, beta, beta_all, fit.width(beta_all), has_gradients, moments)
    zeros, none = np.zeros(S), np.zeros((0, d, d))
    end = Numbers(*[zeros] * len(Numbers._fields))
    carried = Carried(end, np.zeros((S, 0, d)), none, np.zeros(0), np.zeros(S, bool))
    pi = probabilities(policy, A)
    for h in reversed(range(H)):
        carried = backward.step(carried, reward[h], pi[h])
    return carried


@np.errstate(all="ignore")  # nan where a radius could not be computed
def reward_bounds(
    space: Space,
    fit: Fit,
    reward: Float[np.ndarray, "H S A"],
    policy: Policy,
    beta: float,
    beta_all: float,
    eps: float,
    moments: SecondMoments | None = None,
) -> Bounds:
    """The bounds of one policy for one reward; eps: of the best plan in the estimate, for every reward."""
    return bounds_at_start(space, values(fit, reward, policy, beta, beta_all, moments), eps)


def bounds_at_start(space: Space, first: Carried, eps: float) -> Bounds:
    """The bounds, from the result of the backward pass at the first step."""
    at = Numbers(*(space.at_start(x) for x in first.at))
    is_refuted = space.at_start(first.is_refuted.astype(float)) > 0
    low = np.maximum(at.lo_pi, at.lo - at.D)
    gaps = {
        "uniform": eps + np.maximum(at.V_star - at.V, 0.0),
        "interval": at.up - low,
        "tangent": at.D,
    }
    return Bounds(at.V, low, np.minimum(at.up_pi, at.up), gaps, is_refuted)
