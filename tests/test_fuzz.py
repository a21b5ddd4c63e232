"""Random bad arguments of every public function: it returns, or raises an explanatory HorizonfreeError."""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import gymnasium
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import horizonfree as hf
from horizonfree._validation import short_repr
from horizonfree.errors import HorizonfreeError
from horizonfree.runs.reward_spec import extend_reward
from tests.reference.nonsense import ODD, PROFILE, QUICK, RARELY, spoil
from tests.sweeps.conftest import TINY, FakeExecutor, rows_for

pytestmark = pytest.mark.timeout(3600)

# ---- the arguments --------------------------------------------------------------------------------------------------

PROBLEM = hf.make("river-swim", states=3, horizon=3)
KERNELS = np.random.default_rng(0).dirichlet(np.ones(3), (2, 3, 2))
PHI = np.moveaxis(KERNELS, 0, -1)
FEATURES = np.random.default_rng(0).dirichlet(np.ones(2), (3, 2))
LINEAR = hf.LinearMDP.from_features(FEATURES, horizon=3)
REWARD = hf.goal(PROBLEM, 2)
POLICY = np.zeros((3, 3), int)
EYES = np.array([np.eye(2)] * 2)
LOG = [[0, 0, 1, 1]], [[0, 1, 0]]
AFTER = np.random.default_rng(0).integers(3, size=(3, 2, 2))
COUNTS = np.random.default_rng(0).integers(1, 9, size=(3, 2, 3))
CAR = gymnasium.make("MountainCar-v0")
LAKE = gymnasium.make("FrozenLake-v1", desc=["SF", "FG"])


@cache
def run() -> hf.Run:
    return hf.explore(PROBLEM, "uniform", episodes=1, progress=False)


@cache
def folder() -> Path:
    """Where files may be written, and a run lies."""
    path = Path(tempfile.mkdtemp(prefix="horizonfree-fuzz-"))
    run().save(path / "a")
    return path


@pytest.fixture(autouse=True, scope="module")
def nothing_is_left() -> Iterator[None]:
    yield
    if folder.cache_info().currsize:
        shutil.rmtree(folder())
        folder.cache_clear()


def bounded(call: Callable[..., Any]) -> Callable[..., Any]:
    """An exploration that ends after an episode if it begins."""

    def explore(**options: Any) -> Any:
        if options.get("episodes") is None or options["episodes"] is ...:
            options["until_eps"] = options["reward"] = None  # or it would go on until the gap is certified
        return call(**options)

    return explore


def save_run(path: Any) -> None:
    with contextlib.chdir(folder()):
        run().save(path)


def sweep(**options: Any) -> None:
    """A sweep of which every task has an answer at once."""
    engine = FakeExecutor(lambda key, task, tries: rows_for(task))
    with (
        tempfile.TemporaryDirectory() as out,
        mock.patch("horizonfree.sweeps.sweep.start_executor", return_value=engine),
    ):
        hf.sweep(options, Path(out, "a"), progress=False)


def lake(desc: Any, **options: Any) -> hf.Problem:
    """The lake of a map, unless Gymnasium would take minutes for its number of cells."""
    is_small = getattr(desc, "size", 0) < 10**6
    return hf.make("gymnasium:FrozenLake-v1", desc=desc if is_small else None, **options)


class Entry(NamedTuple):
    """A public function, valid arguments, and whether a call is fast."""

    call: Callable[..., Any]
    valid: dict[str, Any]
    is_slow: bool = False


