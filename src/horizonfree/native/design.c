/* The dynamic programme of an optimal design for very many states; models/mixture/design.py defines and calls it.

   Most actions are not computed. From one step to the one before, Q(s,a) grows by P(V_{h+1} - V_{h+2})(s,a). If these
   differences lie in c +- r, all actions grow by the same but for 2 (|c| excess + r (1 + excess + 2 negative)): `excess`, by
   how much rows of P miss a sum of 1, `negative`, what they have below 0 (at states out of reach the parameter may give
   anything). A state whose best action was ahead by more than has come together since has the same best action. */

#include <float.h>

#include "arena.h"
#include "ffi.h"
#include "vectors.h"

#define TIE 1e-10        /* of planning/backward.py */
#define ROUNDING 0x1p-46 /* of a sum of n products, as a share of values: more than it can be */

typedef struct {
    int64_t H, S, A, n, R;
    const int32_t *succ;      /* [S A n] */
    const int32_t *row_of;    /* [S A n] the row of a slot, R where there is none */
    const uint8_t *reachable; /* [S] */
    const double *p, *promise; /* [R] the probability of a row, and the information of one transition */
} Design;

typedef struct {
    double *rows;                   /* [R + 1, 2] p and promise side by side; 0 of no row */
    double *prob, *gain;            /* [S A n], [S A] */
    int32_t *own_succ;              /* [S n] of the greedy actions, side by side, as are the next two */
    double *own_prob, *own_gain;    /* [S n], [S] */
    double *after, *now, *ahead;    /* [S] */
    int64_t *doubtful;              /* [S + 1] */
    int32_t *greedy;                /* [S] */
    double excess, negative;
} Room;

/* Probabilities and gains of all pairs, and how far the rows are from probabilities. */
static void find_pairs(const Design *of, Room *room) {
    for (int64_t r = 0; r < of->R; r++) {
        room->rows[2 * r] = of->p[r];
        room->rows[2 * r + 1] = of->promise[r];
    }
    room->rows[2 * of->R] = room->rows[2 * of->R + 1] = 0.0;
    room->excess = room->negative = 0.0;
    for (int64_t i = 0; i < of->S * of->A; i++) {
        double mass = 0.0, below = 0.0, gain = 0.0;
        for (int64_t k = i * of->n; k < (i + 1) * of->n; k++) {
            const double *row = room->rows + 2 * of->row_of[k];
            room->prob[k] = row[0];
            mass += row[0];
            below -= smaller(row[0], 0.0);
            gain += row[1];
        }
        room->gain[i] = of->reachable[i / of->A] ? gain : 0.0;
        room->excess = larger(room->excess, fabs(mass - 1.0));
        room->negative = larger(room->negative, below);
    }
}

/* Q of pair i. */
INLINE double value(const Design *of, const Room *room, int64_t i) {
    double total = room->gain[i];
    for (int64_t k = i * of->n; k < (i + 1) * of->n; k++) total += room->prob[k] * room->after[of->succ[k]];
    return total;
}

/* All actions of a state: its greedy one, its value, and by how much it is ahead of the others. */
static void look_at_all(const Design *of, Room *room, int64_t s, double closer) {
    const int64_t A = of->A, n = of->n;
    double best = -DBL_MAX, second = -DBL_MAX;
    int64_t action = 0;
    for (int64_t a = 0; a < A; a++) {
        const double Q = value(of, room, s * A + a);
        const int is_better = Q > best;
        second = larger(second, is_better ? best : Q);
        action = is_better ? a : action;
        best = is_better ? Q : best;
    }
    room->now[s] = best;
    room->ahead[s] = A > 1 ? closer + (best - second) : DBL_MAX;
    const double least = best - TIE * fabs(best);
    if (A > 1 && second >= least) /* another one, an earlier one perhaps, is nearly as good */
        for (action = 0; action < A - 1 && value(of, room, s * A + action) < least;) action++;
    if (action == room->greedy[s]) return;
    room->greedy[s] = (int32_t)action;
    room->own_gain[s] = room->gain[s * A + action];
    for (int64_t j = 0; j < n; j++) {
        room->own_succ[s * n + j] = of->succ[(s * A + action) * n + j];
        room->own_prob[s * n + j] = room->prob[(s * A + action) * n + j];
    }
}

