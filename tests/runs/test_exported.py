"""A run as an interval MDP: wider than its confidence set, with the names of its problem; Storm computes the same."""

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError
from horizonfree.problems.verification.explicit import layout_of

RNG = np.random.default_rng(2)
KERNELS = RNG.dirichlet(np.ones(4), (2, 4, 2))
LAYOUT = layout_of({"goal": np.arange(4) == 3, "bad": np.arange(4) == 1}, {"cost": RNG.random((4, 2))})
PROPERTIES = (
    'Pmax=? [F<=4 "goal"]',
    'Pmin=? [!"bad" U<=4 "goal"]',
    'R{"cost"}max=? [C<=5]',
    'R{"cost"}min=? [C<=5]',
)


@pytest.fixture(scope="module")
def runs():
    mixture = hf.Mixture.from_kernels(
        KERNELS,
        horizon=5,
        weights=[0.7, 0.3],
        layout=LAYOUT,
        states=["a", "b", "c", "d"],
        actions=["go left", "go"],
    )
    table = hf.Tabular.from_table(mixture.kernel().dense(), horizon=5, layout=LAYOUT)
    allowed = np.array([[True, False], [True, True], [True, True], [False, True]])
    few_states = hf.Mixture.from_kernels(
        KERNELS, horizon=5, weights=[0.7, 0.3], layout=LAYOUT, actions_allowed=allowed
    )
    problems = {"mixture": mixture, "table": table, "some": few_states}
    explored_runs = {
        name: hf.explore(x, "uniform", episodes=200, progress=False) for name, x in problems.items()
    }
    return explored_runs | {"few": hf.explore(table, "uniform", episodes=15, progress=False)}


@pytest.mark.parametrize("name", ["mixture", "table", "some"])
def test_intervals_contain_the_certified_ones_and_storm_computes_them(name, runs, tmp_path):
    run = runs[name]
    model = run.explicit_model()
    assert model.num_choices == run.problem.actions_allowed.sum()
    assert list(model.states) == [str(x) for x in run.problem.layout.get("states", ())]
    for text in PROPERTIES:
        plan = run.plan(hf.property(text))
        is_max = "max" in text
        robust, cooperative = (model.value(text, uncertainty=x) for x in ("robust", "cooperative"))
        if is_max:
            assert plan.value_low <= cooperative + 1e-9
            assert robust <= plan.value_high + 1e-9
        else:
            assert cooperative <= plan.value_high + 1e-9
            assert plan.value_low <= robust + 1e-9
    stormpy = pytest.importorskip("stormpy", reason="stormpy is not installed")
    run.to_drn(tmp_path / "m.drn")
    run.to_umb(tmp_path / "m.umb")
    storm_models = [
        stormpy.build_model_from_drn[stormpy.Interval](str(tmp_path / "m.drn")),
        stormpy.build_model_from_umb(str(tmp_path / "m.umb")),
    ]
    for text in PROPERTIES:
        for uncertainty in ("robust", "cooperative"):
            mode = getattr(stormpy.UncertaintyResolutionMode, uncertainty.upper())
            for x in storm_models:
                result = stormpy.model_checking(
                    x, stormpy.parse_properties(text)[0], uncertainty_resolution_mode=mode
                )
                value = result.get_value(x.initial_states[0])
                assert model.value(text, uncertainty=uncertainty) == pytest.approx(value, abs=1e-6)


def test_the_estimate_is_an_mdp_with_the_value_of_the_plan(runs, tmp_path):
    for run in runs.values():
        model = run.explicit_model("estimate")
        assert not model.is_interval
        for text in PROPERTIES:
            assert model.value(text) == pytest.approx(run.plan(hf.property(text)).value, abs=1e-9)
        run.to_umb(tmp_path / "e.umb", "estimate")
        assert hf.read_umb(tmp_path / "e.umb").value(PROPERTIES[0]) == pytest.approx(
            model.value(PROPERTIES[0])
        )


def test_the_description_has_both_widths_and_they_are_those_of_a_plan(runs):
    run = runs["mixture"]
    text = run.explicit_model().description
    assert "95% confidence, any stopping time" in text
    event = hf.reach(run.problem, "goal")
    plan = run.plan(event)
    assert f"{plan.value_high - plan.value_low:.6g} for the confidence set" in text or "reaches bad" in text
    wide = float(text.split(", ")[-1].split()[0])
    width = float(text.split("): ")[-1].split()[0])
    assert width <= wide + 1e-9


def test_a_floor_raises_lower_ends_and_says_what_that_means(runs):
    without_floor, with_floor = (runs["few"].explicit_model(floor=x) for x in (0.0, 1e-12))
    assert (without_floor.low == 0).any()
    assert (with_floor.low > 0).all()
    assert "takes for granted" in with_floor.description
    assert "takes for granted" not in without_floor.description
    np.testing.assert_array_equal(without_floor.high, with_floor.high)


def test_unbounded_reachability_needs_the_floor_in_storm(runs, tmp_path):
    stormpy = pytest.importorskip("stormpy", reason="stormpy is not installed")
    question = stormpy.parse_properties('Pmax=? [F "goal"]')[0]
    mode = stormpy.UncertaintyResolutionMode.ROBUST
    runs["few"].to_drn(tmp_path / "m.drn", floor=1e-12)
    storm_model = stormpy.build_model_from_drn[stormpy.Interval](str(tmp_path / "m.drn"))
    value = stormpy.model_checking(storm_model, question, uncertainty_resolution_mode=mode).get_value(0)
    assert value == pytest.approx(1, abs=1e-3)
    runs["few"].to_drn(tmp_path / "n.drn")
    storm_model = stormpy.build_model_from_drn[stormpy.Interval](str(tmp_path / "n.drn"))
    with pytest.raises(Exception, match=r"(?i)lower bound|graph|zero|interval"):
        stormpy.model_checking(storm_model, question, uncertainty_resolution_mode=mode)


def test_what_cannot_be_written_is_refused(runs):
    run = runs["mixture"]
    for options in ({"what": "set"}, {"floor": -1.0}, {"floor": 0.5}, {"floor": True}):
        with pytest.raises(HorizonfreeError):
            run.explicit_model(**options)
    random_start = hf.Mixture.from_kernels(KERNELS, horizon=5, weights=[0.7, 0.3], start=[0.5, 0.5, 0, 0])
    run = hf.explore(random_start, "uniform", episodes=5, progress=False)
    with pytest.raises(HorizonfreeError, match="start in one of 2 states"):
        run.explicit_model(delta=1e-6)
    assert run.restart_from(0).explicit_model(delta=1e-6).initial.sum() == 1


@pytest.mark.parametrize(("S", "A", "H"), [(1, 1, 1), (1, 2, 3), (5, 1, 1), (3, 2, 60)])
def test_foreign_shapes_are_written_and_read(S, A, H, tmp_path):
    P = RNG.dirichlet(np.ones(S), (S, A))
    for problem in (
        hf.Mixture.from_kernels([P], horizon=H, weights=[1.0]),
        hf.Tabular.from_table(P, horizon=H),
        hf.Tabular.from_table(np.eye(S)[np.zeros((S, A), int)], horizon=H, support="given"),
    ):
        run = hf.explore(problem, "uniform", episodes=2, progress=False)
        for kind in ("interval", "estimate"):
            model = run.explicit_model(kind)
            model.to_drn(tmp_path / "m.drn")
            np.testing.assert_array_equal(hf.read_drn(tmp_path / "m.drn").low, model.low)
