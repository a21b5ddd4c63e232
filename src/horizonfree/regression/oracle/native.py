"""The loops of the oracle, which a C compiler made when the library was installed (loops/, hatch_build.py).

Where it could not, `is_built` says so, and single runs search in JAX as batches do: the same answers, later.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

FOLDER = Path(__file__).parent / "loops"
_SIZE, _NUMBER, _ARRAY = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
_NUMBERS = "value raw upper radius search_value U".split()  # of an answer, as in reply.Reply


class Key(ctypes.Structure):
    """The words of a key of JAX."""

    _fields_ = [("first", ctypes.c_uint32), ("second", ctypes.c_uint32)]


class _Struct(ctypes.Structure):
    """One of loops/tables.h: whole numbers and numbers, then arrays, which it keeps alive."""

    kept: Sequence[np.ndarray]

    def keeping(self, arrays: Sequence[np.ndarray]) -> Any:
        """With the arrays in the fields for them, in their order."""
        places = [field[0] for field in self._fields_ if field[1] is _ARRAY]
        for name, array in zip(places, arrays, strict=True):
            assert array.flags.c_contiguous, name
            setattr(self, name, array.ctypes.data)
        self.kept = arrays
        return self


class Problem(_Struct):
    """N states that can be reached, in T tiles, and G distinct feature matrices."""

    _fields_ = [(name, _SIZE) for name in "H S A N T G n m is_triangle".split()] + [
        (name, _ARRAY) for name in "reach state succ kind initial".split()
    ]

    @classmethod
    def of(cls, sizes: Sequence[int], arrays: Sequence[np.ndarray]) -> "Problem":
        """Both in the order of the fields."""
        found: Problem = cls(*sizes).keeping(arrays)
        return found


class Question(_Struct):
    """What is asked, and the factors of all kinds of pairs."""

    _fields_ = [
        ("key", Key),
        *[(name, _NUMBER) for name in "beta radius".split()],
        *[(name, _SIZE) for name in "chains sweeps".split()],
        *[(name, _ARRAY) for name in "p F F_hat box box_slope".split()],
    ]

    @classmethod
    def of(cls, words: Any, radii: Any, counts: tuple[int, int], factors: Sequence[np.ndarray]) -> "Question":
        """All in the order of the fields."""
        key = Key(*(int(x) for x in words))
        found: Question = cls(key, *(float(x) for x in radii), *counts).keeping(factors)
        return found


class Answer(_Struct):
    """Where to start, which becomes the answer."""

    _fields_ = [
        *[(name, _SIZE) for name in "step sweeps".split()],
        *[(name, _ARRAY) for name in "policy target values".split()],
        *[(name, _NUMBER) for name in _NUMBERS],
    ]

    @classmethod
    def of(cls, step: Any, *arrays: np.ndarray) -> "Answer":
        """policy [H, S], target [S], values [2, H + 1, S]."""
        found: Answer = cls(step=int(step)).keeping(arrays)
        return found


def search(
    problem: Problem, question: Question, answer: Answer
) -> tuple[Int[np.ndarray, "2"], Float[np.ndarray, "6"]]:
    """Writes the answer; returns its counts and numbers in the order of reply.Reply."""
    if library().search(ctypes.byref(problem), ctypes.byref(question), ctypes.byref(answer)):
        raise MemoryError("not enough memory to search for a policy and a reward")
    numbers = [getattr(answer, name) for name in _NUMBERS]
    return np.array([answer.step, answer.sweeps], np.int32), np.array(numbers)


def is_built() -> bool:
    """Whether there was a compiler."""
    return (FOLDER / "search-0.so").exists()


@cache
def library() -> ctypes.CDLL:
    """The loops for the processor that is here."""
    plain = ctypes.CDLL(str(FOLDER / "search-0.so"))
    levels = range(plain.level_here(), -1, -1)
    best = next(path for level in levels if (path := FOLDER / f"search-{level}.so").exists())
    return ctypes.CDLL(str(best))
