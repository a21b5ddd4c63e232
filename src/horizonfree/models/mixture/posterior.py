"""The posterior of the weights of a mixture, sampled by hit-and-run.

    density(theta) ~ prior(theta) prod_r p_r(theta)^N_r,   p_r(theta) = <x_r, theta>,   theta in Theta

is log-concave on the polytope Theta, with a uniform prior or Dirichlet's with concentrations of 1 at least. Weights of
kernels are sampled on the whole simplex, so that directions which no data can show (redundant kernels) keep their
prior. Other features are sampled in the directions Z that can be learnt, with the uniform prior on Theta.

Hit-and-run (Smith 1984; Lovasz and Vempala 2006 for log-concave densities): from a point take a random direction, and
draw a point of the chord through the polytope from the density restricted to it. That is done by slice sampling, whose
interval shrinks from the whole chord (Neal 2003); it leaves any density invariant, log-concave or not. Directions
are uniform after whitening by a Hessian, then twice by the covariance of the warm-up, which is thrown away. Chains run
until split R-hat and the effective sample size say that they have converged (models/draws.py).
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from horizonfree._validation import check_floats, require, require_entries, require_shape
from horizonfree.errors import ModelError, OptionError
from horizonfree.models.draws import MIN_EFFECTIVE_DRAWS, R_HAT, Convergence, Draws, converged
from horizonfree.models.mixture.alternatives import by_kernel, has_weights
from horizonfree.models.mixture.evidence import MixtureEvidence
from horizonfree.models.mixture.likelihood import Coordinates, coordinates, minimize
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.models.mixture.valid import ValidSet, null_space
from horizonfree.native import library

CHAINS = 16
WARM = 3  # rounds of warm-up
STEPS, STEPS_PER_DIRECTION = 100, 30  # of a round
MAX_CHAIN_STEPS = 2**18  # of a chain
THINNING = 4  # in q directions every (1 + q/4)-th step is kept: its neighbours are nearly the same
SHRINKS = 200  # of a chord; then the chain stays
TINY = 1e-300


class Density(NamedTuple):
    """prod_r p_r(y)^exponent_r on {y : p(y) >= 0}, with p affine in y (`coords`)."""

    coords: Coordinates
    exponents: Float[np.ndarray, " R"]
    barrier: Float[np.ndarray, " R"]  # what is added to the exponents to find a point inside


def mixture_draws(
    model: MixtureModel, evidence: MixtureEvidence, prior: Any, count: int, rng: np.random.Generator
) -> Draws:
    """So many parameters [D, d]; prior: None for uniform, or concentrations of Dirichlet's law of the weights."""
    valid, counts = model.valid, np.asarray(evidence.row_counts)
    if has_weights(valid, model.is_hull):
        target, words = _of_weights(valid, counts, prior)
        unit = np.asarray(valid.sums)[0]  # w_i = C_i theta_i
    else:
        target, words, unit = _of_parameters(valid, counts, prior), "uniform on the valid parameters", 1.0
    q = len(target.coords.z)
    if q == 0:
        return Draws(np.tile(target.coords.center / unit, (count, 1)), words)
    y, check = sampled(target, count, rng)
    return Draws((target.coords.center + y @ target.coords.basis.T) / unit, words, check)


def _of_weights(valid: ValidSet, counts: Int[np.ndarray, " R"], prior: Any) -> tuple[Density, str]:
    """On the simplex of weights; its rows are those that were seen, then the weights."""
    c, N = by_kernel(valid), np.asarray(counts)[~np.asarray(valid.virtual)]
    d = c.shape[1]
    alpha, words = _concentrations(prior, d)
    basis, center = null_space(np.ones((1, d))), np.full(d, 1 / d)
    rows = np.vstack([c[N > 0], np.eye(d)])
    exponents = np.r_[N[N > 0], alpha - 1]
    barrier = np.r_[np.zeros(len(rows) - d), np.full(d, 1.0)]
    return Density(Coordinates(basis.T @ rows.T, rows @ center, basis, center), exponents, barrier), words


