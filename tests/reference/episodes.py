"""Following an explorer episode by episode, or many seeds at once; full feature tables."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from horizonfree.models.mixture import evidence as ev
from horizonfree._x64 import to_device, to_numpy
from horizonfree.explorers.interface import Progress, begin, choose, episode_keys
from horizonfree.mdp.rollout import Sampler
from horizonfree.models.mixture.valid import valid_set


def full_features(known):
    """phi [S, A, S, d]."""
    S, A, _, d = known.phi.shape
    phi = np.zeros((S, A, S, d))
    s, a = np.arange(S)[:, None, None], np.arange(A)[None, :, None]
    np.add.at(phi, (s, a, known.succ), known.phi)
    return phi


def full_slots(known, f):
    """A number per slot as one per next state [S, A, S]; padding counts for nothing."""
    table = np.zeros((*known.succ.shape[:2], known.num_states))
    for s, a, j in np.argwhere(known.support):
        table[s, a, known.succ[s, a, j]] = f[s, a, j]
    return table


class Setting:
    """A problem on the device; make and use it inside the 64-bit scope."""

    def __init__(self, problem):
        self.known, self.valid = to_device(problem.known), to_device(valid_set(problem.known))
        self.sampler, self.truth = Sampler.of(to_device(problem.kernel())), jnp.asarray(problem.truth)
        self.start = problem.start
        self.nothing = ev.init(self.valid, *ev.ladder())

    def episode(self, explorer, key, progress, gathers=False):
        """(chosen state, trajectory, progress, info). Without `gathers` the evidence stays empty, to compile faster."""
        key_choose, key_episode = episode_keys(key, progress)
        chosen = choose(explorer, self.known, self.valid, key_choose, progress)
        trajectory = self.sampler.episode(key_episode, chosen.state.policy, self.start)
        evidence = progress.evidence
        if gathers:
            evidence = ev.update(self.valid, evidence, trajectory)
        state, info = explorer.update(self.known, self.valid, chosen.state, evidence, trajectory)
        info = info | explorer.audit(self.known, state, self.truth)
        return chosen.state, trajectory, Progress(progress.episode + 1, state, evidence), info


def follow(problem, explorer, episodes, seed=0, gathers=False):
    """Yield (chosen state, trajectory, state after it) as NumPy, one episode after the other."""
    with jax.enable_x64(True):
        setting, key = Setting(problem), jax.random.key(seed)
        step = eqx.filter_jit(lambda progress: setting.episode(explorer, key, progress, gathers))
        progress = begin(explorer, setting.known, setting.valid, setting.nothing)
        for _ in range(episodes):
            state, trajectory, progress, _ = step(progress)
            yield to_numpy(state), to_numpy(trajectory), to_numpy(progress.state)


def seeds(problem, explorer, episodes, count, more=None):
    """Rows [seeds, episodes] of `count` seeds in one compiled call; `more(setting, state)` adds to every row."""
    with jax.enable_x64(True):
        setting = Setting(problem)
        first = begin(explorer, setting.known, setting.valid, setting.nothing)

        def one(seed):
            def step(progress, _):
                state, _, progress, info = setting.episode(explorer, jax.random.key(seed), progress)
                return progress, info | (more(setting, state) if more else {})

            return jax.lax.scan(step, first, None, length=episodes)[1]

        return to_numpy(jax.jit(jax.vmap(one))(jnp.arange(count)))
