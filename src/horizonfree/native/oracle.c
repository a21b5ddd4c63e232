/* A call of the oracle of HF-UCRL-RFE++ on a CPU: starts, climbs, a second search if needed, and both bounds.

   oracle/ascent.py and oracle/result.py define it, oracle/search.py calls it. At steps and states where no
   episode can be, the policy stays what it was, and V and Vhat are 0. */

#include "ffi.h"
#include "oracle_climb.h"

/* bounds.relaxed: its policy is written, U at the start is returned. */
static double relaxed(const Search *x, double beta, int32_t *policy) {
    const int64_t H = x->H, P = x->P;
    double *U = x->raw, *after = x->w[1], *zero = x->w[0];
    memset(U, 0, (size_t)P * sizeof *U);
    memset(after, 0, (size_t)P * sizeof *after);
    memset(zero, 0, (size_t)P * sizeof *zero);
    memset(policy + (H - 1) * P, 0, (size_t)P * sizeof *policy);
    for (int64_t h = H - 2; h >= 0; h--) {
        for (int64_t tile = 0; tile < tiles(x->reach[h]); tile++) {
            all_actions(x, tile, zero, after, beta);
            for (int64_t a = 0; a < x->A; a++)
                x->R[a] = at_most(at_most(beta * x->box_tile[a * x->T + tile], 1.0) + x->R[a], 1.0);
            for (int64_t k = 0, s = tile * TILE; k < TILE && s < x->reach[h]; k++, s++) {
                double top = 0.0;
                int32_t a = 0;
                for (int64_t b = 0; b < x->A; b++) top = larger(top, x->R[b][k]);
                while (a < x->A - 1 && x->R[a][k] < top - TIE * top) a++;
                policy[h * P + s] = a;
                U[s] = top;
            }
        }
        memcpy(after, U, (size_t)x->N * sizeof *U);
    }
    return at_start(x, U, 0);
}

