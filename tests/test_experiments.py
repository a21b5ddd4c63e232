"""The experiments that reproduce the paper: their files, the scales they choose, tiny pieces of them, their tables."""

import json
import sys
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import horizonfree as hf
from horizonfree._x64 import to_device, x64
from horizonfree.explorers.audit import AuditedSum
from tests.reference import backward_induction

PLACES = [Path(__file__).parents[1] / "experiments" / name for name in ("reproduce", "table1", "shared")]
MODULES = (
    "exponents",
    "families",
    "shared",
    "answers",
    "draw",
    "figure",
    "look",
    "minimax",
    "monitor",
    "read",
    "run",
    "scales",
    "table",
    "tasks",
)


@pytest.fixture(scope="module")
def modules():
    """The modules of the experiments by name."""
    old_path, old_modules = list(sys.path), set(sys.modules)
    sys.path[:0] = map(str, PLACES)
    import answers
    import figure
    import look
    import minimax
    import read
    import run
    import scales
    import table
    import tasks

    by_name = {x.__name__: x for x in (answers, figure, look, minimax, read, run, scales, table, tasks)}
    yield by_name
    sys.path[:] = old_path
    for name in set(MODULES) - old_modules:
        sys.modules.pop(name, None)


def tuning_line(
    modules, problem: str, explorer: str, worst: dict[float, float], eps: dict[float, float]
) -> dict:
    """A line of the tuning: for each scale the largest distance of the truth, and the certificate."""
    from shared import folded

    rows = [
        {"seed": 0, "episodes": 300, "scale": x, "worst_ratio": worst[x], "eps": eps[x], "gap": x}
        for x in worst
    ]
    line = {"task": problem + explorer, "experiment": "tuning", "problem": problem, "explorer": explorer}
    return line | {"rows": folded(rows)}


@pytest.mark.parametrize("small", [False, True])
def test_every_file_gives_tasks_with_names_of_their_own(modules, small):
    files, tasks = modules["tasks"].FILES, modules["tasks"].tasks
    task_sets = [tasks(name, [], small) for name in files]
    assert all(task_sets)
    assert len(set().union(*task_sets)) == sum(map(len, task_sets))
    assert {task["experiment"] for task_set in task_sets for task in task_set.values()} == set(files)
    if not small:
        seeds = {seed for task in tasks("E1", []).values() for seed in task["seeds"]}
        assert len(seeds) >= 20


def test_scales_cover_or_certify_most_and_are_interpolated(modules):
    ratio = {
        0.5: 0.9,
        1.0: 1.2,
        2.0: 0.8,
        4.0: 0.3,
    }  # at 0.5 nothing was outside, at 1 something was: 2 it is
    eps = {0.5: 0.503, 1.0: 0.501, 2.0: 0.6, 4.0: 0.7}  # within 0.005 the gap decides: 0.5
    lines = [
        tuning_line(modules, "river horizon=8", "ucrl-rfe", ratio, eps),
        tuning_line(modules, "river horizon=512", "ucrl-rfe", ratio | {2.0: 1.1}, eps),
    ]
    scale = modules["scales"].scale
    assert scale(lines, "covering", "river horizon=8", "ucrl-rfe") == 2.0
    assert scale(lines, "covering", "river horizon=512", "ucrl-rfe") == pytest.approx(4.0)
    assert scale(lines, "covering", "river horizon=64", "ucrl-rfe") == pytest.approx(np.sqrt(8.0))
    assert scale(lines, "tuned", "river horizon=16", "ucrl-rfe") == 0.5
    assert scale(lines, "tuned", "grid horizon=16", "ucrl-rfe") is None
    tasks = [task for task in modules["tasks"].tasks("E1", lines).values() if task["explorer"] == "ucrl-rfe"]
    assert {task["who"]["scale"] for task in tasks if task["problem"] == "river horizon=8"} == {2.0}


@pytest.fixture(scope="module")
def tiny(modules):
    """A task of a sweep on a river of three states, and its rows."""
    tiny_task = {
        "seeds": 2,
        "checkpoints": [2, 6],
        "measure": ["eps"],
        "look": ["gap", "own_gap", "adversary", "claim", "families"],
        "problems": {"river": {"name": "river-swim", "states": 3, "vary": {"horizon": [3]}}},
        "explorers": {"uniform": {}},
    }
    (task,) = modules["tasks"].swept(tiny_task, [])
    return task, modules["answers"].answer({"experiment": "E1", **task})


