"""What a run folder keeps for the shell: the same answers in NumPy, of this run at this moment, or none."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.mdp.rewards import Reward, resolve
from horizonfree.runs import kept
from horizonfree.runs.keep import answers, keep
from horizonfree.runs.run import Run
from tests.reference import small

DELTA = 0.05
CLOSE = 1e-12
LOCK = hf.make("linear-lock", blocks=2, per_block=2, actions=2, horizon=4)


def drawn(**changes: Any) -> hf.Problem:
    """A mixture of dense kernels with a start that is drawn."""
    start = np.random.default_rng(3).dirichlet(np.ones(4))
    return small.dense(**{"start": start, **changes})


PROBLEMS: dict[str, Callable[[], hf.Problem]] = {
    "grid": lambda: hf.make("zoned-grid", size=3, zones=2, horizon=6),
    "d = 1, A = 1": lambda: small.dense(weights=(1.0,), A=1),
    "H = 2, drawn start": lambda: drawn(horizon=2),
    "q > 12": lambda: small.tabular(A=3),
    "S = 400, d = 8": lambda: hf.make("zoned-grid", size=20, zones=8, horizon=5),
    "table, H = 2, drawn start": lambda: drawn(horizon=2).seen_as("tabular"),
    "table, known support": lambda: small.slips().seen_as("tabular", support="given"),
    "linear, declared": lambda: LOCK.declaring("goals"),
}


def folder_of(name: str, path: Path, episodes: int = 60) -> Run:
    run = hf.explore(PROBLEMS[name](), "uniform", episodes=episodes, seed=1, out=path)
    keep(run, DELTA)
    return run


@pytest.fixture(scope="module", params=list(PROBLEMS))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, kept.Kept]:
    folder = tmp_path_factory.mktemp("kept") / "run"
    run = folder_of(request.param, folder)
    found = kept.read(folder, DELTA)
    assert found is not None
    return run, found


def rewards(run: Run) -> list[Reward]:
    """Goals, stays, and any reward; in other units, too."""
    problem, rng = run.problem, np.random.default_rng(0)
    S = problem.num_states
    tables = [hf.goal(problem, S - 1), hf.occupancy(problem, 0), hf.rescale(problem, rng.normal(size=(S,)))]
    return [resolve(problem, x) for x in tables]


def test_plans_and_bounds_are_those_of_the_compiled_formulas(pair: tuple[Run, kept.Kept]) -> None:
    run, found = pair
    compiled, numpy = answers(run, DELTA), found.answers
    for reward in rewards(run):
        own, kept_one = (x.plan(reward) for x in (compiled, numpy))
        np.testing.assert_array_equal(own.policy, kept_one.policy)
        agree(own, kept_one)
        true = hf.true_gap(run.problem, reward, own.policy)
        assert numpy.true_loss(reward, own.policy) == pytest.approx(true, abs=CLOSE)


def agree(own: hf.Plan, kept_one: hf.Plan) -> None:
    """All numbers of two plans, and their words."""
    for name in ("value", "value_low", "value_high", "gap"):
        assert getattr(kept_one, name) == pytest.approx(getattr(own, name), abs=CLOSE, rel=CLOSE), name
    assert kept_one.certificate.parts == pytest.approx(own.certificate.parts, abs=CLOSE, rel=CLOSE)
    assert kept_one.certificate.words == own.certificate.words


@pytest.mark.parametrize("name", ["grid", "table, known support", "linear, declared"])
def test_policies_that_draw_and_comparisons_are_the_same_for_every_class(name: str, tmp_path: Path) -> None:
    run = folder_of(name, tmp_path / "run")
    found = kept.read(tmp_path / "run", DELTA)
    assert found is not None
    compiled, numpy = answers(run, DELTA), found.answers
    (H, S, A), reward, rng = run.problem.space.sizes, rewards(run)[-1], np.random.default_rng(1)
    policies = rng.integers(A, size=(H, S)), rng.dirichlet(np.ones(A), size=(H, S))
    agree(*(x.evaluate(reward, policies[1]) for x in (compiled, numpy)))
    own, kept_one = (x.compare(reward, *policies) for x in (compiled, numpy))
    assert list(kept_one) == pytest.approx(list(own), abs=CLOSE)


def test_the_certificate_for_every_reward_is_kept(pair: tuple[Run, kept.Kept]) -> None:
    run, found = pair
    assert found.certificate == run.certificate(DELTA)
    assert found.episodes == run.episodes


@pytest.fixture
def grid(tmp_path: Path) -> Run:
    return folder_of("grid", tmp_path / "run", episodes=20)


def test_other_evidence_another_delta_and_another_version_find_nothing(
    grid: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = grid.folder
    assert kept.read(folder, DELTA) is not None
    assert kept.read(folder, 0.1) is None
    with monkeypatch.context() as patch:
        patch.setattr(kept, "__version__", "9.9")
        assert kept.read(folder, DELTA) is None
    later = grid.resume(episodes=5)
    assert kept.read(folder, DELTA) is None  # it speaks of 20 episodes
    keep(grid, DELTA)  # so does this run
    assert kept.read(folder, DELTA) is None
    keep(later, DELTA)
    found = kept.read(folder, DELTA)
    assert found is not None
    assert found.episodes == 25


def test_the_answers_of_another_folder_are_not_those_of_this_one(grid: Run, tmp_path: Path) -> None:
    """Of the same problem after as many episodes, but with another seed."""
    other = hf.explore(grid.problem, grid.explorer, episodes=20, seed=2, out=tmp_path / "other")
    (tmp_path / "other" / kept.NAME).write_bytes((tmp_path / "run" / kept.NAME).read_bytes())
    assert kept.read(other.folder, DELTA) is None


def test_damaged_bytes_and_damaged_runs_find_nothing(grid: Run) -> None:
    folder = Path(str(grid.folder))
    path = folder / kept.NAME
    whole = path.read_bytes()
    for place in np.linspace(0, len(whole) - 1, 25).astype(int):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert kept.read(folder, DELTA) is None, place
    path.write_bytes(whole[: len(whole) // 2])
    assert kept.read(folder, DELTA) is None
    path.write_bytes(whole)
    assert kept.read(folder, DELTA) is not None
    (folder / kept.ASIDE).write_bytes(whole[:1000])  # what a write that was cut short leaves
    assert kept.read(folder, DELTA) is not None
    assert hf.load(folder).episodes == 20
    keep(grid, DELTA)
    assert not (folder / kept.ASIDE).exists()
    records = folder / "records.jsonl"
    records.write_bytes(records.read_bytes().replace(b"0", b"1", 1))
    assert kept.read(folder, DELTA) is None


def test_nothing_is_kept_of_a_run_without_a_folder_or_whose_folder_is_gone(grid: Run, tmp_path: Path) -> None:
    keep(hf.load(grid.folder), DELTA)
    Path(str(grid.folder)).rename(tmp_path / "moved")
    keep(grid, DELTA)
    assert not (tmp_path / "run").exists()
    assert kept.read(tmp_path / "moved", DELTA) is not None
    assert kept.read(tmp_path / "run", DELTA) is None


LOADED = """
import sys
from horizonfree.cli.app import run
sys.argv = ["horizonfree", *sys.argv[1:]]
code = run()
heavy = sorted({"jax", "equinox", "numba", "scipy", "jaxtyping", "asyncio"} & set(sys.modules))
print(heavy, file=sys.stderr)
sys.exit(code)
"""


def asked(*words: str) -> tuple[dict[str, Any], str]:
    """What a process of its own prints, and what heavy modules it has loaded."""
    done = subprocess.run([sys.executable, "-c", LOADED, *words], capture_output=True, text=True, check=True)
    return json.loads(done.stdout), done.stderr.splitlines()[-1]


def test_a_shell_plans_and_certifies_without_jax_and_says_the_same(grid: Run) -> None:
    """The first plan has nothing kept: it loads the run, and keeps."""
    folder = Path(str(grid.folder))
    (folder / kept.NAME).unlink()
    slow, loaded = asked("plan", str(folder), "--goal", "8", "--json")
    assert "jax" in loaded
    quick, loaded = asked("plan", str(folder), "--goal", "8", "--json")
    assert loaded == "[]"
    assert quick["policy"] == slow["policy"]
    for name in ("value", "value_low", "value_high", "gap", "true_loss"):
        assert quick[name] == pytest.approx(slow[name], abs=CLOSE)
    assert quick["certificate"]["words"] == slow["certificate"]["words"]
    certificate, loaded = asked("certify", str(folder), "--json")
    assert loaded == "[]"
    assert certificate["eps"] == grid.certificate(DELTA).eps
