"""Choices that are made on the host, between two compiled blocks, for single runs on a CPU: those that take long.

A block plays until a choice is due and returns; here loops answer in place of `choose`, and the next block goes on: the
oracle of HF-UCRL-RFE++ (regression/oracle/compiled.py), and for very many states the dynamic programme of `information`
(models/mixture/design_loop.py). Before and after the loops everything is the explorer's own and traced: what the host
is told (`ask`), and what its choice changes (`put`). Between two choices there is one compiled call: put, play, ask.
The numbers are those of `choose` but for rounding, on which nothing turns that is not within 1e-10 of a tie.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree._jit import jit
from horizonfree._mould import Mould, apart
from horizonfree._x64 import leaf, to_device, to_numpy
from horizonfree.explorers.hf_answer import State
from horizonfree.explorers.hf_ucrl_rfe import HAT, HFUCRLRFE, TILDE
from horizonfree.explorers.information import Information
from horizonfree.explorers.information import State as Design
from horizonfree.explorers.interface import Explorer
from horizonfree.explorers.loop import Progress, Records, episode_keys, is_due, simulate_block
from horizonfree.mdp.rollout import Sampler
from horizonfree.models.interface import Model
from horizonfree.models.mixture.design import known_of
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.regression.oracle import native
from horizonfree.regression.oracle.box import ENUMERATE
from horizonfree.regression.oracle.objective import factors
from horizonfree.regression.oracle.reply import Needed, Question, Reply

MUCH = 2**21  # products of probabilities and values in a pass; fewer are done before a block begins anew


class World(NamedTuple):
    """What a block of episodes is played in, on the device."""

    explorer: Explorer
    model: Model
    sampler: Sampler
    truth: Any
    key: Array


class Host(NamedTuple):
    """How choices are made on the host; `ask` and `put` are traced."""

    ask: Callable[[Any, Any, Any, Array, Progress], tuple[Any, Any]]  # -> kept for `put`, told to the host
    choose: Callable[[Any], Any]  # what it is told -> its choice
    put: Callable[[Any, Any, Any, Any, Any], Any]  # (.., state, kept, the choice) -> the state with it
    nothing: Callable[[Progress], tuple[Any, Any]]  # of the shapes of what is kept, and of a choice
    known: Any = None  # arrays of the device that `ask` looks at


class _Turn(NamedTuple):
    """What is left after a turn."""

    so_far: list[Array]
    status: Int[Array, "2"]  # episodes so far, whether a choice is due
    records: dict[str, Array]  # those of a type together, under their names
    kept: Any
    told: Any


def in_turn(host: Host, world: World, progress: Progress, count: int, size: int) -> tuple[Progress, Records]:
    """`count` episodes and their records: a choice, a block that ends where the next is due, and so on.

    size: the most episodes of a block.
    """
    form, fixed = apart((host.ask, host.put, host.known, world))
    mould, given = apart(progress)
    so_far = jax.device_put(given, may_alias=False)  # turns write over their own: whoever asked still has his

    def turn(so_far: list[Array], kept: Any, choice: Any, count: int, *, is_chosen: bool) -> _Turn:
        how = leaf(np.array([count, is_chosen], np.int32))
        return _turn((form, fixed, mould, kept, choice, how, size), so_far)

    nothing = host.nothing(progress)
    now, first, due = None, int(progress.episode), int(_is_due(progress))
    last, parts = first + count, []
    while first < last:
        if due and now is None:
            now = turn(so_far, *nothing, 0, is_chosen=False)
            so_far = now.so_far
        play = min(last - first, size)
        if due and now is not None:
            now = turn(so_far, now.kept, host.choose(to_numpy(now.told)), play, is_chosen=True)
        else:
            now = turn(so_far, *nothing, play, is_chosen=False)
        so_far, (k, due) = now.so_far, map(int, np.asarray(now.status))
        parts.append({names: np.asarray(x)[:, : k - first] for names, x in now.records.items()})
        first = k
    joined = {names: np.concatenate([x[names] for x in parts], 1) for names in parts[0]}
    records = {name: leaf(x) for names, table in joined.items() for name, x in zip(names.split(), table)}
    return mould.filled(so_far), records


def _is_due(progress: Progress) -> bool:
    due = is_due(progress.state)
    return due is None or bool(due)


_Given = tuple[Mould, list[Array], Mould, Any, Any, Int[Array, "2"], int]


@partial(jit, donate=True, fast_compile=True)
def _turn(given: _Given, so_far: list[Array]) -> _Turn:
    """Put the choice, if there is one, play until the next is due, or as many as `how` says, and ask for it."""
    form, fixed, mould, kept, choice, how, size = given
    ask, put, known, (explorer, model, sampler, truth, key) = form.filled(fixed)
    before = mould.filled(so_far)
    state = jax.lax.cond(
        how[1] > 0, lambda: put(explorer, model, before.state, kept, choice), lambda: before.state
    )
    first = Progress(before.episode, state, before.evidence)
    progress, records = simulate_block(
        explorer, model, sampler, truth, key, first, how[0], size, chooses=False
    )
    due = is_due(progress.state)
    status = jnp.stack([progress.episode, jnp.asarray(True if due is None else due, jnp.int32)])
    asked = ask(explorer, model, known, key, progress)
    return _Turn(apart(progress)[1], status, _by_type(records), *asked)


def _by_type(records: Records) -> dict[str, Array]:
    """Stacked, those of one type together, under their names: few arrays leave the device sooner than many."""
    names: dict[Any, list[str]] = {}
    for name, x in records.items():
        names.setdefault(x.dtype, []).append(name)
    return {" ".join(found): jnp.stack([records[name] for name in found]) for found in names.values()}


def chosen(host: Host, explorer: Explorer, model: Model, key: Array, progress: Progress) -> Progress:
    """With the policy of the next episode."""
    if not _is_due(progress):
        return progress
    kept, told = _ask(host.ask, explorer, model, host.known, key, progress)
    state = _put(host.put, explorer, model, progress.state, kept, host.choose(to_numpy(told)))
    return Progress(progress.episode, state, progress.evidence)


@jit
def _ask(ask: Any, *args: Any) -> tuple[Any, Any]:
    asked: tuple[Any, Any] = ask(*args)
    return asked


@jit
def _put(put: Any, *args: Any) -> Any:
    return put(*args)


def chooser(explorer: Explorer, model: Model) -> Host | None:
    """How choices are made on the host, for a model of the host; None where compiled blocks make them."""
    if jax.default_backend() != "cpu" or not isinstance(model, MixtureModel):
        return None
    succ = model.space.succ
    if isinstance(explorer, HFUCRLRFE) and explorer.oracle == "ascent" and succ.shape[2] <= ENUMERATE:
        return _ascents(explorer, model) if native.is_built() else None
    if (
        isinstance(explorer, Information)
        and not model.space.is_dense
        and model.space.horizon * succ.size > MUCH
    ):
        return _designs(model)
    return None


def _designs(model: MixtureModel) -> Host:
    from horizonfree.models.mixture.design_loop import designer

    design = designer(model.space, model.valid)

    def choose(told: tuple[Any, Any]) -> tuple[Any, Any]:
        return design(*told)

    def nothing(progress: Progress) -> tuple[None, tuple[Any, Any]]:
        return None, (progress.state.policy, progress.state.promise)

    return Host(_ask_design, choose, _put_design, nothing)


def _ask_design(
    explorer: Information, model: MixtureModel, known: None, key: Array, progress: Progress
) -> tuple[None, tuple[Array, Array]]:
    """What the design is made for. The evidence itself is not seen from the host: turns could not write over it."""
    return None, (known_of(model.valid, progress.evidence.row_counts), progress.evidence.theta)


def _put_design(
    explorer: Information, model: MixtureModel, state: Design, kept: None, choice: tuple[Array, Array]
) -> Design:
    return Design(*choice)


def _ascents(explorer: HFUCRLRFE, model: MixtureModel) -> Host:
    from horizonfree.regression.oracle.compiled import layout, reply_here

    plan = layout(model)

    def choose(told: Question) -> Reply:
        return reply_here(told, plan, chains=explorer.chains, sweeps=explorer.sweeps)

    return Host(_ask_oracle, choose, _put_answer, _no_reply, to_device(plan.phi))


def _no_reply(progress: Progress) -> tuple[Array, Reply]:
    last = progress.state.last
    point, (H1, S) = last.found.point, last.found.V.shape
    values = leaf(np.zeros((2, H1, S))), leaf(np.zeros(6))
    return last.theta, Reply(point.policy, point.target, leaf(np.zeros(2, np.int32)), *values)


def _ask_oracle(
    explorer: HFUCRLRFE, model: MixtureModel, phi: Float[Array, "G n d"], key: Array, progress: Progress
) -> tuple[Float[Array, " d"], Question]:
    """theta_k, and what is asked in it."""
    state, beta = progress.state, explorer.beta(model, explorer.total())
    theta, inv = explorer.center(model, state.ridge), state.ridge.Sigma_inv[:, 0]
    words = jax.random.key_data(episode_keys(key, progress)[0])
    radii = jnp.stack([beta, explorer.search_radius(state.last.found, beta)])
    point, tables = state.last.found.point, factors(phi, theta, inv[TILDE], inv[HAT])
    return theta, Question(words, radii, point.policy, point.target, point.step, Needed.of(tables))


def _put_answer(
    explorer: HFUCRLRFE, model: MixtureModel, state: State, theta: Float[Array, " d"], reply: Reply
) -> State:
    """What the oracle found in theta_k, and U."""
    result, U = reply.result()
    found = state.last.found.after(result, explorer.beta(model, explorer.total()))
    return state.answered(explorer.answer(model, state, theta, found, U), state.interval)
