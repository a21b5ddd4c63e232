"""What every explorer must do, whatever its algorithm: one suite over all entries of EXPLORERS."""

import pkgutil
import sys

import equinox as eqx
import jax
import numpy as np
import pytest

import horizonfree as hf
from horizonfree._x64 import to_device
from horizonfree.explorers import EXPLORERS, describe, make_explorer
from horizonfree.explorers.interface import begin
from horizonfree.mdp.rollout import check_policy
from horizonfree.regression.ridge import Ridge
from tests.reference.episodes import Setting

FIELDS = ("Paper:", "Algorithm:", "Symbols:", "Guarantee:", "Departures:")
SMALL = {
    "chains": 1,
    "sweeps": 2,
    "moment_orders": 2,
    "budget": 6,
    "scale": 0.2,
}  # where it has these options
EPISODES = 6

everyone = pytest.mark.parametrize("name", EXPLORERS)
searchers = {"chen2022", "hf-ucrl-rfe++"}  # slow without compilation
everyone_op_by_op = pytest.mark.parametrize(
    "name", [pytest.param(x, marks=pytest.mark.slow if x in searchers else ()) for x in EXPLORERS]
)


def tiny():
    return hf.make("random-mixture", states=4, actions=2, dim=3, horizon=3)


def small(name):
    """The explorer with as little work as it can be given."""
    given = SMALL | {"reward": hf.goal(tiny(), 3)}
    return make_explorer(name, **{key: x for key, x in given.items() if key in EXPLORERS[name].options})


@pytest.fixture(scope="module")
def run_of():
    """The run of an explorer after EPISODES episodes, computed once."""
    runs = {}

    def run(name):
        if name not in runs:
            runs[name] = hf.explore(tiny(), small(name), episodes=EPISODES, seed=1, progress=False)
        return runs[name]

    return run


def same(x, y):
    """Whether two trees have the same structure, types and numbers, to the last bit."""
    assert jax.tree.structure(x) == jax.tree.structure(y)
    for a, b in zip(jax.tree.leaves(x), jax.tree.leaves(y)):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_array_equal(a, b)


def shapes(tree):
    return jax.tree.map(lambda x: (x.shape, str(x.dtype)), tree)


@everyone
def test_the_state_keeps_its_shape_under_scan(name, x64):
    setting, explorer = Setting(tiny()), small(name)
    first = begin(explorer, setting.known, setting.valid, setting.nothing)
    chosen, _, after, info = eqx.filter_eval_shape(setting.episode, explorer, jax.random.key(0), first)
    expected = shapes(eqx.filter_eval_shape(lambda: first.state))
    assert shapes(chosen) == shapes(after.state) == expected
    assert all(x.shape == () for x in info.values())


@everyone_op_by_op
def test_compiled_and_mapped_over_keys_or_op_by_op_the_numbers_agree(name, run_of, x64):
    """One more choice and one given episode. Integers are left out: rounding may settle an exact tie either way."""
    setting, explorer, now = Setting(tiny()), small(name), to_device(run_of(name).progress)
    trajectory = setting.sampler.episode(jax.random.key(5), now.state.policy, setting.start)

    def step(key):
        state = explorer.choose(key, setting.known, setting.valid, now.state, now.evidence)
        return explorer.update(setting.known, setting.valid, state, now.evidence, trajectory)

    keys = jax.random.split(jax.random.key(0), 3)
    mapped = jax.tree.map(lambda x: x[1], jax.jit(jax.vmap(step))(keys))
    with jax.disable_jit():
        plain = step(keys[1])
    assert jax.tree.structure(plain) == jax.tree.structure(mapped)
    for x, y in zip(jax.tree.leaves(plain), jax.tree.leaves(mapped)):
        assert x.dtype == y.dtype
        if x.dtype.kind == "f":
            np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-9)


@everyone
def test_a_resumed_run_equals_an_uninterrupted_one(name, run_of):
    """And the same seed gives the same episodes, hence the same state, to the last bit."""
    whole = run_of(name)
    first = hf.explore(tiny(), small(name), episodes=2, seed=1, progress=False)
    again = first.resume(episodes=EPISODES - 2, progress=False)
    same(again.progress, whole.progress)
    same(dict(again.rows), dict(whole.rows))
    for before, after in zip(ridges(first.progress.state), ridges(whole.progress.state), strict=True):
        growth = after.Sigma - before.Sigma
        np.testing.assert_allclose(after.Sigma, np.swapaxes(after.Sigma, -1, -2), rtol=1e-12, atol=1e-15)
        assert np.linalg.eigvalsh(growth).min() >= -1e-9
        assert np.linalg.eigvalsh(growth).max() > 0


def ridges(state):
    leaves = jax.tree.leaves(state, is_leaf=lambda x: isinstance(x, Ridge))
    return [x for x in leaves if isinstance(x, Ridge)]


@everyone
def test_its_runs_have_policies_rows_plans_and_certificates(name, run_of):
    run = run_of(name)
    check_policy(run.problem, run.progress.state.policy)
    for x in run.rows.values():
        assert x.shape == (EPISODES,)
        assert np.isfinite(x).all()
    assert run.theta_hat.shape == (run.problem.known.dim,)
    assert 0 < run.certificate().eps <= 1
    plan = run.plan(hf.goal(run.problem, 3))
    assert hf.true_gap(run.problem, hf.goal(run.problem, 3), plan.policy) <= plan.gap <= 1
    claim = run.explorer.claim(run.problem.known, run.progress.state)
    assert claim is None or 0 <= claim.eps <= 1


@everyone
def test_its_file_opens_with_the_five_fields(name):
    text = sys.modules[EXPLORERS[name].kind.__module__].__doc__
    places = [text.index(f"\n{field}") for field in FIELDS]
    assert places == sorted(places)


@everyone
def test_its_name_and_options_build_it_again(name):
    explorer = small(name)
    found, options = describe(explorer)
    assert found == name
    again = make_explorer(found, **options)
    assert describe(again)[0] == name
    same(eqx.filter(again, eqx.is_array_like), eqx.filter(explorer, eqx.is_array_like))


def test_every_module_of_explorers_is_registered():
    path = sys.modules["horizonfree.explorers"].__path__
    modules = {x.name for x in pkgutil.iter_modules(path) if not x.name.startswith("_")}
    assert modules == {entry.kind.__module__.rsplit(".", 1)[1] for entry in EXPLORERS.values()}
