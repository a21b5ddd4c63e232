"""Kernels from samples of functions, counts and environments; certificates that pay for their error; cells of a Box."""

import gymnasium
import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import HorizonfreeError, OptionError
from horizonfree.report.facts import history_of

RNG = np.random.default_rng(0)
S, A, H = 4, 2, 4
P = RNG.dirichlet(np.ones(S), (2, S, A))
SEEN = np.ones((S, A, 1), int)
SEEN[1, 0] = 0  # a pair without samples


def draw_samples(N: int, seed: int = 0) -> list[np.ndarray]:
    return list(np.random.default_rng(seed).multinomial(N, P))


def test_a_function_is_asked_as_often_as_said_at_every_pair() -> None:
    num_calls = np.zeros((S, A), int)

    def ring(s: int, a: int, rng: np.random.Generator) -> int:
        num_calls[s, a] += 1
        return (s + 1 + int(rng.integers(2)) * a) % S

    def stay(s: int, a: int, rng: np.random.Generator) -> int:
        return s

    problem = hf.from_simulators(
        {"ring": ring, "stay": stay}, num_states=S, num_actions=A, samples=30, horizon=H
    )
    assert (num_calls == 30).all()
    assert problem.layout["simulators"] == ["ring", "stay"]
    kernel = problem.model.kernel(problem.model.parameter(np.array([1.0, 0.0]), "ring"))
    table = np.zeros((S, A, S))
    s, a, _ = np.indices(kernel.prob.shape)
    np.add.at(table, (s, a, np.asarray(kernel.succ)), np.asarray(kernel.prob))
    np.testing.assert_allclose(table[:, 0], np.roll(np.eye(S), 1, axis=1), atol=1e-12)
    assert table[:, 1] * 30 == pytest.approx((table[:, 1] * 30).round(), abs=1e-9)
    assert problem.sampling.everywhere  # not every state was seen to follow


def test_smoothing_moves_the_estimates_by_what_is_said_and_leaves_nothing_impossible() -> None:
    counts = [np.where(x < 8, 0, x) for x in draw_samples(60)]
    problem = hf.from_simulators(counts, horizon=H, smoothing=2.0)
    for i, table in enumerate(counts):
        N = table.sum(-1, keepdims=True)
        literal = (table + 2.0 / S) / (N + 2.0)
        kernel = problem.model.kernel(problem.model.parameter(np.eye(2)[i], "one"))
        np.testing.assert_allclose(kernel.prob, literal, atol=1e-12)
        distances = np.abs(literal - table / N).sum(-1) / 2
        assert (distances <= problem.sampling.shift + 1e-12).all()
    assert not problem.sampling.everywhere
    assert problem.sampling.misspecification(0.1).kl is None  # by total variation, shift included


@pytest.fixture(scope="module")
def truth() -> hf.Problem:
    return hf.Mixture.from_kernels(P, horizon=H, weights=[0.3, 0.7])


@pytest.fixture
def runs(truth: hf.Problem) -> dict[int, hf.Run]:
    """A new run for each test: a certificate computed in another one need not have the same bits."""
    episodes = hf.simulate(truth, np.full((H, S, A), 0.5), episodes=1500, seed=1)
    problems = {N: hf.from_simulators(draw_samples(N), horizon=H) for N in (10**4, 10**6)}
    return {N: hf.from_episodes(problem, episodes, budget=1500) for N, problem in problems.items()}


def test_certificates_pay_for_the_samples_and_hold_in_the_true_system(truth: hf.Problem, runs: dict) -> None:
    """A gap is wrong with probability 1e-6 at most."""
    certificate = hf.certify(
        truth, hf.simulate(truth, np.full((H, S, A), 0.5), episodes=1500, seed=1), budget=1500
    )
    certificates = {N: run.certificate() for N, run in runs.items()}
    assert certificate.eps < certificates[10**6].eps < certificates[10**4].eps < 1
    assert certificates[10**4].delta == 0.05
    assert certificates[10**4].eps > runs[10**4].problem.sampling.floor()
    assert "including the errors of the simulators' samples, up to 0.0" in certificates[10**4].summary()
    for run in runs.values():
        for goal in range(S):
            plan = run.plan(hf.goal(run.problem, goal), delta=1e-6)
            assert hf.true_gap(truth, hf.goal(truth, goal), plan.policy) <= plan.gap


def test_a_quarter_of_delta_goes_to_the_samples(runs: dict) -> None:
    """Of 0.05: the radii at 0.01, the episodes at 0.04."""
    run = runs[10**4]
    direct = run.problem.model.robust_confidence(run.evidence, 0.04)(
        run.problem.sampling.misspecification(0.01)
    )
    assert run.certificate().eps == float(direct.eps)
    wider = run.certificate(misspecification=0.01)
    assert wider.eps > run.certificate().eps
    assert "if every transition law is within 0.0" in wider.summary()


