"""How much more data a decision needs: the probability that it is certified after more episodes.

Systems are drawn from the posterior. In each of them more episodes are simulated and added to the data of the run, and
the decision is asked of what results. So the probabilities are likely, not proved; the decisions that are counted are
those of certificates. A decision that is certified after K episodes counts as certified after more.

The forecast of a certificate ("0.05 needs about 60 more episodes") is simpler: the same data many times over, with an
unchanged estimate (`Confidence.episodes_until`). It is one number at once, and no probability.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from horizonfree._repr import ReprMixin, ReprTable
from horizonfree._validation import check_count, check_floats, check_integers, require
from horizonfree.errors import OptionError
from horizonfree.runs.audit import logging_policy
from horizonfree.runs.run import Run

LEVELS = (0.5, 0.9)  # probabilities for which the number of episodes is shown


@dataclass(frozen=True, eq=False, repr=False)
class Power(ReprMixin):
    """The probability [n] that a decision is certified after so many more episodes [n], over draws of the posterior.

    `is_decided`: whether the data of the run certify it already. `cost` is that of one episode.
    """

    decision: str
    gathered_by: str
    episodes: Int[np.ndarray, " n"]
    probability: Float[np.ndarray, " n"]
    draws: int
    label: str
    is_decided: bool
    cost: float = 0.0

    @property
    def error(self) -> Float[np.ndarray, " n"]:
        """The standard error of the probabilities, as of a share of draws with one more of either kind."""
        p = (self.probability * self.draws + 1) / (self.draws + 2)
        return np.sqrt(p * (1 - p) / (self.draws + 2))

    def needed(self, probability: float) -> float:
        """About how many more episodes certify the decision with this probability; infinite beyond the last."""
        if self.is_decided:
            return 0.0
        enough = np.flatnonzero(self.probability >= probability)
        if not enough.size:
            return math.inf
        i = int(enough[0])
        K, p = np.append(0, self.episodes), np.append(0.0, self.probability)  # before them it is not decided
        return float(K[i] + (K[i + 1] - K[i]) * (probability - p[i]) / (p[i + 1] - p[i]))

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data; `needed` is None beyond the last number of episodes."""
        curve = zip(self.episodes.tolist(), self.probability.tolist(), self.error.tolist())
        episodes_needed = {level: self.needed(level) for level in LEVELS}
        return {
            "decision": self.decision,
            "gathered_by": self.gathered_by,
            "is_decided": self.is_decided,
            "curve": [{"episodes": K, "probability": p, "error": e} for K, p, e in curve],
            "needed": [
                {
                    "probability": level,
                    "episodes": math.ceil(K) if K < math.inf else None,
                    "cost": K * self.cost if K < math.inf else None,
                }
                for level, K in episodes_needed.items()
            ],
            "cost_of_episode": self.cost,
            "draws": self.draws,
            "label": self.label,
        }

    def _repr_table(self) -> ReprTable:
        """The curve, and the episodes for 50 % and 90 %."""
        lines = [("decision", self.decision), ("data", f"more episodes by {self.gathered_by}")]
        if self.is_decided:
            return ReprTable("Power", [*lines, ("now", "certified already")])
        lines += [
            (f"{K:,}", f"certified with probability {p:.2f} (+- {e:.2f})")
            for K, p, e in zip(self.episodes, self.probability, self.error)
        ]
        for level in LEVELS:
            K = self.needed(level)
            price = f", at a cost of {K * self.cost:,.4g}" if self.cost and K < math.inf else ""
            needs = (
                f"about {K:,.0f} more episodes{price}" if K < math.inf else f"more than {self.episodes[-1]:,}"
            )
            lines.append((f"{level:.0%}", needs))
        return ReprTable("Power", [*lines, ("label", f"{self.draws} draws, {self.label}")])


