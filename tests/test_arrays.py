"""Formulas for NumPy and JAX alike: what the two do differently agrees, and nodes are trees to JAX."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Float

from horizonfree._arrays import (
    Leaf,
    add,
    backward,
    each,
    in_tiles,
    library,
    mapped,
    node,
    put,
    repeat,
    static,
    taken,
)
from horizonfree.models import norms

pytestmark = pytest.mark.usefixtures("x64")
RNG = np.random.default_rng(0)


@node
class Pair:
    """Two arrays and a number."""

    a: Float[Leaf, " n"]
    b: Float[Leaf, "n m"]
    size: int = static()


PAIR = Pair(RNG.random(3), RNG.random((3, 2)), 7)


def both(function, *arrays):
    """The function of NumPy's arrays and of JAX's, compiled."""
    plain, traced = function(*arrays), jax.jit(function)(*map(jnp.asarray, arrays))
    assert all(isinstance(x, (np.ndarray, np.generic)) for x in jax.tree.leaves(plain))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-14, atol=1e-14), plain, traced)
    return plain


def test_the_library_is_jaxs_as_soon_as_one_array_is():
    assert library(np.zeros(1), 1.0) is np
    assert library(np.zeros(1), jnp.zeros(1)) is jnp
    assert jax.jit(lambda x: jnp.asarray(library(x) is jnp))(np.zeros(1))


def test_steps_go_back_from_the_last_to_the_first():
    x, y = RNG.random((4, 3)), np.arange(4)

    def total(x, y):
        return backward(lambda carried, at: (2 * carried + at[0], (carried, at[1])), x[0] * 0, (x, y))

    last, (carried, order) = both(total, x, y)
    np.testing.assert_allclose(last, sum(2.0**h * x[h] for h in range(4)))
    np.testing.assert_array_equal(order, y)
    np.testing.assert_array_equal(carried[-1], 0)
    assert backward(lambda c, at: (c, None), x[0], (x,))[1] is None


@pytest.mark.parametrize("most", [3, 4, 9, 10])
def test_tiles_are_put_together_also_where_the_last_is_not_full(most):
    x, V = RNG.random((10, 2)), RNG.random(10)

    def some(rows):
        x, i = rows
        assert len(x) <= most or isinstance(x, np.ndarray)
        return {"sum": x.sum(1), "both": x * library(x).asarray(V)[i][:, None]}

    found = both(lambda x, i: in_tiles(some, (x, i), most), x, np.arange(10))
    np.testing.assert_allclose(found["both"], x * V[:, None])


def test_places_are_set_and_added_to_and_the_given_array_stays():
    x, where = RNG.random((3, 2)), np.array([0, 2, 0])
    before = x.copy()
    set_there = both(lambda x: put(x, (slice(None), 1), 5.0), x)
    np.testing.assert_array_equal(set_there[:, 1], 5)
    added = both(lambda x: add(x, where, np.ones(2)), x)
    np.testing.assert_allclose(added - x, np.array([2, 0, 1])[:, None] * np.ones(2))
    np.testing.assert_array_equal(x, before)


def test_what_is_taken_is_what_is_there(x64):
    x, s, a = np.arange(12.0).reshape(4, 3), np.array([0, 3, 1]), np.array([2, 0, 1])
    for at, expected in ((s, x[s]), ((s, a), x[s, a]), (2, x[2]), (a[:, None], x[a[:, None]])):
        np.testing.assert_array_equal(taken(x, at), expected)
        traced = jax.tree.map(jnp.asarray, at)
        np.testing.assert_array_equal(taken(jnp.asarray(x), traced), expected)
        np.testing.assert_array_equal(jax.jit(lambda at: taken(x, at))(traced), expected)


def test_functions_are_repeated_and_mapped():
    x = RNG.random((3, 2))
    np.testing.assert_allclose(both(lambda x: repeat(3, lambda y: y / 2, x, x), x), x / 8)
    np.testing.assert_allclose(both(lambda x: each(lambda row: row.sum(), x), x), x.sum(1))


def test_sums_of_products_are_those_of_the_definition():
    p, z, x = RNG.random((5, 2, 4)), RNG.random((5, 2, 4, 3)), RNG.random((5, 2, 4, 2))
    np.testing.assert_allclose(both(norms.mean, p, x), np.einsum("san,sanm->sam", p, x))
    np.testing.assert_allclose(
        both(norms.mean, p, z[..., None]), np.einsum("san,sanqk->saqk", p, z[..., None])
    )
    np.testing.assert_allclose(both(norms.outer, x, z), np.einsum("sanm,sanq->samq", x, z))
    np.testing.assert_allclose(both(norms.length, z), np.linalg.norm(z, axis=-1))


def test_a_node_is_a_tree_of_its_arrays_whose_other_fields_are_its_type():
    leaves, shape = jax.tree.flatten(PAIR)
    assert [x.shape for x in leaves] == [(3,), (3, 2)]
    assert (
        jax.tree.unflatten(shape, ["any", None]).a == "any"
    )  # trees are filled with other things on their way
    paths = [jax.tree_util.keystr(where) for where, _ in jax.tree_util.tree_flatten_with_path(PAIR)[0]]
    assert paths == [".a", ".b"]
    doubled = jax.jit(lambda x: jax.tree.map(lambda y: 2 * y, x))(PAIR)
    assert isinstance(doubled, Pair)
    assert doubled.size == 7
    np.testing.assert_allclose(doubled.b, 2 * PAIR.b)
    assert jax.tree.structure(PAIR) != jax.tree.structure(Pair(PAIR.a, PAIR.b, 8))
    at_first = mapped(lambda x: x[0], Pair(PAIR.a, PAIR.b, np.zeros(1)))
    assert at_first.b.shape == (2,)


def test_a_node_is_frozen():
    with pytest.raises(AttributeError):
        PAIR.size = 8


def test_nodes_that_were_made_before_jax_are_trees_when_it_is_there():
    code = (
        "import sys; from horizonfree.mdp.space import Kernel; assert 'jax' not in sys.modules; import numpy as np\n"
        "kernel = Kernel(np.zeros((2, 1, 2), np.int32), np.ones((2, 1, 2)), False)\n"
        "import horizonfree._x64, jax; print(len(jax.tree.leaves(kernel)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2"


def test_without_jaxtyping_labels_say_the_same_of_what_a_file_holds():
    code = """
import sys, numpy as np
from horizonfree._shapes import Bool, Float
assert "jaxtyping" not in sys.modules
either = Float[np.ndarray, "S A"] | None
fits = lambda x, hint: any(isinstance(x, y) for y in hint.__args__)
for x in (np.ones((2, 3)), None, np.ones(2), np.ones((2, 3), int), 1.0):
    print(fits(x, either))
print(fits(np.ones(2, bool), Bool[np.ndarray, " S"]), fits(np.float64(1), Float[np.ndarray, ""]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "False", "False", "False", "True", "True"]
