"""Logs with a row per step: the same evidence as from arrays, short episodes, files, and refusals with the place."""

import csv
import sys
import types

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError, ModelError, OptionError, ShapeError, UnknownNameError
from horizonfree.runs.log_files import from_log
from horizonfree.runs.log_rows import COLUMNS


@pytest.fixture(scope="module")
def problem() -> hf.Problem:
    P = np.random.default_rng(0).dirichlet(np.ones(4), (4, 2))
    return hf.Tabular.from_table(P, horizon=5)


@pytest.fixture(scope="module")
def episodes(problem: hf.Problem):
    simulated = hf.simulate(problem, np.full((5, 4, 2), 0.5), episodes=30, seed=1)
    return np.asarray(simulated.s), np.asarray(simulated.a)


def make_columns(episodes, lengths=None) -> dict[str, np.ndarray]:
    """One row per step, the episodes named 7, 8, ..; steps count from 1."""
    s, a = episodes
    lengths = np.full(len(a), a.shape[1]) if lengths is None else lengths
    rows = [
        (7 + k, h + 1, s[k, h], a[k, h], s[k, h + 1]) for k in range(len(a)) for h in range(int(lengths[k]))
    ]
    return dict(zip(COLUMNS, np.array(rows).T))


def write(path, columns) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values()))


def test_a_log_gives_the_run_of_its_episodes(problem, episodes):
    """With the problem, or with sizes from the log: all four states and both actions occur."""
    expected = hf.from_episodes(problem, episodes)
    assert from_log(make_columns(episodes), problem).certificate() == expected.certificate()
    assert (
        "no states and actions but those of the log" in from_log(make_columns(episodes)).certificate().assumes
    )
    for run in (from_log(make_columns(episodes), problem), from_log(make_columns(episodes))):
        np.testing.assert_array_equal(run.evidence.counts, expected.evidence.counts)
        assert run.episodes == 30
        assert run.problem.space.sizes == (5, 4, 2)
        assert run.certificate().eps == expected.certificate().eps
        assert 0 < run.plan(hf.goal(run.problem, 2)).gap <= 1


def test_rows_may_come_in_any_order(episodes):
    columns = make_columns(episodes)
    mixed = np.random.default_rng(0).permutation(len(columns["step"]))
    run = from_log({name: x[mixed] for name, x in columns.items()})
    np.testing.assert_array_equal(run.evidence.counts, from_log(columns).evidence.counts)


def test_short_episodes_count_as_far_as_they_go(problem, episodes):
    """Against a count by hand; the log, two lists, and arrays that are short as a whole."""
    s, a = episodes
    lengths = np.random.default_rng(0).integers(1, 6, size=30)
    N = np.zeros((4, 2, 4), int)
    for k, length in enumerate(lengths):
        for h in range(length):
            N[s[k, h], a[k, h], s[k, h + 1]] += 1
    lists = [s[k, : n + 1] for k, n in enumerate(lengths)], [a[k, :n].tolist() for k, n in enumerate(lengths)]
    for run in (from_log(make_columns(episodes, lengths), problem), hf.from_episodes(problem, lists)):
        np.testing.assert_array_equal(run.evidence.counts, N)
        assert run.evidence.impossible == 0
        assert run.episodes == 30
    assert hf.certify(problem, lists) == run.certificate()
    short_run = hf.from_episodes(problem, (s[:, :4], a[:, :3]))
    assert short_run.evidence.counts.sum() == 90


def test_short_episodes_of_a_mixture_count_as_far_as_they_go():
    """A class whose evidence depends on the order: what was not seen changes nothing, whatever stands there."""
    problem = hf.make("zoned-grid", size=3, zones=3, horizon=5)
    episodes = hf.simulate(problem, np.full((5, 9, 4), 0.25), episodes=20, seed=3)
    s, a = np.asarray(episodes.s), np.asarray(episodes.a)
    lists = [x[:3] for x in s] + [s[0]], [x[:2] for x in a] + [a[0]]
    run = hf.from_episodes(problem, lists)
    assert run.evidence.counts.sum() == 20 * 2 + 5
    assert run.evidence.impossible == 0
    assert not run.certificate(1e-6).is_rejected


