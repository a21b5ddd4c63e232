"""Questions to a model of any class: NumPy in, NumPy out.

`confidence` turns evidence into what it says at 1 - delta; `uniform` is one certificate for every reward, `for_reward`
bounds one policy for one reward, `for_family` the plans of several rewards, `difference` compares two policies. They
hold at every number of episodes, for data gathered by any explorer, and all together: on one event of probability
1 - delta every one of them is true. Rewards are [H, S, A] with a total in [0,1] on every trajectory.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from horizonfree._inputs import share
from horizonfree.errors import OptionError
from horizonfree.guarantees.certificate import (
    Certificate,
    at_most_one,
    forecast,
    round_up,
    target_below,
)
from horizonfree.mdp.allowed import named_allowed
from horizonfree.mdp.families import StateRewards
from horizonfree.mdp.rewards import Reward
from horizonfree.mdp.space import Space
from horizonfree.models.interface import Bounds, Confidence, Evidence, Model
from horizonfree.models.misspecification import Misspecification
from horizonfree.models.said import Said, given
from horizonfree.planning.induction import best_plan

HALF = 0.5  # the gap that `Confidence.missing` speaks of
EVERY_REWARD = "every reward r_h(s, a) of total at most 1"
TIMES = [
    1.25**k for k in range(1, 42)
]  # as much data, up to 10,000 times, that a forecast for one reward looks at


def confidence(model: Model, evidence: Evidence, *, delta: float = 0.05) -> Confidence:
    """What the evidence says, at confidence 1 - delta."""
    return model.confidence(evidence, share(delta, "delta"))


def within(model: Model, evidence: Evidence, *, delta: float, declared: Misspecification) -> Confidence:
    """What the evidence says, if every law of the system is within its radius of one parameter."""
    return model.within(evidence, share(delta, "delta"))(declared)


def said(model: Model, confidence: Confidence) -> Said:
    """What certificates of a confidence say beside their bounds.

    Where plans for every reward lose at most HALF, a policy that may lose 1 is a bad one, and no data are missing.
    """

    def missing() -> str:
        return "" if float(confidence.eps) <= HALF else confidence.missing()

    return Said(
        delta=float(confidence.delta),
        rounding=model.rounding(),
        is_refuted=bool(confidence.is_refuted),
        parts=confidence.parts(),
        refutation=confidence.refutation,
        missing=missing,
        condition=confidence.condition(),
        leads_anywhere=confidence.leads_anywhere,
        start=_start(model.space),
        assumes=model.assumption,
    )


def _start(space: Space) -> str:
    start = "the distribution of starts" if space.start is None else f"state {space.start}"
    return f"from {start}, {space.horizon} step{'' if space.horizon == 1 else 's'}"


def uniform(model: Model, evidence: Evidence, confidence: Confidence, method: str = "uniform") -> Certificate:
    """One gap for every reward, for plans that are optimal in `confidence.centre`; `confidence` is the evidence's.

    method: one of `model.methods`. What is slower is at least as sharp: the smaller of the two is kept.
    """
    if method not in model.methods:
        raise OptionError(
            f"method is {method!r}; for this class there are {', '.join(map(repr, model.methods))}"
        )
    words = said(model, confidence)
    if words.is_refuted:
        rejected = words.rejected()
        more = "" if words.condition else model.remedy(evidence, words.delta)
        return replace(rejected, words=rejected.words + more)
    eps, parts, name = float(confidence.eps), confidence.parts(), "uniform"
    if method != "uniform":
        sharper, numbers = model.sharper(evidence, confidence, method)
        if sharper < min(1.0, eps):
            eps, parts, name = sharper, parts | numbers, method
    eps = at_most_one(eps)
    target = target_below(eps)
    ahead = ""
    if target:
        needed = confidence.more_episodes(target * float(confidence.eps) / eps)
        ahead = forecast(target, needed, parts.get("floor"))
    statement = words.words(eps)
    if round_up(eps) < 1:
        statement = f"{EVERY_REWARD}: {statement}"
    return words.certificate(eps, name, statement, parts, forecast=ahead)


def uniform_eps(confidence: Confidence) -> float:
    """eps of `uniform`."""
    return 1.0 if confidence.is_refuted else at_most_one(float(confidence.eps))


@np.errstate(all="ignore")  # infinite divergences
def bounds(model: Model, confidence: Confidence, reward: np.ndarray, policy: np.ndarray) -> Bounds:
    """What a policy can lose for one reward; both as `said.given` makes them."""
    confidence.check_reward(reward)
    return model.bounds(confidence, reward, policy)


def for_reward(
    model: Model, confidence: Confidence, reward: Float[np.ndarray, "H S A"], policy: np.ndarray
) -> tuple[Bounds, Certificate]:
    """The gap of one policy for one reward, and the interval of its value.

    The smallest that the class proves, and what rounding may hide, since a reward in large units multiplies that, too.
    Where the class is refuted nothing is certified, and the value may be anything.
    """
    return said(model, confidence).of(bounds(model, confidence, *given(reward, policy)))


def for_family(
    model: Model,
    confidence: Confidence,
    rewards: Sequence[Reward],
    name: str,
    show: Callable[[int], None] | None = None,
) -> Certificate:
    """The largest gap of the best plans under the estimate for several rewards: all hold together, at no cost in delta.

    show: told after each reward how many of them are done.
    """
    words, found = said(model, confidence), []
    if words.is_refuted:
        return words.rejected()
    for bounded in _plans_bounds(model, confidence, rewards):
        if bounded.is_refuted:
            return words.rejected()
        found.append(words.smallest(bounded)[1:])
        if show is not None:
            show(len(found))
    worst = max(range(len(found)), key=lambda i: found[i][1])
    method, eps = found[worst]
    median = float(np.median([eps for _, eps in found]))
    parts = confidence.parts() | {"rewards": len(found), "worst": worst, "median": median}
    policy = planned(model, confidence, rewards[worst])[0]
    ahead = _forecast(model, confidence, *given(rewards[worst].table, policy), eps)
    statement = f"{name}: {_in_units(words, eps, rewards)}"
    return words.certificate(eps, method, statement, parts, forecast=ahead)


def _in_units(words: Said, eps: float, rewards: Sequence[Reward]) -> str:
    """The statement in the units that all rewards have; as a share of each one's range where these differ."""
    factors = {1.0} if isinstance(rewards, StateRewards) else {reward.factor for reward in rewards}
    if len(factors) == 1:
        return words.words(eps, factors.pop())
    return words.words(eps, unit=" of the range of each reward's totals")


