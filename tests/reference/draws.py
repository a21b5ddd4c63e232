"""Random bits of JAX in NumPy: Threefry, as keys are split, folded and read. A key is one number of 64 bits."""

import math

import jax
import numpy as np

TURNS = (13, 15, 26, 6), (17, 29, 16, 24)
WORD = 0xFFFFFFFF
LOW = np.uint64(WORD)
FEW = 8  # numbers that Python computes faster than NumPy


def is_key(dtype):
    return not isinstance(dtype, np.dtype) and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)


def kind(variable):
    """The type of its numbers here."""
    return np.dtype(np.uint64) if is_key(variable.dtype) else variable.dtype


def packed(words):
    """Pairs [..., 2] of 32 bits as one number each."""
    return _joined(*np.moveaxis(np.asarray(words), -1, 0))


def unpacked(keys):
    """And back."""
    return np.stack(_halves(keys), -1)


def _joined(high, low):
    return high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)


def _halves(x):
    return (x >> np.uint64(32)).astype(np.uint32), (x & LOW).astype(np.uint32)


def threefry(k0, k1, x0, x1):
    """Twenty rounds on a pair of 32 bits."""
    keys = k0, k1, k0 ^ k1 ^ np.uint32(0x1BD11BDA)
    x0, x1 = x0 + k0, x1 + k1
    for i in range(5):
        for turn in TURNS[i % 2]:
            x0 = x0 + x1
            x1 = (x1 << np.uint32(turn) | x1 >> np.uint32(32 - turn)) ^ x0
        x0, x1 = x0 + keys[(i + 1) % 3], x1 + keys[(i + 2) % 3] + np.uint32(i + 1)
    return x0, x1


def _one(key, number):
    """The same for one key and one number, by Python's: a tenth of the time."""
    k0, k1, x0, x1 = key >> 32, key & WORD, number >> 32, number & WORD
    keys = k0, k1, k0 ^ k1 ^ 0x1BD11BDA
    x0, x1 = x0 + k0 & WORD, x1 + k1 & WORD
    for i in range(5):
        for turn in TURNS[i % 2]:
            x0 = x0 + x1 & WORD
            x1 = (x1 << turn & WORD | x1 >> 32 - turn) ^ x0
        x0, x1 = x0 + keys[(i + 1) % 3] & WORD, x1 + keys[(i + 2) % 3] + i + 1 & WORD
    return x0 << 32 | x1


def _said(keys, shape):
    """What each key says to 0, 1, 2, ...: numbers of shape [*keys, *shape]."""
    many = math.prod(shape)
    if not keys.ndim and many <= FEW:
        key = int(keys)
        return np.array([_one(key, i) for i in range(many)], np.uint64).reshape(shape)[()]
    number = np.arange(many, dtype=np.uint64).reshape(shape)
    return _joined(*threefry(*_halves(keys.reshape((*keys.shape, *[1] * len(shape)))), *_halves(number)))


def _bits(p):
    shape, width = p["shape"], p["bit_width"]

    def bits(keys):
        found = _said(keys, shape)
        if width == 64:
            return found
        high, low = _halves(found)
        return high ^ low

    return bits if width in (32, 64) else None


def _seeded(p):
    return lambda x: x.astype(np.uint64) & LOW if x.dtype.itemsize <= 4 else x.view(np.uint64)


def _folded(p):
    def folded(keys, number):
        if not keys.ndim and not number.ndim:
            return np.uint64(_one(int(keys), int(number) & WORD))
        both = np.broadcast_arrays(keys, number.astype(np.uint64) & LOW)
        return _joined(*threefry(*_halves(both[0]), *_halves(both[1])))

    return folded


def _split(p):
    shape = p["shape"]
    return lambda keys: _said(keys, shape)


# Functions of the parameters of an operation, which return one of arrays.
DRAWS = {
    "random_bits": _bits,
    "random_fold_in": _folded,
    "random_seed": _seeded,
    "random_split": _split,
    "random_unwrap": lambda p: unpacked,
    "random_wrap": lambda p: packed,
}
