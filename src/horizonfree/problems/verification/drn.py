"""Storm's explicit text format DRN: reading and writing MDPs, Markov chains and interval MDPs.

    @type: MDP
    @value_type: double-interval
    @reward_models
    cost
    @nr_states
    1
    @nr_choices
    1
    @model
    state 0 [2] init goal
        action stay [0]
            0 : [1, 1]

Rewards stand in brackets in the order of `@reward_models`, those of a state behind its number, those of a choice behind
its name. Reading stops with an error that names the line where a file is no such model.
"""

import re
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from horizonfree._validation import check_size, reading, require
from horizonfree.errors import OptionError
from horizonfree.problems.verification.explicit import (
    MAX_MODEL_SIZE,
    UNNAMED,
    ExplicitModel,
    check_model,
    check_path,
)

MAX_BYTES = 2**30
_STATE = re.compile(r"state\s+(\d+)(?:\s+!\S+)?(?:\s+\{\d+\})?(?:\s*\[([^\]]*)\])?(.*)")
_ACTION = re.compile(r"action\s+([^\[]*?)\s*(?:\[([^\]]*)\])?")
_BRANCH = re.compile(r"(\d+)\s*:\s*(?:\[\s*([^,\]]+)\s*,\s*([^\]]+)\]|(\S+))")
_LABEL = re.compile(r"[A-Za-z_]\w*")
_WITH_VALUE = ("@type", "@value_type")
_ON_NEXT_LINE = ("@parameters", "@reward_models", "@nr_states", "@nr_choices")


def read_drn(path: Any) -> ExplicitModel:
    """The MDP, Markov chain or interval MDP in a DRN file.

    >>> import tempfile
    >>> import horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> run = hf.explore(problem, episodes=50, progress=False)
    >>> path = tempfile.mkdtemp() + "/model.drn"
    >>> run.to_drn(path)
    >>> hf.read_drn(path).num_states
    4
    """
    file = check_path(path)
    with reading(f"model {file}", "a DRN file"):
        size = file.stat().st_size
        check_size(size, MAX_BYTES, f"{file} has {size:,} bytes", "write a smaller model")
        lines = file.read_text(encoding="utf-8").split("\n")
    return _Reader(file, lines).model()


