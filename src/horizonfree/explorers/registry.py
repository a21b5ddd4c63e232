"""Every explorer by name: one line per algorithm. Its module is imported when it is used.

An explorer of another package has the name "module:Class", or the name of its entry point in the group
`horizonfree.explorers`.
"""

import dataclasses
import json
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from types import MappingProxyType, UnionType
from typing import TYPE_CHECKING, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np

from horizonfree._deprecated import warn_renamed
from horizonfree._validation import short_repr, suggestion
from horizonfree.errors import OptionError, RunError, UnknownNameError

if TYPE_CHECKING:
    from horizonfree.explorers.base import Explorer


class Entry(NamedTuple):
    """An algorithm: its class, and the options that its name fixes.

    `marks` are options that tables show beside the name, because results would mislead without them.
    `is_reconstruction`: written from memory or from the abstract of a paper, not from its printed algorithm.
    """

    path: str  # module:Class
    fixed: Mapping[str, Any] = MappingProxyType({})
    summary: str | None = None
    is_reconstruction: bool = False
    marks: tuple[str, ...] = ()

    @property
    def explorer_type(self) -> "type[Explorer]":
        """The class of the explorer; imports JAX."""
        from horizonfree.explorers.base import Explorer

        module, _, name = self.path.partition(":")
        try:
            kind: Any = import_module(module)
            for part in name.split("."):
                kind = getattr(kind, part)
        except (ImportError, AttributeError, ValueError) as error:
            raise UnknownNameError(
                f"explorer {self.path!r} cannot be imported ({error}); write it as module:Class, of a module that is "
                "installed or on the path of Python. A class of a script or notebook must be defined before it is named"
            ) from None
        if not (isinstance(kind, type) and issubclass(kind, Explorer)):
            raise OptionError(
                f"{self.path!r} is {short_repr(kind)}; it must be a subclass of horizonfree.explorers.Explorer or "
                "hf.PythonExplorer"
            )
        return kind

    @property
    def about(self) -> str:
        """One line: the summary, or the first line of the class's docstring."""
        return self.summary or (self.explorer_type.__doc__ or "").strip().split("\n")[0]

    @property
    def options(self) -> dict[str, Any]:
        """The options that are not fixed, with their defaults."""
        fields = dataclasses.fields(self.explorer_type)
        return {field.name: field.default for field in fields if field.name not in self.fixed}

    @property
    def meanings(self) -> dict[str, str]:
        """The meaning of each of these options: the text beside its type."""
        hints = get_type_hints(self.explorer_type, include_extras=True)
        return {option: getattr(hints[option], "__metadata__", ("",))[0] for option in self.options}


@dataclasses.dataclass(frozen=True, eq=False)
class ExplorerSpec:
    """An explorer by name and options, as a stored run has it without JAX; `explorer` is the object, if it is built."""

    name: str
    options: Mapping[str, Any]
    explorer: "Explorer | None" = None

    @classmethod
    def of(cls, explorer: "Explorer") -> "ExplorerSpec":
        """The specification of an explorer, which may have a class that is not in the registry."""
        return cls(*describe(explorer), explorer)

    def build(self) -> "Explorer":
        """The explorer; imports JAX."""
        return make_explorer(self.name, **self.options) if self.explorer is None else self.explorer


