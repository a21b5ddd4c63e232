"""Questions to a model of any class, on the host: NumPy in, NumPy out, compiled inside.

`confidence` turns evidence into what it says at 1 - delta; `uniform` is one certificate for every reward, `for_reward`
bounds one policy for one reward. They hold at every number of episodes, for data gathered by any explorer. Rewards are
[H, S, A] with a total in [0,1] on every trajectory.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from horizonfree._inputs import share
from horizonfree._x64 import to_device, to_numpy, x64
from horizonfree.errors import OptionError
from horizonfree.guarantees.certificate import Certificate, proved, round_up
from horizonfree.models.interface import Bounds, Confidence, Evidence, Model


@eqx.filter_jit
def _confidence(model: Model, evidence: Evidence, delta: Float[Array, ""]) -> Confidence:
    return model.confidence(evidence, delta)


@jax.jit
def _bounds(
    model: Model, confidence: Confidence, reward: Float[Array, "H S A"], policy: Int[Array, "H S"]
) -> Bounds:
    return model.bounds(confidence, reward, policy)


@x64
def confidence(model: Model, evidence: Evidence, *, delta: float = 0.05) -> Confidence:
    """What the evidence says, at confidence 1 - delta."""
    share(delta, "delta")
    model, evidence = to_device((model, evidence))
    return to_numpy(_confidence(model, evidence, jnp.asarray(float(delta))))


def uniform(model: Model, evidence: Evidence, confidence: Confidence, method: str = "uniform") -> Certificate:
    """One gap for every reward, for plans that are optimal in `confidence.kernel`; `confidence` is the evidence's.

    method: one of `model.methods`. What is slower is at least as sharp: the smaller of the two is kept.
    """
    if method not in model.methods:
        raise OptionError(
            f"method is {method!r}; for this class there are {', '.join(map(repr, model.methods))}"
        )
    if confidence.is_refuted:
        return _rejected(confidence)
    eps, parts, name = float(confidence.eps), confidence.parts(), "uniform"
    if method != "uniform":
        sharper, numbers = model.sharper(evidence, confidence, method)
        if sharper < min(1.0, eps):
            eps, parts, name = sharper, parts | numbers, method
    eps = min(1.0, eps)
    return Certificate(eps, float(confidence.delta), name, _words(confidence, eps), parts)


def uniform_eps(confidence: Confidence) -> Float[Array, ""]:
    """eps of `uniform`; traceable."""
    return jnp.where(confidence.is_refuted, 1.0, jnp.minimum(confidence.eps, 1.0))


@x64
def for_reward(
    model: Model,
    confidence: Confidence,
    reward: Float[np.ndarray, "H S A"],
    policy: Int[np.ndarray, "H S"],
) -> tuple[Bounds, Certificate]:
    """The gap of one policy for one reward.

    The smallest that the class proves, and what rounding may hide, since a reward in large units multiplies that, too.
    """
    given = np.asarray(reward, np.float64), np.asarray(policy, np.int32)
    bounds: Bounds = to_numpy(_bounds(model, confidence, *given))
    if confidence.is_refuted:
        return bounds, _rejected(confidence)
    # What cannot be computed is no bound.
    gaps = {name: 1.0 if math.isnan(gap) else float(gap) for name, gap in bounds.gaps.items()}
    method = min(gaps, key=lambda name: (gaps[name], name))
    eps = min(1.0, max(0.0, gaps[method]) + model.rounding())
    parts = confidence.parts() | gaps
    return bounds, Certificate(eps, float(confidence.delta), method, _words(confidence, eps), parts)


def _rejected(confidence: Confidence) -> Certificate:
    words = f"model rejected: {confidence.refutation()}"
    return Certificate(1.0, float(confidence.delta), "rejected", words, confidence.parts(), is_rejected=True)


def _words(confidence: Confidence, eps: float) -> str:
    if round_up(eps) < 1:
        return proved(eps, float(confidence.delta))
    return f"vacuous: {confidence.missing()}"
