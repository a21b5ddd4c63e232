/* Calls both kernels on many odd shapes, for the sanitizers of test_sanitizers.py. Arrays are exactly as long as needed. */

#include <stdio.h>

#ifdef DESIGN
#include "design.c"
#else
#include "oracle.c"
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

static int32_t *integers(int64_t count, int64_t end) {
    int32_t *x = malloc((size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++) x[i] = (int32_t)below(end);
    return x;
}

#ifdef DESIGN
static void call(int64_t S, int64_t A, int64_t n, int64_t H) {
    const int64_t R = 1 + below(S * A * n);
    int32_t *succ = integers(S * A * n, S), *row_of = integers(S * A * n, R + 1), *policy = integers(H * S, A);
    uint8_t *reachable = malloc((size_t)S);
    for (int64_t s = 0; s < S; s++) reachable[s] = draw() < 0.8;
    double *p = numbers(R), *promise = numbers(R);
    const Design of = {H, S, A, n, R, succ, row_of, reachable, p, promise};
    Room room;
    Arena arena = {NULL, 0};
    place(&of, &room, &arena);
    arena.base = aligned_alloc(64, arena.used);
    arena.used = 0;
    place(&of, &room, &arena);
    find_pairs(&of, &room);
    plan(&of, &room, policy);
    void *all[] = {arena.base, succ, row_of, policy, reachable, p, promise};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}
#else
static void call(int64_t S, int64_t A, int64_t n, int64_t H) {
    const int64_t dims[] = {1, 2, 3, 20}, d = dims[below(4)];
    double *initial = numbers(S), *phi = numbers(S * A * n * d), *theta = numbers(d);
    double *half[2] = {numbers(d * d), numbers(d * d)};
    if (draw() < 0.5) memset(initial, 0, (size_t)S * sizeof *initial);
    initial[below(S)] = 1;
    if (draw() < 0.5) memcpy(phi + (S - 1) * A * n * d, phi, (size_t)(A * n * d) * sizeof *phi); /* equal pairs */
    uint8_t *support = malloc((size_t)(S * A * n)), *target = malloc((size_t)S);
    memset(support, 1, (size_t)(S * A * n));
    for (int64_t s = 0; s < S; s++) target[s] = draw() < 0.5;
    int32_t *succ = integers(S * A * n, S), *policy = integers(H * S, A), step = (int32_t)below(H), sweeps;
    double *V[2] = {numbers((H + 1) * S), numbers((H + 1) * S)}, found[6];
    const double beta = 3 * draw();
    const Arguments of = {
        .H = H, .S = S, .A = A, .n = n, .d = d, .chains = 1 + below(4), .sweeps = 1 + below(12), .succ = succ,
        .support = support, .initial = initial, .phi = phi, .theta = theta, .half = {half[0], half[1]},
        .beta = beta, .radius = beta * draw(),
    };
    const Results results = {policy, &step, &sweeps, target, {V[0], V[1]}, found};
    if (search(&of, (Key){(uint32_t)S, (uint32_t)H}, &results)) exit(2);
    if (step < 0 || step >= H) exit(3);
    for (int64_t i = 0; i < H * S; i++)
        if (policy[i] < 0 || policy[i] >= A) exit(4);
    void *all[] = {initial, phi, theta, half[0], half[1], support, target, succ, policy, V[0], V[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}
#endif

int main(void) {
    for (int64_t n = 1; n <= 8; n++)
        for (int64_t turn = 0; turn < 40; turn++)
            call(turn < 4 ? 1 : 1 + below(40), 1 + below(turn % 3 ? 5 : 1), n, turn % 4 ? 1 + below(9) : 1);
    puts("done");
    return 0;
}
