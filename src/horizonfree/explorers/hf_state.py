"""The state of HF-UCRL-RFE++ (hf_ucrl_rfe.py): the answers of its oracle and its regressions."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from horizonfree._arrays import Array
from horizonfree.estimators.ridge import Ridge
from horizonfree.oracle import OracleResult, Point, next_search_radius
from horizonfree.oracle.result import AntichainPoint


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
