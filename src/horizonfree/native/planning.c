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
#define ROWS 3           /* rows of a dense kernel whose sums fill the registers */
#define CHUNK 128        /* successors of dense rows that are taken together */
#define TILE 16          /* states whose rewards and results are moved together */
#define AHEAD 512        /* numbers of a dense kernel that are fetched early */
#define SMALLEST 1e-130  /* norms between these two have squares that neither vanish nor overflow */
#define LARGEST 1e130
#define EPS 2.220446049250313e-16
#define CONSTANT_SIZE static inline __attribute__((always_inline))

typedef double vec __attribute__((vector_size(32), aligned(8)));
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

static inline int32_t first_tied(const double *q, int64_t A, double best, double slack)
{
    const double least = least_tied(best, slack);
    int32_t first = 0;
    for (int32_t a = (int32_t)A - 1; a >= 0; a--) first = q[a] >= least ? a : first;
    return first;
}

/* One reward, successor lists. */

CONSTANT_SIZE int64_t sparse_rows(const Problem *x, int64_t h, int64_t from, int64_t to, double *q, int64_t n)
{
    const int64_t S = x->S, A = x->A;
    const double *after = x->V + (h + 1) % x->V_rows * S, *r = x->reward + h % x->reward_rows * S * A;
    double *now = x->V + h % x->V_rows * S;
    int32_t *policy = x->policy + h % x->policy_rows * S;
    const uint32_t *succ = x->succ + from * A * n;
    const double *p = x->prob + from * A * n;
    for (int64_t s = from; s < to; s++) {
        for (int64_t a = 0; a < A; a++, p += n, succ += n) {
            double sum = r[s * A + a];
            for (int64_t j = 0; j < n; j++) sum += p[j] * after[succ[j]];
            q[a] = sum;
        }
        double best = q[0]; /* a loop of its own, which needs no branch that cannot be predicted */
        for (int64_t a = 1; a < A; a++) best = q[a] > best ? q[a] : best;
        now[s] = best;
        policy[s] = first_tied(q, A, best, x->slack);
    }
    return has_nonfinite(now + from, to - from) | (is_new(x, h) && has_nonfinite(r + from * A, (to - from) * A));
}

/* Steps first <= h < end of the states from <= s < to; q is scratch memory for A numbers. */
int64_t horizonfree_plan_sparse(const Problem *x, int64_t first, int64_t end, int64_t from, int64_t to, double *q)
{
    int64_t nonfinite = 0;
    for (int64_t h = end - 1; h >= first; h--)
        switch (x->n) { /* loops of constant length are faster */
        case 1: nonfinite |= sparse_rows(x, h, from, to, q, 1); break;
        case 2: nonfinite |= sparse_rows(x, h, from, to, q, 2); break;
        case 3: nonfinite |= sparse_rows(x, h, from, to, q, 3); break;
        case 4: nonfinite |= sparse_rows(x, h, from, to, q, 4); break;
        default: nonfinite |= sparse_rows(x, h, from, to, q, x->n);
        }
    return nonfinite;
}

/* One reward, dense rows. An action whose value cannot be best is not computed: for a row p of S numbers and values v
 * with mean m, by Cauchy and Schwarz,
 *     p v = m sum(p) + (p - mean(p)) (v - m) <= m sum(p) + |p - mean(p)| |v - m|.
 * With v = V_{h+1} this bounds p V_{h+1}; with v = V_{h+1} - V_{h+2} it bounds what is added to a bound of p V_{h+2}.
 * benchmarks/README.md says why no rounding breaks the bounds. */

/* is_next: what follows x in memory is likely to be read next, and is fetched. */
CONSTANT_SIZE double dot(const double *x, const double *y, int64_t n, int is_next)
{
    vec sum[4] = {{0}};
    int64_t j = 0;
    for (; j + 4 * WIDTH <= n; j += 4 * WIDTH) {
        if (is_next) {
            __builtin_prefetch(x + j + AHEAD);
            __builtin_prefetch(x + j + AHEAD + 8);
        }
        for (int k = 0; k < 4; k++) sum[k] += *(const vec *)(x + j + k * WIDTH) * *(const vec *)(y + j + k * WIDTH);
    }
    sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    double total = (sum[0][0] + sum[0][1]) + (sum[0][2] + sum[0][3]);
    for (; j < n; j++) total += x[j] * y[j];
    return total;
}

/* The mean m of x, |x - m| and |x|. */
typedef struct { double mean, deviation, norm; } Moments;

