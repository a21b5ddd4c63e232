"""HF-UCRL-RFE++: horizon-free reward-free exploration with high-order moment estimation.

Paper: J. Zhang, W. Zhang, Q. Gu 2023 (ICML), arXiv 2303.10165.
Algorithm: 1 (exploration and planning) and 2 (HOME, in moments.py). Two families of regressions with M moment orders
    each: tilde with targets V(.; theta_k, pi_k, r_k), hat with targets Vhat_k. Axis 0 of a ridge is the family (TILDE,
    HAT), axis 1 the order.
Symbols: u, V, Vhat as in oracle/objective.py; Sigma_dot is the ridge at the start of the episode; lam = d/B^2,
    alpha = H^{-1/2}, gamma = d^{-1/4}.
Guarantee: with constants="paper" and probability 1 - delta, the plan made in theta_{k*} is 4 U_{k*}-optimal for every
    reward of total at most 1 (`relaxed` in the rows), and also 4 T_{k*}-optimal, T the bound by total variance
    (docs/hf-ucrl-rfe.md has the argument). With constants="scaled" there is no such theorem. With sets="likelihood",
    plans in the maximum likelihood are min(4U, 4T, N)-optimal at any time, with no constants (docs/likelihood-sets.md).
    Certificates of the evidence hold in all cases.
Departures:
    1. theta_k is not optimised over U_k: it is the least-squares point of both order-0 regressions among the valid
       kernels. The paper's sum bound needs only that theta_k lies in the two balls, which is checked (`ball_ratio`).
       theta="optimistic" is the argmax over U_k, where that is exact (estimators/nested.py).
    2. The maximum over (pi, r) is found by ascent over single-step indicator rewards; or by enumeration of all
       antichains of states and steps ("exhaustive"), the vertices of the rewards of states; or it is relaxed to U, and
       then each (s, a) has its own target for the tilde family, the f in [0,1]^S that is predicted worst there.
    3. Planning uses theta_{k*}, k* = argmin_k Vhat_k (the latest of equals), since Vhat_k need not fall with k.
       plan_with="last" plans with the last theta_k, as printed.
    4. `lazy` > 0 skips the oracle until some log det Sigma has grown by that much; 0 calls it every episode.
    5. beta = beta_K in u and Vhat, beta_k in HOME and in the sets; delta is shared by 4M events; M is rounded up.
    6. u is built from V_{h+1}, where the print has V_h.
    7. sets="likelihood" has the likelihood-ratio set of the evidence in place of the balls: no regressions, no moments,
       no radius (likelihood_sets.py). theta_k is the predictor, and planning uses the newest.
"""

from typing import Annotated, Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array
from horizonfree._validation import check_at_least, check_choice
from horizonfree._x64 import Number, to_device, x64
from horizonfree.errors import OptionError
from horizonfree.estimators import moments, nested, radius
from horizonfree.estimators.projection import least_squares
from horizonfree.estimators.radius import model_sizes
from horizonfree.estimators.ridge import Ridge
from horizonfree.explorers.base import (
    Bias,
    Budget,
    ConfidenceBall,
    Constants,
    Delta,
    Info,
    Noise,
    PlugIn,
    check_budget,
)
from horizonfree.explorers.likelihood_sets import BETA, claim_in, explored_with
from horizonfree.guarantees.certificate import Certificate, Terms, claim
from horizonfree.mdp.space import Trajectory
from horizonfree.models.mixture.evidence import MixtureEvidence
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.oracle import (
    OracleResult,
    Point,
    Prepared,
    evaluate,
    next_search_radius,
    prepare,
    relaxed,
    search,
    total_variance_bound,
    upper_bound,
)
from horizonfree.oracle.exhaustive import enumerated
from horizonfree.oracle.result import AntichainPoint
from horizonfree.oracle.variance import variance_bound


class SearchResult(eqx.Module):
    """The result of a search: policy and reward, the functions to regress on, the value and an upper bound.

    `f` are the tilde targets of the relaxed search, one function on the successors of each pair; else it is empty.
    `radius` is the one for the next search.
    """

    point: Point | AntichainPoint
    V: Float[Array, "H1 S"]
    V_hat: Float[Array, "H1 S"]
    f: Float[Array, "S A n"] | Float[Array, " 0"]
    value: Float[Array, ""]
    upper: Float[Array, ""]
    radius: Float[Array, ""]

    def after(self, x: OracleResult, beta: Float[Array, ""]) -> "SearchResult":
        """The result of an ascent that follows this one."""
        radius = next_search_radius(x.search_value, x.radius, beta)
        return SearchResult(x.point, x.V, x.V_hat, self.f, x.value, x.upper, radius)


