"""What run.json must say before anything is built from it: every entry is there and of its kind.

What the entries mean is checked where they are used: options by the explorer, horizon or bound by the model.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast, get_type_hints

from horizonfree._inputs import check_seed, shown
from horizonfree.errors import RunError
from horizonfree.models.registry import CLASSES

KINDS = {dict: "an object", str: "text", bool: "true or false", int: "a whole number, without a point"}


def check_manifest(path: Path, header: Mapping[str, Any]) -> None:
    """Refuse an entry that is missing, or that is not as this library writes it."""
    check_seed(_entry(path, header, "seed"))
    for name, kind in {"seed": int, "is_simulated": bool, "versions": dict, "problem": dict}.items():
        _entry(path, header, name, kind)
    if _entry(path, header, "explorer") is not None:
        for name, kind in {"explorer": dict, "explorer.name": object, "explorer.options": dict}.items():
            _entry(path, header, name, kind)
    _entry(path, header, "problem.fingerprint", str)
    if "recipe" in header["problem"]:
        for name, kind in {"recipe": dict, "recipe.name": str, "recipe.parameters": dict}.items():
            _entry(path, header, f"problem.{name}", kind)
        return
    for name, kind in {"name": object, "layout": dict, "class": str}.items():
        _entry(path, header, f"problem.{name}", kind)
    chosen = header["problem"]["class"]
    if chosen not in CLASSES:
        choice = " or ".join(map(repr, CLASSES))
        raise RunError(f"{path}: problem.class is {shown(chosen)}; it must be {choice}")
    _check_model(path, header, "problem.model", CLASSES[chosen])


def _entry(path: Path, header: Mapping[str, Any], where: str, kind: type = object) -> Any:
    """The entry at a place whose upper places are objects."""
    value: Any = header
    for name in where.split("."):
        if name not in value:
            raise RunError(f"{path}: {where} is missing; restore the file from a copy")
        value = value[name]
    if not isinstance(value, kind):
        raise RunError(f"{path}: {where} is {shown(value)}; it must be {KINDS[kind]}")
    return value


def _check_model(path: Path, header: Mapping[str, Any], where: str, kind: type) -> None:
    """Numbers of a model, and of the modules inside, as `models.plain.statics_of` names them."""
    _entry(path, header, where, dict)
    hints = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        if dataclasses.is_dataclass(hint):
            _check_model(path, header, f"{where}.{field.name}", cast(type, hint))
        elif field.metadata.get("static"):
            _entry(path, header, f"{where}.{field.name}")
