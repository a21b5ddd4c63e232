"""Alternatives against a class: exact e-values on small systems, no false alarms inside it, and what they find."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.special import betaln

import horizonfree as hf
from horizonfree.errors import HorizonfreeError
from horizonfree.runs.check import CHANGE_RATIO

K, H = 3, 2
AUTO = [
    "any distribution for every state-action pair",
    "a change in time",
    "memory of the step before",
    "the step of an episode",
]


@pytest.fixture(scope="module")
def coin() -> hf.Problem:
    """State 1 after a head, 0 after a tail, wherever one is: one unknown number."""
    kernels = np.eye(2)[:, None, None, :].repeat(2, 1)
    return hf.Mixture.from_kernels(kernels, horizon=H, start=[0.5, 0.5], name="coin")


def coin_log(tosses: np.ndarray, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Episodes in which the next state is the toss."""
    states = np.concatenate([np.full((len(tosses), 1), first), tosses], axis=1)
    return states, np.zeros(tosses.shape, int)


def kt(heads: int, tails: int) -> float:
    """log of the average of w^heads (1-w)^tails over Beta(1/2, 1/2)."""
    return float(betaln(heads + 0.5, tails + 0.5) - betaln(0.5, 0.5))


def log_e_of_groups(tosses: np.ndarray, part: np.ndarray) -> float:
    return sum(
        kt(int((tosses[part == x] == 1).sum()), int((tosses[part == x] == 0).sum())) for x in np.unique(part)
    )


def literal(tosses: np.ndarray) -> dict[str, float]:
    """log E of the automatic alternatives, by loops over the tosses."""
    heads, n = int(tosses.sum()), tosses.size
    best = sum(x * math.log(x / n) for x in (heads, n - heads) if x)
    previous = np.concatenate([np.zeros((len(tosses), 1), int), tosses[:, :-1]], axis=1)
    moments = [m for m in sorted({math.ceil(CHANGE_RATIO**k) for k in range(50)}) if m < len(tosses)]
    episode = np.arange(len(tosses))[:, None] * np.ones(tosses.shape, int)
    change = sum(
        math.exp(log_e_of_groups(tosses, episode >= m)) / ((k + 1) * (k + 2)) for k, m in enumerate(moments)
    )
    step = np.arange(H) * np.ones(tosses.shape, int)
    log_q = (
        log_e_of_groups(tosses, previous),
        math.log(change),
        log_e_of_groups(tosses, previous),
        log_e_of_groups(tosses, step),
    )
    return {
        name: x - best for name, x in zip(AUTO, log_q)
    }  # from state s: the table, too, looks one step back


def test_e_values_are_those_of_a_literal_loop_and_have_mean_at_most_one_in_the_class(
    coin: hf.Problem,
) -> None:
    """All 64 ways in which six tosses can fall: no chance is involved. The largest likelihood is known to 1e-4."""
    all_tosses = [np.array(x).reshape(K, H) for x in itertools.product((0, 1), repeat=K * H)]
    e_values = []
    for tosses in all_tosses:
        check = hf.from_episodes(coin, coin_log(tosses)).check()
        assert [x.name for x in check.alternatives] == AUTO
        twin = literal(tosses)
        for name, log_e in check.alternatives:
            assert twin[name] - 1e-3 <= log_e <= twin[name] + 1e-9
        e_values.append([math.exp(x.log_e) for x in check.alternatives])
    heads = np.array([x.sum() for x in all_tosses])
    for w in np.linspace(0.01, 0.99, 25):
        mean = (w**heads * (1 - w) ** (K * H - heads)) @ np.array(e_values)
        assert (mean <= 1).all()
        assert (mean > 0.05).all()


def test_groups_are_parts_of_their_own(coin: hf.Problem) -> None:
    tosses = np.array([[1, 1], [0, 0], [1, 1], [0, 1]])
    run = hf.from_episodes(coin, coin_log(tosses))
    (alternative,) = run.check(["north", "south", "north", "south"]).alternatives
    exact = kt(4, 0) + kt(1, 3) - 5 * math.log(5 / 8) - 3 * math.log(3 / 8)
    assert alternative.name == "2 groups"
    assert exact - 1e-3 <= alternative.log_e <= exact + 1e-9


RARE = [[0, 0], [0, 0], [0, 1], [1, 0]] * 12  # a head in four tosses
TURNED = np.array(RARE + [[1 - x for x in pair] for pair in RARE])  # then three in four
EVEN = np.array([[0, 1], [1, 0], [1, 1], [0, 0]] * 24)
ALTERNATING = np.array([[0, 1], [1, 0]] * 48)


