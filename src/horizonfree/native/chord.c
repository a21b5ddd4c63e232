/* One step of slice sampling on the chords of several chains, as models/mixture/posterior.py defines it in NumPy.
 *
 * A rejected proposal becomes the end of its interval. Proposals are drawn in rounds, in the order of the chains that
 * have none yet, so that both use the random numbers of the generator alike.
 */
#include <math.h>
#include <stdint.h>

typedef struct {
    int64_t C, m, shrinks;
    double smallest; /* in place of probabilities below it */
    const double *p, *dp, *e, *least; /* [C, m], [C, m], [m], [C] */
    double *low, *high, *t, *now;     /* [C] each; t and now hold the present point and its logarithm */
    int64_t *pending;                 /* scratch, [C] */
} Chords;

void horizonfree_chords(const Chords *x, double (*next_double)(void *), void *generator)
{
    int64_t count = x->C;
    for (int64_t c = 0; c < count; c++) x->pending[c] = c;
    for (int64_t round = 0; round < x->shrinks && count; round++) {
        int64_t rejected = 0;
        for (int64_t i = 0; i < count; i++) {
            const int64_t c = x->pending[i];
            const double *p = x->p + c * x->m, *dp = x->dp + c * x->m;
            const double proposed = x->low[c] + (x->high[c] - x->low[c]) * next_double(generator);
            double value = 0;
            for (int64_t j = 0; j < x->m; j++) value += x->e[j] * log(fmax(p[j] + proposed * dp[j], x->smallest));
            if (value >= x->least[c]) x->t[c] = proposed, x->now[c] = value;
            else {
                *(proposed < 0 ? x->low + c : x->high + c) = proposed;
                x->pending[rejected++] = c;
            }
        }
        count = rejected;
    }
}