ROWS = {"episode": [0, 0], "step": [0, 1], "state": [0, 1], "action": [0, 0], "next_state": [1, 1]}
SIZES = {"delta": 0.1, "d": 2, "H": 3, "B": 2.0}
TABLE = {"problem": PROBLEM, "reward": REWARD, "policy": POLICY, "scale": "total"}
BUILT = {
    "horizon": 3,
    "start": np.array([0.5, 0.5, 0.0]),
    "name": "x",
    "layout": {},
    "states": ["a", "b", "c"],
    "actions": None,
}
HOME = {
    "phi": np.eye(2),
    "theta": np.eye(2),
    "Sigma": EYES,
    "Sigma_dot": EYES,
    "beta": 1.0,
    "alpha": 1.0,
    "gamma": 1.0,
}
EXPLORE = {"explorer": "uniform", "episodes": 1, "seed": 0, "budget": None, "until_eps": None, "delta": 0.05}
EXPLORE |= {
    "reward": None,
    "rewards": None,
    "progress": False,
    "save_episodes": None,
    "save_seconds": 10.0,
    "known": None,
    "encode": None,
    "callback": None,
}
MANY = {
    "explorer": "uniform",
    "episodes": 1,
    "seeds": 1,
    "truths": None,
    "over": None,
    "checkpoints": (1,),
    "curves": ["eps"],
}
MANY |= {"rewards": None, "budget": None, "delta": 0.05, "reward": None, "memory": None, "progress": False}
NAMED_ROWS = {"episode": ["x", "x", "x"], "step": ["2024-01-01", "2024-01-02", "2024-01-03"],
    "status": ["a", "b", "a"], "load": [1.0, 3.0, 1.0], "order": ["run", "", "mend"]}  # fmt: skip
