/* Backward induction: V_h(s) = max_a r_h(s,a) + sum_j prob[s,a,j] V_{h+1}(succ[s,a,j]).
 *
 * planning/induction.py defines the same in NumPy and says how ties are broken; planning/native.py calls these functions.
 * The last step is taken first. Step h is row h % V_rows of V, h % policy_rows of policy,
 * h % reward_rows of reward: V_rows = 2 and policy_rows = 1 leave those of the first step alone.
 * They return whether a reward or a value is infinite or not a number.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES 16         /* rewards that are planned for together */
#define CHUNK 128        /* successors of dense rows that are taken together */
#define TILE 16          /* states whose rewards and results are moved together */
#define UNROLL 16        /* sums side by side */
#define SMALLEST 1e-130  /* norms between these two have squares that neither vanish nor overflow */
#define LARGEST 1e130
#define EPS 2.220446049250313e-16
#define INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
#define BYTES 64 /* of a vector: what a register holds, since GCC splits longer ones badly */
#define ROWS 6   /* rows of a dense kernel whose sums fill the registers */
#else
#define BYTES 32
#define ROWS 3
#endif
typedef double vec __attribute__((vector_size(BYTES), aligned(8)));
typedef double quad __attribute__((vector_size(32), aligned(8)));
typedef int64_t order __attribute__((vector_size(32)));
enum { WIDTH = sizeof(vec) / sizeof(double), VECS = LANES / WIDTH };

typedef struct {
    int64_t S, A, n, reward_rows, V_rows, policy_rows;
    double slack; /* actions that fall short of the best one by at most this share of it are tied with it */
    const uint32_t *succ; /* not read where the kernel is dense */
    const double *prob, *reward;
    double *V;
    int32_t *policy;
} Problem;

/* Tests bits, since compiler options may remove a test of numbers. */
static int64_t has_nonfinite(const double *x, int64_t size)
{
    uint64_t nonfinite = 0;
    for (int64_t i = 0; i < size; i++) {
        uint64_t bits;
        memcpy(&bits, x + i, sizeof bits);
        nonfinite |= (bits & 0x7ff0000000000000u) == 0x7ff0000000000000u;
    }
    return (int64_t)nonfinite;
}

/* Whether the rewards of a step are read for the first time. */
static inline int is_new(const Problem *x, int64_t h) { return x->reward_rows > 1 || h == 0; }

static inline double least_tied(double best, double slack) { return best - slack * fabs(best); }

/* V and policy of some states from the values q of their actions: the best, and the first that is tied with it. */
INLINE void choose_with(const double *q, int64_t states, int64_t A, double slack, double *V, int32_t *policy)
{
    for (int64_t s = 0; s < states; s++, q += A) {
        double best = q[0];
        for (int64_t a = 1; a < A; a++) best = q[a] > best ? q[a] : best;
        const double least = least_tied(best, slack);
        int32_t first = 0;
        for (int32_t a = (int32_t)A - 1; a >= 0; a--) first = q[a] >= least ? a : first;
        V[s] = best;
        policy[s] = first;
    }
}

static void choose(const double *q, int64_t states, int64_t A, double slack, double *V, int32_t *policy)
{
    switch (A) { /* loops of constant length are faster */
    case 2: choose_with(q, states, 2, slack, V, policy); break;
    case 3: choose_with(q, states, 3, slack, V, policy); break;
    case 4:
        if (states == TILE) choose_with(q, TILE, 4, slack, V, policy);
        else choose_with(q, states, 4, slack, V, policy);
        break;
    default: choose_with(q, states, A, slack, V, policy);
    }
}

/* One reward, successor lists. */

/* The four products of a row with four successors. */
INLINE quad products(const double *p, const uint32_t *succ, const double *V)
{
    return *(const quad *)p * (quad){V[succ[0]], V[succ[1]], V[succ[2]], V[succ[3]]};
}