class Answer(eqx.Module):
    """The answer of an oracle call: the result in theta_k, U, and the position of theta_k in its order-0 balls.

    `inv` are the inverse covariances of these balls, tilde and hat.
    """

    found: SearchResult
    relaxed: Float[Array, ""]
    theta: Float[Array, " d"]
    inv: Float[Array, "2 d d"]
    ball_ratio: Float[Array, ""]
    episode: Int[Array, ""]


class State(eqx.Module):
    """The state between two episodes. `last` gives the present policy, `best` has the smallest value so far."""

    ridge: Ridge | None  # None: the sets are those of the evidence
    last: Answer
    best: Answer
    log_det: Float[Array, "*orders"]  # at the last oracle call
    episode: Int[Array, ""]
    calls: Int[Array, ""]
    is_due: Bool[Array, ""] | None  # None: always
    interval: Float[Array, " 2"] | None  # U_k along the one unknown direction, where theta is optimistic

    @property
    def policy(self) -> Int[Array, "H S"]:
        """pi_k of the next episode."""
        return self.last.found.point.policy

    def with_answer(
        self, answer: Answer, log_det: Float[Array, "*orders"], interval: Float[Array, " 2"] | None = None
    ) -> "State":
        """The state with a new answer."""
        is_best = answer.found.value <= self.best.found.value  # k*: the latest of equals
        best: Answer = jax.tree.map(lambda new, old: jnp.where(is_best, new, old), answer, self.best)
        calls = self.calls + 1
        return State(self.ridge, answer, best, log_det, self.episode, calls, self.is_due, interval)


TILDE, HAT = 0, 1
CHOICES = {
    "oracle": ("ascent", "relaxed", "exhaustive"),
    "theta": ("center", "optimistic"),
    "plan_with": ("best", "last"),
    "sets": ("regression", "likelihood"),
}
OF_REGRESSION = ("constants", "scale", "bias_scale", "moment_orders", "theta", "plan_with", "alpha", "gamma")
_prepare = eqx.filter_jit(prepare)


