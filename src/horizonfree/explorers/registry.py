"""Every explorer by name: one line per algorithm. Its module is loaded when somebody asks for it."""

import dataclasses
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints

import numpy as np

from horizonfree._deprecated import warn_renamed
from horizonfree._validation import short_repr, suggestion
from horizonfree.errors import OptionError, UnknownNameError

if TYPE_CHECKING:
    from horizonfree.explorers.interface import Explorer


class Entry(NamedTuple):
    """An algorithm: where its class is, and the options that the name settles.

    `marks` are options without which tables would mislead: they are shown beside the name.
    """

    place: str  # module.class
    settled: Mapping[str, Any] = MappingProxyType({})
    said: str | None = None
    is_reconstruction: bool = False
    marks: tuple[str, ...] = ()

    @property
    def kind(self) -> "type[Explorer]":
        """Its class."""
        module, name = self.place.split(".")
        found: type[Explorer] = getattr(import_module(f"{__package__}.{module}"), name)
        return found

    @property
    def about(self) -> str:
        """One line on what it is: its own, or the first of its class."""
        return self.said or (self.kind.__doc__ or "").strip().split("\n")[0]

    @property
    def options(self) -> dict[str, Any]:
        """The options that are left, with their defaults."""
        fields = dataclasses.fields(self.kind)
        return {field.name: field.default for field in fields if field.name not in self.settled}

    @property
    def meanings(self) -> dict[str, str]:
        """What each of these options means: the text beside its type."""
        hints = get_type_hints(self.kind, include_extras=True)
        return {option: hints[option].__metadata__[0] for option in self.options}


@dataclasses.dataclass(frozen=True, eq=False)
class ExplorerSpec:
    """An explorer by name and options: what a stored run knows of it without JAX. `explorer` is the object itself."""

    name: str
    options: Mapping[str, Any]
    explorer: "Explorer | None" = None

    @classmethod
    def of(cls, explorer: "Explorer") -> "ExplorerSpec":
        """Of an explorer, perhaps of the caller's own class."""
        return cls(*describe(explorer), explorer)

    def build(self) -> "Explorer":
        """The explorer; imports JAX."""
        return make_explorer(self.name, **self.options) if self.explorer is None else self.explorer


EXPLORERS: dict[str, Entry] = {
    "chen2022": Entry("chen2022.Chen2022", is_reconstruction=True),
    "francis": Entry("francis.Francis", is_reconstruction=True),
    "goal-cycling": Entry("goal_cycling.GoalCycling"),
    "hf-ucrl-rfe++": Entry("hf_ucrl_rfe.HFUCRLRFE"),
    "hf-ucrl-vtr+": Entry("hf_ucrl_vtr.HFUCRLVTR", {"is_weighted": True}),
    "jin2020": Entry("jin2020.Jin2020"),
    "linear-design": Entry("linear_design.LinearDesign"),
    "lsvi-rfe": Entry("lsvi_rfe.LSVIRFE", is_reconstruction=True),
    "optimal-design": Entry("optimal_design.OptimalDesign"),
    "tabular-design": Entry("tabular_design.TabularDesign"),
    "rf-express": Entry("rf_express.RFExpress"),
    "rf-ucrl": Entry("rf_ucrl.RFUCRL"),
    "rflin": Entry("rflin.RFLIN", marks=("regmin",)),
    "sstp": Entry("sstp.SSTP", is_reconstruction=True),
    "ucrl-rfe": Entry("ucrl_rfe.UCRLRFE"),
    "ucrl-rfe+": Entry("ucrl_rfe_plus.UCRLRFEPlus"),
    "ucrl-vtr": Entry(
        "hf_ucrl_vtr.HFUCRLVTR",
        {"is_weighted": False},
        "UCRL-VTR (Jia et al. 2020, Ayoub et al. 2020): optimism for one given reward, unweighted regression.",
    ),
    "ucrl-vtr+": Entry("ucrl_vtr_plus.UCRLVTRPlus"),
    "uniform": Entry("uniform.Uniform"),
    "wang2020": Entry("wang2020.Wang2020"),
}

