"""From the divergence of trajectories to what a plan can lose: NumPy in, NumPy out, or traced."""

from horizonfree._arrays import Array, library
from horizonfree._shapes import Float


def gap(
    regret: Float[Array, "*n"], kappa: Float[Array, "*n"], kappa_plan: Float[Array, "*n"]
) -> Float[Array, "*n"]:
    """How much the best policy can gain on a plan whose regret under (nearly) the estimate is at most `regret`.

    Two values v_best <= v_plan + regret under the estimate, w_best and w_plan under theta, kl(v_best, w_best) <= kappa,
    kl(v_plan, w_plan) <= kappa_plan. Pinsker:  w_best - w_plan <= regret + sqrt(kappa/2) + sqrt(kappa_plan/2).
    Hellinger, after moving one of v to the other:  <= 2 regret + sqrt(1 - exp(-kappa - kappa_plan)).  Not capped at 1.
    """
    xp = library(regret, kappa)
    pinsker = regret + xp.sqrt(kappa / 2) + xp.sqrt(kappa_plan / 2)
    return xp.minimum(pinsker, 2 * regret + xp.sqrt(-xp.expm1(-kappa - kappa_plan)))