def _of_parameters(valid: ValidSet, counts: Int[np.ndarray, " R"], prior: Any) -> Density:
    """In the directions that can be learnt, from the centre of Theta."""
    if not (prior is None or (isinstance(prior, str) and prior == "uniform")):
        raise OptionError(
            "prior= is for weights of kernels; parameters of other features have the uniform prior on the valid set: "
            "leave it out"
        )
    coords, free = coordinates(valid), np.asarray(valid.free)
    kept = Coordinates(coords.z[:, free], coords.p_center[free], coords.basis, coords.center)
    exponents = np.asarray(counts)[free].astype(np.float64)
    return Density(kept, exponents, np.ones(int(free.sum())))


def _concentrations(prior: Any, d: int) -> tuple[Float[np.ndarray, " d"], str]:
    """The concentrations of the Dirichlet distribution of the weights, and a text for them."""
    if prior is None or (isinstance(prior, str) and prior == "uniform"):
        return np.ones(d), "uniform on the weights"
    require(not isinstance(prior, str), "prior", prior, "'uniform', a number, or one for each kernel")
    alpha = check_floats(prior, "prior")
    meaning = f"a number, or one for each of {d}"
    require_shape(alpha.shape in ((), (d,)), "prior", alpha.shape, meaning, OptionError)
    is_concentration = np.isfinite(alpha) & (alpha > 0)
    require_entries(is_concentration, "prior", alpha, "concentrations are numbers above 0", OptionError)
    words = f"Dirichlet, {float(alpha):g} for each kernel" if alpha.ndim == 0 else "Dirichlet as given"
    return np.broadcast_to(alpha, (d,)), words