RENAMED = {"information": "optimal-design"}  # old name -> name; files may hold either


def current_name(name: str) -> str:
    """The name of an explorer that may be given by an old name, as stored runs and sweeps do."""
    return RENAMED.get(name, name) if isinstance(name, str) else name


def typed_name(name: str) -> str:
    """The same for a name that a user wrote in code: an old one gives a DeprecationWarning."""
    current = current_name(name)
    if current != name:
        warn_renamed(f"explorer {name!r}", repr(current))
    return current


def explorers() -> dict[str, dict[str, Any]]:
    """Every explorer with what it is, its options with their defaults, and what they mean."""
    return {
        name: {"about": entry.about, "options": entry.options, "meanings": entry.meanings}
        for name, entry in EXPLORERS.items()
    }


def find(name: str) -> Entry:
    """The entry of a name, old ones included, or an error with the closest name that exists."""
    name = current_name(name)
    if not isinstance(name, str) or name not in EXPLORERS:
        raise UnknownNameError(
            f"no explorer is called {short_repr(name)}; {suggestion(short_repr(name), EXPLORERS)}"
        )
    return EXPLORERS[name]


def label(name: str, options: Mapping[str, Any] = MappingProxyType({})) -> str:
    """The current name of an explorer and its marks, as tables and pages show them."""
    return current_name(name) + marks(name, options)


def marks(name: str, options: Mapping[str, Any] = MappingProxyType({})) -> str:
    """What tables show behind a name: that it is a reconstruction, and options without which they would mislead."""
    entry = EXPLORERS.get(current_name(name))
    if entry is None:
        return ""
    words = ["reconstruction"] if entry.is_reconstruction else []
    words += [f"{mark} {options.get(mark, entry.options[mark])}" for mark in entry.marks]
    return f" ({', '.join(words)})" if words else ""


def describe(explorer: "Explorer") -> tuple[str, dict[str, Any]]:
    """The name of an explorer and all its options; make_explorer(name, **options) builds it again."""
    place = f"{type(explorer).__module__}.{type(explorer).__qualname__}".removeprefix(f"{__package__}.")
    for name, entry in EXPLORERS.items():
        if place == entry.place and all(getattr(explorer, x) == y for x, y in entry.settled.items()):
            return name, {option: getattr(explorer, option) for option in entry.options}
    return type(explorer).__name__, {x.name: getattr(explorer, x.name) for x in dataclasses.fields(explorer)}


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Refuse options that the explorer does not have, with the closest that it has."""
    known = find(name).options
    for option in options:
        if option not in known:
            advice = suggestion(option, known) if known else "it has none"
            raise UnknownNameError(f"explorer {name!r} has no option {option!r}; {advice}")


def make_explorer(name: str, /, **options: Any) -> "Explorer":
    """An explorer by name; refuses unknown names and options with the closest that exist."""
    entry = find(name)
    check_options(name, options)
    hints = get_type_hints(entry.kind)
    typed = {option: _typed(option, value, hints[option]) for option, value in options.items()}
    try:
        return entry.kind(**entry.settled, **typed)
    except TypeError as error:
        raise OptionError(f"explorer {name!r}: {error}") from None


def _typed(option: str, value: Any, hint: Any) -> Any:
    """The value as the type that the option is declared with; a whole number will do for any number."""
    kinds = get_args(hint) or (hint,)
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) in kinds or isinstance(value, np.ndarray):
        return value
    if type(value) is int and float in kinds:
        return float(value)
    wanted = " or ".join("nothing" if kind is type(None) else kind.__name__ for kind in kinds)
    raise OptionError(f"{option} is {short_repr(value)}; it must be of type {wanted}")
