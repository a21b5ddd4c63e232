"""What to explore and how, from a TOML file and from flags; flags win."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from horizonfree.errors import OptionError


@dataclass(frozen=True)
class Settings:
    """All settings of `horizonfree explore`. `param` belongs to the problem, `opt` to the explorer."""

    problem: str | None = None
    kernels: str | None = None
    unknown: list[str] = field(default_factory=list)
    explorer: str | None = None
    known_rules: bool = False
    reachable: bool = False
    episodes: int | None = None
    until_eps: float | None = None
    delta: float = 0.05
    misspecification: float = 0.0
    budget: int | None = None
    seed: int = 0
    out: str | None = None
    goal: list[int | str] = field(default_factory=list)
    reward: str | None = None
    rewards: str | None = None
    param: dict[str, Any] = field(default_factory=dict)
    opt: dict[str, Any] = field(default_factory=dict)
    save_episodes: int | None = None
    save_seconds: float | None = None

    @property
    def saving(self) -> dict[str, Any]:
        """The options of checkpoints that were given."""
        options = {"save_episodes": self.save_episodes, "save_seconds": self.save_seconds}
        return {name: value for name, value in options.items() if value is not None}


def read_settings(path: Path) -> dict[str, Any]:
    """The settings in a TOML file; errors for unknown names and values of the wrong type."""
    try:
        settings = tomllib.loads(path.read_text())
    except OSError as error:
        raise OptionError(f"settings {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"settings {path} is not TOML: {error}") from None
    except RecursionError:
        raise OptionError(
            f"settings {path} is nested too deeply; settings are plain values and two tables"
        ) from None
    hints = get_type_hints(Settings)
    for name, value in settings.items():
        if name not in hints:
            near = get_close_matches(name, hints, n=1)
            advice = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(hints)}"
            raise OptionError(f"settings {path}: there is no setting {name!r}; {advice}")
        hint = hints[name]
        kinds = (get_origin(hint),) if get_origin(hint) in (dict, list) else get_args(hint) or (hint,)
        if type(value) not in kinds and not (type(value) is int and float in kinds):
            wanted = " or ".join(kind.__name__ for kind in kinds if kind is not type(None))
            raise OptionError(f"settings {path}: {name} is {value!r}; it must be of type {wanted}")
        if isinstance(value, str) and "\0" in value:
            raise OptionError(
                f"settings {path}: {name} is {value!r}; names must not contain a null character"
            )
    return settings


def merge_settings(from_file: Mapping[str, Any], flags: Mapping[str, Any]) -> Settings:
    """Settings from a file; flags take precedence, and tables are merged."""
    given = {name: value for name, value in flags.items() if value not in (None, [], {})}
    tables: dict[str, Any] = {x: {**from_file.get(x, {}), **given.get(x, {})} for x in ("param", "opt")}
    return Settings(**{**from_file, **given, **tables})


def parse_values(texts: Sequence[str], flag: str) -> dict[str, Any]:
    """`name=value` as a dictionary; values are numbers, booleans, none or text."""
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise OptionError(f"{flag} {text}: write it as {flag} name=value")
        values[name] = _parse_value(value)
    return values


def parse_explorers(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """`NAME=ALGORITHM option=value ...` as names with options; the name may be omitted."""
    entries: dict[str, dict[str, Any]] = {}
    for text in texts:
        first, *options = text.split() or [""]
        name, equals, algorithm = first.rpartition("=")
        if not algorithm or (equals and not name):
            raise OptionError(
                f"--explorer {text!r}: write it as optimal-design, or 'mine=ucrl-rfe scale=0.5'"
            )
        label = name or text
        if label in entries:
            raise OptionError(
                f"--explorer {text!r}: {label!r} occurs twice; give one another name, as in b={text}"
            )
        entries[label] = {"name": algorithm, **parse_values(options, "--explorer ... option")}
    return entries


def _parse_value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False, "none": None}.get(text.lower(), text)
