"""Finite-horizon planning by quantecon, pymdptoolbox and Storm: one stationary reward [S, A], no discount.

Each function loads a kernel and returns a call that solves, and V_1 of what the call returns. Successors that a row
names twice are added up, which Storm and quantecon ask for.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from horizonfree.mdp.space import Kernel

Solver = tuple[Callable[[], Any], Callable[[Any], np.ndarray]]
CHUNK = 10_000  # states whose rows are Python lists at a time


class Unusable(Exception):
    """The peer cannot take this instance in reasonable time or memory."""


def matrix(kernel: Kernel) -> sp.csr_matrix:
    """The kernel as a sparse matrix [S*A, S]."""
    S, A, n = kernel.succ.shape
    first = np.arange(0, S * A * n + 1, n)
    rows = sp.csr_matrix((kernel.prob.ravel(), kernel.succ.ravel(), first), shape=(S * A, S), copy=True)
    rows.sum_duplicates()
    return rows


def quantecon(kernel: Kernel, r: np.ndarray, H: int) -> Solver:
    from quantecon.markov import DiscreteDP, backward_induction

    S, A = r.shape
    if kernel.is_dense:
        problem = DiscreteDP(r, kernel.prob, 1.0)
    else:
        s, a = np.repeat(np.arange(S), A), np.tile(np.arange(A), S)
        problem = DiscreteDP(r.ravel(), matrix(kernel), 1.0, s, a)
    return lambda: backward_induction(problem, H), lambda result: result[0][0]


def pymdptoolbox(kernel: Kernel, r: np.ndarray, H: int) -> Solver:
    from mdptoolbox.mdp import FiniteHorizon

    S, A = r.shape
    if kernel.is_dense:
        P = np.ascontiguousarray(kernel.prob.transpose(1, 0, 2))
    else:
        if S > 2000:
            raise Unusable("its constructor takes minutes at this size")
        rows = matrix(kernel)
        P = [rows[a::A] for a in range(A)]
    problem = FiniteHorizon(P, r, 1.0, H)
    return problem.run, lambda _: problem.V[:, 0]


def stormpy(kernel: Kernel, r: np.ndarray, H: int) -> Solver:
    import stormpy as sm
    from stormpy.datastructures import SparseMatrixBuilder
    from stormpy.models import SparseMdp, SparseModelComponents, SparseRewardModel, StateLabeling

    S, A = r.shape
    rows = matrix(kernel)
    builder = SparseMatrixBuilder(S * A, S, rows.nnz, True, True, S)
    for chunk in range(0, S, CHUNK):
        end = min(S, chunk + CHUNK)
        first = rows.indptr[chunk * A : end * A + 1]
        column, prob = (x[first[0] : first[-1]].tolist() for x in (rows.indices, rows.data))
        ends = (first - first[0]).tolist()
        for i in range((end - chunk) * A):
            row = chunk * A + i
            if i % A == 0:
                builder.new_row_group(row)
            for k in range(ends[i], ends[i + 1]):
                builder.add_next_value(row, column[k], prob[k])
    del rows
    labels = StateLabeling(S)
    labels.add_label("init")
    labels.add_label_to_state("init", 0)
    rewards = SparseRewardModel(optional_state_action_reward_vector=r.ravel().tolist())
    model = SparseMdp(
        SparseModelComponents(
            transition_matrix=builder.build(), state_labeling=labels, reward_models={"r": rewards}
        )
    )
    question = sm.parse_properties(f'R{{"r"}}max=? [C<={H}]')[0]
    return (
        lambda: sm.model_checking(model, question, only_initial_states=False),
        lambda result: np.array(result.get_value_vector()),
    )


PEERS = {"quantecon": quantecon, "pymdptoolbox": pymdptoolbox, "stormpy": stormpy}
