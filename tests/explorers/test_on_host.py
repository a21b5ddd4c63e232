"""Choices on the host: runs are those of compiled blocks, and who gets them."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree._x64 import to_device
from horizonfree.explorers import on_host
from horizonfree.explorers.on_host import chooser
from horizonfree.explorers.registry import make_explorer
from horizonfree.models.mixture.design import design, known_of
from horizonfree.models.mixture.design_loop import _backward, designer
from horizonfree.runs import engines

pytestmark = pytest.mark.usefixtures("x64")

EPISODES = 40


def explored(problem, seed, explorer, **options):
    return hf.explore(problem, explorer, episodes=EPISODES, seed=seed, progress=False, **options)


def searched(problem, seed):
    """In a few moves; of longer searches regression/test_oracle.py says the same."""
    return explored(problem, seed, "hf-ucrl-rfe++", sweeps=8)


def test_a_run_has_the_numbers_of_compiled_blocks(monkeypatch):
    """On a grid that H steps do not cross: some states are never reached."""
    problem = hf.make("zoned-grid", size=4, zones=2, horizon=5)
    assert not problem.space.reachable.all()
    here = [searched(problem, seed) for seed in range(3)]
    monkeypatch.setattr(engines, "chooser", lambda explorer, model: None)
    for seed, run in enumerate(here):
        blocks = searched(problem, seed)
        assert 1 < run.records["oracle_calls"][-1] < EPISODES
        np.testing.assert_array_equal(run.evidence.counts, blocks.evidence.counts)
        assert run.records.keys() == blocks.records.keys()
        for name, x in run.records.items():
            np.testing.assert_allclose(x, blocks.records[name], rtol=1e-9, atol=1e-12, err_msg=name)


def test_information_with_many_states_has_the_numbers_of_compiled_blocks(monkeypatch):
    """Rows of padding, states out of reach, and ties between moves that all hit a wall."""
    problem = hf.make("zoned-grid", size=4, zones=2, horizon=5)
    blocks = explored(problem, 0, "information")
    assert chooser(blocks.explorer, problem.model) is None
    monkeypatch.setattr(on_host, "MUCH", 0)
    here = explored(problem, 0, "information")
    np.testing.assert_array_equal(here.progress.state.policy, blocks.progress.state.policy)
    np.testing.assert_array_equal(here.evidence.counts, blocks.evidence.counts)
    np.testing.assert_allclose(here.records["information"], blocks.records["information"], rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_loops_find_the_design(seed):
    """A drawn start, virtual rows, counts of any size, steps enough to leave actions out; and nothing to learn."""
    rng = np.random.default_rng(seed)
    kernels = rng.dirichlet(np.ones(6), (3, 30, 2))
    table = np.zeros((3, 30, 2, 30))
    for s, a in np.ndindex(30, 2):
        table[:, s, a, rng.choice(30, 6, replace=False)] = kernels[:, s, a]
    known = hf.Mixture.from_kernels(table, horizon=40, start=rng.dirichlet(np.ones(30))).model
    one = hf.Mixture.from_kernels(table[:1], horizon=40).model
    for model in (known, one):
        valid = model.valid
        counts, theta = rng.integers(0, 10**seed, len(valid.rows), np.int32), np.asarray(valid.center)
        policy, promise = designer(model.space, valid)(
            np.asarray(known_of(*to_device((valid, counts)))), theta
        )
        wanted = design(*to_device((model.space, valid, counts, theta)))
        np.testing.assert_array_equal(policy, wanted[0])
        np.testing.assert_allclose(promise, wanted[1], rtol=1e-12)
    assert known.valid.virtual.any()
    assert promise == 0


def test_no_action_is_left_out_that_could_be_best():
    """Two rings of states whose values cross late: one pays from the start, the other more, after some steps."""
    S = 12
    succ = np.stack([np.r_[1:S, S - 1], np.arange(S)], 1)[:, :, None].astype(np.uint32)  # onwards, or stay
    prob, gain = np.ones((S, 2, 1)), np.zeros((S, 2))
    gain[:, 1], gain[-1] = np.linspace(1, 0.1, S), 2.0
    policy, literal = np.empty((40, S), np.int32), np.empty((40, S), np.int32)
    V = np.zeros(S)
    for h in range(39, -1, -1):
        Q = gain + V[succ[:, :, 0]]
        literal[h], V = Q.argmax(1), Q.max(1)
    for excess, negative in ((0.0, 0.0), (1e-3, 1e-3)):
        np.testing.assert_allclose(_backward(succ, prob, gain, excess, negative, policy), V, rtol=1e-12)
        np.testing.assert_array_equal(policy, literal)
    assert literal[0, 0] == 0 and literal[-2, 0] == 1  # noqa: PT018


def test_blocks_write_over_no_evidence_but_their_own():
    problem = hf.make("zoned-grid", size=4, zones=2, horizon=5)
    run = explored(problem, 0, "information")
    engine, progress = engines.simulated(run, run.explorer), to_device(run.progress)
    first, again = (engine(progress, 3)[0] for _ in range(2))
    np.testing.assert_array_equal(first.evidence.counts, again.evidence.counts)
    np.testing.assert_array_equal(progress.evidence.counts, run.evidence.counts)
    assert first.evidence.counts.sum() == run.evidence.counts.sum() + 3 * problem.horizon


def test_only_the_ascent_on_short_lists_and_large_designs_are_called_on_the_host():
    short = hf.make("zoned-grid", size=4, zones=2, horizon=5).model
    long = hf.make("random-mixture", states=9, successors=9, horizon=3).model
    large = hf.make("zoned-grid", size=4, zones=2, horizon=10_000).model
    for name, options, model, is_here in [
        ("hf-ucrl-rfe++", {}, short, True),
        ("hf-ucrl-rfe++", {"oracle": "relaxed"}, short, False),
        ("hf-ucrl-rfe++", {}, long, False),
        ("information", {}, short, False),
        ("information", {}, large, True),
        ("uniform", {}, large, False),
    ]:
        explorer = make_explorer(name, **options)
        assert (chooser(explorer, model) is not None) == is_here, (name, options)
