"""Arrays, names and endings of the reachable part of a problem."""

import re
from pathlib import Path

import numpy as np
import pytest

import horizonfree as hf
from horizonfree.errors import ShapeError, UnknownNameError
from horizonfree.mdp.rewards import resolve
from horizonfree.problems.endings import endings_of

S, A, H = 9, 2, 3
NAMES = [f"place {s}" for s in range(S)]


def line(**settings):
    """From state 4 left and right; what an episode of two moves and one more can come to are states 1 to 7."""
    P = np.zeros((2, S, A, S))
    for s in range(S):
        P[0, s, 0, max(s - 1, 0)] = P[0, s, 1, min(s + 1, S - 1)] = 1
        P[1, s, :, s] = 1
    options = {"horizon": H, "start": 4, "weights": [0.7, 0.3], **settings}
    return hf.Mixture.from_kernels(P, **options)


@pytest.fixture(scope="module")
def part():
    return line().reachable_part()


def test_arrays_of_every_shape_go_there_and_back(part):
    ids = np.arange(1, 8)
    assert (part.state_ids == ids).all()
    rng = np.random.default_rng(0)
    for shape, axis in (((S,), 0), ((S, A), 0), ((H, S), 1), ((H + 1, S), 1), ((H, S, A), 1)):
        x = rng.uniform(size=shape)
        restricted = part.restrict(x)
        assert (restricted == np.take(x, ids, axis)).all()
        extended = part.extend(restricted, fill=np.nan)
        assert extended.shape == shape
        assert (np.take(extended, ids, axis) == restricted).all()
        assert np.isnan(np.delete(extended, ids, axis)).all()
    policy = part.extend(np.ones((H, 7), np.int32))
    assert policy.dtype.kind == "i"
    assert (policy[:, [0, 8]] == 0).all()
    assert part.extend(np.full((H, 7, A), 0.5), fill=1 / A).sum(-1) == pytest.approx(1)
    values = np.arange(S) % 2
    assert (part.extend(np.zeros((H, 7), int), fill=values)[:, [0, 8]] == values[[0, 8]]).all()
    is_there = part.extend(np.ones(7, bool), fill=False)
    assert is_there.dtype == bool
    assert (np.flatnonzero(is_there) == ids).all()


def test_shapes_that_fit_nowhere_are_refused(part):
    for x in (np.zeros(7), np.zeros((S, 3)), np.zeros((2, S)), np.zeros((A, S, H))):
        with pytest.raises(ShapeError, match=r"\(H, S, A\) = \(3, 9, 2\)"):
            part.restrict(x)
    with pytest.raises(ShapeError, match=r"\(H, S, A\) = \(3, 7, 2\)"):
        part.extend(np.zeros(S))
    with pytest.raises(ShapeError, match="fill has shape"):
        part.extend(np.zeros(7), fill=np.zeros(7))
    with pytest.raises(ShapeError, match="a log is a pair"):
        part.restrict((np.zeros(S),))
    with pytest.raises(ShapeError, match="real numbers"):
        part.restrict(np.array(["a"] * S))
    square = hf.Mixture.from_kernels(np.eye(3)[None, :, None].repeat(3, 2), horizon=3)
    assert square.reachable_part().num_states == 1
    with pytest.raises(ShapeError, match=r"give it for every step, \[H, S, A\]"):
        square.reachable_part().restrict(np.zeros((3, 3)))


def test_rewards_of_every_form(part):
    problem = line()
    states = np.zeros(S)
    states[[0, 6]] = 1 / H
    forms = [
        states,
        np.repeat(states[:, None], A, axis=1),
        np.broadcast_to(states[:, None], (H, S, A)),
        lambda h, s, a: states[s],
        hf.rescale(problem, 6 * states),
    ]
    tables = [resolve(part.space, part.restrict(form)).table for form in forms]
    expected = np.broadcast_to(np.array([0, 0, 0, 0, 0, 1, 0])[:, None], (H, 7, A))
    for table in tables[:4]:
        assert table == pytest.approx(expected / H)
    resolved = resolve(problem.space, forms[-1])
    assert tables[-1] == pytest.approx(part.restrict(resolved.table))


def test_states_have_their_numbers_in_texts(part):
    assert [part.state_name(i) for i in (0, 6)] == ["state 1", "state 7"]
    assert part.state_number("7") == 6
    assert part.state_number(6) == 6
    for text in ("0", "8", "99"):
        with pytest.raises(UnknownNameError, match=f"there is no state {text} in this part"):
            part.state_number(text)
    assert part.start_name() == "state 4"
    named_part = line(states=NAMES).reachable_part()
    assert named_part.state_name(0) == "place 1"
    assert named_part.state_number("place 7") == named_part.state_number("7") == 6
    assert (hf.goal(part, "7") == hf.goal(named_part, "place 7")).all()
    frame = hf.explore(part, episodes=3, progress=False).plan(hf.goal(part, "5")).to_pandas()
    assert sorted(set(frame["state"])) == [f"state {s}" for s in range(1, 8)]


def test_endings_of_a_part():
    env_like = hf.Tabular(
        6, 1, 2, start=2, support=np.tri(6, k=1)[:, None] * np.tri(6, k=1).T[:, None], terminal=[3, 5]
    )
    part = env_like.reachable_part()
    all_endings, endings = endings_of(env_like.model, env_like.layout), endings_of(part.model, part.layout)
    assert part.num_states < 6
    acting = np.flatnonzero(np.asarray(part.space.reachable))
    assert (endings.always == all_endings.always[part.state_ids]).all()
    for i in acting:
        successors = all_endings.after[part.state_ids[i]]
        assert endings.after[i] == (
            successors if successors < 0 else np.flatnonzero(part.state_ids == successors)[0]
        )


def test_any_law_of_the_noise_bets_against_a_part():
    def step(s, a, w):
        return min(max(s + (a + 1) * w, 0), 19)

    problem = hf.Mixture.from_noise(
        step,
        [-1, 0, 1],
        models=[[0.2, 0.5, 0.3], [0.4, 0.2, 0.4]],
        num_states=20,
        num_actions=2,
        horizon=3,
        start=9,
        weights=[0.5, 0.5],
    )
    part = problem.reachable_part()
    assert part.num_states == 13
    a, b = (
        hf.explore(x, episodes=30, seed=1, progress=False).check(alternatives=["noise"])
        for x in (problem, part)
    )
    assert a.log_e == pytest.approx(b.log_e, abs=1e-6)


def test_examples_run(capsys):
    page = (Path(__file__).parents[2] / "docs" / "runs.md").read_text()
    (code,) = (x for x in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "reachable_part" in x)
    exec(code, {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"^print.* # (.*)$", code, re.MULTILINE)
