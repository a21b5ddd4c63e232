"""Executables that are kept with what they were asked for: found again without a trace, if nothing has changed."""

import os
import subprocess
import sys
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from horizonfree import _programs

pytestmark = pytest.mark.compiled  # about programs
TRACES: list[int] = []
X = np.eye(3) + 0.1


def root(tree: dict, power: int) -> tuple:
    TRACES.append(power)
    return {"root": jnp.linalg.cholesky(tree["x"]) * power, "name": "cholesky"}, power


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """As in a process of the command line."""
    monkeypatch.setattr(_programs, "_folder", lambda: tmp_path)
    TRACES.clear()
    return tmp_path


def called(x=X, power=2, program=_programs.program):
    """By a programme that knows nothing yet, as that of another process."""
    with jax.enable_x64(True):
        (found, said) = program(root)({"x": jnp.asarray(x)}, power)
    return np.asarray(found["root"]), found["name"], said


def test_a_second_process_does_not_trace_and_has_the_same_bits(kept):
    first, *said = called()
    again, *said_again = called()
    assert TRACES == [2]
    np.testing.assert_array_equal(again, first)
    np.testing.assert_allclose(first @ first.T, 4 * X, rtol=1e-12)
    assert said_again == said == ["cholesky", 2]


@pytest.mark.parametrize("is_shell", [True, False])
def test_a_programme_may_write_over_what_it_takes_and_nothing_else(tmp_path, monkeypatch, is_shell):
    monkeypatch.setattr(_programs, "_folder", lambda: tmp_path if is_shell else None)
    with jax.enable_x64(True):
        for _ in range(2):  # compiled, then found again
            add = _programs.program(shifted, takes=True)
            kept, taken = jnp.asarray(X), jnp.asarray(X)
            np.testing.assert_array_equal(add(kept, taken, 2), X + 2 * X)
            assert taken.is_deleted()
            np.testing.assert_array_equal(kept, X)


def shifted(x: jax.Array, y: jax.Array, times: int) -> jax.Array:
    return y + times * x


def test_another_number_shape_type_or_setting_is_another_programme(kept, monkeypatch):
    called()
    called(power=3)
    called(np.eye(4))
    called(np.eye(3, dtype=np.float32))
    monkeypatch.setattr(_programs, "_surroundings", lambda: ("another processor",))
    called()
    assert TRACES == [2, 3, 2, 2, 2]


@pytest.mark.parametrize("is_shell", [True, False])
@pytest.mark.parametrize(("few", "changed"), [(0, "SOON"), (9, "AT_ONCE")])
def test_what_is_called_seldom_is_compiled_with_other_options_where_there_are_any(
    tmp_path, monkeypatch, is_shell, few, changed
):
    """Other options for few numbers than for many; at the shell, none that XLA does not know. Same numbers."""
    TRACES.clear()
    monkeypatch.setattr(_programs, "_folder", lambda: tmp_path if is_shell else None)
    monkeypatch.setattr(_programs, "FEW", few)
    often, asked = called()[0], []
    compile_it, jit = jax.stages.Lowered.compile, eqx.filter_jit
    monkeypatch.setattr(jax.stages.Lowered, "compile", lambda x, y=None: asked.append(y) or compile_it(x, y))
    monkeypatch.setattr(
        eqx, "filter_jit", lambda f, compiler_options=None, **x: asked.append(compiler_options) or jit(f, **x)
    )
    known, unknown = {"xla_cpu_use_fusion_emitters": False}, {"xla_no_such_option": 1}
    for options in (known, unknown):
        monkeypatch.setattr(_programs, changed, options)
        seldom = called(program=partial(_programs.program, is_seldom=True))[0]
        np.testing.assert_allclose(seldom, often, rtol=1e-12)
    in_shell = [None, known, None, unknown, None]
    assert asked == (in_shell if is_shell else [None, known, known, None, unknown])  # tried before it is used


def test_outside_the_shell_an_option_that_xla_does_not_know_is_left_out(monkeypatch):
    often = called()[0]
    monkeypatch.setattr(_programs, "AT_ONCE", {"xla_no_such_option": 1})
    seldom = called(program=partial(_programs.program, is_seldom=True))[0]
    np.testing.assert_allclose(seldom, often, rtol=1e-12)


@pytest.mark.parametrize("at", [0, 40, -1])
def test_a_damaged_file_is_compiled_again(kept, at):
    first = called()
    for file in kept.iterdir():
        content = bytearray(file.read_bytes())
        content[at] ^= 1
        file.write_bytes(content)
    np.testing.assert_array_equal(called()[0], first[0])
    assert TRACES == [2, 2]


def test_the_oldest_files_go_and_what_cannot_be_written_is_computed(kept, monkeypatch):
    monkeypatch.setattr(_programs, "MOST_FILES", 2)
    for power in range(4):
        called(power=power)
    assert len(list(kept.iterdir())) == 2
    monkeypatch.setattr(_programs, "_folder", lambda: kept / next(kept.iterdir()).name)  # a file, no folder
    np.testing.assert_allclose(called(power=9)[0], np.linalg.cholesky(X) * 9, rtol=1e-12)


PROCESSES = """
import os, sys, jax.numpy as jnp, numpy as np
from horizonfree import _shell, _programs, _x64
def root(x):
    print("traced")
    return jnp.linalg.cholesky(x)
def work(is_shell):
    if is_shell: _shell.begin_shell()
    with _x64.scope():
        print(np.asarray(_programs.program(root)(jnp.eye(3) * 4)).tolist())
    print(len(os.listdir(sys.argv[1])) if os.path.exists(sys.argv[1]) else "no folder", flush=True)
for is_shell in (False, True, True):  # JAX begins in each by itself
    child = os.fork()
    if child == 0:
        work(is_shell)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def test_only_the_command_line_keeps_files_and_finds_them_in_another_process(tmp_path):
    """The second loads a call of LAPACK that nothing in it has prepared."""
    env = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    env.pop("JAX_COMPILATION_CACHE_DIR", None)
    words = [sys.executable, "-c", PROCESSES, str(tmp_path / "horizonfree" / "programs")]
    said = subprocess.run(words, env=env, check=True, capture_output=True, text=True).stdout.splitlines()
    found = "[[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]]"
    library, first, second = ["traced", found, "no folder"], ["traced", found, "1"], [found, "1"]
    assert said == [*library, *first, *second]