class _Reader:
    """Goes through the lines once."""

    def __init__(self, file: Path, lines: list[str]):
        self.file, self.lines, self.at = file, lines, 0
        self.header: dict[str, str] = {}
        self.names: list[str] = []

    def fail(self, reason: str) -> NoReturn:
        """Refuse the line that was read last."""
        raise OptionError(f"{self.file}, line {self.at}: {reason}")

    def next_line(self) -> str | None:
        """The next line that is not empty; None at the end."""
        while self.at < len(self.lines):
            self.at += 1
            line = self.lines[self.at - 1].strip()
            if line:
                return line
        return None

    def read_header(self) -> None:
        """Everything up to @model."""
        while True:
            line = self.next_line()
            if line is None:
                self.fail("the file ends before @model")
            key, _, content = (x.strip() for x in line.partition(":"))
            if line == "@model":
                return
            if line.startswith("//"):
                continue
            if key in _WITH_VALUE and content:
                self.header[key] = content
            elif line in _ON_NEXT_LINE:
                self.at += 1  # which may be empty
                self.header[line] = self.lines[self.at - 1].strip() if self.at <= len(self.lines) else ""
            else:
                self.fail(f"{line[:60]!r} is no part of a header; @type, @value_type, @nr_states, ... are")

    def size(self, key: str) -> int | None:
        """A declared number."""
        text = self.header.get(key)
        if text is None:
            return None
        is_number = text.isascii() and text.isdigit() and len(text) < 12 and int(text) <= MAX_MODEL_SIZE
        require(is_number, f"{self.file}: {key}", text[:30], f"a number up to {MAX_MODEL_SIZE:,}")
        return int(text)

    def model(self) -> ExplicitModel:
        """The whole model."""
        self.read_header()
        if self.header.get("@type") not in ("MDP", "DTMC"):
            raise OptionError(
                f"{self.file} is of type {self.header.get('@type')!r}; MDP and DTMC are supported"
            )
        if self.header.get("@parameters"):
            raise OptionError(
                f"{self.file} has parameters ({self.header['@parameters'][:60]}); give them values, or read the model "
                "with from_prism"
            )
        self.names = self.header.get("@reward_models", "").split()
        self.names = [] if not self.names else ["reward" if x == "__NOLABEL__" else x for x in self.names]
        num_states = self.size("@nr_states")
        self.states: list[str] = []
        self.labels: dict[str, list[int]] = {}
        self.of_state: list[list[float]] = []
        self.of_choice: list[list[float]] = []
        self.actions: list[str] = []
        self.first_choice: list[int] = []
        self.first_branch: list[int] = []
        self.branches: list[tuple[int, float, float]] = []
        self.line_of: dict[str, list[int]] = {"state": [], "choice": [], "branch": []}
        while (line := self.next_line()) is not None:
            self.read_line(line)
        if num_states is not None and num_states != len(self.first_choice):
            self.fail(f"@nr_states is {num_states}, but there are {len(self.first_choice)} states")
        if self.size("@nr_choices") not in (None, len(self.actions)):
            self.fail(f"@nr_choices is {self.size('@nr_choices')}, but there are {len(self.actions)} choices")
        return check_model(self.collected(), str(self.file), self.line_of)

    def read_line(self, line: str) -> None:
        """A state, a choice, a branch, or a comment."""
        if line.startswith("//"):
            name = line[2:].strip()
            if self.first_choice and name.startswith("[") and name.endswith("]") and not self.states[-1]:
                self.states[-1] = " ".join(name[1:-1].split())
        elif line.startswith("state"):
            self.read_state(line)
        elif line.startswith("action"):
            self.read_action(line)
        else:
            self.read_branch(line)

    def read_state(self, line: str) -> None:
        """`state 3 [rewards] labels`."""
        match = _STATE.fullmatch(line)
        s = len(self.first_choice)
        if match is None:
            self.fail(f"{line[:60]!r} is no state; write it as: state {s} [rewards] labels")
        if match[1] != str(s):
            self.fail(f"state {match[1]} follows state {s - 1}; states are numbered from 0 without holes")
        for label in match[3].split():
            self.labels.setdefault(label.strip('"'), []).append(s)
        self.of_state.append(self.rewards(match[2]))
        self.states.append("")
        self.line_of["state"].append(self.at)
        self.first_choice.append(len(self.actions))

    def read_action(self, line: str) -> None:
        """`action name [rewards]`."""
        result = _ACTION.fullmatch(line)
        if result is None or not self.first_choice:
            self.fail(f"{line[:60]!r} is no action of a state; write it as: action name [rewards]")
        name = result[1].strip()
        self.actions.append("" if name in UNNAMED else name)
        self.of_choice.append(self.rewards(result[2]))
        self.first_branch.append(len(self.branches))
        self.line_of["choice"].append(self.at)

    def read_branch(self, line: str) -> None:
        """`5 : 0.3` or `5 : [0.2, 0.4]`."""
        match = _BRANCH.fullmatch(line)
        if match is None or not self.first_branch:
            self.fail(f"{line[:60]!r} is no transition of an action; write it as: 5 : 0.3, or 5 : [0.2, 0.4]")
        if len(match[1]) > 9 or len(self.branches) >= MAX_MODEL_SIZE:
            self.fail(f"state {match[1][:20]} or the number of transitions is too large")
        low, high = (match[2], match[3]) if match[4] is None else (match[4], match[4])
        self.line_of["branch"].append(self.at)
        self.branches.append((int(match[1]), self.number(low), self.number(high)))

    def rewards(self, text: str | None) -> list[float]:
        """As many numbers as there are rewards."""
        if text is None:
            return [0.0] * len(self.names)
        values = [self.number(x) for x in text.split(",")] if text.strip() else []
        if len(values) != len(self.names):
            self.fail(f"[{text[:40]}] has {len(values)} rewards; @reward_models names {len(self.names)}")
        return values

    def number(self, text: str) -> float:
        """A finite number, or a fraction."""
        top, _, bottom = text.strip().partition("/")
        try:
            value = float(top) / float(bottom or 1)
        except (ValueError, ZeroDivisionError):
            value = np.nan
        if not np.isfinite(value):
            self.fail(f"{text.strip()[:40]!r} is no finite number")
        return value

    def collected(self) -> ExplicitModel:
        """The lists as arrays."""
        S, C = len(self.first_choice), len(self.actions)
        target, low, high = zip(*self.branches) if self.branches else ((), (), ())
        of_state = np.array(self.of_state).reshape(S, len(self.names))
        of_choice = np.array(self.of_choice).reshape(C, len(self.names))
        initial = np.zeros(S, bool)
        initial[self.labels.pop("init", [])] = True
        labels = {}
        for name, states in self.labels.items():
            labels[name] = np.zeros(S, bool)
            labels[name][states] = True
        has_names = all(self.states) and len(set(self.states)) == S
        return ExplicitModel(
            initial,
            np.array([*self.first_choice, C]),
            np.array([*self.first_branch, len(self.branches)]),
            np.array(target, np.int64),
            np.array(low, np.float64),
            np.array(high, np.float64),
            self.actions if any(self.actions) else (),
            labels,
            {name: x for name, x in zip(self.names, of_state.T) if x.any()},
            dict(zip(self.names, of_choice.T)),
            self.states if has_names else (),
        )


