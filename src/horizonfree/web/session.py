"""What the playground answers: painted rewards in, plans out, as plain data for JSON.

A painted reward is a weight in [-1, 1] for some states, negative where they cost, and a word for when it counts: "end"
pays the weight of the state at the last step, "along" pays 1/H of it at every step. Either way the total stays within
-1 and 1. Where something costs, the reward is rescaled to be certified, and the answers are in the units of the paint.
"""

import dataclasses
import io
import threading
from collections import OrderedDict
from collections.abc import Mapping
from functools import cached_property
from reprlib import repr as brief
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from horizonfree.errors import RewardError, ShapeError
from horizonfree.guarantees.certificate import confidence_of
from horizonfree.mdp.space import Space
from horizonfree.planning import evaluate, visits
from horizonfree.problems.problem import Problem, true_gap
from horizonfree.report.facts import (
    explorer_label_of,
    goals_certificate,
    goals_name,
    marked_starts,
    num_starts,
    uses_reward,
    without_assumed_truth,
)
from horizonfree.report.history import goal_states
from horizonfree.runs.plan import Plan
from horizonfree.runs.run import Run

ALLOWANCES = (
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
)  # misspecifications of the slider
PLANS = 16  # plans that are remembered: moving a slider plans nothing again
WHEN = ("end", "along")
DRAWN = -1  # in place of a first state: it is drawn, as the problem says


class Painting(NamedTuple):
    """A painted reward: (state, weight) in the order of the states, and when it counts."""

    weights: tuple[tuple[int, float], ...]
    when: str


class Planned(NamedTuple):
    """A plan, its values in the world that it was made for, and what it really loses where that is known."""

    plan: Plan
    V: Float[np.ndarray, "H1 S"]
    loss: float | None


