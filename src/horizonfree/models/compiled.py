"""Confidence sets of classes that compute them in JAX: compiled, NumPy in and out."""

from functools import partial
from typing import Any

import numpy as np

from horizonfree._jit import jit
from horizonfree._x64 import to_device, to_numpy, x64
from horizonfree.models.interface import Confidence


@partial(jit, seldom_called=True)
def _confidence(model: Any, evidence: Any, delta: Any) -> Confidence:
    return model.traced_confidence(evidence, delta)


@x64
def compiled_confidence(model: Any, evidence: Any, delta: float) -> Confidence:
    """`model.traced_confidence`, compiled."""
    return to_numpy(_confidence(*to_device((model, evidence, np.array(float(delta))))))