def sampled(
    target: Density, count: int, rng: np.random.Generator, *, max_steps: int = MAX_CHAIN_STEPS
) -> tuple[Float[np.ndarray, "D q"], Convergence]:
    """Points y, worth as many independent ones at least; refuses what has not converged."""
    coords, q = target.coords, len(target.coords.z)
    c = np.maximum(target.exponents, 0.0) + target.barrier
    middle = minimize(coords, c, np.zeros(q))
    p = coords.p(middle)
    root = np.linalg.cholesky(np.linalg.pinv((coords.z * (c / p**2)) @ coords.z.T, hermitian=True)).T
    y = np.tile(middle, (CHAINS, 1))
    steps = STEPS + STEPS_PER_DIRECTION * q
    for _ in range(WARM):
        path = chains(target, root, y, steps, rng)[0]
        y = path[-1]
        root = np.linalg.cholesky(np.cov(path[steps // 2 :].reshape(-1, q), rowvar=False).reshape(q, q)).T
    paths, levels, done, wanted = [], [], 0, max(count, MIN_EFFECTIVE_DRAWS)
    every = 1 + q // THINNING
    while True:
        path, level = chains(target, root, y, steps, rng, every)
        y, done = path[-1], done + steps
        paths.append(path)
        levels.append(level)
        points, checked = np.concatenate(paths), [*paths]
        if target.exponents.any():  # else the density is the same everywhere
            checked = [np.concatenate([x, y[..., None]], axis=2) for x, y in zip(paths, levels)]
        check = converged(np.concatenate(checked))
        if check.r_hat < R_HAT and check.effective >= wanted:
            flat = points.reshape(-1, q)
            return flat[np.linspace(0, len(flat) - 1, count).astype(int)], check
        if done >= max_steps:
            raise ModelError(
                f"the chains of the posterior have not converged: {check.summary()} after {done:,} steps, {wanted:,} "
                f"effective draws with R-hat below {R_HAT} are wanted; ask for fewer draws="
            )
        steps = done  # twice as long in all


def chains(
    target: Density,
    root: Float[np.ndarray, "q q"],
    y: Float[np.ndarray, "C q"],
    steps: int,
    rng: np.random.Generator,
    every: int = 1,
) -> tuple[Float[np.ndarray, "T C q"], Float[np.ndarray, "T C"]]:
    """Steps of hit-and-run of each chain, and the logarithm of the density there; directions are u root, u uniform.

    every: only each so many-th of the steps is kept.
    """
    C, q = y.shape
    matters = np.flatnonzero(target.exponents)
    e = target.exponents[matters]
    kept = steps // every
    path, levels = np.empty((kept, C, q)), np.empty((kept, C))
    for k in range(kept * every):
        u = rng.standard_normal((C, q))
        direction = (u / np.sqrt((u**2).sum(1, keepdims=True))) @ root
        p, dp = np.maximum(target.coords.p_center + y @ target.coords.z, TINY), direction @ target.coords.z
        with np.errstate(divide="ignore"):
            ends = np.maximum(dp / p, 0).max(1), np.maximum(-dp / p, 0).max(1)
        low, high = -1 / ends[0], 1 / ends[1]
        t, level = _on_chord(p[:, matters], dp[:, matters], e, low, high, rng)
        y = y + t[:, None] * direction
        if (k + 1) % every == 0:
            path[k // every], levels[k // every] = y, level
    return path, levels


def _on_chord(
    p: Float[np.ndarray, "C m"],
    dp: Float[np.ndarray, "C m"],
    e: Float[np.ndarray, " m"],
    low: Float[np.ndarray, " C"],
    high: Float[np.ndarray, " C"],
    rng: np.random.Generator,
) -> tuple[Float[np.ndarray, " C"], Float[np.ndarray, " C"]]:
    """One slice-sampling step of t in [low, high] from 0, with density prod (p + t dp)^e; and its logarithm."""
    t, now = np.zeros(len(p)), np.log(p) @ e
    least = now - rng.standard_exponential(len(p))
    low, high = low.copy(), high.copy()
    (_compiled() or shrink)(_Chords(p, dp, e, least, low, high, t, now), rng)
    return t, now


class _Chords(NamedTuple):
    """The arrays of a step of slice sampling; `t` and `now` are replaced where a proposal reaches the level `least`."""

    p: Float[np.ndarray, "C m"]
    dp: Float[np.ndarray, "C m"]
    e: Float[np.ndarray, " m"]
    least: Float[np.ndarray, " C"]
    low: Float[np.ndarray, " C"]
    high: Float[np.ndarray, " C"]
    t: Float[np.ndarray, " C"]
    now: Float[np.ndarray, " C"]


def shrink(x: _Chords, rng: np.random.Generator) -> None:
    """Proposals in intervals that shrink to those that were rejected; native/chord.c is a faster twin."""
    pending = np.arange(len(x.p))
    for _ in range(SHRINKS):
        proposed = rng.uniform(x.low[pending], x.high[pending])
        value = np.log(np.maximum(x.p[pending] + proposed[:, None] * x.dp[pending], TINY)) @ x.e
        is_in = value >= x.least[pending]
        x.t[pending[is_in]], x.now[pending[is_in]] = proposed[is_in], value[is_in]
        out, beyond = pending[~is_in], proposed[~is_in]
        x.low[out] = np.where(beyond < 0, beyond, x.low[out])
        x.high[out] = np.where(beyond < 0, x.high[out], beyond)
        pending = out
        if not len(pending):
            break


class _Lists(ctypes.Structure):
    """`Chords` of native/chord.c."""

    _fields_ = [
        *[(name, ctypes.c_int64) for name in "C m shrinks".split()],
        ("smallest", ctypes.c_double),
        *[(name, ctypes.c_void_p) for name in "p dp e least low high t now pending".split()],
    ]


@cache
def _compiled() -> Callable[[_Chords, np.random.Generator], None] | None:
    """`shrink` in C; None without a compiler."""
    loaded = library.load()
    if loaded is None:
        return None
    function, pointer = loaded[0].horizonfree_chords, ctypes.c_void_p
    function.argtypes, function.restype = [ctypes.POINTER(_Lists), pointer, pointer], None

    def compiled(x: _Chords, rng: np.random.Generator) -> None:
        x = x._replace(p=np.ascontiguousarray(x.p), dp=np.ascontiguousarray(x.dp))
        generator, pending = rng.bit_generator.ctypes, np.empty(len(x.p), np.int64)
        arrays = (array.ctypes.data for array in (*x, pending))
        next_double = ctypes.cast(generator.next_double, pointer)
        with rng.bit_generator.lock:
            function(_Lists(*x.p.shape, SHRINKS, TINY, *arrays), next_double, generator.state_address)

    return compiled
