"""Whether the certificate of a file is what a run proves: computed again and compared, entry by entry."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from horizonfree._repr import ReprMixin, ReprTable
from horizonfree._validation import reading
from horizonfree.errors import OptionError
from horizonfree.guarantees.certificate import Certificate
from horizonfree.mdp.events import Event, Worth
from horizonfree.mdp.rewards import Reward
from horizonfree.runs.certificate_files import data_digest, model_digest, read, unpacked
from horizonfree.runs.reward_spec import plan_or_evaluate_event

if TYPE_CHECKING:
    from horizonfree.runs.run import Run

TOLERANCE = 1e-9  # relative, by which another machine may round otherwise


@dataclass(frozen=True, repr=False)
class Verification(ReprMixin):
    """The result of `verify`: `bound` as computed again, and a sentence for each entry that differs."""

    is_confirmed: bool
    bound: float
    claimed: float
    statement: str
    differences: tuple[str, ...]

    def _repr_table(self) -> ReprTable:
        """The verdict and its reasons."""
        verdict = "confirmed" if self.is_confirmed else "not confirmed"
        lines = [("verdict", verdict), ("statement", self.statement)]
        lines.append(("bound", f"{self.claimed:.6g} in the file, {self.bound:.6g} computed again"))
        return ReprTable("Verification", [*lines, *(("differs", x) for x in self.differences)])


def verify(path: Any, run: "Run") -> Verification:
    """Compute the certificate of a file again from a run, and compare every entry.

    >>> import tempfile
    >>> import horizonfree as hf
    >>> problem = hf.make("river-swim", states=4, horizon=8)
    >>> run = hf.explore(problem, episodes=50, progress=False)
    >>> path = tempfile.mkdtemp() + "/certificate.json"
    >>> run.certificate().save(path)
    >>> bool(hf.verify(path, run))
    True
    """
    content = read(path)
    question = content["question"]
    sizes = {"states": run.problem.num_states, "actions": run.problem.num_actions}
    other = [key for key, size in sizes.items() if content["model"].get(key) != size]
    if other:
        difference = (
            f"the run has {sizes[other[0]]} {other[0]}, the file has {content['model'].get(other[0])}"
        )
        return Verification(False, math.nan, float(content["bound"]), "not computed again", (difference,))
    view = _view(run, question.get("view"))
    result = _recompute(run, view, question, content)
    bound, stored_bound = float(result.eps), float(content["bound"])
    digests = {
        "model": (content["model"].get("digest"), model_digest(view.problem)),
        "data": (content["data"].get("digest"), data_digest(run.evidence)),
    }
    differences = [
        f"the {name} of the run is another one than that of the file (digest {str(a)[:12]}..., here {b[:12]}...)"
        for name, (a, b) in digests.items()
        if a != b
    ]
    if not bound <= stored_bound * (1 + TOLERANCE) + 1e-15:
        differences.append(f"the bound is {bound:.9g}, more than the {stored_bound:.9g} of the file")
    texts = {"statement": result.statement, "assumes": result.assumes, "holds_for": result.holds_for}
    texts["method"] = result.method
    differences += [
        f"{key} is {text!r}, in the file {content[key]!r}"
        for key, text in texts.items()
        if text != content[key]
    ]
    if result.is_rejected != content["is_rejected"]:
        differences.append(
            "the data refute the model class" if result.is_rejected else "the class is not refuted"
        )
    if run.episodes != content["episodes"]:
        differences.append(f"the run has {run.episodes:,} episodes, the file has {content['episodes']:,}")
    return Verification(not differences, bound, stored_bound, result.statement, tuple(differences))


def _view(run: "Run", view: Any) -> "Run":
    """The run as seen from where the certificate starts."""
    if view is None:
        return run
    with reading("the view of the question", "readable", KeyError, TypeError, ValueError):
        start = unpacked(view["start"], [(run.problem.num_states,)], "f")
        horizon, is_paid_after = view["horizon"], view["is_paid_after"]
    return run.restart_from(start, horizon, is_paid_after=bool(is_paid_after))


def _recompute(
    run: "Run", view: "Run", question: Mapping[str, Any], content: Mapping[str, Any]
) -> Certificate:
    """The certificate of the question."""
    delta = float(content["delta"])
    H, S, A = view.problem.space.sizes
    if question["kind"] == "every reward":
        return run.certificate(delta, method=str(question.get("method")))
    if question["kind"] == "rewards":
        return run.certificate(delta, rewards=str(question.get("rewards")), progress=False)
    with reading("the question", "readable", KeyError, TypeError, ValueError):
        if question["kind"] == "policy":
            policy = unpacked(question["policy"], [(H, S), (H, S, A)], "if")
            table = unpacked(question["reward"], [(H, S, A)], "f")
            reward = Reward(table, float(question["factor"]), float(question["offset"]))
            return view.evaluate(reward, policy, delta=delta).certificate
        steps = int(question["steps"])
        policy = unpacked(question["policy"], [(steps, S), (steps, S, A)], "if")
        decisions = unpacked(question["decided"], [(S,)], "i")
        outcome_values = Worth(*(float(x) for x in question["pays"]))
        is_max, name = bool(question["is_max"]), str(question["name"])
    if not (np.isin(decisions, (0, 1, 2)).all() and set(outcome_values) <= {0.0, 1.0}):
        raise OptionError("the question holds no event: outcomes are 0, 1 or 2, and worth 0 or 1")
    event = Event(decisions, steps, outcome_values, is_max, name)
    return plan_or_evaluate_event(
        run, event, policy, delta=delta, start=np.asarray(view.problem.start)
    ).certificate
