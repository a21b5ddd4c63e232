/* Steps back and derivatives; see objective.py. Sizes that most grids have are known to the compiler. */

#include "tables.h"

#define LEAK 0.01 /* of ascent.py */
#define TIE 1e-10 /* of planning/backward.py */

INLINE double cap(double x, double leak) { return smaller(x, 1.0) + leak * larger(x - 1.0, 0.0); }

INLINE Tile caps(Tile x) {
    for (int k = 0; k < TILE; k++) x[k] = cap(x[k], LEAK);
    return x;
}

/* ---- All actions, a tile of states side by side. ---- */

/* V and Vhat at a tile of successors. */
INLINE void gather(const double *pairs, const uint32_t *succ, Tile *v, Tile *z) {
    Half found[4];
    for (int k = 0; k < 4; k++) {
        const Pair x = *(const Pair *)(pairs + succ[2 * k]), y = *(const Pair *)(pairs + succ[2 * k + 1]);
        found[k] = __builtin_shufflevector(x, y, 0, 2, 1, 3);
    }
    const Tile low = __builtin_shufflevector(found[0], found[1], 0, 1, 4, 5, 2, 3, 6, 7);
    const Tile high = __builtin_shufflevector(found[2], found[3], 0, 1, 4, 5, 2, 3, 6, 7);
    *v = __builtin_shufflevector(low, high, 0, 1, 2, 3, 8, 9, 10, 11);
    *z = __builtin_shufflevector(low, high, 4, 5, 6, 7, 12, 13, 14, 15);
}

/* sum_j row_j v_j from j = first on. */
INLINE Tile dot(const Tile *row, const Tile *v, int64_t first, int64_t n) {
    Tile total = {0};
    for (int64_t j = first; j < n; j++) total += row[j] * v[j];
    return total;
}

/* |F v|; below the diagonal of a triangle nothing is looked at. */
INLINE Tile norm(const Tile *F, const Tile *v, int64_t m, int64_t n, int is_triangle) {
    Tile total = {0};
    for (int64_t i = 0; i < m; i++) {
        const Tile y = dot(F + i * n, v, is_triangle ? i : 0, n);
        total += y * y;
    }
    return root(total);
}

/* Q = V_h without its reward, R = Vhat_h before its cap, of one action; `after`: V_{h+1} and Vhat_{h+1} in pairs. */
INLINE void step_back(const Call *c, int64_t tile, const double *after, double beta, Tile *Q, Tile *R,
                      const int64_t m, const int64_t n, const int is_triangle) {
    const uint32_t *succ = c->of->succ + tile * n * TILE;
    const Tile *p = c->p + tile * n;
    Tile v[MOST], z[MOST];
    for (int64_t j = 0; j < n; j++) gather(after, succ + j * TILE, v + j, z + j);
    const Tile u = caps(beta * norm(c->F + tile * m * n, v, m, n, is_triangle));
    const Tile hat = norm(c->F_hat + tile * m * n, z, m, n, is_triangle);
    *Q = at_most(at_least(dot(p, v, 0, n), 0.0), 1.0);
    *R = at_least(u + (2 * beta * hat + dot(p, z, 0, n)), 0.0);
}

/* Of all actions in a tile of states. */
static void all_actions(const Call *c, int64_t tile, const double *after, double beta) {
    const Problem *of = c->of;
    for (int64_t a = 0; a < of->A; a++) {
        const int64_t at = a * of->T + tile;
        Tile *Q = c->Q + a, *R = c->R + a;
        if (of->n == ROWS && of->is_triangle)
            step_back(c, at, after, beta, Q, R, ROWS, ROWS, 1);
        else if (of->n == ROWS)
            step_back(c, at, after, beta, Q, R, of->m, ROWS, 0);
        else
            step_back(c, at, after, beta, Q, R, of->m, of->n, (int)of->is_triangle);
    }
}

/* The best action of each of the first `left` states of a tile, and its values; see objective.sweep_back.

   The score is w_Vhat Vhat + w_V V, or Vhat where both weights vanish. The action that is there stays on ties, else the
   first of the best is taken. */