def test_kernels_from_samples_are_stored_and_what_takes_them_for_exact_is_refused(
    runs: dict, tmp_path
) -> None:
    run = runs[10**4]
    run.save(tmp_path / "a")
    assert hf.load(tmp_path / "a").certificate() == run.certificate()
    assert run.check().alternatives == ()
    for ask, message in (
        (
            lambda: run.check(alternatives=["table"]),
            "the kernels of this problem were estimated from samples",
        ),
        (lambda: run.check(np.zeros(1500, int)), "the kernels of this problem were estimated"),
        (lambda: run.certificate(method="direct"), "it must be 'uniform'"),
        (lambda: hf.explore(run.problem, until_eps=0.05), "until_eps is 0.05, but with these samples"),
        (lambda: run.robustness(), "robustness is for kernels that are given"),
        (lambda: run.evaluate(hf.goal(run.problem, 1), np.full((H, S, A), 0.5)), "whose actions are certain"),
    ):
        with pytest.raises(HorizonfreeError, match=message):
            ask()


def test_nothing_calls_a_gap_certified_that_takes_estimates_for_exact(runs: dict) -> None:
    """Neither the past in a report, which has no counts by blocks, nor the curves of a batch."""
    run = runs[10**4]
    assert [(x.episodes, x.eps) for x in history_of(run, 0.05)] == [(1500, run.certificate().eps)]
    problem = hf.from_simulators(draw_samples(10**4), horizon=H, weights=[0.3, 0.7])
    settings = {"episodes": 20, "seeds": 1, "checkpoints": [20], "curves": ("eps", "gap")}
    batch = hf.explore_many(problem, "uniform", **settings)
    assert np.isnan(batch.curves["eps"]).all()
    assert np.isfinite(batch.curves["gap"]).all()


def test_weights_outside_the_simplex_widen_the_radii() -> None:
    inside = hf.from_simulators(draw_samples(10**4), horizon=H).sampling
    outside = hf.from_simulators(draw_samples(10**4), horizon=H, hull=False).sampling
    assert outside.size > 1
    ratio = outside.misspecification(0.1).radii(S, A) / inside.misspecification(0.1).radii(S, A)
    np.testing.assert_allclose(ratio, outside.size, rtol=1e-9)


# Environments


def test_an_environment_is_put_into_every_state_or_followed() -> None:
    lake = gymnasium.make("FrozenLake-v1", desc=["SF", "FG"])

    def set_state(env: gymnasium.Env, state: int, rng: np.random.Generator) -> None:
        env.unwrapped.s = state

    put = hf.from_simulators([lake], horizon=4, samples=20, place=set_state, seed=1)
    assert put.start == 0
    assert put.sampling.is_fixed
    goal = [3]  # an episode is over there: known, and no samples are needed
    np.testing.assert_array_equal(np.flatnonzero((put.sampling.successors == 1).all(1)), goal)
    assert (put.sampling.samples[:3] == 20).all()
    rolled_out = hf.from_simulators([lake], horizon=4, samples=20, seed=1)
    assert not rolled_out.sampling.is_fixed
    assert rolled_out.sampling.samples.sum() >= 20 * 16 - 4 * 3
    exact = hf.from_gymnasium(lake, horizon=4).kernel()
    kernel = put.model.kernel(np.asarray(put.model.valid.center))
    for s in range(3):
        for a in range(4):
            successors = set(np.asarray(kernel.succ)[s, a][np.asarray(kernel.prob)[s, a] > 0])
            assert successors <= set(np.asarray(exact.succ)[s, a][np.asarray(exact.prob)[s, a] > 0])


def car(**options) -> gymnasium.Env:
    return hf.discretize(gymnasium.make("MountainCar-v0", max_episode_steps=10**6), **options)


def test_cells_are_numbered_and_the_end_is_a_state_of_its_own() -> None:
    env = car(bins=[6, [-0.02, 0.0, 0.02]], repeat=5)
    assert env.observation_space.contains(env.reset(seed=0)[0])
    assert env.observation_space.n == 6 * 4 + 1
    rng = np.random.default_rng(0)
    for state in range(env.over):
        assert env.cell(env.inside(state, rng)) == state
    edges = np.linspace(-1.2, 0.6, 7)
    x = np.array([-0.31, 0.01])
    column, row = np.searchsorted(edges, x[0]) - 1, np.searchsorted([-0.02, 0.0, 0.02], x[1])
    assert env.cell(x) == column * 4 + row
    env.reset(seed=0)
    env.unwrapped.state = (0.49, 0.07)
    assert env.step(2)[0] == env.over


