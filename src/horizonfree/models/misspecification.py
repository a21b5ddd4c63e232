"""How far the transition laws of a system may be from those of one parameter of the class: a declared radius.

A law Q of (s,a) is allowed around P_theta if TV(Q, P_theta) <= zeta(s,a), TV half the sum of |Q - P_theta|. Other balls
lie inside such a ball:

    tv      zeta itself
    kl      KL(Q || P) at most z always, or KL(P || Q):     zeta = sqrt(z / 2)        (Pinsker)
    sampled KL(P || Q) at most z:                           zeta = sqrt(z / 2)
    ratio   1/(1 + z) <= Q(s')/P(s') <= 1 + z:              zeta = z / (2 + z)

(the last is attained by the Q that is (1 + z) P on mass 1/(2 + z) and P/(1 + z) on the rest). `kl` means one of the two
directions, the same at every pair and step; `sampled` is the direction in which frequencies of samples are near the law
that they are drawn from, and allows sharper sets. Q lives on the possible successors of (s,a), or `anywhere`.
docs/robust.md has the proofs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from horizonfree._validation import check_choice, check_floats, require_entries, require_shape
from horizonfree.errors import OptionError

SUPPORTS = ("successors", "anywhere")
BALLS = ("tv", "kl", "sampled", "ratio")
DIVERGENCE_TEXTS = {
    "kl": "of one from the other, the same way at every step",
    "sampled": "of the parameter's law from it",
}


@dataclass(frozen=True, eq=False)
class Misspecification:
    """Every transition law of the system lies within a radius of that of one and the same parameter.

    Give one of tv (total variation), kl (divergence, either way, but the same way at every pair and step), sampled
    (divergence of the parameter's law from the system's, as that of frequencies from a law) or ratio (of
    probabilities): a number, or one per pair [S, A]. support: "successors" (the states that the class lists can follow)
    or "anywhere" (any state).

    >>> import horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> run = hf.explore(problem, episodes=50, progress=False)
    >>> strict = run.certificate(method="uniform")
    >>> strict.eps <= run.certificate(misspecification=hf.Misspecification(tv=0.01)).eps
    True
    """

    tv: Any = None
    kl: Any = None
    sampled: Any = None
    ratio: Any = None
    support: Any = "successors"

    def __post_init__(self) -> None:
        names = [name for name in BALLS if getattr(self, name) is not None]
        if len(names) != 1:
            raise OptionError(
                f"a misspecification has one radius, here are {len(names)}: give tv=, kl=, sampled= or ratio="
            )
        check_choice(self.support, "support", SUPPORTS)
        name, radius = self._radius()
        meaning = "a radius is a number of at least 0"
        require_entries((radius >= 0) & (radius < np.inf), name, radius, meaning, OptionError)

    def _radius(self) -> tuple[str, np.ndarray]:
        name = next(name for name in BALLS if getattr(self, name) is not None)
        return name, check_floats(getattr(self, name), name)

    def divergence(self) -> float:
        """The largest divergence of a law from that of the parameter; infinite where radii are total variations."""
        radius = self.sampled if self.kl is None else self.kl
        return np.inf if radius is None else float(np.max(check_floats(radius, "kl")))

    def way(self) -> str:
        """How the radius is measured, in words; empty for total variation."""
        return DIVERGENCE_TEXTS.get(self._radius()[0], "")

    def radii(self, S: int, A: int) -> Float[np.ndarray, "S A"]:
        """zeta(s,a), radii in total variation."""
        name, radius = self._radius()
        meaning = f"a number or one per pair, [S, A] = ({S}, {A})"
        require_shape(radius.shape in ((), (S, A)), name, radius.shape, meaning)
        zeta = {"tv": radius, "ratio": radius / (2 + radius)}.get(name, np.sqrt(radius / 2))
        return np.broadcast_to(np.minimum(zeta, 1.0), (S, A)).copy()


def declared(given: Any) -> Misspecification | None:
    """A caller's argument as a Misspecification: one, or a radius in total variation (a number or [S, A]); None
    for 0.
    """
    if type(given) in (int, float) and given == 0:
        return None
    result = given if isinstance(given, Misspecification) else Misspecification(tv=given)
    return result if result._radius()[1].any() else None
