"""The loops in C: their numbers, every level of them, and what happens without. What they find: test_oracle.py."""

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
from horizonfree._x64 import scope, to_device, to_numpy
from horizonfree.explorers import on_host
from horizonfree.planning.backward import TIE
from horizonfree.regression import oracle
from horizonfree.regression.oracle import compiled, native
from horizonfree.regression.oracle.ascent import LEAK, MOVES, RISE
from horizonfree.regression.oracle.box import ENUMERATE
from horizonfree.regression.oracle.objective import factors
from tests.reference.oracle_draws import draw, random_pair

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.usefixtures("x64")


def test_they_were_built():
    """Where this fails, there was no C compiler when the library was installed."""
    assert native.is_built()


def test_they_have_the_constants_of_the_definition():
    text = "".join(path.read_text() for path in native.FOLDER.glob("*.h"))
    found = {name: float(value) for name, value in re.findall(r"#define (\w+) (-?[\d.e-]+)", text)}
    assert found.pop("NOTHING") < 0
    assert found.pop("ROWS") * 2 == compiled.TILE
    expected = {"LEAK": LEAK, "RISE": RISE, "MOVES": MOVES, "TIE": TIE}
    assert found == expected | {"TILE": compiled.TILE, "MOST": ENUMERATE}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_they_draw_the_numbers_of_jax(seed):
    loops, key = native.library(), jax.random.key(seed)
    words = native.Key(*(int(x) for x in jax.random.key_data(key)))
    loops.child.restype, loops.uniform.restype = native.Key, ctypes.c_double
    split = np.asarray(jax.random.key_data(jax.random.split(key, 5)))
    children = [loops.child(words, ctypes.c_uint64(i)) for i in range(5)]
    np.testing.assert_array_equal([(x.first, x.second) for x in children], split)
    drawn = np.asarray(jax.random.uniform(key, (3, 4), jnp.float64)).ravel()
    np.testing.assert_array_equal([loops.uniform(words, ctypes.c_uint64(i)) for i in range(12)], drawn)
    for A in (1, 3, 1000):
        drawn = np.asarray(jax.random.randint(key, (30,), 0, A, jnp.int32))
        found = [loops.below(words, ctypes.c_uint64(i), ctypes.c_uint32(A)) for i in range(30)]
        np.testing.assert_array_equal(found, drawn)


def levels():
    """The libraries that run on this processor."""
    best = ctypes.CDLL(str(native.FOLDER / "search-0.so")).level_here() if native.is_built() else -1
    return [ctypes.CDLL(str(native.FOLDER / f"search-{level}.so")) for level in range(best + 1)]


# (S, A, H, d, n): triangles and full factors of one block and of two, one action and nine, one kernel, two steps
FOREIGN = [(20, 2, 6, 6, 4), (40, 9, 5, 12, 8), (9, 1, 12, 1, 3), (30, 3, 2, 5, 5), (30, 4, 9, 4, 7)]


@pytest.mark.parametrize("sizes", FOREIGN)
def test_every_level_finds_the_same(sizes, monkeypatch):
    rng = np.random.default_rng(5)
    for i in range(6):
        x = draw(rng, sizes)
        (policy, _), H = random_pair(rng, x.problem), x.problem.horizon
        target = rng.uniform(size=x.problem.num_states) < 0.5
        warm = oracle.Point(policy.astype(np.int32), np.array(H - 1, np.int32), target)
        plan = compiled.layout(x.problem.model)
        tables = to_numpy(jax.jit(factors)(*to_device((plan.phi, *x.inputs[1:]))))
        words, found = np.asarray(jax.random.key_data(jax.random.key(i))), []
        for loops in levels():
            monkeypatch.setattr(native, "library", lambda loops=loops: loops)
            found.append(compiled.ascent_here(words, plan, tables, x.beta, 0.7 * x.beta, warm))
        for other, U in found[1:]:
            first, U_first = found[0]
            np.testing.assert_array_equal(other.point.policy, first.point.policy)
            np.testing.assert_array_equal(other.point.target, first.point.target)
            np.testing.assert_allclose(U, U_first, rtol=1e-12)
            for name in ("V", "V_hat", "value", "raw", "upper", "radius", "search_value"):
                np.testing.assert_allclose(getattr(other, name), getattr(first, name), rtol=0, atol=1e-12)


def test_without_them_single_runs_search_in_jax(monkeypatch):
    """The same choices, and numbers to rounding."""
    problem = hf.make("zoned-grid", size=3, zones=2, horizon=5)
    options = dict(explorer="hf-ucrl-rfe++", episodes=12, seed=3, progress=False)
    fast = hf.explore(problem, **options)
    monkeypatch.setattr(native, "FOLDER", Path("nowhere"))
    slow = hf.explore(problem, **options)
    with scope():
        assert on_host.chooser(fast.explorer, problem.model) is None
    for name, x in fast.records.items():
        np.testing.assert_allclose(slow.records[name], x, rtol=1e-9, atol=1e-12, err_msg=name)


def test_too_little_memory_is_said(monkeypatch):
    monkeypatch.setattr(native, "library", lambda: SimpleNamespace(search=lambda *_: 1))
    arrays = np.zeros((2, 3), np.int32), np.zeros(3, bool), np.zeros((2, 3, 3))
    with pytest.raises(MemoryError, match="not enough memory"):
        native.search(native.Problem(), native.Question(), native.Answer.of(1, *arrays))


@pytest.fixture
def build(monkeypatch) -> ModuleType:
    """hatch_build.py, without Hatch."""
    hook = SimpleNamespace(BuildHookInterface=object)
    monkeypatch.setitem(sys.modules, "hatchling.builders.hooks.plugin.interface", hook)
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_old_library_does_not_outlive_its_source(build, tmp_path, capfd):
    """Nor does one stay where there is no compiler, or where the compiler fails."""
    source = tmp_path / "loop.c"
    source.write_text("int level_here(void) { return 0; }\n")
    made = build._compiled(build._compiler(), source)
    assert made
    assert {x.name for x in made} <= {"loop-0.so", "loop-1.so", "loop-2.so"}
    assert ctypes.CDLL(str(made[0])).level_here() == 0
    assert build._compiled([], source) == []
    assert not list(tmp_path.glob("*.so"))
    build._compiled(build._compiler(), source)
    source.write_text("int level_here(void) { return }\n")
    assert build._compiled(build._compiler(), source) == []
    assert not list(tmp_path.glob("*.so"))
    assert "error" in capfd.readouterr().err


def test_without_a_compiler_the_installation_goes_on_and_says_so(build, monkeypatch):
    warned, data = [], {"artifacts": []}
    monkeypatch.setattr(build, "_compiled", lambda *_: [])
    app = SimpleNamespace(display_warning=warned.append)
    build.LoopsBuildHook.initialize(SimpleNamespace(root=str(ROOT), app=app), "standard", data)
    assert data == {"artifacts": []}
    assert "JAX" in warned[0]


def test_the_compiler_has_nothing_to_remark(build, tmp_path):
    command = [*build._compiler(), *build.FLAGS, "-Wall", "-Wextra", "-Wno-psabi", "-Werror"]
    source = native.FOLDER / "search.c"
    done = subprocess.run(
        [*command, str(source), "-o", str(tmp_path / "x.so")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
