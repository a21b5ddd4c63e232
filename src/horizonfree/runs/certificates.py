"""Certificates of a run beside those of its confidence: for a family of rewards, and the explorer's own claim."""

from typing import Any

from horizonfree.errors import OptionError
from horizonfree.guarantees.certificate import Certificate
from horizonfree.mdp.families import family
from horizonfree.models import certify
from horizonfree.models.interface import Confidence
from horizonfree.runs.meter import counter


def of_family(run: Any, given: Any, confidence: Confidence, progress: bool | None) -> Certificate:
    """Of a `Run`, the largest gap of the plans of several rewards, of totals at most 1; progress: as for `explore`."""
    name, checked = family(run.problem, given)
    with counter(len(checked), "reward", progress) as show:
        return certify.for_family(run.problem.model, confidence, checked, name, show)


def own_claim(run: Any, delta: float) -> Certificate:
    """The guarantee of a run's explorer, unless it has none, another delta, or the data refute the class."""
    claim: Certificate | None
    claim = None if run.explorer is None else run.explorer.claim(run.problem.model, run.progress.state)
    if claim is None:
        raise OptionError("this explorer has no certificate of its own; the method 'uniform' is for all")
    if claim.delta > delta:
        raise OptionError(
            f"delta is {delta:g}, but this run explored with {claim.delta:g}, so its own guarantee may fail "
            "more often; ask for that, or use the method 'uniform'"
        )
    found: Certificate = run.certificate(delta, method="uniform")
    return found if found.is_rejected else claim
