"""Calls that do not keep to their annotations fail in tests, whoever makes them."""

from dataclasses import dataclass

import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from jaxtyping import Array, Float, TypeCheckError

from horizonfree.planning.backward import optimal_jax, stationary_jax
from tests import check
from tests.checked import checked
from tests.reference.small import dense


def of(thing):
    return checked(thing, typechecker=check)


@of
def doubled(x: Float[np.ndarray, "n 2"], y: Float[np.ndarray, " n"] | None = None) -> Float[np.ndarray, " n"]:
    return x.sum(1) if y is None else y[:1]


def test_shapes_of_arguments_and_of_results_belong_together():
    assert doubled(np.ones((3, 2))).shape == (3,)
    for given in [(np.ones((3, 3)),), (np.ones((3, 2), int),), (np.ones((3, 2)), np.ones(2)), (3,)]:
        with pytest.raises(TypeCheckError, match="doubled"):
            doubled(*given)
    with pytest.raises(TypeCheckError, match="doubled"):
        doubled(np.ones((3, 2)), np.ones(3))  # returns one number
    with pytest.raises(TypeError, match="argument"):
        doubled()


def test_sizes_may_speak_of_arguments():
    @of
    def ones(n: int, *, check: int = 1) -> Float[np.ndarray, "{n} {check}"]:
        return np.ones((n, 2))

    assert ones(3, check=2).shape == (3, 2)
    with pytest.raises(TypeCheckError):
        ones(3)


def test_functions_that_are_made_again_and_again_are_checked_each_time():
    def made(shift):
        @of
        def moved(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
            return x[shift:]

        return moved

    assert made(0)(np.ones(3)).shape == (3,)
    with pytest.raises(TypeCheckError):
        made(1)(np.ones(3))


def test_classes_with_the_same_fields_are_told_apart():
    @of
    @dataclass
    class Row:
        x: Float[np.ndarray, " n"]

    @of
    @dataclass
    class Table:
        x: Float[np.ndarray, "n m"]

    Row(np.ones(2)), Table(np.ones((2, 2)))
    for kind, x in ((Row, np.ones((2, 2))), (Table, np.ones(2))):
        with pytest.raises(TypeCheckError, match=kind.__name__):
            kind(x)


def test_the_library_is_checked_and_may_be_left_alone(x64):
    kernel = dense().kernel()
    with pytest.raises(TypeCheckError):
        optimal_jax(kernel, np.ones(3))
    policy, _ = stationary_jax(kernel, jnp.zeros((4, 2)), 5)
    assert policy.shape == (5, 4)
    jaxtyping.config.update("jaxtyping_disable", True)
    assert doubled(np.ones((3, 2)), np.ones(3)).shape == (1,)


def test_traced_numbers_may_be_of_either_library():
    @of
    def same(x: Float[Array, " n"]) -> Float[Array, " n"]:
        return x

    assert same(jnp.ones(2)).shape == same(np.ones(2)).shape == (2,)
    with pytest.raises(TypeCheckError):
        same([1.0, 2.0])


def test_what_was_right_once_lets_nothing_else_through():
    @of
    def first(
        rows: list[Float[np.ndarray, " n"]], which: str, *, scale: float = 1.0
    ) -> Float[np.ndarray, " n"]:
        return rows[0] if which == "first" else rows[0][1:]

    two, three = np.ones(2), np.ones(3)
    for _ in range(2):  # the first time and later
        assert first([two, two], "first").shape == (2,)
        assert first([three], "first", scale=2).shape == (3,)
        for given in [([two], "last"), ([three], "last"), (two, "first"), ([two], 1), (["2"], "first")]:
            with pytest.raises(TypeCheckError, match="first"):
                first(*given)
        with pytest.raises(TypeCheckError, match="first"):
            first([two], "first", scale="2")
    with pytest.raises(
        TypeCheckError, match="first"
    ):  # one entry is looked at: in a hundred calls, not always the same
        [first([two, "2"], "first") for _ in range(100)]
