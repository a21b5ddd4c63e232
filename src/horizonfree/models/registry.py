"""The classes of models by name: one line each."""

from horizonfree.models.interface import Model
from horizonfree.models.mixture.model import MixtureModel

CLASSES: dict[str, type[Model]] = {"mixture": MixtureModel}


def class_name(model: Model) -> str:
    """The name of a model's class."""
    return next(name for name, kind in CLASSES.items() if type(model) is kind)
