/* Steps back and derivatives; see oracle/objective.py. */

#pragma once
#include "oracle_problem.h"

#define LEAK 0.01 /* of ascent.py */

INLINE double cap(double x, double leak) { return smaller(x, 1.0) + leak * larger(x - 1.0, 0.0); }

INLINE Tile caps(Tile x) {
    for (int k = 0; k < TILE; k++) x[k] = cap(x[k], LEAK);
    return x;
}

/* ---- All actions, a tile of states side by side. ---- */

INLINE Tile gather(const double *x, const int32_t *succ) {
    Tile found;
    for (int k = 0; k < TILE; k++) found[k] = x[succ[k]];
    return found;
}

/* |F v|; below the diagonal of a triangle nothing is looked at. */
INLINE Tile norm(const Tile *F, const Tile *v, int64_t m, int64_t n, int is_triangle) {
    Tile total = {0};
    for (int64_t i = 0; i < m; i++) {
        Tile y = {0};
        for (int64_t j = is_triangle ? i : 0; j < n; j++) y += F[i * n + j] * v[j];
        total += y * y;
    }
    return root(total);
}

/* Q = V_h without its reward, R = Vhat_h before its cap, of one action; V, V_hat: those of step h + 1. */
INLINE void step_back(const Search *x, int64_t at, const double *V, const double *V_hat, double beta, Tile *Q, Tile *R,
                      const int64_t m, const int64_t n, const int is_triangle) {
    const int32_t *succ = x->succ + at * n * TILE;
    const Tile *p = x->p_tile + at * n;
    Tile v[MAX_SUCCESSORS], z[MAX_SUCCESSORS], mean = {0}, mean_hat = {0};
    for (int64_t j = 0; j < n; j++) {
        v[j] = gather(V, succ + j * TILE);
        z[j] = gather(V_hat, succ + j * TILE);
        mean += p[j] * v[j];
        mean_hat += p[j] * z[j];
    }
    const Tile u = caps(beta * norm(x->F_tile[0] + at * m * n, v, m, n, is_triangle));
    const Tile hat = norm(x->F_tile[1] + at * m * n, z, m, n, is_triangle);
    *Q = at_most(at_least(mean, 0.0), 1.0);
    *R = at_least(u + (2 * beta * hat + mean_hat), 0.0);
}

/* All actions in a tile of states. Grids have four successors: with constant sizes whole runs are 1.1 times as fast. */
static void all_actions(const Search *x, int64_t tile, const double *V, const double *V_hat, double beta) {
    for (int64_t a = 0; a < x->A; a++) {
        const int64_t at = a * x->T + tile;
        if (x->n == 4 && x->is_triangle)
            step_back(x, at, V, V_hat, beta, x->Q + a, x->R + a, 4, 4, 1);
        else
            step_back(x, at, V, V_hat, beta, x->Q + a, x->R + a, x->m, x->n, x->is_triangle);
    }
}

/* The best action of each of the first `left` states of a tile, and its values; see objective.sweep_back.

   The score is w_hat Vhat + w V, or Vhat where both weights vanish. The action that is there stays on ties, else the
   first of the best is taken. */
INLINE void choose(const Search *x, Tile w, Tile w_hat, int64_t left, Words *policy, Tile *V, Tile *V_hat, Tile *raw) {
    const Lanes is_none = (w == 0.0) & (w_hat == 0.0), is_out = lane_numbers() >= left;
    Tile top = {0}, size;
    for (int64_t a = 0; a < x->A; a++) {
        const Tile hat = caps(x->R[a]);
        x->score[a] = where(is_none, hat, w_hat * hat + w * x->Q[a]);
        top = a ? largest(x->score[a], top) : x->score[a];
    }
    for (int k = 0; k < TILE; k++) size[k] = fabs(top[k]);
    const Tile least = top - TIE * size;
    const Lanes old = __builtin_convertvector(*policy, Lanes);
    Lanes best = {0}, is_found = {0}, is_kept = is_out;
    for (int64_t a = 0; a < x->A; a++) {
        const Lanes is_good = x->score[a] >= least;
        best |= is_good & ~is_found & a;
        is_found |= is_good;
        is_kept |= is_good & (old == a);
    }
    const Lanes chosen = (is_kept & old) | (~is_kept & best);
    *policy = __builtin_convertvector(chosen, Words);
    *V = *raw = (Tile){0};
    for (int64_t a = 0; a < x->A; a++) {
        const Lanes is_it = (chosen == a) & ~is_out;
        *V = where(is_it, x->Q[a], *V);
        *raw = where(is_it, x->R[a], *raw);
    }
    *V_hat = caps(*raw);
}