def test_rows_have_the_numbers_of_every_seed_and_checkpoint(modules, tiny):
    from shared import unfolded

    rows = unfolded(tiny[1]["rows"])
    assert [(row["seed"], row["episodes"]) for row in rows] == [(0, 2), (0, 6), (1, 2), (1, 6)]
    for row in rows:
        kinds = [row[f"gap_{kind}"] for kind in ("goals", "occupancies", "dense", "sparse")]
        assert row["gap"] == max(kinds)
        assert (row["gap_adversary"] is None) == (row["episodes"] == 2)
        assert row["claim"] is None


def test_seeds_explored_side_by_side_have_the_rows_of_their_own_tasks(modules, tiny):
    from shared import unfolded

    task = {"experiment": "E1", **tiny[0]}
    halves = {f"task {seed}": task | {"seeds": [seed]} for seed in task["seeds"]}
    other_tasks = {"other": task | {"episodes": 7}}
    assert modules["run"].together(halves | other_tasks) == [halves, other_tasks]
    lines = modules["answers"].answers_of(halves)

    def numbers(line):
        return [{key: x for key, x in row.items() if key != "cpu_per_run"} for row in unfolded(line["rows"])]

    assert [row for key in halves for row in numbers(lines[key])] == numbers(tiny[1])


@x64
def test_gaps_are_what_plans_lose_and_the_adversary_plays_by_its_rules(modules):
    problem = hf.make("river-swim", states=3, horizon=3)
    kernel = problem.model.kernel(np.array([0.2, 0.5, 0.3]) / problem.model.unit)
    P, P_hat = problem.kernel().dense(), kernel.dense()
    look_module = modules["look"]
    tables = np.concatenate(list(look_module.suite(problem).values()))
    args = to_device((problem.space, problem.kernel(), kernel))

    def loss(reward: np.ndarray) -> float:
        policy, _ = backward_induction.optimal(P_hat, reward)
        best = backward_induction.optimal(P, reward)[1]
        return float(
            (best[0] - backward_induction.evaluate(P, reward, np.eye(2)[policy])[0])[problem.space.start]
        )

    np.testing.assert_allclose(look_module._losses(*args, tables), [loss(x) for x in tables], atol=1e-9)
    sets = [np.array(x, float) for x in product([0, 1], repeat=3)]
    weights = [*np.eye(3), np.full(3, 1 / 3)]
    allowed = [loss(w[:, None, None] * np.broadcast_to(x[:, None], (3, 2))) for w in weights for x in sets]
    largest_gap = float(look_module._climb(jax.random.key(0), *args))
    assert min(abs(largest_gap - x) for x in allowed) < 1e-9


def test_a_plan_on_a_hard_instance_loses_the_same_for_every_wrong_sign(modules):
    problem, minimax = hf.make("hard-instance", dim=3, horizon=4, episodes=27, seed=1), modules["minimax"]
    unit = 2 * 3 / 4 / np.sqrt(192 * 27)
    reward = hf.occupancy(problem, minimax.ABSORBING)
    for a in range(4):
        policy = np.full((4, 3), a)
        loss = hf.true_gap(problem, reward, policy)
        assert loss == pytest.approx(unit * minimax.wrong_signs(problem, policy), abs=1e-9)
    eps = minimax.least_eps(27, 3, 4, 0.05)
    assert hf.theory.lower_bound(eps * (1 - 1e-9), 0.05, 3, 4, 1.1) in (27, 28)  # rounded up


def test_hard_instances_are_run_to_multiples_of_their_episodes(modules):
    hard_task = {
        "seeds": 1,
        "truths": 2,
        "multiples": [1, 2],
        "problems": {"hard": {"name": "hard-instance", "dim": 2, "horizon": 2}},
        "explorers": {"uniform": {}},
    }
    (task,) = modules["minimax"].tasks(hard_task, [])
    rows = modules["minimax"].rows(task)
    assert [(row["truth"], row["episodes"]) for row in rows] == [(0, 12), (0, 24), (1, 12), (1, 24)]
    assert all(row["wrong"] in (0, 1) and 0 < row["eps"] <= 1 for row in rows)
    assert modules["minimax"].failures(rows) == np.mean([row["wrong"] for row in rows])


