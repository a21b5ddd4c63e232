"""The design of unknown tables: its bonus, its patience, and that it beats random actions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import horizonfree as hf
from horizonfree._x64 import to_device, to_numpy, x64
from horizonfree.errors import OptionError
from horizonfree.explorers import loop
from horizonfree.explorers.tabular_design import TabularDesign
from horizonfree.problems.classes import Tabular
from tests.models.tabular.cases import gather, random_case, random_table
from tests.reference.jitted import jitted


def chain(S=6, H=9):
    """To the right with probability 0.8, to the left else, or back to the start."""
    P = np.zeros((S, 2, S))
    for s in range(S):
        P[s, 0, 0] = 1.0
        P[s, 1, min(s + 1, S - 1)] += 0.8
        P[s, 1, max(s - 1, 0)] += 0.2
    return Tabular.from_table(P, horizon=H)


@x64
def test_the_bonus_is_about_the_radius():
    """Within a factor of 2.5 of eps for pairs that were seen 30 times and more; enormous without a visit."""
    case = random_case(0, S=4, m=2, H=5, episodes=2000)
    bonus = np.asarray(TabularDesign().bonus(case.problem.model, case.evidence))
    ratio = np.asarray(case.confidence.balls.eps) / bonus
    assert np.asarray(case.evidence.visits).min() >= 30
    assert 1 / 2.5 < ratio.min()
    assert ratio.max() < 2.5
    first = gather(case.problem, 1)
    is_unseen = np.asarray(first.visits) == 0
    np.testing.assert_allclose(
        np.asarray(TabularDesign().bonus(case.problem.model, first))[is_unseen], 4 * np.log(8 / 0.05)
    )


@x64
def test_the_policy_is_the_best_for_the_bonus_by_enumeration():
    """All 64 policies of a table with two states and three steps, of which the last does not count."""
    case = random_case(1, S=2, A=2, m=2, H=3, episodes=7)
    model, explorer = case.problem.model, TabularDesign()
    state = jitted(
        lambda model, evidence: explorer.choose(jnp.zeros(2), model, explorer.init(model), evidence),
        *to_device((model, case.evidence)),
    )
    bonus = np.asarray(jitted(explorer.bonus, model, case.evidence))
    n = np.asarray(case.evidence.visits)
    P = np.asarray(case.evidence.counts) / np.maximum(n, 1)[..., None]

    def predicted_eps(policy):
        mass, total = np.array([1.0, 0.0]), 0.0
        for h in range(2):
            total += mass @ bonus[np.arange(2), policy[h]]
            mass = mass @ P[np.arange(2), policy[h]]
        return total

    best = max(predicted_eps(np.array(list(np.binary_repr(i, 4)), int).reshape(2, 2)) for i in range(16))
    assert float(state.promise) == pytest.approx(best, rel=1e-12)
    assert predicted_eps(np.asarray(to_numpy(state).policy)) == pytest.approx(best, rel=1e-9)


def test_a_policy_is_kept_for_a_while():
    """From episode k on for 1 + k/50 episodes: the promises of a run change at those episodes alone."""
    run = hf.explore(chain(), TabularDesign(), episodes=400, progress=False)
    policies, k = [], 0
    while k < 400:
        policies.append(k)
        k += 1 + k // 50
    changes = np.flatnonzero(np.diff(run.records["promise"])) + 1
    assert set(changes) <= set(policies)
    assert len(changes) > 0.9 * len(policies)


@pytest.mark.parametrize("support", ["any", "given"])
def test_episodes_that_are_simulated_side_by_side_are_those_that_come_one_by_one(support, monkeypatch, anew):
    """Every bit of a run, whether the loop knows until when a policy stands or not, and however a run is cut."""
    P = random_table(np.random.default_rng(3), 5, 2, 3)
    problem = Tabular.from_table(P, horizon=4, support=support, start=[0.5, 0.5, 0, 0, 0])
    together = hf.explore(problem, TabularDesign(), episodes=700, seed=2, progress=False)
    cut = hf.explore(problem, TabularDesign(), episodes=333, seed=2, progress=False)
    calls = []
    monkeypatch.setattr(loop, "episodes_until_due", calls.append)  # None: it does not tell
    jax.clear_caches()
    sequential = hf.explore(problem, TabularDesign(), episodes=700, seed=2, progress=False)
    jax.clear_caches()
    assert calls
    for run in (sequential, cut.resume(episodes=367, progress=False)):
        pairs = zip(
            *(jax.tree.leaves((run.progress, dict(run.records))) for run in (together, run)), strict=True
        )
        for x, y in pairs:
            np.testing.assert_array_equal(x, y)


def test_it_certifies_far_earlier_than_random_actions():
    eps = {}
    for name, explorer in {"design": TabularDesign(), "random": "uniform"}.items():
        run = hf.explore(chain(), explorer, episodes=3000, progress=False)
        eps[name] = run.certificate().eps
    assert eps["design"] < 0.75 * eps["random"]


def test_it_goes_through_a_known_door_to_what_is_unknown():
    """State 0: stay among 0 and 1, or a known step to 2, behind which everything unknown of 2 and 3 lies."""
    P = np.zeros((4, 2, 4))
    P[[0, 1], 0, :2] = 0.5
    P[0, 1, 2] = P[1, 1, 0] = 1.0
    P[2:, :, 2:] = 0.5
    problem = Tabular.from_table(P, horizon=6, support="given")
    run = hf.explore(problem, TabularDesign(), episodes=30, progress=False)
    visits = np.asarray(run.evidence.visits)
    assert (visits[2:] > 5).all()


def test_it_is_for_tables_only():
    with pytest.raises(OptionError, match="TabularModel"):
        hf.explore(hf.make("river-swim"), TabularDesign(), episodes=1, progress=False)
    random = Tabular.from_table(random_table(np.random.default_rng(0), 3, 2, 2), horizon=3)
    run = hf.explore(random, TabularDesign(), episodes=2, progress=False)
    assert run.explorer.claim(run.problem.model, run.progress.state) is None