/* x0 + x1, y0 + y1, x2 + x3, y2 + y3. */
INLINE quad add_pairs(quad x, quad y)
{
    return __builtin_shuffle(x, y, (order){0, 4, 2, 6}) + __builtin_shuffle(x, y, (order){1, 5, 3, 7});
}

/* q = r + P V for some rows of n successors; of four successors, which grids have, four rows together. */
INLINE void add_lists(const double *p, const uint32_t *succ, int64_t n, const double *r, const double *V, int64_t rows,
                      double *q)
{
    int64_t i = 0;
    for (; n == 4 && i + 4 <= rows; i += 4, p += 16, succ += 16) {
        const quad x = add_pairs(products(p, succ, V), products(p + 4, succ + 4, V));
        const quad y = add_pairs(products(p + 8, succ + 8, V), products(p + 12, succ + 12, V));
        *(quad *)(q + i) = *(const quad *)(r + i) + (__builtin_shuffle(x, y, (order){0, 1, 4, 5}) +
                                                     __builtin_shuffle(x, y, (order){2, 3, 6, 7}));
    }
    for (; i < rows; i++, p += n, succ += n) {
        double sum = r[i];
        for (int64_t j = 0; j < n; j++) sum += p[j] * V[succ[j]];
        q[i] = sum;
    }
}

INLINE int64_t step_sparse(const Problem *x, int64_t h, int64_t from, int64_t to, double *q, int64_t n)
{
    const int64_t S = x->S, A = x->A;
    const double *after = x->V + (h + 1) % x->V_rows * S, *r = x->reward + h % x->reward_rows * S * A;
    double *now = x->V + h % x->V_rows * S;
    int32_t *policy = x->policy + h % x->policy_rows * S;
    for (int64_t s = from; s < to; s += TILE) {
        const int64_t states = to - s < TILE ? to - s : TILE;
        add_lists(x->prob + s * A * n, x->succ + s * A * n, n, r + s * A, after, states * A, q);
        choose(q, states, A, x->slack, now + s, policy + s);
    }
    return has_nonfinite(now + from, to - from) | (is_new(x, h) && has_nonfinite(r + from * A, (to - from) * A));
}

/* Steps first <= h < end of the states from <= s < to; q is scratch memory for TILE A numbers. */
int64_t horizonfree_plan_sparse(const Problem *x, int64_t first, int64_t end, int64_t from, int64_t to, double *q)
{
    int64_t nonfinite = 0;
    for (int64_t h = end - 1; h >= first; h--)
        switch (x->n) { /* as above */
        case 1: nonfinite |= step_sparse(x, h, from, to, q, 1); break;
        case 2: nonfinite |= step_sparse(x, h, from, to, q, 2); break;
        case 3: nonfinite |= step_sparse(x, h, from, to, q, 3); break;
        case 4: nonfinite |= step_sparse(x, h, from, to, q, 4); break;
        default: nonfinite |= step_sparse(x, h, from, to, q, x->n);
        }
    return nonfinite;
}

/* One reward, dense rows. An action whose value cannot be best is not computed: for a row p of S numbers and values v
 * with mean m, by Cauchy and Schwarz,
 *     p v = m sum(p) + (p - mean(p)) (v - m) <= m sum(p) + |p - mean(p)| |v - m|.
 * With v = V_{h+1} this bounds p V_{h+1}; with v = V_{h+1} - V_{h+2} it bounds what is added to a bound of p V_{h+2}.
 * benchmarks/README.md says why no rounding breaks the bounds. */

/* out[i] = (row i of p) v for each i of a list, four rows at a time while the next four are fetched. Rows are summed in
 * the same order wherever they stand in the list. */
