"""The command line: `horizonfree --help`."""

import gc
import sys

from horizonfree._shell import begin_shell
from horizonfree._stack import roomy
from horizonfree.cli import _interrupt


@roomy
def main() -> None:
    """Run a command: 0 if all went well, 2 on bad input (one line says why), 130 on Ctrl-C."""
    _interrupt.end_at_once()
    begin_shell()
    gc.set_threshold(
        50_000
    )  # what is loaded makes objects by the hundred thousand, hardly any of them in cycles
    from horizonfree.cli.app import run  # it takes a moment, in which Ctrl-C must count already

    sys.exit(run())
