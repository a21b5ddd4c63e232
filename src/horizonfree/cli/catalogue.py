"""The named problems and the explorers as data: lists are shown at once, without loading what they list.

    python -m horizonfree.cli.catalogue

writes catalogue.json anew after a problem or an explorer has changed; a test compares the two.
"""

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("catalogue.json")


def catalogue() -> dict[str, dict[str, Any]]:
    """`problems` and `explorers`, as they were when the file was written."""
    found: dict[str, dict[str, Any]] = json.loads(FILE.read_text())
    return found


def made() -> dict[str, dict[str, Any]]:
    """The same, from the registries."""
    from horizonfree.explorers.registry import explorers
    from horizonfree.problems import problems

    return {
        "problems": {name: _problem(spec) for name, spec in problems().items()},
        "explorers": {name: spec | {"options": _options(spec)} for name, spec in explorers().items()},
    }


def _problem(spec: Any) -> dict[str, Any]:
    parameters = {
        x.name: {
            "type": x.type.__name__,
            "default": x.default,
            "low": x.low,
            "high": x.high,
            "meaning": x.meaning,
        }
        for x in spec.parameters
    }
    return {"description": spec.description, "source": spec.source, "parameters": parameters}


def _options(spec: dict[str, Any]) -> dict[str, Any]:
    from dataclasses import MISSING

    return {name: "required" if default is MISSING else default for name, default in spec["options"].items()}


if __name__ == "__main__":
    FILE.write_text(json.dumps(made(), indent=1) + "\n")
