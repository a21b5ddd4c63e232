/* The arrays of the search of HF-UCRL-RFE++. Letters as in oracle/objective.py.

   States are renumbered by their distance from the start: step h can be in the first reach[h] of them only. Arrays over
   steps and states are flat, with P > N entries per step, P a multiple of TILE; entry N of a step is always 0 and stands
   for successors that no step reaches. Pairs (s,a) with equal feature matrices are of one kind, and share their factors. */

#pragma once
#include <string.h>

#include "arena.h"
#include "vectors.h"

#define TIE 1e-10 /* of planning/backward.py */
#define MAX_SUCCESSORS 8    /* successors of a pair (s,a): MAX_VECTORIZED_SUCCESSORS of oracle/box.py; F has no more rows */

/* The arguments of a call, in the caller's numbering of states. */
typedef struct {
    int64_t H, S, A, n, d, chains, sweeps;
    const int32_t *succ;    /* [S A n] */
    const uint8_t *support; /* [S A n] */
    const double *initial;  /* [S] */
    const double *phi;      /* [S A n d] */
    const double *theta;    /* [d] */
    const double *half[2];  /* [d d] L with Sigma^-1 = L L', of the tilde and of the hat norm */
    double beta, radius;
} Arguments;

/* A search: tables, and the arrays that a sweep writes. */
typedef struct {
    int64_t H, S, A, n, m, N, T, P, G, B;
    int is_triangle; /* nothing is below the diagonals of F */
    int64_t *state;  /* [N] the number of a state in the problem */
    int64_t *reach;  /* [H] */
    double *initial; /* [N] */
    int32_t *succ;   /* [A T n TILE] */
    int32_t *kind;   /* [T TILE A] */

    double *F[2], *box;          /* by kind: [G m n], [G] */
    Row *p, *box_slope;          /* [G B], n padded to B blocks */
    Row *rows[2], *columns[2];   /* [G B ROWS B] F and its transpose, m and n padded */
    Tile *p_tile, *box_tile;     /* by tiles of states: [A T n], [A T] */
    Tile *F_tile[2];             /* [A T m n] */

    double *V[2], *w[2];  /* [(H + 1) P] V and Vhat, and the derivatives of the value by them */
    double *raw;          /* [H P] Vhat before its cap */
    double *gain;         /* [H] */
    Tile *Q, *R, *score;  /* [A] */
} Search;

/* The states that episodes can be in, by distance, and how many each step can reach. Returns their number. */
static int64_t find_states(const Arguments *args, int64_t *state, int64_t *number, int64_t *reach) {
    int64_t N = 0, done = 0;
    for (int64_t s = 0; s < args->S; s++) {
        number[s] = -1;
        if (args->initial[s] > 0) number[s] = N, state[N++] = s;
    }
    for (int64_t h = 0; h < args->H; h++) {
        const int64_t last = reach[h] = N;
        for (; done < last && h < args->H - 1; done++) {
            const int64_t first = state[done] * args->A * args->n;
            for (int64_t i = first; i < first + args->A * args->n; i++) {
                const int64_t after = args->succ[i];
                if (args->support[i] && number[after] < 0) number[after] = N, state[N++] = after;
            }
        }
    }
    return N;
}

static uint64_t hash_of(const double *x, int64_t size) {
    uint64_t hash = 0;
    for (int64_t i = 0; i < size; i++) {
        uint64_t bits;
        memcpy(&bits, x + i, sizeof bits);
        hash = (hash ^ bits) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 32;
    }
    return hash;
}

/* The kind of every pair of N states and A actions, and a pair of each kind. table: [size], a power of two > N A. */
static int64_t find_kinds(const Arguments *args, const int64_t *state, int64_t N, int64_t *table, int64_t size,
                          int64_t *example, int32_t *kind) {
    const int64_t length = args->n * args->d;
    int64_t G = 0;
    for (int64_t i = 0; i < size; i++) table[i] = -1;
    for (int64_t i = 0; i < N * args->A; i++) {
        const int64_t pair = state[i / args->A] * args->A + i % args->A;
        const double *x = args->phi + pair * length;
        int64_t at = (int64_t)(hash_of(x, length) & (uint64_t)(size - 1));
        while (table[at] >= 0 && memcmp(args->phi + example[table[at]] * length, x, (size_t)length * sizeof *x) != 0)
            at = (at + 1) & (size - 1);
        if (table[at] < 0) table[at] = G, example[G++] = pair;
        kind[i] = (int32_t)table[at];
    }
    return G;
}

/* R of a QR factorisation, by Householder reflections: X [d n], d > n, is overwritten and R [n n] written. */
static void triangle(double *X, int64_t d, int64_t n, double *R) {
    for (int64_t j = 0; j < n; j++) {
        double below = 0.0;
        for (int64_t k = j + 1; k < d; k++) below += X[k * n + j] * X[k * n + j];
        if (below > 0) {
            const double x = X[j * n + j], size = sqrt(x * x + below), v = x > 0 ? x + size : x - size;
            const double scale = 2 / (v * v + below);
            for (int64_t i = j + 1; i < n; i++) {
                double along = v * X[j * n + i];
                for (int64_t k = j + 1; k < d; k++) along += X[k * n + j] * X[k * n + i];
                along *= scale;
                X[j * n + i] -= along * v;
                for (int64_t k = j + 1; k < d; k++) X[k * n + i] -= along * X[k * n + j];
            }
            X[j * n + j] = x > 0 ? -size : size;
        }
        for (int64_t i = 0; i < n; i++) R[j * n + i] = i < j ? 0.0 : X[j * n + i];
    }
}

