"""Problems whose dynamics are an unknown mixture of known models, from kernels, features, noise, or a table."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from horizonfree._arrays import leaf
from horizonfree._validation import short_repr
from horizonfree.errors import FeatureError, KernelError, OptionError
from horizonfree.mdp.space import TOLERANCE, Kernel, check_kernel
from horizonfree.models.mixture import features, row_sums
from horizonfree.models.mixture.model import MixtureModel, mixture_model
from horizonfree.models.mixture.valid import longest
from horizonfree.problems import noise
from horizonfree.problems.problem import Problem, described


class Mixture:
    """Ways to build a problem of this class.

    start: a state, or a distribution from which the first state is drawn. states, actions: their names, which plans,
    reports and the command line then speak of. actions_allowed: which actions a state allows, [S, A] or a function
    (s, a) -> bool, where it does not allow all; what is given of others is not looked at.
    """

    @staticmethod
    def from_kernels(
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
    ) -> Problem:
        """A convex mixture of d known kernels: P = sum_i w_i P_i, w in the simplex.

        kernels: array [d, S, A, S], or a sequence of d tables, each [S, A, S] or a SciPy sparse matrix [S*A, S]
        with row s*A + a; or a dictionary {name: table}, whose names the weights then have. weights: the truth w,
        optional. phi_i = P_i / sqrt(d) and B = sqrt(d). hull: False where weights may be negative, as long as P is a
        kernel.
        """
        called, kernels = _named(kernels)
        succ, phi, is_dense = features.from_kernels(kernels, actions_allowed)
        d = phi.shape[-1]
        for i in range(d):
            which = i if called is None else repr(called[i])
            check_kernel(Kernel(leaf(succ), leaf(phi[..., i]), is_dense), f"base kernel {which}")
        packed = succ, row_sums.divided(phi), is_dense
        if not isinstance(hull, bool):
            raise OptionError(f"hull is {short_repr(hull)}; it must be True or False")
        bound = 1.0 if hull else _longest(packed)
        where: dict[str, Any] = {"horizon": horizon, "start": start, "allowed": actions_allowed}
        model = mixture_model(packed, **where, bound=bound, hull=hull)
        if weights is not None:
            weights = features.vector(weights, d, "weights")
            if (hull and (weights < -TOLERANCE).any()) or abs(weights.sum() - 1) > TOLERANCE:
                i = int(weights.argmin())
                raise KernelError(
                    f"weights sum to {weights.sum():.10g} and the smallest, weights[{i}], is {weights[i]:.6g}; "
                    f"they must {'be >= 0 and ' if hull else ''}sum to 1"
                )
        return _problem(model, weights, name, layout, states=states, actions=actions, weights=called)

    @staticmethod
    def from_noise(
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
    ) -> Problem:
        """s' = f(s, a, noise): what each outcome of the noise does is known, how often it comes is not.

        step: a function (s, a, outcome) -> s', with num_states and num_actions; or an array [S, A, n] of next states.
        outcomes: n values, in a list, or a dictionary from names. models: laws on the outcomes, each [n], in a list or
        a dictionary from names; the noise is a mixture of them. Without, it may have any law on the outcomes.
        weights: the truth, optional: of the models, or of the outcomes. The noise is drawn anew at every step.
        states, actions: their names, optional.
        """
        found = noise.noise_of(step, outcomes, models, num_states, num_actions, actions_allowed)
        told: dict[str, Any] = {noise.AFTER: found.after, noise.OUTCOMES: found.outcomes}
        if models is not None:
            told |= {noise.LAWS: found.laws, noise.MODELS: found.law_names}
        settings: dict[str, Any] = {"horizon": horizon, "start": start, "weights": weights, "name": name}
        settings |= {"layout": layout, "states": states, "actions": actions}
        settings["actions_allowed"] = actions_allowed
        called = found.outcomes if models is None else found.law_names
        problem = Mixture.from_kernels(dict(zip(called, found.kernels())), **settings)
        return replace(problem, layout={**problem.layout, **told})

    @staticmethod
    def from_features(
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
    ) -> Problem:
        """Any features phi with a bound B on the norm of the parameter; theta: the truth, optional.

        phi: array [S, A, S, d], a SciPy sparse array of that shape, or coordinates (s, a, s', i, value) as five
        arrays of one length. Sparse input never becomes a dense tensor. shape: (S, A, d) of coordinates, where their
        largest entries do not tell.
        """
        where: dict[str, Any] = {"horizon": horizon, "start": start, "allowed": actions_allowed}
        model = mixture_model(features.from_features(phi, shape, actions_allowed), **where, bound=bound)
        if theta is not None:
            theta = features.vector(theta, model.dim, "theta")
            with np.errstate(over="ignore"):
                norm = float(np.linalg.norm(theta))
            if norm > bound * (1 + TOLERANCE):
                raise FeatureError(
                    f"||theta||_2 is {norm:.6g}, above bound={bound:.6g}; raise the bound, or check theta"
                )
        return _problem(model, theta, name, layout, states=states, actions=actions)

    @staticmethod
    def from_tabular(
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
    ) -> Problem:
        """A tabular MDP as a mixture: one coordinate per possible transition, theta = sqrt(n) P.

        P: the true table [S, A, S], or None with support given when only the support is known. support
        [S, A, S] says which transitions are possible at all; the default is every one of them (d = S*A*S), so
        give it when you know it. B = sqrt(n * S * A), from ||P||_F <= sqrt(S * A).
        """
        succ, phi, is_dense, theta = features.from_tabular(P, support, actions_allowed)
        S, A, _ = succ.shape
        packed = succ, phi, is_dense
        where: dict[str, Any] = {"horizon": horizon, "start": start, "allowed": actions_allowed}
        model = mixture_model(packed, **where, bound=float(np.sqrt(S * A)))
        return _problem(model, theta, name, layout, states=states, actions=actions)


def _longest(packed: features.Packed) -> float:
    """How long weights of any sign can be; refuses kernels that leave it open."""
    bound = longest(packed[1])
    if not np.isfinite(bound):
        raise KernelError(
            "hull is False, but some kernel is a combination of the others, so that weights can be of any size; leave "
            "that kernel out, or keep hull=True"
        )
    return bound


def _named(kernels: Any) -> tuple[list[str] | None, Any]:
    """The names of the kernels where they have some, and the kernels."""
    if not isinstance(kernels, Mapping):
        return None, kernels
    if not kernels:
        raise KernelError("the dictionary of kernels is empty; give at least one, {name: kernel}")
    odd = next((name for name in kernels if not isinstance(name, str)), None)
    if odd is not None:
        raise KernelError(f"kernel {short_repr(odd)} has no name; the keys of kernels must be text")
    return list(kernels), list(kernels.values())


def _problem(model: MixtureModel, theta: Any, name: Any, layout: Any, **given: Any) -> Problem:
    """Theta in the units it was given in; stored in the units of the normalised features."""
    truth = None if theta is None else model.parameter(theta, "the given truth")
    return described(model, truth, name, layout, **given)
