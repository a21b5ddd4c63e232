"""HF-UCRL-RFE++ with the likelihood-ratio set in place of its balls: what it explores with, and its claim.

The set of the evidence (models/mixture/confidence.py) lies in an ellipsoid around the maximum likelihood,

    P_theta(.|s,a) = p_hat + z u, ||u|| <= 1,   so |(P_theta - P_hat) f| <= ||sum_s' f(s') z(s')|| for every f.      (1)

That is the event of the paper with theta_k = theta_hat, both norms those of (1), and beta = 1/2, as ||theta_k -
theta_star|| <= 1 = 2 beta. U, T and the bound N by likelihood ratios need nothing else, so `claim_in` proves
min(4U, 4T, N) at any time, with no scale and no moments (docs/likelihood-sets.md).

The choice of a policy needs no proof. `explored_with` is traced, and takes the predictor for theta_hat, the information
of the data with pseudo-counts, and the curvature 1/2 of a small change.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from horizonfree._arrays import Array
from horizonfree._x64 import to_device, x64
from horizonfree.guarantees.certificate import Certificate, at_most_one, bound_statement, round_up
from horizonfree.mdp.space import Space
from horizonfree.models.certify import EVERY_REWARD
from horizonfree.models.mixture.confidence import MixtureConfidence
from horizonfree.models.mixture.evidence import MixtureEvidence
from horizonfree.models.mixture.learner import coordinates, gram, known_of, whiten
from horizonfree.models.mixture.model import MixtureModel
from horizonfree.oracle.box import box_max
from horizonfree.oracle.likelihood_ratio import likelihood_ratio_bound
from horizonfree.oracle.objective import Prepared
from horizonfree.oracle.result import relaxed
from horizonfree.oracle.variance import variance_bound

BETA = 0.5  # twice of it is the radius of (1)
TINY = 1e-12  # of the largest width, added in every direction, so that matrices have roots


class Approximation(NamedTuple):
    """theta_k, the inverse of the matrix of its ellipsoid, and log det of the information of all data."""

    theta: Float[Array, " d"]
    inv: Float[Array, "d d"]
    log_det: Float[Array, ""]


def explored_with(model: MixtureModel, evidence: MixtureEvidence, delta: float) -> Approximation:
    """Approximately the ellipsoid of the e-process with the smallest slack per episode, no confidence set; traced."""
    valid, theta = model.valid, evidence.theta
    coords, p = coordinates(valid), jnp.maximum(valid.rows @ theta, TINY)
    slack = evidence.loss - jnp.log(delta * evidence.weights) + (evidence.since * jnp.log(p)).sum(-1)
    num_used = evidence.episodes - evidence.starts
    earliest = evidence.starts == evidence.starts.min()
    j = jnp.where((num_used > 0) | earliest, slack / jnp.maximum(num_used, 1), jnp.inf).argmin()
    d = theta.shape[0]
    inv, log_det = jnp.zeros((d, d)), jnp.zeros(())
    if valid.num_free > 0:
        F = gram(coords.z, known_of(valid, evidence.since[j]) / p**2)
        root = coords.basis @ whiten(F, jnp.eye(valid.num_free)).T
        inv = 2 * jnp.maximum(slack[j], 1.0) * root @ root.T
        log_det = jnp.linalg.slogdet(gram(coords.z, known_of(valid, evidence.row_counts) / p**2))[1]
    return Approximation(theta, inv + (TINY * jnp.trace(inv) + TINY**2) * jnp.eye(d), log_det)


@x64
def claim_in(space: Space, confidence: MixtureConfidence, uniform: Certificate) -> Certificate:
    """The least of 4U, 4T, N and the certificate of the evidence, for plans that are optimal in theta_hat."""
    if uniform.is_rejected:
        return uniform
    prepared = prepared_in(space, confidence)
    U = float(space.at_start(np.asarray(_relaxed_values(prepared)[0])))
    T = 0.0 if U == 0 else variance_bound(prepared, BETA)
    N = 0.0 if U == 0 else likelihood_ratio_bound(prepared, BETA)
    bounds = {"4U": 4 * U, "4T": 4 * T, "N": N, "evidence": uniform.eps}
    best = min(bounds, key=lambda name: math.inf if math.isnan(bounds[name]) else bounds[name])
    eps = at_most_one(bounds[best])
    own = {"relaxed": U, "total_variance": T, "likelihood_ratio": N}
    parts = dict(uniform.parts) | own | {"evidence": uniform.eps}
    method = f"likelihood sets, {best}"
    if round_up(eps) >= 1:
        return replace(uniform, method=method, parts=parts)
    statement = f"{EVERY_REWARD}: {bound_statement(eps, uniform.delta)}"
    return replace(uniform, eps=eps, method=method, statement=statement, parts=parts, forecast="")


def prepared_in(space: Space, confidence: MixtureConfidence) -> Prepared:
    """The maximum likelihood and the norm of (1), as the bounds want them."""
    p, z = np.asarray(confidence.kernel.prob), np.asarray(confidence.tilts)
    F = np.swapaxes(z, -1, -2)  # [S, A, q, n]
    if F.shape[-2] > F.shape[-1]:
        F = np.asarray(np.linalg.qr(F, mode="r"))
    if F.shape[-2] == 0:
        F = np.zeros((*F.shape[:2], 1, F.shape[-1]))
    p, F = np.moveaxis(p, (0, 1), (-1, -2)), np.moveaxis(F, (0, 1), (-1, -2))
    succ = np.moveaxis(np.asarray(space.succ), (0, 1), (-1, -2))
    on_device: Prepared = _with_boxes(*to_device((space, succ, p, F)))
    return on_device


@eqx.filter_jit
def _with_boxes(
    space: Space, succ: Int[Array, "n A S"], p: Float[Array, "n A S"], F: Float[Array, "m n A S"]
) -> Prepared:
    box = box_max(jnp.moveaxis(F, (-1, -2), (0, 1)))
    upper = box.upper.T
    f = jnp.moveaxis(box.f.astype(float), (0, 1), (-1, -2))
    return Prepared(succ, p, F, F, upper, upper, jnp.zeros_like(p), f, space)


@jax.jit
def _relaxed_values(prepared: Prepared) -> Float[Array, "H1 S"]:
    return relaxed(prepared, BETA)[1]
