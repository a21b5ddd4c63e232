"""A bound on the error of values in P_theta by the law of total variance; it does not grow with H.

Let P = P_theta and P_star be kernels with ||theta - theta_star||_tilde <= 2 beta. Fix a policy and a reward of total at
most 1; V_star are its values under P_star, and expectations are under P. Put e_h = (P_star - P) V_star_{h+1} at (s_h,
a_h), so |e_h| <= 2 b_h with b_h = min{1/2, beta ||phi_{V_star_{h+1}}||_tilde}, and y = sum_h E b_h. Then for every mu

    |V_star_1 - V_1| <= sum_h E |e_h| <= 2 y,   y <= D_1 + mu sum_h E Var_p(V_star_{h+1}) <= D_1 + mu (1 + 8 y),
    D_h(s) = max_a g_mu(s,a) + sum_s' P(s'|s,a) D_{h+1}(s'),
    g_mu(s,a) = max_{f in [0,1]^n} beta ||phi_f|| - mu Var_p(f),

so y <= (D_1 + mu)/(1 - 8 mu) for mu < 1/8, and a plan that is optimal in P loses at most 4 y. No hat norm occurs, since
the expectation is under P itself. Proof in docs/hf-ucrl-rfe.md.
"""

import numpy as np

from horizonfree._x64 import x64
from horizonfree.oracle.objective import Prepared
from horizonfree.oracle.variance import gather, penalised_max

MUS = 2.0 ** np.arange(-3.5, -14.5, -0.5)  # largest first; all below 1/8
VACUOUS_BOUND = 0.25  # 4 y >= 1 is vacuous


@x64
def variance_bound(prepared: Prepared, beta: float) -> float:
    """The least bound of y over a grid of mu, for every policy and reward; at most 1/4, which is vacuous.

    Needs P_theta to be a kernel. Runs on the host: seconds, for reports.
    """
    p, F, box = (np.asarray(x) for x in (prepared.p, prepared.F_tilde, prepared.box_tilde))
    least = VACUOUS_BOUND
    for mu in MUS:
        g = np.minimum(beta * penalised_max(F, p, mu / beta, box), 0.5)
        # V_star_{H+1} = 0: the last step adds nothing
        start = float(prepared.space.at_start(gather(prepared, g, g)))
        if start >= least:  # smaller mu give larger D
            break
        least = min(least, (start + mu) / (1 - 8 * mu))
    return float(least)
