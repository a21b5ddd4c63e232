"""A leaderboard: every algorithm on every named problem of its model class, and Table 1 of the paper beside it.

Measured are the certificate for every reward and the true suboptimality of plans, after so many episodes, at the
default options. An entry says which paper and which constants, whether the algorithm is a reconstruction, the seeds,
and the commit of the code.
"""

import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from horizonfree._validation import check_count, check_known
from horizonfree.batch.explore import explore_many
from horizonfree.errors import OptionError
from horizonfree.explorers.registry import find_entry, label
from horizonfree.guarantees.certificate import round_up
from horizonfree.mdp.rewards import occupancy
from horizonfree.models.registry import class_name
from horizonfree.problems import make
from horizonfree.problems.problem import Problem
from horizonfree.problems.registry import problems as named_problems
from horizonfree.runs.recipes import versions
from horizonfree.theory.table1 import table1

FORMAT = 1
EPISODES, SEEDS, DELTA = 200, 3, 0.05
CONSTANTS = ("constants", "scale", "bias_scale", "bonus_scale", "beta")  # options with this meaning
TABLES = ("river-swim", "double-chain")  # problems that are explored without their model class, too
SUFFIX = " (table)"
MEASURES = ("eps", "gap")
INTRODUCTION = """---
hide: [toc]
---

# Leaderboard

Algorithms on the named problems of their model class, with default options: {lengths}, at {commits}. This measures one:

    horizonfree leaderboard docs/leaderboard.json --explorer NAME --page docs/leaderboard.md

- *Certified*: suboptimality bound for every reward of total at most 1 (95% confidence), computed from the episodes,
  rounded up; 1: nothing.
- *True*: largest suboptimality of plans in the maximum-likelihood model, over the rewards "be in s at the end" and
  "stay in s" of every state; 0: below 1e-6.
- Medians over the seeds. Few seeds and few episodes show large differences only. Smallest and largest values, papers
  and options: [leaderboard.json](leaderboard.json).
- *For one reward*: the algorithm explores for a given reward, here to stay in the last state.
- *Reconstruction*: written from memory or from an abstract, not from a printed algorithm.
- "(table)": explored without the model class; every transition probability is unknown.
"""


def problem_names() -> list[str]:
    """The problems of the leaderboard: named problems at their default parameters, and tables behind some of them."""
    return [*named_problems(), *(name + SUFFIX for name in TABLES)]


def make_problem(name: str) -> Problem:
    """A problem of the leaderboard."""
    problem = make(name.removesuffix(SUFFIX))
    return problem.as_tabular() if name.endswith(SUFFIX) else problem


def empty() -> dict[str, Any]:
    """A leaderboard without measurements: Table 1 and the problems."""
    rows = [{**asdict(row), "rate": row.order} for row in table1()]
    for row in rows:
        del row["terms"]
    return {"format": FORMAT, "table1": rows, "problems": {}, "entries": []}


def measure(
    board: Mapping[str, Any],
    explorers: Sequence[str],
    *,
    problems: Sequence[str] | None = None,
    episodes: int = EPISODES,
    seeds: int = SEEDS,
) -> Iterator[dict[str, Any]]:
    """The leaderboard after each new entry; an entry that is there with the same settings and version is kept.

    Explorers are measured on the problems of the model class that they learn.
    """
    check_count(episodes, "episodes")
    check_count(seeds, "seeds")
    names = problem_names() if problems is None else list(problems)
    for name in names:
        check_known(name, problem_names(), "problem of the leaderboard")
    learnt = {name: find_entry(name).explorer_type.learns for name in explorers}
    result = {**board, "problems": dict(board["problems"]), "entries": list(board["entries"])}
    for name in names:
        problem = make_problem(name)
        for explorer in explorers:
            if not isinstance(problem.model, learnt[explorer]):
                continue
            description = describe(explorer, name, episodes, seeds)
            if any(
                description.items() <= {**entry, "commit": description["commit"]}.items()
                for entry in result["entries"]
            ):
                continue
            try:
                measured_entry = description | _numbers(problem, explorer, episodes, seeds)
            except OptionError as error:  # it needs more episodes, for instance
                measured_entry = description | {"refusal": str(error), **dict.fromkeys(MEASURES)}
            result["problems"][name] = _sizes(problem)
            other_entries = [
                x
                for x in result["entries"]
                if (x["explorer"], x["problem"]) != (measured_entry["explorer"], name)
            ]
            result["entries"] = sorted([*other_entries, measured_entry], key=_rank)
            yield result


def _rank(entry: Mapping[str, Any]) -> tuple[str, float, str]:
    """By problem, the smallest certificate first."""
    return entry["problem"], 2.0 if entry["eps"] is None else entry["eps"][1], entry["explorer"]


def describe(explorer: str, problem: str, episodes: int, seeds: int) -> dict[str, Any]:
    """What an entry says beside its numbers."""
    entry = find_entry(explorer)
    options = {name: x for name, x in entry.options.items() if isinstance(x, (str, int, float, type(None)))}
    constants = [f"{name} {options[name]}" for name in CONSTANTS if name in options]
    return {
        "explorer": label(explorer),
        "problem": problem,
        "paper": paper(explorer),
        "constants": ", ".join(constants) or "none",
        "options": options,
        "is_reconstruction": entry.is_reconstruction,
        "is_for_one_reward": "reward" in entry.options,
        "episodes": episodes,
        "seeds": list(range(seeds)),
        "delta": DELTA,
        "version": versions().get("horizonfree"),
        "commit": commit(),
    }


