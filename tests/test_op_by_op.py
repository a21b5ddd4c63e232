"""What goes through NumPy operation by operation is what is compiled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import pjit
from jax._src.numpy import indexing
from jax._src.ops import scatter

import horizonfree as hf
from horizonfree._x64 import to_device
from horizonfree.models import certify
from tests import inlined
from tests.reference.op_by_op import evaluated, interpreted
from tests.reference.uncompiled import another_file, another_test, uncompiled

pytestmark = [pytest.mark.usefixtures("x64"), pytest.mark.compiled]


def many(x, M, i, k):
    """Places inside and outside, windows, batches; sums along axes; triangles; orders."""
    rows = jax.vmap(lambda row, j: row[j])(M, i)
    L = jnp.linalg.cholesky(M @ M.T + jnp.eye(4))
    solve = jax.scipy.linalg.solve_triangular
    return {
        "gather": (
            x[i],
            x.at[i].get(mode="fill", fill_value=7.0),
            x.at[i].get(mode="clip"),
            M[:, i],
            M[i, i],
        ),
        "windows": (
            jax.lax.dynamic_slice(M, (k, k), (2, 3)),
            jax.lax.dynamic_update_slice(M, M[:2, :2], (k, 1)),
        ),
        "scatter": (
            x.at[i].add(2.0),
            x.at[i].max(0.5),
            x.at[i].min(0.1),
            x.at[i].mul(3.0),
            M.at[:, i].set(1.0),
        ),
        "dropped": (x.at[i].add(1.0, mode="drop"), M.at[i, 2].set(5.0), M.at[i].add(M)),
        "one": (
            x.at[k].set(2.0, mode="drop"),
            M.at[k].add(x, mode="drop"),
            M[k],
            M[0, k],
            M.at[1, k].max(3.0),
        ),
        "batches": (rows, jax.vmap(lambda row, j: row.at[j].add(1.0))(M, i)),
        "spread": (
            x[:, None] * M,
            x[:, None] - x[None, :],
            (x[:, None] + M).sum(1),
            jnp.full((4, 4), x[0]) / M,
            jnp.full((4, 4), x[0]) * x[None, :],
            jnp.broadcast_to(x, (4, 4)),
        ),
        "short": [
            f(jnp.tile(M, (200, 1))[:, :n], -1) for f in (jnp.sum, jnp.max, jnp.min) for n in (2, 3, 4)
        ],
        "numbers": (
            k + k,
            k - 9,
            jnp.maximum(k, 1),
            x[0] / x[1],
            x[0] < x[1],
            jnp.minimum(x[0], jnp.nan),
            -k,
        ),
        "along": (
            jnp.cumsum(M, 1),
            jnp.cumprod(M, 0),
            jax.lax.cummax(x, reverse=True),
            M[::-1],
            jnp.pad(x, 2),
        ),
        "first": (M.argmax(1), M.argmin(0), jnp.where(M > 0, M, jnp.nan).argmax(0)),
        "order": (jnp.sort(M, 0), jnp.argsort(x), jnp.lexsort((x, i))),
        "triangles": (
            solve(L, M, lower=True),
            solve(L, M.T, trans=1, lower=True),
            jax.vmap(jnp.linalg.inv)(M[None]),
        ),
        "products": (
            M @ x,
            x @ x,
            M.T @ M[:, :2],
            jnp.einsum("ij,kj->ik", M, M),
            jnp.einsum("ij,ik->ijk", M, M),
            jnp.tensordot(M, M),
        ),
        "whole": (
            i // 2,
            i % 3,
            jax.lax.div(i, -2),
            *jnp.split(M, 2),
            jnp.stack([x, x], 1),
            i.sum(),
            i.max(),
        ),
        "searched": (
            jnp.searchsorted(jnp.sort(x), M),
            jnp.tile(M, (2, 1)),
            jax.lax.shift_right_logical(i, 1),
        ),
        "powers": (jnp.abs(M) ** x, jnp.log1p(jnp.abs(M)), jnp.expm1(M), jnp.clip(M, -0.5, x)),
    }


def test_operations_are_those_that_are_compiled():
    rng = np.random.default_rng(0)
    for k in (-1, 0, 9):
        given = rng.normal(size=4), rng.normal(size=(4, 4)), np.array([1, -1, 9, 1]), np.asarray(k)
        found, wanted = evaluated(many, *given), COMPILED(*given)
        for name in wanted:
            for x, y in zip(found[name], wanted[name], strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-14, err_msg=name)


COMPILED = jax.jit(many)


def indexed(x, M, i, k):
    """What is copied of indexing, of numbers that differ in their sign or kind alone, and of what is mapped."""

    def one(x, j):
        place = jnp.asarray(2)  # known while this is traced
        return x[j], x[place], x[0], x[-1], x[1:3], x[None], x.at[j].set(1), x.at[place].add(1.0), x * j

    signs = x + 0.0, x + -0.0, x + np.float64(0), x + np.float64(-0.0), x * 1, x * True, x * 1.0, x**2, x**2.0
    return (*signs, M[i], M[:, k], M[i, :2], M.at[i, 0].add(x), one(x, k), jax.vmap(one, (None, 0))(x, i))


def test_what_is_copied_instead_of_traced_makes_the_same_program(monkeypatch):
    given = np.ones(4), np.ones((4, 4)), np.arange(4), np.asarray(1)

    def text(function):
        return str(jax.make_jaxpr(lambda *x: function(*x))(*given))

    assert pjit._infer_params is inlined._inferred
    found = [[text(function) for _ in range(inlined.OFTEN + 2)] for function in (many, indexed)]
    names = {key[0].__name__ for key, x in inlined._written.items() if isinstance(x, inlined._Written)}
    assert {"rewriting_take", "_scatter_update", "multiply", "matmul"} <= names
    monkeypatch.setattr(pjit, "_infer_params", inlined._infer_params)
    monkeypatch.setattr(pjit, "_run_python_pjit", inlined._run_python_pjit)
    monkeypatch.setattr(indexing, "rewriting_take", indexing.rewriting_take.__wrapped__)
    monkeypatch.setattr(scatter, "_scatter_update", scatter._scatter_update.__wrapped__)
    for texts, function in zip(found, (many, indexed), strict=True):
        assert set(texts) == {text(function)}


def drawn(key, seed):
    """Keys split, folded, mapped over and handed on; numbers of every kind."""
    keys = jax.random.split(key, (3, 2))
    folded = jax.vmap(jax.random.fold_in)(keys[0], jnp.arange(2))
    last, _ = jax.lax.scan(lambda k, i: (jax.random.fold_in(k, i), None), keys[1, 1], jnp.arange(3))
    own = jax.random.key(seed)
    numbers = (
        jax.vmap(lambda k: jax.random.uniform(k, (3,), jnp.float64))(folded),
        jax.random.randint(last, (5,), 0, 7, jnp.int32),
        jax.random.bernoulli(own, 0.3, (4, 2)),
        jax.random.normal(keys[2, 0], (2,), jnp.float64),
        jax.random.key_data(own),
    )
    return last, numbers


def test_random_numbers_are_those_that_are_compiled():
    for seed in (0, 12345, 2**31 + 5):
        given = jax.random.key(seed), np.int64(seed)
        (key, found), (wanted_key, wanted) = evaluated(drawn, *given), jax.jit(drawn)(*given)
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-15)
        assert key == wanted_key


def test_a_function_is_traced_once_for_each_kind_of_arguments():
    traced = []

    def twice(x, n):
        traced.append(n)
        return n * x

    call = interpreted(twice)
    assert [int(call(np.int32(x), n)) for x, n in ((1, 2), (5, 2), (5, 3))] == [2, 10, 15]
    assert call(np.ones(3), 2).tolist() == [2, 2, 2]
    assert traced == [2, 3, 2]


def test_what_is_asked_seldom_is_not_compiled_and_what_is_long_or_was_asked_often_is(monkeypatch):
    compiled, compile_ = [], pjit._pjit_call_impl_python
    monkeypatch.setattr(
        pjit,
        "_pjit_call_impl_python",
        lambda *x, name, **rest: compiled.append(name) or compile_(*x, name=name, **rest),
    )

    @jax.jit
    def small(x):
        return 2 * x + 1

    @jax.jit
    def long(n):
        return jax.lax.fori_loop(0, n, lambda i, x: x + i, 0)

    with uncompiled():
        for _ in range(1000):
            assert small(np.arange(3)).tolist() == [1, 3, 5]
        assert [int(long(n)) for n in (10, 30_000)] == [45, 449985000]
        assert compiled == []  # in a test what was evaluated once is evaluated again
        another_test()
        assert small(np.arange(3)).tolist() == [1, 3, 5]
        assert int(long(10)) == 45
        assert compiled == ["small", "long"]
        another_file()
        assert small(np.arange(3)).tolist() == [1, 3, 5]
        assert int(long(30_000)) == 449985000
        assert compiled == ["small", "long", "long"]


WORLDS = {
    "mixture": lambda: hf.make("zoned-grid", size=3, zones=2, horizon=4),
    "table": lambda: hf.make("zoned-grid", size=3, zones=2, horizon=4).seen_as("tabular"),
    "linear": lambda: hf.make("linear-lock"),
}


@pytest.mark.parametrize("name", WORLDS)
def test_certificates_and_bounds_of_every_class_are_compiled_what_they_are_op_by_op(name):
    """Many tests of models look at them op by op (reference/uncompiled.py); people are given the compiled ones."""
    problem = WORLDS[name]()
    run = hf.explore(problem, "uniform", episodes=25, progress=False)
    model = run.core.model
    given = to_device((model, model.shortened(run.evidence), np.array(0.05)))
    compiled = certify.confidence(model, run.evidence)
    same(interpreted(certify._confidence.__wrapped__)(*given), compiled)
    reward = np.zeros(problem.space.sizes)
    reward[-1, -1] = 1.0
    asked = model, compiled, reward, np.zeros(problem.space.sizes[:2], np.int32)
    same(interpreted(certify._bounds.__wrapped__)(*to_device(asked)), certify.bounds(*asked))


def same(found, wanted):
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)