/* The greedy policy for the gains, and V_1 (in `after`); what is nearly best counts as equal, and the first is taken.

   ahead: by how much the best action of a state was ahead when all were computed, on the scale of `closer`, which says how
   much may have come together since the last step. All states follow what was greedy; where another action may be by now
   (`doubtful`), all are computed. */
static void plan(const Design *of, Room *room, int32_t *policy) {
    const int64_t S = of->S, n = of->n;
    double closer = 0.0, size = 0.0; /* size: of any value so far */
    for (int64_t i = 0; i < S * of->A; i++) size = larger(size, fabs(room->gain[i]));
    for (int64_t s = 0; s < S; s++) {
        room->after[s] = 0.0;
        room->greedy[s] = -1;
        room->ahead[s] = -DBL_MAX;
    }
    for (int64_t h = of->H - 1; h >= 0; h--) {
        const double enough = closer + 2 * TIE * size;
        int64_t number = 0;
        for (int64_t s = 0; s < S; s++) {
            room->doubtful[number] = s;
            number += !(room->ahead[s] > enough);
        }
        for (int64_t s = 0; s < S && number < S; s++) {
            double total = room->own_gain[s];
            for (int64_t k = s * n; k < (s + 1) * n; k++) total += room->own_prob[k] * room->after[room->own_succ[k]];
            room->now[s] = total;
        }
        for (int64_t i = 0; i < number; i++) look_at_all(of, room, room->doubtful[i], closer);
        double low = DBL_MAX, high = -DBL_MAX;
        for (int64_t s = 0; s < S; s++) {
            low = smaller(low, room->now[s] - room->after[s]);
            high = larger(high, room->now[s] - room->after[s]);
            policy[h * S + s] = room->greedy[s];
        }
        size += larger(fabs(low), fabs(high));
        const double middle = fabs(high + low) / 2, radius = (high - low) / 2;
        closer += 2 * (middle * room->excess + radius * (1 + room->excess + 2 * room->negative)) +
                  ROUNDING * (double)n * size;
        double *swap = room->after;
        room->after = room->now;
        room->now = swap;
    }
}

static void place(const Design *of, Room *room, Arena *arena) {
    const int64_t S = of->S, A = of->A, n = of->n;
    room->rows = taken(arena, 2 * (of->R + 1), sizeof(double));
    room->prob = taken(arena, S * A * n, sizeof(double));
    room->gain = taken(arena, S * A, sizeof(double));
    room->own_succ = taken(arena, S * n, sizeof(int32_t));
    room->own_prob = taken(arena, S * n, sizeof(double));
    room->own_gain = taken(arena, S, sizeof(double));
    room->after = taken(arena, S, sizeof(double));
    room->now = taken(arena, S, sizeof(double));
    room->ahead = taken(arena, S, sizeof(double));
    room->doubtful = taken(arena, S + 1, sizeof(int64_t));
    room->greedy = taken(arena, S, sizeof(int32_t));
}

/* The policy [H, S] and V_1 [S]. */
XLA_FFI_Error *horizonfree_design(XLA_FFI_CallFrame *frame) {
    if (is_version_query(frame)) return NULL;
    enum { SUCC, ROW_OF, REACHABLE, P, PROMISE, COUNT };
    if (frame->args.size != COUNT || frame->rets.size != 2)
        return ffi_error(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "horizonfree_design: other arguments expected");
    const int64_t *lists = ffi_argument(frame, SUCC)->dims;
    const Design of = {
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
    Room room;
    Arena arena = {NULL, 0};
    place(&of, &room, &arena);
    if (!(arena.base = aligned_alloc(64, arena.used)))
        return ffi_error(frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "not enough memory for an optimal design");
    arena.used = 0;
    place(&of, &room, &arena);
    find_pairs(&of, &room);
    plan(&of, &room, policy);
    memcpy(V, room.after, (size_t)of.S * sizeof *V);
    free(arena.base);
    return NULL;
}