/* max |F f| over f in {0,1}^n, and the slope F'F f / |F f| at the first f that is nearly best; see box.py. */
static double box_max(const double *F, int64_t m, int64_t n, double *slope) {
    double sums[1 << MAX_SUCCESSORS][MAX_SUCCESSORS], squares[1 << MAX_SUCCESSORS] = {0}, top = 0.0;
    int best = 0;
    memset(sums[0], 0, sizeof sums[0]);
    for (int code = 1; code < 1 << n; code++) {
        const int high = 31 - __builtin_clz((unsigned)code); /* the last coordinate of the vertex that is 1 */
        for (int64_t i = 0; i < m; i++) {
            sums[code][i] = sums[code ^ 1 << high][i] + F[i * n + high];
            squares[code] += sums[code][i] * sums[code][i];
        }
        top = larger(top, squares[code]);
    }
    top = sqrt(top);
    while (sqrt(squares[best]) < top - TIE * top) best++;
    for (int64_t j = 0; j < n; j++) {
        slope[j] = 0.0;
        for (int64_t i = 0; i < m; i++) slope[j] += F[i * n + j] * sums[best][i];
        slope[j] /= top > 0 ? top : 1.0;
    }
    return top;
}

/* objective.factors of kind g; X: [d n]. */
static void factor(const Arguments *args, const Search *x, int64_t g, int64_t pair, double *X) {
    const int64_t n = args->n, d = args->d, m = x->m, padded = x->B * ROWS;
    const double *phi = args->phi + pair * n * d;
    double *p = (double *)(x->p + g * x->B);
    for (int64_t j = 0; j < n; j++)
        for (int64_t k = 0; k < d; k++) p[j] += phi[j * d + k] * args->theta[k];
    for (int hat = 0; hat < 2; hat++) {
        double *F = x->F[hat] + g * m * n;
        double *rows = (double *)(x->rows[hat] + g * padded * x->B);
        double *columns = (double *)(x->columns[hat] + g * padded * x->B);
        for (int64_t k = 0; k < d; k++)
            for (int64_t j = 0; j < n; j++) {
                X[k * n + j] = 0.0;
                for (int64_t l = k; l < d; l++) X[k * n + j] += phi[j * d + l] * args->half[hat][l * d + k];
            }
        if (x->is_triangle)
            triangle(X, d, n, F);
        else
            memcpy(F, X, (size_t)(m * n) * sizeof *F);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) rows[i * padded + j] = columns[j * padded + i] = F[i * n + j];
    }
    x->box[g] = box_max(x->F[0] + g * m * n, m, n, (double *)(x->box_slope + g * x->B));
}

/* The factors of the kinds, by tiles of states; successors. */
static void fill_tiles(const Arguments *args, const Search *x, const int64_t *number) {
    const int64_t A = x->A, T = x->T, n = x->n, m = x->m;
    for (int64_t s = 0; s < T * TILE; s++)
        for (int64_t a = 0; a < A; a++) {
            /* the last tile is filled up with repetitions of the first state */
            const int64_t from = s < x->N ? s : 0, g = x->kind[from * A + a], at = a * T + s / TILE, k = s % TILE;
            const int32_t *succ = args->succ + (x->state[from] * A + a) * n;
            x->kind[s * A + a] = (int32_t)g;
            x->box_tile[at][k] = x->box[g];
            for (int64_t j = 0; j < n; j++) {
                x->succ[(at * n + j) * TILE + k] = (int32_t)(number[succ[j]] < 0 ? x->N : number[succ[j]]);
                x->p_tile[at * n + j][k] = ((double *)(x->p + g * x->B))[j];
            }
            for (int hat = 0; hat < 2; hat++)
                for (int64_t i = 0; i < m * n; i++) x->F_tile[hat][at * m * n + i][k] = x->F[hat][g * m * n + i];
        }
}

/* Lays out all arrays in the arena. */
static void lay_out(Search *x, Arena *arena) {
    const int64_t A = x->A, T = x->T, n = x->n, m = x->m, G = x->G, after = (x->H + 1) * x->P;
    x->succ = allocate(arena, A * T * n * TILE, sizeof(int32_t));
    x->p = allocate(arena, G * x->B, sizeof(Row));
    x->box = allocate(arena, G, sizeof(double));
    x->box_slope = allocate(arena, G * x->B, sizeof(Row));
    x->p_tile = allocate(arena, A * T * n, sizeof(Tile));
    x->box_tile = allocate(arena, A * T, sizeof(Tile));
    for (int hat = 0; hat < 2; hat++) {
        x->F[hat] = allocate(arena, G * m * n, sizeof(double));
        x->rows[hat] = allocate(arena, G * x->B * ROWS * x->B, sizeof(Row));
        x->columns[hat] = allocate(arena, G * x->B * ROWS * x->B, sizeof(Row));
        x->F_tile[hat] = allocate(arena, A * T * m * n, sizeof(Tile));
        x->V[hat] = allocate(arena, after, sizeof(double));
        x->w[hat] = allocate(arena, after, sizeof(double));
    }
    x->raw = allocate(arena, after, sizeof(double));
    x->gain = allocate(arena, x->H, sizeof(double));
    x->Q = allocate(arena, A, sizeof(Tile));
    x->R = allocate(arena, A, sizeof(Tile));
    x->score = allocate(arena, A, sizeof(Tile));
}

/* The mean over the start of x, or of min(x, 1). */
static double at_start(const Search *search, const double *x, int is_capped) {
    double total = 0.0;
    for (int64_t s = 0; s < search->reach[0]; s++) total += search->initial[s] * (is_capped ? smaller(x[s], 1.0) : x[s]);
    return total;
}
