"""PRISM and JANI models with unknown constants, through stormpy (extra `storm`).

A model whose probabilities are polynomials in the unknown constants is a linear mixture MDP (affine.py). Others are a
mixture of kernels, one for each combination of declared values of the constants, or a tabular MDP of which the
possible transitions are known.
"""

import itertools
import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import scipy  # its submodules load at first use

from horizonfree._extras import needs_extra
from horizonfree._validation import check_size, reading, require, short_repr, suggestion
from horizonfree.errors import FeatureError, KernelError, OptionError, UnknownNameError
from horizonfree.models.mixture import features
from horizonfree.models.mixture.valid import norm_bound
from horizonfree.problems.classes import Mixture
from horizonfree.problems.problem import Problem
from horizonfree.problems.verification.affine import (
    ONE,
    ZERO,
    Polynomial,
    basis,
    evaluate_function,
    evaluate_polynomial,
    name_of,
    polynomial,
)
from horizonfree.problems.verification.explicit import (
    MAX_MODEL_SIZE,
    check_path,
    layout_of,
    numbered_actions,
    start_of,
)

KINDS = ("mixture", "table")
MAX_FEATURES, MAX_KERNELS = 64, 64
STORM_LABELS = ("init", "deadlock")  # added by Storm, not by the model
BOUND_MARGIN = 1 + 1e-9  # for the rounding of the norm bound


def from_prism(
    path: Any,
    *,
    horizon: int,
    unknown: Any = (),
    constants: Mapping[str, Any] | None = None,
    kind: str = "mixture",
    name: str | None = None,
) -> Problem:
    """A PRISM or JANI model (by its ending, .jani) with unknown constants as a problem; needs the extra `storm`.

    unknown: names of constants that the learner does not know, in a list; or a dictionary from names to lists of the
    values that they may have, for models that are no polynomials in them. constants: values of the other constants. A
    value of an unknown constant is the hidden truth, with which the problem simulates itself; so is a value that the
    model gives it.
    kind: "mixture"; or "table", which only knows what transitions are possible.

    Labels are names of sets of states (`goal`, `reach`), rewards are `problem.reward(name)` and R{"name"} of a
    property, actions and states have the names of the model. Rewards that depend on unknown constants are left out.

    >>> import pathlib, tempfile, horizonfree as hf
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model.prism")
    >>> text = '''mdp
    ... const double p;
    ... module m
    ...   s : [0..1] init 0;
    ...   [try] s=0 -> p : (s'=1) + 1-p : (s'=0);
    ...   [stay] true -> true;
    ... endmodule
    ... label "goal" = s=1;
    ... '''
    >>> _ = path.write_text(text)
    >>> problem = hf.from_prism(path, unknown=["p"], horizon=5)
    >>> problem.num_states, problem.labels
    (2, {'goal': [1]})
    """
    require(isinstance(kind, str) and kind in KINDS, "kind", kind, "'mixture' or 'table'")
    declared = _declared_values(unknown)
    file = check_path(path)
    sparse_model = _build(file, list(declared), dict(constants or {}))
    shared = {
        "horizon": horizon,
        "start": start_of(sparse_model.initial),
        "states": sparse_model.states,
        "actions": sparse_model.actions,
        "actions_allowed": sparse_model.allowed,
        "name": file.stem if name is None else name,
        "layout": layout_of(sparse_model.labels, sparse_model.rewards),
    }
    if kind == "table":
        return _table(sparse_model, shared)
    values = {key: x for key, x in declared.items() if x is not None}
    if values:
        return _mixture_of_values(sparse_model, values, list(declared), shared)
    return _mixture_of_polynomials(sparse_model, shared)


@dataclass(frozen=True, eq=False)
class Built:
    """A parametric model of Storm as lists: each transition has its state, action, next state and rational function."""

    s: np.ndarray
    a: np.ndarray
    to: np.ndarray
    functions: list[Any]
    initial: np.ndarray
    allowed: np.ndarray
    actions: list[str]
    states: list[str] | None
    labels: dict[str, np.ndarray]
    rewards: dict[str, np.ndarray]
    truth: dict[str, Fraction] | None


