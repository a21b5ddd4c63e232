"""Formulas for NumPy and JAX alike: what the two do differently agrees, and nodes are trees to JAX."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Float

from horizonfree._arrays import Leaf, node, static
from horizonfree.models import base
from horizonfree.planning.traced import take

pytestmark = pytest.mark.usefixtures("x64")
RNG = np.random.default_rng(0)


@node
class Pair:
    """Two arrays and a number."""

    a: Float[Leaf, " n"]
    b: Float[Leaf, "n m"]
    size: int = static()


PAIR = Pair(RNG.random(3), RNG.random((3, 2)), 7)


def test_taking_is_indexing(x64):
    x, s, a = np.arange(12.0).reshape(4, 3), np.array([0, 3, 1]), np.array([2, 0, 1])
    for index, expected in ((s, x[s]), ((s, a), x[s, a]), (2, x[2]), (a[:, None], x[a[:, None]])):
        traced = jax.tree.map(jnp.asarray, index)
        np.testing.assert_array_equal(take(jnp.asarray(x), traced), expected)
        np.testing.assert_array_equal(jax.jit(lambda index: take(x, index))(traced), expected)


def test_lengths_are_those_of_the_definition():
    z = RNG.random((5, 2, 4, 3))
    np.testing.assert_allclose(base.length(z), np.linalg.norm(z, axis=-1))


def test_a_node_is_a_tree_of_its_arrays_whose_other_fields_are_its_type():
    leaves, shape = jax.tree.flatten(PAIR)
    assert [x.shape for x in leaves] == [(3,), (3, 2)]
    assert (
        jax.tree.unflatten(shape, ["any", None]).a == "any"
    )  # trees are filled with other things on their way
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(PAIR)[0]]
    assert paths == [".a", ".b"]
    doubled_pair = jax.jit(lambda x: jax.tree.map(lambda y: 2 * y, x))(PAIR)
    assert isinstance(doubled_pair, Pair)
    assert doubled_pair.size == 7
    np.testing.assert_allclose(doubled_pair.b, 2 * PAIR.b)
    assert jax.tree.structure(PAIR) != jax.tree.structure(Pair(PAIR.a, PAIR.b, 8))


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
