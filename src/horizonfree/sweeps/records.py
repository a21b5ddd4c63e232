"""The numbers that explorers report after an episode, known before one is played: an episode is traced, not run."""

from collections.abc import Iterable

import equinox as eqx
import jax

from horizonfree._validation import suggestion
from horizonfree._x64 import to_device, x64
from horizonfree.errors import UnknownNameError
from horizonfree.explorers.interface import Explorer
from horizonfree.explorers.loop import absorb, begin
from horizonfree.guarantees.bets import ladder
from horizonfree.planning.rollout import Sampler
from horizonfree.problems.problem import Problem


@x64
def reported(problem: Problem, explorer: Explorer) -> set[str]:
    """The names that an exploration of this problem has in its records."""
    model, truth, kernel = to_device((problem.model, problem.truth, problem.kernel()))

    def episode() -> dict[str, jax.Array]:
        progress = begin(explorer, model, model.init_evidence(ladder()))
        played = Sampler.of(kernel).episode(jax.random.key(0), progress.state.policy, model.space)
        return absorb(explorer, model, truth, progress, played)[1]

    return set(eqx.filter_eval_shape(episode))


def check_records(names: Iterable[str], settings: Iterable[tuple[Problem, Explorer]]) -> None:
    """Refuse a name that no setting reports; one that only some report is nan in the rows of the others."""
    missing, known = set(names), set[str]()
    for problem, explorer in settings:
        if not missing:
            return
        known |= reported(problem, explorer)
        missing -= known
    for name in sorted(missing):
        raise UnknownNameError(
            f"records: no explorer of this sweep reports {name!r}; {suggestion(name, known)}"
        )