class HFUCRLRFE(PlugIn):
    """HF-UCRL-RFE++ (Zhang, Zhang, Gu 2023): weighted regression on an exploration-driven pseudo reward."""

    constants: Constants = "scaled"
    scale: Noise = 1.0
    bias_scale: Bias = 0.0
    moment_orders: Annotated[int | None, "moments to estimate, instead of M = ceil(log2(7KH))"] = None
    lazy: Annotated[float, "call the oracle when some log det Sigma has grown by so much; 0: always"] = 0.5
    delta: Delta = 0.05
    oracle: Annotated[
        str,
        "'ascent': search for policy and reward; 'relaxed': one backward pass; 'exhaustive': all, if tiny",
    ] = "ascent"
    chains: Annotated[int, "of the ascent: searches at once, from different starts"] = 3
    sweeps: Annotated[int, "of the ascent: steps of each search"] = 20
    homotopy: Annotated[bool, "of the ascent: search with a smaller radius while values are capped"] = True
    theta: Annotated[str, "'center': least squares; 'optimistic': as printed, where that is exact"] = "center"
    plan_with: Annotated[str, "'best': theta_k of the smallest value; 'last': as printed"] = "best"
    alpha: Annotated[float | None, "floor of sigma_bar, instead of H^(-1/2)"] = None
    gamma: Annotated[float | None, "weight of own uncertainty in sigma_bar, instead of d^(-1/4)"] = None
    sets: Annotated[str, "'regression': balls, as printed; 'likelihood': the set of the evidence"] = (
        "regression"
    )
    budget: Budget = None

    def __check_init__(self) -> None:
        radius.check_options(self.constants, self.scale, self.bias_scale, self.delta)
        for name, choices in CHOICES.items():
            check_choice(getattr(self, name), name, choices)
        for name in OF_REGRESSION if self.sets == "likelihood" else ():
            if getattr(self, name) != getattr(type(self), name):
                raise OptionError(
                    f"{name} is an option of sets='regression'; leave it out with sets='likelihood'"
                )
        if self.theta == "optimistic" and self.oracle != "exhaustive":
            raise OptionError(
                f"theta='optimistic' needs an exact maximum over policies and rewards, but oracle is {self.oracle!r}; "
                "add oracle='exhaustive'"
            )
        radius.check_weights(self.constants, self.alpha, self.gamma)
        for name, low in {"lazy": 0, "chains": 1, "sweeps": 1}.items():
            check_at_least(getattr(self, name), name, low)
        if self.moment_orders is not None:
            check_at_least(self.moment_orders, "moment_orders", 1)

    def init(self, model: MixtureModel) -> State:
        """No data, no oracle yet: Sigma = lam I."""
        H, S, _ = model.space.sizes
        ridge, inv, log_det = None, jnp.zeros((2, model.dim, model.dim)), jnp.zeros(())
        if self.sets == "regression":
            ridge = Ridge.init(radius.parameters(model_sizes(model)).lam, model.dim, (2, self.orders(model)))
            inv, log_det = ridge.Sigma_inv[:, 0], ridge.log_det
        nothing_yet = jnp.zeros((H, S), jnp.int32)
        point: Point | AntichainPoint = Point(nothing_yet, jnp.int32(H - 1), jnp.zeros(S, bool))
        if self.oracle == "exhaustive":
            point = AntichainPoint(nothing_yet, jnp.zeros((H, S), bool))
        zero, unit = jnp.zeros((H + 1, S)), jnp.asarray(1.0)
        f = jnp.zeros(model.space.succ.shape if self.oracle == "relaxed" else (0,))
        result = SearchResult(point, zero, zero, f, unit, unit, self.largest_beta(model))
        initial = Answer(result, unit, jnp.zeros(model.dim), inv, unit, jnp.int32(0))
        is_due = jnp.asarray(True) if self.lazy > 0 else None
        counts = jnp.int32(0), jnp.int32(0)
        interval = nested.initial_interval(model) if self.theta == "optimistic" else None
        return State(ridge, initial, initial, log_det, *counts, is_due, interval)

    def choose(self, key: Array, model: MixtureModel, state: State, evidence: MixtureEvidence) -> State:
        """theta_k (departure 1), then the oracle at beta_K (lines 4-6)."""
        ridge, beta = state.ridge, self.largest_beta(model).astype(float)  # strong, as in the state
        interval = state.interval
        if ridge is None:
            theta, inv, log_det = explored_with(model, evidence, self.delta)
            inv = jnp.stack([inv, inv])
        else:
            inv, log_det = ridge.Sigma_inv[:, 0], ridge.log_det
            if interval is None:
                theta = self.center(model, ridge)
            else:
                interval = nested.intersect(model.valid, interval, ridge, self.beta(model, state.episode + 1))
                theta = nested.best_end(model, interval, inv, beta)
        last = state.last.found
        if self.oracle == "ascent":
            result, U = self.by_ascent(key, model, theta, inv, beta, last)
        else:
            prepared = prepare(model, theta, inv[TILDE], inv[HAT])
            policy, bound = relaxed(prepared, beta)
            U = model.space.at_start(bound[0])
            if self.oracle == "relaxed":
                result = self.by_relaxation(prepared, beta, policy, bound, last)
            else:
                result = self.by_enumeration(model, prepared, beta, last)
        answer = Answer(result, U, theta, inv, self.ball_ratio(model, state, theta), state.episode)
        return state.with_answer(answer, log_det, interval)

    def center(self, model: MixtureModel, ridge: Ridge) -> Float[Array, " d"]:
        """theta_k, least squares over the valid parameters (departure 1)."""
        return least_squares(model.valid, ridge.Sigma[:, 0].sum(0), ridge.b[:, 0].sum(0))

    def ball_ratio(self, model: MixtureModel, state: State, theta: Float[Array, " d"]) -> Float[Array, ""]:
        """How far theta is from the centres of its order-0 balls, in radii; 0 where there are none."""
        if state.ridge is None:
            return jnp.zeros(())
        ratio: Array = state.ridge.distance(theta)[:, 0].max() / self.beta(model, state.episode + 1)
        return ratio

    def by_ascent(
        self,
        key: Array,
        model: MixtureModel,
        theta: Float[Array, " d"],
        inv: Float[Array, "2 d d"],
        beta: Float[Array, ""],
        last: SearchResult,
    ) -> tuple[SearchResult, Float[Array, ""]]:
        """The search over policies and single-step indicator rewards, from the last answer; and U at the start."""
        start = last.radius if self.homotopy else beta
        settings = {"chains": self.chains, "sweeps": self.sweeps}
        x, U = search(
            key, model, theta, (inv[TILDE], inv[HAT]), beta, start, cast(Point, last.point), **settings
        )
        return last.after(x, beta), U

    def by_enumeration(
        self, model: MixtureModel, prepared: Prepared, beta: Float[Array, ""], last: SearchResult
    ) -> SearchResult:
        """The maximum over all deterministic policies and antichains of states."""
        point, best = enumerated(model, prepared, beta)
        path = evaluate(prepared, point.policy, point.reward, beta)
        upper = prepared.space.at_start(upper_bound(prepared, beta)[0])
        return SearchResult(point, path.V, path.V_hat, last.f, best.value, upper, beta)

    def by_relaxation(
        self,
        prepared: Prepared,
        beta: Float[Array, ""],
        policy: Int[Array, "H S"],
        U: Float[Array, "H1 S"],
        last: SearchResult,
    ) -> SearchResult:
        """U in place of Vhat: its policy, and for each pair the function in [0,1]^S that is predicted worst there."""
        at_start = prepared.space.at_start
        last_point = cast(Point, last.point)
        point = Point(policy, last_point.step, last_point.target)
        f = jnp.moveaxis(prepared.box_f, (0, 1, 2), (2, 1, 0))
        upper = at_start(upper_bound(prepared, beta)[0])
        return SearchResult(point, jnp.zeros_like(U), U, f, at_start(U[0]), upper, beta)

    def update(
        self, model: MixtureModel, state: State, evidence: MixtureEvidence, trajectory: Trajectory
    ) -> tuple[State, Info]:
        """Regress on the episode: both families, all orders (lines 8-16)."""
        last = state.last
        if state.ridge is None:
            return self.with_evidence(model, state, evidence)
        phi, y = self.targets(model, last.found, trajectory)
        alpha, gamma, _ = self.parameters(model)
        beta = self.beta(model, state.episode + 1)
        ridge, _ = moments.regress(state.ridge, phi, y, beta=beta, alpha=alpha, gamma=gamma)
        is_due = (ridge.log_det - state.log_det).max() >= self.lazy if self.lazy > 0 else None
        episode = state.episode + 1
        new = State(ridge, last, state.best, state.log_det, episode, state.calls, is_due, state.interval)
        numbers = {
            "V_hat": last.found.value,
            "upper": last.found.upper,
            "relaxed": last.relaxed,
            "ball_ratio": last.ball_ratio,
            "oracle_calls": state.calls,
            "search_radius": last.found.radius,
            "log_det_tilde": ridge.log_det[TILDE, 0],
            "log_det_hat": ridge.log_det[HAT, 0],
        }
        return new, Info(numbers, (ConfidenceBall(ridge, self.beta(model, episode + 1)),))

    def with_evidence(
        self, model: MixtureModel, state: State, evidence: MixtureEvidence
    ) -> tuple[State, Info]:
        """`update` with likelihood sets: all that is learnt is in the evidence."""
        last, calls = state.last, state.calls
        log_det = explored_with(model, evidence, self.delta).log_det
        is_due = jnp.abs(log_det - state.log_det) >= self.lazy if self.lazy > 0 else None
        new = State(None, last, state.best, state.log_det, state.episode + 1, calls, is_due, None)
        numbers = {
            "V_hat": last.found.value,
            "upper": last.found.upper,
            "relaxed": last.relaxed,
            "oracle_calls": calls,
            "search_radius": last.found.radius,
            "log_det": log_det,
        }
        return new, Info(numbers)

    def targets(
        self, model: MixtureModel, found: SearchResult, trajectory: Trajectory
    ) -> tuple[Float[Array, "H 2 M d"], Float[Array, "H 2 M"]]:
        """phi and y of both families along the episode: V and Vhat, or f and Vhat after a relaxed search."""
        M = self.orders(model)
        if self.oracle != "relaxed":
            return moments.episode_rows(model, jnp.stack([found.V, found.V_hat], axis=1), trajectory, M)
        f = found.f[trajectory.s[:-1], trajectory.a].at[-1].set(0.0)  # V_{H+1} = 0
        tilde = moments.slot_rows(model, f[:, None], trajectory, M)
        hat = moments.episode_rows(model, found.V_hat[:, None], trajectory, M)
        return jnp.concatenate([tilde[0], hat[0]], axis=1), jnp.concatenate([tilde[1], hat[1]], axis=1)

    def theta_hat(self, model: MixtureModel, state: State, evidence: MixtureEvidence) -> Float[Array, " d"]:
        """theta_{k*}, the model of the smallest value so far; or the last one. With likelihood sets, the predictor."""
        return evidence.theta if self.sets == "likelihood" else self.planning_answer(state).theta

    def planning_answer(self, state: State) -> Answer:
        """The answer whose theta_k is planned with, k* by default."""
        return state.last if self.plan_with == "last" else state.best

    def claim_in(self, model: MixtureModel, confidence: Any, uniform: Certificate) -> Certificate | None:
        """With likelihood sets: min(4U, 4T, N) at the maximum likelihood, proved at any time."""
        return claim_in(model.space, confidence, uniform) if self.sets == "likelihood" else None

    def claim(self, model: MixtureModel, state: State) -> Certificate | None:
        """The smaller of 4 U_k and 4 T_k: rigorous with the paper's constants, while theta_k lies in its order-0 balls.

        4 Vhat_k stands beside it; it would be the smallest bound if the oracle's maximum were exact.
        """
        if self.sets == "likelihood":
            return None  # it rests on the evidence: claim_in
        answer = self.planning_answer(state)
        U = float(answer.relaxed)
        parts = {
            "V_hat": float(answer.found.value),
            "four_V_hat": 4 * float(answer.found.value),
            "relaxed": U,
            "ball_ratio": float(answer.ball_ratio),
            "episode": float(answer.episode),
        }
        bound, least = "4U", U
        if U > 0:
            parts["total_variance"] = self.total_variance(model, answer)
            if parts["total_variance"] < U:
                bound, least = "4T", parts["total_variance"]
        reason = "theta_k left its confidence balls" if answer.ball_ratio > 1 else None
        terms = Terms(self.delta, self.constants, self.budget)
        return claim(4 * least, parts, bound, terms, int(state.episode), reason)

    @x64
    def total_variance(self, model: MixtureModel, answer: Answer) -> float:
        """T_k: by how much values in theta_k are misjudged, by the law of total variance; on the host, seconds.

        Two bounds, the smaller counts. That of max Vhat is no smaller than what the oracle attained, so it is left out
        where it could not help.
        """
        prepared = _prepare(*to_device((model, answer.theta, answer.inv[TILDE], answer.inv[HAT])))
        beta = float(self.beta(model, self.total()))
        least = variance_bound(prepared, beta)
        attained = 0.0 if self.oracle == "relaxed" else float(answer.found.value)
        return least if attained >= least else min(least, total_variance_bound(prepared, beta))

    def orders(self, model: MixtureModel) -> int:
        """M, the number of moment orders."""
        if self.moment_orders is not None:
            return self.moment_orders
        return radius.moment_orders(self.total(), model.space.horizon)

    def total(self) -> int:
        """K, the budget."""
        return check_budget(self.budget, "K that the radii refer to")

    def parameters(self, model: MixtureModel) -> radius.Parameters:
        """alpha, gamma, lam: the theorem's, or the options'."""
        alpha, gamma, lam = radius.parameters(model_sizes(model))
        values = alpha if self.alpha is None else self.alpha, gamma if self.gamma is None else self.gamma
        return radius.Parameters(*values, lam)

    def largest_beta(self, model: MixtureModel) -> Float[Array, ""]:
        """beta_K; 1/2 with likelihood sets."""
        return jnp.asarray(BETA) if self.sets == "likelihood" else self.beta(model, self.total())

    def beta(self, model: MixtureModel, k: Number) -> Float[Array, ""]:
        """beta_k: the theorem's radius, or a constant noise part."""
        sizes = model_sizes(model)
        if self.constants == "paper":
            weights = self.parameters(model)
            return radius.beta_hf(k, sizes, self.delta, M=self.orders(model), weights=weights)
        return radius.scaled_moments(sizes, self.scale, self.bias_scale)
