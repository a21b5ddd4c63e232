"""A new policy against an incumbent: true intervals, what is likely, where data are missing; and power."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError, OptionError
from horizonfree.planning import evaluate
from horizonfree.runs.audit import logging_policy
from tests.runs.test_log_rows import ACTIONS, COLUMNS, STATES, P, machines

COST = np.array([[6.0, 4.0], [3.0, 1.0], [2.0, 0.0]])  # bad, fair, good; mend costs 2 more
RUN_ALWAYS, MEND_BAD = np.ones(3, int), np.array([0, 1, 1])


@pytest.fixture(scope="module")
def run() -> hf.Run:
    return hf.from_log(machines(1500, 20), columns=COLUMNS, horizon=5)


def true_cost(policy: np.ndarray, horizon: int = 5) -> float:
    table = hf.Tabular.from_table(P, horizon=horizon, start=2)
    reward = np.tile(COST, (horizon, 1, 1))
    return float(evaluate(table.kernel(), reward, np.tile(policy, (horizon, 1)).astype(np.int32))[0, 2])


def test_intervals_contain_the_truth_and_the_verdict_follows_from_them() -> None:
    """At delta = 1e-6 each: three false alarms in a million, for ten logs."""
    truth = true_cost(RUN_ALWAYS) - true_cost(MEND_BAD)
    assert truth > 0.5
    for seed in range(10):
        log = hf.from_log(machines(60, 20, seed), columns=COLUMNS, horizon=5)
        audit = hf.audit(log, -COST, MEND_BAD, RUN_ALWAYS, delta=1e-6)
        assert audit.comparison.low <= truth <= audit.comparison.high
        for plan, policy in ((audit.new, MEND_BAD), (audit.incumbent, RUN_ALWAYS)):
            assert plan.value_low <= -true_cost(policy) <= plan.value_high
        low, high = audit.comparison.low, audit.comparison.high
        assert ("better by at least" in audit.proved) == (low > 0 or high < 0)


def test_a_difference_that_is_proved_is_said_to_be(run: hf.Run) -> None:
    audit = hf.audit(run, -COST, MEND_BAD, RUN_ALWAYS)
    assert audit.proved.startswith("the new policy is better by at least")
    assert hf.audit(run, -COST, RUN_ALWAYS, MEND_BAD).proved.startswith("the incumbent is better by at least")
    assert "probability more than 0.999" in audit.likely
    assert "not proved: Bayesian, prior" in audit.likely
    low, high = audit.likely_difference
    assert (
        audit.comparison.low
        < low
        < true_cost(RUN_ALWAYS) - true_cost(MEND_BAD)
        < high
        < audit.comparison.high
    )
    assert "not refuted" in str(audit)
    assert "does not depend on the state that it led to" in str(audit)


def test_states_in_which_they_differ_and_pairs_without_data_are_named(run: hf.Run) -> None:
    audit = hf.audit(run, -COST, MEND_BAD, RUN_ALWAYS)
    (disagreement,) = audit.disagreements
    assert (disagreement.state, disagreement.new, disagreement.incumbent) == ("bad", "mend", "run")
    assert disagreement.share == pytest.approx(audit.new.occupancy.mean(0)[0])
    assert {(x.state, x.action) for x in audit.missing} <= {(s, a) for s in STATES for a in ACTIONS}
    weights = [x.uses / x.visits for x in audit.missing]
    assert weights == sorted(weights, reverse=True)
    assert sum(x.uses for x in audit.missing if x.action == "run") <= 2 * 5


def test_without_an_incumbent_the_policy_of_the_data_is_taken(run: hf.Run) -> None:
    visits = run.visits
    np.testing.assert_allclose(logging_policy(run), visits / visits.sum(1, keepdims=True))
    audit = hf.audit(run, -COST, MEND_BAD)
    assert audit.is_incumbent_logged
    np.testing.assert_allclose(audit.incumbent.policy, np.tile(logging_policy(run), (5, 1, 1)))


def test_plain_data_have_costs_as_positive_numbers(run: hf.Run) -> None:
    audit = hf.audit(run, -COST, MEND_BAD, RUN_ALWAYS)
    value = audit.to_dict(is_cost=True)
    low, high = value["new"]["interval"]
    assert low <= value["new"]["likely"][0] <= value["new"]["value"] <= value["new"]["likely"][1] <= high
    assert low == -audit.new.value_high
    assert value["difference"]["value"] < 0
    assert value["difference"]["probability_new_is_better"] == 1.0


def test_a_refuted_class_proves_nothing() -> None:
    rows = machines(40, 10)
    log = hf.from_log(rows, columns=COLUMNS, terminal=["bad"])  # left in this log
    audit = hf.audit(log, -COST, MEND_BAD, RUN_ALWAYS)
    assert audit.is_refuted
    assert audit.proved == "nothing: the data refute the model class"
    assert audit.likely.startswith("not available: the data refute")
    assert audit.to_dict()["difference"]["likely"] is None


def test_power_grows_with_the_data_and_agrees_with_data_that_come() -> None:
    """The decision is certified for most of ten later logs of the size at which it is likely, and for none now."""
    small = hf.from_log(machines(20, 5), columns=COLUMNS)
    settings = {"policy": MEND_BAD, "incumbent": RUN_ALWAYS, "scale": "rescale"}
    power = small.power(-COST, episodes=[20, 200, 20_000], draws=20, costs=2.0, **settings)
    assert not power.is_decided
    assert (np.diff(power.probability) >= 0).all()
    assert power.probability[0] < 0.5 < power.probability[2]
    assert 20 < power.needed(0.5) <= 20_000
    assert power.needed(0.5) <= power.needed(0.9)
    assert "at a cost of" in str(power)
    table = hf.Tabular.from_table(P, horizon=5, start=2)
    for seed in range(3):
        episodes = hf.simulate(table, np.full((5, 3, 2), 0.5), episodes=20_000, seed=seed)
        new_run = hf.from_episodes(hf.Tabular(3, 2, 5, 2), (episodes.s, episodes.a))
        assert new_run.compare(-COST, MEND_BAD, RUN_ALWAYS, scale="rescale").low > 0
    assert new_run.power(-COST, episodes=[10], **settings).is_decided


def test_power_of_explorers_and_of_policies() -> None:
    run = hf.from_log(machines(20, 5), columns=COLUMNS)
    settings = {"target": 3.0, "scale": "rescale", "episodes": [10, 400], "draws": 3}
    for gather in ("tabular-design", np.full((3, 2), 0.5)):
        power = run.power(-COST, gather=gather, **settings)
        assert power.probability.shape == (2,)
        assert power.probability[1] > 0
    run_of_table = hf.explore(
        hf.Tabular.from_table(P, horizon=5, start=2), "uniform", episodes=5, progress=False
    )
    assert "the explorer uniform" in str(run_of_table.power(-COST, **settings))
    with pytest.raises(OptionError, match="say which decision"):
        run.power(-COST, episodes=[10], policy=MEND_BAD)
    with pytest.raises(HorizonfreeError, match="episodes is"):
        run.power(-COST, episodes=[0], target=1.0)
