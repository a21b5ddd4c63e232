/* The random numbers of JAX: threefry2x32, partitionable, as `_x64.scope` sets it.

   Number i of an array depends on the key and on i alone, so the search draws only the numbers that it uses. To
   draw the numbers of all sweeps in JAX takes longer than the search itself (docs/oracle.md). */

#pragma once
#include <stdint.h>

typedef struct {
    uint32_t first, second;
} Key;

/* jax.random.split(key, n)[i], for any n > i. */
static Key split(Key key, uint64_t i) {
    static const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const uint32_t words[3] = {key.first, key.second, key.first ^ key.second ^ 0x1BD11BDA};
    uint32_t x = (uint32_t)(i >> 32) + words[0], y = (uint32_t)i + words[1];
    for (uint32_t k = 0; k < 5; k++) {
        for (int r = 0; r < 4; r++) {
            const int by = rotations[k % 2][r];
            x += y;
            y = (y << by | y >> (32 - by)) ^ x;
        }
        x += words[(k + 1) % 3];
        y += words[(k + 2) % 3] + k + 1;
    }
    return (Key){x, y};
}

/* jax.random.uniform(key, shape, float64).ravel()[i]. */
static double uniform(Key key, uint64_t i) {
    const Key drawn = split(key, i);
    return (double)(((uint64_t)drawn.first << 32 | drawn.second) >> 12) * 0x1p-52;
}

/* jax.random.randint(key, shape, 0, end, int32).ravel()[i]. */
static int32_t uniform_below(Key key, uint64_t i, uint32_t end) {
    const Key high = split(split(key, 0), i), low = split(split(key, 1), i);
    uint32_t factor = (1u << 16) % end;
    factor = factor * factor % end;
    return (int32_t)(((high.first ^ high.second) % end * factor + (low.first ^ low.second) % end) % end);
}
