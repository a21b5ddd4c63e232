"""The classes of models by name: one line each."""

from horizonfree.models.interface import Model
from horizonfree.models.linear.model import LinearModel
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.models.tabular.model import TabularModel

CLASSES: dict[str, type[Model]] = {
    "linear": LinearModel,
    "mixture": MixtureModel,
    "tabular": TabularModel,
}


def class_name(model: Model) -> str:
    """The name of a model's class."""
    return next(name for name, kind in CLASSES.items() if type(model) is kind)
