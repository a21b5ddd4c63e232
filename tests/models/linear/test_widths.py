"""How far a row of the estimate can be from the truth."""

import numpy as np
import pytest

from horizonfree.models.linear import bounds, model
from tests.models.linear.systems import MU, PHI, fitted, norms, sums
from tests.reference import linear as reference


def close(a, b, tolerance=1e-9):
    np.testing.assert_allclose(np.asarray(a), b, rtol=0, atol=tolerance)


def test_the_estimate_of_a_small_instance_has_known_numbers():
    """Computed once by hand: 2 episodes 100 times before the bet, 3 episodes 1000 times since, ratio 15."""
    fit = fitted()
    close(fit.logdet, 3.402788231138)
    close(norms(fit)[0], [0.020886452311, 0.012490235541])
    close(norms(fit)[3], [0.012028192794, 0.019483353927])
    close(fit.e, 0)
    close(fit.prob[0, 0], [0.444444444444, 0.253968253968, 0.174603174603, 0.126984126984])
    close(fit.beta(bounds.level_of_some(4, 0.05)), 1.744049992151)
    close(fit.beta(bounds.level_of_all(4, 0.05)), 1.840729193934)


def test_it_agrees_with_the_text_line_by_line():
    V0, (V1, C1) = sums([0], 3)[0], sums([1, 2, 3, 4], 7)
    fit, text = fitted(PHI, V0, V1, C1, 9.0), reference.Fit(PHI, V0, V1, C1)
    close(bounds.regress(PHI, model.whitening(PHI), V1, C1).raw, text.raw)
    for name in ("e", "logdet"):
        close(getattr(fit, name), getattr(text, name))
    close(fit.prob, text.P)
    close(norms(fit), text.n)


def test_sums_without_noise_give_the_truth():
    V1, _ = sums([0, 1, 2, 3, 4], 10)
    close(fitted(PHI, 0 * V1, V1, V1 @ MU).prob, PHI @ MU, 1e-12)


@pytest.mark.parametrize("turn", [np.diag([1.0, 0.02]), np.array([[1.0, 0.5], [0.0, 0.3]]), 1e3 * np.eye(2)])
def test_other_coordinates_of_the_features_change_only_the_ridge(turn):
    """x'Mhat does not depend on coordinates; neither do widths, up to lam I, which is small beside V0."""
    (V0, _), (V1, C1) = sums([0, 1], 10**6), sums([2, 3, 4], 10**7)
    fit = fitted(PHI, V0, V1, C1)
    other = fitted(PHI @ turn, turn.T @ V0 @ turn, turn.T @ V1 @ turn, turn.T @ C1)
    close(other.prob, fit.prob, 1e-8)
    close(norms(other) / norms(fit), 1, 1e-2)


def test_nothing_is_known_of_a_pair_outside_of_what_was_seen():
    """One pair was seen: those with its features, or multiples, are known; the others go anywhere."""
    x = PHI[0, 0]
    V1, C1 = 50 * np.outer(x, x), np.outer(x, [20, 10, 15, 5])
    fit = fitted(PHI, 0 * V1, V1, C1)
    is_like_it = (np.abs(PHI - x) < 1e-12).all(-1)
    assert np.array_equal(np.asarray(fit.is_bad), ~is_like_it)
    assert 0 < is_like_it.sum() < 8
    close(fit.prob[0, 0], [0.4, 0.2, 0.3, 0.1])
    close(np.asarray(fit.prob)[~is_like_it], 1 / 4)
    assert (fit.width(0.5)[~is_like_it] == 1).all()


def test_features_that_hardly_differ_promise_nothing():
    """Two pairs whose features differ by 6e-10 may do opposite things; data of one do not inform about the other."""
    phi = np.array([[[1.0, 0.0], [1.0, 6e-10]], [[0.5, 0.5], [0.2, 0.8]]])
    phi[..., 0] = 1 - phi[..., 1]
    fit = fitted(phi, np.zeros((2, 2)), np.diag([1e9, 0.0]), np.array([[1e9, 0.0], [0.0, 0.0]]))
    assert not bool(fit.is_bad[0, 0])
    assert bool(fit.is_bad[0, 1]) or float(fit.e[0, 1]) >= 6e-10


def test_before_a_bet_starts_nothing_is_known():
    zero = np.zeros((2, 2))
    fit = fitted(PHI, sums([0, 1], 1)[0], zero, np.zeros((2, 4)))
    assert bool(fit.is_bad.all())
    assert float(fit.logdet) == 0
    close(fit.prob, 1 / 4)


def test_whitening_makes_columns_orthonormal():
    x = PHI.reshape(-1, 2) @ model.whitening(PHI)
    close(x.T @ x, np.eye(2), 1e-12)


def test_the_instance_is_the_one_of_the_numbers():
    close((PHI @ MU)[0, 0], [0.3625, 0.2875, 0.2125, 0.1375])
    close((PHI @ MU)[3, 1], [0.175, 0.225, 0.275, 0.325])
    close(np.eye(2) + sums([0, 1, 2, 3, 4], 1)[0], [[5.9375, 3.0625], [3.0625, 4.9375]])
