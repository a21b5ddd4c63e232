"""The lists of the command line: what the registries hold, shown without loading them."""

import json
import subprocess
import sys

from horizonfree.cli.catalogue import FILE, made

LOADED = """
import sys, horizonfree.cli.app as app
sys.argv = ["horizonfree", {0!r}]
app.run()
print("jax" in sys.modules)
"""


def test_the_catalogue_is_what_the_registries_hold() -> None:
    said = json.loads(json.dumps(made()))
    assert json.loads(FILE.read_text()) == said, "run python -m horizonfree.cli.catalogue"
    assert {"zoned-grid", "river-swim"} <= set(said["problems"])
    assert {"information", "hf-ucrl-rfe++"} <= set(said["explorers"])


def test_lists_are_shown_without_loading_jax() -> None:
    for command in ("problems", "explorers"):
        done = subprocess.run(
            [sys.executable, "-c", LOADED.format(command)], capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[-1] == "False", done.stdout
