"""Choices that are made on the host, between two compiled blocks, for single runs on a CPU: those that take long.

A block plays until a choice is due and returns; here loops answer in place of `choose`, and the next block goes on: the
oracle of HF-UCRL-RFE++ (regression/oracle/compiled.py), and for very many states the dynamic programme of `information`
(models/mixture/design_loop.py). Before and after the loops everything is the explorer's own and traced. The numbers are
those of `choose` but for rounding, on which nothing turns that is not within 1e-10 of a tie.
"""

from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Array, Float, UInt32

from horizonfree._programs import program
from horizonfree._x64 import leaf, to_device, to_numpy
from horizonfree.explorers.hf_answer import Answer, State
from horizonfree.explorers.hf_ucrl_rfe import HAT, HFUCRLRFE, TILDE
from horizonfree.explorers.information import Information
from horizonfree.explorers.information import State as Design
from horizonfree.explorers.interface import Explorer
from horizonfree.explorers.loop import Progress, Records, episode_keys, is_due
from horizonfree.models.interface import Model
from horizonfree.models.mixture.design import known_of
from horizonfree.models.mixture.evidence import Evidence
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.models.mixture.valid import ValidSet
from horizonfree.regression.oracle.box import ENUMERATE
from horizonfree.regression.oracle.objective import Factors, factors
from horizonfree.regression.oracle.result import OracleResult

MUCH = 2**21  # products of probabilities and values in a pass; fewer are done before a block begins anew
Choose = Callable[
    [Array, Progress], Progress
]  # (key of the run, so far) -> with the policy of the next episode


Block = Callable[[Progress, int], tuple[Progress, Records]]  # at most so many, until the next choice is due


def in_turn(
    choose: Choose, block: Block, key: Array, progress: Progress, count: int
) -> tuple[Progress, Records]:
    """`count` episodes and their records: a choice on the host, a block that ends where the next is due, and so on."""
    parts, last = [], int(progress.episode) + count
    while (first := int(progress.episode)) < last:
        progress, numbers = block(choose(key, progress), last - first)
        done = int(progress.episode) - first
        parts.append({name: np.asarray(x)[:done] for name, x in numbers.items()})
    return progress, {name: leaf(np.concatenate([x[name] for x in parts])) for name in parts[0]}


def chooser(explorer: Explorer, model: Model) -> Choose | None:
    """How choices are made on the host, for a model of the host; None where compiled blocks make them."""
    if jax.default_backend() != "cpu" or not isinstance(model, MixtureModel):
        return None
    succ = model.space.succ
    if isinstance(explorer, HFUCRLRFE) and explorer.oracle == "ascent" and succ.shape[2] <= ENUMERATE:
        return _ascents(explorer, model)
    if (
        isinstance(explorer, Information)
        and not model.space.is_dense
        and model.space.horizon * succ.size > MUCH
    ):
        return _designs(model)
    return None


def _designs(model: MixtureModel) -> Choose:
    from horizonfree.models.mixture.design_loop import designer

    design, valid = designer(model.space, model.valid), to_device(model.valid)

    def choose(key: Array, progress: Progress) -> Progress:
        known, theta = _asked(valid, progress.evidence)
        policy, promise = to_device(design(np.asarray(known), np.asarray(theta)))
        return Progress(progress.episode, Design(policy, promise), progress.evidence)

    return choose


@program
def _asked(valid: ValidSet, evidence: Evidence) -> tuple[Float[Array, " R"], Float[Array, " d"]]:
    """What the design is made for. The evidence itself is not seen from the host: blocks could not write over it."""
    return known_of(valid, evidence.row_counts), evidence.theta


def _ascents(explorer: HFUCRLRFE, model: MixtureModel) -> Choose:
    from horizonfree.regression.oracle.compiled import ascent_here, layout

    plan, on_device = layout(model), to_device(model)
    phi = to_device(plan.phi)

    def choose(key: Array, progress: Progress) -> Progress:
        due = is_due(progress.state)
        if due is not None and not due:
            return progress
        words, answer, beta, search_radius, tables = _question(explorer, on_device, phi, key, progress)
        last = to_numpy(progress.state.last.found)
        found, U = ascent_here(
            np.asarray(words),
            plan,
            to_numpy(tables),
            float(beta),
            float(search_radius),
            last.point,
            chains=explorer.chains,
            sweeps=explorer.sweeps,
        )
        state = _answered(progress.state, answer, found, U, beta)
        return Progress(progress.episode, state, progress.evidence)

    return choose


@program
def _question(
    explorer: HFUCRLRFE, model: MixtureModel, phi: Float[Array, "G n d"], key: Array, progress: Progress
) -> tuple[UInt32[Array, "2"], Answer, Float[Array, ""], Float[Array, ""], Factors]:
    """What the oracle is asked: the words of its key, theta_k, both radii and the factors of the distinct phi.

    theta_k stands in an answer that still has the last policy and values.
    """
    state, beta = progress.state, explorer.beta(model, explorer.total())
    theta = explorer.center(model, state.ridge)
    answer = explorer.answer(model, state, theta, state.last.found, state.last.relaxed)
    tables = factors(phi, theta, answer.inv[TILDE], answer.inv[HAT])
    words = jax.random.key_data(episode_keys(key, progress)[0])
    return words, answer, beta, explorer.search_radius(state.last.found, beta), tables


@program
def _answered(
    state: State, answer: Answer, result: OracleResult, U: Float[Array, ""], beta: Float[Array, ""]
) -> State:
    """The state with the answer, which gets what the oracle found, and U."""
    found = state.last.found.after(result, beta)
    full = Answer(found, U, answer.theta, answer.inv, answer.ball_ratio, answer.episode)
    return state.answered(full, state.interval)
