"""Linear MDPs: what is accepted, what is refused in which words, and the named ones."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import FeatureError, HorizonfreeError, KernelError, ShapeError, SimulationError
from horizonfree.models.linear.model import LinearModel
from horizonfree.models.registry import diagnostics_of
from horizonfree.models.tabular.model import TabularModel
from horizonfree.planning import optimal
from tests.models.linear.systems import MU, PHI

build = hf.LinearMDP.from_features


def test_a_linear_problem_simulates_its_truth():
    problem = build(PHI, horizon=3, start=2, mu=MU, name="mine", layout={"actions": ["a", "b"]})
    assert isinstance(problem.model, LinearModel)
    assert (problem.num_states, problem.num_actions, problem.horizon, problem.start) == (4, 2, 3, 2)
    np.testing.assert_allclose(problem.kernel().prob, PHI @ MU, atol=1e-15)
    assert problem.space.is_dense
    assert np.asarray(problem.space.support).all()
    assert problem.model.num_unknown == 2 * 3


@pytest.mark.parametrize("scale", [1e-6, 1.0, 300.0])
def test_features_may_be_of_any_size(scale):
    """They are divided by their largest norm, and mu is multiplied; people get mu back as they gave it."""
    problem = build(PHI * scale, horizon=3, mu=MU / scale)
    assert np.linalg.norm(problem.model.phi, axis=-1).max() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(problem.kernel().prob, PHI @ MU, atol=1e-12)
    np.testing.assert_allclose(
        diagnostics_of(problem.model).in_units(problem.truth), MU.ravel() / scale, rtol=1e-12
    )


def test_without_mu_there_is_no_truth_and_a_start_may_be_drawn():
    problem = build(PHI, horizon=3, start=[0.5, 0.0, 0.5, 0.0])
    np.testing.assert_array_equal(problem.start, [0.5, 0.0, 0.5, 0.0])
    with pytest.raises(SimulationError):
        problem.kernel()


def with_entry(x, index, value):
    x = np.array(x)
    x[index] = value
    return x


ONE_HOT = np.eye(4)[np.arange(4)[:, None].repeat(2, 1)]


REFUSALS = [
    ({"phi": PHI[0]}, ShapeError, r"phi has shape \(2, 2\).*\[S, A, d\]"),
    ({"phi": np.zeros((4, 0, 2))}, ShapeError, "phi has shape"),
    ({"phi": with_entry(PHI, (1, 1, 0), np.nan)}, FeatureError, r"phi\(s=1, a=1\)\[0\] is nan"),
    ({"phi": with_entry(PHI, (1, 0, 1), 1e200)}, FeatureError, r"phi\(s=1, a=0\)\[1\] is 1e\+200"),
    ({"phi": 0 * PHI}, FeatureError, "all other features are 0"),
    (
        {"phi": with_entry(ONE_HOT, (2, 1), 0.0)},
        FeatureError,
        r"phi\(s=2, a=1\) .* sum to 1 .* add a feature",
    ),
    (
        {"phi": with_entry(PHI, (3, 0), [0.9, 0.5])},
        FeatureError,
        "no mu makes the probabilities of every pair sum",
    ),
    (
        {"phi": np.concatenate([PHI, PHI[..., :1]], -1)},
        FeatureError,
        "feature 2, 0.* combination .* leave it out",
    ),
    (
        {"phi": PHI @ [[1, 1 + 1e-8], [1, 1 - 1e-8]]},
        FeatureError,
        "feature 1, .* is a combination of those before",
    ),
    ({"phi": np.full((1, 1, 3), 1 / 3)}, FeatureError, "feature 1, .* is a combination"),
    ({"phi": "x"}, ShapeError, "phi has type"),
    ({"mu": MU.T}, ShapeError, r"mu has shape \(4, 2\); it must be \[d, S\] = \(2, 4\)"),
    ({"mu": with_entry(MU, (0, 1), np.inf)}, FeatureError, r"mu\[0, 1\] is inf"),
    ({"mu": with_entry(MU, (0, slice(2)), [1.4, -0.7])}, KernelError, r"\(s=0, a=0\) -> 1 is -0.*>= 0"),
    ({"mu": MU * 0.9}, KernelError, r"the sum of the probabilities of \(s=0, a=0\) is 0.9"),
    ({"horizon": 0}, ShapeError, "horizon is 0"),
    ({"start": 4}, ShapeError, "start is 4"),
    ({"start": [0.5, 0.4, 0, 0]}, KernelError, "start sums to 0.9"),
    ({"name": 3}, HorizonfreeError, "name is 3"),
]


def test_refusals_name_the_place_the_value_and_the_remedy(subtests):
    for settings, error, message in REFUSALS:
        with subtests.test(message), pytest.raises(error, match=message):
            build(**{"phi": PHI, "horizon": 3, "mu": MU} | settings)


def test_features_of_very_different_sizes_are_no_combination_of_each_other():
    build(PHI @ np.diag([1.0, 1e-5]), horizon=3, mu=np.diag([1.0, 1e5]) @ MU)


@pytest.mark.parametrize(
    ("name", "start", "values"),
    [
        ("linear-lock", 74, (0.395410329777, 0.039412482662, 0.000230216906)),
        ("soft-aggregation", 35, (0.255463742030, 0.006499593579, None)),
    ],
)
def test_named_problems_have_known_numbers(name, start, values):
    """The best values of all goals: the largest, the median, the smallest."""
    problem = hf.make(name)
    assert problem.start == start
    goals = np.stack([hf.goal(problem, s) for s in range(problem.num_states)])
    V = optimal(problem.kernel(), goals).V[:, 0, start]
    for value, expected in zip((V.max(), np.median(V), V.min()), values):
        assert expected is None or value == pytest.approx(expected, abs=1e-12)


def test_a_linear_problem_can_be_as_a_tabular_mdp():
    problem = hf.make("linear-lock", blocks=3, per_block=6, actions=2, horizon=5)
    for support in ("any", "given"):
        table = problem.as_tabular(support=support)
        assert isinstance(table.model, TabularModel)
        np.testing.assert_allclose(table.kernel().dense(), problem.kernel().prob, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"states": 20, "dim": 7}, "states is 20; it must be at least 21"), ({"dim": 3}, "dim is 3")],
)
def test_soft_aggregation_wants_states_for_its_destinations(settings, message):
    with pytest.raises(HorizonfreeError, match=message):
        hf.make("soft-aggregation", **settings)


@pytest.mark.parametrize(
    "settings", [{"states": 20, "actions": 2, "seed": 245}, {"states": 24, "actions": 4, "seed": 4912}]
)
def test_no_action_is_a_gate_to_both_rare_destinations(settings):
    """With these seeds the gates of the two would be the same: one feature twice the other."""
    phi = hf.make("soft-aggregation", dim=4, rare=0.5, **settings).model.phi
    is_gate = phi[:, :, 2:] > 0
    assert is_gate.any((0, 1)).all()
    assert not is_gate.all(2).any()


def test_a_problem_is_seen_as_a_linear_mdp(subtests):
    """One feature per allowed pair, or given ones; episodes of the same law."""
    from tests.reference.small import dense

    small = dense(horizon=3)
    wide = hf.make("random-mixture", states=6, horizon=3)
    for problem in (small, wide, small.as_tabular(), hf.make("linear-lock", blocks=2, horizon=3)):
        with subtests.test(problem=problem.name):
            linear = problem.as_linear()
            assert linear.model.dim == problem.num_states * problem.num_actions
            np.testing.assert_allclose(linear.kernel().dense(), problem.kernel().dense(), atol=1e-12)
            assert linear.horizon == problem.horizon
            np.testing.assert_array_equal(linear.start, problem.start)
            assert linear.as_linear(linear.model.phi).model.dim == linear.model.dim
    allowed = np.array([[1, 0], [1, 1], [0, 1]], bool)
    kernels = np.random.default_rng(0).dirichlet(np.ones(3), (2, 3, 2))
    problem = hf.Mixture.from_kernels(kernels, horizon=3, weights=[0.5, 0.5], actions_allowed=allowed)
    linear = problem.as_linear()
    assert linear.model.dim == 4
    np.testing.assert_array_equal(linear.actions_allowed, allowed)
    np.testing.assert_allclose(
        linear.kernel().dense()[allowed], problem.kernel().dense()[allowed], atol=1e-12
    )
    run = hf.explore(linear, "wang2020", episodes=5, progress=False)
    assert run.certificate().eps <= 1
    without_weights = hf.Mixture.from_kernels(kernels, horizon=3).as_linear()
    assert without_weights.truth is None


def test_features_that_do_not_express_the_truth_are_refused():
    problem = hf.make("random-mixture", states=4, actions=2, horizon=3)
    with pytest.raises(FeatureError, match="give features that express"):
        problem.as_linear(np.ones((4, 2, 1)))
