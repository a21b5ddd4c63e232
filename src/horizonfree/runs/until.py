"""When to stop: after a number of episodes, or at a certified suboptimality bound."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from horizonfree._validation import check_count, check_int, check_probability, check_size, require_shape
from horizonfree.errors import OptionError
from horizonfree.mdp import rewards
from horizonfree.models.misspecification import Misspecification, declared
from horizonfree.models.registry import diagnostics_of
from horizonfree.problems.problem import Problem

MAX_EPISODES = 1_000_000  # of until_eps without episodes=


@dataclass(frozen=True, eq=False)
class StopRule:
    """From episode `first` to episode `last`, or until a certificate at confidence 1 - delta is at most until_eps.

    `targets`: the rewards of the certificate; None for every reward. `zeta`, `support`: the misspecification, radii in
    total variation and the possible next states; None for a correct class.
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
        """The argument of certificates."""
        return 0.0 if self.zeta is None else Misspecification(tv=self.zeta, support=self.support)

    def next_look(self, episode: int) -> int:
        """The first number of episodes, from `episode` on, at which the rule is evaluated.

        With until_eps: at `first`, whenever the episodes have grown by a tenth, and at `last`. It depends on nothing
        else, so an interrupted run stops after the same episode.
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
        """Whether a certificate is computed after this episode."""
        return self.until_eps is not None and episode == self.next_look(episode)

    def is_reached(self, episode: int, eps: float | None) -> bool:
        """Whether to stop; eps: the certified bound, where one was computed."""
        is_certified = eps is not None and self.until_eps is not None and eps <= self.until_eps
        return episode >= self.last or is_certified


class StopRequest(NamedTuple):
    """Checked arguments of `explore`."""

    episodes: int | None
    until_eps: float | None
    delta: float
    budget: int | None
    misspecification: Misspecification | None = None


def check_stop_request(
    episodes: Any, until_eps: Any, delta: Any, budget: Any = None, misspecification: Any = 0.0
) -> StopRequest:
    """Check the arguments that do not depend on the problem."""
    misspecified = declared(misspecification)
    if misspecified is not None and until_eps is None:
        raise OptionError(
            "misspecification= belongs to until_eps=; give both, or leave it out and use "
            "run.certificate(misspecification=...)"
        )
    return StopRequest(
        None if episodes is None else check_count(episodes, "episodes"),
        None if until_eps is None else check_probability(until_eps, "until_eps", "a bound to be certified"),
        check_probability(delta, "delta"),
        None if budget is None else check_count(budget, "budget"),
        misspecified,
    )


def stop_rule(problem: Problem, explored: int, request: StopRequest, reward: Any) -> StopRule:
    """The stop rule of a run after so many episodes."""
    if request.episodes is None and request.until_eps is None:
        raise OptionError("say how long to explore: episodes=500, or until_eps=0.2")
    H = problem.horizon
    if request.episodes is None:
        last = min(explored + MAX_EPISODES, max_countable(H))
    else:
        last = explored + request.episodes
        check_countable(last, H)
    radii: dict[str, Any] = {}
    if request.misspecification is not None:
        zeta = request.misspecification.radii(*problem.space.sizes[1:])
        radii = {"zeta": zeta, "support": request.misspecification.support}
        _check_floor(problem, request, reward)
    _check_samples(problem, request, reward)
    if request.until_eps is None or reward is None:
        return StopRule(explored, last, request.until_eps, request.delta, **radii)
    reward_list = reward if isinstance(reward, (list, tuple)) else [reward]
    targets = np.stack([rewards.resolve(problem, x).table for x in reward_list])
    return StopRule(explored, last, request.until_eps, request.delta, targets, **radii)


def _check_samples(problem: Problem, request: StopRequest, reward: Any) -> None:
    """An error if the samples of the kernels make the bound impossible for every reward."""
    sampling = problem.sampling
    if sampling is None or reward is not None or request.until_eps is None:
        return
    floor = sampling.floor(request.delta)
    if floor > request.until_eps:
        raise OptionError(
            f"until_eps is {request.until_eps:g}, but with these samples of the simulators the bound for every reward "
            f"stays above {floor:.3g}; it needs about {sampling.needed(request.until_eps, request.delta):,.2g} samples "
            "of each row, or reward= for the rewards that matter"
        )


def _check_floor(problem: Problem, request: StopRequest, reward: Any) -> None:
    """An error if the misspecification makes the bound impossible for every reward."""
    floor = diagnostics_of(problem.model).asymptotic_gap(request.misspecification)
    if reward is None and request.until_eps is not None and floor > request.until_eps:
        raise OptionError(
            f"until_eps is {request.until_eps:g}, but with this misspecification the bound for every reward stays at "
            f"about {floor:.3g} even for a known parameter; give a larger until_eps, a smaller misspecification, or "
            "reward= for the rewards that matter"
        )


def check_stored_rule(stored: StopRule, problem: Problem) -> StopRule:
    """A stop rule from a file."""
    high = max_countable(problem.horizon)
    first = check_int(stored.first, "first", 0, high, f"an episode, 0 to {high}")
    last = check_int(stored.last, "last", first, high, f"an episode, {first} to {high}")
    request = check_stop_request(None, stored.until_eps, stored.delta)
    if stored.targets is not None:
        is_table = stored.targets.shape[1:] == problem.space.sizes and len(stored.targets)
        require_shape(is_table, "targets", stored.targets.shape, "[T, H, S, A] of the problem", OptionError)
        for table in stored.targets:
            rewards.resolve(problem, table)
    if stored.zeta is not None:
        Misspecification(tv=stored.zeta, support=stored.support).radii(*problem.space.sizes[1:])
    return StopRule(
        first, last, request.until_eps, request.delta, stored.targets, stored.zeta, stored.support
    )


def max_countable(horizon: int) -> int:
    """The largest number of episodes whose steps fit into 32 bits."""
    return (2**31 - 1) // horizon


def check_countable(episodes: int, horizon: int) -> None:
    """An error for more episodes than can be counted."""
    limit = max_countable(horizon)
    check_size(
        episodes, limit, f"{episodes:,} episodes of {horizon:,} steps cannot be counted", "explore for fewer"
    )
