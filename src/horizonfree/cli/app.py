"""The commands and their exit codes. Heavy imports are inside the commands, so that --help is fast."""

import errno
import os
import sys
import warnings
from difflib import get_close_matches
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from horizonfree._deprecated import REMOVAL
from horizonfree.cli import answers, compare, explore, leaderboard, lists, logs, plan, sweep, trade_offs
from horizonfree.errors import HorizonfreeError, OptionError, UnknownNameError

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # errors without a file name


class Commands(TyperGroup):
    """The commands by name, with suggestions for unknown names."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command with the name of the first argument."""
        if args[0] not in self.commands and not ctx.resilient_parsing:  # not for shell completion
            suggestions = get_close_matches(args[0], self.commands, n=1)
            advice = (
                f"did you mean {suggestions[0]!r}?"
                if suggestions
                else f"choose one of: {', '.join(self.commands)}"
            )
            raise UnknownNameError(f"there is no command {args[0]!r}; {advice}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="horizonfree",
    cls=Commands,
    help="Explore once, without a reward. Then plan for any reward, with a proof of how good the plan is.",
    epilog="New here? `horizonfree tour` shows the whole library in a minute.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    explore.tour,
    lists.problems,
    lists.explorers,
    explore.explore,
    plan.plan,
    trade_offs.pareto,
    trade_offs.risk,
    answers.certify,
    logs.audit,
    logs.power,
    answers.verify,
    answers.robustness,
    answers.report,
    compare.compare,
    leaderboard.leaderboard,
    sweep.sweep,
    answers.serve,
    lists.theory,
):
    app.command(
        no_args_is_help=command
        in (
            plan.plan,
            trade_offs.pareto,
            trade_offs.risk,
            answers.certify,
            logs.audit,
            logs.power,
            answers.verify,
            answers.robustness,
            answers.report,
            compare.compare,
            leaderboard.leaderboard,
            sweep.sweep,
        )
    )(command)


def _version(is_wanted: bool | None) -> None:
    if is_wanted:
        from horizonfree import __version__

        print(f"horizonfree {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool | None, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = None,
) -> None:
    """Explore once, without a reward. Then plan for any reward, with a proof of how good the plan is."""


def run() -> int:
    """Run the command of sys.argv and return the exit code."""
    if "" not in sys.path:
        sys.path.append("")  # explorers as module:Class, from the working directory
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", DeprecationWarning)  # of dependencies
        warnings.filterwarnings("default", f".*{REMOVAL}", DeprecationWarning)
        warnings.showwarning = _print_warning
        return _run()


def _run() -> int:
    try:
        _check_text(sys.argv[1:])
        return app(prog_name="horizonfree", standalone_mode=False) or 0
    except HorizonfreeError as error:
        _print_error(f"error: {error}")
        return 2
    except (KeyboardInterrupt, typer.Abort):
        _print_error("stopped")
        return 130
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        is_about_a_file = error.filename is not None or error.errno in DISK_FULL
        if not is_about_a_file:  # a bug: show the traceback
            raise
        is_file = isinstance(error, FileExistsError)
        reason = "there is a file where a folder should be" if is_file else error.strerror
        _print_error(f"error: {error.filename or 'output'}: {reason}")
        return 2
    except Exception as error:
        if not hasattr(error, "format_message"):  # a bug: show the traceback
            raise
        _print_error(f"error: {_usage_message(error)}")
        return 2


def _check_text(arguments: list[str]) -> None:
    """An error for text that can be neither a file name nor printed, with half of a surrogate pair."""
    for argument in arguments:
        try:
            os.fsencode(argument)
        except UnicodeEncodeError:
            raise OptionError(f"{argument!r} is not text: it contains half of a surrogate pair") from None


def _usage_message(error: Any) -> str:
    """The message of a Typer error, with the usage if it is missing there."""
    message: str = error.format_message().removesuffix(".")
    suggestions = get_close_matches(
        getattr(error, "option_name", ""), getattr(error, "possibilities", None) or [], n=1
    )
    if suggestions:
        message = f"there is no option {error.option_name} (did you mean {suggestions[0]}?)"
    if not message:
        return "give a command; the help above lists them"
    if getattr(error, "ctx", None) is None or (isinstance(error, typer.BadParameter) and error.message):
        return message
    usage = error.ctx.get_usage().removeprefix("Usage: ").replace("{", "").replace("}", "")
    return f"{message}; usage: {usage} (see --help)"


def _print_error(text: str) -> None:
    print(f"horizonfree: {' '.join(text.split())}", file=sys.stderr)


def _print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _print_error(f"note: {message}")
