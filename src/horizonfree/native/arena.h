/* One block of memory for all arrays of a call. */

#pragma once
#include <stdint.h>
#include <stdlib.h>

/* Without a base, arrays are only measured: so one function says where they lie and how much memory they take. */
typedef struct {
    char *base;
    size_t used;
} Arena;

static void *taken(Arena *arena, int64_t count, size_t size) {
    void *here = arena->base ? arena->base + arena->used : NULL;
    arena->used += ((size_t)count * size + 63) / 64 * 64;
    return here;
}
