"""What a policy can lose for one reward, and between which numbers its value lies, in one backward pass.

With Vh the values of the policy in the estimate, c_h the range of V*_{h+1}, and g_h = (mu - Mhat) V*_{h+1}, |g_h| <=
beta c_h in the coordinates of X (widths.py), the best value is

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
Written for NumPy and for JAX alike.
"""

import dataclasses

from horizonfree._arrays import Array, backward, library, node, put
from horizonfree._shapes import Bool, Float
from horizonfree.mdp.space import Space
from horizonfree.models.linear.estimate import Fit
from horizonfree.models.world import Bounds, Policy, probabilities

MOST_WORK = (
    2**34
)  # products in the gradients of all steps: beyond that they are left out, intervals and bands remain
ROUNDING = 1e-9  # by which lo may exceed up


@node
class Values:
    """What is carried back from step to step, for each state."""

    V_star: Float[Array, " S"]  # the best value in the estimate
    V: Float[Array, " S"]  # of the policy in the estimate
    up: Float[Array, " S"]  # the best value lies in [lo, up],
    lo: Float[Array, " S"]
    up_pi: Float[Array, " S"]  # that of the policy in [lo_pi, up_pi]
    lo_pi: Float[Array, " S"]
    D: Float[Array, " S"]  # the regret of the policy
    rho: Float[Array, " S"]
    E: Float[Array, " S"]
    E_pi: Float[Array, " S"]
    J: Float[Array, "S h d"]
    c: Float[Array, " h"]  # ranges of the best value, and of the policy's own, after each step
    c_pi: Float[Array, " h"]
    is_refuted: Bool[Array, " S"]  # lo > up from here on: the event has failed


@node
class Means:
    """P~ of the next values; psi with X at this step."""

    V_star: Float[Array, "S A"]
    V: Float[Array, "S A"]
    up: Float[Array, "S A"]
    lo: Float[Array, "S A"]
    up_pi: Float[Array, "S A"]
    lo_pi: Float[Array, "S A"]
    D: Float[Array, "S A"]
    rho: Float[Array, "S A"]
    E: Float[Array, "S A"]
    E_pi: Float[Array, "S A"]
    psi: Float[Array, "S A h d"]


@node
class Choice:
    """The policy in one step; `is_lost` where it may take a pair of which nothing is known; `is_open`: or that pair."""

    pi: Float[Array, "S A"]
    is_lost: Bool[Array, " S"]
    is_open: Bool[Array, "S A"]

    def mean(self, x: Float[Array, "S A *n"]) -> Float[Array, "S *n"]:
        """Over the actions."""
        return library(self.pi, x).einsum("sa,sa...->s...", self.pi, x)

    def both(self, x: Float[Array, "S A"]) -> Float[Array, "S A"]:
        """Of an action and of the policy, without what they share: (1 - pi) x + sum over the others of pi x."""
        return (1 - 2 * self.pi) * x + self.mean(x)[:, None]

    def beside(self, gain: Float[Array, "S A"], loss: Float[Array, "S A"]) -> Float[Array, "S A"]:
        """(1 - pi) gain - sum over the other actions of pi loss."""
        return (1 - self.pi) * gain - self.mean(loss)[:, None] + self.pi * loss


@node
class Expansion:
    """Of the best value around the policy's value in the estimate, in one step."""

    Q: Float[Array, "S A"]
    V: Float[Array, " S"]
    psi: Float[Array, "S A h d"]
    J: Float[Array, "S h d"]
    Ea: Float[Array, "S A"]
    E: Float[Array, " S"]
    half: Float[Array, " S"]  # how far V* - rho may be from V