def test_simulators_in_cells_are_a_class_for_a_real_car() -> None:
    """Two strengths of gravity; smoothing lets the car do what no sample showed."""
    cars = [car(bins=[6, 4], repeat=10) for _ in range(2)]
    for env, gravity in zip(cars, (0.002, 0.003)):
        env.unwrapped.gravity = gravity

    def set_state(env: gymnasium.Env, state: int, rng: np.random.Generator) -> None:
        env.unwrapped.state = tuple(env.inside(state, rng))

    real = car(bins=[6, 4], repeat=10)
    start = np.bincount([real.cell([x, 0.0]) for x in np.linspace(-0.6, -0.4, 100)], minlength=25) / 100
    problem = hf.from_simulators(cars, horizon=6, samples=5, place=set_state, smoothing=0.5, start=start)
    assert (problem.num_states, problem.model.num_unknown) == (25, 1)
    assert "no suboptimality bound for every reward can be certified" in problem.sampling.summary()
    run = hf.explore(real, "uniform", known=problem, episodes=3, progress=False)
    assert run.evidence.impossible == 0


REFUSALS = [
    (lambda: hf.from_simulators([], horizon=3), r"simulators is \[\]; it must be a list of at least one"),
    (lambda: hf.from_simulators(3, horizon=3), "simulators is 3; it must be a list"),
    (lambda: hf.from_simulators([np.zeros((2, 2))], horizon=3), "simulator 0 has type float64"),
    (
        lambda: hf.from_simulators([np.zeros((2, 2), int)], horizon=3),
        r"shape \(2, 2\); it must be \[S, A, S\]",
    ),
    (lambda: hf.from_simulators(draw_samples(9), horizon=3, smoothing=-1), "smoothing is -1"),
    (
        lambda: hf.from_simulators(draw_samples(9), horizon=3, successors=np.zeros((S, A, S))),
        "which successors excludes",
    ),
    (
        lambda: hf.from_simulators(
            [x * SEEN for x in draw_samples(9)], horizon=3, successors=SEEN.repeat(S, 2)
        ),
        r"no state that may follow \(s=1, a=0\)",
    ),
    (lambda: hf.from_simulators([lambda s, a, rng: 9], horizon=3), "num_states is None"),
    (
        lambda: hf.from_simulators([lambda s, a, rng: 9], num_states=2, num_actions=1, horizon=3),
        "is 9; it must",
    ),
    (
        lambda: hf.from_simulators([lambda s, a: 0], num_states=2, num_actions=1, horizon=3),
        "fails: TypeError",
    ),
    (
        lambda: hf.from_simulators([lambda s, a, rng: 0], num_states=10**6, num_actions=9, horizon=3),
        "would be called 9,000,000,000 times",
    ),
    (
        lambda: hf.from_simulators([gymnasium.make("MountainCar-v0")], horizon=3),
        "cut it into cells, .*hf.discretize",
    ),
    (lambda: hf.from_simulators([car(bins=24)], horizon=3, samples=1), "start in . different states"),
    (lambda: hf.discretize(gymnasium.make("CartPole-v1"), 4), "goes from -inf to inf; give its inner edges"),
    (lambda: hf.discretize(gymnasium.make("FrozenLake-v1"), 4), "discretize is for a Box"),
    (lambda: car(bins=[3]), "bins has 1 entries; observations have 2 coordinates"),
    (lambda: car(bins=[3, [1.0, 0.0]]), "inner edges, finite and increasing"),
]


def test_what_cannot_be_sampled_is_refused(subtests: pytest.Subtests) -> None:
    for call, message in REFUSALS:
        with subtests.test(message), pytest.raises(HorizonfreeError, match=message):
            call()


def test_a_table_of_sampled_kernels_knows_nothing_of_the_samples() -> None:
    """With declared successors it is a table like any other; without, samples do not tell what is impossible."""
    counts = list(np.full((2, 3, 2, 3), 20))
    problem = hf.from_simulators(
        counts, horizon=3, start=0, weights=[0.5, 0.5], successors=np.ones((3, 2, 3), bool)
    )
    table = problem.as_tabular()
    assert table.sampling is None
    run = hf.from_episodes(table, (np.zeros((1, 4), int), np.zeros((1, 3), int)))
    assert run.certificate().is_vacuous
    counts[0][0, 0, 2] = counts[1][0, 0, 2] = 0
    with pytest.raises(OptionError, match="describe the table itself"):
        hf.from_simulators(counts, horizon=3, start=0).as_tabular()