def _mixture_of_polynomials(sparse_model: Built, shared: dict[str, Any]) -> Problem:
    """A mixture whose features are the coefficients of monomials."""
    cache: dict[str, Any] = {}
    result = []
    for function in sparse_model.functions:
        text = str(function)
        if text not in cache:
            cache[text] = polynomial(function)
        if cache[text] is None:
            raise FeatureError(
                f"the probability {text} is no polynomial in the unknown constants; declare values that they may have, "
                "unknown={'p': [0.1, 0.2]}, or take kind='table'"
            )
        result.append(cache[text])
    _check_sums(sparse_model, result)
    span = basis(result)
    what = f"the probabilities are of {len(span)} independent polynomials in the unknown constants"
    check_size(len(span), MAX_FEATURES, what, "take kind='table', or fewer unknown constants", FeatureError)
    rows = [
        (s, a, successors, i, float(part[monomial]))
        for s, a, successors, part in zip(sparse_model.s, sparse_model.a, sparse_model.to, result)
        for i, monomial in enumerate(span)
        if monomial in part
    ]
    s, a, successors, i, c = (np.array(column) for column in zip(*rows))
    S, A = sparse_model.allowed.shape
    shape = (S, A, len(span))
    bound = (
        norm_bound(features.from_features((s, a, successors, i, c), shape, sparse_model.allowed)[1])
        * BOUND_MARGIN
    )
    if not np.isfinite(bound):
        raise FeatureError(
            "the probabilities leave some unknown constant without limits, so that it cannot be learnt; fix it"
        )
    truth = (
        None
        if sparse_model.truth is None
        else [float(evaluate_polynomial(f, sparse_model.truth)) for f in span.values()]
    )
    shared["layout"] |= {"weights": [name_of(f) for f in span.values()]}
    return Mixture.from_features((s, a, successors, i, c), bound=bound, theta=truth, shape=shape, **shared)


def _check_sums(sparse_model: Built, polynomials: list[Polynomial]) -> None:
    """The probabilities of each choice sum to 1 for all values of the constants."""
    sums: dict[tuple[int, int], Polynomial] = {}
    for s, a, part in zip(sparse_model.s.tolist(), sparse_model.a.tolist(), polynomials):
        total = sums.setdefault((s, a), {})
        for key, c in part.items():
            total[key] = total.get(key, ZERO) + c
    for (s, a), total in sums.items():
        if {key: c for key, c in total.items() if c} != {ONE: 1}:
            raise KernelError(
                f"the probabilities of action {sparse_model.actions[a]!r} in state {s} sum to "
                f"{name_of({key: c for key, c in total.items() if c})}; that must be 1 for all values of the constants"
            )


def _mixture_of_values(
    sparse_model: Built, values: dict[str, list[Fraction]], declared: list[str], shared: dict[str, Any]
) -> Problem:
    """A mixture of the kernels of all combinations of declared values."""
    missing = [name for name in declared if name not in values]
    if missing:
        raise OptionError(
            f"unknown={{...}} has values for {', '.join(values)} and none for {', '.join(missing)}"
        )
    grid = [dict(zip(values, x)) for x in itertools.product(*values.values())]
    what = f"the declared values have {len(grid)} combinations"
    check_size(len(grid), MAX_KERNELS, what, "declare fewer values")
    kernels = {", ".join(f"{k}={float(x):g}" for k, x in point.items()): point for point in grid}
    weights = None
    if sparse_model.truth is not None:
        if sparse_model.truth not in grid:
            raise OptionError(
                f"the truth {_floats(sparse_model.truth)} is none of the declared values; add it, or leave it out"
            )
        weights = [float(point == sparse_model.truth) for point in kernels.values()]
    return Mixture.from_kernels(
        {key: _kernel(sparse_model, x) for key, x in kernels.items()}, weights=weights, **shared
    )


def _table(sparse_model: Built, shared: dict[str, Any]) -> Problem:
    """The model's possible transitions, with probabilities only where the truth is given."""
    is_known = sparse_model.truth is not None
    if is_known:
        kernel = _kernel(sparse_model, sparse_model.truth or {})
        if (kernel.data <= 0).any():
            raise KernelError("with these values of the constants a possible transition has probability 0")
    else:
        kernel = _sparse(sparse_model, np.ones(len(sparse_model.s)))
        kernel = scipy.sparse.diags_array(1 / np.maximum(kernel.sum(1), 1)) @ kernel
    problem = Mixture.from_kernels([kernel], weights=[1.0] if is_known else None, **shared)
    return problem.as_tabular(support="given")