INLINE void choose(const Call *c, const Tile *w, int64_t left, Words *policy, Tile *V, Tile *raw) {
    const int64_t A = c->of->A;
    const Tile w_V = __builtin_shufflevector(w[0], w[1], 0, 2, 4, 6, 8, 10, 12, 14);
    const Tile w_hat = __builtin_shufflevector(w[0], w[1], 1, 3, 5, 7, 9, 11, 13, 15);
    const Lanes is_none = (w_V == 0.0) & (w_hat == 0.0), lanes = {0, 1, 2, 3, 4, 5, 6, 7}, is_out = lanes >= left;
    Tile top = {0}, size;
    for (int64_t a = 0; a < A; a++) {
        const Tile hat = caps(c->R[a]);
        c->score[a] = where(is_none, hat, w_hat * hat + w_V * c->Q[a]);
        top = a ? largest(c->score[a], top) : c->score[a];
    }
    for (int k = 0; k < TILE; k++) size[k] = fabs(top[k]);
    const Tile least = top - TIE * size;
    const Lanes old = __builtin_convertvector(*policy, Lanes);
    Lanes best = {0}, is_found = {0}, is_kept = is_out;
    for (int64_t a = 0; a < A; a++) {
        const Lanes is_good = c->score[a] >= least;
        best |= is_good & ~is_found & a;
        is_found |= is_good;
        is_kept |= is_good & (old == a);
    }
    const Lanes chosen = (is_kept & old) | (~is_kept & best);
    *policy = __builtin_convertvector(chosen, Words);
    Tile value = {0}, before = {0};
    for (int64_t a = 0; a < A; a++) {
        const Lanes is_it = (chosen == a) & ~is_out;
        value = where(is_it, c->Q[a], value);
        before = where(is_it, c->R[a], before);
    }
    *raw = before;
    const Tile hat = caps(before);
    V[0] = __builtin_shufflevector(value, hat, 0, 8, 1, 9, 2, 10, 3, 11);
    V[1] = __builtin_shufflevector(value, hat, 4, 12, 5, 13, 6, 14, 7, 15);
}

/* One step back, and the best action for the weighted values. */
static void improve(const Call *c, int64_t h, double beta, int32_t *policy, const double *w) {
    const int64_t reach = c->of->reach[h], P = c->P;
    for (int64_t tile = 0; tile < tiles(reach); tile++) {
        const int64_t at = h * P + tile * TILE;
        all_actions(c, tile, c->V + 2 * (h + 1) * P, beta);
        choose(c, (const Tile *)(w + 2 * at), reach - tile * TILE, (Words *)(policy + at),
               (Tile *)(c->V + 2 * at), (Tile *)(c->raw + at));
    }
}

/* ---- One action per state: a column of both matrices at once. ---- */

INLINE Pair later(const double *pairs, const uint32_t *succ, int64_t j) {
    return *(const Pair *)(pairs + succ[j * TILE]);
}

/* |F v| and |F_hat z| of a pair (s,a), whose successors stand TILE apart in `succ`; F v and F_hat z are left in y. */
INLINE Pair sizes(const Call *c, int64_t kind, const Pair *parts, const int64_t M, const int64_t n, Block *y) {
    const int64_t blocks = M / ROWS;
    const Block *columns = c->columns1 + kind * n * blocks;
    Block squares = {0};
    for (int64_t b = 0; b < blocks; b++) {
        y[b] = (Block){0};
        for (int64_t j = 0; j < n; j++) y[b] += repeated(parts[j]) * columns[j * blocks + b];
        squares += y[b] * y[b];
    }
    return roots(squares);
}

/* F'F v and F_hat'F_hat z of F v and F_hat z. */
INLINE void slopes(const Call *c, int64_t kind, const Block *y, const int64_t M, const int64_t n, Block *slope) {
    const int64_t blocks = padded(n) / ROWS;
    const Block *rows = c->rows1 + kind * M * blocks;
    for (int64_t b = 0; b < blocks; b++) {
        slope[b] = (Block){0};
        for (int64_t i = 0; i < M; i++) slope[b] += repeated_of(y[i / ROWS], i % ROWS) * rows[i * blocks + b];
    }
}

/* One step back under the policy, of the state s. */
INLINE void follow_one(const Call *c, int64_t at, int64_t kind, const uint32_t *succ, const double *after,
                       double beta, double leak, const int64_t M, const int64_t n) {
    Pair parts[MOST], mean = {0};
    Block y[MOST / ROWS];
    for (int64_t j = 0; j < n; j++) {
        parts[j] = later(after, succ, j);
        mean += c->p1[kind * n + j] * parts[j];
    }
    const Pair size = sizes(c, kind, parts, M, n, y);
    const double raw = larger(cap(beta * size[0], leak) + (2 * beta * size[1] + mean[1]), 0.0);
    c->raw[at] = raw;
    c->V[2 * at] = smaller(larger(mean[0], 0.0), 1.0);
    c->V[2 * at + 1] = cap(raw, leak);
}

INLINE const uint32_t *successors(const Problem *of, int64_t s, int64_t a) {
    return of->succ + (a * of->T + s / TILE) * of->n * TILE + s % TILE;
}

