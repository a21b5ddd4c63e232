"""Whether richer classes refute a class: the automatic alternatives, and those that somebody names.

Each is a way to cut the transitions into parts that are known before the next state is, with a parameter of the class
in each part, or a richer class. "change" cuts at one episode, averaged over the starts of the bets or, of logged
episodes, over 1, 2, 3, 4, 5, 7, 9, .. with weights 1/(k(k+1)); "memory" cuts by the transition before, averaged over
where its labels are cut in two; "age" cuts at one step of every episode, averaged over the steps.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from horizonfree._validation import short_repr, suggestion
from horizonfree.errors import OptionError, ShapeError, UnknownNameError
from horizonfree.guarantees.alternatives import Alternative, Check, dirichlet, mean_of
from horizonfree.guarantees.certificate import Certificate
from horizonfree.mdp.space import Space
from horizonfree.mdp.trajectory import Trajectory
from horizonfree.models.interface import Confidence, Evidence, Model
from horizonfree.problems.any_law import carried, log_any_law
from horizonfree.problems.problem import Problem

NAMES = {
    "noise": "any law of the noise",
    "table": "any law for every pair",
    "change": "a change in time",
    "memory": "memory of the step before",
    "age": "the step of an episode",
}
GROWTH = 1.25  # from one episode at which a change is looked for to the next
CUTS = 16  # of the labels of memory, and of the steps of an episode, evenly spread where there are more
MOST = 2**27  # counts of parts that are held at once
NO_LOG = "needs the episodes themselves, which only a run made of logged ones has, until it is stored"


def check(
    problem: Problem,
    seen: tuple[Evidence, Confidence],
    log: Trajectory | None,
    by: Any = None,
    alternatives: Any = "auto",
) -> Check:
    """What the alternatives say, at the delta of the confidence; `by` labels groups of episodes, which bet alone."""
    evidence, confidence = seen
    delta, model, episodes = float(confidence.delta), problem.model, int(evidence.episodes)
    if int(evidence.impossible):
        return Check((Alternative("a transition that the class calls impossible", np.inf),), delta, episodes)
    if by is not None:
        if problem.sampling is not None:
            raise OptionError(
                "by= compares groups in a class that is taken to be right; these kernels are estimates"
            )
        if log is None:
            raise OptionError(f"by= {NO_LOG}; make the run with from_episodes or from_log and check that")
        name, grouped = _groups(model, log, by)
        return Check(
            (Alternative(name, grouped - model.max_log_likelihood(evidence, confidence)),), delta, episodes
        )
    asked, is_auto = _asked(alternatives, model)
    if problem.sampling is not None:
        if not is_auto:
            raise OptionError(
                "alternatives refute kernels that are taken to be right; these are estimates from samples"
            )
        return Check((), delta, episodes)
    found: list[Alternative] = []
    likeliest = model.max_log_likelihood(evidence, confidence) if asked else 0.0
    for given in asked:
        name, log_q = _bet(problem, evidence, log, given)
        if log_q is None and not is_auto:
            raise OptionError(f"the alternative {given!r} {_why_not(problem, given)}")
        if log_q is not None:
            found.append(Alternative(name, log_q - likeliest))
    return Check(tuple(found), delta, episodes)


def judged(certificate: Certificate, found: Check) -> Certificate:
    """A certificate after the alternatives have spoken: rejected where they refute the class."""
    against = {"against": found.log_e / math.log(10)} if math.isfinite(found.log_e) else {}
    parts = {**certificate.parts, **against}
    if not found.is_refuted or certificate.is_rejected:
        return replace(certificate, parts=parts)
    words = f"model rejected: {found.words}"
    return replace(
        certificate, eps=1.0, method="rejected", words=words, parts=parts, is_rejected=True, forecast=""
    )


def _asked(alternatives: Any, model: Model) -> tuple[list[Any], bool]:
    """The alternatives one by one, and whether they are the automatic ones."""
    if isinstance(alternatives, str) and alternatives == "auto":
        return list(model.alternatives), True
    if isinstance(alternatives, (str, Mapping)) or not np.iterable(alternatives):
        raise OptionError(
            f"alternatives is {short_repr(alternatives)}; it must be 'auto', or a list of names and of problems"
        )
    asked = list(alternatives)
    for x in asked:
        if not isinstance(x, (str, Problem)):
            raise OptionError(f"the alternative {short_repr(x)} is neither a name nor a problem")
        if isinstance(x, str) and x not in NAMES:
            raise UnknownNameError(f"there is no alternative {short_repr(x)}; {suggestion(x, NAMES)}")
    return asked, False


def _bet(
    problem: Problem, evidence: Evidence, log: Trajectory | None, given: Any
) -> tuple[str, float | None]:
    """The name of an alternative and log Q, or None where it cannot be had here."""
    model, counts = problem.model, np.asarray(evidence.counts)
    if isinstance(given, Problem):
        return given.name, _richer(problem.space, counts, given)
    if given == "noise":
        return NAMES[given], log_any_law(problem, counts)
    if given == "table":
        return NAMES[given], float(dirichlet(counts, np.asarray(problem.space.support)).sum())
    if given == "change":
        return NAMES[given], _change(model, evidence, log)
    by = _memory if given == "memory" else _age
    return NAMES[given], None if log is None else by(model, log)


def _why_not(problem: Problem, name: str) -> str:
    if name == "noise":
        return "is for problems of from_noise with models=: here there is no richer law of a noise"
    if name == "age" and problem.horizon < 2:
        return "needs episodes of two steps or more"
    if name == "memory" and np.unique(problem.model.memory_labels()).size < 2:
        return "has nothing to remember: all transitions are of one kernel"
    return NO_LOG


def _richer(space: Space, counts: Int[np.ndarray, "S A n"], rich: Problem) -> float:
    """log Q of another class on the same states and actions; -inf where it calls something impossible."""
    if (rich.num_states, rich.num_actions) != (space.num_states, space.num_actions):
        raise ShapeError(
            f"the alternative {rich.name!r} has {rich.num_states} states and {rich.num_actions} actions, the problem "
            f"{space.num_states} and {space.num_actions}; they must agree"
        )
    seen = carried(space, counts, rich.space)
    return -np.inf if seen is None else rich.model.marginal_log_likelihood(seen[None])


def _change(model: Model, evidence: Evidence, log: Trajectory | None) -> float | None:
    """Another parameter after some episode."""
    if log is None:
        parts, weights = model.changepoint_evidence(evidence)
        return mean_of(parts, weights) if parts else None
    K = len(np.asarray(log.s))
    moments = np.unique(np.ceil(GROWTH ** np.arange(200)).clip(max=2**40).astype(np.int64))
    moments = moments[moments < K] if K > 1 else moments[:1]
    episode = np.broadcast_to(np.arange(K)[:, None], log.a.shape)
    parts = [_parted(model, log, episode >= m) for m in moments]
    k = np.arange(1, len(moments) + 1)
    return mean_of(parts, 1 / (k * (k + 1)))


def _memory(model: Model, log: Trajectory) -> float | None:
    """Another parameter after transitions whose label is above a cut; the first step of an episode is below."""
    label = model.memory_labels()
    values = np.unique(label)
    if len(values) < 2:
        return None
    at = np.unique(np.linspace(1, len(values) - 1, CUTS).round().astype(int))
    s, a, j = (np.asarray(x) for x in (log.s[:, :-1], log.a, log.j))
    seen = np.where(j >= 0, label[s, a, np.maximum(j, 0)], values[0])
    before = np.concatenate([np.full((len(seen), 1), values[0]), seen[:, :-1]], axis=1)
    return mean_of([_parted(model, log, before >= cut) for cut in values[at]], np.full(len(at), 1 / len(at)))


def _age(model: Model, log: Trajectory) -> float | None:
    """Another parameter from some step of every episode on."""
    H = log.a.shape[1]
    if H < 2:
        return None
    step = np.broadcast_to(np.arange(H), log.a.shape)
    at = np.unique(np.linspace(1, H - 1, CUTS).round().astype(int))
    return mean_of([_parted(model, log, step >= cut) for cut in at], np.full(len(at), 1 / len(at)))


def _groups(model: Model, log: Trajectory, by: Any) -> tuple[str, float]:
    """Groups of episodes, each with a parameter of its own."""
    K = len(np.asarray(log.s))
    labels = np.asarray(by)
    if labels.shape != (K,) or labels.dtype.hasobject:
        raise ShapeError(
            f"by has shape {labels.shape} and type {labels.dtype}; it must be ({K},), a number or a word for each "
            "episode"
        )
    _, group = np.unique(labels, return_inverse=True)
    log_q = _parted(model, log, np.broadcast_to(group[:, None], log.a.shape))
    return f"{group.max() + 1} groups", log_q


def _parted(model: Model, log: Trajectory, part: Int[np.ndarray, "K H"] | Bool[np.ndarray, "K H"]) -> float:
    """log Q of the log, cut into parts."""
    shape = model.space.succ.shape
    C = int(part.max()) + 1
    if C * int(np.prod(shape)) > MOST:
        raise OptionError(
            f"{C:,} parts of {shape[0]:,} states, {shape[1]:,} actions and {shape[2]:,} successors are too many to "
            "count; give fewer groups"
        )
    s, a, j = (np.asarray(x) for x in (log.s[:, :-1], log.a, log.j))
    is_seen = j >= 0
    where = np.ravel_multi_index((s[is_seen], a[is_seen], j[is_seen]), shape)
    size = int(np.prod(shape))
    counts = np.bincount(part[is_seen] * size + where, minlength=C * size)
    return model.marginal_log_likelihood(counts.reshape(C, *shape))
