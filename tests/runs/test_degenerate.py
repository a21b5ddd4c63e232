"""Systems in which nothing is unknown, and those of one state, one action or one step."""

import itertools

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError


def deterministic_kernel(S, A):
    """Action a leads from state s to state s + a, for sure."""
    P = np.zeros((S, A, S))
    s, a = np.indices((S, A))
    P[s, a, (s + a) % S] = 1
    return P


def spread(S, A, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(S), size=(S, A))


MAKERS = {
    "known table": lambda S, A, H: hf.Tabular.from_table(
        deterministic_kernel(S, A), horizon=H, support="given"
    ),
    "table": lambda S, A, H: hf.Tabular.from_table(spread(S, A), horizon=H, support="any"),
    "known mixture": lambda S, A, H: hf.Mixture.from_kernels(
        [deterministic_kernel(S, A)], horizon=H, weights=[1.0]
    ),
    "equal kernels": lambda S, A, H: hf.Mixture.from_kernels(
        [spread(S, A)] * 2, horizon=H, weights=[0.5] * 2
    ),
    "mixture": lambda S, A, H: hf.Mixture.from_kernels(
        [spread(S, A), spread(S, A, 1)], horizon=H, weights=[0.5] * 2
    ),
    "linear": lambda S, A, H: hf.LinearMDP.from_features(
        np.eye(S * A).reshape(S, A, S * A), mu=spread(S, A).reshape(S * A, S), horizon=H
    ),
}

ALWAYS = {
    "plan",
    "nothing to win",
    "evaluate",
    "compare",
    "uniform",
    "goals",
    "check",
    "run",
}  # never refused
FAR = hf.Misspecification(tv=0.3, support="anywhere")


def questions(problem, run):
    """All questions to a run, by name."""
    H, S, A = problem.space.sizes
    goal, first, last = hf.goal(problem, S - 1), [0] * S, [A - 1] * S
    equal_reward = np.full((H, S, A), 1 / H)
    return {
        "plan": lambda: str(run.plan(goal)),
        "nothing to win": lambda: str(run.plan(np.zeros((H, S, A)))),
        "per step": lambda: str(run.plan(np.ones((S, A)), scale="per-step")),
        "rescaled": lambda: str(run.plan(np.full(S, 3.0), scale="rescale")),
        "final": lambda: str(run.plan(np.zeros(S), final=np.ones(S), scale="rescale")),
        "one step": lambda: str(run.plan(goal if H == 1 else np.zeros(S), horizon=1)),
        "evaluate": lambda: str(run.evaluate(goal, first)),
        "compare": lambda: str(run.compare(goal, first, last)),
        "uniform": lambda: str(run.certificate()),
        "direct": lambda: str(run.certificate(method="direct")),
        "paper": lambda: str(run.certificate(method="paper")),
        "goals": lambda: str(run.certificate(rewards="goals")),
        "occupancies": lambda: str(run.certificate(rewards="occupancies")),
        "alternatives": lambda: str(run.certificate(alternatives="auto")),
        "within": lambda: str(run.certificate(misspecification=0.01)),
        "anywhere": lambda: str(run.certificate(misspecification=FAR)),
        "plan within": lambda: str(run.plan(equal_reward, misspecification=FAR)),
        "weights": lambda: str(run.weights),
        "intervals": lambda: str(run.weight_intervals),
        "check": lambda: run.check().summary(),
        "robustness": lambda: run.robustness(0.5).summary(),
        "robustness of one": lambda: run.robustness(0.5, reward=goal).summary(),
        "run": lambda: str(run),
    }


def test_the_smallest_problems_are_answered_or_refused_in_words(subtests):
    for sizes, name in itertools.product([(1, 1, 1), (1, 2, 2), (2, 1, 1), (2, 2, 2)], MAKERS):
        with subtests.test(name, sizes=sizes):
            problem = MAKERS[name](*sizes)
            run = hf.explore(problem, episodes=2, progress=False)
            for question, ask in questions(problem, run).items():
                try:
                    text = ask()
                except HorizonfreeError:
                    assert question not in ALWAYS
                    continue
                assert "nan" not in text.replace("\n", " ").split(), question
                assert "about 0 more" not in text, question


@pytest.mark.parametrize("name", ["known table", "known mixture"])
def test_a_policy_that_loses_everything_in_a_known_system_is_bad_and_its_gap_is_not_vacuous(name):
    problem = MAKERS[name](2, 2, 2)
    run = hf.explore(problem, episodes=1, progress=False)
    evaluation = run.evaluate(hf.goal(problem, 1), [0, 0])
    assert evaluation.gap == 1
    assert evaluation.value_high < 1e-9
    assert evaluation.certificate.summary().startswith(
        "this policy may lose everything; that is no lack of data"
    )
    assert run.evaluate(hf.goal(problem, 0), [0, 0]).gap < 1e-9
    assert run.plan(hf.goal(problem, 1)).gap < 1e-9
    assert run.confidence().missing() == "nothing is unknown, and more episodes do not help"


def test_a_bad_policy_in_a_system_that_is_known_well_is_no_lack_of_data():
    """After one episode it is: the certificate is vacuous."""
    problem = hf.Mixture.from_kernels([spread(2, 2), spread(2, 2, 1)], horizon=2, weights=[0.5, 0.5])
    run = hf.explore(problem, episodes=2000, progress=False)
    assert run.certificate().eps < 0.5
    reward = np.zeros((2, 2, 2))
    reward[0, :, 1] = 1.0  # action 1 at the first step
    assert run.evaluate(reward, [0, 0]).certificate.summary().startswith("this policy may lose everything")
    short_run = hf.explore(problem, episodes=1, progress=False)
    assert short_run.evaluate(reward, [0, 0]).certificate.summary().startswith("vacuous")
