"""Explorers with one fault each, which `check_explorer` must find; and two without."""

import inspect
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import horizonfree as hf
from horizonfree.explorers import Explorer, ExplorerPlan, Info, Uniform
from horizonfree.guarantees.certificate import Certificate
from horizonfree.models.base import Model
from horizonfree.planning.traced import optimal_jax


class LeastTaken(hf.PythonExplorer):
    """Right: the action that was taken least often, ties at random."""

    def choose(self, rng, model, state, evidence):
        return (evidence.visits + rng.random(evidence.visits.shape)).argmin(axis=1)

    def update(self, model, state, evidence, trajectory):
        return state, {"different": len(np.unique(trajectory.s))}


class State(eqx.Module):
    """Actions."""

    policy: jax.Array


class RandomGoals(Explorer):
    """Right, and traced: every episode tries to end in a state drawn at random."""

    learns: ClassVar[type[Model]] = Model
    step: int = -1

    def init(self, model):
        H, S, _ = model.space.sizes
        return State(jnp.zeros((H, S), "int32"))

    def choose(self, key, model, state, evidence):
        H, S, A = model.space.sizes
        goal = jax.random.randint(key, (), 0, S)
        reward = jnp.zeros((H, S, A)).at[self.step, goal].set(1.0)
        return State(optimal_jax(model.estimate(evidence), reward)[0])

    def update(self, model, state, evidence, trajectory):
        return state, Info({})

    def plan(self, model, state, evidence, reward):
        return ExplorerPlan(*optimal_jax(model.estimate(evidence), reward))

    def claim(self, model, state):
        return None


class FrameReader(LeastTaken):
    """Looks for the truth in the frames above it, and plans with it."""

    def choose(self, rng, model, state, evidence):
        frame = inspect.currentframe()
        while frame is not None:
            for name in ("problem", "run"):
                holder = frame.f_locals.get(name)
                problem = getattr(holder, "problem", holder)
                if isinstance(problem, hf.Problem) and problem.truth is not None:
                    reward = np.zeros(problem.space.sizes)
                    reward[-1, int(np.asarray(problem.kernel().prob)[0, 0].argmax())] = 1.0
                    return hf.planning.optimal(problem.kernel(), reward).policy
            frame = frame.f_back
        return super().choose(rng, model, state, evidence)


class TracingReader(RandomGoals):
    """Looks for the truth while it is traced."""

    def choose(self, key, model, state, evidence):
        frame = inspect.currentframe()
        while frame is not None:
            problem = getattr(frame.f_locals.get("run"), "problem", frame.f_locals.get("problem"))
            if isinstance(problem, hf.Problem) and problem.truth is not None:
                H, S, A = model.space.sizes
                prob = jnp.asarray(np.asarray(problem.kernel().prob))
                reward = jnp.zeros((H, S, A)) + prob[..., 0] / H
                return State(optimal_jax(model.kernel(jnp.asarray(problem.truth)), reward)[0])
            frame = frame.f_back
        return super().choose(key, model, state, evidence)


class Counter(LeastTaken):
    """Remembers outside its state."""

    calls: ClassVar[list] = []

    def choose(self, rng, model, state, evidence):
        self.calls.append(1)
        rng = np.random.default_rng(len(self.calls))
        return rng.integers(model.space.num_actions, size=model.space.sizes[:2])


class GlobalRandom(LeastTaken):
    """Draws from the global generator."""

    def choose(self, rng, model, state, evidence):
        return np.random.randint(model.space.num_actions, size=model.space.sizes[:2])  # noqa: NPY002


class TraceTimeRandom(RandomGoals):
    """Draws while it is traced, so that the number is part of the compiled program."""

    def choose(self, key, model, state, evidence):
        H, S, A = model.space.sizes
        policy = np.random.default_rng().integers(A, size=(H, S), dtype=np.int32)
        return State(jnp.asarray(policy) + 0 * state.policy)


class BadPolicy(LeastTaken):
    """An action that does not exist."""

    def choose(self, rng, model, state, evidence):
        return np.full(model.space.num_states, model.space.num_actions)


class Changer(LeastTaken):
    """Writes into the evidence, on which certificates rest."""

    def update(self, model, state, evidence, trajectory):
        evidence.counts[:] += 1
        return state, {}


class Grower(LeastTaken):
    """A state that grows."""

    def init(self, model):
        return {"seen": np.zeros(0)}

    def update(self, model, state, evidence, trajectory):
        return {"seen": np.append(state["seen"], 1.0)}, {}


class NotANumber(LeastTaken):
    """A record that is not finite."""

    def update(self, model, state, evidence, trajectory):
        return state, {"ratio": np.inf}


class TwoNames(LeastTaken):
    """Records with other names in every second episode."""

    def update(self, model, state, evidence, trajectory):
        return state, {f"number {int(evidence.episodes) % 2}": 1.0}


class Unstorable(LeastTaken):
    """An option that no file can hold."""

    rule: object = len


class Boaster(Uniform):
    """Claims what it cannot know."""

    def claim(self, model, state):
        return Certificate(1e-6, 0.05, "paper", "a boast")


class Dreamer(Uniform):
    """Its plans have values that no reward of total 1 has."""

    def plan(self, model, state, evidence, reward):
        plan = super().plan(model, state, evidence, reward)
        return ExplorerPlan(plan.policy, plan.V + 2)


class Extra(LeastTaken):
    """An argument too many."""

    def choose(self, rng, model, state, evidence, extra):
        return 0


class Oracle(LeastTaken):
    """Is given the truth as an option."""

    kernel: np.ndarray

    def choose(self, rng, model, state, evidence):
        return np.zeros(model.space.num_states, int)
