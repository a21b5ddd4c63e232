"""Intervals of weights hold every parameter of the confidence set, also beside kernels that are nearly redundant."""

import itertools
from dataclasses import replace

import numpy as np
from scipy.optimize import linprog

import horizonfree as hf
from horizonfree.errors import FeatureError
from horizonfree.guarantees.e_processes import EProcesses
from horizonfree.models import certify
from horizonfree.models.registry import diagnostics_of
from tests.reference import small

SCALES = [float(f"1e-{k}") for k in range(2, 13)]
DELTA = 0.05


def evidence_of(model, theta, visits):
    """Evidence with the expected counts of a parameter, after so many visits of each pair of a reachable state."""
    with small.jax.enable_x64(True):
        first = small.to_numpy(model.init_evidence(EProcesses((0,), (1.0,))))
    prob = np.asarray(model.phi) @ theta
    counts = np.rint(visits * np.maximum(prob, 0) * np.asarray(model.space.reachable)[:, None, None]).astype(
        np.int32
    )
    row_of, R = np.asarray(model.valid.row_of), len(model.valid.rows)
    rows = np.bincount(row_of.ravel(), counts.ravel(), R + 1)[:R].astype(np.int32)
    p = np.asarray(model.valid.rows) @ theta
    loss = -(rows * np.log(np.where(rows > 0, p, 1.0))).sum() + 0.1
    return replace(
        first,
        counts=counts,
        row_counts=rows,
        since=rows[None],
        losses=np.full((1, 2), loss),
        episodes=np.asarray(visits, np.int32),
        table_loss=np.asarray(np.inf),
    )


def members(model, evidence, theta, i, rounds=15):
    """Parameters of the confidence set with nearly the smallest and largest entry i, by linear programmes.

    The set is {theta : row sums are 1, no row and no weight is negative, L(theta) <= level}. Each programme has the
    tangents of L found so far; its solution, moved towards the true theta until L is small enough, is in the set.
    """
    rows, sums = np.asarray(model.valid.rows), np.asarray(model.valid.sums)
    rows = np.vstack([rows, np.eye(rows.shape[1])]) if model.is_hull else rows
    sizes = np.abs(rows).max(1)
    N = np.zeros(len(rows))
    N[: len(model.valid.rows)] = np.asarray(evidence.since)[0]
    level = float(evidence.loss[0]) + np.log(1 / DELTA)
    seen = N > 0

    def loss(x):
        p = rows[seen] @ x
        return -(N[seen] * np.log(p)).sum() if (p > 0).all() else np.inf

    found = []
    for sign in (1.0, -1.0):
        cuts, levels = [], []
        for _ in range(rounds):
            result = linprog(
                sign * np.eye(len(theta))[i],
                A_ub=np.vstack([-rows / sizes[:, None], *cuts]),
                b_ub=np.r_[np.zeros(len(rows)), levels],
                A_eq=sums,
                b_eq=np.ones(len(sums)),
                bounds=[(-1e3, 1e3)] * len(theta),
            )
            if result.x is None:
                break
            inside, outside = 0.0, 1.0
            for _ in range(60):
                middle = (inside + outside) / 2
                is_in = loss(theta + middle * (result.x - theta)) <= level
                inside, outside = (middle, outside) if is_in else (inside, middle)
            point = theta + inside * (result.x - theta)
            found.append(point)
            if inside > 1 - 1e-9 or abs(point[i] - result.x[i]) < 1e-9:
                break
            grad = -(N[seen] / (rows[seen] @ point)) @ rows[seen]
            size = np.abs(grad).max()
            cuts.append(grad[None] / size)
            levels.append((level - loss(point) + grad @ point) / size)
    return np.array(found)


def check(problem, theta, visits):
    """Every member is inside the intervals. The entries' widths, and those of the members."""
    model = problem.model
    truth = model.parameter(theta, "theta")
    evidence = evidence_of(model, truth, visits)
    confidence = certify.confidence(model, evidence, delta=DELTA)
    assert not confidence.is_refuted
    found = diagnostics_of(model).intervals(confidence)
    exact = []
    for i in range(model.dim):
        points = members(model, evidence, truth, i) / model.unit
        assert (points >= found.low - 1e-7).all()
        assert (points <= found.high + 1e-7).all()
        exact.append(np.ptp(points[:, i]))
    return found.high - found.low, np.array(exact)


