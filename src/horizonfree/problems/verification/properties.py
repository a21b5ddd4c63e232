"""Properties in the notation of PRISM and Storm, as far as rewards of episodes can express them.

    Pmax=? [F<=12 "goal"]                 be in a state of a label, or in one state by its name, within 12 steps
    Pmin=? [!"fail" U<=12 "goal"]         reach the second set within 12 steps, and stay in the first one before
    Pmax=? [G<=12 !"fail"]                stay in a set for 12 steps
    R{"cost"}min=? [C<=12]                the sum of a reward over 12 steps

`&`, `|`, `!`, `=>`, `true`, `false` and parentheses make sets of states from labels. `P=?` and `R=?` are for models
with one action. Everything else is refused with this list.
"""

import re
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from jaxtyping import Bool, Float

from horizonfree._validation import reward_name, short_repr, suggestion
from horizonfree.errors import OptionError, UnknownNameError
from horizonfree.mdp.events import LOST, OPEN, WON, Event, Worth
from horizonfree.mdp.space import MAX_HORIZON

SUPPORTED = (
    'Pmax=? [F<=12 "goal"], Pmax=? [!"fail" U<=12 "goal"], Pmax=? [G<=12 !"fail"], R{"cost"}max=? [C<=12], the same '
    "with min, and sets of states made of labels and names of states in quotation marks with & | ! => true false ()"
)
_HEAD = re.compile(r'\s*([PR])\s*(?:\{\s*"([^"]*)"\s*\})?\s*(max|min)?\s*=\s*\?\s*\[(.*)\]\s*', re.DOTALL)
_BOUND = r"\s*(<=|<)\s*(\d{1,9})(?!\d)"
_CUMULATED = re.compile(rf"\s*C{_BOUND}\s*")
_TOKEN = re.compile(r'\s*(?:"([^"]+)"|(true|false)\b|(=>|[!&|()])|([FGU])(\s*(?:<=|<)\s*\d{1,9})(?!\d))')


@dataclass(frozen=True, eq=False)
class Accumulated:
    """The sum of a reward over so many steps; `paid` [S, A] of a problem, [C] of the choices of an explicit model."""

    paid: Float[np.ndarray, "*pairs"]
    steps: int
    is_max: bool
    name: str


@dataclass(frozen=True)
class Property:
    """A bounded property, to be given to `Run.plan` and `Run.evaluate` in place of a reward.

    `kind` is "F", "U", "G" or "C"; `left` and `right` are sets of states in prefix notation; `reward` is the name of a
    reward, empty where there is only one.
    """

    text: str
    kind: str
    steps: int
    is_max: bool | None
    left: tuple[Any, ...] = ()
    right: tuple[Any, ...] = ()
    reward: str = ""

    def __str__(self) -> str:
        return self.text

    def on_problem(self, problem: Any) -> Event | Accumulated:
        """The property on the states of a problem."""
        is_max = self._direction(bool((problem.actions_allowed.sum(1) == 1).all()))
        if self.kind == "C":
            return Accumulated(problem.reward(self.reward), self.steps, is_max, self.text)

        def states_named(name: str) -> Bool[np.ndarray, " S"]:
            result = np.zeros(problem.num_states, bool)
            result[problem.states_named(name)] = True
            return result

        return self._event(problem.num_states, states_named, is_max)

    def on_model(self, model: Any) -> Event | Accumulated:
        """The property on the states of an explicit model."""
        is_max = self._direction(model.num_choices == model.num_states)
        if self.kind == "C":
            name = reward_name(self.reward, model.reward_names, "the model has no rewards")
            return Accumulated(model.rewards(name), self.steps, is_max, self.text)
        states = list(model.states)

        def states_named(name: str) -> Bool[np.ndarray, " S"]:
            if name in model.labels:
                return np.asarray(model.labels[name])
            if name == "init":
                return np.asarray(model.initial)
            if name not in states:
                hint = suggestion(name, [*model.labels, *states[:50]])
                raise UnknownNameError(f"there is no label and no state {short_repr(name)}; {hint}")
            return np.asarray(np.arange(len(states)) == states.index(name))

        return self._event(model.num_states, states_named, is_max)

    def _direction(self, is_chain: bool) -> bool:
        if self.is_max is None and not is_chain:
            raise OptionError(
                f"{self.text}: max or min is missing, and the model has more than one action; write Pmax=? or Pmin=?"
            )
        return self.is_max is not False

    def _event(self, size: int, states_named: Any, is_max: bool) -> Event:
        right = _evaluated(self.right, size, states_named)
        is_left = _evaluated(self.left, size, states_named) if self.kind == "U" else np.ones(size, bool)
        if self.kind == "G":
            decisions = np.where(right, OPEN, LOST)
            return Event(decisions, self.steps, Worth(0.0, 0.0, 1.0), is_max, self.text)
        decisions = np.where(right, WON, np.where(is_left, OPEN, LOST))
        return Event(decisions, self.steps, Worth(1.0, 0.0, 0.0), is_max, self.text)