EXPLORERS: dict[str, Entry] = {
    "chen2022": Entry("horizonfree.explorers.chen2022:Chen2022", is_reconstruction=True),
    "francis": Entry("horizonfree.explorers.francis:Francis", is_reconstruction=True),
    "goal-cycling": Entry("horizonfree.explorers.goal_cycling:GoalCycling"),
    "hf-ucrl-rfe++": Entry("horizonfree.explorers.hf_ucrl_rfe:HFUCRLRFE"),
    "hf-ucrl-vtr+": Entry(
        "horizonfree.explorers.hf_ucrl_vtr:HFUCRLVTR", {"is_weighted": True}, is_reconstruction=True
    ),
    "jin2020": Entry("horizonfree.explorers.jin2020:Jin2020"),
    "linear-design": Entry("horizonfree.explorers.linear_design:LinearDesign"),
    "lsvi-rfe": Entry("horizonfree.explorers.lsvi_rfe:LSVIRFE", is_reconstruction=True),
    "optimal-design": Entry("horizonfree.explorers.optimal_design:OptimalDesign"),
    "tabular-design": Entry("horizonfree.explorers.tabular_design:TabularDesign"),
    "rf-express": Entry("horizonfree.explorers.rf_express:RFExpress"),
    "rf-ucrl": Entry("horizonfree.explorers.rf_ucrl:RFUCRL"),
    "rflin": Entry("horizonfree.explorers.rflin:RFLIN", marks=("regmin",)),
    "sstp": Entry("horizonfree.explorers.sstp:SSTP", is_reconstruction=True),
    "ucrl-rfe": Entry("horizonfree.explorers.ucrl_rfe:UCRLRFE"),
    "ucrl-rfe+": Entry("horizonfree.explorers.ucrl_rfe_plus:UCRLRFEPlus"),
    "ucrl-vtr": Entry(
        "horizonfree.explorers.hf_ucrl_vtr:HFUCRLVTR",
        {"is_weighted": False},
        "UCRL-VTR (Jia et al. 2020, Ayoub et al. 2020): optimism for one given reward, unweighted regression.",
        is_reconstruction=True,
    ),
    "ucrl-vtr+": Entry("horizonfree.explorers.ucrl_vtr_plus:UCRLVTRPlus"),
    "uniform": Entry("horizonfree.explorers.uniform:Uniform"),
    "wang2020": Entry("horizonfree.explorers.wang2020:Wang2020", is_reconstruction=True),
}

GROUP = "horizonfree.explorers"  # of entry points
RENAMED = {"information": "optimal-design"}  # old name -> name; files may have either


def current_name(name: str) -> str:
    """The current name of an explorer; stored runs and sweeps may have an old one."""
    return RENAMED.get(name, name) if isinstance(name, str) else name


def resolve_typed_name(name: str) -> str:
    """The current name of an explorer in a user's code; an old name gives a DeprecationWarning."""
    current = current_name(name)
    if current is not name:
        warn_renamed(f"explorer {name!r}", repr(current))
    return current


def explorers(*, all: bool = False) -> dict[str, dict[str, Any]]:
    """Explorers by name: what they are, their options with the defaults, and the meanings of the options.

    all: also reconstructions, which were not written from the printed algorithm of a paper; nothing is proved of them.

    >>> import horizonfree as hf
    >>> "goal-cycling" in hf.explorers()
    True

    The classes themselves are in the package: `from horizonfree.explorers import HFUCRLRFE`.
    """
    return {
        name: about(name)
        for name, entry in {**EXPLORERS, **installed_explorers()}.items()
        if all or not entry.is_reconstruction
    }


def about(name: str) -> dict[str, Any]:
    """What an explorer is, its options with the defaults, and their meanings."""
    entry = find_entry(name)
    return {
        "about": entry.about,
        "is_reconstruction": entry.is_reconstruction,
        "options": entry.options,
        "meanings": entry.meanings,
    }


def installed_explorers() -> dict[str, Entry]:
    """The explorers of other packages by the names of their entry points; names of this library take precedence."""
    points = {point.name: point.value for point in entry_points(group=GROUP)}
    return {name: Entry(path) for name, path in points.items() if name not in EXPLORERS}


def explorer_classes() -> dict[str, Entry]:
    """An entry for the name of each class; `horizonfree.explorers` has the classes as attributes."""
    return {entry.path.partition(":")[2]: entry for entry in EXPLORERS.values()}


def find_entry(name: str) -> Entry:
    """The entry of a name, which may be an old one, that of an entry point, or module:Class."""
    name = current_name(name)
    if isinstance(name, str):
        if name in EXPLORERS:
            return EXPLORERS[name]
        if ":" in name:
            return Entry(name)
        installed = installed_explorers()
        if name in installed:
            return installed[name]
    entries = {**EXPLORERS, **installed_explorers()}
    raise UnknownNameError(
        f"no explorer is called {short_repr(name)}; {suggestion(short_repr(name), entries)}"
    )


