"""What every explorer must do, whatever its algorithm: one suite over all entries of EXPLORERS."""

import inspect
import pkgutil
import sys
from functools import cache

import equinox as eqx
import jax
import numpy as np
import pytest

import horizonfree as hf
from horizonfree._x64 import to_device, to_numpy
from horizonfree.estimators.ridge import Ridge
from horizonfree.explorers.base import Explorer, PlugIn
from horizonfree.explorers.loop import (
    Progress,
    ball_records,
    choose_policy,
    episode_keys,
    init_progress,
    is_due,
)
from horizonfree.explorers.registry import EXPLORERS, describe, make_explorer
from horizonfree.mdp.policies import policy_table
from horizonfree.models.base import Model
from horizonfree.models.linear.model import LinearModel
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.models.tabular.model import TabularModel
from horizonfree.planning import evaluate, optimal
from tests.reference.episodes import Setting
from tests.reference.jitted import jitted
from tests.reference.linear_explorers import plan as least_squares_plan
from tests.reference.linear_models import attains, random_linear
from tests.reference.small import dense
from tests.reference.tables import best_values, dense_tables
from tests.runs.test_store import assert_same

FIELDS = ("Paper:", "Algorithm:", "Symbols:", "Guarantee:", "Departures:")
SMALL = {
    "chains": 1,
    "sweeps": 2,
    "moment_orders": 2,
    "budget": 20,
    "scale": 0.2,
    "per_goal": 1,
    "iterations": 5,
}  # where it has these options
EPISODES, SEED = 6, 1
AUDITED = {"truth_ratio", "balls_violated"}  # of the records
# Where an episode begins is drawn; everyone begins in one state in batch/test_batch.py and in his own file.
START = np.array([0.5, 0.0, 0.3, 0.2])

everyone = pytest.mark.parametrize("name", EXPLORERS)


@cache
def problem_that_teaches(learns):
    """The problem as a class of models: S = 4, A = 2, d = 3, H = 3."""
    if learns is LinearModel:
        return random_linear(S=4, start=START)
    tiny = dense(horizon=3, start=START)
    return tiny.as_tabular() if learns is TabularModel else tiny


def make_problem(name):
    """The problem as the class of models that the explorer is for."""
    return problem_that_teaches(EXPLORERS[name].explorer_type.learns)


@cache
def compile_setting(learns):
    return Setting(problem_that_teaches(learns))


def setting(name):
    """The compiled setting of an explorer's model class."""
    return compile_setting(EXPLORERS[name].explorer_type.learns)


def reward():
    return np.random.default_rng(1).uniform(size=(3, 4, 2)) / 3


def small(name):
    """The explorer with as little work as it can be given."""
    settings = SMALL | {"reward": reward()}
    return make_explorer(name, **{key: x for key, x in settings.items() if key in EXPLORERS[name].options})


@pytest.fixture(scope="module")
def stored_run():
    """The run of an explorer after EPISODES episodes, computed once."""
    runs = {}

    def run(name):
        if name not in runs:
            runs[name] = hf.explore(
                make_problem(name), small(name), episodes=EPISODES, seed=SEED, progress=False
            )
        return runs[name]

    return run


def assert_same_bits(x, y):
    """Whether two trees have the same structure, types and numbers, to the last bit."""
    assert jax.tree.structure(x) == jax.tree.structure(y)
    for a, b in zip(jax.tree.leaves(x), jax.tree.leaves(y)):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_array_equal(a, b)


def shapes(tree):
    return jax.tree.map(lambda x: (x.shape, str(x.dtype)), tree)


@everyone
def test_the_state_keeps_its_shape_under_scan(name, x64):
    setting_of_explorer, explorer = setting(name), small(name)
    first = eqx.filter_eval_shape(
        init_progress, explorer, setting_of_explorer.model, setting_of_explorer.nothing
    )
    chosen_state, _, after, info = eqx.filter_eval_shape(
        setting_of_explorer.episode, explorer, jax.random.key(0), first
    )
    assert shapes(chosen_state) == shapes(after.state) == shapes(first.state)
    assert all(x.shape == () for x in info.values())