def write_drn(model: ExplicitModel, path: Any) -> None:
    """An MDP or an interval MDP as a DRN file."""
    names = [check_name(name, "reward") for name in model.reward_names]
    labels = {check_name(name, "label"): mask for name, mask in model.labels.items()}
    S, C = model.num_states, model.num_choices
    of_state = np.stack([model.state_rewards.get(name, np.zeros(S)) for name in names] or [np.zeros(S)])
    of_choice = np.stack([model.choice_rewards.get(name, np.zeros(C)) for name in names] or [np.zeros(C)])
    lines = [f"// {part}" for part in model.description.split("\n") if part]
    lines += ["@type: MDP", f"@value_type: {'double-interval' if model.is_interval else 'double'}"]
    lines += [
        "@parameters",
        "",
        "@reward_models",
        " ".join(names),
        "@nr_states",
        str(S),
        "@nr_choices",
        str(C),
    ]
    lines.append("@model")

    def rewards_text(rewards: np.ndarray) -> str:
        return f" [{', '.join(map(_text, rewards))}]" if names else ""

    for s in range(S):
        marks = [*(["init"] if model.initial[s] else []), *(name for name, mask in labels.items() if mask[s])]
        lines.append(f"state {s}{rewards_text(of_state[:, s])}{''.join(f' {name}' for name in marks)}")
        lines += [f"//[{model.states[s]}]"] if model.states else []
        for c in range(model.first_choice[s], model.first_choice[s + 1]):
            name = _action(model.actions[c]) if model.actions else "__NOLABEL__"
            lines.append(f"\taction {name}{rewards_text(of_choice[:, c])}")
            for b in range(model.first_branch[c], model.first_branch[c + 1]):
                low, high = _text(model.low[b]), _text(model.high[b])
                lines.append(f"\t\t{model.target[b]} : {f'[{low}, {high}]' if model.is_interval else low}")
    check_path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def check_name(name: str, what: str) -> str:
    """A name that text formats can hold."""
    if not _LABEL.fullmatch(name) or name == "init":
        raise OptionError(
            f"{what} {name!r} cannot be written; names are of letters, digits and underscores, and not 'init'"
        )
    return name


def _action(name: str) -> str:
    """Storm reads an action up to the next bracket; blanks and brackets become underscores."""
    return re.sub(r"[\s\[\]]", "_", name) or "__NOLABEL__"


def _text(x: float) -> str:
    """The shortest text that reads back as the same number."""
    return repr(float(x)).removesuffix(".0")
