/* The dynamic program of an optimal design for many states; models/mixture/learner.py defines and calls it.

   Most actions are not computed. From step h + 1 to step h, Q(s,a) grows by P(V_{h+1} - V_{h+2})(s,a). If these differences
   lie in c +- r, the difference of two actions changes by at most 2 (|c| excess + r (1 + excess + 2 negative)), where
   `excess` bounds |sum of a row of P - 1|, and `negative` the negative mass of a row (for unreachable states the parameter may
   give anything). A state whose best action leads by more than these changes has the same best action. */

#include <float.h>

#include "arena.h"
#include "ffi.h"
#include "vectors.h"

#define TIE 1e-10        /* of planning/backward.py */
#define ROUNDING 0x1p-46 /* bound of the rounding error of a sum of n products, divided by n and the size of values */

typedef struct {
    int64_t H, S, A, n, R;
    const int32_t *succ;      /* [S A n] */
    const int32_t *row_of;    /* [S A n] the row of a slot, R where there is none */
    const uint8_t *reachable; /* [S] */
    const double *p, *promise; /* [R] the probability of a row, and the information of one transition */
} Design;

typedef struct {
    double *rows;                   /* [R + 1, 2] p and promise side by side; 0 for no row */
    double *prob, *gain;            /* [S A n], [S A] */
    int32_t *own_succ;              /* [S n] of the greedy actions, side by side, as are the next two */
    double *own_prob, *own_gain;    /* [S n], [S] */
    double *after, *now, *lead;    /* [S] */
    int64_t *open;              /* [S + 1] */
    int32_t *greedy;                /* [S] */
    double excess, negative;
} Workspace;

/* Probabilities and gains of all pairs, and the errors of rows that are not exactly distributions. */
static void find_pairs(const Design *x, Workspace *work) {
    for (int64_t r = 0; r < x->R; r++) {
        work->rows[2 * r] = x->p[r];
        work->rows[2 * r + 1] = x->promise[r];
    }
    work->rows[2 * x->R] = work->rows[2 * x->R + 1] = 0.0;
    work->excess = work->negative = 0.0;
    for (int64_t i = 0; i < x->S * x->A; i++) {
        double mass = 0.0, below = 0.0, gain = 0.0;
        for (int64_t k = i * x->n; k < (i + 1) * x->n; k++) {
            const double *row = work->rows + 2 * x->row_of[k];
            work->prob[k] = row[0];
            mass += row[0];
            below -= smaller(row[0], 0.0);
            gain += row[1];
        }
        work->gain[i] = x->reachable[i / x->A] ? gain : 0.0;
        work->excess = larger(work->excess, fabs(mass - 1.0));
        work->negative = larger(work->negative, below);
    }
}

/* Q of pair i. */
INLINE double value(const Design *x, const Workspace *work, int64_t i) {
    double total = work->gain[i];
    for (int64_t k = i * x->n; k < (i + 1) * x->n; k++) total += work->prob[k] * work->after[x->succ[k]];
    return total;
}

/* All actions of a state: its greedy action, its value, and its lead over the other actions. */
static void compute_all_actions(const Design *x, Workspace *work, int64_t s, double change) {
    const int64_t A = x->A, n = x->n;
    double best = -DBL_MAX, second = -DBL_MAX;
    int64_t action = 0;
    for (int64_t a = 0; a < A; a++) {
        const double Q = value(x, work, s * A + a);
        const int is_better = Q > best;
        second = larger(second, is_better ? best : Q);
        action = is_better ? a : action;
        best = is_better ? Q : best;
    }
    work->now[s] = best;
    work->lead[s] = A > 1 ? change + (best - second) : DBL_MAX;
    const double least = best - TIE * fabs(best);
    if (A > 1 && second >= least) /* an earlier action may be tied with it */
        for (action = 0; action < A - 1 && value(x, work, s * A + action) < least;) action++;
    if (action == work->greedy[s]) return;
    work->greedy[s] = (int32_t)action;
    work->own_gain[s] = work->gain[s * A + action];
    for (int64_t j = 0; j < n; j++) {
        work->own_succ[s * n + j] = x->succ[(s * A + action) * n + j];
        work->own_prob[s * n + j] = work->prob[(s * A + action) * n + j];
    }
}

/* The greedy policy for the gains, and V_1 (in `after`). Actions within a relative difference TIE are tied; the first wins.

   lead: the lead of the best action when all actions of a state were computed, plus `change` at that step; `change` bounds
   the changes of all differences since the last step. A state whose lead exceeds `change` keeps its greedy action; for the
   others (`open`) all actions are computed. */
