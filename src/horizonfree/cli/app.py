"""The commands, and how they end. They import what is heavy when they run, so that help comes at once."""

import errno
import os
import sys
import warnings
from difflib import get_close_matches
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from horizonfree._deprecated import REMOVAL
from horizonfree.cli import answers, compare, explore, lists, plan, robustness, sweep
from horizonfree.errors import HorizonfreeError, OptionError, UnknownNameError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the system does not say which file has no room


class Commands(TyperGroup):
    """The commands by name; one that does not exist is answered with those that do."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first word names."""
        if args[0] not in self.commands and not ctx.resilient_parsing:  # completion asks for half a word
            near = get_close_matches(args[0], self.commands, n=1)
            advice = f"did you mean {near[0]!r}?" if near else f"choose one of: {', '.join(self.commands)}"
            raise UnknownNameError(f"there is no command {args[0]!r}; {advice}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="horizonfree",
    cls=Commands,
    help="Explore once, without a reward. Then plan for any reward, with a proof of how good the plan is.",
    epilog="New here? `horizonfree tour` shows everything in a minute.",
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
    answers.certify,
    answers.verify,
    robustness.robustness,
    answers.report,
    compare.compare,
    sweep.sweep,
    answers.serve,
    lists.theory,
):
    app.command(
        no_args_is_help=command
        in (
            plan.plan,
            answers.certify,
            answers.verify,
            robustness.robustness,
            answers.report,
            compare.compare,
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
        bool | None, typer.Option("--version", callback=_version, is_eager=True, help="Say which version.")
    ] = None,
) -> None:
    """Explore once, without a reward. Then plan for any reward, with a proof of how good the plan is."""


def run() -> int:
    """Run the command that was typed; the exit code."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", DeprecationWarning)  # what dependencies say to each other
        warnings.filterwarnings("default", f".*{REMOVAL}", DeprecationWarning)
        warnings.showwarning = _say_warning
        return _run()


def _run() -> int:
    try:
        _check_text(sys.argv[1:])
        return app(prog_name="horizonfree", standalone_mode=False) or 0
    except HorizonfreeError as error:
        _say(f"error: {error}")
        return 2
    except (KeyboardInterrupt, typer.Abort):
        _say("stopped")
        return 130
    except BrokenPipeError:  # whoever read our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        is_about_a_file = error.filename is not None or error.errno in FULL
        if not is_about_a_file:  # show it in full
            raise
        is_file = isinstance(error, FileExistsError)
        why = "there is a file where a folder should be" if is_file else error.strerror
        _say(f"error: {error.filename or 'output'}: {why}")
        return 2
    except Exception as error:
        if not hasattr(error, "format_message"):  # a mistake of ours: show it in full
            raise
        _say(f"error: {_about_usage(error)}")
        return 2


def _check_text(words: list[str]) -> None:
    """Refuse what no shell of this system passes on: text that cannot be the name of a file, nor be printed."""
    for word in words:
        try:
            os.fsencode(word)
        except UnicodeEncodeError:
            raise OptionError(f"{word!r} is not text: it contains half of a surrogate pair") from None


def _about_usage(error: Any) -> str:
    """What Typer found wrong with the words that were typed, and how they are written, where it does not say so."""
    words: str = error.format_message().removesuffix(".")
    near = get_close_matches(
        getattr(error, "option_name", ""), getattr(error, "possibilities", None) or [], n=1
    )
    if near:
        words = f"there is no option {error.option_name} (did you mean {near[0]}?)"
    if not words:
        return "say what to do; the help above shows how"
    if getattr(error, "ctx", None) is None or (isinstance(error, typer.BadParameter) and error.message):
        return words
    usage = error.ctx.get_usage().removeprefix("Usage: ").replace("{", "").replace("}", "")
    return f"{words}; write it as {usage} (--help says more)"


def _say(text: str) -> None:
    print(f"horizonfree: {' '.join(text.split())}", file=sys.stderr)


def _say_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _say(f"note: {message}")
