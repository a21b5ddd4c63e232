/* One chain of the ascent; oracle/ascent.py defines it.

   It is faster because step h looks only at the states that it can reach; nothing is computed from the step of the reward
   on, where V_{h+1} = Vhat_{h+1} = 0; moves that leave the policy alone look at one action; derivatives are taken only of
   moves that are kept; random numbers are drawn only for kicks that happen; where the best reward is the present one, a
   move of the reward alone changes nothing, and one of the policy alone is the move of both, which has failed. */

#pragma once
#include "oracle_sweeps.h"
#include "threefry.h"

#define RISE 1e-9 /* of ascent.py, as is MOVES */
#define MOVES 3
#define NO_VALUE -1.0 /* below any value */

/* A policy [H P], a step, and a set of states [N]. */
typedef struct {
    int32_t *policy;
    uint8_t *target;
    int64_t step;
    double value;
} Point;

static void copy(const Search *x, Point *to, const Point *from) {
    memcpy(to->policy, from->policy, (size_t)(x->H * x->P) * sizeof(int32_t));
    memcpy(to->target, from->target, (size_t)x->N);
    to->step = from->step;
}

/* The best single-step indicator, into `point`. */
static void best_reward(const Search *x, Point *point) {
    double top = 0.0;
    int64_t step = 0;
    for (int64_t h = 0; h < x->H; h++) {
        const double *w = x->w[0] + h * x->P;
        double total = 0.0;
#pragma omp simd reduction(+ : total)
        for (int64_t s = 0; s < x->reach[h]; s++) total += larger(w[s], 0.0);
        x->gain[h] = total;
        top = larger(top, total);
    }
    while (step < x->H - 1 && x->gain[step] < top - TIE * top) step++;
    for (int64_t s = 0; s < x->N; s++) point->target[s] = x->w[0][step * x->P + s] > 0;
    point->step = step;
}

/* The random change of ascent._kick, at states that can be reached. */
static void kick(Key key, const Search *x, Point *point) {
    const Key kinds = split(key, 0), states = split(key, 1), entries = split(key, 2);
    const double of_set = uniform(kinds, 0), of_step = uniform(kinds, 1);
    const double which = uniform(kinds, 2), of_policy = uniform(kinds, 3);
    const double share = 0.15, few = larger(1.5 / (double)x->S, 0.1);
    if (of_set < 0.8)
        for (int64_t s = 0; s < x->N; s++) {
            const double u = uniform(states, (uint64_t)x->state[s]);
            if (of_set < 0.5)
                point->target[s] ^= u < few;
            else
                point->target[s] = of_set < 0.65 ? !point->target[s] : u < 0.5;
        }
    if (of_policy < 0.5)
        for (int64_t h = 0; h < x->H; h++)
            for (int64_t s = 0; s < x->reach[h]; s++) {
                const double u = uniform(entries, (uint64_t)(h * x->S + x->state[s]));
                if (u < share) point->policy[h * x->P + s] = (int32_t)(u / share * (double)x->A);
            }
    if (of_step >= 0.6) point->step = of_step < 0.8 ? x->H - 1 : (int64_t)(which * (double)x->H);
}

/* The best point that a chain finds, in place of its start; see ascent._climb. */
static void climb(Key key, const Search *x, double radius, int64_t sweeps, Point *best, Point *now, Point *trial) {
    int64_t failures = MOVES;
    int is_new = 1; /* the best reward is not the present one */
    best->value = now->value = NO_VALUE;
    for (int64_t sweep = 0; sweep < sweeps; sweep++) {
        const int is_kick = failures == MOVES;
        if (!is_kick && failures != 0 && !is_new) {
            failures++;
            continue;
        }
        copy(x, trial, is_kick ? best : now);
        if (is_kick && sweep > 0) kick(split(key, (uint64_t)sweep), x, trial);
        if (failures == 0 || failures == 2) {
            best_reward(x, trial);
            is_new = trial->step != now->step || memcmp(trial->target, now->target, (size_t)x->N) != 0;
        }
        trial->value = back(x, radius, LEAK, failures <= 1, trial->policy, trial->step, trial->target);
        if (sweep == 0 || trial->value > best->value + RISE * best->value) {
            copy(x, best, trial);
            best->value = trial->value;
        }
        failures++;
        if ((is_kick || trial->value > now->value + RISE * now->value) && sweep < sweeps - 1) {
            adjoint(x, radius, trial->policy, trial->step);
            copy(x, now, trial);
            now->value = trial->value;
            failures = 0;
        }
    }
}
