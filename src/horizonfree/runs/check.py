"""Tests of a model class against richer classes by e-values (docs/alternatives.md).

An alternative is a richer class, or a partition of the transitions, known before each next state, with a parameter of
the class in each part. "change" splits at one episode, averaged over the starts of the e-processes or, for logged
episodes, over 1, 2, 3, 4, 5, 7, 9, .. with weights 1/(k(k+1)); "memory" splits by the previous transition, averaged
over thresholds on its label; "age" splits at one step of every episode, averaged over the steps.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from horizonfree._validation import check_known, check_size, require, require_array
from horizonfree.errors import OptionError, ShapeError
from horizonfree.guarantees.certificate import Certificate
from horizonfree.guarantees.e_processes import Alternative, Check, dirichlet, mean_of
from horizonfree.mdp.space import Space, Trajectory
from horizonfree.models.base import Confidence, Evidence, Model
from horizonfree.models.registry import alternatives_of
from horizonfree.problems.any_law import log_any_law, transfer_counts
from horizonfree.problems.problem import Problem

NAMES = {
    "noise": "any distribution of the noise",
    "table": "any distribution for every state-action pair",
    "change": "a change in time",
    "memory": "memory of the step before",
    "age": "the step of an episode",
}
CHANGE_RATIO = 1.25  # between successive episodes of a possible change
MAX_CUTS = 16  # thresholds of "memory" and "age", evenly spaced
MAX_COUNTS = 2**27  # entries of the counts of all parts
NO_LOG = "needs the episodes, which only a run made from logged ones has, until it is stored"


def check_model_class(
    problem: Problem,
    data: tuple[Evidence, Confidence],
    log: Trajectory | None,
    by: Any = None,
    alternatives: Any = "auto",
) -> Check:
    """The e-values of the alternatives, at the delta of the confidence set; `by` labels groups of episodes."""
    evidence, confidence = data
    delta, model, episodes = float(confidence.delta), problem.model, int(evidence.episodes)
    if int(evidence.impossible) and not (problem.sampling is not None and problem.sampling.everywhere):
        return Check((Alternative("a transition that is impossible in the class", np.inf),), delta, episodes)
    if by is not None:
        problem.check_exact_class("by= compares groups in a model class that is assumed to be correct")
        if log is None:
            raise OptionError(f"by= {NO_LOG}; make the run with from_episodes or from_log and check that")
        name, log_q_groups = _groups(model, log, by)
        log_e = log_q_groups - alternatives_of(model).max_log_likelihood(evidence, confidence)
        return Check((Alternative(name, log_e),), delta, episodes)
    names, is_auto = _parse(alternatives, model)
    if problem.sampling is not None or problem.radii is not None:
        if not is_auto:
            problem.check_exact_class("alternatives test a model class that is assumed to be correct")
        return Check((), delta, episodes)
    results: list[Alternative] = []
    max_log = alternatives_of(model).max_log_likelihood(evidence, confidence) if names else 0.0
    for alternative in names:
        name, log_q = _log_q(problem, evidence, log, alternative)
        if log_q is None and not is_auto:
            raise OptionError(f"the alternative {alternative!r} {_why_not(problem, alternative)}")
        if log_q is not None:
            results.append(Alternative(name, log_q - max_log))
    return Check(tuple(results), delta, episodes)


def apply_check(certificate: Certificate, check: Check) -> Certificate:
    """The certificate, rejected if the alternatives refute the class."""
    against = {"against": check.log_e / math.log(10)} if math.isfinite(check.log_e) else {}
    parts = {**certificate.parts, **against}
    if not check.is_refuted or certificate.is_rejected:
        return replace(certificate, parts=parts)
    statement = f"model rejected: {check}"
    return replace(
        certificate,
        eps=1.0,
        method="rejected",
        is_rejected=True,
        statement=statement,
        parts=parts,
        forecast="",
    )


def _parse(alternatives: Any, model: Model) -> tuple[list[Any], bool]:
    """The list of alternatives, and whether they are the automatic ones."""
    if isinstance(alternatives, str) and alternatives == "auto":
        return list(alternatives_of(model).names), True
    is_list = np.iterable(alternatives) and not isinstance(alternatives, (str, Mapping))
    meaning = "'auto', or a list of names and of problems"
    require(is_list, "alternatives", alternatives, meaning)
    for x in alternatives:
        require(isinstance(x, (str, Problem)), "the alternative", x, "a name or a problem")
        if isinstance(x, str):
            check_known(x, NAMES, "alternative")
    return list(alternatives), False


def _log_q(
    problem: Problem, evidence: Evidence, log: Trajectory | None, alternative: Any
) -> tuple[str, float | None]:
    """The name of an alternative and log Q, or None where it does not apply."""
    model, counts = problem.model, np.asarray(evidence.counts)
    if isinstance(alternative, Problem):
        return alternative.name, _log_q_of_problem(problem.space, counts, alternative)
    log_q: float | None
    if alternative == "noise":
        log_q = log_any_law(problem, counts)
    elif alternative == "table":
        log_q = float(dirichlet(counts, np.asarray(problem.space.support)).sum())
    elif alternative == "change":
        log_q = _change(model, evidence, log)
    elif log is None:
        log_q = None
    else:
        log_q = _memory(model, log) if alternative == "memory" else _age(model, log)
    return NAMES[alternative], log_q


def _why_not(problem: Problem, name: str) -> str:
    if name == "noise":
        return "is for problems of from_noise with models=; this one has no richer class of noise"
    if name == "age" and problem.horizon < 2:
        return "needs episodes of two steps or more"
    if name == "memory" and np.unique(alternatives_of(problem.model).memory_labels()).size < 2:
        return "needs transitions with different labels; all of these have the same"
    return NO_LOG


def _log_q_of_problem(space: Space, counts: Int[np.ndarray, "S A n"], alternative: Problem) -> float:
    """log Q of another class on the same states and actions; -inf where something is impossible in it."""
    if (alternative.num_states, alternative.num_actions) != (space.num_states, space.num_actions):
        raise ShapeError(
            f"the alternative {alternative.name!r} has {alternative.num_states} states and "
            f"{alternative.num_actions} actions, the problem {space.num_states} and {space.num_actions}; "
            "they must agree"
        )
    transferred = transfer_counts(space, counts, alternative.space)
    return (
        -np.inf
        if transferred is None
        else alternatives_of(alternative.model).marginal_log_likelihood(transferred[None])
    )


def _change(model: Model, evidence: Evidence, log: Trajectory | None) -> float | None:
    """Another parameter after some episode."""
    if log is None:
        parts, weights = alternatives_of(model).changepoint_evidence(evidence)
        return mean_of(parts, weights) if parts else None
    K = len(np.asarray(log.s))
    change_episodes = np.unique(np.ceil(CHANGE_RATIO ** np.arange(200)).clip(max=2**40).astype(np.int64))
    change_episodes = change_episodes[change_episodes < K] if K > 1 else change_episodes[:1]
    episode = np.broadcast_to(np.arange(K)[:, None], log.a.shape)
    parts = [_log_q_of_parts(model, log, episode >= m) for m in change_episodes]
    k = np.arange(1, len(change_episodes) + 1)
    return mean_of(parts, 1 / (k * (k + 1)))


def _memory(model: Model, log: Trajectory) -> float | None:
    """Another parameter after transitions whose label is above a threshold; first steps count as below."""
    label = alternatives_of(model).memory_labels()
    values = np.unique(label)
    if len(values) < 2:
        return None
    cuts = np.unique(np.linspace(1, len(values) - 1, MAX_CUTS).round().astype(int))
    s, a, j = (np.asarray(x) for x in (log.s[:, :-1], log.a, log.j))
    labels = np.where(j >= 0, label[s, a, np.maximum(j, 0)], values[0])
    previous = np.concatenate([np.full((len(labels), 1), values[0]), labels[:, :-1]], axis=1)
    return mean_of(
        [_log_q_of_parts(model, log, previous >= cut) for cut in values[cuts]],
        np.full(len(cuts), 1 / len(cuts)),
    )


def _age(model: Model, log: Trajectory) -> float | None:
    """Another parameter from some step of every episode on."""
    H = log.a.shape[1]
    if H < 2:
        return None
    step = np.broadcast_to(np.arange(H), log.a.shape)
    cuts = np.unique(np.linspace(1, H - 1, MAX_CUTS).round().astype(int))
    return mean_of(
        [_log_q_of_parts(model, log, step >= cut) for cut in cuts], np.full(len(cuts), 1 / len(cuts))
    )


def _groups(model: Model, log: Trajectory, by: Any) -> tuple[str, float]:
    """Groups of episodes, each with a parameter of its own."""
    K = len(np.asarray(log.s))
    labels = np.asarray(by)
    is_label = labels.shape == (K,) and not labels.dtype.hasobject
    require_array(is_label, "by", labels, f"({K},), a number or a text for each episode")
    _, group = np.unique(labels, return_inverse=True)
    log_q = _log_q_of_parts(model, log, np.broadcast_to(group[:, None], log.a.shape))
    return f"{group.max() + 1} groups", log_q


def _log_q_of_parts(
    model: Model, log: Trajectory, part: Int[np.ndarray, "K H"] | Bool[np.ndarray, "K H"]
) -> float:
    """log Q of a partition of the log, with a parameter for each part."""
    shape, size, num_parts = model.space.succ.shape, model.space.succ.size, int(part.max()) + 1
    what = f"{num_parts:,} parts of {shape[0]:,} states, {shape[1]:,} actions and {shape[2]:,} successors"
    check_size(num_parts * size, MAX_COUNTS, f"{what} have too many counts", "give fewer groups")
    s, a, j = (np.asarray(x) for x in (log.s[:, :-1], log.a, log.j))
    is_observed = j >= 0
    flat_index = np.ravel_multi_index((s[is_observed], a[is_observed], j[is_observed]), shape)
    counts = np.bincount(part[is_observed] * size + flat_index, minlength=num_parts * size)
    return alternatives_of(model).marginal_log_likelihood(counts.reshape(num_parts, *shape))
