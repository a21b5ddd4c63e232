"""Compilation options: those passed to XLA, and the fallback where it does not know one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from horizonfree import _jit
from horizonfree._x64 import to_device, x64

ON_CPU = pytest.mark.skipif(jax.default_backend() != "cpu", reason="the options are for CPUs")


def power(x, exponent):
    return x**exponent


@pytest.mark.parametrize("options", [{}, {"fast_compile": True}, {"seldom_called": True}])
def test_options_do_not_change_results(options):
    x = np.arange(3.0)
    np.testing.assert_array_equal(x64(_jit.jit(power, **options))(x, 2), x**2)


@ON_CPU
def test_only_small_programs_that_are_seldom_called_are_not_optimized(monkeypatch):
    requested = []
    monkeypatch.setattr(_jit, "_supported_options", requested.append)
    monkeypatch.setattr(_jit, "MAX_UNOPTIMIZED_SIZE", 3)
    for options in ({}, {"fast_compile": True}, {"seldom_called": True}):
        square = _jit.jit(power, **options)
        assert [square(jnp.ones(size), 2).size for size in (3, 4)] == [3, 4]
    assert requested == [False, True, False]


@ON_CPU
def test_options_that_xla_does_not_know_are_left_out(monkeypatch):
    supported_options = _jit._supported_options.__wrapped__
    assert supported_options(False) == _jit.FAST_COMPILE
    assert supported_options(True) == _jit.UNOPTIMIZED
    monkeypatch.setattr(_jit, "FAST_COMPILE", {"xla_no_such_option": 1})
    assert supported_options(False) is None


def test_donated_arrays_are_gone_and_the_first_argument_is_not():
    @x64
    def call():
        first, donated = to_device((np.ones(1000), np.ones(1000)))
        total = _jit.jit(lambda x, y: x + y, donate=True)(first, donated)
        return first.is_deleted(), donated.is_deleted(), float(total.sum())

    assert call() == (False, True, 2000.0)