def test_sizes_start_and_ends_may_be_given(episodes):
    columns = make_columns(episodes)
    run = from_log(columns, num_states=6, num_actions=3, horizon=8, start=0, terminal=[5])
    assert run.problem.space.sizes == (8, 6, 3)
    assert run.problem.model.num_unknown == 15
    assert run.evidence.counts.sum() == 150


def test_a_start_that_differs_must_be_said(episodes):
    s, a = episodes
    columns = make_columns((s[:, 1:], a[:, 1:]))
    with pytest.raises(OptionError, match=r"start in 4 different states: .* start='unknown'"):
        from_log(columns)
    assert from_log(columns, start=np.full(4, 0.25)).evidence.impossible == 0
    run = from_log(columns, start="unknown")
    assert run.problem.space.sizes == (5, 5, 2)
    np.testing.assert_array_equal(run.evidence.counts[4].sum(0), np.bincount(s[:, 1], minlength=5))
    np.testing.assert_array_equal(run.evidence.visits[4], [15, 15])
    from_three = from_log(columns, start=3)  # of a table only transitions count, wherever they begin
    assert from_three.problem.start == 3
    np.testing.assert_array_equal(from_three.evidence.counts, run.evidence.counts[:4, :, :4])
    table = hf.Tabular(4, 2, 4, 3)
    with pytest.raises(ModelError, match="starts in state"):
        from_log(columns, table)


@pytest.mark.parametrize("is_renamed", [False, True])
def test_csv(tmp_path, episodes, is_renamed):
    """Columns in another order and others beside them; under other names, and with a mark that some programs add."""
    columns = make_columns(episodes)
    names = dict(zip(COLUMNS, ["id", "t", "s", "a", "s next"])) if is_renamed else {}
    other_columns = {"reward": np.full(150, 0.5), "note": np.full(150, '"quoted, twice"')}
    write(
        tmp_path / "log.csv",
        other_columns | {names.get(name, name): x for name, x in reversed(columns.items())},
    )
    if is_renamed:
        text = (tmp_path / "log.csv").read_text()
        (tmp_path / "log.csv").write_text(text, encoding="utf-8-sig")
    run = from_log(tmp_path / "log.csv", columns=names)
    np.testing.assert_array_equal(run.evidence.counts, from_log(columns).evidence.counts)
    assert from_log(str(tmp_path / "log.csv"), columns=names).episodes == 30


def test_parquet_needs_pyarrow(tmp_path, episodes, monkeypatch):
    """Without it the error says so; with it columns are requested by name (here a stand-in for the library)."""
    path = tmp_path / "log.parquet"
    path.touch()
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(
        OptionError, match=r"\.csv file needs no extra.*pyarrow is not installed; .*horizonfree\[parquet\]"
    ):
        from_log(path)
    columns = make_columns(episodes)

    class Column(list):
        def to_numpy(self):
            return np.array(self)

    reader = types.SimpleNamespace(read_table=lambda _: {name: Column(x) for name, x in columns.items()})
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", reader)
    np.testing.assert_array_equal(from_log(path).evidence.counts, from_log(columns).evidence.counts)


def test_parquet(tmp_path, episodes):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = make_columns(episodes)
    parquet.write_table(pyarrow.table(columns), tmp_path / "log.parquet")
    np.testing.assert_array_equal(
        from_log(tmp_path / "log.parquet").evidence.counts, from_log(columns).evidence.counts
    )


def with_value(columns, name, row, value):
    return columns | {name: np.where(np.arange(150) == row, value, columns[name])}


def without_row(columns, row):
    return {name: np.delete(x, row) for name, x in columns.items()}


