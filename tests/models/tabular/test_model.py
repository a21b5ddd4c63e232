"""The class as a whole: lists, unknown pairs, parameters, what a stored model must be, and a run from end to end."""

import equinox as eqx
import numpy as np
import pytest

import horizonfree as hf
from horizonfree._x64 import x64
from horizonfree.errors import KernelError, OptionError, ShapeError
from horizonfree.models.registry import diagnostics_of
from horizonfree.models.serialization import arrays_of, rebuild, statics_of
from horizonfree.models.tabular.model import TabularModel, successor_lists
from horizonfree.problems.classes import Tabular
from tests.models.tabular.cases import random_case, random_table


def test_lists_name_the_possible_successors_in_order():
    possible = np.zeros((5, 1, 5), bool)
    possible[0, 0, [1, 3]] = possible[1:, 0, 2] = True
    succ, support, is_dense = successor_lists(possible)
    assert (succ.shape, is_dense) == ((5, 1, 2), False)
    assert succ[0, 0].tolist() == [1, 3]
    assert succ[4, 0].tolist() == [2, 2]
    assert support[4, 0].tolist() == [True, False]


def test_known_pairs_are_not_counted():
    """One possible successor, a terminal state, a state out of reach: nothing to learn there."""
    possible = np.ones((4, 2, 4), bool)
    possible[:, :, 3] = False
    possible[0, 1] = [False, True, False, False]
    model = Tabular(4, 2, 5, support=possible, terminal=[2]).model
    assert model.pairs.tolist() == [[0, 0], [1, 0], [1, 1]]
    assert model.num_unknown == 3
    assert Tabular(4, 2, 5).model.num_unknown == 8


def test_a_parameter_is_a_table_on_the_lists():
    P = random_table(np.random.default_rng(0), 6, 2, 2)
    model = Tabular.from_table(P, horizon=3, support="given").model
    assert model.space.succ.shape == (6, 2, 2)
    table = model.parameter(P, "P")
    np.testing.assert_allclose(model.kernel(table).dense(), P, atol=1e-15)
    assert diagnostics_of(model).in_units(table).shape == (int((P > 0).sum()),)
    P[0, 0] = np.full(6, 1 / 6)
    with pytest.raises(KernelError, match="impossible"):
        model.parameter(P, "P")
    with pytest.raises(ShapeError, match=r"\[S, A, S\]"):
        model.parameter(P[0], "P")
    with pytest.raises(KernelError, match="sums to"):
        Tabular.from_table(np.full((2, 1, 2), 0.4), horizon=2)


def test_a_stored_model_is_the_same():
    model = random_case(0).problem.model
    rebuilt = rebuild(TabularModel, statics_of(model), arrays_of(model))
    assert eqx.tree_equal(rebuilt, model)


@x64
def test_what_judges_ask():
    case = random_case(2, episodes=3000)
    model, evidence = case.problem.model, case.evidence
    assert 0.9 < diagnostics_of(model).inefficiency(evidence) < 3
    assert float(model.violation(evidence, case.problem.truth, 0.05)) < 0
    wrong = np.roll(case.problem.truth, 1, axis=-1)
    assert float(model.violation(evidence, wrong, 0.05)) > 0
    doubt = diagnostics_of(model).row_uncertainty(case.confidence)
    distance = np.abs(case.table - case.problem.kernel().dense()).max((1, 2))
    assert (distance <= doubt).all()
    assert 0 < diagnostics_of(model).mean_uncertainty(case.confidence) <= doubt.max()
    assert diagnostics_of(model).evidence_history(evidence) == []
    assert diagnostics_of(model).intervals(case.confidence) is None
    with pytest.raises(OptionError, match="uniform"):
        case.confidence.sharper("direct")


def test_a_run_from_end_to_end(tmp_path):
    """Explore, certify, plan, save, load, resume: one uninterrupted run gives the same."""
    problem = Tabular.from_table(random_table(np.random.default_rng(4), 4, 2, 2), horizon=5)
    run = hf.explore(problem, "uniform", episodes=300, progress=False)
    run.save(tmp_path / "run")
    loaded = hf.load(tmp_path / "run")
    assert loaded.certificate() == run.certificate()
    assert run.certificate().eps < 1
    reward = hf.goal(problem, 2)
    plan = run.plan(reward)
    assert hf.true_gap(problem, reward, plan.policy) <= plan.gap < 1
    np.testing.assert_array_equal(loaded.plan(reward).policy, plan.policy)
    resumed = loaded.resume(episodes=200, progress=False)
    uninterrupted = hf.explore(problem, "uniform", episodes=500, progress=False)
    np.testing.assert_array_equal(resumed.evidence.counts, uninterrupted.evidence.counts)


def test_a_system_that_leaves_the_support_is_rejected():
    P = random_table(np.random.default_rng(5), 4, 2, 3)
    narrow = P > 0
    s_next = int(np.flatnonzero(P[0, 0])[0])
    narrow[0, 0, s_next] = False
    model_class = Tabular(4, 2, 5, support=narrow)
    episodes = hf.simulate(Tabular.from_table(P, horizon=5), np.zeros((5, 4), int), episodes=50)
    certificate = hf.from_episodes(model_class, episodes).certificate()
    assert certificate.is_rejected
    assert "impossible" in certificate.summary()


def test_sparse_tables_are_taken_as_they_are():
    """Sums over all states and over the successor lists differ by rounding; that is no impossible transition."""
    S, A, n = 30, 2, 4
    for seed in range(20):
        rng, P = np.random.default_rng(seed), np.zeros((S, A, S))
        for s, a in np.ndindex(S, A):
            P[s, a, rng.choice(S, n, replace=False)] = rng.dirichlet(np.ones(n))
        problem = Tabular.from_table(P, horizon=3, support="given")
        np.testing.assert_allclose(problem.kernel().dense(), P, atol=1e-12)