/* One step back, and the best action for the weighted values. */
static void improve(const Search *x, int64_t h, double beta, int32_t *policy) {
    const int64_t P = x->P;
    for (int64_t tile = 0; tile < tiles(x->reach[h]); tile++) {
        const int64_t at = h * P + tile * TILE;
        all_actions(x, tile, x->V[0] + (h + 1) * P, x->V[1] + (h + 1) * P, beta);
        choose(x, *(Tile *)(x->w[0] + at), *(Tile *)(x->w[1] + at), x->reach[h] - tile * TILE, (Words *)(policy + at),
               (Tile *)(x->V[0] + at), (Tile *)(x->V[1] + at), (Tile *)(x->raw + at));
    }
}

/* ---- One action per state. ---- */

/* y = F v, by columns; |y|^2 is returned. */
INLINE double product(const Row *columns, const double *v, Row *y, const int64_t B) {
    Row squares = {0};
    for (int64_t b = 0; b < B; b++) {
        y[b] = (Row){0};
        for (int64_t j = 0; j < B * ROWS; j++) y[b] += columns[j * B + b] * v[j];
        squares += y[b] * y[b];
    }
    return (squares[0] + squares[1]) + (squares[2] + squares[3]);
}

/* F'y, by rows. */
INLINE void transposed_product(const Row *rows, const Row *y, Row *found, const int64_t B) {
    for (int64_t b = 0; b < B; b++) {
        found[b] = (Row){0};
        for (int64_t i = 0; i < B * ROWS; i++) found[b] += rows[i * B + b] * y[i / ROWS][i % ROWS];
    }
}

/* The norms whose squares these are, at the same time. */
INLINE Pair roots(double x, double y) { return (Pair){sqrt(x), sqrt(y)}; }

/* Successors of a pair, TILE apart. */
INLINE const int32_t *successors(const Search *x, int64_t s, int64_t a) {
    return x->succ + (a * x->T + s / TILE) * x->n * TILE + s % TILE;
}

/* One step back under the policy. */
INLINE void follow(const Search *x, int64_t h, double beta, double leak, const int32_t *policy, const int64_t B) {
    const int64_t n = x->n, P = x->P, size = B * ROWS * B;
    const double *V = x->V[0] + (h + 1) * P, *V_hat = x->V[1] + (h + 1) * P;
    for (int64_t s = 0; s < x->reach[h]; s++) {
        const int64_t at = h * P + s, a = policy[at], kind = x->kind[s * x->A + a];
        const int32_t *succ = successors(x, s, a);
        const double *p = (double *)(x->p + kind * B);
        double v[MAX_SUCCESSORS] = {0}, z[MAX_SUCCESSORS] = {0}, mean = 0.0, mean_hat = 0.0;
        Row y[MAX_SUCCESSORS / ROWS];
        for (int64_t j = 0; j < n; j++) {
            v[j] = V[succ[j * TILE]];
            z[j] = V_hat[succ[j * TILE]];
            mean += p[j] * v[j];
            mean_hat += p[j] * z[j];
        }
        const double square = product(x->columns[0] + kind * size, v, y, B);
        const Pair norms = roots(square, product(x->columns[1] + kind * size, z, y, B));
        x->raw[at] = larger(cap(beta * norms[0], leak) + (2 * beta * norms[1] + mean_hat), 0.0);
        x->V[0][at] = smaller(larger(mean, 0.0), 1.0);
        x->V[1][at] = cap(x->raw[at], leak);
    }
}

/* V and Vhat, and Vhat before its cap, of a policy that is improved on the way if asked. Returns raw at the start. */
static double back(const Search *x, double beta, double leak, int improves, int32_t *policy, int64_t step,
                   const uint8_t *target) {
    const int64_t P = x->P, from = step * P;
    for (int hat = 0; hat < 2; hat++) memset(x->V[hat] + from, 0, (size_t)((x->H + 1 - step) * P) * sizeof(double));
    memset(x->raw + from, 0, (size_t)((x->H - step) * P) * sizeof(double));
    for (int64_t s = 0; s < x->reach[step]; s++) x->V[0][from + s] = target[s];
    for (int64_t h = step - 1; h >= 0; h--) {
        if (improves)
            improve(x, h, beta, policy);
        else if (x->B == 1)
            follow(x, h, beta, leak, policy, 1);
        else
            follow(x, h, beta, leak, policy, 2);
    }
    return at_start(x, x->raw, 0);
}

