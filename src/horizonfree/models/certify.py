"""Certificates of models of any class: NumPy in, NumPy out.

`confidence` turns evidence into a `Confidence` at 1 - delta; `uniform` is one certificate for every reward,
`for_reward` bounds one policy for one reward, `for_family` the plans of several rewards, `difference` compares two
policies; `planned` chooses the plan for a reward. They hold at every number of episodes, for data gathered by any
explorer, and all together: on one event of probability 1 - delta every one of them is true. Rewards are [H, S, A] with
a total in [0,1] on every trajectory.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from horizonfree._validation import check_choice, check_probability
from horizonfree.guarantees.certificate import (
    Certificate,
    at_most_one,
    bound_statement,
    forecast,
    round_up,
    target_below,
)
from horizonfree.mdp.events import Lift
from horizonfree.mdp.names import name_of
from horizonfree.mdp.policies import named_allowed
from horizonfree.mdp.rewards import Reward, StateRewards
from horizonfree.mdp.space import Space, occupied_states
from horizonfree.models.base import Bounds, Confidence, Evidence, Model
from horizonfree.models.registry import diagnostics_of
from horizonfree.planning.induction import best_plan

TYPICAL_TARGET = 0.5  # the gap that `Confidence.missing` gives a forecast for
BAD_POLICY = "this policy may lose everything; that is no lack of data, as plans for every reward lose less"
THIS_POLICY = "this policy"
EVERY_REWARD = "every reward r_h(s, a) of total at most 1"


def confidence(model: Model, evidence: Evidence, *, delta: float = 0.05) -> Confidence:
    """The confidence set of the evidence at 1 - delta."""
    return model.confidence(evidence, check_probability(delta, "delta"))


def uniform(model: Model, evidence: Evidence, confidence: Confidence, method: str = "uniform") -> Certificate:
    """One gap for every reward, for plans that are optimal in `confidence.centre`; `confidence` is the evidence's.

    method: one of `model.methods`. What is slower is at least as sharp: the smaller of the two is returned.
    """
    check_choice(method, "method", model.methods)
    if confidence.is_refuted:
        rejected = _rejected_certificate(model, confidence)
        more = (
            "" if confidence.condition() else diagnostics_of(model).remedy(evidence, float(confidence.delta))
        )
        return replace(rejected, statement=rejected.statement + more)
    eps, parts, name = float(confidence.eps), confidence.parts(), "uniform"
    if method != "uniform":
        sharper, numbers = confidence.sharper(method)
        if sharper < min(1.0, eps):
            eps, parts, name = sharper, parts | numbers, method
    eps = at_most_one(eps)
    target = target_below(eps)
    ahead = ""
    if target:
        needed = confidence.more_episodes(target * float(confidence.eps) / eps)
        ahead = forecast(target, needed, parts.get("floor"))
    statement = _statement(confidence, eps)
    if round_up(eps) < 1:
        statement = f"{EVERY_REWARD}: {statement}"
    return _certificate(model, confidence, eps, name, statement, parts, forecast=ahead)


def smallest(model: Model, evidence: Evidence, confidence: Confidence) -> Certificate:
    """`uniform` by the sharpest method that is affordable.

    All methods are proved on one event, that the truth is in the set of the confidence, for the same plans.
    """
    return uniform(model, evidence, confidence, confidence.sharpest)


def uniform_eps(confidence: Confidence) -> float:
    """eps of `uniform`."""
    return 1.0 if confidence.is_refuted else at_most_one(float(confidence.eps))


@np.errstate(all="ignore")  # infinite divergences
def bounds(confidence: Confidence, reward: np.ndarray, policy: np.ndarray) -> Bounds:
    """What a policy, actions [H, S] or probabilities [H, S, A], can lose for one reward."""
    confidence.check_reward(reward)
    return confidence.bounds(*_with_dtypes(reward, policy))


def for_reward(
    model: Model, confidence: Confidence, reward: Float[np.ndarray, "H S A"], policy: np.ndarray
) -> tuple[Bounds, Certificate]:
    """The gap of one policy for one reward, and the interval of its value."""
    return certified(model, confidence, bounds(confidence, reward, policy))


def certified(
    model: Model, confidence: Confidence, bounds: Bounds, factor: float = 1.0, missing: str | None = None
) -> tuple[Bounds, Certificate]:
    """The bounds with an interval that rounding cannot leave, within [0, 1], and their certificate.

    The gap is the smallest that the class proves, and what rounding may hide, since a reward in large units multiplies
    that, too. Where the class is refuted nothing is certified, and the value may be anything.

    factor: the largest total of the reward in its own units, which the text uses. missing: why a vacuous bound is
    so; by default `Confidence.missing`.
    """
    if confidence.is_refuted or bounds.is_refuted:
        return replace(bounds, low=0.0, high=1.0), _rejected_certificate(model, confidence)
    rounding = model.rounding()
    gaps, method, eps = smallest_gap(bounds, rounding)
    low, high = np.fmax(bounds.low - rounding, 0.0), np.fmin(bounds.high + rounding, 1.0)
    words, parts = _statement(confidence, eps, factor, missing=missing), confidence.parts() | gaps
    certificate = _certificate(model, confidence, eps, method, words, parts, policies=THIS_POLICY)
    return replace(bounds, low=low, high=high), certificate


def smallest_gap(bounds: Bounds, rounding: float) -> tuple[dict[str, float], str, float]:
    """The gaps by each proof, the proof of the smallest, and what it certifies."""
    # What cannot be computed is no bound.
    gaps = {name: 1.0 if math.isnan(gap) else float(gap) for name, gap in bounds.gaps.items()}
    method = min(gaps, key=lambda name: (gaps[name], name))
    return gaps, method, at_most_one(max(0.0, gaps[method]) + rounding)


def planned(
    model: Model, confidence: Confidence, reward: Float[np.ndarray, "H S A"], lift: Lift | None = None
) -> tuple[np.ndarray, Bounds]:
    """The plan of `Run.plan` for a reward, with its bounds.

    The best policy in the estimate, unless that in the centre has a smaller certified gap. So the uniform certificate,
    which is proved for plans in the centre, holds for what is returned.

    lift: the reward is one of lifted states. What was paid on the way is no reason to act otherwise: the policy is one
    of the states that are lifted.
    """
    kernels = [confidence.kernel, confidence.centre]
    if np.array_equal(kernels[0].prob, kernels[1].prob):
        del kernels[1]
    lifted = confidence if lift is None else confidence.lifted(lift)
    result = []
    for kernel in kernels:
        if lift is None:
            policy = acting = named_allowed(confidence.space, best_plan(kernel, reward).policy)
        else:
            first = best_plan(lift.kernel(kernel), reward).policy[:, lift.first]
            policy = named_allowed(confidence.space, first)
            acting = policy[:, lift.origin]
        result.append((policy, bounds(lifted, reward, acting)))
    return min(
        result, key=lambda pair: 1.0 if pair[1].is_refuted else smallest_gap(pair[1], model.rounding())[2]
    )


def for_family(
    model: Model,
    confidence: Confidence,
    rewards: Sequence[Reward],
    name: str,
    show: Callable[[int], None] | None = None,
) -> Certificate:
    """The largest gap of the best plans under the estimate for several rewards: all hold together, at no cost in delta.

    show: called after each reward with how many of them are done.
    """
    result, rounding = [], model.rounding()
    if confidence.is_refuted:
        return _rejected_certificate(model, confidence)
    for bounded in _plans_bounds(model, confidence, rewards):
        if bounded.is_refuted:
            return _rejected_certificate(model, confidence)
        result.append(smallest_gap(bounded, rounding)[1:])
        if show is not None:
            show(len(result))
    worst = max(range(len(result)), key=lambda i: result[i][1])
    method, eps = result[worst]
    median = float(np.median([eps for _, eps in result]))
    parts = confidence.parts() | {"rewards": len(result), "worst": worst, "median": median}
    table = rewards[worst].table
    ahead = _forecast(model, confidence, table, planned(model, confidence, table)[0], eps)
    statement = f"{name}: {_in_units(confidence, eps, rewards)}"
    return _certificate(model, confidence, eps, method, statement, parts, forecast=ahead)


def _in_units(confidence: Confidence, eps: float, rewards: Sequence[Reward]) -> str:
    """The statement in the common unit of the rewards; as a share of each reward's range where units differ."""
    factors = {1.0} if isinstance(rewards, StateRewards) else {reward.factor for reward in rewards}
    if len(factors) == 1:
        return _statement(confidence, eps, factors.pop())
    return _statement(confidence, eps, unit=" of the range of each reward's totals")


