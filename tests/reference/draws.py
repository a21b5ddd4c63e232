"""Random bits of JAX in NumPy: Threefry, as keys are split, folded and read. A key is one number of 64 bits."""

import jax
import numpy as np

TURNS = (13, 15, 26, 6), (17, 29, 16, 24)
LOW = np.uint64(0xFFFFFFFF)


def is_key(dtype):
    return jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)


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


def _numbered(keys, shape):
    """What each key says to 0, 1, 2, ...: pairs of shape [*keys, *shape]."""
    number = np.arange(np.prod(shape, dtype=int), dtype=np.uint64).reshape(shape)
    return threefry(*_halves(keys.reshape((*keys.shape, *[1] * len(shape)))), *_halves(number))


def _bits(given, p):
    high, low = _numbered(given[0], p["shape"])
    return _joined(high, low) if p["bit_width"] == 64 else high ^ low if p["bit_width"] == 32 else None


def _seeded(given, p):
    x = given[0]
    return x.astype(np.uint64) & LOW if x.dtype.itemsize <= 4 else x.view(np.uint64)


def _folded(given, p):
    keys, number = np.broadcast_arrays(given[0], given[1].astype(np.uint64) & LOW)
    return _joined(*threefry(*_halves(keys), *_halves(number)))


DRAWS = {
    "random_bits": _bits,
    "random_fold_in": _folded,
    "random_seed": _seeded,
    "random_split": lambda given, p: _joined(*_numbered(given[0], p["shape"])),
    "random_unwrap": lambda given, p: unpacked(given[0]),
    "random_wrap": lambda given, p: packed(given[0]),
}
