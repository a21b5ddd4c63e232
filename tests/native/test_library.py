"""The native library: its build, its random numbers, and what happens without. Its functions: their callers' tests."""

import ctypes
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import horizonfree as hf
from horizonfree.native import ffi, library
from horizonfree.oracle.ascent import LEAK, MIN_RELATIVE_RISE, NUM_MOVES
from horizonfree.oracle.box import MAX_VECTORIZED_SUCCESSORS
from horizonfree.planning.traced import TIE

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.usefixtures("x64")


def test_it_was_built_and_loads():
    """Where this fails, there was no C compiler when the library was installed."""
    assert library.is_built()
    assert library.build_name() in library.BUILDS
    assert ffi.is_available()


def test_it_has_the_constants_of_the_definitions():
    text = "".join(path.read_text() for path in library.FOLDER.glob("*.h"))
    constants = {name: float(value) for name, value in re.findall(r"#define (\w+) (-?[\d.e-]+)", text)}
    expected = {
        "LEAK": LEAK,
        "RISE": MIN_RELATIVE_RISE,
        "MOVES": NUM_MOVES,
        "TIE": TIE,
        "MAX_SUCCESSORS": MAX_VECTORIZED_SUCCESSORS,
    }
    assert {name: constants[name] for name in expected} == expected
    assert constants["NO_VALUE"] < 0


@pytest.fixture(scope="module")
def build() -> ModuleType:
    """hatch_build.py, without Hatch."""
    name = "hatchling.builders.hooks.plugin.interface"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, SimpleNamespace(BuildHookInterface=object))
        spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


THREEFRY = """
#include "threefry.h"
#define EACH for (int64_t i = 0; i < n; i++) out[i] =
void keys(const uint32_t *k, int64_t n, Key *out) { EACH split((Key){k[0], k[1]}, i); }
void uniforms(const uint32_t *k, int64_t n, double *out) { EACH uniform((Key){k[0], k[1]}, i); }
void integers(const uint32_t *k, int64_t n, uint32_t end, int32_t *out) {
    EACH uniform_below((Key){k[0], k[1]}, i, end);
}
"""


@pytest.fixture(scope="module")
def threefry(build, tmp_path_factory) -> ctypes.CDLL:
    source = tmp_path_factory.mktemp("threefry") / "threefry.c"
    source.write_text(THREEFRY)
    target = source.with_suffix(".so")
    command = [*build.find_compiler(), *build.FLAGS, f"-I{library.FOLDER}", str(source), "-o", str(target)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(target))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_its_random_numbers_are_those_of_jax(threefry, seed):
    key = jax.random.key(seed)
    key_data = np.asarray(jax.random.key_data(key))

    def draw_native(function, out, *arguments):
        n = ctypes.c_int64(len(out))
        function(key_data.ctypes.data_as(ctypes.c_void_p), n, *arguments, out.ctypes.data_as(ctypes.c_void_p))
        return out

    split = np.asarray(jax.random.key_data(jax.random.split(key, 5)))
    np.testing.assert_array_equal(draw_native(threefry.keys, np.empty((5, 2), np.uint32)), split)
    uniform = np.asarray(jax.random.uniform(key, (3, 4), jnp.float64)).ravel()
    np.testing.assert_array_equal(draw_native(threefry.uniforms, np.empty(12)), uniform)
    for A in (1, 3, 1000):
        below = np.asarray(jax.random.randint(key, (30,), 0, A, jnp.int32))
        np.testing.assert_array_equal(
            draw_native(threefry.integers, np.empty(30, np.int32), ctypes.c_uint32(A)), below
        )


NO_LIBRARY = """
import warnings
from pathlib import Path
import numpy as np
from horizonfree.native import library
library.FOLDER = Path("nowhere")
import horizonfree as hf
problem = hf.make("zoned-grid", size=4, zones=2, horizon=5)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for seed in (3, 4):
        run = hf.explore(problem, "hf-ucrl-rfe++", episodes=12, seed=seed, sweeps=8, progress=False)
        goal = run.plan(hf.goal(problem, 15))
        answers = {"eps": run.certificate().eps, "value": goal.value, "gap": goal.gap, "policy": goal.policy}
        np.savez(f"{seed}.npz", **run.records, **answers)
    hf.show_versions()
assert [x.category for x in caught if "native library" in str(x.message)] == [RuntimeWarning], caught
assert library.build_name() is None
"""


def test_without_the_library_results_are_equal_with_one_warning(tmp_path):
    """The same choices, and numbers to rounding, on a grid that H steps do not cross; `show_versions` reports it."""
    done = subprocess.run(
        [sys.executable, "-c", NO_LIBRARY], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "native library  none" in done.stdout
    problem = hf.make("zoned-grid", size=4, zones=2, horizon=5)
    for seed in (3, 4):
        run = hf.explore(problem, "hf-ucrl-rfe++", episodes=12, seed=seed, sweeps=8, progress=False)
        other = np.load(tmp_path / f"{seed}.npz")
        for name, x in run.records.items():
            np.testing.assert_allclose(other[name], x, rtol=1e-9, atol=1e-12, err_msg=name)
        goal = run.plan(hf.goal(problem, 15))
        np.testing.assert_array_equal(other["policy"], goal.policy)
        answers = other["eps"], other["value"], other["gap"]
        np.testing.assert_allclose(answers, (run.certificate().eps, goal.value, goal.gap), rtol=1e-9)


def test_an_old_library_does_not_outlive_its_source(build, tmp_path, capfd):
    """Nor does one stay where there is no compiler, or where the compiler fails."""
    source = tmp_path / "loop.c"
    source.write_text("int horizonfree_cpu_level(void) { return 0; }\n")
    names = {x.name for x in build.compile_all(build.find_compiler(), tmp_path)}
    assert names == {f"native-{name}.so" for name in build.BUILDS}
    assert ctypes.CDLL(str(tmp_path / "native-baseline.so")).horizonfree_cpu_level() == 0
    assert build.compile_all([], tmp_path) == []
    assert not list(tmp_path.glob("*.so"))
    build.compile_all(build.find_compiler(), tmp_path)
    source.write_text("int horizonfree_cpu_level(void) { return }\n")
    assert build.compile_all(build.find_compiler(), tmp_path) == []
    assert not list(tmp_path.glob("*.so"))
    assert "error" in capfd.readouterr().err


def test_without_a_compiler_the_installation_goes_on_and_says_so(build, monkeypatch):
    warnings, data = [], {"artifacts": []}
    monkeypatch.setattr(build, "compile_all", lambda *_: [])
    app = SimpleNamespace(display_warning=warnings.append)
    build.NativeBuildHook.initialize(SimpleNamespace(root=str(ROOT), app=app), "standard", data)
    assert data == {"artifacts": []}
    assert "No C compiler" in warnings[0]


def test_the_compiler_has_no_warnings(build, tmp_path):
    command = [*build.find_compiler(), *build.FLAGS, "-Wall", "-Wextra", "-Werror"]
    sources = sorted(map(str, library.FOLDER.glob("*.c")))
    for flags in build.BUILDS.values():
        done = subprocess.run(
            [*command, *flags, *sources, "-o", str(tmp_path / "x.so")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
