/* One block of memory for all arrays of a call. */

#pragma once
#include <stdint.h>
#include <stdlib.h>

/* Without a base only the size is counted, so that one function lays out the arrays and measures their memory. */
typedef struct {
    char *base;
    size_t used;
} Arena;

static void *allocate(Arena *arena, int64_t count, size_t size) {
    void *block = arena->base ? arena->base + arena->used : NULL;
    arena->used += ((size_t)count * size + 63) / 64 * 64;
    return block;
}
