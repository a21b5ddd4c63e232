"""Models as plain data: what is taken apart is put together again, bit for bit."""

import dataclasses
import json

import jax
import numpy as np
import pytest

import horizonfree as hf
from horizonfree.models.registry import CLASSES, class_name
from horizonfree.models.serialization import arrays_of, rebuild, statics_of, under


def random_model():
    kernels = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 4, 2))
    return hf.Mixture.from_kernels(kernels, horizon=3, start=[0.5, 0.0, 0.3, 0.2])


PROBLEMS = {name: lambda name=name: hf.make(name) for name in hf.problems()} | {
    "a random start": random_model
}


def test_a_model_comes_back_from_its_arrays_and_numbers(subtests):
    """Through JSON, as a run folder keeps the numbers."""
    for name in PROBLEMS:
        with subtests.test(name):
            model = PROBLEMS[name]().model
            statics = json.loads(json.dumps(statics_of(model)))
            rebuilt = rebuild(CLASSES[class_name(model)].model, statics, arrays_of(model))
            assert type(rebuilt) is type(model)
            assert jax.tree.structure(rebuilt) == jax.tree.structure(model)
            assert statics_of(rebuilt) == statics_of(model)
            for (path, x), y in zip(
                jax.tree_util.tree_leaves_with_path(rebuilt), jax.tree.leaves(model), strict=True
            ):
                assert x.dtype == y.dtype, path
                np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_field_is_an_array_or_a_number(name):
    """Every field is stored: those that are neither are None."""
    model = PROBLEMS[name]().model
    arrays, statics = arrays_of(model), statics_of(model)

    def check_fields(module, documented, prefix):
        for field in dataclasses.fields(module):
            value, path = getattr(module, field.name), prefix + field.name
            if dataclasses.is_dataclass(value):
                check_fields(value, documented[field.name], f"{path}.")
            else:
                assert (path in arrays) + (field.name in documented) == (
                    value is not None or field.name in documented
                )

    check_fields(model, statics, "")
    assert set(arrays) >= {"space.succ", "phi", *model.derived} - {"valid"}
    assert ("space.initial" in arrays) == (model.space.start is None)


def test_names_begin_with_where_they_were_put():
    model = random_model().model
    arrays = arrays_of(model, "model.")
    assert all(name.startswith("model.") for name in arrays)
    for name, x in under(arrays | {"truth": np.zeros(2)}, "model.").items():
        np.testing.assert_array_equal(x, arrays_of(model)[name])
    assert under(arrays, "nowhere.") == {}
