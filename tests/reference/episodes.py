"""Following an explorer episode by episode, or many seeds at once; full feature tables."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from horizonfree._x64 import to_device, to_numpy
from horizonfree.explorers.loop import Progress, ball_records, choose_policy, episode_keys, init_progress
from horizonfree.guarantees.e_processes import ladder
from horizonfree.planning.traced import Sampler

# As one program each: outside of one, every call of a loop is traced anew.
play = eqx.filter_jit(Sampler.episode)


def on_device(function):
    """Operation by operation, with arrays of JAX as results."""
    return lambda *args, **options: to_device(function(*args, **options))


make_sampler = on_device(eqx.filter_jit(Sampler.of))
first_progress = on_device(eqx.filter_jit(init_progress))


@on_device
@eqx.filter_jit
def empty_evidence(model, budget, *, has_history=False):
    """The evidence before the first episode."""
    return model.init_evidence(ladder(budget), has_history=has_history)


def full_features(model):
    """phi [S, A, S, d]."""
    S, A, _, d = model.phi.shape
    phi = np.zeros((S, A, S, d))
    s, a = np.arange(S)[:, None, None], np.arange(A)[None, :, None]
    np.add.at(phi, (s, a, model.space.succ), model.phi)
    return phi


def full_slots(space, f):
    """A number per slot as one per next state [S, A, S]; padding counts for nothing."""
    table = np.zeros((*space.succ.shape[:2], space.num_states))
    for s, a, j in np.argwhere(space.support):
        table[s, a, space.succ[s, a, j]] = f[s, a, j]
    return table


class Setting:
    """A problem on the device; make and use it inside the 64-bit scope."""

    def __init__(self, problem):
        self.model, self.truth = to_device((problem.model, problem.truth))
        self.sampler = make_sampler(to_device(problem.kernel()))
        self.nothing = empty_evidence(self.model, None)

    def episode(self, explorer, key, progress, gathers=False):
        """(chosen state, trajectory, progress, numbers). Without `gathers` the evidence stays empty."""
        key_choose, key_episode = episode_keys(key, progress)
        choice = choose_policy(explorer, self.model, key_choose, progress)
        trajectory = self.sampler.episode(key_episode, choice.state.policy, self.model.space)
        evidence = progress.evidence
        if gathers:
            evidence = self.model.update(evidence, trajectory)
        state, info = explorer.update(self.model, choice.state, evidence, trajectory)
        numbers = info.numbers | ball_records(info.balls, self.truth)
        return choice.state, trajectory, Progress(progress.episode + 1, state, evidence), numbers


def follow(problem, explorer, episodes, seed=0, gathers=False):
    """Yield (chosen state, trajectory, state after it) as NumPy, one episode after the other."""
    with jax.enable_x64(True):
        setting, key = Setting(problem), jax.random.key(seed)
        step = eqx.filter_jit(lambda progress: setting.episode(explorer, key, progress, gathers))
        progress = first_progress(explorer, setting.model, setting.nothing)
        for _ in range(episodes):
            state, trajectory, progress, _ = step(progress)
            yield to_numpy(state), to_numpy(trajectory), to_numpy(progress.state)


def seeds(problem, explorer, episodes, count, details=None):
    """Rows [seeds, episodes] of `count` seeds in one compiled call; `more(setting, state)` adds to every row."""
    with jax.enable_x64(True):
        setting = Setting(problem)
        first = first_progress(explorer, setting.model, setting.nothing)

        def run_seed(seed):
            def step(progress, _):
                state, _, progress, info = setting.episode(explorer, jax.random.key(seed), progress)
                return progress, info | (details(setting, state) if details else {})

            return jax.lax.scan(step, first, None, length=episodes)[1]

        return to_numpy(jax.jit(jax.vmap(run_seed))(jnp.arange(count)))