def test_the_monitor_keeps_order_0_and_the_order_nearest_to_its_bound(modules, monkeypatch):
    monitor = sys.modules["monitor"]
    sums = [AuditedSum("R_hat", m, value, 10.0) for m, value in enumerate((1.0, 5.0, 2.0))]
    monkeypatch.setattr(monitor, "audit", lambda run: [*sums, AuditedSum("G", None, 0.0, 3.0)])
    monkeypatch.setattr(monitor.hf, "explore_many", lambda *_, **__: [SimpleNamespace(seed=4)])
    task = next(iter(modules["tasks"].tasks("E7", [], True).values()))
    rows = monitor.rows(task)
    stored = [(row["seed"], row["sum"], row["order"], row["share"]) for row in rows]
    assert stored == [(4, "R_hat", 0, 0.1), (4, "R_hat", 1, 0.5), (4, "G", -1, 0.0)]


def test_episodes_to_a_target_follow_a_power_law(modules):
    read = modules["read"]
    rows = [{"seed": s, "episodes": k, "eps": (1 + s) * k**-0.5} for s in (0, 1) for k in (10, 40, 160, 640)]
    needed = [row["needed"] for row in read.episodes_to(rows, 0.1, "eps")]
    np.testing.assert_allclose(needed, [100, 400], rtol=1e-9)
    assert read.episodes_to(rows, 0.01, "eps")[0]["needed"] == np.inf
    assert read.told(rows, 0.01, "eps") == "> 640"
    assert read.told(rows, 1.0, "eps") == "< 10"


# Of an experiment: the powers of H and of d in a number, and how many times smaller the gap is
POWERS = {"E2": (0.0, 0.5, 0.001 / 0.65), "E6": (-0.5, 0.0, 0.02)}

FIRST = {
    "E1_instances": 125,
    "E2": 25,
    "E3": 100,
    "table1_ranks": 50,
}  # checkpoint, where every one is a task of its own


def fake_rows(task: dict) -> dict:
    """A line of a task that was not run: every number is a power law, 1.1 times larger at every second seed."""
    from shared import folded

    rows = []
    scales = next(iter(task["over"].values())) if task.get("over") else [None]
    H, d = task["world"].get("horizon", 8), task["world"].get("dim", 2)
    in_H, in_d, share = POWERS.get(task["experiment"], (0.25, 0.0, 0.002))
    for instance, seed in product(task.get("instances", [0]), task["seeds"]):
        noise = 1.1 if seed % 2 else 1.0
        if task["experiment"] == "E7":
            rows.append({"seed": seed, "sum": "G", "order": -1, "value": 1, "bound": 4, "share": 0.25})
        elif "multiples" in task:
            for truth, m in product(range(task["truths"]), task["multiples"]):
                row = {"seed": seed, "truth": truth, "own_wrong": 0, "unit": 1.0, "eps_0": 0.5}
                is_wrong = (5 * truth + seed) % 20 < 12 / m**0.5  # 0.3 of the signs at 4 K0
                row |= {"multiple": m, "episodes": task.get("K0", 12) * m, "wrong": (d - 1) * is_wrong}
                rows.append(row)
        else:
            for scale, K in product(scales, task["checkpoints"]):
                y = 0.5 * noise * (H / 8) ** in_H * (d / 2) ** in_d
                y *= (2 * FIRST.get(task["experiment"], task["checkpoints"][0]) / K) ** 0.5
                names = ("eps", "own_gap", "gap_any", "V_hat", "relaxed", "V_hat_best", "U_best", "claim")
                names += ("gap_tilde", "gap_hat", "gap_both", "cpu_per_run")
                row = {"seed": seed, "episodes": K, "scale": scale, **dict.fromkeys(names, y)}
                row |= {"gap": share * y, "worst_ratio": 0.5, "V_hat_sum": y * K, "k_star": K}
                rows.append(row | ({"instance": instance} if "instances" in task else {}))
    keys = ("experiment", "problem", "explorer", "who")
    return {key: task[key] for key in keys} | {"cpu": 1.0, "rows": folded(rows)}