def paper(explorer: str) -> str:
    """The field "Paper" of the module of an algorithm; empty if there is none."""
    text = sys.modules[find_entry(explorer).explorer_type.__module__].__doc__ or ""
    _, separator, tail = text.partition("Paper:")
    return " ".join(tail.partition("\nAlgorithm:")[0].split()) if separator else ""


def commit() -> str | None:
    """The commit of the code, if it runs from its repository; "+" where files differ from it."""
    folder = Path(__file__).parents[3]
    if not (folder / "pyproject.toml").exists() or not (folder / ".git").exists():
        return None
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
            cwd=folder,
            capture_output=True,
            text=True,
        )
    except OSError:
        return None
    return described.stdout.strip() or None


def _numbers(problem: Problem, explorer: str, episodes: int, seeds: int) -> dict[str, Any]:
    """Smallest, median and largest over the seeds of certificate and true suboptimality, and the time."""
    start = time.process_time()
    needs_reward = "reward" in find_entry(explorer).options
    batch = explore_many(
        problem,
        explorer,
        episodes=episodes,
        seeds=seeds,
        checkpoints=[episodes],
        curves=MEASURES,
        delta=DELTA,
        reward=occupancy(problem, problem.num_states - 1) if needs_reward else None,
        progress=False,
    )
    values = {curve: batch.curves[curve][:, -1] for curve in MEASURES}
    numbers = {
        curve: [float(f"{x:.4g}") for x in (v.min(), np.median(v), v.max())] for curve, v in values.items()
    }
    return numbers | {"cpu_seconds": round(time.process_time() - start, 1)}


def _sizes(problem: Problem) -> dict[str, Any]:
    return {
        "class": class_name(problem.model),
        "states": problem.num_states,
        "actions": problem.num_actions,
        "horizon": problem.horizon,
        "unknown": problem.model.num_unknown,
    }


def check(board: Any) -> dict[str, Any]:
    """A leaderboard from a file, or an error."""
    if (
        not isinstance(board, dict)
        or board.get("format") != FORMAT
        or not isinstance(board.get("entries"), list)
    ):
        raise OptionError(f"this is not a leaderboard of format {FORMAT}; choose another file")
    return board


def page(board: Mapping[str, Any]) -> str:
    """The leaderboard as a page in Markdown."""
    entries = board["entries"]
    lengths = {f"{x['episodes']} episodes, {len(x['seeds'])} seeds" for x in entries}
    commits = {f"`{x['commit']}`" if x["commit"] else f"version {x['version']}" for x in entries}
    lines = [INTRODUCTION.format(lengths=_listed(lengths), commits=_listed(commits))]
    for kind in sorted({size["class"] for size in board["problems"].values()}):
        own = [x for x in entries if board["problems"][x["problem"]]["class"] == kind]
        lines += [f"## {kind}", ""]
        for measure, title in (("eps", "Certified"), ("gap", "True")):
            lines += ['<div class="compact" markdown>', "", *_matrix(own, measure, title), "", "</div>", ""]
        lines += [f"{x['explorer']}, {x['problem']}: {x['refusal']}.\n" for x in own if "refusal" in x]
    missing = [name for name in problem_names() if name not in board["problems"]]
    if missing:
        lines += [f"Not measured yet: {', '.join(missing)}.", ""]
    constants: dict[str, set[str]] = {}
    for entry in entries:
        constants.setdefault(entry["constants"], set()).add(entry["explorer"])
    lines += [
        "## Constants",
        "",
        "They set radii and bonuses. Where they are not the paper's, the algorithm's own theorem does not apply; the "
        "certificate does.",
        "",
        *(f"- {text}: {_listed(names)}" for text, names in sorted(constants.items())),
    ]
    return "\n".join(lines) + "\n"


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(sorted(texts))


def _matrix(entries: Sequence[Mapping[str, Any]], measure: str, title: str) -> Iterator[str]:
    """Rows of a table: the median of every algorithm on every problem."""
    names = sorted({x["problem"] for x in entries})
    cells = {(_marked(x), x["problem"]): _median(x, measure) for x in entries}
    yield f"| {title} | {' | '.join(names)} |"
    yield "|---" * (len(names) + 1) + "|"
    for explorer in sorted({explorer for explorer, _ in cells}):
        yield f"| {explorer} | {' | '.join(cells.get((explorer, name), '') for name in names)} |"


def _marked(entry: Mapping[str, Any]) -> str:
    return f"{entry['explorer']}{', for one reward' if entry['is_for_one_reward'] else ''}"


def _median(entry: Mapping[str, Any], measure: str) -> str:
    """The median over the seeds; certified numbers are rounded up."""
    if entry[measure] is None:
        return "-"
    middle = entry[measure][1]
    if measure == "eps":
        return f"{round_up(middle, finest=0.01):.2g}"
    return f"{middle:.2g}" if middle >= 1e-6 else "0"