/* One step back under the policy. */
static void follow(const Call *c, int64_t h, double beta, double leak, const int32_t *policy) {
    const Problem *of = c->of;
    const int64_t n = of->n, M = padded(of->m);
    const double *after = c->V + 2 * (h + 1) * c->P;
    for (int64_t s = 0; s < of->reach[h]; s++) {
        const int64_t at = h * c->P + s, a = policy[at], kind = of->kind[s * of->A + a];
        const uint32_t *succ = successors(of, s, a);
        if (n == ROWS && M == ROWS)
            follow_one(c, at, kind, succ, after, beta, leak, ROWS, ROWS);
        else
            follow_one(c, at, kind, succ, after, beta, leak, M, n);
    }
}

/* V and Vhat, and Vhat before its cap, of a policy that is improved on the way if asked. Returns raw at the start. */
static double back(const Call *c, double beta, double leak, int improves, int32_t *policy, int64_t step,
                   const uint8_t *target) {
    const Problem *of = c->of;
    const int64_t P = c->P;
    clear(c->V + 2 * step * P, 2 * (of->H + 1 - step) * P);
    clear(c->raw + step * P, (of->H - step) * P);
    for (int64_t s = 0; s < of->reach[step]; s++) c->V[2 * (step * P + s)] = target[s];
    for (int64_t h = step - 1; h >= 0; h--) {
        if (improves)
            improve(c, h, beta, policy, c->w);
        else
            follow(c, h, beta, leak, policy);
    }
    return at_start(of, c->raw, 0);
}

/* ---- Derivatives. ---- */

/* planning.backward.significant, of both weights of a step. */
static void drop_rounding(double *w, int64_t size) {
    double top = 0.0, top_hat = 0.0;
    for (int64_t s = 0; s < size; s++) {
        top = larger(top, fabs(w[2 * s]));
        top_hat = larger(top_hat, fabs(w[2 * s + 1]));
    }
    for (int64_t s = 0; s < size; s++) {
        w[2 * s] = fabs(w[2 * s]) > TIE * top ? w[2 * s] : 0.0;
        w[2 * s + 1] = fabs(w[2 * s + 1]) > TIE * top_hat ? w[2 * s + 1] : 0.0;
    }
}

/* The weights of one pair (s,a), by and by_hat, spread to its successors. */
INLINE void adjoint_one(const Call *c, int64_t kind, const uint32_t *succ, const double *after, double *w,
                        double beta, int is_zero, double by, double by_hat, const int64_t M, const int64_t n) {
    Pair parts[MOST], size = {0};
    Block y[MOST / ROWS], slope[MOST / ROWS] = {{0}};
    if (!is_zero) {
        for (int64_t j = 0; j < n; j++) parts[j] = later(after, succ, j);
        size = sizes(c, kind, parts, M, n, y);
        slopes(c, kind, y, M, n, slope);
    }
    Pair steep = {(beta * size[0] < 1 ? 1.0 : LEAK) * beta * by_hat, size[1] > 0 ? 2 * beta * by_hat / size[1] : 0.0};
    Pair *by_slope = (Pair *)slope;
    if (size[0] > 0)
        steep[0] /= size[0];
    else
        for (int64_t j = 0; j < n; j++) by_slope[j][0] = c->slope1[kind * n + j];
    const Pair both = {by, by_hat};
    for (int64_t j = 0; j < n; j++) {
        Pair *place = (Pair *)(w + succ[j * TILE]);
        *place += steep * by_slope[j] + both * c->p1[kind * n + j];
    }
}

/* Derivatives of raw at the start by V_h and Vhat_h (w); see objective.adjoint. */
static void adjoint(const Call *c, double beta, const int32_t *policy, int64_t step) {
    const Problem *of = c->of;
    const int64_t P = c->P, n = of->n, M = padded(of->m);
    clear(c->w, 2 * (of->H + 1) * P);
    for (int64_t s = 0; s < of->reach[0]; s++) c->w[2 * s + 1] = of->initial[s];
    for (int64_t h = 0; h < of->H - 1; h++) {
        const double *after = c->V + 2 * (h + 1) * P;
        double *w = c->w + 2 * (h + 1) * P;
        for (int64_t s = 0; s < of->reach[h]; s++) {
            const int64_t at = h * P + s, a = policy[at], kind = of->kind[s * of->A + a];
            double by = c->w[2 * at], by_hat = c->w[2 * at + 1];
            if (by == 0 && by_hat == 0) continue;
            if (h > 0 && c->raw[at] >= 1) by_hat *= LEAK; /* the value itself is not capped */
            const uint32_t *succ = successors(of, s, a);
            if (n == ROWS && M == ROWS)
                adjoint_one(c, kind, succ, after, w, beta, h >= step, by, by_hat, ROWS, ROWS);
            else
                adjoint_one(c, kind, succ, after, w, beta, h >= step, by, by_hat, M, n);
        }
        drop_rounding(w, of->reach[h + 1]);
    }
}
