/* The dynamic programme of the hinge, as models/mixture/hinge.py defines it in NumPy.
 *
 * On an even grid of y a transition shifts all values of the next state by the same number of points, whole and part:
 * the inner loop is a weighted sum of two neighbours along contiguous memory.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    int64_t S, A, n, H, N; /* N points of y */
    const int32_t *succ, *row_of;
    const double *prob, *charge;
    const uint8_t *stop, *occupied;
    const double *initial, *y;
} Hinge;

static int64_t clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

/* q[i] += w v(i + shift): chords between the points, v[0] before the first, slope 1 after the last. */
static void add_shifted(double *restrict q, double w, const double *restrict v, double shift, int64_t N, double gap)
{
    const double whole = floor(shift), left = w * (1 - (shift - whole)), right = w * (shift - whole);
    const int64_t k = (int64_t)fmin(fmax(whole, -(double)N), (double)N);
    const int64_t first = clamp(-k, 0, N), end = clamp(N - 1 - k, 0, N);
    const double before = w * v[0], after = w * (v[N - 1] + gap * (shift - (double)(N - 1)));
    for (int64_t i = 0; i < first; i++) q[i] += before;
    for (int64_t i = first; i < end; i++) q[i] += left * v[i + k] + right * v[i + k + 1];
    for (int64_t i = end; i < N; i++) q[i] += after + w * gap * (double)i;
}

/* J = sum_s initial(s) J_1(s, y), of the parameter whose rows have log(1 + x) = logs, 0 for padding.
 * scratch: S A n + (2 S + 2) N numbers. */
void horizonfree_hinge(const Hinge *x, const double *logs, double *J, double *scratch)
{
    const int64_t S = x->S, A = x->A, n = x->n, N = x->N;
    const double gap = x->y[1] - x->y[0];
    double *shift = scratch, *hinge = shift + S * A * n, *q = hinge + N, *after = q + N, *now = after + S * N;
    for (int64_t i = 0; i < N; i++) hinge[i] = fmax(x->y[i], 0.0);
    for (int64_t s = 0; s < S; s++) memcpy(after + s * N, hinge, N * sizeof *hinge);
    for (int64_t i = 0; i < S * A * n; i++) shift[i] = (x->charge[i / n] - logs[x->row_of[i]]) / gap;
    for (int64_t h = x->H - 2; h >= 0; h--) {
        for (int64_t s = 0; s < S; s++) {
            if (!x->occupied[h * S + s]) continue;
            double *best = now + s * N;
            for (int64_t a = 0; a < A; a++) {
                const int64_t row = (s * A + a) * n;
                if (x->stop[s * A + a]) memcpy(q, hinge, N * sizeof *q);
                else {
                    memset(q, 0, N * sizeof *q);
                    for (int64_t j = row; j < row + n; j++)
                        if (x->prob[j] > 0) add_shifted(q, x->prob[j], after + x->succ[j] * N, shift[j], N, gap);
                }
                for (int64_t i = 0; i < N; i++) best[i] = a && best[i] > q[i] ? best[i] : q[i];
            }
        }
        double *swap = after;
        after = now;
        now = swap;
    }
    memset(J, 0, N * sizeof *J);
    for (int64_t s = 0; s < S; s++)
        for (int64_t i = 0; x->initial[s] > 0 && i < N; i++) J[i] += x->initial[s] * after[s * N + i];
}
