"""Trees whose arrays lie in a list."""

import pickle

import jax
import numpy as np

from horizonfree._mould import Mould, apart
from horizonfree.explorers.registry import make_explorer


def test_a_tree_comes_back_with_other_arrays():
    tree = {"a": np.arange(3), "b": (make_explorer("hf-ucrl-rfe++", lazy=0.25), None, np.ones(2))}
    mould, arrays = apart(tree)
    assert [x.shape for x in arrays] == [(3,), (2,)]
    back = mould.filled([2 * x for x in arrays])
    assert jax.tree.structure(back) == jax.tree.structure(tree)
    assert back["b"][0].lazy == 0.25
    np.testing.assert_array_equal(back["a"], [0, 2, 4])


def test_moulds_are_equal_if_all_is_but_for_arrays():
    tree = (np.zeros(2), 1, "x")
    mould = Mould(tree)
    for same in (Mould((np.ones(5), 1, "x")), pickle.loads(pickle.dumps(mould))):
        assert same == mould
        assert hash(same) == hash(mould)
    for other in ((np.zeros(2), 1.0, "x"), (np.zeros(2), 1, "y"), (0, 1, "x"), [np.zeros(2), 1, "x"]):
        assert Mould(other) != mould
