"""Systems driven by noise: kernels agree with a literal loop, laws and outcomes of every form, error messages."""

from pathlib import Path

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError
from horizonfree.problems.any_law import any_law

DEMAND = {f"sell {w}": w for w in range(12)}
RNG = np.random.default_rng(0)
LAW = RNG.dirichlet(np.ones(12))
LAWS = RNG.dirichlet(np.ones(12), 3)


def news(s: int, a: int, w: int) -> int:
    """A newsvendor who may keep what is left."""
    return max(min(s + a, 9) - w, 0)


def queue(s: int, a: int, arrivals: int) -> int:
    """Serve up to a + 1, then the arrivals come; no more than 15 wait."""
    return min(max(s - a - 1, 0) + arrivals, 15)


def literal(step, law, S: int, A: int) -> np.ndarray:
    """P(s'|s,a) = sum_w p_w 1{f(s,a,w) = s'}, one by one."""
    P = np.zeros((S, A, S))
    for s in range(S):
        for a in range(A):
            for w, p in enumerate(law):
                P[s, a, step(s, a, w)] += p
    return P


def dense(problem: hf.Problem) -> np.ndarray:
    kernel = problem.kernel()
    P = np.zeros((problem.num_states, problem.num_actions, problem.num_states))
    s, a, _ = np.indices(kernel.prob.shape)
    np.add.at(P, (s, a, np.asarray(kernel.succ)), np.asarray(kernel.prob))
    return P


@pytest.mark.parametrize(("step", "S", "A", "q"), [(news, 10, 3, 9), (queue, 16, 2, 11), (queue, 16, 1, 11)])
def test_the_kernel_is_that_of_a_literal_loop(step, S: int, A: int, q: int) -> None:
    """A demand of 9 or more empties the shelf: no episode distinguishes these outcomes."""
    settings = {"num_states": S, "num_actions": A, "horizon": 4, "start": np.full(S, 1 / S)}
    free = hf.Mixture.from_noise(step, DEMAND, weights=LAW, **settings)
    np.testing.assert_allclose(dense(free), literal(step, LAW, S, A), atol=1e-12)
    mixed = hf.Mixture.from_noise(step, range(12), models=list(LAWS), weights=[0.2, 0.5, 0.3], **settings)
    np.testing.assert_allclose(
        dense(mixed), literal(step, np.array([0.2, 0.5, 0.3]) @ LAWS, S, A), atol=1e-12
    )
    assert free.layout["outcomes"] == list(DEMAND)
    assert (free.model.num_unknown, mixed.model.num_unknown) == (q, 2)


def test_an_array_of_next_states_is_the_same_as_the_function() -> None:
    next_states = np.array([[[news(s, a, w) for w in range(12)] for a in range(3)] for s in range(10)])
    from_array = hf.Mixture.from_noise(next_states, DEMAND, weights=LAW, horizon=4)
    from_function = hf.Mixture.from_noise(news, DEMAND, num_states=10, num_actions=3, weights=LAW, horizon=4)
    np.testing.assert_array_equal(from_array.model.phi, from_function.model.phi)


def test_one_outcome_leaves_nothing_to_learn() -> None:
    problem = hf.Mixture.from_noise(
        lambda s, a, w: (s + a + w) % 3, [1], num_states=3, num_actions=2, horizon=3
    )
    assert problem.model.num_unknown == 0
    assert problem.model.kernel(np.asarray(problem.model.valid.center)).prob.max() == 1


def test_many_outcomes_have_few_rows() -> None:
    """Thirty of them: rows of single outcomes, and of those that empty the shelf."""
    problem = hf.Mixture.from_noise(
        lambda s, a, w: max(min(s + 2 * a, 32) - w, 0), range(30), num_states=33, num_actions=11, horizon=8
    )
    assert problem.model.num_unknown == 29
    assert len(problem.model.valid.rows) <= 3 * 30


def test_any_law_is_the_richer_class_of_given_laws_and_survives_storage(tmp_path: Path) -> None:
    settings = {"num_states": 10, "num_actions": 2, "horizon": 2}
    problem = hf.Mixture.from_noise(
        lambda s, a, w: max(min(s + 4 * a, 9) - w, 0),
        range(5),
        models=LAWS[:, :5] / LAWS[:, :5].sum(1)[:, None],
        **settings,
    )
    assert any_law(hf.Mixture.from_noise(news, DEMAND, **settings)) is None
    assert any_law(hf.make("river-swim", states=3, horizon=3)) is None
    hf.from_episodes(problem, ([[0, 0, 0]], [[0, 0]])).save(tmp_path / "a")
    stored_class = any_law(hf.load(tmp_path / "a").problem)
    assert stored_class.model.dim == 5
    np.testing.assert_array_equal(stored_class.model.phi, any_law(problem).model.phi)


GOOD = {"step": news, "outcomes": DEMAND, "num_states": 10, "num_actions": 3, "horizon": 4}


REFUSALS = [
    ({"step": lambda s, a, w: s + 1}, r"step\(s=9, a=0, outcome sell 0\) is 10; it must be a state, 0 to 9"),
    ({"step": lambda s, a, w: 1 // 0}, r"step\(s=0, a=0, outcome sell 0\) fails: ZeroDivisionError"),
    ({"num_states": None}, "num_states is None"),
    ({"num_states": 10**6}, r"step would be called 36,000,000 times.*give step as an array"),
    ({"step": np.zeros((10, 3, 5), int)}, r"step has shape \(10, 3, 5\)"),
    ({"step": np.full((10, 3, 12), 10)}, r"step\[s=0, a=0, outcome 0\] is 10; states are 0 to 9"),
    ({"step": np.zeros((9, 3, 12), int)}, "num_states is 10; it must be 9"),
    ({"outcomes": []}, r"outcomes is \[\]; it must be a list or a dictionary of at least one"),
    ({"outcomes": 12}, "outcomes is 12; it must be a list, or a dictionary"),
    ({"outcomes": [1, 1]}, "outcomes has '1' more than once"),
    ({"models": {"slow": LAW[:5]}}, r"models\[slow\] has shape \(5,\); it must be \[outcomes\] = \(12,\)"),
    ({"models": {"slow": LAW / 2}}, r"models\[slow\] sums to 0.5.*give the tail to the last outcome"),
    ({"weights": LAW / 2}, "weights sum to 0.5"),
    ({"layout": 3}, "layout is 3"),
]


def test_what_is_no_noise_is_refused(subtests: pytest.Subtests) -> None:
    for wrong, message in REFUSALS:
        with subtests.test(message), pytest.raises(HorizonfreeError, match=message):
            hf.Mixture.from_noise(**{**GOOD, **wrong})