BAD_ROWS = [
    (lambda x: without_row(x, 12), r"1 steps are .* row 12 \(episode 9\): a step is missing until row 13"),
    (lambda x: with_value(x, "step", 12, 2), "rows 12 and 13 are the same step of episode 9"),
    (lambda x: with_value(x, "action", 6, -1), "row 7: action is -1; numbers are 0 or more"),
    (
        lambda x: with_value(x, "next_state", 6, 9),
        r"row 7 \(episode 8\): next_state is 9, but row 8, the next step, is in state",
    ),
    (
        lambda x: {name: x[name] for name in COLUMNS[1:]},
        r"the log has 'step', .* and has no column 'episode'; .* columns=\{'episode': ..\}",
    ),
    (lambda x: x | {"step": x["step"][:-1]}, r"the columns have lengths \{'episode': 150, 'step': 149"),
    (
        lambda x: x | {"state": x["state"] * 1.5},
        r"column state, row \d+: \d+.5 is not a whole number; bins=\{'state': 5\}",
    ),
    (lambda x: {name: y[:0] for name, y in x.items()}, "they must be of one length, at least 1"),
    (lambda x: 7, "the log is 7; it must be a .csv or .parquet file, a data frame"),
    (lambda x: "nowhere.csv", "there is no file nowhere.csv"),
]


def test_rows_that_do_not_fit_together_are_refused(episodes, subtests):
    for change, message in BAD_ROWS:
        with subtests.test(message), pytest.raises(HorizonfreeError, match=message):
            from_log(change(make_columns(episodes)))


def test_states_beyond_the_sizes_are_refused_and_episodes_beyond_the_horizon_are_cut(problem, episodes):
    columns = make_columns(episodes)
    with pytest.raises(ShapeError, match=r"row \d+: state 3 is not one of the 3 states .* states are 0 to 2"):
        from_log(columns, num_states=3)
    with pytest.raises(ShapeError, match=r"row \d+: action 1 is not one of the 1 actions"):
        from_log(columns, num_actions=1)
    short = from_log(columns, horizon=3)  # a table learns from the steps beyond its horizon as well
    assert short.problem.horizon == 3
    np.testing.assert_array_equal(short.evidence.counts, from_log(columns).evidence.counts)
    cut = from_log(columns, hf.Tabular(4, 2, 3))  # a problem that is given has steps 1 to H only
    assert cut.evidence.counts.sum() == 30 * 3
    assert "60 steps after step 3, the horizon, are not used" in str(cut)
    with pytest.raises(OptionError, match="horizon, start, terminal: a problem has its own"):
        from_log(columns, problem, horizon=3, start=0, terminal=[1])
    with pytest.raises(
        OptionError, match=r"columns is \{'time': 't'\}; it must be a dictionary from some of episode"
    ):
        from_log(columns, columns={"time": "t"})


def test_lists_that_are_no_episodes_are_refused(problem):
    with pytest.raises(ShapeError, match="episode 1 has 2 states and 2 actions; it must have one state more"):
        hf.from_episodes(problem, ([[0, 1, 1, 1], [0, 1]], [[0, 0, 0], [0, 0]]))
    with pytest.raises(
        ShapeError, match=r"states\[1\] has shape \(1, 2\); it must be the states of one episode"
    ):
        hf.from_episodes(problem, ([[0, 1, 1], [[0, 1]]], [[0, 0], [0]]))
    with pytest.raises(ShapeError, match=r"actions\[1\] has type float64; it must hold whole numbers"):
        hf.from_episodes(problem, ([[0, 1, 1], [0, 1]], [[0, 0], [0.5]]))


def test_files_that_are_no_tables_are_refused(tmp_path):
    for name, text, message in (
        ("a.csv", "", "has no column 'episode'"),
        ("b.csv", "episode,step,state,action,next_state\n", "at least 1"),
        ("c.csv", "episode,step,state,action,next_state\n0,0,0,x,\n", "no step of the log is complete"),
        (
            "d.csv",
            "episode,step,state,action,next_state\n0,0,0\n",
            "d.csv, row 1: it has 3 cells, the header has 5",
        ),
        (
            "g.csv",
            "episode,step,state,action,state\n0,0,0,1,1\n",
            "1 names for several columns, such as 'state'",
        ),
        ("e.txt", "", r"e.txt is neither .csv nor .parquet; give the columns as arrays"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(HorizonfreeError, match=message):
            from_log(tmp_path / name)
    (tmp_path / "f.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises((ShapeError, UnknownNameError)):
        from_log(tmp_path / "f.csv")
