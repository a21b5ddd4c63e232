"""Examples in docstrings give what they say."""

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import horizonfree

NEEDS = {"horizonfree.problems.verification.prism": "stormpy"}  # extras that an example needs


def modules_with_examples() -> list[str]:
    root = Path(horizonfree.__file__).parent
    names = []
    for module in pkgutil.walk_packages([str(root)], "horizonfree."):
        path = root.joinpath(*module.name.split(".")[1:])
        source = path / "__init__.py" if module.ispkg else path.with_suffix(".py")
        if source.exists() and ">>> " in source.read_text():
            names.append(module.name)
    return names


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_of_a_module(name: str) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("name", horizonfree.__all__)
def test_every_public_name_has_an_example(name: str) -> None:
    """In its docstring; of a class, perhaps in that of a method; of `theory`, in that of the package."""
    public = getattr(horizonfree, name)
    members = [x for x, _ in inspect.getmembers_static(public)] if inspect.isclass(public) else []
    own_members = [x for x in members if not x.startswith("_") and x in vars(public)]
    docs = [inspect.getdoc(x) or "" for x in (public, *(getattr(public, x) for x in own_members))]
    assert any(">>> " in doc for doc in docs)