/* max over z in [0, w] of 2 beta |F_hat z| + max(p, 0)'z: all 2^n vertices, one coordinate at a time. */
static Tile box_optimism(const Search *x, double beta, int64_t at, const Tile *w) {
    const int64_t m = x->m, n = x->n;
    const Tile *F = x->F_tile[1] + at * m * n, *p = x->p_tile + at * n;
    Tile y[MAX_SUCCESSORS] = {{0}}, mean = {0}, best = {0};
    for (int code = 1; code < 1 << n; code++) {
        const int j = __builtin_ctz((unsigned)code); /* differs between the Gray codes of code - 1 and code */
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
static double upper_bound(const Search *x, double beta) {
    double *W = x->raw, *after = x->w[0];
    memset(W, 0, (size_t)x->P * sizeof *W);
    memset(after, 0, (size_t)x->P * sizeof *after);
    for (int64_t h = x->H - 2; h >= 0; h--) {
        for (int64_t tile = 0; tile < tiles(x->reach[h]); tile++) {
            Tile top = {0}, w[MAX_SUCCESSORS];
            for (int64_t a = 0; a < x->A; a++) {
                const int64_t at = a * x->T + tile;
                const Tile stage = at_most(beta * x->box_tile[at], 1.0);
                double least = 1.0;
                top = largest(top, stage);
                for (int k = 0; k < TILE; k++) least = smaller(least, top[k]);
                if (least >= 1) break; /* more changes nothing */
                for (int64_t j = 0; j < x->n; j++) w[j] = gather(after, x->succ + (at * x->n + j) * TILE);
                top = largest(top, at_most(stage + box_optimism(x, beta, at, w), 1.0));
            }
            for (int64_t k = 0, s = tile * TILE; k < TILE && s < x->reach[h]; k++, s++) W[s] = top[k];
        }
        memcpy(after, W, (size_t)x->N * sizeof *W);
    }
    return at_start(x, W, 0);
}

/* The start of chain i > 0: of the relaxed bound, or drawn; see ascent._starts. */
static void start(Key key, const Search *x, double radius, int64_t i, Point *point) {
    point->step = x->H - 1;
    memset(point->target, 0, (size_t)x->N);
    if (i == 1) {
        relaxed(x, radius, point->policy);
        return;
    }
    const Key drawn = split(key, (uint64_t)(i - 2)), of_policy = split(drawn, 0), of_set = split(drawn, 1);
    for (int64_t h = 0; h < x->H; h++)
        for (int64_t s = 0; s < x->reach[h]; s++)
            point->policy[h * x->P + s] =
                uniform_below(of_policy, (uint64_t)(h * x->S + x->state[s]), (uint32_t)x->A);
    for (int64_t s = 0; s < x->N; s++) point->target[s] = uniform(of_set, (uint64_t)x->state[s]) < 0.5;
}

/* All chains from `warm`, which becomes the best that they find. `points`: memory for each chain and two more. */
static void search_from(Key key, const Search *x, double radius, int64_t chains, int64_t sweeps, Point *warm,
                        Point *points) {
    double best = NO_VALUE;
    int64_t winner = 0;
    for (int64_t i = 0; i < chains; i++) {
        copy(x, points + i, warm);
        if (i > 0) start(split(key, 1), x, radius, i, points + i);
        climb(split(split(key, 2), (uint64_t)i), x, radius, sweeps, points + i, points + chains, points + chains + 1);
        best = larger(best, points[i].value);
    }
    while (winner < chains - 1 && points[winner].value < best - TIE * best) winner++;
    copy(x, warm, points + winner);
}

/* The results of a call, in the caller's numbering of states. */
typedef struct {
    int32_t *policy, *step, *sweeps; /* [H S], [], [] */
    uint8_t *target;                 /* [S] */
    double *V[2];                    /* [H + 1, S] */
    double *numbers;                 /* value, raw, upper, radius, search_value, U */
} Results;

static void answer(const Arguments *args, const Search *x, Key key, Point *points, const Results *results) {
    const int64_t chains = args->chains;
    const double beta = args->beta;
    double radius = smaller(args->radius, beta), search_value, raw, value;
    Point *warm = points + chains + 2;
    warm->step = *results->step;
    for (int64_t s = 0; s < x->N; s++) {
        warm->target[s] = results->target[x->state[s]];
        for (int64_t h = 0; h < x->H; h++) warm->policy[h * x->P + s] = results->policy[h * x->S + x->state[s]];
    }
    *results->sweeps = 0;
    for (;;) {
        search_from(key, x, radius, chains, args->sweeps, warm, points);
        *results->sweeps += (int32_t)(chains * args->sweeps);
        search_value = back(x, radius, 0.0, 0, warm->policy, warm->step, warm->target);
        raw = back(x, beta, 0.0, 0, warm->policy, warm->step, warm->target);
        value = at_start(x, x->raw, 1);
        if (value >= 1 - TIE || radius >= beta) break;
        key = split(key, 0);
        radius = beta;
    }
    *results->step = (int32_t)warm->step;
    for (int hat = 0; hat < 2; hat++) memset(results->V[hat], 0, (size_t)((x->H + 1) * x->S) * sizeof(double));
    for (int64_t s = 0; s < x->N; s++) {
        const int64_t number = x->state[s];
        results->target[number] = warm->target[s];
        for (int64_t h = 0; h < x->H; h++) {
            results->policy[h * x->S + number] = warm->policy[h * x->P + s];
            for (int hat = 0; hat < 2; hat++) results->V[hat][h * x->S + number] = x->V[hat][h * x->P + s];
        }
    }
    const double numbers[] = {value, raw, upper_bound(x, beta), radius, search_value, relaxed(x, beta, warm->policy)};
    memcpy(results->numbers, numbers, sizeof numbers);
}

/* The oracle. Returns 0, or 1 if there is not enough memory. policy, step and target hold the start of the search. */
static int search(const Arguments *args, Key key, const Results *results) {
    const int64_t S = args->S, A = args->A, n = args->n, chains = args->chains;
    Search x = {.H = args->H, .S = S, .A = A, .n = n, 
                .m = args->d < n ? args->d : n, .B = blocks(n), .is_triangle = n < args->d};
    int64_t size = 1;
    while (size <= S * A) size *= 2;

    Arena first = {NULL, 0}, second = {NULL, 0};
    int64_t *number = NULL, *table = NULL, *example = NULL;
    for (int pass = 0; pass < 2; pass++) {
        first.used = 0;
        x.state = allocate(&first, S, sizeof(int64_t));
        x.reach = allocate(&first, x.H, sizeof(int64_t));
        x.kind = allocate(&first, (S + TILE) * A, sizeof(int32_t));
        number = allocate(&first, S, sizeof(int64_t));
        table = allocate(&first, size, sizeof(int64_t));
        example = allocate(&first, S * A, sizeof(int64_t));
        if (pass == 0 && !(first.base = aligned_alloc(64, first.used))) return 1;
    }
    x.N = find_states(args, x.state, number, x.reach);
    x.T = tiles(x.N);
    x.P = x.N / TILE * TILE + TILE;
    x.G = find_kinds(args, x.state, x.N, table, size, example, x.kind);

    Point *points = NULL;
    double *X = NULL;
    for (int pass = 0; pass < 2; pass++) {
        second.used = 0;
        lay_out(&x, &second);
        X = allocate(&second, args->d * n, sizeof(double));
        x.initial = allocate(&second, x.N, sizeof(double));
        points = allocate(&second, chains + 3, sizeof(Point));
        for (int64_t i = 0; i < chains + 3; i++) {
            int32_t *policy = allocate(&second, x.H * x.P, sizeof(int32_t));
            uint8_t *target = allocate(&second, x.N, 1);
            if (points) points[i] = (Point){policy, target, 0, 0.0};
        }
        if (pass == 0 && !(second.base = aligned_alloc(64, second.used))) {
            free(first.base);
            return 1;
        }
        if (pass == 0) memset(second.base, 0, second.used);
    }
    for (int64_t s = 0; s < x.N; s++) x.initial[s] = args->initial[x.state[s]];
    for (int64_t g = 0; g < x.G; g++) factor(args, &x, g, example[g], X);
    fill_tiles(args, &x, number);
    answer(args, &x, key, points, results);
    free(second.base);
    free(first.base);
    return 0;
}

/* The call of oracle/search.py. */
XLA_FFI_Error *horizonfree_oracle(XLA_FFI_CallFrame *frame) {
    if (is_version_query(frame)) return NULL;
    enum { SUCC, SUPPORT, INITIAL, PHI, THETA, HALF_TILDE, HALF_HAT, KEY, RADII, POLICY, STEP, TARGET, COUNT };
    if (frame->args.size != COUNT || frame->rets.size != 7 || ffi_argument(frame, PHI)->dims[2] > MAX_SUCCESSORS)
        return ffi_error(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "horizonfree_oracle: other arguments expected");
    const void *in[COUNT];
    for (int i = 0; i < COUNT; i++) in[i] = ffi_argument(frame, i)->data;
    const int64_t *sizes = ffi_argument(frame, PHI)->dims; /* S, A, n, d */
    const double *radii = in[RADII];
    const uint32_t *key = in[KEY];
    const Arguments args = {
        .H = ffi_argument(frame, POLICY)->dims[0],
        .S = sizes[0],
        .A = sizes[1],
        .n = sizes[2],
        .d = sizes[3],
        .chains = ffi_attribute(frame, "chains"),
        .sweeps = ffi_attribute(frame, "sweeps"),
        .succ = in[SUCC],
        .support = in[SUPPORT],
        .initial = in[INITIAL],
        .phi = in[PHI],
        .theta = in[THETA],
        .half = {in[HALF_TILDE], in[HALF_HAT]},
        .beta = radii[0],
        .radius = radii[1],
    };
    const Results results = {
        .policy = ffi_result(frame, 0),
        .step = ffi_result(frame, 1),
        .target = ffi_result(frame, 2),
        .V = {ffi_result(frame, 3), ffi_result(frame, 4)},
        .numbers = ffi_result(frame, 5),
        .sweeps = ffi_result(frame, 6),
    };
    memcpy(results.policy, in[POLICY], (size_t)(args.H * args.S) * sizeof(int32_t));
    memcpy(results.step, in[STEP], sizeof(int32_t));
    memcpy(results.target, in[TARGET], (size_t)args.S);
    if (search(&args, (Key){key[0], key[1]}, &results))
        return ffi_error(frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "not enough memory to search for a policy");
    return NULL;
}
