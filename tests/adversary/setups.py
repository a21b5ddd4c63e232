"""Runs as users set them up, each with the hidden system that its data came from."""

import gymnasium
import numpy as np

import horizonfree as hf
from tests.adversary.hidden import Hidden


def laws(rng, shape, S):
    """Random rows, some with zeros, some deterministic."""
    P = rng.dirichlet(np.full(S, rng.choice([0.3, 1.0])), shape)
    kind = rng.integers(3)
    if kind == 1:
        P = P * (rng.random(P.shape) < 0.6)
        P[..., rng.integers(S)] += 0.01
    if kind == 2:
        sharp = rng.random(P.shape[:-1]) < 0.6
        P[sharp] = np.eye(S)[rng.integers(S, size=int(sharp.sum()))]
    return P / P.sum(-1, keepdims=True)


def sizes(rng):
    return int(rng.choice([1, 3, 3, 3])), int(rng.choice([1, 2, 2])), int(rng.choice([1, 2, 4]))


def start_of(rng, S):
    return int(rng.integers(S)) if rng.random() < 0.5 or S == 1 else rng.dirichlet(np.ones(S))


def number_of_episodes(rng):
    return int(rng.choice([1, 20, 300]))


def recorded(rng, problem, system, ragged=True):
    """A run of logged episodes, some of which are not observed to their end."""
    K, H = number_of_episodes(rng), problem.horizon
    s, a = system.simulate(rng, K, H)
    if ragged and rng.random() < 0.3:
        length = rng.integers(1, H + 1, K)
        s, a = [x[: n + 1] for x, n in zip(s, length)], [x[:n] for x, n in zip(a, length)]
    budget = [None, None, 1, K, 20 * K][rng.integers(5)]
    return hf.from_episodes(problem, (s, a), budget=budget)


def allowed_of(rng, S, A):
    allowed = np.ones((S, A), bool)
    if A > 1 and rng.random() < 0.3:
        allowed[rng.integers(S), rng.integers(A)] = False
    return allowed


def mixture(rng):
    (S, A, H), d = sizes(rng), int(rng.choice([1, 2, 3, 5]))
    P, w, start = laws(rng, (d, S, A), S), rng.dirichlet(np.full(d, 0.5)), start_of(rng, S)
    system = Hidden.of(np.einsum("d,dsat->sat", w, P), start, allowed_of(rng, S, A))
    how = {"horizon": H, "start": start, "actions_allowed": system.allowed}
    if rng.random() < 0.3:
        problem = hf.Mixture.from_features(np.moveaxis(P, 0, -1), bound=2.0, theta=w, **how)
    else:
        problem = hf.Mixture.from_kernels(P, weights=w, hull=d > 2 or rng.random() < 0.7, **how)
    return recorded(rng, problem, system), system


def table(rng):
    S, A, H = sizes(rng)
    P, start = laws(rng, (S, A), S), start_of(rng, S)
    support, terminal = "any", []
    kind = rng.integers(4)
    if kind == 1:
        support = "given"
    if kind == 2:
        support = (P > 0) | (rng.random(P.shape) < 0.3)
    if kind == 3 and S > 1:
        terminal = [int(rng.integers(S))]
        P[terminal] = np.eye(S)[terminal]
    system = Hidden.of(P, start, allowed_of(rng, S, A))
    how = {"horizon": H, "start": start, "actions_allowed": system.allowed}
    problem = hf.Tabular.from_table(P, support=support, terminal=terminal, **how)
    return recorded(rng, problem, system), system


def linear(rng):
    S, A, H = max(2, sizes(rng)[0]), 2, int(rng.choice([1, 2, 4]))
    d = int(rng.choice([1, 3]))
    phi, mu, start = rng.dirichlet(np.full(d, 0.5), (S, A)), laws(rng, (d,), S), start_of(rng, S)
    system = Hidden.of(phi @ mu, start)
    problem = hf.LinearMDP.from_features(phi, mu=mu, horizon=H, start=start)
    if rng.random() < 0.4:
        problem = problem.with_rewards("goals")
    return recorded(rng, problem, system), system


def seen_otherwise(rng):
    """A mixture as a table or a linear MDP, or the part of it that episodes reach."""
    run, system = mixture(rng)
    problem, log = run.problem, run.log
    kind = rng.integers(4)
    if kind == 0:
        other = problem.as_tabular()
    elif kind == 1:
        other = problem.as_tabular(support="given")
    elif kind == 2:
        other = problem.as_linear()
    else:
        other = problem.reachable_part()
        ids = other.state_ids
        system = Hidden.of(system.P[ids][..., ids], system.start[ids], system.allowed[ids])
        log = other.restrict(log)
    return hf.from_episodes(other, log), system


def endings(rng):
    """A table in which every state may end an episode or not: copies of the states for ended episodes."""
    S, A, H = sizes(rng)
    open_laws, start = laws(rng, (S, A), 2 * S), start_of(rng, S)
    P = np.zeros((2 * S, A, 2 * S))
    P[:S], P[S:] = open_laws, np.eye(2 * S)[S:, None]
    first = np.append(np.eye(S)[start] if np.ndim(start) == 0 else start, np.zeros(S))
    system = Hidden(P, np.arange(2 * S), first, np.ones((2 * S, A), bool))
    s, a = system.simulate(rng, number_of_episodes(rng), H)
    is_ended = (s >= S).any(1)
    length = np.where(is_ended, (s >= S).argmax(1), H)
    problem = hf.Tabular(S, A, H, start=start, terminal="unknown")
    episodes = [x[: n + 1] % S for x, n in zip(s, length)], [x[:n] for x, n in zip(a, length)]
    return hf.from_episodes(problem, episodes, ended=is_ended), system