def _kernel(sparse_model: Built, values: dict[str, Fraction]) -> Any:
    """The transition probabilities for values of the constants, [S*A, S]."""
    cache: dict[str, float] = {}
    for function in sparse_model.functions:
        text = str(function)
        if text not in cache:
            cache[text] = float(evaluate_function(function, values))
    return _sparse(sparse_model, np.array([cache[str(f)] for f in sparse_model.functions]))


def _sparse(sparse_model: Built, prob: np.ndarray) -> Any:
    S, A = sparse_model.allowed.shape
    return scipy.sparse.coo_array(
        (prob, (sparse_model.s * A + sparse_model.a, sparse_model.to)), shape=(S * A, S)
    ).tocsr()


def _floats(values: Mapping[str, Fraction]) -> dict[str, float]:
    return {name: float(x) for name, x in values.items()}


def _declared_values(unknown: Any) -> dict[str, list[Fraction] | None]:
    """The names of unknown constants, with their values where these are declared."""
    if isinstance(unknown, str):
        unknown = [unknown]
    if isinstance(unknown, Mapping):
        return {
            str(key): None if x is None else [_number(value, key) for value in np.atleast_1d(x).tolist()]
            for key, x in unknown.items()
        }
    try:
        names = list(unknown)
    except TypeError:
        names = [None]
    require(
        all(isinstance(x, str) for x in names) and len(set(names)) == len(names),
        "unknown",
        unknown,
        "a list of names of constants, each once",
    )
    return dict.fromkeys(names)


def _number(value: Any, name: str) -> Fraction:
    """An exact number; a float is the decimal that it is written as."""
    try:
        return Fraction(str(value).strip())
    except (ValueError, ZeroDivisionError):
        raise OptionError(f"constant {name} is {short_repr(value)}; it must be a number") from None


def _build(path: Path, unknown: list[str], constants: dict[str, Any]) -> Built:
    """The model, built by Storm with the unknown constants as parameters."""
    with needs_extra("storm", "PRISM and JANI models"):
        import stormpy
    text, replaced = _without_values(path, unknown)
    model = _parse_model(stormpy, path, text)
    constants_by_name = {c.name: c for c in model.constants}
    for name in (*unknown, *constants):
        if name not in constants_by_name:
            raise UnknownNameError(f"{path} has no constant {name!r}; {suggestion(name, constants_by_name)}")
    fixed = {
        name: float(x) if isinstance(x, int) and str(constants_by_name[name].type) == "rational" else x
        for name, x in constants.items()
        if name not in unknown
    }
    defined = [name for name in fixed if constants_by_name[name].defined]
    if defined:
        raise OptionError(f"constant {defined[0]} has a value in {path}; leave it out of constants=")
    missing = [
        name for name, c in constants_by_name.items() if not (c.defined or name in fixed or name in unknown)
    ]
    if missing:
        raise OptionError(
            f"{path} leaves {', '.join(missing)} open; give constants={{{missing[0]!r}: ...}}, or "
            f"unknown=[{missing[0]!r}]"
        )
    replaced |= {name: _number(x, name) for name, x in constants.items() if name in unknown}
    truth = replaced if set(replaced) == set(unknown) else None
    options = stormpy.BuilderOptions()
    options.set_build_all_labels()
    options.set_build_all_reward_models()
    options.set_build_choice_labels()
    options.set_build_state_valuations()
    try:
        if fixed:
            model, _ = stormpy.io.instantiate_constants(model, fixed)
        sparse = stormpy.build_model[stormpy.RationalFunction](model, options=options)
    except Exception as error:  # Storm has many classes of errors
        raise OptionError(f"Storm cannot build {path}: {_one_line(error)}") from None
    return _to_lists(sparse, path, truth)


def _parse_model(stormpy: Any, path: Path, text: str) -> Any:
    """The symbolic model; Storm reads files only."""
    parse = stormpy.parse_jani_model if path.suffix.lower() == ".jani" else stormpy.parse_prism_program
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / path.name
        file.write_text(text)
        try:
            result = parse(str(file))
        except Exception as error:
            raise OptionError(f"Storm cannot read {path}: {_one_line(error)}") from None
    return result[0] if isinstance(result, tuple) else result


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _without_values(path: Path, unknown: list[str]) -> tuple[str, dict[str, Fraction]]:
    """The text of the model with the values of unknown constants taken out, and these values."""
    with reading(f"model {path}", "text"):
        text = path.read_text()
    constants: dict[str, Fraction] = {}
    if path.suffix.lower() == ".jani":
        with reading(f"model {path}", "a JANI model", ValueError, AttributeError):
            content = json.loads(text)
            for constant in content.get("constants", []):
                if constant.get("name") in unknown and "value" in constant:
                    constants[constant["name"]] = _number(constant.pop("value"), constant["name"])
        return json.dumps(content), constants
    for name in unknown:
        defined = re.compile(rf"\bconst\s+(?:double\s+|rational\s+)?{re.escape(name)}\s*=\s*([^;]+);")
        result = defined.search(text)
        if result is not None:
            constants[name] = _number(result[1], name)
            text = defined.sub(f"const double {name};", text, count=1)
    return text, constants