RECORDED = SimpleNamespace(
    observation_space=gymnasium.spaces.Discrete(2),
    action_space=gymnasium.spaces.Discrete(2),
    iterate_episodes=lambda: [
        SimpleNamespace(
            id=0,
            observations=np.array([0, 1, 0]),
            actions=np.array([0, 1]),
            rewards=np.zeros(2),
            terminations=np.zeros(2, bool),
        )
    ],
)
AUDITED = hf.from_log({"episode": [0, 0, 0], "state": [0, 1, 0], "action": [0, 1, 0]})
ENTRIES = {
    "make": Entry(lambda name, **x: hf.make(name, **x),
        {"name": "river-swim", "states": 3, "horizon": 3, "forward": 0.3}),
    "make gymnasium": Entry(lake,
        {"horizon": 2, "start": 0, "desc": ["SF", "FG"]}, True),
    "from_kernels": Entry(hf.Mixture.from_kernels, {"kernels": KERNELS, "weights": np.array([0.5, 0.5]), **BUILT}),
    "from_noise": Entry(hf.Mixture.from_noise, {"step": AFTER, "outcomes": ["calm", "storm"], "models": EYES[0],
        "num_states": 3, "num_actions": 2, "weights": np.array([0.5, 0.5]), **BUILT}),
    "from_simulators": Entry(hf.from_simulators, {"simulators": [COUNTS, COUNTS + 1], "smoothing": 0.5,
        "successors": np.ones((3, 2, 3)), "hull": True, "samples": 1, "seed": 0, "weights": np.array([0.5, 0.5]),
        "encode": None, "place": None, "num_states": 3, "num_actions": 2, **BUILT}),
    "discretize": Entry(hf.discretize, {"env": CAR, "bins": [2, 2], "repeat": 1}),
    "from_features": Entry(hf.Mixture.from_features,
        {"phi": PHI, "bound": 2.0, "theta": np.array([0.5, 0.5]), "shape": None, **BUILT}),
    "from_tabular": Entry(hf.Mixture.from_tabular, {"P": KERNELS[0], "support": KERNELS[0] > 0, **BUILT}),
    "Misspecification": Entry(hf.Misspecification,
        {"tv": 0.01, "kl": None, "sampled": None, "ratio": None, "support": "anywhere"}),
    "LinearMDP.from_features": Entry(hf.LinearMDP.from_features,
        {"phi": FEATURES, "mu": KERNELS[:, 0, 0], **BUILT}),
    "declaring": Entry(LINEAR.with_rewards, {"rewards": [REWARD]}),
    "Tabular": Entry(hf.Tabular, {"num_states": 3, "num_actions": 2, "support": None, "terminal": [2], **BUILT}),
    "Tabular of unknown endings": Entry(hf.Tabular,
        {"num_states": 3, "num_actions": 2, "support": None, "terminal": "unknown", **BUILT}),
    "Tabular.from_table": Entry(hf.Tabular.from_table,
        {"P": KERNELS[0], "support": "any", "terminal": (), **BUILT}),
    "from_gymnasium": Entry(hf.from_gymnasium, {"env": LAKE, "horizon": 2, "start": 0, "weights": None}, True),
    "from_gymnasium of several": Entry(lambda **x: hf.from_gymnasium(horizon=2, **x),
        {"env": [LAKE, LAKE], "weights": np.array([0.5, 0.5])}, True),
    "from_log": Entry(lambda **x: hf.from_log(**x), {"source": ROWS, "problem": None, "budget": None}, True),
    "from_log with names": Entry(lambda **x: hf.from_log(**x), {"source": NAMED_ROWS, "missing": "drop",
        "columns": {"state": ["status", "load"], "action": "order"}, "bins": {"load": [2.0]}, "states": None,
        "actions": ["mend", "run"], "num_states": None, "horizon": 2, "start": "a, load below 2",
        "terminal": ()}, True),
    "from_minari": Entry(hf.from_minari, {"dataset": RECORDED, "terminal": (), "horizon": 2}, True),
    "audit": Entry(hf.audit, {"run": AUDITED, "reward": np.zeros((2, 2)), "policy": np.zeros(2, int),
        "incumbent": np.ones(2, int), "scale": "rescale", "delta": 0.05}),
    "goal": Entry(hf.goal, {"problem": PROBLEM, "states": np.array([0, 2]), "step": 1}),
    "occupancy": Entry(hf.occupancy, {"problem": PROBLEM, "states": np.array([0, 2])}),
    "rescale": Entry(hf.rescale, {"problem": PROBLEM, "reward": REWARD}),
    "simulate": Entry(hf.simulate, {"problem": PROBLEM, "policy": POLICY, "episodes": 1, "seed": 0}),
    "true_gap": Entry(hf.true_gap, TABLE),
    "explore": Entry(bounded(hf.explore), {"problem": PROBLEM, **EXPLORE}, True),
    "explore a real one": Entry(bounded(hf.explore),
        {**EXPLORE, "problem": PROBLEM.to_gymnasium(), "known": PROBLEM}, True),
    "explore_many": Entry(hf.explore_many, {"problem": PROBLEM, **MANY}, True),
    "compare": Entry(hf.compare, {"problem": PROBLEM, "explorers": ["uniform"], "episodes": 1, "seeds": 1,
        "checkpoints": [1], "delta": 0.05, "reward": None}, True),
    "sweep": Entry(sweep, {**TINY, "rewards": "suite", "slopes": [], "delta": 0.05}),
    "load_sweep": Entry(hf.load_sweep, {"folder": folder}),
    "certify": Entry(hf.certify, {"problem": PROBLEM, "episodes": LOG, "delta": 0.05, "budget": None,
        "alternatives": ["table"], "ended": None}),
    "from_episodes": Entry(lambda states, actions, **x: hf.from_episodes(episodes=(states, actions), **x),
        {"problem": PROBLEM, "states": np.array(LOG[0]), "actions": np.array(LOG[1]), "budget": None,
            "ended": np.zeros(len(LOG[0]), bool)}),
    "load": Entry(hf.load, {"path": folder}),
    "home": Entry(hf.theory.home, HOME),
    "theory.beta": Entry(hf.theory.beta, {"k": 3, **SIZES, "M": None}),
    "theory.moment_orders": Entry(hf.theory.moment_orders, {"K": 3, "H": 3}),
    "theory.iota": Entry(hf.theory.iota, {"K": 3, "d": 2, "H": 3, "B": 2.0}),
    "theory.zeta": Entry(hf.theory.zeta, {"K": 3, "H": 3, "delta": 0.1}),
    "theory.coefficients": Entry(hf.theory.coefficients, {"K": 3, **SIZES}),
    "theory.suboptimality": Entry(hf.theory.suboptimality, {"K": 3, **SIZES, "scale": "total"}),
    "theory.sample_complexity": Entry(hf.theory.sample_complexity, {"eps": 0.1, **SIZES, "scale": "total"}),
    "theory.lower_bound": Entry(hf.theory.lower_bound, {"eps": 0.1, **SIZES, "scale": "total"}),
    "theory.table": Entry(hf.theory.table, {"eps": 0.1, **SIZES, "K": 3, "scale": "total"}),
    "theory.symbols": Entry(hf.theory.symbols, {"K": 3, **SIZES}),
    "theory.regret_lower_bound": Entry(hf.theory.regret_lower_bound, {"K": 3, "d": 2, "H": 3, "B": 2.0}),
    "theory.why_no_lower_bound": Entry(hf.theory.why_no_lower_bound, {"eps": 0.1, **SIZES, "scale": "total"}),
    "theory.operations": Entry(hf.theory.operations, {"K": 3, "d": 2, "H": 3, "S": 2, "A": 2}),
    "run.plan": Entry(lambda **x: run().plan(**x),
        {"reward": REWARD, "scale": "total", "delta": 0.05, "model": "likelihood"}),
    "run.certificate": Entry(lambda **x: run().certificate(**x),
        {"delta": 0.05, "method": "uniform", "misspecification": 0.0}),
    "run.robustness": Entry(lambda **x: run().robustness(**x),
        {"target": 0.3, "reward": None, "delta": 0.05, "shape": 1.0}, True),
    "run.check": Entry(lambda **x: hf.from_episodes(PROBLEM, LOG).check(**x),
        {"by": None, "alternatives": "auto", "delta": 0.05}),
    "extended": Entry(extend_reward, {"problem": PROBLEM, "reward": REWARD, "discount": 0.9, "final": np.zeros(3)}),
    "state_number": Entry(PROBLEM.state_number, {"state": 1}),
    "run.resume": Entry(bounded(lambda **x: run().resume(**x)),
        {"episodes": 1, "until_eps": None, "delta": 0.05, "reward": None, "progress": False,
        "env": None, "encode": None, "save_episodes": None, "save_seconds": 1}, True),
    "run.save": Entry(save_run, {"path": "a"}),
    "plan.act": Entry(lambda **x: run().plan(REWARD).act(**x), {"h": 0, "state": 0}),
    "to_gymnasium": Entry(PROBLEM.to_gymnasium, {"reward": REWARD}),
    "reach": Entry(hf.reach, {"problem": PROBLEM, "states": [1], "within": None}),
    "property": Entry(hf.property, {"text": 'Pmax=? [F<=2 "goal"]'}),
    "at_most": Entry(hf.at_most, {"cost": REWARD, "bound": 0.5}),
    "at_least": Entry(hf.at_least, {"reward": REWARD, "bound": 0.5}),
    "read_drn": Entry(hf.read_drn, {"path": "a"}),
    "read_umb": Entry(hf.read_umb, {"path": "a"}),
    "from_prism": Entry(hf.from_prism, {"path": "a", "horizon": 3, "unknown": ["p"]}),
    "verify": Entry(lambda **x: hf.verify(run=run(), **x), {"path": "a"}),
}  # fmt: skip


