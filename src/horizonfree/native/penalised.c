/* Branch and bound for max over f in [0,1]^n of ||F f|| - kappa Var_p(f), as oracle/box.py defines it.
 *
 * The vertices of a cell are visited in the order of a Gray code: F f, p'f, p'(f^2) and the tangent change by one
 * coordinate at a time.
 */
#include <float.h>
#include <math.h>
#include <stdint.h>

typedef struct {
    int64_t m, n;
    double kappa;
    const double *F, *p; /* [m, n], [n] */
    double *u, *slope;   /* scratch, [m], [n] */
} Row;

/* The best value at a vertex, and an upper bound over the cell. */
static void cell(const Row *x, const double *low, const double *width, double *value, double *above)
{
    const int64_t m = x->m, n = x->n;
    double at_c = 0, mean_c = 0, mean = 0, square = 0, rise = 0;
    for (int64_t i = 0; i < n; i++) {
        const double c = low[i] + width[i] / 2;
        mean_c += x->p[i] * c;
        at_c += x->p[i] * c * c;
    }
    at_c -= mean_c * mean_c;
    for (int64_t k = 0; k < m; k++) x->u[k] = 0;
    for (int64_t i = 0; i < n; i++) {
        x->slope[i] = 2 * x->p[i] * (low[i] + width[i] / 2 - mean_c); /* of Var_p at c */
        mean += x->p[i] * low[i];
        square += x->p[i] * low[i] * low[i];
        rise -= x->slope[i] * width[i] / 2;
        for (int64_t k = 0; k < m; k++) x->u[k] += x->F[k * n + i] * low[i];
    }
    *value = *above = -DBL_MAX;
    for (int64_t vertex = 0; vertex < (int64_t)1 << n; vertex++) {
        if (vertex > 0) {
            int64_t i = 0;
            while (!((vertex >> i) & 1)) i++;
            const double sign = ((vertex ^ (vertex >> 1)) >> i) & 1 ? 1.0 : -1.0, by = sign * width[i];
            mean += x->p[i] * by;
            square += sign * x->p[i] * width[i] * (2 * low[i] + width[i]);
            rise += x->slope[i] * by;
            for (int64_t k = 0; k < m; k++) x->u[k] += x->F[k * n + i] * by;
        }
        double size = 0;
        for (int64_t k = 0; k < m; k++) size += x->u[k] * x->u[k];
        size = sqrt(size);
        *value = fmax(*value, size - x->kappa * (square - mean * mean));
        *above = fmax(*above, size - x->kappa * (at_c + rise)); /* Var(f) >= Var(c) + <slope, f - c> */
    }
}

/* lows, widths: [2, most, n], the cells of a level and of the next. */
static double bound_of(const Row *x, double slack, double least, int64_t most, double *lows, double *widths)
{
    const int64_t n = x->n;
    double found = 0, bound = 0; /* f = 0 gives 0 */
    int64_t now = 0, cells = 2 * n;
    for (int64_t face = 0; face < 2 * n; face++) {
        for (int64_t i = 0; i < n; i++) lows[face * n + i] = 0, widths[face * n + i] = 1;
        lows[face * n + face % n] = (double)(face / n);
        widths[face * n + face % n] = 0;
    }
    while (cells) {
        int64_t after = 0;
        double *low = lows + (1 - now) * most * n, *width = widths + (1 - now) * most * n;
        for (int64_t k = 0; k < cells; k++) {
            const double *l = lows + (now * most + k) * n, *w = widths + (now * most + k) * n;
            double value, above;
            cell(x, l, w, &value, &above);
            found = fmax(found, value);
            if (above <= (1 + slack) * found + least) continue;
            if (after + 2 > most) {
                bound = fmax(bound, above);
                continue;
            }
            int64_t split = 0;
            for (int64_t i = 0; i < n; i++)
                if (x->p[i] * w[i] * w[i] > x->p[split] * w[split] * w[split]) split = i;
            for (int half = 0; half < 2; half++, after++) {
                for (int64_t i = 0; i < n; i++) low[after * n + i] = l[i], width[after * n + i] = w[i];
                width[after * n + split] /= 2;
                low[after * n + split] += half * width[after * n + split];
            }
        }
        now = 1 - now;
        cells = after;
    }
    return fmax(bound, (1 + slack) * found + least);
}

/* One bound for each row of F [X, m, n] and p [X, n], with at most `most` cells of a size, 2 n at least.
 * scratch: 4 most n + m + n numbers. */
void horizonfree_penalised(int64_t X, int64_t m, int64_t n, const double *F, const double *p, double kappa, double slack,
                           double least, int64_t most, double *out, double *scratch)
{
    double *lows = scratch, *widths = lows + 2 * most * n, *u = widths + 2 * most * n;
    for (int64_t i = 0; i < X; i++) {
        const Row row = {m, n, kappa, F + i * m * n, p + i * n, u, u + m};
        out[i] = bound_of(&row, slack, least, most, lows, widths);
    }
}