def property(text: Any) -> Property:
    """The property that a text describes; SUPPORTED lists the forms.

    >>> import numpy as np, horizonfree as hf
    >>> kernels = np.array([[[[0.9, 0.1]], [[0.0, 1.0]]], [[[0.4, 0.6]], [[0.0, 1.0]]]])
    >>> problem = hf.Mixture.from_kernels(kernels, horizon=5, states=["low", "high"], weights=[0.5, 0.5])
    >>> run = hf.explore(problem, episodes=50, progress=False)
    >>> 0 <= run.plan(hf.property('Pmax=? [F<=4 "high"]')).value <= 1
    True
    """
    if isinstance(text, Property):
        return text
    head = _HEAD.fullmatch(text) if isinstance(text, str) else None
    if head is None:
        _refuse(text, "it is not of the form P...=? [...] or R...=? [...]")
    operator, reward, direction, path = head.groups()
    is_max = None if direction is None else direction == "max"
    if operator == "R":
        cumulated = _CUMULATED.fullmatch(path)
        if cumulated is None:
            _refuse(text, "of rewards only C<=k is supported")
        return Property(text, "C", _steps(text, *cumulated.groups()), is_max, reward=reward or "")
    if reward is not None:
        _refuse(text, 'P has no {"..."}')
    reader = _Reader(text, path)
    left_formula = () if reader.sees("F", "G") else reader.formula()
    kind, bound = reader.operator()
    right = reader.formula()
    reader.end()
    if (kind == "U") != bool(left_formula):
        _refuse(text, "U stands between two sets of states, F and G in front of one")
    steps = _steps(text, *re.fullmatch(_BOUND, bound).groups())  # type: ignore[union-attr]  # it was matched before
    return Property(text, kind, steps, is_max, left_formula, right)


def _steps(text: str, sign: str, number: str) -> int:
    steps = int(number) - (sign == "<")
    if not 0 <= steps < MAX_HORIZON:
        _refuse(text, f"the bound must be 0 to {MAX_HORIZON - 1:,} steps")
    return steps


def _refuse(text: Any, reason: str) -> NoReturn:
    raise OptionError(
        f"the property {short_repr(text)} is not supported: {reason}; supported are {SUPPORTED}"
    )


class _Reader:
    """Recursive descent: implication, or, and, not, in rising order."""

    def __init__(self, text: str, path: str):
        self.text, self.tokens, position = text, [], 0
        while path[position:].strip():
            result = _TOKEN.match(path, position)
            if result is None:
                _refuse(text, f"{path[position:].strip()[:30]!r} cannot be read")
            name, constant, sign, operator, bound = result.groups()
            kind = "name" if name else "constant" if constant else "sign" if sign else "operator"
            self.tokens.append((kind, name or constant or sign or operator, bound))
            position = result.end()
        self.at = 0

    def sees(self, *values: str) -> bool:
        """Whether the next token is one of these, and no name."""
        return (
            self.at < len(self.tokens)
            and self.tokens[self.at][0] != "name"
            and self.tokens[self.at][1] in values
        )

    def takes(self, *values: str) -> bool:
        """`sees`, and moves behind the token."""
        result = self.sees(*values)
        self.at += result
        return result

    def operator(self) -> tuple[str, str]:
        """F, G or U with its bound."""
        if not self.takes("F", "G", "U"):
            _refuse(self.text, "F<=k, G<=k or U<=k is missing")
        _, name, bound = self.tokens[self.at - 1]
        return name, bound

    def formula(self) -> tuple[Any, ...]:
        """A set of states."""
        left = self._or()
        return ("|", ("!", left), self.formula()) if self.takes("=>") else left

    def end(self) -> None:
        """Refuse what is left over."""
        if self.at < len(self.tokens):
            _refuse(self.text, f"{self.tokens[self.at][1]!r} is one too many")

    def _or(self) -> tuple[Any, ...]:
        result = self._and()
        while self.takes("|"):
            result = ("|", result, self._and())
        return result

    def _and(self) -> tuple[Any, ...]:
        result = self._not()
        while self.takes("&"):
            result = ("&", result, self._not())
        return result

    def _not(self) -> tuple[Any, ...]:
        if self.takes("!"):
            return ("!", self._not())
        if self.takes("("):
            result = self.formula()
            if not self.takes(")"):
                _refuse(self.text, "a parenthesis is not closed")
            return result
        if self.at >= len(self.tokens) or self.tokens[self.at][0] not in ("name", "constant"):
            _refuse(self.text, "a set of states is missing")
        kind, value, _ = self.tokens[self.at]
        self.at += 1
        return (kind, value)


def _evaluated(formula: tuple[Any, ...], size: int, states_named: Any) -> Bool[np.ndarray, " S"]:
    kind, *parts = formula
    if kind == "constant":
        return np.full(size, parts[0] == "true")
    if kind == "name":
        return np.asarray(states_named(parts[0]))
    result = [_evaluated(part, size, states_named) for part in parts]
    if kind == "!":
        return ~result[0]
    return np.asarray(result[0] & result[1] if kind == "&" else result[0] | result[1])
