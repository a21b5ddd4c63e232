"""Many explorations at once have the numbers that each has alone."""

import dataclasses
from functools import cache
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import horizonfree as hf
from horizonfree.batch import evaluate, simulate
from horizonfree.batch import explore as batch_explore
from horizonfree.batch import job as batch_job
from horizonfree.batch.members import build_members
from horizonfree.errors import OptionError
from horizonfree.explorers import registry
from horizonfree.explorers.base import Explorer, ExplorerPlan, Info
from horizonfree.guarantees.e_processes import EProcesses, ladder
from horizonfree.models.base import Model
from horizonfree.models.linear.model import LinearModel
from horizonfree.models.mixture.evidence import violation
from horizonfree.models.mixture.learner import design
from horizonfree.models.registry import diagnostics_of
from horizonfree.models.tabular.model import TabularModel
from horizonfree.planning.traced import optimal_jax
from tests.reference.linear_models import random_linear

K = 9
SMALL = {"chains": 1, "sweeps": 2, "moment_orders": 2}  # of HF-UCRL-RFE++
EXPLORERS = {"optimal-design": {}, "uniform": {}, "hf-ucrl-rfe++": SMALL}
NEEDS = EXPLORERS | {
    "jin2020": {"budget": 60, "per_goal": 1}
}  # an episode for each state and step, and some more


OTHER = 2  # the seed of a second mixture, whose bound has the bits of the first: one program does for both


@cache
def mixture(seed=0, **sizes):
    return hf.make(
        "random-mixture",
        **{"states": 5, "actions": 2, "dim": 3, "successors": 3, "horizon": 4, "seed": seed} | sizes,
    )


@cache
def grid(view=None):
    """Symmetric, so that it is full of ties."""
    problem = hf.make("zoned-grid", size=3, zones=2, horizon=4)
    return problem if view is None else problem.as_tabular()


def explore_alone(*args, **settings):
    """A run by itself, on a CPU even where there is a GPU, whose program would differ."""
    with jax.default_device(jax.devices("cpu")[0]):
        return hf.explore(*args, **settings)


def leaves(run):
    """Every number of a run, under a name, but for the record of misspecification, which batches do not keep."""
    named_leaves, _ = jax.tree_util.tree_flatten_with_path(run.progress)
    arrays = {jax.tree_util.keystr(path): np.asarray(x) for path, x in named_leaves}
    return {name: x for name, x in arrays.items() if ".record." not in name} | dict(run.records)


def assert_same_bits(run, other):
    a, b = leaves(run), leaves(other)
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype, name
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def assert_same_episodes(run, other):
    a, b = leaves(run), leaves(other)
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype, name
        if a[name].dtype.kind == "f":
            np.testing.assert_allclose(a[name], b[name], rtol=1e-12, atol=1e-13, err_msg=name)
        else:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@pytest.fixture
def wide(monkeypatch):
    """The arrangement for a GPU, on whatever device there is."""
    monkeypatch.setattr(batch_explore, "is_wide", lambda explorer: True)


@pytest.mark.parametrize("name", EXPLORERS)
def test_on_a_cpu_each_member_has_the_episodes_of_the_same_seed_alone(name):
    """The same counts to the bit; XLA compiles a batch differently, so sums may differ in their last bits."""
    batch = hf.explore_many(grid(), name, episodes=K, seeds=[3, 0, 7], **EXPLORERS[name])
    assert [run.seed for run in batch] == [3, 0, 7]
    for run in batch:
        assert_same_episodes(run, explore_alone(grid(), name, episodes=K, seed=run.seed, **EXPLORERS[name]))