static void multiply_rows(const double *p, int64_t n, const int64_t *rows, int64_t count, const double *v, double *out)
{
    for (int64_t i = 0; i < count; i += 4) {
        const double *x[4], *next[4];
        for (int k = 0; k < 4; k++) {
            x[k] = p + rows[i + k < count ? i + k : count - 1] * n;
            next[k] = p + rows[i + k + 4 < count ? i + k + 4 : count - 1] * n;
        }
        vec sum[4][2] = {0};
        int64_t j = 0;
        for (; j + 2 * WIDTH <= n; j += 2 * WIDTH) {
            const vec first = *(const vec *)(v + j), second = *(const vec *)(v + j + WIDTH);
            for (int k = 0; k < 4; k++) {
                for (int l = 0; l < 2 * WIDTH; l += 8) __builtin_prefetch(next[k] + j + l);
                sum[k][0] += *(const vec *)(x[k] + j) * first;
                sum[k][1] += *(const vec *)(x[k] + j + WIDTH) * second;
            }
        }
        for (int k = 0; k < 4 && i + k < count; k++) {
            const vec sums = sum[k][0] + sum[k][1];
            double total = 0;
            for (int l = 0; l < WIDTH; l++) total += sums[l];
            for (int64_t l = j; l < n; l++) total += x[k][l] * v[l];
            out[rows[i + k]] = total;
        }
    }
}

/* The mean m of x, |x - m| and |x|. */
typedef struct { double mean, deviation, norm; } Moments;

static Moments moments_of(const double *x, int64_t n)
{
    double sums[UNROLL] = {0}, squares[UNROLL] = {0}, deviations[UNROLL] = {0}, sum = 0, square = 0, deviation = 0;
    int64_t i = 0;
    for (; i + UNROLL <= n; i += UNROLL)
        for (int k = 0; k < UNROLL; k++) sums[k] += x[i + k], squares[k] += x[i + k] * x[i + k];
    for (; i < n; i++) sum += x[i], square += x[i] * x[i];
    for (int k = 0; k < UNROLL; k++) sum += sums[k], square += squares[k];
    const double mean = sum / n;
    for (i = 0; i + UNROLL <= n; i += UNROLL)
        for (int k = 0; k < UNROLL; k++) deviations[k] += (x[i + k] - mean) * (x[i + k] - mean);
    for (; i < n; i++) deviation += (x[i] - mean) * (x[i] - mean);
    for (int k = 0; k < UNROLL; k++) deviation += deviations[k];
    return (Moments){mean, sqrt(deviation), sqrt(square)};
}

/* |p - mean(p)| of every row, rounded up; and a factor of |v| that covers rounding and sums of rows that are not 1. */
static double spreads(const double *prob, int64_t rows, int64_t n, double *spread)
{
    double largest = 0, excess = 0;
    for (int64_t i = 0; i < rows; i++) {
        const Moments row = moments_of(prob + i * n, n);
        spread[i] = row.deviation * (1 + 4 * n * EPS) + 4 * n * EPS * row.norm;
        largest = fmax(largest, row.norm);
        excess = fmax(excess, fabs(row.mean * n - 1));
    }
    return excess / sqrt(n) + 32 * n * EPS * largest;
}

/* bounds >= P v from bounds >= P (v - change), by the smaller of the two bounds; whether squares allow it. */
static int update_bounds(double *bounds, const double *spread, int64_t rows, double slack, const double *v,
                         const double *change, int64_t n)
{
    const Moments now = moments_of(v, n), added = moments_of(change, n);
    if (!(now.norm > SMALLEST && now.norm < LARGEST && added.norm < LARGEST)) return 0;
    const double m = now.mean + slack * now.norm, m_added = added.mean + slack * (now.norm + added.norm);
    for (int64_t i = 0; i < rows; i++) {
        const double alone = m + spread[i] * now.deviation, onward = bounds[i] + m_added + spread[i] * added.deviation;
        bounds[i] = onward < alone ? onward : alone;
    }
    return 1;
}

