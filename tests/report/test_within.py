"""Reports of plans within constraints: what is shown is what `Run.plan` proves."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import horizonfree as hf
from horizonfree import report
from horizonfree.errors import HorizonfreeError, OptionError, ShapeError
from horizonfree.guarantees.certificate import interval
from horizonfree.report import draw
from horizonfree.report.facts import Example, Facts, compute_facts
from horizonfree.report.page import alt_texts, bound, decide, number, write_page
from horizonfree.runs.constrained import Constraint
from horizonfree.runs.run import Run

from .example_runs import grid, logged, rejected_run, river, run_of_known_kernel, table, unlabelled
from .reading import Page, stands_alone


@pytest.fixture(scope="module")
def swim() -> Run:
    return hf.explore(hf.make("river-swim", states=4, horizon=8), episodes=300, progress=False)


def shallow(run: Run, bound: float = 0.2) -> Constraint:
    return hf.at_most(hf.occupancy(run.problem, 1), bound, name="shallow")


def example_reward(run: Run, x: Example) -> object:
    """The reward of an example, from its title."""
    make: dict[str, Callable[..., object]] = {"End": hf.goal, "Stay": hf.occupancy, "Reach": hf.reach}
    return make[x.title.split()[0]](run.problem, x.states[0])


def first_screen(facts: Facts, folder: Path) -> str:
    text = write_page(facts, folder / "r.html").read_text(encoding="utf-8")
    return Page(text[: text.index('<ul class="tiles">')]).text


WITHIN: dict[str, Callable[[Run], list[Constraint]]] = {
    "a cost": lambda run: [shallow(run)],
    "an event and a cost": lambda run: [hf.at_most(hf.reach(run.problem, 1), 0.5), shallow(run)],
    "out of reach": lambda run: [hf.at_least(hf.occupancy(run.problem, 1), 1.5)],
    "never certified": lambda run: [shallow(run, 0.0)],
}


@pytest.mark.parametrize("make_constraints", WITHIN.values(), ids=WITHIN)
@pytest.mark.parametrize("make", [grid, table, river, run_of_known_kernel, rejected_run, logged, unlabelled])
def test_every_plan_is_that_of_the_run_and_what_is_proved_is_true(
    make: Callable[[], Run], make_constraints: Callable[[Run], list[Constraint]]
) -> None:
    """False alarm: 0.05 for each of the runs, whose seeds are fixed."""
    run = make()
    constraints = make_constraints(run)
    facts = compute_facts(run, constraints=constraints, has_robustness=False)
    assert len(facts.examples) == 4
    for x in facts.examples:
        plan = run.plan(example_reward(run, x), constraints=constraints)
        assert x.within is not None
        assert (x.value, x.value_low, x.value_high, x.gap) == (
            plan.value,
            plan.value_low,
            plan.value_high,
            plan.gap,
        )
        assert (x.statement, x.within.forecast) == (plan.certificate.summary(), plan.certificate.forecast)
        assert (x.within.status, x.within.constraints) == (plan.status, plan.constraints)
        assert run.problem.space.at_start(x.V) == pytest.approx(x.value, abs=1e-9)
        assert x.within.truth is None or facts.has_truth
        if plan.status == "infeasible":
            assert x.best is None
        if plan.status == "feasible" and x.loss is not None:
            assert x.loss <= x.gap + 1e-9
            for y, truth in zip(x.within.constraints, x.within.truth or (), strict=True):
                assert y.low - 1e-9 <= truth <= y.high + 1e-9


def test_where_nothing_is_unknown_the_plan_is_the_best_one() -> None:
    """The estimate is the truth: only the distance that the plan keeps from the bounds is lost."""
    run = run_of_known_kernel()
    for x in compute_facts(run, constraints=[shallow(run, 0.3)]).examples:
        assert x.within is not None
        assert x.best == pytest.approx(x.value, abs=1e-3)
        assert x.loss == pytest.approx(x.best - x.value, abs=1e-9)
        assert x.within.truth == pytest.approx([y.value for y in x.within.constraints], abs=1e-9)


def test_a_page_shows_status_bound_and_interval_of_every_constraint(tmp_path: Path, swim: Run) -> None:
    facts = compute_facts(swim, constraints=[shallow(swim), hf.at_most(hf.reach(swim.problem, 3), 0.45)])
    page = stands_alone(write_page(facts, tmp_path / "r.html").read_text(encoding="utf-8")).text
    for x in facts.examples:
        assert x.within is not None
        assert x.within.status == "feasible"
        for y in x.within.constraints:
            text = (
                f"{number(y.value)}, 95% confidence interval {interval(y.low, y.high)}; {y.side} is satisfied"
            )
            assert text in page
        assert f"suboptimality at most {bound(x.gap)} against every policy that satisfies" in page
    assert page.count("certified feasible") == 4
    screen = first_screen(facts, tmp_path)
    assert "Every plan below satisfies the constraints" in screen
    assert "shallow : an expected total of at most 0.2" in screen
    assert "constraint 2 : an expected total of at most 0.45" in screen
    assert "are of plans without constraints" in screen


@pytest.mark.parametrize(
    ("limit", "sentence", "badge"),
    [
        (0.7, "No policy satisfies the constraints.", "certified infeasible"),
        (0.45, "is undecided", "undecided"),
    ],
)
def test_what_is_not_certainly_within_is_an_alarm_on_the_first_screen(
    tmp_path: Path, swim: Run, limit: float, sentence: str, badge: str
) -> None:
    far = hf.at_least(hf.goal(swim.problem, 3), limit)
    facts = compute_facts(swim, constraints=[far])
    text = write_page(facts, tmp_path / "r.html").read_text(encoding="utf-8")
    screen = first_screen(facts, tmp_path)
    assert 'class="alarm"' in text
    assert 'class="notice"' not in text
    assert sentence in screen
    assert "satisfies the constraints (95%" not in screen.replace(sentence, "")
    page = Page(text).text
    for x in facts.examples:
        assert x.within is not None
        assert x.within.forecast in page
        assert (x.within.forecast != "") == (badge == "undecided")
    assert page.count(badge) >= 4
    assert "Every plan below" not in page


def test_refusals_are_told_in_place_of_plans(tmp_path: Path) -> None:
    run = hf.explore(hf.make("linear-lock", blocks=2, horizon=4), episodes=60, progress=False)
    event, cost = hf.at_most(hf.reach(run.problem, 1), 0.5), shallow(run, 0.3)
    facts = compute_facts(run, constraints=[event])
    assert facts.limits is not None
    assert (len(facts.examples), len(facts.limits.refused), facts.limits.trade_off) == (0, 3, None)
    screen = first_screen(facts, tmp_path)
    assert "Nothing is proved of the constraints" in screen
    assert screen.count("certificates of linear MDPs are about values of states alone") == 1
    facts = compute_facts(run, constraints=[cost])
    assert facts.limits is not None
    assert (len(facts.examples), facts.limits.refused) == (3, [])
    sampled = hf.from_simulators(
        [lambda s, a, rng: min(s + a, 2), lambda s, a, rng: max(s - 1, 0)],
        horizon=4,
        num_states=3,
        num_actions=2,
        samples=200,
    )
    run = hf.from_episodes(sampled, ([[0, 1, 2, 2, 2]] * 10, [[1, 1, 0, 0]] * 10))
    facts = compute_facts(run, constraints=[shallow(run)])
    assert facts.examples == []
    assert "nothing is proved with samples" in first_screen(facts, tmp_path)


def test_wrong_constraints_are_errors_and_name_the_constraint(swim: Run) -> None:
    with pytest.raises(ShapeError, match="danger: the reward has shape"):
        report.figures(swim, constraints=[hf.at_most([1.0, 2.0], 0.1, name="danger")])
    with pytest.raises(ShapeError, match=r"constraints\[0\]: the reward has shape"):
        report.figures(swim, constraints=[hf.at_most([1.0, 2.0], 0.1)])
    other_event = hf.reach(hf.make("river-swim", states=9, horizon=4), 3)
    wrong: list[object] = [[hf.at_most(other_event, 0.1)], ["x"], shallow(swim), {"a": 1}]
    for constraints in wrong:
        with pytest.raises(HorizonfreeError):
            compute_facts(swim, constraints=constraints)  # type: ignore[arg-type]


@pytest.mark.parametrize(("S", "A", "H"), [(1, 1, 1), (1, 2, 3), (3, 1, 2), (2, 2, 1)])
def test_odd_shapes(tmp_path: Path, S: int, A: int, H: int) -> None:
    run = hf.explore(hf.Tabular.from_table(np.full((S, A, S), 1 / S), horizon=H), episodes=20, progress=False)
    cost = np.zeros((S, A))
    cost[:, 0] = 1 / H
    for limit, status in ((1.1, "feasible"), (-0.1, "infeasible")):
        path = report.write_report(run, tmp_path / "r.html", constraints=[hf.at_most(cost, limit)])
        assert f"certified {status}" in stands_alone(path.read_text(encoding="utf-8")).text


def test_the_trade_off_is_that_of_the_first_reward_and_the_first_upper_bound(swim: Run) -> None:
    least, event = hf.at_least(hf.occupancy(swim.problem, 0), 0.1), hf.at_most(hf.reach(swim.problem, 3), 0.4)
    facts = compute_facts(swim, constraints=[least, event, shallow(swim)], has_robustness=False)
    figure = draw.trade_off(facts)
    assert figure is not None
    (axis,) = figure.axes
    curve = swim.pareto(example_reward(swim, facts.examples[0]), event.reward, points=8)
    np.testing.assert_array_equal(axis.lines[2].get_ydata(), curve.values)
    assert list(axis.lines[3].get_xdata()) == [0.4, 0.4]
    assert curve.summary() in alt_texts(facts)["trade-off"]
    none = compute_facts(swim, constraints=[least], has_robustness=False)
    assert draw.trade_off(none) is None
    free = hf.at_most(np.zeros(4), 0.4)  # what costs nothing
    assert draw.trade_off(compute_facts(swim, constraints=[free], has_robustness=False)) is None


def test_a_map_has_an_arrow_for_every_action_that_is_drawn() -> None:
    run = grid()
    example = compute_facts(run, has_robustness=False).examples[0]

    def arrows(policy: np.ndarray) -> list[float]:
        figure = draw.plan(run.problem, example._replace(policy=policy, V=np.ones(16)))
        assert figure is not None
        ends = [(np.array(x.xy), np.array(x.xyann)) for x in figure.axes[0].texts]
        return sorted(float(np.abs(head - tail).sum()) for head, tail in ends)

    policy = np.zeros((16, 4))
    policy[:, 0] = 1.0
    assert arrows(policy) == pytest.approx([0.6] * 16)
    policy[3] = [0.7, 0.27, 0.03, 0.0]  # what is less probable than 5% is left out
    lengths = arrows(policy)
    assert len(lengths) == 17
    assert lengths[0] < lengths[1] < lengths[2]
    start = run.problem.start
    policy[start] = [0.7, 0.27, 0.03, 0.0]
    facts = compute_facts(run, has_robustness=False)
    facts.examples[0] = example._replace(policy=policy)
    names = run.problem.layout["actions"]
    assert f"First action at the start: {names[0]} 70%, {names[1]} 27%." in alt_texts(facts)["plan-1"]


COST = [-0.125, -0.125, -0.125, 0.0]


def decision_page(
    run: Run, constraints: Sequence[Constraint], folder: Path, today: object
) -> tuple[dict, str]:
    decision = decide(run, COST, today, is_cost=True, constraints=constraints)
    facts = compute_facts(run, constraints=constraints, has_robustness=False)
    text = write_page(facts, folder / "d.html", decision=decision).read_text(encoding="utf-8")
    stands_alone(text)
    return decision, Page(text[: text.index("<header>")]).text


def test_a_decision_is_within_the_constraints_and_tells_of_todays_policy(tmp_path: Path, swim: Run) -> None:
    today = np.ones(4, int)
    cost = shallow(swim)
    decision, page = decision_page(swim, [cost], tmp_path, today)
    plan = swim.plan(COST, scale="rescale", constraints=[cost])
    old = swim.evaluate(cost.reward, today, scale="rescale")
    constraints = decision["within"]
    assert (constraints["status"], constraints["gap"]) == ("feasible", plan.gap)
    assert constraints["constraints"] == [x.to_dict() for x in plan.constraints]
    (current,) = constraints["today"]
    assert (current["value"], current["low"], current["high"]) == (old.value, old.value_low, old.value_high)
    assert current["status"] == "violated"
    assert decision["new"]["interval"] == pytest.approx([-plan.value_high, -plan.value_low])
    assert "The plan satisfies the constraints." in page
    assert "Proved, of the cost alone: " in page
    assert "Today's policy certainly violates shallow." in page
    assert f"{interval(current['low'], current['high'])} violated" in page
    assert "within" not in decide(swim, COST, today)


def test_a_decision_that_cannot_be_made_says_so(tmp_path: Path, swim: Run) -> None:
    far = hf.at_least(hf.goal(swim.problem, 3), 0.7)
    decision, page = decision_page(swim, [far], tmp_path, None)
    assert decision["within"]["status"] == "infeasible"
    assert "there is nothing to recommend" in page
    assert "recommended plan" not in page
    constraint = hf.at_least(hf.goal(swim.problem, 3), 0.45)
    decision, page = decision_page(swim, [constraint], tmp_path, None)
    assert "is undecided" in page
    assert decision["within"]["forecast"].capitalize() in page
    assert "recommended plan" not in page
    run = rejected_run()
    cost = hf.at_most(hf.occupancy(run.problem, 1), 0.2)
    decision = decide(run, np.arange(8.0), constraints=[cost])
    facts = compute_facts(run, constraints=[cost], has_robustness=False)
    text = write_page(facts, tmp_path / "d.html", decision=decision).read_text(encoding="utf-8")
    assert 'class="notice"' not in text
    assert "Nothing is proved of the constraints: the data refute the model class." in Page(text).text
    with pytest.raises(OptionError, match="leave --cost and --reward out"):
        decide(swim, COST, constraints=[hf.at_most(hf.reach(swim.problem, 2), 0.5)])