def another(explorer, model, sampler, key, progress):
    """One more episode, as the loop makes it."""
    key_choose, key_episode = episode_keys(key, progress)
    chosen_state = choose_policy(explorer, model, key_choose, progress)
    trajectory = sampler.episode(key_episode, chosen_state.state.policy, model.space)
    evidence = model.update(progress.evidence, trajectory)
    state, info = explorer.update(model, chosen_state.state, evidence, trajectory)
    return Progress(progress.episode + 1, state, evidence), info


@pytest.fixture(scope="module")
def one_more(stored_run):
    """What follows the run of an explorer, op by op."""
    cache = {}

    def next_episode(name):
        if name not in cache:
            setting_of_explorer, now = setting(name), to_device(stored_run(name).progress)
            settings = (
                small(name),
                setting_of_explorer.model,
                setting_of_explorer.sampler,
                jax.random.key(SEED),
                now,
            )
            cache[name] = to_numpy(jitted(another, *settings))
        return cache[name]

    return next_episode


@everyone
def test_compiled_or_op_by_op_the_numbers_agree(name, stored_run, one_more, x64):
    """One more episode; batch/test_batch.py maps them over keys.

    Integers are left out: rounding may settle an exact tie either way.
    """
    progress, info = one_more(name)
    run = stored_run(name).resume(episodes=1, progress=False)
    assert jax.tree.structure(progress) == jax.tree.structure(run.progress)
    for x, y in zip(jax.tree.leaves(progress), jax.tree.leaves(run.progress)):
        assert x.dtype == y.dtype
        if x.dtype.kind == "f":
            np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-9)
    assert set(info.numbers) == set(run.records) - AUDITED
    for key, x in info.numbers.items():
        np.testing.assert_allclose(x, run.records[key][-1], rtol=1e-8, atol=1e-9)


@everyone
def test_through_a_folder_the_bits_are_the_same(name, stored_run, tmp_path):
    run, problem = stored_run(name), make_problem(name)
    hf.explore(problem, small(name), episodes=EPISODES - 2, seed=SEED, out=tmp_path / "a")
    resumed = hf.load(tmp_path / "a").resume(episodes=2)
    assert_same(run, resumed)
    loaded = hf.load(tmp_path / "a")
    assert_same(run, loaded)
    np.testing.assert_array_equal(loaded.problem.start, START)
    assert loaded.problem.space.start is None


@everyone
def test_a_resumed_run_equals_an_uninterrupted_one(name, stored_run):
    """The same seed gives the same episodes, hence the same state, to the last bit."""
    run = stored_run(name)
    first = hf.explore(make_problem(name), small(name), episodes=2, seed=SEED, progress=False)
    resumed = first.resume(episodes=EPISODES - 2, progress=False)
    assert_same_bits(resumed.progress, run.progress)
    assert_same_bits(dict(resumed.records), dict(run.records))
    for resumed_ridge, whole_ridge in zip(
        ridges(first.progress.state), ridges(run.progress.state), strict=True
    ):
        growth = whole_ridge.Sigma - resumed_ridge.Sigma
        np.testing.assert_allclose(
            whole_ridge.Sigma, np.swapaxes(whole_ridge.Sigma, -1, -2), rtol=1e-12, atol=1e-15
        )
        assert np.linalg.eigvalsh(growth).min() >= -1e-9
        assert np.linalg.eigvalsh(growth).max() > 0


def ridges(state):
    leaves = jax.tree.leaves(state, is_leaf=lambda x: isinstance(x, Ridge))
    return [x for x in leaves if isinstance(x, Ridge)]


@everyone
def test_its_runs_have_policies_records_plans_and_certificates(name, stored_run):
    run = stored_run(name)
    policy_table(run.progress.state.policy, *run.problem.space.sizes)
    for x in run.records.values():
        assert x.shape == (EPISODES,)
        assert np.isfinite(x).all()
    if isinstance(run.problem.model, MixtureModel):
        assert run.theta_hat.shape == (run.problem.model.dim,)
    assert 0 < run.certificate().eps <= 1
    plan = run.plan(hf.goal(run.problem, 3))
    assert hf.true_gap(run.problem, hf.goal(run.problem, 3), plan.policy) <= plan.gap <= 1
    claim = run.explorer.claim(run.problem.model, run.progress.state)
    assert claim is None or 0 < claim.eps <= 1


