"""Logs as people have them: names, dates, holes, several columns, bins, data frames; and when holes void the proof."""

import datetime
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError, OptionError, ShapeError, UnknownNameError

STATES, ACTIONS = ["bad", "fair", "good"], ["mend", "run"]
P = np.array(
    [
        [[0.2, 0.3, 0.5], [0.9, 0.1, 0.0]],
        [[0.0, 0.3, 0.7], [0.3, 0.6, 0.1]],
        [[0.0, 0.1, 0.9], [0.1, 0.3, 0.6]],
    ]
)
COLUMNS = {"episode": "machine", "step": "week", "state": "status", "action": "order"}


def machines(K: int = 40, H: int = 10, seed: int = 0) -> dict[str, list]:
    """Weekly rows of K machines that all start good, without a column of next states."""
    rng = np.random.default_rng(seed)
    rows: dict[str, list] = {name: [] for name in COLUMNS.values()}
    for k in range(K):
        s = 2
        for h in range(H + 1):
            a = int(rng.integers(2))
            week = datetime.date(2024, 1, 1) + datetime.timedelta(weeks=h + k % 3)
            for name, x in zip(rows, (f"M{k}", week.isoformat(), STATES[s], ACTIONS[a])):
                rows[name].append(x)
            s = int(rng.choice(3, p=P[s, a]))
    return rows


def make_counts(rows: dict[str, list], is_kept: np.ndarray | None = None) -> np.ndarray:
    """Transitions between rows that follow each other, counted one by one; keep: rows whose entries are there."""
    N = np.zeros((3, 2, 3), int)
    is_kept = np.ones(len(rows["status"]), bool) if is_kept is None else is_kept
    for i in range(len(is_kept) - 1):
        if rows["machine"][i] == rows["machine"][i + 1] and is_kept[i] and is_kept[i + 1]:
            s, a, t = rows["status"][i], rows["order"][i], rows["status"][i + 1]
            N[STATES.index(s), ACTIONS.index(a), STATES.index(t)] += 1
    return N


def with_value(rows: dict[str, list], name: str, row: int, value: object) -> dict[str, list]:
    return rows | {name: [value if i == row else x for i, x in enumerate(rows[name])]}


def shuffled(rows: dict[str, list], seed: int = 1) -> dict[str, list]:
    order = np.random.default_rng(seed).permutation(len(rows["status"]))
    return {name: [x[i] for i in order] for name, x in rows.items()}


def test_names_and_dates_need_no_problem_and_are_in_every_answer() -> None:
    rows = machines()
    run = hf.from_log(shuffled(rows), columns=COLUMNS)
    np.testing.assert_array_equal(run.evidence.counts, make_counts(rows))
    assert run.problem.layout["states"] == STATES
    assert run.problem.layout["actions"] == ACTIONS
    assert run.problem.space.sizes == (10, 3, 2)
    plan = run.plan(hf.goal(run.problem, "good"))
    assert "first    run" in str(plan) or "first    mend" in str(plan)
    assert "from good, 10 steps" in plan.certificate.holds_for
    assert "(bad, run)" in run.certificate(1e-200).statement
    for sentence in (
        "does not depend on the state that it led to",
        "no states and actions but those of the log",
    ):
        assert sentence in plan.certificate.assumes
        assert sentence in run.certificate().assumes
    assert hf.certify(rows, columns=COLUMNS) == run.certificate()


def test_names_and_what_was_assumed_are_kept_in_a_folder(tmp_path) -> None:
    run = hf.from_log(machines(), columns=COLUMNS)
    run.save(tmp_path / "run")
    loaded = hf.load(tmp_path / "run")
    assert loaded.certificate() == run.certificate()
    assert loaded.problem.layout["states"] == STATES
    assert str(loaded).count("there is no column 'next_state'") == 1