@node
class Pass:
    """The estimate, its radii for this reward (`beta`) and for all V, and the widths of the latter, `b`."""

    fit: Fit
    n: Float[Array, "S A"]
    b: Float[Array, "S A"]
    beta: Float[Array, ""]
    beta_all: Float[Array, ""]

    def step(
        self, after: Values, inputs: tuple[Array, Float[Array, "S A"], Float[Array, "S A"]]
    ) -> tuple[Values, None]:
        """One step back; inputs: which step it is, reward, policy."""
        (h, r, pi), xp = inputs, library(self.n, inputs[1])
        is_taken = self.fit.is_bad & (pi > 0)
        choice = Choice(pi, is_taken.any(-1), self.fit.is_bad | is_taken.any(-1, keepdims=True))
        mean = self.means(after, h)
        c, c_pi = after.up.max() - after.lo.min(), after.up_pi.max() - after.lo_pi.min()
        ranges = [put(x, h, y) if len(x) else x for x, y in ((after.c, c), (after.c_pi, c_pi))]
        w = self.width(c, self.beta)
        Q_up, Q_lo = xp.minimum(1.0, r + mean.up + w), xp.maximum(0.0, r + mean.lo - w)
        around = self.expansion(choice, r, mean, c, ranges[0])
        V, half = around.V, around.half
        top, rho = self.losses(
            choice, r, mean, around, ranges[0], (Q_up, Q_lo), self.bands(choice, r, after, c)
        )
        up = xp.minimum(xp.minimum(1.0, Q_up.max(-1)), V + half + rho)
        lo = xp.maximum(Q_lo.max(-1), V - half)
        D = top + choice.mean(xp.minimum(after.D.max(), mean.D + self.b * (after.D.max() - after.D.min())))
        up_pi, lo_pi, E_pi = self.own(choice, r, mean, around, c_pi, ranges[1])
        here = Values(
            V_star=(r + mean.V_star).max(-1),
            V=V,
            up=up,
            lo=xp.minimum(up, lo),
            up_pi=up_pi,
            lo_pi=xp.minimum(lo_pi, up_pi),
            D=xp.minimum(xp.minimum(1.0, up), D),
            rho=rho,
            E=around.E,
            E_pi=E_pi,
            J=around.J,
            c=ranges[0],
            c_pi=ranges[1],
            is_refuted=(lo > up + ROUNDING) | (lo_pi > up_pi + ROUNDING) | after.is_refuted.any(),
        )
        return here, None

    def means(self, after: Values, h: Array) -> Means:
        """All of them by one product of matrices."""
        xp = library(self.n, after.V)
        (S, A), (steps, d) = self.n.shape, after.J.shape[1:]
        numbers = {x.name: getattr(after, x.name) for x in dataclasses.fields(Means) if x.name != "psi"}
        table = xp.concatenate([after.J.reshape(S, steps * d), xp.stack(list(numbers.values()), 1)], axis=1)
        found = xp.tensordot(self.fit.prob, table, 1)
        psi = found[..., : steps * d].reshape(S, A, steps, d)
        psi = put(psi, (slice(None), slice(None), h), self.fit.X) if steps else psi
        psi = xp.where(self.fit.is_bad[..., None, None], 0.0, psi)
        return Means(**{name: found[..., steps * d + i] for i, name in enumerate(numbers)}, psi=psi)

    def width(self, c: Float[Array, ""], beta: Float[Array, ""]) -> Float[Array, "S A"]:
        """By how much P~ V may differ from P V, V of range c."""
        xp = library(self.n, c)
        return xp.where(self.fit.is_bad, c, xp.minimum(c, c * (beta * self.n + self.fit.e)))

    def blur(
        self, c: Float[Array, ""], beta: Float[Array, ""], P_E: Float[Array, "S A"], has_slopes: bool
    ) -> Float[Array, "S A"]:
        """Ea; where there are no gradients, what would be in them is blur."""
        own = self.fit.e if has_slopes else beta * self.n + self.fit.e
        return library(self.n, c).where(self.fit.is_bad, 1.0, c * own + P_E)

    def expansion(
        self, choice: Choice, r: Float[Array, "S A"], mean: Means, c: Float[Array, ""], cs: Float[Array, " h"]
    ) -> Expansion:
        """V* = V + J.g + eta + rho."""
        Q, xp = r + mean.V, library(self.n, r)
        J = xp.where(choice.is_lost[:, None, None], 0.0, choice.mean(mean.psi))
        Ea = self.blur(c, self.beta, mean.E, len(cs) > 0)
        E = xp.where(choice.is_lost, 1.0, choice.mean(Ea))
        return Expansion(Q, choice.mean(Q), mean.psi, J, Ea, E, self.beta * (_norm(J) @ cs) + E)

    def losses(
        self,
        choice: Choice,
        r: Float[Array, "S A"],
        mean: Means,
        around: Expansion,
        cs: Float[Array, " h"],
        interval: tuple[Float[Array, "S A"], Float[Array, "S A"]],
        bands: Float[Array, "S A"],
    ) -> tuple[Float[Array, " S"], Float[Array, " S"]]:
        """What the policy loses in this step at most, and rho."""
        (Q_up, Q_lo), xp = interval, library(self.n, r)
        V, half = around.V[:, None], around.half[:, None]
        turned = self.beta * (_norm(around.psi - around.J[:, None]) @ cs)
        tangent = around.Q - V + turned + choice.both(around.Ea) + mean.rho
        gain = xp.where(choice.is_open, 1.0, tangent - choice.pi * mean.rho)
        gain = xp.minimum(xp.minimum(gain, bands), choice.beside(Q_up, Q_lo))
        top = xp.maximum(0.0, xp.where(choice.pi == 1, 0.0, gain).max(-1))
        highest = Q_up - V + half
        rho = xp.maximum(0.0, xp.where(self.fit.is_bad, highest, tangent).max(-1))
        rho = xp.minimum(xp.minimum(rho, xp.maximum(0.0, highest.max(-1))), top + choice.mean(mean.rho))
        return top, xp.where(choice.is_lost, 0.0, rho)

    def bands(
        self, choice: Choice, r: Float[Array, "S A"], after: Values, c: Float[Array, ""]
    ) -> Float[Array, "S A"]:
        """What an action can gain on the policy, by the range of V* in the next step."""
        prob, X, xp = self.fit.prob, self.fit.X, library(self.n, r)
        moved = prob - choice.mean(prob)[:, None]
        most = moved @ after.lo + xp.maximum(moved, 0.0) @ (after.up - after.lo)
        turned = xp.sqrt(((X - choice.mean(X)[:, None]) ** 2).sum(-1))
        wide = xp.minimum(2 * c, c * (self.beta * turned + choice.both(self.fit.e)))
        return r - choice.mean(r)[:, None] + most + xp.where(choice.is_open, 2 * c, wide)

    def own(
        self,
        choice: Choice,
        r: Float[Array, "S A"],
        mean: Means,
        around: Expansion,
        c: Float[Array, ""],
        cs: Float[Array, " h"],
    ) -> tuple[Float[Array, " S"], Float[Array, " S"], Float[Array, " S"]]:
        """The interval of the policy's own value, and the blur of its expansion."""
        w, xp = self.width(c, self.beta_all), library(self.n, r)
        Ea = self.blur(c, self.beta_all, mean.E_pi, len(cs) > 0)
        E = xp.where(choice.is_lost, 1.0, choice.mean(Ea))
        half = self.beta_all * (_norm(around.J) @ cs) + E
        high = choice.mean(xp.minimum(1.0, r + mean.up_pi + w))
        low = choice.mean(xp.maximum(0.0, r + mean.lo_pi - w))
        return xp.minimum(high, around.V + half), xp.maximum(low, around.V - half), E


