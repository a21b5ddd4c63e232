"""Models of model checkers on the command line: PRISM and JANI with unknown constants, DRN and UMB."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from horizonfree.errors import OptionError

if TYPE_CHECKING:
    from horizonfree import Problem

PRISM = (".prism", ".pm", ".nm", ".jani")
EXPLICIT = (".drn", ".umb")


def is_model(name: str | None) -> bool:
    """Whether a problem is named as the file of a model."""
    return name is not None and Path(name).suffix.lower() in (*PRISM, *EXPLICIT)


def from_model(name: str, param: dict[str, Any], unknown: Sequence[str]) -> "Problem":
    """The problem of a model; `param` has the horizon and, of PRISM and JANI, values of constants."""
    constants = dict(param)
    if "horizon" not in constants:
        raise OptionError(f"{name} has no horizon, the steps of an episode; give --param horizon=20")
    horizon = constants.pop("horizon")
    path = Path(name)
    if path.suffix.lower() in PRISM:
        from horizonfree import from_prism

        return from_prism(path, horizon=horizon, unknown=unknown, constants=constants)
    if constants or unknown:
        what = f"--param {next(iter(constants))}" if constants else "--unknown"
        raise OptionError(f"{what}: an explicit model has no constants; give --param horizon=20 only")
    from horizonfree import read_drn, read_umb

    model = read_drn(path) if path.suffix.lower() == ".drn" else read_umb(path)
    return model.problem(horizon=horizon, name=path.stem)