def test_holes_are_refused_with_their_place_or_left_out_and_counted(subtests) -> None:
    rows = machines()
    holes = {
        "a state": (
            with_value(rows, "status", 15, None),
            [15],
            r"the first: row 15 \(episode M1\) has no next state, as row 16",
        ),
        "an action": (
            with_value(rows, "order", 15, ""),
            [15],
            r"the first: row 16 \(episode M1\) has no action",
        ),
        "a row": (
            {k: x[:15] + x[16:] for k, x in rows.items()},
            [15],
            r"row 15 \(episode M1\): a step is missing until row 16",
        ),
        "a step": (with_value(rows, "week", 15, float("nan")), [15], "row 16 has no step"),
    }
    for name, (rows_with_hole, lost_rows, message) in holes.items():
        with subtests.test(name):
            with pytest.raises(ShapeError, match=message):
                hf.from_log(rows_with_hole, columns=COLUMNS)
            is_kept = ~np.isin(np.arange(len(rows["status"])), lost_rows)
            expected = make_counts(rows, is_kept)
            if name == "an action":  # the transition into the row is complete
                s, a, t = (rows[c][i] for c, i in (("status", 14), ("order", 14), ("status", 15)))
                expected[STATES.index(s), ACTIONS.index(a), STATES.index(t)] += 1
            run = hf.from_log(rows_with_hole, columns=COLUMNS, missing="drop")
            np.testing.assert_array_equal(run.evidence.counts, expected)
            lost_rows = 1 if name == "an action" else 2
            assert f"{lost_rows} of 400 steps are incomplete or missing" in str(run)
            cut = hf.from_log(rows_with_hole, columns=COLUMNS, missing="cut")
            assert cut.evidence.counts.sum() == 390 + (4 if name == "an action" else 3)


def test_holes_without_a_row_for_the_step_before_the_hole_keep_its_next_state() -> None:
    """Rows with a next state of their own stand for themselves; a gap costs the steps that are missing only."""
    columns = {
        "episode": [0, 0, 0], "step": [0, 1, 5], "state": [0, 1, 1], "action": [0, 0, 0], "next_state": [1, 0, 0],
    }  # fmt: skip
    with pytest.raises(ShapeError, match=r"3 steps .* row 2 \(episode 0\): 3 steps are missing until row 3"):
        hf.from_log(columns)
    run = hf.from_log(columns, missing="drop")
    np.testing.assert_array_equal(run.evidence.counts[:, 0], [[0, 1], [2, 0]])
    np.testing.assert_array_equal(run.log.a.shape, (1, 4))
    assert hf.from_log(columns, missing="cut").evidence.counts.sum() == 2


def test_steps_that_are_missing_because_an_episode_ended_are_refused() -> None:
    rows = machines()
    is_last = [i % 11 == 10 for i in range(len(rows["status"]))]
    for missing in ("error", "drop", "cut"):
        with pytest.raises(
            ShapeError, match=r"row 11 \(episode M0\): terminated is true and there is no next state.* 39 "
        ):
            hf.from_log(rows | {"terminated": is_last}, columns=COLUMNS, missing=missing)


@pytest.mark.parametrize("is_selective", [False, True])
def test_dropped_steps_keep_the_certificate_valid_unless_they_depend_on_the_next_state(
    is_selective: bool,
) -> None:
    """A third of the steps is lost, by state and action; or all steps into `bad` are.

    In the first case the truth is inside the confidence set at delta = 1e-6 for each of 20 logs (2e-5 at most in all).
    In the second it is outside: that is what the assumption excludes.
    """
    table = hf.Tabular.from_table(P, horizon=10, start=2)
    for seed in range(20):
        rows = machines(200, 10, seed)
        rng = np.random.default_rng(seed)
        next_states = [None if i % 11 == 10 else t for i, t in enumerate([*rows["status"][1:], None])]
        lost_rows = [
            (t == "bad") if is_selective else rng.random() < (0.6 if s == "good" else 0.1)
            for s, t in zip(rows["status"], next_states)
        ]
        steps = {
            "next_state": [None if x else t for x, t in zip(lost_rows, next_states)],
            "order": [None if x else a for x, a in zip(lost_rows, rows["order"])],
        }
        rows_with_holes = rows | steps
        run = hf.from_log(rows_with_holes, columns=COLUMNS, missing="drop", states=STATES)
        outside = float(table.model.violation(run.evidence, table.truth, 1e-6)) > 0
        assert outside == is_selective


