/* A whole call of the oracle on a CPU: starts, climbs, a second search if needed, and both bounds.

   ascent.py and bounds.py define what is computed; climb.h says why this is faster. compiled.py calls it, and whoever
   installs the library compiles it (hatch_build.py). */

#include <stdlib.h>

#include "climb.h"

/* What the processor here can run: 2 for vectors of eight numbers, 1 of four, 0 for what all can. */
int level_here(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2")) return 0;
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512cd")
               ? 2
               : 1;
#else
    return 0;
#endif
}

/* bounds.relaxed: its policy is written, U at the start is returned. */
static double relaxed(const Call *c, double beta, int32_t *policy) {
    const Problem *of = c->of;
    const int64_t H = of->H, P = c->P;
    double *U = c->raw, *after = c->w; /* after: 0 and U, for V_{h+1} and Vhat_{h+1} */
    clear(U, of->N + 1);
    clear(after, 2 * (of->N + 1));
    memset(policy + (H - 1) * P, 0, P * sizeof(int32_t));
    for (int64_t h = H - 2; h >= 0; h--) {
        for (int64_t tile = 0; tile < tiles(of->reach[h]); tile++) {
            all_actions(c, tile, after, beta);
            for (int64_t a = 0; a < of->A; a++)
                c->R[a] = at_most(at_most(beta * c->box[a * of->T + tile], 1.0) + c->R[a], 1.0);
            for (int64_t k = 0, s = tile * TILE; k < TILE && s < of->reach[h]; k++, s++) {
                double top = 0.0;
                int32_t a = 0;
                for (int64_t b = 0; b < of->A; b++) top = larger(top, c->R[b][k]);
                while (a < of->A - 1 && c->R[a][k] < top - TIE * top) a++;
                policy[h * P + s] = a;
                U[s] = top;
            }
        }
        for (int64_t s = 0; s < of->N; s++) after[2 * s + 1] = U[s];
    }
    return at_start(of, U, 0);
}

/* max over z in [0, w] of 2 beta |F_hat z| + max(p, 0)'z: all 2^n vertices, one coordinate at a time. */
static Tile most(const Call *c, double beta, int64_t tile, const Tile *w) {
    const int64_t m = c->of->m, n = c->of->n;
    const Tile *F = c->F_hat + tile * m * n, *p = c->p + tile * n;
    Tile y[MOST] = {{0}}, mean = {0}, best = {0};
    for (int code = 1; code < 1 << n; code++) {
        const int j = __builtin_ctz(code); /* differs between the Gray codes of code - 1 and code */
        const Tile step = (code ^ code >> 1) >> j & 1 ? w[j] : -w[j];
        Tile square = {0};
        for (int64_t i = 0; i < m; i++) {
            y[i] += step * F[i * n + j];
            square += y[i] * y[i];
        }
        mean += step * at_least(p[j], 0.0);
        best = largest(2 * beta * root(square) + mean, best);
    }
    return best;
}

/* bounds.upper_bound: W at the start. */
static double upper_bound(const Call *c, double beta) {
    const Problem *of = c->of;
    double *W = c->raw, *after = c->w;
    clear(W, of->N + 1);
    clear(after, of->N + 1);
    for (int64_t h = of->H - 2; h >= 0; h--) {
        for (int64_t tile = 0; tile < tiles(of->reach[h]); tile++) {
            Tile top = {0}, w[MOST];
            for (int64_t a = 0; a < of->A; a++) {
                const int64_t at = a * of->T + tile;
                const Tile stage = at_most(beta * c->box[at], 1.0);
                double least = 1.0;
                top = largest(top, stage);
                for (int k = 0; k < TILE; k++) least = smaller(least, top[k]);
                if (least >= 1) break; /* more changes nothing */
                const uint32_t *succ = of->succ + at * of->n * TILE;
                for (int64_t j = 0; j < of->n; j++)
                    for (int k = 0; k < TILE; k++) w[j][k] = after[succ[j * TILE + k] >> 1];
                top = largest(top, at_most(stage + most(c, beta, at, w), 1.0));
            }
            for (int64_t k = 0, s = tile * TILE; k < TILE && s < of->reach[h]; k++, s++) W[s] = top[k];
        }
        memcpy(after, W, of->N * sizeof(double));
    }
    return at_start(of, W, 0);
}

/* The start of chain i > 0: of the relaxed bound, or drawn; its step is the last. See ascent._starts. */
static void start(Key key, const Call *c, double radius, const Points *points, int64_t i) {
    const Problem *of = c->of;
    points->step[i] = of->H - 1;
    memset(points->target[i], 0, of->N);
    if (i == 1) {
        relaxed(c, radius, points->policy[i]);
        return;
    }
    const Key drawn = child(key, i - 2), of_policy = child(drawn, 0), of_set = child(drawn, 1);
    for (int64_t h = 0; h < of->H; h++)
        for (int64_t s = 0; s < of->reach[h]; s++)
            points->policy[i][h * c->P + s] = below(of_policy, h * of->S + of->state[s], (uint32_t)of->A);
    for (int64_t s = 0; s < of->N; s++) points->target[i][s] = uniform(of_set, of->state[s]) < 0.5;
}