def _plans_bounds(model: Model, confidence: Confidence, rewards: Sequence[Reward]) -> Iterator[Bounds]:
    """Bounds of the plan for each reward: all together where the class can, else one by one."""
    if isinstance(rewards, StateRewards):
        together = confidence.bounds_of_states(rewards)
        if together is not None:
            return together
    return (planned(model, confidence, reward.table)[1] for reward in rewards)


@np.errstate(all="ignore")  # infinite divergences
def difference(
    model: Model,
    confidence: Confidence,
    reward: Float[np.ndarray, "H S A"],
    policies: tuple[np.ndarray, np.ndarray],
) -> tuple[float, float]:
    """Bounds on the value of the first policy minus that of the second; [-1, 1] where the class is refuted."""
    if confidence.is_refuted:
        return -1.0, 1.0
    rounding = model.rounding()
    (table, a), (_, b) = (_with_dtypes(reward, policy) for policy in policies)
    if a.shape == b.shape and _is_same(confidence, a, b):
        return -rounding, rounding
    confidence.check_reward(reward)
    low, high = confidence.difference(table, (a, b))
    low = -1.0 if math.isnan(low) else float(low) - rounding
    high = 1.0 if math.isnan(high) else float(high) + rounding
    return max(-1.0, low), min(1.0, high)


