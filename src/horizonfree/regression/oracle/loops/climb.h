/* One chain of the ascent; ascent.py says what it does.

   What makes it fast: step h looks only at states that can be reached by then, the first reach[h] in the order of their
   distance from the start; nothing is computed from the step of the reward on, where V_{h+1} = Vhat_{h+1} = 0; all
   actions are looked at in tiles of states, and moves that leave the policy alone look at one action; derivatives are
   taken of moves that are kept; numbers are drawn for kicks that happen; where the best reward is the one that is
   there, a move of the reward alone changes nothing, and one of the policy alone is the move of both, which has failed.
   Draws are JAX's, ties are broken alike, so the answers are those of `ascent` but for rounding, wherever an episode
   can be. */

#include <string.h>

#include "steps.h"

#define RISE 1e-9 /* of ascent.py, as is MOVES */
#define MOVES 3
#define NOTHING -1.0 /* below any value */

/* The positive weights of V at a step, summed. */
static double risen(const double *w, int64_t size) {
    double total = 0.0;
#pragma omp simd reduction(+ : total)
    for (int64_t s = 0; s < size; s++) total += larger(w[2 * s], 0.0);
    return total;
}

/* The step of the best single-step indicator, whose set is written to `target`. */
static int64_t best_reward(const Call *c, uint8_t *target) {
    const Problem *of = c->of;
    double top = 0.0;
    int64_t step = 0;
    for (int64_t h = 0; h < of->H; h++) {
        c->rises[h] = risen(c->w + 2 * h * c->P, of->reach[h]);
        top = larger(top, c->rises[h]);
    }
    while (step < of->H - 1 && c->rises[step] < top - TIE * top) step++;
    for (int64_t s = 0; s < of->N; s++) target[s] = c->w[2 * (step * c->P + s)] > 0;
    return step;
}

/* The random change of ascent._kick, where it can matter; the step is returned. */
static int64_t kick(Key key, const Call *c, int32_t *policy, int64_t step, uint8_t *target) {
    const Problem *of = c->of;
    const Key kinds = child(key, 0), states = child(key, 1), entries = child(key, 2);
    const double of_set = uniform(kinds, 0), of_step = uniform(kinds, 1);
    const double which = uniform(kinds, 2), of_policy = uniform(kinds, 3);
    const double share = 0.15, few = larger(1.5 / of->S, 0.1);
    if (of_set < 0.8)
        for (int64_t s = 0; s < of->N; s++) {
            const double u = uniform(states, of->state[s]);
            if (of_set < 0.5)
                target[s] ^= u < few;
            else
                target[s] = of_set < 0.65 ? !target[s] : u < 0.5;
        }
    if (of_policy < 0.5)
        for (int64_t h = 0; h < of->H; h++)
            for (int64_t s = 0; s < of->reach[h]; s++) {
                const double u = uniform(entries, h * of->S + of->state[s]);
                if (u < share) policy[h * c->P + s] = (int32_t)(u / share * of->A);
            }
    if (of_step < 0.6) return step;
    return of_step < 0.8 ? of->H - 1 : (int64_t)(which * of->H);
}

/* The best point of chain i, in place of where it starts; see ascent._climb. */
static void climb(Key key, const Call *c, double radius, int64_t sweeps, const Points *points, int64_t i, int64_t last) {
    const size_t entries = c->of->H * c->P * sizeof(int32_t), states = c->of->N;
    int32_t *policy = points->policy[i], *now = points->policy[last + 1], *trial = points->policy[last + 2];
    uint8_t *target = points->target[i], *now_target = points->target[last + 1];
    uint8_t *trial_target = points->target[last + 2];
    int64_t step = points->step[i], now_step = step, failures = MOVES;
    double value = NOTHING, best = NOTHING;
    int is_new = 1; /* the best reward is another one */
    for (int64_t sweep = 0; sweep < sweeps; sweep++) {
        const int is_kick = failures == MOVES;
        if (!is_kick && failures != 0 && !is_new) {
            failures++;
            continue;
        }
        memcpy(trial, is_kick ? policy : now, entries);
        memcpy(trial_target, is_kick ? target : now_target, states);
        int64_t trial_step = is_kick ? step : now_step;
        if (is_kick && sweep > 0) trial_step = kick(child(key, sweep), c, trial, trial_step, trial_target);
        if (failures == 0 || failures == 2) {
            trial_step = best_reward(c, trial_target);
            is_new = trial_step != now_step || memcmp(trial_target, now_target, states) != 0;
        }
        const double found = back(c, radius, LEAK, failures <= 1, trial, trial_step, trial_target);
        if (sweep == 0 || found > best + RISE * best) {
            best = found;
            step = trial_step;
            memcpy(policy, trial, entries);
            memcpy(target, trial_target, states);
        }
        failures++;
        if ((is_kick || found > value + RISE * value) && sweep < sweeps - 1) {
            adjoint(c, radius, trial, trial_step);
            value = found;
            now_step = trial_step;
            failures = 0;
            memcpy(now, trial, entries);
            memcpy(now_target, trial_target, states);
        }
    }
    points->value[i] = best;
    points->step[i] = step;
}