def _norm(J: Float[Array, "*n h d"]) -> Float[Array, "*n h"]:
    return library(J).sqrt((J**2).sum(-1))


def values(
    fit: Fit,
    reward: Float[Array, "H S A"],
    policy: Policy,
    beta: Float[Array, ""],
    beta_all: Float[Array, ""],
) -> Values:
    """The pass from the last step to the first. beta: of V* of this reward, beta_all: of all V."""
    (H, S, A), xp = reward.shape, library(fit.prob, reward)
    d = fit.X.shape[-1]
    steps = H if S * A * S * H * d * H <= MOST_WORK else 0
    world = Pass(fit, fit.n, fit.width(beta_all), beta, beta_all)
    o, later = xp.zeros(S), xp.zeros(steps)
    numbers = {x.name: o for x in dataclasses.fields(Means) if x.name != "psi"}
    end = Values(**numbers, J=xp.zeros((S, steps, d)), c=later, c_pi=later, is_refuted=o > 0)
    first, _ = backward(world.step, end, (xp.arange(H), reward, probabilities(policy, A)))
    return first


def reward_bounds(
    space: Space,
    fit: Fit,
    reward: Float[Array, "H S A"],
    policy: Policy,
    beta: Float[Array, ""],
    beta_all: Float[Array, ""],
    eps: Float[Array, ""],
) -> Bounds:
    """The bounds of one policy for one reward; eps: of the best plan in the estimate, for every reward."""
    xp = library(fit.prob, reward)
    first = values(fit, reward, policy, beta, beta_all)
    names = "V_star", "V", "up", "lo", "up_pi", "lo_pi", "D"
    at = {name: space.at_start(getattr(first, name)) for name in names}
    is_refuted = space.at_start(first.is_refuted.astype(float)) > 0
    low = xp.maximum(at["lo_pi"], at["lo"] - at["D"])
    gaps = {
        "uniform": eps + xp.maximum(at["V_star"] - at["V"], 0.0),
        "interval": at["up"] - low,
        "tangent": at["D"],
    }
    return Bounds(at["V"], low, xp.minimum(at["up_pi"], at["up"]), gaps, is_refuted)
