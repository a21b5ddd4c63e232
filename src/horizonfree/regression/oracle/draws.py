"""Random numbers of JAX inside loops that Numba compiles: threefry2x32, partitionable, as `_x64.scope` sets it.

Number i of an array depends on the key and on i alone, so that any of them can be drawn without the others. A key is a
pair of whole numbers of 32 bits, kept in 64. Numba's cache on disk does not notice changes of this file: after editing
it, remove the caches (*.nbi, *.nbc).
"""

import numpy as np
from numba import njit

LOW = np.uint64(0xFFFFFFFF)
PARITY = np.uint64(0x1BD11BDA)
ROTATIONS = np.array([[13, 15, 26, 6], [17, 29, 16, 24]], np.uint64)
WORD = np.uint64(32)
FIRST, SECOND, THIRD, FOURTH = np.arange(
    4
)  # counters; Numba would compile every function anew for each literal number


@njit
def _hash(key, i):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Two words from a key and a counter."""
    ks = (key[0], key[1], key[0] ^ key[1] ^ PARITY)
    x, y = ((np.uint64(i) >> WORD) + ks[0]) & LOW, ((np.uint64(i) & LOW) + ks[1]) & LOW
    for k in range(5):
        for r in ROTATIONS[k % 2]:
            x = (x + y) & LOW
            y = (((y << r) | (y >> (WORD - r))) & LOW) ^ x
        x, y = (x + ks[(k + 1) % 3]) & LOW, (y + ks[(k + 2) % 3] + np.uint64(k + 1)) & LOW
    return x, y


@njit
def child(key, i):  # type: ignore[no-untyped-def]  # pragma: no cover
    """jax.random.split(key, n)[i], for any n > i."""
    return _hash(key, i)


@njit
def uniform(key, i):  # type: ignore[no-untyped-def]  # pragma: no cover
    """jax.random.uniform(key, shape, float64).ravel()[i]."""
    high, low = _hash(key, i)
    return np.float64(((high << WORD) | low) >> np.uint64(12)) * 2.0**-52


@njit
def below(key, i, end):  # type: ignore[no-untyped-def]  # pragma: no cover
    """jax.random.randint(key, shape, 0, end, int32).ravel()[i]."""
    higher, lower = _hash(child(key, FIRST), i), _hash(child(key, SECOND), i)
    span = np.uint64(end)
    factor = np.uint64(2**16) % span
    factor = ((factor * factor) & LOW) % span
    offset = (((higher[0] ^ higher[1]) % span) * factor & LOW) + (lower[0] ^ lower[1]) % span
    return np.int32((offset & LOW) % span)
