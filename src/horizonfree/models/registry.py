"""The model classes by name: one line each."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from horizonfree.models.base import Alternatives, Diagnostics, Model
from horizonfree.models.draws import Draws, no_posterior
from horizonfree.models.linear.diagnostics import LinearDiagnostics
from horizonfree.models.linear.model import LinearModel
from horizonfree.models.mixture.alternatives import MixtureAlternatives
from horizonfree.models.mixture.diagnostics import MixtureDiagnostics
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.models.mixture.posterior import mixture_draws
from horizonfree.models.tabular.alternatives import TabularAlternatives
from horizonfree.models.tabular.diagnostics import TabularDiagnostics
from horizonfree.models.tabular.model import TabularModel
from horizonfree.models.tabular.posterior import tabular_draws


class ModelClass(NamedTuple):
    """The classes that belong to one model class; `draws`: parameters from its Bayesian posterior."""

    model: type[Model]
    diagnostics: type[Diagnostics]
    alternatives: type[Alternatives] = Alternatives
    draws: Callable[..., Draws] = no_posterior


CLASSES: dict[str, ModelClass] = {
    "linear": ModelClass(LinearModel, LinearDiagnostics),
    "mixture": ModelClass(MixtureModel, MixtureDiagnostics, MixtureAlternatives, mixture_draws),
    "tabular": ModelClass(TabularModel, TabularDiagnostics, TabularAlternatives, tabular_draws),
}


def class_name(model: Model) -> str:
    """The name of a model's class."""
    return next(name for name, entry in CLASSES.items() if type(model) is entry.model)


def posterior_draws(model: Model, evidence: Any, prior: Any, count: int, rng: np.random.Generator) -> Draws:
    """So many parameters from the posterior of a model; prior: None for the default of its class."""
    return CLASSES[class_name(model)].draws(model, evidence, prior, count, rng)


def diagnostics_of(model: Model) -> Diagnostics:
    """What reports show of a model."""
    return CLASSES[class_name(model)].diagnostics(model)


def alternatives_of(model: Model) -> Alternatives:
    """What richer classes need to know of a model."""
    return CLASSES[class_name(model)].alternatives(model)