def test_tables_and_figures_find_the_powers_that_were_put_in(modules, tmp_path):
    lines: list[dict] = []
    for name in modules["tasks"].FILES:
        is_small = name in ("tuning", "E4", "E5", "E5_search", "E7")
        tasks = modules["tasks"].tasks(name, lines, small=is_small)
        lines += [{"task": key, **fake_rows(task)} for key, task in tasks.items()]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)))
    texts = {name: part(tmp_path) for name, part in modules["figure"].PARTS.items()}
    (line,) = [x for x in texts["E1"].splitlines() if x.startswith("| optimal-design")][:1]
    assert line.count("+0.25 [") == 6  # V_hat, U, the claim, the certificate and two gaps
    assert "0/80" in texts["E1"]
    # every instance alike: three problems, four explorers, three numbers
    assert texts["E1_instances"].count("+0.25 to +0.25") == 36
    assert texts["E2"].count("+1.00 [") >= 6  # both targets, every explorer: the square of the power of d
    assert "-0.50 [" in texts["E3"]
    assert "+0.50 [" in texts["E3"]
    assert "+2.00 [" in texts["E4_eps"]
    assert "exponent of d in K: " in texts["E4"]
    assert "| 4 |" in texts["E4_eps"]
    assert "0.25 |" in texts["E7"]
    assert "+1.00 [" in texts["E6"]  # H times H^-0.5, squared
    assert "| lock | full | 0.5 |" in texts["E5"]
    assert texts["E8"].count("+0.25 [") >= 18
    assert texts["E9"].count("+0.00 [") >= 4
    (measured_line,) = [x for x in modules["table"].lines(tmp_path) if x[2] == "ucrl-rfe+"]
    assert measured_line[3].endswith("+0.50 [+0.50, +0.50]")  # the square of the power of H
    assert measured_line[5].startswith("2.00 [")
    # a rank is that of ties: of six explorers two have one seed, the better one
    assert measured_line[-1].count(", rank 4.5 (4.5 to 4.5)") == 2
    assert "| 1.000 to 1.000 |" in texts["E5_search"]
    for name in sys.modules["draw"].FIGURES:
        sys.modules["draw"].draw(name, tmp_path)
    modules["table"].draw(tmp_path, tmp_path / "table.svg")
    figures = (
        "horizon",
        "dimension",
        "rate",
        "minimax",
        "moments",
        "per_step",
        "proof",
        "rescaled",
        "sizes",
        "table",
    )
    assert all("</svg>" in (tmp_path / f"{name}.svg").read_text() for name in figures)
    assert "slope of the claim" in (tmp_path / "rate.svg").read_text()


def test_a_line_that_was_cut_short_is_made_again(modules, tmp_path, tiny):
    line = json.dumps({"task": "x", **tiny[1]})
    (tmp_path / "rows.jsonl").write_text(line + "\n" + line[:50])
    assert [row["task"] for row in modules["run"].stored(tmp_path)] == ["x"]
    assert modules["read"].read("E1", tmp_path)[0]["horizon"] == 3
    text = modules["figure"].horizon(tmp_path)
    assert "uniform" in text


def test_the_table_says_what_is_not_measured(modules, tmp_path, tiny):
    (tmp_path / "rows.jsonl").write_text(json.dumps({"task": "x", **tiny[1], "experiment": "table1"}) + "\n")
    lines = modules["table"].lines(tmp_path)
    assert len(lines) == len(hf.theory.table1())
    assert all("not measured" in line for line in lines)
    assert any("sstp (reconstruction)" in line for line in lines)
    assert "<td>not measured</td>" in modules["table"].page(lines)


def test_a_median_between_met_and_not_met_is_no_number(modules):
    read = modules["read"]
    rows = [
        {"seed": s, "episodes": k, "eps": (0.4 + s / 10) * (10 / k) ** 0.5}
        for s in range(4)
        for k in (10, 40)
    ]
    assert (
        read.told(rows, 0.55, "eps") == "< 10"
    )  # 0.4, 0.5: at once; 0.6, 0.7: later. Zeros are not averaged
    assert read.told(rows, 0.1, "eps") == "> 40"


