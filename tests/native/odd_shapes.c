/* Calls one kernel on many odd shapes, for the sanitizers of test_sanitizers.py. Arrays are exactly as long as needed. */

#include <stdio.h>

#if defined(DESIGN)
#include "design.c"
#elif defined(ORACLE)
#include "oracle.c"
#elif defined(PLANNING)
#include <stdlib.h>

#include "planning.c"
#elif defined(HINGE)
#include <stdlib.h>

#include "hinge.c"
#elif defined(PENALISED)
#include <stdlib.h>

#include "penalised.c"
#elif defined(CHORD)
#include <stdlib.h>

#include "chord.c"
#endif

static uint64_t state = 1;

static double draw(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) * 0x1p-53;
}

static int64_t below(int64_t end) { return (int64_t)(draw() * (double)end); }

static void *numbers(int64_t count) {
    double *x = malloc((size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++) x[i] = draw();
    return x;
}

#if !defined(PENALISED) && !defined(CHORD)
static int32_t *integers(int64_t count, int64_t end) {
    int32_t *x = malloc((size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++) x[i] = (int32_t)below(end);
    return x;
}
#endif

#if defined(DESIGN)
static void call(int64_t S, int64_t A, int64_t n, int64_t H) {
    const int64_t R = 1 + below(S * A * n);
    int32_t *succ = integers(S * A * n, S), *row_of = integers(S * A * n, R + 1), *policy = integers(H * S, A);
    uint8_t *reachable = malloc((size_t)S);
    for (int64_t s = 0; s < S; s++) reachable[s] = draw() < 0.8;
    double *p = numbers(R), *promise = numbers(R);
    const Design x = {H, S, A, n, R, succ, row_of, reachable, p, promise};
    Workspace work;
    Arena arena = {NULL, 0};
    lay_out(&x, &work, &arena);
    arena.base = aligned_alloc(64, arena.used);
    arena.used = 0;
    lay_out(&x, &work, &arena);
    find_pairs(&x, &work);
    plan(&x, &work, policy);
    void *all[] = {arena.base, succ, row_of, policy, reachable, p, promise};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}
#elif defined(ORACLE)
static void call(int64_t S, int64_t A, int64_t n, int64_t H) {
    if (n > MAX_SUCCESSORS) return;
    const int64_t dims[] = {1, 2, 3, 20}, d = dims[below(4)];
    double *initial = numbers(S), *phi = numbers(S * A * n * d), *theta = numbers(d);
    double *half[2] = {numbers(d * d), numbers(d * d)};
    if (draw() < 0.5) memset(initial, 0, (size_t)S * sizeof *initial); /* else the start is drawn */
    initial[below(S)] = 1;
    if (draw() < 0.5) memcpy(phi + (S - 1) * A * n * d, phi, (size_t)(A * n * d) * sizeof *phi); /* equal pairs */
    uint8_t *support = malloc((size_t)(S * A * n)), *target = malloc((size_t)S);
    memset(support, 1, (size_t)(S * A * n));
    for (int64_t s = 0; s < S; s++) target[s] = draw() < 0.5;
    int32_t *succ = integers(S * A * n, S), *policy = integers(H * S, A), step = (int32_t)below(H), sweeps;
    double *V[2] = {numbers((H + 1) * S), numbers((H + 1) * S)}, values[6];
    const double beta = 3 * draw();
    const Arguments args = {
        .H = H, .S = S, .A = A, .n = n, .d = d, .chains = 1 + below(4), .sweeps = 1 + below(12), .succ = succ,
        .support = support, .initial = initial, .phi = phi, .theta = theta, .half = {half[0], half[1]},
        .beta = beta, .radius = beta * draw(),
    };
    const Results results = {policy, &step, &sweeps, target, {V[0], V[1]}, values};
    if (search(&args, (Key){(uint32_t)S, (uint32_t)H}, &results)) exit(2);
    if (step < 0 || step >= H) exit(3);
    for (int64_t i = 0; i < H * S; i++)
        if (policy[i] < 0 || policy[i] >= A) exit(4);
    void *all[] = {initial, phi, theta, half[0], half[1], support, target, succ, policy, V[0], V[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}
#elif defined(PLANNING)
/* All three kernels, with one and all rows of rewards, values and actions. */
static void call(int64_t S, int64_t A, int64_t n, int64_t H) {
    for (int is_dense = 0; is_dense < 2; is_dense++)
        for (int turn = 0; turn < 4; turn++) {
            const int64_t N = is_dense ? S : n, rows = turn & 1 ? H : 1, B = LANES;
            const int64_t V_rows = turn & 2 ? H + 1 : 2, policy_rows = turn & 2 ? H : 1;
            int32_t *succ = integers(S * A * N, S), *policy = integers(B * policy_rows * S, A);
            double *prob = numbers(S * A * N), *reward = numbers(B * rows * S * A), *V = numbers(B * V_rows * S);
            const Problem x = {S, A, N, rows, V_rows, policy_rows, 1e-12, is_dense ? NULL : (uint32_t *)succ,
                               prob, reward, V, policy};
            double *scratch = numbers(is_dense ? 3 * S * A + S : TILE * A);
            int64_t *list = malloc((size_t)(S * A + 1) * sizeof *list);
            memset(V + H % V_rows * S, 0, (size_t)S * sizeof *V);
            const int64_t nonfinite = is_dense ? horizonfree_plan_dense(&x, H, scratch, list)
                                               : horizonfree_plan_sparse(&x, 0, H, 0, S, scratch);
            for (int64_t b = 0; b < B; b++) memset(V + (b * V_rows + H % V_rows) * S, 0, (size_t)S * sizeof *V);
            double *values = aligned_alloc(64, (size_t)(2 * S * LANES) * sizeof *values);
            double *q = aligned_alloc(64, (size_t)(TILE * A * LANES) * sizeof *q);
            if (nonfinite || horizonfree_plan_block(&x, H, values, q)) exit(2);
            for (int64_t i = 0; i < B * policy_rows * S; i++)
                if (policy[i] < 0 || policy[i] >= A) exit(3);
            void *all[] = {succ, policy, prob, reward, V, scratch, list, values, q};
            for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
        }
}
#elif defined(HINGE)
static void call(int64_t S, int64_t A, int64_t n, int64_t H) {
    const int64_t N = 2 + below(20), R = 1 + below(S * A * n);
    int32_t *succ = integers(S * A * n, S), *row_of = integers(S * A * n, R);
    double *prob = numbers(S * A * n), *charge = numbers(S * A), *initial = numbers(S), *y = numbers(N);
    double *logs = numbers(R), *J = numbers(N), *scratch = numbers(S * A * n + (2 * S + 2) * N);
    uint8_t *stop = malloc((size_t)(S * A)), *occupied = malloc((size_t)(H * S));
    for (int64_t i = 0; i < S * A; i++) stop[i] = draw() < 0.2;
    for (int64_t i = 0; i < H * S; i++) occupied[i] = draw() < 0.8;
    for (int64_t i = 0; i < N; i++) y[i] = (double)i - (double)(N - 1) / 2;
    for (int64_t i = 0; i < R; i++) logs[i] = 1e3 * (logs[i] - 0.5); /* shifts far beyond the grid */
    const Hinge x = {S, A, n, H, N, succ, row_of, prob, charge, stop, occupied, initial, y};
    horizonfree_hinge(&x, logs, J, scratch);
    void *all[] = {succ, row_of, prob, charge, initial, y, logs, J, scratch, stop, occupied};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}
#elif defined(PENALISED)
static void call(int64_t S, int64_t A, int64_t n, int64_t H) {
    const int64_t X = S, m = 1 + below(A), most = 2 * n + below(8 * H);
    double *F = numbers(X * m * n), *p = numbers(X * n), *out = numbers(X), *scratch = numbers(4 * most * n + m + n);
    horizonfree_penalised(X, m, n, F, p, 3 * draw(), 0.01, 1e-15, most, out, scratch);
    for (int64_t i = 0; i < X; i++)
        if (!(out[i] >= 0)) exit(2);
    void *all[] = {F, p, out, scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}
#elif defined(CHORD)
static double next(void *generator) {
    (void)generator;
    return draw();
}

static void call(int64_t C, int64_t A, int64_t n, int64_t H) {
    const int64_t m = n * A - 1; /* also none */
    double *p = numbers(C * m), *dp = numbers(C * m), *e = numbers(m), *least = numbers(C);
    double *low = numbers(C), *high = numbers(C), *t = numbers(C), *now = numbers(C);
    int64_t *pending = malloc((size_t)C * sizeof *pending);
    for (int64_t c = 0; c < C; c++) low[c] = -low[c], t[c] = 0;
    const Chords x = {C, m, H, 1e-300, p, dp, e, least, low, high, t, now, pending};
    horizonfree_chords(&x, next, NULL);
    for (int64_t c = 0; c < C; c++)
        if (!(-1 <= low[c] && low[c] <= t[c] && t[c] <= high[c] && high[c] <= 1)) exit(2);
    void *all[] = {p, dp, e, least, low, high, t, now, pending};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}
#endif

int main(void) {
    for (int64_t n = 1; n <= 9; n++)
        for (int64_t turn = 0; turn < 40; turn++)
            call(turn < 4 ? 1 : 1 + below(40), 1 + below(turn % 3 ? 5 : 1), n, turn % 4 ? 1 + below(9) : 1);
    puts("done");
    return 0;
}