def log_of_rows(rng):
    """A log with names, holes, rewards, and perhaps a start that is drawn from an unknown distribution."""
    S, A, H = max(2, sizes(rng)[0]), 2, int(rng.choice([2, 4]))
    P, start = laws(rng, (S, A), S), rng.dirichlet(np.ones(S))
    is_unknown = rng.random() < 0.5
    start = start if is_unknown else int(rng.integers(S))
    inner = Hidden.of(P, start)
    s, a = inner.simulate(rng, number_of_episodes(rng), H)
    mean = rng.random((S, A))
    paid = (rng.random(a.shape) < mean[s[:, :-1], a]).astype(float)
    k, h = np.indices(a.shape)
    rows = {
        "episode": k.ravel(),
        "step": h.ravel(),
        "state": [f"s{x}" for x in s[:, :-1].ravel()],
        "action": [f"a{x}" for x in a.ravel()],
        "next_state": [f"s{x}" for x in s[:, 1:].ravel()],
        "reward": paid.ravel(),
    }
    missing = str(rng.choice(["error", "drop", "cut"]))
    if missing != "error":
        is_kept = rng.random(a.size) < 0.9
        is_kept[0] = True
        rows = {key: [x for x, keep in zip(column, is_kept) if keep] for key, column in rows.items()}
    names = {"states": [f"s{x}" for x in range(S)], "actions": [f"a{x}" for x in range(A)], "horizon": H}
    first = "unknown" if is_unknown else f"s{start}"
    run = hf.from_log(rows, missing=missing, start=first, **names)
    if is_unknown:
        wider = np.zeros((S + 1, A, S + 1))
        wider[:S, :, :S], wider[S, :, :S] = P, start
        inner = Hidden.of(wider, S)
        mean = np.concatenate([mean, np.zeros((1, A))])
    return run, inner, mean


def samples(rng):
    """Kernels from samples of simulators; the truth is a mixture of the simulators, not of the estimates."""
    (S, A, H), d = sizes(rng), int(rng.choice([1, 2, 3]))
    P, start = laws(rng, (d, S, A), S), start_of(rng, S)
    w = rng.dirichlet(np.full(d, 0.5))
    per_row = rng.choice([0, 1, 20, 1000], (S, A)) if rng.random() < 0.5 else np.full((S, A), 500)
    counts = np.array(
        [[[rng.multinomial(per_row[s, a], P[i, s, a]) for a in range(A)] for s in range(S)] for i in range(d)]
    )
    successors = (P > 0).any(0) if rng.random() < 0.8 else None
    options = {
        "smoothing": float(rng.choice([0.0, 0.0, 1.0])),
        "successors": successors,
        "hull": rng.random() < 0.8,
    }
    problem = hf.from_simulators(list(counts), horizon=H, start=start, **options)
    system = Hidden.of(np.einsum("d,dsat->sat", w, P), start)
    return recorded(rng, problem, system, ragged=False), system


class Positions(gymnasium.Env):
    """A box [0, n): two positions in every cell, 0.1 and 0.9; P [2 n, A, 2 n]."""

    def __init__(self, P, start):
        self.P, self.start = P, start
        self.observation_space = gymnasium.spaces.Box(0.0, len(P) / 2, (1,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(P.shape[1])

    def _shown(self):
        return np.array([self.x // 2 + (0.1, 0.9)[self.x % 2]])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.start
        return self._shown(), {}

    def step(self, action):
        self.x = int(self.np_random.choice(len(self.P), p=self.P[self.x, action]))
        return self._shown(), 0.0, False, False, {}


def cells(rng):
    """Cells with a declared Lipschitz constant: the laws at both positions of a cell differ by 0.8 of it at most."""
    n, A, H, constant = 2, 2, int(rng.choice([1, 2, 3])), float(rng.choice([0.01, 0.1, 0.4]))
    middle, P = laws(rng, (n, A), 2 * n), np.zeros((2 * n, A, 2 * n))
    for x in range(2 * n):
        share = 0.4 * constant  # of the law that moves, from the middle of the cell
        P[x] = (1 - share) * middle[x // 2] + share * laws(rng, (A,), 2 * n)
    start = int(rng.integers(2 * n))
    env = hf.discretize(Positions(P, start), [n], lipschitz=constant)
    run = hf.explore(env, "uniform", episodes=number_of_episodes(rng), horizon=H, seed=1, progress=False)
    P = np.pad(P, ((0, 1), (0, 0), (0, 1)))  # the last cell is for episodes that are over
    P[-1, :, -1] = 1.0
    shown = np.append(np.arange(2 * n) // 2, n)
    first = np.eye(2 * n + 1)[start]
    return run, Hidden(P, shown, first, np.ones((n + 1, A), bool))


def explored(rng):
    """Explored in a simulation, perhaps resumed, as one of a batch, or stored."""
    run, system = (mixture, table)[int(rng.integers(2))](rng)
    problem, K, seed = run.problem, int(rng.choice([1, 5, 60])), int(rng.integers(1000))
    if rng.random() < 0.3:
        return hf.explore_many(problem, episodes=K, seeds=[seed], curves=(), progress=False)[0], system
    kind, how = rng.integers(3), {"seed": seed, "progress": False}
    if kind == 0:  # stop and go on because of what was seen
        run = hf.explore(problem, "uniform", episodes=80, until_eps=0.5, **how)
        return run.resume(episodes=20, progress=False), system
    run = hf.explore(problem, episodes=K, budget=K if kind == 1 else None, **how)
    return (run.resume(episodes=7, progress=False) if rng.random() < 0.3 else run), system


SETUPS = (mixture, table, linear, seen_otherwise, endings, log_of_rows, samples, cells, explored)
