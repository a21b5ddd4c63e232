"""Plans for painted rewards, as plain data for JSON.

A painted reward has a weight in [-1, 1] for some states, negative for costs, and a mode: "end" pays the weight of the
state at the last step, "along" pays 1/H of it at every step. The total is between -1 and 1. Rewards with costs are
rescaled for the certificate; answers are in the units of the painting. "reach" pays 1 for being at least once in one
of the states with a weight above 0 (`hf.reach`).

States may be marked as to be avoided, with a bound on the probability to be in one of them at least once (bounded.py).
"""

import dataclasses
import io
import threading
from collections import OrderedDict
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from horizonfree._validation import require, short_repr
from horizonfree.errors import OptionError, RewardError, ShapeError
from horizonfree.guarantees.certificate import confidence_of
from horizonfree.mdp.events import Event, reach
from horizonfree.mdp.space import Space
from horizonfree.planning import evaluate, visits
from horizonfree.problems.problem import Problem, true_gap
from horizonfree.report.facts import (
    explorer_label_of,
    goal_states,
    goals_certificate,
    goals_name,
    marked_starts,
    num_starts,
    uses_reward,
    without_assumed_truth,
)
from horizonfree.runs.credible import likely
from horizonfree.runs.plan import ConstrainedPlan, Plan
from horizonfree.runs.reward_spec import event_values
from horizonfree.runs.run import Run
from horizonfree.web.bounded import (
    Avoidance,
    Bound,
    answer_of,
    bound_of,
    bound_refusal,
    check_index,
    draws_of,
    plan_within,
    world_of,
)

MISSPECIFICATIONS = (
    0.0,
    3e-4,
    1e-3,
    2e-3,
    3e-3,
    5e-3,
    0.01,
    0.02,
    0.03,
    0.05,
    0.1,
)  # of the slider
FAST_WORK = 2e8  # transitions of dynamic programmes in a fraction of a second
MAX_CACHED_PLANS = 16
MODES = ("along", "end", "reach")
NUM_SEEDS = 2**31
RANDOM_START = -1  # in place of a first state: the start distribution of the problem


class Painting(NamedTuple):
    """A painted reward: (state, weight) in the order of the states, its mode, and what is to be avoided."""

    weights: tuple[tuple[int, float], ...]
    when: str
    bound: Bound | None = None


class CachedPlan(NamedTuple):
    """A plan, its values in the estimate, and its true suboptimality if it is known.

    `avoidance`: of plans within a bound, whose policies, kernels and values are of lifted states.
    """

    plan: Plan
    V: Float[np.ndarray, "H1 X"]
    loss: float | None
    avoidance: Avoidance | None = None


