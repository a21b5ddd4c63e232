"""A run: what exploration left behind, ready to plan for any reward and to certify the plans."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from horizonfree import certificates, evidence, planning, rewards
from horizonfree._x64 import to_device, to_numpy, x64
from horizonfree.certificates import Certificate, Confidence
from horizonfree.checks import share, whole
from horizonfree.errors import ModelError, OptionError, ShapeError
from horizonfree.evidence import Evidence
from horizonfree.explorers._api import Explorer, Progress
from horizonfree.mixture import Mixture
from horizonfree.simulate import Trajectory
from horizonfree.stopping import Goal
from horizonfree.valid import ValidSet, valid_set


@dataclass(frozen=True, eq=False)
class Plan:
    """The answer to one reward. Value and gap are in the units of the reward as it was given.

    `value` is the policy's value under `theta`, the model it was planned in; `gap` is what it loses at most against the
    best policy, with probability 1 - certificate.delta.
    """

    policy: Int[np.ndarray, "H S"]
    value: float
    gap: float
    certificate: Certificate
    theta: Float[np.ndarray, " d"]

    def act(self, h: int, state: int) -> int:
        """The action at step h (from 0) in a state."""
        H, S = self.policy.shape
        h = whole(h, "h", 0, H - 1, f"a step, 0 to {H - 1}", ShapeError)
        state = whole(state, "state", 0, S - 1, f"a state, 0 to {S - 1}", ShapeError)
        return int(self.policy[h, state])


@dataclass(frozen=True, eq=False)
class Run:
    """A problem explored so far. `rows` holds one number per episode for everything the explorer reports.

    `goal` is what was asked for last; `folder` is where the run lives, if it was stored. `is_simulated` is False when a
    real environment was stepped.
    """

    problem: Mixture
    explorer: Explorer | None
    seed: int
    valid: ValidSet
    progress: Progress
    rows: Mapping[str, np.ndarray]
    is_simulated: bool = True
    goal: Goal | None = None
    folder: Path | None = None
    # init=False: dataclasses.replace never copies it on to a run with other evidence
    _confidences: dict[float, Confidence] = field(default_factory=dict, init=False, repr=False)

    @property
    def episodes(self) -> int:
        """How many episodes were gathered."""
        return int(self.progress.episode)

    @property
    def evidence(self) -> Evidence:
        """Counts and bets."""
        return self.progress.evidence

    @property
    @x64
    def theta_hat(self) -> Float[np.ndarray, " d"]:
        """The explorer's own estimate; `plan(...).theta` is the one that certified plans use."""
        if self.explorer is None:
            return np.asarray(self.evidence.theta)
        known, valid, progress = to_device((self.problem.known, self.valid, self.progress))
        return np.asarray(self.explorer.estimate(known, valid, progress.state, progress.evidence))

    def confidence(self, delta: float = 0.05) -> Confidence:
        """What the evidence says at confidence 1 - delta; computed once."""
        delta = share(delta, "delta")
        if delta not in self._confidences:
            known = self.problem.known
            self._confidences[delta] = certificates.confidence(known, self.valid, self.evidence, delta=delta)
        return self._confidences[delta]

    def certificate(self, delta: float = 0.05, *, method: str = "uniform") -> Certificate:
        """One gap for the plans of every reward of total at most 1.

        method: "uniform" (any run), "direct" (sharper and slower, for up to 5 unknown directions), or "paper" for the
        algorithm's own guarantee, at the delta it explored with, which holds for plan(..., model="explorer").
        """
        if method == "uniform":
            return certificates.uniform(self.confidence(delta))
        if method == "direct":
            known = self.problem.known
            return certificates.directly(known, self.valid, self.evidence, self.confidence(delta))
        if method == "paper":
            claim = (
                None
                if self.explorer is None
                else self.explorer.claim(self.problem.known, self.progress.state)
            )
            if claim is None:
                raise OptionError(
                    "this explorer has no certificate of its own; the method 'uniform' is for all"
                )
            if claim.delta > delta:
                raise OptionError(
                    f"delta is {delta:g}, but this run explored with {claim.delta:g}, so its own guarantee may fail "
                    "more often; ask for that, or use the method 'uniform'"
                )
            confidence = self.confidence(delta)
            return certificates.uniform(confidence) if confidence.is_rejected else claim
        raise OptionError(f"method is {method!r}; it must be 'uniform', 'direct' or 'paper'")

    def plan(
        self, reward: Any, *, scale: str = "total", delta: float = 0.05, model: str = "likelihood"
    ) -> Plan:
        """The best policy for a reward, with a certified gap.

        reward: [H, S, A], [S, A], [S], a function (h, s, a) -> number, or what `goal`, `occupancy`, `rescale` return.
        scale: "total" (at most 1 along every trajectory) or "per-step" (entries in [0, 1]; gaps grow with H).
        model: "likelihood" plans in the maximum-likelihood model, "explorer" in the explorer's own estimate.
        """
        known, checked = self.problem.known, rewards.resolve(self.problem, reward, scale=scale)
        confidence, own = self.confidence(delta), None
        theta = np.asarray(confidence.theta)
        if model == "explorer":
            theta = self.theta_hat
            own = planning.optimal(known.kernel(theta), checked.table)
        elif model != "likelihood":
            raise OptionError(f"model is {model!r}; it must be 'likelihood' or 'explorer'")
        bounds, certificate = certificates.for_reward(
            known, self.valid, confidence, checked.table, None if own is None else own.policy
        )
        value = bounds.value if own is None else own.V[0, known.start]
        return Plan(
            np.array(bounds.policy, np.int32),
            checked.factor * float(value) + checked.offset,
            checked.factor * certificate.eps,
            certificates.in_units(certificate, checked.factor),
            theta,
        )

    def resume(self, **until: Any) -> "Run":
        """Go on exploring: resume(episodes=500), resume(until_eps=0.1), ...; resume() finishes what was interrupted.

        The run itself is left as it is. One that lives in a folder goes on in its folder.
        """
        from horizonfree.exploration import advance

        return advance(self, **until)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the run into a new folder, from which `load` reads it back."""
        from horizonfree.store import create

        create(self, path)


@x64
def from_episodes(problem: Mixture, episodes: Any, *, budget: int | None = None) -> Run:
    """A run made of logged episodes, whoever gathered them, in order.

    episodes: a pair of arrays, states [K, H+1] and actions [K, H]; or from `simulate`. An episode's policy may
    depend on the episodes before it and on nothing later, and none may be left out for what it shows. Transitions that
    no parameter explains are kept and lead to "model rejected". budget: as for `explore`; it must have been fixed
    before the data were seen.
    """
    trajectories = _trajectories(problem, episodes)
    valid = valid_set(problem.known)
    first = evidence.init(valid, *evidence.ladder(budget))
    after = _replay(to_device(valid), first, to_device(trajectories))
    progress = Progress(jnp.asarray(after.episodes), None, after)
    return Run(problem, None, 0, valid, to_numpy(progress), {}, is_simulated=False)


def certify(
    problem: Mixture, episodes: Any, *, delta: float = 0.05, budget: int | None = None
) -> Certificate:
    """The certificate that logged episodes support, for the plans of every reward; episodes as for `from_episodes`."""
    return from_episodes(problem, episodes, budget=budget).certificate(delta)


@eqx.filter_jit
def _replay(valid: ValidSet, first: Evidence, trajectories: Trajectory) -> Evidence:
    return jax.lax.scan(lambda now, x: (evidence.update(valid, now, x), None), first, trajectories)[0]


def _trajectories(problem: Mixture, episodes: Any) -> Trajectory:
    """Logged states and actions with the successor slot of each step, -1 where there is none."""
    if isinstance(episodes, Trajectory):
        episodes = episodes.s, episodes.a
    if not isinstance(episodes, (tuple, list)) or len(episodes) != 2:
        raise ShapeError("episodes must be a pair of arrays, states [K, H+1] and actions [K, H]")
    s, a = (np.asarray(x) for x in episodes)
    H, S, A = problem.horizon, problem.num_states, problem.num_actions
    if s.ndim != 2 or a.ndim != 2 or s.shape != (len(a), H + 1) or a.shape[1] != H or not len(a):
        raise ShapeError(
            f"states has shape {s.shape}, actions {a.shape}; they must be [K, H+1]=(K, {H + 1}) and [K, H]=(K, {H})"
        )
    for name, x, size in (("states", s, S), ("actions", a, A)):
        if not np.issubdtype(x.dtype, np.integer) or x.min() < 0 or x.max() >= size:
            raise ShapeError(f"{name} must be integers from 0 to {size - 1}; found {x.dtype} up to {x.max()}")
    if (s[:, 0] != problem.start).any():
        k = int(np.flatnonzero(s[:, 0] != problem.start)[0])
        raise ModelError(f"episode {k} starts in state {s[k, 0]}; the problem starts in {problem.start}")
    known = problem.known
    hit = (np.asarray(known.succ)[s[:, :-1], a] == s[:, 1:, None]) & known.support[s[:, :-1], a]
    j = np.where(hit.any(-1), hit.argmax(-1), -1)
    return Trajectory(s.astype(np.int32), a.astype(np.int32), j.astype(np.int32))


def true_gap(problem: Mixture, reward: Any, policy: Any, *, scale: str = "total") -> float:
    """What a policy really loses for a reward, in the reward's units; for problems whose truth is known."""
    checked = rewards.resolve(problem, reward, scale=scale)
    kernel, start = problem.kernel(), problem.start
    best = planning.optimal(kernel, checked.table).V[0, start]
    return checked.factor * float(best - planning.evaluate(kernel, checked.table, policy)[0, start])