def test_samples_are_sorted_by_instance_and_seed_and_caps_are_censored(modules):
    rows = [
        {"instance": i, "seed": s, "horizon": H, "eps": min(1.0, 0.1 * H * (i + 1) + s / 100), "gap": 1.0}
        for H, s, i in product((2, 1), (1, 0), (4, 2))
    ]
    sizes, table = modules["read"].samples(rows, "eps", "horizon")
    assert sizes == [1, 2]
    np.testing.assert_allclose(table[0], [[0.3, 0.31], [0.5, 0.51]])
    np.testing.assert_allclose(table[1], [[0.6, 0.61], [np.inf, np.inf]])
    assert (modules["read"].samples(rows, "gap", "horizon")[1] == 1).all()
    tiny_gaps = [row | {"gap": 1e-15} for row in rows]  # rounding: not above 0
    assert (modules["read"].samples(tiny_gaps, "gap", "horizon")[1] == 0).all()
    assert np.isnan(modules["read"].samples(rows[1:], "eps", "horizon")[1]).sum() == 1


@pytest.mark.parametrize("name", ["rescaled-river", "rescaled-inventory", "rescaled-queue"])
def test_finer_steps_change_little_of_what_can_happen(modules, name):
    """The best probability to end in the last state tends to a limit, and every change is a rate over H."""

    def best(H: int) -> float:
        problem = hf.make(name, horizon=H, seed=3)
        P = problem.kernel().dense()
        off_diagonal = P - np.eye(len(P))[:, None] * P
        assert off_diagonal.sum(-1)[:, 1:].max() * H <= 12 + 1e-9  # action 0 of the river goes back at once
        return backward_induction.optimal(P, hf.goal(problem, problem.num_states - 1))[1][0][
            problem.space.start
        ]

    coarse_value, fine, finer = best(64), best(256), best(1024)
    assert 0.005 < finer < 0.9999
    assert abs(fine - finer) < 0.35 * abs(coarse_value - fine) + 1e-12


def test_ranks_are_those_on_single_instances(modules):
    numbers = {"a": (0.1, 0.1, 0.3), "b": (0.2, 0.2, 0.1), "c": (0.3, 0.2, 0.2)}
    rows = [
        {"kind": "mixture", "explorer": name, "episodes": 20, "seed": s, "instance": i, "gap": x, "eps": 0.5}
        for (name, gaps), s in product(numbers.items(), (0, 1))
        for i, x in enumerate(gaps)
    ]
    texts = modules["table"].ranks(rows, "mixture")
    assert texts["a"] == "0.1 (0.1 to 0.3), rank 1 (1 to 3) / 0.5 (0.5 to 0.5), rank 2 (2 to 2)"
    assert "rank 2 (1 to 2.5) /" in texts["b"]
    assert "rank 2.5 (2 to 3) /" in texts["c"]


def test_slow_explorers_have_fewer_seeds(modules):
    tasks = modules["tasks"].tasks("E2", [])
    seeds = {task["explorer"]: task["seeds"] for task in tasks.values()}
    assert seeds["hf-ucrl-rfe++"] == [0]
    assert seeds["uniform"] == [0, 1]


def test_instances_of_a_task_are_the_problems_of_their_seeds(modules):
    base_task = {
        "seeds": 2,
        "instances": 3,
        "instances_per_task": 2,
        "checkpoints": [2, 4],
        "measure": ["eps"],
        "problems": {"river": {"name": "rescaled-river", "vary": {"horizon": [16]}}},
        "explorers": {"uniform": {}},
    }
    instances = modules["tasks"].swept(base_task, [])
    assert [task["instances"] for task in instances] == [[0, 1], [2]]
    from shared import unfolded

    rows = unfolded(modules["answers"].answer({"experiment": "E8", **instances[1]})["rows"])
    run = hf.explore(
        hf.make("rescaled-river", horizon=16, seed=2), "uniform", episodes=4, seed=1, progress=False
    )
    assert rows[-1]["eps"] == pytest.approx(run.certificate().eps, rel=1e-3)
    assert {row["instance"] for row in rows} == {2}
