"""Problems of the three model classes: `Mixture`, `Tabular` and `LinearMDP`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from jaxtyping import Bool, Int

from horizonfree._validation import (
    check_array,
    check_choice,
    check_floats,
    check_instance,
    check_int,
    check_square,
    require,
    short_repr,
)
from horizonfree.errors import FeatureError, HorizonfreeError, KernelError, OptionError, ShapeError
from horizonfree.mdp.names import STATE_BEFORE_START, numbers_of, start_of, with_names
from horizonfree.mdp.policies import action_aliases, is_allowed
from horizonfree.mdp.space import MAX_HORIZON, TOLERANCE, Kernel, Space, check_kernel, start_distribution
from horizonfree.models.base import Model
from horizonfree.models.linear.model import LinearModel, linear_model, measures_of
from horizonfree.models.mixture import features
from horizonfree.models.mixture.model import MixtureModel, mixture_model
from horizonfree.models.mixture.valid import norm_bound
from horizonfree.models.tabular.model import TabularModel, tabular_model, unknown_pairs
from horizonfree.problems import noise
from horizonfree.problems.endings import ENDED, UNDECLARED, layout_with_copies, with_copies
from horizonfree.problems.problem import Problem
from horizonfree.problems.sampling import KEYS as SAMPLING_KEYS

MAX_SIZE = 2**31 - 1  # states or actions
UNKNOWN = "unknown"  # start or terminal states


class Mixture(Problem):
    """A problem whose transition probabilities are an unknown mixture of models that you have.

    Arguments of all constructors: start, a state (by number, name or cell) or a distribution from which the first state
    is drawn; states, actions, their names; actions_allowed, which actions a state allows, [S, A] or a function (s, a)
    -> bool, where it does not allow all. Transitions of forbidden actions are ignored.
    """

    model: MixtureModel

    @classmethod
    def from_kernels(
        cls,
        kernels: Any,
        *,
        horizon: int,
        start: Any = 0,
        weights: Any = None,
        hull: bool = True,
        states: Any = None,
        actions: Any = None,
        actions_allowed: Any = None,
        name: str = "mixture",
        layout: Mapping[str, Any] | None = None,
    ) -> Self:
        """A convex mixture of d known kernels: P = sum_i w_i P_i, w in the simplex.

        kernels: array [d, S, A, S], or a sequence of d tables, each [S, A, S] or a SciPy sparse matrix [S*A, S]
        with row s*A + a; or a dictionary {name: table}, which also names the weights. weights: the truth w, optional.
        hull: False where weights may be negative, as long as P is a kernel. phi_i = P_i / sqrt(d) and B = sqrt(d).

        >>> import numpy as np, horizonfree as hf
        >>> left, right = np.zeros((2, 3, 1, 3))
        >>> left[[0, 1, 2], 0, [0, 0, 1]] = right[[0, 1, 2], 0, [1, 2, 2]] = 1
        >>> shop = {"left": left, "right": right}
        >>> hf.Mixture.from_kernels(shop, horizon=4, weights=[0.2, 0.8]).model.num_unknown
        1
        """
        names, kernels = _split_names(kernels)
        succ, phi, is_dense = features.from_kernels(kernels, actions_allowed)
        d = phi.shape[-1]
        for i in range(d):
            which = i if names is None else repr(names[i])
            check_kernel(Kernel(succ, phi[..., i], is_dense), f"base kernel {which}")
        packed = succ, features.normalize_rows(phi), is_dense
        require(isinstance(hull, bool), "hull", hull, "True or False")
        bound = 1.0 if hull else _longest_weights(packed)
        first = start_of(with_names(layout, states), start, len(succ))
        space: dict[str, Any] = {"horizon": horizon, "start": first, "allowed": actions_allowed}
        model = mixture_model(packed, **space, bound=bound, hull=hull)
        if weights is not None:
            weights = features.vector(weights, d, "weights")
            if (hull and (weights < -TOLERANCE).any()) or abs(weights.sum() - 1) > TOLERANCE:
                i = int(weights.argmin())
                raise KernelError(
                    f"weights sum to {weights.sum():.10g} and the smallest, weights[{i}], is {weights[i]:.6g}; "
                    f"they must {'be >= 0 and ' if hull else ''}sum to 1"
                )
        return cls._from_theta(model, weights, name, layout, states=states, actions=actions, weights=names)

    @classmethod
    def from_noise(
        cls,
        step: Any,
        outcomes: Any,
        *,
        horizon: int,
        models: Any = None,
        num_states: int | None = None,
        num_actions: int | None = None,
        start: Any = 0,
        weights: Any = None,
        name: str = "noise",
        layout: Mapping[str, Any] | None = None,
        states: Any = None,
        actions: Any = None,
        actions_allowed: Any = None,
    ) -> Self:
        """s' = f(s, a, w) with noise w: the effect of each outcome w is known, its probability is not.

        step: a function (s, a, outcome) -> s', with num_states and num_actions; or an array [S, A, n] of next states.
        outcomes: n values, in a list, or in a dictionary by name. models: distributions on the outcomes, each [n], in a
        list or a dictionary; the noise is a mixture of them. Without models the noise may have any distribution on the
        outcomes. weights: the truth, optional, one for each model or outcome. The noise is drawn anew at every step.

        >>> import horizonfree as hf
        >>> shop = hf.Mixture.from_noise(
        ...     lambda stock, order, demand: max(min(stock + order, 5) - demand, 0), [0, 1, 2],
        ...     num_states=6, num_actions=3, horizon=10, weights=[0.2, 0.5, 0.3])
        >>> shop.model.num_unknown
        2
        """
        parsed = noise.noise_of(step, outcomes, models, num_states, num_actions, actions_allowed)
        extra: dict[str, Any] = {noise.AFTER: parsed.after, noise.OUTCOMES: parsed.outcomes}
        names = parsed.outcomes
        if models is not None:
            names = parsed.law_names
            extra |= {noise.LAWS: parsed.laws, noise.MODELS: names}
        problem = cls.from_kernels(
            dict(zip(names, parsed.kernels())),
            horizon=horizon,
            start=start,
            weights=weights,
            states=states,
            actions=actions,
            actions_allowed=actions_allowed,
            name=name,
            layout=layout,
        )
        return problem._replace(layout={**problem.layout, **extra})

    @classmethod
    def from_features(
        cls,
        phi: Any,
        *,
        horizon: int,
        start: Any = 0,
        bound: float,
        theta: Any = None,
        shape: tuple[int, int, int] | None = None,
        states: Any = None,
        actions: Any = None,
        actions_allowed: Any = None,
        name: str = "mixture",
        layout: Mapping[str, Any] | None = None,
    ) -> Self:
        """P(s'|s,a) = <phi(s'|s,a), theta>: features phi, and a bound B on the norm of theta.

        phi: array [S, A, S, d], a SciPy sparse array of that shape, or coordinates (s, a, s', i, value) as five
        arrays of one length. Sparse input never becomes a dense tensor. theta: the truth, optional. shape: (S, A, d)
        for coordinates; by default their largest entries plus one. It is an error if row
        sums differ by 1e-11 to 1e-3 of their size, or if features are lost in rounding (below 1e-100 they are zero).
        """
        packed = features.from_features(phi, shape, actions_allowed)
        first = start_of(with_names(layout, states), start, len(packed[0]))
        space: dict[str, Any] = {"horizon": horizon, "start": first, "allowed": actions_allowed}
        model = mixture_model(packed, **space, bound=bound)
        if theta is not None:
            theta = features.vector(theta, model.dim, "theta")
            with np.errstate(over="ignore"):
                norm = float(np.linalg.norm(theta))
            if norm > bound * (1 + TOLERANCE):
                raise FeatureError(
                    f"||theta||_2 is {norm:.6g}, above bound={bound:.6g}; raise the bound, or check theta"
                )
        return cls._from_theta(model, theta, name, layout, states=states, actions=actions)

    @classmethod
    def from_tabular(
        cls,
        P: Any,
        *,
        horizon: int,
        start: Any = 0,
        support: Any = None,
        states: Any = None,
        actions: Any = None,
        actions_allowed: Any = None,
        name: str = "tabular",
        layout: Mapping[str, Any] | None = None,
    ) -> Self:
        """A tabular MDP as a mixture: one coordinate per possible transition, theta = sqrt(n) P.

        P: the true table [S, A, S], or None with support given when only the support is known. support
        [S, A, S] says which transitions are possible at all; the default is every one of them (d = S*A*S), so
        give it when you know it. B = sqrt(n * S * A), from ||P||_F <= sqrt(S * A).
        """
        succ, phi, is_dense, theta = features.from_tabular(P, support, actions_allowed)
        S, A, _ = succ.shape
        packed = succ, phi, is_dense
        first = start_of(with_names(layout, states), start, S)
        space: dict[str, Any] = {"horizon": horizon, "start": first, "allowed": actions_allowed}
        model = mixture_model(packed, **space, bound=float(np.sqrt(S * A)))
        return cls._from_theta(model, theta, name, layout, states=states, actions=actions)

    @classmethod
    def _from_theta(cls, model: MixtureModel, theta: Any, name: Any, layout: Any, **names: Any) -> Self:
        """theta as it was given; `truth` is the parameter of the normalised features."""
        truth = None if theta is None else model.parameter(theta, "the given truth")
        return cls._from_model(model, truth, name, layout, **names)


class Tabular(Problem):
    """A tabular MDP whose transition probabilities are entirely unknown.

    `Tabular(num_states, num_actions, horizon)` is for a real environment, `Tabular.from_table` simulates a table.

    start: a state, or a known distribution from which the first state is drawn; for an environment also "unknown": then
        a state is added, numbered last, in which every action leads to the first state, in a step before the others.
    support: which transitions are possible, [S, A, S]; by default all.
    terminal: states in which every episode ends; they are known to lead to themselves. In any other state an episode
        ends always or never. "unknown", for an environment: every state may end some episodes and not others. Then
        each state s has a copy, s + num_states, for episodes that have ended in s.
    states, actions: their names. actions_allowed: as for `Mixture`; nothing has to be learnt about forbidden actions.

    >>> import horizonfree as hf
    >>> hf.Tabular(4, 2, horizon=10).model.num_unknown
    8
    """

    model: TabularModel

    def __init__(
        self,
        num_states: Any,
        num_actions: Any,
        horizon: Any,
        start: Any = 0,
        support: Any = None,
        terminal: Any = (),
        *,
        states: Any = None,
        actions: Any = None,
        actions_allowed: Any = None,
        name: str = "tabular",
        layout: Mapping[str, Any] | None = None,
    ) -> None:
        meaning = "a whole number of at least 1"
        S = check_int(num_states, "num_states", 1, MAX_SIZE, meaning, ShapeError)
        A = check_int(num_actions, "num_actions", 1, MAX_SIZE, meaning, ShapeError)
        may_end_anywhere = isinstance(terminal, str) and terminal == UNKNOWN
        ended = S + np.arange(S) if may_end_anywhere else _terminal(terminal, S, layout, states)
        possible, is_known = _possible(S, A, "any" if support is None else support, None, ended)
        acts = action_aliases(actions_allowed, S, A)
        start = start_of(with_names(layout, states), start, S, UNKNOWN)
        has_unknown_start = isinstance(start, str)
        if may_end_anywhere:
            layout, states = layout_with_copies(layout, states, ended)
            acts = None if acts is None else np.concatenate([acts, acts])
            if start is not None and not has_unknown_start:
                start = np.append(start_distribution(start, S), np.zeros(S))
        if has_unknown_start:
            if isinstance(states, (list, tuple)):
                states = [*states, STATE_BEFORE_START]
            possible, start, horizon = _with_unknown_start(possible, horizon)
            acts = None if acts is None else np.concatenate([acts, np.arange(A, dtype=np.int32)[None]])
        model = tabular_model(possible, horizon=horizon, start=start, is_support_known=is_known, acts=acts)
        problem = Problem._from_model(model, None, name, layout, states=states, actions=actions)
        super().__init__(model, None, name, None, {**problem.layout, **_ended_layout(ended)})

    @classmethod
    def from_table(
        cls,
        P: Any,
        *,
        horizon: int,
        start: Any = 0,
        support: Any = "any",
        terminal: Any = (),
        states: Any = None,
        actions: Any = None,
        actions_allowed: Any = None,
        name: str = "tabular",
        layout: Mapping[str, Any] | None = None,
    ) -> Self:
        """A problem that simulates the table P [S, A, S], which the learner does not know.

        support: "any" (every state may follow every state-action pair), "given" (it is known which entries of P are
        positive), or an array [S, A, S] of the transitions that are known to be possible.

        >>> import numpy as np, horizonfree as hf
        >>> P = np.full((3, 2, 3), 1 / 3)
        >>> run = hf.explore(hf.Tabular.from_table(P, horizon=5), episodes=10, progress=False)
        >>> run.visits.sum()
        np.int64(50)
        """
        table = check_floats(P, "P")
        check_square(table, "P")
        S, A, _ = table.shape
        ended = _terminal(terminal, S, layout, states)
        possible, is_known = _possible(S, A, support, table > 0, ended)
        acts, start = action_aliases(actions_allowed, S, A), start_of(with_names(layout, states), start, S)
        model = tabular_model(possible, horizon=horizon, start=start, is_support_known=is_known, acts=acts)
        truth = model.parameter(table, "P")
        problem = cls._from_model(model, truth, name, layout, states=states, actions=actions)
        return problem._replace(layout={**problem.layout, **_ended_layout(ended)})

    @classmethod
    def from_problem(cls, problem: Problem, support: str = "any") -> Self:
        """The system of a problem, as `problem.as_tabular()`.

        support: "any", nothing is known but the states that can never be left, as terminal states; "given",
        transitions that the problem calls impossible are known to be impossible.
        """
        check_instance(problem, Problem, "the problem")
        check_choice(support, "support", ("any", "given"))
        if problem.sampling is not None and problem.sampling.everywhere:
            raise OptionError(
                "these kernels were estimated from samples, which do not show what is impossible or which states are "
                "terminal; describe the table itself: hf.Tabular(num_states, num_actions, horizon, start)"
            )
        space, truth = problem.space, None if problem.truth is None else problem.kernel()
        table: Any = None
        if support == "given":
            model = TabularModel(space, unknown_pairs(space), True)
            if truth is not None:
                prob = np.maximum(np.asarray(truth.prob), 0.0)
                table = prob / prob.sum(-1, keepdims=True)
        else:
            ended = _terminal(_absorbing_states(space), space.num_states)
            possible, _ = _possible(space.num_states, space.num_actions, "any", None, ended)
            start = space.start if space.initial is None else space.initial
            acts = None if space.acts is None else np.asarray(space.acts)
            settings: dict[str, Any] = {"horizon": space.horizon, "start": start, "acts": acts}
            model = tabular_model(possible, is_support_known=False, **settings)
            model = replace(model, space=replace(model.space, state_ids=space.state_ids))
            if truth is not None:
                table = model.parameter(np.maximum(truth.dense(), 0.0), "the truth")
        layout = {key: x for key, x in problem.layout.items() if key not in ("weights", *SAMPLING_KEYS)}
        return cls._from_model(model, table, problem.name, layout)


class LinearMDP(Problem):
    """A linear MDP: features of states and actions are known, the measures of the features are not."""

    model: LinearModel

    @classmethod
    def from_features(
        cls,
        phi: Any,
        *,
        horizon: int,
        start: Any = 0,
        mu: Any = None,
        states: Any = None,
        actions: Any = None,
        actions_allowed: Any = None,
        name: str = "linear",
        layout: Mapping[str, Any] | None = None,
    ) -> Self:
        """P(s'|s,a) = <phi(s,a), mu(s')>: phi [S, A, d] is known, mu [d, S] is the truth, optional.

        Features must be linearly independent, and some combination of them must be 1 for every state-action pair;
        otherwise no mu makes probabilities sum to one. They may have any scale: they are divided by their largest norm,
        and mu is multiplied by it. start, states, actions, actions_allowed: as for `Mixture`.

        >>> import numpy as np, horizonfree as hf
        >>> phi = np.random.default_rng(0).dirichlet(np.ones(3), size=(10, 2))
        >>> hf.LinearMDP.from_features(phi, horizon=5).model.dim
        3
        """
        size = np.shape(phi)[0] if isinstance(phi, np.ndarray) and phi.ndim else 0
        size = len(phi) if isinstance(phi, (list, tuple)) else size  # phi is checked later
        first = start_of(with_names(layout, states), start, size)
        model = linear_model(phi, horizon=horizon, start=first, allowed=actions_allowed)
        truth = None if mu is None else model.parameter(mu, "mu")
        return cls._from_model(model, truth, name, layout, states=states, actions=actions)

    @classmethod
    def from_problem(cls, problem: Problem, phi: Any = None) -> Self:
        """The system of a problem, as `problem.as_linear()`.

        phi: features [S, A, d]; by default one feature for each allowed state-action pair, which is 1 there.
        """
        check_instance(problem, Problem, "the problem")
        space, (_, S, A) = problem.space, problem.space.sizes
        allowed = is_allowed(space)
        if phi is None:
            phi = np.zeros((S, A, int(allowed.sum())))
            phi[allowed] = np.eye(phi.shape[-1])
        start = space.start if space.initial is None else space.initial
        model = linear_model(phi, horizon=space.horizon, start=start, allowed=allowed)
        model = replace(model, space=replace(model.space, state_ids=space.state_ids))
        truth = None
        if problem.truth is not None:
            table = np.maximum(problem.kernel().dense(), 0.0)
            truth = measures_of(model.phi, table / table.sum(-1, keepdims=True))
        layout = {key: x for key, x in problem.layout.items() if key not in ("weights", *SAMPLING_KEYS)}
        return cls._from_model(model, truth, problem.name, layout)


def problem_of_model(model: Model, truth: Any = None, name: str = "problem", layout: Any = None) -> Problem:
    """A problem of the class that belongs to a model."""
    kinds: dict[type, type[Problem]] = {MixtureModel: Mixture, TabularModel: Tabular, LinearModel: LinearMDP}
    kind = kinds.get(type(model), Problem)
    return kind._from_fields(
        model=model, truth=truth, name=name, recipe=None, layout={} if layout is None else layout
    )


def _longest_weights(packed: features.Packed) -> float:
    """The largest norm of weights of any sign."""
    bound = norm_bound(packed[1])
    if not np.isfinite(bound):
        raise KernelError(
            "hull is False, but some kernel is a combination of the others, so that weights can be of any size; leave "
            "that kernel out, or keep hull=True"
        )
    return bound


def _split_names(kernels: Any) -> tuple[list[str] | None, Any]:
    """The names of the kernels, None where they have none, and the kernels."""
    if not isinstance(kernels, Mapping):
        return None, kernels
    require(kernels, "kernels", kernels, "a dictionary of at least one kernel, {name: kernel}", KernelError)
    for name in kernels:
        require(isinstance(name, str), "the name of a kernel", name, "text", KernelError)
    return list(kernels), list(kernels.values())


def _absorbing_states(space: Space) -> np.ndarray:
    """States that lead to themselves only."""
    succ, support = np.asarray(space.succ), np.asarray(space.support)
    state = np.arange(len(succ))[:, None, None]
    return np.flatnonzero(((succ == state) | ~support).all(axis=(1, 2)))


def _possible(
    S: int,
    A: int,
    support: Any,
    positive: Bool[np.ndarray, "S A S"] | None,
    ended: Int[np.ndarray, " S"],
) -> tuple[Bool[np.ndarray, "S1 A S1"], bool]:
    """Which transitions may happen, with the copies of states, and whether that was declared."""
    if isinstance(support, str):
        is_choice = support == "any" or (support == "given" and positive is not None)
        hint = "" if positive is None else ", 'given'"
        require(is_choice, "support", support, f"'any'{hint} or an array [S, A, S]")
        is_known = support == "given"
        possible = positive.copy() if is_known and positive is not None else np.ones((S, A, S), bool)
    else:
        possible = check_array(support, "support", (S, A, S), "[S, A, S]").astype(bool)
        is_known = True
    return with_copies(possible, ended), is_known


def _with_unknown_start(
    possible: Bool[np.ndarray, "S A S"], horizon: Any
) -> tuple[Bool[np.ndarray, "S1 A S1"], int, int]:
    """One more state, which any other may follow and none leads to; its number, and one more step."""
    meaning = f"a number of steps, 1 to {MAX_HORIZON - 1:,}"
    steps = check_int(horizon, "horizon", 1, MAX_HORIZON - 1, meaning, ShapeError)
    S = len(possible)
    wider = np.pad(possible, ((0, 1), (0, 0), (0, 1)))
    wider[S, :, :S] = True
    return wider, S, steps + 1


def _terminal(terminal: Any, S: int, layout: Any = None, states: Any = None) -> Int[np.ndarray, " S"]:
    """The array `ended` (endings.py) for these terminal states."""
    ended = np.full(S, UNDECLARED)
    if (isinstance(terminal, (list, tuple)) and not terminal) or getattr(terminal, "size", 1) == 0:
        return ended
    try:
        states_given = list(terminal) if isinstance(terminal, tuple) else terminal
        numbers = numbers_of(with_names(layout, states), states_given, S)
    except HorizonfreeError as error:
        what = f"a list of states, or {UNKNOWN!r}: {error}"
        kind = OptionError if isinstance(terminal, str) else ShapeError
        raise kind(f"terminal is {short_repr(terminal)}; it must be {what}") from None
    ended[numbers] = numbers
    return ended


def _ended_layout(ended: Int[np.ndarray, " S"]) -> dict[str, Any]:
    """The entry of the layout, where something was declared."""
    return {} if (ended == UNDECLARED).all() else {ENDED: ended}