static void plan(const Design *x, Workspace *work, int32_t *policy) {
    const int64_t S = x->S, n = x->n;
    double change = 0.0, size = 0.0; /* size: the largest absolute value so far */
    for (int64_t i = 0; i < S * x->A; i++) size = larger(size, fabs(work->gain[i]));
    for (int64_t s = 0; s < S; s++) {
        work->after[s] = 0.0;
        work->greedy[s] = -1;
        work->lead[s] = -DBL_MAX;
    }
    for (int64_t h = x->H - 1; h >= 0; h--) {
        const double margin = change + 2 * TIE * size;
        int64_t number = 0;
        for (int64_t s = 0; s < S; s++) {
            work->open[number] = s;
            number += !(work->lead[s] > margin);
        }
        for (int64_t s = 0; s < S && number < S; s++) {
            double total = work->own_gain[s];
            for (int64_t k = s * n; k < (s + 1) * n; k++) total += work->own_prob[k] * work->after[work->own_succ[k]];
            work->now[s] = total;
        }
        for (int64_t i = 0; i < number; i++) compute_all_actions(x, work, work->open[i], change);
        double low = DBL_MAX, high = -DBL_MAX;
        for (int64_t s = 0; s < S; s++) {
            low = smaller(low, work->now[s] - work->after[s]);
            high = larger(high, work->now[s] - work->after[s]);
            policy[h * S + s] = work->greedy[s];
        }
        size += larger(fabs(low), fabs(high));
        const double middle = fabs(high + low) / 2, radius = (high - low) / 2;
        change += 2 * (middle * work->excess + radius * (1 + work->excess + 2 * work->negative)) +
                  ROUNDING * (double)n * size;
        double *swap = work->after;
        work->after = work->now;
        work->now = swap;
    }
}

static void lay_out(const Design *x, Workspace *work, Arena *arena) {
    const int64_t S = x->S, A = x->A, n = x->n;
    work->rows = allocate(arena, 2 * (x->R + 1), sizeof(double));
    work->prob = allocate(arena, S * A * n, sizeof(double));
    work->gain = allocate(arena, S * A, sizeof(double));
    work->own_succ = allocate(arena, S * n, sizeof(int32_t));
    work->own_prob = allocate(arena, S * n, sizeof(double));
    work->own_gain = allocate(arena, S, sizeof(double));
    work->after = allocate(arena, S, sizeof(double));
    work->now = allocate(arena, S, sizeof(double));
    work->lead = allocate(arena, S, sizeof(double));
    work->open = allocate(arena, S + 1, sizeof(int64_t));
    work->greedy = allocate(arena, S, sizeof(int32_t));
}

/* The policy [H, S] and V_1 [S]. */
XLA_FFI_Error *horizonfree_design(XLA_FFI_CallFrame *frame) {
    if (is_version_query(frame)) return NULL;
    enum { SUCC, ROW_OF, REACHABLE, P, PROMISE, COUNT };
    if (frame->args.size != COUNT || frame->rets.size != 2)
        return ffi_error(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "horizonfree_design: other arguments expected");
    const int64_t *lists = ffi_argument(frame, SUCC)->dims;
    const Design x = {
        .H = ((XLA_FFI_Buffer *)frame->rets.rets[0])->dims[0],
        .S = lists[0],
        .A = lists[1],
        .n = lists[2],
        .R = ffi_argument(frame, P)->dims[0],
        .succ = ffi_argument(frame, SUCC)->data,
        .row_of = ffi_argument(frame, ROW_OF)->data,
        .reachable = ffi_argument(frame, REACHABLE)->data,
        .p = ffi_argument(frame, P)->data,
        .promise = ffi_argument(frame, PROMISE)->data,
    };
    int32_t *policy = ffi_result(frame, 0);
    double *V = ffi_result(frame, 1);
    Workspace work;
    Arena arena = {NULL, 0};
    lay_out(&x, &work, &arena);
    if (!(arena.base = aligned_alloc(64, arena.used)))
        return ffi_error(frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "not margin memory for an optimal design");
    arena.used = 0;
    lay_out(&x, &work, &arena);
    find_pairs(&x, &work);
    plan(&x, &work, policy);
    memcpy(V, work.after, (size_t)x.S * sizeof *V);
    free(arena.base);
    return NULL;
}