class Session:
    """A run that answers questions about painted rewards; safe to ask from several threads."""

    def __init__(self, run: Run, delta: float = 0.05) -> None:
        self.run, self.delta = without_assumed_truth(run), delta
        self._kept: OrderedDict[tuple[Painting, int], Planned] = OrderedDict()
        self._lock = threading.Lock()

    def problem(self) -> dict[str, Any]:
        """What the page draws, where the episodes are from, what is proved of the goals and of every reward."""
        explorer, options = explorer_label_of(self.run)
        told = {
            "reachable": np.flatnonzero(self.run.problem.space.reachable).tolist(),
            "episodes": self.run.episodes,
            "is_logged": self.run.explorer_spec is None,
            "explorer": explorer,
            "saw_reward": uses_reward(options),
            "confidence": confidence_of(self.delta),
            "allowances": self.allowances,
        }
        return drawing(self.run.problem) | told | self._proved

    @property
    def allowances(self) -> list[float]:
        """How far laws may be from the class, as far as the slider goes; 0 alone where nothing is proved of more."""
        return list(ALLOWANCES if getattr(self.run.evidence, "record", None) is not None else (0.0,))

    @cached_property
    def _proved(self) -> dict[str, Any]:
        """Of every reward, and of the goals together."""
        with self._lock:
            goals, every = goals_certificate(self.run, self.delta), self.run.certificate(self.delta)
        return {
            "eps": every.eps,
            "words": every.words,
            "forecast": every.forecast,
            "is_vacuous": every.is_vacuous,
            "is_rejected": every.is_rejected,
            "goals": {
                "name": goals_name(goal_states(self.run)),
                "eps": goals.eps,
                "forecast": goals.forecast,
                "is_vacuous": goals.is_vacuous,
            },
        }

    def answer(
        self, painting: Painting, *, step: int, start: int, seed: int, allowance: int = 0
    ) -> dict[str, Any]:
        """The plan at one step, its value from one state, what is proved of it, and one episode.

        allowance: the place in `allowances` of how far laws may be from the class.
        """
        plan, V, loss = self.planned(painting, allowance)
        certificate = plan.certificate
        is_home = start == home(self.run.problem)
        return {
            "step": step,
            "policy": plan.policy[step].tolist(),
            "values": np.round(V[step], 6).tolist(),
            "occupancy": np.round(self.occupancy(plan, start), 6).tolist(),
            "value": float(_beginning(self.run.problem.space, start).at_start(V[0])),
            # What is proved is about the problem's own start.
            "value_low": plan.value_low if is_home else None,
            "value_high": plan.value_high if is_home else None,
            "gap": plan.gap,
            "method": certificate.method,
            "words": certificate.words,
            "is_vacuous": certificate.is_vacuous,
            "is_rejected": certificate.is_rejected,
            "allowance": self.allowances[allowance],
            "every": self._every(allowance),
            "loss": loss,
            "episode": self.episode(plan, start, seed).tolist(),
        }

    def _every(self, allowance: int) -> dict[str, Any]:
        """What is proved of every reward; with it the smallest allowance that the data leave, where that is asked."""
        if allowance == 0:
            return {"eps": self._proved["eps"], "is_vacuous": self._proved["is_vacuous"], "low": None}
        with self._lock:
            found = self.run.certificate(self.delta, misspecification=self.allowances[allowance])
        return {"eps": found.eps, "is_vacuous": found.is_vacuous, "low": found.parts["zeta_low"]}

    def planned(self, painting: Painting, allowance: int = 0) -> Planned:
        """The plan for a painting, remembered."""
        with self._lock:
            key = painting, allowance
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            found = self._plan(painting, self.allowances[allowance])
            self._kept[key] = found
            if len(self._kept) > PLANS:
                self._kept.popitem(last=False)
            return found

    def _plan(self, painting: Painting, allowance: float) -> Planned:
        problem, reward = self.run.problem, self.table(painting)
        scale = "rescale" if any(weight < 0 for _, weight in painting.weights) else "total"
        plan = self.run.plan(reward, scale=scale, delta=self.delta, misspecification=allowance)
        V = evaluate(plan.kernel, reward, plan.policy)
        really = None if problem.truth is None else true_gap(problem, reward, plan.policy, scale=scale)
        loss = None if really is None else max(0.0, really)
        return Planned(plan, V, loss)

    def episode(self, plan: Plan, start: int, seed: int) -> Int[np.ndarray, " H1"]:
        """The states of one episode: of the simulated truth where there is one, else of the estimated world."""
        problem = self.run.problem
        kernel = plan.kernel if problem.truth is None else problem.kernel()
        space = _beginning(problem.space, start)
        from horizonfree.problems.simulate import simulate_kernel  # compiled: loads JAX

        return np.asarray(simulate_kernel(kernel, space, plan.policy, seed=seed).s[0])

    def occupancy(self, plan: Plan, start: int) -> Float[np.ndarray, " S"]:
        """The share of its steps that the plan spends in each state, in the estimated world."""
        problem = self.run.problem
        spent = visits(plan.kernel, plan.policy, _beginning(problem.space, start).initial)
        return np.asarray(spent.sum(axis=(0, 2)) / problem.horizon)

    def table(self, painting: Painting) -> Float[np.ndarray, "H S A"]:
        """The painted reward as an array."""
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
        """A painting from untrusted JSON, or an error that says what is wrong with it."""
        when, weights = question.get("when"), question.get("weights")
        if when not in WHEN:
            raise RewardError(f"when is {brief(when)}; it must be 'end' or 'along'")
        if not isinstance(weights, list):
            raise ShapeError("weights must be a list of [state, weight]")
        found: dict[int, float] = {}
        for i, pair in enumerate(weights):
            if not (isinstance(pair, list) and len(pair) == 2):
                raise ShapeError(f"weights[{i}] is {brief(pair)}; it must be [state, weight]")
            state = index(pair[0], self.run.problem.num_states, f"the state of weights[{i}]")
            weight = pair[1]
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not -1 <= weight <= 1:
                raise RewardError(
                    f"the weight of state {state} is {brief(weight)}; weights lie between -1 and 1"
                )
            if state in found:
                raise ShapeError(f"state {state} has two weights; give it one")
            found[state] = float(weight)
        return Painting(tuple(sorted((s, w) for s, w in found.items() if w != 0)), when)


def drawing(problem: Problem) -> dict[str, Any]:
    """Sizes, places and names of a problem."""
    cells, names = problem.layout.get("cells"), problem.layout.get("states")
    has_names = names is not None or (cells is None and problem.space.state_ids is not None)
    return {
        "name": problem.name,
        "states": problem.num_states,
        "horizon": problem.horizon,
        "start": home(problem),
        "starts": marked_starts(problem),
        "num_starts": num_starts(problem),
        "actions": [str(x) for x in problem.layout.get("actions") or range(problem.num_actions)],
        "names": [problem.state_name(s) for s in range(problem.num_states)] if has_names else None,
        "cells": None if cells is None else np.asarray(cells).tolist(),
    }


def home(problem: Problem) -> int:
    """Where an episode starts: a state, or DRAWN."""
    return DRAWN if problem.space.start is None else problem.space.start


def _beginning(space: Space, start: int) -> Space:
    """The space with episodes from one state, or from where they are drawn.

    A state is a sure draw, so that a slider of starts compiles nothing anew.
    """
    if start == DRAWN:
        return space
    initial = (np.arange(space.num_states) == start).astype(np.float64)
    return dataclasses.replace(space, initial=initial, start=None)


def index(value: Any, size: int, what: str, least: int = 0) -> int:
    """An integer from `least` to size - 1 out of untrusted JSON."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < size:
        raise ShapeError(f"{what} is {brief(value)}; it must be an integer from {least} to {size - 1}")
    return value
