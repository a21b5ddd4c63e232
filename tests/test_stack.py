"""Room for frames: a loop of calls never asks the system for memory, at whatever depth it is."""

import resource
from concurrent.futures import ThreadPoolExecutor

import pytest

import horizonfree as hf
from horizonfree._stack import ROOM, roomy
from horizonfree.batch.explore import explore_many
from horizonfree.cli import main
from horizonfree.models.certify import confidence
from horizonfree.runs.explore import explore

CALLS = 1_000
DEPTHS = range(300)  # of frames of 100 bytes or more each, in pieces of 16 KiB


def large():
    """Its frame is larger than those of `asked`: at some depth there is room for one of these and for none of it."""


large.__code__ = large.__code__.replace(co_stacksize=50)


def asked(depth):
    """How often the system was asked for memory while a loop at that depth called a function."""
    if depth:
        return asked(depth - 1)
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for _ in range(CALLS):
        large()
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before


def most():
    return max(map(asked, DEPTHS))


def test_whatever_a_roomy_function_calls_finds_room():
    with ThreadPoolExecutor(1) as alone:  # in a thread, since all of these tests have room
        assert alone.submit(roomy(most)).result() < CALLS / 10


def test_it_is_the_function_that_was_given():
    def sums(a, /, b=2, *more, c=3):
        return a, b, more, c

    assert roomy(sums) is sums
    assert sums(1) == (1, 2, (), 3)
    assert sums(1, 5, 6, c=7) == (1, 5, (6,), 7)


@pytest.mark.parametrize("function", [explore, explore_many, confidence, main, hf.__getattr__])
def test_where_most_is_loaded_or_traced_there_is_room(function):
    assert function.__code__.co_stacksize == ROOM