@everyone
def test_its_file_opens_with_the_five_fields(name):
    text = sys.modules[EXPLORERS[name].explorer_type.__module__].__doc__
    places = [text.index(f"\n{field}") for field in FIELDS]
    assert places == sorted(places)


@everyone
def test_its_name_and_options_build_it_again(name):
    explorer = small(name)
    explorer_name, options = describe(explorer)
    assert explorer_name == name
    resumed = make_explorer(explorer_name, **options)
    assert describe(resumed)[0] == name
    assert_same_bits(eqx.filter(resumed, eqx.is_array_like), eqx.filter(explorer, eqx.is_array_like))


METHODS = {
    "init": ["model"],
    "choose": ["key", "model", "state", "evidence"],
    "update": ["model", "state", "evidence", "trajectory"],
    "plan": ["model", "state", "evidence", "reward"],
    "claim": ["model", "state"],
}


@everyone
def test_it_has_the_five_methods_of_the_interface_and_says_what_it_learns(name):
    """No abstract method is left: `learns` is a class of models, a PlugIn's that of mixtures."""
    kind = EXPLORERS[name].explorer_type
    assert Explorer.__abstractmethods__ == set(METHODS)
    for method, names in METHODS.items():
        settings = inspect.signature(getattr(kind, method)).parameters
        assert [x for x in settings if x != "self"] == names, method
    assert not getattr(kind, "__abstractmethods__", None)
    assert issubclass(kind.learns, Model)
    assert (kind.learns is MixtureModel) == issubclass(kind, PlugIn)
    assert isinstance(make_problem(name).model, kind.learns)


def explorer_state(name):
    """Before the first episode."""
    setting_of_explorer = setting(name)
    return jitted(init_progress, small(name), setting_of_explorer.model, setting_of_explorer.nothing)


@everyone
def test_where_its_state_says_when_a_choice_is_due_it_is_due_before_the_first_episode(name, stored_run, x64):
    """The field is optional: without it, or where it is None, a choice is made before every episode."""
    due = is_due(explorer_state(name).state)
    assert due is None or bool(due)
    due_after = is_due(stored_run(name).progress.state)
    assert (due_after is None) == (due is None)
    if due is not None:
        assert due.shape == np.shape(due_after) == ()
        assert due.dtype == np.asarray(due_after).dtype == bool


def test_an_explorer_that_is_lazy_says_when_it_is_due():
    lazy = {name for name in EXPLORERS if "lazy" in EXPLORERS[name].options}
    with jax.enable_x64(True):
        due = {name for name in EXPLORERS if is_due(explorer_state(name).state) is not None}
    assert lazy == {"hf-ucrl-rfe++"}
    assert due == lazy | {"sstp", "tabular-design"}  # always lazy