FILES = {"load_sweep", "read_drn", "read_umb", "from_prism", "verify"}


def only_in_words(call: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """An answer or a refusal that says something, and not too much."""
    try:
        call(**arguments)
        return
    except HorizonfreeError as refusal:
        message = str(refusal)
    assert 10 < len(message) < 2500, message


@cache
def subset(name: str) -> st.SearchStrategy[set[str]]:
    """Which arguments of an entry are wrong: one or two."""
    return st.sets(st.sampled_from(sorted(ENTRIES[name].valid)), min_size=1, max_size=2)


@cache
def odd(name: str, argument: str) -> st.SearchStrategy[Any]:
    """What a wrong argument is."""
    value = ENTRIES[name].valid[argument]
    return ODD | spoil(value) if isinstance(value, np.ndarray) else ODD


def check(name: str, data: st.DataObject) -> None:
    entry = ENTRIES[name]
    wrong = data.draw(subset(name), label="wrong")
    call_arguments = {}
    for argument, value in entry.valid.items():
        value = value() if value is folder else value
        call_arguments[argument] = (
            data.draw(odd(name, argument), label=argument) if argument in wrong else value
        )
    only_in_words(entry.call, call_arguments)


def try_nonsense(name: str, examples: settings) -> None:
    @examples
    @given(data=st.data())
    def try_values(data: st.DataObject) -> None:
        check(name, data)

    try_values()


def test_nonsense_is_answered_or_refused(subtests: pytest.Subtests) -> None:
    """A few examples for each function."""
    for name in ENTRIES:
        with subtests.test(name):
            try_nonsense(name, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("name", ENTRIES)
def test_much_nonsense_is_answered_or_refused(name: str) -> None:
    try_nonsense(name, RARELY if ENTRIES[name].is_slow else PROFILE)


HUGE = np.full((3, 2), 1e308)
RAGGED = [[1], [1, 2]]
FOUND = [
    ("theory.beta", {"B": 2**63}),
    ("theory.beta", {"d": 1.0}),
    ("theory.table", {"B": 2**63}),
    ("from_noise", {"step": hf.Problem}),
    ("from_noise", {"models": HUGE[:2]}),
    ("from_simulators", {"smoothing": 10**400}),
    ("from_simulators", {"smoothing": 1e308}),
    ("from_simulators", {"smoothing": np.float16(1.0)}),
    ("from_simulators", {"seed": 0.0}),
    ("LinearMDP.from_features", {"phi": RAGGED}),
    ("Tabular", {"terminal": RAGGED}),
    ("from_tabular", {"states": RAGGED}),
    ("from_tabular", {"states": range(2**40)}),
    ("LinearMDP.from_features", {"phi": np.array(3)}),
    ("LinearMDP.from_features", {"phi": sp.csr_array(np.eye(3))}),
    ("Tabular", {"terminal": np.array(3)}),
    ("explore", {"explorer": np.array([])}),
    ("compare", {"seeds": 1.0}),
    ("audit", {"delta": 5e-324}),
    ("theory.beta", {"M": 1.0}),
    ("run.resume", {"save_seconds": 10**5000}),
    ("Tabular of unknown endings", {"start": RAGGED}),
    ("Tabular.from_table", {"P": np.full((3, 2, 3), np.inf)}),
    ("Tabular.from_table", {"P": np.full((3, 2, 3), 1e308)}),
    ("run.certificate", {"delta": 5e-324, "misspecification": 1}),
    ("run.robustness", {"delta": 5e-324}),
    ("simulate", {"policy": HUGE}),
    ("true_gap", {"policy": HUGE}),
    ("true_gap", {"policy": np.zeros((1, 3, 3), int)}),
    ("make gymnasium", {"desc": 10**5000}),
    ("from_gymnasium", {"env": 10**5000}),
    ("from_gymnasium", {"env": np.zeros((2,) * 9)}),
    ("from_log", {"source": "é" * 300}),
    ("explore", {"callback": lambda: 0}),
    ("explore", {"callback": object}),
    ("explore", {"callback": 10**5000}),
    ("compare", {"explorers": RAGGED}),
    ("discretize", {"bins": 2**31}),
    ("discretize", {"bins": [10**6, 10**6]}),
]


def test_what_ten_thousand_examples_found_is_refused(subtests: pytest.Subtests) -> None:
    for name, wrong in FOUND:
        with subtests.test(name, wrong=short_repr(wrong)):
            valid = {key: x() if x is folder else x for key, x in ENTRIES[name].valid.items()}
            only_in_words(ENTRIES[name].call, valid | wrong)


def test_valid_arguments_are_answered_and_unknown_ones_refused(subtests: pytest.Subtests) -> None:
    """Bad arguments are passed beside valid ones. Otherwise nothing behind the first check would be tested."""
    for name, entry in ENTRIES.items():
        with subtests.test(name):
            if name == "load":
                assert hf.load(folder() / "a").episodes == 1
            elif name not in FILES:  # their own tests read files that exist
                entry.call(**entry.valid | ({"path": "b"} if name == "run.save" else {}))
            with pytest.raises((TypeError, HorizonfreeError), match="bogus"):
                entry.call(**entry.valid, bogus=1)


def test_every_public_name_is_tried() -> None:
    names = {name.split()[0].split(".")[0] for name in ENTRIES}
    kinds = {
        "Batch",
        "Certificate",
        "Mixture",
        "Plan",
        "Problem",
        "PythonExplorer",
        "Run",
        "Sweep",
        "explorers",
        "problems",
    }
    without_arguments = {"show_versions"}
    assert set(hf.__all__) - kinds - without_arguments <= names
