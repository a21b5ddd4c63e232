/* Vectors of as many numbers as a register holds (AVX2 or SSE2), with the vector types of GCC and Clang. */

#pragma once
#include <math.h>
#include <stdint.h>

#if defined(__AVX2__)
#define TILE 4
#else
#define TILE 2
#endif
#define INLINE static inline __attribute__((always_inline))

typedef double Tile __attribute__((vector_size(8 * TILE), aligned(8), may_alias));
typedef int64_t Lanes __attribute__((vector_size(8 * TILE), aligned(8), may_alias));
typedef int32_t Words __attribute__((vector_size(4 * TILE), aligned(4), may_alias));

/* The rows or columns of small matrices, in blocks. */
#define ROWS 4
typedef double Row __attribute__((vector_size(8 * ROWS), aligned(8), may_alias));
typedef double Pair __attribute__((vector_size(16), aligned(8), may_alias));

INLINE int64_t blocks(int64_t n) { return (n + ROWS - 1) / ROWS; }
INLINE int64_t tiles(int64_t n) { return (n + TILE - 1) / TILE; }
INLINE double larger(double x, double y) { return x > y ? x : y; }
INLINE double smaller(double x, double y) { return x < y ? x : y; }
INLINE Lanes lane_numbers(void) {
    Lanes numbers;
    for (int k = 0; k < TILE; k++) numbers[k] = k;
    return numbers;
}

INLINE Tile where(Lanes is_x, Tile x, Tile y) { return (Tile)((is_x & (Lanes)x) | (~is_x & (Lanes)y)); }

INLINE Tile at_least(Tile x, double y) {
    for (int k = 0; k < TILE; k++) x[k] = larger(x[k], y);
    return x;
}

INLINE Tile at_most(Tile x, double y) {
    for (int k = 0; k < TILE; k++) x[k] = smaller(x[k], y);
    return x;
}

INLINE Tile largest(Tile x, Tile y) {
    for (int k = 0; k < TILE; k++) x[k] = larger(x[k], y[k]);
    return x;
}

INLINE Tile root(Tile x) {
    for (int k = 0; k < TILE; k++) x[k] = sqrt(x[k]);
    return x;
}
