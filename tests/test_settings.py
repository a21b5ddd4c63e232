"""Global settings of JAX change no number of the library; a fork raises an error and does not hang."""

import ast
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import horizonfree as hf
from horizonfree import _x64
from horizonfree.errors import ProcessError
from tests.reference import bits

ROOT = Path(__file__).parent.parent
SETTINGS = {
    "jax_default_prng_impl": "rbg",
    "jax_threefry_partitionable": False,
    "jax_numpy_rank_promotion": "raise",
    "jax_numpy_dtype_promotion": "strict",
}


def inside(name: str) -> AbstractContextManager[Any]:
    """One of these settings, for a while."""
    setting: Callable[[Any], AbstractContextManager[Any]] = getattr(jax, name.removeprefix("jax_"))
    return setting(SETTINGS[name])


@pytest.fixture(scope="module")
def default_fingerprints() -> dict[str, str]:
    """The fingerprints with JAX's default settings."""
    return bits.all_fingerprints()


@pytest.fixture(scope="module")
def run() -> hf.Run:
    return bits.explored_run()


def child(*arguments: str) -> str:
    """What a process of its own prints; it ends by itself or is ended."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=300, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_global_settings_change_no_bit_and_are_left_as_they_were(
    default_fingerprints: dict[str, str],
) -> None:
    """All of them in one process; one by one they stand around a call below."""
    cache = str(jax.config.jax_compilation_cache_dir)
    output = child("-m", "tests.reference.bits", cache, repr(SETTINGS))
    assert ast.literal_eval(output) == default_fingerprints


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_around_a_call_changes_no_bit_and_is_left_as_it_was(
    name: str, default_fingerprints: dict[str, str]
) -> None:
    settings_before = dict(jax.config.values)
    outside = getattr(jax.config, name)
    assert outside != SETTINGS[name]
    with inside(name):
        assert bits.all_fingerprints() == default_fingerprints
        assert getattr(jax.config, name) == SETTINGS[name]
    assert getattr(jax.config, name) == outside
    assert dict(jax.config.values) == settings_before


@pytest.mark.parametrize("name", SETTINGS)
def test_a_run_that_is_taken_up_under_another_setting_goes_on_the_same(
    name: str, default_fingerprints: dict[str, str], run: hf.Run, tmp_path: Path
) -> None:
    run.save(tmp_path / "a")
    with inside(name):
        fingerprint = bits.of_run(bits.resumed(hf.load(tmp_path / "a")))
        assert fingerprint == bits.of_run(bits.resumed(run)) == default_fingerprints["resumed"]
    assert bits.of_run(hf.load(tmp_path / "a")) == default_fingerprints["resumed"]


def test_64_bits_are_on_inside_a_call_only() -> None:
    with jax.enable_x64(False):
        with _x64.scope():
            assert jnp.ones(1).dtype == jnp.float64
        assert jnp.ones(1).dtype == jnp.float32


def test_a_call_that_fails_leaves_the_settings_as_they_were(run: hf.Run) -> None:
    with inside("jax_numpy_rank_promotion"), inside("jax_default_prng_impl"):
        with pytest.raises(hf.errors.OptionError, match="episodes is 0"):
            run.resume(episodes=0)
        assert jax.config.jax_numpy_rank_promotion == "raise"
        assert jax.config.jax_default_prng_impl == "rbg"


# ---- processes -------------------------------------------------------------------------------------------------------

FORKS = """
import os, signal, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
import horizonfree as hf
from horizonfree.errors import ProcessError

problem = hf.make("river-swim", states=3, horizon=3)  # plain arithmetic: JAX has not begun


def forked(work):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        signal.alarm(100)  # a child that hangs ends itself
        os._exit(work())
    _, status = os.waitpid(pid, 0)
    assert status == 0, status


def early():
    print("early:", hf.explore(problem, "uniform", episodes=2, progress=False).episodes, flush=True)
    return 0


forked(early)
run = hf.explore(problem, "uniform", episodes=2, progress=False)
calls = {
    "explore": lambda: hf.explore(problem, "uniform", episodes=2, progress=False),
    "explore_many": lambda: hf.explore_many(problem, "uniform", episodes=2, seeds=2, progress=False),
    "resume": lambda: run.resume(episodes=1, progress=False),
    "plan": lambda: run.plan(hf.goal(problem, 2), model="explorer"),
    "simulate": lambda: hf.simulate(problem, np.zeros((3, 3), int)),
    "certify": lambda: hf.certify(problem, ([[0] * 4], [[0] * 3])),
}


def late():
    code = 0
    for name, call in calls.items():
        try:
            call()
            said, code = "was answered", 3
        except ProcessError as error:
            said = str(error)
        except BaseException as error:
            said, code = repr(error), 4
        print(name, said, sep=": ", flush=True)
    assert run.certificate().delta == 0.05  # answers do not need JAX
    return code


forked(late)
print("parent:", run.resume(episodes=1, progress=False).episodes)  # which is none the worse for it
"""


@pytest.fixture(scope="module")
def forks() -> list[str]:
    """What a child says that was forked before the first exploration, then one forked after it, then their parent."""
    return child("-c", FORKS).splitlines()


def test_after_a_fork_every_call_says_what_is_wrong_and_what_to_do(forks: list[str]) -> None:
    _, *children, parent = forks
    assert [line.partition(": ")[0] for line in children] == [
        "explore",
        "explore_many",
        "resume",
        "plan",
        "simulate",
        "certify",
    ]
    for line in children:
        assert "this process was forked from one in which JAX was at work, and would hang" in line
        assert "multiprocessing.get_context('spawn')" in line
    assert parent == "parent: 3"


def test_a_fork_before_the_first_exploration_works(forks: list[str]) -> None:
    assert forks[0] == "early: 2"


def test_another_process_is_recognised_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_x64, "_process", 1)
    with pytest.raises(ProcessError, match="start processes afresh"), _x64.scope():
        pytest.fail("the scope was entered")
