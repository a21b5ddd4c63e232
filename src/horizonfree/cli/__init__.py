"""The command line: `horizonfree --help`."""

import sys

from horizonfree.cli import _interrupt


def main() -> None:
    """Run a command: 0 if all went well, 2 on bad input (one line says why), 130 on Ctrl-C."""
    _interrupt.exit_on_interrupt()
    from horizonfree.cli.app import run  # it takes a moment, in which Ctrl-C must count already

    sys.exit(run())