def label(name: str, options: Mapping[str, Any] = MappingProxyType({})) -> str:
    """The current name of an explorer and its marks, for tables and pages."""
    return current_name(name) + display_marks(name, options)


def setting_label(name: str, entry: Mapping[str, Any]) -> str:
    """The label of a setting of a sweep: an algorithm (`entry["name"]`) with options, under a name."""
    algorithm = label(entry["name"], entry)
    return algorithm if name == entry["name"] else f"{name}: {algorithm}"


def display_marks(name: str, options: Mapping[str, Any] = MappingProxyType({}), view: str = "") -> str:
    """The text behind a name in tables: a reconstruction, values of marked options, how it sees the problem."""
    entry, marks = EXPLORERS.get(current_name(name)), list[str]()
    if entry is not None:
        marks += ["reconstruction"] if entry.is_reconstruction else []
        marks += [f"{x} {options[x] if x in options else entry.options[x]}" for x in entry.marks]
    marks += [view] if view else []
    return f" ({', '.join(marks)})" if marks else ""


def describe(explorer: "Explorer") -> tuple[str, dict[str, Any]]:
    """The name of an explorer and all its options; make_explorer(name, **options) is the inverse."""
    path = f"{type(explorer).__module__}:{type(explorer).__qualname__}"
    entries = EXPLORERS if path.startswith(f"{__package__}.") else installed_explorers()
    for name, entry in entries.items():
        if path == entry.path and all(getattr(explorer, x) == y for x, y in entry.fixed.items()):
            return name, {option: getattr(explorer, option) for option in entry.options}
    return path, {x.name: getattr(explorer, x.name) for x in dataclasses.fields(explorer)}


def stored_options(name: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The options of an explorer as JSON data, and those that are arrays; an error for what cannot be restored."""
    if "<locals>" in name:
        raise RunError(
            f"explorer {name} is defined inside a function, where a stored run could not find it again; define the "
            "class at the top of a module"
        )
    arrays = {
        key: np.asarray(x)
        for key, x in options.items()
        if isinstance(x, np.ndarray) or hasattr(x, "__array__")
    }
    scalars = {key: x for key, x in options.items() if key not in arrays}
    for key, x in scalars.items():
        try:
            json.dumps(x, allow_nan=False)
        except (TypeError, ValueError):
            raise RunError(
                f"option {key} of explorer {name} is {short_repr(x)}, which cannot be stored; options are numbers, "
                "text, or NumPy arrays"
            ) from None
    return scalars, arrays


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Raise if the explorer does not have one of the options."""
    allowed = find_entry(name).options
    for option in options:
        if option not in allowed:
            advice = suggestion(option, allowed) if allowed else "it has none"
            raise UnknownNameError(f"explorer {name!r} has no option {option!r}; {advice}")


def make_explorer(name: str, /, **options: Any) -> "Explorer":
    """An explorer by name and options."""
    entry = find_entry(name)
    check_options(name, options)
    hints = get_type_hints(entry.explorer_type)
    values = {option: _check_option_type(option, value, hints[option]) for option, value in options.items()}
    try:
        return entry.explorer_type(**entry.fixed, **values)
    except TypeError as error:
        raise OptionError(f"explorer {name!r}: {error}") from None


def _check_option_type(option: str, value: Any, hint: Any) -> Any:
    """The value as the declared type of the option; an integer is accepted for a float."""
    types = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if not all(isinstance(kind, type) for kind in types):
        return value  # a type of another package that is not a class, such as list[int]
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) in types or isinstance(value, np.ndarray):
        return value
    if type(value) is int and float in types:
        return float(value)
    expected = " or ".join("nothing" if kind is type(None) else kind.__name__ for kind in types)
    raise OptionError(f"{option} is {short_repr(value)}; it must be of type {expected}")
