/* Numbers side by side in the registers, by the vectors of GCC and Clang. */

#include <math.h>
#include <stdint.h>

#define TILE 8 /* states of a tile */
#define ROWS 4 /* of a block of a matrix, whose rows and columns are padded to multiples */
#define MOST 8 /* successors of a pair (s,a); matrices have no more rows */
#define INLINE static inline __attribute__((always_inline))

typedef double Tile __attribute__((vector_size(8 * TILE), aligned(8)));
typedef int64_t Lanes __attribute__((vector_size(8 * TILE), aligned(8)));
typedef int32_t Words __attribute__((vector_size(4 * TILE), aligned(4)));
typedef double Pair __attribute__((vector_size(16), aligned(8)));
typedef double Half __attribute__((vector_size(8 * ROWS), aligned(8)));
typedef Tile Block; /* the pairs of ROWS rows */

INLINE int64_t padded(int64_t m) { return (m + ROWS - 1) / ROWS * ROWS; }
INLINE int64_t tiles(int64_t n) { return (n + TILE - 1) / TILE; }

INLINE double larger(double x, double y) { return x > y ? x : y; }
INLINE double smaller(double x, double y) { return x < y ? x : y; }

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

/* A pair again and again. */
INLINE Block repeated(Pair x) {
    const Half twice = __builtin_shufflevector(x, x, 0, 1, 0, 1);
    return __builtin_shufflevector(twice, twice, 0, 1, 2, 3, 0, 1, 2, 3);
}

/* Pair i of a block again and again. */
INLINE Block repeated_of(Block x, int64_t i) {
    switch (i) {
    case 0:
        return __builtin_shufflevector(x, x, 0, 1, 0, 1, 0, 1, 0, 1);
    case 1:
        return __builtin_shufflevector(x, x, 2, 3, 2, 3, 2, 3, 2, 3);
    case 2:
        return __builtin_shufflevector(x, x, 4, 5, 4, 5, 4, 5, 4, 5);
    default:
        return __builtin_shufflevector(x, x, 6, 7, 6, 7, 6, 7, 6, 7);
    }
}

/* The roots of the two sums of every other number. */
INLINE Pair roots(Block squares) {
    const Half four = __builtin_shufflevector(squares, squares, 0, 1, 2, 3) +
                      __builtin_shufflevector(squares, squares, 4, 5, 6, 7);
    const Pair two = __builtin_shufflevector(four, four, 0, 1) + __builtin_shufflevector(four, four, 2, 3);
    return (Pair){sqrt(two[0]), sqrt(two[1])};
}
