"""The JSON of every command has exactly the keys and types of docs/json.md."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.shell import TINY, Shell

PAGE = (Path(__file__).parents[2] / "docs" / "json.md").read_text()
ROW = re.compile(r"^- ([a-z ,]+): (`.+)$", re.MULTILINE)  # a type, and the keys that have it
KINDS: dict[str, Any] = {
    "text": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "list": list,
    "object": dict,
    "certificate": dict,
    "null": type(None),
}


def documented_keys(title: str) -> dict[str, str]:
    """The keys of a section, and their types; the section before the first title is the certificate."""
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)
    sections = {"certificate": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}
    found = {}
    for kind, keys in ROW.findall(sections[title]):
        found |= dict.fromkeys(re.findall(r"`([^`]+)`", re.sub(r"\([^)]*\)", "", keys)), kind)
    return found


def check(value: Any, keys: dict[str, str], path: str = "") -> None:
    """Compare a value with the documented keys of its place."""
    inner = {key.removeprefix(path): kind for key, kind in keys.items() if key.startswith(path)}
    kinds = {key: kind for key, kind in inner.items() if not re.search(r"[.\[]", key)}
    required = {key for key, kind in kinds.items() if "sometimes" not in kind}
    assert required <= set(value) <= set(kinds), (path, set(value) ^ set(kinds))
    for key, x in value.items():
        names = kinds[key].split(", ")[0].split(" or ")
        assert any(isinstance(x, KINDS[name]) for name in names), (path, key, x)
        assert names == ["boolean"] or not isinstance(x, bool), (path, key)
        if names == ["certificate"]:
            check(x, documented_keys("certificate"))
        elif any(other.startswith(f"{key}.") for other in inner):
            check(x, keys, f"{path}{key}.")
        elif any(other.startswith(f"{key}[].") for other in inner):
            for element in x:
                check(element, keys, f"{path}{key}[].")


def test_every_command_prints_what_is_told(shell: Shell) -> None:
    check(shell.json(f"explore {TINY} --explorer uniform --episodes 6 --out a"), documented_keys("explore"))
    np.savetxt("cost.csv", np.arange(9.0))
    shell.json("plan a --goal 8 --out p.csv")
    check(shell.json("plan a --cost cost.csv --compare p.csv"), documented_keys("plan"))
    check(shell.json("plan a --goal 8 --at-most cost.csv=9"), documented_keys("plan"))
    certificate_keys = documented_keys("certificate") | documented_keys("certify")
    for line in ("certify a", "certify a --rewards goals"):
        check(shell.json(line), certificate_keys)
    check(shell.json("report a --figures f"), documented_keys("report"))
    check(shell.json("report a --at-most cost.csv=9"), documented_keys("report"))
    check(shell.json("compare a --out c.html"), documented_keys("compare"))
    check(shell.json("audit a --policy p.csv --cost cost.csv"), documented_keys("audit"))
    line = "power a --goal 8 --target .01 --episodes 2,4 --draws 2 --episode-cost 3"
    check(shell.json(line), documented_keys("power"))


def test_a_key_that_nobody_told_of_is_found() -> None:
    """The check itself can fail."""
    fine = {"run": "a", "episodes": 3, "address": "x"}
    check(fine, documented_keys("serve"))
    for wrong in (fine | {"more": 1}, {"run": "a"}, fine | {"episodes": 1.5}, fine | {"episodes": True}):
        with pytest.raises(AssertionError):
            check(wrong, documented_keys("serve"))