@everyone
def test_its_plan_is_a_policy_whose_values_are_those_of_the_kernel_it_plans_in(name, stored_run, x64):
    """A PlugIn plans in the kernel of its own parameter, what keeps visits of every step in a kernel of every step.

    Explorers of linear MDPs plan by least squares. All others plan in the kernel that the evidence suggests.
    """
    run = stored_run(name)
    (H, S, _), model = run.problem.space.sizes, run.problem.model
    progress, reward = (
        to_device(run.progress),
        np.random.default_rng(0).uniform(size=run.problem.space.sizes) / H,
    )
    policy, V = jitted(run.explorer.plan, to_device(model), progress.state, progress.evidence, reward)
    assert (policy.shape, policy.dtype, V.shape) == ((H, S), np.int32, (H + 1, S))
    policy_table(policy, *run.problem.space.sizes)
    if isinstance(run.explorer, PlugIn):
        theta = jitted(run.explorer.theta_hat, to_device(model), progress.state, progress.evidence)
        np.testing.assert_allclose(
            run.theta_hat, theta, rtol=0, atol=1e-12
        )  # compiled at once and step by step
        kernel = model.kernel(theta)
    elif isinstance(model, LinearModel):
        kernel = None  # least squares is no kernel: values are clipped to [0, 1] at every step
    elif hasattr(run.explorer, "covered"):
        kernel = jitted(run.explorer.covered, to_device(model), progress.evidence)
    else:
        kernel = jax.tree.map(np.asarray, model.estimate(run.evidence))
    if kernel is None:
        lam, phi = sys.modules[type(run.explorer).__module__].LAM, np.asarray(model.phi)
        Lam = np.asarray(run.evidence.gram) + lam * np.eye(model.dim)
        tables = (np.broadcast_to(x, (H, *x.shape)) for x in (Lam, np.asarray(run.evidence.cross)))
        Q, expected = least_squares_plan(phi, *tables, reward)
        np.testing.assert_allclose(V, expected, rtol=0, atol=1e-12)
        attains(np.asarray(policy), Q)
    elif hasattr(progress.state, "seen"):
        np.testing.assert_allclose(
            best_values(dense_tables(model.space, progress.state.seen.prob), reward), V, atol=1e-12
        )
    else:
        np.testing.assert_allclose(evaluate(kernel, reward, np.asarray(policy)), V, rtol=0, atol=1e-12)
        np.testing.assert_allclose(optimal(kernel, reward).V, V, rtol=0, atol=1e-12)
    plan = run.plan(reward, model="explorer")
    np.testing.assert_array_equal(plan.policy, policy)
    assert plan.value == pytest.approx(float(START @ V[0]), abs=1e-12)
    if hasattr(run.explorer, "theta_hat"):
        best = optimal(model.kernel(run.theta_hat), reward).V
        assert plan.value == pytest.approx(START @ best[0], abs=1e-12)


@everyone
def test_the_audit_of_its_balls_is_the_largest_distance_of_the_truth_in_radii(
    name, stored_run, one_more, x64
):
    """One more episode, literally: sqrt((theta - c)' Sigma (theta - c)) / radius of every ball; none, no numbers."""
    _, info = one_more(name)
    truth, ratios = make_problem(name).truth, []
    records = jitted(ball_records, info.balls, truth)
    for ball in info.balls:
        Sigma, radius = np.asarray(ball.ridge.Sigma), np.asarray(ball.radius)
        offset = truth - np.linalg.solve(Sigma, np.asarray(ball.ridge.b)[..., None])[..., 0]
        ratios += [*np.ravel(np.sqrt(np.einsum("...i,...ij,...j->...", offset, Sigma, offset)) / radius)]
    assert set(records) == (AUDITED if info.balls else set())
    assert set(records) == set(stored_run(name).records) & AUDITED
    if ratios:
        assert float(records["truth_ratio"]) == pytest.approx(max(ratios), rel=1e-6)
        assert int(records["balls_violated"]) == sum(x > 1 for x in ratios)


# what is no algorithm
SHARED = set("audit base force hf_state least_squares likelihood_sets loop per_step python registry".split())


def test_every_module_of_explorers_is_registered():
    path = sys.modules["horizonfree.explorers"].__path__
    modules = {x.name for x in pkgutil.iter_modules(path)} - SHARED
    assert modules == {entry.explorer_type.__module__.rsplit(".", 1)[1] for entry in EXPLORERS.values()}


def test_classes_are_importable_and_the_object_explores_as_its_name_does():
    """`from horizonfree.explorers import ...`; options are in the signature, and a missing budget is the episodes."""
    from horizonfree import explorers as listed
    from horizonfree.explorers import HFUCRLRFE, __all__

    assert {entry.explorer_type.__name__ for entry in EXPLORERS.values()} <= set(__all__)
    options = inspect.signature(HFUCRLRFE).parameters
    assert list(options) == list(listed()["hf-ucrl-rfe++"]["options"])
    assert options["scale"].default == 1.0
    problem, settings = make_problem("hf-ucrl-rfe++"), {"episodes": 3, "seed": SEED, "progress": False}
    small_options = {"scale": 0.5, "chains": 1, "sweeps": 2, "moment_orders": 2}
    by_object = hf.explore(problem, HFUCRLRFE(**small_options), **settings)
    by_name = hf.explore(problem, "hf-ucrl-rfe++", **small_options, **settings)
    assert by_object.explorer == by_name.explorer
    assert by_object.explorer.budget == 3
    for name, x in by_name.records.items():
        np.testing.assert_array_equal(by_object.records[name], x, err_msg=name)