@pytest.mark.filterwarnings("ignore::horizonfree.errors.LogWarning")  # episodes were made by repeating some
def test_a_change_a_memory_and_groups_are_found(coin: hf.Problem) -> None:
    check = hf.from_episodes(coin, coin_log(TURNED)).check()
    assert check.is_refuted
    assert check.strongest.name == "a change in time"
    second_check = hf.from_episodes(coin, coin_log(ALTERNATING)).check(alternatives=["change", "memory"])
    assert second_check.is_refuted
    assert second_check.strongest.name == "memory of the step before"
    ageing = hf.from_episodes(coin, coin_log(np.sort(np.array(RARE + RARE), axis=1))).check()
    assert ageing.is_refuted  # heads come in the second step only
    assert ageing.strongest.name == "the step of an episode"
    half = np.arange(96) // 48
    assert hf.from_episodes(coin, coin_log(TURNED)).check(half).is_refuted
    assert not hf.from_episodes(coin, coin_log(EVEN)).check(half).is_refuted
    assert not hf.from_episodes(coin, coin_log(EVEN)).check().is_refuted


@pytest.mark.filterwarnings("ignore::horizonfree.errors.LogWarning")  # episodes were made by repeating some
def test_a_certificate_is_rejected_by_alternatives_that_were_asked(coin: hf.Problem) -> None:
    without_alternatives, with_alternatives = (
        hf.certify(coin, coin_log(TURNED), alternatives=x) for x in (None, "auto")
    )
    assert not without_alternatives.is_rejected
    assert with_alternatives.is_rejected
    assert with_alternatives.eps == 1
    assert "refuted by 'a change in time': e-value 10^" in with_alternatives.summary()
    not_rejected = hf.certify(coin, coin_log(EVEN), alternatives=["table", "change"])
    assert not not_rejected.is_rejected
    assert not_rejected.eps == hf.certify(coin, coin_log(EVEN)).eps
    assert not_rejected.parts["against"] < 0


def test_a_richer_problem_and_an_unknown_table_bet(coin: hf.Problem) -> None:
    """From state 1 the next toss is always a tail, from 0 always a head: a table of two coins explains it."""
    states, actions = coin_log(np.array([[1, 0]] * 96))
    run = hf.from_episodes(coin, (states, actions))
    table = hf.Tabular(2, 1, H, 0, name="two coins")
    (alternative,) = run.check(alternatives=[table]).alternatives
    exact = kt(96, 0) + kt(0, 96) + 192 * math.log(2)
    assert alternative.name == "two coins"
    assert exact - 1e-3 <= alternative.log_e <= exact + 1e-9
    assert run.check(alternatives=[table]).is_refuted
    table_check = hf.from_episodes(table, coin_log(TURNED)).check()
    assert [x.name for x in table_check.alternatives] == AUTO[1:]
    assert table_check.is_refuted


def test_what_cannot_bet_is_refused_in_words(coin: hf.Problem, tmp_path: Path) -> None:
    run = hf.from_episodes(coin, coin_log(np.array([[0, 1], [1, 0], [0, 0]])))
    run.save(tmp_path / "a")
    loaded = hf.load(tmp_path / "a")
    assert [x.name for x in loaded.check().alternatives] == AUTO[:2]  # the episodes are not stored
    for run_of_case, options, message in (
        (loaded, {"by": [1, 2, 3]}, "by= needs the episodes"),
        (loaded, {"alternatives": ["memory"]}, "'memory' needs the episodes"),
        (run, {"alternatives": ["noise"]}, "'noise' is for problems of from_noise with models="),
        (run, {"alternatives": ["tabel"]}, "there is no alternative 'tabel'; did you mean 'table'?"),
        (run, {"alternatives": "table"}, "alternatives is 'table'; it must be 'auto', or a list"),
        (run, {"alternatives": [3]}, "the alternative is 3; it must be a name or a problem"),
        (run, {"by": [1, 2]}, r"by has shape \(2,\)"),
        (run, {"alternatives": [hf.Tabular(3, 1, 2, 0)]}, "has 3 states and 1 actions, the problem 2 and 1"),
    ):
        with pytest.raises(HorizonfreeError, match=message):
            run_of_case.check(**options)
    without_order = hf.from_episodes(coin, coin_log(np.array([[0, 1]])))
    narrow = hf.Tabular(2, 1, H, 0, support=np.array([[[True, False]], [[True, True]]]), name="narrow")
    assert without_order.check(alternatives=[narrow]).strongest.log_e == -math.inf


def test_false_alarms_inside_the_class_stay_below_delta(coin: hf.Problem) -> None:
    """A hundred logs at delta = 0.2: more than 41 alarms have probability 1e-6 if each has 0.2."""
    rng = np.random.default_rng(0)
    logs = (rng.random((100, 96, H)) < 0.3).astype(int)
    alarms = sum(hf.from_episodes(coin, coin_log(x)).check(delta=0.2).is_refuted for x in logs)
    assert alarms <= 41
