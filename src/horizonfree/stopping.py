"""How long to explore: a number of episodes, or a certified gap."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from horizonfree.checks import count, share

MOST = 1_000_000  # episodes after which until_eps gives up


@dataclass(frozen=True, eq=False)
class Goal:
    """From episode `first` to episode `last`, or until a certificate at confidence 1 - delta is at most until_eps.

    `targets` are the rewards that the certificate must cover; None stands for every reward.
    """

    first: int
    last: int
    until_eps: float | None = None
    delta: float = 0.05
    targets: Float[np.ndarray, "T H S A"] | None = None

    def next_look(self, episode: int) -> int:
        """The first number of episodes, from `episode` on, at which it is asked whether the goal is reached.

        With until_eps: at `first`, whenever the episodes have grown by a tenth, and at `last`. It depends on nothing
        else, so a run stops after the same episode however often it was interrupted.
        """
        if self.until_eps is None or episode >= self.last:
            return self.last
        if episode <= self.first:
            return max(self.first, 1)
        look = 1
        while look < episode:
            look += max(1, look // 10)
        return min(look, self.last)


def check(episodes: int | None, until_eps: float | None, delta: float, budget: int | None = None) -> None:
    """Refuse what cannot be a goal."""
    for name, value in {"episodes": episodes, "budget": budget}.items():
        if value is not None:
            count(value, name)
    if until_eps is not None:
        share(until_eps, "until_eps", "a gap to be certified")
    share(delta, "delta")