def _is_same(confidence: Confidence, a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two policies agree in every state that an episode can visit."""
    same = a == b
    return bool((same if confidence.leads_anywhere else same[occupied_states(confidence.space)]).all())


def _with_dtypes(reward: np.ndarray, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A reward and a policy as bounds take them."""
    kind = np.int32 if np.ndim(policy) == 2 else np.float64
    return np.asarray(reward, np.float64), np.asarray(policy, kind)


def _forecast(
    model: Model, confidence: Confidence, reward: np.ndarray, policy: np.ndarray, eps: float
) -> str:
    """The forecast of one reward, if the estimate stays and the data grow; empty for misspecified classes."""
    target = target_below(eps)
    if not target or "floor" in confidence.parts():
        return ""

    def is_enough(later: Confidence) -> bool:
        return smallest_gap(bounds(later, reward, policy), model.rounding())[2] <= target

    return forecast(target, confidence.episodes_until(is_enough))


def _statement(
    confidence: Confidence, eps: float, factor: float = 1.0, unit: str = "", missing: str | None = None
) -> str:
    """The statement of a bound for rewards whose totals reach `factor`; unit: what it is a share of.

    Where plans for every reward lose at most HALF, a policy that may lose 1 is a bad one, and no data are missing.
    """
    if round_up(eps) < 1:
        return bound_statement(factor * eps, float(confidence.delta), unit) + confidence.condition()
    if missing is None:
        missing = "" if float(confidence.eps) <= TYPICAL_TARGET else confidence.missing()
    return f"vacuous: {missing}" if missing else BAD_POLICY


def _certificate(
    model: Model,
    confidence: Confidence,
    eps: float,
    method: str,
    words: str,
    parts: Mapping[str, float],
    *,
    policies: str = "",
    forecast: str = "",
) -> Certificate:
    """A certificate of these policies, by default the plans of `Run.plan`."""
    delta = float(confidence.delta)
    policies = policies or f"plans of run.plan(reward, delta={delta:g})"
    return Certificate(
        eps,
        delta,
        method,
        words,
        parts,
        forecast=forecast,
        holds_for=scope(policies, model.space, confidence.layout),
        assumes="; ".join([model.describe().assumption, *confidence.assumptions()]),
    )


def scope(policies: str, space: Space, layout: Mapping[str, Any], num_steps: int | None = None) -> str:
    """What a certificate holds for: policies, the start and the number of steps, by default the horizon."""
    starts = np.flatnonzero(space.starts())
    start = "the distribution of starts"
    if len(starts) == 1:
        start = name_of(layout, "states", int(starts[0]))
    steps = space.horizon if num_steps is None else num_steps
    return f"{policies}, from {start}, {steps} step{'' if steps == 1 else 's'}"


def _rejected_certificate(model: Model, confidence: Confidence) -> Certificate:
    """The certificate of a refuted class."""
    words = f"model rejected: {confidence.refutation()}"
    return Certificate(
        1.0,
        float(confidence.delta),
        "rejected",
        words,
        confidence.parts(),
        is_rejected=True,
        assumes="; ".join([model.describe().assumption, *confidence.assumptions()]),
    )
