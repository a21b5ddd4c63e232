"""How long to explore: a number of episodes, or a certified gap."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from horizonfree._validation import check_count, check_int, check_probability
from horizonfree.errors import OptionError
from horizonfree.mdp import rewards
from horizonfree.models.misspecification import Misspecification, declared
from horizonfree.problems.problem import Problem

MOST_EPISODES = 1_000_000  # after which until_eps gives up


@dataclass(frozen=True, eq=False)
class Until:
    """From episode `first` to episode `last`, or until a certificate at confidence 1 - delta is at most until_eps.

    `targets` are the rewards that the certificate must cover; None stands for every reward. `zeta` are the radii, in
    total variation, within which it must hold, `support` where laws may lead; None where the class is right.
    """

    first: int
    last: int
    until_eps: float | None = None
    delta: float = 0.05
    targets: Float[np.ndarray, "T H S A"] | None = None
    zeta: Float[np.ndarray, "S A"] | None = None
    support: str = "successors"

    @property
    def misspecification(self) -> Any:
        """As certificates take it."""
        return 0.0 if self.zeta is None else Misspecification(tv=self.zeta, support=self.support)

    def next_look(self, episode: int) -> int:
        """The first number of episodes, from `episode` on, at which it is asked whether the end is reached.

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

    def is_look(self, episode: int) -> bool:
        """Whether a certificate is made after this episode."""
        return self.until_eps is not None and episode == self.next_look(episode)

    def is_reached(self, episode: int, eps: float | None) -> bool:
        """Whether this is the end; eps: the certified gap, where one was made."""
        is_certified = eps is not None and self.until_eps is not None and eps <= self.until_eps
        return episode >= self.last or is_certified


class Asked(NamedTuple):
    """How long to explore, in plain numbers."""

    episodes: int | None
    until_eps: float | None
    delta: float
    budget: int | None
    within: Misspecification | None = None


def check(
    episodes: Any, until_eps: Any, delta: Any, budget: Any = None, misspecification: Any = 0.0
) -> Asked:
    """What a caller asks for; refuses what cannot be an end."""
    about = declared(misspecification)
    if about is not None and until_eps is None:
        raise OptionError(
            "misspecification= is about the gap to explore until; give until_eps=, or leave it out and ask the run for "
            "certificate(misspecification=...)"
        )
    return Asked(
        None if episodes is None else check_count(episodes, "episodes"),
        None if until_eps is None else check_probability(until_eps, "until_eps", "a gap to be certified"),
        check_probability(delta, "delta"),
        None if budget is None else check_count(budget, "budget"),
        about,
    )


def until(problem: Problem, explored: int, asked: Asked, reward: Any) -> Until:
    """What a caller asks for, as episodes after those explored and rewards of this problem."""
    if asked.episodes is None and asked.until_eps is None:
        raise OptionError("say how long to explore: episodes=500, or until_eps=0.2")
    H = problem.horizon
    if asked.episodes is None:
        last = min(explored + MOST_EPISODES, countable(H))
    else:
        last = explored + asked.episodes
        check_countable(last, H)
    if asked.within is None:
        within: dict[str, Any] = {}
    else:
        radii = asked.within.radii(*problem.space.sizes[1:])
        within = {"zeta": radii, "support": asked.within.support}
        _check_floor(problem, asked, reward)
    _check_samples(problem, asked, reward)
    if asked.until_eps is None or reward is None:
        return Until(explored, last, asked.until_eps, asked.delta, **within)
    several = reward if isinstance(reward, (list, tuple)) else [reward]
    targets = np.stack([rewards.resolve(problem, x).table for x in several])
    return Until(explored, last, asked.until_eps, asked.delta, targets, **within)


def _check_samples(problem: Problem, asked: Asked, reward: Any) -> None:
    """Refuse a gap for every reward that samples of the kernels do not allow, however long one explores."""
    sampling = problem.sampling
    if sampling is None or reward is not None or asked.until_eps is None:
        return
    floor = sampling.floor(asked.delta)
    if floor > asked.until_eps:
        raise OptionError(
            f"until_eps is {asked.until_eps:g}, but with these samples of the simulators a gap for every reward stays "
            f"above {floor:.3g}; it needs about {sampling.needed(asked.until_eps, asked.delta):,.2g} samples of each "
            "row, or reward= for the rewards that matter"
        )


def _check_floor(problem: Problem, asked: Asked, reward: Any) -> None:
    """Refuse a gap for every reward that the radii alone exceed, however long one explores."""
    floor = problem.model.asymptotic_gap(asked.within)
    if reward is None and asked.until_eps is not None and floor > asked.until_eps:
        raise OptionError(
            f"until_eps is {asked.until_eps:g}, but within this misspecification a gap for every reward stays at about "
            f"{floor:.3g} even if the parameter is known; give a larger until_eps, a smaller misspecification, or "
            "reward= for the rewards that matter"
        )


def checked(found: Until, problem: Problem) -> Until:
    """An end that was stored; refuses what no caller could have asked for."""
    most = countable(problem.horizon)
    first = check_int(found.first, "first", 0, most, f"an episode, 0 to {most}")
    last = check_int(found.last, "last", first, most, f"an episode, {first} to {most}")
    asked = check(None, found.until_eps, found.delta)
    if found.targets is not None:
        if found.targets.shape[1:] != problem.space.sizes or not len(found.targets):
            raise OptionError(
                f"targets have shape {found.targets.shape}; they must be [T, H, S, A] of the problem"
            )
        for table in found.targets:
            rewards.resolve(problem, table)
    if found.zeta is not None:
        Misspecification(tv=found.zeta, support=found.support).radii(*problem.space.sizes[1:])
    return Until(first, last, asked.until_eps, asked.delta, found.targets, found.zeta, found.support)


def countable(horizon: int) -> int:
    """So many episodes can be counted: their steps are numbers of 32 bits."""
    return (2**31 - 1) // horizon


def check_countable(episodes: int, horizon: int) -> None:
    """Refuse more episodes than can be counted."""
    most = countable(horizon)
    if episodes > most:
        raise OptionError(f"{episodes:,} episodes of {horizon:,} steps cannot be counted; {most:,} can")