/* All chains from one point, which becomes the best that they find: its step is returned. */
static int64_t search_from(Key key, const Call *c, double radius, int64_t chains, int64_t sweeps, int64_t step,
                           const Points *points) {
    const size_t entries = c->of->H * c->P * sizeof(int32_t), states = c->of->N;
    double best = NOTHING;
    int64_t winner = 0;
    for (int64_t i = 0; i < chains; i++) {
        memcpy(points->policy[i], points->policy[chains], entries);
        memcpy(points->target[i], points->target[chains], states);
        points->step[i] = step;
        if (i > 0) start(child(key, 1), c, radius, points, i);
        climb(child(child(key, 2), i), c, radius, sweeps, points, i, chains);
        best = larger(best, points->value[i]);
    }
    while (winner < chains - 1 && points->value[winner] < best - TIE * best) winner++;
    memcpy(points->policy[chains], points->policy[winner], entries);
    memcpy(points->target[chains], points->target[winner], states);
    return points->step[winner];
}

/* The oracle: the point of the answer, where an episode can be, its values and both bounds. */
static void answer(Call *c, const Question *asked, const Points *points, Answer *found) {
    const Problem *of = c->of;
    const int64_t H = of->H, S = of->S, chains = asked->chains;
    int32_t *policy = points->policy[chains];
    uint8_t *target = points->target[chains];
    for (int64_t s = 0; s < of->N; s++) {
        target[s] = found->target[of->state[s]];
        for (int64_t h = 0; h < H; h++) policy[h * c->P + s] = found->policy[h * S + of->state[s]];
    }
    lay_out(c, asked);
    Key key = asked->key;
    const double beta = asked->beta;
    double radius = smaller(asked->radius, beta);
    found->sweeps = 0;
    for (;;) {
        found->step = search_from(key, c, radius, chains, asked->sweeps, found->step, points);
        found->sweeps += chains * asked->sweeps;
        found->search_value = back(c, radius, 0.0, 0, policy, found->step, target);
        found->raw = back(c, beta, 0.0, 0, policy, found->step, target);
        found->value = at_start(of, c->raw, 1);
        if (found->value >= 1 || radius >= beta) break;
        key = child(key, 0);
        radius = beta;
    }
    found->radius = radius;
    for (int64_t s = 0; s < of->N; s++) {
        const int64_t number = of->state[s];
        found->target[number] = target[s];
        for (int64_t h = 0; h < H; h++) {
            found->policy[h * S + number] = policy[h * c->P + s];
            for (int64_t k = 0; k < 2; k++)
                found->values[(k * (H + 1) + h) * S + number] = c->V[2 * (h * c->P + s) + k];
        }
    }
    found->upper = upper_bound(c, beta);
    found->U = relaxed(c, beta, policy);
}

/* Zeros, at the beginning of a line of the cache; `next` counts what is taken of the room, which may be missing. */
static void *taken(char *room, size_t *next, size_t size) {
    void *here = room ? room + *next : NULL;
    *next += (size + 63) / 64 * 64;
    return here;
}

/* Where everything is in the room; how much that is. */
static size_t furnish(char *room, const Problem *of, const Question *asked, Call *c, Points *points) {
    const size_t A = of->A, T = of->T, n = of->n, m = of->m, M = padded(m), P = of->N / TILE * TILE + TILE;
    const size_t entries = of->H * P, copies = asked->chains + 3, tile = sizeof(Tile);
    size_t next = 0;
    *c = (Call){.of = of, .P = (int64_t)P, .p1 = asked->p, .slope1 = asked->box_slope};
    c->p = taken(room, &next, A * T * n * tile);
    c->F = taken(room, &next, A * T * m * n * tile);
    c->F_hat = taken(room, &next, A * T * m * n * tile);
    c->box = taken(room, &next, A * T * tile);
    c->rows1 = taken(room, &next, of->G * M * padded(n) * 2 * sizeof(double));
    c->columns1 = taken(room, &next, of->G * n * M * 2 * sizeof(double));
    c->Q = taken(room, &next, A * tile);
    c->R = taken(room, &next, A * tile);
    c->score = taken(room, &next, A * tile);
    c->V = taken(room, &next, 2 * (of->H + 1) * P * sizeof(double));
    c->w = taken(room, &next, 2 * (of->H + 1) * P * sizeof(double));
    c->raw = taken(room, &next, entries * sizeof(double));
    c->rises = taken(room, &next, of->H * sizeof(double));
    points->policy = taken(room, &next, copies * sizeof(int32_t *));
    points->target = taken(room, &next, copies * sizeof(uint8_t *));
    points->step = taken(room, &next, asked->chains * sizeof(int64_t));
    points->value = taken(room, &next, asked->chains * sizeof(double));
    for (size_t i = 0; i < copies; i++) {
        void *policy = taken(room, &next, entries * sizeof(int32_t)), *target = taken(room, &next, of->N);
        if (room) points->policy[i] = policy, points->target[i] = target;
    }
    return next;
}

/* The oracle of a single run. Returns 0, or 1 if there is not enough memory. */
int search(const Problem *of, const Question *asked, Answer *found) {
    Call call;
    Points points;
    const size_t size = furnish(NULL, of, asked, &call, &points);
    char *room = aligned_alloc(64, size);
    if (!room) return 1;
    memset(room, 0, size);
    furnish(room, of, asked, &call, &points);
    answer(&call, asked, &points, found);
    free(room);
    return 0;
}
