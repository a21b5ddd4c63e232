"""PRISM and JANI models with unknown constants."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError

stormpy = pytest.importorskip("stormpy", reason="stormpy is not installed")

ROBOT = Path(__file__).parents[3] / "gallery" / "robot.prism"
CHAIN = """dtmc
const double p;
const int N;
module m
  s : [0..N] init 0;
  [] s<N -> {up} : (s'=s+1) + {down} : (s'=0);
  [] s=N -> true;
endmodule
label "end" = s=N;
rewards "steps" true : 1; endrewards
"""


def chain(tmp_path, up_probability="p", down_probability="1-p", name="chain.prism"):
    path = tmp_path / name
    path.write_text(CHAIN.replace("{up}", up_probability).replace("{down}", down_probability))
    return path


def storm_value(path, constants, text):
    program = stormpy.parse_prism_program(str(path))
    program, _ = stormpy.io.instantiate_constants(program, constants)
    model = stormpy.build_model(program)
    result = stormpy.model_checking(model, stormpy.parse_properties(text)[0])
    return result.get_value(model.initial_states[0])


def test_the_robot_is_a_mixture_and_its_slip_rates_are_learnt():
    """The intervals of 200 episodes, measured beforehand with a script of its own: p and q, and the goal at the end."""
    problem = hf.from_prism(ROBOT, unknown=["p", "q"], horizon=12)
    assert problem.layout["weights"] == ["1", "p", "q"]
    assert problem.model.num_unknown == 2
    assert problem.num_states == 25
    assert problem.labels["goal"] == [problem.state_number("x=4 & y=4")]
    assert problem.layout["actions"] == ["right", "up", "stay"]
    np.testing.assert_allclose(problem.truth / problem.model.unit, [1, 0.1, 0.3])
    run = hf.explore(problem, episodes=200, seed=0, progress=False)
    np.testing.assert_allclose(run.weight_intervals[1:], [[0.066, 0.157], [0.267, 0.375]], atol=0.002)
    plan = run.plan(hf.goal(problem, "goal"))
    np.testing.assert_allclose([plan.value_low, plan.value_high], [0.589, 0.766], atol=0.002)
    assert plan.gap < 0.0045


def test_values_at_the_truth_are_those_of_storm():
    problem = hf.from_prism(ROBOT, unknown=["p", "q"], horizon=12)
    run = hf.explore(problem, "uniform", episodes=300, progress=False)
    known_problem = hf.from_prism(ROBOT, horizon=12)
    exact = hf.explore(known_problem, "uniform", episodes=1, progress=False)
    assert known_problem.model.num_unknown == 0
    storm_model = stormpy.build_model(stormpy.parse_prism_program(str(ROBOT)))
    for text in (
        'Pmax=? [F<=12 "goal"]',
        'Pmin=? [F<=12 "goal"]',
        'Pmax=? [!"edge" U<=9 "goal"]',
        'Pmax=? ["edge" U<=12 "goal"]',
        'R{"energy"}max=? [C<=12]',
        'R{"energy"}min=? [C<=7]',
    ):
        result = stormpy.model_checking(storm_model, stormpy.parse_properties(text)[0])
        true = result.get_value(storm_model.initial_states[0])
        assert exact.plan(hf.property(text)).value == pytest.approx(true, abs=1e-9)
        plan = run.plan(hf.property(text), delta=1e-6)  # false with probability 1e-6 at most
        value = exact.evaluate(hf.property(text), plan.policy).value
        assert plan.value_low - 1e-9 <= value <= plan.value_high + 1e-9
        assert abs(true - value) <= plan.gap + 1e-9


@pytest.mark.parametrize(("up_probability", "down_probability", "weights"), [
    ("p", "1-p", ["1", "p"]),
    ("p/4", "1-p/4", ["1", "p"]),
    ("0.5+p/10", "0.5-p/10", ["1", "p"]),
    ("p*p", "1-p*p", ["1", "p^2"]),
    ("p*(1-p)", "1-p+p*p", ["1", "p - p^2"]),
    ("p*p*(1-p)/2", "1-(p*p-p*p*p)/2", ["1", "p^2 - p^3"]),
])  # fmt: skip
def test_polynomials_are_linear_in_their_monomials(up_probability, down_probability, weights, tmp_path):
    path = chain(tmp_path, up_probability, down_probability)
    problem = hf.from_prism(path, unknown="p", constants={"N": 3, "p": 0.25}, horizon=6)
    assert problem.layout["weights"] == weights
    value = eval(up_probability, {"p": 0.25})
    kernel = problem.kernel().dense()
    np.testing.assert_allclose(kernel[0, 0, :2], [1 - value, value], atol=1e-15)
    run = hf.explore(problem, "uniform", episodes=1, progress=False)
    assert run.problem.model.num_unknown >= 1


def test_coefficients_are_exact():
    from horizonfree.problems.verification.affine import (
        basis,
        degree,
        evaluate_function,
        evaluate_polynomial,
        polynomial,
    )

    program = stormpy.parse_prism_program(
        str(Path(stormpy.__file__).parent / "examples/files/pdtmc/herman5.pm")
    )
    storm_model = stormpy.build_model[stormpy.RationalFunction](program)
    values, rows = {"p": Fraction(3, 7)}, []
    for state in storm_model.states:
        for action in state.actions:
            total = Fraction(0)
            for transition in action.transitions:
                exact = evaluate_function(transition.value, values)
                parts = polynomial(transition.value)
                assert sum(c * values["p"] ** sum(n for _, n in key) for key, c in parts.items()) == exact
                assert evaluate_polynomial(parts, values) == exact
                rows.append(parts)
                total += exact
            assert total == 1
    span = basis(rows)
    for f in rows:
        coefficients = {}
        for m, g in span.items():
            for key, c in g.items():
                coefficients[key] = coefficients.get(key, 0) + f.get(m, 0) * c
        assert {key: c for key, c in coefficients.items() if c} == f
    assert len(span) == len({min(g, key=degree) for g in span.values()})


def test_rational_functions_need_declared_values_or_a_table(tmp_path):
    path = chain(tmp_path, "1/(1+p)", "p/(1+p)")
    with pytest.raises(HorizonfreeError, match="no polynomial"):
        hf.from_prism(path, unknown="p", constants={"N": 2}, horizon=4)
    grid = hf.from_prism(path, unknown={"p": [0.5, 1, 3]}, constants={"N": 2, "p": 1}, horizon=4)
    assert grid.layout["weights"] == ["p=0.5", "p=1", "p=3"]
    np.testing.assert_allclose(grid.kernel().dense()[0, 0, 1], 0.5)
    with pytest.raises(HorizonfreeError, match="none of the declared values"):
        hf.from_prism(path, unknown={"p": [0.5, 3]}, constants={"N": 2, "p": 1}, horizon=4)
    table = hf.from_prism(path, unknown="p", constants={"N": 2, "p": 1}, horizon=4, kind="table")
    assert type(table.model).__name__ == "TabularModel"
    assert table.model.is_support_known
    np.testing.assert_allclose(table.kernel().dense()[0, 0, :2], [0.5, 0.5])
    assert hf.from_prism(path, unknown="p", constants={"N": 2}, horizon=4, kind="table").truth is None


def test_a_model_without_a_truth_learns_from_logs(tmp_path):
    problem = hf.from_prism(chain(tmp_path), unknown="p", constants={"N": 2}, horizon=3)
    assert problem.truth is None
    run = hf.from_episodes(problem, ([[0, 1, 2, 2]] * 3 + [[0, 0, 1, 2]] * 2, [[0, 0, 0]] * 5))
    assert 0 < run.weight_intervals[1, 0] < run.weight_intervals[1, 1] <= 1
    assert run.plan(hf.property('P max=? [F<=3 "end"]')).value > 0.5


def test_wrong_models_and_constants_are_refused(tmp_path):
    path, settings = chain(tmp_path), {"horizon": 4}
    with pytest.raises(HorizonfreeError, match="leaves p, N open"):
        hf.from_prism(path, **settings)
    with pytest.raises(HorizonfreeError, match="no constant 'q'"):
        hf.from_prism(path, unknown="q", **settings)
    with pytest.raises(HorizonfreeError, match="must be a number"):
        hf.from_prism(path, unknown="p", constants={"N": 2, "p": "x"}, **settings)
    with pytest.raises(HorizonfreeError, match="sum to 3/2"):
        hf.from_prism(chain(tmp_path, "p", "1.5-p"), unknown="p", constants={"N": 2}, **settings)
    with pytest.raises(HorizonfreeError, match="Storm cannot build"):
        hf.from_prism(chain(tmp_path), unknown="N", constants={"p": 0.1}, **settings)
    with pytest.raises(HorizonfreeError, match="has a value in"):
        hf.from_prism(ROBOT, unknown="p", constants={"q": 0.2}, **settings)
    text = CHAIN.replace("const double p;", "const double p; const double r;")
    (tmp_path / "two.prism").write_text(text.replace("{up}", "p*r").replace("{down}", "1-p*r"))
    with pytest.raises(HorizonfreeError, match="none for p"):
        hf.from_prism(
            tmp_path / "two.prism", unknown={"p": None, "r": [1, 2]}, constants={"N": 2}, **settings
        )
    for wrong in (3, ["p", "p"], [1]):
        with pytest.raises(HorizonfreeError, match="names of constants"):
            hf.from_prism(path, unknown=wrong, **settings)
    with pytest.raises(HorizonfreeError, match="'mixture' or 'table'"):
        hf.from_prism(path, unknown="p", kind="tabular", **settings)
    (tmp_path / "bad.prism").write_text("mdp module")
    with pytest.raises(HorizonfreeError, match="Storm cannot read"):
        hf.from_prism(tmp_path / "bad.prism", **settings)
    (tmp_path / "bad.jani").write_text("{")
    with pytest.raises(HorizonfreeError, match="not a JANI model"):
        hf.from_prism(tmp_path / "bad.jani", **settings)
    (tmp_path / "rates.prism").write_text(chain(tmp_path).read_text().replace("dtmc", "ctmc"))
    with pytest.raises(HorizonfreeError, match="is a CTMC"):
        hf.from_prism(tmp_path / "rates.prism", unknown="p", constants={"N": 2}, **settings)
    with pytest.raises(HorizonfreeError, match="No such file"):
        hf.from_prism(tmp_path / "none.prism", **settings)
    with pytest.raises(HorizonfreeError, match=r"truth|bound"):
        hf.from_prism(path, unknown="p", constants={"N": 2, "p": 1.5}, **settings)


def test_jani_models_are_the_prism_models_they_come_from(tmp_path):
    path = Path(stormpy.__file__).parent / "examples" / "files" / "dtmc" / "die.jani"
    content = json.loads(path.read_text(encoding="utf-8-sig"))
    prism_problem = hf.from_prism(path, horizon=8)
    assert prism_problem.num_actions == 1
    assert prism_problem.kernel().dense().sum(-1) == pytest.approx(1)
    content["constants"] = [{"name": "c", "type": "real", "value": 0.5}]
    for edge in content["automata"][0]["edges"]:
        if len(edge["destinations"]) == 2:
            for destination, value in zip(edge["destinations"], ("c", {"op": "-", "left": 1, "right": "c"})):
                destination["probability"] = {"exp": value}
    (tmp_path / "coin.jani").write_text(json.dumps(content))
    problem = hf.from_prism(tmp_path / "coin.jani", unknown=["c"], horizon=8)
    assert problem.truth is not None
    np.testing.assert_allclose(problem.kernel().dense(), prism_problem.kernel().dense())


def test_rewards_that_depend_on_unknown_constants_are_left_out(tmp_path):
    text = chain(tmp_path).read_text() + 'rewards "risk" true : p; endrewards\n'
    path = tmp_path / "risk.prism"
    path.write_text(text)
    problem = hf.from_prism(path, unknown="p", constants={"N": 2}, horizon=4)
    assert problem.layout["rewards"] == ["steps"]
    run = hf.from_episodes(problem, ([[0, 1]], [[0]]))
    assert run.plan(hf.property('R{"steps"}max=? [C<=4]')).value == pytest.approx(4)
    with pytest.raises(HorizonfreeError, match="no reward 'risk'"):
        run.plan(hf.property('R{"risk"}max=? [C<=4]'))