/* scratch: 3 S A + S numbers; rows: S A + 1 integers. In each state the action with the largest bound is computed first. */
int64_t horizonfree_plan_dense(const Problem *x, int64_t horizon, double *scratch, int64_t *rows)
{
    const int64_t S = x->S, A = x->A;
    double *q = scratch, *spread = q + S * A, *bounds = spread + S * A, *change = bounds + S * A;
    const double slack = spreads(x->prob, S * A, S, spread);
    int64_t nonfinite = 0;
    memset(bounds, 0, S * A * sizeof *bounds);
    memset(change, 0, S * sizeof *change);
    for (int64_t h = horizon - 1; h >= 0; h--) {
        const double *after = x->V + (h + 1) % x->V_rows * S, *r = x->reward + h % x->reward_rows * S * A;
        double *now = x->V + h % x->V_rows * S;
        int32_t *policy = x->policy + h % x->policy_rows * S;
        const int is_bounded = update_bounds(bounds, spread, S * A, slack, after, change, S);
        int64_t *others = rows, count = 0;
        if (is_bounded) {
            for (int64_t s = 0; s < S; s++) {
                int64_t top = s * A;
                for (int64_t i = s * A; i < (s + 1) * A; i++) {
                    q[i] = r[i] + bounds[i];
                    top = q[i] > q[top] ? i : top;
                }
                rows[s] = top;
            }
            multiply_rows(x->prob, S, rows, S, after, bounds);
            others = rows + S;
            for (int64_t s = 0; s < S; s++) {
                const int64_t top = rows[s];
                const double least = least_tied(r[top] + bounds[top], x->slack);
                for (int64_t i = s * A; i < (s + 1) * A; i++) {
                    others[count] = i;
                    count += i != top && !(q[i] < least);
                }
            }
        } else if (h < horizon - 1) /* V_{H+1} is zero, and so are the products of the last step */
            for (; count < S * A; count++) others[count] = count;
        multiply_rows(x->prob, S, others, count, after, bounds);
        for (int64_t i = 0; i < S * A; i++) q[i] = r[i] + bounds[i];
        choose(q, S, A, x->slack, now, policy); /* bounds of what was not computed are too small */
        for (int64_t s = 0; s < S; s++) change[s] = now[s] - after[s];
        nonfinite |= has_nonfinite(now, S) | (is_new(x, h) && has_nonfinite(r, S * A));
    }
    return nonfinite;
}

/* LANES rewards, which follow each other in `reward`, `V` and `policy`; here their values at a state lie side by side. */

/* q += P V for `rows` <= ROWS rows of n numbers, `stride` apart in p, which have the same successors. */
INLINE void add_rows(const double *p, int64_t stride, const uint32_t *succ, int64_t n, const vec *after, vec *q,
                            int rows)
{
    vec sum[ROWS][VECS];
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < VECS; k++) sum[i][k] = q[i * VECS + k];
    for (int64_t j = 0; j < n; j++)
        for (int k = 0; k < VECS; k++) {
            const vec v = after[(succ ? succ[j] : j) * VECS + k];
            for (int i = 0; i < rows; i++) sum[i][k] += p[i * stride + j] * v;
        }
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < VECS; k++) q[i * VECS + k] = sum[i][k];
}

/* q += P V for rows of a dense kernel; some successors at a time, whose values stay in the first-level cache. */
static void add_dense(const double *p, int64_t n, const vec *after, vec *q, int64_t rows)
{
    for (int64_t j = 0; j < n; j += CHUNK) {
        const int64_t count = n - j < CHUNK ? n - j : CHUNK;
        int64_t i = 0;
        for (; i + ROWS <= rows; i += ROWS) add_rows(p + i * n + j, n, 0, count, after + j * VECS, q + i * VECS, ROWS);
        for (; i < rows; i++) add_rows(p + i * n + j, n, 0, count, after + j * VECS, q + i * VECS, 1);
    }
}

/* The best of the values q of A actions, and the first of those that are tied with it, for each reward. */
static inline void choose_lanes(const double *q, int64_t A, double slack, double *best, int32_t *choice)
{
    double top[LANES], least[LANES];
    int64_t first[LANES]; /* as wide as the numbers that are compared */
    for (int b = 0; b < LANES; b++) top[b] = q[b], first[b] = 0;
    for (int64_t a = 1; a < A; a++)
        for (int b = 0; b < LANES; b++) top[b] = q[a * LANES + b] > top[b] ? q[a * LANES + b] : top[b];
    for (int b = 0; b < LANES; b++) least[b] = least_tied(top[b], slack);
    for (int64_t a = A - 1; a >= 0; a--)
        for (int b = 0; b < LANES; b++) first[b] = q[a * LANES + b] >= least[b] ? a : first[b];
    for (int b = 0; b < LANES; b++) best[b] = top[b];
    for (int b = 0; b < LANES; b++) choice[b] = (int32_t)first[b];
}