def kernels_of(rng, d, S=3, A=2):
    return rng.dirichlet(np.ones(S), size=(d, S, A))


def last_nearly_mixed(rng, kernels, scale):
    """The last kernel is a mixture of the others, but for a small change."""
    kernels = kernels.copy()
    share = rng.dirichlet(np.ones(len(kernels) - 1))
    mixed = np.tensordot(share, kernels[:-1], 1)
    kernels[-1] = (1 - scale) * mixed + scale * kernels[-1]
    return kernels


def test_intervals_hold_the_confidence_set_beside_a_nearly_redundant_kernel(subtests):
    """Kernels differ by 1e-2 to 1e-12. What drowns in rounding is refused when the problem is made."""
    for d, scale in itertools.product([1, 2, 5, 12], SCALES):
        with subtests.test(d=d, scale=scale):
            rng = np.random.default_rng([d, SCALES.index(scale)])
            kernels = kernels_of(rng, d)
            kernels = kernels if d == 1 else last_nearly_mixed(rng, kernels, scale)
            weights = rng.dirichlet(np.full(d, 0.5))
            try:
                problem = hf.Mixture.from_kernels(kernels, horizon=3)
            except FeatureError as error:
                assert "drowns in rounding" in str(error)  # noqa: PT017
                assert scale < 1e-5
                continue
            for visits in (1e3, 1e8):
                width, _ = check(problem, weights, visits)
            if d == 1:
                np.testing.assert_allclose(width, 0.0, atol=1e-9)


def test_intervals_hold_weights_that_a_hidden_direction_moves_by_little(subtests):
    """A direction that no episode shows moves one weight by a small share of the others.

    State 1 is out of reach. On state 0 kernel 2 is the mean of kernels 0 and 1 but for `scale` of kernel 3, whose
    transition 0 -> 2 no other kernel has.
    """
    for scale in SCALES:
        with subtests.test(scale=scale):
            base = np.array(
                [[0.9, 0.0, 0.0, 0.1], [0.1, 0.0, 0.0, 0.9], [0.5, 0.0, 0.0, 0.5], [0.5, 0.0, 0.5, 0.0]]
            )
            base[2] = (1 - scale) * base[2] + scale * base[3]
            kernels = np.zeros((4, 4, 1, 4))
            kernels[:, 0, 0] = base
            kernels[:, 2:, 0, 0] = 1.0
            kernels[np.arange(4), 1, 0, [0, 1, 2, 3]] = 1.0
            try:
                problem = hf.Mixture.from_kernels(kernels, horizon=3, start=0)
            except FeatureError as error:
                assert "drowns in rounding" in str(error)  # noqa: PT017
                continue
            for weights in ([0, 0, 1, 0], [0.5, 0.5, 0, 0], [0.2, 0.2, 0.5, 0.1]):
                for visits in (1e4, 1e9):
                    check(problem, np.array(weights, float), visits)


def test_intervals_hold_long_parameters_that_a_hidden_direction_moves(subtests):
    """Features whose parameters are long: a small share of a hidden direction is a large change.

    State 2 is out of reach, and keeps theta_2 between 0 and 1000.
    """
    for scale in SCALES:
        with subtests.test(scale=scale):
            phi = np.zeros((3, 1, 3, 3))
            phi[:2, 0, 0, 0], phi[:2, 0, 1, 0] = 1.0, 0.0
            phi[:2, 0, 1] += [
                0.0,
                1.0,
                -scale,
            ]  # p = theta_1 - scale theta_2, and nothing else tells of theta_2
            phi[:2, 0, 0] -= [0.0, 1.0, -scale]
            phi[2, 0, 0], phi[2, 0, 1] = [1.0, 0.0, -1e-3], [0.0, 0.0, 1e-3]
            problem = hf.Mixture.from_features(phi, horizon=3, start=0, bound=2000.0)
            for hidden in (0.0, 900.0):
                theta = np.array([1.0, 0.3 + scale * hidden, hidden])
                check(problem, theta, 1e9)


def test_intervals_are_not_wider_than_they_must_be():
    """Where kernels differ, intervals are at most twice as wide as the set."""
    rng = np.random.default_rng(5)
    for d in (2, 5):
        problem = hf.Mixture.from_kernels(kernels_of(rng, d), horizon=3)
        width, exact = check(problem, np.full(d, 1 / d), 1e6)
        assert (width <= 2 * exact).all()