def test_members_of_several_problems_and_scales_have_the_numbers_of_each_alone():
    """Two problems, two scales, two seeds, cut at a checkpoint.

    Alone, too, the scale is an array, all but once: as a number it would be a program for each.
    """
    options = {"over": {"scale": [0.1, 1.0]}, "checkpoints": [4], "curves": ["excess"], **SMALL}
    problems = [mixture(), mixture(OTHER)]
    batch = hf.explore_many(problems, "hf-ucrl-rfe++", episodes=K, seeds=[3, 0], progress=False, **options)
    assert np.isfinite(batch.curves["excess"]).all()
    for i, run in enumerate(batch):
        problem, scale, seed = problems[i // 4], (0.1, 1.0)[i // 2 % 2], (3, 0)[i % 2]
        if i == 0:
            named_run = hf.explore(problem, "hf-ucrl-rfe++", episodes=K, seed=seed, scale=scale, **SMALL)
            kind = named_run.explorer
        assert run.explorer == dataclasses.replace(kind, scale=scale)
        with jax.enable_x64(True):
            traced = eqx.tree_at(lambda x: x.scale, kind, jnp.asarray(scale))
        single = named_run if i == 0 else hf.explore(problem, traced, episodes=K, seed=seed)
        for name, x in leaves(run).items():
            np.testing.assert_allclose(x, leaves(single)[name], rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("name", hf.explorers(all=True))
def test_side_by_side_members_have_the_same_episodes_and_numbers_to_rounding(wide, name):
    """Where there is a GPU, it does them side by side and a CPU does each alone. The symmetric grid is full of ties."""
    learns = registry.EXPLORERS[name].explorer_type.learns
    problem = (
        random_linear() if learns is LinearModel else grid("tabular" if learns is TabularModel else None)
    )
    needs_reward = "reward" in hf.explorers(all=True)[name]["options"]
    settings = {"episodes": K, **NEEDS.get(name, {})}
    settings |= {"reward": hf.goal(problem, 4)} if needs_reward else {}
    batch = hf.explore_many(problem, name, seeds=5, **settings)
    for run in batch:
        single = leaves(explore_alone(problem, name, seed=run.seed, **settings))
        for key, x in leaves(run).items():
            np.testing.assert_allclose(x, single[key], rtol=1e-9, atol=1e-9, err_msg=key)


class State(eqx.Module):
    policy: jax.Array
    is_due: jax.Array
    choices: jax.Array


class NowAndThen(Explorer):
    """Chooses a random policy with probability 1/4 per episode, and remains due until the episode is over."""

    learns: ClassVar[type[Model]] = Model

    def init(self, model):
        policy = jnp.zeros((model.space.horizon, model.space.num_states), jnp.int32)
        return State(policy, jnp.asarray(True), jnp.int32(0))

    def choose(self, key, model, state, evidence):
        jax.debug.callback(lambda _: CHOICES.append(1), state.choices)
        policy = jax.random.randint(key, state.policy.shape, 0, model.space.num_actions, jnp.int32)
        return State(policy, state.is_due, state.choices + 1)

    def update(self, model, state, evidence, trajectory):
        due = (trajectory.s.sum() + evidence.episodes) % 4 == 0
        return State(state.policy, due, state.choices), Info({"choices": state.choices})

    def plan(self, model, state, evidence, reward):
        return ExplorerPlan(*optimal_jax(model.estimate(evidence), reward))

    def claim(self, model, state):
        return None


CHOICES = []


def test_no_member_pays_for_the_choices_of_another():
    """Choices are made in groups that are nearly full. In step, each of the 40 would pay in all of the 48 episodes."""
    N, K = 40, 48
    members = build_members((mixture(),), (NowAndThen(),), N)
    with jax.enable_x64(True):
        job = batch_job.Job(members, K, ladder(), np.zeros(0, int), no_evaluation(1), True)
        shared, own_setups = job.setups(range(N))
        first = simulate.init_many(shared, own_setups, is_wide=True)
        CHOICES.clear()
        _, rows = simulate.simulate_many(shared, own_setups, first, jnp.int32(K), K, is_wide=True)
        jax.effects_barrier()
    choices, num_choices = np.asarray(rows["choices"]), len(CHOICES)
    num_needed, group = int(choices[:, -1].sum()), round(simulate.GROUP_SHARE * N)
    assert num_choices % group == 0
    assert num_needed <= num_choices <= 1.5 * num_needed < N * K / 2
    single = hf.explore(mixture(), NowAndThen(), episodes=K, seed=17)
    np.testing.assert_array_equal(choices[17], single.records["choices"])


def no_evaluation(problems):
    return evaluate.Evaluation((), np.zeros((0, 4, 5, 2)), (np.zeros(0),) * problems, 0.05)


@eqx.filter_jit
def predicted_eps_and_excess(valid, space, evidence, truth):
    """T of the best design, and how far the truth is outside of the confidence set at delta = 0.1."""
    predicted_eps = design(space, valid, evidence.row_counts, evidence.theta)[1]
    return predicted_eps, violation(valid, evidence, truth, 0.1).max()


def test_curves_are_what_each_run_says_of_itself():
    """UCRL-RFE plans in an estimate of its own."""
    problems = [mixture(), mixture(OTHER)]
    rewards = [hf.goal(problems[0], 4), hf.occupancy(problems[0], 2), hf.goal(problems[0], 1, step=2)]
    batch = hf.explore_many(
        problems, "ucrl-rfe", episodes=K, seeds=2, checkpoints=[K, 2], rewards=rewards, delta=0.1
    )
    assert batch.checkpoints.tolist() == [2, K]
    assert set(batch.curves) == set(evaluate.CURVES)
    assert (batch.curves["gap"] != batch.curves["own_gap"]).any()
    for i, run in enumerate(batch):
        last_values = {name: x[i, -1] for name, x in batch.curves.items()}
        for name, model in {"gap": "likelihood", "own_gap": "explorer"}.items():
            gaps = [hf.true_gap(run.problem, r, run.plan(r, delta=0.1, model=model).policy) for r in rewards]
            assert last_values[name] == pytest.approx(max(gaps), abs=1e-9)
        assert last_values["eps"] == pytest.approx(run.certificate(0.1, method="uniform").eps, abs=1e-9)
        with jax.enable_x64(True):
            valid, space, evidence = run.problem.model.valid, run.problem.space, run.evidence
            predicted_eps, outside = predicted_eps_and_excess(valid, space, evidence, run.problem.truth)
        assert last_values["efficiency"] == pytest.approx(K * float(predicted_eps) / valid.num_free, rel=1e-9)
        assert last_values["excess"] == pytest.approx(float(outside), rel=1e-9)
    short_run = hf.explore(problems[1], batch[2].explorer, episodes=2, seed=0)
    assert batch.curves["eps"][2, 0] == pytest.approx(
        short_run.certificate(0.1, method="uniform").eps, abs=1e-9
    )


def test_a_batch_runs_over_truths_and_over_a_number_of_the_explorer():
    problem, scales = mixture(), [0.3, 2.0]
    truths = np.random.default_rng(0).dirichlet(np.ones(3), size=2)
    reward = hf.goal(problem, 4)
    batch = hf.explore_many(
        problem, "ucrl-vtr", episodes=K, seeds=2, truths=truths, over={"scale": scales}, reward=reward
    )
    assert batch.shape == (2, 2, 2)
    assert len(batch) == 8
    for i, run in enumerate(batch):
        truth_index, value, seed = np.unravel_index(i, (2, 2, 2))
        assert (run.explorer.scale, run.seed) == (scales[value], seed)
        np.testing.assert_allclose(
            diagnostics_of(run.problem.model).in_units(run.problem.truth), truths[truth_index], rtol=1e-12
        )
    ratios = batch.records["truth_ratio"][:, 0].reshape(batch.shape)
    assert (ratios[:, 0] > ratios[:, 1]).all()  # smaller balls
    single = hf.explore(batch[6].problem, batch[6].explorer, episodes=K, seed=0)
    for name, x in leaves(batch[6]).items():
        np.testing.assert_allclose(x, leaves(single)[name], rtol=1e-9, atol=1e-9, err_msg=name)


FEW = {"episodes": 4, "seeds": 2}  # where any will do: one program


def test_a_member_goes_on_like_any_run():
    batch = hf.explore_many(mixture(), "uniform", **FEW)
    assert_same_bits(batch[1].resume(episodes=3), hf.explore(mixture(), "uniform", episodes=7, seed=1))
    assert batch[-1].seed == 1
    with pytest.raises(IndexError, match="members are 0 to 1"):
        batch[2]


def test_chunks_fill_the_memory_and_no_more(monkeypatch):
    with jax.enable_x64(True):
        members = build_members((mixture(),), (registry.make_explorer("uniform"),), 10)

        def chunk_size(memory, is_wide=False):
            bets = EProcesses(np.zeros(1, np.int32), np.ones(1))
            return batch_job.Job(
                members, 1, bets, np.zeros(0, int), no_evaluation(1), is_wide, memory
            ).chunk_size()

        assert chunk_size(batch_job.chunk_memory(None)) == 10
        with pytest.raises(OptionError, match="one member takes about") as error:
            chunk_size(1)
        member_bytes = int(str(error.value).split()[-2])
        assert chunk_size(member_bytes) == 1
        assert chunk_size(4 * member_bytes) == 4  # 4, 4, 2
        assert chunk_size(6 * member_bytes) == 5  # two chunks of one size
        monkeypatch.setattr(batch_job, "WORKSPACE_SAMPLE", 4)
        with pytest.raises(OptionError, match="one member takes about") as error:
            chunk_size(1, is_wide=True)
        assert (
            int(str(error.value).split()[-2]) > member_bytes + 8 * 4 * 5 * 2
        )  # workspace: at least the values of a plan


def test_members_are_what_explore_makes_of_the_same_words(tmp_path):
    """Truths are normalised as by from_kernels, delta is passed on, and numbers of any type are accepted."""
    kernels = [mixture().model.kernel(mixture().model.unit * x).dense() for x in np.eye(3)]
    rounded = np.array([0.3, 0.5, 0.2 + 5e-9])
    problem = hf.Mixture.from_kernels(kernels, horizon=4)
    settings = {"episodes": np.int64(4), "delta": np.float64(0.2), "out": tmp_path / "m"}
    batch = hf.explore_many(problem, "uniform", truths=[rounded], seeds=2, **settings)
    problem_with_truth = hf.Mixture.from_kernels(kernels, horizon=4, weights=rounded)
    np.testing.assert_array_equal(batch[0].problem.truth, problem_with_truth.truth)
    assert batch[0].until.delta == 0.2
    second = hf.explore_many(problem, "uniform", truths=[rounded], seeds=2, **settings | {"episodes": 4.0})
    np.testing.assert_array_equal(second.progress.evidence.counts, batch.progress.evidence.counts)


def test_without_an_explorer_the_class_has_its_own():
    batch = hf.explore_many(grid("tabular"), episodes=3, seeds=2, progress=False)
    assert registry.describe(batch[1].explorer)[0] == "tabular-design"
    assert_same_bits(batch[1], explore_alone(grid("tabular"), episodes=3, seed=1, progress=False))