def _to_lists(model: Any, path: Path, truth: dict[str, Fraction] | None) -> Built:
    """A sparse model of Storm as lists."""
    kind = str(model.model_type).rpartition(".")[2]
    if kind not in ("DTMC", "MDP"):
        raise OptionError(f"{path} is a {kind}; only DTMCs and MDPs are supported")
    S = model.nr_states
    check_size(
        max(S, model.nr_transitions), MAX_MODEL_SIZE, f"{path} has {S:,} states", "take smaller constants"
    )
    first, names = [0], []
    choice, s, successors, functions = [], [], [], []
    for state in model.states:
        for action in state.actions:
            c = first[-1] + action.id
            names.append(_action_name(model, c))
            for transition in action.transitions:
                choice.append(c)
                s.append(state.id)
                successors.append(transition.column)
                functions.append(transition.value)
        first.append(first[-1] + len(state.actions))
    of_choice, actions = numbered_actions(np.array(first), names)
    state_of_choice = np.repeat(np.arange(S), np.diff(first))
    allowed = np.zeros((S, len(actions)), bool)
    allowed[state_of_choice, of_choice] = True
    labels = {
        str(label): _mask(model.labeling.get_states(label), S)
        for label in model.labeling.get_labels()
        if label not in STORM_LABELS
    }
    initial = np.zeros(S, bool)
    initial[list(model.initial_states)] = True
    rewards = _rewards(model, state_of_choice, of_choice, allowed.shape)
    states = _state_names(model)
    arrays = np.array(s), of_choice[np.array(choice)], np.array(successors)
    return Built(*arrays, functions, initial, allowed, actions, states, labels, rewards, truth)


def _mask(bits: Any, S: int) -> np.ndarray:
    result = np.zeros(S, bool)
    result[[int(i) for i in bits]] = True
    return result


def _action_name(model: Any, choice: int) -> str:
    if not model.has_choice_labeling():
        return ""
    return " ".join(sorted(map(str, model.choice_labeling.get_labels_of_choice(choice))))


def _state_names(model: Any) -> list[str] | None:
    """The values of the variables, "x=2 & y=1"; None where they do not tell states apart."""
    if not model.has_state_valuations():
        return None
    result = []
    for s in range(model.nr_states):
        values = model.state_valuations.to_json(s)
        values = values if isinstance(values, Mapping) else json.loads(str(values))
        parts = (f"{key}={str(x).lower() if isinstance(x, bool) else x}" for key, x in values.items())
        result.append(" & ".join(parts))
    return result if len(set(result)) == len(result) and all(result) else None


def _rewards(
    model: Any, state_of_choice: np.ndarray, of_choice: np.ndarray, shape: tuple[int, int]
) -> dict[str, Any]:
    """Rewards [S, A] by name, those that do not depend on unknown constants."""
    result = {}
    for name, reward in model.reward_models.items():
        of_states = _numbers(reward.state_rewards) if reward.has_state_rewards else np.zeros(shape[0])
        of_choices = _numbers(reward.state_action_rewards) if reward.has_state_action_rewards else None
        if reward.has_transition_rewards or np.isnan(of_states).any():
            continue
        payments = of_states[state_of_choice] + (0.0 if of_choices is None else of_choices)
        if np.isfinite(payments).all():
            result[str(name) or "reward"] = np.zeros(shape)
            result[str(name) or "reward"][state_of_choice, of_choice] = payments
    return result


def _numbers(functions: Any) -> np.ndarray:
    """Constant functions as numbers, nan where they depend on something."""
    result = []
    for function in functions:
        c = polynomial(function)
        result.append(float(c.get(ONE, 0)) if c is not None and set(c) <= {ONE} else np.nan)
    return np.array(result)