/* ---- Derivatives. ---- */

/* planning.backward.significant. */
static void drop_rounding(double *w, int64_t size) {
    double top = 0.0;
    for (int64_t s = 0; s < size; s++) top = larger(top, fabs(w[s]));
    for (int64_t s = 0; s < size; s++) w[s] = fabs(w[s]) > TIE * top ? w[s] : 0.0;
}

/* The weights of the states of step h, spread to their successors. At V = 0 the slope of the box stands in. */
INLINE void spread(const Search *x, int64_t h, double beta, const int32_t *policy, int is_zero, const int64_t B) {
    const int64_t n = x->n, P = x->P, size = B * ROWS * B;
    const double *V = x->V[0] + (h + 1) * P, *V_hat = x->V[1] + (h + 1) * P;
    double *w = x->w[0] + (h + 1) * P, *w_hat = x->w[1] + (h + 1) * P;
    for (int64_t s = 0; s < x->reach[h]; s++) {
        const int64_t at = h * P + s, a = policy[at], kind = x->kind[s * x->A + a];
        const double by = x->w[0][at];
        double by_hat = x->w[1][at];
        if (by == 0 && by_hat == 0) continue;
        if (h > 0 && x->raw[at] >= 1) by_hat *= LEAK; /* the value itself is not capped */
        const int32_t *succ = successors(x, s, a);
        double v[MAX_SUCCESSORS] = {0}, z[MAX_SUCCESSORS] = {0};
        Row y[MAX_SUCCESSORS / ROWS], slope[MAX_SUCCESSORS / ROWS], slope_hat[MAX_SUCCESSORS / ROWS] = {{0}};
        Pair norms = {0};
        if (!is_zero) {
            for (int64_t j = 0; j < n; j++) v[j] = V[succ[j * TILE]], z[j] = V_hat[succ[j * TILE]];
            const double square = product(x->columns[0] + kind * size, v, y, B);
            transposed_product(x->rows[0] + kind * size, y, slope, B);
            norms = roots(square, product(x->columns[1] + kind * size, z, y, B));
            transposed_product(x->rows[1] + kind * size, y, slope_hat, B);
        }
        double steep = (beta * norms[0] < 1 ? 1.0 : LEAK) * beta * by_hat;
        const double steep_hat = norms[1] > 0 ? 2 * beta * by_hat / norms[1] : 0.0;
        if (norms[0] > 0)
            steep /= norms[0];
        else
            memcpy(slope, x->box_slope + kind * B, (size_t)B * sizeof *slope);
        for (int64_t b = 0; b < B; b++) {
            slope[b] = steep * slope[b] + by * x->p[kind * B + b];
            slope_hat[b] = steep_hat * slope_hat[b] + by_hat * x->p[kind * B + b];
        }
        for (int64_t j = 0; j < n; j++) {
            w[succ[j * TILE]] += slope[j / ROWS][j % ROWS];
            w_hat[succ[j * TILE]] += slope_hat[j / ROWS][j % ROWS];
        }
    }
}

/* Derivatives of raw at the start by V_h and Vhat_h (w); see objective.adjoint. */
static void adjoint(const Search *x, double beta, const int32_t *policy, int64_t step) {
    const int64_t P = x->P;
    for (int hat = 0; hat < 2; hat++) memset(x->w[hat], 0, (size_t)((x->H + 1) * P) * sizeof(double));
    memcpy(x->w[1], x->initial, (size_t)x->reach[0] * sizeof(double));
    for (int64_t h = 0; h < x->H - 1; h++) {
        if (x->B == 1)
            spread(x, h, beta, policy, h >= step, 1);
        else
            spread(x, h, beta, policy, h >= step, 2);
        for (int hat = 0; hat < 2; hat++) drop_rounding(x->w[hat] + (h + 1) * P, x->reach[h + 1]);
    }
}