/* to[j][i] = from[i][j] for rows i < 4 and columns j < count, the rows `stride` apart. */
INLINE void transpose(const double *from, int64_t from_stride, double *to, int64_t to_stride, int64_t count)
{
    int64_t j = 0;
    for (; j + 4 <= count; j += 4) {
        const quad a = *(const quad *)(from + j), b = *(const quad *)(from + from_stride + j);
        const quad c = *(const quad *)(from + 2 * from_stride + j), d = *(const quad *)(from + 3 * from_stride + j);
        const quad ab = __builtin_shuffle(a, b, (order){0, 4, 2, 6}), ba = __builtin_shuffle(a, b, (order){1, 5, 3, 7});
        const quad cd = __builtin_shuffle(c, d, (order){0, 4, 2, 6}), dc = __builtin_shuffle(c, d, (order){1, 5, 3, 7});
        *(quad *)(to + j * to_stride) = __builtin_shuffle(ab, cd, (order){0, 1, 4, 5});
        *(quad *)(to + (j + 1) * to_stride) = __builtin_shuffle(ba, dc, (order){0, 1, 4, 5});
        *(quad *)(to + (j + 2) * to_stride) = __builtin_shuffle(ab, cd, (order){2, 3, 6, 7});
        *(quad *)(to + (j + 3) * to_stride) = __builtin_shuffle(ba, dc, (order){2, 3, 6, 7});
    }
    for (; j < count; j++)
        for (int i = 0; i < 4; i++) to[j * to_stride + i] = from[i * from_stride + j];
}

/* values is scratch memory for 2 S LANES numbers, q for TILE A LANES. */
int64_t horizonfree_plan_block(const Problem *x, int64_t horizon, double *values, double *q)
{
    const int64_t S = x->S, A = x->A, n = x->n;
    int64_t nonfinite = 0;
    double *after = values, *now = values + S * LANES;
    int32_t choice[TILE * LANES];
    memset(after, 0, S * LANES * sizeof *after);
    for (int64_t h = horizon - 1; h >= 0; h--) {
        for (int64_t from = 0; from < S; from += TILE) {
            const int64_t states = S - from < TILE ? S - from : TILE, rows = states * A;
            const double *p = x->prob + from * A * n;
            for (int64_t b = 0; b < LANES; b += 4) {
                const double *r = x->reward + ((b * x->reward_rows + h % x->reward_rows) * S + from) * A;
                transpose(r, x->reward_rows * S * A, q + b, LANES, rows);
            }
            nonfinite |= is_new(x, h) && has_nonfinite(q, rows * LANES);
            if (!x->succ) add_dense(p, n, (vec *)after, (vec *)q, rows);
            else
                for (int64_t i = 0; i < rows; i++)
                    add_rows(p + i * n, n, x->succ + (from * A + i) * n, n, (vec *)after, (vec *)(q + i * LANES), 1);
            for (int64_t s = 0; s < states; s++)
                choose_lanes(q + s * A * LANES, A, x->slack, now + (from + s) * LANES, choice + s * LANES);
            for (int64_t b = 0; b < LANES; b++) {
                double *V = x->V + (b * x->V_rows + h % x->V_rows) * S + from;
                int32_t *policy = x->policy + (b * x->policy_rows + h % x->policy_rows) * S + from;
                for (int64_t s = 0; s < states; s++) {
                    V[s] = now[(from + s) * LANES + b];
                    policy[s] = choice[s * LANES + b];
                }
            }
        }
        nonfinite |= has_nonfinite(now, S * LANES);
        double *swap = after;
        after = now;
        now = swap;
    }
    return nonfinite;
}
