"""Batches in a folder: what was stopped goes on, and where none can be kept the refusal says why."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.batch import job as batch_job
from horizonfree.errors import RunError
from tests.batch.test_batch import FEW, assert_same_bits, mixture


@pytest.fixture
def in_pairs(monkeypatch):
    monkeypatch.setattr(batch_job, "MAX_MEMBERS", {True: 2, False: 2})


def test_an_interrupted_batch_goes_on_where_it_stopped(in_pairs, tmp_path, monkeypatch):
    settings = {"episodes": 4, "seeds": 5, "checkpoints": [4], "curves": ["excess"]}
    uninterrupted = hf.explore_many(mixture(), "uniform", **settings)
    seeds_run, run = [], batch_job.Job.run

    def interrupted(self, first, size, show, pool=None):
        seeds_run.append(first)
        if first == 2 and len(seeds_run) == 2:
            raise KeyboardInterrupt
        return run(self, first, size, show, pool)

    monkeypatch.setattr(batch_job.Job, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        hf.explore_many(mixture(), "uniform", **settings, out=tmp_path / "batch")
    batch = hf.explore_many(mixture(), "uniform", **settings, out=tmp_path / "batch")
    assert seeds_run == [0, 2, 2, 4]
    resumed = hf.explore_many(mixture(), "uniform", **settings, out=tmp_path / "batch")
    assert seeds_run == [0, 2, 2, 4]
    for other in (batch, resumed):
        for a, b in zip(other, uninterrupted):
            assert_same_bits(a, b)
        np.testing.assert_array_equal(other.curves["excess"], uninterrupted.curves["excess"])

    with pytest.raises(RunError, match="a batch with other episodes"):
        hf.explore_many(mixture(), "uniform", **settings | {"episodes": 5}, out=tmp_path / "batch")
    file = tmp_path / "batch" / "chunk-00000002.npz"
    file.write_bytes(file.read_bytes()[:-200] + b"x" * 200)
    with pytest.raises(RunError, match="damaged"):
        hf.explore_many(mixture(), "uniform", **settings, out=tmp_path / "batch")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(RunError, match="holds no batch"):
        hf.explore_many(mixture(), "uniform", **settings, out=tmp_path / "other")


@pytest.mark.parametrize("left", [(), ("lock",), ("lock", ".partial")])
def test_a_batch_that_died_before_its_first_file_begins_again(left, tmp_path):
    for name in left:
        (tmp_path / name).touch()
    assert len(hf.explore_many(mixture(), "uniform", **FEW, out=tmp_path)) == 2


def test_where_no_batch_can_be_kept_the_refusal_says_why(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    for name, message in {
        "file": "there is a file of that name: choose another folder",
        "file/g": "a part of the path is a file, not a folder: choose another place",
        "dangling": "is a link that leads nowhere; remove it, or choose another folder",
    }.items():
        with pytest.raises(RunError, match=message):
            hf.explore_many(mixture(), "uniform", episodes=1, seeds=1, out=tmp_path / name)