def _plans_bounds(model: Model, confidence: Confidence, rewards: Sequence[Reward]) -> Iterator[Bounds]:
    """Of the plan for each reward: as the class does it for rewards of states, else one by one."""
    if isinstance(rewards, StateRewards):
        together = model.bounds_of_states(confidence, rewards)
        if together is not None:
            return together
    return (planned(model, confidence, reward)[1] for reward in rewards)


def planned(model: Model, confidence: Confidence, reward: Reward) -> tuple[np.ndarray, Bounds]:
    """The plan of `Run.plan` for a reward, with its bounds.

    The best policy in the estimate, unless that in the centre has a smaller certified gap.
    """
    words, kernels = said(model, confidence), [confidence.kernel, confidence.centre]
    if np.array_equal(kernels[0].prob, kernels[1].prob):
        del kernels[1]
    policies = [named_allowed(model.space, best_plan(x, reward.table).policy) for x in kernels]
    found = [(x, bounds(model, confidence, *given(reward.table, x))) for x in policies]
    return min(found, key=lambda pair: words.smallest(pair[1])[2])


def difference(
    model: Model,
    confidence: Confidence,
    reward: Float[np.ndarray, "H S A"],
    policies: tuple[np.ndarray, np.ndarray],
) -> tuple[float, float]:
    """Between which numbers the value of the first policy minus that of the second lies; [-1, 1] where refuted."""
    (_, a), (_, b) = (given(reward, policy) for policy in policies)
    return said(model, confidence).between(
        model.space, (a, b), lambda pair: raw_difference(model, confidence, reward, pair)
    )


@np.errstate(all="ignore")
def raw_difference(
    model: Model,
    confidence: Confidence,
    reward: Float[np.ndarray, "H S A"],
    policies: tuple[np.ndarray, np.ndarray],
) -> tuple[float, float]:
    """The same by its formula alone, before rounding and refutations."""
    confidence.check_reward(reward)
    (table, a), (_, b) = (given(reward, policy) for policy in policies)
    low, high = model.difference(confidence, table, (a, b))
    return float(low), float(high)


def _forecast(
    model: Model, confidence: Confidence, reward: np.ndarray, policy: np.ndarray, eps: float
) -> str:
    """What a smaller gap of this reward needs, if the estimate stays and the data grow; nothing within a radius."""
    target = target_below(eps)
    if not target or "floor" in confidence.parts():
        return ""

    def is_enough(times: float) -> bool:
        later, _ = confidence.after(times)
        return said(model, later).smallest(bounds(model, later, reward, policy))[2] <= target

    if not is_enough(TIMES[-1]):
        return forecast(target, math.inf)
    enough = TIMES[bisect_left(TIMES, True, key=is_enough)]
    return forecast(target, confidence.after(enough)[1])