class Session:
    """A run that plans for painted rewards; thread-safe."""

    def __init__(self, run: Run, delta: float = 0.05) -> None:
        self.run, self.delta = without_assumed_truth(run), delta
        self._cache: OrderedDict[tuple[Painting, int], CachedPlan] = OrderedDict()
        self._lock = threading.Lock()

    def problem(self) -> dict[str, Any]:
        """The problem, the source of the episodes, and the certificates for the goals and for every reward."""
        explorer, options = explorer_label_of(self.run)
        run_info = {
            "reachable": np.flatnonzero(self.run.problem.space.reachable).tolist(),
            "episodes": self.run.episodes,
            "is_logged": self.run.explorer_spec is None,
            "explorer": explorer,
            "uses_reward": uses_reward(options),
            "confidence": confidence_of(self.delta),
            "misspecifications": self.misspecifications,
            "bound_refusal": self.bound_refusal,
        }
        return drawing(self.run.problem) | run_info | self._certificates

    @property
    def misspecifications(self) -> list[float]:
        """The misspecifications of the slider; only 0 if no certificate allows more."""
        return list(MISSPECIFICATIONS if self.run.evidence.has_history else (0.0,))

    @cached_property
    def bound_refusal(self) -> str | None:
        """Why nothing can be avoided within a bound here, as a sentence."""
        with self._lock:
            return bound_refusal(self.run, self.delta)

    @cached_property
    def _certificates(self) -> dict[str, Any]:
        """The certificates for every reward and for all goals."""
        with self._lock:
            goals, every_reward = goals_certificate(self.run, self.delta), self.run.certificate(self.delta)
        return {
            "eps": every_reward.eps,
            "summary": every_reward.summary(),
            "forecast": every_reward.forecast,
            "is_vacuous": every_reward.is_vacuous,
            "is_rejected": every_reward.is_rejected,
            "goals": {
                "name": goals_name(goal_states(self.run)),
                "eps": goals.eps,
                "forecast": goals.forecast,
                "is_vacuous": goals.is_vacuous,
            },
        }

    def plan(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a question of the page, which is untrusted JSON."""
        problem = self.run.problem
        first = default_start(problem)

        def index(name: str, size: int, default: int = 0, low: int = 0) -> int:
            return check_index(question.get(name, default), size, name, low)

        is_after = question.get("after", False)
        require(isinstance(is_after, bool), "after", is_after, "true or false", ShapeError)
        return self.answer(
            self.painting(question),
            step=index("step", problem.horizon),
            start=index("start", problem.num_states, first, min(first, 0)),
            seed=index("seed", NUM_SEEDS),
            misspecification=index("misspecification", len(self.misspecifications)),
            after=is_after,
        )

    def answer(
        self,
        painting: Painting,
        *,
        step: int,
        start: int,
        seed: int,
        misspecification: int = 0,
        after: bool = False,
    ) -> dict[str, Any]:
        """The plan at one step, its value from one state, its certificate, and one episode.

        misspecification: the place in `misspecifications` of how far laws may be from the class.
        after: of a plan within a bound, what it does once a marked state was entered.
        """
        plan, V, loss, avoidance = self.planned(painting, misspecification)
        certificate, S = plan.certificate, self.run.problem.num_states
        is_default_start = start == default_start(self.run.problem)
        at_start = _with_start(self.run.problem.space, start).at_start
        first = avoidance.after if avoidance is not None and after else 0
        rules, values = (x[step][first : first + S] for x in (plan.policy, V))
        bounded = None
        if isinstance(plan, ConstrainedPlan) and avoidance is not None:
            bounded = answer_of(plan, avoidance, float(at_start(avoidance.risk[0][:S])))
        return {
            "step": step,
            "policy": (rules if rules.ndim == 1 else rules.argmax(axis=-1)).tolist(),
            "draws": draws_of(rules),
            "values": np.round(values, 6).tolist(),
            "occupancy": np.round(self.occupancy(plan, start), 6).tolist(),
            "value": float(at_start(V[0][:S])),
            # The certificate is for the start of the problem.
            "value_low": plan.value_low if is_default_start else None,
            "value_high": plan.value_high if is_default_start else None,
            "gap": plan.gap,
            "method": certificate.method,
            "summary": certificate.summary(),
            "is_vacuous": certificate.is_vacuous,
            "is_rejected": certificate.is_rejected,
            "misspecification": self.misspecifications[misspecification],
            "every": self._every_reward(misspecification),
            "likely": self._credible_data(plan) if is_default_start else None,
            "loss": loss,
            "bounded": bounded,
            "episode": self.episode(plan, start, seed, avoidance).tolist(),
        }

    def _credible_data(self, plan: Plan) -> dict[str, Any] | None:
        """Credible interval and gap of a plan; None where there is no posterior, or where it takes long."""
        with self._lock:
            result = likely(plan.credible, work=FAST_WORK)
        return None if result.refusal else result.data()

    def _every_reward(self, misspecification: int) -> dict[str, Any]:
        """The bound for every reward, and the smallest misspecification that the data do not refute."""
        if misspecification == 0:
            return {
                "eps": self._certificates["eps"],
                "is_vacuous": self._certificates["is_vacuous"],
                "low": None,
            }
        with self._lock:
            certificate = self.run.certificate(
                self.delta, misspecification=self.misspecifications[misspecification]
            )
        low = certificate.parts["zeta_low"]
        return {"eps": certificate.eps, "is_vacuous": certificate.is_vacuous, "low": low}

    def planned(self, painting: Painting, misspecification: int = 0) -> CachedPlan:
        """The plan for a painting, cached."""
        with self._lock:
            key = painting, misspecification
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
            result = self._plan(painting, self.misspecifications[misspecification])
            self._cache[key] = result
            if len(self._cache) > MAX_CACHED_PLANS:
                self._cache.popitem(last=False)
            return result

    def _plan(self, painting: Painting, misspecification: float) -> CachedPlan:
        if painting.bound is not None:
            return self._plan_within(painting, painting.bound, misspecification)
        if painting.when == "reach":
            return self._reaching(painting, misspecification)
        problem, reward, scale = self.run.problem, self.table(painting), scale_of(painting)
        plan = self.run.plan(reward, scale=scale, delta=self.delta, misspecification=misspecification)
        V = evaluate(plan.kernel, reward, plan.policy)
        gap = None if problem.truth is None else true_gap(problem, reward, plan.policy, scale=scale)
        loss = None if gap is None else max(0.0, gap)
        return CachedPlan(plan, V, loss)

    def _reaching(self, painting: Painting, misspecification: float) -> CachedPlan:
        """The plan for being there at least once; values are those of a state that was not preceded by one of them."""
        if misspecification > 0:
            raise RewardError(
                "at least once is certified for the exact class only; set misspecification to 0"
            )
        problem, event = self.run.problem, self._event(painting)
        plan = self.run.plan(event, delta=self.delta)
        policy = np.concatenate([plan.policy, np.zeros_like(plan.policy, shape=(1, problem.num_states))])
        values, loss = event_values(problem, event, policy, plan.kernel), None
        if problem.truth is not None:
            true = event_values(problem, event, policy, problem.kernel())
            loss = max(0.0, true.best - true.value)
        return CachedPlan(dataclasses.replace(plan, policy=policy), values.V, loss)

    def _event(self, painting: Painting) -> Event:
        """Being in a painted state at least once."""
        return reach(self.run.problem, [s for s, weight in painting.weights if weight > 0])

    def _plan_within(self, painting: Painting, bound: Bound, misspecification: float) -> CachedPlan:
        """The plan within a bound; the best plan of the truth within it is not looked for, so no loss is known."""
        if misspecification > 0:
            raise RewardError(
                "a bound for states to be avoided is certified for the exact class only; set misspecification to 0"
            )
        reward = self._event(painting) if painting.when == "reach" else self.table(painting)
        plan, avoidance = plan_within(self.run, reward, bound, scale=scale_of(painting), delta=self.delta)
        return CachedPlan(plan, avoidance.V, None, avoidance)

    def episode(
        self, plan: Plan, start: int, seed: int, avoidance: Avoidance | None = None
    ) -> Int[np.ndarray, " H1"]:
        """The states of one episode, simulated with the truth if it is known, else with the estimate."""
        problem, random = self.run.problem, np.random.default_rng(seed)
        kernel = world_of(problem, plan, None if avoidance is None else avoidance.lift)
        states = np.empty(problem.horizon + 1, np.int32)
        space = _with_start(problem.space, start)
        states[0] = int(space.start or 0) if space.initial is None else _draw(space.initial, random)
        for h in range(problem.horizon):
            rule = plan.policy[h, states[h]]
            row = states[h], rule if rule.ndim == 0 else _draw(rule, random)
            states[h + 1] = kernel.succ[row][_draw(kernel.prob[row], random)]
        return states % problem.num_states  # of lifted ones

    def occupancy(self, plan: Plan, start: int) -> Float[np.ndarray, " S"]:
        """The share of steps in each state, in the estimate."""
        problem = self.run.problem
        first = np.asarray(_with_start(problem.space, start).initial)
        initial = np.append(first, np.zeros(plan.policy.shape[1] - problem.num_states))  # of lifted states
        occupancy = visits(plan.kernel, plan.policy, initial).sum(axis=(0, 2)) / problem.horizon
        return np.asarray(occupancy.reshape(-1, problem.num_states).sum(axis=0))

    def table(self, painting: Painting) -> Float[np.ndarray, "H S A"]:
        """The painted reward as an array."""
        if painting.when == "reach":
            raise RewardError("at least once is no array; use horizonfree plan RUN --reach STATE")
        problem = self.run.problem
        H, S, A = problem.horizon, problem.num_states, problem.num_actions
        states = np.zeros(S)
        for s, weight in painting.weights:
            states[s] = weight
        table = np.zeros((H, S, A))
        if painting.when == "end":
            table[-1] = states[:, None]
        else:
            table[:] = states[:, None] / H
        return table

    def file(self, painting: Painting) -> bytes:
        """The painted reward as the bytes of an .npy file."""
        file = io.BytesIO()
        np.save(file, self.table(painting), allow_pickle=False)
        return file.getvalue()

    def painting(self, question: Mapping[str, Any]) -> Painting:
        """A painting from untrusted JSON."""
        when, weights = question.get("when"), question.get("weights")
        if when not in MODES:
            raise RewardError(f"when is {short_repr(when)}; it must be 'along', 'end' or 'reach'")
        if not isinstance(weights, list):
            raise ShapeError("weights must be a list of [state, weight]")
        values: dict[int, float] = {}
        for i, pair in enumerate(weights):
            if not (isinstance(pair, list) and len(pair) == 2):
                raise ShapeError(f"weights[{i}] is {short_repr(pair)}; it must be [state, weight]")
            state = check_index(pair[0], self.run.problem.num_states, f"the state of weights[{i}]")
            weight = pair[1]
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not -1 <= weight <= 1:
                raise RewardError(
                    f"the weight of state {state} is {short_repr(weight)}; weights lie between -1 and 1"
                )
            if state in values:
                raise ShapeError(f"state {state} has two weights; give it one")
            values[state] = float(weight)
        if when == "reach" and not (values and all(weight >= 0 for weight in values.values())):
            raise RewardError("at least once needs a state with a weight above 0, and no costs")
        painted = tuple(sorted((s, w) for s, w in values.items() if w != 0))
        bound = bound_of(question, self.run.problem.num_states)
        if bound is not None and self.bound_refusal is not None:
            raise OptionError(self.bound_refusal)
        return Painting(painted, when, bound)


def drawing(problem: Problem) -> dict[str, Any]:
    """Sizes, cells and names of a problem."""
    cells, names = problem.layout.get("cells"), problem.layout.get("states")
    has_names = names is not None or (cells is None and problem.space.state_ids is not None)
    return {
        "name": problem.name,
        "states": problem.num_states,
        "horizon": problem.horizon,
        "start": default_start(problem),
        "starts": marked_starts(problem),
        "num_starts": num_starts(problem),
        "actions": [str(x) for x in problem.layout.get("actions") or range(problem.num_actions)],
        "names": [problem.state_name(s) for s in range(problem.num_states)] if has_names else None,
        "cells": None if cells is None else np.asarray(cells).tolist(),
    }


def scale_of(painting: Painting) -> str:
    """How the reward is certified: rescaled if it has costs."""
    return "rescale" if any(weight < 0 for _, weight in painting.weights) else "total"


def default_start(problem: Problem) -> int:
    """Where episodes start: a state, or RANDOM_START."""
    return RANDOM_START if problem.space.start is None else problem.space.start


def _with_start(space: Space, start: int) -> Space:
    """The space with another start.

    A state is a distribution with probability 1, so that another start compiles nothing.
    """
    if start == RANDOM_START:
        return space
    initial = (np.arange(space.num_states) == start).astype(np.float64)
    return dataclasses.replace(space, initial=initial, start=None)


def _draw(prob: Float[np.ndarray, " n"], random: np.random.Generator) -> int:
    """An index, drawn with these probabilities."""
    cumulative = np.cumsum(np.maximum(prob, 0.0))
    return int(np.searchsorted(cumulative, random.random() * cumulative[-1], side="right"))