static Moments moments_of(const double *x, int64_t n)
{
    double sum = 0, square = 0, deviation = 0;
#pragma omp simd reduction(+ : sum, square)
    for (int64_t i = 0; i < n; i++) sum += x[i], square += x[i] * x[i];
    const double mean = sum / n;
#pragma omp simd reduction(+ : deviation)
    for (int64_t i = 0; i < n; i++) deviation += (x[i] - mean) * (x[i] - mean);
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

/* scratch: A + 2 S A + S numbers. */
int64_t horizonfree_plan_dense(const Problem *x, int64_t horizon, double *scratch)
{
    const int64_t S = x->S, A = x->A;
    double *q = scratch, *spread = q + A, *bounds = spread + S * A, *change = bounds + S * A;
    const double slack = spreads(x->prob, S * A, S, spread);
    int64_t nonfinite = 0;
    memset(bounds, 0, S * A * sizeof *bounds);
    memset(change, 0, S * sizeof *change);
    for (int64_t h = horizon - 1; h >= 0; h--) {
        const double *after = x->V + (h + 1) % x->V_rows * S, *r = x->reward + h % x->reward_rows * S * A;
        double *now = x->V + h % x->V_rows * S;
        int32_t *policy = x->policy + h % x->policy_rows * S;
        const int is_bounded = update_bounds(bounds, spread, S * A, slack, after, change, S);
        for (int64_t s = 0; s < S; s++) {
            const double *p = x->prob + s * A * S;
            double *bound = bounds + s * A;
            int64_t top = 0;
            for (int64_t a = 0; a < A; a++) {
                q[a] = r[s * A + a] + bound[a];
                if (q[a] > q[top]) top = a;
            }
            bound[top] = dot(p + top * S, after, S, 0);
            double best = q[top] = r[s * A + top] + bound[top];
            for (int64_t a = 0; a < A; a++)
                if (a != top && !(is_bounded && q[a] < least_tied(best, x->slack))) {
                    bound[a] = dot(p + a * S, after, S, 1);
                    q[a] = r[s * A + a] + bound[a];
                    best = q[a] > best ? q[a] : best;
                }
            now[s] = best;
            policy[s] = first_tied(q, A, best, x->slack); /* bounds of what was not computed are too small */
            change[s] = best - after[s];
        }
        nonfinite |= has_nonfinite(now, S) | (is_new(x, h) && has_nonfinite(r, S * A));
    }
    return nonfinite;
}

/* LANES rewards, which follow each other in `reward`, `V` and `policy`; here their values at a state lie side by side. */

/* q += P V for `rows` <= ROWS rows of n numbers, `stride` apart in p, which have the same successors. */
CONSTANT_SIZE void add_rows(const double *p, int64_t stride, const uint32_t *succ, int64_t n, const vec *after, vec *q,
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
static inline void choose(const double *q, int64_t A, double slack, double *best, int32_t *choice)
{
    double top[LANES], least[LANES];
    int32_t first[LANES];
    for (int b = 0; b < LANES; b++) top[b] = q[b], first[b] = 0;
    for (int64_t a = 1; a < A; a++)
        for (int b = 0; b < LANES; b++) top[b] = q[a * LANES + b] > top[b] ? q[a * LANES + b] : top[b];
    for (int b = 0; b < LANES; b++) least[b] = least_tied(top[b], slack);
    for (int64_t a = A - 1; a >= 0; a--)
        for (int b = 0; b < LANES; b++) first[b] = q[a * LANES + b] >= least[b] ? (int32_t)a : first[b];
    for (int b = 0; b < LANES; b++) best[b] = top[b];
    for (int b = 0; b < LANES; b++) choice[b] = (int32_t)first[b];
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
            for (int64_t b = 0; b < LANES; b++) {
                const double *r = x->reward + ((b * x->reward_rows + h % x->reward_rows) * S + from) * A;
                for (int64_t i = 0; i < rows; i++) q[i * LANES + b] = r[i];
                nonfinite |= is_new(x, h) && has_nonfinite(r, rows);
            }
            if (!x->succ) add_dense(p, n, (vec *)after, (vec *)q, rows);
            else
                for (int64_t i = 0; i < rows; i++)
                    add_rows(p + i * n, n, x->succ + (from * A + i) * n, n, (vec *)after, (vec *)(q + i * LANES), 1);
            for (int64_t s = 0; s < states; s++)
                choose(q + s * A * LANES, A, x->slack, now + (from + s) * LANES, choice + s * LANES);
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
