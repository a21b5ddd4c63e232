"""Choices on the host: runs are those of compiled blocks, and who gets them."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.explorers.on_host import chooser
from horizonfree.explorers.registry import make_explorer
from horizonfree.runs import engines

pytestmark = pytest.mark.usefixtures("x64")

EPISODES = 40


def explored(problem, seed):
    return hf.explore(problem, "hf-ucrl-rfe++", episodes=EPISODES, seed=seed, progress=False)


def test_a_run_has_the_numbers_of_compiled_blocks(monkeypatch):
    """On a grid that H steps do not cross: some states are never reached."""
    problem = hf.make("zoned-grid", size=4, zones=2, horizon=5)
    assert not problem.space.reachable.all()
    here = [explored(problem, seed) for seed in range(3)]
    monkeypatch.setattr(engines, "chooser", lambda explorer, model: None)
    for seed, run in enumerate(here):
        blocks = explored(problem, seed)
        assert 1 < run.records["oracle_calls"][-1] < EPISODES
        np.testing.assert_array_equal(run.evidence.counts, blocks.evidence.counts)
        assert run.records.keys() == blocks.records.keys()
        for name, x in run.records.items():
            np.testing.assert_allclose(x, blocks.records[name], rtol=1e-9, atol=1e-12, err_msg=name)


def test_only_the_ascent_on_short_lists_is_called_on_the_host():
    short = hf.make("zoned-grid", size=4, zones=2, horizon=5).model
    long = hf.make("random-mixture", states=9, successors=9, horizon=3).model
    for name, options, model, is_here in [
        ("hf-ucrl-rfe++", {}, short, True),
        ("hf-ucrl-rfe++", {"oracle": "relaxed"}, short, False),
        ("hf-ucrl-rfe++", {}, long, False),
        ("information", {}, short, False),
    ]:
        explorer = make_explorer(name, **options)
        assert (chooser(explorer, model) is not None) == is_here, (name, options)
