"""`horizonfree leaderboard`: algorithms on the named problems, as one JSON file and a page."""

import json as json_format
from pathlib import Path
from typing import Annotated, Any

import typer

from horizonfree.cli._shared import (
    JsonOption,
    console,
    int_option,
    output,
    print_line,
    round_bound,
    round_loss,
    spinner,
    table,
)
from horizonfree.errors import OptionError


def leaderboard(
    file: Annotated[Path, typer.Argument(help="JSON file; it is made if it is not there.", metavar="FILE")],
    explorer: Annotated[
        list[str] | None, typer.Option(help="Measure this algorithm; 'all' are those of the library.")
    ] = None,
    problem: Annotated[
        list[str] | None, typer.Option(help="On this problem only.  [default: all of its model class]")
    ] = None,
    episodes: Annotated[int, int_option("Number of episodes.")] = 200,
    seeds: Annotated[int, int_option("Number of seeds.")] = 3,
    page: Annotated[Path | None, typer.Option(help="Write a page in Markdown, too.")] = None,
    json: JsonOption = False,
) -> None:
    """Measure algorithms on the named problems, and show all that were measured.

    Entries that are there with the same settings and version are kept, and the file is written after each new one.

    Examples:

        horizonfree leaderboard board.json --explorer optimal-design --problem river-swim

        horizonfree leaderboard board.json --explorer all --page board.md
    """
    from horizonfree.batch import leaderboard as boards
    from horizonfree.explorers.registry import explorers as listed_explorers
    from horizonfree.runs import files

    board = boards.empty() if not file.exists() else boards.check(_read(file))
    names = [x for name in explorer or () for x in (listed_explorers(all=True) if name == "all" else [name])]
    if not names and not board["entries"]:
        raise OptionError(f"{file} has no entries; name an algorithm with --explorer, or 'all'")
    with spinner("exploring"):
        for grown in boards.measure(board, names, problems=problem or None, episodes=episodes, seeds=seeds):
            board = grown
            files.replace_file(file, (json_format.dumps(board, indent=1) + "\n").encode())
    if page is not None:
        files.replace_file(page, boards.page(board).encode())

    def show() -> None:
        for name in sorted({entry["problem"] for entry in board["entries"]}):
            rows = [
                (
                    x["explorer"],
                    None if x["eps"] is None else round_bound(x["eps"][1]),
                    None if x["gap"] is None else round_loss(x["gap"][1]),
                    x["episodes"],
                    len(x["seeds"]),
                    x["commit"] or "",
                )
                for x in board["entries"]
                if x["problem"] == name and (not problem or name in problem)
            ]
            if rows:
                heads = ("algorithm", "certified", "true", "episodes", "seeds", "commit")
                console.print(table(*heads, rows=rows, title=name))
        if page is not None:
            print_line("page: {page}", page=page)

    output(board, json, show)


def _read(file: Path) -> Any:
    from horizonfree._validation import reading  # imports NumPy

    with reading(file, "JSON"):
        return json_format.loads(file.read_bytes())
