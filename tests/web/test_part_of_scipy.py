"""The part of SciPy that the playground in the browser has, against SciPy, and what the playground imports."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy

import horizonfree as hf

from .client import assert_close

PLACE = Path(__file__).parents[2] / "playground" / "python" / "scipy"
# Modules that the browser does not have.
MISSING = ("jax", "jaxlib", "equinox", "typer", "rich", "matplotlib", "starlette", "gymnasium")


@pytest.fixture(scope="module")
def part():
    """Under another name, beside SciPy."""
    spec = importlib.util.spec_from_file_location(
        "part_of_scipy", PLACE / "__init__.py", submodule_search_locations=[str(PLACE)]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["part_of_scipy"] = module
    spec.loader.exec_module(module)
    yield module
    for name in [name for name in sys.modules if name.split(".")[0] == "part_of_scipy"]:
        del sys.modules[name]


@pytest.mark.parametrize("size", [1, 2, 7, 30])
def test_linear_algebra(part, size):
    random = np.random.default_rng(size)
    a = random.normal(size=(size, size))
    a, b = a @ a.T + np.eye(size), random.normal(size=size)
    factor = np.linalg.cholesky(a)
    for name, arguments in {
        "solve_triangular": (factor, np.diag(np.abs(b))),
        "eigvalsh": (np.outer(b, b), a),
    }.items():
        options = {"lower": True} if name == "solve_triangular" else {}
        actual = getattr(part.linalg, name)(*arguments, **options)
        np.testing.assert_allclose(
            actual, getattr(scipy.linalg, name)(*arguments, **options), rtol=1e-9, atol=1e-12
        )
    solution = part.linalg.cho_solve(part.linalg.cho_factor(a), b)
    np.testing.assert_allclose(solution, scipy.linalg.cho_solve(scipy.linalg.cho_factor(a), b), rtol=1e-9)
    with pytest.raises(np.linalg.LinAlgError):
        part.linalg.cho_factor(-a)


def test_gamma(part):
    x = np.r_[np.geomspace(1e-6, 1e9, 500), 0.5, 1, 2].reshape(-1, 1)
    np.testing.assert_allclose(part.special.gammaln(x), scipy.special.gammaln(x), rtol=1e-13, atol=1e-13)
    assert part.special.gammaln(np.zeros((0, 3)) + 1).shape == (0, 3)


@pytest.mark.parametrize("edges", [0, 1, 5, 40, 200])
@pytest.mark.parametrize("limit", [0, 1, 3, 50])
def test_distances(part, edges, limit):
    random = np.random.default_rng(edges)
    nodes = 30
    ends = random.integers(nodes, size=(2, edges))
    indices = np.array([0, 7, 29])
    graph = scipy.sparse.coo_array((np.ones(edges), ends), (nodes, nodes)).tocsr()
    graph.data[:] = 1.0
    other = part.sparse.coo_array((np.ones(edges), ends), (nodes, nodes)).tocsr()
    other.data[:] = 1.0
    expected = scipy.sparse.csgraph.dijkstra(graph, indices=indices, unweighted=True, limit=limit)
    actual = part.sparse.csgraph.dijkstra(other, indices=indices, unweighted=True, limit=limit)
    np.testing.assert_array_equal(actual, expected)


def test_sparse_matrices(part):
    parts = np.array([0.5, 0.5, 1.0]), np.array([1, 2, 0]), np.array([0, 2, 2, 3])
    row, column = part.sparse.csr_array(parts, shape=(3, 3)).tocoo().coords
    dense = np.zeros((3, 3))
    dense[row, column] = parts[0]
    np.testing.assert_array_equal(dense, scipy.sparse.csr_array(parts, shape=(3, 3)).toarray())
    assert part.sparse.issparse(part.sparse.csr_array(parts, shape=(3, 3)))
    assert not part.sparse.issparse(dense)


def test_linear_programmes_are_refused(part):
    with pytest.raises(hf.errors.RunError, match="horizonfree serve"):
        part.optimize.linprog(np.ones(2))


@pytest.mark.parametrize("is_tabular", [False, True])
def test_the_playground_needs_no_jax(tmp_path, is_tabular):
    """A process that has none of what the browser lacks answers all questions, with SciPy's part, as this one does."""
    from horizonfree.web.session import Session

    problem = hf.make("zoned-grid", size=3, zones=2, horizon=5)
    run = hf.explore(problem.as_tabular() if is_tabular else problem, episodes=60, progress=False)
    run.save(tmp_path / "run")
    question = {"weights": [[8, 1.0], [4, -0.25]], "when": "along", "step": 1, "seed": 3}
    session = Session(run)
    expected = {"problem": session.problem(), "plan": session.plan(question)}
    code = f"""
import importlib.abc, json, sys
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {MISSING}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
sys.path.insert(0, {str(PLACE.parent)!r})
import scipy
assert scipy.__file__.startswith({str(PLACE)!r})
import horizonfree as hf
from horizonfree.web.session import Session
session = Session(hf.load({str(tmp_path / "run")!r}))
print(json.dumps({{"problem": session.problem(), "plan": session.plan({question!r})}}))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert_close(json.loads(result.stdout), json.loads(json.dumps(expected)))