def power(
    run: Run,
    reward: Any,
    *,
    episodes: Sequence[int],
    target: float | None = None,
    policy: Any = None,
    incumbent: Any = None,
    at_least: float | None = None,
    gather: Any = None,
    costs: float = 0.0,
    scale: str = "total",
    delta: float = 0.05,
    draws: int = 50,
    prior: Any = None,
    seed: int = 0,
) -> Power:
    """The probability that a decision is certified after so many more episodes.

    The decision: target: the plan (or the `policy`) has a suboptimality of at most the target; policy and incumbent:
    the policy is better than the incumbent; policy and at_least: its value is at least so much.

    gather: the policy that the episodes are recorded with, as for `Run.evaluate`, or the name of an explorer (for
    tables); by default the run's own explorer or, for a log, how often each action was taken in each state. costs: of
    an episode. draws, prior, seed: as for `Run.posterior`.
    """
    ladder = np.unique(np.atleast_1d(check_integers(episodes, "episodes")))
    is_ladder = ladder.size and ladder[0] >= 1
    require(is_ladder, "episodes", episodes, "numbers of more episodes, such as [100, 1000]")
    cost = float(check_floats(costs, "costs"))
    ask = _decision(run, reward, target, policy, incumbent, at_least, {"scale": scale, "delta": delta})
    number = check_count(draws, "draws")
    gathered_by = _name(run, gather)
    if ask(run):
        return Power(ask.statement, gathered_by, ladder, np.ones(len(ladder)), number, "", True, cost)
    posterior = run.posterior(draws=number, prior=prior, seed=seed)
    first = np.full(number, len(ladder))  # the first number of episodes after which it is certified
    for i in range(number):
        grown = _grown(run, posterior.parameters[i], gather, ladder, seed=seed + i)
        first[i] = next((k for k, longer in enumerate(grown) if ask(longer)), len(ladder))
    probability = (first[:, None] <= np.arange(len(ladder))).mean(0)
    return Power(ask.statement, gathered_by, ladder, probability, number, posterior.label, False, cost)


@dataclass(frozen=True, eq=False)
class _Decision:
    """A question to a run, which its certificates answer."""

    statement: str
    reward: Any
    options: dict[str, Any]
    target: float | None
    policy: Any
    incumbent: Any
    at_least: float | None

    def __call__(self, run: Run) -> bool:
        if self.incumbent is not None:
            return run.compare(self.reward, self.policy, self.incumbent, **self.options).low > 0
        plan = (
            run.plan(self.reward, **self.options)
            if self.policy is None
            else run.evaluate(self.reward, self.policy, **self.options)
        )
        if plan.certificate.is_rejected:
            return False
        if self.at_least is not None:
            return plan.value_low >= self.at_least
        return self.target is not None and plan.gap <= self.target


def _decision(
    run: Run, reward: Any, target: Any, policy: Any, incumbent: Any, at_least: Any, options: dict[str, Any]
) -> _Decision:
    is_given = [x is not None for x in (target, incumbent, at_least)]
    if sum(is_given) != 1 or (policy is None and not is_given[0]):
        raise OptionError(
            "say which decision: target=, or policy= with incumbent= (is it better?), or policy= with at_least="
        )
    if incumbent is not None:
        statement = "the policy is better than the incumbent"
    elif at_least is not None:
        statement = f"the value of the policy is at least {float(check_floats(at_least, 'at_least')):g}"
    else:
        statement = (
            f"the {'plan' if policy is None else 'policy'} has a suboptimality of at most {float(target):g}"
        )
    return _Decision(statement, reward, options, target, policy, incumbent, at_least)


def _name(run: Run, gather: Any) -> str:
    if isinstance(gather, str):
        return f"the explorer {gather}"
    if gather is not None:
        return "the given policy"
    return "the policy of the log" if run.explorer_spec is None else f"the explorer {run.explorer_spec.name}"


def _grown(run: Run, truth: Any, gather: Any, ladder: Int[np.ndarray, " n"], *, seed: int) -> Iterator[Run]:
    """The run with more and more episodes of one system."""
    problem = run.problem._replace(truth=truth, recipe=None)
    steps = np.diff(np.append(0, ladder))
    if gather is None and run.explorer_spec is not None:
        extended = replace(run, problem=problem, is_simulated=True, folder=None, seed=seed)
        for num_more in steps:
            extended = extended.resume(episodes=int(num_more), progress=False)
            yield _with_evidence(run, extended.evidence)
        return
    if isinstance(gather, str):
        if run.problem.model.is_shared:
            raise OptionError(
                f"gather is {gather!r}; explorers are simulated for tables: give a policy instead"
            )
        from horizonfree.runs.explore import explore

        live_run = None
        for num_more in steps:
            if live_run is None:
                live_run = explore(problem, gather, episodes=int(num_more), seed=seed, progress=False)
            else:
                live_run = live_run.resume(episodes=int(num_more), progress=False)
            new, old = live_run.evidence, run.evidence
            yield _with_evidence(
                run, replace(old, counts=old.counts + new.counts, episodes=old.episodes + new.episodes)
            )
        return
    from horizonfree.problems.simulate import simulate
    from horizonfree.runs.logged import evidence_after

    policy, evidence = run._policy(logging_policy(run) if gather is None else gather), run.evidence
    for k, num_more in enumerate(steps):
        episodes = simulate(problem, policy, episodes=int(num_more), seed=(seed + 1) * 1000 + k)
        evidence = evidence_after(problem, evidence, episodes)
        yield _with_evidence(run, evidence)


def _with_evidence(run: Run, evidence: Any) -> Run:
    """The run with other evidence, to be asked for certificates."""
    return replace(run, evidence=evidence, state=None, records={}, folder=None, log=None)