def test_a_column_of_steps_may_be_missing_or_count_from_anywhere() -> None:
    rows = machines()
    in_order = {name: x for name, x in rows.items() if name != "week"}
    columns = {role: name for role, name in COLUMNS.items() if role != "step"}
    run = hf.from_log(in_order, columns=columns)
    np.testing.assert_array_equal(run.evidence.counts, make_counts(rows))
    assert "there is no column 'step'" in str(run)
    with_dates = hf.from_log(rows, columns=COLUMNS | {"step": None})
    np.testing.assert_array_equal(with_dates.evidence.counts, run.evidence.counts)
    shifted = rows | {"week": [100 + 3 * (i // 11) + i % 11 for i in range(len(rows["week"]))]}
    np.testing.assert_array_equal(hf.from_log(shifted, columns=COLUMNS).evidence.counts, run.evidence.counts)


@pytest.mark.parametrize(
    ("dates", "is_even"),
    [
        (["2024-01-31", "2024-02-29", "2024-03-31", "2024-04-30"], True),  # months
        (["2024-01-01 00:00:03", "2024-01-01 01:00:00", "2024-01-01 02:00:01"], True),  # hours with jitter
        (
            ["2024-03-30T12:00:00+01:00", "2024-03-31T12:00:00+02:00", "2024-04-01T12:00:00+02:00"],
            True,
        ),  # summer time
        (["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04 12:00"], False),
        (["01.02.2024", "02.02.2024"], False),
    ],
)
def test_dates_are_steps_where_they_are_evenly_spaced(dates: list[str], is_even: bool) -> None:
    n = len(dates)
    log = {
        "episode": [0] * n,
        "step": dates,
        "state": ["a", "b"] * (n // 2) + ["a"] * (n % 2),
        "action": [0] * n,
    }
    if is_even:
        assert hf.from_log(log).evidence.counts.sum() == n - 1
    else:
        with pytest.raises(ShapeError, match=r"column step, row"):
            hf.from_log(log)


def test_numbers_that_leave_gaps_are_names_and_declared_sets_may_be_larger() -> None:
    log = {"episode": [0] * 4, "step": [0, 1, 2, 3], "state": ["3", "17", "250", "3"], "action": [5, 5, 9, 5]}
    run = hf.from_log(log)
    assert run.problem.layout["states"] == ["3", "17", "250"]
    assert run.problem.layout["actions"] == ["5", "9"]
    assert run.problem.state_number("250") == 2
    wide = hf.from_log(log, num_states=300, num_actions=10)
    assert (wide.problem.num_states, wide.problem.num_actions) == (300, 10)
    assert "but those of the log" not in wide.certificate().assumes
    names = ["3", "17", "250", "1000"]
    assert hf.from_log(log, states=names, actions=["5", "9"]).problem.num_states == 4
    with pytest.raises(HorizonfreeError, match="row 2: state 17 is not one of the 2 states"):
        hf.from_log(log, states=["3", "250"])


def test_a_state_may_be_made_of_columns_and_of_bins() -> None:
    rng = np.random.default_rng(0)
    wear, load = rng.uniform(0, 100, 600), rng.choice(["high", "low"], 600)
    log = {"episode": np.arange(600) // 20, "wear": wear, "load": load, "action": rng.integers(2, size=600)}
    options = {"columns": {"state": ["load", "wear"]}, "start": "unknown"}
    run = hf.from_log(log, bins={"wear": [20, 60]}, **options)
    assert run.problem.layout["states"][:3] == [
        "high, wear 20 to 60",
        "high, wear 60 or more",
        "high, wear below 20",
    ] or (
        set(run.problem.layout["states"][:6])
        == {f"{x}, wear {y}" for x in ("high", "low") for y in ("below 20", "20 to 60", "60 or more")}
    )
    s, t = (
        f"{load[i]}, wear {('below 20', '20 to 60', '60 or more')[np.searchsorted([20, 60], wear[i])]}"
        for i in (0, 1)
    )
    number = run.problem.state_number
    assert run.evidence.counts[number(s), log["action"][0], number(t)] >= 1
    assert run.evidence.counts.sum() == 30 * 19 + 30  # with the step before the start
    assert "binning wear is an assumption, not a fact" in run.certificate().assumes
    assert "binning wear" in run.plan(hf.goal(run.problem, s)).certificate.assumes
    with pytest.raises(ShapeError, match=r"column wear, row 1: .* is not a whole number; bins=\{'wear': 5\}"):
        hf.from_log(log, **options)
    with pytest.raises(
        OptionError, match=r"bins\['laod'\]: no state or action is made of this column; did you mean 'load'"
    ):
        hf.from_log(log, bins={"laod": 3}, **options)


def test_episodes_that_set_the_quantiles_are_not_counted() -> None:
    rng = np.random.default_rng(0)
    wear = rng.uniform(0, 100, 600)
    log = {"episode": np.arange(600) // 20, "wear": wear, "action": np.zeros(600, int)}
    run = hf.from_log(log, columns={"state": "wear"}, bins={"wear": 4}, start="unknown")
    edges = [float(f"{x:.3g}") for x in np.quantile(wear[:60], [0.25, 0.5, 0.75])]
    cells = np.searchsorted(edges, wear)
    N = np.zeros((5, 5), int)
    for i in range(60, 599):
        if i // 20 == (i + 1) // 20:
            N[cells[i], cells[i + 1]] += 1
    np.testing.assert_array_equal(run.evidence.counts[:4, 0], N[:4])
    assert run.episodes == 27
    assert "the first 3 of 30 episodes set the quantiles of the bins and are not counted" in str(run)
    first_episode = {name: x[:20] for name, x in log.items()}
    with pytest.raises(OptionError, match="give the edges instead"):
        hf.from_log(first_episode, columns={"state": "wear"}, bins={"wear": 4})


def test_starts_are_by_name_and_a_start_that_differs_is_refused_with_the_choices() -> None:
    rows = machines()
    rows = {
        name: x[1:] for name, x in rows.items()
    }  # the first machine begins a week later, in another state perhaps
    rows["status"][0] = "fair"
    with pytest.raises(OptionError, match=r"2 different states: good \(39\), fair \(1\). .* start='good'"):
        hf.from_log(rows, columns=COLUMNS)
    assert hf.from_log(rows, columns=COLUMNS, start="fair").problem.start == 1
    random_start = hf.from_log(rows, columns=COLUMNS, start={"good": 0.75, "fair": 0.25}).problem
    np.testing.assert_array_equal(random_start.start, [0, 0.25, 0.75])
    with pytest.raises(UnknownNameError, match="start: there is no state 'god'; did you mean 'good'"):
        hf.from_log(rows, columns=COLUMNS, start="god")
    ending = hf.from_log(rows, columns=COLUMNS, start="fair", terminal=["bad"])
    assert ending.certificate().is_rejected  # it is left in this log


def test_refusals_name_the_column_and_what_to_do(subtests) -> None:
    rows = machines(4)
    for options, message in (
        (
            {},
            r"has 'machine', .* and has no column 'episode'; .* columns=\{'episode': .., .*\}, .* --columns episode=",
        ),
        ({"columns": COLUMNS | {"state": "statsu"}}, "no column 'statsu'; .* did you mean 'status'"),
        ({"columns": {"sate": "status"}}, "some of episode, step, .* did you mean 'state'"),
        ({"columns": COLUMNS, "missing": "skip"}, "missing is 'skip'; it must be"),
        ({"columns": COLUMNS, "num_states": 3}, r"the log has names: states=\[..\] lists them all"),
    ):
        with subtests.test(message), pytest.raises(HorizonfreeError, match=message):
            hf.from_log(rows, **options)


def test_data_frames_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    rows = machines()
    frame = pandas.DataFrame(rows)
    frame["week"] = pandas.to_datetime(frame["week"])
    frame["order"] = pandas.Categorical(frame["order"], ["run", "mend", "scrap"])
    frame.loc[15, "status"] = None
    run = hf.from_log(frame, columns=COLUMNS, missing="drop")
    assert run.problem.layout["actions"] == ["run", "mend", "scrap"]  # in the order of the categories
    is_kept = np.arange(len(frame)) != 15
    np.testing.assert_array_equal(run.evidence.counts[:, [1, 0]], make_counts(rows, is_kept))
    assert run.evidence.counts[:, 2].sum() == 0
    assert "there are no states but" in run.certificate().assumes
    numbers = pandas.DataFrame(
        {"episode": [0, 0, 0], "state": pandas.array([0, 1, None], "Int64"), "action": [0, 0, 0]}
    )
    assert hf.from_log(numbers, missing="drop").evidence.counts.sum() == 1


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_other_frames_and_parquet(library: str, tmp_path) -> None:
    module, rows = pytest.importorskip(library), machines()
    table = module.DataFrame(rows) if library == "polars" else module.table(rows)
    run = hf.from_log(table, columns=COLUMNS)
    np.testing.assert_array_equal(run.evidence.counts, make_counts(rows))
    if library == "pyarrow":

        class Stream:
            def __arrow_c_stream__(self, requested_schema=None):
                return table.__arrow_c_stream__(requested_schema)

        assert hf.from_log(Stream(), columns=COLUMNS).certificate() == run.certificate()
        pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "log.parquet")
        assert hf.from_log(tmp_path / "log.parquet", columns=COLUMNS).certificate() == run.certificate()


class Recorded:
    """A data set with the interface of Minari's."""

    def __init__(self, observation_space, episodes) -> None:
        self.observation_space, self.action_space, self._episodes = (
            observation_space,
            gymnasium.spaces.Discrete(2),
            episodes,
        )

    def iterate_episodes(self):
        return iter(self._episodes)


def minari_episode(observations, actions, is_terminated: bool, id: int = 0) -> SimpleNamespace:
    ends = np.arange(len(actions)) == len(actions) - 1
    return SimpleNamespace(
        id=id,
        observations=observations,
        rewards=np.full(len(actions), 0.5),
        actions=np.array(actions),
        terminations=ends & is_terminated,
    )


def test_a_minari_data_set_is_a_run_and_final_states_have_copies() -> None:
    episodes = [
        minari_episode(np.array([0, 1, 3]), [0, 1], True),
        minari_episode(np.array([0, 1, 2, 0]), [0, 0, 1], False, 1),
    ]
    run = hf.from_minari(Recorded(gymnasium.spaces.Discrete(4), episodes))
    assert run.problem.space.sizes == (3, 8, 2)
    counts = np.zeros((8, 2, 8), int)
    for s, a, t in ((0, 0, 1), (1, 1, 7), (0, 0, 1), (1, 0, 2), (2, 1, 0)):  # state 3 is final: its copy is 7
        counts[s, a, t] += 1
    np.testing.assert_array_equal(run.evidence.counts, counts)
    assert run.observed_reward.count.sum() == 5
    run_with_terminal = hf.from_minari(Recorded(gymnasium.spaces.Discrete(4), episodes), terminal=[3])
    assert run_with_terminal.problem.num_states == 4
    pairs = [minari_episode((np.array([0, 1]), np.array([5, 6])), [1], False)]
    joined = hf.from_minari(
        Recorded(gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(9)] * 2), pairs), terminal=()
    )
    assert joined.problem.layout["states"] == ["obs0 0, obs1 5", "obs0 1, obs1 6"]
    real = [minari_episode(np.array([[0.5, 2.0], [1.5, 3.0]]), [1], False)]
    box = Recorded(gymnasium.spaces.Box(0, 9, (2,)), real)
    binned = hf.from_minari(box, terminal=(), bins={"obs0": [1.0], "obs1": [2.5]})
    assert binned.problem.num_states == 2
    with pytest.raises(ShapeError, match="it must be a minari"):
        hf.from_minari(7)
