/* What is known of a problem, what is asked, and what a call writes on. Letters as in `Prepared` (objective.py).

   What steps and states have is flat: entry h P + s, with P > N a multiple of TILE. V and Vhat of a state are a pair,
   side by side in memory, and so are the weights w, the derivatives by them, and the rows of F and F_hat. */

#include <stdint.h>
#include <stdlib.h>

#include "draws.h"
#include "vectors.h"

/* N states that can be reached, by their distance from the start, in T tiles; G kinds of pairs (s,a). */
typedef struct {
    int64_t H, S, A, N, T, G, n, m;
    int64_t is_triangle;    /* nothing is below the diagonals of F and F_hat */
    const int64_t *reach;   /* [H] states that step h can reach */
    const int64_t *state;   /* [N] their numbers in the problem, of S */
    const uint32_t *succ;   /* [A T n TILE] where their pairs are: 2 s; N stands for states that no step reaches */
    const int32_t *kind;    /* [T TILE, A] */
    const double *initial;  /* [N] */
} Problem;

/* Of each kind, as objective.factors says; `radius` is that of the search. */
typedef struct {
    Key key;
    double beta, radius;
    int64_t chains, sweeps;
    const double *p;         /* [G n] */
    const double *F;         /* [G m n], of the tilde norm */
    const double *F_hat;     /* [G m n] */
    const double *box;       /* [G], of the tilde norm */
    const double *box_slope; /* [G n] */
} Question;

/* Where the search starts, and what it finds: a policy [H, S], a step, a set [S], V and Vhat [2, H + 1, S]. */
typedef struct {
    int64_t step, sweeps;
    int32_t *policy;
    uint8_t *target;
    double *values;
    double value, raw, upper, radius, search_value, U;
} Answer;

/* One call: the factors by tiles of states and by kinds, and room. */
typedef struct {
    const Problem *of;
    int64_t P;
    Tile *p, *F, *F_hat, *box; /* [A T n], [A T m n], [A T m n], [A T] */
    const double *p1, *slope1; /* [G n] */
    Block *rows1, *columns1;   /* [G m' n' / ROWS], [G n m' / ROWS] with m', n' padded: pairs of F and F_hat */
    Tile *Q, *R, *score;       /* [A] of all actions in a tile */
    double *V, *w;             /* [2 (H + 1) P] */
    double *raw;               /* [H P] */
    double *rises;             /* [H] */
} Call;

/* The policies and sets of all chains: the best of each; of all; where a chain stands; what it tries. */
typedef struct {
    int32_t **policy; /* [chains + 3] of [H P] */
    uint8_t **target; /* [chains + 3] of [N] */
    int64_t *step;    /* [chains] */
    double *value;    /* [chains] */
} Points;

/* The mean over the start of x, or of min(x, 1). */
static double at_start(const Problem *of, const double *x, int is_capped) {
    double total = 0.0;
    for (int64_t s = 0; s < of->reach[0]; s++) total += of->initial[s] * (is_capped ? smaller(x[s], 1.0) : x[s]);
    return total;
}

static void clear(double *x, int64_t size) {
    for (int64_t i = 0; i < size; i++) x[i] = 0.0;
}

/* The factors of the kinds, per pair and per kind, into the tables. */
static void lay_out(Call *c, const Question *asked) {
    const Problem *of = c->of;
    const int64_t A = of->A, T = of->T, n = of->n, m = of->m, M = padded(m);
    for (int64_t s = 0; s < T * TILE; s++)
        for (int64_t a = 0; a < A; a++) {
            const int64_t g = of->kind[s * A + a], tile = a * T + s / TILE, k = s % TILE;
            c->box[tile][k] = asked->box[g];
            for (int64_t j = 0; j < n; j++) c->p[tile * n + j][k] = asked->p[g * n + j];
            for (int64_t i = 0; i < m * n; i++) {
                c->F[tile * m * n + i][k] = asked->F[g * m * n + i];
                c->F_hat[tile * m * n + i][k] = asked->F_hat[g * m * n + i];
            }
        }
    double *rows = (double *)c->rows1, *columns = (double *)c->columns1;
    for (int64_t g = 0; g < of->G; g++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                for (int64_t k = 0; k < 2; k++) {
                    const double x = (k ? asked->F_hat : asked->F)[(g * m + i) * n + j];
                    rows[2 * ((g * M + i) * padded(n) + j) + k] = x;
                    columns[2 * ((g * n + j) * M + i) + k] = x;
                }
}
