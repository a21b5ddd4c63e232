"""The model classes by name: one line each."""

from typing import NamedTuple

from horizonfree.models.base import Alternatives, Diagnostics, Model
from horizonfree.models.linear.diagnostics import LinearDiagnostics
from horizonfree.models.linear.model import LinearModel
from horizonfree.models.mixture.alternatives import MixtureAlternatives
from horizonfree.models.mixture.diagnostics import MixtureDiagnostics
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.models.tabular.alternatives import TabularAlternatives
from horizonfree.models.tabular.diagnostics import TabularDiagnostics
from horizonfree.models.tabular.model import TabularModel


class ModelClass(NamedTuple):
    """The classes that belong to one model class."""

    model: type[Model]
    diagnostics: type[Diagnostics]
    alternatives: type[Alternatives] = Alternatives


CLASSES: dict[str, ModelClass] = {
    "linear": ModelClass(LinearModel, LinearDiagnostics),
    "mixture": ModelClass(MixtureModel, MixtureDiagnostics, MixtureAlternatives),
    "tabular": ModelClass(TabularModel, TabularDiagnostics, TabularAlternatives),
}


def class_name(model: Model) -> str:
    """The name of a model's class."""
    return next(name for name, entry in CLASSES.items() if type(model) is entry.model)


def diagnostics_of(model: Model) -> Diagnostics:
    """What reports show of a model."""
    return CLASSES[class_name(model)].diagnostics(model)


def alternatives_of(model: Model) -> Alternatives:
    """What richer classes need to know of a model."""
    return CLASSES[class_name(model)].alternatives(model)
